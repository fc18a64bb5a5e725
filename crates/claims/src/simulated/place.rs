//! The cores of a deployment on a described machine.

use deploysim::{MachineModel, ModelError};
use serde::Deserialize;
use std::fmt;

/// A number of instances.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(untagged)]
pub enum Islands {
    Count(usize),
    Per(Per),
}

/// One instance for each of the parts of the machine that have workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Per {
    PerCore,
    PerSocket,
    PerMachine,
}

impl fmt::Display for Islands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Islands::Count(count) => write!(f, "{count}"),
            Islands::Per(Per::PerCore) => f.write_str("per-core"),
            Islands::Per(Per::PerSocket) => f.write_str("per-socket"),
            Islands::Per(Per::PerMachine) => f.write_str("per-machine"),
        }
    }
}

/// The rule by which workers get their cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// Socket by socket.
    Island,
    /// One worker per socket in turn.
    Spread,
    /// Two workers per socket in turn.
    Mix,
    /// At random within a machine.
    Os,
}

impl Place {
    pub(super) fn name(self) -> &'static str {
        match self {
            Place::Island => "island",
            Place::Spread => "spread",
            Place::Mix => "mix",
            Place::Os => "os",
        }
    }
}

/// The machine of each core, and the cores of each machine in ascending order.
fn hosts(machine: &MachineModel) -> Vec<Vec<usize>> {
    let mut hosts: Vec<Vec<usize>> = Vec::new();
    for core in 0..machine.cores() {
        match hosts.iter_mut().find(|host| machine.is_one_host(host[0], core)) {
            Some(host) => host.push(core),
            None => hosts.push(vec![core]),
        }
    }
    hosts
}

/// The first `workers` cores of the first `machines` machines (0 for all of either).
///
/// # Errors
/// More machines or workers than there are.
pub(super) fn cores(
    machine: &MachineModel,
    machines: usize,
    workers: usize,
    place: Place,
    seed: u64,
) -> Result<Vec<usize>, ModelError> {
    let wrong = |text: String| Err(ModelError::Deployment(text));
    let mut hosts = hosts(machine);
    if machines > hosts.len() {
        return wrong(format!("{machines} machines of {}", hosts.len()));
    }
    if machines > 0 {
        hosts.truncate(machines);
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let mut cores: Vec<usize> = Vec::new();
    for mut host in hosts {
        match place {
            Place::Island => host.sort_by_key(|&core| machine.package(core)),
            Place::Spread => host = in_turn(machine, &host, 1),
            Place::Mix => host = in_turn(machine, &host, 2),
            Place::Os => random.shuffle(&mut host),
        }
        cores.extend(host);
    }
    if workers > cores.len() {
        return wrong(format!("{workers} workers on {} cores", cores.len()));
    }
    if workers > 0 {
        cores.truncate(workers);
    }
    Ok(cores)
}

/// `each` cores of every package in turn.
fn in_turn(machine: &MachineModel, host: &[usize], each: usize) -> Vec<usize> {
    let mut packages: Vec<Vec<usize>> = Vec::new();
    for &core in host {
        match packages.iter_mut().find(|p| machine.package(p[0]) == machine.package(core)) {
            Some(package) => package.push(core),
            None => packages.push(vec![core]),
        }
    }
    let most = packages.iter().map(Vec::len).max().unwrap_or(0);
    let turns = (0..most).step_by(each);
    turns.flat_map(|at| packages.iter().flat_map(move |p| p.iter().skip(at).take(each).copied())).collect()
}

/// The number of instances on these cores.
pub(super) fn count(machine: &MachineModel, cores: &[usize], islands: Islands) -> usize {
    let distinct = |of: &dyn Fn(usize) -> usize| {
        let mut all: Vec<usize> = cores.iter().map(|&core| of(core)).collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    };
    match islands {
        Islands::Count(count) => count,
        Islands::Per(Per::PerCore) => cores.len(),
        Islands::Per(Per::PerSocket) => distinct(&|core| machine.package(core)),
        Islands::Per(Per::PerMachine) => {
            let first = |core: usize| (0..core).find(|&c| machine.is_one_host(c, core)).unwrap_or(core);
            distinct(&first)
        }
    }
}
