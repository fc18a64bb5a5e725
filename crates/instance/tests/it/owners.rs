//! Workers that own keys: transactions inside one instance with steps at several workers, and over several instances.

use crate::support::{Deployment, Via, config, private_dir};
use exec::DesignKind::{self, Conventional, Logical, PlpRegular};
use exec::TreeKind;
use instance::InstanceConfig;
use probe::{Counter, Measured, Profiling};
use txn::Workload;
use wal::Durability;
use workload::micro::{Micro, MicroOptions, Op};
use workload::tatp::{Index, Tatp, TatpOptions};
use workload::tpcb::{Tpcb, TpcbOptions};
use workload::tpcc::{Tpcc, TpccOptions};

/// Whether the data says how many transactions were committed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Data {
    Counts,
    Forgets,
}
use Data::{Counts, Forgets};

/// Runs a workload under the designs with owners, and judges what it left.
fn run<W: Workload>(workload: W, data: Data, islands: u16, workers: usize, clients: usize) -> Measured {
    let mut measured = run_under(Logical, workload.clone(), data, islands, workers, clients);
    measured.merge(&run_under(PlpRegular, workload, data, islands, workers, clients));
    measured
}

fn run_under<W: Workload>(
    design: DesignKind,
    workload: W,
    data: Data,
    islands: u16,
    workers: usize,
    clients: usize,
) -> Measured {
    let dir = private_dir();
    let of = |i| config(&workload, dir.path(), design, Durability::Memory, (i, islands), workers, Via::Ring);
    let configs = (0..islands).map(of).collect();
    let deployment = Deployment::start(workload, configs);
    deployment.load();
    let measured = deployment.run(clients, 400);
    let committed = measured.committed_total();
    eprintln!(
        "{design} {} x{islands} w{workers}: {committed} committed, {} distributed, aborted {:?}, p50 {} ns",
        deployment.workload.name(),
        measured.distributed,
        measured.aborted,
        measured.latency.quantile(0.5)
    );
    assert!(committed > 20, "only {committed} transactions: {measured:?}");
    assert_eq!(measured.distributed > 0, islands > 1);
    let counted = (data == Counts).then_some(committed);
    let verdict = deployment.workload.judge(deployment.audits(), counted);
    assert!(verdict.holds(), "{verdict:?}");
    deployment.stop();
    measured
}

fn micro(op: Op, dataset: u64) -> Micro {
    Micro::new(MicroOptions { dataset, op, multisite: 50.0, ..MicroOptions::new(8) }).unwrap()
}

/// With four owners a phase waits for several answers, and only the last one must wake it.
#[test]
fn one_instance_of_owners() {
    run(micro(Op::Update, 4_000), Counts, 1, 2, 4);
    run(micro(Op::Read, 4_000), Counts, 1, 4, 4);
    run(micro(Op::Update, 4_000), Counts, 1, 1, 4);
}

/// Phases that write visit the owners in order, so no circle closes however much they meet.
#[test]
fn contended_writes_of_one_phase_never_deadlock() {
    let measured = run(micro(Op::Update, 160), Counts, 1, 3, 8);
    assert!(!measured.aborted.contains_key("deadlock"), "{:?}", measured.aborted);
}

#[test]
fn owners_of_several_instances() {
    run(micro(Op::Update, 4_000), Counts, 2, 2, 4);
    run(micro(Op::Read, 4_000), Counts, 2, 2, 4);
}

#[test]
fn tpcb_among_owners_keeps_its_conditions() {
    for islands in [1, 2] {
        let options = TpcbOptions { accounts: 200, multisite: 50.0, ..TpcbOptions::new(4) };
        run(Tpcb::new(options).unwrap(), Counts, islands, 2, 4);
    }
}

#[test]
fn tpcc_among_owners_keeps_its_conditions() {
    for islands in [1, 2] {
        let options = TpccOptions { multisite: Some(50.0), items: 500, customers: 60, ..TpccOptions::new(4) };
        run(Tpcc::new(options).unwrap(), Forgets, islands, 2, 4);
    }
}

