//! Log insertion under one lock, the baseline. A thread that holds the lock owns the tail of the
//! ring: it takes the next positions, copies its record and releases the lock.
//!
//! Access rules: the thread that holds the lock moves `next`, and publishes it as `end` after the
//! copy. Any thread reads `end`.

use super::{Complete, Counts, Crowded, Draft, Placed, Room};
use latch::{CachePadded, Rank, SpinMutex};
use std::sync::atomic::{AtomicU64, Ordering};

/// The next positions for records and segments.
pub(crate) struct Tail {
    /// Start of the next record.
    pub next: u64,
    /// The position at which the current segment is full.
    pub segment_end: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Positions at which the flusher must begin a new segment.
    pub cuts: Vec<u64>,
    /// Number of records so far.
    pub records: u64,
}

impl Tail {
    pub fn new(next: u64, segment_end: u64, segment_bytes: u64) -> Tail {
        Tail { next, segment_end, segment_bytes, cuts: Vec::new(), records: 0 }
    }

    /// Fails if the next `bytes` must wait until the flusher has made room.
    pub fn crowded(&self, bytes: u64, room: &Room<'_>) -> Result<(), Crowded> {
        if room.must_wait(self.next + bytes) { Err(Crowded { next: self.next, bytes }) } else { Ok(()) }
    }

    /// Takes the next `bytes`. Begins a segment with them if they do not fit the current one.
    pub fn take(&mut self, bytes: u64) -> u64 {
        let start = self.next;
        self.next += bytes;
        if self.next > self.segment_end {
            self.cuts.push(start);
            self.segment_end = start + bytes.max(self.segment_bytes);
        }
        start
    }
}

pub(crate) struct Central {
    /// The state behind the lock.
    tail: CachePadded<SpinMutex<Tail>>,
    /// All bytes below are in the ring. Written by the holder of the lock.
    end: CachePadded<AtomicU64>,
}

impl Central {
    pub fn new(tail: Tail) -> Central {
        let end = CachePadded::new(AtomicU64::new(tail.next));
        Central { tail: CachePadded::new(SpinMutex::ranked(Rank::LogTail, tail)), end }
    }

    #[inline]
    pub fn append(&self, draft: &mut Draft<'_>, room: &Room<'_>) -> Result<Placed, Crowded> {
        let bytes = draft.bytes();
        let mut tail = self.tail.lock();
        tail.crowded(bytes, room)?;
        let start = tail.take(bytes);
        if room.welcomes(tail.next) {
            // SAFETY: the lock is held, so no other appender writes here. There is room for these
            // positions, so the flusher has finished with them.
            unsafe { draft.put(room, start) };
        }
        tail.records += 1;
        self.end.store(tail.next, Ordering::Release);
        Ok(Placed { start, reserved: (start, tail.next) })
    }

    #[inline]
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    pub fn complete(&self) -> Complete {
        let mut tail = self.tail.lock();
        Complete { upto: tail.next, cuts: std::mem::take(&mut tail.cuts) }
    }

    pub fn held<T>(&self, f: impl FnOnce(u64) -> T) -> T {
        let tail = self.tail.lock();
        f(tail.next)
    }

    pub fn counts(&self) -> Counts {
        Counts { records: self.tail.lock().records, padding: 0 }
    }
}
