//! The command line as typed. Only parsing: the meaning of values is decided elsewhere.

mod backups;
mod basing;
mod clustering;
mod comparing;
mod flowing;
mod numbers;
mod planning;
mod recording;
mod serving;
mod size;
mod tracing;

use crate::engine_args::{EngineArgs, ShapeArgs};
use crate::examples;
use crate::listen::listen_address;
use crate::own::OwnOptions;
use crate::papers::{ClaimsArgs, FiguresArgs};
pub use crate::results::Earlier;
use crate::values::relay_address;
pub use crate::values::{ChannelArg, DesignArg, DurabilityArg, HostArg, LoadModelArg, OpArg};
use crate::version;
pub use backups::{BackupArgs, DumpArgs, DumpFormat, RestoreArgs};
pub use basing::BaseArgs;
#[cfg(feature = "copies")]
pub use basing::{BaseCommand, BaseGetArgs, BaseListArgs, BasePutArgs};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, CommandFactory, Parser, Subcommand};
pub use clustering::{
    AgentArgs, CertificatesArgs, ClusterArgs, ClusterCommand, CopyArgs, DrainArgs, HostsArgs, StatusArgs,
    TakeoverArgs,
};
pub use comparing::CompareArgs;
use driver::{Arrivals, Rate, Think, Warmup};
pub use numbers::{Backoff, RetryLimit};
use numbers::{backoff, duration, interval, per_cent, retries, skew, warmup};
pub use planning::PlanArgs;
pub use recording::RecordArgs;
pub use serving::ServeArgs;
use size::size;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use topology::{IslandCount, Placement};
pub use tracing::{CachesimArgs, ProtectArg, ResetArg, SchedulerArg, StudyArg, TraceArgs, TypesArg};
use workload::Hot;

/// The command line's definition.
pub fn command() -> clap::Command {
    flowing::flow(Cli::command())
}

/// An OLTP database engine that can be deployed as any number of instances over the cores of a
/// machine. It measures which deployment suits which workload.
///
/// Without a command: shows the cores of this machine and how far apart they are, measures the
/// deployments that fit it, and names the best one for each workload.
#[derive(Parser, Debug)]
#[command(name = "atoll", version = version::short(), long_version = version::long())]
#[command(after_help = examples::SEE_HELP, after_long_help = examples::ALL)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Shows the sockets, caches and cores of the machine, and measures how long a message between
    /// two cores takes
    Topology(TopologyArgs),
    /// Measures a workload: throughput and latency of each deployment that is asked for
    Bench(Box<BenchArgs>),
    /// Builds a database on disk, for `bench --data` to run on
    Load(Box<LoadArgs>),
    /// Counts the records, locks and pages that a transaction touches, by kind of transaction
    Stats(Box<StatsArgs>),
    /// Keeps the transactions of a workload, for `replay` and for plans
    Record(Box<RecordArgs>),
    /// Says which deployment fits a machine and a workload, why, and how surely
    Plan(Box<PlanArgs>),
    /// Checks a database on disk: pages, indexes, log, and the consistency conditions of its
    /// workload
    Check(CheckArgs),
    /// Copies a database on disk, with a checksum of each file
    Backup(BackupArgs),
    /// Writes a database as SQL or CSV, for `restore`, psql or PostgreSQL
    Dump(DumpArgs),
    /// Makes a database from a backup or a dump; of a backup, each file is compared with its
    /// checksum
    Restore(RestoreArgs),
    /// Keeps base copies of a database with its logs at a relay, for machines that begin with them
    Base(BaseArgs),
    /// Serves a database to clients of PostgreSQL
    Serve(Box<ServeArgs>),
    /// Makes one HTML page with charts and tables from the results of earlier runs
    Report(ReportArgs),
    /// Compares the results of two runs: better, worse, or no difference beyond spread and noise
    Compare(CompareArgs),
    /// Measures the figures of the research papers that Atoll builds on
    Figures(FiguresArgs),
    /// Tests the claims of these papers on this machine
    Claims(ClaimsArgs),
    /// Records the instructions and data accesses of transactions
    Trace(Box<TraceArgs>),
    /// Runs a trace on modelled caches: where misses come from, and schedulers that avoid them
    Cachesim(Box<CachesimArgs>),
    /// Runs on each machine of a cluster: starts instances there, and starts them again when they
    /// die
    Agent(AgentArgs),
    /// Starts, ends and shows the agents of a cluster, and makes its certificates
    Cluster(ClusterArgs),
    /// Prints the completions of options and commands for a shell
    Completions(CompletionsArgs),
    /// Prints the manual page, or writes the page of each command into a directory
    Man(ManArgs),
    /// Hosts one instance for the deployment that started it
    #[command(hide = true)]
    Instance(InstanceArgs),
}

