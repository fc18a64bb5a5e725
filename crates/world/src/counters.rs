//! Hardware counters of one thread, through Linux's perf events: cycles, instructions, misses.
//!
//! # Access rules
//!
//! A thread that opens [`Counters`] is the thread that is counted, in user mode only. Every user
//! may do this unless the system was configured otherwise. A thread reads only its own counters.
//!
//! Many machines offer no counters: a virtual machine, a container, a locked-down kernel. Then
//! [`Refused`] names the case and a remedy.
//!
//! A processor counts few events at a time. When more are requested, the kernel counts them in
//! turns and reports for how long each was counted; [`Counters::read`] extrapolates. Each event is
//! opened separately, so a missing event does not affect the others.

use perf_event_open_sys::bindings as sys;
use std::fs::File;
use std::io::{Error, Read};
use std::os::fd::FromRawFd;

/// An event to count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Event {
    /// Core cycles; their length changes with the processor's clock frequency.
    Cycles,
    /// Instructions retired.
    Instructions,
    /// Reads that missed the first-level data cache.
    L1dMisses,
    /// Accesses that missed the last-level cache.
    LlcMisses,
    /// Mispredicted branches.
    BranchMisses,
}

impl Event {
    pub const ALL: [Event; Event::COUNT] =
        [Event::Cycles, Event::Instructions, Event::L1dMisses, Event::LlcMisses, Event::BranchMisses];
    pub const COUNT: usize = 5;

    /// Type and number of the event in the kernel's interface.
    fn code(self) -> Code {
        /// `PERF_TYPE_HW_CACHE`: cache, operation and outcome, a byte each.
        const L1D_READ_MISS: u64 = sys::PERF_COUNT_HW_CACHE_L1D as u64
            | (sys::PERF_COUNT_HW_CACHE_OP_READ as u64) << 8
            | (sys::PERF_COUNT_HW_CACHE_RESULT_MISS as u64) << 16;
        let hardware = |number: u32| Code { kind: sys::PERF_TYPE_HARDWARE, number: number.into() };
        match self {
            Event::Cycles => hardware(sys::PERF_COUNT_HW_CPU_CYCLES),
            Event::Instructions => hardware(sys::PERF_COUNT_HW_INSTRUCTIONS),
            Event::L1dMisses => Code { kind: sys::PERF_TYPE_HW_CACHE, number: L1D_READ_MISS },
            Event::LlcMisses => hardware(sys::PERF_COUNT_HW_CACHE_MISSES),
            Event::BranchMisses => hardware(sys::PERF_COUNT_HW_BRANCH_MISSES),
        }
    }
}

#[derive(Clone, Copy)]
struct Code {
    kind: u32,
    number: u64,
}

/// The reason why no event is counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// `EACCES`, `EPERM`; with the value of `kernel.perf_event_paranoid`.
    Forbidden(Option<i32>),
    /// `ENOENT`, `ENODEV`, `EOPNOTSUPP`: nothing here counts the event.
    Absent,
    /// `ENOSYS`: a kernel without perf events.
    Unknown,
    Other(String),
}

impl std::error::Error for Refused {}

impl Refused {
    fn of(error: &Error, paranoid: Option<i32>) -> Refused {
        match error.raw_os_error().unwrap_or(0) {
            libc::EACCES | libc::EPERM => Refused::Forbidden(paranoid),
            libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP => Refused::Absent,
            libc::ENOSYS => Refused::Unknown,
            _ => Refused::Other(error.to_string()),
        }
    }
}

/// The highest `kernel.perf_event_paranoid` at which a process may count its own user mode.
const OWN_USER_MODE: i32 = 2;

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refused::Forbidden(Some(level)) if *level > OWN_USER_MODE => write!(
                f,
                "the system forbids it: kernel.perf_event_paranoid is {level}, counting needs {OWN_USER_MODE} or less \
                 (sysctl kernel.perf_event_paranoid={OWN_USER_MODE}) or CAP_PERFMON"
            ),
            Refused::Forbidden(_) => write!(
                f,
                "the system forbids it: a container needs perf_event_open allowed in its seccomp profile, and perhaps \
                 CAP_PERFMON"
            ),
            Refused::Absent => write!(
                f,
                "the processor shows no counters to this system, as in most virtual machines: run on the machine itself, \
                 or give the virtual machine a performance monitoring unit"
            ),
            Refused::Unknown => {
                write!(f, "the kernel has no perf events: it was built without CONFIG_PERF_EVENTS")
            }
            Refused::Other(error) => write!(f, "the system does not open them: {error}"),
        }
    }
}

