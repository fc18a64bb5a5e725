//! The place that a record requires relative to other records.
//!
//! Workers fill different parts of the log at once, so positions need not ascend with time.
//! Recovery needs ascending positions only where one record builds on another, and the appender
//! states which:
//!
//! - a change of a page comes after the page's last change;
//! - a record of a transaction comes after the transaction's previous record;
//! - a record that depends on more than that (a page taken from the free list) comes after all
//!   records.
//!
//! A commit depends on each commit of which the transaction saw effects, but redo does not repeat
//! commits in that order. It is enough that a commit does not count when an earlier one that it
//! depends on was lost. So a commit goes wherever there is room and states how much of the log it
//! depends on. The reader skips it if a crash left less.
//!
//! ```text
//! T1 commits at 5000.  T2 saw T1's row and commits at 3000, in an older extent: depends on 6000.
//! A crash leaves the log up to 4000: T1's commit is lost, and the reader skips T2's commit.
//! ```

use base::Lsn;

/// The places in the log at which a record may start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogOrder {
    /// At this position or later.
    After(Lsn),
    /// Past every record of which the append was over when this append began.
    Last,
    /// At this position or later, wherever there is room. The record depends on every record of
    /// which the append was over when this append began: if a crash loses one of those, the reader
    /// skips this record too ([`RecordHeader::depends_on`](crate::RecordHeader::depends_on)). For
    /// records that state the outcome of a transaction, not for changes of pages.
    Dependent(Lsn),
}

impl LogOrder {
    /// Any place.
    pub const ANY: LogOrder = LogOrder::After(Lsn(0));

    /// This order, and also at `lsn` or later.
    #[must_use]
    #[inline]
    pub fn not_before(self, lsn: Lsn) -> LogOrder {
        match self {
            LogOrder::After(own) => LogOrder::After(own.max(lsn)),
            LogOrder::Dependent(own) => LogOrder::Dependent(own.max(lsn)),
            LogOrder::Last => LogOrder::Last,
        }
    }

    /// Whether a record of this order may start at `start`, as far as the position alone tells.
    #[inline]
    pub(crate) fn allows(self, start: u64) -> bool {
        match self {
            LogOrder::After(lsn) | LogOrder::Dependent(lsn) => start >= lsn.0,
            LogOrder::Last => true,
        }
    }
}
