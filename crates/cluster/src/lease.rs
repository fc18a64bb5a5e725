//! What an agent needs of the service that says which machine has which islands, and of the relay
//! with their logs.

use base::InstanceId;
use std::path::Path;

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

    /// The machine that has an island of a database, if its right is over and it has not ended in
    /// order. `None` also while this is not certain: after an outage of the service no machine had
    /// its right.
    ///
    /// # Errors
    /// The service does not answer.
    fn left(&self, database: &str, island: InstanceId) -> Result<Option<String>, String>;

    /// See [`Claim::at_least`].
    ///
    /// # Errors
    /// The service does not answer.
    fn at_least(&self, database: &str, island: InstanceId) -> Result<u64, String>;

    /// Claims an island that was left, without waiting. `false`: another machine has it.
    ///
    /// # Errors
    /// The service does not answer.
    fn inherit(&self, database: &str, island: InstanceId) -> Result<bool, String>;

    /// Notes how many entries of an island's log have counted, for the next claim.
    ///
    /// # Errors
    /// The service does not answer.
    fn note(&self, database: &str, island: InstanceId, counted: u64) -> Result<(), String>;

    /// This machine ends in order: its islands stay its own.
    fn leave(&self);
}

/// What an agent needs of the relay with the islands' logs, to take islands over by itself.
pub trait Logs: Send + Sync {
    /// How many entries that count are in the log of an island, of which the copy in `dir` has the
    /// first ones. Changes nothing.
    ///
    /// # Errors
    /// The relay cannot be read, has lost entries, or has the log of another copy.
    fn reaches(&self, database: &str, island: InstanceId, dir: &Path) -> Result<u64, String>;
}

/// An island that this machine has claimed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Of the island's log.
    pub term: u64,
    /// Entries of that log that are known to have counted.
    pub at_least: u64,
}
