//! A queue of reads and writes: many are under way at once, and no thread waits in a system call
//! for any one of them.
//!
//! ```text
//!   any thread: read/write(token) --> kernel's ring | helper threads | done at once
//!               flush               (one system call submits all requests since the last flush)
//!   any thread: poll  <-- Done { token, bytes or error }     a sleeper: bell() becomes readable
//! ```
//!
//! An operation takes the way that its file names ([`Way`]). Files of the operating system use
//! io_uring. Where the kernel refuses io_uring (an old kernel, or a sandbox), they use a few
//! threads that block. Files in memory complete at once. A result of the ring that is not plain
//! success is never passed on: an error, fewer bytes than requested, or a cancellation because the
//! requesting thread ended. Instead the operation is repeated with the file's own blocking method;
//! the errors of that method name the file. So a `Done` means the same on every way.
//!
//! # Access rules
//!
//! Any thread may request, flush, poll and wait. Until the `Done` of an operation is taken, its
//! buffer belongs to the queue. Dropping the queue waits for everything under way.

mod ring;
mod threads;

use crate::{File, Way};
use ring::Ring;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use threads::Helpers;

/// The means that a queue may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// io_uring where the kernel has it.
    Best,
    /// Helper threads only, as on a kernel without io_uring.
    Threads,
}

/// An operation that has ended.
#[derive(Debug)]
pub struct Done {
    /// The token of the request.
    pub token: u64,
    /// Bytes read (fewer than requested only at the end of the file) or written (all).
    pub result: io::Result<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Read,
    Write,
}

/// One operation under way, and its buffer.
struct Flight {
    file: Arc<dyn File>,
    verb: Verb,
    start: *mut u8,
    bytes: usize,
    offset: u64,
    token: u64,
}

// SAFETY: the requesting thread promised that no other code touches the buffer until the
// operation's `Done` was taken, so any thread may perform the operation.
unsafe impl Send for Flight {}

impl Flight {
    /// Performs the operation with the file's blocking methods.
    fn run(self) -> Done {
        let result = match self.verb {
            Verb::Read => {
                // SAFETY: the requester's promise: valid for `bytes` bytes and touched by no other
                // code until the `Done` is taken.
                let buffer = unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) };
                self.file.read_at(buffer, self.offset)
            }
            Verb::Write => {
                // SAFETY: as above.
                let buffer = unsafe { std::slice::from_raw_parts(self.start, self.bytes) };
                self.file.write_all_at(buffer, self.offset).map(|()| self.bytes)
            }
        };
        Done { token: self.token, result }
    }
}

/// Operations that ended outside the kernel's ring, and the bell.
struct Shared {
    done: Mutex<VecDeque<Done>>,
    bell: OwnedFd,
}

impl Shared {
    fn finish(&self, done: Done) {
        lock(&self.done).push_back(done);
        self.ring_bell();
    }

    fn ring_bell(&self) {
        // Fails only when 2^64 - 2 rings are pending; then the bell is readable anyway.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

/// A poisoned mutex is usable: the values are consistent between any two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A queue of reads and writes. See the file's head.
pub struct IoQueue {
    shared: Arc<Shared>,
    ring: Option<Ring>,
    helpers: Helpers,
    /// Requested and not yet taken by [`IoQueue::poll`].
    pending: AtomicUsize,
}

impl IoQueue {
    /// A queue for about `depth` operations at once; further ones are accepted and wait.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub fn new(depth: u32, means: Means) -> io::Result<IoQueue> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let ring = match means {
            Means::Best => Ring::new(depth.clamp(1, 4096), bell.as_fd()),
            Means::Threads => None,
        };
        let shared = Arc::new(Shared { done: Mutex::default(), bell });
        let helpers = Helpers::new(shared.clone());
        Ok(IoQueue { shared, ring, helpers, pending: AtomicUsize::new(0) })
    }

    /// The means that the queue uses for files of the operating system: [`Means::Best`] when it has
    /// io_uring.
    pub fn means(&self) -> Means {
        if self.ring.is_some() { Means::Best } else { Means::Threads }
    }

    /// Requests a read of `bytes` bytes at `offset` of `file` to `start`.
    ///
    /// # Safety
    /// `start` is valid for writes of `bytes` bytes, and no other code reads or changes them until
    /// this operation's [`Done`] was taken. For a file opened past the system's cache
    /// ([`crate::Caching::Direct`]) address, length and offset are multiples of 4096.
    pub unsafe fn read(&self, file: &Arc<dyn File>, start: *mut u8, bytes: usize, offset: u64, token: u64) {
        self.start(Flight { file: file.clone(), verb: Verb::Read, start, bytes, offset, token });
    }

