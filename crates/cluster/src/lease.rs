//! What an agent needs of the service that says which machine has which islands.

use base::InstanceId;

/// The right to serve, given by a service that grants it to one machine at a time.
pub trait Lease: Send + Sync {
    /// Why the right has ended; `None` while this machine may serve. An agent that has lost it ends
    /// all instances, and starts none. Changes nothing.
    fn lost(&self) -> Option<String>;

    /// Asks for a new right. Called again and again while the old one is lost and no instance runs
    /// under it.
    fn regain(&self);

    /// [`world::now_ns`] until which instances here may answer. It leaves a margin to the time at
    /// which another machine may claim their islands.
    fn answers_until(&self) -> u64;

    /// Claims an island of a database for this machine. Waits some seconds for the end of another
    /// machine's lease.
    ///
    /// # Errors
    /// Another machine serves it; the service does not answer.
    fn claim(&self, database: &str, island: InstanceId) -> Result<Claim, String>;

    /// Whether another machine has claimed an island of a database.
    ///
    /// # Errors
    /// The service does not answer.
    fn is_elsewhere(&self, database: &str, island: InstanceId) -> Result<bool, String>;

    /// Lets any machine claim an island.
    ///
    /// # Errors
    /// The service does not answer.
    fn release(&self, database: &str, island: InstanceId) -> Result<(), String>;
}

/// An island that this machine has claimed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Of the island's log.
    pub term: u64,
    /// Entries of that log that are known to have counted.
    pub at_least: u64,
}
