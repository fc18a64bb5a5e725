//! From a number of instances and workers to a CPU for each worker.
//!
//! Placement has two steps. First the machine is turned into islands of *seats*. Every allowed core
//! offers one seat. Only if there are more workers than cores do cores offer a second seat (their
//! SMT sibling) and so on; the extra seats are spread evenly over the machine. Then the instances
//! take seats by the rule of the placement:
//!
//! ```text
//!   two islands of four cores, two instances A and B of four workers
//!   island  | A A A A | B B B B |   mix  | A A B B | B B A A |   spread  | A A B B | A A B B |
//! ```
//!
//! `spread` deals single workers round robin over the islands. `mix` deals half an instance to each
//! of two neighbouring islands. `os` deals no seats: the threads float.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::cpu::{CpuId, NodeId};
use crate::error::PlacementError;
use crate::machine::Machine;

/// Workers per CPU above which a request counts as a mistake.
const MOST_WORKERS_PER_CPU: usize = 64;

/// The arrangement of an instance's workers on the islands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// On adjacent cores of one island (of neighbouring islands, if the instance is larger than
    /// one).
    Island,
    /// Scattered over all islands, round robin.
    Spread,
    /// Half on one island, half on another.
    Mix,
    /// Unpinned: the operating system chooses the CPU, and may change it.
    Os,
}

impl Placement {
    /// All four, in the order of the help text.
    pub const ALL: [Placement; 4] = [Placement::Island, Placement::Spread, Placement::Mix, Placement::Os];

    /// The word on the command line and in result rows.
    pub fn name(self) -> &'static str {
        match self {
            Placement::Island => "island",
            Placement::Spread => "spread",
            Placement::Mix => "mix",
            Placement::Os => "os",
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Placement {
    type Err = PlacementError;

    fn from_str(word: &str) -> Result<Placement, PlacementError> {
        let known = Placement::ALL.into_iter().find(|placement| placement.name() == word);
        known.ok_or_else(|| PlacementError::UnknownPlacement { word: word.to_owned() })
    }
}

/// The place of one instance.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InstancePlace {
    /// One entry per worker: the CPU to which it is pinned, or `None` to leave it to the operating
    /// system.
    pub cpus: Vec<Option<CpuId>>,
    /// The node for the instance's memory: local to most of its workers. `None` under `os`, and if
    /// the machine names no node.
    pub node: Option<NodeId>,
}

/// The places of all instances of a deployment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Layout {
    /// The rule by which it was made.
    pub placement: Placement,
    /// One entry per instance, in instance order. Instances differ by at most one worker, larger
    /// ones first.
    pub instances: Vec<InstancePlace>,
    /// There are more workers than cores, or than the CPU time of the control group allows: warn,
    /// and mark the rows.
    pub oversubscribed: bool,
}

impl Layout {
    /// Worker threads in total.
    pub fn workers(&self) -> usize {
        self.instances.iter().map(|instance| instance.cpus.len()).sum()
    }
}

/// Places `workers` worker threads of `instances` instances on the CPUs of `machine` that this
/// process may use.
///
/// # Errors
/// Either number is zero, there are more instances than workers, the process may use no CPU, or
/// there are more than 64 workers per CPU.
pub fn place(
    machine: &Machine,
    instances: usize,
    workers: usize,
    placement: Placement,
) -> Result<Layout, PlacementError> {
    check(machine, instances, workers)?;
    let sizes: Vec<usize> =
        (0..instances).map(|at| workers / instances + usize::from(at < workers % instances)).collect();
    let mut seats = Seats::of(machine, workers);
    let cpus: Vec<Vec<Option<CpuId>>> = match placement {
        Placement::Os => sizes.iter().map(|size| vec![None; *size]).collect(),
        Placement::Island => {
            pinned(sizes.iter().enumerate().map(|(at, n)| seats.together(at, instances, *n)))
        }
        Placement::Mix => mixed(&mut seats, &sizes),
        Placement::Spread => pinned(sizes.iter().map(|size| seats.scattered(*size))),
    };
    let place = |cpus: Vec<Option<CpuId>>| {
        let known: Vec<CpuId> = cpus.iter().flatten().copied().collect();
        InstancePlace { node: machine.node_of(&known), cpus }
    };
    let oversubscribed =
        workers > machine.cores() || machine.limits.cpus.is_some_and(|cpus| workers as f64 > cpus.max(1.0));
    Ok(Layout { placement, instances: cpus.into_iter().map(place).collect(), oversubscribed })
}

