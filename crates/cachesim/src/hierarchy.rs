//! One core in front of its caches: where each access is found.

use crate::lru::SetCache;
use crate::machine::Machine;

/// The caches of which misses are counted, instructions and data apart.
pub const CACHES: [&str; 6] = ["l1i", "l2i", "l3i", "l1d", "l2d", "l3d"];
/// Where the data caches begin in [`CACHES`].
pub const DATA: usize = 3;

/// A private L1 of each kind, and two levels for both. No level contains another one by rule.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    pub l1i: SetCache,
    l1d: SetCache,
    l2: Option<SetCache>,
    l3: Option<SetCache>,
}

impl Hierarchy {
    pub fn of(machine: &Machine) -> Hierarchy {
        Hierarchy {
            l1i: machine.l1i.build(),
            l1d: machine.l1d.build(),
            l2: machine.l2.map(|cache| cache.build()),
            l3: machine.l3.map(|cache| cache.build()),
        }
    }

    /// The number of levels that miss: 0 where the L1 has the line.
    #[inline]
    pub fn fetch(&mut self, line: u64) -> usize {
        if self.l1i.access(line, 0).is_hit() { 0 } else { self.below(line) }
    }

    #[inline]
    pub fn data(&mut self, line: u64) -> usize {
        if self.l1d.access(line, 0).is_hit() { 0 } else { self.below(line) }
    }

    fn below(&mut self, line: u64) -> usize {
        let mut missed = 1;
        for level in [&mut self.l2, &mut self.l3].into_iter().flatten() {
            if level.access(line, 0).is_hit() {
                return missed;
            }
            missed += 1;
        }
        missed
    }
}

/// The cycles that a miss of each of [`CACHES`] costs: the latency of the next level (thesis,
/// section 6.3). 0 for a level that the machine does not have.
pub fn costs(machine: &Machine) -> [f64; 6] {
    let levels = [machine.l2, machine.l3].into_iter().flatten().map(|cache| cache.cycles);
    let mut latencies: Vec<f64> = levels.chain([machine.memory_cycles]).collect();
    latencies.resize(3, 0.0);
    let [a, b, c] = [latencies[0], latencies[1], latencies[2]];
    [a, b, c, a, b, c]
}
