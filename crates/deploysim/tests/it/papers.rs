//! The profile `shore-mt` on the papers' quad-socket machine against the figures it was fitted to.
//!
//! These are anchors: they tell that the profile and the simulation fit together, and none of them
//! counts as a result. Figures are of Porobic et al., PVLDB 2012 (Figures 8, 9, 10) and VLDB
//! Journal 2016 (Figure 14): 10 rows, one client a worker.

use crate::{machines, run};
use deploysim::{
    Channel, Clients, Deployment, EngineProfile, MachineModel, Placement, RunOptions, Transactions,
};
use workload::micro::Op;

/// Thousands of transactions per second on all 24 cores.
fn kilo(islands: usize, op: Op, multisite: f64, channel: Channel) -> f64 {
    let machine = MachineModel::parse(&machines("quad-socket-e7530.toml")).unwrap();
    let profile = EngineProfile::builtin("shore-mt").unwrap();
    let transactions = Transactions::micro_of(24, op, multisite).unwrap();
    let deployment = Deployment::new(&machine, "conventional", islands, 24, Placement::Island).unwrap();
    let deployment = deployment.over(channel).with_clients(Clients::Closed(1));
    run(&machine, &profile, &transactions, &deployment, &RunOptions::default()).tps / 1e3
}

#[test]
fn the_anchors_of_the_papers_engine_are_met() {
    use Channel::{Shm, Uds};
    let read = |islands, multisite, channel| kilo(islands, Op::Read, multisite, channel);
    let update = |islands, multisite, channel| kilo(islands, Op::Update, multisite, channel);
    let gain =
        |of: &dyn Fn(usize, f64, Channel) -> f64, islands| of(islands, 100.0, Shm) / of(islands, 100.0, Uds);
    let (finest, shared) = (read(24, 0.0, Uds), read(1, 0.0, Uds));
    for (name, found, anchor, bar) in [
        ("24ISL, local reads, KTps", finest, 190.0, 0.05),
        ("12ISL over 24ISL, local reads", read(12, 0.0, Uds) / finest, 0.60, 0.05),
        ("24ISL over 1ISL, local reads", finest / shared, 2.0, 0.05),
        ("24ISL, local updates, KTps", update(24, 0.0, Uds), 110.0, 0.05),
        ("24ISL over 1ISL, local updates", update(24, 0.0, Uds) / update(1, 0.0, Uds), 1.6, 0.06),
        ("gain of shared memory, 24ISL, reads", gain(&read, 24), 1.60, 0.05),
        ("gain of shared memory, 4ISL, reads", gain(&read, 4), 1.25, 0.05),
        ("gain of shared memory, 24ISL, updates", gain(&update, 24), 1.22, 0.10),
        ("gain of shared memory, 4ISL, updates", gain(&update, 4), 1.12, 0.10),
    ] {
        println!("{name}: {found:.2}, published {anchor}");
        assert!((found / anchor - 1.0_f64).abs() < bar, "{name}: {found}, published {anchor}");
    }
}
