//! Workers that own keys: transactions inside one instance with steps at several workers, and over
//! several instances.

use crate::support::{Deployment, Via, any, config, private_dir};
use exec::DesignKind::{self, Conventional, Logical, PlpLeaf, PlpPartition, PlpRegular};
use exec::{HeapForm, Latching, TreeKind};
use instance::InstanceConfig;
use probe::{Counter, Kind as SectionKind, Measured, Profiling, Section};
use txn::Workload;
use wal::Durability;
use workload::AnyWorkload;
use workload::micro::{Micro, MicroOptions, Op};
use workload::tatp::{Index, Kind, Mix as TatpMix, Tatp, TatpOptions};
use workload::tpcb::{Tpcb, TpcbOptions};
use workload::tpcc::{Mix, Tpcc, TpccOptions};

/// Whether the data shows how many transactions were committed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Data {
    Counts,
    Forgets,
}
use Data::{Counts, Forgets};

/// Runs a workload under the designs with owners, and judges the resulting data.
fn run<W: Workload>(workload: W, data: Data, islands: u16, workers: usize, clients: usize) -> Measured {
    let mut measured = run_under(Logical, workload.clone(), data, islands, workers, clients);
    for design in [PlpRegular, PlpPartition, PlpLeaf] {
        measured.merge(&run_under(design, workload.clone(), data, islands, workers, clients));
    }
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
    let measured = deployment.run(clients, 300);
    let committed = measured.committed_total();
    eprintln!(
        "{design} {} x{islands} w{workers}: {committed} committed, {} distributed, aborted {:?}, p50 {} ns",
        deployment.workload.name(),
        measured.distributed,
        measured.aborted,
        measured.latency.quantile(0.5)
    );
    assert!(committed > 0, "only {committed} transactions: {measured:?}");
    assert_eq!(measured.distributed > 0, islands > 1);
    let counted = (data == Counts).then_some(committed);
    let verdict = deployment.workload.judge(deployment.audits(), counted);
    assert!(verdict.holds(), "{verdict:?}");
    deployment.stop();
    measured
}

fn micro(op: Op, dataset: u64) -> AnyWorkload {
    any(Micro::new(MicroOptions { dataset, op, multisite: 50.0, ..MicroOptions::new(8) }))
}

/// With four owners a phase waits for several answers, and only the last one may wake it.
#[test]
fn one_instance_of_owners() {
    run(micro(Op::Update, 4_000), Counts, 1, 2, 4);
    run(micro(Op::Read, 4_000), Counts, 1, 4, 4);
    run(micro(Op::Update, 4_000), Counts, 1, 1, 4);
}

/// Phases that write lock their rows in one order, so no circle of waits closes under any
/// contention.
#[test]
fn contended_writes_of_one_phase_never_deadlock() {
    let measured = run(micro(Op::Update, 160), Counts, 1, 3, 8);
    assert!(!measured.aborted.contains_key("deadlock"), "{:?}", measured.aborted);
}

/// They lock their rows in one order, wherever their home is. A customer's lock, which is the lock
/// of the whole district, is exclusive before the customer's name is looked up.
#[test]
fn orders_and_payments_never_deadlock() {
    let options = TpccOptions { mix: Mix::Prime, items: 200, customers: 60, ..TpccOptions::new(2) };
    let measured = run(any(Tpcc::new(options)), Forgets, 1, 2, 12);
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
        run(any(Tpcb::new(options)), Counts, islands, 2, 4);
    }
}

#[test]
fn tpcc_among_owners_keeps_its_conditions() {
    for islands in [1, 2] {
        let options = TpccOptions { multisite: Some(50.0), items: 500, customers: 60, ..TpccOptions::new(4) };
        run(any(Tpcc::new(options)), Forgets, islands, 2, 4);
    }
}

