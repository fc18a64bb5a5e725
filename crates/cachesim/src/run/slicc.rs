//! SLICC (thesis, section 7.3): a transaction moves to the core of which the L1-I has the code that
//! it misses.
//!
//! ```text
//!   MC    misses of the L1-I since its context's queue was empty: at `fill_up` it is full
//!   MSV   the last 100 fetches, 1 for a miss; shifts while the L1-I is full
//!   MTQ   for the last `matched` misses: which other cores' signatures have the line
//!   move  when the MSV has `dilution` ones and the MTQ is full: to a core that all its entries
//!         name and that has room in its queue, else to an idle one, else not
//! ```

use crate::lru::SetCache;
use crate::machine::Machine;
use crate::run::driver::{Policy, Run, Step};
use crate::run::settings::{Reset, Settings, Types};
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::ops::Range;

/// The fetches that the MSV remembers.
const MSV: u32 = 100;

/// Which lines a cache has, by a bit for each value of the lowest bits of a line (Peir et al., ICS
/// 2002). Lines with one key are of one set, so a line that leaves clears its bit unless another
/// one in its set has the same key: no line that is there is missed.
#[derive(Clone, Debug)]
pub struct Signature {
    bits: Vec<bool>,
}

impl Signature {
    /// # Panics
    /// Unless `bits` is a power of two.
    pub fn new(bits: usize) -> Signature {
        assert!(bits.is_power_of_two(), "a signature has a power of two of bits");
        Signature { bits: vec![false; bits] }
    }

    fn key(&self, line: u64) -> usize {
        line as usize & (self.bits.len() - 1)
    }

    pub fn holds(&self, line: u64) -> bool {
        self.bits[self.key(line)]
    }

    /// The cache has filled in a line; `left` had to leave.
    pub fn filled(&mut self, cache: &SetCache, line: u64, left: Option<u64>) {
        if let Some(left) = left
            && !cache.in_set(left).any(|other| self.key(other) == self.key(left))
        {
            let key = self.key(left);
            self.bits[key] = false;
        }
        let key = self.key(line);
        self.bits[key] = true;
    }
}

/// The cores that so many waiting transactions of one type get out of `cores`, and how many of them
/// go together (section 7.3.3): a large team, of 1.5 for each context or more, takes all cores; a
/// medium one, of 0.5 or more, half of them; of fewer, each one goes alone, as a stray.
pub fn team(transactions: usize, cores: usize, contexts: usize) -> (usize, usize) {
    let each = transactions as f64 / (cores * contexts) as f64;
    match each {
        n if n >= 1.5 => (cores, transactions),
        n if n >= 0.5 => ((cores / 2).max(1), transactions),
        _ => (1, 1),
    }
}

/// What a core remembers.
#[derive(Clone, Debug)]
struct Monitor {
    misses: u32,
    recent: u128,
    matches: VecDeque<u128>,
    signature: Option<Signature>,
}

impl Monitor {
    fn forget(&mut self) {
        self.recent = 0;
        self.matches.clear();
    }
}

#[derive(Debug)]
pub struct Slicc {
    monitors: Vec<Monitor>,
    settings: Settings,
    most_misses: u32,
    /// The cores of each transaction, by thread.
    cores_of: Vec<Range<usize>>,
    /// The type of the batch under way, which is the last one of `teams`.
    kind: Option<u32>,
    /// The teams under way: cores, and the transactions that have not ended.
    teams: Vec<(Range<usize>, Vec<usize>)>,
}

impl Slicc {
    pub fn new(settings: &Settings, machine: &Machine) -> Slicc {
        let monitor = || Monitor {
            misses: 0,
            recent: 0,
            matches: VecDeque::new(),
            signature: (settings.signature > 0).then(|| Signature::new(settings.signature)),
        };
        Slicc {
            monitors: (0..settings.cores).map(|_| monitor()).collect(),
            settings: settings.clone(),
            most_misses: machine.l1i.lines() as u32 - 1,
            cores_of: Vec::new(),
            kind: None,
            teams: Vec::new(),
        }
    }

    /// The cores that run transactions: one is the scout's.
    fn cores(&self) -> usize {
        match self.settings.types {
            Types::Scout => (self.settings.cores - 1).max(1),
            _ => self.settings.cores,
        }
    }

    fn contexts_of(&self, cores: Range<usize>) -> Range<usize> {
        cores.start * self.settings.contexts..cores.end * self.settings.contexts
    }

    /// Takes up a waiting transaction, and gives it to the context of these cores with the fewest.
    fn start(&mut self, run: &mut Run<'_>, at: usize, cores: Range<usize>) -> usize {
        let thread = run.take_up(at, run.now());
        let contexts = self.contexts_of(cores.clone());
        let context = contexts.min_by_key(|&c| run.load(c)).unwrap_or(0);
        run.contexts[context].queue.push_back(thread);
        self.cores_of.resize(thread + 1, 0..0);
        self.cores_of[thread] = cores;
        thread
    }

