//! Every workload loads, runs and stays consistent on the naive model in every deployment; and the
//! judges detect damage.

use base::{InstanceId, Key};
use txn::workload::{Clients, Verdict};
use txn::{Abort, Access, Generator, Workload};
use workload::micro::{self, Micro, MicroOptions, MicroRequest, Op};
use workload::oracle::{Oracle, at_once};
use workload::tpcb::{self, Tpcb, TpcbOptions, TpcbRequest};
use workload::{AnyRequest, AnyWorkload, WorkloadSpec};

const RUN: u64 = 10_000;

fn small_micro(op: Op, multisite: f64) -> Micro {
    Micro::new(MicroOptions { dataset: 4_003, op, multisite, ..MicroOptions::new(4) }).unwrap()
}

fn small_tpcb() -> Tpcb {
    Tpcb::new(TpcbOptions { accounts: 1_500, multisite: 40.0, ..TpcbOptions::new(4) }).unwrap()
}

fn loaded<W: Workload>(workload: &W, instances: u16) -> Oracle<W> {
    let mut oracle = Oracle::new(workload.clone(), instances);
    oracle.load().unwrap();
    oracle
}

/// Loads, runs and judges; returns the share of distributed transactions.
fn run_all(spec: &WorkloadSpec, instances: u16, transactions: u64) -> f64 {
    let workload = spec.build().unwrap();
    let mut oracle = loaded(&workload, instances);
    let mut requests = workload.generator(5, 0..workload.sites());
    for _ in 0..transactions {
        let sent: AnyRequest = requests.next();
        let received = postcard::from_bytes(&postcard::to_stdvec(&sent).unwrap()).unwrap();
        oracle.submit(&received).unwrap();
    }
    assert_eq!(oracle.judge(Some(transactions)).unwrap(), Verdict::default());
    assert_eq!(oracle.judge(None).unwrap(), Verdict::default());
    oracle.distributed as f64 / transactions as f64
}

#[test]
fn every_workload_runs_and_holds_in_every_deployment() {
    let micro = WorkloadSpec { dataset: Some(4_003), ..WorkloadSpec::new("micro", 4) };
    let tpcb = WorkloadSpec::new("tpcb", 4).with("accounts", 1500);
    let specs = [
        micro.clone(),
        WorkloadSpec { multisite: Some(50.0), ..micro.clone() },
        WorkloadSpec { multisite: Some(100.0), op: Some(Op::Update), rows: Some(20), ..micro.clone() },
        WorkloadSpec { multisite: Some(20.0), op: Some(Op::Update), skew: Some(1.0), ..micro },
        tpcb.clone(),
        WorkloadSpec { multisite: Some(100.0), ..tpcb.clone().with("padding", "page") },
        WorkloadSpec { multisite: Some(60.0), ..tpcb.with("remote", "teller") },
    ];
    for spec in specs {
        for instances in [1, 2, 3, 4] {
            let distributed = run_all(&spec, instances, 1_500);
            let may = instances > 1
                && spec.multisite != Some(0.0)
                && (spec.name == "tpcb" || spec.multisite.is_some());
            assert_eq!(distributed > 0.0, may, "{spec:?} over {instances}");
        }
    }
}

/// Checks that requests announce only rows that they then ask for.
fn wants_what_it_asks_for(workload: &AnyWorkload) -> usize {
    let mut oracle = loaded(workload, 2);
    let mut requests = workload.generator(7, 0..workload.sites());
    let mut wanted = 0;
    for _ in 0..1_000 {
        let request: AnyRequest = requests.next();
        if oracle.submit(&request).is_ok() {
            workload.wants(&request, &mut |table, key| {
                wanted += 1;
                let kind = workload.kind(&request);
                assert!(oracle.was_asked(table, key), "{kind} wants {table:?} {key:02x?}");
            });
        }
    }
    wanted
}

#[test]
fn requests_ask_for_the_rows_that_they_want() {
    let tpcc = WorkloadSpec::new("tpcc", 2).with("customers", 30).with("items", 200);
    let least = [
        (WorkloadSpec { dataset: Some(4_003), ..WorkloadSpec::new("micro", 4) }, 10_000),
        (WorkloadSpec::new("tpcb", 4).with("accounts", 1500), 1_000),
        (WorkloadSpec::new("tatp", 4).with("subscribers", 500), 300),
        (tpcc, 5_000),
    ];
    for (spec, least) in least {
        let wanted = wants_what_it_asks_for(&spec.build().unwrap());
        assert!(wanted >= least, "{}: {wanted}", spec.name);
    }
}

