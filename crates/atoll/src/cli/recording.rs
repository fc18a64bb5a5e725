//! The options of `atoll record` as typed.

use super::numbers::duration;
use super::{DesignArg, RequestArgs, workload_argument};
use crate::examples;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args, Debug)]
#[command(after_help = examples::SEE_HELP, after_long_help = examples::RECORD)]
pub struct RecordArgs {
    /// The workload that the transactions are of
    #[arg(value_parser = workload_argument())]
    pub workload: String,
    /// Write the recording to this file
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Transactions to record
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub transactions: u64,
    /// End after this time with fewer transactions
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub limit: Duration,
    /// The engine design that carries them out
    #[arg(long, value_name = "D", value_enum, default_value = "conventional")]
    pub design: DesignArg,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 1, allow_hyphen_values = true)]
    pub seed: u64,
    #[command(flatten)]
    pub requests: RequestArgs,
}
