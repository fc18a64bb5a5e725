//! Machine files: a machine described by its levels, as TOML.
//!
//! ```toml
//! name = "..."              # shown in reports
//! source = "..."            # where the figures come from
//! topology = "package:4 core:6"   # hwloc's synthetic form; or:
//! latencies = "x.csv"       # a latency file beside this one
//! machines = 1              # copies of it in a cluster
//! ghz = 1.86
//! [latency_ns]              # one way; not with `latencies`
//! smt = 10                  # between threads of one core, if there are any
//! cache = 59                # inside an L3 group (or a package, where it has one L3)
//! socket = 100              # between L3 groups of one package, if there are several
//! hops = [155, 200]         # between packages, by the number of links on the way
//! network = 20000           # between machines, by TCP
//! [links]                   # optional: packages joined by a link; all, if it is absent
//! pairs = [[0, 1], [1, 2]]
//! [terms]                   # optional, each with a default that reports name
//! l2_bytes = 262144
//! rdma_ns = 1600            # one way of a message by RDMA
//! pipelines = { each = 2, busy = 0.16 }   # where contexts share a core
//! ```

use super::{Flush, LevelGroups, LevelName, MachineModel, MachineTerms, Pipelines};
use crate::error::ModelError;
use serde::Deserialize;
use std::collections::VecDeque;
use std::path::Path;
use topology::Machine;

/// A machine file's content.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineFile {
    /// The path, for error texts and for `latencies`.
    #[serde(skip)]
    pub path: String,
    pub name: String,
    pub source: String,
    pub topology: Option<String>,
    pub latencies: Option<String>,
    #[serde(default = "one")]
    pub machines: usize,
    pub ghz: Option<f64>,
    pub latency_ns: Option<Distances>,
    pub links: Option<Links>,
    #[serde(default)]
    pub terms: Terms,
}

/// One-way nanoseconds by level.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distances {
    pub smt: Option<f64>,
    pub cache: Option<f64>,
    pub socket: Option<f64>,
    #[serde(default)]
    pub hops: Vec<f64>,
    pub network: Option<f64>,
}

/// The links between packages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Links {
    pub pairs: Vec<[usize; 2]>,
}

/// Terms that replace defaults; see [`MachineTerms`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    pub speed: Option<f64>,
    pub l2_bytes: Option<f64>,
    pub l3_bytes: Option<f64>,
    pub l3_ns: Option<f64>,
    pub memory_local_ns: Option<f64>,
    pub memory_remote_ns: Option<f64>,
    pub syscall_ns: Option<f64>,
    pub wake_ns: Option<f64>,
    pub rdma_ns: Option<f64>,
    pub flushes: Option<Vec<Flush>>,
    pub pipelines: Option<Pipelines>,
}

/// The number of a CPU's group on one level.
type Coordinate = fn(&topology::Pu) -> u32;

fn one() -> usize {
    1
}

/// The most cores of a described machine: latencies are kept for every pair.
const MOST_CORES: usize = 4_096;

impl MachineFile {
    /// # Errors
    /// Text that is no machine file, with the parser's complaint.
    pub fn parse(path: &str, text: &str) -> Result<MachineFile, ModelError> {
        let wrong = |e: toml::de::Error| ModelError::File { file: path.to_owned(), problem: e.to_string() };
        let mut file: MachineFile = toml::from_str(text).map_err(wrong)?;
        path.clone_into(&mut file.path);
        Ok(file)
    }

    /// # Errors
    /// No latencies, both kinds of latencies, contradictory levels, or too many cores.
    pub fn model(&self) -> Result<MachineModel, ModelError> {
        let one = self.one_machine()?;
        let (terms, defaulted) = self.terms();
        let defaulted = one.defaulted.iter().filter(|n| defaulted.contains(n)).cloned().collect();
        let mut model = self.cluster(one, terms)?;
        model.defaulted = defaulted;
        Ok(model)
    }

    fn wrong(&self, problem: String) -> ModelError {
        ModelError::File { file: self.path.clone(), problem }
    }

    fn contradiction(&self, problem: String) -> ModelError {
        ModelError::Levels { machine: self.name.clone(), problem }
    }