#[test]
fn long_runs_hold() {
    let micro = WorkloadSpec {
        dataset: Some(4_000),
        op: Some(Op::Update),
        multisite: Some(30.0),
        ..WorkloadSpec::new("micro", 4)
    };
    let tpcb = WorkloadSpec::new("tpcb", 4).with("accounts", 2000);
    for spec in [micro, tpcb] {
        run_all(&spec, 2, RUN);
    }
}

#[test]
fn distributed_share_of_tpcb_is_as_derived() {
    let spec = WorkloadSpec::new("tpcb", 8).with("accounts", 10);
    for instances in [1u16, 2, 4, 8] {
        let found = run_all(&spec, instances, 20_000);
        let own = 8.0 / f64::from(instances);
        let expected = 0.15 * (1.0 - (own - 1.0) / 7.0);
        assert!((found - expected).abs() < 0.01, "{instances}: expected {expected}, found {found}");
    }
}

#[test]
fn replies_tell_what_was_read_and_written() {
    let (reads, updates) = (small_micro(Op::Read, 0.0), small_micro(Op::Update, 0.0));
    let mut oracle = loaded(&updates, 2);
    let ids = micro::Ids::from_slice(&[3, 5, 4_002]);
    let update = MicroRequest { op: Op::Update, home: 5, ids: ids.clone() };
    assert_eq!((oracle.submit(&update), oracle.submit(&update)), (Ok(3), Ok(6)));
    let read = MicroRequest { op: Op::Read, home: 5, ids: micro::Ids::from_slice(&[3, 3, 4]) };
    assert_eq!(oracle.submit(&read), Ok(4));
    assert!(!loaded(&reads, 1).judge(Some(1)).unwrap().violations.iter().any(|v| v.contains("rows")));

    let mut oracle = loaded(&small_tpcb(), 2);
    let deposit = |request, account, delta| TpcbRequest {
        request,
        time_stamp: 0,
        branch: 1,
        teller: 12,
        account,
        delta,
    };
    for account in [1_600, 5_999] {
        assert_eq!(oracle.submit(&deposit(account, account, 30)).unwrap().account_balance, 30);
        assert_eq!(oracle.submit(&deposit(account + 1, account, -40)).unwrap().account_balance, -10);
    }
}

#[test]
fn an_abort_leaves_no_trace() {
    let mut oracle = loaded(&small_micro(Op::Update, 0.0), 2);
    at_once(oracle.model(InstanceId(1)).delete(micro::MICRO, &Key::new().i64(4_000))).unwrap();
    let ids = micro::Ids::from_slice(&[1, 2_500, 4_000]);
    assert_eq!(oracle.submit(&MicroRequest { op: Op::Update, home: 1, ids }), Err(Abort::BadRequest));
    let audits = oracle.audits().unwrap();
    assert_eq!(audits.iter().map(|a| a.counters).sum::<i64>(), 0);
}

#[test]
fn requests_out_of_bounds_are_refused() {
    let mut oracle = loaded(&small_micro(Op::Read, 0.0), 2);
    for ids in [&[][..], &[4_003], &[u64::MAX], &[5, 4]] {
        let request = MicroRequest { op: Op::Read, home: 0, ids: micro::Ids::from_slice(ids) };
        assert_eq!(oracle.submit(&request), Err(Abort::BadRequest), "{ids:?}");
    }
    let mut oracle = loaded(&small_tpcb(), 2);
    let good = TpcbRequest { request: 1, time_stamp: 0, branch: 1, teller: 12, account: 1_600, delta: 5 };
    for bad in [
        TpcbRequest { branch: 4, ..good },
        TpcbRequest { teller: 40, ..good },
        TpcbRequest { account: 6_000, ..good },
        TpcbRequest { teller: 1, account: 1, ..good },
        TpcbRequest { teller: u64::MAX, ..good },
    ] {
        assert_eq!(oracle.submit(&bad), Err(Abort::BadRequest), "{bad:?}");
    }
    assert_eq!(oracle.judge(Some(0)).unwrap(), Verdict::default());
}

