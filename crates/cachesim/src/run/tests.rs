//! Schedulers on small traces of which the misses are known.

use crate::code::Code;
use crate::course::Course;
use crate::machine::Machine;
use crate::run::addict::{Place, Points, Profile, assign, profile};
use crate::run::settings::{Protect, Scheduler, Settings, Types};
use crate::run::{Input, Outcome, run};
use std::sync::OnceLock;
use trace::code::{COMMIT, END, READ, SCAN, UPDATE};
use trace::file::{Block, Function};
use trace::{Event, Trace, Transaction};

/// The lines of an L1-I.
const L1I: u32 = 512;

/// A trace of these transactions; block i is line i, of 16 instructions.
fn trace(transactions: Vec<Transaction>, lines: u32) -> Trace {
    let block = |i: u32| Block { address: u64::from(i) * 64, bytes: 64, instructions: 16, function: 0 };
    Trace {
        kinds: vec!["a".into(), "b".into()],
        functions: vec![Function { component: "b-tree".into(), name: "f".into() }],
        blocks: (0..lines).map(block).collect(),
        transactions,
        ..Trace::default()
    }
}

/// Transactions that run once through so many segments, each as large as an L1-I.
fn through(segments: u32, count: usize) -> Trace {
    let one = || Transaction::of(0, (0..segments * L1I).map(Event::Block));
    trace((0..count).map(|_| one()).collect(), segments * L1I)
}

fn outcome(trace: &Trace, settings: &Settings) -> Outcome {
    let chosen: Vec<usize> = (0..trace.transactions.len()).collect();
    let (code, machine) = (Code::of(trace), Machine::built_in("zesto").unwrap());
    let input = Input { trace, code: &code, chosen: &chosen };
    let profile = OnceLock::new();
    let profiled = || profile.get_or_init(|| input.profile(&machine, settings));
    run(input, &machine, settings, profiled, &Course::default())
}

fn with(scheduler: Scheduler, cores: usize) -> Settings {
    Settings { scheduler, cores, ..Settings::default() }
}

/// Figure 7.1: three equal transactions of three segments. One core loads nine segments, with STREX
/// three.
#[test]
fn strex_loads_each_segment_once() {
    let trace = through(3, 3);
    let misses = |settings: Settings| outcome(&trace, &settings).tally.l1i_misses / u64::from(L1I);
    assert_eq!(misses(with(Scheduler::Baseline, 1)), 9);
    assert_eq!(misses(with(Scheduler::Strex, 1)), 3);
    assert_eq!(misses(Settings { team: 1, ..with(Scheduler::Strex, 1) }), 9);
    let filled = outcome(&trace, &Settings { protect: Protect::Fill, ..with(Scheduler::Strex, 1) });
    assert!((3 * 512..9 * 512).contains(&filled.tally.l1i_misses));
    // Each segment but the last ends with a switch of each transaction.
    assert_eq!(outcome(&trace, &with(Scheduler::Strex, 1)).switches, 6);
}

/// Figure 7.1 for SLICC: four cores can hold the three segments, and transactions go round.
#[test]
fn slicc_spreads_the_code_over_cores() {
    let trace = through(3, 40);
    for types in [Types::None, Types::Software] {
        let settings = Settings { types, dilution: 1, ..with(Scheduler::Slicc, 4) };
        let slicc = outcome(&trace, &settings);
        let baseline = outcome(&trace, &with(Scheduler::Baseline, 4));
        assert_eq!(slicc.transactions, 40);
        assert!(slicc.tally.l1i_misses * 2 < baseline.tally.l1i_misses, "{types:?}: {slicc:?}");
        assert!(slicc.switches > 0 && baseline.switches == 0);
    }
}

/// Under each scheduler all instructions of all transactions run, also of transactions without
/// anything in common.
#[test]
fn every_transaction_ends() {
    let mut random = fastrand::Rng::with_seed(11);
    let one = |random: &mut fastrand::Rng| {
        let start = random.u32(0..8000);
        let length = random.u32(1..3000);
        let blocks = (start..start + length).map(Event::Block);
        let marks = [Event::Mark(READ), Event::Mark(READ | END)];
        let accesses = [Event::Load(random.u64(0..5000)), Event::Store(random.u64(0..5000))];
        Transaction::of(
            random.u32(0..2),
            marks[..1].iter().copied().chain(blocks).chain(accesses).chain(marks[1..].iter().copied()),
        )
    };
    let transactions: Vec<Transaction> = (0..70).map(|_| one(&mut random)).collect();
    let trace = trace(transactions, 11_000);
    let instructions = outcome(&trace, &with(Scheduler::Baseline, 1)).tally.instructions;
    for scheduler in Scheduler::ALL {
        for (cores, contexts) in [(1, 1), (2, 1), (4, 2), (16, 1)] {
            for types in [Types::None, Types::Software, Types::Scout] {
                let settings = Settings { contexts, types, ..with(scheduler, cores) };
                let outcome = outcome(&trace, &settings);
                let name = scheduler.name();
                assert_eq!(outcome.transactions, 70, "{name} on {cores}");
                assert_eq!(outcome.tally.instructions, instructions, "{name} on {cores}");
            }
        }
    }
}

