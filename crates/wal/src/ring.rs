//! The ring: the bytes that are appended and not yet written. Position P of the log lies at P
//! modulo the ring's size.
//!
//! Access rules: an appender writes the positions reserved for it, once the flusher has finished
//! with the bytes that lay there before. The flusher reads the positions between `written` and the
//! end of the complete part. [`crate::insert`] keeps the two apart; the ring only copies.

use std::cell::UnsafeCell;
use world::SharedMemory;

pub(crate) struct Ring {
    start: *mut u8,
    /// Size minus one; the size is a power of two.
    mask: usize,
    _memory: Memory,
}

/// The memory of the ring, kept for its destructor.
#[expect(dead_code, reason = "held, never read")]
enum Memory {
    Own(Box<[UnsafeCell<u8>]>),
    Shared(Box<dyn SharedMemory>),
}

// SAFETY: the ring is plain memory that belongs to no thread. The callers' protocol (above) keeps
// two threads off one byte.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    pub fn own(bytes: usize) -> Ring {
        debug_assert!(bytes.is_power_of_two());
        let memory: Box<[UnsafeCell<u8>]> = (0..bytes).map(|_| UnsafeCell::new(0)).collect();
        let start = UnsafeCell::raw_get(memory.as_ptr());
        Ring { start, mask: bytes - 1, _memory: Memory::Own(memory) }
    }

    /// The first `bytes` of `memory`.
    pub fn shared(memory: Box<dyn SharedMemory>, bytes: usize) -> Ring {
        debug_assert!(bytes.is_power_of_two() && bytes <= memory.bytes());
        Ring { start: memory.start(), mask: bytes - 1, _memory: Memory::Shared(memory) }
    }

    pub fn bytes(&self) -> usize {
        self.mask + 1
    }

    /// Copies `data` to position `at`.
    ///
    /// # Safety
    /// No other thread accesses these positions during the call.
    #[inline]
    pub unsafe fn put(&self, at: u64, data: &[u8]) {
        debug_assert!(data.len() <= self.bytes());
        let from = at as usize & self.mask;
        let first = data.len().min(self.bytes() - from);
        // SAFETY: `from + first` and the rest are inside the ring; the caller has exclusive use of
        // these positions.
        unsafe {
            std::ptr::copy_nonoverlapping(data.as_ptr(), self.start.add(from), first);
            if first < data.len() {
                std::ptr::copy_nonoverlapping(data.as_ptr().add(first), self.start, data.len() - first);
            }
        }
    }

    /// The memory of `len` bytes at position `at`, to be written; `None` if it wraps round the end
    /// of the ring.
    ///
    /// # Safety
    /// As [`Ring::put`], for as long as the slice is used.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the positions are the caller's, as in `put`")]
    pub unsafe fn place(&self, at: u64, len: usize) -> Option<&mut [u8]> {
        let from = at as usize & self.mask;
        if len > self.bytes() - from {
            return None;
        }
        // SAFETY: inside the ring, initialised when it was made, and the caller has exclusive use
        // of these positions.
        Some(unsafe { std::slice::from_raw_parts_mut(self.start.add(from), len) })
    }

    /// The bytes at positions `from..to`, in at most two pieces.
    ///
    /// # Safety
    /// No thread writes these positions as long as the pieces are used.
    pub unsafe fn pieces(&self, from: u64, to: u64) -> [&[u8]; 2] {
        let len = (to - from) as usize;
        debug_assert!(len <= self.bytes());
        let at = from as usize & self.mask;
        let first = len.min(self.bytes() - at);
        // SAFETY: inside the ring, initialised when it was made, and not written meanwhile, as the
        // caller promises.
        unsafe {
            [
                std::slice::from_raw_parts(self.start.add(at), first),
                std::slice::from_raw_parts(self.start, len - first),
            ]
        }
    }
}
