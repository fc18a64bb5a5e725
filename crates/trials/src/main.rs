//! The trials at length; `cargo xtask crash` and similar commands call this program.

#![forbid(unsafe_code)]

use exec::DesignKind;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use trials::crash::{self, Effort, Subject};
use trials::deployed::{Keys, deployed};
use trials::histories::{HistoryVerdict, Plan};
use trials::islands::{Course, Outcome, Trouble};
use trials::workers::Crew;
use txn::TableKind;
use wal::Durability;

const USAGE: &str = "\
usage: trials crash  [--images N] [--seed S] [--chains N] [--threads N] [--design pages|occ]
       trials faults [--stride N] [--seed S] [--tables heap|clustered|both] [--design pages|occ]
       trials flips  [--flips N] [--seed S] [--tables heap|clustered|both]
       trials histories [--histories N] [--transactions N] [--seed S]
       trials histories tpce [--histories N] [--transactions N] [--seed S]
       trials histories islands [--histories N] [--transactions N] [--seed S] [--jobs N]
       trials member   (one of several instances; started by `trials histories islands`)
";

/// Why the program fails.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("{0}\n\n{USAGE}")]
    Usage(String),
    #[error("{0} disk(s) broke a promise")]
    Crash(usize),
    #[error("{0} failing operation(s) broke a promise")]
    Faults(usize),
    #[error("{0} turned bit(s) changed something silently")]
    Flips(usize),
    #[error("{0} histories are not strictly serialisable")]
    Histories(usize),
    #[error("{0} histories over several instances broke a promise")]
    Islands(usize),
    #[error("interrupted")]
    Interrupted,
    #[error(
        "orders cannot be read, or replies not be written: {0}; start this by `trials histories islands`"
    )]
    Member(std::io::Error),
    #[error("before anything failed: {0}")]
    Early(#[from] trials::ledger::Flaw),
    #[error(transparent)]
    Engine(#[from] exec::EngineFault),
    #[error(transparent)]
    Instance(#[from] instance::InstanceFault),
    #[error("a temporary folder cannot be made: {0}; expected a writable one, or TMPDIR to name it")]
    Folder(std::io::Error),
}

/// `--tables`, taken out of the arguments; both kinds if it is absent.
fn tables(args: &[String]) -> Result<(Vec<TableKind>, Vec<String>), Failed> {
    let Some(at) = args.iter().position(|arg| arg == "--tables") else {
        return Ok((TableKind::ALL.to_vec(), args.to_vec()));
    };
    let word = args.get(at + 1).map_or("", String::as_str);
    let named = |kind: &TableKind| word == "both" || kind.name() == word;
    let kinds: Vec<TableKind> = TableKind::ALL.into_iter().filter(named).collect();
    if kinds.is_empty() {
        return Err(Failed::Usage(format!("--tables '{word}': expected heap, clustered or both")));
    }
    Ok((kinds, [&args[..at], &args[at + 2..]].concat()))
}

/// `--design`, taken out of the arguments; pages if it is absent.
fn subject(args: &[String]) -> Result<(Subject, Vec<String>), Failed> {
    let Some(at) = args.iter().position(|arg| arg == "--design") else {
        return Ok((Subject::Pages, args.to_vec()));
    };
    let subject = match args.get(at + 1).map(String::as_str) {
        Some("pages") => Subject::Pages,
        Some("occ") => Subject::Memory,
        _ => return Err(Failed::Usage("--design: expected pages (all designs on pages) or occ".into())),
    };
    Ok((subject, [&args[..at], &args[at + 2..]].concat()))
}

/// `--name value` pairs, all numbers.
struct Arguments(Vec<(String, u64)>);

impl Arguments {
    fn read(args: &[String], known: &[&str]) -> Result<Arguments, Failed> {
        let mut pairs = Vec::new();
        for pair in args.chunks(2) {
            let name = pair[0].trim_start_matches("--");
            let value = pair.get(1).and_then(|v| v.parse().ok());
            match value {
                Some(value) if known.contains(&name) => pairs.push((name.to_owned(), value)),
                Some(_) => return Err(Failed::Usage(format!("unknown option '{}'", pair[0]))),
                None => return Err(Failed::Usage(format!("option '{}' takes a number", pair[0]))),
            }
        }
        Ok(Arguments(pairs))
    }

    fn get(&self, name: &str) -> Option<u64> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| *v)
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.first().map(String::as_str) {
        Some("crash") => crash(&args[1..]),
        Some("faults") => faults(&args[1..]),
        Some("flips") => flips(&args[1..]),
        Some("histories") if args.get(1).is_some_and(|arg| arg == "islands") => islands(&args[2..]),
        Some("histories") if args.get(1).is_some_and(|arg| arg == "tpce") => brokerage(&args[2..]),
        Some("histories") => histories(&args[1..]),
        Some("member") => {
            trials::member::serve(std::io::stdin().lock(), std::io::stdout().lock()).map_err(Failed::Member)
        }
        Some(other) => Err(Failed::Usage(format!("unknown command '{other}'"))),
        None => Err(Failed::Usage("a command is missing".into())),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("error: {failed}");
            ExitCode::from(match failed {
                Failed::Usage(_) => 2,
                Failed::Interrupted => 130,
                _ => 1,
            })
        }
    }
}