/// Without an aligned index a number is looked up at one owner, and its subscriber's rows are at
/// another.
#[test]
fn tatp_among_owners_keeps_its_conditions() {
    for index in [Index::Aligned, Index::NonAligned] {
        let options = TatpOptions { subscribers: 200, index, ..TatpOptions::new(4) };
        run(any(Tatp::new(options)), Forgets, 1, 2, 4);
    }
}

/// Owners, then no owners, then more of them: data belongs to no design.
#[test]
fn a_store_of_owners_is_a_store() {
    let lives =
        [(Logical, 2), (PlpRegular, 2), (Conventional, 2), (PlpRegular, 3), (Logical, 3), (PlpRegular, 1)];
    live(HeapForm::Shared, &lives);
}

/// As above, with heap pages that have owners in some of the lives. Under any owner, rows of two
/// partitions, or of two leaves, never share a page.
#[test]
fn a_store_of_divided_heap_pages_is_a_store() {
    for (form, owned) in [(HeapForm::ByPartition, PlpPartition), (HeapForm::ByLeaf, PlpLeaf)] {
        live(form, &[(owned, 2), (Conventional, 2), (owned, 3), (PlpRegular, 4), (Logical, 3), (owned, 1)]);
    }
}

/// Lives of one database under these designs, each with this many workers.
fn live(heaps: HeapForm, lives: &[(DesignKind, usize)]) {
    let dir = private_dir();
    let options = TpcbOptions { accounts: 100, multisite: 50.0, ..TpcbOptions::new(4) };
    let workload = any(Tpcb::new(options));
    let mut committed = 0;
    for (life, &(design, workers)) in lives.iter().enumerate() {
        let of = |i| config(&workload, dir.path(), design, Durability::Sync, (i, 2), workers, Via::Uds);
        let multi = |c: InstanceConfig| c.with(|o| (o.trees, o.heaps) = (TreeKind::MultiRooted, heaps));
        let deployment = Deployment::start(workload.clone(), (0..2).map(of).map(multi).collect());
        if life == 0 {
            deployment.load();
        }
        committed += deployment.run_seeded(4, 100, life as u64).committed_total();
        let verdict = workload.judge(deployment.audits(), Some(committed));
        assert!(verdict.holds(), "{design} life {life}: {verdict:?}");
        deployment.stop();
        let folders = (0..2).map(|i| (dir.path().join(i.to_string()), Vec::new())).collect();
        let placement = txn::Placement::even(workload.sites(), 2);
        for examined in instance::offline::examine(
            &workload,
            &placement,
            folders,
            (instance::offline::Family::Pages, 2048),
            &mut |_, _, _, _| {},
        ) {
            let damage = examined.findings.iter().find(|finding| finding.is_damage());
            assert!(damage.is_none(), "{design} life {life}: {damage:?}");
            let forms: Vec<_> = examined.report.tables.iter().map(|t| (t.form, t.undivided)).collect();
            assert!(forms.contains(&(heaps, 0)), "{design} life {life}: {forms:?}");
        }
    }
    assert!(committed > 0, "only {committed} transactions");
}

/// Trees with one root have no partitions that could have owners: the error comes at the start,
/// before anything is changed.
#[test]
fn owners_of_pages_refuse_trees_of_one_root() {
    let dir = private_dir();
    let workload = any(Tpcb::new(TpcbOptions { accounts: 100, ..TpcbOptions::new(2) }));
    let of = |design| config(&workload, dir.path(), design, Durability::Sync, (0, 1), 2, Via::Ring);
    let deployment = Deployment::start(workload.clone(), vec![of(Conventional)]);
    deployment.load();
    deployment.stop();
    let refused = instance::Instance::start(workload.clone(), of(PlpRegular)).err().unwrap().to_string();
    assert!(refused.contains("plp-regular") && refused.contains("--tree mrbtree"), "{refused}");
    // Heap pages that rows of any key share cannot have owners either.
    let refused = instance::Instance::start(workload.clone(), of(PlpLeaf)).err().unwrap().to_string();
    assert!(refused.contains("plp-leaf") && refused.contains("--heap leaf"), "{refused}");
    let deployment = Deployment::start(workload.clone(), vec![of(Logical)]);
    assert!(deployment.run(2, 100).committed_total() > 0);
    deployment.stop();
}

