//! Chapters 7 and 8: the schedulers, by cores and by their parameters.

use super::{Row, StudyError, has_operations, rounded, row, set};
use crate::code::Code;
use crate::course::Course;
use crate::hardware;
use crate::machine::{Cache, Machine};
use crate::run::addict::{Profile, profile, sequences, stability};
use crate::run::settings::{Protect, Reset, Scheduler, Settings, Types};
use crate::run::{self, Input, Outcome};
use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use trace::code::name;
use trace::{Event, Trace, Transaction};

/// One run to make, and the words that tell it from the others.
struct Job {
    table: &'static str,
    machine: Machine,
    settings: Settings,
    label: (&'static str, f64),
}

/// The values that all runs of a study share.
struct Study<'t> {
    trace: &'t Trace,
    code: Code,
    chosen: Vec<usize>,
    warm: usize,
    jobs: Vec<Job>,
    /// ADDICT's profiles, by the L1-I and [`Settings::profile`].
    profiles: Vec<(Cache, usize, OnceLock<Profile>)>,
}

impl<'t> Study<'t> {
    fn new(trace: &'t Trace, machine: &Machine, warm: usize, name: &'static str) -> Result<Self, StudyError> {
        if machine.shared.is_none() {
            return Err(StudyError::NoSharedCache { machine: machine.name.clone(), study: name });
        }
        let found = trace.transactions.len();
        if found <= warm {
            return Err(StudyError::TooFew { found, needed: warm + 1 });
        }
        if !has_operations(trace) {
            return Err(StudyError::NoMarks { study: name });
        }
        let (code, chosen) = (Code::of(trace), (0..found).collect());
        Ok(Study { trace, code, chosen, warm, jobs: Vec::new(), profiles: Vec::new() })
    }