/// Code that fits the L1-I is not changed by any scheduler that knows nothing of operations.
#[test]
fn small_code_misses_once_a_core() {
    let one = || Transaction::of(0, (0..50).flat_map(|_| 0..L1I / 2).map(Event::Block));
    let trace = trace((0..64).map(|_| one()).collect(), L1I);
    for scheduler in [Scheduler::Baseline, Scheduler::Strex, Scheduler::Slicc] {
        let outcome = outcome(&trace, &with(scheduler, 4));
        assert_eq!(outcome.tally.l1i_misses, u64::from(L1I) / 2 * 4, "{}", scheduler.name());
        assert_eq!(outcome.switches, 0);
    }
}

/// Twice the contexts of a core, nothing missing: each runs half as fast.
#[test]
fn contexts_share_the_pipeline() {
    let one = || Transaction::of(0, (0..50).flat_map(|_| 0..100).map(Event::Block));
    let trace = trace((0..8).map(|_| one()).collect(), 100);
    let cycles = |contexts| {
        let settings = Settings { contexts, ..with(Scheduler::Baseline, 1) };
        outcome(&trace, &settings).cycles
    };
    assert!((cycles(2) / cycles(1) - 1.0).abs() < 0.05, "{} {}", cycles(1), cycles(2));
}

/// An operation that is half a line longer than the L1-I has one point; one that fits has none.
#[test]
fn points_lie_where_the_cache_is_full() {
    let l1i = Machine::built_in("zesto").unwrap().l1i;
    let long = || {
        let body = (0..L1I + 10).map(Event::Block);
        [Event::Mark(UPDATE)].into_iter().chain(body).chain([Event::Mark(UPDATE | END)])
    };
    let short = [Event::Mark(READ), Event::Block(1), Event::Block(2), Event::Mark(READ | END)];
    let other = (1..L1I + 300).step_by(2).map(Event::Block);
    let odd = [Event::Mark(UPDATE)].into_iter().chain(other).chain([Event::Mark(UPDATE | END)]);
    let transactions = vec![
        Transaction::of(0, short.into_iter().chain(long())),
        Transaction::of(0, long()),
        Transaction::of(0, odd),
    ];
    let trace = trace(transactions, L1I * 2);
    let found = profile(&trace, &Code::of(&trace), l1i, &[0, 1, 2]);
    let points = |sequence: Vec<u64>, runs, stable| Points { sequence, runs, stable };
    assert_eq!(found[&(0, READ)], points(vec![], 1, 1));
    assert_eq!(found[&(0, UPDATE)], points(vec![u64::from(L1I)], 3, 2));
}

fn points(lines: &[u64], runs: u64) -> Points {
    Points { sequence: lines.to_vec(), runs, stable: runs }
}

/// Algorithm 5: core 0 begins, then one core for each entry and point; the rest goes to the most
/// frequent operation first, entries first.
#[test]
fn places_get_their_cores() {
    let profile: Profile =
        [((0, READ), points(&[], 30)), ((0, UPDATE), points(&[700, 800], 20)), ((0, COMMIT), points(&[], 1))]
            .into();
    let place = |operation, line, before| Place { operation, line, before };
    let all = assign(&profile, 0, 6).unwrap();
    let expected = [
        (place(0, 0, 0), vec![0]),
        (place(READ, 0, 0), vec![1]),
        (place(UPDATE, 0, 0), vec![2]),
        (place(UPDATE, 700, 0), vec![3]),
        (place(UPDATE, 800, 700), vec![4]),
        (place(COMMIT, 0, 0), vec![5]),
    ];
    assert_eq!(all, expected);
    // Too few cores: the least frequent operation with inner points loses its last one.
    let five = assign(&profile, 0, 5).unwrap();
    assert!(five.iter().all(|(place, _)| place.line != 800) && five.len() == 5);
    // Too many: READ's entry, then those of UPDATE, then its points.
    let nine = assign(&profile, 0, 9).unwrap();
    assert_eq!(
        (nine[1].1.clone(), nine[2].1.clone(), nine[3].1.clone()),
        (vec![1, 6], vec![2, 7], vec![3, 8])
    );
    assert_eq!(assign(&profile, 0, 3), None);
}

