//! `--islands`: the number of instances, as a number or as a word about the machine.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::PlacementError;
use crate::machine::Machine;

/// One value of `--islands`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IslandCount {
    /// This many instances.
    Count(usize),
    /// One instance per core.
    PerCore,
    /// One instance per L3 group (an island found by latency).
    PerL3,
    /// One instance per package.
    PerSocket,
    /// One instance over the whole machine.
    Shared,
}

impl IslandCount {
    /// The number of instances on `machine` with `workers` worker threads. The words never result
    /// in more instances than there are workers: one per core, if only some cores are used, means
    /// one per worker. A number may, and is then an error.
    pub fn resolve(self, machine: &Machine, workers: usize) -> Result<usize, PlacementError> {
        if workers == 0 {
            return Err(PlacementError::Zero { what: "workers" });
        }
        let instances = match self {
            IslandCount::Count(0) => return Err(PlacementError::Zero { what: "islands" }),
            IslandCount::Count(n) if n > workers => {
                return Err(PlacementError::MoreInstancesThanWorkers { instances: n, workers });
            }
            IslandCount::Count(n) => n,
            IslandCount::PerCore => machine.cores(),
            IslandCount::PerL3 => machine.l3_groups(),
            IslandCount::PerSocket => machine.packages(),
            IslandCount::Shared => 1,
        };
        Ok(instances.clamp(1, workers))
    }
}

impl fmt::Display for IslandCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IslandCount::Count(n) => n.fmt(f),
            IslandCount::PerCore => f.pad("per-core"),
            IslandCount::PerL3 => f.pad("per-l3"),
            IslandCount::PerSocket => f.pad("per-socket"),
            IslandCount::Shared => f.pad("shared"),
        }
    }
}

impl FromStr for IslandCount {
    type Err = PlacementError;

    fn from_str(word: &str) -> Result<IslandCount, PlacementError> {
        match word {
            "per-core" => Ok(IslandCount::PerCore),
            "per-l3" => Ok(IslandCount::PerL3),
            "per-socket" => Ok(IslandCount::PerSocket),
            "shared" => Ok(IslandCount::Shared),
            _ => match word.parse() {
                Ok(0) => Err(PlacementError::Zero { what: "islands" }),
                Ok(n) => Ok(IslandCount::Count(n)),
                Err(_) => Err(PlacementError::UnknownSize { word: word.to_owned() }),
            },
        }
    }
}

/// The numbers of instances that fit the machine: one in all, one per socket, per L3 group, per
/// core. Ascending, without repeats, none above `workers`.
pub fn default_islands(machine: &Machine, workers: usize) -> Vec<usize> {
    let all = [1, machine.packages(), machine.l3_groups(), machine.cores()];
    let mut sizes: Vec<usize> = all.into_iter().filter(|n| *n >= 1 && *n <= workers).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}
