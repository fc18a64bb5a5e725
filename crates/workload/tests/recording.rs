//! Workloads are recorded on the naive model, and their recordings carried out again there: the
//! model panics where a step touches a row of another instance than its route says. One recorder is
//! there at a time in a process, so these tests have one of their own and take turns.

use std::sync::{Mutex, MutexGuard, PoisonError};
use txn::{Generator, Verdict, Workload};
use workload::micro::Op as MicroOp;
use workload::oracle::Oracle;
use workload::recording::{Op, Recorded};
use workload::replay::Replay;
use workload::{AnyWorkload, Benchmark, Recorder, Recording, WorkloadSpec};

fn in_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn recorded(spec: &WorkloadSpec, wanted: usize) -> Recording {
    let workload = spec.build().unwrap();
    let mut oracle = Oracle::new(workload.clone(), 1);
    oracle.load().unwrap();
    let mut requests = workload.generator(7, 0..workload.sites());
    let recorder = Recorder::start(&workload, &spec.name, wanted, &[]).unwrap();
    assert!(Recorder::start(&workload, &spec.name, 1, &[]).is_none(), "one at a time");
    for _ in 0..wanted * 2 {
        // A rollback that the workload asks for is no transaction that ended well.
        let _ = oracle.submit(&requests.next());
        if recorder.is_full() {
            break;
        }
    }
    assert_eq!(recorder.noted(), wanted);
    let recording = recorder.finish().unwrap();
    assert_eq!(recording.transactions.len(), wanted);
    recording
}

fn micro(op: MicroOp, multisite: f64) -> WorkloadSpec {
    let (rows, dataset) = (Some(6), Some(20_000));
    WorkloadSpec { op: Some(op), rows, multisite: Some(multisite), dataset, ..WorkloadSpec::new("micro", 4) }
}

/// Accesses of a transaction, at the mean, by operation.
fn mean(recording: &Recording, op: Op) -> f64 {
    let all = recording.transactions.iter().flat_map(Recorded::touches);
    all.filter(|touch| touch.op == op).count() as f64 / recording.transactions.len() as f64
}

/// The share of transactions over several sites, in per cent.
fn multisite(recording: &Recording) -> f64 {
    Replay::of("r", recording.clone(), None).unwrap().multisite()
}

#[test]
fn what_a_transaction_does_is_in_the_recording() {
    let _turn = in_turn();
    let banks = recorded(&WorkloadSpec::new("tpcb", 4).with("accounts", 500), 3_000);
    assert_eq!((mean(&banks, Op::Update), mean(&banks, Op::Insert)), (3.0, 1.0));
    assert!((multisite(&banks) - 15.0).abs() < 3.0, "{}", multisite(&banks));
    let rows =
        |name: &str| banks.header.tables.iter().find(|t| t.name.to_lowercase().contains(name)).unwrap().rows;
    assert_eq!((rows("branch"), rows("teller")), (4, 40));
    assert!((1_700..2_300).contains(&rows("account")), "{} of 2000", rows("account"));
    let reads = recorded(&micro(MicroOp::Read, 0.0), 500);
    assert_eq!((mean(&reads, Op::Read), mean(&reads, Op::Update), multisite(&reads)), (6.0, 0.0, 0.0));
    assert!((15_000..25_000).contains(&reads.header.tables[0].rows), "{:?}", reads.header.tables);
    assert!(reads.transactions.iter().all(|t| t.2.len() == 1 && t.touches().all(|touch| touch.site == t.1)));
}