/// The worked example of section 8.2.2.
#[test]
fn the_example_of_the_thesis() {
    let (insert, probe, update) = (trace::code::INSERT, READ, UPDATE);
    let profile: Profile = [
        ((1, insert), points(&[0x8b_5f5f, 0x89_9397], 9)),
        ((2, probe), points(&[0x98_560e, 0x8d_97bc], 10)),
        ((2, update), points(&[0x95_57f0], 5)),
    ]
    .into();
    let cores = |kind, count| {
        let places = assign(&profile, kind, count).unwrap();
        places.into_iter().map(|(p, cores)| (p.operation, p.line, p.before, cores)).collect::<Vec<_>>()
    };
    let first = [
        (0, 0, 0, vec![0]),
        (insert, 0, 0, vec![1]),
        (insert, 0x8b_5f5f, 0, vec![2]),
        (insert, 0x89_9397, 0x8b_5f5f, vec![3]),
    ];
    assert_eq!(cores(1, 4), first);
    let second = [
        (0, 0, 0, vec![0]),
        (probe, 0, 0, vec![1]),
        (probe, 0x98_560e, 0, vec![2]),
        (probe, 0x8d_97bc, 0x98_560e, vec![3]),
        (update, 0, 0, vec![4]),
        (update, 0x95_57f0, 0, vec![5]),
    ];
    assert_eq!(cores(2, 6), second);
}

/// Section 8.2.2: cores that are left go to points by the frequency of their operations, not to
/// each operation in turn: of a scan of one and 200 probes, the probe has nearly all.
#[test]
fn frequent_operations_get_more_cores() {
    let profile: Profile =
        [((0, READ), points(&[], 200)), ((0, SCAN), points(&[], 1)), ((0, COMMIT), points(&[], 1))].into();
    let places = assign(&profile, 0, 16).unwrap();
    let cores: Vec<usize> = places.iter().map(|(_, cores)| cores.len()).collect();
    assert_eq!(cores, [1, 13, 1, 1]);
    let all: std::collections::BTreeSet<usize> = places.into_iter().flat_map(|(_, cores)| cores).collect();
    assert_eq!(all.len(), 16);
}

/// Operations on cores of their own: after the first transaction nothing misses.
#[test]
fn addict_keeps_each_operation_on_its_core() {
    let operation = |code: u16, start: u32| {
        let body = (start..start + 400).map(Event::Block);
        [Event::Mark(code)].into_iter().chain(body).chain([Event::Mark(code | END)])
    };
    let one = || {
        let twice = (0..2).flat_map(|_| operation(READ, 0).chain(operation(UPDATE, 512)));
        Transaction::of(0, twice.collect::<Vec<_>>())
    };
    let trace = trace((0..32).map(|_| one()).collect(), 1024);
    // Just as many cores as places, so that none is given to another place.
    let addict = outcome(&trace, &Settings { batch: 1, ..with(Scheduler::Addict, 4) });
    assert!(addict.tally.l1i_misses <= 3 * 400, "{addict:?}");
    let baseline = outcome(&trace, &with(Scheduler::Baseline, 4));
    assert!(baseline.tally.l1i_misses > 20 * 400, "{baseline:?}");
    assert!(addict.switches >= 32 * 4);
}

/// With two hardware threads of a core, operations still have cores of their own (Algorithm 5 gives
/// each a core).
#[test]
fn hardware_threads_of_a_core_have_one_place() {
    let operation = |code: u16, start: u32| {
        let body = (start..start + 400).map(Event::Block);
        [Event::Mark(code)].into_iter().chain(body).chain([Event::Mark(code | END)])
    };
    let all = || operation(READ, 0).chain(operation(UPDATE, 512)).chain(operation(COMMIT, 1024));
    let transactions = (0..32).map(|_| Transaction::of(0, all())).collect();
    let trace = trace(transactions, 1536);
    let addict = outcome(&trace, &Settings { contexts: 2, batch: 1, ..with(Scheduler::Addict, 4) });
    assert!(addict.tally.l1i_misses <= 4 * 400, "{addict:?}");
}