fn check(machine: &Machine, instances: usize, workers: usize) -> Result<(), PlacementError> {
    let cpus = machine.allowed_cpus().len();
    let most = cpus * MOST_WORKERS_PER_CPU;
    match () {
        () if instances == 0 => Err(PlacementError::Zero { what: "islands" }),
        () if workers == 0 => Err(PlacementError::Zero { what: "workers" }),
        () if cpus == 0 || machine.allowed_islands().is_empty() => Err(PlacementError::NoCpu),
        () if workers > most => Err(PlacementError::TooManyWorkers { workers, most, cpus }),
        () if instances > workers => Err(PlacementError::MoreInstancesThanWorkers { instances, workers }),
        () => Ok(()),
    }
}

fn pinned(taken: impl Iterator<Item = Vec<CpuId>>) -> Vec<Vec<Option<CpuId>>> {
    taken.map(|cpus| cpus.into_iter().map(Some).collect()).collect()
}

/// The first halves are dealt like whole instances. The second half of each goes to the island
/// after that of its first half.
fn mixed(seats: &mut Seats, sizes: &[usize]) -> Vec<Vec<Option<CpuId>>> {
    let count = sizes.len();
    let halves: Vec<Vec<CpuId>> =
        sizes.iter().enumerate().map(|(at, n)| seats.together(at, count, n.div_ceil(2))).collect();
    let whole = halves.into_iter().zip(sizes).map(|(mut cpus, size)| {
        let home = cpus.first().and_then(|cpu| seats.island_of(*cpu)).unwrap_or(0);
        let second = seats.take_from(home + 1, size / 2);
        cpus.extend(second);
        cpus
    });
    pinned(whole.collect::<Vec<_>>().into_iter())
}

/// The free seats, by island, with adjacent cores adjacent. Each is taken once.
struct Seats {
    free: Vec<VecDeque<CpuId>>,
    islands: Vec<Vec<CpuId>>,
    next_island: usize,
}

impl Seats {
    /// Offers at least `workers` seats: all cores once, then as many further times as needed.
    fn of(machine: &Machine, workers: usize) -> Seats {
        let islands: Vec<Vec<CpuId>> =
            machine.allowed_islands().into_iter().map(|island| island.cpus).collect();
        let cores_by_island: Vec<Vec<Vec<CpuId>>> = islands.iter().map(|cpus| cores(machine, cpus)).collect();
        let cores: usize = cores_by_island.iter().map(Vec::len).sum();
        let (rounds, extra) = if workers <= cores { (1, 0) } else { (workers / cores, workers % cores) };
        let mut at = 0;
        let mut free = Vec::with_capacity(islands.len());
        for island in &cores_by_island {
            let mut seats = VecDeque::new();
            for siblings in island {
                let one_more = (at + 1) * extra / cores > at * extra / cores;
                let count = rounds + usize::from(one_more);
                seats.extend((0..count).map(|n| siblings[n % siblings.len()]));
                at += 1;
            }
            free.push(seats);
        }
        Seats { free, islands, next_island: 0 }
    }

    /// Seats for instance `at` of `of`: on its even share of the islands, and wholly on one island
    /// if any has room.
    fn together(&mut self, at: usize, of: usize, size: usize) -> Vec<CpuId> {
        let start = at * self.free.len() / of;
        let order = (start..start + self.free.len()).map(|island| island % self.free.len());
        let roomy = order.into_iter().find(|island| self.free[*island].len() >= size);
        self.take_from(roomy.unwrap_or(start), size)
    }

    /// The next `size` seats from island `start` on, wrapping around.
    fn take_from(&mut self, start: usize, size: usize) -> Vec<CpuId> {
        let count = self.free.len();
        let mut taken = Vec::with_capacity(size);
        for step in 0..count {
            let island = &mut self.free[(start + step) % count];
            let here = (size - taken.len()).min(island.len());
            taken.extend(island.drain(..here));
        }
        taken
    }

    /// `size` seats, each from the island after the one before.
    fn scattered(&mut self, size: usize) -> Vec<CpuId> {
        let mut taken = Vec::with_capacity(size);
        while taken.len() < size && self.free.iter().any(|island| !island.is_empty()) {
            let at = self.next_island;
            taken.extend(self.free[at].pop_front());
            self.next_island = (at + 1) % self.free.len();
        }
        taken
    }

    fn island_of(&self, cpu: CpuId) -> Option<usize> {
        self.islands.iter().position(|island| island.contains(&cpu))
    }
}

/// The cores of an island, in core order, each as its allowed CPUs in ascending order.
fn cores(machine: &Machine, cpus: &[CpuId]) -> Vec<Vec<CpuId>> {
    let mut cores: Vec<(u32, Vec<CpuId>)> = Vec::new();
    for pu in cpus.iter().filter_map(|cpu| machine.pu(*cpu)) {
        match cores.iter_mut().find(|(core, _)| *core == pu.core) {
            Some((_, siblings)) => siblings.push(pu.cpu),
            None => cores.push((pu.core, vec![pu.cpu])),
        }
    }
    cores.sort_unstable();
    cores.into_iter().map(|(_, siblings)| siblings).collect()
}
