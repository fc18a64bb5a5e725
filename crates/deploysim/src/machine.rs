//! A described machine as a model sees it: cores, one-way latencies, and the terms that a latency
//! file does not have.
//!
//! [`MachineModel::from_topology`] takes a machine of `topology` (a latency CSV, or the live
//! machine with a measured matrix). [`MachineModel::parse`] also reads machine files
//! (`machines/*.toml`, [`mod@file`]), which describe a machine by its levels. Terms that are not
//! given take a default, and [`MachineModel::defaulted`] names these, so that a report can state
//! them.

pub mod file;

use crate::error::ModelError;
use serde::{Deserialize, Serialize};
use topology::{CpuId, Machine};

/// The time of one flush of the log device when `depth` flushes are under way.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flush {
    pub depth: u32,
    pub ns: f64,
}

/// The way in which hardware contexts of one core share it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pipelines {
    /// Pipelines of a core.
    pub each: f64,
    /// The share of its time, from above 0 to 1, in which a context alone on its core keeps one of
    /// them busy.
    pub busy: f64,
}

impl Pipelines {
    /// The factor by which the busy share of a context stretches when `running` contexts of its
    /// core run, itself among them: it waits for the others in proportion to their load.
    pub fn stretch(&self, running: usize) -> f64 {
        let others = running.saturating_sub(1) as f64;
        // The others stretch as well, so that each keeps its pipeline busy for less of its time.
        let mut stretch = 1.0;
        for _ in 0..64 {
            let load = others * self.busy / (1.0 - self.busy + self.busy * stretch) / self.each;
            stretch = (stretch + 1.0 / (1.0 - load.min(0.95))) / 2.0;
        }
        stretch
    }
}

/// The terms of a machine besides its latencies.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MachineTerms {
    /// Clock in GHz; `None` if it is unknown. A profile's costs scale by it.
    pub ghz: Option<f64>,
    /// Speed of a core relative to the machine on which the profile was measured; `None` lets the
    /// clocks decide ([`crate::EngineProfile::speed_on`]).
    pub speed: Option<f64>,
    /// Private cache of a core, in bytes.
    pub l2_bytes: f64,
    /// Last-level cache of a group, in bytes.
    pub l3_bytes: f64,
    /// Load of an unmodified line from the last-level cache of the core's group, in ns.
    pub l3_ns: f64,
    /// Load from the local node's memory, in ns.
    pub memory_local_ns: f64,
    /// Load from another node's memory, in ns.
    pub memory_remote_ns: f64,
    /// A short system call, in ns: the sender's part of waking a parked worker.
    pub syscall_ns: f64,
    /// From the wake-up call until the parked worker runs, in ns.
    pub wake_ns: f64,
    /// One way of a message by RDMA, from the start of the send to its completion at the receiver,
    /// in ns.
    pub rdma_ns: f64,
    /// Flush times by depth, ascending; never empty.
    pub flushes: Vec<Flush>,
    /// `None` where each context is a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipelines: Option<Pipelines>,
}

/// The defaults, measured on the virtual machine of the project's own figures (Xeon, 2 MB of L2),
/// 2026-11: wake-ups 12-33 us, flushes 76-250 us. RDMA was not measured: a send of 1 KiB over a
/// reliable connection took 1.5-1.6 us by `ib_send_lat` (D. Potter, master's thesis, table
/// `mtu_performance`; 0.8 us for 32 bytes, 2.3 us for 4 KiB).
impl Default for MachineTerms {
    fn default() -> MachineTerms {
        MachineTerms {
            ghz: None,
            speed: None,
            l2_bytes: 1_048_576.0,
            l3_bytes: 33_554_432.0,
            l3_ns: 20.0,
            memory_local_ns: 90.0,
            memory_remote_ns: 150.0,
            syscall_ns: 300.0,
            wake_ns: 20_000.0,
            rdma_ns: 1_600.0,
            flushes: vec![Flush { depth: 1, ns: 120_000.0 }],
            pipelines: None,
        }
    }
}

