//! The errors of a channel, in three kinds: while it is set up ([`ChannelError`]), while a message
//! is sent ([`SendError`]), and the end of a link ([`Closed`]).

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The reason why a listener could not be bound, or a connection could not be accepted or made.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    #[error("address '{text}': expected {expected}")]
    BadAddress { text: String, expected: &'static str },
    #[error("socket path '{}' has {length} bytes: expected 1 to {most}; choose a shorter directory", path.display())]
    PathTooLong { path: PathBuf, length: usize, most: usize },
    #[error(
        "'{address}' is in use: expected a free address; stop the other listener or choose another address"
    )]
    InUse { address: String },
    #[error("'{}' exists and is no socket: expected a free name; remove it or choose another path", path.display())]
    NotASocket { path: PathBuf },
    #[error(
        "directory '{}' has mode {mode:04o} and owner {owner}: expected mode 0700 and this user as the owner; \
         make it private (chmod 700) or choose another",
        path.display()
    )]
    DirectoryNotPrivate { path: PathBuf, mode: u32, owner: u32 },
    #[error("hello of {length} bytes: expected at most {most}")]
    HelloTooLong { length: usize, most: usize },
    #[error("no listener answered at '{address}' in {waited_ms} ms: expected one; is the instance up?")]
    Timeout { address: String, waited_ms: u64 },
    #[error(
        "peer speaks channel version {theirs}, this build speaks {ours}: run the same build at both ends"
    )]
    Version { ours: u16, theirs: u16 },
    #[error("peer uses channel kind {theirs}, this end is {ours}: use the same kind of address at both ends")]
    Kind { ours: &'static str, theirs: u8 },
    #[error("peer runs as user {theirs}, this process as user {ours}: expected the same user at both ends")]
    WrongUser { ours: u32, theirs: u32 },
    /// One end does not accept the other's certificate.
    #[error("{why}")]
    Refused { why: String },
    #[error("'{address}' is sealed: expected the certificates of this machine; name their directory (--tls)")]
    NoGuard { address: String },
    #[error(
        "this program has no RDMA: expected one that was built with it (cargo build --features rdma), or \
         another channel"
    )]
    NoFabric,
    /// No device, or one that refuses.
    #[error("RDMA: {why}")]
    Fabric { why: String },
    #[error("the peer does not speak this protocol: {what}")]
    Protocol { what: &'static str },
    #[error(
        "no connection can be accepted for now: {why}; callers wait; raise the limit of open files \
         (ulimit -n) or close some connections"
    )]
    Starved { why: String },
    #[error("the listener was stopped")]
    Stopped,
    #[error("{doing}: {source}")]
    Io { doing: &'static str, source: io::Error },
}

impl ChannelError {
    /// Whether the listener may go on accepting: either only this one connection failed, or there
    /// are no descriptors for now, and the listener itself waits for them.
    pub fn goes_on(&self) -> bool {
        use ChannelError::*;
        matches!(
            self,
            HelloTooLong { .. }
                | Timeout { .. }
                | Version { .. }
                | Kind { .. }
                | WrongUser { .. }
                | Refused { .. }
                | Fabric { .. }
                | Protocol { .. }
                | Starved { .. }
        )
    }
}

/// Adds the attempted action to a system call's error.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str) -> Result<T, ChannelError>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, doing: &'static str) -> Result<T, ChannelError> {
        self.map_err(|source| ChannelError::Io { doing, source: source.into() })
    }
}

/// The reason why a link has ended. Every later call on the link returns the same reason.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Closed {
    /// The peer closed the link or died; all messages that it had sent before were delivered.
    #[error("the peer closed the link or died")]
    ByPeer,
    /// The peer ended within a message; the bytes that had arrived of it are lost.
    #[error("the peer ended in the middle of a message")]
    Cut,
    /// The peer broke the protocol.
    #[error("the peer broke the protocol: {0}")]
    Corrupt(&'static str),
    /// The operating system reported an error.
    #[error("link I/O failed: {0}")]
    Io(Arc<io::Error>),
}

impl From<rustix::io::Errno> for Closed {
    fn from(errno: rustix::io::Errno) -> Closed {
        use rustix::io::Errno;
        match errno {
            Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => Closed::ByPeer,
            other => Closed::Io(Arc::new(other.into())),
        }
    }
}

/// The reason why a message was not taken. No part of it has been or will be sent.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SendError {
    /// The peer has not read for so long that the bound on held bytes is reached; the link itself
    /// is still good.
    #[error("{held} bytes wait for a peer that does not read: expected at most {most}")]
    Full { held: usize, most: usize },
    #[error("message of {length} bytes: expected at most {most}; send it in parts")]
    TooLong { length: usize, most: usize },
    #[error(transparent)]
    Closed(#[from] Closed),
}

pub(crate) const CUT: ChannelError =
    ChannelError::Protocol { what: "the connection ended within the handshake" };
