//! The work of one transaction at several workers of one instance.
//!
//! A *branch* is an ordinary local transaction ([`LocalTxn`]): a chain in the log, an undo list,
//! locks in one owner's table. It is a value that travels: it goes to its owner with the steps,
//! comes back with their results, and goes there once more to end. Only the worker that holds the
//! value touches it, no two workers share it, and an owner keeps no list of transactions. The
//! branch's locks stay with the owner: they are acquired and released on the owner's thread only.
//!
//! A message with steps names their sites ([`MapVersion`]), because the owner of a key may change
//! while the message is on its way. If it has changed, the receiver does nothing and sends the
//! message back as [`BranchMessage::Moved`]. The home then sends the steps to their new owner.
//!
//! The home has all branches in its hands when it commits. It appends the one record that names
//! them ([`store::Store::commit_together`]) and sends them back. An owner releases the locks when
//! the branch is back, so a transaction that acquires them next logs behind that record.

use crate::local::LocalTxn;
use crate::owners::owner_map::MapVersion;
use std::task::Waker;
use store::Txn;
use txn::Abort;

/// A message from one worker to another.
pub(crate) enum BranchMessage {
    Steps(Steps),
    Answer {
        meeting: u32,
        branch: Box<LocalTxn>,
        answer: Answer,
    },
    /// The steps belong to another owner meanwhile. The branch is unchanged, if there was one.
    Moved {
        meeting: u32,
        branch: Option<Box<LocalTxn>>,
        answer: Answer,
    },
    /// Committed: the owner releases the locks.
    Commit(Box<LocalTxn>),
    /// To be undone; the owner answers with [`BranchMessage::Undone`].
    Undo {
        home: usize,
        branch: Box<LocalTxn>,
    },
    Undone,
    /// A transaction that restart found prepared, and for which the owner keeps locks, is decided.
    Release(DoubtGroup),
}

/// Steps to run. There is no branch on the transaction's first visit.
pub(crate) struct Steps {
    pub home: usize,
    pub meeting: u32,
    pub name: u64,
    pub map_version: MapVersion,
    pub branch: Option<Box<LocalTxn>>,
    pub steps: Vec<u8>,
}

/// Steps that a transaction of another worker has here.
pub struct Visit<P> {
    /// The transaction's branch here.
    pub txn: Box<P>,
    pub steps: Vec<u8>,
    pub(crate) home: usize,
    pub(crate) meeting: u32,
}

/// The outcome of steps at another worker.
#[derive(Debug)]
pub struct Answer {
    pub owner: usize,
    pub outcome: Result<(), Abort>,
    pub outputs: Vec<u8>,
}

/// Names the in-doubt locks that are kept for one transaction found prepared, or for several.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct DoubtGroup(pub usize);

/// A local transaction's branches at other workers.
#[derive(Default)]
pub(crate) struct Branches {
    pub away: Vec<(usize, Box<LocalTxn>)>,
    /// For a transaction that restart found prepared: its chains beside the local transaction's
    /// own.
    pub found: Vec<Txn>,
    /// Its in-doubt locks, and the owners that have them in their tables.
    pub group: Option<(DoubtGroup, Vec<usize>)>,
}

impl Branches {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.away.is_empty() && self.found.is_empty() && self.group.is_none()
    }

    pub fn wrote(&self) -> bool {
        self.away.iter().any(|(_, txn)| txn.store_txn.wrote()) || self.found.iter().any(Txn::wrote)
    }

    pub fn take(&mut self, owner: usize) -> Option<Box<LocalTxn>> {
        let at = self.away.iter().position(|(at, _)| *at == owner)?;
        Some(self.away.swap_remove(at).1)
    }

    /// Every chain but the local transaction's own.
    pub fn chains(&mut self) -> impl Iterator<Item = &mut Txn> {
        self.away.iter_mut().map(|(_, txn)| &mut txn.store_txn).chain(&mut self.found)
    }
}

/// A rendezvous: the steps of one phase that are under way to other workers.
#[derive(Default)]
pub(crate) struct Meeting {
    pub missing: usize,
    pub answers: Vec<(Option<Box<LocalTxn>>, Answer)>,
    pub waker: Option<Waker>,
}

/// A worker's rendezvous, by number.
#[derive(Default)]
pub(crate) struct Meetings {
    all: Vec<Meeting>,
    free: Vec<u32>,
}

impl Meetings {
    pub fn open(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.all.push(Meeting::default());
            (self.all.len() - 1) as u32
        })
    }

    pub fn get(&mut self, meeting: u32) -> &mut Meeting {
        &mut self.all[meeting as usize]
    }

    /// Records an answer; wakes the transaction that waits if it was the last.
    pub fn answer(&mut self, meeting: u32, branch: Option<Box<LocalTxn>>, answer: Answer) {
        let meeting = self.get(meeting);
        meeting.answers.push((branch, answer));
        meeting.missing -= 1;
        if meeting.missing == 0
            && let Some(waker) = meeting.waker.take()
        {
            waker.wake();
        }
    }

    pub fn close(&mut self, meeting: u32) -> Vec<(Option<Box<LocalTxn>>, Answer)> {
        self.free.push(meeting);
        std::mem::take(&mut self.get(meeting).answers)
    }
}
