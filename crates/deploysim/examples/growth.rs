//! The cost of growth: the same load on 1 to 1,000 simulated machines, the sites growing with them.
//!
//! ```sh
//! cargo run --release -p deploysim --example growth > growth.md
//! ```
//!
//! Prints a table for each workload. All links are TCP sockets; the machines, their network and the
//! clients are described in `MACHINE` and below, and none of them was measured.

use deploysim::machine::file::MachineFile;
use deploysim::transaction::{tpcb, tpcc_new_order, tpcc_payment};
use deploysim::{
    Case, Channel, Clients, Component, Deployment, Durability, EngineProfile, MachineModel, Mix, ModelError,
    Outcome, RunOptions, Transactions, simulate,
};
use std::time::Instant;

/// A machine of four cores with one last-level cache; 20 µs one way between two of them, as in
/// `machines/cluster-of-8-x5660.toml`.
const MACHINE: &str = r#"
source = "assumed"
topology = "package:1 core:4"
ghz = 2.8
[latency_ns]
cache = 60
network = 20000
"#;
const CORES: usize = 4;
const MACHINES: [usize; 9] = [1, 2, 4, 8, 32, 100, 250, 500, 1000];
/// Clients of each worker: enough to keep it busy while others wait for the network.
const CLIENTS: u32 = 16;

/// The instances of one deployment: so many cores each.
struct Shape {
    name: &'static str,
    design: &'static str,
    cores: usize,
}

const SHAPES: [Shape; 2] = [
    Shape { name: "one a core", design: "serial", cores: 1 },
    Shape { name: "one a machine", design: "conventional", cores: CORES },
];

type Workload = (&'static str, fn(u32) -> Mix);

const WORKLOADS: [Workload; 3] = [
    ("TPC-B, 15 % of the accounts at another branch", |sites| tpcb(sites, 0.15)),
    ("Payment, 15 % of the customers of another warehouse", |sites| tpcc_payment(sites, 0.15)),
    ("NewOrder, 10 % with an item of another warehouse", |sites| tpcc_new_order(sites, 0.10)),
];

fn main() -> Result<(), ModelError> {
    let profile = EngineProfile::builtin("atoll")?;
    for (name, mix) in WORKLOADS {
        println!("\n{name}:\n");
        println!(
            "| machines | instances | transactions/s | of so many single machines | distributed | communication, µs | p50, µs | limit |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        for shape in &SHAPES {
            let mut alone = 0.0;
            for machines in MACHINES {
                let began = Instant::now();
                let outcome = run(&profile, mix, shape, machines)?;
                if machines == 1 {
                    alone = outcome.tps;
                }
                println!("{}", line(shape, machines, &outcome, alone));
                eprintln!("{name}, {machines} machines, {}: {:.1?}", shape.name, began.elapsed());
            }
        }
    }
    Ok(())
}

fn cluster(machines: usize) -> Result<MachineModel, ModelError> {
    let text = format!("name = \"{machines} machines of {CORES} cores\"\nmachines = {machines}\n{MACHINE}");
    MachineFile::parse("growth", &text)?.model()
}

/// A site a core; the machines of a cluster follow each other, so chunks of cores lie on one.
fn run(
    profile: &EngineProfile,
    mix: fn(u32) -> Mix,
    shape: &Shape,
    machines: usize,
) -> Result<Outcome, ModelError> {
    let machine = cluster(machines)?;
    let cores: Vec<usize> = (0..machines * CORES).collect();
    let transactions = Transactions::mix(mix(cores.len() as u32))?;
    let deployment = Deployment {
        design: shape.design.into(),
        instances: cores.chunks(shape.cores).map(<[usize]>::to_vec).collect(),
        channel: Channel::Tcp,
        durability: Durability::Async,
        clients: Clients::Closed(CLIENTS),
        bounds: Vec::new(),
    };
    let case = Case::new(&machine, profile, &transactions, &deployment)?;
    let transactions = (cores.len() as u64 * 250).max(20_000);
    let options = RunOptions { transactions, warm_up: transactions / 4, ..RunOptions::default() };
    Ok(simulate(&case, &options))
}

fn line(shape: &Shape, machines: usize, outcome: &Outcome, alone: f64) -> String {
    format!(
        "| {machines} | {} | {:.0} | {:.0} % | {:.0} % | {:.1} | {:.0} | {} |",
        shape.name,
        outcome.tps,
        100.0 * outcome.tps / (alone * machines as f64),
        100.0 * outcome.distributed as f64 / outcome.committed.max(1) as f64,
        outcome.per_transaction_ns(Component::Communication) / 1000.0,
        outcome.latency.p50_ns / 1000.0,
        outcome.limit,
    )
}
