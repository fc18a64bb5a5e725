//! The microscope (thesis, chapter 6): where a workload's cache misses and stall cycles come from.
//! The transactions run one after the other on one core. The first ones warm the caches, the others
//! are measured.

use crate::code::Code;
use crate::course::Course;
use crate::footprint::is_probe_in;
use crate::hierarchy::{CACHES, DATA, Hierarchy, costs};
use crate::lru::SetCache;
use crate::machine::{LINE_BYTES, Machine};
use crate::stack_distance::StackDistance;
use trace::code::{AHEAD, END, OPERATIONS, READ, is_operation};
use trace::{Event, Trace};

/// The sizes of the L1-I of Figure 6.3, KB; all of 8 ways.
pub const SWEEP_KB: [usize; 6] = [16, 32, 64, 128, 256, 512];
/// The operations of the trace, and all else.
pub const OPERATION_ROWS: usize = OPERATIONS.len() + 1;

/// Compulsory misses are those of an infinite cache, capacity misses the further ones of a fully
/// associative cache, conflict misses the rest (Hill): the last may be negative.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ThreeC {
    pub compulsory: i64,
    pub capacity: i64,
    pub conflict: i64,
}

/// The misses of the measured transactions.
#[derive(Clone, Debug)]
pub struct Misses {
    pub instructions: u64,
    pub transactions: usize,
    /// By operation, component and cache of [`CACHES`].
    pub misses: Vec<Vec<[u64; 6]>>,
    /// By operation and component.
    pub executed: Vec<Vec<u64>>,
    /// The cycles of a miss.
    pub costs: [f64; 6],
    pub components: Vec<String>,
    pub l1i: ThreeC,
    pub l3d: ThreeC,
    /// The misses of each of [`SWEEP_KB`].
    pub sweep: [u64; 6],
}

impl Misses {
    /// All misses of a cache.
    pub fn of_cache(&self, cache: usize) -> u64 {
        self.sum(cache, |_, _| true)
    }

    /// The misses of a cache in some operations and components.
    pub fn sum(&self, cache: usize, wanted: impl Fn(usize, usize) -> bool) -> u64 {
        let cells = self
            .misses
            .iter()
            .enumerate()
            .flat_map(|(o, row)| row.iter().enumerate().map(move |(c, m)| (o, c, m)));
        cells.filter(|(o, c, _)| wanted(*o, *c)).map(|(_, _, misses)| misses[cache]).sum()
    }

    /// The instructions in some operations and components.
    pub fn instructions_in(&self, wanted: impl Fn(usize, usize) -> bool) -> u64 {
        let cells = self
            .executed
            .iter()
            .enumerate()
            .flat_map(|(o, row)| row.iter().enumerate().map(move |(c, n)| (o, c, n)));
        cells.filter(|(o, c, _)| wanted(*o, *c)).map(|(_, _, n)| n).sum()
    }

    /// Misses per 1000 instructions.
    pub fn mpki(&self, cache: usize) -> f64 {
        self.of_cache(cache) as f64 * 1000.0 / self.instructions.max(1) as f64
    }

    /// Stall cycles per 1000 instructions.
    pub fn stalls(&self, cache: usize) -> f64 {
        self.mpki(cache) * self.costs[cache]
    }

    /// The share of a cache in all stall cycles.
    pub fn stall_share(&self, cache: usize) -> f64 {
        let all: f64 = (0..CACHES.len()).map(|c| self.stalls(c)).sum();
        if all == 0.0 { 0.0 } else { self.stalls(cache) / all }
    }
}

struct Pass<'t> {
    code: &'t Code,
    hierarchy: Hierarchy,
    sweep: Vec<SetCache>,
    fetches: StackDistance,
    third: StackDistance,
    /// The marks under way, with the number of the operation that they count for.
    open: Vec<(u16, usize)>,
    component: usize,
    line: u64,
    out: Misses,
    sizes: (u32, u32),
    fully: [u64; 2],
    first: [u64; 2],
    has_third: bool,
}

/// Runs the transactions, until `course` is stopped; the first `warm` ones only warm the caches.
pub fn observe(trace: &Trace, code: &Code, machine: &Machine, warm: usize, course: &Course) -> Misses {
    let components = code.components.len();
    let sized = |cache: Option<crate::machine::Cache>| cache.map_or(0, |c| c.lines() as u32);
    let mut pass = Pass {
        code,
        hierarchy: Hierarchy::of(machine),
        sweep: SWEEP_KB.map(|kb| SetCache::new(kb * 1024 / LINE_BYTES as usize / 8, 8)).into(),
        fetches: StackDistance::default(),
        third: StackDistance::default(),
        open: Vec::new(),
        component: components - 1,
        line: u64::MAX,
        out: Misses {
            instructions: 0,
            transactions: 0,
            misses: vec![vec![[0; 6]; components]; OPERATION_ROWS],
            executed: vec![vec![0; components]; OPERATION_ROWS],
            costs: costs(machine),
            components: code.components.clone(),
            l1i: ThreeC::default(),
            l3d: ThreeC::default(),
            sweep: [0; 6],
        },
        sizes: (sized(Some(machine.l1i)), sized(machine.l3)),
        fully: [0; 2],
        first: [0; 2],
        has_third: machine.l3.is_some(),
    };
    for (number, transaction) in trace.transactions.iter().enumerate() {
        if number == warm {
            pass.forget_counts();
        }
        pass.open.clear();
        transaction.events().for_each(|event| pass.event(event));
        pass.out.transactions += 1;
        course.one_done();
        if course.is_stopped() {
            break;
        }
    }
    if trace.transactions.len() <= warm {
        pass.forget_counts();
    }
    pass.finish()
}

