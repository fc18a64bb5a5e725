//! From the coordinates in a description to the numbered tables of a [`Machine`].
//!
//! Each reader (`sysfs`, `xml`, `synthetic`) identifies a CPU's core, cache and package by keys of
//! its own. Here keys become numbers in the order of their first appearance. So if a reader lists
//! neighbours together, neighbours get adjacent numbers, independent of the operating system's
//! numbers.

use crate::cpu::{CpuId, NodeId};
use crate::machine::{L3Group, Machine, NumaNode, Pu, Source};

/// The most CPUs that a description may name. Bounds the memory for a wrong file (64 MiB of
/// latencies).
pub(crate) const MOST_CPUS: usize = 4096;

/// One CPU as a reader sees it. Equal keys mean the same object.
pub(crate) struct RawPu {
    pub(crate) cpu: CpuId,
    pub(crate) core: u64,
    /// Key and size of the L3; `None` if no L3 is named.
    pub(crate) l3: Option<(u64, Option<u64>)>,
    /// `None` if no package is named.
    pub(crate) package: Option<u64>,
    pub(crate) node: Option<NodeId>,
}

/// NUMA nodes, and the distances between them in the same order (or nothing).
#[derive(Default)]
pub(crate) struct Numa {
    pub(crate) nodes: Vec<NumaNode>,
    pub(crate) distances: Vec<Vec<u64>>,
}

/// The object that counts as an L3 group where no L3 is named.
#[derive(Clone, Copy, PartialEq)]
enum GroupKey {
    Cache(u64),
    Package(u64),
    Node(Option<NodeId>),
}

/// Builds the machine of these CPUs. The error text states the problem.
pub(crate) fn assemble(
    source: Source,
    model: String,
    raw: Vec<RawPu>,
    numa: Numa,
) -> Result<Machine, String> {
    if raw.is_empty() {
        return Err("names no CPU".to_owned());
    }
    if raw.len() > MOST_CPUS {
        return Err(format!("names {} CPUs, more than {MOST_CPUS}", raw.len()));
    }
    let (mut cores, mut packages, mut groups) = (Vec::new(), Vec::new(), Vec::new());
    let mut l3 = Vec::new();
    let mut pus = Vec::with_capacity(raw.len());
    for raw in &raw {
        let key = match (raw.l3, raw.package) {
            (Some((cache, _)), _) => GroupKey::Cache(cache),
            (None, Some(package)) => GroupKey::Package(package),
            (None, None) => GroupKey::Node(raw.node),
        };
        let group = number(&mut groups, key);
        if group as usize == l3.len() {
            l3.push(L3Group { l3: group, bytes: raw.l3.and_then(|(_, bytes)| bytes) });
        }
        pus.push(Pu {
            cpu: raw.cpu,
            core: number(&mut cores, raw.core),
            l3: group,
            package: number(&mut packages, raw.package),
            node: raw.node,
            allowed: true,
        });
    }
    pus.sort_by_key(|pu| pu.cpu);
    if let Some(twice) = pus.windows(2).find(|pair| pair[0].cpu == pair[1].cpu) {
        return Err(format!("names CPU {} twice", twice[0].cpu));
    }
    let mut machine = Machine::from_tables(source, model, pus);
    machine.l3 = l3;
    machine.nodes = numa.nodes;
    machine.node_distances = numa.distances;
    Ok(machine)
}

/// The position of `key` among those seen so far.
fn number<K: PartialEq>(met: &mut Vec<K>, key: K) -> u32 {
    // Searches from the end: readers list neighbours together.
    let at = met.iter().rposition(|known| *known == key).unwrap_or_else(|| {
        met.push(key);
        met.len() - 1
    });
    at as u32
}
