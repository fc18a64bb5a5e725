//! The binary: [`atoll_command::main`] and nothing else, over mimalloc.

use libmimalloc_sys as mimalloc;
use std::alloc::{GlobalAlloc, Layout};
use std::process::ExitCode;

/// mimalloc, asked for an alignment only where a block would not have it anyway.
///
/// Every block of mimalloc begins at a multiple of eight bytes. Its functions with an alignment
/// take a slower way, with a larger block, whenever a page of the size has no block left and the
/// size is no power of two.
struct Mimalloc;

/// The alignment of every block, in bytes.
const EVERY: usize = 8;

// SAFETY: each method passes its call on to mimalloc with the size of the layout, and its
// alignment unless every block has that. mimalloc allocates, neither panics nor unwinds, and any of
// its blocks may be given back to `mi_free` and both functions that reallocate.
unsafe impl GlobalAlloc for Mimalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= EVERY {
            // SAFETY: any size may be asked for.
            return unsafe { mimalloc::mi_malloc(layout.size()) }.cast();
        }
        // SAFETY: a layout has a power of two as its alignment.
        unsafe { mimalloc::mi_malloc_aligned(layout.size(), layout.align()) }.cast()
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= EVERY {
            // SAFETY: as in `alloc`.
            return unsafe { mimalloc::mi_zalloc(layout.size()) }.cast();
        }
        // SAFETY: as in `alloc`.
        unsafe { mimalloc::mi_zalloc_aligned(layout.size(), layout.align()) }.cast()
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller gives back a block of this allocator, once.
        unsafe { mimalloc::mi_free(block.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= EVERY {
            // SAFETY: the block is one of this allocator.
            return unsafe { mimalloc::mi_realloc(block.cast(), size) }.cast();
        }
        // SAFETY: the block is one of this allocator, and the alignment a power of two.
        unsafe { mimalloc::mi_realloc_aligned(block.cast(), size, layout.align()) }.cast()
    }
}

#[global_allocator]
static ALLOCATOR: Mimalloc = Mimalloc;

fn main() -> ExitCode {
    atoll_command::main()
}