#[test]
fn recordings_are_carried_out_again_on_any_number_of_instances() {
    let _turn = in_turn();
    let specs = [
        micro(MicroOp::Update, 30.0),
        micro(MicroOp::Mixed, 100.0),
        WorkloadSpec::new("tpcb", 4).with("accounts", 200),
        WorkloadSpec::new("tpcc", 2),
        WorkloadSpec::new("tatp", 1),
    ];
    for spec in specs {
        let recording = recorded(&spec, 600);
        let replay = Replay::of(&spec.name, recording.clone(), None).unwrap();
        assert_eq!(replay.sites(), recording.header.sites, "{}", spec.name);
        for instances in [1, 2].into_iter().filter(|n| u32::from(*n) <= replay.sites()) {
            let mut oracle = Oracle::new(AnyWorkload::from(replay.clone()), instances);
            oracle.load().unwrap();
            let mut requests = oracle_requests(&replay);
            for _ in 0..400 {
                let request = requests.next();
                oracle.submit(&request).unwrap();
            }
            assert_eq!(oracle.judge(None).unwrap(), Verdict::default(), "{} over {instances}", spec.name);
            let is_spread = instances > 1 && replay.multisite() > 5.0;
            assert_eq!(oracle.distributed > 0, is_spread, "{} over {instances}", spec.name);
        }
    }
}

fn oracle_requests(replay: &Replay) -> impl Generator<Request = workload::AnyRequest> + use<> {
    AnyWorkload::from(replay.clone()).generator(3, 0..replay.sites())
}

#[test]
fn a_replay_draws_what_was_recorded() {
    let _turn = in_turn();
    let recording = recorded(&WorkloadSpec::new("tpcb", 4).with("accounts", 500), 2_000);
    let at = |share| Replay::of("tpcb", recording.clone(), share).unwrap();
    let drawn = |replay: &Replay, sites: std::ops::Range<u32>| {
        let mut requests = replay.generator(5, sites);
        (0..2_000).map(|_| requests.next()).collect::<Vec<_>>()
    };
    let spread = |replay: &Replay| {
        let is_spread = |request: &_| {
            let placed = replay.placed(request);
            placed.iter().any(|row| row.site != replay.home(request))
        };
        drawn(replay, 0..4).iter().filter(|request| is_spread(request)).count() as f64 / 20.0
    };
    for (share, expected) in
        [(None, multisite(&recording)), (Some(0.0), 0.0), (Some(50.0), 50.0), (Some(100.0), 100.0)]
    {
        let found = spread(&at(share));
        assert!((found - expected).abs() < 5.0, "{share:?}: {found} where {expected} is expected");
    }
    let replay = at(None);
    assert!(
        drawn(&replay, 2..3).iter().all(|request| replay.home(request) == 2),
        "homes are among the sites"
    );
    assert_eq!(drawn(&replay, 0..4), drawn(&replay, 0..4), "a seed draws the same");
    // Branches are touched by a quarter of the transactions each; no row of an account is that
    // popular.
    let mut touched = std::collections::BTreeMap::new();
    for row in drawn(&replay, 0..4).iter().flat_map(|request| replay.placed(request)) {
        *touched.entry((row.table, row.id)).or_insert(0) += 1;
    }
    let mut times: Vec<i32> = touched.into_values().collect();
    times.sort_unstable();
    assert!(
        times[times.len() - 4..].iter().all(|times| (400..600).contains(times)),
        "{:?}",
        &times[times.len() - 6..]
    );
}

#[test]
fn a_replay_without_its_recording_or_with_a_wrong_share_says_so() {
    let _turn = in_turn();
    workload::recording::read_files_by(|path| std::fs::read(path));
    let told = |spec: WorkloadSpec| Replay::from_spec(&spec).unwrap_err().to_string();
    assert!(told(WorkloadSpec::new("replay", 2)).contains("needs --recording FILE"));
    assert!(
        told(WorkloadSpec::new("replay", 2).with("recording", "/none/such"))
            .contains("--recording /none/such: No such")
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("local.rec");
    std::fs::write(&path, recorded(&micro(MicroOp::Read, 0.0), 50).bytes()).unwrap();
    let spec = WorkloadSpec::new("replay", 2).with("recording", path.display());
    let shared = WorkloadSpec { multisite: Some(20.0), ..spec.clone() };
    assert!(told(shared).contains("expected 0, since no recorded transaction"));
    assert!(told(WorkloadSpec { scale: Some(2), ..spec.clone() }).contains("the recording has its sites"));
    assert!(Replay::from_spec(&spec).unwrap().data_name().contains("micro"));
}
