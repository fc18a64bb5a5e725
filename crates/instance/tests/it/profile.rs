//! The profile of transactions with known accesses; and its parts add up in every deployment.

use crate::support::{Deployment, Via, any, config, private_dir};
use exec::DesignKind;
use probe::{Component, Counter, Kind, Measured, Profile, Profiling, Section};
use txn::Workload;
use wal::Durability;
use workload::AnyWorkload;
use workload::micro::{Micro, MicroOptions, Op};
use workload::tpcb::{Tpcb, TpcbOptions};

/// The largest relative error: the sums are exact but for rounding, and for requests under way when
/// the window ends.
const TOLERANCE: f64 = 0.05;

struct Shape {
    design: DesignKind,
    islands: u16,
    workers: usize,
    via: Via,
    durability: Durability,
    clients: usize,
}

impl Shape {
    fn alone(design: DesignKind) -> Shape {
        Shape { design, islands: 1, workers: 1, via: Via::Ring, durability: Durability::Memory, clients: 1 }
    }

    fn run<W: Workload>(&self, workload: W, profiling: Profiling, ms: u64) -> (Measured, Profile) {
        let dir = private_dir();
        let configs = (0..self.islands).map(|i| {
            let place = (i, self.islands);
            config(&workload, dir.path(), self.design, self.durability, place, self.workers, self.via)
        });
        let deployment = Deployment::start(workload.clone(), configs.collect());
        deployment.load();
        deployment.instances.iter().for_each(|i| i.profile(profiling).unwrap());
        let measured = deployment.run(self.clients, ms);
        deployment.stop();
        assert!(measured.committed_total() > 10, "{measured:?}");
        let profile = measured.profile.clone().expect("profiling is on");
        (measured, *profile)
    }
}

fn micro(op: Op, multisite: f64) -> AnyWorkload {
    any(Micro::new(MicroOptions { dataset: 2_000, op, multisite, ..MicroOptions::new(2) }))
}

fn tpcb() -> AnyWorkload {
    any(Tpcb::new(TpcbOptions { accounts: 200, ..TpcbOptions::new(2) }))
}

/// Counts per committed transaction; no transaction may have aborted.
fn exactly(measured: &Measured, profile: &Profile, expected: &[(Counter, u64)]) {
    assert!(measured.aborted.is_empty(), "{measured:?}");
    for &(counter, n) in expected {
        assert_eq!(profile.count(counter), n * measured.committed_total(), "{}", counter.name());
    }
}

/// Updates draw different rows. The root is visited once for all, a leaf for each; their pages are
/// full, so none splits.
#[test]
fn ten_updates_are_ten_row_locks_and_one_on_the_table() {
    let shape = Shape::alone(DesignKind::Conventional);
    let (measured, profile) = shape.run(micro(Op::Update, 0.0), Profiling::OneIn(1), 100);
    exactly(
        &measured,
        &profile,
        &[
            (Counter::Records, 10),
            (Counter::RowLocks, 10),
            (Counter::HigherLocks, 1),
            (Counter::LockRequests, 11),
            (Counter::LockRepeats, 0),
            (Counter::HeapPages, 10),
            (Counter::HeapLatches, 10),
            (Counter::IndexPages, 11),
            (Counter::IndexLatches, 0),
            (Counter::LogRecords, 11),
        ],
    );
    let unique = profile.count(Counter::UniqueHeapPages) as f64 / measured.committed_total() as f64;
    assert!((1.0..10.0).contains(&unique), "{unique} different pages");
}

/// A read may draw a row twice, and then holds its lock already.
#[test]
fn ten_reads_ask_for_ten_row_locks() {
    let shape = Shape::alone(DesignKind::Conventional);
    let (measured, profile) = shape.run(micro(Op::Read, 0.0), Profiling::OneIn(1), 100);
    let expected = [
        (Counter::Records, 10),
        (Counter::HigherLocks, 1),
        (Counter::LockRequests, 11),
        (Counter::LogRecords, 0),
    ];
    exactly(&measured, &profile, &expected);
    let twice = profile.count(Counter::LockRepeats);
    assert_eq!(profile.count(Counter::RowLocks) + twice, 10 * measured.committed_total());
    assert!(twice * 20 < measured.committed_total(), "{twice} rows drawn twice of 10 in 1000");
}

#[test]
fn serial_touches_the_same_and_locks_and_latches_nothing() {
    let shape = Shape::alone(DesignKind::Serial);
    let (measured, profile) = shape.run(micro(Op::Read, 0.0), Profiling::OneIn(1), 100);
    exactly(
        &measured,
        &profile,
        &[
            (Counter::Records, 10),
            (Counter::RowLocks, 0),
            (Counter::HigherLocks, 0),
            (Counter::HeapPages, 10),
            (Counter::IndexPages, 11),
            (Counter::HeapLatches, 0),
            (Counter::IndexLatches, 0),
        ],
    );
    let sections = |c: Component| -> u64 {
        Section::ALL.iter().filter(|s| s.component() == c).map(|s| profile.entered[*s as usize]).sum()
    };
    assert_eq!((sections(Component::Locking), sections(Component::Latching)), (0, 0));
    assert_eq!(profile.busy_ns[Component::Latching as usize], 0);
}

