//! ADDICT (thesis, section 8.2): migration points are found by a profile, and each gets a core. A
//! transaction moves when it enters an operation or reaches the next point in it, so each core
//! keeps running the same piece of code.
//!
//! - Step 1, [`profile`] (Algorithm 4): a point is a line of which the fetch needs an eviction,
//!   after which the cache counts as empty. For each type and operation, the most frequent sequence
//!   of points is kept.
//! - Step 2, [`Addict`] (Algorithm 5): batches of one type; the points of the type over the cores.

use crate::code::Code;
use crate::machine::Cache;
use crate::run::driver::{Policy, Run, Step};
use crate::run::settings::Settings;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use trace::code::{END, is_operation};
use trace::{Event, Trace};

/// The points of an operation of a type.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Points {
    /// The lines, in their order.
    pub sequence: Vec<u64>,
    /// How often the operation ran, and how often with just this sequence.
    pub runs: u64,
    pub stable: u64,
}

/// By kind of transaction and operation.
pub type Profile = BTreeMap<(u32, u16), Points>;

/// All sequences of an operation, with their numbers.
type Sequences = BTreeMap<(u32, u16), HashMap<Vec<u64>, u64>>;

/// The sequences of points of some transactions (Algorithm 4).
pub fn sequences(trace: &Trace, code: &Code, l1i: Cache, chosen: &[usize]) -> Sequences {
    let mut found = Sequences::new();
    let mut cache = l1i.build();
    for &number in chosen {
        let transaction = &trace.transactions[number];
        cache.clear();
        let mut open: Option<(u16, Vec<u64>)> = None;
        for event in transaction.events() {
            match event {
                Event::Mark(mark) if mark & END == 0 && is_operation(mark) && open.is_none() => {
                    cache.clear();
                    open = Some((mark, Vec::new()));
                }
                Event::Mark(mark) if open.as_ref().is_some_and(|(code, _)| code | END == mark) => {
                    cache.clear();
                    if let Some((code, sequence)) = open.take() {
                        let all = found.entry((transaction.kind, code)).or_default();
                        *all.entry(sequence).or_default() += 1;
                    }
                }
                Event::Block(block) => {
                    let block = code.blocks[block as usize];
                    for line in block.first..block.first + u64::from(block.lines) {
                        if cache.would_drive_out(line).is_none() {
                            cache.access(line, 0);
                            continue;
                        }
                        cache.clear();
                        cache.access(line, 0);
                        if let Some((_, sequence)) = &mut open {
                            sequence.push(line);
                        }
                    }
                }
                _ => {}
            }
        }
    }
    found
}

/// The most frequent sequence of each operation; of equally frequent ones, the least.
pub fn profile(trace: &Trace, code: &Code, l1i: Cache, chosen: &[usize]) -> Profile {
    let best = |(key, all): ((u32, u16), HashMap<Vec<u64>, u64>)| {
        let runs = all.values().sum();
        let most = all.into_iter().min_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let (sequence, stable) = most.unwrap_or_default();
        (key, Points { sequence, runs, stable })
    };
    sequences(trace, code, l1i, chosen).into_iter().map(best).collect()
}

/// The share of each operation's runs that have the sequence of a profile (Figure 8.1).
pub fn stability(profile: &Profile, check: &Sequences) -> BTreeMap<(u32, u16), f64> {
    let share = |(key, all): (&(u32, u16), &HashMap<Vec<u64>, u64>)| {
        let runs: u64 = all.values().sum();
        let same = profile.get(key).and_then(|points| all.get(&points.sequence)).copied().unwrap_or(0);
        (*key, same as f64 / runs.max(1) as f64)
    };
    check.iter().map(share).collect()
}

/// A place in the code at which a transaction goes to another core: the entry of a transaction
/// (operation 0), of an operation (line 0), or a point in one, with the point before it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Place {
    pub operation: u16,
    pub line: u64,
    pub before: u64,
}

/// The entry of a transaction.
const ENTRY: Place = Place { operation: 0, line: 0, before: 0 };

