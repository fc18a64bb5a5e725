//! From "so many instances, so many workers" to a CPU for each worker.
//!
//! A placement is drawn in two steps. First the machine is turned into islands of *seats*: every allowed core offers
//! one seat, and only when there are more workers than cores do cores offer a second (their SMT sibling) and so on,
//! the extra seats spread evenly over the machine. Then the instances take seats by the placement's rule:
//!
//! ```text
//!   two islands of four cores, two instances A and B of four workers
//!   island  | A A A A | B B B B |      mix  | A A B B | B B A A |      spread  | A A B B | A A B B |
//! ```
//!
//! `spread` deals single workers round robin over the islands, `mix` deals half an instance to each of two
//! neighbouring islands, `os` deals nothing: the threads float.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::cpu::{CpuId, NodeId};
use crate::error::PlacementError;
use crate::machine::Machine;

/// Workers per CPU beyond which a request is taken for a slip.
const MOST_WORKERS_PER_CPU: usize = 64;

/// How the workers of an instance lie on the islands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// On adjacent cores of one island (of neighbouring islands, when the instance is larger than one).
    Island,
    /// Scattered over all islands, round robin.
    Spread,
    /// Half on one island, half on another.
    Mix,
    /// Unpinned: the operating system decides, and moves them.
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

/// Where one instance lives.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InstancePlace {
    /// One entry a worker: the CPU to pin it to, or `None` to leave it to the operating system.
    pub cpus: Vec<Option<CpuId>>,
    /// The node for the instance's memory: local to most of its workers. `None` under `os`, and where the machine
    /// names no node.
    pub node: Option<NodeId>,
}

/// Where all instances of a deployment live.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Layout {
    /// The rule that made it.
    pub placement: Placement,
    /// One entry an instance, in instance order; instances differ by at most one worker, larger ones first.
    pub instances: Vec<InstancePlace>,
    /// There are more workers than cores, or than the control group gives CPU time for: warn, and mark the rows.
    pub oversubscribed: bool,
}

impl Layout {
    /// Worker threads in total.
    pub fn workers(&self) -> usize {
        self.instances.iter().map(|instance| instance.cpus.len()).sum()
    }
}

/// Places `workers` worker threads of `instances` instances on the CPUs of `machine` that this process may use.
/// Errors when either is zero, there are more instances than workers, no CPU may be used, or there are more than
/// 64 workers a CPU.
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
        () if cpus == 0 => Err(PlacementError::NoCpu),
        () if workers > most => Err(PlacementError::TooManyWorkers { workers, most, cpus }),
        () if instances > workers => Err(PlacementError::MoreInstancesThanWorkers { instances, workers }),
        () => Ok(()),
    }
}

fn pinned(taken: impl Iterator<Item = Vec<CpuId>>) -> Vec<Vec<Option<CpuId>>> {
    taken.map(|cpus| cpus.into_iter().map(Some).collect()).collect()
}

/// First halves are dealt like whole instances; the second half of each goes to the island after its first half's.
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

/// The seats not yet taken, by island, adjacent cores adjacent. Each is taken once.
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

    /// Seats for instance `at` of `of`: on its even share of the islands, wholly on one island if any has room.
    fn together(&mut self, at: usize, of: usize, size: usize) -> Vec<CpuId> {
        let start = at * self.free.len() / of;
        let order = (start..start + self.free.len()).map(|island| island % self.free.len());
        let roomy = order.into_iter().find(|island| self.free[*island].len() >= size);
        self.take_from(roomy.unwrap_or(start), size)
    }

    /// The next `size` seats from island `start` on, going around.
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
