//! A recorded run is simulated as the workload that it was recorded of.

use crate::run;
use deploysim::transaction::{Request, Requests, tpcb};
use deploysim::{Channel, Deployment, EngineProfile, MachineModel, Placement, RunOptions, Transactions};
use fastrand::Rng;
use workload::Recording;
use workload::recording::{Header, Op, Recorded, Table, Touch, VERSION};
use workload::replay::Replay;

const SITES: u32 = 4;

/// TPC-B as a run over four branches would be recorded: accounts are never popular, tellers and
/// branches always.
fn banks(transactions: usize) -> Recording {
    let mut random = Rng::with_seed(5);
    let table = |name: &str, of_site: u64, is_replicated| {
        let rows = of_site * if is_replicated { 1 } else { u64::from(SITES) };
        Table { name: name.into(), row_bytes: 100, rows, is_replicated }
    };
    let tables = vec![
        table("account", 100_000, false),
        table("teller", 10, false),
        table("branch", 1, false),
        table("history", 1, false),
    ];
    let one = |random: &mut Rng| {
        let home = random.u32(..SITES);
        let is_remote = random.f64() < 0.15;
        let away = if is_remote { (home + random.u32(1..SITES)) % SITES } else { home };
        let touch = |table, site, row| Touch { table, site, op: Op::Update, row, count: 1 };
        let history = Touch { op: Op::Insert, ..touch(3, home, None) };
        let updates = [touch(0, away, None), touch(1, home, Some(random.u64(..10))), touch(2, home, Some(0))];
        Recorded(0, home, vec![updates.into_iter().chain([history]).collect()])
    };
    Recording {
        header: Header {
            atoll_recording: VERSION,
            source: "tpcb".into(),
            sites: SITES,
            is_routed: false,
            tables,
            kinds: vec!["account_update".into()],
        },
        transactions: (0..transactions).map(|_| one(&mut random)).collect(),
    }
}

fn transactions(recording: Recording, multisite: Option<f64>) -> Transactions {
    Transactions::Replay(Box::new(Replay::of("banks", recording, multisite).unwrap()))
}

#[test]
fn a_recording_of_tpcb_has_the_throughput_of_its_description() {
    let (machine, profile) =
        (MachineModel::uniform(4, 60.0).unwrap(), EngineProfile::builtin("atoll").unwrap());
    let (recorded, described) =
        (transactions(banks(4_000), None), Transactions::mix(tpcb(SITES, 0.15)).unwrap());
    for design in ["conventional", "serial", "occ"] {
        for islands in [1, 2, 4].into_iter().filter(|islands| design != "serial" || *islands == 4) {
            let deployment =
                Deployment::new(&machine, design, islands, 4, Placement::Island).unwrap().over(Channel::Shm);
            let tps =
                |of: &Transactions| run(&machine, &profile, of, &deployment, &RunOptions::default()).tps;
            let (recorded, described) = (tps(&recorded), tps(&described));
            let difference = recorded / described - 1.0;
            assert!(difference.abs() < 0.05, "{design}/{islands}: {recorded} where {described} is described");
        }
    }
}

#[test]
fn drawn_rows_are_those_of_the_recording() {
    let recorded = transactions(banks(1_000), None);
    let tables = recorded.tables();
    let (mut requests, mut request) = (Requests::new(&recorded, 3, 1..3), Request::default());
    let mut away = 0;
    for _ in 0..2_000 {
        requests.draw(&mut request);
        assert!((1..3).contains(&request.home_site) && request.inserts == 1 && request.rows.len() == 3);
        for (row, table) in request.rows.iter().zip(&tables) {
            let first = table.first + u64::from(row.site) * table.of_site;
            assert!((first..first + table.of_site).contains(&row.key) && row.update, "{row:?} of {table:?}");
        }
        away += u32::from(request.rows[0].site != request.home_site);
    }
    assert!((200..420).contains(&away), "{away} of 2000 remote accounts");
    let mut local = Requests::new(&transactions(banks(1_000), Some(0.0)), 3, 0..SITES);
    for _ in 0..500 {
        local.draw(&mut request);
        assert!(request.rows.iter().all(|row| row.site == request.home_site));
    }
}

#[test]
fn a_row_that_is_read_and_updated_is_one_row_and_a_long_scan_weighs_more() {
    let mut recording = banks(1);
    let touch = |op, row, count| Touch { table: 0, site: 0, op, row, count };
    let phases = vec![
        vec![touch(Op::Read, Some(7), 1), touch(Op::Scan, None, 640)],
        vec![touch(Op::Update, Some(7), 1)],
    ];
    recording.transactions = vec![Recorded(0, 0, phases)];
    let recorded = transactions(recording, None);
    let (mut requests, mut request) = (Requests::new(&recorded, 1, 0..SITES), Request::default());
    requests.draw(&mut request);
    let updated: Vec<_> = request.rows.iter().filter(|row| row.update).collect();
    assert_eq!((updated.len(), updated[0].phase, request.inserts), (1, 0, 0));
    assert!(
        request.rows.len() <= 66 && request.row_weight > 9.0,
        "{} rows, {}",
        request.rows.len(),
        request.row_weight
    );
}
