//! Timestamps for spans of tens of nanoseconds: the processor's time stamp counter if it runs at a
//! constant rate, otherwise the system's clock. The length of a tick is computed for each window,
//! from the system's clock at its ends.

#![allow(unsafe_code)]

/// Now, in ticks of unknown length. Not ordered with memory accesses: a span is off by some
/// nanoseconds.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn ticks() -> u64 {
    use std::sync::atomic::{AtomicU8, Ordering};
    /// 0: not known yet.
    static CONSTANT: AtomicU8 = AtomicU8::new(0);
    const YES: u8 = 1;
    const NO: u8 = 2;

    /// Leaf 8000_0007, bit 8 of EDX: the counter runs at one rate in all states of the processor.
    #[cold]
    fn learn() -> u8 {
        use std::arch::x86_64::__cpuid;
        let top = __cpuid(0x8000_0000).eax;
        let constant = top >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0;
        let known = if constant { YES } else { NO };
        CONSTANT.store(known, Ordering::Relaxed);
        known
    }

    let mut known = CONSTANT.load(Ordering::Relaxed);
    if known == 0 {
        known = learn();
    }
    if known == YES {
        // SAFETY: every x86-64 processor has the instruction; it only reads a counter.
        unsafe { std::arch::x86_64::_rdtsc() }
    } else {
        world::now_ns()
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub fn ticks() -> u64 {
    world::now_ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_pass_as_time_passes() {
        let (t, ns) = (ticks(), world::now_ns());
        std::thread::sleep(std::time::Duration::from_millis(5));
        let first = (ticks() - t) as f64 / (world::now_ns() - ns) as f64;
        let (t, ns) = (ticks(), world::now_ns());
        std::thread::sleep(std::time::Duration::from_millis(20));
        let second = (ticks() - t) as f64 / (world::now_ns() - ns) as f64;
        assert!((first / second - 1.0).abs() < 0.2, "{first} ticks a nanosecond, then {second}");
    }
}
