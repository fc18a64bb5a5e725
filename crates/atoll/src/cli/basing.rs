//! The arguments of `atoll base`.

#![cfg_attr(not(feature = "copies"), allow(dead_code, reason = "a build without base copies only refuses"))]

use crate::values::{relay_address, relay_name};
use clap::{Args, Subcommand};
use std::path::PathBuf;

const BASE: &str = "\
A base copy is the files of an island, and says how far it has the island's log at the relay. A machine without a directory
begins with it (atoll serve --base, or get), and reads the rest from the relay. Logs may be trimmed behind base copies.

A place is a directory that is there, s3://BUCKET/.. (builds with --features copies-s3), gs://BUCKET/.. (copies-gcs) or
az://CONTAINER/.. (copies-azure); credentials come from the environment (AWS_.., GOOGLE_.., AZURE_..).

Examples:
  atoll restore bank-monday --to keep                          a copy of the database that nothing serves
  atoll base put keep --to s3://copies/prod --relay nats://.. --relay-name bank --trim
                                                               brings it up to date, puts it, trims the logs
  atoll base list s3://copies/prod --relay-name bank
  atoll base get s3://copies/prod --relay-name bank --to bank  the newest copy, as a database
  atoll serve --data bank --base s3://copies/prod --durability replicated --relay nats://.. --relay-name bank

Exit code: 0 success; 1 the place, the relay or a copy cannot be used; 2 wrong usage; 130 interrupted.";

#[derive(Args, Debug)]
#[command(after_help = BASE)]
pub struct BaseArgs {
    #[command(subcommand)]
    pub command: BaseCommand,
}

#[derive(Subcommand, Debug)]
pub enum BaseCommand {
    /// Brings a database that nothing serves up to date from its logs at the relay, and puts a copy
    /// of each island; the server is not disturbed
    Put(BasePutArgs),
    /// Makes a directory from the newest base copies
    Get(BaseGetArgs),
    /// Shows the base copies at a place
    List(BaseListArgs),
}

#[derive(Args, Debug)]
pub struct BasePutArgs {
    /// Directory of a copy of the database: of a restored backup, of `get`, or of a server that has
    /// ended
    #[arg(value_name = "DIR")]
    pub data: PathBuf,
    /// Where base copies go: a directory, s3://BUCKET/.., gs://BUCKET/.. or az://CONTAINER/..
    #[arg(long, value_name = "PLACE")]
    pub to: String,
    /// Bring DIR up to date from the logs at this relay first: nats://HOST:PORT,.. or
    /// kafka://HOST:PORT,..
    #[arg(long, value_name = "URL", value_parser = relay_address)]
    pub relay: Option<String>,
    /// The name of the database at the relay; in a cluster CLUSTER-DATABASE
    #[arg(long, value_name = "NAME", value_parser = relay_name, default_value = "atoll")]
    pub relay_name: String,
    /// Base copies of each island that are kept; older ones are removed once the new one is
    /// complete
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub keep: u32,
    /// Remove from the logs at the relay all that no kept base copy needs, nor the server
    #[arg(long, requires = "relay")]
    pub trim: bool,
    /// Print a JSON line an island
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct BaseGetArgs {
    /// Where base copies are
    #[arg(value_name = "PLACE")]
    pub from: String,
    /// The new directory
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// The name of the database at the relay; in a cluster CLUSTER-DATABASE
    #[arg(long, value_name = "NAME", value_parser = relay_name, default_value = "atoll")]
    pub relay_name: String,
    /// Only this island; may be given several times [default: all]
    #[arg(long, value_name = "N")]
    pub island: Vec<u16>,
    /// The base copy with this id, as `list` shows it, in place of the newest
    #[arg(long, value_name = "ID", requires = "island")]
    pub copy: Option<String>,
    /// Write copies for an agent: DIR is the database's directory below that of the agent, which
    /// takes the islands over when their machine is gone
    #[arg(long)]
    pub copies: bool,
    /// Print a JSON line an island
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct BaseListArgs {
    /// Where base copies are
    #[arg(value_name = "PLACE")]
    pub place: String,
    /// The name of the database at the relay; in a cluster CLUSTER-DATABASE
    #[arg(long, value_name = "NAME", value_parser = relay_name, default_value = "atoll")]
    pub relay_name: String,
    /// Print a JSON line a copy
    #[arg(long)]
    pub json: bool,
}