fn crash(args: &[String]) -> Result<(), Failed> {
    let (subject, args) = subject(args)?;
    let args = Arguments::read(&args, &["images", "seed", "chains", "threads"])?;
    let images = args.get("images").unwrap_or(12_000) as usize;
    let mut effort = Effort { subject, ..Effort::of_images(images) };
    effort.threads = args.get("threads").map_or(effort.threads, |n| n as usize);
    effort.chains = args.get("chains").unwrap_or(effort.chains);
    let seed = args.get("seed").unwrap_or_else(|| world::entropy() >> 32);
    println!("seed {seed}: {effort:?}");
    let begun = Instant::now();
    let outcome = crash::campaign(seed, effort, Some(Path::new("target/crash")));
    let seconds = begun.elapsed().as_secs_f64();
    outcome.failures.iter().for_each(|f| println!("{f}"));
    println!(
        "{} disks ({} distinct) of {} transactions, {} cut at a sync, {} failed; {:.0} disks/s",
        outcome.images,
        outcome.distinct,
        outcome.transactions,
        outcome.sync_points,
        outcome.failures.len(),
        outcome.images as f64 / seconds
    );
    if outcome.failures.is_empty() { Ok(()) } else { Err(Failed::Crash(outcome.failures.len())) }
}

fn faults(args: &[String]) -> Result<(), Failed> {
    let (subject, args) = subject(args)?;
    let (kinds, args) = tables(&args)?;
    let args = Arguments::read(&args, &["stride", "seed"])?;
    let (stride, seed) = (args.get("stride").unwrap_or(1).max(1), args.get("seed").unwrap_or(0));
    if subject == Subject::Memory {
        let outcome = trials::memory_run::faults(stride, seed)?;
        outcome.failures.iter().for_each(|(plan, flaw)| println!("{plan}: {flaw}"));
        let (unharmed, stopped, failed) = (outcome.unharmed, outcome.stopped, outcome.failures.len());
        println!("{unharmed} unharmed, {stopped} stopped, {failed} failed");
        return if failed == 0 { Ok(()) } else { Err(Failed::Faults(failed)) };
    }
    let outcome = trials::faults::campaign(&kinds, stride, seed)?;
    outcome.failures.iter().for_each(|(plan, flaw)| println!("{plan}: {flaw}"));
    println!("{:?}, {} failed", outcome.ended, outcome.failures.len());
    if outcome.failures.is_empty() { Ok(()) } else { Err(Failed::Faults(outcome.failures.len())) }
}

