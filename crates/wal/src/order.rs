//! What a record must come after.
//!
//! Workers fill the log side by side, so positions need not grow with time. Recovery needs them to grow only where one
//! record builds on another, and whoever appends says so: a change of a page comes after that page's last change, a
//! transaction's record after the one before it, and a record whose meaning rests on more than that (a commit, which
//! rests on every commit whose effects were seen; a page taken from the free list) comes after everything.

use base::Lsn;

/// Where in the log a record may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// It starts at this position or later.
    After(Lsn),
    /// It starts behind every record whose append was over when this one's began.
    Last,
}

impl Order {
    /// Wherever there is room.
    pub const ANY: Order = Order::After(Lsn(0));

    /// This order, and also not before `lsn`.
    #[must_use]
    pub fn not_before(self, lsn: Lsn) -> Order {
        match self {
            Order::After(own) => Order::After(own.max(lsn)),
            Order::Last => Order::Last,
        }
    }

    /// Whether a record of this order may start at `start`, as far as a position alone can tell.
    #[inline]
    pub(crate) fn allows(self, start: u64) -> bool {
        match self {
            Order::After(lsn) => start >= lsn.0,
            Order::Last => true,
        }
    }
}
