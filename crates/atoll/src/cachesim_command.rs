//! `atoll cachesim`: the figures of the thesis' chapters 6 to 8 from a trace.

use crate::cli::{CachesimArgs, ProtectArg, ResetArg, SchedulerArg, StudyArg, TypesArg};
use crate::failure::Failure;
use crate::output::print;
use crate::progress::Progress;
use crate::results::write;
use cachesim::Course;
use cachesim::machine::{BUILT_IN, Machine};
use cachesim::run::settings::{Protect, Reset, Scheduler, Settings, Types};
use cachesim::study::{self, Row};
use deploy::Interrupt;
use driver::Watcher;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use trace::Trace;
use world::tell;

/// The interval at which progress is shown, and an interruption noticed.
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub fn run(args: &CachesimArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let mut trace = Trace::read(&args.trace).map_err(Failure::run)?;
    if let Some(most) = args.transactions {
        trace.transactions.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    }
    let rows = rows(args, &trace, interrupt)?;
    if let Some(path) = &args.page {
        page(path, args, &rows)?;
    }
    if args.json {
        return rows.into_iter().try_for_each(|row| print(&Value::Object(row).to_string()));
    }
    print(study::sheet::text(&rows, width()).trim_end())
}

fn page(path: &Path, args: &CachesimArgs, rows: &[Row]) -> Result<(), Failure> {
    let page = report::microscope(&format!("Cache microscope: {}", args.trace.display()), rows);
    let page = page.ok_or_else(|| {
        Failure::Usage("--page: a single run has no chart; expected --study, or no --page".into())
    })?;
    write(path, page.html())?;
    tell(format_args!("page: {}", path.display()));
    Ok(())
}

/// The rows of the study, or of the one run, that was asked for, with progress meanwhile.
pub fn rows(args: &CachesimArgs, trace: &Trace, interrupt: &Interrupt) -> Result<Vec<Row>, Failure> {
    let single_core = args.study == Some(StudyArg::Chapter6);
    let machine =
        machine(args.machine.as_deref().unwrap_or(if single_core { "xeon-e5-2660" } else { "zesto" }))?;
    let half = trace.transactions.len() / 2;
    let settings = settings(args);
    let (warm, course) = (args.warm, Course::default());
    let made = watched(&course, interrupt, || match args.study {
        Some(StudyArg::Chapter6) => study::chapter_6(trace, &machine, warm.unwrap_or(half), &course),
        Some(StudyArg::Chapter7) => study::chapter_7(trace, &machine, &settings, warm.unwrap_or(0), &course),
        Some(StudyArg::Chapter8) => {
            study::chapter_8(trace, &machine, &settings, warm.unwrap_or(half), &course)
        }
        None => study::one_run(trace, &machine, &settings, warm.unwrap_or(0), &course),
    })?;
    made.map_err(|e| Failure::Run(format!("{}: {e}", args.trace.display())))
}

/// Makes a study on another thread, and shows its course on this one. An interruption stops it.
fn watched<T: Send>(
    course: &Course,
    interrupt: &Interrupt,
    study: impl FnOnce() -> T + Send,
) -> Result<T, Failure> {
    let mut progress = Progress::new(1);
    let made = std::thread::scope(|scope| {
        let study = scope.spawn(study);
        while !study.is_finished() {
            if interrupt.is_set() {
                course.stop();
            }
            progress.progress("simulating", course.share());
            std::thread::sleep(LOOK_EVERY);
        }
        study.join()
    });
    if interrupt.is_set() {
        return Err(Failure::InterruptedAlone("the simulation is given up, and nothing was written"));
    }
    made.map_err(|_| Failure::Run("the study has panicked; this is a bug".into()))
}

/// A machine by its name, or by its file.
fn machine(word: &str) -> Result<Machine, Failure> {
    if BUILT_IN.iter().any(|(name, _)| *name == word) || !word.ends_with(".toml") {
        return Machine::built_in(word).map_err(Failure::usage);
    }
    let text = std::fs::read_to_string(Path::new(word))
        .map_err(|e| Failure::Usage(format!("--machine {word}: cannot be read: {e}")))?;
    Machine::parse(word, &text).map_err(Failure::usage)
}

fn settings(args: &CachesimArgs) -> Settings {
    Settings {
        scheduler: match args.scheduler {
            None | Some(SchedulerArg::Baseline) => Scheduler::Baseline,
            Some(SchedulerArg::NextLine) => Scheduler::NextLine,
            Some(SchedulerArg::Pif) => Scheduler::Pif,
            Some(SchedulerArg::Strex) => Scheduler::Strex,
            Some(SchedulerArg::Slicc) => Scheduler::Slicc,
            Some(SchedulerArg::Addict) => Scheduler::Addict,
        },
        cores: args.cores,
        contexts: args.contexts,
        team: args.team,
        window: args.window,
        protect: match args.protect {
            ProtectArg::Refuse => Protect::Refuse,
            ProtectArg::Fill => Protect::Fill,
        },
        fill_up: args.fill_up,
        matched: args.matched,
        dilution: args.dilution,
        signature: args.signature,
        types: match args.types {
            TypesArg::None => Types::None,
            TypesArg::Software => Types::Software,
            TypesArg::Scout => Types::Scout,
        },
        reset: match args.reset {
            ResetArg::Idle => Reset::Idle,
            ResetArg::Team => Reset::Team,
        },
        pool: args.pool,
        queue: args.queue,
        patience: args.patience,
        fetch_bytes: args.fetch_bytes,
        batch: args.batch.unwrap_or(0),
        ..Settings::default()
    }
}

