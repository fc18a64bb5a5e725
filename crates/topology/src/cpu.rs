//! Names of places: a CPU and a NUMA node, as the operating system numbers them.
//!
//! Both are the numbers of `/sys`, `taskset` and `numactl`, so that what Atoll prints can be typed there.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A logical CPU (hwloc's processing unit, Linux' `cpuN`): the thing a thread can be pinned to. Two SMT siblings
/// are two CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CpuId(pub u32);

/// A NUMA node by its operating-system number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u32);

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Writes CPUs the way `/sys` and `taskset` do: `0-7,96-103`. The order given does not matter.
pub fn cpu_list(cpus: &[CpuId]) -> String {
    let mut sorted: Vec<u32> = cpus.iter().map(|cpu| cpu.0).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let runs = sorted.chunk_by(|a, b| *b == *a + 1).map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    runs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_joined() {
        let cpus = [9, 0, 1, 2, 7, 2].map(CpuId);
        assert_eq!(cpu_list(&cpus), "0-2,7,9");
        assert_eq!(cpu_list(&[]), "");
    }
}
