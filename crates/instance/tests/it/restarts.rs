//! The state after a stop and a start.

use crate::support::{Deployment, Via, any, config, private_dir};
use exec::DesignKind;
use txn::Workload;
use wal::Durability;
use workload::tpcb::{Tpcb, TpcbOptions};

/// Committed rows are there after a clean stop and a start, and the instances work together again.
#[test]
fn a_stopped_deployment_comes_back_whole() {
    for (design, durability) in [
        (DesignKind::Conventional, Durability::Sync),
        (DesignKind::Serial, Durability::Async),
        (DesignKind::Occ, Durability::Sync),
        (DesignKind::Occ, Durability::Async),
    ] {
        let dir = private_dir();
        let workload = any(Tpcb::new(TpcbOptions { accounts: 100, multisite: 50.0, ..TpcbOptions::new(2) }));
        let mut committed = 0;
        for life in 0..3 {
            let configs = (0..2)
                .map(|i| config(&workload, dir.path(), design, durability, (i, 2), 1, Via::Uds))
                .collect();
            let deployment = Deployment::start(workload.clone(), configs);
            if life == 0 {
                deployment.load();
            }
            for instance in &deployment.instances {
                assert_eq!((instance.recovery().life, instance.recovery().in_doubt), (life + 1, 0));
            }
            committed += deployment.run_seeded(4, 100, u64::from(life)).committed_total();
            let verdict = workload.judge(deployment.audits(), Some(committed));
            assert!(verdict.holds(), "{design} {durability} life {life}: {verdict:?}");
            deployment.stop();
        }
        assert!(committed > 0, "only {committed} transactions");
    }
}