    fn start(&self, flight: Flight) {
        self.pending.fetch_add(1, Ordering::AcqRel);
        let file = flight.file.clone();
        match (file.way(), &self.ring) {
            (Way::AtOnce, _) => self.shared.finish(flight.run()),
            (Way::Kernel(fd), Some(ring)) => ring.push(fd, flight),
            (Way::Kernel(_), None) | (Way::Threads, _) => self.helpers.push(flight),
        }
    }

    /// Submits the requests since the last flush; an operation may not begin before that.
    pub fn flush(&self) {
        if let Some(ring) = &self.ring {
            ring.flush();
        }
    }

    /// Moves the operations that have ended into `out`; returns their number. Never waits for a
    /// device, except to repeat an operation that the ring could not do plainly.
    pub fn poll(&self, out: &mut Vec<Done>) -> usize {
        if self.pending() == 0 {
            return 0;
        }
        let before = out.len();
        if let Some(ring) = &self.ring {
            ring.take(|flight, plain| {
                let Flight { token, bytes, .. } = flight;
                out.push(if plain { Done { token, result: Ok(bytes) } } else { flight.run() });
            });
        }
        out.extend(lock(&self.shared.done).drain(..));
        let taken = out.len() - before;
        self.pending.fetch_sub(taken, Ordering::AcqRel);
        taken
    }

    /// Operations requested and not yet taken.
    #[inline]
    pub fn pending(&self) -> usize {
        self.pending.load(Ordering::Acquire)
    }

    /// Whether [`IoQueue::poll`] would return something: the second look before a sleep.
    pub fn ready(&self) -> bool {
        self.pending() > 0
            && (self.ring.as_ref().is_some_and(Ring::ready) || !lock(&self.shared.done).is_empty())
    }

    /// An eventfd that becomes readable, for edge-triggered waiting, whenever an operation ends. A
    /// thread that sleeps on it checks [`IoQueue::ready`] first.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }

    /// Rings the bell for an event of the caller.
    pub fn ring_bell(&self) {
        self.shared.ring_bell();
    }

    /// Sleeps until the bell rings or `timeout` is over.
    pub fn wait(&self, timeout: Duration) {
        self.flush();
        if self.ready() {
            return;
        }
        let timeout = Timespec::try_from(timeout).ok();
        // A signal, or the kernel finishing work on this thread, may end the wait early; the caller
        // looks again.
        let _ = poll(&mut [PollFd::new(&self.shared.bell, PollFlags::IN)], timeout.as_ref());
        // This read clears only rings from before this moment, and the caller looks at the queue
        // after it.
        let _ = rustix::io::read(&self.shared.bell, &mut [0u8; 8]);
    }

    /// Writes each of `writes` (bytes, and their offset in `file`), all at once, and waits for
    /// them.
    ///
    /// # Errors
    /// The error of the first write that failed; the others may have been written.
    ///
    /// # Panics
    /// When anything else is under way in this queue.
    pub fn write_all(&self, file: &Arc<dyn File>, writes: &[(&[u8], u64)]) -> io::Result<()> {
        assert_eq!(self.pending(), 0, "this queue is in use");
        for (n, (bytes, offset)) in writes.iter().enumerate() {
            let (start, offset, token) = (bytes.as_ptr().cast_mut(), *offset, n as u64);
            // The slice is borrowed until this function ends, which is after all operations have
            // ended; a write only reads it.
            self.start(Flight {
                file: file.clone(),
                verb: Verb::Write,
                start,
                bytes: bytes.len(),
                offset,
                token,
            });
        }
        let (mut done, mut outcome) = (Vec::with_capacity(writes.len()), Ok(()));
        while self.pending() > 0 {
            self.wait(Duration::from_millis(10));
            self.poll(&mut done);
            for one in done.drain(..) {
                outcome = outcome.and(one.result.map(drop));
            }
        }
        outcome
    }
}

impl Drop for IoQueue {
    fn drop(&mut self) {
        // The buffers of the operations under way may be freed as soon as the queue is gone.
        let mut done = Vec::new();
        while self.pending() > 0 {
            self.wait(Duration::from_millis(10));
            self.poll(&mut done);
            done.clear();
        }
        self.helpers.stop();
    }
}

#[cfg(test)]
mod tests;
