//! What can be typed. Parsing only: what it means is decided elsewhere.

use crate::backup_command::{BackupArgs, RestoreArgs};
use crate::compare_command::CompareArgs;
use crate::listen::listen_address;
use crate::own::OwnOptions;
use crate::papers::{ClaimsArgs, FiguresArgs};
pub use crate::results::Earlier;
pub use crate::values::{
    BalanceArg, ChannelArg, DesignArg, DurabilityArg, HeapArg, HostArg, LatchingArg, LoadModelArg,
    OccAheadArg, OccConflictArg, OccReadsArg, OpArg, SliArg, TablesArg, TreeArg,
};
use clap::builder::{PossibleValue, PossibleValuesParser, RangedU64ValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use deploy::engine::Escalation;
use driver::{Arrivals, Rate, Think, Warmup};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use topology::{IslandCount, Placement};
use workload::Hot;

const EXAMPLES: &str = "\
Examples:
  atoll                                     this machine's islands, and the deployment that suits it best
  atoll topology --probe                    sockets, caches, cores, and measured core-to-core latency
  atoll bench micro --islands 1,per-core    one instance over all cores against one per core
  atoll bench tpcb --durability sync --json
  atoll load tpcb --scale 4 --data DIR      a database that lasts; bench --data DIR then runs on copies of it
  atoll check --data DIR                    is every page, index and row of it as it should be?
  atoll backup DIR --to DIR.tar             a copy with checksums, for atoll restore
  atoll stats tpcc                          records, locks and pages that one transaction touches
  atoll report rows.jsonl --out page.html   charts and tables of rows measured earlier
  atoll compare before after                which rows of two runs differ beyond spread and noise
  atoll figures --list                      the figures of the papers behind this, to be measured here
  atoll claims --quick                      which of the papers' claims hold on this machine";

const LOAD_EXAMPLES: &str = "\
The database is durable when the command has succeeded. A load that was interrupted is started anew by the same command;
a directory that holds this very database already is left as it is.

Examples:
  atoll load tpcb --scale 4 --islands 2 --data bank
  atoll bench tpcb --data bank --durability async,sync
  atoll load micro --dataset 1000000 --data rows
  atoll load tpcc --scale 2 --design occ --data warehouses

Exit code: 0 the database is there; 1 it could not be loaded; 2 wrong usage; 130 interrupted.";

const CHECK_EXAMPLES: &str = "\
Nothing may run on the directory meanwhile, and nothing in it is changed: what restart would repair or undo is worked out
in memory. Looked at are every page's checksum, every index against its rows both ways, which pages belong to what, the
whole log, and the consistency conditions of the workload; of a database of design occ the blocks of checkpoint and log,
every index against its rows, and the same conditions.

Examples:
  atoll check --data bank
  atoll check --data bank --json | jq 'select(.weight == \"damage\")'

Exit code: 0 nothing is damaged; 1 damage was found, a consistency condition does not hold, or the database is in use or half
loaded; 2 wrong usage: there is no database in DIR, or one of another format.";

const STATS_EXAMPLES: &str = "\
One client on one worker runs the workload, and every record, lock and page is counted. Means are per transaction of a kind
that was carried out (rollbacks that the workload asks for included), and over the mix per committed one.

Examples:
  atoll stats tpcb --accounts 10000
  atoll stats tpcc --scale 2
  atoll stats tatp --json | jq '.workload_stats'

Exit code: 0 success; 1 the run failed; 2 wrong usage; 130 interrupted.";
const REPORT_EXAMPLES: &str = "\
Rows of several files are joined: rows with the same settings are told apart by their file. A machine.json beside a file of
rows is drawn. Lines that are no rows are named and left out, and so is a file that cannot be read.

Examples:
  atoll bench micro --islands 1,2 --multisite 0,20,100 --profile --out first
  atoll report first second/rows.jsonl --out both.html
  atoll bench tpcb --json | atoll report - --out tpcb.html
  atoll report first --csv first.csv

Exit code: 0 all rows are in the report; 1 something was left out, or nothing could be read or written; 2 wrong usage.";

const BENCH_EXAMPLES: &str = "\
A comma list sweeps: every combination is measured. One row each: a table, or JSON lines with --json.

Examples:
  atoll bench micro --islands 1,2 --design conventional,serial --op read,update --multisite 0,20,100
  atoll bench micro --channel shm,uds --multisite 100 --durability memory --json
  atoll bench tpcb --multisite 50 --durability sync --islands 2 --channel shm,uds --kill 200
  atoll bench tpcb --design conventional,serial --islands 2 --profile
  atoll bench tpcb --accounts 10000 --remote account,teller --padding none,page
  atoll bench tpcb --load-model open --rate 1000,10000,50000
  atoll bench tpcc --think standard --terminals 1000 --scale 100 --warmup auto
  atoll bench tatp-get-subscriber-data --phases shift.txt --repeat 1 --duration 20s
  atoll bench tpcc --islands 1,2 --profile --watch --out results
  atoll bench tatp --ids uniform --predicate standard,reversed --json
  atoll bench counter --placement island,spread
  atoll bench ipc --channel shm,uds,pipe

Exit code: 0 success; 1 the run failed or a consistency check did not hold; 2 wrong usage; 130 interrupted.";

/// OLTP that fits itself to the islands of the hardware: runs any number of instances over this machine's cores and
/// measures which deployment suits which workload.
///
/// Without a command: shows the machine's islands, measures the deployments that fit it, and names the winners.
#[derive(Parser, Debug)]
#[command(name = "atoll", version, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Shows sockets, NUMA nodes, L3 groups, cores and SMT; with --probe measures core-to-core latency
    Topology(TopologyArgs),
    /// Deploys, loads, runs, measures, checks and tears down; sweeps over every list-valued option
    Bench(Box<BenchArgs>),
    /// Builds a database that lasts, for `bench --data` to run on
    Load(Box<LoadArgs>),
    /// What one transaction touches (records, locks, pages), by kind, beside what the papers say
    Stats(Box<StatsArgs>),
    /// Checks a database that nothing runs on: pages, indexes, log, and the workload's consistency conditions
    Check(CheckArgs),
    /// Copies a database that nothing runs on, with a checksum of every file
    Backup(BackupArgs),
    /// Makes a database of a backup, and holds every file against its checksum
    Restore(RestoreArgs),
    /// Makes one HTML page of the rows of earlier runs: charts, tables, the machine
    Report(ReportArgs),
    /// Compares two runs row by row: better, worse or no difference beyond spread and noise
    Compare(CompareArgs),
    /// Measures the papers' figures and tables on this machine
    Figures(FiguresArgs),
    /// Decides which of the papers' claims hold here
    Claims(ClaimsArgs),
    /// Hosts one instance for the deployment that started it
    #[command(hide = true)]
    Instance(InstanceArgs),
}