    /// Without types, the pool is kept full.
    fn fill_pool(&mut self, run: &mut Run<'_>) {
        let pool = self.settings.pool.max(self.cores()) * self.settings.contexts;
        while run.in_flight() < pool && !run.waiting.is_empty() {
            self.start(run, 0, 0..self.cores());
        }
    }

    /// Batches instead of teams (section 8.3.6): a transaction of the same type follows each one
    /// that ends, as long as any waits; then the type that has waited longest is next.
    fn fill_batch(&mut self, run: &mut Run<'_>) {
        while run.in_flight() < self.settings.batch {
            let Some(&(_, oldest)) = run.waiting.front() else { return };
            let same = run.waiting.iter().position(|(_, kind)| Some(*kind) == self.kind);
            if same.is_none() {
                self.kind = Some(oldest);
                self.teams.push((0..self.cores(), Vec::new()));
            }
            let thread = self.start(run, same.unwrap_or(0), 0..self.cores());
            self.teams.last_mut().expect("a batch was begun").1.push(thread);
        }
    }

    /// Forms teams of one type while a core is idle for the oldest (section 7.3.3: cores are
    /// time-multiplexed among teams, for the most use of the cores), and the queue has room for it.
    fn form_teams(&mut self, run: &mut Run<'_>) {
        let n = self.cores();
        while let Some(&(_, kind)) = run.waiting.front() {
            let pool = self.settings.pool.max(1) * self.settings.contexts;
            let most = pool.min(2 * n * self.settings.contexts);
            let in_window = run.waiting.iter().take(2 * pool).enumerate().filter(|(_, (_, of))| *of == kind);
            let places: Vec<usize> = in_window.map(|(at, _)| at).take(most).collect();
            let (wanted, together) = team(places.len(), n, self.settings.contexts);
            // A stray goes to an idle core, and is no team.
            let Some(cores) = self.free(run, if together == 1 { n } else { wanted }) else { return };
            if together == 1 {
                self.start(run, 0, cores);
                continue;
            }
            // The queue has an entry for each transaction that waits at a core (Table 7.4).
            let queued: usize = run.contexts.iter().map(|c| c.queue.len()).sum();
            if queued + places.len() > pool + self.idle(run, 0..n) {
                return;
            }
            let places = places.into_iter().enumerate();
            let team = places.map(|(taken, at)| self.start(run, at - taken, cores.clone())).collect();
            self.teams.push((cores, team));
        }
    }

    /// The idle contexts of these cores.
    fn idle(&self, run: &Run<'_>, cores: Range<usize>) -> usize {
        self.contexts_of(cores).filter(|&context| run.is_idle(context)).count()
    }

    /// So many cores side by side, aligned to their number, of which one is idle; those with most
    /// idle ones.
    fn free(&self, run: &Run<'_>, wanted: usize) -> Option<Range<usize>> {
        let starts = (0..self.cores()).step_by(wanted).map(|start| start..start + wanted);
        let all = starts.filter(|cores| cores.end <= self.cores());
        let best = all.max_by_key(|cores| (self.idle(run, cores.clone()), Reverse(cores.start)));
        best.filter(|cores| self.idle(run, cores.clone()) > 0)
    }

    /// The context to which a transaction moves, if it moves; the MTQ is full.
    fn target(&self, run: &Run<'_>, context: usize, thread: usize) -> Step {
        let core = run.contexts[context].core;
        let monitor = &self.monitors[core];
        let allowed = self.cores_of[thread].clone();
        let best = |cores: &mut dyn Iterator<Item = usize>| {
            let contexts = cores.flat_map(|core| self.contexts_of(core..core + 1));
            contexts.min_by_key(|&c| (run.load(c), run.chip.hops(core, run.contexts[c].core)))
        };
        let all = monitor.matches.iter().fold(u128::MAX, |all, mask| all & mask);
        let mut named = allowed.clone().filter(|&c| c != core && all >> c & 1 == 1);
        let has_room = |&target: &usize| run.contexts[target].queue.len() < self.settings.queue;
        if let Some(target) = best(&mut named).filter(has_room) {
            return Step::To(target);
        }
        let idle = |c: &usize| *c != core && self.contexts_of(*c..*c + 1).all(|context| run.is_idle(context));
        best(&mut allowed.filter(idle)).map_or(Step::Stay, Step::To)
    }

    /// A fetch has missed in a cache that counts as full or not: the step that follows.
    fn missed(&mut self, run: &Run<'_>, context: usize, thread: usize, line: u64, is_full: bool) -> Step {
        let core = run.contexts[context].core;
        let monitor = &mut self.monitors[core];
        monitor.misses = (monitor.misses + 1).min(self.most_misses);
        if let Some(signature) = &mut monitor.signature {
            signature.filled(run.chip.l1i(core), line, run.chip.driven_out);
        }
        let holds = |c: usize| match &self.monitors[c].signature {
            Some(signature) => signature.holds(line),
            None => run.chip.l1i(c).holds(line),
        };
        let others = self.cores_of[thread].clone().filter(|&c| c != core && holds(c));
        let mask = others.fold(0u128, |mask, c| mask | 1 << c);
        let monitor = &mut self.monitors[core];
        monitor.matches.push_back(mask);
        if monitor.matches.len() > self.settings.matched {
            monitor.matches.pop_front();
        }
        let is_diluted = monitor.recent.count_ones() >= self.settings.dilution;
        if is_full && is_diluted && monitor.matches.len() >= self.settings.matched {
            let step = self.target(run, context, thread);
            if let Step::To(target) = step {
                self.monitors[core].forget();
                self.monitors[run.contexts[target].core].forget();
            }
            return step;
        }
        Step::Stay
    }
}

