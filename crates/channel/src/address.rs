//! The address of a listener: one line of text, so that a deployment can pass it to a child process
//! or write it down.
//!
//! `shm:/run/a.sock`, `uds:/run/a.sock`, `tcp:127.0.0.1:7000` (or `tcp:7000`, which means
//! loopback), `rdma:10.0.0.1:7000`, `ring:name`.

use crate::error::ChannelError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The longest path a unix socket takes on Linux: `sockaddr_un` has 108 bytes, the last one a NUL.
const LONGEST_SOCKET_PATH: usize = 107;

/// The place of a [`Listener`](crate::Listener), and with it the kind of channel.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Address {
    /// Shared-memory rings between processes of one machine; the handshake runs over the unix
    /// socket at this path.
    Shm(PathBuf),
    /// A unix stream socket at this path.
    Uds(PathBuf),
    /// A TCP socket. With port 0 the system chooses the port;
    /// [`Listener::address`](crate::Listener::address) returns it.
    Tcp(SocketAddr),
    /// The same, sealed: both ends prove by certificates that they belong to one cluster. Binding
    /// and connecting need a [`Guard`](crate::Guard).
    Tls(SocketAddr),
    /// RDMA between devices of two machines, or of one. The handshake runs over a TCP socket at
    /// this address; the device is the one that has the address. Needs a
    /// [`Fabric`](crate::fabric::Fabric).
    Rdma(SocketAddr),
    /// Rings between threads of this process, under this name.
    Ring(String),
}

impl Address {
    /// The name of the channel, as on the command line.
    pub fn channel(&self) -> &'static str {
        match self {
            Address::Shm(_) => "shm",
            Address::Uds(_) => "uds",
            Address::Tcp(_) => "tcp",
            Address::Tls(_) => "tls",
            Address::Rdma(_) => "rdma",
            Address::Ring(_) => "ring",
        }
    }

    fn bad(text: &str, expected: &'static str) -> ChannelError {
        ChannelError::BadAddress { text: text.to_string(), expected }
    }
}

/// Checks the length of a unix socket's path before the system is asked.
pub(crate) fn check_socket_path(path: &Path) -> Result<(), ChannelError> {
    let length = path.as_os_str().len();
    if length == 0 || length > LONGEST_SOCKET_PATH {
        return Err(ChannelError::PathTooLong {
            path: path.to_path_buf(),
            length,
            most: LONGEST_SOCKET_PATH,
        });
    }
    Ok(())
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Shm(path) => write!(f, "shm:{}", path.display()),
            Address::Uds(path) => write!(f, "uds:{}", path.display()),
            Address::Tcp(address) => write!(f, "tcp:{address}"),
            Address::Tls(address) => write!(f, "tls:{address}"),
            Address::Rdma(address) => write!(f, "rdma:{address}"),
            Address::Ring(name) => write!(f, "ring:{name}"),
        }
    }
}

impl FromStr for Address {
    type Err = ChannelError;

    fn from_str(text: &str) -> Result<Self, ChannelError> {
        const FORMS: &str =
            "shm:PATH, uds:PATH, tcp:HOST:PORT, tcp:PORT, tls:HOST:PORT, rdma:HOST:PORT or ring:NAME";
        let (channel, place) = text.split_once(':').ok_or_else(|| Address::bad(text, FORMS))?;
        match channel {
            _ if place.is_empty() => Err(Address::bad(text, FORMS)),
            "shm" => Ok(Address::Shm(PathBuf::from(place))),
            "uds" => Ok(Address::Uds(PathBuf::from(place))),
            "ring" => Ok(Address::Ring(place.to_string())),
            "tcp" => match place.parse::<u16>() {
                Ok(port) => Ok(Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))),
                Err(_) => place
                    .parse()
                    .map(Address::Tcp)
                    .map_err(|_| Address::bad(text, "tcp:HOST:PORT with a numeric host, or tcp:PORT")),
            },
            "tls" => place
                .parse()
                .map(Address::Tls)
                .map_err(|_| Address::bad(text, "tls:HOST:PORT with a numeric host")),
            "rdma" => place
                .parse()
                .map(Address::Rdma)
                .map_err(|_| Address::bad(text, "rdma:HOST:PORT with a numeric host")),
            _ => Err(Address::bad(text, FORMS)),
        }
    }
}

impl From<Address> for String {
    fn from(address: Address) -> String {
        address.to_string()
    }
}

impl TryFrom<String> for Address {
    type Error = ChannelError;

    fn try_from(text: String) -> Result<Self, ChannelError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_survives_text_and_json() {
        for text in [
            "shm:/a/b.sock",
            "uds:rel.sock",
            "tcp:127.0.0.1:80",
            "tcp:[::1]:9",
            "tls:10.0.0.1:7",
            "rdma:[fd00::1]:7",
            "ring:left",
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            let json = serde_json::to_string(&address).unwrap();
            assert_eq!(serde_json::from_str::<Address>(&json).unwrap(), address);
        }
        assert_eq!("tcp:7000".parse::<Address>().unwrap().to_string(), "tcp:127.0.0.1:7000");
    }

    #[test]
    fn a_wrong_address_names_what_was_expected() {
        for text in ["", "shm", "shm:", "tcp:70000", "tcp:host", "tls:7", "rdma:x", "rdma:7", "udp:1"] {
            let message = text.parse::<Address>().unwrap_err().to_string();
            assert!(message.contains("expected"), "{message}");
        }
    }
}
