//! The operator's side: all agents of a cluster, and a deployment over their machines.

use crate::bridge::{Bridge, End, Outbox};
use crate::moving;
use crate::protocol::{AgentStatus, Answer, Ask, Greeting, Kind, Loss, VERSION, encode};
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

/// How long a host may take to be reached for a deployment.
const REACH: Duration = Duration::from_secs(2);
/// The same, to end its agent.
const GLANCE: Duration = Duration::from_millis(500);
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
    /// The host of each island of the database that was named, where it has been loaded.
    located: Vec<usize>,
    has_leases: bool,
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
    /// How long a host may take to be reached.
    reach: Duration,
    cluster: String,
    build: String,
    guard: Guarding,
}

impl Caller {
    fn of(hosts: &Hosts, build: &str, reach: Duration) -> Result<Caller, ClusterError> {
        let guard = match hosts.operator() {
            None => Guarding::default(),
            Some(dir) => Guarding(Some(trust::guard(&dir)?)),
        };
        Ok(Caller { reach, cluster: hosts.cluster.clone(), build: build.into(), guard })
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
        let link = connect_guarded(&self.address(host), Hello(encode(&greeting)), self.reach, &self.guard);
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
    /// Asks every agent for its machine, and for the islands of `database` that it has.
    ///
    /// # Errors
    /// A host that cannot be reached, or of which the agent refuses; an island that is on two
    /// hosts.
    pub fn open(hosts: &Hosts, build: &str, database: Option<&str>) -> Result<Fleet, ClusterError> {
        let mut fleet = Fleet::ask_all(hosts, build, &mut Err)?;
        if let Some(database) = database {
            fleet.located = fleet.locate(database)?;
        }
        Ok(fleet)
    }

    /// As [`Fleet::open`], without the hosts that cannot be reached, if all islands of a database
    /// that was loaded are on the others. Only where the hosts hold leases: then a host that is
    /// gone has no island that another one has. Also returns the hosts that are gone.
    ///
    /// # Errors
    /// As [`Fleet::open`].
    pub fn open_present(
        hosts: &Hosts,
        build: &str,
        database: &str,
    ) -> Result<(Fleet, Vec<String>), ClusterError> {
        let mut gone: Vec<ClusterError> = Vec::new();
        let mut fleet = Fleet::ask_all(hosts, build, &mut |why| match why {
            ClusterError::Unreachable { .. } if hosts.etcd.is_some() => {
                gone.push(why);
                Ok(())
            }
            other => Err(other),
        })?;
        let located = fleet.locate(database);
        let lacks_some = match &located {
            Ok(located) => located.is_empty(),
            Err(why) => matches!(why, ClusterError::Nowhere { .. }),
        };
        if lacks_some && !gone.is_empty() {
            return Err(gone.remove(0));
        }
        fleet.located = located?;
        let is_here = |line: &&HostLine| fleet.lines.iter().any(|here| here.name == line.name);
        let missing = hosts.lines.iter().filter(|line| !is_here(line)).map(|line| line.name.clone());
        let missing = missing.collect();
        Ok((fleet, missing))
    }

    /// Asks every agent for its machine. `fail` is told of a host that does not answer as it
    /// should, and may let it be left out.
    fn ask_all(
        hosts: &Hosts,
        build: &str,
        fail: &mut dyn FnMut(ClusterError) -> Result<(), ClusterError>,
    ) -> Result<Fleet, ClusterError> {
        let caller = Caller::of(hosts, build, REACH)?;
        let (mut lines, mut machines, mut boots) = (Vec::new(), Vec::new(), Vec::new());
        for host in &hosts.lines {
            let status = match caller.ask(host, &Ask::Status) {
                Ok((_, Answer::Status(status))) => status,
                Ok(_) => return Err(odd(host)),
                Err(why) => {
                    fail(why)?;
                    continue;
                }
            };
            let machine = serde_json::from_str(&status.topology);
            machines.push(
                machine.map_err(|e| ClusterError::Host { host: host.name.clone(), why: e.to_string() })?,
            );
            boots.push(status.boot);
            lines.push(host.clone());
        }
        let (located, has_leases) = (Vec::new(), hosts.etcd.is_some());
        Ok(Fleet { lines, caller, machines, boots, located, has_leases })
    }

    /// The host of each island of a database; empty where none has been loaded.
    fn locate(&self, database: &str) -> Result<Vec<usize>, ClusterError> {
        let located = self.find(database)?.into_iter().enumerate();
        let at = |(island, host): (usize, Option<usize>)| {
            host.ok_or(ClusterError::Nowhere { island: island as u16, database: database.into() })
        };
        located.map(at).collect()
    }

    fn islands_at(&self, host: &HostLine, ask: &Ask) -> Result<Vec<InstanceId>, ClusterError> {
        match self.caller.ask(host, ask)? {
            (_, Answer::Islands(islands)) => Ok(islands),
            _ => Err(odd(host)),
        }
    }

    /// The same; `None` for an island that no host has.
    fn find(&self, database: &str) -> Result<Vec<Option<usize>>, ClusterError> {
        let mut located: Vec<Option<usize>> = Vec::new();
        let mut told = Vec::new();
        for (number, host) in self.lines.iter().enumerate() {
            let asked = self.caller.ask(host, &Ask::Read { database: database.into() })?;
            let here = self.islands_at(host, &Ask::Islands { database: database.into() })?;
            if let (_, Answer::Description(Some(text))) = asked {
                told.push((host.name.clone(), text, !here.is_empty()));
            }
            for InstanceId(island) in here {
                let at = usize::from(island);
                located.resize(located.len().max(at + 1), None);
                if let Some(first) = located[at].replace(number).filter(|_| !told.is_empty()) {
                    let (first, second) = (self.lines[first].name.clone(), host.name.clone());
                    return Err(ClusterError::Twice { island, database: database.into(), first, second });
                }
            }
        }
        let is_loaded = !told.is_empty();
        // A host without islands may have been gone while the others went on.
        let is_any_there = told.iter().any(|(.., is_there)| *is_there);
        let counts = told.into_iter().filter(|(.., is_there)| *is_there || !is_any_there);
        let counts = counts.map(|(host, text, _)| (host, Some(text))).collect();
        let count = deploy::islands_in(database, counts)?.unwrap_or(0);
        located.resize(located.len().max(count.into()), None);
        Ok(if is_loaded { located } else { Vec::new() })
    }

    /// The islands of the database that was named, by host.
    pub fn islands_of(&self, host: &str) -> Vec<InstanceId> {
        let number = self.lines.iter().position(|line| line.name == host);
        let here = self.located.iter().enumerate().filter(|(_, at)| Some(**at) == number);
        here.map(|(island, _)| InstanceId(island as u16)).collect()
    }

    /// Moves an island of the database that was named to the host of this name. Returns the name of
    /// the host that had it.
    ///
    /// # Errors
    /// The database has no such island, or it is there already; a deployment runs on it; a host
    /// fails.
    pub fn move_island(
        &mut self,
        database: &str,
        island: InstanceId,
        to: &str,
    ) -> Result<String, ClusterError> {
        let nowhere = ClusterError::Nowhere { island: island.0, database: database.into() };
        let from = *self.located.get(usize::from(island.0)).ok_or(nowhere)?;
        let wrong = |why: String| ClusterError::Host { host: to.into(), why };
        let number = self.lines.iter().position(|line| line.name == to);
        let number = number.ok_or_else(|| wrong("it is not in the hosts file".into()))?;
        if number == from {
            return Err(wrong(format!("it has island {island} already")));
        }
        let (old, new) = (&self.lines[from], &self.lines[number]);
        self.send(database, island, Kind::Island, (old, new))?;
        self.caller.ask(old, &Ask::Forget { database: database.into(), island })?;
        self.located[usize::from(island.0)] = number;
        Ok(old.name.clone())
    }

    /// Sends the directory of an island from one host to another, as a part of the database or as
    /// a copy.
    fn send(
        &self,
        database: &str,
        island: InstanceId,
        kind: Kind,
        (from, to): (&HostLine, &HostLine),
    ) -> Result<(), ClusterError> {
        let wrong = |why: String| ClusterError::Host { host: to.name.clone(), why };
        let (mut source, _) = self.caller.ask(from, &Ask::Fetch { database: database.into(), island })?;
        let (mut target, _) = self.caller.ask(to, &Ask::Take { database: database.into(), island, kind })?;
        moving::pass(&mut source, &mut target).map_err(wrong)
    }

    /// Copies each island of the database that was named to the host after its own, in the order
    /// of the hosts file. Returns the islands with their hosts and those of the copies.
    ///
    /// # Errors
    /// There is one host only; a deployment runs on the database; a host fails.
    pub fn copy(&self, database: &str) -> Result<Vec<(InstanceId, String, String)>, ClusterError> {
        let mut copied = Vec::new();
        for (island, number) in self.located.iter().enumerate() {
            let (island, from) = (InstanceId(island as u16), &self.lines[*number]);
            let to = &self.lines[(number + 1) % self.lines.len()];
            if from.name == to.name {
                let why = "it is the only one of the hosts file: expected another one for copies".into();
                return Err(ClusterError::Host { host: from.name.clone(), why });
            }
            self.send(database, island, Kind::Copy, (from, to))?;
            copied.push((island, from.name.clone(), to.name.clone()));
        }
        Ok(copied)
    }

    /// Has the islands of a database that are on no host of this fleet taken over, each by the host
    /// with the fewest islands among those that have a copy. Returns them with these hosts.
    ///
    /// # Errors
    /// An island without a copy, before anything is done; the host that had an island still serves
    /// it; the log of an island is at no relay, and no `loss` is accepted; a host fails.
    pub fn take_over(&self, database: &str, loss: Loss) -> Result<Vec<(InstanceId, String)>, ClusterError> {
        let mut located = self.find(database)?;
        let copies: Vec<Vec<InstanceId>> = (self.lines.iter())
            .map(|host| self.islands_at(host, &Ask::Copies { database: database.into() }))
            .collect::<Result<_, _>>()?;
        let has_copy = |island: usize| copies.iter().flatten().any(|copy| usize::from(copy.0) == island);
        let missing: Vec<usize> = (0..located.len()).filter(|island| located[*island].is_none()).collect();
        if let Some(island) = missing.iter().find(|island| !has_copy(**island)) {
            return Err(ClusterError::NoCopy { island: *island as u16, database: database.into() });
        }
        let mut taken = Vec::new();
        for at in missing {
            let island = InstanceId(at as u16);
            let count = |number: usize| located.iter().filter(|host| **host == Some(number)).count();
            let able = (0..self.lines.len()).filter(|number| copies[*number].contains(&island));
            let Some(number) = able.min_by_key(|number| count(*number)) else { continue };
            let host = &self.lines[number];
            self.caller.ask(host, &Ask::TakeOver { database: database.into(), island, loss })?;
            located[at] = Some(number);
            taken.push((island, host.name.clone()));
        }
        Ok(taken)
    }

    /// The host other than `but` that has the fewest islands of the database that was named.
    pub fn emptiest(&self, but: &str) -> Option<String> {
        let count = |number: usize| self.located.iter().filter(|at| **at == number).count();
        let others = self.lines.iter().enumerate().filter(|(_, line)| line.name != but);
        others.min_by_key(|(number, _)| count(*number)).map(|(_, line)| line.name.clone())
    }

    /// The machine of each host, in the order of the file.
    pub fn machines(&self) -> &[Machine] {
        &self.machines
    }

    /// Whether `workers` in all, divided evenly, are more than the CPUs of hosts that share a
    /// kernel.
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

    /// The name of the cluster.
    pub fn cluster(&self) -> &str {
        &self.caller.cluster
    }

    /// Whether the agents hold leases.
    pub fn has_leases(&self) -> bool {
        self.has_leases
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
        let known = self.located.get(usize::from(instance.0)).copied();
        known.unwrap_or_else(|| machine_of(instance.0, islands, self.count()))
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
        let Errand { deployment, database, again } = errand.clone();
        let asked = self.caller.ask(host, &Ask::Attach { deployment, database, instance, again });
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

    fn read(&self, database: &str) -> Result<Vec<(String, Option<String>)>, DeployError> {
        let of = |host: &HostLine| match self
            .caller
            .ask(host, &Ask::Read { database: database.into() })
            .map_err(broken)?
        {
            (_, Answer::Description(text)) => Ok((host.name.clone(), text)),
            _ => Err(broken(odd(host))),
        };
        // A host without islands may have been gone while the others went on: its description is of
        // then, and is written again.
        let counts = |number: &usize| self.located.is_empty() || self.located.contains(number);
        (0..self.lines.len()).filter(counts).map(|number| of(&self.lines[number])).collect()
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

/// Asks all hosts for their state, at the same time. Each may take as long as `reach` to be
/// reached.
///
/// # Errors
/// The operator's certificates cannot be used.
pub fn status(hosts: &Hosts, build: &str, reach: Duration) -> Result<Vec<HostStatus>, ClusterError> {
    let caller = Caller::of(hosts, build, reach)?;
    let of = |host: &HostLine| match caller.ask(host, &Ask::Status) {
        Ok((_, Answer::Status(status))) => Ok(*status),
        Ok(_) => Err(odd(host)),
        Err(error) => Err(error),
    };
    let of = &of;
    std::thread::scope(|scope| {
        let asked: Vec<_> = hosts.lines.iter().map(|host| (host, scope.spawn(move || of(host)))).collect();
        let state = |(host, asked): (&HostLine, std::thread::ScopedJoinHandle<'_, _>)| {
            let agent = asked.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            HostStatus { line: host.clone(), agent }
        };
        Ok(asked.into_iter().map(state).collect())
    })
}

/// Tells the agent of a host to end, with its instances. Returns whether one was there.
///
/// # Errors
/// It refuses.
pub(crate) fn end(hosts: &Hosts, host: &HostLine, build: &str) -> Result<bool, ClusterError> {
    match Caller::of(hosts, build, GLANCE)?.ask(host, &Ask::End) {
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
}
