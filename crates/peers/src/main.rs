//! `peers`: prints the tables of `results/benchmarks.md`, progress on standard error.
//!
//! ```text
//! cargo run --release -p peers --features engines -- engines
//! ```

#![forbid(unsafe_code)]

use clap::{Args, Parser, Subcommand, ValueEnum};
use exec::DesignKind;
#[cfg(feature = "server")]
use peers::brokerage::Brokerage;
use peers::deployment::{Times, private_dir};
use peers::device::Device;
use peers::figures::{self, Size};
use peers::rounds::{HEADS, Line, cells, lines_of, one_round, thousands};
use peers::stamp::Watch;
use peers::{Bank, Commits, Contestant, Engine, PeerFault, Rate, Served, Table, Work};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use topology::CpuId;
use workload::micro::Op;
#[cfg(feature = "server")]
use workload::tpce::TpceOptions;

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
        /// conventional, serial, conventional-async, serial-async, btree, btree-log; with the
        /// feature `engines` lmdb, wiredtiger, berkeleydb, rocksdb, sqlite, postgres; default: all
        /// but async
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
        /// Clients without think time, one table for each number; Atoll serves them with as many
        /// workers as there are CPUs at most
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
    /// Trade-Status, Customer-Position and Market-Watch of TPC-E on Atoll and on PostgreSQL, one
    /// core each, by turns
    #[cfg(feature = "server")]
    Brokerage {
        /// The program `atoll`, a release build
        #[arg(long, default_value = "target/release/atoll")]
        atoll: PathBuf,
        /// Days of initial trades
        #[arg(long, default_value_t = 20)]
        days: u32,
        /// Customers
        #[arg(long, default_value_t = 1_000)]
        unit: u32,
        /// Connections to PostgreSQL, and clients of Atoll's worker
        #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
        clients: u16,
        /// Designs of Atoll
        #[arg(long, default_value = "conventional", value_delimiter = ',')]
        design: Vec<DesignKind>,
    },
    /// Data four times the pool: the engine beside the bare disk with the same reads and writes, by
    /// turns
    Larger {
        /// conventional or serial
        #[arg(long, default_value = "conventional")]
        design: DesignKind,
        /// read or update
        #[arg(long, default_value = "read", value_parser = op)]
        op: Op,
        /// Clients, and reads under way at the disk
        #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
        depth: u16,
    },
}

fn op(name: &str) -> Result<Op, String> {
    match name {
        "read" => Ok(Op::Read),
        "update" => Ok(Op::Update),
        _ => Err("expected read or update".into()),
    }
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
    /// Rounds in which everything has its turn; default 5, of synced commits 11
    #[arg(long, global = true, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Seconds measured in each turn; default 3, of synced commits 0.5: a disk's speed changes
    /// within seconds
    #[arg(long, global = true, value_parser = seconds)]
    duration: Option<f64>,
    /// Seconds before that; default 0.5, of synced commits 0.1
    #[arg(long, global = true, value_parser = seconds)]
    warmup: Option<f64>,
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
    /// Accounts of a branch: the specification's number, unless the table is to be small.
    fn accounts(&self) -> u32 {
        self.dataset.clamp(1, 100_000) as u32
    }

    fn rounds(&self, pace: Pace) -> u32 {
        self.rounds.unwrap_or(if pace == Pace::Short { 11 } else { 5 })
    }

    fn times(&self, pace: Pace) -> Times {
        let (warm_up, window) = if pace == Pace::Short { (0.1, 0.5) } else { (0.5, 3.0) };
        let duration = |given: Option<f64>, default| Duration::from_secs_f64(given.unwrap_or(default));
        Times { warm_up: duration(self.warmup, warm_up), window: duration(self.duration, window) }
    }
}

/// The default duration of a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    Short,
    Long,
}

