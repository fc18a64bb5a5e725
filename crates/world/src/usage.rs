//! This process' use of the machine, and its wish for huge pages.

use rustix::mm::{Advice, madvise};
use std::mem::MaybeUninit;

/// Bytes of a huge page, on the machines that have them.
const HUGE: usize = 2 << 20;

/// CPU time and memory of the whole process, as the kernel counts them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// User and system time of all threads since the start, in ns.
    pub cpu_ns: u64,
    /// Memory that is resident now, in bytes.
    pub rss_bytes: u64,
    /// How often the system took a core from a running thread that could have continued, since the
    /// start.
    pub involuntary_switches: u64,
}

/// This process' usage. The memory is 0 if `/proc` cannot be read, for example for lack of a
/// descriptor.
pub fn usage() -> Usage {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    Usage {
        cpu_ns: cpu_ns(),
        rss_bytes: rss_bytes(&read("/proc/self/statm")),
        involuntary_switches: involuntary_switches(),
    }
}

/// Includes the switches of ended threads: a sum over `/proc/self/task` would fall when a thread
/// ends.
fn involuntary_switches() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to memory of the type that the call fills.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } != 0 {
        return 0;
    }
    // SAFETY: it holds only numbers, zeroed before the call filled them in.
    unsafe { usage.assume_init() }.ru_nivcsw.try_into().unwrap_or(0)
}

/// How many of the `bytes` bytes of this process' memory at `start` lie in huge pages; 0 where
/// there is no `/proc`. The kernel counts by mapping, so a mapping that only overlaps the range
/// counts as a whole.
pub fn huge_bytes(start: usize, bytes: usize) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let (mut inside, mut kib) = (false, 0);
    for line in maps.lines() {
        if let Some((from, to)) = line.split_once(' ').and_then(|(range, _)| range.split_once('-'))
            && let (Ok(from), Ok(to)) = (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16))
        {
            inside = from < start + bytes && start < to;
        } else if inside && let Some(rest) = line.strip_prefix("AnonHugePages:") {
            kib += rest.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0);
        }
    }
    kib << 10
}

/// Asks for huge pages under memory that is about to be filled: hundreds of times fewer page faults
/// and address translations. If the system gives none, ordinary pages are used.
pub fn prefer_huge_pages(memory: &mut [MaybeUninit<u8>]) {
    let start = memory.as_mut_ptr();
    let first = start.align_offset(HUGE);
    let bytes = memory.len().saturating_sub(first) / HUGE * HUGE;
    if bytes > 0 {
        // SAFETY: the range lies inside `memory`, which is borrowed for writing, and the advice
        // changes no byte of it.
        let _ = unsafe { madvise(start.add(first).cast(), bytes, Advice::LinuxHugepage) };
    }
}

/// Read from a clock and not from `/proc`, which needs a descriptor.
fn cpu_ns() -> u64 {
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64
}

fn rss_bytes(statm: &str) -> u64 {
    let pages: u64 = statm.split_ascii_whitespace().nth(1).and_then(|f| f.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    #[test]
    fn advice_changes_no_byte_and_takes_any_length() {
        for bytes in [0, 1, 4095, super::HUGE, 3 * super::HUGE + 77] {
            let mut memory: Vec<u8> = Vec::with_capacity(bytes);
            super::prefer_huge_pages(memory.spare_capacity_mut());
            memory.resize(bytes, 7);
            super::prefer_huge_pages(memory.spare_capacity_mut());
            assert!(memory.iter().all(|&b| b == 7));
        }
    }

    #[test]
    fn a_busy_process_with_memory_shows_both() {
        let before = super::usage();
        let block = vec![1u8; 32 << 20];
        let end = std::time::Instant::now() + std::time::Duration::from_millis(60);
        while std::time::Instant::now() < end {
            std::hint::black_box(&block);
        }
        let after = super::usage();
        assert!(after.involuntary_switches >= before.involuntary_switches);
        assert!(after.cpu_ns > before.cpu_ns && after.rss_bytes >= before.rss_bytes + (16 << 20));
    }

    #[test]
    fn switches_of_ended_threads_stay_counted() {
        let before = super::usage().involuntary_switches;
        let busy = || (0..2_000_000u64).fold(0, |a, b| std::hint::black_box(a ^ b));
        let threads: Vec<_> = (0..8).map(|_| std::thread::spawn(busy)).collect();
        let during = super::usage().involuntary_switches;
        threads.into_iter().for_each(|t| drop(t.join()));
        assert!(before <= during && during <= super::usage().involuntary_switches);
    }
}
