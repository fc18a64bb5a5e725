//! `peers`: prints the tables of `docs/benchmarks.md`, progress on standard error.
//!
//!     cargo run --release -p peers --features rocksdb -- engines

#![forbid(unsafe_code)]

use clap::{Args, Parser, Subcommand};
use exec::DesignKind;
use peers::deployment::{Times, private_dir};
use peers::figures::{self, Size};
use peers::rounds::{HEADS, Line, alternate, cells, thousands};
use peers::stamp::Watch;
use peers::{Contestant, Engine, PeerFault, Rate, Table, Work};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use workload::micro::Op;

/// The allocator of the `atoll` binary, for every Rust engine here.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Atoll beside other engines, and Atoll's own figures, as Markdown tables.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    figure: Chosen,
    #[command(flatten)]
    options: Options,
}

#[derive(Subcommand)]
enum Chosen {
    /// Transactions per second of one worker: 10 rows read, 10 rows updated, on every engine by turns
    Engines {
        /// conventional, serial, conventional-async, serial-async, btree, btree-log, rocksdb; default: all but async
        #[arg(long, value_delimiter = ',', value_parser = |s: &str| s.parse::<Engine>())]
        engines: Vec<Engine>,
        /// Rows of a transaction
        #[arg(long, default_value_t = 10)]
        rows: u32,
    },
    /// Median latency of a 2-row update: local, and over two instances by shared memory
    Distributed {
        /// conventional or serial
        #[arg(long, default_value = "serial")]
        design: DesignKind,
    },
    /// Local reads with 2 workers: `serial` on 2 islands against `conventional` on 1
    Islands,
    /// The cost of writing a transaction once, as a share of a TPC-B deposit
    Language,
    /// Pages and resident memory of a loaded table
    Memory,
}

#[derive(Args)]
struct Options {
    /// Rows of the table
    #[arg(long, global = true, default_value_t = 240_000)]
    dataset: u64,
    /// Rounds in which everything has its turn
    #[arg(long, global = true, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds measured in each turn
    #[arg(long, global = true, default_value_t = 3.0, value_parser = seconds)]
    duration: f64,
    /// Seconds before that
    #[arg(long, global = true, default_value_t = 0.5, value_parser = seconds)]
    warmup: f64,
    #[arg(long, global = true, default_value_t = 42)]
    seed: u64,
    /// Databases and logs live in a new directory in here, removed afterwards
    #[arg(long, global = true, default_value_os_t = std::env::temp_dir())]
    data: PathBuf,
}

fn seconds(text: &str) -> Result<f64, String> {
    let given = text.strip_suffix('s').unwrap_or(text).parse::<f64>().ok();
    given.filter(|s| (0.0..=3600.0).contains(s)).ok_or_else(|| "expected seconds from 0 to 3600".into())
}

impl Options {
    fn times(&self) -> Times {
        let duration = Duration::from_secs_f64;
        Times { warm_up: duration(self.warmup), window: duration(self.duration) }
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("error: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<(), PeerFault> {
    let options = &cli.options;
    let dir = private_dir(&options.data)?;
    let watch = Watch::start();
    let size = Size {
        dataset: options.dataset,
        rounds: options.rounds,
        seed: options.seed,
        times: options.times(),
        dir: dir.path(),
    };
    match &cli.figure {
        Chosen::Engines { engines, rows } => compare(engines, *rows, options, dir.path())?,
        Chosen::Distributed { design } => println!("{}", figures::distributed(*design, &size)?),
        Chosen::Islands => println!("{}", figures::islands(&size)?),
        Chosen::Language => println!("{}", figures::language(&size)?),
        Chosen::Memory => println!("{}", figures::memory(&size)?),
    }
    let rounds = match &cli.figure {
        Chosen::Memory => String::new(),
        _ => format!("{} rounds of {} s; ", options.rounds, options.duration),
    };
    println!("\n{rounds}{}.", watch.finish());
    Ok(())
}

fn compare(engines: &[Engine], rows: u32, options: &Options, dir: &Path) -> Result<(), PeerFault> {
    let table = Table { dataset: options.dataset, rows };
    let engines = if engines.is_empty() { Engine::default_list() } else { engines.to_vec() };
    // The last CPU: the first one is where interrupts and other people's work commonly go.
    let cpu = topology::allowed_cpus().last().copied();
    let mut contestants = Vec::new();
    for engine in &engines {
        eprintln!("loading {}", engine.title());
        contestants.push(engine.load(table, dir, cpu)?);
    }
    for (op, what) in [(Op::Read, "read"), (Op::Update, "updated")] {
        let Times { warm_up, window } = options.times();
        let work = Work { op, seed: options.seed, warm_up, window };
        let progress = |name: &str, rate: Rate| {
            eprintln!("{rows} rows {what}: {} tps, {name}", thousands(rate.tps));
        };
        let lines = alternate(&mut contestants, options.rounds, &work, progress)?;
        print_table(&format!("{rows} rows {what}, 1 worker: transactions per second"), &engines, &lines);
    }
    contestants.iter_mut().try_for_each(|c: &mut Box<dyn Contestant>| c.check())
}

/// Each engine's median with its spread, how many times each peer's median it reaches, and the same per CPU-second.
fn print_table(what: &str, engines: &[Engine], lines: &[Line]) {
    let peers: Vec<usize> =
        (0..engines.len()).filter(|&i| !matches!(engines[i], Engine::Atoll(..))).collect();
    let heads: String = peers.iter().map(|&p| format!(" x `{}` |", engines[p].name())).collect();
    let right = "---:|".repeat(peers.len());
    println!("| {what} | {HEADS} |{heads} per CPU-second |{heads}");
    println!("|---|---:|---:|---:|{right}---:|{right}");
    for line in lines {
        let ratios = |of: fn(&Line) -> f64| -> String {
            peers.iter().map(|&p| format!(" {:.2} |", of(line) / of(&lines[p]))).collect()
        };
        let (wall, cpu) = (|l: &Line| l.tps.median(), |l: &Line| l.per_cpu_second.median());
        let name = &line.tps.name;
        println!(
            "| {name} | {} |{} {} |{}",
            cells(&line.tps, thousands),
            ratios(wall),
            thousands(cpu(line)),
            ratios(cpu)
        );
    }
    println!();
}
