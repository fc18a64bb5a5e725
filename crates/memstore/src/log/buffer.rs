//! The buffer in which one worker's records wait to be written.
//!
//! Protocol: one worker appends, while it has published that it commits
//! (`epoch::EpochUse::Committing`) since an epoch not later than the record's. The thread that
//! holds the stream takes everything.
//!
//! Why no record of a complete epoch is missed: the thread ends an epoch, and then finds that no
//! worker commits since that epoch or an earlier one. A worker withdraws that it commits only after
//! its record is in the buffer. So every record of that epoch has been taken, or is taken now.
//!
//! The buffer's lock is the worker's own except for the few instructions in which its bytes are
//! taken. No two workers share one.

use super::sync::{CachePadded, SpinMutex};
use latch::Rank;

/// A flusher is woken once per this many bytes, so that buffers drain early.
pub(crate) const NUDGE_BYTES: usize = 1 << 18;

pub(crate) struct Buffer(CachePadded<SpinMutex<Held>>);

#[derive(Default)]
struct Held {
    bytes: Vec<u8>,
    records: u64,
}

impl Buffer {
    pub(crate) fn new() -> Buffer {
        Buffer(CachePadded::new(SpinMutex::ranked(Rank::MemBuffer, Held::default())))
    }

    /// Has `write` append the records of one event. Returns the number of bytes before and after.
    #[inline]
    pub(crate) fn append(&self, write: impl FnOnce(&mut Vec<u8>)) -> (usize, usize) {
        let mut held = self.0.lock();
        let before = held.bytes.len();
        write(&mut held.bytes);
        held.records += 1;
        (before, held.bytes.len())
    }

    /// Takes all bytes and leaves an empty vector in their place. Returns the number of events.
    pub(crate) fn take(&self, bytes: &mut Vec<u8>) -> u64 {
        debug_assert!(bytes.is_empty(), "records that were not written would be appended once more");
        let mut held = self.0.lock();
        std::mem::swap(&mut held.bytes, bytes);
        std::mem::take(&mut held.records)
    }

    /// The bytes that wait to be taken.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().bytes.len()
    }

    /// Whether its records should be written now, without waiting for more.
    pub(crate) fn is_filling(&self) -> bool {
        self.len() >= NUDGE_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
