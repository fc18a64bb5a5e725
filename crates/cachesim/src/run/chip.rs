//! The caches of a chip: private ones of each core, a shared last level in slices over a torus, and
//! memory. Data lines of the L1-D are kept coherent by invalidation.

use crate::lru::{Access, SetCache};
use crate::machine::{Machine, Shared};

/// The note of a line of an L1-D that no other L1-D has.
const OWNED: u8 = 1;
/// The note of a line of an L1-I that a prefetch brought and nothing has used.
const PREFETCHED: u8 = 1;

/// How instruction misses are hidden.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hiding {
    None,
    NextLine,
    /// They never stall.
    All,
}

/// Counts of a run.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Tally {
    pub instructions: u64,
    pub l1i_misses: u64,
    pub loads: u64,
    pub stores: u64,
    pub load_misses: u64,
    pub store_misses: u64,
    /// Of these, the ones on lines of the transaction's own stack.
    pub private_misses: u64,
    /// Misses of the last level, of instructions and data.
    pub llc_misses: u64,
    pub llc_accesses: u64,
    /// Cycles in which a context waited for instructions, and for data.
    pub instruction_stalls: f64,
    pub data_stalls: f64,
}

impl Tally {
    pub fn data_misses(&self) -> u64 {
        self.load_misses + self.store_misses
    }
}

#[derive(Debug)]
struct Core {
    l1i: SetCache,
    l1d: SetCache,
    l2: Option<SetCache>,
    /// Prefetches under way: the line and the time at which it is there.
    coming: [(u64, f64); 8],
    next: usize,
}

#[derive(Debug)]
pub struct Chip {
    cores: Vec<Core>,
    llc: SetCache,
    memory: f64,
    l2_cycles: f64,
    pub shared: Shared,
    hiding: Hiding,
    width: usize,
    /// The line of code that the last fetch drove out.
    pub driven_out: Option<u64>,
    pub tally: Tally,
}

impl Chip {
    /// # Panics
    /// If the machine has no shared cache.
    pub fn new(machine: &Machine, cores: usize, hiding: Hiding) -> Chip {
        let shared = machine.shared.expect("a chip's machine has a shared cache");
        let core = || Core {
            l1i: machine.l1i.build(),
            l1d: machine.l1d.build(),
            l2: machine.l2.map(|cache| cache.build()),
            coming: [(u64::MAX, 0.0); 8],
            next: 0,
        };
        let lines = shared.kb * 1024 / 64 * cores;
        Chip {
            cores: (0..cores).map(|_| core()).collect(),
            llc: SetCache::new(lines / shared.ways, shared.ways),
            memory: machine.memory_cycles,
            l2_cycles: machine.l2.map_or(0.0, |cache| cache.cycles),
            shared,
            hiding,
            width: width(cores),
            driven_out: None,
            tally: Tally::default(),
        }
    }

    pub fn l1i(&self, core: usize) -> &SetCache {
        &self.cores[core].l1i
    }

    pub fn l1i_mut(&mut self, core: usize) -> &mut SetCache {
        &mut self.cores[core].l1i
    }

    /// Fetches a line of code at time `now`: whether the L1-I had it, and the cycles of the stall.
    #[inline]
    pub fn fetch(&mut self, core: usize, line: u64, now: f64) -> (bool, f64) {
        match self.cores[core].l1i.access(line, 0) {
            Access::Hit(0) => (true, 0.0),
            Access::Hit(_) if self.hiding == Hiding::NextLine => (true, self.first_use(core, line, now)),
            Access::Hit(_) => (true, 0.0),
            Access::Miss(left) => {
                self.driven_out = left.map(|(line, _)| line);
                self.tally.l1i_misses += 1;
                let cycles = self.below(core, line).0 * self.shared.shown_instruction;
                if self.hiding == Hiding::NextLine {
                    self.prefetch(core, line + 1, now);
                }
                let stall = if self.hiding == Hiding::All { 0.0 } else { cycles };
                self.tally.instruction_stalls += stall;
                (false, stall)
            }
        }
    }

    /// The first use of a prefetched line: what is left of its way, and the next prefetch.
    fn first_use(&mut self, core: usize, line: u64, now: f64) -> f64 {
        self.cores[core].l1i.set_note(line, 0);
        let there = self.cores[core].coming.iter().find(|(coming, _)| *coming == line).map_or(0.0, |c| c.1);
        let stall = (there - now).max(0.0);
        self.tally.instruction_stalls += stall;
        self.prefetch(core, line + 1, now);
        stall
    }

    fn prefetch(&mut self, core: usize, line: u64, now: f64) {
        if self.cores[core].l1i.holds(line) {
            return;
        }
        let cycles = self.below(core, line).0;
        let core = &mut self.cores[core];
        core.l1i.access(line, PREFETCHED);
        core.coming[core.next] = (line, now + cycles);
        core.next = (core.next + 1) % core.coming.len();
    }

    /// Loads or stores a line of data, which may be of the transaction's own stack: the cycles of
    /// the stall.
    #[inline]
    pub fn data(&mut self, core: usize, line: u64, store: bool, own: bool) -> f64 {
        if store {
            self.tally.stores += 1;
        } else {
            self.tally.loads += 1;
        }
        match self.cores[core].l1d.access(line, if store { OWNED } else { 0 }) {
            Access::Hit(note) => {
                if store && note != OWNED {
                    self.invalidate(core, line);
                    self.cores[core].l1d.set_note(line, OWNED);
                }
                0.0
            }
            Access::Miss(_) => {
                self.tally.private_misses += u64::from(own);
                self.data_miss(core, line, store)
            }
        }
    }