fn flips(args: &[String]) -> Result<(), Failed> {
    let (kinds, args) = tables(args)?;
    let args = Arguments::read(&args, &["flips", "seed"])?;
    let (flips, seed) = (args.get("flips").unwrap_or(10_000), args.get("seed").unwrap_or(0));
    let outcome = trials::flips::campaign(&kinds, flips, seed)?;
    outcome.silent.iter().for_each(|(place, flaw)| println!("{place}: {flaw}"));
    println!("in {:?}", outcome.files);
    println!("{} detected, {} harmless, {} silent", outcome.detected, outcome.harmless, outcome.silent.len());
    if outcome.silent.is_empty() { Ok(()) } else { Err(Failed::Flips(outcome.silent.len())) }
}

fn histories(args: &[String]) -> Result<(), Failed> {
    let args = Arguments::read(args, &["histories", "transactions", "seed"])?;
    let (count, first) = (args.get("histories").unwrap_or(20), args.get("seed").unwrap_or(0));
    let transactions = args.get("transactions").unwrap_or(20_000) as usize;
    let mut wrong = 0;
    for seed in first..first + count {
        // Several owners, where whole instances are recorded.
        let workers = if seed % 12 < 8 { 1 + seed as usize % 4 } else { 2 + seed as usize % 3 };
        let plan = Plan {
            crew: Crew { workers, clients: 6 },
            transactions,
            rollback_one_in: 10,
            durability: if seed % 5 == 4 { Durability::Sync } else { Durability::Memory },
            kind: TableKind::ALL[seed as usize / 3 % 2],
            seed,
        };
        let early = |fault| Failed::from(trials::ledger::Flaw::from(fault));
        let (design, verdict) = match seed % 12 {
            8..12 => among_owners(plan)?,
            1 => ("logical", trials::histories::logical(plan).map_err(early)?),
            0 | 3 => ("serial", trials::histories::serial(plan).map_err(early)?),
            6 | 7 => ("occ", trials::histories::occ(plan)?),
            _ => ("conventional", trials::histories::conventional(plan).map_err(early)?),
        };
        println!(
            "{design}, {plan:?}: {} committed, {} aborted {:?} {}",
            verdict.committed, verdict.aborted, verdict.anomalies, verdict.explanation
        );
        wrong += usize::from(!verdict.strictly_serialisable);
    }
    if wrong == 0 { Ok(()) } else { Err(Failed::Histories(wrong)) }
}

/// Histories of a reduced TPC-E, each under the next design: on one engine, in one instance, and in
/// two.
fn brokerage(args: &[String]) -> Result<(), Failed> {
    let args = Arguments::read(args, &["histories", "transactions", "seed"])?;
    let (count, first) = (args.get("histories").unwrap_or(20), args.get("seed").unwrap_or(0));
    let transactions = args.get("transactions").unwrap_or(10_000) as usize;
    let mut wrong = 0;
    for seed in first..first + count {
        let (place, design) = brokerage_of(seed);
        let crew = Crew { workers: 2 + seed as usize / 4 % 3, clients: 4 };
        let plan = trials::brokerage::Plan { crew, transactions, seed };
        let verdict = match place {
            0 => trials::brokerage::record(design, plan)?,
            islands => {
                let dir = tempfile::tempdir().map_err(Failed::Folder)?;
                trials::brokerage::deployed::record(design, islands, plan, dir.path())?
            }
        };
        let HistoryVerdict { committed, aborted, anomalies, explanation, .. } = &verdict;
        let name = design.name();
        println!(
            "{name} x{place}, {plan:?}: {committed} committed, {aborted} aborted {anomalies:?} {explanation}"
        );
        // The number of attempts is given on one engine, that of commits in whole instances.
        let hangs = place > 0 && *committed < transactions;
        if hangs {
            println!("  expected {transactions} commits: the others did not come to an end");
        }
        wrong += usize::from(!verdict.strictly_serialisable || hangs);
    }
    if wrong == 0 { Ok(()) } else { Err(Failed::Histories(wrong)) }
}

/// The place of a history of TPC-E, and its design: 0 for one engine, or the number of instances.
fn brokerage_of(seed: u64) -> (u16, DesignKind) {
    let engines = [DesignKind::Conventional, DesignKind::Serial, DesignKind::Occ].map(|design| (0, design));
    let instances = (1..=2).flat_map(|islands| DesignKind::ALL.map(|design| (islands, design)));
    let all: Vec<_> = engines.into_iter().chain(instances).collect();
    all[seed as usize % all.len()]
}