#[derive(Args, Debug)]
#[command(after_help = examples::COMPLETIONS)]
pub struct CompletionsArgs {
    /// The shell that they are for
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

#[derive(Args, Debug)]
pub struct ManArgs {
    /// Write atoll.1, atoll-bench.1 and so on into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(after_help = examples::TOPOLOGY)]
pub struct TopologyArgs {
    /// The machine: `live`, an hwloc XML file, a CSV file of latencies, or a description such as
    /// "package:4 core:6"
    #[arg(long, value_name = "M", default_value = "live")]
    pub machine: String,
    /// Measure the latency between all pairs of cores, and find from it which cores are close
    /// together
    #[arg(long)]
    pub probe: bool,
    /// Print the machine as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = examples::SEE_HELP, after_long_help = examples::REPORT)]
pub struct ReportArgs {
    /// Files of result rows (from `bench --json`), or directories that `bench --out` wrote; `-` is
    /// standard input
    #[arg(value_name = "ROWS", required = true)]
    pub rows: Vec<PathBuf>,
    /// Write the page to this file; it needs no other file and no network
    /// [default: report.html; with --csv none]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write the rows as CSV, a line each; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct InstanceArgs {
    /// The number of this instance in its deployment, for the process list
    #[arg(long)]
    pub number: u16,
}

#[derive(Args, Debug)]
#[command(after_help = examples::SEE_HELP, after_long_help = examples::LOAD)]
pub struct LoadArgs {
    /// The workload that the tables are of
    #[arg(value_parser = bench_name())]
    pub workload: String,
    /// Directory of the database: empty or missing, or that of an earlier load
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Take the shape of the data from a plan file; typed options come first
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Number of instances: 1, 2, ..., per-core, per-l3, per-socket, shared (= 1)
    #[arg(long, value_name = "N", default_value = "1")]
    pub islands: IslandCount,
    /// The engine design that will run on it: occ has files of its own, all others share theirs
    #[arg(long, value_name = "D", value_enum, default_value = "conventional")]
    pub design: DesignArg,
    /// Threads that load, over all instances [default: one per core of this process' CPU set]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub workers: Option<u32>,
    /// Rows of the table (micro) [default: 10000 per core]
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub dataset: Option<u64>,
    /// Size: warehouses (tpcc), branches (tpcb), ten thousand subscribers (tatp), sites (micro)
    /// [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub scale: Option<u32>,
    #[command(flatten)]
    pub shape: ShapeArgs,
    /// Size of the buffer pools of all instances together, e.g. 512M, 2G [default: enough for the
    /// data]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub memory: Option<u64>,
    /// Load even if the memory that it takes is not there
    #[arg(long, hide_short_help = true)]
    pub memory_unchecked: bool,
    #[command(flatten)]
    pub own: OwnOptions,
    /// Print the result of the load as a JSON line
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = examples::SEE_HELP, after_long_help = examples::STATS)]
pub struct StatsArgs {
    /// The workload that the transactions are of
    #[arg(value_parser = bench_name())]
    pub workload: String,
    /// Size: warehouses (tpcc), branches (tpcb), ten thousand subscribers (tatp), sites (micro)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub scale: u32,
    /// The engine design
    #[arg(long, value_name = "D", value_enum, default_value = "conventional")]
    pub design: DesignArg,
    /// How long transactions are counted, e.g. 5s, 500ms
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = duration)]
    pub duration: Duration,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 1, allow_hyphen_values = true)]
    pub seed: u64,
    #[command(flatten)]
    pub own: OwnOptions,
    /// Print a JSON object instead of the table
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = examples::SEE_HELP, after_long_help = examples::CHECK)]
pub struct CheckArgs {
    /// Directory of the database, as `load` or `bench --data` built it
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Size of the buffer pool of the check, e.g. 512M, 2G
    #[arg(long, value_name = "BYTES", default_value = "256M", value_parser = size)]
    pub memory: u64,
    /// Check even if that memory is not there
    #[arg(long)]
    pub memory_unchecked: bool,
    /// Print findings and a summary as JSON lines
    #[arg(long)]
    pub json: bool,
}

