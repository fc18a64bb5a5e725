//! The messages between the instances of one distributed transaction, and the contents of its two
//! durable notes.

use base::{Gtid, InstanceId};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// A participant's answer to the prepare request. Given once, never changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Vote {
    /// Its prepare record is durable: it can still commit or roll back, even after a crash, and
    /// waits for the decision.
    Yes,
    /// It wrote nothing, so both outcomes are the same to it: it takes no part in the second phase.
    ReadOnly,
    /// It has already rolled back.
    No,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Decision {
    Commit,
    Abort,
}

/// Whether the whole transaction already holds all its locks when the prepare request is sent.
///
/// Two-phase locking lets no site release a lock before that point. A prepare request that rides on
/// steps that run at several sites at once (the home's own included) reaches a site *ahead* of it:
/// another site may still be acquiring locks.
///
/// ```text
///   T1 reads x at A, releases it | T2 writes x at A and y at B, commits | T1 reads y at B
/// ```
///
/// If A let T1 release its lock on x with its vote, T2 could come between T1's two reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum LockPoint {
    /// No other step of the transaction runs or will be sent: read locks may go with the vote.
    Reached,
    /// Other steps still run: read locks stay until [`Message::Release`] or the decision.
    Ahead,
}

/// A message between the home instance (H) and a participant (P). The crate above carries the steps
/// and their results; a prepare request may ride on the last steps, and then the vote comes back
/// with their results.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Message {
    /// H to P: all steps of the transaction at P are done, prepare. At most once per participant,
    /// never resent.
    Prepare { gtid: Gtid, lock_point: LockPoint },
    /// P to H.
    Vote { gtid: Gtid, vote: Vote },
    /// H to P, to a reader that voted ahead of the lock point: it may release its locks. Not
    /// acknowledged.
    Release { gtid: Gtid },
    /// H to P: the outcome. `Commit` is resent until acknowledged, `Abort` is sent once (presumed
    /// abort).
    Decide { gtid: Gtid, decision: Decision },
    /// P to H: the local commit record is durable, the home may forget. Only for `Commit`.
    Ack { gtid: Gtid },
    /// P to H: P asks for the outcome, because it has had no message on the transaction for a
    /// while.
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

    /// Whether the message is for the home's coordinator (else it is for a participant).
    pub fn is_for_coordinator(&self) -> bool {
        matches!(self, Message::Vote { .. } | Message::Ack { .. } | Message::Inquire { .. })
    }
}

/// The low bits of a transaction's number that name its worker at its home.
pub const WORKER_BITS: u32 = 10;

/// The worker, of `workers` at an instance at present, that is responsible for a transaction there:
/// at its home and at every participant. It alone has the machine, so it alone may say that there
/// is none ([`reply_unknown`]). A worker that gets a message for another one hands it on. (The two
/// differ when either side restarts with another number of workers.)
pub fn worker_of(gtid: Gtid, workers: usize) -> usize {
    (gtid.number & ((1 << WORKER_BITS) - 1)) as usize % workers
}

/// The reply to a message about a transaction for which the receiver has no state machine. Only the
/// worker of [`worker_of`] gives it, after the restart has placed every machine that it found in
/// the log.
///
/// At the home it means that the transaction was never decided `Commit`, or that every participant
/// has acknowledged: *presumed abort*. At a participant it means that the transaction never came
/// there, was rolled back, or has committed durably. A home must not answer before it has read the
/// live commit notes of its log back into coordinators.
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

/// A list of instances, without an allocation for the deployments of one machine.
pub type Instances = SmallVec<[InstanceId; 8]>;

/// The note on the home's commit record: the participants that must still be told. It lives until
/// the home forgets it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct CommitNote {
    pub gtid: Gtid,
    /// The Yes-voters; never empty (a commit that no other instance has to be told of carries no
    /// note).
    pub participants: Vec<InstanceId>,
}

/// The note on a participant's prepare record: the home to ask after a restart (`gtid.home`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct PrepareNote {
    pub gtid: Gtid,
}
