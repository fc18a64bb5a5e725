//! Locks: who may read and write which rows until a transaction ends.
//!
//! One lock table, generic over what protects it: the central lock manager of the conventional design, and (with
//! no latch at all) the table that belongs to one worker. It knows names and modes; it does not know tables'
//! contents, transactions' logs, workers or clocks.
//!
//! A request enters by [`LockTable::acquire_below`] with the transaction's [`Locker`], the granules that the name lies
//! beneath, and the mode. It is answered from the locker's own list, taken up from what the locker's last transaction
//! left, noted in the locker's slot (intentions on a table that nobody wants as a whole), or put into the queue of the
//! bucket that its name hashes to. If it must wait, a walk over waits-for tells at once whether a cycle is closed; if
//! not, the transaction parks and [`LockTable::poll`] is called when it is woken. It leaves by
//! [`LockTable::release_all`].
//!
//! Read: what can be locked and how strongly (`mode`), the rules of one queue (`queue`, on `requests`), a transaction's list
//! (`locker`), what others see of it (`slot`), its intentions (`fast`), the table (`table`), the fast
//! path and inheritance (`inherit`), the
//! table instead of many keys and back (`escalate`, `reduce`), waiting and cycles (`detect`).

mod detect;
mod escalate;
mod fast;
mod guarded;
mod inherit;
mod locker;
mod mode;
mod queue;
mod reduce;
mod requests;
mod slot;
mod sync;
mod table;
mod tuning;

pub use detect::Cancelled;
pub use locker::{LockCounts, Locker, end_thread};
pub use mode::{Gap, LockName, Mode, Row};
pub use slot::MAX_LOCKERS;
pub use table::{Acquired, LockAbort, LockStats, LockTable};
pub use tuning::{Escalation, Inheritance, LockOptions, LockTuning, Victim};

#[cfg(test)]
mod models;
