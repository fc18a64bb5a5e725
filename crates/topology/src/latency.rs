//! Core-to-core latencies as a value.
//!
//! The unit is always nanoseconds one way: the time from one core's write of a cache line until
//! another core has seen it. That is half a round trip of a compare-and-swap ping-pong.

use serde::{Deserialize, Serialize};

use crate::cpu::CpuId;

/// A symmetric matrix over a set of CPUs.
///
/// Invariant: `ns` holds the lower triangle without the diagonal, row by row, so its length is
/// n(n-1)/2. Every value is finite and positive. Deserialising checks it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Raw")]
pub struct LatencyMatrix {
    cpus: Vec<CpuId>,
    ns: Vec<f64>,
}

#[derive(Deserialize)]
struct Raw {
    cpus: Vec<CpuId>,
    ns: Vec<f64>,
}

impl TryFrom<Raw> for LatencyMatrix {
    type Error = String;

    fn try_from(raw: Raw) -> Result<LatencyMatrix, String> {
        LatencyMatrix::new(raw.cpus, raw.ns).ok_or_else(|| {
            "a latency matrix needs n(n-1)/2 positive nanoseconds for n distinct CPUs".to_owned()
        })
    }
}

impl LatencyMatrix {
    /// A matrix over `cpus` from its lower triangle (see the type); `None` if the invariant does
    /// not hold.
    pub fn new(cpus: Vec<CpuId>, ns: Vec<f64>) -> Option<LatencyMatrix> {
        let mut distinct = cpus.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let whole = ns.len() == cpus.len() * cpus.len().saturating_sub(1) / 2;
        let sane = ns.iter().all(|ns| ns.is_finite() && *ns > 0.0);
        (whole && sane && distinct.len() == cpus.len()).then_some(LatencyMatrix { cpus, ns })
    }

    /// The CPUs, in the order of rows and columns.
    pub fn cpus(&self) -> &[CpuId] {
        &self.cpus
    }

    /// One-way nanoseconds between the CPUs at two positions of [`LatencyMatrix::cpus`]; 0 from a
    /// CPU to itself.
    pub fn at(&self, i: usize, j: usize) -> f64 {
        let (row, column) = (i.max(j), i.min(j));
        if row == column { 0.0 } else { self.ns[row * (row - 1) / 2 + column] }
    }

    /// One-way nanoseconds between two CPUs; `None` if one of them is not in the matrix.
    pub fn between(&self, a: CpuId, b: CpuId) -> Option<f64> {
        let position = |cpu| self.cpus.iter().position(|c| *c == cpu);
        Some(self.at(position(a)?, position(b)?))
    }

    /// Median over all pairs with one CPU in each group (within one group: over its pairs); `None`
    /// without a pair.
    pub fn median_between(&self, a: &[CpuId], b: &[CpuId]) -> Option<f64> {
        let positions = |group: &[CpuId]| -> Vec<usize> {
            (0..self.cpus.len()).filter(|at| group.contains(&self.cpus[*at])).collect()
        };
        let (a, b) = (positions(a), positions(b));
        let pairs = a.iter().flat_map(|i| b.iter().map(move |j| (*i, *j))).filter(|(i, j)| i != j);
        median(pairs.map(|(i, j)| self.at(i, j)).collect())
    }

    /// Median over all pairs; `None` with fewer than two CPUs.
    pub fn median(&self) -> Option<f64> {
        median(self.ns.clone())
    }
}

/// The middle value (the mean of the two middle ones); `None` for an empty list.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}
