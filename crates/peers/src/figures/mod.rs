//! Measurements of Atoll alone: the costs of a distributed transaction, of sharing and of the
//! language; memory; and data larger than memory.
//!
//! Each figure is a function from a size to numbers, which [`Figure`] prints. Instances live in
//! this process and their workers are pinned, so that the two sides of a ratio differ only in
//! design and distance.

mod distributed;
mod islands;
mod language;
mod larger;
mod memory;
mod pair;

pub use distributed::distributed;
pub use islands::islands;
pub use language::language;
pub use larger::{Asked, Larger, larger};
pub use memory::memory;

use crate::deployment::Times;
use crate::fault::PeerFault;
use crate::rounds::{HEADS, Series, cells};
use std::fmt;
use std::path::Path;
use topology::CpuId;

/// The size of a measurement, and its directory.
#[derive(Clone, Copy, Debug)]
pub struct Size<'a> {
    pub dataset: u64,
    pub rounds: u32,
    pub seed: u64,
    pub times: Times,
    /// The directory for databases.
    pub dir: &'a Path,
}

/// A table of several series, and the result derived from them.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The quantity of the values, with its unit.
    pub what: &'static str,
    pub series: Vec<Series>,
    /// Formats a value.
    pub show: fn(f64) -> String,
    /// The number that the figure is made for, as text and as a number.
    pub result: (String, f64),
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| {} | {HEADS} |\n|---|---:|---:|---:|", self.what)?;
        for series in &self.series {
            writeln!(f, "| {} | {} |", series.name, cells(series, self.show))?;
        }
        write!(f, "\n**{}**", self.result.0)
    }
}

/// The first `n` CPUs of this process.
fn cpus(n: usize) -> Result<Vec<Option<CpuId>>, PeerFault> {
    let allowed = topology::allowed_cpus();
    if allowed.len() < n {
        return Err(PeerFault::TooFewCpus { needed: n, given: allowed.len() });
    }
    Ok(allowed[..n].iter().copied().map(Some).collect())
}