/// The columns of the terminal; of a file, as many as most terminals have.
fn width() -> usize {
    comfy_table::Table::new().width().map_or(100, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cachesim/tests/data/tpcb.trace");

    fn failure(words: &[&str]) -> String {
        let line = ["atoll", "cachesim"].iter().chain(words);
        let Some(Command::Cachesim(args)) = Cli::try_parse_from(line).unwrap().command else {
            panic!("no command line of cachesim")
        };
        run(&args, &Interrupt::default()).unwrap_err().to_string()
    }

    fn args(words: &[&str]) -> CachesimArgs {
        let line = ["atoll", "cachesim", "t"].iter().chain(words);
        match Cli::try_parse_from(line).unwrap().command {
            Some(Command::Cachesim(args)) => *args,
            _ => panic!("no command line of cachesim"),
        }
    }

    /// A trace of a program without marks of operations.
    #[test]
    fn a_study_that_needs_marks_says_so() {
        let block = trace::file::Block { address: 64, bytes: 16, instructions: 4, function: 0 };
        let one = || trace::Transaction::of(0, [trace::Event::Block(0)]);
        let trace = Trace {
            kinds: vec!["a".into()],
            functions: vec![trace::file::Function { component: "heap".into(), name: "f".into() }],
            blocks: vec![block],
            transactions: (0..4).map(|_| one()).collect(),
            ..Trace::default()
        };
        for (words, name) in [
            (&["--study", "chapter-6"][..], "chapter 6"),
            (&["--study", "chapter-7"], "chapter 7"),
            (&["--study", "chapter-8"], "chapter 8"),
            (&["--scheduler", "addict"], "a scheduler"),
        ] {
            let failure = rows(&args(words), &trace, &Interrupt::default()).unwrap_err().to_string();
            let part = format!("no marks of operations, which {name} needs; capture it with");
            assert!(failure.contains(&part) && !failure.contains('\n'), "{words:?}: {failure}");
        }
    }

    /// An interrupted study ends at once, and gives no rows.
    #[test]
    fn an_interrupted_study_gives_no_rows() {
        let trace = Trace::read(Path::new(GOLDEN)).unwrap();
        let interrupt = Interrupt::default();
        interrupt.set();
        for study in ["chapter-6", "chapter-7", "chapter-8"] {
            let rows = rows(&args(&["--study", study]), &trace, &interrupt);
            let failure = rows.unwrap_err();
            assert_eq!(failure.code(), 130);
            let said = "interrupted; the simulation is given up, and nothing was written";
            assert_eq!(failure.to_string(), said, "{study}");
        }
    }

    /// What was expected, and what to do, in one line.
    #[test]
    fn bad_input_is_explained() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = directory.path().join(name);
            std::fs::write(&path, content).unwrap();
            path.display().to_string()
        };
        let golden = std::fs::read(GOLDEN).unwrap();
        let (foreign, cut) = (file("foreign", b"PK no trace"), file("cut", &golden[..golden.len() / 2]));
        let newer = [&golden[..8], &9u32.to_le_bytes(), &golden[12..]].concat();
        let newer = file("newer", &newer);
        let machine = include_str!("../../../machines/caches/zesto.toml").replacen("ways = 8", "ways = 0", 1);
        let machine = file("m.toml", machine.as_bytes());
        for (words, part) in [
            (vec!["/nowhere/t", "--study", "chapter-6"], "cannot read /nowhere/t"),
            (
                vec![foreign.as_str(), "--study", "chapter-6"],
                "is no trace: expected a file that atoll trace wrote",
            ),
            (vec![cut.as_str(), "--study", "chapter-6"], "capture it again"),
            (vec![newer.as_str(), "--study", "chapter-6"], "a trace of version 9: expected 1"),
            (vec![GOLDEN, "--study", "chapter-6", "--warm", "99"], "expected at least 100"),
            (vec![GOLDEN, "--study", "chapter-7", "--machine", "xeon-e5-2660"], "no shared last level"),
            (vec![GOLDEN, "--study", "chapter-7", "--machine", "z80"], "no such machine is built in"),
            (
                vec![GOLDEN, "--scheduler", "strex", "--machine", machine.as_str()],
                "l1i cannot be 32 KB of 0 ways",
            ),
        ] {
            let failure = failure(&words);
            assert!(failure.contains(part) && !failure.contains('\n'), "{words:?}: {failure}");
        }
    }
}