/// `bench counter`: threads on shared counters.
pub const COUNTER: &str = "counter";
/// `bench ipc`: round trips of messages.
pub const IPC: &str = "ipc";

/// Everything that runs transactions. The transaction of a name may be written as one word too, as
/// the papers and the ledger do.
fn workload_values() -> Vec<PossibleValue> {
    let value = |form: &workload::benchmark::Form| {
        PossibleValue::new(form.name).help(form.about).alias(as_one_word(form.name))
    };
    workload::spec::forms().map(value).collect()
}

/// `tatp-getsubscriberdata` of `tatp-get-subscriber-data`.
fn as_one_word(name: &str) -> String {
    match name.split_once('-') {
        Some((benchmark, transaction)) => format!("{benchmark}-{}", transaction.replace('-', "")),
        None => name.to_owned(),
    }
}

/// The workload's own spelling of a given name.
fn workload_name(given: String) -> String {
    let meant = workload::spec::forms().find(|form| as_one_word(form.name) == given);
    meant.map_or(given, |form| form.name.to_owned())
}

/// The same in a sentence.
pub fn workload_names() -> String {
    let names: Vec<&str> = workload::spec::forms().map(|form| form.name).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// The first argument of `bench`: the workloads, and two experiments without transactions.
fn bench_name() -> impl TypedValueParser<Value = String> {
    let mut all = workload_values();
    all.push(
        PossibleValue::new(COUNTER).help("Threads on shared counters: the smallest experiment about islands"),
    );
    all.push(
        PossibleValue::new(IPC)
            .help("Round trips of 256-byte messages between two cores, for every mechanism"),
    );
    PossibleValuesParser::new(all).map(workload_name)
}

/// The first argument of `plan`.
fn workload_argument() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(workload_values()).map(workload_name)
}

/// Headings of the help of `bench`, in its order. Those of the options of the engine, which come
/// before the requests, are in their table.
mod heading {
    pub const DEPLOYMENT: &str = "Deployment (a comma list measures each value)";
    pub const DATA: &str = "Database and memory (a comma list measures each value)";
    pub const REQUESTS: &str = "Requests (a comma list measures each value)";
    pub const MEASURING: &str = "Measuring";
    pub const LOAD: &str = deploy::engine::Section::Load.heading();
    pub const FAULTS: &str = "Faults";
    pub const RESULTS: &str = "Results";
}

#[derive(Args, Clone, Debug)]
#[command(after_help = examples::BENCH_SHORT, after_long_help = examples::BENCH)]
pub struct BenchArgs {
    /// The workload; `atoll bench WORKLOAD --help` shows its options
    #[arg(value_parser = bench_name())]
    pub workload: String,

    #[command(flatten)]
    pub deployment: DeploymentArgs,
    #[command(flatten)]
    pub requests: RequestArgs,
    #[command(flatten)]
    pub measuring: MeasuringArgs,
    #[command(flatten)]
    pub results: ResultArgs,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = heading::DEPLOYMENT)]