    fn add(
        &mut self,
        table: &'static str,
        machine: &Machine,
        label: (&'static str, f64),
        settings: Settings,
    ) {
        let batch = match settings.scheduler {
            Scheduler::Addict => settings.in_batch(),
            _ => settings.batch,
        };
        let settings = Settings { warm: self.warm, batch, ..settings };
        let known = |of: &(Cache, usize, OnceLock<Profile>)| (of.0, of.1) == (machine.l1i, settings.profile);
        if !self.profiles.iter().any(known) {
            self.profiles.push((machine.l1i, settings.profile, OnceLock::new()));
        }
        self.jobs.push(Job { table, machine: machine.clone(), settings, label });
    }

    /// Makes all runs, side by side: a row for each, in their order. Equal runs are made once.
    fn run(&self, course: &Course) -> Vec<Row> {
        let first: Vec<usize> = (0..self.jobs.len()).map(|at| self.first_like(at)).collect();
        let distinct: Vec<usize> = (0..first.len()).filter(|&at| first[at] == at).collect();
        course.expect(distinct.len() * self.chosen.len());
        let outcomes: Vec<OnceLock<Outcome>> = first.iter().map(|_| OnceLock::new()).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(&at) = distinct.get(next.fetch_add(1, Ordering::Relaxed))
                && !course.is_stopped()
            {
                outcomes[at].get_or_init(|| self.outcome(at, course));
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
        let made = self.jobs.iter().zip(first);
        made.filter_map(|(job, first)| Some(self.row_of(job, outcomes[first].get()?))).collect()
    }

    /// The first run that is the same.
    fn first_like(&self, at: usize) -> usize {
        let wanted = &self.jobs[at];
        let same = |job: &Job| job.machine == wanted.machine && job.settings == wanted.settings;
        self.jobs[..at].iter().position(same).unwrap_or(at)
    }

    fn outcome(&self, at: usize, course: &Course) -> Outcome {
        let Job { machine, settings, .. } = &self.jobs[at];
        run::run(self.input(), machine, settings, || self.profile(machine, settings), course)
    }

    fn input(&self) -> Input<'_> {
        Input { trace: self.trace, code: &self.code, chosen: &self.chosen }
    }

    /// ADDICT's profile on such an L1-I, which the first run that needs it makes.
    fn profile(&self, machine: &Machine, settings: &Settings) -> &Profile {
        let same = |known: &&(Cache, usize, OnceLock<Profile>)| {
            (known.0, known.1) == (machine.l1i, settings.profile)
        };
        let known = self.profiles.iter().find(same).expect("add has made a place for it");
        known.2.get_or_init(|| self.input().profile(machine, settings))
    }

    fn row_of(&self, job: &Job, outcome: &Outcome) -> Row {
        let mut row = row(self.trace, job.table);
        set(&mut row, "machine", job.machine.name.as_str());
        describe(&mut row, &job.settings);
        if !job.label.0.is_empty() {
            set(&mut row, job.label.0, job.label.1);
        }
        fill(&mut row, outcome, &job.settings);
        row
    }
}

fn describe(row: &mut Row, settings: &Settings) {
    set(row, "scheduler", settings.scheduler.name());
    set(row, "cores", settings.cores as u64);
    set(row, "contexts", settings.contexts as u64);
    match settings.scheduler {
        Scheduler::Strex => {
            set(row, "team", settings.team as u64);
            set(row, "protect", if settings.protect == Protect::Refuse { "refuse" } else { "fill" });
        }
        Scheduler::Slicc => {
            let types = match settings.types {
                Types::None => "none",
                Types::Software => "software",
                Types::Scout => "scout",
            };
            set(row, "types", types);
            set(row, "reset", if settings.reset == Reset::Idle { "idle" } else { "team" });
            set(row, "fill_up", settings.fill_up);
            set(row, "matched", settings.matched as u64);
            set(row, "dilution", settings.dilution);
            set(row, "signature", settings.signature as u64);
            if settings.batch > 0 {
                set(row, "batch", settings.batch as u64);
            }
        }
        Scheduler::Addict => {
            set(row, "batch", settings.in_batch() as u64);
        }
        _ => {}
    }
}

fn fill(row: &mut Row, outcome: &Outcome, settings: &Settings) {
    let tally = &outcome.tally;
    let per_kilo = |n: f64| rounded(n * 1000.0 / tally.instructions.max(1) as f64);
    set(row, "transactions", outcome.transactions as u64);
    set(row, "instructions", tally.instructions);
    set(row, "cycles", rounded(outcome.cycles));
    set(row, "throughput", rounded(outcome.transactions as f64 * 1e6 / outcome.cycles.max(1.0)));
    set(row, "latency", rounded(outcome.latency));
    let mut latencies = outcome.latencies.clone();
    latencies.sort_by(f64::total_cmp);
    for (name, share) in [("latency_p50", 0.5), ("latency_p95", 0.95), ("latency_max", 1.0)] {
        let at = ((latencies.len() as f64 * share).ceil() as usize).saturating_sub(1);
        set(row, name, rounded(latencies.get(at).copied().unwrap_or(0.0)));
    }
    set(row, "most_in_flight", outcome.most_in_flight as u64);
    set(row, "most_switches", outcome.most_switches);
    let cores = settings.cores as f64;
    set(row, "ipc", rounded(tally.instructions as f64 / (outcome.cycles * cores).max(1.0)));
    set(row, "l1i_mpki", per_kilo(tally.l1i_misses as f64));
    set(row, "l1d_mpki", per_kilo(tally.data_misses() as f64));
    set(row, "l1d_load_mpki", per_kilo(tally.load_misses as f64));
    set(row, "l1d_store_mpki", per_kilo(tally.store_misses as f64));
    set(row, "l1d_private_mpki", per_kilo(tally.private_misses as f64));
    set(row, "llc_mpki", per_kilo(tally.llc_misses as f64));
    set(row, "switches", per_kilo(outcome.switches as f64));
    let each = tally.instructions as f64 / outcome.switches.max(1) as f64;
    set(row, "instructions_per_switch", rounded(each));
    let busy = outcome.busy.max(1.0);
    set(
        row,
        "busy_share",
        rounded(outcome.busy / (outcome.cycles * cores * settings.contexts as f64).max(1.0)),
    );
    set(row, "switch_share", rounded(outcome.switch_cycles / busy));
    set(row, "instruction_stall_share", rounded(tally.instruction_stalls / busy));
    set(row, "data_stall_share", rounded(tally.data_stalls / busy));
    let stores = tally.stores as f64 / (tally.loads + tally.stores).max(1) as f64;
    set(row, "store_share", rounded(stores));
    if outcome.signature.0 > 0 {
        set(row, "signature_accuracy", rounded(outcome.signature.1 as f64 / outcome.signature.0 as f64));
    }
}

/// One run with any settings. Rows are not complete after `course` was stopped, here and below.
///
/// # Errors
/// [`StudyError`]: too few transactions, no marks, or a machine without a shared cache.
pub fn one_run(
    trace: &Trace,
    machine: &Machine,
    settings: &Settings,
    warm: usize,
    course: &Course,
) -> Result<Vec<Row>, StudyError> {
    let mut study = Study::new(trace, machine, warm, "a scheduler")?;
    study.add("run", machine, ("", 0.0), settings.clone());
    Ok(study.run(course))
}

/// Schedulers over cores (Figures 7.8 to 7.10), and the sweeps of their parameters (7.5 to 7.7,
/// 7.11). The first `warm` transactions only warm the caches.
///
/// # Errors
/// [`StudyError`]: too few transactions, no marks, or a machine without a shared cache.
pub fn chapter_7(
    trace: &Trace,
    machine: &Machine,
    base: &Settings,
    warm: usize,
    course: &Course,
) -> Result<Vec<Row>, StudyError> {
    let mut study = Study::new(trace, machine, warm, "chapter 7")?;
    let of = |scheduler| Settings { scheduler, ..base.clone() };
    for cores in [2, 4, 8, 16] {
        let plain = [Scheduler::Baseline, Scheduler::NextLine, Scheduler::Pif, Scheduler::Slicc];
        for scheduler in plain {
            study.add("schedulers", machine, ("", 0.0), Settings { cores, ..of(scheduler) });
        }
        for protect in [Protect::Refuse, Protect::Fill] {
            study.add("schedulers", machine, ("", 0.0), Settings { cores, protect, ..of(Scheduler::Strex) });
        }
        for types in [Types::None, Types::Scout] {
            study.add("schedulers", machine, ("", 0.0), Settings { cores, types, ..of(Scheduler::Slicc) });
        }
    }
    let slicc = of(Scheduler::Slicc);
    for reset in [Reset::Idle, Reset::Team] {
        study.add("slicc-reset", machine, ("", 0.0), Settings { reset, ..slicc.clone() });
    }
    for fill_up in [128, 256, 512] {
        let settings = Settings { fill_up: fill_up.min(511), dilution: 0, ..slicc.clone() };
        study.add("slicc-fill-up", machine, ("fill_up", fill_up.into()), settings);
    }
    for matched in [2, 4, 6, 8, 10] {
        let settings = Settings { matched, dilution: 0, ..slicc.clone() };
        study.add("slicc-matched", machine, ("matched", matched as f64), settings);
    }
    for dilution in [1, 5, 10, 15, 20, 24, 28, 40, 60, 101] {
        let settings = Settings { dilution, ..slicc.clone() };
        study.add("slicc-dilution", machine, ("dilution", dilution.into()), settings);
    }
    for signature in [0, 512, 1024, 2048, 8192] {
        let settings = Settings { signature, ..slicc.clone() };
        study.add("slicc-signature", machine, ("signature", signature as f64), settings);
    }
    for team in [2, 5, 10, 16, 20] {
        let settings = Settings { team, ..of(Scheduler::Strex) };
        study.add("strex-team", machine, ("", 0.0), settings);
    }
    let mut rows = type_rows(trace, &study.code);
    rows.extend(study.run(course));
    rows.extend(costs(trace));
    Ok(rows)
}

/// The part of a transaction of which a hash tells its type.
#[derive(Clone, Copy)]
enum Header {
    /// The first instructions.
    Instructions(u64),
    /// The first lines of code: as instruction blocks are, each of 64 bytes.
    Blocks(u64),
}

/// How often the first instructions of a transaction tell its type: in the first half of the trace,
/// each hash of them is learnt as the kind that has it most; the second half is tested.
fn type_rows(trace: &Trace, code: &Code) -> Vec<Row> {
    let of = |header: Header| {
        let mut by_hash: HashMap<u64, HashMap<u32, usize>> = HashMap::new();
        let (learnt, tested) = trace.transactions.split_at(trace.transactions.len() / 2);
        for transaction in learnt {
            let hash = header.hash(transaction, code);
            *by_hash.entry(hash).or_default().entry(transaction.kind).or_default() += 1;
        }
        let kind_of = |transaction: &Transaction| {
            let kinds = by_hash.get(&header.hash(transaction, code))?;
            kinds.iter().max_by_key(|(kind, n)| (**n, **kind)).map(|(kind, _)| *kind)
        };
        let right = tested.iter().filter(|t| kind_of(t) == Some(t.kind)).count();
        let mut row = row(trace, "types");
        match header {
            Header::Instructions(n) => set(&mut row, "first_instructions", n),
            Header::Blocks(n) => set(&mut row, "first_blocks", n),
        }
        set(&mut row, "kinds", trace.kinds.len() as u64);
        set(&mut row, "hashes", by_hash.len() as u64);
        set(&mut row, "correct", rounded(right as f64 / tested.len().max(1) as f64));
        row
    };
    let instructions = [16, 32, 64, 128, 256, 512].map(Header::Instructions);
    let blocks = [8, 16, 32, 64].map(Header::Blocks);
    instructions.into_iter().chain(blocks).map(of).collect()
}

impl Header {
    /// A hash of the addresses in it, in their order.
    fn hash(self, transaction: &Transaction, code: &Code) -> u64 {
        let (mut seen, mut hash, mut last) = (0, 0u64, u64::MAX);
        let mut add = |address: u64| {
            hash = (hash ^ address).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
        };
        for event in transaction.events() {
            let Event::Block(block) = event else { continue };
            let block = &code.blocks[block as usize];
            let most = match self {
                Header::Instructions(most) => {
                    add(block.address);
                    seen += u64::from(block.instructions);
                    most
                }
                Header::Blocks(most) => {
                    for line in block.first..block.first + u64::from(block.lines) {
                        if line != std::mem::replace(&mut last, line) && seen < most {
                            add(line);
                            seen += 1;
                        }
                    }
                    most
                }
            };
            if seen >= most {
                break;
            }
        }
        hash
    }
}

/// Schedulers on 16 cores (Figures 8.2, 8.3, 8.7; SLICC runs as many transactions at once as
/// ADDICT: sections 8.3.1 and 8.3.6), batches (8.4), hardware threads (8.5), a deeper
/// hierarchy (8.6), and the stability of migration points (8.1).
///
/// # Errors
/// [`StudyError`]: too few transactions, no marks, or a machine without a shared cache.
pub fn chapter_8(
    trace: &Trace,
    machine: &Machine,
    base: &Settings,
    warm: usize,
    course: &Course,
) -> Result<Vec<Row>, StudyError> {
    let mut study = Study::new(trace, machine, warm, "chapter 8")?;
    let profiled = if warm > 0 { warm } else { base.profile };
    let base = Settings { team: 16, profile: profiled, ..base.clone() };
    let four = [Scheduler::Baseline, Scheduler::Strex, Scheduler::Slicc, Scheduler::Addict];
    // At once as many transactions of a type as hardware threads, but under STREX.
    let with = |scheduler, contexts| {
        let batch = if scheduler == Scheduler::Slicc { base.cores * contexts } else { base.batch };
        Settings { scheduler, contexts, batch, ..base.clone() }
    };
    let of = |scheduler| with(scheduler, base.contexts);
    for scheduler in four {
        study.add("schedulers", machine, ("", 0.0), of(scheduler));
    }
    study.add("schedulers", machine, ("", 0.0), Settings { protect: Protect::Fill, ..of(Scheduler::Strex) });
    for batch in [2, 4, 8, 16, 32] {
        let addict = Settings { batch, ..of(Scheduler::Addict) };
        study.add("batch", machine, ("batch", batch as f64), addict);
        let strex = Settings { team: batch, ..of(Scheduler::Strex) };
        study.add("batch", machine, ("batch", batch as f64), strex);
    }
    for contexts in [2, 4, 8] {
        for scheduler in four {
            let team = (base.team / contexts).max(2);
            let settings = Settings { team, ..with(scheduler, contexts) };
            study.add("smt", machine, ("", 0.0), settings);
        }
    }
    // Caches of which the code of a transaction fills another share.
    for kb in [8, 16, 64] {
        let mut scaled = machine.clone();
        scaled.l1i.kb = kb;
        for scheduler in four {
            // Half of the lines, as the default is of 32 KB.
            let settings = Settings { fill_up: scaled.l1i.lines() as u32 / 2, ..of(scheduler) };
            study.add("l1i-scaled", &scaled, ("l1i_kb", kb as f64), settings);
        }
    }
    if machine.l2.is_none()
        && let Ok(deep) = Machine::built_in("zesto-deep")
    {
        for scheduler in four {
            study.add("deep", &deep, ("", 0.0), of(scheduler));
        }
    }
    let (mut rows, made) = std::thread::scope(|scope| {
        let points = scope.spawn(|| points(&study, machine, profiled));
        let made = study.run(course);
        (points.join().expect("the points are found"), made)
    });
    rows.extend(made);
    rows.extend(costs(trace));
    Ok(rows)
}

/// The share of operations that have the points of the profile, in the transactions that were
/// profiled and in the others: the second half where all were.
fn points(study: &Study<'_>, machine: &Machine, profiled: usize) -> Vec<Row> {
    let (trace, code) = (study.trace, &study.code);
    let half = if profiled == 0 { trace.transactions.len() / 2 } else { profiled };
    let (before, after): (Vec<usize>, Vec<usize>) = (0..trace.transactions.len()).partition(|&t| t < half);
    let settings = Settings { profile: profiled, ..Settings::default() };
    let of_half;
    let found = match profiled {
        0 => {
            of_half = profile(trace, code, machine.l1i, &before);
            &of_half
        }
        _ => study.profile(machine, &settings),
    };
    let check = stability(found, &sequences(trace, code, machine.l1i, &after));
    let of = |((kind, operation), points): (&(u32, u16), &crate::run::addict::Points)| {
        let mut row = row(trace, "points");
        set(&mut row, "kind", trace.kinds[*kind as usize].as_str());
        set(&mut row, "operation", name(*operation).unwrap_or("?"));
        set(&mut row, "points", points.sequence.len() as u64);
        set(&mut row, "runs", points.runs);
        set(&mut row, "stable_profiled", rounded(points.stable as f64 / points.runs.max(1) as f64));
        if let Some(stable) = check.get(&(*kind, *operation)) {
            set(&mut row, "stable", rounded(*stable));
        }
        row
    };
    found.iter().map(of).collect()
}

fn costs(trace: &Trace) -> Vec<Row> {
    let all = [
        ("slicc", hardware::slicc(16, 4, 2048)),
        ("strex", hardware::strex(512)),
        ("addict", hardware::addict(40)),
    ];
    let of = |(scheduler, bits): (&str, hardware::Bits)| {
        let mut row = row(trace, "hardware");
        set(&mut row, "scheduler", scheduler);
        set(&mut row, "monitor_bits", bits.monitor);
        set(&mut row, "scheduler_bits", bits.scheduler);
        set(&mut row, "team_bits", bits.teams);
        set(&mut row, "bytes", bits.bytes());
        row
    };
    all.map(of).into()
}
