//! Two small traces that were captured once: twenty deposits of TPC-B, and ten transactions of
//! TPC-C. They stand for any capture, so that no test needs an emulator.

use cachesim::Course;
use cachesim::code::Code;
use cachesim::machine::Machine;
use cachesim::run::settings::{Scheduler, Settings};
use cachesim::study::{Row, StudyError, chapter_6, chapter_8, one_run};
use std::path::Path;
use trace::{Event, Trace, Transaction};

fn golden(name: &str) -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    Trace::read(&path).expect("a golden trace is readable")
}

fn number(row: &Row, name: &str) -> f64 {
    row.get(name).and_then(|value| value.as_f64()).unwrap_or_else(|| panic!("no {name} in {row:?}"))
}

fn rows_of<'r>(rows: &'r [Row], table: &str) -> Vec<&'r Row> {
    rows.iter().filter(|row| row.get("table").and_then(|t| t.as_str()) == Some(table)).collect()
}

/// The tracer counted each instruction and access; the events add up to the same.
#[test]
fn the_events_add_up_to_the_counts() {
    for (name, kinds) in [("tpcb.trace", 1), ("tpcc.trace", 3)] {
        let trace = golden(name);
        let code = Code::of(&trace);
        let mut seen: Vec<u32> = trace.transactions.iter().map(|t| t.kind).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), kinds);
        for transaction in &trace.transactions {
            let instructions: u64 = transaction
                .events()
                .map(|event| match event {
                    Event::Block(block) => u64::from(code.blocks[block as usize].instructions),
                    _ => 0,
                })
                .sum();
            assert_eq!(instructions, transaction.counts.instructions);
            // An access over the border of a line is two events.
            let events = |wanted: fn(&Event) -> bool| transaction.events().filter(wanted).count() as u64;
            let loads = events(|event| matches!(event, Event::Load(_)));
            let stores = events(|event| matches!(event, Event::Store(_)));
            let counts = transaction.counts;
            assert!((counts.loads..counts.loads * 21 / 20).contains(&loads), "{loads} {counts:?}");
            assert!((counts.stores..counts.stores * 21 / 20).contains(&stores), "{stores} {counts:?}");
        }
    }
}

/// The order of sizes that the thesis found (Figure 6.1), and shares that add up.
#[test]
fn most_misses_are_of_instructions() {
    let machine = Machine::built_in("xeon-e5-2660").unwrap();
    for name in ["tpcb.trace", "tpcc.trace"] {
        let trace = golden(name);
        let rows = chapter_6(&trace, &machine, trace.transactions.len() / 2, &Course::default()).unwrap();
        let caches = rows_of(&rows, "caches");
        let mpki: Vec<f64> = caches.iter().map(|row| number(row, "mpki")).collect();
        assert!(mpki[1..].iter().all(|&other| other < mpki[0]), "{name}: {mpki:?}");
        let shares: f64 = caches.iter().map(|row| number(row, "stall_share")).sum();
        assert!((shares - 1.0).abs() < 1e-3);
        let sizes: Vec<f64> = rows_of(&rows, "l1i-size").iter().map(|row| number(row, "mpki")).collect();
        assert!(sizes.windows(2).all(|two| two[1] <= two[0]), "{name}: {sizes:?}");
        for table in ["operations", "components"] {
            let sum: f64 = rows_of(&rows, table).iter().map(|row| number(row, "l1i")).sum();
            assert!((sum - 1.0).abs() < 1e-3, "{name}, {table}: {sum}");
        }
    }
}

/// Equal transactions in a team or on cores of their own miss less than one core's worth each.
#[test]
fn schedulers_save_instruction_misses_of_equal_transactions() {
    let trace = golden("tpcb.trace");
    let machine = Machine::built_in("zesto").unwrap();
    let mpki = |scheduler, cores| {
        let settings = Settings { scheduler, cores, ..Settings::default() };
        let rows = one_run(&trace, &machine, &settings, 0, &Course::default()).unwrap();
        assert_eq!(number(&rows[0], "transactions"), 20.0);
        number(&rows[0], "l1i_mpki")
    };
    let baseline = mpki(Scheduler::Baseline, 2);
    assert!(mpki(Scheduler::Strex, 2) < 0.8 * baseline);
    assert_eq!(mpki(Scheduler::Pif, 2), baseline);
    assert_eq!(
        number(
            &one_run(&trace, &machine, &Settings::default(), 0, &Course::default()).unwrap()[0],
            "switches"
        ),
        0.0
    );
}

/// Equal input, equal rows: nothing depends on time or on the number of threads.
#[test]
fn a_study_repeats() {
    let mut trace = golden("tpcb.trace");
    trace.transactions.truncate(8);
    let machine = Machine::built_in("zesto").unwrap();
    let study = || chapter_8(&trace, &machine, &Settings::default(), 4, &Course::default()).unwrap();
    assert_eq!(study(), study());
}

#[test]
fn what_a_study_lacks_is_said() {
    let trace = golden("tpcb.trace");
    let (one_core, chip) = (Machine::built_in("xeon-e5-2660").unwrap(), Machine::built_in("zesto").unwrap());
    assert!(matches!(
        chapter_6(&trace, &one_core, 20, &Course::default()),
        Err(StudyError::TooFew { found: 20, needed: 21 })
    ));
    let settings = Settings::default();
    assert!(matches!(
        one_run(&trace, &one_core, &settings, 0, &Course::default()),
        Err(StudyError::NoSharedCache { .. })
    ));
    let bare = Transaction::of(0, [Event::Block(0)]);
    let unmarked = Trace { transactions: vec![bare], ..golden("tpcb.trace") };
    assert!(matches!(
        one_run(&unmarked, &chip, &settings, 0, &Course::default()),
        Err(StudyError::NoMarks { .. })
    ));
}