/// Counts of the thread that opened it, since then.
#[derive(Debug)]
pub struct Counters {
    open: [Option<Counter>; Event::COUNT],
}

impl Counters {
    /// Begins to count the calling thread. Events that the machine lacks are left out.
    ///
    /// # Errors
    /// [`Refused`] if no event can be counted.
    pub fn open() -> Result<Counters, Refused> {
        let mut first = None;
        let open = Event::ALL.map(|event| match Counter::open(event.code()) {
            Ok(counter) => Some(counter),
            Err(error) => {
                first.get_or_insert(error);
                None
            }
        });
        match first {
            Some(error) if open.iter().all(Option::is_none) => Err(Refused::of(&error, paranoid())),
            _ => Ok(Counters { open }),
        }
    }

    /// The counts since the last call, or since counting began, in the order of [`Event::ALL`].
    /// `None` for an event that the machine lacks or that never had a counter.
    pub fn read(&mut self) -> [Option<u64>; Event::COUNT] {
        std::array::from_fn(|i| self.open[i].as_mut().and_then(Counter::read))
    }
}

fn paranoid() -> Option<i32> {
    std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?.trim().parse().ok()
}

/// One event of one thread.
#[derive(Debug)]
struct Counter {
    file: File,
    last: Raw,
}

/// The values as the kernel writes them; all three grow from the opening on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Raw {
    count: u64,
    /// The time for which the event was enabled, and the time for which it had a counter, in ns.
    enabled: u64,
    running: u64,
}

impl Raw {
    const BYTES: usize = 24;

    fn decode(bytes: [u8; Raw::BYTES]) -> Raw {
        let at = |i: usize| u64::from_ne_bytes(std::array::from_fn(|k| bytes[i * 8 + k]));
        Raw { count: at(0), enabled: at(1), running: at(2) }
    }

    /// The count since `before`, extrapolated over the time in which another event had the counter;
    /// `None` if the event was enabled but never counted.
    fn since(self, before: Raw) -> Option<u64> {
        let count = self.count.saturating_sub(before.count);
        let enabled = self.enabled.saturating_sub(before.enabled);
        let running = self.running.saturating_sub(before.running);
        match (enabled, running) {
            (0, _) => Some(count),
            (_, 0) => None,
            _ if running >= enabled => Some(count),
            _ => Some(
                (u128::from(count) * u128::from(enabled) / u128::from(running))
                    .try_into()
                    .unwrap_or(u64::MAX),
            ),
        }
    }
}

impl Counter {
    fn open(Code { kind, number }: Code) -> Result<Counter, Error> {
        let mut asked = sys::perf_event_attr {
            type_: kind,
            size: size_of::<sys::perf_event_attr>() as u32,
            config: number,
            read_format: u64::from(sys::PERF_FORMAT_TOTAL_TIME_ENABLED | sys::PERF_FORMAT_TOTAL_TIME_RUNNING),
            ..Default::default()
        };
        asked.set_exclude_kernel(1);
        asked.set_exclude_hv(1);
        let (this_thread, any_processor, no_group) = (0, -1, -1);
        let flags = sys::PERF_FLAG_FD_CLOEXEC.into();
        // SAFETY: `asked` outlives the call, states its own size, and requests no shared memory.
        let fd = unsafe {
            perf_event_open_sys::perf_event_open(&mut asked, this_thread, any_processor, no_group, flags)
        };
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: the kernel has just made the descriptor for this call; it has no other owner.
        let file = unsafe { File::from_raw_fd(fd) };
        Ok(Counter { file, last: Raw::default() })
    }