/// The cores that are left, divided among places by the frequency of their operations (section
/// 8.2.2); what the division leaves goes to the largest remainders, of equal ones to the more
/// frequent operation, entries first.
fn shares(frequencies: &[u64], is_inner: impl Fn(usize) -> bool, left: usize) -> Vec<usize> {
    let all = u128::from(frequencies.iter().sum::<u64>().max(1));
    let quotas = frequencies.iter().map(|&runs| u128::from(runs) * left as u128);
    let (mut shares, rests): (Vec<usize>, Vec<u128>) = quotas.map(|q| ((q / all) as usize, q % all)).unzip();
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by_key(|&at| (Reverse(rests[at]), Reverse(frequencies[at]), is_inner(at)));
    let rest = left - shares.iter().sum::<usize>();
    order.into_iter().take(rest).for_each(|at| shares[at] += 1);
    shares
}

/// Which cores have which place, for one type (Algorithm 5). `None` where the type
/// has more operations than there are cores.
pub fn assign(profile: &Profile, kind: u32, cores: usize) -> Option<Vec<(Place, Vec<usize>)>> {
    let mut operations: Vec<(u16, &Points)> =
        profile.iter().filter(|((of, _), _)| *of == kind).map(|((_, op), points)| (*op, points)).collect();
    if operations.len() + 1 > cores {
        return None;
    }
    // The most frequent operation first.
    operations.sort_by(|a, b| b.1.runs.cmp(&a.1.runs).then(a.0.cmp(&b.0)));
    let mut lengths: Vec<usize> = operations.iter().map(|(_, points)| points.sequence.len()).collect();
    // Too many points: the least frequent operation loses its inner points, the last one first.
    let mut excess = (1 + operations.len() + lengths.iter().sum::<usize>()).saturating_sub(cores);
    for length in lengths.iter_mut().rev() {
        let dropped = excess.min(*length);
        *length -= dropped;
        excess -= dropped;
    }
    let mut places = vec![(ENTRY, vec![0])];
    for ((operation, points), length) in operations.iter().zip(lengths) {
        let mut before = 0;
        places.push((Place { operation: *operation, line: 0, before: 0 }, vec![places.len()]));
        for &line in &points.sequence[..length] {
            places.push((Place { operation: *operation, line, before }, vec![places.len()]));
            before = line;
        }
    }
    let runs = |of: &Place| operations.iter().find(|(op, _)| *op == of.operation).map_or(0, |o| o.1.runs);
    let frequencies: Vec<u64> = places[1..].iter().map(|(place, _)| runs(place)).collect();
    let mut next = places.len()..cores;
    for (at, more) in
        shares(&frequencies, |at| places[at + 1].0.line != 0, next.len()).into_iter().enumerate()
    {
        places[at + 1].1.extend(next.by_ref().take(more));
    }
    places[0].1.extend(next);
    Some(places)
}

/// The hardware threads of cores: they share an L1-I, so a place has all threads of its cores.
fn threads(cores: &[usize], of_core: usize) -> Vec<usize> {
    cores.iter().flat_map(|core| core * of_core..(core + 1) * of_core).collect()
}

/// The lowest values of a line by which most lines that are no points are told apart.
const FILTER: usize = 4096;

#[derive(Debug)]
pub struct Addict {
    profile: Profile,
    batch: usize,
    /// The places of the batch under way, with their contexts.
    places: Vec<(Place, Vec<usize>)>,
    numbers: HashMap<Place, usize>,
    /// Whether a line with these lowest bits is a point of the batch under way.
    maybe: Box<[bool; FILTER]>,
    /// The type of the batch under way.
    kind: u32,
    refill: bool,
    patience: usize,
    /// Per thread: its operation, and the point that it passed last.
    at: Vec<(u16, u64)>,
}

impl Addict {
    pub fn new(settings: &Settings, profile: &Profile) -> Addict {
        Addict {
            profile: profile.clone(),
            batch: settings.in_batch(),
            places: Vec::new(),
            numbers: HashMap::new(),
            maybe: Box::new([false; FILTER]),
            kind: u32::MAX,
            refill: settings.refill,
            patience: settings.patience,
            at: Vec::new(),
        }
    }