/// Without an aligned index a number is looked up at one owner, and its subscriber's rows are at another.
#[test]
fn tatp_among_owners_keeps_its_conditions() {
    for index in [Index::Aligned, Index::NonAligned] {
        let options = TatpOptions { subscribers: 200, index, ..TatpOptions::new(4) };
        run(Tatp::new(options).unwrap(), Forgets, 1, 2, 4);
    }
}

/// Owners, then no owners, then more of them: data belongs to no design.
#[test]
fn a_store_of_owners_is_a_store() {
    let dir = private_dir();
    let options = TpcbOptions { accounts: 100, multisite: 50.0, ..TpcbOptions::new(4) };
    let workload = Tpcb::new(options).unwrap();
    let mut committed = 0;
    let lives =
        [(Logical, 2), (PlpRegular, 2), (Conventional, 2), (PlpRegular, 3), (Logical, 3), (PlpRegular, 1)];
    for (life, (design, workers)) in lives.into_iter().enumerate() {
        let of = |i| config(&workload, dir.path(), design, Durability::Sync, (i, 2), workers, Via::Uds);
        let multi = |c| InstanceConfig { trees: TreeKind::MultiRooted, ..c };
        let deployment = Deployment::start(workload.clone(), (0..2).map(of).map(multi).collect());
        if life == 0 {
            deployment.load();
        }
        committed += deployment.run_seeded(4, 100, life as u64).committed_total();
        let verdict = workload.judge(deployment.audits(), Some(committed));
        assert!(verdict.holds(), "{design} life {life}: {verdict:?}");
        deployment.stop();
    }
    assert!(committed > 20, "only {committed} transactions");
}

/// Trees with one root have no partitions that could have owners: said at the start, before anything is changed.
#[test]
fn owners_of_pages_refuse_trees_of_one_root() {
    let dir = private_dir();
    let workload = Tpcb::new(TpcbOptions { accounts: 100, ..TpcbOptions::new(2) }).unwrap();
    let of = |design| config(&workload, dir.path(), design, Durability::Sync, (0, 1), 2, Via::Ring);
    let deployment = Deployment::start(workload.clone(), vec![of(Conventional)]);
    deployment.load();
    deployment.stop();
    let refused = instance::Instance::start(workload.clone(), of(PlpRegular)).err().unwrap().to_string();
    assert!(refused.contains("plp-regular") && refused.contains("--tree mrbtree"), "{refused}");
    let deployment = Deployment::start(workload.clone(), vec![of(Logical)]);
    assert!(deployment.run(2, 100).committed_total() > 0);
    deployment.stop();
}

/// Thesis, chapter 3: what leads to rows is latched by nobody where its pages have owners.
#[test]
fn owners_of_pages_latch_a_fifth_of_what_others_do_at_most() {
    let per_transaction = |design| {
        let dir = private_dir();
        let workload = Tatp::new(TatpOptions { subscribers: 500, ..TatpOptions::new(2) }).unwrap();
        let configs = vec![config(&workload, dir.path(), design, Durability::Memory, (0, 1), 2, Via::Ring)];
        let deployment = Deployment::start(workload, configs);
        deployment.load();
        deployment.instances[0].profile(Profiling::OneIn(1)).unwrap();
        let measured = deployment.run(2, 400);
        let verdict = deployment.workload.judge(deployment.audits(), None);
        assert!(verdict.holds(), "{design}: {verdict:?}");
        deployment.stop();
        let profile = measured.profile.as_ref().expect("the profile is on");
        let count = |counter| profile.count(counter) as f64 / measured.committed_total() as f64;
        (count(Counter::IndexLatches), count(Counter::HeapLatches))
    };
    let (latched, owned) = (per_transaction(Conventional), per_transaction(PlpRegular));
    eprintln!(
        "latches of index and heap pages per transaction: {latched:?} conventional, {owned:?} plp-regular"
    );
    assert!(owned.0 <= 0.2 * latched.0, "{latched:?} {owned:?}");
}
