//! The words that options of deployments and requests take, each with its help line, and the values
//! that they stand for in the crates below. Those of the engine's options are in
//! [`deploy::engine::OPTIONS`].

use channel::ChannelError;
use clap::ValueEnum;
use deploy::{ChannelKind, Host};
use std::net::IpAddr;

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum DesignArg {
    /// Pages with latches, and one lock table for all workers of an instance
    Conventional,
    /// Each worker owns a range of the keys and has a lock table of its own; pages have latches
    /// (DORA)
    Logical,
    /// As logical; each worker also owns the index pages of its keys, which need no latches then
    /// (PLP)
    PlpRegular,
    /// As plp-regular; each worker also owns the heap pages with the rows of its keys
    PlpPartition,
    /// As plp-partition; each heap page belongs to one leaf of the index, so dividing a partition
    /// moves few rows
    PlpLeaf,
    /// One worker per instance, one transaction at a time: no latches, and locks only for
    /// distributed transactions
    Serial,
    /// Rows in main memory with optimistic concurrency control: a transaction is checked for
    /// conflicts when it commits
    Occ,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum DurabilityArg {
    /// After the log is on the device: survives a power cut
    Sync,
    /// After the device and a quorum of other machines have the log: survives the loss of the
    /// machine; needs --relay
    Replicated,
    /// After the system has the log, which it writes soon: survives kill -9; a power cut takes the
    /// last moments
    Async,
    /// At once; the log stays in memory: survives nothing
    Memory,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostArg {
    /// Each instance is a process
    Process,
    /// All instances are threads of one process
    Thread,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChannelArg {
    /// Ring buffers in shared memory
    Shm,
    /// Unix socket
    Uds,
    /// TCP
    Tcp,
    /// RDMA: only in a build with --features rdma
    Rdma,
    /// Ring buffers within one process: only with --host thread
    Ring,
    /// Pipe: only with `bench ipc`
    Pipe,
    /// Named pipe: only with `bench ipc`
    Fifo,
    /// POSIX message queue: only with `bench ipc`
    Mqueue,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpArg {
    /// All rows are read
    Read,
    /// All rows are updated
    Update,
    /// One row is updated, the others are read; in a multisite transaction they are in other sites
    Mixed,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadModelArg {
    /// A client sends its next request when it has the answer to the last one
    Closed,
    /// Requests come at --rate and wait for no answer; latency counts from the time when a request
    /// was due
    Open,
}

impl From<HostArg> for Host {
    fn from(arg: HostArg) -> Host {
        match arg {
            HostArg::Process => Host::Process,
            HostArg::Thread => Host::Thread,
        }
    }
}

impl ChannelArg {
    /// `None` for a mechanism that instances do not use.
    pub fn kind(self) -> Option<ChannelKind> {
        match self {
            ChannelArg::Shm => Some(ChannelKind::Shm),
            ChannelArg::Uds => Some(ChannelKind::Uds),
            ChannelArg::Tcp => Some(ChannelKind::Tcp),
            ChannelArg::Rdma => Some(ChannelKind::Rdma),
            ChannelArg::Ring => Some(ChannelKind::Ring),
            ChannelArg::Pipe | ChannelArg::Fifo | ChannelArg::Mqueue => None,
        }
    }
}

/// Whether instances of this machine can listen by RDMA at an address. The option that asked for it
/// comes before the text.
///
/// # Errors
/// Why not.
pub(crate) fn require_rdma(at: IpAddr) -> Result<(), String> {
    channel::fabric::check(at).map_err(|error| match error {
        ChannelError::Fabric { why } => why,
        other => other.to_string(),
    })
}

/// An address of a relay.
pub(crate) fn relay_address(text: &str) -> Result<String, String> {
    deploy::relay_address(text)
}

/// Addresses of etcd.
pub(crate) fn etcd_servers(text: &str) -> Result<String, String> {
    members::servers(text).map(|_| text.to_owned())
}

/// A name that every relay takes in the names of its logs.
pub(crate) fn relay_name(text: &str) -> Result<String, String> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match text.len() {
        1..=64 if text.chars().all(is_good) => Ok(text.to_owned()),
        _ => Err("expected 1 to 64 letters, digits, '-' and '_'".to_owned()),
    }
}