/// The kind of a level, finest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LevelName {
    /// Hardware threads of one core.
    Smt,
    /// A shared last-level cache.
    Cache,
    /// A package.
    Socket,
    /// One of several machines.
    Machine,
}

/// One level of the machine: a partition of its cores.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LevelGroups {
    pub level: LevelName,
    /// Positions of cores, ascending.
    pub groups: Vec<Vec<usize>>,
}

/// A machine on which deployments can be simulated. Cores are positions `0..cores()`.
///
/// Invariant: latencies are positive between different cores, and every term is positive.
#[derive(Clone, PartialEq, Debug)]
pub struct MachineModel {
    name: String,
    cores: usize,
    /// One-way ns between cores, row by row; 0 on the diagonal.
    latency: Vec<f32>,
    levels: Vec<LevelGroups>,
    /// The number of machines and the one-way ns of the network between them.
    network: Option<f64>,
    /// The machine of each core, for a cluster.
    host: Vec<u16>,
    /// The package of each core.
    package: Vec<u16>,
    terms: MachineTerms,
    defaulted: Vec<String>,
}

impl MachineModel {
    /// A machine from its parts. `latency` holds one-way ns row by row, `cores * cores` of them.
    ///
    /// # Errors
    /// A latency or term that is not positive; no latency.
    pub fn new(
        name: &str,
        latency: Vec<f32>,
        levels: Vec<LevelGroups>,
        terms: MachineTerms,
    ) -> Result<MachineModel, ModelError> {
        let cores = latency.len().isqrt();
        if cores == 0 || cores * cores != latency.len() {
            return Err(ModelError::NoLatencies { machine: name.to_owned() });
        }
        for (at, &ns) in latency.iter().enumerate() {
            let (i, j) = (at / cores, at % cores);
            if i != j && !(ns.is_finite() && ns > 0.0) {
                let what = format!("machine {name:?}: the latency of cores {i} and {j}");
                return Err(ModelError::Value {
                    what,
                    value: ns.to_string(),
                    expected: "nanoseconds above 0",
                });
            }
        }
        check_terms(name, &terms)?;
        let mut package = vec![0; cores];
        if let Some(sockets) = levels.iter().find(|l| l.level == LevelName::Socket) {
            for (number, group) in sockets.groups.iter().enumerate() {
                group.iter().for_each(|&core| package[core] = number as u16);
            }
        }
        let name = name.to_owned();
        let (network, host, defaulted) = (None, vec![0; cores], Vec::new());
        Ok(MachineModel { name, cores, latency, levels, network, host, package, terms, defaulted })
    }

    /// A machine of `cores` cores that are all `ns` apart: the smallest described machine.
    ///
    /// # Errors
    /// `ns` is not positive, or there is no core.
    pub fn uniform(cores: usize, ns: f64) -> Result<MachineModel, ModelError> {
        let at = |at: usize| if at / cores == at % cores { 0.0 } else { ns as f32 };
        let latency = (0..cores * cores).map(at).collect();
        let model = MachineModel::new("uniform", latency, Vec::new(), MachineTerms::default())?;
        Ok(model.with_defaulted(MachineTerms::names()))
    }

    /// A machine that `topology` describes or measured, with default terms. SMT siblings count as
    /// cores of their own.
    ///
    /// # Errors
    /// The machine has no latencies; a level's cores are as far apart inside as outside.
    pub fn from_topology(machine: &Machine) -> Result<MachineModel, ModelError> {
        let none = || ModelError::NoLatencies { machine: machine.model.clone() };
        let matrix = machine.latency.as_ref().ok_or_else(none)?;
        let cpus: Vec<CpuId> = matrix.cpus().to_vec();
        let n = cpus.len();
        let latency = (0..n * n).map(|at| matrix.at(at / n, at % n) as f32).collect();
        let mut levels = Vec::new();
        for level in &machine.levels {
            if level.inside_ns >= level.outside_ns {
                let problem = format!(
                    "cores of one {:?} group are {} ns apart, cores of two groups {} ns",
                    level.kind, level.inside_ns, level.outside_ns
                );
                return Err(ModelError::Levels { machine: machine.model.clone(), problem });
            }
            let position = |cpu: &CpuId| cpus.iter().position(|c| c == cpu);
            let groups = level.groups.iter().map(|g| g.iter().filter_map(position).collect()).collect();
            levels.push(LevelGroups { level: level.kind.into(), groups });
        }
        let mut terms = MachineTerms::default();
        let mut defaulted = MachineTerms::names();
        if let Some(bytes) = machine.l3.iter().find_map(|group| group.bytes) {
            terms.l3_bytes = bytes as f64;
            defaulted.retain(|name| name != "l3_bytes");
        }
        Ok(MachineModel::new(&machine.model, latency, levels, terms)?.with_defaulted(defaulted))
    }