impl Pass<'_> {
    fn forget_counts(&mut self) {
        self.out.instructions = 0;
        self.out.transactions = 0;
        self.out.misses.iter_mut().flatten().for_each(|cell| *cell = [0; 6]);
        self.out.executed.iter_mut().flatten().for_each(|cell| *cell = 0);
        self.out.sweep = [0; 6];
        (self.fully, self.first) = ([0; 2], [0; 2]);
    }

    fn finish(mut self) -> Misses {
        let three = |all: u64, fully: u64, first: u64| ThreeC {
            compulsory: first as i64,
            capacity: fully as i64 - first as i64,
            conflict: all as i64 - fully as i64,
        };
        self.out.l1i = three(self.out.of_cache(0), self.fully[0], self.first[0]);
        self.out.l3d = three(self.out.of_cache(5), self.fully[1], self.first[1]);
        self.out
    }

    #[inline]
    fn event(&mut self, event: Event) {
        match event {
            Event::Block(number) => self.block(number),
            Event::Load(line) | Event::Store(line) => {
                let missed = self.hierarchy.data(line);
                if missed > 0 {
                    self.miss(DATA, missed, line);
                }
            }
            Event::Mark(mark) => self.mark(mark),
            _ => {}
        }
    }

    /// The operation is the innermost one. What an update or a deletion does to find and lock its
    /// row is an index probe, as in the engine of the thesis, and so are descents ahead of reads.
    fn mark(&mut self, mark: u16) {
        let code = mark & !END;
        if mark & END != 0 {
            if let Some(at) = self.open.iter().rposition(|(open, _)| *open == code) {
                self.open.truncate(at);
            }
            return;
        }
        let around = self.open.last().map(|(_, operation)| OPERATIONS[*operation].0);
        let counts_for = match code {
            AHEAD => READ,
            code if around.is_some_and(|around| is_probe_in(around, code)) => READ,
            code if is_operation(code) => code,
            _ => return,
        };
        self.open.extend(OPERATIONS.iter().position(|(known, _)| *known == counts_for).map(|at| (code, at)));
    }

    #[inline]
    fn block(&mut self, number: u32) {
        let block = self.code.blocks[number as usize];
        self.out.instructions += u64::from(block.instructions);
        if let Some(component) = block.component {
            self.component = usize::from(component);
        }
        let operation = self.operation();
        self.out.executed[operation][self.component] += u64::from(block.instructions);
        for line in block.first..block.first + u64::from(block.lines) {
            if line == self.line {
                continue;
            }
            self.line = line;
            // The caches have equal ways, and each set of one is some sets of the next: the line
            // that was used last in a set of the smallest was used last in all.
            if !self.sweep[0].is_front(line) {
                for (cache, misses) in self.sweep.iter_mut().zip(&mut self.out.sweep) {
                    *misses += u64::from(!cache.access(line, 0).is_hit());
                }
            }
            match self.fetches.access(line) {
                None => (self.first[0], self.fully[0]) = (self.first[0] + 1, self.fully[0] + 1),
                Some(distance) => self.fully[0] += u64::from(distance >= self.sizes.0),
            }
            let missed = self.hierarchy.fetch(line);
            if missed > 0 {
                self.miss(0, missed, line);
            }
        }
    }

    /// The number of the innermost operation.
    #[inline]
    fn operation(&self) -> usize {
        self.open.last().map_or(OPERATIONS.len(), |(_, operation)| *operation)
    }

    /// An access to `line` missed in so many levels. `kind`: 0 or [`DATA`].
    fn miss(&mut self, kind: usize, missed: usize, line: u64) {
        let operation = self.operation();
        let cell = &mut self.out.misses[operation][self.component];
        cell[kind..kind + missed].iter_mut().for_each(|misses| *misses += 1);
        if self.has_third && missed >= 2 {
            let distance = self.third.access(line);
            if kind == DATA {
                self.first[1] += u64::from(distance.is_none());
                self.fully[1] += u64::from(distance.is_none_or(|d| d >= self.sizes.1));
            }
        }
    }
}
