//! What a worker remembers of distributed transactions: those at home here, and its parts of others'.

use crate::links::LinkId;
use base::{Gtid, Lsn};
use exec::NoteId;
use exec::Visit;
use std::task::Waker;
use twophase::{Coordinator, LockPoint, Participant};
use wire::Ride;

/// A distributed transaction whose home is this worker.
pub(crate) struct Home {
    pub machine: Coordinator,
    /// The next step is the task's: append the commit record, with a note for these participants or none.
    pub log_commit: Option<twophase::Instances>,
    pub aborted: bool,
    pub note: Option<NoteId>,
    pub waker: Option<Waker>,
    pub since_ns: u64,
}

/// A commit of a remote transaction that is acknowledged once it is durable.
pub(crate) struct PendingAck {
    pub lsn: Lsn,
    pub gtid: Gtid,
    pub link: Option<LinkId>,
}

impl Home {
    pub(crate) fn new(machine: Coordinator) -> Home {
        let since_ns = world::now_ns();
        Home { machine, log_commit: None, aborted: false, note: None, waker: None, since_ns }
    }
}

/// One remote transaction's part at this worker.
pub(crate) struct Session<P> {
    pub machine: Participant,
    pub part: Option<P>,
    /// Where its requests come from; `None` after a restart or when that link broke.
    pub link: Option<LinkId>,
    /// To be rolled back as soon as the task that serves it is back.
    pub cancelled: bool,
    pub since_ns: u64,
}

/// A request that waits for a task.
pub(crate) enum Job<P> {
    /// From another worker of the instance.
    Visit(Visit<P>),
    Steps {
        link: LinkId,
        call: u32,
        gtid: Gtid,
        ride: Ride,
        steps: Vec<u8>,
    },
    Prepare {
        link: LinkId,
        gtid: Gtid,
        lock_point: LockPoint,
    },
    Submit {
        link: LinkId,
        call: u64,
        request: Vec<u8>,
    },
}