#[derive(Args, Debug)]
pub struct TopologyArgs {
    /// `live`; or described: an hwloc XML file, a latency CSV, a synthetic string such as "package:4 core:6"
    #[arg(long, value_name = "M", default_value = "live")]
    pub machine: String,
    /// Measure core-to-core latency and find the islands from it
    #[arg(long)]
    pub probe: bool,
    /// Print the machine as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = REPORT_EXAMPLES)]
pub struct ReportArgs {
    /// Files of rows as `bench --out` or `--json` writes them, or directories that `bench --out` made; `-` is standard input
    #[arg(value_name = "ROWS", required = true)]
    pub rows: Vec<PathBuf>,
    /// Where the page goes; it stands alone and needs no network [default: report.html; with --csv none]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write the rows as CSV, a line each; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct InstanceArgs {
    /// Which of the deployment's instances this is: for people who look at the process list
    #[arg(long)]
    pub number: u16,
}

#[derive(Args, Debug)]
#[command(after_help = LOAD_EXAMPLES)]
pub struct LoadArgs {
    #[arg(value_parser = bench_name())]
    pub workload: String,
    /// Where database and log shall live: an empty or missing directory, or one of an earlier load
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Instances: 1, 2, ..., per-core, per-l3, per-socket, shared (= 1)
    #[arg(long, value_name = "N", default_value = "1")]
    pub islands: IslandCount,
    /// For which design: those on pages share their files, occ has files of its own
    #[arg(long, value_name = "D", value_enum, default_value = "conventional")]
    pub design: DesignArg,
    /// Worker threads in total that load [default: one per core of this process' CPU set]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub workers: Option<u32>,
    /// Rows of the table (micro) [default: 10000 per core]
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub dataset: Option<u64>,
    /// Sites (micro), branches (tpcb), warehouses (tpcc), ten thousand subscribers (tatp) [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub scale: Option<u32>,
    /// Where the rows of tables with a primary key lie
    #[arg(long, value_name = "T", value_enum, default_value = "heap")]
    pub tables: TablesArg,
    /// How trees are made
    #[arg(long, value_name = "T", value_enum, default_value = "btree")]
    pub tree: TreeArg,
    /// Which rows of tables with a primary key share a heap page: partition for plp-partition, leaf for plp-leaf
    #[arg(long, value_name = "H", value_enum, default_value = "shared")]
    pub heap: HeapArg,
    /// Parts of each multi-rooted tree of an instance [default: one per worker]
    #[arg(long, value_name = "N", value_parser = partitions())]
    pub partitions: Option<u64>,
    /// Page memory of all instances together, e.g. 512M, 2G [default: what the data needs]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub memory: Option<u64>,
    /// Load even if the memory that it takes is not there
    #[arg(long)]
    pub memory_unchecked: bool,
    #[command(flatten)]
    pub own: OwnOptions,
    /// Print what was loaded as a JSON line
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = STATS_EXAMPLES)]
pub struct StatsArgs {
    #[arg(value_parser = bench_name())]
    pub workload: String,
    /// Sites (micro), branches (tpcb), warehouses (tpcc), ten thousand subscribers (tatp)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub scale: u32,
    /// Who may touch a record, and what protects it
    #[arg(long, value_name = "D", value_enum, default_value = "conventional")]
    pub design: DesignArg,
    /// How long transactions are counted, e.g. 5s, 500ms
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = duration)]
    pub duration: Duration,
    #[arg(long, value_name = "N", default_value_t = 1, allow_hyphen_values = true)]
    pub seed: u64,
    #[command(flatten)]
    pub own: OwnOptions,
    /// Print a JSON object instead of the table
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = CHECK_EXAMPLES)]
pub struct CheckArgs {
    /// The directory that `load` or `bench --data` built
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Page memory for looking, e.g. 512M, 2G
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

/// Everything that runs transactions. The transaction of a name may be written as one word too, as the papers and the ledger do.
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

/// The workload's own name for what was given.
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

/// What `bench` takes: the workloads, and two experiments without transactions.
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

/// A period of balancing.
fn period(text: &str) -> Result<Duration, String> {
    let period = duration(text)?;
    let sensible = Duration::from_millis(10)..=Duration::from_secs(600);
    if sensible.contains(&period) { Ok(period) } else { Err("expected 10ms to 10m".into()) }
}

/// Each is a page at least, and an entry of the partition table.
fn partitions() -> RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(1..=4096)
}

