//! A machine as a value: the place of each CPU, and the distances between CPUs.
//!
//! One flat table, [`Machine::pus`], gives the core, L3 group, package and NUMA node of every
//! logical CPU. Packages, groups and nodes are attributes, looked up by number. The *islands* on
//! top are the groups with which placement works. No function here assumes that numbers are dense
//! or in order: a container may show CPUs 3 and 17 of a machine.
//!
//! A `Machine` is immutable. [`Machine::with_latency`] returns a new one with islands that follow
//! the measured distances instead of the hardware's cache groups.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::cluster::{Level, LevelKind, find_levels};
use crate::cpu::{CpuId, NodeId};
use crate::latency::LatencyMatrix;

/// The origin of the description. A described machine can be planned for, but not run on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The machine under this process.
    Live,
    /// An hwloc XML file; the text is its path.
    Xml(String),
    /// A latency matrix; the text is its path. Clustering found the packages, groups and cores.
    LatencyCsv(String),
    /// An hwloc synthetic description such as `package:4 core:6`.
    Synthetic(String),
}

/// One logical CPU and its coordinates.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Pu {
    /// The operating system's number.
    pub cpu: CpuId,
    /// Physical core, numbered from 0 over the whole machine. CPUs with the same core are SMT
    /// siblings.
    pub core: u32,
    /// L3 group, numbered from 0 over the whole machine. Where no L3 is known, the package (else
    /// the NUMA node) counts as one.
    pub l3: u32,
    /// Package (socket), numbered from 0.
    pub package: u32,
    /// NUMA node, if the machine names one.
    pub node: Option<NodeId>,
    /// Whether this process may run there (its affinity mask and cpuset); always true on a
    /// described machine.
    pub allowed: bool,
}

/// Cores that share a last-level cache.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct L3Group {
    /// The number used in [`Pu::l3`].
    pub l3: u32,
    /// Size of the cache; `None` if it is unknown, or if there is no cache and the package stands
    /// in for it.
    pub bytes: Option<u64>,
}

/// A NUMA node.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct NumaNode {
    /// The operating system's number.
    pub node: NodeId,
    /// Its memory; `None` if it is unknown.
    pub bytes: Option<u64>,
}

/// The limits of the control group on this process; `None` for no limit. Described machines have no
/// limits.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Limits {
    /// CPU time per second of wall clock, in CPUs (`cpu.max`, or v1's quota over period).
    pub cpus: Option<f64>,
    /// Bytes of memory (`memory.max`, or v1's `memory.limit_in_bytes`).
    pub memory_bytes: Option<u64>,
}

/// CPUs that are near each other and far from the rest: the unit of placement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Island {
    /// All its CPUs, in ascending order, whether this process may use them or not.
    pub cpus: Vec<CpuId>,
}

/// The data from which the islands were found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IslandSource {
    /// Clusters in the core-to-core latencies.
    Latency,
    /// The L3 groups (or packages, if no L3 is known) that the hardware names.
    Caches,
}

/// A machine: see the top of the file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The origin of the description.
    pub source: Source,
    /// The processor's model name, or for a described machine the name it was given.
    pub model: String,
    /// Every logical CPU, ascending by number; never empty.
    pub pus: Vec<Pu>,
    /// L3 groups, ascending by number.
    pub l3: Vec<L3Group>,
    /// NUMA nodes, ascending by number; empty if none is known (a latency CSV).
    pub nodes: Vec<NumaNode>,
    /// Relative distances (10 = local) between `nodes` in their order, row by row; empty if
    /// unknown.
    pub node_distances: Vec<Vec<u64>>,
    /// Limits of the control group.
    pub limits: Limits,
    /// The islands, ordered by their first CPU. Every CPU is in exactly one.
    pub islands: Vec<Island>,
    /// The data from which they were found.
    pub island_source: IslandSource,
    /// Levels that clustering found in `latency`; empty without it.
    pub levels: Vec<Level>,
    /// Core-to-core latency, measured or described.
    pub latency: Option<LatencyMatrix>,
}

