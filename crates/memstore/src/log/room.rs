//! The room of a stream for records, and the refusal of changes while the device has none.
//!
//! ```text
//!   eighth of a file used --> the next file is being made --room--> kept: changes begin
//!                                   ^                     --none--> short: changes are refused
//!                                   +------ 50 ms later -------------------+
//! ```
//! A worker asks before it locks the writes of a transaction ([`Room::allowance`]). So a
//! transaction that is refused has no place in the log, and one that has a place ends.
//!
//! - **Unknown**: the next file is being made, or will be. The second half of the current one is
//!   left for transactions that may already commit, for decisions and notes. The workers of the
//!   stream share half of the rest: a block takes all that they have appended, and they append as
//!   much again before the shares are smaller. A worker with a full buffer waits, until the buffer
//!   has been taken or the next file is kept.
//! - **Kept**: the device holds that file for the stream. Then the shares are those of an empty
//!   file.
//! - **Short**: there was no room for it. No change begins. At least half a file is left.
//!
//! A block without a place in either file stays in memory (`Work::held`). It is appended to and
//! tried again, and the transactions in it wait. So even a log that is used up loses nothing and is
//! not broken. That takes one transaction with about half a file of changes, or thousands of
//! decisions and notes while the device is full.

use super::LogOptions;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

/// The pause between two attempts to make a file after one that found no room, ns.
pub(super) const PAUSE_NS: u64 = 50_000_000;

const UNKNOWN: u8 = 0;
const KEPT: u8 = 1;
const SHORT: u8 = 2;

pub(super) struct Room {
    /// The state of the next file. The thread that makes that file stores `KEPT` and `SHORT`. The
    /// thread that holds the stream's work stores all three, while no file is being made.
    next: AtomicU8,
    /// The bytes that each worker may have in its buffer while the state is unknown. Stored by the
    /// thread that holds the stream's work.
    share: AtomicUsize,
    /// The same once the next file is kept.
    most: usize,
    /// The workers of the stream.
    workers: u64,
    /// Whether a block waits for room. Stored by the thread that holds the stream's work.
    holds: AtomicBool,
}

impl Room {
    /// For a stream of so many workers.
    pub(super) fn new(workers: usize, options: &LogOptions) -> Room {
        let workers = workers.max(1) as u64;
        let most = share_of(options.segment_bytes, 0, workers).min(options.backlog_bytes);
        Room {
            next: AtomicU8::new(UNKNOWN),
            share: AtomicUsize::new(0),
            most: most.saturating_add(1),
            workers,
            holds: AtomicBool::new(false),
        }
    }

    /// A worker that has fewer bytes than this in its buffer may begin to commit.
    #[inline]
    pub(super) fn allowance(&self) -> usize {
        match self.next.load(Ordering::Acquire) {
            KEPT => self.most,
            UNKNOWN => self.share.load(Ordering::Relaxed),
            _ => 0,
        }
    }

    /// Whether the device holds the next file.
    pub(super) fn has_next(&self) -> bool {
        self.next.load(Ordering::Acquire) == KEPT
    }

    /// Whether the device had no room when it was last asked for some.
    pub(super) fn is_short(&self) -> bool {
        self.next.load(Ordering::Acquire) == SHORT
    }

    /// The device holds the next file.
    pub(super) fn is_kept(&self) {
        self.next.store(KEPT, Ordering::Release);
    }

    /// The device had no room.
    pub(super) fn is_used_up(&self) {
        self.next.store(SHORT, Ordering::Release);
    }

    /// The current file is another one, or has grown: nothing is known about the next one.
    pub(super) fn begins(&self, at: u64, bytes: u64) {
        self.shares(at, bytes);
        self.next.store(UNKNOWN, Ordering::Release);
    }

    /// The current file of `bytes` bytes is used up to `at`.
    pub(super) fn used(&self, at: u64, bytes: u64) {
        if self.next.load(Ordering::Relaxed) != KEPT {
            self.shares(at, bytes);
        }
    }

    fn shares(&self, at: u64, bytes: u64) {
        self.share.store(share_of(bytes, at, self.workers).min(self.most), Ordering::Relaxed);
    }

    pub(super) fn holds_block(&self) -> bool {
        self.holds.load(Ordering::SeqCst)
    }

    pub(super) fn hold_block(&self, holds: bool) {
        if self.holds_block() != holds {
            self.holds.store(holds, Ordering::SeqCst);
        }
    }
}

/// A worker's share of a file that is used up to `at`.
fn share_of(bytes: u64, at: u64, workers: u64) -> usize {
    let share = (bytes / 2).saturating_sub(at) / (2 * workers);
    usize::try_from(share).unwrap_or(usize::MAX)
}
