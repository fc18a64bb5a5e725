//! The arguments of `atoll agent` and `atoll cluster`.

use super::numbers::duration;
use crate::listen::listen_address;
use crate::values::{etcd_servers, relay_address};
use clap::{Args, Subcommand};
use cluster::TakeOver;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

const AGENT: &str = "\
An agent runs on each machine of a cluster. It describes the machine to `atoll bench --hosts`, starts instances for it, pins
their workers, and starts them again when they die. They end with the agent, and when the command that uses them ends.
Without --tls every program that reaches the port can give orders: then listen in a network that you trust.

Examples:
  atoll agent --cluster demo --machine a --listen 10.0.0.1:7400 --data /var/lib/atoll
  atoll agent --cluster demo --machine a --listen 10.0.0.1:7400 --data /var/lib/atoll --tls /etc/atoll/a";

const CLUSTER: &str = "\
A hosts file has a line for each machine: its name, the address of its agent, and how a command is run there.

  cluster demo
  tls /etc/atoll/certificates
  etcd http://10.0.0.1:2379,http://10.0.0.2:2379,http://10.0.0.3:2379
  relay nats://10.0.0.1:4222,10.0.0.2:4222,10.0.0.3:4222
  a  10.0.0.1:7400  ssh admin@a        cores=0-3 data=/var/lib/atoll
  b  10.0.0.2:7400  ip netns exec b    cores=4-7
  c  10.0.0.3:7400  local

Examples:
  atoll cluster certificates /etc/atoll/certificates --hosts FILE
  atoll cluster up --hosts FILE             starts the agents that are not there
  atoll bench tpcc --hosts FILE --islands 3
  atoll cluster status --hosts FILE
  atoll cluster copy --data bank --hosts FILE          a copy of each island on another host
  atoll cluster takeover b --data bank --hosts FILE    host b is gone: others have its islands
  atoll cluster down --hosts FILE

Exit code: 0 success; 1 a host cannot be reached or refuses; 2 wrong usage, or a hosts file with errors.";

#[derive(Args, Debug)]
#[command(after_help = AGENT)]
pub struct AgentArgs {
    /// The name of the cluster
    #[arg(long, value_name = "NAME")]
    pub cluster: String,
    /// The name of this machine in the hosts file
    #[arg(long, value_name = "ID")]
    pub machine: String,
    /// The address at which operators connect; instances listen at other ports of it
    #[arg(long, value_name = "IP:PORT", value_parser = listen_address)]
    pub listen: SocketAddr,
    /// Directory of the databases on this machine; one agent uses it
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// CPUs that instances may use, e.g. 0-3,8 [default: all of this process' CPU set]
    #[arg(long, value_name = "LIST")]
    pub cores: Option<String>,
    /// Directory of this machine's certificates, as `atoll cluster certificates` makes it
    #[arg(long, value_name = "DIR")]
    pub tls: Option<PathBuf>,
    /// Hold a lease in etcd (http://HOST:PORT,..), and claim there the islands of databases:
    /// another machine takes them over only when the lease is over
    #[arg(long, value_name = "URL", value_parser = etcd_servers)]
    pub etcd: Option<String>,
    /// The relay with the islands' logs (nats://HOST:PORT,.. or kafka://HOST:PORT,..): the agent
    /// takes over islands of machines of which the lease is over, if it has a copy and nothing is
    /// lost
    #[arg(long, value_name = "URL", value_parser = relay_address, requires = "etcd")]
    pub relay: Option<String>,
    /// What begins a take-over: agents (the end of the machine's lease) or operator (`atoll cluster
    /// takeover`)
    #[arg(long, value_name = "WORD", value_parser = TakeOver::parse, default_value = "agents", requires = "relay")]
    pub takeover: TakeOver,
}

#[derive(Args, Debug)]
#[command(after_help = CLUSTER)]
pub struct ClusterArgs {
    #[command(subcommand)]
    pub command: ClusterCommand,
}

#[derive(Subcommand, Debug)]
pub enum ClusterCommand {
    /// Starts the agents of all hosts, through the commands in the hosts file
    Up(HostsArgs),
    /// Ends all agents, with their instances
    Down(HostsArgs),
    /// Shows each host: its agent, cores and instances
    Status(StatusArgs),
    /// Moves an island of a database that nothing runs on to another host
    Move(MoveArgs),
    /// Moves all islands of a database away from a host
    Drain(DrainArgs),
    /// Copies each island of a database that nothing runs on to the next host, for `takeover`
    Copy(CopyArgs),
    /// Has the islands of hosts that are gone served from their copies and their logs at the relay
    Takeover(TakeoverArgs),
    /// Makes the certificates of all hosts, of operators and of clients
    Certificates(CertificatesArgs),
}

#[derive(Args, Debug)]
pub struct HostsArgs {
    /// File with a line for each host
    #[arg(long, value_name = "FILE")]
    pub hosts: PathBuf,
}

#[derive(Args, Debug)]
pub struct StatusArgs {
    #[command(flatten)]
    pub hosts: HostsArgs,
    /// Print a JSON object a host
    #[arg(long)]
    pub json: bool,
    /// How long a host may take to be reached
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "3s")]
    pub patience: Duration,
}

#[derive(Args, Debug)]
pub struct MoveArgs {
    /// The number of the island
    #[arg(value_name = "ISLAND")]
    pub island: u16,
    /// The host that gets it
    #[arg(long, value_name = "HOST")]
    pub to: String,
    #[command(flatten)]
    pub hosts: HostsArgs,
    /// The database: the name given to `bench --hosts FILE --keep --data NAME`
    #[arg(long, value_name = "NAME")]
    pub data: String,
}

#[derive(Args, Debug)]
pub struct DrainArgs {
    /// The host that keeps none
    #[arg(value_name = "HOST")]
    pub host: String,
    #[command(flatten)]
    pub hosts: HostsArgs,
    /// The database: the name given to `bench --hosts FILE --keep --data NAME`
    #[arg(long, value_name = "NAME")]
    pub data: String,
}

#[derive(Args, Debug)]
pub struct CopyArgs {
    #[command(flatten)]
    pub hosts: HostsArgs,
    /// The database: the name given to `bench --hosts FILE --keep --data NAME`
    #[arg(long, value_name = "NAME")]
    pub data: String,
}

#[derive(Args, Debug)]
pub struct TakeoverArgs {
    /// The hosts that are gone; the others take their islands
    #[arg(value_name = "HOST", required = true)]
    pub gone: Vec<String>,
    #[command(flatten)]
    pub hosts: HostsArgs,
    /// The database: the name given to `bench --hosts FILE --keep --data NAME`
    #[arg(long, value_name = "NAME")]
    pub data: String,
    /// Go on from copies of islands with their log at no relay; what was committed after the copy
    /// was made is lost
    #[arg(long)]
    pub accept_loss: bool,
}

#[derive(Args, Debug)]
pub struct CertificatesArgs {
    /// Directory for them: a directory for each host, and operator and client. An authority that is
    /// there signs again, so earlier certificates stay valid
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub hosts: HostsArgs,
    /// How long they are valid
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub days: u32,
}