pub struct DeploymentArgs {
    /// The machine: only `live` can be measured, a described one can be looked at with `atoll
    /// topology`
    #[arg(long, value_name = "M", default_value = "live", hide_short_help = true)]
    pub machine: String,
    /// Take the deployment and the load from a plan file; typed options come first
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub plan: Option<PathBuf>,
    /// Run on the machines of this file, through their agents: `atoll cluster --help`
    ///
    /// Each machine gets an equal number of islands; a word for --islands means that of each
    /// machine. Islands of one machine use --channel, others TCP. With --keep, --data is the name
    /// of a directory below that of each agent.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub hosts: Option<PathBuf>,
    /// Instances: 1, 2, per-core, per-l3, per-socket [default: the numbers that fit]
    ///
    /// Also shared (= 1), and any other number. Each instance is an engine of its own with its part
    /// of the data, of the memory and of the workers.
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    pub islands: Vec<IslandCount>,
    /// Worker threads in all [default: one per core]
    ///
    /// The cores are those of this process' CPU set. Instances share the workers evenly.
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub workers: Vec<u32>,
    /// Where the workers of an instance run: island (close together), spread (far apart), mix, os
    /// (not pinned)
    #[arg(
        long,
        value_name = "P,...",
        value_delimiter = ',',
        default_value = "island",
        hide_short_help = true
    )]
    pub placement: Vec<Placement>,
    /// The engine design: how transactions are kept apart
    #[arg(long, value_name = "D,...", value_delimiter = ',', value_enum, default_value = "conventional")]
    pub design: Vec<DesignArg>,
    /// Where instances run [default: process; thread with --channel ring]
    #[arg(long, value_name = "H,...", value_delimiter = ',', value_enum, hide_short_help = true)]
    pub host: Vec<HostArg>,
    /// How instances send messages to each other [default: shm; all of them for ipc]
    #[arg(long, value_name = "C,...", value_delimiter = ',', value_enum, hide_short_help = true)]
    pub channel: Vec<ChannelArg>,
    /// When a commit is acknowledged
    #[arg(long, value_name = "D,...", value_delimiter = ',', value_enum, default_value = "async", help_heading = heading::DATA)]
    pub durability: Vec<DurabilityArg>,
    /// Where a quorum keeps the logs with --durability replicated: nats://HOST:PORT,.. or
    /// kafka://HOST:PORT,..
    #[arg(long, value_name = "URL", value_parser = relay_address, help_heading = heading::DATA, hide_short_help = true)]
    pub relay: Option<String>,
    /// Directory of the database [default: a temporary one]
    ///
    /// A temporary directory is removed afterwards. An empty directory is loaded first; several
    /// shapes of data get a directory each below it. The loaded database stays as it is: each run
    /// works on a copy inside the directory, which is removed when the run ends.
    #[arg(long, value_name = "DIR", help_heading = heading::DATA)]
    pub data: Option<PathBuf>,
    /// Run on the database in --data itself and not on a copy: the changes of the run stay
    #[arg(long, requires = "data", help_heading = heading::DATA, hide_short_help = true)]
    pub keep: bool,
    /// Size of the buffer pools of all instances together, e.g. 512M, 2G [default: enough for the
    /// data]
    ///
    /// Instances share it in proportion to their data. With design occ it is the most that rows may
    /// take [default: half of the free memory].
    #[arg(long, value_name = "BYTES", value_parser = size, help_heading = heading::DATA, hide_short_help = true)]
    pub memory: Option<u64>,
    /// Run even if the memory that it takes is not there
    #[arg(long, help_heading = heading::DATA, hide_short_help = true)]
    pub memory_unchecked: bool,
    /// Take all of --memory from the system before the run, and not as it is needed
    #[arg(long, help_heading = heading::DATA, hide_short_help = true)]
    pub populate: bool,
    /// Address on which instances listen with --channel tcp; with a port, instance i takes the i-th
    /// port after it
    #[arg(long, value_name = "HOST[:PORT]", default_value = "127.0.0.1", value_parser = listen_address, hide_short_help = true)]
    pub listen: SocketAddr,
    #[command(flatten)]
    pub engine: EngineArgs,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = heading::REQUESTS)]