/// Three updates and one row of history; a table lock and, except for the history, a row lock each.
#[test]
fn a_deposit_is_four_records() {
    for (design, row_locks, higher_locks) in [(DesignKind::Conventional, 3, 4), (DesignKind::Serial, 0, 0)] {
        let (measured, profile) = Shape::alone(design).run(tpcb(), Profiling::OneIn(1), 100);
        exactly(
            &measured,
            &profile,
            &[
                (Counter::Records, 4),
                (Counter::RowLocks, row_locks),
                (Counter::HigherLocks, higher_locks),
                (Counter::LockRepeats, 0),
            ],
        );
        // Three updates, an insertion and the commit; a new page of history now and then.
        let records = profile.count(Counter::LogRecords) as f64 / measured.committed_total() as f64;
        assert!((5.0..5.2).contains(&records), "{records} log records");
        let unbounded: u64 = Section::ALL
            .iter()
            .filter(|s| s.kind() == Kind::Unbounded)
            .map(|s| profile.entered[*s as usize])
            .sum();
        assert!(unbounded > 0);
    }
}

/// The sums for transactions and workers in `profile` that differ from their independent measures.
/// A transaction that crosses an end of the window is counted in only one of the two.
fn wrong_sums(shape: &Shape, measured: &Measured, profile: &Profile) -> Vec<String> {
    let workers = (shape.workers * usize::from(shape.islands)) as f64;
    let busy = profile.busy_ns.iter().sum::<u64>() as f64;
    let elapsed = profile.elapsed_ns() as f64;
    let sums = [
        ("the workers' time", busy + profile.idle_ns as f64, profile.window_ns as f64),
        ("the workers' windows", profile.window_ns as f64, workers * measured.window_ns as f64),
        ("the transactions' time", elapsed, measured.latency.mean() * measured.committed_total() as f64),
    ];
    let wrong = sums.into_iter().filter(|(_, is, should)| (is / should - 1.0).abs() >= TOLERANCE);
    wrong.map(|(sum, is, should)| format!("{sum} is {is}, not {should}")).collect()
}

/// Lengths of windows, in ms: the more other work the machine has, the longer is a transaction that
/// an end cuts.
const WINDOWS: [u64; 4] = [150, 500, 2_000, 6_000];

fn adds_up<W: Workload>(what: &str, shape: &Shape, workload: &W) -> (Measured, Profile) {
    let mut wrong = Vec::new();
    for ms in WINDOWS {
        let (measured, profile) = shape.run(workload.clone(), Profiling::ON, ms);
        wrong = wrong_sums(shape, &measured, &profile);
        if wrong.is_empty() {
            return (measured, profile);
        }
    }
    panic!("{what}: {}", wrong.join("; "));
}

#[test]
fn parts_add_up_in_every_design_and_deployment() {
    let shape = |design, islands, workers, via| Shape {
        design,
        islands,
        workers,
        via,
        durability: Durability::Memory,
        clients: 4,
    };
    use DesignKind::{Conventional, Serial};
    for shape in [
        shape(Conventional, 1, 1, Via::Ring),
        shape(Conventional, 1, 2, Via::Ring),
        shape(Serial, 1, 1, Via::Ring),
        shape(Conventional, 2, 1, Via::Shm),
        shape(Serial, 2, 1, Via::Shm),
        shape(Serial, 2, 1, Via::Uds),
        shape(Conventional, 2, 2, Via::Tcp),
        Shape { durability: Durability::Sync, ..shape(Conventional, 1, 1, Via::Ring) },
        Shape { durability: Durability::Async, ..shape(Serial, 2, 1, Via::Shm) },
    ] {
        let what = format!("{} x{} via {:?}, {:?}", shape.design, shape.islands, shape.via, shape.durability);
        let multisite = if shape.islands > 1 { 50.0 } else { 0.0 };
        for op in [Op::Read, Op::Update] {
            let (measured, profile) = adds_up(&format!("{what}, {op:?}"), &shape, &micro(op, multisite));
            assert_eq!(measured.distributed > 0, profile.wait_ns[probe::Wait::Reply as usize] > 0);
            let waits_for_log = profile.wait_ns[probe::Wait::Log as usize] > 0;
            let waits = match shape.durability {
                Durability::Sync | Durability::Replicated => op == Op::Update,
                // Records on which another instance relies are on the device.
                Durability::Async => op == Op::Update && shape.islands > 1,
                Durability::Memory => false,
            };
            assert_eq!(waits_for_log, waits, "{what}");
        }
    }
}
