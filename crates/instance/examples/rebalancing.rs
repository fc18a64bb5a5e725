//! Keys that follow the load: a hot spot that shifts (thesis, figures 4.1 and 4.8), and 126 changes
//! of the partitions under running transactions.
//!
//! ```text
//! cargo run --release -p instance --example rebalancing -- shift [DESIGN] [off|on]
//! cargo run --release -p instance --example rebalancing -- changes [DESIGN]
//! ```
//!
//! Two workers over 200 sites read one row at a time; every client draws over all keys. `shift`:
//! evenly at first; after three seconds half of the requests go to the first 30 % of the keys. It
//! prints throughput for each quarter of a second, and after how long it is back at 95 % of the
//! former value. `changes`: 64 partitions with 63 borders, which all shift by a site and back: 63
//! splits and 63 merges each time.

use exec::{DesignKind, EngineOptions};
use instance::{Balance, Carried, Instance, InstanceConfig, Mode};
use std::ops::Range;
use std::time::{Duration, Instant};
use traffic::{LoadChange, Share, Traffic};
use txn::{Placement, Workload};
use workload::micro::{Micro, MicroOptions, Op};

const SITES: u32 = 200;
const WORKERS: usize = 2;
const CLIENTS: u32 = 8;
const PIECE: Duration = Duration::from_millis(250);

fn micro(hot: &str) -> Micro {
    let hot = Some(hot.parse().expect("a hot range"));
    let options = MicroOptions {
        dataset: 1000 * u64::from(SITES),
        rows: 1,
        op: Op::Read,
        hot,
        ..MicroOptions::new(SITES)
    };
    Micro::new(options).expect("valid options")
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|a| a == word);
    let mut owners = DesignKind::ALL.into_iter().filter(|design| design.owns_keys());
    let design = owners.find(|design| has(design.name())).unwrap_or(DesignKind::Logical);
    if has("changes") {
        return changes(design);
    }
    for mode in [Mode::Off, Mode::On] {
        let others = if mode == Mode::On { Mode::Off } else { Mode::On };
        if !has(others.name()) {
            shift(design, mode);
        }
    }
}

fn start(design: DesignKind, partitions: usize, mode: Mode) -> (tempfile::TempDir, Instance<Micro>) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    // Evenly, by clients that draw over all keys.
    let workload = micro("50/50");
    let config = InstanceConfig::new(dir.path().into(), Placement::even(workload.sites(), 1), design);
    let balance = Balance { mode, ..Balance::default() };
    let options = EngineOptions { partitions: Some(partitions), balance, ..config.options };
    let config = InstanceConfig { cpus: vec![None; WORKERS], pool_pages: 20_000, options, ..config };
    let instance = Instance::start(workload, config).expect("an instance");
    instance.load(&|_, _| {}).expect("loaded");
    instance.measure().unwrap();
    instance.load_with(Traffic::closed(CLIENTS), Share::whole(WORKERS as u32), 1 << 32);
    (dir, instance)
}

/// Transactions a second in each of `count` pieces.
fn pieces(instance: &Instance<Micro>, count: usize) -> Vec<f64> {
    let piece = |_| {
        std::thread::sleep(PIECE);
        let measured = instance.measure().unwrap();
        measured.rebalances.iter().for_each(|r| eprintln!("  {:.1} ms: {}", r.took_ns as f64 / 1e6, r.why));
        measured.committed_total() as f64 / (measured.window_ns as f64 / 1e9)
    };
    (0..count).map(piece).collect()
}

fn median(of: &[f64]) -> f64 {
    let mut sorted = of.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn shift(design: DesignKind, mode: Mode) {
    let (_dir, instance) = start(design, WORKERS, mode);
    pieces(&instance, 4);
    let before = median(&pieces(&instance, 12));
    let hot = LoadChange { at_ns: 0, rate: None, requests: Some((micro("50/30"), 2 << 32)) };
    instance.script(&[hot]);
    let after = pieces(&instance, 32);
    let told: Vec<String> = after.iter().map(|tps| format!("{:.2}", tps / before)).collect();
    println!(
        "{design}, balance {mode}: {before:.0} transactions a second before; then, as a share of that, each quarter of a second"
    );
    println!("  {}", told.join(" "));
    // Recovered for good: no later run of four pieces has a lower median.
    let back = (0..after.len() - 4).find(|&i| after[i..].windows(4).all(|w| median(w) >= 0.95 * before));
    match back {
        Some(i) => println!("  back at 95 % after {:.2} s", i as f64 * PIECE.as_secs_f64()),
        None => println!("  not back at 95 %; the last two seconds: {:.2}", median(&after[24..]) / before),
    }
    instance.halt().unwrap();
    println!("  partitions: {:?}", instance.partitions());
    instance.stop().expect("stopped");
}

/// 64 partitions, the first 32 of the first worker, with all borders moved by `shift` sites.
fn borders(shift: u32) -> Vec<(Range<u32>, usize)> {
    let start = |i: u32| if i == 0 { 0 } else { i * SITES / 64 + shift };
    let end = |i: u32| if i == 63 { SITES } else { start(i + 1) };
    (0..64).map(|i| (start(i)..end(i), usize::from(i >= 32))).collect()
}

fn changes(design: DesignKind) {
    let (_dir, instance) = start(design, 64, Mode::Off);
    pieces(&instance, 4);
    let before = median(&pieces(&instance, 8));
    instance.repartition(&borders(0)).expect("possible");
    let mut sum = Carried::default();
    for round in 0..6 {
        instance.measure().unwrap();
        let start = Instant::now();
        let carried = instance.repartition(&borders(1 - round % 2)).expect("possible");
        let took = start.elapsed();
        let measured = instance.measure().unwrap();
        let tps = measured.committed_total() as f64 / (measured.window_ns as f64 / 1e9);
        println!(
            "{design}: {} changes in {:.1} ms, a door shut for {:.2} ms in all; {:.2} of {before:.0} transactions a second meanwhile",
            carried.changes,
            took.as_secs_f64() * 1e3,
            carried.shut_ns as f64 / 1e6,
            tps / before
        );
        sum.add(&carried);
    }
    println!("in all: {sum:?}");
    instance.halt().unwrap();
    instance.stop().expect("stopped");
}