pub struct RequestArgs {
    /// Per cent of multisite (micro) or remote (tpcb, tpcc) transactions
    ///
    /// A multisite transaction touches rows of several sites, a remote one those of another branch
    /// or warehouse. Where these lie in different instances it is a distributed one [default: micro
    /// 0, tpcb 15, tpcc as its standard says].
    #[arg(long, value_name = "PCT,...", value_delimiter = ',', value_parser = per_cent)]
    pub multisite: Vec<f64>,
    /// Rows that a transaction touches (micro, tatp-scan) [default: 10]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000), hide_short_help = true)]
    pub rows: Vec<u32>,
    /// The operation of a transaction on its rows (micro) [default: read]
    #[arg(long, value_name = "OP,...", value_delimiter = ',', value_enum, hide_short_help = true)]
    pub op: Vec<OpArg>,
    /// Zipf exponent of how popular rows are; 0: all alike (micro) [default: 0]
    #[arg(long, value_name = "S,...", value_delimiter = ',', value_parser = skew, hide_short_help = true)]
    pub skew: Vec<f64>,
    /// A hot range of keys (micro, tatp): 50/30 sends 50 % of the requests to the first 30 % of the
    /// keys, 50/30@40 to those from 40 % on
    #[arg(long, value_name = "R/K[@F],...", value_delimiter = ',', hide_short_help = true)]
    pub hot: Vec<Hot>,
    /// Rows of the table (micro) [default: 10000 per core]
    #[arg(long, value_name = "ROWS,...", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=1 << 40), hide_short_help = true)]
    pub dataset: Vec<u64>,
    /// Size: warehouses (tpcc), branches (tpcb), sites (micro) [default: one per core]
    ///
    /// For tatp it is ten thousand subscribers.
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub scale: Vec<u32>,
    #[command(flatten)]
    pub own: OwnOptions,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = heading::MEASURING)]
pub struct MeasuringArgs {
    /// Length of a measured window, e.g. 5s, 500ms
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub duration: Duration,
    /// Load before the first window; auto: until throughput is steady
    ///
    /// With auto 60 s at most.
    #[arg(long, value_name = "TIME|auto", default_value = "1s", value_parser = warmup)]
    pub warmup: Warmup,
    /// Windows; the median is reported with its spread [default: 3]
    ///
    /// Of an even number the slower of the two in the middle. One if the load changes (--phases, a
    /// rate that rises).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: Option<u32>,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 1, allow_hyphen_values = true, hide_short_help = true)]
    pub seed: u64,
    /// Clients of each worker, each with one request at a time [default: 4]
    ///
    /// A comma list measures each value. With --load-model open or --think: the most requests of a
    /// worker that run at once [default: 64].
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub clients: Vec<u32>,
    /// Add to each row where the time goes, and counts of locks, messages and more
    #[arg(long)]
    pub profile: bool,
    /// How clients send requests
    #[arg(long, value_name = "MODEL", value_enum, default_value = "closed", help_heading = heading::LOAD, hide_short_help = true)]
    pub load_model: LoadModelArg,
    /// Requests a second of all clients together, with --load-model open (a comma list measures
    /// each value)
    ///
    /// 1000..50000/30s rises from the first to the second within 30 s, from the first window on.
    #[arg(long, value_name = "TPS,...", value_delimiter = ',', allow_hyphen_values = true, help_heading = heading::LOAD, hide_short_help = true)]
    pub rate: Vec<Rate>,
    /// Pauses between the requests of --load-model open: poisson (random), uniform (all alike)
    /// [default: poisson]
    #[arg(long, value_name = "A", help_heading = heading::LOAD, hide_short_help = true)]
    pub arrivals: Option<Arrivals>,
    /// Keying and think times of people at terminals (tpcc): standard, none, or a multiple such as
    /// x0.1 [default: none]
    #[arg(long, value_name = "T", allow_hyphen_values = true, help_heading = heading::LOAD, hide_short_help = true)]
    pub think: Option<Think>,
    /// People at terminals, in all (tpcc) [default with --think: 10 per warehouse]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000), help_heading = heading::LOAD, hide_short_help = true)]
    pub terminals: Option<u32>,
    /// How often a request is tried again after a deadlock, a time-out or the loss of an instance:
    /// N, unlimited
    #[arg(long, value_name = "N", default_value = "unlimited", value_parser = retries, allow_hyphen_values = true, help_heading = heading::LOAD, hide_short_help = true)]
    pub retries: RetryLimit,
    /// Longest pause before the first retry: 1ms, 10us, none [default: none; 10us with
    /// --occ-conflict abort, logical and plp]
    ///
    /// The pause is drawn at random. Its upper limit doubles with each retry, up to 64 times the
    /// first.
    #[arg(long, value_name = "TIME", value_parser = backoff, help_heading = heading::LOAD, hide_short_help = true)]
    pub backoff: Option<Backoff>,
    /// How the load changes while it is measured: a file with a line for each phase, or the lines
    /// themselves
    ///
    /// A line gives the length of a phase and the change: 10s hot 50/30, 20s rate 5000, 30s
    /// multisite 50. On the command line: 10s:hot:50/30;20s:hot:off.
    #[arg(long, value_name = "FILE|LINES", help_heading = heading::LOAD, hide_short_help = true)]
    pub phases: Option<PathBuf>,
    /// Kill random instances N times under load, and check that no acknowledged transaction is lost
    /// (tpcb)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = heading::FAULTS, hide_short_help = true)]
    pub kill: Option<u32>,
    /// Kills between two checks of all data
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), help_heading = heading::FAULTS, hide_short_help = true)]
    pub check_every: u32,
}

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = heading::RESULTS)]
pub struct ResultArgs {
    /// Write rows.jsonl, machine.json and report.html into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Add to the rows of an earlier run in the directory of --out
    #[arg(long, requires = "out", hide_short_help = true)]
    pub append: bool,
    /// Replace the rows of an earlier run in the directory of --out
    #[arg(long, requires = "out", conflicts_with = "append", hide_short_help = true)]
    pub overwrite: bool,
    /// Print each row as a JSON line, in place of the table
    #[arg(long)]
    pub json: bool,
    /// Print the rows as CSV at the end, with a head
    #[arg(long, conflicts_with = "json", hide_short_help = true)]
    pub csv: bool,
    /// Show throughput, latency and instances on the terminal while it runs
    ///
    /// With --profile it shows where the time goes too.
    #[arg(long, conflicts_with = "kill")]
    pub watch: bool,
    /// Print throughput, latency and aborts this often while it runs, e.g. 1s
    #[arg(long, value_name = "TIME", conflicts_with_all = ["kill", "watch"], value_parser = interval)]
    pub progress: Option<Duration>,
    /// Print each deployment and how long it takes at least; run nothing
    #[arg(long, conflicts_with = "watch")]
    pub dry_run: bool,
}