#[test]
fn requests_and_audits_of_another_workload_are_refused() {
    let micro = AnyWorkload::Micro(small_micro(Op::Read, 0.0));
    let tpcb = AnyWorkload::Tpcb(small_tpcb());
    let mut oracle = loaded(&micro, 2);
    let foreign: AnyRequest = tpcb.generator(1, 0..4).next();
    assert_eq!(oracle.submit(&foreign), Err(Abort::BadRequest));
    let mut routes = 0;
    micro.routes(&foreign, &mut |_| routes += 1);
    assert_eq!((routes, micro.ledger_id(&foreign), micro.only_reads(&foreign)), (0, None, false));
    assert!(tpcb.ledger_id(&foreign).is_some());
    assert!(micro.judge(oracle.audits().unwrap(), None).holds());
    for found in
        [tpcb.judge(oracle.audits().unwrap(), None), tpcb.judge_ledger(&oracle.audits().unwrap(), &[], &[])]
    {
        assert!(found.violations.join("; ").contains("another's"), "{found:?}");
    }
}

#[test]
fn malformed_steps_are_refused() {
    let mut oracle = loaded(&small_micro(Op::Read, 0.0), 1);
    let micro = small_micro(Op::Read, 0.0);
    let mut run =
        |id, args: &[u8]| at_once(micro.run_step(id, args, oracle.model(InstanceId(0)), &mut vec![]));
    assert_eq!(run(1, &[1, 7]), Ok(()));
    assert_eq!(run(1, &[0]), Ok(()));
    for (id, args) in [
        (1, &[][..]),
        (1, &[2, 7]),
        (1, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        (9, &[1, 7]),
        (2, &[1, 0xff, 0x7f]),
    ] {
        assert_eq!(run(id, args), Err(Abort::BadRequest), "step {id} {args:?}");
    }
}

/// Runs, corrupts instance 1, and returns the judge's words.
fn after<W: Workload>(workload: &W, tamper: impl FnOnce(&mut workload::oracle::Model)) -> String {
    let mut oracle = loaded(workload, 2);
    let mut requests = workload.generator(3, 0..4);
    for _ in 0..50 {
        oracle.submit(&requests.next()).unwrap();
    }
    tamper(oracle.model(InstanceId(1)));
    oracle.judge(None).unwrap().violations.join("; ")
}

fn set(model: &mut workload::oracle::Model, table: base::TableId, id: i64, column: u16, add: i64) {
    let change = |row: &mut txn::RowMut<'_>| row.set_int(column, row.int(column) + add);
    at_once(model.update(table, &Key::new().i64(id), change)).unwrap().unwrap();
}

#[test]
fn the_judge_of_micro_has_teeth() {
    let micro = small_micro(Op::Update, 50.0);
    assert_eq!(after(&micro, |_| {}), "");
    assert!(after(&micro, |m| set(m, micro::MICRO, 3_000, 1, -1)).contains("expected a multiple of 10"));
    let harmed = after(&micro, |m| {
        let row = at_once(m.update(micro::MICRO, &Key::new().i64(3_000), |r| r.set_bytes(2, &[b'x'; 216])));
        row.unwrap().unwrap();
    });
    assert!(harmed.contains("the payload of row 3000"), "{harmed}");
    let gone = after(&micro, |m| {
        assert!(at_once(m.delete(micro::MICRO, &Key::new().i64(3_000))).unwrap());
    });
    assert!(gone.contains("expected id 3000, found 3001"), "{gone}");
    let mut oracle = loaded(&micro, 2);
    assert!(!oracle.judge(Some(1)).unwrap().holds(), "a lost transaction");
    assert!(!micro.judge(oracle.audits().unwrap().split_off(1), None).holds(), "a missing audit");
}

#[test]
fn the_judge_of_tpcb_has_teeth() {
    let tpcb = small_tpcb();
    assert_eq!(after(&tpcb, |_| {}), "");
    let checks = [
        (tpcb::BRANCH, 2, "C1: balance against that of its tellers, branch 2"),
        (tpcb::BRANCH, 2, "C3: balance against HISTORY, branch 2"),
        (tpcb::TELLER, 25, "C4: balance against HISTORY, teller 25"),
        (tpcb::ACCOUNT, 4_000, "C2: all accounts against all branches"),
        (tpcb::ACCOUNT, 4_000, "C4: balance less HISTORY, account 4000"),
    ];
    for (table, id, words) in checks {
        let found = after(&tpcb, |m| set(m, table, id, 2, 7));
        assert!(found.contains(words), "{words}: {found}");
    }
    let mut history = vec![];
    let doubled = after(&tpcb, |m| {
        let first = |_: &[u8], row: txn::Row<'_>| {
            history = row.as_bytes().to_vec();
            txn::Flow::Enough
        };
        at_once(m.scan(tpcb::HISTORY, txn::Range::ALL, txn::Direction::Forward, first)).unwrap();
        at_once(m.append(tpcb::HISTORY, &history)).unwrap();
    });
    assert!(doubled.contains("is in HISTORY more than once"), "{doubled}");
}