impl Machine {
    /// Completes a machine from its tables: islands follow the L3 groups until a latency matrix is
    /// attached.
    pub(crate) fn from_tables(source: Source, model: String, mut pus: Vec<Pu>) -> Machine {
        pus.sort_by_key(|pu| pu.cpu);
        let mut machine = Machine {
            source,
            model,
            pus,
            l3: Vec::new(),
            nodes: Vec::new(),
            node_distances: Vec::new(),
            limits: Limits::default(),
            islands: Vec::new(),
            island_source: IslandSource::Caches,
            levels: Vec::new(),
            latency: None,
        };
        machine.islands = machine.islands_by_cache();
        machine
    }

    /// The same machine with its islands taken from `latency`. A CPU that the matrix does not cover
    /// stays in the island of its nearest covered relative (SMT sibling, then L3 group). CPUs
    /// without a covered relative become islands by L3 group. A matrix of fewer than two CPUs is
    /// kept, but does not change the islands.
    pub fn with_latency(mut self, latency: LatencyMatrix) -> Machine {
        self.levels = find_levels(&latency);
        if latency.cpus().len() >= 2 {
            self.islands = self.islands_by_latency(&latency);
            self.island_source = IslandSource::Latency;
        }
        self.latency = Some(latency);
        self
    }

    /// Whether this is the machine under this process.
    pub fn is_live(&self) -> bool {
        self.source == Source::Live
    }

    /// The entry of a CPU.
    pub fn pu(&self, cpu: CpuId) -> Option<&Pu> {
        self.pus.binary_search_by_key(&cpu, |pu| pu.cpu).ok().map(|at| &self.pus[at])
    }

    /// These CPUs grouped by core, in the order in which the cores first appear.
    pub fn cores_of(&self, cpus: &[CpuId]) -> Vec<Vec<CpuId>> {
        let mut cores: Vec<(u32, Vec<CpuId>)> = Vec::new();
        for pu in cpus.iter().filter_map(|cpu| self.pu(*cpu)) {
            match cores.iter_mut().find(|(core, _)| *core == pu.core) {
                Some((_, siblings)) => siblings.push(pu.cpu),
                None => cores.push((pu.core, vec![pu.cpu])),
            }
        }
        cores.into_iter().map(|(_, siblings)| siblings).collect()
    }

    /// Size of the L3 cache that a CPU shares, if known.
    pub fn l3_bytes(&self, cpu: CpuId) -> Option<u64> {
        let l3 = self.pu(cpu)?.l3;
        self.l3.iter().find(|group| group.l3 == l3)?.bytes
    }

    /// The CPUs on which this process may run, ascending.
    pub fn allowed_cpus(&self) -> Vec<CpuId> {
        self.pus.iter().filter(|pu| pu.allowed).map(|pu| pu.cpu).collect()
    }

    /// Cores with at least one allowed CPU.
    pub fn cores(&self) -> usize {
        self.count(|pu| pu.core)
    }

    /// L3 groups with at least one allowed CPU. If the islands come from latency, islands count
    /// instead: on a virtual machine the caches that the hardware names are often fictitious.
    pub fn l3_groups(&self) -> usize {
        match self.island_source {
            IslandSource::Latency if !self.has_cache_level() => self.count(|pu| pu.l3),
            IslandSource::Latency => self.allowed_islands().len(),
            IslandSource::Caches => self.count(|pu| pu.l3),
        }
    }

    /// Packages with at least one allowed CPU.
    pub fn packages(&self) -> usize {
        self.count(|pu| pu.package)
    }

    /// Worker threads that fit: one per allowed core.
    pub fn default_workers(&self) -> usize {
        self.cores().max(1)
    }

    /// The islands that hold an allowed CPU, reduced to their allowed CPUs.
    pub fn allowed_islands(&self) -> Vec<Island> {
        let allowed = |cpu: &CpuId| self.pu(*cpu).is_some_and(|pu| pu.allowed);
        let reduced = self
            .islands
            .iter()
            .map(|island| Island { cpus: island.cpus.iter().copied().filter(allowed).collect() });
        reduced.filter(|island| !island.cpus.is_empty()).collect()
    }

