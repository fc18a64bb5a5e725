//! What crosses between the instances of one distributed transaction, and what its two durable notes say.

use base::{Gtid, InstanceId};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// A participant's answer to the prepare request. Given once, never changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Vote {
    /// Its prepare record is durable: it can commit and can roll back, whatever happens, and waits to be told which.
    Yes,
    /// It wrote nothing, so either outcome is the same to it: the second phase passes it by.
    ReadOnly,
    /// It has already rolled back.
    No,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Decision {
    Commit,
    Abort,
}

/// Whether, when the prepare request is sent, the whole transaction already holds all its locks.
///
/// Two-phase locking lets nobody release a lock before that point. A prepare request that rides on steps which run
/// at several sites at once (the home's own included) reaches a site *ahead* of it: another site may still be
/// acquiring, and a reader that released now could let a second transaction slip between the two reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum LockPoint {
    /// No other step of the transaction is running or will be sent: read locks may go with the vote.
    Reached,
    /// Other steps still run: read locks stay until [`Message::Release`] or the decision.
    Ahead,
}

/// Between the home instance (H) and a participant (P). The steps and their results travel in the room above; a
/// prepare request may ride on the last steps, and then the vote comes back with their results.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Message {
    /// H to P: all your steps are done, prepare. At most once per participant, never resent.
    Prepare { gtid: Gtid, lock_point: LockPoint },
    /// P to H.
    Vote { gtid: Gtid, vote: Vote },
    /// H to P: to a reader that voted ahead of the lock point; it may release now. Not acknowledged.
    Release { gtid: Gtid },
    /// H to P: the outcome. `Commit` is resent until acknowledged; `Abort` is sent once (presumed abort).
    Decide { gtid: Gtid, decision: Decision },
    /// P to H: the local commit record is durable, the home may forget. Only for `Commit`.
    Ack { gtid: Gtid },
    /// P to H: I have not heard of this one for a while; what became of it?
    Inquire { gtid: Gtid },
}

impl Message {
    pub fn gtid(&self) -> Gtid {
        match *self {
            Message::Prepare { gtid, .. }
            | Message::Vote { gtid, .. }
            | Message::Release { gtid }
            | Message::Decide { gtid, .. }
            | Message::Ack { gtid }
            | Message::Inquire { gtid } => gtid,
        }
    }

    /// Does this message speak to the home's coordinator (else to a participant)?
    pub fn is_for_coordinator(&self) -> bool {
        matches!(self, Message::Vote { .. } | Message::Ack { .. } | Message::Inquire { .. })
    }
}

/// Low bits of a transaction's number that say which worker of its home it belongs to.
pub const WORKER_BITS: u32 = 10;

/// The worker, of so many that an instance has now, that looks after a transaction there: at its home and at every
/// participant. It alone has the machine, so it alone may say that there is none ([`reply_unknown`]); the worker that a
/// message happens to arrive at hands it on. (The two differ when either side comes back with another number of workers.)
pub fn worker_of(gtid: Gtid, workers: usize) -> usize {
    (gtid.number & ((1 << WORKER_BITS) - 1)) as usize % workers
}

/// The reply to a message about a transaction of which the receiver has no state machine. To be given by the worker of
/// [`worker_of`], after the restart has placed every machine that it found in the log.
///
/// At the home that means it was never decided `Commit`, or every participant has acknowledged: *presumed abort*.
/// At a participant it means the transaction never came here, was rolled back, or has committed durably.
/// A home must not answer before it has read the live commit notes of its log back into coordinators.
pub fn reply_unknown(message: Message) -> Option<Message> {
    match message {
        Message::Inquire { gtid } | Message::Vote { gtid, vote: Vote::Yes } => {
            Some(Message::Decide { gtid, decision: Decision::Abort })
        }
        Message::Prepare { gtid, .. } => Some(Message::Vote { gtid, vote: Vote::No }),
        Message::Decide { gtid, decision: Decision::Commit } => Some(Message::Ack { gtid }),
        Message::Vote { .. } | Message::Ack { .. } | Message::Release { .. } | Message::Decide { .. } => None,
    }
}

/// A list of instances that stays in place for the deployments of one machine.
pub type Instances = SmallVec<[InstanceId; 8]>;

/// Rides on the home's commit record, and lives until the home forgets: who still has to be told.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct CommitNote {
    pub gtid: Gtid,
    /// The Yes-voters; never empty (a commit that nobody else has to hear of carries no note).
    pub participants: Vec<InstanceId>,
}

/// Rides on a participant's prepare record: whom to ask after a restart (`gtid.home`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct PrepareNote {
    pub gtid: Gtid,
}