    fn one_machine(&self) -> Result<MachineModel, ModelError> {
        match (&self.latencies, &self.latency_ns, &self.topology) {
            (Some(csv), given, None) if given.as_ref().is_none_or(Distances::is_network_only) => {
                let beside = Path::new(&self.path).with_file_name(csv);
                MachineModel::parse(&beside.to_string_lossy())
            }
            (Some(_), _, _) => Err(self.wrong(
                "`latencies` names a file with all distances, so `topology` and [latency_ns] are too much"
                    .into(),
            )),
            (None, Some(distances), Some(topology)) => self.by_levels(topology, distances),
            (None, Some(_), None) => Err(self.wrong("[latency_ns] needs a `topology`".into())),
            (None, None, _) => Err(ModelError::NoLatencies { machine: self.name.clone() }),
        }
    }

    fn by_levels(&self, topology: &str, distances: &Distances) -> Result<MachineModel, ModelError> {
        let machine = Machine::parse(topology).map_err(|e| self.wrong(e.to_string()))?;
        let pus = &machine.pus;
        let hops = self.hops(machine.packages())?;
        self.check_order(distances)?;
        let n = pus.len();
        let mut latency = vec![0.0_f32; n * n];
        for (i, a) in pus.iter().enumerate() {
            for (j, b) in pus.iter().enumerate().filter(|(j, _)| *j != i) {
                let level = if a.core == b.core {
                    (distances.smt, "smt")
                } else if a.l3 == b.l3 {
                    (distances.cache, "cache")
                } else if a.package == b.package {
                    (distances.socket, "socket")
                } else {
                    let hops = hops[a.package as usize][b.package as usize];
                    (distances.hops.get(hops - 1).copied(), "hops")
                };
                let missing =
                    || self.wrong(format!("[latency_ns] has no `{}` that this topology needs", level.1));
                latency[i * n + j] = level.0.ok_or_else(missing)? as f32;
            }
        }
        let mut levels = Vec::new();
        let kinds: [(LevelName, Coordinate); 3] = [
            (LevelName::Smt, |pu| pu.core),
            (LevelName::Cache, |pu| pu.l3),
            (LevelName::Socket, |pu| pu.package),
        ];
        for (level, of) in kinds {
            let mut numbers: Vec<u32> = pus.iter().map(of).collect();
            numbers.sort_unstable();
            numbers.dedup();
            let group = |number: u32| (0..n).filter(|&at| of(&pus[at]) == number).collect::<Vec<_>>();
            let groups: Vec<Vec<usize>> = numbers.into_iter().map(group).collect();
            let known = levels.last().is_some_and(|last: &LevelGroups| last.groups == groups);
            // A package with one L3 is a socket, no level of caches.
            if groups.len() > 1 && groups.len() < n {
                if known {
                    levels.pop();
                }
                levels.push(LevelGroups { level, groups });
            }
        }
        let model = MachineModel::new(&self.name, latency, levels, MachineTerms::default())?;
        Ok(model.with_defaulted(MachineTerms::names()))
    }

    /// The number of links between two packages, by the shortest way.
    fn hops(&self, packages: usize) -> Result<Vec<Vec<usize>>, ModelError> {
        let Some(links) = &self.links else { return Ok(vec![vec![1; packages]; packages]) };
        if links.pairs.iter().flatten().any(|&package| package >= packages) {
            return Err(self.wrong(format!("[links] names a package of {packages} that is not there")));
        }
        let near = |a: usize| {
            let other = move |pair: &[usize; 2]| match *pair {
                [x, y] if x == a => Some(y),
                [x, y] if y == a => Some(x),
                _ => None,
            };
            links.pairs.iter().filter_map(other)
        };
        let mut hops = vec![vec![0; packages]; packages];
        for (from, row) in hops.iter_mut().enumerate() {
            let mut seen = vec![false; packages];
            seen[from] = true;
            let mut queue = VecDeque::from([from]);
            while let Some(at) = queue.pop_front() {
                for next in near(at) {
                    if !std::mem::replace(&mut seen[next], true) {
                        row[next] = row[at] + 1;
                        queue.push_back(next);
                    }
                }
            }
            if seen.contains(&false) {
                return Err(
                    self.contradiction(format!("no way of [links] leads from package {from} to all others"))
                );
            }
        }
        Ok(hops)
    }