    fn data_miss(&mut self, core: usize, line: u64, store: bool) -> f64 {
        if store {
            self.tally.store_misses += 1;
            self.invalidate(core, line);
        } else {
            self.tally.load_misses += 1;
            for (_, other) in self.others(core) {
                if other.l1d.note(line) == Some(OWNED) {
                    other.l1d.set_note(line, 0);
                }
            }
        }
        let (cycles, found) = self.below(core, line);
        let shown = match (found, store) {
            (true, true) => self.shared.shown_store,
            (true, false) => self.shared.shown_data,
            (false, _) => self.shared.shown_memory,
        };
        self.tally.data_stalls += cycles * shown;
        cycles * shown
    }

    fn others(&mut self, core: usize) -> impl Iterator<Item = (usize, &mut Core)> {
        self.cores.iter_mut().enumerate().filter(move |(number, _)| *number != core)
    }

    /// Takes a line out of the private data caches of all other cores.
    fn invalidate(&mut self, core: usize, line: u64) {
        for (_, other) in self.others(core) {
            other.l1d.remove(line);
            if let Some(l2) = &mut other.l2 {
                l2.remove(line);
            }
        }
    }

    /// Goes on below the L1: the whole latency, and whether a cache had the line.
    fn below(&mut self, core: usize, line: u64) -> (f64, bool) {
        if let Some(l2) = &mut self.cores[core].l2
            && l2.access(line, 0).is_hit()
        {
            return (self.l2_cycles, true);
        }
        let above = self.l2_cycles;
        let (cycles, found) = self.last_level(core, line);
        (above + cycles, found)
    }

    fn last_level(&mut self, core: usize, line: u64) -> (f64, bool) {
        self.tally.llc_accesses += 1;
        let slice = (line % self.cores.len() as u64) as usize;
        let way = 2.0 * self.hops(core, slice) as f64 * self.shared.hop_cycles;
        let cycles = self.shared.cycles + way;
        if self.llc.access(line, 0).is_hit() {
            return (cycles, true);
        }
        self.tally.llc_misses += 1;
        (cycles + self.memory, false)
    }

    /// Writes or reads the state of a transaction that moves: lines of the last level, for each
    /// place in the pool.
    pub fn carry(&mut self, slot: u64) {
        for i in 0..self.shared.switch_lines {
            // Lines that no trace has.
            let line = (1 << 50) + slot * 16 + i;
            self.tally.llc_accesses += 1;
            self.tally.llc_misses += u64::from(!self.llc.access(line, 0).is_hit());
        }
    }

    /// The hops between two places of the torus.
    pub fn hops(&self, from: usize, to: usize) -> usize {
        let height = self.cores.len().div_ceil(self.width);
        let around = |a: usize, b: usize, n: usize| a.abs_diff(b).min(n - a.abs_diff(b));
        around(from % self.width, to % self.width, self.width)
            + around(from / self.width, to / self.width, height)
    }
}

/// The longer side of a torus: 2 x 1, 2 x 2, 4 x 2, 4 x 4.
fn width(cores: usize) -> usize {
    let mut width = 1;
    while width * width < cores {
        width *= 2;
    }
    width
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chip(cores: usize, hiding: Hiding) -> Chip {
        Chip::new(&Machine::built_in("zesto").unwrap(), cores, hiding)
    }

    /// The mean distance to a slice, one way: section 1 of the thesis' machine.
    #[test]
    fn the_torus_has_the_distances_of_its_size() {
        for (cores, mean) in [(2, 0.5), (4, 1.0), (8, 1.5), (16, 2.0)] {
            let chip = chip(cores, Hiding::None);
            let sum: usize = (0..cores).map(|to| chip.hops(0, to)).sum();
            assert_eq!(sum as f64 / cores as f64, mean);
        }
    }

    #[test]
    fn a_store_takes_the_line_from_other_cores() {
        let mut chip = chip(2, Hiding::None);
        assert!(chip.data(0, 5, false, false) > 0.0);
        assert!(chip.data(1, 5, false, false) > 0.0);
        assert_eq!(chip.data(0, 5, true, false), 0.0);
        assert_eq!(chip.data(0, 5, true, false), 0.0);
        assert!(chip.data(1, 5, false, false) > 0.0);
        assert!(chip.data(1, 5, true, false) == 0.0 && chip.data(0, 5, false, false) > 0.0);
        assert_eq!((chip.tally.load_misses, chip.tally.store_misses), (4, 0));
    }

    /// Straight code: the prefetcher is always one line ahead, so only the first line misses.
    #[test]
    fn the_next_line_is_there_when_it_is_needed() {
        let mut chip = chip(1, Hiding::NextLine);
        let stalls: Vec<f64> = (0..50).map(|i| chip.fetch(0, i, 1000.0 * i as f64).1).collect();
        assert_eq!(chip.tally.l1i_misses, 1);
        assert!(stalls[0] > 0.0 && stalls[1..].iter().all(|&s| s == 0.0));
        // Used at once, it is still on its way.
        assert!(chip.fetch(0, 50, 49_001.0).1 > 0.0);
    }

    #[test]
    fn a_perfect_cache_never_stalls_and_still_makes_traffic() {
        let mut chip = chip(1, Hiding::All);
        let stalls: f64 = (0..2000).map(|i| chip.fetch(0, i, 0.0).1).sum();
        assert_eq!((stalls, chip.tally.llc_accesses), (0.0, 2000));
    }
}
