//! `peers`: prints the tables of `docs/benchmarks.md`, progress on standard error.
//!
//!     cargo run --release -p peers --features engines -- engines

#![forbid(unsafe_code)]

use clap::{Args, Parser, Subcommand, ValueEnum};
use exec::DesignKind;
use peers::deployment::{Times, private_dir};
use peers::figures::{self, Size};
use peers::rounds::{HEADS, Line, alternate, cells, thousands};
use peers::stamp::Watch;
use peers::{Bank, Commits, Contestant, Engine, PeerFault, Rate, Served, Table, Work, device};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use topology::CpuId;
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
    /// Transactions per second on every engine by turns: rows read and updated, or deposits
    Engines {
        /// conventional, serial, conventional-async, serial-async, btree, btree-log; with the feature `engines` lmdb, wiredtiger,
        /// berkeleydb, rocksdb, sqlite, postgres; default: all but async
        #[arg(long, value_delimiter = ',', value_parser = |s: &str| s.parse::<Engine>())]
        engines: Vec<Engine>,
        #[arg(long, value_enum, default_value_t = Which::Micro)]
        workload: Which,
        /// Rows of a transaction of `micro`
        #[arg(long, default_value_t = 10)]
        rows: u32,
        /// Branches of `tpcb`
        #[arg(long, default_value_t = 2)]
        branches: u32,
        /// Clients without think time, one table for each number; Atoll serves them with as many workers as there are CPUs at most
        #[arg(long, value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u16).range(1..=64))]
        clients: Vec<u16>,
        /// Acknowledge a commit only once the device has it
        #[arg(long)]
        synced: bool,
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

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    Micro,
    Tpcb,
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
    /// Of a branch: the specification's, unless the table is to be small.
    fn accounts(&self) -> u32 {
        self.dataset.clamp(1, 100_000) as u32
    }

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
        Chosen::Engines { engines, workload, rows, branches, clients, synced } => {
            let commits = if *synced { Commits::Synced } else { Commits::Unsynced };
            let sites = clients.iter().copied().max().unwrap_or(1).min(cpus().len() as u16);
            for &clients in clients {
                let run = Comparison { engines, commits, clients: clients.into(), options, dir: dir.path() };
                match workload {
                    Which::Micro => {
                        let sites = u32::from(sites.max(1));
                        let table = Table { dataset: options.dataset, rows: *rows, sites };
                        run.compare(
                            table,
                            &[(Op::Read, "read"), (Op::Update, "updated")]
                                .map(|(op, what)| (op, format!("{rows} rows {what}"))),
                        )?;
                    }
                    Which::Tpcb => {
                        let bank =
                            Bank { branches: (*branches).max(sites.into()), accounts: options.accounts() };
                        run.compare(bank, &[(Op::Update, "TPC-B".to_owned())])?;
                    }
                }
            }
        }
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

/// The CPUs of workers and client threads, the last one first: the first is where interrupts and other people's work commonly go.
fn cpus() -> Vec<Option<CpuId>> {
    topology::allowed_cpus().into_iter().rev().map(Some).collect()
}

struct Comparison<'a> {
    engines: &'a [Engine],
    commits: Commits,
    clients: usize,
    options: &'a Options,
    dir: &'a Path,
}

impl Comparison<'_> {
    /// Loads every engine, measures each form of the benchmark by turns, prints its table, and checks what is left.
    fn compare(&self, bench: impl Served, forms: &[(Op, String)]) -> Result<(), PeerFault> {
        let Comparison { engines, commits, clients, options, dir } = *self;
        let default = Engine::default_list(commits);
        let engines = if engines.is_empty() { &default } else { engines };
        let dir = &dir.join(clients.to_string());
        let mut contestants = Vec::new();
        for engine in engines {
            eprintln!("loading {}", engine.title());
            let mut cpus = cpus();
            cpus.truncate(clients);
            contestants.push(engine.load(bench.clone(), commits, dir, &cpus)?);
        }
        for (op, what) in forms {
            let Times { warm_up, window } = options.times();
            let work = Work { op: *op, clients, seed: options.seed, warm_up, window };
            let progress = |name: &str, rate: Rate| {
                eprintln!("{what}: {} tps, {:.2} retries, {name}", thousands(rate.tps), rate.retries);
            };
            let lines = alternate(&mut contestants, options.rounds, &work, progress)?;
            let of = if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
            let how = if commits == Commits::Synced { ", each commit synced" } else { "" };
            print_table(&format!("{what}, {of}{how}: transactions per second"), engines, &lines);
            if commits == Commits::Synced {
                let device = device::series(dir, clients.min(16), window, options.rounds)?;
                println!(
                    "{}: {} ({}).\n",
                    device.name,
                    thousands(device.median()),
                    cells(&device, thousands)
                );
            }
        }
        contestants.iter_mut().try_for_each(|c: &mut Box<dyn Contestant>| c.check())
    }
}

/// Each engine's median with its spread, how many times that both designs of Atoll reach of it, the same per CPU-second, and the
/// retries.
fn print_table(what: &str, engines: &[Engine], lines: &[Line]) {
    let ours: Vec<usize> = (0..engines.len()).filter(|&i| matches!(engines[i], Engine::Atoll(..))).collect();
    let heads: String = ours.iter().map(|&o| format!(" `{}` is x |", engines[o].name())).collect();
    println!("| {what} | {HEADS} |{heads} per CPU-second |{heads} retries |");
    let right = "---:|".repeat(ours.len());
    println!("|---|---:|---:|---:|{right}---:|{right}---:|");
    for line in lines {
        let ratios = |of: fn(&Line) -> f64| -> String {
            let ratio = |&o: &usize| match of(line) {
                0.0 => " |".to_owned(),
                value => format!(" {:.2} |", of(&lines[o]) / value),
            };
            ours.iter().map(ratio).collect()
        };
        let (wall, cpu) = (|l: &Line| l.tps.median(), |l: &Line| l.per_cpu_second.median());
        let per_cpu = if cpu(line) > 0.0 { thousands(cpu(line)) } else { "not counted".into() };
        println!(
            "| {} | {} |{} {per_cpu} |{} {:.2} |",
            line.tps.name,
            cells(&line.tps, thousands),
            ratios(wall),
            ratios(cpu),
            line.retries.median()
        );
    }
    println!();
}
