//! The arguments of `atoll serve`.

use super::size::size;
use super::{DesignArg, DurabilityArg, HostArg};
use crate::listen::listen_address;
use crate::values::{relay_address, relay_name};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use topology::IslandCount;

const EXAMPLES: &str = "\
Any client of PostgreSQL connects: user atoll, any database name. Without a password, clients of this machine get in and
others do not; ALTER USER atoll PASSWORD '...' or --password-file sets one, and then every client over TCP needs it.
A Unix socket lies in the directory of the database. Ctrl-C or SIGTERM ends the server: transactions under way have 10 s.

Examples:
  atoll serve --data DIR                          a new database, or the one that is there
  psql -h 127.0.0.1 -U atoll test                 a client
  atoll serve --data DIR --islands per-core       one instance per core, for a new database
  atoll serve --data DIR --listen 0.0.0.0:5432 --password-file FILE
  atoll serve --data DIR --record mine.rec        then: atoll plan replay --recording mine.rec";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Directory of the database: empty or missing for a new one
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// The address at which clients connect; port 0 stands for any free port
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:5432", value_parser = listen_address)]
    pub listen: SocketAddr,
    /// Instances of a new database: 1, 2, ..., per-core, per-l3, per-socket [default: 1]
    #[arg(long, value_name = "N")]
    pub islands: Option<IslandCount>,
    /// The engine design
    #[arg(long, value_name = "D", value_enum, default_value = "conventional")]
    pub design: DesignArg,
    /// When a commit is acknowledged
    #[arg(long, value_name = "D", value_enum, default_value = "sync")]
    pub durability: DurabilityArg,
    /// Where a quorum keeps the logs with --durability replicated: nats://HOST:PORT,.. or
    /// kafka://HOST:PORT,..
    #[arg(long, value_name = "URL", value_parser = relay_address)]
    pub relay: Option<String>,
    /// The name of this database at the relay; each database there needs one of its own
    #[arg(long, value_name = "NAME", value_parser = relay_name, default_value = "atoll", requires = "relay")]
    pub relay_name: String,
    /// Hold a lease in etcd (http://HOST:PORT,..) and claim the islands there: another machine
    /// serves them only when this one's lease is over
    #[arg(long, value_name = "URL", requires_all = ["relay", "machine"])]
    pub etcd: Option<String>,
    /// The name of this machine in etcd
    #[arg(long, value_name = "NAME", value_parser = relay_name, requires = "etcd")]
    pub machine: Option<String>,
    /// Open even if the relay lost entries that had counted, and tell which
    #[arg(long, requires = "relay")]
    pub accept_loss: bool,
    /// Begin with the newest base copies at this place if DIR is missing or empty: see `atoll base`
    #[arg(long, value_name = "PLACE", requires = "relay")]
    pub base: Option<String>,
    /// Worker threads of all instances [default: one per core of this process' CPU set]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub workers: Option<u32>,
    /// Where instances run [default: thread for one island, process for several]
    #[arg(long, value_name = "H", value_enum)]
    pub host: Option<HostArg>,
    /// Size of the buffer pools of all instances together, e.g. 512M, 2G
    #[arg(long, value_name = "BYTES", value_parser = size, default_value = "256M")]
    pub memory: u64,
    /// How long a transaction waits for a row that another one holds; deadlocks between instances
    /// end this way
    #[arg(long, value_name = "TIME", value_parser = lock_timeout, default_value = "5s")]
    pub lock_timeout: Duration,
    /// How long a statement may take that sets no statement_timeout itself [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = limit)]
    pub statement_timeout: Option<Duration>,
    /// How long a transaction may be idle between statements [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = limit)]
    pub idle_transaction_timeout: Option<Duration>,
    /// The most clients at a time
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub connections: u32,
    /// Set the password of the user atoll to the first line of this file
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Certificate chain for TLS, in PEM form [default: one of its own, made in DIR]
    #[arg(long, value_name = "FILE", requires = "key")]
    pub certificate: Option<PathBuf>,
    /// The certificate's private key, in PEM form
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub key: Option<PathBuf>,
    /// Serve a page for the browser at http://HOST:PORT/, and counts for Prometheus at /metrics;
    /// without a password
    #[arg(long, value_name = "HOST:PORT", value_parser = listen_address)]
    pub status: Option<SocketAddr>,
    /// Keep the transactions of clients in this file, for `atoll plan replay`: needs one island,
    /// and
    /// --host thread, as is the default then
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Transactions to record; with fewer the file is written when the server ends
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000), requires = "record")]
    pub record_transactions: u64,
    /// Take options from this file, in lines such as islands = 2 or listen = "0.0.0.0:5432"; those
    /// that are typed count more
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Write the log as JSON lines
    #[arg(long)]
    pub json: bool,
}

fn limit(text: &str) -> Result<Duration, String> {
    traffic::parse_time_in(text, "s", Duration::from_millis(1)..=Duration::from_secs(7 * 86_400))
}

fn lock_timeout(text: &str) -> Result<Duration, String> {
    traffic::parse_time_in(text, "ms", Duration::from_millis(1)..=Duration::from_secs(600))
}
