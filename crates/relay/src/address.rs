//! Where a relay is, as the option spells it: `nats://host:port,host:port` or
//! `kafka://host:port,...`.

use crate::fault::Fault;
use crate::tape::Tape;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    Nats,
    Kafka,
}

impl Service {
    fn name(self) -> &'static str {
        match self {
            Service::Nats => "nats",
            Service::Kafka => "kafka",
        }
    }
}

/// The servers of a relay. Any of them leads to all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub service: Service,
    /// Host and port of each.
    pub servers: Vec<String>,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.service.name(), self.servers.join(","))
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let expected = "expected nats://HOST:PORT,.. or kafka://HOST:PORT,..";
        let refuse = |what: &str| Err(format!("relay '{text}': {what}; {expected}"));
        let Some((service, servers)) = text.split_once("://") else {
            return refuse("it names no service");
        };
        let service = match service {
            "nats" => Service::Nats,
            "kafka" => Service::Kafka,
            _ => return refuse("this service is not known"),
        };
        let mut found = Vec::new();
        for server in servers.split(',') {
            // The service may be repeated before each server, as its own clients have it.
            let server = server.strip_prefix(&format!("{}://", service.name())).unwrap_or(server);
            match server.rsplit_once(':') {
                Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok_and(|p| p > 0) => {
                    found.push(server.to_owned());
                }
                _ => return refuse("a server is no HOST:PORT"),
            }
        }
        Ok(Address { service, servers: found })
    }
}

impl Address {
    /// Opens the log called `name`. If there is none, it is made with three copies; with one, if
    /// the address names a single server.
    ///
    /// # Errors
    /// [`Fault::Gone`]: the service does not answer, or this build has no client for it.
    pub fn open(&self, name: &str) -> Result<Arc<dyn Tape>, Fault> {
        let replicas = if self.servers.len() == 1 { 1 } else { 3 };
        match self.service {
            #[cfg(feature = "nats")]
            Service::Nats => Ok(Arc::new(crate::nats::open(&self.servers, name, replicas)?)),
            #[cfg(feature = "kafka")]
            Service::Kafka => Ok(Arc::new(crate::kafka::open(&self.servers, name, replicas)?)),
            #[allow(unreachable_patterns, reason = "reached without the service's feature")]
            _ => {
                let _ = (name, replicas);
                let service = self.service.name();
                Err(Fault::Gone(format!(
                    "relay {self}: this build has no client for it; build with `--features relay-{service}`"
                )))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_bad_ones_refused() {
        let address: Address = "nats://a:1,nats://b:2".parse().unwrap();
        assert_eq!((address.service, address.to_string()), (Service::Nats, "nats://a:1,b:2".to_owned()));
        for (text, what) in [
            ("a:1", "names no service"),
            ("redis://a:1", "not known"),
            ("kafka://a", "HOST:PORT"),
            ("kafka://a:1,", "HOST:PORT"),
            ("kafka://a:0", "HOST:PORT"),
            ("kafka://:9", "HOST:PORT"),
        ] {
            let refused = text.parse::<Address>().unwrap_err();
            assert!(refused.contains(what) && refused.contains("expected nats://"), "{text}: {refused}");
        }
    }
}
