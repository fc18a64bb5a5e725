//! The memory of a pair of rings: a sealed memfd shared with one other process, or private pages
//! shared between threads of this one.
//!
//! # Access rules
//!
//! Every holder of the region may read and write every word of it, atomically, at any time; the
//! rings define the meaning of the words. The memfd is sealed against shrinking and growing
//! *before* either end uses it, so no access can fault with SIGBUS because the peer truncated the
//! file.

use crate::error::{ChannelError, Doing};
use crate::ring::{INDEX_WORDS, Words};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat, memfd_create,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Bytes of data in each of the two rings: 256 KiB hold about a thousand step requests and still
/// fit a core's L2.
pub(crate) const RING_BYTES: usize = 256 * 1024;
/// The ring sizes that a connector accepts from a listener.
const LEAST_RING_BYTES: usize = 64 * 1024;
const MOST_RING_BYTES: usize = 64 * 1024 * 1024;

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Mapped memory for two rings of equal size.
pub(crate) struct Region {
    base: NonNull<AtomicU64>,
    bytes: usize,
    ring_words: usize,
}

// SAFETY: the region is only reached as `&[AtomicU64]`, which any thread may share. The mapping is
// not bound to a thread and is undone when the last owner drops it.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

/// One of the two rings of a region.
#[derive(Clone, Copy)]
pub(crate) enum Which {
    First,
    Second,
}

/// The words of one ring of a region.
#[derive(Clone)]
pub(crate) struct RingMemory {
    region: Arc<Region>,
    range: Range<usize>,
}

fn words_for(ring_bytes: usize) -> usize {
    INDEX_WORDS + ring_bytes / 8
}

fn region_bytes(ring_bytes: usize) -> usize {
    2 * 8 * words_for(ring_bytes)
}

impl Region {
    /// Pages of this process alone.
    pub(crate) fn private(ring_bytes: usize) -> Result<Arc<Region>, ChannelError> {
        let bytes = region_bytes(ring_bytes);
        // SAFETY: a new anonymous mapping at an address that the kernel chooses touches no existing
        // memory.
        let base = unsafe {
            mmap_anonymous(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
        Ok(Region::of(base.doing("mapping memory for an in-process ring")?, bytes, ring_bytes))
    }

    /// New sealed shared memory, and its descriptor for the peer.
    pub(crate) fn shared(ring_bytes: usize) -> Result<(Arc<Region>, OwnedFd), ChannelError> {
        let bytes = region_bytes(ring_bytes);
        let fd = memfd_create(c"atoll-channel", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .doing("creating shared memory for a ring")?;
        // Allocates the pages now: lack of memory is an error here and not a signal later.
        fallocate(&fd, FallocateFlags::empty(), 0, bytes as u64)
            .doing("reserving shared memory for a ring (is there memory left for this process?)")?;
        fcntl_add_seals(&fd, SEALS).doing("sealing the shared memory of a ring")?;
        Ok((Region::map(&fd, bytes, ring_bytes)?, fd))
    }

    /// Shared memory received from a peer; its seals and its size are checked before it is mapped.
    pub(crate) fn received(fd: OwnedFd, ring_bytes: usize) -> Result<Arc<Region>, ChannelError> {
        if !ring_bytes.is_power_of_two() || !(LEAST_RING_BYTES..=MOST_RING_BYTES).contains(&ring_bytes) {
            return Err(ChannelError::Protocol { what: "a ring of an impossible size was offered" });
        }
        let bytes = region_bytes(ring_bytes);
        let seals = fcntl_get_seals(&fd)
            .map_err(|_| ChannelError::Protocol { what: "the offered ring is no sealed memory" })?;
        if !seals.contains(SEALS) {
            return Err(ChannelError::Protocol { what: "the offered memory is not sealed" });
        }
        let size = fstat(&fd).doing("looking at the size of shared memory")?.st_size;
        if size != bytes as i64 {
            return Err(ChannelError::Protocol { what: "the offered memory is not as large as its rings" });
        }
        Region::map(&fd, bytes, ring_bytes)
    }

    fn map(fd: &impl AsFd, bytes: usize, ring_bytes: usize) -> Result<Arc<Region>, ChannelError> {
        // SAFETY: a new mapping at an address that the kernel chooses touches no existing memory.
        // The file is sealed at no less than `bytes`, so every page of the mapping exists as long
        // as the mapping does.
        let base = unsafe {
            mmap(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, fd.as_fd(), 0)
        };
        Ok(Region::of(base.doing("mapping the shared memory of a ring")?, bytes, ring_bytes))
    }

    fn of(base: *mut core::ffi::c_void, bytes: usize, ring_bytes: usize) -> Arc<Region> {
        let base = NonNull::new(base.cast()).expect("mmap without MAP_FIXED never returns page 0");
        Arc::new(Region { base, bytes, ring_words: words_for(ring_bytes) })
    }

    /// One of the two rings.
    pub(crate) fn ring(self: &Arc<Region>, which: Which) -> RingMemory {
        let start = match which {
            Which::First => 0,
            Which::Second => self.ring_words,
        };
        RingMemory { region: self.clone(), range: start..start + self.ring_words }
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `base` is page-aligned and mapped readable and writable for `bytes` bytes until
        // drop. The kernel has filled it with zeros, and every bit pattern is a valid `AtomicU64`.
        // This process and a correct peer access it only atomically. The plain stores of a hostile
        // peer reach this process as some value of each word. No reference to anything but atomics
        // is ever made into this memory.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.bytes / 8) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: `base` was returned by `mmap` for `bytes` bytes; references into the mapping
        // borrow from `self` and are gone.
        let undone = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(undone.is_ok());
    }
}

impl Words for RingMemory {
    type Word = AtomicU64;
    #[inline(always)]
    fn words(&self) -> &[AtomicU64] {
        &self.region.words()[self.range.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::ftruncate;
    use std::sync::atomic::Ordering;

    #[test]
    fn both_mappings_show_the_same_words_and_the_file_cannot_change_its_size() {
        let (ours, fd) = Region::shared(LEAST_RING_BYTES).unwrap();
        assert!(ftruncate(&fd, 0).is_err());
        assert!(ftruncate(&fd, 1 << 30).is_err());
        let theirs = Region::received(fd, LEAST_RING_BYTES).unwrap();
        ours.ring(Which::Second).words()[5].store(42, Ordering::Relaxed);
        assert_eq!(theirs.ring(Which::Second).words()[5].load(Ordering::Relaxed), 42);
        assert_eq!(theirs.ring(Which::First).words()[5].load(Ordering::Relaxed), 0);
    }

    #[test]
    fn foreign_memory_is_refused_unless_sealed_and_of_the_right_size() {
        let unsealed = memfd_create(c"t", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&unsealed, region_bytes(LEAST_RING_BYTES) as u64).unwrap();
        assert!(Region::received(unsealed, LEAST_RING_BYTES).is_err());
        let (_, small) = Region::shared(LEAST_RING_BYTES).unwrap();
        assert!(Region::received(small.try_clone().unwrap(), 2 * LEAST_RING_BYTES).is_err());
        assert!(Region::received(small.try_clone().unwrap(), LEAST_RING_BYTES + 8).is_err());
        assert!(Region::received(small, 1 << 40).is_err());
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(Region::received(file.into(), LEAST_RING_BYTES).is_err());
    }
}
