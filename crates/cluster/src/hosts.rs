//! The hosts file: the machines of a cluster.
//!
//! ```text
//!   # a comment
//!   cluster demo                  # its name
//!   tls /etc/atoll/certificates   # of `atoll cluster certificates`; without: nothing is sealed
//!   etcd http://10.77.0.1:2379    # leases of the machines; without: islands cannot be taken over
//!   relay nats://10.77.0.1:4222   # has the islands' logs: agents take over what is left
//!   takeover operator             # not by themselves: an operator says so
//!
//!   # name  address          how to run a command there   what else
//!   a       10.77.0.1:7400   ip netns exec h1             cores=0-1 data=/var/lib/atoll
//!   b       10.77.0.2:7400   ssh admin@b                  program=/opt/atoll/bin/atoll
//!   c       10.77.0.3:7400   local
//! ```

use crate::ClusterError;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The machines of a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hosts {
    pub cluster: String,
    /// The directory that `atoll cluster certificates` wrote.
    pub tls: Option<PathBuf>,
    /// The servers of etcd that grant leases to the agents, `http://HOST:PORT,..`
    pub etcd: Option<String>,
    /// The relay with the islands' logs, `nats://HOST:PORT,..` or `kafka://HOST:PORT,..`
    pub relay: Option<String>,
    pub take_over: TakeOver,
    /// In the order of the file; at least one.
    pub lines: Vec<HostLine>,
}

/// What begins the take-over of the islands of a machine that is gone, if a relay has their logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TakeOver {
    /// The end of the machine's lease: an agent with a copy takes over by itself.
    #[default]
    Agents,
    /// An operator's `atoll cluster takeover`.
    Operator,
}

impl TakeOver {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            TakeOver::Agents => "agents",
            TakeOver::Operator => "operator",
        }
    }

    /// # Errors
    /// What is expected.
    pub fn parse(word: &str) -> Result<TakeOver, String> {
        let all = [TakeOver::Agents, TakeOver::Operator];
        let found = all.into_iter().find(|one| one.name() == word);
        found.ok_or_else(|| format!("takeover '{word}': expected agents or operator"))
    }
}

/// One machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostLine {
    pub name: String,
    /// Where its agent listens.
    pub address: SocketAddr,
    /// The command that runs another one there; empty: it is this machine.
    pub reach: Vec<String>,
    /// The CPUs of its instances; `None`: all.
    pub cores: Option<String>,
    /// The agent's data directory.
    pub data: PathBuf,
    /// The program there; `None`: this one, or `atoll` where a command reaches the host.
    pub program: Option<String>,
}

/// The name of a cluster in a file that names none.
const CLUSTER: &str = "atoll";
/// The longest name of a host or cluster.
const LONGEST_NAME: usize = 32;

impl Hosts {
    /// # Errors
    /// The file cannot be read, or a line of it is wrong.
    pub fn read(path: &Path) -> Result<Hosts, ClusterError> {
        let text = std::fs::read_to_string(path)
            .map_err(|why| ClusterError::HostsFile { path: path.into(), why })?;
        Hosts::parse(path, &text)
    }

    /// `path` is for messages.
    ///
    /// # Errors
    /// A line is wrong: the message says what was expected.
    pub fn parse(path: &Path, text: &str) -> Result<Hosts, ClusterError> {
        let mut hosts = Hosts {
            cluster: CLUSTER.into(),
            tls: None,
            etcd: None,
            relay: None,
            take_over: TakeOver::default(),
            lines: Vec::new(),
        };
        let mut seen: HashMap<String, usize> = HashMap::new();
        for (line, words) in text.lines().enumerate().map(|(i, line)| (i + 1, words(line))) {
            let refuse = |what| ClusterError::HostsLine { path: path.into(), line, what };
            match words.as_slice() {
                [] => {}
                ["cluster", name] => hosts.cluster = a_name(name).map_err(refuse)?,
                ["tls", dir] => hosts.tls = Some(dir.into()),
                ["etcd", servers] => hosts.etcd = Some((*servers).into()),
                ["relay", servers] => hosts.relay = Some((*servers).into()),
                ["takeover", word] => hosts.take_over = TakeOver::parse(word).map_err(refuse)?,
                [name, address, rest @ ..] => {
                    let host = host(name, address, rest, &hosts.cluster).map_err(refuse)?;
                    for unique in [host.name.clone(), host.address.to_string()] {
                        if let Some(other) = seen.insert(unique.clone(), line) {
                            let what = format!(
                                "{unique} is in line {other} too: expected each name and address once"
                            );
                            return Err(refuse(what));
                        }
                    }
                    hosts.lines.push(host);
                }
                [word] => {
                    return Err(refuse(format!(
                        "'{word}' alone: expected a name and an address, as in `a 10.0.0.1:7400 ssh a cores=0-3`"
                    )));
                }
            }
        }
        match hosts.lines.is_empty() {
            true => Err(ClusterError::HostsLine {
                path: path.into(),
                line: 1,
                what: "there is no host: expected a line for each, as in `a 10.0.0.1:7400 ssh a cores=0-3`"
                    .into(),
            }),
            false => Ok(hosts),
        }
    }

