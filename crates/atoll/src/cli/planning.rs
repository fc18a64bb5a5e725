//! The options of `atoll plan` as typed.

use super::numbers::duration;
use super::{ChannelArg, DesignArg, DurabilityArg, RequestArgs, workload_argument};
use crate::examples;
use advisor::Objective;
use advisor::settings::Server;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args, Clone, Debug)]
#[command(after_help = examples::SEE_HELP, after_long_help = examples::PLAN)]
pub struct PlanArgs {
    /// The workload that the deployment is for
    #[arg(value_parser = workload_argument())]
    pub workload: String,
    /// The machine: `live`, a machine file (.toml), or a CSV file of latencies; for a described
    /// machine the model decides alone
    #[arg(long, value_name = "M", default_value = "live")]
    pub machine: String,
    /// Time for measured trials on the live machine [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub budget: Option<Duration>,
    /// No trials: the model decides on the live machine too
    #[arg(long, conflicts_with = "budget")]
    pub no_trials: bool,
    /// Measure the costs of the model on this machine anew, for at most this time, and keep them
    /// in a file for later plans [default: 60s; without this option: when no file fits, in
    /// half of --budget]
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "60s", value_parser = duration)]
    pub calibrate: Option<Duration>,
    /// The file of measured costs, to read or to write [default: atoll/calibration/WORKLOAD.toml in
    /// the user's cache directory]
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<PathBuf>,
    /// The quantity to maximise: tps, tps-per-core, or tps with a bound such as
    /// p99<5ms
    #[arg(long, value_name = "O", default_value = "tps")]
    pub objective: Objective,
    /// The designs to choose from [default: all that the model has costs of, with a
    /// calibration all]
    #[arg(long, value_name = "D,...", value_delimiter = ',', value_enum)]
    pub designs: Vec<DesignArg>,
    /// The channels to choose from [default: shm; tcp for a machine file of several
    /// machines]
    #[arg(long, value_name = "C,...", value_delimiter = ',', value_enum)]
    pub channels: Vec<ChannelArg>,
    /// When a commit is acknowledged
    #[arg(long, value_name = "D", value_enum, default_value = "async")]
    pub durability: DurabilityArg,
    /// Clients of each worker, each with one request at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub clients: u32,
    /// The costs of the engine: atoll, shore-mt, silo
    #[arg(long, value_name = "P", default_value = "atoll")]
    pub engine_profile: String,
    /// Say why one deployment beats another: two of the ranking's numbers, or two such as occ/2/shm
    #[arg(long, value_names = ["A", "B"], num_args = 2, conflicts_with_all = ["map", "settings"])]
    pub explain: Vec<String>,
    /// Draw the winner over two axes of multisite, skew, rows: --map multisite,skew
    #[arg(long, value_name = "X,Y", value_delimiter = ',', num_args = 1, conflicts_with_all = ["settings", "out"])]
    pub map: Vec<String>,
    /// Print the islands as settings of another server: postgres, mysql, valkey
    #[arg(long, value_name = "SERVER", conflicts_with = "json")]
    pub settings: Option<Server>,
    /// Write the plan to this file, for `bench --plan` and `load --plan`
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write the plan or the map with its charts to this HTML file
    #[arg(long, value_name = "FILE", conflicts_with = "explain")]
    pub page: Option<PathBuf>,
    /// Print the plan as a JSON object
    #[arg(long)]
    pub json: bool,
    /// Seed of the simulation and of the trials
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub requests: RequestArgs,
}