/// Thesis, chapter 3, Figure 3.6: index pages that have owners are not latched, nor are heap pages
/// that have owners. In the conventional system of the comparison, readers latch the pages that
/// they read.
#[test]
fn owners_latch_none_of_their_pages() {
    let per_transaction = |design, latching| {
        let dir = private_dir();
        let workload = any(Tatp::new(TatpOptions { subscribers: 500, ..TatpOptions::new(2) }));
        let of = config(&workload, dir.path(), design, Durability::Memory, (0, 1), 2, Via::Ring);
        let deployment = Deployment::start(workload, vec![of.with(|o| o.latching = latching)]);
        deployment.load();
        deployment.instances[0].profile(Profiling::OneIn(1)).unwrap();
        let measured = deployment.run(2, 400);
        let verdict = deployment.workload.judge(deployment.audits(), None);
        assert!(verdict.holds(), "{design}: {verdict:?}");
        deployment.stop();
        let profile = measured.profile.as_ref().expect("the profile is on");
        let count = |counter| profile.count(counter) as f64 / measured.committed_total() as f64;
        let latches = (count(Counter::IndexLatches), count(Counter::HeapLatches));
        eprintln!("{design} {latching}: latches of index and heap pages per transaction {latches:.3?}");
        latches
    };
    let coupled = per_transaction(Conventional, Latching::Coupled);
    let all = coupled.0 + coupled.1;
    assert!(coupled.0 > 1.0 && coupled.1 > 0.5, "{coupled:?}");
    let optimistic = per_transaction(Conventional, Latching::Optimistic);
    assert!(optimistic.0 < 0.2 * coupled.0, "{optimistic:?} {coupled:?}");
    let regular = per_transaction(PlpRegular, Latching::Optimistic);
    assert!(regular.0 <= 0.01 * coupled.0, "{regular:?} {coupled:?}");
    for design in [PlpPartition, PlpLeaf] {
        let owned = per_transaction(design, Latching::Optimistic);
        assert!(owned.0 + owned.1 <= 0.02 * all, "{design}: {owned:?} {coupled:?}");
    }
    // Secondary indexes have no owner, so under coupled latching their readers latch them.
    let owned = per_transaction(PlpLeaf, Latching::Coupled);
    assert!(owned.0 <= 0.2 * coupled.0 && owned.1 <= 0.1 * coupled.1, "{owned:?} {coupled:?}");
}

/// Found by NewOrders under `--latching coupled`. A worker that latched items to read them took
/// ownership of their pages, though every worker reads them. Transactions of the other workers then
/// ended as bad requests again and again.
#[test]
fn rows_that_everybody_reads_are_nobodys() {
    for design in [PlpPartition, PlpLeaf] {
        for latching in [Latching::Coupled, Latching::Optimistic] {
            let dir = private_dir();
            let options =
                TpccOptions { mix: Mix::NewOrder, items: 1_000, customers: 60, ..TpccOptions::new(2) };
            let workload = any(Tpcc::new(options));
            let of = config(&workload, dir.path(), design, Durability::Memory, (0, 1), 2, Via::Ring);
            let deployment = Deployment::start(workload, vec![of.with(|o| o.latching = latching)]);
            deployment.load();
            deployment.instances[0].profile(Profiling::OneIn(1)).unwrap();
            let measured = deployment.run(2, 300);
            deployment.stop();
            let bad = measured.aborted.get("bad_request").copied().unwrap_or_default();
            assert_eq!(bad, 0, "{design} {latching}: {:?}", measured.aborted);
            let profile = measured.profile.as_ref().expect("the profile is on");
            let latches = profile.count(Counter::IndexLatches) as f64 / measured.committed_total() as f64;
            eprintln!("{design} {latching}: {latches:.3} latches of index pages per NewOrder");
            // Ten items in a tree of two levels without an owner, and three entries of secondary
            // indexes.
            assert!(latches < 60.0, "{design} {latching}: {latches}");
        }
    }
}

