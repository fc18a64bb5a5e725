//! What is measured on Atoll alone: the cost of a distributed transaction, of sharing, of the language, memory, and data that do not fit into it.
//!
//! Each figure is a function from its size to numbers; [`Figure`] prints them. Instances live in this process and their
//! workers are pinned, so that nothing but the design and the distance differs between the two sides of a ratio.

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

/// How much is measured, and where.
#[derive(Clone, Copy, Debug)]
pub struct Size<'a> {
    pub dataset: u64,
    pub rounds: u32,
    pub seed: u64,
    pub times: Times,
    /// Databases live in here.
    pub dir: &'a Path,
}

/// A table of several series and what follows from them.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What the values are, and in which unit.
    pub what: &'static str,
    pub series: Vec<Series>,
    /// How a value is shown.
    pub show: fn(f64) -> String,
    /// The number that the figure is made for, in words and as such.
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
