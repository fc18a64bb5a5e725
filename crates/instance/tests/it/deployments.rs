//! Deployments of every shape, in which the workloads' consistency conditions hold.

use crate::support::{Deployment, Via, any, config, private_dir};
use exec::{DesignKind, TreeKind};
use instance::InstanceConfig;
use txn::Workload as _;
use wal::Durability;
use workload::AnyWorkload;
use workload::micro::{Micro, MicroOptions, Op};
use workload::tpcb::{Tpcb, TpcbOptions};
use workload::tpcc::{Mix, Tpcc, TpccOptions};

fn micro(op: Op, multisite: f64) -> AnyWorkload {
    any(Micro::new(MicroOptions { dataset: 2_000, op, multisite, ..MicroOptions::new(4) }))
}

fn run_micro(design: DesignKind, islands: u16, workers: usize, via: Via, op: Op) {
    let dir = private_dir();
    let workload = micro(op, 50.0);
    let configs = (0..islands)
        .map(|i| config(&workload, dir.path(), design, Durability::Memory, (i, islands), workers, via))
        .collect();
    let deployment = Deployment::start(workload, configs);
    deployment.load();
    let measured = deployment.run(4, 200);
    let committed = measured.committed_total();
    eprintln!(
        "{design} x{islands} w{workers} {via:?} {op:?}: {committed} committed, {} distributed, aborted {:?}, p50 {} ns",
        measured.distributed,
        measured.aborted,
        measured.latency.quantile(0.5)
    );
    assert!(committed > 0, "{measured:?}");
    assert_eq!(measured.distributed > 0, islands > 1);
    let verdict = txn::Workload::judge(&deployment.workload, deployment.audits(), Some(committed));
    assert!(verdict.holds(), "{verdict:?}");
    deployment.stop();
}

#[test]
fn one_conventional_instance_of_two_workers() {
    run_micro(DesignKind::Conventional, 1, 2, Via::Ring, Op::Update);
    run_micro(DesignKind::Conventional, 1, 2, Via::Ring, Op::Read);
}

#[test]
fn one_serial_instance() {
    run_micro(DesignKind::Serial, 1, 1, Via::Ring, Op::Update);
}

#[test]
fn one_instance_of_two_workers_in_main_memory() {
    run_micro(DesignKind::Occ, 1, 2, Via::Ring, Op::Update);
    run_micro(DesignKind::Occ, 1, 2, Via::Ring, Op::Read);
}

#[test]
fn two_instances_over_every_channel() {
    for via in [Via::Shm, Via::Uds, Via::Tcp, Via::Ring] {
        for design in DesignKind::ALL {
            run_micro(design, 2, 1, via, Op::Update);
            run_micro(design, 2, 1, via, Op::Read);
        }
    }
}

#[test]
fn four_instances_of_two_workers() {
    run_micro(DesignKind::Occ, 4, 2, Via::Shm, Op::Update);
    run_micro(DesignKind::Conventional, 4, 2, Via::Shm, Op::Update);
}

#[test]
fn tpcb_over_two_instances_keeps_its_conditions() {
    for design in DesignKind::ALL {
        let dir = private_dir();
        let workload = any(Tpcb::new(TpcbOptions { accounts: 200, multisite: 50.0, ..TpcbOptions::new(4) }));
        let configs = (0..2)
            .map(|i| config(&workload, dir.path(), design, Durability::Memory, (i, 2), 1, Via::Shm))
            .collect();
        let deployment = Deployment::start(workload, configs);
        deployment.load();
        let measured = deployment.run(4, 300);
        assert!(measured.distributed > 0, "{measured:?}");
        let committed = Some(measured.committed_total());
        let verdict = txn::Workload::judge(&deployment.workload, deployment.audits(), committed);
        assert!(verdict.holds(), "{verdict:?}");
        deployment.stop();
    }
}

#[test]
fn tpcb_on_multi_rooted_trees_keeps_its_conditions() {
    for design in DesignKind::ALL.into_iter().filter(|design| *design != DesignKind::Occ) {
        let dir = private_dir();
        let options = TpcbOptions { accounts: 200, multisite: 50.0, ..TpcbOptions::new(8) };
        let workload = any(Tpcb::new(options));
        let workers = if design == DesignKind::Serial { 1 } else { 2 };
        let of = |i| config(&workload, dir.path(), design, Durability::Memory, (i, 2), workers, Via::Ring);
        let multi =
            |c: InstanceConfig| c.with(|o| (o.trees, o.partitions) = (TreeKind::MultiRooted, Some(3)));
        let deployment = Deployment::start(workload.clone(), (0..2).map(of).map(multi).collect());
        deployment.load();
        let measured = deployment.run(4, 300);
        assert!(measured.distributed > 0, "{design}: {measured:?}");
        let verdict = workload.judge(deployment.audits(), Some(measured.committed_total()));
        assert!(verdict.holds(), "{design}: {verdict:?}");
        deployment.stop();
    }
}

/// The prepare request rides on the steps that take stock and look the customer up, although the
/// home has more to do after them. The messages are: request, results with the vote, decision,
/// acknowledgement.
#[test]
fn tpcc_over_two_instances_prepares_with_the_steps_that_are_elsewhere() {
    for (mix, design) in [
        (Mix::NewOrder, DesignKind::Conventional),
        (Mix::Payment, DesignKind::Conventional),
        (Mix::Prime, DesignKind::Serial),
        (Mix::NewOrder, DesignKind::Occ),
        (Mix::Payment, DesignKind::Occ),
    ] {
        let dir = private_dir();
        let options =
            TpccOptions { mix, multisite: Some(100.0), items: 2_000, customers: 60, ..TpccOptions::new(2) };
        let workload = any(Tpcc::new(options));
        let configs = (0..2)
            .map(|i| config(&workload, dir.path(), design, Durability::Memory, (i, 2), 1, Via::Ring))
            .collect();
        let deployment = Deployment::start(workload, configs);
        deployment.load();
        // One client: aborts, which cost messages of their own, stay few.
        let measured = deployment.run(1, 300);
        let distributed = measured.distributed;
        assert!(distributed > 0, "{measured:?}");
        let tries = measured.committed_total() + measured.aborted.values().sum::<u64>();
        let aborted = tries - measured.committed_total();
        let messages = measured.messages as f64;
        assert!(
            messages <= 4.0 * distributed as f64 + 6.0 * aborted as f64 + 16.0,
            "{mix:?} {design}: {messages} messages, {distributed} distributed, {aborted} aborted"
        );
        let committed = Some(measured.committed_total());
        let verdict = txn::Workload::judge(&deployment.workload, deployment.audits(), committed);
        assert!(verdict.holds(), "{verdict:?}");
        deployment.stop();
    }
}
