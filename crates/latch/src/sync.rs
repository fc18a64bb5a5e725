//! The primitives the latches are built from. The loom models compile the same latch files against loom's
//! versions of these names (see `models.rs`).

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
pub(crate) use std::thread::yield_now;

/// Sleeps for `us` microseconds: the last resort of a waiter.
pub(crate) fn nap_us(us: u64) {
    std::thread::sleep(std::time::Duration::from_micros(us));
}
