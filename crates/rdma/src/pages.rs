//! The memory of one end's buffers: registered with a device, which reads and writes it on its own.

use crate::card::BUFFER_BYTES;
use sideway::ibverbs::AccessFlags;
use sideway::ibverbs::memory_region::MemoryRegion;
use sideway::ibverbs::protection_domain::ProtectionDomain;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;

/// Page-aligned memory.
struct Pages {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory belongs to this value alone, and no reference into it is handed out: it is
// reached by copying from and to it, through methods of which the callers know the free places.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `base` was allocated with this layout. The device has no claim to it any more:
        // the region is dropped before, as the first field of `Buffers`.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

/// A number of buffers of [`BUFFER_BYTES`] each.
pub(crate) struct Buffers {
    region: Arc<MemoryRegion>,
    pages: Pages,
    count: usize,
}

impl Buffers {
    /// # Errors
    /// The device, or the limit for locked memory, refuses.
    pub(crate) fn new(domain: &Arc<ProtectionDomain>, count: usize) -> Result<Buffers, String> {
        let bytes = count * BUFFER_BYTES;
        let layout = Layout::from_size_align(bytes, BUFFER_BYTES).map_err(|e| e.to_string())?;
        // SAFETY: the layout is not empty: there is at least one buffer.
        let base = unsafe { alloc_zeroed(layout) };
        let Some(base) = NonNull::new(base) else { handle_alloc_error(layout) };
        let pages = Pages { base, layout };
        // SAFETY: the memory lives as long as the region, which is dropped before it. Both belong
        // to one value.
        let region =
            unsafe { domain.reg_mr(base.as_ptr().expose_provenance(), bytes, AccessFlags::LocalWrite) };
        let region = region.map_err(|error| {
            format!(
                "{bytes} bytes of memory cannot be registered ({}); raise the limit of locked memory (ulimit -l)",
                reason(&error)
            )
        })?;
        Ok(Buffers { region, pages, count })
    }

    /// The key and the address of a buffer, for a work request.
    pub(crate) fn place(&self, buffer: usize) -> (u32, u64) {
        (self.region.lkey(), self.at(buffer, 0, 0).expose_provenance() as u64)
    }

    fn at(&self, buffer: usize, from: usize, bytes: usize) -> *mut u8 {
        assert!(buffer < self.count && from + bytes <= BUFFER_BYTES, "outside of a buffer");
        // SAFETY: inside of the allocation, by the assertion.
        unsafe { self.pages.base.as_ptr().add(buffer * BUFFER_BYTES + from) }
    }

    /// Copies to the front of a buffer.
    ///
    /// # Safety
    /// No work request that the device has not completed names the buffer, and no other thread uses
    /// it.
    pub(crate) unsafe fn fill(&self, buffer: usize, bytes: &[u8]) {
        let to = self.at(buffer, 0, bytes.len());
        // SAFETY: `to` has room for the bytes; neither the device (by the caller) nor another
        // thread touches it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    /// Copies out of a buffer, from this position on.
    ///
    /// # Safety
    /// As [`Buffers::fill`].
    pub(crate) unsafe fn take(&self, buffer: usize, from: usize, into: &mut [u8]) {
        let at = self.at(buffer, from, into.len());
        // SAFETY: as in `fill`; the memory was zeroed, so all of it is initialized.
        unsafe { std::ptr::copy_nonoverlapping(at, into.as_mut_ptr(), into.len()) };
    }
}

/// The innermost reason of an error.
pub(crate) fn reason(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
