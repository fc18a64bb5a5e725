//! The lease of this machine: how long its instances may answer.
//!
//! Commits need no lease, because a quorum keeps the log of one owner only (`relay`). Answers that
//! only read touch no log. So every frame that leaves an instance looks at the clock, if the
//! process has a lease: an owner that was cut off is silent before its successor begins.

use std::sync::atomic::{AtomicU64, Ordering};

/// [`world::now_ns`] at which the lease ends; the largest number: there is none.
static UNTIL_NS: AtomicU64 = AtomicU64::new(u64::MAX);

/// The instances of this process answer until [`world::now_ns`] is `ns`, or a later call moves it.
/// The caller leaves a margin to the time at which a successor may begin.
pub fn answer_until(ns: u64) {
    UNTIL_NS.store(ns, Ordering::Release);
}

/// Whether the instances of this process must not answer.
#[inline]
pub fn is_over() -> bool {
    let until = UNTIL_NS.load(Ordering::Acquire);
    until != u64::MAX && world::now_ns() >= until
}
