//! Names of places: a CPU and a NUMA node, as the operating system numbers them.
//!
//! The numbers are those of `/sys`, `taskset` and `numactl`, so Atoll's output can be passed to
//! these tools.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A logical CPU (hwloc's processing unit, Linux' `cpuN`), to which a thread can be pinned. Two SMT
/// siblings are two CPUs.
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

/// Formats CPUs as `/sys` and `taskset` do: `0-7,96-103`. The given order does not matter.
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

/// Parses such a list. `None` if it is malformed or names a number that no machine has.
pub(crate) fn parse_cpu_list(text: &str) -> Option<Vec<CpuId>> {
    const MOST: u32 = 1 << 16;
    let mut cpus = Vec::new();
    for run in text.trim().split(',').filter(|run| !run.is_empty()) {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last >= MOST || first > last {
            return None;
        }
        cpus.extend((first..=last).map(CpuId));
    }
    Some(cpus)
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

    #[test]
    fn lists_read_back_and_nonsense_does_not() {
        let cpus = parse_cpu_list("0-2,7,96-97\n").unwrap();
        assert_eq!(cpu_list(&cpus), "0-2,7,96-97");
        assert_eq!(parse_cpu_list("\n"), Some(Vec::new()));
        assert!(["x", "3-1", "0-4000000000"].iter().all(|text| parse_cpu_list(text).is_none()));
    }
}
