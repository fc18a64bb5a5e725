//! Seams: the points of the engine at which a test build replaces a step by a wrong one, so that
//! the checkers of histories can show that they find it (`planted.rs`, feature `planted`). This
//! file is the ordinary build: each step is as its caller asks.

use crate::design::Design;
use latch::RawMutex;
use locks::{LockTable, Locker, Mode};
use pages::Stop;
use store::{Store, Txn};

/// The mode in which a lock is acquired, if it is.
#[inline(always)]
pub(crate) fn lock_mode<M: RawMutex>(_: &LockTable<M>, _: &mut Locker, mode: Mode) -> Option<Mode> {
    Some(mode)
}

/// The owners among which the locks of scans are divided.
#[inline(always)]
pub(crate) fn owners_of_ranges<T>(owners: Option<T>) -> Option<T> {
    owners
}

/// Undoes the changes of a chain.
#[inline(always)]
pub(crate) fn roll_back<D: Design>(store: &Store, txn: &mut Txn) -> Result<(), Stop> {
    store.rollback::<D::Latch>(txn)
}