/// Histories over several instances that end and restart, `--jobs` at a time. A history mostly
/// waits: for disks, for locks, for instances that restart.
fn islands(args: &[String]) -> Result<(), Failed> {
    let args = Arguments::read(args, &["histories", "transactions", "seed", "jobs"])?;
    let (count, first) = (args.get("histories").unwrap_or(20), args.get("seed").unwrap_or(0));
    let transactions = args.get("transactions").unwrap_or(3000) as usize;
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let jobs = args.get("jobs").unwrap_or(2 * cpus).clamp(1, count.max(1));
    let program = std::env::current_exe().map_err(Failed::Member)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The second one ends the process at once.
        let registered = signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)));
        registered.map_err(Failed::Member)?;
    }
    let again = |seed, histories| {
        format!(
            "cargo xtask histories islands --seed {seed} --histories {histories} --transactions {transactions}"
        )
    };
    let (begun, next) = (Instant::now(), AtomicU64::new(first));
    let found = Mutex::new(Found::default());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let course = Course::drawn(seed, transactions);
                    let outcome = trials::islands::record(&course, &program, &stop);
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    if !found.take(seed, &outcome) {
                        return;
                    }
                    let left =
                        begun.elapsed().as_secs_f64() / found.done as f64 * (count - found.done) as f64;
                    let place = format!("{}/{count}, {:.0} min left", found.done, left / 60.0);
                    match &outcome {
                        Ok(outcome) => println!("{course}: {outcome} ({place})"),
                        Err(trouble) => println!("{course}: {trouble} ({place})"),
                    }
                    if found.wrong.last() == Some(&seed) {
                        println!("  again: {}", again(seed, 1));
                    }
                }
            });
        }
    });
    let Found { done, wrong, committed, ended, cut } =
        found.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(seed) = cut {
        println!("interrupted after {done} histories of {count}, {} of them wrong {wrong:?}", wrong.len());
        println!("from the first that was cut off on: {}", again(seed, first + count - seed));
        return Err(Failed::Interrupted);
    }
    println!(
        "{count} histories, {committed} transactions committed, {ended} ends of instances, {} wrong {wrong:?}",
        wrong.len()
    );
    if wrong.is_empty() { Ok(()) } else { Err(Failed::Islands(wrong.len())) }
}

/// The results of histories over several instances, as far as they have been recorded.
#[derive(Default)]
struct Found {
    done: u64,
    /// The seeds of histories that broke a promise or could not be recorded.
    wrong: Vec<u64>,
    committed: usize,
    ended: usize,
    /// The lowest seed that an interruption cut off.
    cut: Option<u64>,
}

impl Found {
    /// Adds the outcome of one history. Returns `false` when the recording was interrupted.
    fn take(&mut self, seed: u64, outcome: &Result<Outcome, Trouble>) -> bool {
        match outcome {
            Err(Trouble::Interrupted) => {
                self.cut = Some(self.cut.map_or(seed, |lowest| lowest.min(seed)));
                return false;
            }
            Err(_) => self.wrong.push(seed),
            Ok(outcome) => {
                self.committed += outcome.verdict.committed;
                self.ended += outcome.ended;
                if !outcome.is_sound() {
                    self.wrong.push(seed);
                }
            }
        }
        self.done += 1;
        true
    }
}

/// A history of a whole instance, of which the keys have several owners and move between them.
fn among_owners(plan: Plan) -> Result<(&'static str, HistoryVerdict), Failed> {
    let owners: Vec<DesignKind> = DesignKind::ALL.into_iter().filter(|design| design.owns_keys()).collect();
    let design = owners[plan.seed as usize % owners.len()];
    let dir = tempfile::tempdir().map_err(Failed::Folder)?;
    Ok((design.name(), deployed(design, plan, Keys::Move, dir.path())?))
}
