//! Prints the round trips of all mechanisms between two CPUs:
//! `cargo run --release -p channel --example ipc -- 0 1`.

use channel::ipc::{Mechanism, Plan, Waiting, launch_self, measure, run_if_peer};
use rustix::thread::{CpuSet, sched_setaffinity};

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    if let Err(error) = sched_setaffinity(None, &set) {
        eprintln!("cpu {cpu}: not pinned: {error}");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Some(result) = run_if_peer(pin) {
        return Ok(result?);
    }
    let cpus: Vec<usize> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let cpus = [cpus.first().copied().unwrap_or(0), cpus.get(1).copied().unwrap_or(1)];
    let directory = std::env::temp_dir().join(format!("atoll-ipc-{}", std::process::id()));
    println!(
        "{:8} {:9} {:>9} {:>9} {:>9} {:>12}",
        "channel", "waiting", "p50 ns", "p99 ns", "mean ns", "messages/s"
    );
    for mechanism in Mechanism::ALL {
        for waiting in Waiting::ALL {
            let plan = Plan { cpus, ..Plan::new(mechanism, waiting, directory.clone()) };
            match measure(&plan, launch_self, pin) {
                Ok(f) => println!(
                    "{:8} {:9} {:9} {:9} {:9} {:12.0}",
                    f.mechanism.name(),
                    f.waiting.name(),
                    f.p50_ns,
                    f.p99_ns,
                    f.mean_ns,
                    f.messages_per_s
                ),
                Err(error) => println!("{:8} {:9} {error}", mechanism.name(), waiting.name()),
            }
        }
    }
    let _ = std::fs::remove_dir(&directory);
    Ok(())
}
