//! What the processor counts of one thread, through Linux's perf events: cycles, instructions, misses.
//!
//! Who may do what: the thread that opens [`Counters`] is the one that is counted, in user mode only (the system allows
//! that to everybody unless it was told otherwise), and reads its own. Many machines have no counters to give: a virtual
//! machine, a container, a locked-down kernel. Then [`Refused`] says which of these it is and what would help.
//!
//! A processor counts few things at a time. Asked for more, the kernel lets them take turns and says for how long each was
//! counted: [`Counters::read`] extrapolates. Each event is opened by itself, so that one that is missing takes no other along.

use perf_event_open_sys::bindings as sys;
use std::fs::File;
use std::io::{Error, Read};
use std::os::fd::FromRawFd;

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Event {
    /// Core cycles, which pass faster or slower as the processor's clock does.
    Cycles,
    /// Instructions retired.
    Instructions,
    /// Reads that the first-level data cache could not answer.
    L1dMisses,
    /// Accesses that the last-level cache could not answer.
    LlcMisses,
    /// Branches that went elsewhere than was predicted.
    BranchMisses,
}

impl Event {
    pub const ALL: [Event; Event::COUNT] =
        [Event::Cycles, Event::Instructions, Event::L1dMisses, Event::LlcMisses, Event::BranchMisses];
    pub const COUNT: usize = 5;

    /// Type and number, as the kernel has them.
    fn code(self) -> Code {
        /// `PERF_TYPE_HW_CACHE`: which cache, which operation, which outcome, a byte each.
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

/// Why nothing is counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// `EACCES`, `EPERM`; with the value of `kernel.perf_event_paranoid`.
    Forbidden(Option<i32>),
    /// `ENOENT`, `ENODEV`, `EOPNOTSUPP`: nothing here counts that.
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

/// Counts of the thread that opened it, from then on.
#[derive(Debug)]
pub struct Counters {
    open: [Option<Counter>; Event::COUNT],
}

impl Counters {
    /// Begins to count what the calling thread does. Events that the machine lacks are left out.
    ///
    /// # Errors
    /// [`Refused`] if there is none at all.
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

    /// What was counted since the last call, or since counting began, in the order of [`Event::ALL`]; `None` for an event
    /// that the machine lacks or that never got its turn.
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

/// As the kernel writes it: all three grow from the opening on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Raw {
    count: u64,
    /// How long the event was wanted, and how long it had a counter, ns.
    enabled: u64,
    running: u64,
}

impl Raw {
    const BYTES: usize = 24;

    fn decode(bytes: [u8; Raw::BYTES]) -> Raw {
        let at = |i: usize| u64::from_ne_bytes(std::array::from_fn(|k| bytes[i * 8 + k]));
        Raw { count: at(0), enabled: at(1), running: at(2) }
    }

    /// What was counted since `before`, for the time in which another event had the counter as well; `None` if it never
    /// counted although it was wanted.
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
        // SAFETY: `asked` outlives the call, says its own size, and asks for no memory to be shared.
        let fd = unsafe {
            perf_event_open_sys::perf_event_open(&mut asked, this_thread, any_processor, no_group, flags)
        };
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: the kernel has just made the descriptor for this call; nobody else has it.
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

    /// `None`, with a word, where the system counts nothing for us.
    fn counter(code: Code) -> Option<Counter> {
        let opened = Counter::open(code);
        opened.map_err(|e| eprintln!("not tested: {}", Refused::of(&e, paranoid()))).ok()
    }

    #[test]
    fn page_faults_are_counted_one_by_one() {
        let Some(mut faults) = counter(PAGE_FAULTS) else { return };
        faults.read().expect("counted");
        let pages = 300;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice, unmapped below, given to nobody.
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
        // A sanitizer has pages of its own for each.
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
        // The other one's 30 ms would be in it.
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

    /// Whatever the machine is: some counts, or one reason.
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