    fn read(&mut self) -> Option<u64> {
        let mut bytes = [0; Raw::BYTES];
        self.file.read_exact(&mut bytes).ok()?;
        let now = Raw::decode(bytes);
        now.since(std::mem::replace(&mut self.last, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counted by the kernel itself, so every machine that allows counting has them.
    const PAGE_FAULTS: Code =
        Code { kind: sys::PERF_TYPE_SOFTWARE, number: sys::PERF_COUNT_SW_PAGE_FAULTS as u64 };
    const TASK_CLOCK: Code =
        Code { kind: sys::PERF_TYPE_SOFTWARE, number: sys::PERF_COUNT_SW_TASK_CLOCK as u64 };

    /// `None`, with a message, where the system does not allow counting.
    fn counter(code: Code) -> Option<Counter> {
        let opened = Counter::open(code);
        opened.map_err(|e| eprintln!("not tested: {}", Refused::of(&e, paranoid()))).ok()
    }

    #[test]
    fn page_faults_are_counted_one_by_one() {
        let Some(mut faults) = counter(PAGE_FAULTS) else { return };
        faults.read().expect("counted");
        let pages = 300;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice, which is unmapped
        // below and passed on to no other code.
        unsafe {
            let bytes = pages * 4096;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let memory =
                libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(memory, libc::MAP_FAILED);
            libc::madvise(memory, bytes, libc::MADV_NOHUGEPAGE);
            (0..pages).for_each(|i| memory.cast::<u8>().add(i * 4096).write_volatile(1));
            libc::munmap(memory, bytes);
        }
        let counted = faults.read().expect("counted");
        // A sanitizer touches further pages for each.
        assert!((300..1500).contains(&counted), "{counted} faults for {pages} pages");
        let quiet = faults.read().expect("counted");
        assert!(quiet < 50, "{quiet} faults between two readings: not a difference");
    }

    #[test]
    fn only_the_thread_that_opened_it_is_counted() {
        let Some(mut own) = counter(TASK_CLOCK) else { return };
        std::thread::spawn(|| {
            let start = crate::now_ns();
            while crate::now_ns() - start < 30_000_000 {
                std::hint::spin_loop();
            }
        })
        .join()
        .unwrap();
        // The other thread's 30 ms must not be in it.
        let ns = own.read().expect("counted");
        assert!(ns < 20_000_000, "{ns} ns of a thread that only waited");
    }

    #[test]
    fn a_counter_that_took_turns_is_extrapolated() {
        let raw = |count, enabled, running| Raw { count, enabled, running };
        let before = raw(1000, 500, 400);
        assert_eq!(raw(1600, 900, 800).since(before), Some(600));
        assert_eq!(raw(1600, 900, 600).since(before), Some(1200));
        assert_eq!(raw(1000, 900, 400).since(before), None);
        assert_eq!(raw(1000, 500, 400).since(before), Some(0));
        assert_eq!(raw(u64::MAX, 4, 1).since(Raw::default()), Some(u64::MAX));
    }

    #[test]
    fn the_kernels_words_are_decoded_in_order() {
        let mut bytes = [0; Raw::BYTES];
        for (i, n) in [7_u64, 1 << 40, 3].into_iter().enumerate() {
            bytes[i * 8..i * 8 + 8].copy_from_slice(&n.to_ne_bytes());
        }
        assert_eq!(Raw::decode(bytes), Raw { count: 7, enabled: 1 << 40, running: 3 });
    }

    #[test]
    fn a_refusal_says_what_would_help() {
        let told = |errno, paranoid| Refused::of(&Error::from_raw_os_error(errno), paranoid).to_string();
        assert!(told(libc::EACCES, Some(4)).contains("sysctl kernel.perf_event_paranoid=2"));
        assert!(told(libc::EPERM, Some(2)).contains("seccomp"));
        assert!(told(libc::EPERM, None).contains("seccomp"));
        assert!(told(libc::ENOENT, Some(2)).contains("virtual machine"));
        assert!(told(libc::EOPNOTSUPP, Some(2)).contains("virtual machine"));
        assert!(told(libc::ENOSYS, None).contains("CONFIG_PERF_EVENTS"));
        assert!(told(libc::EMFILE, None).contains("Too many open files"));
    }

    /// On any machine: some event is counted, or one reason is given.
    #[test]
    fn a_machine_counts_or_says_why_not() {
        match Counters::open() {
            Ok(mut counters) => {
                (0..1000).for_each(|i| _ = std::hint::black_box(i));
                assert!(counters.read().iter().any(Option::is_some));
            }
            Err(refused) => assert!(!refused.to_string().is_empty()),
        }
    }
}
