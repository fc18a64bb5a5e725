//! Asking the processor to fetch memory before it is needed.

/// Bytes of a cache line on the supported processors.
pub const LINE: usize = 64;

/// Asks for the cache line of `at`. A hint: it changes nothing, does not wait, and accepts any
/// address.
#[inline(always)]
pub fn prefetch<T: ?Sized>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads no memory as far as the program can tell, and never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast())
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
