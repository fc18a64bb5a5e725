//! The cost of the profile: the same instance under the same load, with the profile off and on in
//! turn.
//!
//! `cargo run --profile quick -p instance --example profile_cost [rounds] [off] [design ...]`
//!
//! Prints, as a Markdown table, processor time per transaction: the floor, the median, and the
//! ratios on / off of both. The floor is the mean of the fastest tenth of the windows, which other
//! work on the machine disturbed least. The ratio of the medians within each pair of neighbouring
//! windows has a spread. The cost of the hooks while they are off shows only in comparison with a
//! build without them: with `off` the profile is never turned on, so that two builds can run in
//! turn.

use exec::DesignKind;
use instance::{Instance, InstanceConfig};
use probe::Profiling;
use std::time::Duration;
use txn::{Placement, Workload};
use workload::micro::{Micro, MicroOptions, Op};
use workload::tpcb::{Tpcb, TpcbOptions};

const WINDOW: Duration = Duration::from_millis(40);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rounds = arguments.iter().find_map(|a| a.parse().ok()).unwrap_or(61);
    let on = if arguments.iter().any(|a| a == "off") { Profiling::Off } else { Profiling::ON };
    let asked = |design: &DesignKind| arguments.contains(&design.to_string());
    let none = !DesignKind::ALL.iter().any(asked);
    println!("| design | workload | floor, ns | on / off | median, ns | on / off | paired | middle half |");
    println!("|---|---|--:|--:|--:|--:|--:|--:|");
    for design in DesignKind::ALL.into_iter().filter(|design| none || asked(design)) {
        for op in [Op::Read, Op::Update] {
            let micro = MicroOptions { dataset: 20_000, op, ..MicroOptions::new(1) };
            let name = match op {
                Op::Update => format!("{design} | update 10"),
                _ => format!("{design} | read 10"),
            };
            compare(&name, Micro::new(micro).expect("valid options"), design, on, rounds);
        }
        let tpcb = TpcbOptions { accounts: 10_000, ..TpcbOptions::new(1) };
        compare(&format!("{design} | tpcb"), Tpcb::new(tpcb).expect("valid options"), design, on, rounds);
    }
}

fn compare<W: Workload>(name: &str, workload: W, design: DesignKind, on: Profiling, rounds: usize) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let placement = Placement::even(workload.sites(), 1);
    let config = InstanceConfig::new(dir.path().into(), placement, design);
    let config = InstanceConfig { pool_pages: 100_000, ..config };
    let instance = Instance::start(workload, config).expect("an instance");
    instance.load(&|_, _| {}).expect("loaded");
    instance.drive(4, 1 << 32);
    let window = |profiling| {
        instance.profile(profiling).unwrap();
        instance.measure().unwrap();
        let start = worker_ns();
        std::thread::sleep(WINDOW);
        let committed = instance.measure().unwrap().committed_total();
        (worker_ns() - start) as f64 / committed.max(1) as f64
    };
    window(Profiling::Off);
    let pairs: Vec<(f64, f64)> = (0..rounds).map(|_| (window(Profiling::Off), window(on))).collect();
    instance.halt().unwrap();
    instance.stop().expect("stopped");
    let off = Spread::of(pairs.iter().map(|p| p.0));
    let with = Spread::of(pairs.iter().map(|p| p.1));
    let ratio = Spread::of(pairs.iter().map(|p| p.1 / p.0));
    println!(
        "| {name} | {:.0} | {:.3} | {:.0} | {:.3} | {:.3} | {:.3} to {:.3} |",
        off.floor,
        with.floor / off.floor,
        off.quarters[1],
        with.quarters[1] / off.quarters[1],
        ratio.quarters[1],
        ratio.quarters[0],
        ratio.quarters[2]
    );
}

/// Processor time of the instance's one worker, as the scheduler counts it.
fn worker_ns() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux").flatten();
    let text = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let mut worker = tasks.filter(|task| text(task.path().join("comm")).trim() == "i0w0");
    let counts = text(worker.next().expect("one worker").path().join("schedstat"));
    counts.split(' ').next().and_then(|ns| ns.parse().ok()).expect("the scheduler's statistics")
}

struct Spread {
    floor: f64,
    /// Quarter, half, three quarters.
    quarters: [f64; 3],
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let fastest = values.len().div_ceil(10);
        let floor = values[..fastest].iter().sum::<f64>() / fastest as f64;
        Spread { floor, quarters: [1, 2, 3].map(|i| values[values.len() * i / 4]) }
    }
}