#[derive(Args, Clone, Debug)]
#[command(after_help = BENCH_EXAMPLES)]
pub struct BenchArgs {
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
#[command(next_help_heading = "Deployment (lists sweep)")]
pub struct DeploymentArgs {
    /// Only `live` can run; a described machine plans or simulates
    #[arg(long, value_name = "M", default_value = "live")]
    pub machine: String,
    /// Instances: 1, 2, ..., per-core, per-l3, per-socket, shared (= 1) [default: the sizes that fit the machine]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    pub islands: Vec<IslandCount>,
    /// Worker threads in total [default: one per core of this process' CPU set]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub workers: Vec<u32>,
    /// How an instance's workers lie on the islands: island, spread, mix, os
    #[arg(long, value_name = "P,...", value_delimiter = ',', default_value = "island")]
    pub placement: Vec<Placement>,
    /// Who may touch a record, and what protects it
    #[arg(long, value_name = "D,...", value_delimiter = ',', value_enum, default_value = "conventional")]
    pub design: Vec<DesignArg>,
    /// Where instances live [default: process; thread for --channel ring]
    #[arg(long, value_name = "H,...", value_delimiter = ',', value_enum)]
    pub host: Vec<HostArg>,
    /// What carries messages between instances [default: shm; every one for ipc]
    #[arg(long, value_name = "C,...", value_delimiter = ',', value_enum)]
    pub channel: Vec<ChannelArg>,
    /// When a commit is acknowledged
    #[arg(long, value_name = "D,...", value_delimiter = ',', value_enum, default_value = "async")]
    pub durability: Vec<DurabilityArg>,
    /// Where the rows of tables with a primary key lie [default: as --data has them; else heap]
    #[arg(long, value_name = "T,...", value_delimiter = ',', value_enum)]
    pub tables: Vec<TablesArg>,
    /// How trees are made [default: as --data has them; else btree, and mrbtree for plp-*]
    #[arg(long, value_name = "T,...", value_delimiter = ',', value_enum)]
    pub tree: Vec<TreeArg>,
    /// Which rows share a heap page [default: as --data has them; else shared, and what it needs for plp-*]
    #[arg(long, value_name = "H,...", value_delimiter = ',', value_enum)]
    pub heap: Vec<HeapArg>,
    /// How readers of pages keep out of the way of writers, but for serial and occ
    #[arg(long, value_name = "L,...", value_delimiter = ',', value_enum, default_value = "optimistic")]
    pub latching: Vec<LatchingArg>,
    /// Parts of each multi-rooted tree of an instance, with --tree mrbtree [default: as --data has them; else one per worker; where workers own keys, their partitions, no fewer than workers]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = partitions())]
    pub partitions: Vec<u64>,
    /// Run on what is loaded in DIR (loaded there first if it is empty), which stays as loaded: every run gets a copy that
    /// lies in it until the run ends; several shapes of data get a directory each below an empty DIR [default: a temporary directory, removed afterwards]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Run in the directory of --data itself, so that it keeps what the run changes
    #[arg(long, requires = "data")]
    pub keep: bool,
    /// Page memory of all instances together, shared out as their data is, e.g. 512M, 2G [default: what the data needs]; with
    /// design occ all that rows may take [default: half of what is free]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub memory: Option<u64>,
    /// Run even if the memory that it takes is not there
    #[arg(long)]
    pub memory_unchecked: bool,
    /// Take all of --memory from the system before an instance is ready, not as data comes
    #[arg(long)]
    pub populate: bool,
    /// Where TCP listens; with a port of its own instance i takes the i-th after it
    #[arg(long, value_name = "HOST[:PORT]", default_value = "127.0.0.1", value_parser = listen_address)]
    pub listen: SocketAddr,
    /// Whether a worker's next transaction takes over its table locks (speculative lock inheritance)
    #[arg(long, value_name = "S,...", value_delimiter = ',', value_enum, default_value = "on")]
    pub sli: Vec<SliArg>,
    /// Keys of a table that a transaction reads under locks of their own before it locks the table: 25, 25:1000 (read:written), off
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "25")]
    pub escalation: Vec<Escalation>,
    /// How long a lock wait may take, e.g. 100ms, 1s; a number alone is ms: how distributed deadlocks end
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = lock_timeout)]
    pub lock_timeout: u64,
    /// With design occ: what to do about rows that a distributed transaction has prepared, and about other conflicts
    #[arg(long, value_name = "C,...", value_delimiter = ',', value_enum, default_value = "wait")]
    pub occ_conflict: Vec<OccConflictArg>,
    /// With design occ: how a transaction reads that writes nothing
    #[arg(long, value_name = "R,...", value_delimiter = ',', value_enum, default_value = "validate")]
    pub occ_reads: Vec<OccReadsArg>,
    /// With design occ: how far ahead rows are asked for, so that workers wait for memory as seldom as can be
    #[arg(long, value_name = "A,...", value_delimiter = ',', value_enum, default_value = "requests")]
    pub occ_ahead: Vec<OccAheadArg>,
    /// With designs whose workers own keys: whether keys follow the load
    #[arg(long, value_name = "B,...", value_delimiter = ',', value_enum, default_value = "off")]
    pub balance: Vec<BalanceArg>,
    /// How often it is looked whether a worker has too much to do, e.g. 250ms, 1s
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = period)]
    pub balance_every: Duration,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Requests (lists sweep)")]