    /// Where a transaction that reaches a place goes on: a context of the place that is free, or an
    /// idle one of a place that has others, which is then this place's, or the one of the place
    /// with the shortest queue.
    fn go(&mut self, run: &Run<'_>, context: usize, number: usize) -> Step {
        let own = &self.places[number].1;
        if own.contains(&context) {
            return Step::Stay;
        }
        // Of hardware threads that are free, one of the core with the most of them.
        let free = own.iter().copied().filter(|&c| run.is_idle(c));
        if let Some(free) = free.min_by_key(|&c| run.active(run.contexts[c].core)) {
            return Step::To(free);
        }
        let shortest = own.iter().copied().min_by_key(|&c| run.load(c));
        if let Some(context) = shortest.filter(|&c| run.load(c) < self.patience) {
            return Step::To(context);
        }
        let spare = |(_, contexts): &&(Place, Vec<usize>)| contexts.len() > 1;
        let idle = self.places.iter().filter(spare).flat_map(|(_, contexts)| contexts).copied();
        let idle = idle.filter(|&c| run.is_idle(c));
        // The one that has been idle longest, so that the places get cores by their load.
        let longest = idle.min_by(|&a, &b| run.contexts[a].time.total_cmp(&run.contexts[b].time));
        if let Some(idle) = longest {
            self.places.iter_mut().for_each(|(_, contexts)| contexts.retain(|&c| c != idle));
            self.places[number].1.push(idle);
            return Step::To(idle);
        }
        shortest.map_or(Step::Stay, Step::To)
    }

    /// Begins with batches of the type of the transaction that has waited longest.
    fn change_type(&mut self, run: &Run<'_>) {
        let Some(&(_, kind)) = run.waiting.front() else { return };
        self.kind = kind;
        let mut places = assign(&self.profile, kind, run.settings.cores).unwrap_or_default();
        places.iter_mut().for_each(|(_, cores)| *cores = threads(cores, run.settings.contexts));
        self.places = places;
        self.numbers = self.places.iter().enumerate().map(|(number, (place, _))| (*place, number)).collect();
        self.maybe.fill(false);
        self.places.iter().for_each(|(place, _)| self.maybe[place.line as usize % FILTER] = true);
    }

    /// When a transaction can be taken up: all contexts have come that far.
    fn now(&self, run: &Run<'_>) -> f64 {
        match run.in_flight() {
            0 => run.latest(),
            _ => run.now(),
        }
    }

    fn reach(&mut self, run: &Run<'_>, context: usize, place: Place) -> Step {
        self.numbers.get(&place).copied().map_or(Step::Stay, |number| self.go(run, context, number))
    }
}

impl Policy for Addict {
    fn dispatch(&mut self, run: &mut Run<'_>) {
        if run.in_flight() == 0 {
            self.change_type(run);
        } else if !self.refill {
            return;
        }
        let mut free = self.batch.saturating_sub(run.in_flight());
        while free > 0 {
            // The software forms the batches, so it knows all that wait.
            let mut waiting = run.waiting.iter().map(|(_, kind)| *kind);
            let Some(at) = waiting.position(|kind| kind == self.kind) else { return };
            let thread = run.take_up(at, self.now(run));
            self.at.resize(thread + 1, (0, 0));
            // Without places, as the baseline does.
            let emptiest = (0..run.contexts.len()).min_by_key(|&c| run.load(c)).unwrap_or(0);
            let context = match self.reach(run, usize::MAX, ENTRY) {
                Step::To(context) => context,
                _ => emptiest,
            };
            run.contexts[context].queue.push_back(thread);
            free -= 1;
        }
    }

    fn operation(&mut self, run: &mut Run<'_>, context: usize, thread: usize, code: u16) -> Step {
        self.at[thread] = (code, 0);
        self.reach(run, context, Place { operation: code, line: 0, before: 0 })
    }

    #[inline]
    fn before(&mut self, run: &mut Run<'_>, context: usize, thread: usize, line: u64) -> Step {
        if !self.maybe[line as usize % FILTER] {
            return Step::Stay;
        }
        let (operation, before) = self.at[thread];
        let place = Place { operation, line, before };
        if operation == 0 || !self.numbers.contains_key(&place) {
            return Step::Stay;
        }
        self.at[thread].1 = line;
        self.reach(run, context, place)
    }
}
