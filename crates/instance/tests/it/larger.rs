//! Data larger than memory: pages are evicted and read again under transactions, and the outcome is
//! the same.

use crate::support::{Deployment, Via, any, config, private_dir};
use exec::DesignKind;
use probe::Measured;
use std::path::Path;
use txn::Workload;
use wal::Durability;
use workload::micro::{Micro, MicroOptions, Op};
use workload::tpcb::{Tpcb, TpcbOptions};

/// Frames of each instance; the data below takes at least four times as many pages.
const FRAMES: usize = 128;

fn start<W: Workload>(
    workload: &W,
    dir: &Path,
    design: DesignKind,
    durability: Durability,
    instances: u16,
) -> Deployment<W> {
    let workers = if design == DesignKind::Conventional { 2 } else { 1 };
    let configs = (0..instances).map(|i| instance::InstanceConfig {
        pool_pages: FRAMES,
        ..config(workload, dir, design, durability, (i, instances), workers, Via::Shm)
    });
    Deployment::start(workload.clone(), configs.collect())
}

/// Runs until at least this many transactions have committed and pages been read, however slow the
/// machine is.
fn drive<W: Workload>(deployment: &Deployment<W>, commits: u64, reads: u64) -> Measured {
    let mut all = Measured::default();
    for seed in 0..200 {
        all.merge(&deployment.run_seeded(8, 100, seed));
        if all.committed_total() >= commits && all.page_reads >= reads {
            return all;
        }
    }
    panic!("the instance stands still: {all:?}");
}

#[test]
fn a_table_of_four_times_the_pool_is_read_and_updated() {
    for (design, durability) in [
        (DesignKind::Conventional, Durability::Async),
        (DesignKind::Serial, Durability::Async),
        (DesignKind::Serial, Durability::Memory),
    ] {
        let dir = private_dir();
        let micro =
            |op| any(Micro::new(MicroOptions { dataset: 24_000, rows: 4, op, ..MicroOptions::new(1) }));
        let workload = micro(Op::Update);
        let deployment = start(&workload, dir.path(), design, durability, 1);
        deployment.load();
        let pages = deployment.measure().pages;
        assert!(pages > 4 * FRAMES as u64, "{pages} pages");
        let measured = drive(&deployment, 100, 300);
        assert!(measured.page_writes > 0, "{measured:?}");
        let committed = measured.committed_total();
        deployment.instances.iter().for_each(|i| i.reconfigure(micro(Op::Read)).unwrap());
        drive(&deployment, 20, 20);
        deployment.instances.iter().for_each(|i| i.reconfigure(workload.clone()).unwrap());
        let verdict = workload.judge(deployment.audits(), Some(committed));
        assert!(verdict.holds(), "{design} {durability}: {verdict:?}");
        deployment.stop();
        if durability == Durability::Memory {
            continue;
        }
        let again = start(&workload, dir.path(), design, durability, 1);
        let verdict = workload.judge(again.audits(), Some(committed));
        assert!(verdict.holds(), "{design} {durability}, reopened: {verdict:?}");
        again.stop();
    }
}

/// Steps of transactions with another home wait for pages too, prepared participants hold their
/// locks meanwhile, and the tables grow.
#[test]
fn distributed_transactions_wait_for_pages_too() {
    for design in [DesignKind::Conventional, DesignKind::Serial] {
        let dir = private_dir();
        let workload =
            any(Tpcb::new(TpcbOptions { accounts: 6_000, multisite: 50.0, ..TpcbOptions::new(4) }));
        let deployment = start(&workload, dir.path(), design, Durability::Async, 2);
        deployment.load();
        let measured = drive(&deployment, 100, 300);
        assert!(measured.distributed > 0, "{measured:?}");
        let committed = Some(measured.committed_total());
        let verdict = workload.judge(deployment.audits(), committed);
        assert!(verdict.holds(), "{design}: {verdict:?}");
        deployment.stop();
    }
}
