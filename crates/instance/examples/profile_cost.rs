//! What the profile costs: the same instance under the same load, with the profile off and on in turns.
//!
//! `cargo run --profile quick -p instance --example profile_cost [rounds] [off]`
//!
//! Prints processor time per transaction, the median of the rounds, and its ratio on / off within each pair of
//! neighbouring windows (median, and the middle half). What the hooks cost while they are off shows only against a build
//! without them: with `off` the profile is never turned on, so that two builds can be run in turns.

use base::InstanceId;
use exec::DesignKind;
use instance::{Instance, InstanceConfig};
use probe::Profiling;
use std::time::Duration;
use txn::{Placement, Workload};
use wal::Durability;
use workload::micro::{Micro, MicroOptions, Op};
use workload::tpcb::{Tpcb, TpcbOptions};

const WINDOW: Duration = Duration::from_millis(150);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rounds = arguments.iter().find_map(|a| a.parse().ok()).unwrap_or(15);
    let on = if arguments.iter().any(|a| a == "off") { Profiling::Off } else { Profiling::ON };
    println!("{:<28} {:>9} {:>9} {:>8}  middle half", "", "off ns", "on ns", "on/off");
    for design in DesignKind::ALL {
        for op in [Op::Read, Op::Update] {
            let micro = MicroOptions { dataset: 20_000, op, ..MicroOptions::new(1) };
            let name = format!("{design}, micro {op:?} 10");
            compare(&name, Micro::new(micro).expect("valid options"), design, on, rounds);
        }
        let tpcb = TpcbOptions { accounts: 10_000, ..TpcbOptions::new(1) };
        compare(&format!("{design}, tpcb"), Tpcb::new(tpcb).expect("valid options"), design, on, rounds);
    }
}

fn compare<W: Workload>(name: &str, workload: W, design: DesignKind, on: Profiling, rounds: usize) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let config = InstanceConfig {
        id: InstanceId(0),
        deployment: 1,
        placement: Placement::even(workload.sites(), 1),
        design,
        durability: Durability::Memory,
        dir: dir.path().into(),
        pool_pages: 100_000,
        cpus: vec![None],
        node: None,
        listen: None,
        lock_timeout_ms: 100,
        spin_us: 50,
    };
    let instance = Instance::start(workload, config).expect("an instance");
    instance.load(&|_, _| {}).expect("loaded");
    instance.drive(4, 1 << 32);
    let window = |profiling| {
        instance.profile(profiling);
        instance.measure();
        std::thread::sleep(WINDOW);
        let measured = instance.measure();
        measured.cpu_ns as f64 / measured.committed_total().max(1) as f64
    };
    window(Profiling::Off);
    let pairs: Vec<(f64, f64)> = (0..rounds).map(|_| (window(Profiling::Off), window(on))).collect();
    instance.halt();
    instance.stop().expect("stopped");
    let off = quantiles(pairs.iter().map(|p| p.0));
    let with = quantiles(pairs.iter().map(|p| p.1));
    let ratio = quantiles(pairs.iter().map(|p| p.1 / p.0));
    println!(
        "{name:<28} {:>9.0} {:>9.0} {:>8.3}  {:.3} to {:.3}",
        off[1], with[1], ratio[1], ratio[0], ratio[2]
    );
}

/// Quarter, half, three quarters.
fn quantiles(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    [values.len() / 4, values.len() / 2, values.len() * 3 / 4].map(|i| values[i.min(values.len() - 1)])
}