    /// The machine that a `--machine` argument names: a machine file (`.toml`), or anything that
    /// [`Machine::parse`] takes.
    ///
    /// # Errors
    /// Those of the file, and those of [`MachineModel::from_topology`].
    pub fn parse(argument: &str) -> Result<MachineModel, ModelError> {
        let wrong = |problem: String| ModelError::File { file: argument.to_owned(), problem };
        if argument.ends_with(".toml") {
            let text = std::fs::read_to_string(argument).map_err(|e| wrong(e.to_string()))?;
            return file::MachineFile::parse(argument, &text)?.model();
        }
        let machine = Machine::parse(argument).map_err(|e| wrong(e.to_string()))?;
        MachineModel::from_topology(&machine)
    }

    fn with_defaulted(mut self, names: Vec<String>) -> MachineModel {
        self.defaulted = names;
        self
    }

    /// The same machine with these terms; none of them counts as a default any more.
    ///
    /// # Errors
    /// A term that is not positive.
    pub fn with_terms(mut self, terms: MachineTerms) -> Result<MachineModel, ModelError> {
        check_terms(&self.name, &terms)?;
        self.terms = terms;
        self.defaulted.clear();
        Ok(self)
    }

    /// The same machine with measured terms: ns of a load from memory, and of one flush.
    ///
    /// # Errors
    /// A term that is not positive.
    pub fn with_measured(
        mut self,
        memory_ns: Option<f64>,
        flush_ns: Option<f64>,
    ) -> Result<MachineModel, ModelError> {
        let mut known = Vec::new();
        if let Some(ns) = memory_ns {
            self.terms.memory_local_ns = ns;
            known.push("memory_local_ns");
        }
        if let Some(ns) = flush_ns {
            self.terms.flushes = vec![Flush { depth: 1, ns }];
            known.push("flushes");
        }
        check_terms(&self.name, &self.terms)?;
        self.defaulted.retain(|name| !known.contains(&name.as_str()));
        Ok(self)
    }

