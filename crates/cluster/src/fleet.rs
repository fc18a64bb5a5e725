//! The operator's side: all agents of a cluster, and a deployment over their machines.

use crate::bridge::{Bridge, End, Outbox};
use crate::protocol::{AgentStatus, Answer, Ask, Greeting, VERSION, encode};
use crate::talk::Talk;
use crate::{ClusterError, HostLine, Hosts};
use base::InstanceId;
use channel::{Address, Guarding, Hello, connect_guarded};
use deploy::{DeployError, Distant, DistantHost, Errand, Machines};
use std::fmt;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use topology::Machine;

/// How long a host may take to be reached.
const REACH: Duration = Duration::from_secs(2);
/// How long an agent may take to answer. An instance that was killed may still hold its files.
const ANSWER: Duration = Duration::from_secs(40);

/// All agents of a cluster, checked.
pub struct Fleet {
    lines: Vec<HostLine>,
    caller: Caller,
    /// The machine of each host, limited to the CPUs of its agent.
    machines: Vec<Machine>,
    /// The boot of each host's kernel: hosts of one kernel share its CPUs.
    boots: Vec<u64>,
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.lines.iter().map(|line| line.name.as_str()).collect();
        write!(f, "cluster {} of {}", self.caller.cluster, names.join(", "))
    }
}

/// What every question to an agent begins with.
#[derive(Clone)]
struct Caller {
    cluster: String,
    build: String,
    guard: Guarding,
}

impl Caller {
    fn of(hosts: &Hosts, build: &str) -> Result<Caller, ClusterError> {
        let guard = match hosts.operator() {
            None => Guarding::default(),
            Some(dir) => Guarding(Some(trust::guard(&dir)?)),
        };
        Ok(Caller { cluster: hosts.cluster.clone(), build: build.into(), guard })
    }

    fn address(&self, host: &HostLine) -> Address {
        match self.guard.0 {
            None => Address::Tcp(host.address),
            Some(_) => Address::Tls(host.address),
        }
    }

    /// Asks; returns the connection with the answer.
    fn ask(&self, host: &HostLine, ask: &Ask) -> Result<(Talk, Answer), ClusterError> {
        let unreachable =
            |why: String| ClusterError::Unreachable { host: host.name.clone(), address: host.address, why };
        let greeting = Greeting {
            version: VERSION,
            build: self.build.clone(),
            cluster: self.cluster.clone(),
            machine: host.name.clone(),
        };
        let link = connect_guarded(&self.address(host), Hello(encode(&greeting)), REACH, &self.guard);
        let mut talk = link.map_err(|e| e.to_string()).and_then(Talk::over).map_err(unreachable)?;
        // An agent that refuses does not read the question.
        let asked = talk.say(ask);
        match talk.hear(ANSWER) {
            Ok(Answer::Refused(why)) => Err(ClusterError::Refused { host: host.name.clone(), why }),
            Ok(answer) => Ok((talk, answer)),
            Err(why) => Err(unreachable(asked.err().unwrap_or(why))),
        }
    }
}

fn odd(host: &HostLine) -> ClusterError {
    ClusterError::Refused { host: host.name.clone(), why: "it answered another question".into() }
}

impl Fleet {
    /// Asks every agent for its machine.
    ///
    /// # Errors
    /// A host that cannot be reached, or of which the agent refuses.
    pub fn open(hosts: &Hosts, build: &str) -> Result<Fleet, ClusterError> {
        let caller = Caller::of(hosts, build)?;
        let (mut machines, mut boots) = (Vec::new(), Vec::new());
        for host in &hosts.lines {
            let (_, Answer::Status(status)) = caller.ask(host, &Ask::Status)? else { return Err(odd(host)) };
            let machine = serde_json::from_str(&status.topology);
            machines.push(
                machine.map_err(|e| ClusterError::Host { host: host.name.clone(), why: e.to_string() })?,
            );
            boots.push(status.boot);
        }
        Ok(Fleet { lines: hosts.lines.clone(), caller, machines, boots })
    }

    /// The machine of each host, in the order of the file.
    pub fn machines(&self) -> &[Machine] {
        &self.machines
    }

    /// Whether `workers` in all, divided evenly, are more than the CPUs of hosts that share a kernel.
    pub fn shares_cpus(&self, workers: usize) -> bool {
        let each = workers.div_ceil(self.lines.len());
        self.boots.iter().any(|boot| {
            let here = || self.boots.iter().zip(&self.machines).filter(|(other, _)| *other == boot);
            let mut cpus: Vec<_> = here().flat_map(|(_, machine)| machine.allowed_cpus()).collect();
            cpus.sort_unstable_by_key(|cpu| cpu.0);
            cpus.dedup();
            here().count() * each > cpus.len()
        })
    }

    /// Whether links between machines are sealed.
    pub fn is_sealed(&self) -> bool {
        self.caller.guard.0.is_some()
    }
}

/// The machine, out of `machines`, of instance `i` out of `islands`: adjacent instances share one.
fn machine_of(i: u16, islands: u16, machines: usize) -> usize {
    usize::from(i) * machines / usize::from(islands.max(1))
}

impl Machines for Fleet {
    fn count(&self) -> usize {
        self.lines.len()
    }

    fn of(&self, instance: InstanceId, islands: u16) -> usize {
        machine_of(instance.0, islands, self.count())
    }

    fn address(&self, machine: usize) -> Address {
        let mut host = self.lines[machine].clone();
        host.address.set_port(0);
        self.caller.address(&host)
    }

    fn guard(&self) -> Guarding {
        self.caller.guard.clone()
    }

