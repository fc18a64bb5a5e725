//! The local transaction: one transaction's work at this instance, and whether it takes locks.
//!
//! Under `serial` a transaction that stays at home runs from its first access to its commit record
//! without giving up its worker. No other transaction can come between, so it needs no locks, as
//! long as no other transaction holds any. A transaction that waits for another instance, or for a
//! page, does give up the worker, so it locks the rows it touches. While one of those lives, those
//! that start lock as well. Where workers own keys (`logical`), each worker goes by the same rule:
//! a transaction that needs only this worker's keys runs alone while no other transaction has locks
//! in its table.

use crate::branches::Branches;
use locks::Locker;
use std::ops::Range;
use store::{Prefetched, Txn};

/// When a design takes locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locking {
    Always,
    /// Only local transactions that belong to distributed ones take locks, and those that start
    /// while one of these lives.
    WhileShared,
    /// As [`Locking::WhileShared`], with a lock table for each worker and the keys it owns. One
    /// lock stands for all keys with the same first columns.
    ByOwner,
}

/// The protection of one local transaction against the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protection {
    Locks,
    /// No other transaction runs beside it: it never suspends between its first access and its end.
    /// So it cannot wait for a page that is not in memory. It is undone then and runs again under
    /// locks, and the page is read meanwhile.
    Unlocked,
    /// No transaction beside it touches its rows (a load, a check). It needs no locks and may wait.
    Exclusive,
    /// It only reads, and sees the state at its begin
    /// ([`Engine::SNAPSHOTS`](crate::Engine::SNAPSHOTS)). If it tries to write, it runs again under
    /// locks.
    Snapshot,
}

/// A local transaction: its log chain and undo list, and its locks. Only the worker that holds the
/// value touches it. Reused for the next transaction, so that its buffers stay.
pub struct LocalTxn {
    pub(crate) store_txn: Txn,
    pub(crate) locker: Locker,
    /// The rows it is about to ask for.
    pub(crate) prefetched: Prefetched,
    pub(crate) protection: Protection,
    /// The worker that owns the lock table it uses.
    pub(crate) owner: usize,
    /// The transaction's name in the waits-for graph
    /// ([`WaitsForGraph`](crate::owners::waits_for::WaitsForGraph)); 0 where there is none.
    pub(crate) name: u64,
    /// Its scans visit only rows of these sites of the deployment.
    pub(crate) sites: Option<Range<u32>>,
    /// It is one of several local transactions of one transaction, or others may follow. A
    /// transaction that blocks it here may wait elsewhere for one of those.
    pub(crate) abroad: bool,
    /// A lock that it would have to wait for is refused at once.
    pub(crate) hurries: bool,
    /// It has asked for a lock and is counted among those that lock ([`Locking::ByOwner`]).
    pub(crate) counted: bool,
    /// The transaction's work at other workers.
    pub(crate) branches: Branches,
    pub(crate) hold: probe::Hold,
}

impl LocalTxn {
    pub fn protection(&self) -> Protection {
        self.protection
    }

    /// Whether it has written anything, at this worker or at others.
    pub fn wrote(&self) -> bool {
        self.store_txn.wrote() || self.branches.wrote()
    }
}
