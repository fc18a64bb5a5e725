//! One transaction's part at this instance, and whether it takes locks.
//!
//! Under `serial` a transaction that stays at home runs from its first access to its commit record without once
//! giving up its worker, so nothing can come between: it needs no locks, as long as nobody else holds any. A
//! transaction that waits for another instance, or for a page, does give up the worker, so it locks what it touches; while such a
//! part exists, those that start meanwhile lock as well. Where workers own keys (`logical`) each of them goes by the same rule: what
//! needs only its keys runs alone while no other transaction has locks in its table.

use crate::branches::Branches;
use locks::Locker;
use std::ops::Range;
use store::{Ahead, Txn};

/// When a design takes locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locking {
    Always,
    /// Only parts of distributed transactions, and every part that starts while one of those lives.
    WhileShared,
    /// As [`Locking::WhileShared`], each worker in a table of its own for the keys it owns: one lock for all keys with the same
    /// first columns.
    ByOwner,
}

/// What protects one part from the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protection {
    Locks,
    /// Nothing runs beside it: it never suspends between its first access and its end. So it cannot wait for a page that
    /// is not in memory: it is undone and runs again under locks, the page being read meanwhile.
    Alone,
    /// Nothing that runs beside it touches what it touches (loading, a check): it needs no locks and may wait.
    Quiet,
    /// It only reads, and everything as it was when it began ([`Engine::PAST`](crate::Engine::PAST)). One that writes after all runs
    /// again under locks.
    Past,
}

/// A transaction's work at one instance: its log chain and undo list, and its locks. Reused from one transaction to
/// the next, so that its buffers stay.
pub struct Part {
    pub(crate) txn: Txn,
    pub(crate) locker: Locker,
    /// Rows it is about to ask for.
    pub(crate) ahead: Ahead,
    pub(crate) protection: Protection,
    /// The worker whose locks it takes.
    pub(crate) owner: usize,
    /// The transaction's name on the [`Board`](crate::board::Board); 0 where there is none.
    pub(crate) name: u64,
    /// Of the deployment: its scans visit rows of these only.
    pub(crate) sites: Option<Range<u32>>,
    /// It is one of several parts of its transaction, or others may follow: what it waits for may wait for them elsewhere.
    pub(crate) abroad: bool,
    /// It has asked for a lock, and is counted for that ([`Locking::ByOwner`]).
    pub(crate) counted: bool,
    /// The transaction's work at other workers.
    pub(crate) branches: Branches,
    pub(crate) hold: probe::Hold,
}

impl Part {
    pub fn protection(&self) -> Protection {
        self.protection
    }

    /// Whether anything was written.
    pub fn wrote(&self) -> bool {
        self.txn.wrote() || self.branches.wrote()
    }
}
