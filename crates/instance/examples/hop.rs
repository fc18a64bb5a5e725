//! The cost of a request that arrives at a worker that does not own its keys: TATP under
//! `conventional`, which has no owners, and under designs with owners, in windows in turn.
//!
//! ```text
//! cargo run --profile quick -p instance --example hop -- \
//!     [get|change|mix] [bound] [SECONDS] [in=1,64] [conventional plp-leaf ...]
//! ```
//!
//! One instance, two workers; half of the requests are for keys of the other worker. `get` is
//! GetSubscriberData, `change` inserts and deletes call forwardings. With `bound` every request
//! arrives at the right worker. Rows: how many requests each worker has under way; then for each
//! design transactions a second in each window, and their median per second of processor time that
//! the process took. Other work on the machine hardly changes the latter, as long as each worker
//! has work (an idle one polls for 20 us before it sleeps).

use exec::DesignKind;
use instance::{Instance, InstanceConfig};
use std::time::Duration;
use txn::{Placement, Workload};
use wal::Durability;
use workload::tatp::{Kind, Mix, Popularity, Tatp, TatpOptions};

const WORKERS: usize = 2;
const UNDER_WAY: &str = "in=1,8,64";
/// Windows of each design, in turn.
const WINDOWS: usize = 3;
/// The unit of times in `/proc/self/stat`.
const TICKS_PER_SECOND: f64 = 100.0;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|a| a == word);
    let seconds = arguments.iter().find_map(|a| a.parse().ok()).unwrap_or(2.0);
    let mix = match () {
        () if has("change") => Mix::InsertDelete,
        () if has("mix") => Mix::Full,
        () => Mix::Only(Kind::GetSubscriberData),
    };
    let mut designs: Vec<DesignKind> =
        DesignKind::ALL.into_iter().filter(|design| has(&design.to_string())).collect();
    if designs.is_empty() {
        designs = vec![DesignKind::Conventional, DesignKind::PlpLeaf];
    }
    let popularity = if has("bound") { Popularity::Uniform } else { Popularity::NonUniform };
    let workload = Tatp::new(TatpOptions { mix, popularity, ..TatpOptions::new(2) }).expect("valid options");
    let under_way = arguments.iter().find(|a| a.starts_with("in=")).map_or(UNDER_WAY, String::as_str);
    let under_way = under_way["in=".len()..].split(',').map(|n| n.parse().expect("a number under way"));
    let running: Vec<Running> = designs.iter().map(|design| Running::start(&workload, *design)).collect();
    println!("| in flight | design | windows | median | per processor second |");
    println!("|---|---|---|---|---|");
    for under_way in under_way {
        let mut windows = vec![Vec::new(); designs.len()];
        for _ in 0..WINDOWS {
            for (running, windows) in running.iter().zip(&mut windows) {
                windows.push(running.window(under_way, seconds));
            }
        }
        for (design, windows) in designs.iter().zip(windows) {
            let median = |of: fn(&(f64, f64)) -> f64| {
                let mut all: Vec<f64> = windows.iter().map(of).collect();
                all.sort_by(f64::total_cmp);
                all[all.len() / 2]
            };
            let each: Vec<String> = windows.iter().map(|(tps, _)| format!("{tps:.0}")).collect();
            let (tps, by_cpu) = (median(|w| w.0), median(|w| w.1));
            println!("| {under_way} | {design} | {} | {tps:.0} | {by_cpu:.0} |", each.join(", "));
        }
    }
    running.into_iter().for_each(|running| running.instance.stop().expect("stopped"));
}

struct Running {
    instance: Instance<Tatp>,
    _dir: tempfile::TempDir,
}

impl Running {
    fn start(workload: &Tatp, design: DesignKind) -> Running {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let config = InstanceConfig::new(dir.path().into(), Placement::even(workload.sites(), 1), design);
        let config = InstanceConfig {
            durability: Durability::Memory,
            pool_pages: 20_000,
            cpus: vec![None; WORKERS],
            spin_us: 20,
            ..config
        };
        let instance = Instance::start(workload.clone(), config).expect("an instance");
        instance.load(&|_, _| {}).expect("loaded");
        Running { instance, _dir: dir }
    }

    /// Transactions a second, and per second of processor time.
    fn window(&self, under_way: usize, seconds: f64) -> (f64, f64) {
        self.instance.drive(under_way, 1 << 32);
        std::thread::sleep(Duration::from_millis(100));
        self.instance.measure().expect("it runs");
        let before = processor_seconds();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        let (measured, used) = (self.instance.measure().expect("it runs"), processor_seconds() - before);
        self.instance.halt().expect("it runs");
        let committed = measured.committed_total() as f64;
        (committed / (measured.window_ns as f64 / 1e9), committed / used)
    }
}

/// Processor time of all threads of this process.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("a system with /proc");
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    ticks / TICKS_PER_SECOND
}