pub struct RequestArgs {
    /// Per cent of multisite (micro) or remote (tpcb, tpcc) transactions [default: micro 0, tpcb 15, tpcc as specified]
    #[arg(long, value_name = "PCT,...", value_delimiter = ',', value_parser = per_cent)]
    pub multisite: Vec<f64>,
    /// Rows of a transaction (micro, tatp-scan) [default: 10]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rows: Vec<u32>,
    /// What is done with them (micro) [default: read]
    #[arg(long, value_name = "OP,...", value_delimiter = ',', value_enum)]
    pub op: Vec<OpArg>,
    /// Zipf exponent of the popularity of rows, 0 is uniform (micro) [default: 0]
    #[arg(long, value_name = "S,...", value_delimiter = ',', value_parser = skew)]
    pub skew: Vec<f64>,
    /// A hot range: 50/30 sends 50 % of the requests to 30 % of the keys, 50/30@40 to those from 40 % on (micro, tatp)
    #[arg(long, value_name = "R/K[@F],...", value_delimiter = ',')]
    pub hot: Vec<Hot>,
    /// Rows of the table (micro) [default: 10000 per core]
    #[arg(long, value_name = "ROWS,...", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub dataset: Vec<u64>,
    /// Sites (micro), branches (tpcb), warehouses (tpcc), ten thousand subscribers (tatp) [default: one per core]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub scale: Vec<u32>,
    #[command(flatten)]
    pub own: OwnOptions,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Measuring")]
pub struct MeasuringArgs {
    /// Length of a measured window, e.g. 5s, 500ms
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub duration: Duration,
    /// Load before the first window; auto: until throughput has settled, up to 60 s
    #[arg(long, value_name = "TIME|auto", default_value = "1s", value_parser = warmup)]
    pub warmup: Warmup,
    /// Windows; the median is reported with its spread, of an even number the slower of the two in the middle [default: 3; 1
    /// of a load that changes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: Option<u32>,
    /// Seed of every random draw
    #[arg(long, value_name = "N", default_value_t = 1, allow_hyphen_values = true)]
    pub seed: u64,
    /// Closed-loop clients of each worker; with --load-model open or --think the most requests under way at once [default: 4; 64]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub clients: Vec<u32>,
    /// Add time per component and event counts to each row
    #[arg(long)]
    pub profile: bool,
    /// What the clients wait for
    #[arg(long, value_name = "MODEL", value_enum, default_value = "closed")]
    pub load_model: LoadModelArg,
    /// Requests a second of the whole deployment (--load-model open); or a ramp from the first window on: 1000..50000/30s
    #[arg(long, value_name = "TPS,...", value_delimiter = ',', allow_hyphen_values = true)]
    pub rate: Vec<Rate>,
    /// How requests of an open loop are spaced: poisson, uniform [default: poisson]
    #[arg(long, value_name = "A")]
    pub arrivals: Option<Arrivals>,
    /// People who key in and think (tpcc): standard, none, or a multiple of standard such as x0.1 [default: none]
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    pub think: Option<Think>,
    /// People at terminals in all (tpcc) [default with --think: 10 per warehouse]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub terminals: Option<u32>,
    /// How often a request is tried again after a deadlock, a time-out or the loss of an instance: N, unlimited
    #[arg(long, value_name = "N", default_value = "unlimited", value_parser = retries, allow_hyphen_values = true)]
    pub retries: RetryLimit,
    /// The first pause before a retry is drawn up to this, and the range doubles with each, up to 64 times it: 1ms, 10us, none
    /// [default: none; with --occ-conflict abort 10us]
    #[arg(long, value_name = "TIME", value_parser = backoff)]
    pub backoff: Option<Backoff>,
    /// A script of how the load changes while it is measured, a line each: 10s hot 50/30, 20s rate 5000, 30s multisite 50, ...;
    /// or the lines themselves: 10s:hot:50/30;20s:hot:off
    #[arg(long, value_name = "FILE|LINES")]
    pub phases: Option<PathBuf>,
    /// Kill random instances N times under load and check that nothing acknowledged is lost (tpcb)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub kill: Option<u32>,
    /// Kills between two checks of the whole data
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub check_every: u32,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Results")]
pub struct ResultArgs {
    /// Write rows.jsonl, machine.json and report.html into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Add to the rows that an earlier run has left in the directory of --out
    #[arg(long, requires = "out")]
    pub append: bool,
    /// Replace the rows that an earlier run has left in the directory of --out
    #[arg(long, requires = "out", conflicts_with = "append")]
    pub overwrite: bool,
    /// Print the rows on standard output as JSON lines
    #[arg(long)]
    pub json: bool,
    /// Print the rows on standard output as CSV at the end, with a head
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Show throughput, latency and each instance on the terminal while it runs; with --profile where the time goes too
    #[arg(long, conflicts_with = "kill")]
    pub watch: bool,
}

impl ResultArgs {
    /// What becomes of earlier rows.
    pub fn earlier(&self) -> Earlier {
        match (self.append, self.overwrite) {
            (true, _) => Earlier::Append,
            (false, true) => Earlier::Overwrite,
            (false, false) => Earlier::Refuse,
        }
    }
}

/// `None`: no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetryLimit(pub Option<u32>);

fn retries(text: &str) -> Result<RetryLimit, String> {
    match text {
        "unlimited" => Ok(RetryLimit(None)),
        _ => text
            .parse()
            .map(|n| RetryLimit(Some(n)))
            .map_err(|_| format!("{text:?}: expected how often to try again, such as 3, or unlimited")),
    }
}

/// Zero: none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backoff(pub Duration);

fn backoff(text: &str) -> Result<Backoff, String> {
    match text {
        "none" => Ok(Backoff(Duration::ZERO)),
        _ => {
            let range = Duration::from_micros(1)..=Duration::from_secs(60);
            traffic::parse_time_in(text, "s", range).map(Backoff).map_err(|why| format!("{why}, or none"))
        }
    }
}

fn warmup(text: &str) -> Result<Warmup, String> {
    match text {
        "auto" => Ok(Warmup::UntilSteady),
        _ => duration(text).map(Warmup::For).map_err(|why| format!("{why}, or auto")),
    }
}

/// A lock wait, in ms.
fn lock_timeout(text: &str) -> Result<u64, String> {
    let range = Duration::from_millis(1)..=Duration::from_secs(600);
    traffic::parse_time_in(text, "ms", range).map(|time| time.as_millis() as u64)
}

/// `5s`, `500ms`, `2m`, `1h30m`; a number alone is seconds.
fn duration(text: &str) -> Result<Duration, String> {
    traffic::parse_time(text)
}

/// `512M`, `2G`, `1.5GiB`, `64K`: powers of 1024; a number alone is bytes.
fn size(text: &str) -> Result<u64, String> {
    let expected = || format!("{text:?} is no size; expected e.g. 512M, 2G or a number of bytes");
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let shift = match unit.trim_end_matches("iB").trim_end_matches('B') {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return Err(expected()),
    };
    let bytes = number.parse::<f64>().map_err(|_| expected())? * (1u64 << shift) as f64;
    if !(1.0..=(1u64 << 50) as f64).contains(&bytes) {
        return Err(format!("{text:?} is out of range; expected 1 byte to 1024T"));
    }
    Ok(bytes as u64)
}

fn in_range(text: &str, low: f64, high: f64) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|v| (low..=high).contains(v));
    value.ok_or_else(|| format!("expected a number from {low} to {high}"))
}

fn per_cent(text: &str) -> Result<f64, String> {
    in_range(text, 0.0, 100.0)
}

/// Of a comparison, per cent.
pub(crate) fn threshold(text: &str) -> Result<f64, String> {
    per_cent(text)
}

fn skew(text: &str) -> Result<f64, String> {
    in_range(text, 0.0, 10.0)
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
        assert_eq!(
            (lock_timeout("100"), lock_timeout("1s"), lock_timeout("1.5s")),
            (Ok(100), Ok(1000), Ok(1500))
        );
        assert!(lock_timeout("0").is_err() && lock_timeout("11m").is_err() && lock_timeout("50us").is_err());
    }

    #[test]
    fn lists_are_lists() {
        let args = ["atoll", "bench", "micro", "--islands", "1,per-core", "--multisite", "0,20,100"];
        let Some(Command::Bench(bench)) = Cli::try_parse_from(args).unwrap().command else { panic!("bench") };
        assert_eq!(bench.deployment.islands, [IslandCount::Count(1), IslandCount::PerCore]);
        assert_eq!(bench.requests.multisite, [0.0, 20.0, 100.0]);
    }
}
