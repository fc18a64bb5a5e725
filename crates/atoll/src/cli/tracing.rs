//! The options of `atoll trace` and `atoll cachesim` as typed.

use super::{DesignArg, workload_argument};
use crate::examples;
use crate::values::HostArg;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(after_help = examples::SEE_HELP, after_long_help = examples::TRACE)]
pub struct TraceArgs {
    /// The workload that the transactions are of
    #[arg(value_parser = workload_argument())]
    pub workload: String,
    /// The engine design
    #[arg(long, value_name = "D", value_enum, default_value = "conventional")]
    pub design: DesignArg,
    /// Transactions to record
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub transactions: u64,
    /// Record this many transactions of a kind, in place of --transactions of the mix; once for
    /// each kind
    #[arg(long, value_name = "KIND=N", value_parser = quota, conflicts_with = "transactions")]
    pub quota: Vec<(String, u64)>,
    /// Workers, each with one client: with 1, no transaction waits for another one; with 16, each
    /// simulated core can have a stack of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub workers: u32,
    /// Size: warehouses (tpcc), branches (tpcb), ten thousand subscribers (tatp), sites (micro)
    /// [default: one per worker]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub scale: Option<u32>,
    /// Transactions to run before the first one is recorded
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..))]
    pub skip: u64,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 1, allow_hyphen_values = true)]
    pub seed: u64,
    /// How the instance is hosted: only as threads, since qemu does not follow a child process
    #[arg(long, value_name = "H", value_enum, default_value = "thread", hide_short_help = true)]
    pub host: HostArg,
    /// Write the trace to this file
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Options of atoll bench for the traced run, such as --rows 100
    #[arg(last = true, value_name = "OPTION", allow_hyphen_values = true)]
    pub options: Vec<String>,
}

/// Which figures `cachesim` makes.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum StudyArg {
    /// Where cache misses come from
    #[value(name = "chapter-6")]
    Chapter6,
    /// STREX and SLICC on 2 to 16 cores, and their parameters
    #[value(name = "chapter-7")]
    Chapter7,
    /// ADDICT beside them, on 16 cores
    #[value(name = "chapter-8")]
    Chapter8,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum SchedulerArg {
    Baseline,
    NextLine,
    Pif,
    Strex,
    Slicc,
    Addict,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypesArg {
    None,
    Software,
    Scout,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResetArg {
    Idle,
    Team,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProtectArg {
    Refuse,
    Fill,
}

#[derive(Args, Debug)]
#[command(after_help = examples::SEE_HELP, after_long_help = examples::CACHESIM)]
pub struct CachesimArgs {
    /// A trace that `atoll trace` wrote
    #[arg(value_name = "FILE")]
    pub trace: PathBuf,
    /// The figures of one chapter of the thesis
    #[arg(
        long,
        value_name = "S",
        value_enum,
        required_unless_present = "scheduler",
        conflicts_with = "scheduler"
    )]
    pub study: Option<StudyArg>,
    /// One run under this scheduler
    #[arg(long, value_name = "S", value_enum)]
    pub scheduler: Option<SchedulerArg>,
    /// The caches: the name of a machine, or a file as in machines/caches
    /// [default: xeon-e5-2660 for chapter 6, else zesto]
    #[arg(long, value_name = "M")]
    pub machine: Option<String>,
    /// Transactions that only warm the caches (chapter 6), or are profiled (chapter 8)
    /// [default: half of the trace; chapter 7: none]
    #[arg(long, value_name = "N")]
    pub warm: Option<usize>,
    /// Use at most this many transactions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub transactions: Option<u64>,
    /// Cores, a power of two
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = cores)]
    pub cores: usize,
    /// Hardware threads of a core
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = small, hide_short_help = true)]
    pub contexts: usize,
    /// STREX: transactions of a team
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = small, hide_short_help = true)]
    pub team: usize,
    /// STREX: the oldest waiting transactions, among which a team is formed
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = small, hide_short_help = true)]
    pub window: usize,
    /// STREX: a miss that would drive out a block of the phase: switch before it, or after it
    #[arg(long, value_name = "P", value_enum, default_value = "refuse", hide_short_help = true)]
    pub protect: ProtectArg,
    /// SLICC: misses after which a cache counts as full
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(0..=511), hide_short_help = true)]
    pub fill_up: u32,
    /// SLICC: recent misses that another cache must have
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = small, hide_short_help = true)]
    pub matched: usize,
    /// SLICC: misses among 100 fetches from which on a transaction looks for another core
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=101), hide_short_help = true)]
    pub dilution: u32,
    /// SLICC: bits of a signature, a power of two; 0 for one without errors
    #[arg(long, value_name = "BITS", default_value_t = 2048, value_parser = signature, hide_short_help = true)]
    pub signature: usize,
    /// SLICC: whether it knows the types of transactions
    #[arg(long, value_name = "T", value_enum, default_value = "software", hide_short_help = true)]
    pub types: TypesArg,
    /// SLICC: when a core may take up new code: whenever it is idle, or when a team ends
    #[arg(long, value_name = "R", value_enum, default_value = "team", hide_short_help = true)]
    pub reset: ResetArg,
    /// SLICC: contexts in the pool, for each hardware thread of a core: the most transactions of a
    /// team
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = small, hide_short_help = true)]
    pub pool: usize,
    /// SLICC: transactions that may wait at a core
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = small, hide_short_help = true)]
    pub queue: usize,
    /// SLICC: bytes of an instruction fetch
    #[arg(long, value_name = "BYTES", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=64), hide_short_help = true)]
    pub fetch_bytes: u64,
    /// ADDICT: transactions of a batch [default: one per context]. SLICC: so many of one type at
    /// once, in place of teams
    #[arg(long, value_name = "N", value_parser = small, hide_short_help = true)]
    pub batch: Option<usize>,
    /// ADDICT: transactions that a place must have before an idle core of another place joins it
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = small, hide_short_help = true)]
    pub patience: usize,
    /// Print the rows as JSON lines
    #[arg(long)]
    pub json: bool,
    /// Write a page with charts of the rows to this file
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
}

fn quota(word: &str) -> Result<(String, u64), String> {
    let pair = word.split_once('=').and_then(|(kind, n)| Some((kind.to_owned(), n.parse().ok()?)));
    pair.filter(|(_, n)| *n > 0).ok_or_else(|| "expected KIND=N, such as new_order=100".to_owned())
}

fn cores(word: &str) -> Result<usize, String> {
    let cores = word.parse().ok().filter(|n: &usize| n.is_power_of_two() && *n <= 64);
    cores.ok_or_else(|| "expected 1, 2, 4, 8, 16, 32 or 64".to_owned())
}

fn small(word: &str) -> Result<usize, String> {
    word.parse()
        .ok()
        .filter(|n| (1..=128).contains(n))
        .ok_or_else(|| "expected a number from 1 to 128".to_owned())
}

fn signature(word: &str) -> Result<usize, String> {
    let bits =
        word.parse().ok().filter(|n: &usize| *n == 0 || n.is_power_of_two() && (512..=65_536).contains(n));
    bits.ok_or_else(|| "expected 0, or a power of two from 512 to 65536".to_owned())
}