impl ResultArgs {
    /// The treatment of earlier rows.
    pub fn earlier(&self) -> Earlier {
        match (self.append, self.overwrite) {
            (true, _) => Earlier::Append,
            (false, true) => Earlier::Overwrite,
            (false, false) => Earlier::Refuse,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn the_transaction_of_a_name_may_be_one_word() {
        for given in ["tatp-getsubscriberdata", "tatp-get-subscriber-data"] {
            let Some(Command::Bench(args)) = Cli::try_parse_from(["atoll", "bench", given]).unwrap().command
            else {
                panic!("it is a bench");
            };
            assert_eq!(args.workload, "tatp-get-subscriber-data");
        }
        assert!(Cli::try_parse_from(["atoll", "bench", "tatpgetsubscriberdata"]).is_err());
    }

    #[test]
    fn times_and_addresses() {
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("3"), Ok(Duration::from_secs(3)));
        assert_eq!(size("512M"), Ok(512 << 20));
        assert_eq!(size("1.5GiB"), Ok(3 << 29));
        assert_eq!(size("4096"), Ok(4096));
        assert!(["", "M", "0", "-1M", "1X", "nan", "99999999T"].iter().all(|t| size(t).is_err()));
        assert_eq!(warmup("auto"), Ok(Warmup::UntilSteady));
        assert_eq!(retries("3"), Ok(RetryLimit(Some(3))));
        assert_eq!(backoff("10us"), Ok(Backoff(Duration::from_micros(10))));
        assert!(
            retries("-1").is_err()
                && backoff("soon").is_err()
                && backoff("0us").is_err()
                && warmup("automatic").is_err()
        );
        assert!(["", "s", "0s", "-1s", "25h", "nan", "1e99s"].iter().all(|t| duration(t).is_err()));
    }

    #[test]
    fn lists_are_lists() {
        let args = ["atoll", "bench", "micro", "--islands", "1,per-core", "--multisite", "0,20,100"];
        let Some(Command::Bench(bench)) = Cli::try_parse_from(args).unwrap().command else { panic!("bench") };
        assert_eq!(bench.deployment.islands, [IslandCount::Count(1), IslandCount::PerCore]);
        assert_eq!(bench.requests.multisite, [0.0, 20.0, 100.0]);
    }
}