/// A transaction that loses one step, as under a broken commit protocol.
struct Half<'a>(&'a mut Oracle<Tpcb>);

impl txn::Transaction for Half<'_> {
    async fn all<S: txn::Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        let mut outputs = steps.partial();
        for i in 0..steps.count() {
            let owner = self.0.owner(steps.route(i));
            steps.run(i, self.0.model(owner), &mut outputs).await?;
            if owner == InstanceId(1) {
                self.0.model(owner).end(false);
            }
        }
        Ok(S::finish(outputs))
    }
    async fn last<S: txn::Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        self.all(steps).await
    }
}

#[test]
fn a_half_applied_transaction_is_seen() {
    let tpcb = small_tpcb();
    let mut oracle = loaded(&tpcb, 2);
    let deposit = TpcbRequest { request: 1, time_stamp: 0, branch: 1, teller: 12, account: 5_999, delta: 30 };
    at_once(tpcb.run(&deposit, &mut Half(&mut oracle))).unwrap();
    let found = oracle.judge(Some(1)).unwrap().violations.join("; ");
    assert!(found.contains("C4: balance less HISTORY, account 5999: expected 0, found -30"), "{found}");
}

#[test]
fn the_ledger_finds_what_was_acknowledged() {
    let tpcb = small_tpcb();
    let mut oracle = loaded(&tpcb, 2);
    let mut streams: Vec<_> = (0..3).map(|seed| tpcb.generator(seed, 0..4)).collect();
    let requests: Vec<_> = (0..300).map(|i| streams[i % 3].next()).collect();
    assert!(requests[..290].iter().all(|r| oracle.submit(r).is_ok()));
    let ids: Vec<u64> = requests.iter().map(|r| tpcb.ledger_id(r).unwrap()).collect();
    let audits = oracle.audits().unwrap();
    assert!(tpcb.judge_ledger(&audits, &ids[..280], &ids[280..]).holds());
    assert_eq!(tpcb.judge_ledger(&audits, &ids[..291], &[]).violations.len(), 1, "one was lost");
    assert_eq!(tpcb.judge_ledger(&audits, &ids[..289], &[]).violations.len(), 1, "one was never sent");
    let bytes = postcard::to_stdvec(&audits).unwrap();
    assert_eq!(postcard::from_bytes::<Vec<tpcb::TpcbAudit>>(&bytes).unwrap(), audits);
}

#[test]
fn terminals_of_tpcc_have_one_home() {
    let options = workload::tpcc::TpccOptions::new(2);
    assert_eq!(workload::tpcc::Tpcc::new(options).unwrap().clients(), Clients::Homed);
}

#[test]
fn only_skewed_clients_are_routed() {
    assert_eq!(small_micro(Op::Read, 0.0).clients(), Clients::Bound);
    let skewed = Micro::new(MicroOptions { skew: 0.5, ..MicroOptions::new(2) }).unwrap();
    assert_eq!(skewed.clients(), Clients::Routed);
}

#[test]
fn requests_of_any_kind_are_cheap_to_move() {
    // A request is moved from the generator to the queue of a client, and on to the worker.
    // The largest is that of `micro`, which has up to 16 rows without an allocation.
    assert!(
        size_of::<AnyRequest>() <= 152,
        "{} bytes: put the largest kind in a box",
        size_of::<AnyRequest>()
    );
}
