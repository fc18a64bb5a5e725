//! A range of memory from the system itself: its addresses are reserved at once, its memory is used
//! as it is touched, in huge pages if wanted.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// The size of the pages that back the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageSize {
    Normal,
    /// Huge pages where the system has them: fewer TLB misses, memory used in steps of 2 MiB.
    Huge,
}

/// Zeroed memory as words that threads share. The range starts on a page and is unmapped when this
/// value is dropped.
pub struct Span {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to this value alone, is not bound to a thread, and is only reached as
// atomics.
unsafe impl Send for Span {}
// SAFETY: as above.
unsafe impl Sync for Span {}

/// Huge pages begin at multiples of this.
const HUGE: usize = 2 << 20;

impl Span {
    /// Reserves `bytes` (rounded up to whole pages) of addresses. No memory is used until it is
    /// touched.
    ///
    /// # Errors
    /// The system's: usually that there are not that many addresses, or a limit on them.
    pub fn reserve(bytes: usize, pages: PageSize) -> io::Result<Span> {
        let bytes = match pages {
            PageSize::Normal => bytes.max(1).next_multiple_of(4096),
            PageSize::Huge => bytes.max(1).next_multiple_of(HUGE),
        };
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the system's choice overlaps nothing.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, prot, flags) }?;
        if pages == PageSize::Huge {
            // Advice only: without huge pages the same memory is slower.
            // SAFETY: the range is the mapping just made.
            let _ = unsafe { madvise(start, bytes, Advice::LinuxHugepage) };
        }
        let start = NonNull::new(start.cast()).expect("the system never maps page 0 by itself");
        Ok(Span { start, words: bytes / 8 })
    }

    /// Asks the system to back the words from `from` to `to` with memory now, so that their first
    /// use does not wait for it. Advice only: pages that cannot be backed now (no memory, or before
    /// Linux 5.14) are backed at their first use.
    pub fn back(&self, from: usize, to: usize) {
        let page = 4096 / 8;
        let (from, to) = (from.next_multiple_of(page), to.min(self.words) / page * page);
        if from < to {
            let start = self.start.as_ptr().wrapping_add(from);
            // SAFETY: the range lies within the mapping, and backing it changes no word.
            let _ = unsafe { madvise(start.cast(), (to - from) * 8, Advice::LinuxPopulateWrite) };
        }
    }

    #[inline(always)]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has this many words, is aligned to a page, initialised (zeroed by the
        // system) and lives as long as `self`; all access to it is through these atomics.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping made in `reserve`, and references to its words borrow
        // `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.words * 8) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn a_span_is_zeroed_and_keeps_what_is_written() {
        for pages in [PageSize::Normal, PageSize::Huge] {
            let span = Span::reserve(100_000, pages).unwrap();
            let words = span.words();
            assert!(words.len() * 8 >= 100_000);
            assert_eq!(words[words.len() - 1].load(Relaxed), 0);
            words[words.len() - 1].store(7, Relaxed);
            for (from, to) in [(1, 700), (0, words.len()), (600, 600), (9, 4), (0, usize::MAX)] {
                span.back(from, to);
            }
            assert_eq!((words[0].load(Relaxed), words[words.len() - 1].load(Relaxed)), (0, 7));
        }
    }

    #[test]
    fn more_than_there_are_addresses_is_an_error() {
        assert!(Span::reserve(1 << 60, PageSize::Normal).is_err());
    }
}
