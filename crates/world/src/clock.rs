//! Time and randomness.

use rustix::time::{ClockId, Timespec, clock_gettime};

fn ns(t: Timespec) -> u64 {
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Nanoseconds that only grow, from an arbitrary start that all processes of this machine share.
#[inline]
pub fn now_ns() -> u64 {
    ns(clock_gettime(ClockId::Monotonic))
}

/// Nanoseconds since 1970, as the machine's clock is set; may jump.
pub fn wall_ns() -> u64 {
    ns(clock_gettime(ClockId::Realtime))
}

/// A number that differs from one start of the machine to the next; 0 if the kernel does not tell.
/// As long as it is the same, data that a process left in files or in memory shared with them is
/// still there, even if the process has died.
pub fn boot() -> u64 {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits = id.bytes().filter(u8::is_ascii_hexdigit);
    digits.fold(0, |n: u64, d| (n.rotate_left(4) ^ u64::from(d)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// 64 random bits from the kernel, for seeds and for numbers that must differ from every earlier
/// run's.
pub fn entropy() -> u64 {
    let mut bytes = [0u8; 8];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    match filled {
        Ok(8) => u64::from_le_bytes(bytes),
        // Without the system call (a strict sandbox), time and an address differ enough from run to
        // run; this number protects no secret.
        _ => wall_ns().rotate_left(20) ^ now_ns() ^ (std::ptr::from_ref(&bytes) as u64).rotate_left(40),
    }
}