    /// The two allowed CPUs for the latency in result rows: on two different islands if there are
    /// two, else on two different cores, else SMT siblings. `None` with one CPU only.
    pub fn stamp_pair(&self) -> Option<(CpuId, CpuId)> {
        let first = *self.pus.iter().find(|pu| pu.allowed)?;
        let others = || self.pus.iter().filter(|pu| pu.allowed && pu.cpu != first.cpu);
        let island_of = |cpu: CpuId| self.islands.iter().position(|island| island.cpus.contains(&cpu));
        let far = others().find(|pu| island_of(pu.cpu) != island_of(first.cpu));
        let near = || others().find(|pu| pu.core != first.core);
        far.or_else(near).or_else(|| others().next()).map(|pu| (first.cpu, pu.cpu))
    }

    /// The NUMA node to which most of `cpus` are local (the lowest number on a tie).
    pub fn node_of(&self, cpus: &[CpuId]) -> Option<NodeId> {
        let local = |node: NodeId| {
            cpus.iter().filter(|cpu| self.pu(**cpu).and_then(|pu| pu.node) == Some(node)).count()
        };
        let counted = self.nodes.iter().map(|n| (local(n.node), n.node)).filter(|(count, _)| *count > 0);
        counted.min_by_key(|(count, node)| (std::cmp::Reverse(*count), *node)).map(|(_, node)| node)
    }

    fn has_cache_level(&self) -> bool {
        self.levels.iter().any(|level| level.kind == LevelKind::Cache)
    }

    fn count(&self, coordinate: impl Fn(&Pu) -> u32) -> usize {
        let distinct: BTreeSet<u32> = self.pus.iter().filter(|pu| pu.allowed).map(coordinate).collect();
        distinct.len()
    }

    fn islands_by_cache(&self) -> Vec<Island> {
        let mut islands: Vec<(u32, Island)> = Vec::new();
        for pu in &self.pus {
            match islands.iter_mut().find(|(l3, _)| *l3 == pu.l3) {
                Some((_, island)) => island.cpus.push(pu.cpu),
                None => islands.push((pu.l3, Island { cpus: vec![pu.cpu] })),
            }
        }
        islands.into_iter().map(|(_, island)| island).collect()
    }

    fn islands_by_latency(&self, latency: &LatencyMatrix) -> Vec<Island> {
        let mut islands: Vec<Vec<CpuId>> = island_groups(&self.levels, latency)
            .into_iter()
            .map(|group| group.into_iter().filter(|cpu| self.pu(*cpu).is_some()).collect())
            .filter(|group: &Vec<CpuId>| !group.is_empty())
            .collect();
        let covered = islands.clone();
        for pu in self.pus.iter().filter(|pu| !latency.cpus().contains(&pu.cpu)) {
            let holds = |same: &dyn Fn(&Pu) -> bool| {
                covered.iter().position(|group| group.iter().any(|cpu| self.pu(*cpu).is_some_and(same)))
            };
            let relative =
                holds(&|other| other.core == pu.core).or_else(|| holds(&|other| other.l3 == pu.l3));
            match relative {
                Some(at) => islands[at].push(pu.cpu),
                None => self.join_uncovered(&mut islands, covered.len(), pu),
            }
        }
        islands.iter_mut().for_each(|group| group.sort_unstable());
        islands.sort();
        islands.into_iter().map(|cpus| Island { cpus }).collect()
    }

    /// Adds a CPU without a measured relative to others of its L3 group, among `islands[first..]`.
    fn join_uncovered(&self, islands: &mut Vec<Vec<CpuId>>, first: usize, pu: &Pu) {
        let same = |cpu: &CpuId| self.pu(*cpu).is_some_and(|other| other.l3 == pu.l3);
        match islands[first..].iter_mut().find(|group| group.iter().any(same)) {
            Some(group) => group.push(pu.cpu),
            None => islands.push(vec![pu.cpu]),
        }
    }
}

/// The groups of the level for placement: the finest one above SMT siblings, or one group if the
/// latencies show no such level. (SMT siblings share one core's execution units, so a pair of them
/// is a core and not an island.)
pub fn island_groups(levels: &[Level], latency: &LatencyMatrix) -> Vec<Vec<CpuId>> {
    match levels.iter().find(|level| level.kind != LevelKind::Smt) {
        Some(level) => level.groups.clone(),
        None => vec![latency.cpus().to_vec()],
    }
}
