//! What all expressions of a program are evaluated with.

use crate::datetime::zone::Zone;
use crate::{Datum, SqlError, SqlState};

/// All that an expression needs besides its row.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub params: &'a [Datum],
    /// When the transaction began, in microseconds since 2000-01-01 UTC.
    pub now: i64,
    /// The session's: instants are read and shown as times in it.
    pub zone: &'a Zone,
    /// 64 random bits a call, for `random()` and `gen_random_uuid()`.
    pub random: &'a dyn Fn() -> u64,
}

/// The error for an operand of a type that the compiler should not have let pass.
#[cold]
pub(super) fn mistyped() -> SqlError {
    SqlError::new(
        SqlState::INTERNAL,
        "an expression has an operand of a type that its operator does not take",
    )
}