    /// The same machine with every latency between different cores multiplied by `factor`.
    #[must_use]
    pub fn stretched(mut self, factor: f64) -> MachineModel {
        self.latency.iter_mut().for_each(|ns| *ns *= factor as f32);
        self
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn cores(&self) -> usize {
        self.cores
    }

    /// One-way ns between two cores; 0 from a core to itself.
    #[inline]
    pub fn latency_ns(&self, a: usize, b: usize) -> f64 {
        f64::from(self.latency[a * self.cores + b])
    }

    /// The mean one-way ns over pairs of different cores of `group`; 0 for fewer than two.
    pub fn mean_ns(&self, group: &[usize]) -> f64 {
        let pairs = group.len() * group.len().saturating_sub(1);
        let sum: f64 = group.iter().flat_map(|&a| group.iter().map(move |&b| self.latency_ns(a, b))).sum();
        if pairs == 0 { 0.0 } else { sum / pairs as f64 }
    }

    /// The mean one-way ns over pairs of cores of `group` in different packages; 0 without such.
    pub fn mean_between_packages_ns(&self, group: &[usize]) -> f64 {
        let apart = |a: usize, b: usize| self.package[a] != self.package[b];
        let far =
            group.iter().flat_map(|&a| group.iter().filter(move |&&b| apart(a, b)).map(move |&b| (a, b)));
        let (sum, pairs) = far.fold((0.0, 0_usize), |(sum, n), (a, b)| (sum + self.latency_ns(a, b), n + 1));
        if pairs == 0 { 0.0 } else { sum / pairs as f64 }
    }

    /// The levels, finest first.
    pub fn levels(&self) -> &[LevelGroups] {
        &self.levels
    }

    /// Whether two cores belong to one machine, which shared memory and unix sockets need.
    pub fn is_one_host(&self, a: usize, b: usize) -> bool {
        self.host[a] == self.host[b]
    }

    /// One-way ns of the network, for a cluster of machines.
    pub fn network_ns(&self) -> Option<f64> {
        self.network
    }

    /// The package of a core.
    pub fn package(&self, core: usize) -> usize {
        usize::from(self.package[core])
    }

    pub fn terms(&self) -> &MachineTerms {
        &self.terms
    }

    /// The names of the terms that were not given, for the report.
    pub fn defaulted(&self) -> &[String] {
        &self.defaulted
    }

    /// The time of one flush with `depth` under way: the nearest depth at or below it.
    pub fn flush_ns(&self, depth: u32) -> f64 {
        let known = &self.terms.flushes;
        known.iter().rev().find(|f| f.depth <= depth.max(1)).unwrap_or(&known[0]).ns
    }
}

impl MachineTerms {
    /// The names of all terms.
    fn names() -> Vec<String> {
        let names = [
            "speed",
            "l2_bytes",
            "l3_bytes",
            "l3_ns",
            "memory_local_ns",
            "memory_remote_ns",
            "syscall_ns",
            "wake_ns",
            "rdma_ns",
            "flushes",
        ];
        names.map(str::to_owned).to_vec()
    }
}

impl From<topology::LevelKind> for LevelName {
    fn from(kind: topology::LevelKind) -> LevelName {
        match kind {
            topology::LevelKind::Smt => LevelName::Smt,
            topology::LevelKind::Cache => LevelName::Cache,
            topology::LevelKind::Socket => LevelName::Socket,
        }
    }
}

fn check_terms(name: &str, terms: &MachineTerms) -> Result<(), ModelError> {
    let known = [
        ("ghz", terms.ghz.unwrap_or(1.0)),
        ("speed", terms.speed.unwrap_or(1.0)),
        ("l2_bytes", terms.l2_bytes),
        ("l3_bytes", terms.l3_bytes),
        ("l3_ns", terms.l3_ns),
        ("memory_local_ns", terms.memory_local_ns),
        ("memory_remote_ns", terms.memory_remote_ns),
        ("syscall_ns", terms.syscall_ns),
        ("wake_ns", terms.wake_ns),
        ("rdma_ns", terms.rdma_ns),
        ("pipelines.each", terms.pipelines.map_or(1.0, |p| p.each)),
        ("pipelines.busy", terms.pipelines.map_or(1.0, |p| p.busy)),
    ];
    let flushes = terms.flushes.iter().map(|f| ("flushes", f.ns));
    for (term, value) in known.into_iter().chain(flushes) {
        if !(value.is_finite() && value > 0.0) {
            let what = format!("machine {name:?}: {term}");
            return Err(ModelError::Value { what, value: value.to_string(), expected: "a number above 0" });
        }
    }
    if let Some(busy) = terms.pipelines.map(|p| p.busy).filter(|busy| *busy > 1.0) {
        let what = format!("machine {name:?}: pipelines.busy");
        return Err(ModelError::Value { what, value: busy.to_string(), expected: "at most 1" });
    }
    let ascending = terms.flushes.windows(2).all(|pair| pair[0].depth < pair[1].depth);
    if terms.flushes.is_empty() || !ascending {
        let what = format!("machine {name:?}: flushes");
        let value = format!("{} depths", terms.flushes.len());
        return Err(ModelError::Value { what, value, expected: "at least one depth, ascending" });
    }
    Ok(())
}