    fn spawn(&self, errand: &Errand, instance: InstanceId, machine: usize) -> Result<Distant, DeployError> {
        let host = &self.lines[machine];
        let fail = |why: String| DeployError::Start { instance, why };
        let (deployment, database) = (errand.deployment, errand.database.clone());
        let asked = self.caller.ask(host, &Ask::Attach { deployment, database, instance });
        let (talk, Answer::Attached) = asked.map_err(|e| fail(e.to_string()))? else {
            return Err(fail(odd(host).to_string()));
        };
        let (ours, theirs) = UnixStream::pair().map_err(|e| fail(e.to_string()))?;
        let bridge = Bridge::over(talk);
        let outbox = bridge.outbox();
        let words = Words(Arc::default());
        let mut there = There { host: host.name.clone(), words: words.clone() };
        let carry = move || bridge.carry(theirs, &mut there);
        let thread = std::thread::Builder::new().name(format!("bridge-{instance}")).spawn(carry);
        thread.map_err(DeployError::Thread)?;
        Ok(Distant { orders: ours, host: Box::new(Afar { outbox, words, name: host.name.clone() }) })
    }

    fn read(&self, database: &str) -> Result<Option<String>, DeployError> {
        let mut first: Option<(&HostLine, Option<String>)> = None;
        for host in &self.lines {
            let (_, answer) =
                self.caller.ask(host, &Ask::Read { database: database.into() }).map_err(broken)?;
            let Answer::Description(text) = answer else { return Err(broken(odd(host))) };
            match &first {
                None => first = Some((host, text)),
                Some((_, other)) if *other == text => {}
                Some((other, theirs)) => {
                    return Err(broken(ClusterError::Disagree {
                        first: other.name.clone(),
                        second: host.name.clone(),
                        database: database.into(),
                        difference: difference(theirs.as_deref(), text.as_deref()),
                    }));
                }
            }
        }
        Ok(first.and_then(|(_, text)| text))
    }

    fn write(&self, database: &str, text: Option<&str>) -> Result<(), DeployError> {
        for host in &self.lines {
            let ask = Ask::Write { database: database.into(), text: text.map(str::to_owned) };
            let (_, Answer::Done) = self.caller.ask(host, &ask).map_err(broken)? else {
                return Err(broken(odd(host)));
            };
        }
        Ok(())
    }
}

fn broken(error: ClusterError) -> DeployError {
    DeployError::Machine(error.to_string())
}

/// The first line in which two descriptions differ.
fn difference(first: Option<&str>, second: Option<&str>) -> String {
    match (first, second) {
        (Some(_), None) => "only the first has it".into(),
        (None, _) => "only the second has it".into(),
        (Some(first), Some(second)) => {
            let lines = first.lines().zip(second.lines()).find(|(a, b)| a != b);
            lines.map_or("one is longer".into(), |(a, b)| {
                format!("{} there, {} here", a.trim().trim_end_matches(','), b.trim().trim_end_matches(','))
            })
        }
    }
}

/// Why an instance has ended, as far as it is known.
#[derive(Clone)]
struct Words(Arc<Mutex<String>>);

/// The operator's end of a bridge.
struct There {
    host: String,
    words: Words,
}

impl End for There {
    fn words(&mut self, words: String) {
        let mut known = self.words.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_empty() {
            *known = format!("on host {}: {words}", self.host);
        }
    }
}

/// The host of an instance on another machine.
struct Afar {
    outbox: Outbox,
    words: Words,
    name: String,
}

impl DistantHost for Afar {
    fn kill(&mut self) -> std::io::Result<()> {
        self.outbox.kill();
        Ok(())
    }

    fn last_words(&mut self) -> String {
        let known = self.words.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if known.is_empty() { format!("on host {}, without a word", self.name) } else { known }
    }
}

/// The state of one host.
pub struct HostStatus {
    pub line: HostLine,
    /// What its agent tells, or why it tells nothing.
    pub agent: Result<AgentStatus, ClusterError>,
}

/// Asks every host for its state.
///
/// # Errors
/// The operator's certificates cannot be used.
pub fn status(hosts: &Hosts, build: &str) -> Result<Vec<HostStatus>, ClusterError> {
    let caller = Caller::of(hosts, build)?;
    let of = |host: &HostLine| {
        let agent = match caller.ask(host, &Ask::Status) {
            Ok((_, Answer::Status(status))) => Ok(*status),
            Ok(_) => Err(odd(host)),
            Err(error) => Err(error),
        };
        HostStatus { line: host.clone(), agent }
    };
    Ok(hosts.lines.iter().map(of).collect())
}

/// Tells the agent of a host to end, with its instances. Returns whether one was there.
///
/// # Errors
/// It refuses.
pub(crate) fn end(hosts: &Hosts, host: &HostLine, build: &str) -> Result<bool, ClusterError> {
    match Caller::of(hosts, build)?.ask(host, &Ask::End) {
        Ok(_) => Ok(true),
        Err(ClusterError::Unreachable { .. }) => Ok(false),
        Err(other) => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_shared_out_in_runs() {
        let of = |islands: u16, machines| {
            (0..islands).map(|i| machine_of(i, islands, machines)).collect::<Vec<_>>()
        };
        assert_eq!(of(3, 3), [0, 1, 2]);
        assert_eq!(of(6, 3), [0, 0, 1, 1, 2, 2]);
        assert_eq!(of(4, 3), [0, 0, 1, 2]);
        assert_eq!(of(2, 1), [0, 0]);
    }

    #[test]
    fn the_first_difference_is_named() {
        assert_eq!(
            difference(Some("{\n \"islands\": 3,\n}"), Some("{\n \"islands\": 4,\n}")),
            "\"islands\": 3 there, \"islands\": 4 here"
        );
        assert_eq!(difference(Some("a"), None), "only the first has it");
    }
}
