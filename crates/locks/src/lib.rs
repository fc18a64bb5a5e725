//! Locks: they decide which transactions may read and write which rows until a transaction ends.
//!
//! One lock table, generic over the mutex of its buckets: shared, it is the central lock manager of
//! the conventional design; without a mutex, it is the table of one worker. It knows names and
//! modes. It does not know the contents of tables, logs of transactions, workers or clocks.
//!
//! A request enters by [`LockTable::acquire_below`] with the transaction's [`Locker`], the granules
//! above the name, and the mode. It takes the first of these ways that applies:
//!
//! 1. the locker's own list already holds a mode that covers it;
//! 2. the locker's last transaction left a parked lock that serves it;
//! 3. it is an intention on a table for which there is no strong request: it is noted in the
//!    locker's slot;
//! 4. it enters the queue of the bucket to which its name hashes.
//!
//! If it must wait, a walk over the waits-for graph tells at once whether a cycle is closed. If
//! not, the transaction parks, and calls [`LockTable::poll`] when it is woken. All locks leave by
//! [`LockTable::release_all`].
//!
//! Reading order:
//!
//! - `mode`: names and modes; `queue`, on `requests`: the rules of one queue;
//! - `locker`: a transaction's list; `slot`: the part of it that other lockers see; `fast`: its
//!   intentions;
//! - `table`: the table; `inherit`: the fast path and inheritance;
//! - `escalate`, `de_escalate`: a table lock in place of many key locks, and back;
//! - `detect`: waiting and cycles.

mod abort;
mod de_escalate;
mod detect;
mod escalate;
mod fast;
mod guarded;
mod inherit;
mod locker;
mod mode;
mod queue;
mod slot;
mod sync;
mod table;
mod tuning;
mod walk;

pub use abort::LockAbort;
pub use detect::Cancelled;
pub use locker::{LockCounts, Locker, end_thread};
pub use mode::{Gap, LockName, Mode, Row};
pub use slot::MAX_LOCKERS;
pub use table::{Acquired, LockStats, LockTable};
pub use tuning::{Escalation, Inheritance, LockOptions, LockTuning, Victim};

#[cfg(test)]
mod models;
