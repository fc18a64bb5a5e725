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

pub(crate) struct Buffer(CachePadded<SpinMutex<Vec<u8>>>);

impl Buffer {
    pub(crate) fn new() -> Buffer {
        Buffer(CachePadded::new(SpinMutex::new(Vec::new())))
    }

    /// Has `write` append records. Returns how many bytes there were before and are there now.
    #[inline]
    pub(crate) fn append(&self, write: impl FnOnce(&mut Vec<u8>)) -> (usize, usize) {
        let mut bytes = self.0.lock();
        let before = bytes.len();
        write(&mut bytes);
        (before, bytes.len())
    }

    /// Takes what there is, for an empty vector that goes on in its place.
    pub(crate) fn take(&self, bytes: &mut Vec<u8>) {
        debug_assert!(bytes.is_empty(), "records that were not written would be appended once more");
        std::mem::swap(&mut *self.0.lock(), bytes);
    }

    /// Whether it should not wait for company.
    pub(crate) fn is_filling(&self) -> bool {
        self.0.lock().len() >= NUDGE_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}
