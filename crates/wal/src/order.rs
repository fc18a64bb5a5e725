//! What a record must come after.
//!
//! Workers fill the log side by side, so positions need not grow with time. Recovery needs them to grow only where one
//! record builds on another, and whoever appends says so: a change of a page comes after that page's last change, a
//! transaction's record after the one before it, and a record whose meaning rests on more than that (a page taken from the
//! free list) comes after everything.
//!
//! A commit rests on every commit whose effects were seen, but nothing has to be *repeated* in that order: all that matters
//! is that it does not count when one of those was lost. So it goes wherever there is room and says how much of the log it
//! rests on, and the reader passes it over if a crash left less.

use base::Lsn;

/// Where in the log a record may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// It starts at this position or later.
    After(Lsn),
    /// It starts behind every record whose append was over when this one's began.
    Last,
    /// It starts at this position or later, wherever there is room, and rests on every record whose append was over when
    /// this one's began: should a crash lose one of those, this one is not given back either
    /// ([`RecordHeader::rests_on`](crate::RecordHeader::rests_on)). For records that say what became of a transaction, not for
    /// changes of pages.
    Resting(Lsn),
}

impl Order {
    /// Wherever there is room.
    pub const ANY: Order = Order::After(Lsn(0));

    /// This order, and also not before `lsn`.
    #[must_use]
    pub fn not_before(self, lsn: Lsn) -> Order {
        match self {
            Order::After(own) => Order::After(own.max(lsn)),
            Order::Resting(own) => Order::Resting(own.max(lsn)),
            Order::Last => Order::Last,
        }
    }

    /// Whether a record of this order may start at `start`, as far as a position alone can tell.
    #[inline]
    pub(crate) fn allows(self, start: u64) -> bool {
        match self {
            Order::After(lsn) | Order::Resting(lsn) => start >= lsn.0,
            Order::Last => true,
        }
    }
}
