//! One transaction's part at this instance, and whether it takes locks.
//!
//! Under `serial` a transaction that stays at home runs from its first access to its commit record without once
//! giving up its worker, so nothing can come between: it needs no locks, as long as nobody else holds any. A
//! transaction that waits for another instance, or for a page, does give up the worker, so it locks what it touches; while such a
//! part exists, those that start meanwhile lock as well.

use locks::Locker;
use store::{Ahead, Txn};

/// When a design takes locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locking {
    Always,
    /// Only parts of distributed transactions, and every part that starts while one of those lives.
    WhileShared,
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
}

/// A transaction's work at one instance: its log chain and undo list, and its locks. Reused from one transaction to
/// the next, so that its buffers stay.
pub struct Part {
    pub(crate) txn: Txn,
    pub(crate) locker: Locker,
    /// Rows it is about to ask for.
    pub(crate) ahead: Ahead,
    pub(crate) protection: Protection,
    pub(crate) hold: probe::Hold,
}

impl Part {
    pub fn protection(&self) -> Protection {
        self.protection
    }

    /// Whether anything was written.
    pub fn wrote(&self) -> bool {
        self.txn.wrote()
    }
}