impl Policy for Slicc {
    const COUNTS_FETCHES: bool = true;

    fn dispatch(&mut self, run: &mut Run<'_>) {
        match self.settings.types {
            _ if self.settings.batch > 0 => self.fill_batch(run),
            Types::None => self.fill_pool(run),
            Types::Software | Types::Scout => self.form_teams(run),
        }
    }

    #[inline]
    fn after(
        &mut self,
        run: &mut Run<'_>,
        place: (usize, usize),
        line: u64,
        hit: bool,
        fetches: u32,
    ) -> Step {
        let (context, thread) = place;
        let core = run.contexts[context].core;
        let monitor = &mut self.monitors[core];
        if let Some(signature) = &monitor.signature {
            run.outcome.signature.0 += 1;
            run.outcome.signature.1 += u64::from(signature.holds(line) == hit);
        }
        let is_full = monitor.misses >= self.settings.fill_up;
        if is_full {
            monitor.recent = monitor.recent << fetches.min(127) | u128::from(!hit) << (fetches.min(127) - 1);
            monitor.recent &= (1 << MSV) - 1;
        }
        if hit { Step::Stay } else { self.missed(run, context, thread, line, is_full) }
    }

    fn left(&mut self, run: &mut Run<'_>, context: usize, thread: usize, ended: bool) {
        let core = run.contexts[context].core;
        if self.settings.reset == Reset::Idle && self.contexts_of(core..core + 1).all(|c| run.is_idle(c)) {
            self.monitors[core].misses = 0;
        }
        if !ended {
            return;
        }
        let Some(at) = self.teams.iter().position(|(_, team)| team.contains(&thread)) else { return };
        self.teams[at].1.retain(|&t| t != thread);
        if self.teams[at].1.is_empty() {
            let (cores, _) = self.teams.remove(at);
            self.kind = self.kind.filter(|_| at < self.teams.len());
            for core in cores {
                self.monitors[core].forget();
                self.monitors[core].misses = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;
    use crate::lru::Access;
    use crate::run::Input;
    use trace::Trace;

    /// A signature has no false negatives, and none at all with a bit for each line in use.
    #[test]
    fn a_signature_never_misses_a_line() {
        for bits in [512, 1024, 2048, 8192] {
            let mut random = fastrand::Rng::with_seed(3);
            let (mut cache, mut signature) = (SetCache::new(64, 8), Signature::new(bits));
            let mut wrong = 0;
            for _ in 0..50_000 {
                let line = random.u64(0..3000);
                let there = cache.holds(line);
                assert!(!there || signature.holds(line));
                wrong += usize::from(there != signature.holds(line));
                if let Access::Miss(left) = cache.access(line, 0) {
                    signature.filled(&cache, line, left.map(|(line, _)| line));
                }
            }
            assert_eq!(wrong == 0, bits == 8192, "{bits} bits: {wrong} wrong");
        }
    }

    /// SLICC on two cores that have nothing to do, with one transaction on core 0.
    fn on_two_cores(check: impl FnOnce(&mut Slicc, &mut Run<'_>)) {
        let trace = Trace::default();
        let (code, machine) = (Code::of(&trace), Machine::built_in("zesto").unwrap());
        let settings = Settings { cores: 2, dilution: 0, ..Settings::default() };
        let mut run = Run::new(Input { trace: &trace, code: &code, chosen: &[] }, &machine, &settings);
        let mut slicc = Slicc::new(&settings, &machine);
        run.contexts[0].running = Some(0);
        slicc.cores_of.push(0..2);
        check(&mut slicc, &mut run);
    }

    /// Section 7.5.1: each core maintains a queue of up to ten threads.
    #[test]
    fn a_full_queue_takes_no_more() {
        on_two_cores(|slicc, run| {
            slicc.monitors[0].matches = VecDeque::from([1 << 1; 4]);
            run.contexts[1].queue = (1..10).collect();
            assert_eq!(slicc.target(run, 0, 0), Step::To(1));
            run.contexts[1].queue.push_back(10);
            assert_eq!(slicc.target(run, 0, 0), Step::Stay);
        });
    }

    /// Section 7.3.2: threads have to miss for a few blocks before migrating, also to an idle core.
    #[test]
    fn no_move_before_so_many_misses_were_looked_up() {
        on_two_cores(|slicc, run| {
            let mut step = |line| slicc.missed(run, 0, 0, line, true);
            assert_eq!([1, 2, 3].map(&mut step), [Step::Stay; 3]);
            assert_eq!(step(4), Step::To(1));
        });
    }
}
