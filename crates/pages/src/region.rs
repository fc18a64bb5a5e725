//! Reserved addresses: memory that the system allocates on the first touch, and frees when it is
//! given back.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::io;

/// `bytes` of zeroed private memory, reserved and not allocated until touched.
pub(crate) struct Region {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: a region is plain memory that belongs to no thread; the pool's protocol governs access to
// its bytes.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    pub fn new(bytes: usize) -> io::Result<Region> {
        let bytes = bytes.next_multiple_of(1 << 12);
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing that exists.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, prot, flags) }?.cast();
        Ok(Region { start, bytes })
    }

    #[inline]
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// Asks for huge pages in the first `bytes` bytes, where the system grants them on request:
    /// they need far fewer address translations. Pages are numbered from the start without gaps, so
    /// a database that fits in memory lies completely in these bytes. Giving back a part of a huge
    /// page splits it.
    pub fn prefer_huge_pages(&self, bytes: usize) {
        // SAFETY: the range is inside this value's own mapping; the advice changes no byte of it.
        let asked = unsafe { madvise(self.start.cast(), bytes.min(self.bytes), Advice::LinuxHugepage) };
        // A kernel without huge pages refuses, and ordinary pages are used.
        let _ = asked;
    }

    /// Reverts [`Region::prefer_huge_pages`]. Existing huge pages stay until a part of them is
    /// given back.
    pub fn refuse_huge_pages(&self) {
        // SAFETY: as above.
        let _ = unsafe { madvise(self.start.cast(), self.bytes, Advice::LinuxNoHugepage) };
    }

    /// Asks the system to allocate memory for the bytes from `from` to `to` now, so that their
    /// first use is faster. This is a hint. If memory is short, or before Linux 5.14, the memory is
    /// allocated on first use.
    pub fn back(&self, from: usize, to: usize) {
        let (from, to) = (from.next_multiple_of(1 << 12), to.min(self.bytes) & !((1 << 12) - 1));
        if from < to {
            // SAFETY: inside the mapping, and backing memory changes no byte of it.
            let _ = unsafe { madvise(self.start.add(from).cast(), to - from, Advice::LinuxPopulateWrite) };
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives the memory of `bytes` bytes at `at` (multiples of 4096) back. These bytes then read as
    /// zeros.
    ///
    /// # Safety
    /// No thread holds a reference into these bytes.
    pub unsafe fn give_back(&self, at: usize, bytes: usize) {
        assert!(at + bytes <= self.bytes);
        // SAFETY: inside the mapping, and no thread reads it, as the caller promises.
        let done = unsafe { madvise(self.start.add(at).cast(), bytes, Advice::LinuxDontNeed) };
        // The kernel checks only that the range is valid and unlocked, which it is.
        done.expect("giving memory back cannot fail");
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value, and no thread can reach it any more.
        let _ = unsafe { munmap(self.start.cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_backed_ahead_is_zeroed_and_what_was_written_stays() {
        let region = Region::new(1 << 20).unwrap();
        // SAFETY: the byte lies inside the mapping, which no other thread knows.
        unsafe { region.start().add(5000).write(7) };
        for (from, to) in [(4097, 100_000), (0, usize::MAX), (9, 4), (1 << 20, 1 << 21)] {
            region.back(from, to);
        }
        // SAFETY: as above; all of it is initialised, by the system.
        let bytes = unsafe { std::slice::from_raw_parts(region.start(), 1 << 20) };
        assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == if at == 5000 { 7 } else { 0 }));
    }
}
