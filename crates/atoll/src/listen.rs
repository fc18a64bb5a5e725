//! `--listen`: the address on which TCP listens, as a number or a name.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};

const EXPECTED: &str = "expected an address or a name with or without a port, such as 127.0.0.1, 127.0.0.1:7000, \
                        localhost:7000, [::1]:7000, or a port alone";

/// An address; without a port, any free port (0). For a name, its first IPv4 address, else its
/// first address.
///
/// # Errors
/// The expected form, or the system's error for the name.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port));
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, 0));
    }
    text.parse::<SocketAddr>().or_else(|_| by_name(text))
}

fn by_name(text: &str) -> Result<SocketAddr, String> {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) => (name, port.parse::<u16>().map_err(|_| EXPECTED.to_owned())?),
        None => (text, 0),
    };
    let ordinary = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    if name.is_empty() || !name.chars().all(ordinary) || name.chars().all(|c| c.is_ascii_digit() || c == '.')
    {
        return Err(EXPECTED.into());
    }
    let found = (name, port).to_socket_addrs();
    let found: Vec<SocketAddr> = found.map_err(|e| format!("{name}: {e}; {EXPECTED}"))?.collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.copied().ok_or_else(|| format!("{name} has no address; {EXPECTED}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_names_and_both_versions() {
        let read = |text: &str| listen_address(text).map(|a| a.to_string());
        for (text, address) in [
            ("7000", "127.0.0.1:7000"),
            ("0.0.0.0", "0.0.0.0:0"),
            ("127.0.0.1:7100", "127.0.0.1:7100"),
            ("::1", "[::1]:0"),
            ("[::1]", "[::1]:0"),
            ("[::1]:7100", "[::1]:7100"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(address));
        }
        let localhost = listen_address("localhost:7100").unwrap();
        assert!(localhost.ip().is_loopback() && localhost.port() == 7100, "{localhost}");
        for bad in
            ["", ":7000", "127.0.0", "localhost:70000", "127.0.0.1:x", "a b:1", "[::1", "http://localhost"]
        {
            assert!(read(bad).is_err_and(|why| why.contains("localhost:7000")), "{bad}");
        }
    }
}
