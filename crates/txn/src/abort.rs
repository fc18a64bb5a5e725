//! The reasons for which a transaction ends without effect.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The reason of an abort: expected, small, counted by reason. A *fault* is different: I/O error or
/// corruption. It carries its context in the engine and poisons the instance. Transactions that
/// meet it abort with [`Abort::Fault`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Abort {
    /// The procedure itself aborted (an unknown item, an empty balance). The workload defines the
    /// number.
    User(u16),
    /// Waiting for a lock would have closed a cycle.
    Deadlock,
    /// A lock was not granted in time. Deadlocks over several instances end in this way.
    LockTimeout,
    /// Another instance could not do its part.
    Participant,
    /// An instance that this transaction needs is down, or was lost before the decision.
    InstanceDown,
    /// Another transaction has changed, or is about to change, data that this one has read: found
    /// when an optimistic engine validates. Or keys moved to another owner while a scan over them
    /// was on its way.
    Conflict,
    /// The engine ran this transaction without locks, and it turned out to need them. The engine
    /// runs it again at once, and no client sees this abort.
    NeedsLocks,
    /// The step belongs to this worker of the instance, not to the one that received it. It is
    /// forwarded at once, and no client sees this abort.
    NotHere(u16),
    /// The arguments do not fit the procedure or the table (too long a row, a malformed step).
    BadRequest,
    /// The data file or the buffer pool is full.
    NoSpace,
    /// The instance has met an I/O error or corruption and accepts nothing more.
    Fault,
    /// The instance is shutting down.
    Stopping,
    /// The lock table has no number left: too many transactions hold locks.
    Crowded,
    /// The procedure issued steps after the phase that it declared as its last: nothing would
    /// protect them. A bug of the procedure.
    AfterLast,
    /// A request, its steps, their results or its reply is longer than a message may be.
    TooLong,
    /// A link to an instance that this transaction needs has no room at present.
    Overloaded,
    /// The client left while its transaction waited for its next message.
    Abandoned,
}

impl Abort {
    /// The name used in result rows.
    pub fn name(self) -> &'static str {
        match self {
            Abort::User(_) => "user",
            Abort::Deadlock => "deadlock",
            Abort::LockTimeout => "lock_timeout",
            Abort::Participant => "participant",
            Abort::InstanceDown => "instance_down",
            Abort::Conflict => "conflict",
            Abort::NeedsLocks => "needs_locks",
            Abort::NotHere(_) => "not_here",
            Abort::BadRequest => "bad_request",
            Abort::NoSpace => "no_space",
            Abort::Fault => "fault",
            Abort::Stopping => "stopping",
            Abort::Crowded => "crowded",
            Abort::AfterLast => "after_last",
            Abort::TooLong => "too_long",
            Abort::Overloaded => "overloaded",
            Abort::Abandoned => "abandoned",
        }
    }

    /// Whether the same request may succeed if it is run again.
    pub fn is_transient(self) -> bool {
        use Abort::{Conflict, Crowded, Deadlock, InstanceDown, LockTimeout, Overloaded, Participant};
        matches!(self, Conflict | Crowded | Deadlock | LockTimeout | Participant | InstanceDown | Overloaded)
    }
}

/// As a sentence, for messages.
impl fmt::Display for Abort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Abort::User(reason) => return write!(f, "the procedure decided so, for its reason {reason}"),
            Abort::Deadlock => "it would have waited in a circle of locks; try it again",
            Abort::LockTimeout => "a lock was not granted in time; try it again",
            Abort::Participant => "another instance could not do its part; try it again",
            Abort::InstanceDown => "an instance that it needs is down; try it again later",
            Abort::Conflict => "another transaction changed data that this one had read; try it again",
            Abort::NeedsLocks | Abort::NotHere(_) => "it was run in a way that does not fit it",
            Abort::BadRequest => "its arguments do not fit the procedure or the table",
            Abort::NoSpace => "the data file or the memory is full",
            Abort::Fault => "the instance has met an error and accepts nothing more; see its message",
            Abort::Stopping => "the instance is shutting down",
            Abort::Crowded => "as many transactions hold locks as there may be; try it again",
            Abort::AfterLast => {
                "its procedure issued steps after those that it said were its last; mend the procedure"
            }
            Abort::TooLong => {
                "its request, a result or its reply is longer than the 16 MiB of a message; ask for less at once"
            }
            Abort::Abandoned => "its client left before it ended",
            Abort::Overloaded => "a link between instances has no room for now; try it again later",
        };
        f.write_str(text)
    }
}
