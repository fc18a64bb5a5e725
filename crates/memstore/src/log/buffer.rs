//! Where one worker's records wait to be written.
//!
//! Who may do what: one worker appends, while it says that it commits (`epoch::What::Committing`) since an epoch not
//! later than the record's; whoever holds the stream takes everything there is. Whoever has ended an epoch and then finds nobody
//! committing since that epoch or before therefore takes all its records, or they were taken before: a worker says that
//! it no longer commits only after the record is here.
//!
//! The lock is the worker's own but for the few instructions in which the bytes are taken away: no two workers share one.

use super::sync::{CachePadded, SpinMutex};

/// The flusher is woken once per this many bytes, so that buffers drain early.
pub(crate) const NUDGE_BYTES: usize = 1 << 18;

pub(crate) struct Buffer(CachePadded<SpinMutex<Held>>);

#[derive(Default)]
struct Held {
    bytes: Vec<u8>,
    records: u64,
}

impl Buffer {
    pub(crate) fn new() -> Buffer {
        Buffer(CachePadded::new(SpinMutex::new(Held::default())))
    }

    /// Has `write` append what is one thing to say. Returns how many bytes there were before and are there now.
    #[inline]
    pub(crate) fn append(&self, write: impl FnOnce(&mut Vec<u8>)) -> (usize, usize) {
        let mut held = self.0.lock();
        let before = held.bytes.len();
        write(&mut held.bytes);
        held.records += 1;
        (before, held.bytes.len())
    }

    /// Takes what there is, for an empty vector that goes on in its place; how many things were said.
    pub(crate) fn take(&self, bytes: &mut Vec<u8>) -> u64 {
        debug_assert!(bytes.is_empty(), "records that were not written would be appended once more");
        let mut held = self.0.lock();
        std::mem::swap(&mut held.bytes, bytes);
        std::mem::take(&mut held.records)
    }

    /// Whether it should not wait for company.
    pub(crate) fn is_filling(&self) -> bool {
        self.0.lock().bytes.len() >= NUDGE_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().bytes.is_empty()
    }
}
