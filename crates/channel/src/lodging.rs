//! A worker's thread that has other work besides the worker: the sessions of a server in the same
//! process.
//!
//! ```text
//!   server: open(deployment, house)
//!   worker's thread: house_of(deployment) --> house.lodge(place, worker)
//!     loop: worker.round(), other work; nothing to do: worker.may_sleep(), sleep, worker.awake()
//! ```
//!
//! So a request that a session makes for the worker of its own thread, and the answer, wake no
//! thread and cost no system call.
//!
//! # Access rules
//!
//! - The table of houses is locked; a house may be used by several threads at once.
//! - A [`Resident`] stays on its thread.
//! - Between `may_sleep` and `awake` no other method of the resident is called. The thread sleeps
//!   in a wait that ends when the resident's descriptor becomes readable, or the time is over.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What a worker did in one round of its loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Round {
    Worked,
    Idle,
    /// The worker has been stopped: no further round.
    Ended,
}

/// A worker, for the loop of a thread that it shares.
pub trait Resident {
    /// Works on all that has come, and does not block.
    fn round(&mut self) -> Round;

    /// For how long nothing is due.
    fn time_left(&self) -> Duration;

    /// Announces that the thread may sleep. Returns false if there is work after all; nothing is
    /// announced then.
    fn may_sleep(&mut self) -> bool;

    /// Takes the announcement back.
    fn awake(&mut self);

    /// Readable when there is something to wake up for.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Called after the descriptor was readable, so that it becomes readable again.
    fn take_events(&mut self);

    /// Leaves the engine in order; called once, after [`Round::Ended`].
    fn end(self: Box<Self>);
}

/// Which worker of which instance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    pub instance: u16,
    pub worker: u16,
}

/// What shares its threads with workers.
pub trait House: Send + Sync {
    /// Runs the worker on the calling thread, until it has ended.
    fn lodge(&self, place: Place, resident: Box<dyn Resident>);
}

static HOUSES: Mutex<BTreeMap<u64, Arc<dyn House>>> = Mutex::new(BTreeMap::new());

/// From now on the workers of this deployment that start in this process run in `house`.
pub fn open(deployment: u64, house: Arc<dyn House>) {
    HOUSES.lock().unwrap_or_else(PoisonError::into_inner).insert(deployment, house);
}

/// Ends [`open`]; workers that run stay.
pub fn close(deployment: u64) {
    HOUSES.lock().unwrap_or_else(PoisonError::into_inner).remove(&deployment);
}

/// The house for the workers of a deployment, if there is one in this process.
pub fn house_of(deployment: u64) -> Option<Arc<dyn House>> {
    HOUSES.lock().unwrap_or_else(PoisonError::into_inner).get(&deployment).cloned()
}
