//! The kernel's ring (io_uring).
//!
//! # Access rules
//!
//! The holder of the lock uses both halves of the ring and the table of operations under way. The
//! kernel takes submissions in `submit` and adds completions at any time.

use super::{Flight, Verb, lock};
use io_uring::{IoUring, opcode, squeue, types::Fd};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Mutex;

pub(super) struct Ring(Mutex<Inner>);

struct Inner {
    uring: IoUring,
    /// The operations under way, each at the index that the kernel was given; `None` is free.
    flights: Vec<Option<Flight>>,
    free: Vec<usize>,
    /// Entries that have not been submitted to the kernel.
    unflushed: usize,
}

impl Ring {
    /// `None` if the kernel refuses.
    pub fn new(depth: u32, bell: BorrowedFd<'_>) -> Option<Ring> {
        let uring = IoUring::new(depth.next_power_of_two()).ok()?;
        // Without these features the oldest kernels would drop completions, or would not know plain
        // reads (5.6).
        if !uring.params().is_feature_nodrop() || !uring.params().is_feature_rw_cur_pos() {
            return None;
        }
        uring.submitter().register_eventfd(bell.as_raw_fd()).ok()?;
        Some(Ring(Mutex::new(Inner { uring, flights: Vec::new(), free: Vec::new(), unflushed: 0 })))
    }

    pub fn push(&self, fd: BorrowedFd<'_>, flight: Flight) {
        let mut inner = lock(&self.0);
        let at = inner.free.pop().unwrap_or(inner.flights.len());
        let (start, bytes, offset) = (flight.start, flight.bytes as u32, flight.offset);
        let fd = Fd(fd.as_raw_fd());
        let entry = match flight.verb {
            Verb::Read => opcode::Read::new(fd, start, bytes).offset(offset).build(),
            Verb::Write => opcode::Write::new(fd, start, bytes).offset(offset).build(),
        };
        if at == inner.flights.len() {
            inner.flights.push(Some(flight));
        } else {
            inner.flights[at] = Some(flight);
        }
        inner.put(entry.user_data(at as u64));
    }

    pub fn flush(&self) {
        lock(&self.0).flush();
    }

    /// Passes each operation that has ended to `f`, with a flag whether it transferred all bytes
    /// without an error.
    pub fn take(&self, mut f: impl FnMut(Flight, bool)) {
        let mut ended = Vec::new();
        {
            let mut inner = lock(&self.0);
            inner.flush();
            inner.drain(&mut ended);
            // More operations ended than the ring has room for: the kernel kept the rest, and adds
            // it at a system call.
            while inner.uring.submission().cq_overflow() && inner.uring.submit().is_ok() {
                inner.drain(&mut ended);
            }
        }
        for (flight, result) in ended {
            let plain = usize::try_from(result) == Ok(flight.bytes);
            f(flight, plain);
        }
    }

    pub fn ready(&self) -> bool {
        // The holder of the lock may be taking completions: the caller looks again.
        self.0.try_lock().map_or(true, |mut inner| {
            inner.uring.submission().cq_overflow() || !inner.uring.completion().is_empty()
        })
    }
}

impl Inner {
    fn drain(&mut self, ended: &mut Vec<(Flight, i32)>) {
        let Inner { uring, flights, free, .. } = self;
        for entry in uring.completion() {
            let at = entry.user_data() as usize;
            if let Some(flight) = flights.get_mut(at).and_then(Option::take) {
                free.push(at);
                ended.push((flight, entry.result()));
            }
        }
    }

    fn put(&mut self, entry: squeue::Entry) {
        loop {
            // SAFETY: the entry's memory is valid until its completion was taken (the requester's
            // promise). So is the descriptor, because the file is kept in `flights` until then.
            if unsafe { self.uring.submission().push(&entry) }.is_ok() {
                self.unflushed += 1;
                return;
            }
            // The ring is full: submit its entries to the kernel.
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.unflushed == 0 {
            return;
        }
        // On a temporary refusal (no memory, too many operations under way) the entries stay in the
        // ring for the next flush.
        let taken = self.uring.submit().unwrap_or(0);
        self.unflushed = self.unflushed.saturating_sub(taken);
    }
}