    /// A farther level must not be nearer.
    fn check_order(&self, d: &Distances) -> Result<(), ModelError> {
        let hops = d.hops.iter().enumerate().map(|(at, &ns)| (format!("hops[{at}]"), ns));
        let inside = [("smt", d.smt), ("cache", d.cache), ("socket", d.socket)];
        let inside = inside.into_iter().filter_map(|(name, ns)| Some((name.to_owned(), ns?)));
        let network = d.network.map(|ns| ("network".to_owned(), ns));
        let all: Vec<(String, f64)> = inside.chain(hops).chain(network).collect();
        match all.windows(2).find(|pair| pair[0].1 > pair[1].1) {
            Some([(near, a), (far, b)]) => {
                Err(self.contradiction(format!("{near} {a} ns is above {far} {b} ns")))
            }
            _ => Ok(()),
        }
    }

    fn terms(&self) -> (MachineTerms, Vec<String>) {
        let (mut terms, mut defaulted) = (MachineTerms::default(), MachineTerms::names());
        terms.ghz = self.ghz;
        terms.speed = self.terms.speed;
        terms.pipelines = self.terms.pipelines;
        let t = &self.terms;
        let numbers = [
            ("l2_bytes", t.l2_bytes, &mut terms.l2_bytes),
            ("l3_bytes", t.l3_bytes, &mut terms.l3_bytes),
            ("l3_ns", t.l3_ns, &mut terms.l3_ns),
            ("memory_local_ns", t.memory_local_ns, &mut terms.memory_local_ns),
            ("memory_remote_ns", t.memory_remote_ns, &mut terms.memory_remote_ns),
            ("syscall_ns", t.syscall_ns, &mut terms.syscall_ns),
            ("wake_ns", t.wake_ns, &mut terms.wake_ns),
            ("rdma_ns", t.rdma_ns, &mut terms.rdma_ns),
        ];
        let mut given = Vec::new();
        for (name, value, place) in numbers {
            if let Some(value) = value {
                *place = value;
                given.push(name);
            }
        }
        if let Some(flushes) = &t.flushes {
            terms.flushes.clone_from(flushes);
            given.push("flushes");
        }
        if t.speed.is_some() || self.ghz.is_some() {
            given.push("speed");
        }
        defaulted.retain(|name| !given.contains(&name.as_str()));
        (terms, defaulted)
    }

    /// `machines` copies of a machine, joined by the network.
    fn cluster(&self, one: MachineModel, terms: MachineTerms) -> Result<MachineModel, ModelError> {
        let (n, copies) = (one.cores, self.machines);
        let network = self.latency_ns.as_ref().and_then(|d| d.network);
        if copies == 0 || n * copies > MOST_CORES {
            return Err(
                self.wrong(format!("{copies} machines of {n} cores: expected 1 to {MOST_CORES} cores"))
            );
        }
        if copies == 1 {
            return MachineModel::new(&self.name, one.latency, one.levels, terms);
        }
        let missing = || self.wrong("several machines need `network` in [latency_ns]".into());
        let network = network.ok_or_else(missing)?;
        let all = n * copies;
        let ns = |at: usize| {
            let (i, j) = (at / all, at % all);
            if i / n == j / n { one.latency[(i % n) * n + j % n] } else { network as f32 }
        };
        let latency = (0..all * all).map(ns).collect();
        let copy = |groups: &[Vec<usize>], to: usize| -> Vec<Vec<usize>> {
            groups.iter().map(|g| g.iter().map(|core| core + to * n).collect()).collect()
        };
        let mut levels: Vec<LevelGroups> = one.levels.clone();
        for level in &mut levels {
            level.groups = (0..copies).flat_map(|to| copy(&level.groups, to)).collect();
        }
        let groups = (0..copies).map(|to| (to * n..(to + 1) * n).collect()).collect();
        levels.push(LevelGroups { level: LevelName::Machine, groups });
        let mut model = MachineModel::new(&self.name, latency, levels, terms)?;
        model.network = Some(network);
        model.host = (0..all).map(|core| (core / n) as u16).collect();
        Ok(model)
    }
}

impl Distances {
    fn is_network_only(&self) -> bool {
        self.smt.is_none() && self.cache.is_none() && self.socket.is_none() && self.hops.is_empty()
    }
}
