//! The closed form against the simulation.

use crate::{machines, run};
use deploysim::{
    Case, Channel, Clients, Deployment, EngineProfile, MachineModel, Placement, RunOptions, Transactions,
    estimate,
};
use workload::micro::{MicroOptions, Op};

/// The closed form over the simulation.
fn ratio(
    machine: &MachineModel,
    profile: &EngineProfile,
    transactions: &Transactions,
    deployment: &Deployment,
) -> f64 {
    let case = Case::new(machine, profile, transactions, deployment).unwrap();
    let exact = run(machine, profile, transactions, deployment, &RunOptions::default());
    let quick = estimate(&case);
    let distributed = exact.distributed as f64 / exact.committed as f64;
    assert!((quick.distributed - distributed).abs() < 0.03, "{} and {distributed}", quick.distributed);
    let messages = exact.messages.protocol() as f64 / exact.committed as f64;
    assert!((quick.messages - messages).abs() < 0.05 * messages + 0.1, "{} and {messages}", quick.messages);
    quick.tps / exact.tps
}

#[test]
fn the_closed_form_screens_what_the_simulation_ranks() {
    let machine = MachineModel::uniform(4, 60.0).unwrap();
    let profile = EngineProfile::builtin("atoll").unwrap();
    let mut errors = Vec::new();
    for design in ["conventional", "serial", "occ"] {
        for op in [Op::Read, Op::Update] {
            for (islands, channel) in
                [(1, Channel::Shm), (2, Channel::Shm), (4, Channel::Shm), (4, Channel::Uds)]
            {
                for multisite in [0.0, 10.0, 50.0, 100.0] {
                    if design == "serial" && islands < 4 {
                        continue;
                    }
                    let transactions = Transactions::micro_of(4, op, multisite).unwrap();
                    let deployment =
                        Deployment::new(&machine, design, islands, 4, Placement::Island).unwrap();
                    let ratio = ratio(&machine, &profile, &transactions, &deployment.over(channel));
                    let error = (ratio - 1.0).abs();
                    println!("{design} {op:?} {islands} {} {multisite}: {ratio:.2}", channel.name());
                    if multisite == 0.0 {
                        assert!(error < 0.06, "{design} {op:?} {islands} {}: {ratio}", channel.name());
                    }
                    errors.push(error);
                }
            }
        }
    }
    errors.sort_by(f64::total_cmp);
    let (median, p90) = (errors[errors.len() / 2], errors[errors.len() * 9 / 10]);
    println!("{} cells: median {:.1} %, p90 {:.1} %", errors.len(), median * 100.0, p90 * 100.0);
    assert!(median < 0.15 && p90 < 0.45, "median {median}, p90 {p90}");
}

/// Memoryless conditions: one instance, one client a worker, one hot line.
#[test]
fn mean_value_analysis_and_the_simulation_agree_on_the_papers_engine() {
    let profile = EngineProfile::builtin("shore-mt").unwrap();
    let machine = MachineModel::parse(&machines("quad-socket-e7530.toml")).unwrap();
    let transactions = Transactions::micro(MicroOptions::new(24)).unwrap();
    for islands in [1, 4, 24] {
        let deployment = Deployment::new(&machine, "conventional", islands, 24, Placement::Island).unwrap();
        let deployment = deployment.with_clients(Clients::Closed(1));
        let ratio = ratio(&machine, &profile, &transactions, &deployment);
        println!("{islands} islands: {ratio:.3}");
        assert!((0.92..1.05).contains(&ratio), "{islands} islands: {ratio}");
    }
}
