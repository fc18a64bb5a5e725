//! Links that are sealed: what this crate asks of the encryption, which it does not know.
//!
//! A [`Guard`] makes a [`Session`] for each connection at an address [`Address::Tls`]. The session
//! turns plain bytes into sealed ones and back, and knows the role of the peer once the peer has
//! proved it. It does no I/O: the link moves the bytes.
//!
//! [`Address::Tls`]: crate::Address::Tls

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// What the holder of a certificate may do in a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// An agent, and the instances on its machine.
    Machine,
    /// Gives orders to agents.
    Operator,
    /// Submits requests to instances, and nothing else.
    Client,
}

impl Role {
    pub const ALL: [Role; 3] = [Role::Machine, Role::Operator, Role::Client];

    /// As certificates and messages spell it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Machine => "machine",
            Role::Operator => "operator",
            Role::Client => "client",
        }
    }
}

/// Makes sessions. One for each process; any thread may use it.
pub trait Guard: Send + Sync {
    /// The session of a listener for one caller.
    ///
    /// # Errors
    /// The certificates cannot be used.
    fn answer(&self) -> Result<Box<dyn Session>, String>;

    /// The session of a caller, which accepts only a machine that has this address.
    ///
    /// # Errors
    /// As [`Guard::answer`].
    fn call(&self, at: SocketAddr) -> Result<Box<dyn Session>, String>;
}

/// One end of one sealed connection.
pub trait Session: Send {
    /// Takes sealed bytes from the peer.
    ///
    /// # Errors
    /// Why the connection must end: a peer that is refused or that refuses this end, or bytes that
    /// were changed on their way. [`Session::give`] may still have bytes for the peer.
    fn take(&mut self, sealed: &[u8]) -> Result<(), String>;

    /// Moves opened bytes into `space`; returns how many.
    fn open(&mut self, space: &mut [u8]) -> usize;

    /// Whether there are opened bytes.
    fn has_opened(&self) -> bool;

    /// Takes plain bytes for the peer. Before the peer has proved its role they are kept.
    ///
    /// # Errors
    /// As [`Session::take`].
    fn seal(&mut self, plain: &[u8]) -> Result<(), String>;

    /// Appends the bytes that are to be sent to the peer.
    fn give(&mut self, out: &mut Vec<u8>);

    /// The role that the peer has proved; `None` before.
    fn peer(&self) -> Option<Role>;
}

/// A guard, or none.
#[derive(Clone, Default)]
pub struct Guarding(pub Option<Arc<dyn Guard>>);

impl fmt::Debug for Guarding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "guarded" } else { "not guarded" })
    }
}