impl Cli {
    fn pace(&self) -> Pace {
        if matches!(self.figure, Chosen::Engines { synced: true, .. }) { Pace::Short } else { Pace::Long }
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
    let (options, pace) = (&cli.options, cli.pace());
    let dir = private_dir(&options.data)?;
    let watch = Watch::start();
    let size = Size {
        dataset: options.dataset,
        rounds: options.rounds(pace),
        seed: options.seed,
        times: options.times(pace),
        dir: dir.path(),
    };
    match &cli.figure {
        Chosen::Engines { engines, workload, rows, branches, clients, synced } => {
            let commits = if *synced { Commits::Synced } else { Commits::Unsynced };
            let sites = clients.iter().copied().max().unwrap_or(1).min(cpus().len() as u16);
            // Synced commits are compared between numbers of clients, too, so all those numbers
            // have their turns in the same rounds.
            let together = if *synced { clients.len().max(1) } else { 1 };
            for clients in clients.chunks(together) {
                let run = Comparison { engines, commits, clients, size: &size };
                match workload {
                    Which::Micro => {
                        let sites = u32::from(sites.max(1));
                        let table = Table { dataset: options.dataset, rows: *rows, sites };
                        let mut forms = vec![(Op::Update, format!("{rows} rows updated"))];
                        if !*synced {
                            // A reading transaction does not wait for its commit.
                            forms.insert(0, (Op::Read, format!("{rows} rows read")));
                        }
                        run.compare(table, &forms)?;
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
        #[cfg(feature = "server")]
        Chosen::Brokerage { atoll, days, unit, clients, design } => {
            let options = TpceOptions { days: *days, unit: *unit, news_bytes: 300, ..TpceOptions::new(1) };
            let designs = design.clone();
            let brokerage = Brokerage { atoll: atoll.clone(), options, clients: *clients, designs };
            println!("{}", peers::brokerage::compare(&brokerage, &size)?);
        }
        Chosen::Larger { design, op, depth } => {
            let asked = figures::Asked { design: *design, op: *op, depth: (*depth).into() };
            println!("{}", figures::larger(asked, &size)?);
        }
    }
    let rounds = match &cli.figure {
        Chosen::Memory => String::new(),
        _ => format!("{} rounds of {} s; ", size.rounds, size.times.window.as_secs_f64()),
    };
    println!("\n{rounds}{}.", watch.finish());
    Ok(())
}

/// The CPUs of workers and client threads, in reverse order: the first CPU usually handles
/// interrupts and other processes.
fn cpus() -> Vec<Option<CpuId>> {
    topology::allowed_cpus().into_iter().rev().map(Some).collect()
}

struct Comparison<'a> {
    engines: &'a [Engine],
    commits: Commits,
    /// One table for each number of clients, all measured in the same rounds.
    clients: &'a [u16],
    size: &'a Size<'a>,
}

/// All contestants for one number of clients.
struct Field {
    clients: usize,
    contestants: Vec<Box<dyn Contestant>>,
}

impl Comparison<'_> {
    /// Loads every engine, measures each form of the benchmark by turns, prints the tables, and
    /// checks the data at the end.
    fn compare(&self, bench: impl Served, forms: &[(Op, String)]) -> Result<(), PeerFault> {
        let default = Engine::default_list(self.commits);
        let engines = if self.engines.is_empty() { &default } else { self.engines };
        let load = |&clients: &u16| self.load(&bench, engines, clients.into());
        let mut fields = self.clients.iter().map(load).collect::<Result<Vec<_>, _>>()?;
        for (op, what) in forms {
            self.alternate(engines, &mut fields, *op, what)?;
        }
        fields.iter_mut().flat_map(|f| &mut f.contestants).try_for_each(|c| c.check())
    }

    fn load(&self, bench: &impl Served, engines: &[Engine], clients: usize) -> Result<Field, PeerFault> {
        let dir = self.size.dir.join(clients.to_string());
        let mut contestants = Vec::new();
        let mut cpus = cpus();
        cpus.truncate(clients);
        for engine in engines {
            eprintln!("loading {} for {clients}", engine.title());
            contestants.push(engine.load(bench.clone(), self.commits, &dir, &cpus)?);
        }
        if self.commits == Commits::Synced {
            // The disk has its turn next to Atoll, so that both find it in the same state.
            let after = engines.iter().rposition(|e| matches!(e, Engine::Atoll(..))).map_or(0, |at| at + 1);
            contestants.insert(after, Box::new(Device::prepare(&dir, clients, &cpus)?));
        }
        Ok(Field { clients, contestants })
    }

    fn alternate(
        &self,
        engines: &[Engine],
        fields: &mut [Field],
        op: Op,
        what: &str,
    ) -> Result<(), PeerFault> {
        let Times { warm_up, window } = self.size.times;
        let mut lines: Vec<_> = fields.iter().map(|f| lines_of(&f.contestants)).collect();
        for round in 0..self.size.rounds {
            for (Field { clients, contestants }, lines) in fields.iter_mut().zip(&mut lines) {
                let work = Work { op, clients: *clients, seed: self.size.seed, warm_up, window };
                let mut progress = |name: &str, rate: Rate| {
                    eprintln!(
                        "{what}, {clients}: {} tps, {:.2} retries, {name}",
                        thousands(rate.tps),
                        rate.retries
                    );
                };
                one_round(contestants, lines, round, &work, &mut progress)?;
            }
        }
        for (Field { clients, .. }, lines) in fields.iter().zip(&lines) {
            let of = if *clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
            let how = if self.commits == Commits::Synced { ", each commit synced" } else { "" };
            print_table(&format!("{what}, {of}{how}: transactions per second"), engines, lines);
        }
        Ok(())
    }
}

/// Prints, for each engine, its median with the spread; the factor by which each design of Atoll
/// exceeds it; the same per CPU-second; and the retries.
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
