//! Data larger than memory: pages come and go under transactions, whose outcome is the same.

use crate::support::{Deployment, Via, config, private_dir};
use exec::DesignKind;
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

#[test]
fn a_table_of_four_times_the_pool_is_read_and_updated() {
    for (design, durability) in [
        (DesignKind::Conventional, Durability::Async),
        (DesignKind::Serial, Durability::Async),
        (DesignKind::Serial, Durability::Memory),
    ] {
        let dir = private_dir();
        let micro =
            |op| Micro::new(MicroOptions { dataset: 16_000, rows: 4, op, ..MicroOptions::new(1) }).unwrap();
        let workload = micro(Op::Update);
        let deployment = start(&workload, dir.path(), design, durability, 1);
        deployment.load();
        let measured = deployment.run(8, 200);
        assert!(measured.pages > 4 * FRAMES as u64, "{} pages", measured.pages);
        assert!(measured.page_reads > 100 && measured.page_writes > 0, "{measured:?}");
        let committed = measured.committed_total();
        assert!(committed > 20, "{design} {durability}: {measured:?}");
        deployment.instances.iter().for_each(|i| i.reconfigure(micro(Op::Read)));
        assert!(deployment.run_seeded(8, 50, 3).committed_total() > 20);
        deployment.instances.iter().for_each(|i| i.reconfigure(workload.clone()));
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

/// Steps of others' transactions wait for pages too, prepared parts hold their locks meanwhile, and the tables grow.
#[test]
fn distributed_transactions_wait_for_pages_too() {
    for design in [DesignKind::Conventional, DesignKind::Serial] {
        let dir = private_dir();
        let workload =
            Tpcb::new(TpcbOptions { accounts: 6_000, multisite: 50.0, ..TpcbOptions::new(4) }).unwrap();
        let deployment = start(&workload, dir.path(), design, Durability::Async, 2);
        deployment.load();
        let measured = deployment.run(4, 200);
        assert!(measured.distributed > 10 && measured.page_reads > 100, "{measured:?}");
        let committed = Some(measured.committed_total());
        let verdict = workload.judge(deployment.audits(), committed);
        assert!(verdict.holds(), "{design}: {verdict:?}");
        deployment.stop();
    }
}
