//! Measured cells, the terms that they determine, and solved terms.

use crate::deployment::{Channel, Durability};
use serde::{Deserialize, Serialize};

/// The bounds of a factor. Below the least one a cost is as good as none.
pub(super) const LEAST: f64 = 1.0 / 32.0;
pub(super) const MOST: f64 = 256.0;
/// A cell is missed by more than the scatter of a window (4 %).
const MISSED: f64 = 0.08;

/// A measured cell: the throughput of a deployment of this machine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    pub design: String,
    pub islands: usize,
    /// Of all instances.
    pub workers: usize,
    pub channel: Channel,
    /// The workload's share of distributed transactions, in per cent.
    pub multisite: f64,
    /// Rows, for a workload of which the size can be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<u64>,
    /// Closed clients per worker.
    pub clients: u32,
    pub durability: Durability,
    /// Transactions per second: the median window.
    pub tps: f64,
    /// The slowest and the fastest window.
    pub tps_min: f64,
    pub tps_max: f64,
    /// The number of windows.
    #[serde(default = "one")]
    pub windows: usize,
    /// Every window was measured beside other work.
    #[serde(default)]
    pub is_disturbed: bool,
}

fn one() -> usize {
    1
}

impl Cell {
    /// Half the range of the windows as a share of the median; `None` for a single window.
    pub fn spread(&self) -> Option<f64> {
        (self.windows > 1).then(|| (self.tps_max - self.tps_min) / 2.0 / self.tps)
    }
}

/// A cell to be measured. [`super::cells_to_measure`] puts them in the order of their worth.
#[derive(Clone, PartialEq, Debug)]
pub struct Wanted {
    pub term: Term,
    pub design: String,
    pub islands: usize,
    pub workers: usize,
    pub channel: Channel,
    pub multisite: f64,
    /// Another size than that of the other cells.
    pub dataset: Option<u64>,
    /// Another durability than that of the load.
    pub durability: Option<Durability>,
    /// Kin have the same cell: others are worth a second window before this one has its first.
    pub is_later: bool,
}

/// The load that cells are measured for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Load {
    /// The share, in per cent, of the distributed cells; at 0 there are none, as for a workload
    /// that is local by its definition.
    pub multisite: f64,
    /// Another size of the data, if it can be set.
    pub dataset: Option<u64>,
    pub durability: Durability,
    /// Some transactions update rows.
    pub is_updating: bool,
    /// Clients send requests to the instance of their rows: also without distributed transactions
    /// there are messages.
    pub is_routed: bool,
}

/// A number that a calibration determines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Term {
    Work,
    Memory,
    /// Writes of the log, where each commit waits for one.
    Log,
    Sharing,
    Relief,
    Handoff,
    Parts,
    /// Requests to the instance of their rows.
    Forward,
    /// Sockets: the costs of a channel that is not the design's memory channel.
    Channel,
}

impl Term {
    pub fn name(self) -> &'static str {
        match self {
            Term::Work => "work",
            Term::Memory => "misses",
            Term::Log => "writes of the log",
            Term::Sharing => "sharing",
            Term::Relief => "relief",
            Term::Handoff => "hand-over",
            Term::Parts => "distributed parts",
            Term::Forward => "forwarded requests",
            Term::Channel => "channel",
        }
    }
}

/// One solved term.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    pub term: Term,
    pub cell: Cell,
    /// The new cost as a multiple of the old one.
    pub factor: f64,
    /// Transactions per second that the simulation gives with it.
    pub tps: f64,
    /// The design has no such cell: the factor is that of other designs, and so is the cell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_assumed: bool,
}

impl Fit {
    /// Whether no cost explains the cell: the factor is the least or the greatest that is tried,
    /// and the simulation misses the cell with it. The least one alone says that the cost is none.
    pub fn is_at_bound(&self) -> bool {
        if self.is_assumed {
            return false;
        }
        let is_last = self.is_none() || self.factor >= MOST * 0.99;
        is_last && (self.tps / self.cell.tps - 1.0).abs() > MISSED
    }

    /// Whether the cost is as good as none.
    pub(super) fn is_none(&self) -> bool {
        self.factor <= LEAST * 1.01
    }
}
