//! Why a cluster cannot be used. Each message is one line: the cause, and what to do.

use std::net::SocketAddr;
use std::path::PathBuf;

/// See the head of this file.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error("cannot read {}: {why}; name a file with a line for each host (--hosts)", .path.display())]
    HostsFile { path: PathBuf, why: std::io::Error },
    #[error("{}, line {line}: {what}", .path.display())]
    HostsLine { path: PathBuf, line: usize, what: String },
    #[error(
        "host {host} cannot be reached at {address}: {why}; start its agent (atoll cluster up --hosts FILE) or correct the \
             hosts file"
    )]
    Unreachable { host: String, address: SocketAddr, why: String },
    #[error("host {host} refuses: {why}")]
    Refused { host: String, why: String },
    #[error("host {host}: {why}")]
    Host { host: String, why: String },
    #[error(
        "island {island} of database {database} is on hosts {first} and {second}, since a move was interrupted: remove \
             the directory {database}/{island} below the data directory of one of them, the one without all files"
    )]
    Twice { island: u16, database: String, first: String, second: String },
    #[error(
        "island {island} of database {database} is on no host of the hosts file: name the host that has it"
    )]
    Nowhere { island: u16, database: String },
    #[error(
        "island {island} of database {database} is on none of these hosts, and none has a copy (atoll cluster copy makes \
             them): start the agent of the host that has it"
    )]
    NoCopy { island: u16, database: String },
    #[error(transparent)]
    Trust(#[from] trust::TrustError),
    #[error("cannot listen: {0}")]
    Channel(#[from] channel::ChannelError),
    #[error(transparent)]
    Deploy(#[from] deploy::DeployError),
    #[error("data directory {} is in use by another agent: stop it, or name another directory (--data)", .path.display())]
    DataInUse { path: PathBuf },
    #[error("cannot use {}: {why}; name another directory (--data)", .path.display())]
    Data { path: PathBuf, why: std::io::Error },
    #[error("--cores {cores}: {why}; expected CPUs of this machine, such as 0-3,8")]
    Cores { cores: String, why: String },
}

impl ClusterError {
    /// Whether the options or the hosts file are wrong (exit code 2).
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            ClusterError::HostsFile { .. }
                | ClusterError::HostsLine { .. }
                | ClusterError::Cores { .. }
                | ClusterError::Nowhere { .. }
        )
    }
}