/// All schedulers are measured on the same transactions, also those that take the ones of a type
/// out of turn.
#[test]
fn what_warms_is_not_measured() {
    let of = |kind: u32| {
        let start = kind * 600;
        let body = (start..start + 300 + 100 * kind).map(Event::Block);
        let marks = [Event::Mark(READ), Event::Mark(READ | END)];
        Transaction::of(kind, marks[..1].iter().copied().chain(body).chain(marks[1..].iter().copied()))
    };
    let trace = trace((0..60).map(|i| of(u32::from(i % 3 == 0))).collect(), 1200);
    let lines =
        |numbers: std::ops::Range<u64>| -> u64 { numbers.map(|i| if i % 3 == 0 { 400 } else { 300 }).sum() };
    for scheduler in Scheduler::ALL {
        let outcome = outcome(&trace, &Settings { warm: 20, ..with(scheduler, 4) });
        assert_eq!(outcome.transactions, 40, "{}", scheduler.name());
        assert_eq!(outcome.tally.instructions, 16 * lines(20..60), "{}", scheduler.name());
    }
}

/// So many turns of a loop that fits the L1-I.
fn turns(kind: u32, turns: u32) -> Transaction {
    Transaction::of(kind, (0..turns).flat_map(|_| 0..100).map(Event::Block))
}

/// A stray takes a core that is idle, and a large team does not wait for it (section 7.3.3: the
/// scheduler maximizes the use of cores, and strays are not grouped).
#[test]
fn a_stray_holds_no_team_back() {
    let others = (0..48).map(|_| turns(0, 20));
    let all = trace([turns(1, 400)].into_iter().chain(others).collect(), 100);
    let alone = outcome(&trace(vec![turns(1, 400)], 100), &with(Scheduler::Slicc, 4)).cycles;
    let together = outcome(&all, &with(Scheduler::Slicc, 4));
    assert!(together.cycles < 1.3 * alone, "{} {alone}", together.cycles);
}

/// Sections 7.5.3 and 7.5.4, of MapReduce: code that fits the L1-I runs as fast as on the baseline
/// with any number of cores. So no core is idle while a team waits.
#[test]
fn slicc_does_not_slow_small_code_down() {
    let trace = trace((0..480).map(|_| turns(0, 20)).collect(), 100);
    for cores in [2, 4, 8, 16] {
        let slicc = outcome(&trace, &with(Scheduler::Slicc, cores));
        let baseline = outcome(&trace, &with(Scheduler::Baseline, cores));
        assert_eq!(slicc.switches, 0);
        let slower = slicc.cycles / baseline.cycles;
        // With 16 cores, the last team is as long as two of 30 transactions of a core.
        assert!(slower < if cores == 16 { 1.07 } else { 1.03 }, "{cores} cores: {slower}");
    }
}

/// Table 7.4: 30 transactions wait at all cores together.
#[test]
fn the_queue_of_slicc_has_thirty_entries() {
    let mut random = fastrand::Rng::with_seed(7);
    let all = (0..400).map(|_| turns(random.u32(0..2), 1 + 20 * random.u32(0..10))).collect();
    let most = outcome(&trace(all, 100), &with(Scheduler::Slicc, 16)).most_in_flight;
    assert!((31..=30 + 16).contains(&most), "{most}");
}

/// A team for which the queue had no room begins when it has, also on a core that was idle before.
#[test]
fn no_team_begins_before_its_cores_are_given_to_it() {
    let first = [1, 100, 100, 100, 1, 100, 100, 100].map(|n| turns(0, n));
    let second = (0..8).map(|_| turns(1, 300));
    let trace = trace(first.into_iter().chain(second).collect(), 100);
    let outcome = outcome(&trace, &Settings { pool: 8, ..with(Scheduler::Slicc, 4) });
    // Three of the second team run on the core that has had two short ones.
    let turn = 100.0 * 16.0 / 2.0;
    assert!(outcome.cycles > 980.0 * turn, "{}", outcome.cycles / turn);
}

/// In chapter 8, as many transactions run at once as there are hardware threads.
#[test]
fn slicc_runs_a_batch_at_once() {
    for batch in [1, 4, 8] {
        let of = |i: u32| Transaction::of(i / 8 % 2, (0..3 * L1I).map(Event::Block));
        let trace = trace((0..40).map(of).collect(), 3 * L1I);
        let outcome = outcome(&trace, &Settings { batch, ..with(Scheduler::Slicc, 4) });
        assert_eq!((outcome.transactions, outcome.most_in_flight), (40, batch));
    }
}