/// Half of these requests, or two thirds, arrive at a worker that does not own their row. They are
/// forwarded whole, so none of them takes a lock, unlike steps that one worker sends to another. No
/// client or request is lost on the way.
#[test]
fn a_request_of_one_owner_runs_there_whole() {
    for (design, workers) in [(Logical, 2), (PlpLeaf, 2), (PlpLeaf, 3)] {
        let dir = private_dir();
        let mix = TatpMix::Only(Kind::GetSubscriberData);
        let workload = any(Tatp::new(TatpOptions { subscribers: 500, mix, ..TatpOptions::new(3) }));
        let config = config(&workload, dir.path(), design, Durability::Memory, (0, 1), workers, Via::Ring);
        let deployment = Deployment::start(workload, vec![config]);
        deployment.load();
        deployment.instances[0].profile(Profiling::OneIn(1)).unwrap();
        let measured = deployment.run(300, 300);
        deployment.stop();
        assert!(measured.committed_total() > 0, "{design}: {measured:?}");
        assert!(measured.aborted.is_empty(), "{design}: {:?}", measured.aborted);
        let profile = measured.profile.as_ref().expect("the profile is on");
        assert_eq!(
            profile.count(Counter::RowLocks),
            0,
            "{design}: {} transactions",
            measured.committed_total()
        );
        assert_eq!(
            measured.latency.count(),
            measured.committed_total(),
            "{design}: each is timed where its client is"
        );
    }
}

/// Critical sections in which any number of workers may meet, with readers that latch nothing.
/// Owners of pages meet only for places in the log, and no transaction of one owner has its log in
/// the runs of two workers.
#[test]
fn owners_of_pages_hardly_meet() {
    let per_transaction = |design| {
        let dir = private_dir();
        let workload = any(Tatp::new(TatpOptions { subscribers: 2_000, ..TatpOptions::new(2) }));
        let config = config(&workload, dir.path(), design, Durability::Memory, (0, 1), 2, Via::Ring);
        let deployment = Deployment::start(workload, vec![config]);
        deployment.load();
        deployment.instances[0].profile(Profiling::OneIn(1)).unwrap();
        let instance = &deployment.instances[0];
        instance.drive(8, 42 << 32);
        // The start is not measured: runs of the log are still short, and pages have no owner yet.
        let (mut begun, mut measured) = (0, Measured::default());
        while measured.committed_total() < 10_000 {
            std::thread::sleep(std::time::Duration::from_millis(50));
            let more = deployment.measure();
            match begun < 4_000 {
                true => begun += more.committed_total(),
                false => measured.merge(&more),
            }
        }
        instance.halt().unwrap();
        deployment.stop();
        let profile = measured.profile.as_ref().expect("the profile is on");
        let unbounded = Section::ALL.iter().filter(|section| section.kind() == SectionKind::Unbounded);
        let each =
            |section: &Section| profile.entered[*section as usize] as f64 / measured.committed_total() as f64;
        let sections: Vec<(&str, f64)> =
            unbounded.map(|section| (section.name(), each(section))).filter(|(_, n)| *n > 0.0).collect();
        eprintln!("{design}: {sections:.4?}");
        sections.iter().map(|(_, n)| n).sum::<f64>()
    };
    let (logical, leaf) = (per_transaction(Logical), per_transaction(PlpLeaf));
    assert!(leaf <= 0.25 * logical, "{leaf} of {logical} unbounded critical sections per transaction");
}
