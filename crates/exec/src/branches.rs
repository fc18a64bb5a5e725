//! A transaction's work at several workers of one instance.
//!
//! A *branch* is an ordinary [`Part`]: a chain in the log, an undo list, locks in one owner's table. It is a value that travels:
//! it goes to its owner with the steps, comes back with their results, and goes there once more to end. So whoever holds it may
//! touch it, nobody ever shares it, and an owner keeps no list of transactions. Its locks stay where they are: they are asked for and
//! given back on the owner's thread only.
//!
//! A letter with steps says where they lie ([`Stamp`]): whose a key is may have changed while it was on its way. Then nothing is done, and it
//! goes back as [`Letter::Moved`], to be sent to where the steps belong now.
//!
//! The home has all branches in its hands when it commits, so it appends the one record that names them
//! ([`store::Store::commit_together`]) and sends them back. An owner releases the locks when the branch is back: whoever takes
//! them then logs behind that record.

use crate::chart::Stamp;
use crate::local::Part;
use std::task::Waker;
use store::Txn;
use txn::Abort;

/// What workers send each other.
pub(crate) enum Letter {
    Steps(Steps),
    Answer {
        meeting: u32,
        branch: Box<Part>,
        answer: Answer,
    },
    /// The steps belong to somebody else by now; the branch is as it was, if there was one.
    Moved {
        meeting: u32,
        branch: Option<Box<Part>>,
        answer: Answer,
    },
    /// Committed: locks may go.
    Commit(Box<Part>),
    /// To be undone; answered by [`Letter::Undone`].
    Undo {
        home: usize,
        branch: Box<Part>,
    },
    Undone,
    /// One of the transactions found prepared that the owner keeps locks for is decided.
    Release(Ward),
}

/// Steps to run; without a branch it is the transaction's first visit.
pub(crate) struct Steps {
    pub home: usize,
    pub meeting: u32,
    pub name: u64,
    pub stamp: Stamp,
    pub branch: Option<Box<Part>>,
    pub steps: Vec<u8>,
}

/// Steps that another worker's transaction has here.
pub struct Visit<P> {
    /// The transaction's work here.
    pub part: Box<P>,
    pub steps: Vec<u8>,
    pub(crate) home: usize,
    pub(crate) meeting: u32,
}

/// What became of steps at another worker.
#[derive(Debug)]
pub struct Answer {
    pub owner: usize,
    pub outcome: Result<(), Abort>,
    pub outputs: Vec<u8>,
}

/// Names the locks that are kept for a transaction found prepared, or for several.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Ward(pub usize);

/// A part's branches at other workers.
#[derive(Default)]
pub(crate) struct Branches {
    pub away: Vec<(usize, Box<Part>)>,
    /// Chains of a transaction that restart found prepared, beside the part's own, its ward, and the owners in whose tables that
    /// has locks.
    pub found: Vec<Txn>,
    pub wards: Option<(Ward, Vec<usize>)>,
}

impl Branches {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.away.is_empty() && self.found.is_empty() && self.wards.is_none()
    }

    pub fn wrote(&self) -> bool {
        self.away.iter().any(|(_, part)| part.txn.wrote()) || self.found.iter().any(Txn::wrote)
    }

    pub fn take(&mut self, owner: usize) -> Option<Box<Part>> {
        let at = self.away.iter().position(|(at, _)| *at == owner)?;
        Some(self.away.swap_remove(at).1)
    }

    /// Every chain but the part's own.
    pub fn chains(&mut self) -> impl Iterator<Item = &mut Txn> {
        self.away.iter_mut().map(|(_, part)| &mut part.txn).chain(&mut self.found)
    }
}

/// Steps under way to other workers, all of one phase.
#[derive(Default)]
pub(crate) struct Meeting {
    pub missing: usize,
    pub answers: Vec<(Option<Box<Part>>, Answer)>,
    pub waker: Option<Waker>,
}

/// A worker's meetings, by number.
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

    /// Brings an answer; wakes who waits if it was the last.
    pub fn answer(&mut self, meeting: u32, branch: Option<Box<Part>>, answer: Answer) {
        let meeting = self.get(meeting);
        meeting.answers.push((branch, answer));
        meeting.missing -= 1;
        if meeting.missing == 0
            && let Some(waker) = meeting.waker.take()
        {
            waker.wake();
        }
    }

    pub fn close(&mut self, meeting: u32) -> Vec<(Option<Box<Part>>, Answer)> {
        self.free.push(meeting);
        std::mem::take(&mut self.get(meeting).answers)
    }
}