    /// The certificates of the operator.
    pub fn operator(&self) -> Option<PathBuf> {
        self.tls.as_ref().map(|dir| dir.join("operator"))
    }
}

/// The words of a line without its comment.
fn words(line: &str) -> Vec<&str> {
    line.split('#').next().unwrap_or_default().split_whitespace().collect()
}

fn a_name(name: &str) -> Result<String, String> {
    let ordinary = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    match (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(ordinary) {
        true => Ok(name.into()),
        false => Err(format!("name '{name}': expected 1 to {LONGEST_NAME} of a-z, 0-9 and -")),
    }
}

fn host(name: &str, address: &str, rest: &[&str], cluster: &str) -> Result<HostLine, String> {
    let name = a_name(name)?;
    let address: SocketAddr = address
        .parse()
        .ok()
        .filter(|at: &SocketAddr| at.port() != 0 && !at.ip().is_unspecified())
        .ok_or_else(|| {
            format!("address '{address}': expected IP:PORT of the agent, such as 10.0.0.1:7400")
        })?;
    let options = rest.iter().position(|word| word.contains('=')).unwrap_or(rest.len());
    let (reach, options) = rest.split_at(options);
    let reach = if reach == ["local"] { &[][..] } else { reach };
    let data = PathBuf::from(format!("/var/tmp/atoll-{cluster}/{name}"));
    let reach = reach.iter().map(|word| (*word).to_owned()).collect();
    let mut host = HostLine { name, address, reach, cores: None, data, program: None };
    for option in options {
        match option.split_once('=') {
            Some(("cores", cores)) => {
                cores_of(cores)?;
                host.cores = Some(cores.into());
            }
            Some(("data", dir)) if dir.starts_with('/') => host.data = dir.into(),
            Some(("data", dir)) => {
                return Err(format!("data={dir}: expected a directory that begins with /"));
            }
            Some(("program", program)) if !program.is_empty() => host.program = Some(program.into()),
            _ => {
                return Err(format!(
                    "'{option}': expected cores=LIST, data=DIR or program=PATH after the command"
                ));
            }
        }
    }
    Ok(host)
}

/// The CPUs of a list such as `0-3,8`.
///
/// # Errors
/// What was expected.
pub(crate) fn cores_of(list: &str) -> Result<Vec<u32>, String> {
    let expected = || format!("cores={list}: expected CPUs such as 0-3,8");
    let mut cores = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<u32>().ok().filter(|n| *n < 4096).ok_or_else(expected);
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(expected());
        }
        cores.extend(first..=last);
    }
    Ok(cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Hosts, String> {
        Hosts::parse(Path::new("hosts"), text).map_err(|e| e.to_string())
    }

    #[test]
    fn a_file_names_machines_and_how_to_reach_them() {
        let hosts = parse(
            "cluster demo # its name\ntls /c\netcd http://e:1\nrelay nats://r:2\n\n a 10.0.0.1:7400 ip netns exec h1 cores=0-1,3 data=/d\nb [::1]:7400 local\n",
        )
        .unwrap();
        assert_eq!((hosts.cluster.as_str(), hosts.tls.as_deref()), ("demo", Some(Path::new("/c"))));
        assert_eq!(hosts.operator().as_deref(), Some(Path::new("/c/operator")));
        assert_eq!((hosts.etcd.as_deref(), hosts.relay.as_deref()), (Some("http://e:1"), Some("nats://r:2")));
        assert_eq!(hosts.take_over, TakeOver::Agents);
        assert_eq!(parse("takeover operator\na 10.0.0.1:7\n").unwrap().take_over, TakeOver::Operator);
        let [a, b] = &hosts.lines[..] else { panic!("two hosts") };
        assert_eq!((a.name.as_str(), a.reach.join(" ").as_str()), ("a", "ip netns exec h1"));
        assert_eq!((a.cores.as_deref(), a.data.as_path()), (Some("0-1,3"), Path::new("/d")));
        assert_eq!((b.reach.len(), b.data.as_path()), (0, Path::new("/var/tmp/atoll-demo/b")));
        assert_eq!(cores_of("0-1,3"), Ok(vec![0, 1, 3]));
    }

    #[test]
    fn a_wrong_line_is_named_with_what_was_expected() {
        for (text, expected) in [
            ("", "no host"),
            ("a", "a name and an address"),
            ("A 10.0.0.1:1", "a-z"),
            ("a 10.0.0.1", "IP:PORT"),
            ("a 10.0.0.1:0", "IP:PORT"),
            ("a 0.0.0.0:7", "IP:PORT"),
            ("a 10.0.0.1:7 cores=3-1", "0-3,8"),
            ("a 10.0.0.1:7 data=here", "begins with /"),
            ("a 10.0.0.1:7 local colour=red", "cores=LIST"),
            ("a 10.0.0.1:7\na 10.0.0.2:7", "line 1 too"),
            ("a 10.0.0.1:7\nb 10.0.0.1:7", "line 1 too"),
            ("cluster No", "a-z"),
            ("takeover me", "agents or operator"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(expected) && error.contains("line"), "{text}: {error}");
        }
    }
}
