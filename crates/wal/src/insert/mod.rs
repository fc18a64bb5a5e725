//! Three ways to give records their places in the log (Johnson et al., "Aether: A Scalable Approach
//! to Logging", PVLDB 2010, sections 4 and 5).
//!
//! | way | reserving a place | copying | shared per record |
//! |---|---|---|---|
//! | [`Central`] | one lock | under the lock | the lock, the tail |
//! | [`Consolidated`] | one lock, taken once for a group | outside, in order | lock or group word |
//! | [`Extents`] | one lock, taken once per run of the log | outside | nothing |
//!
//! All three give the flusher the same guarantee. [`Inserter::complete`] returns a position below
//! which the ring holds whole frames without a hole, and the positions below it at which segments
//! must begin.

mod central;
mod consolidated;
mod extents;
#[cfg(test)]
mod models;
mod sync;

use central::Central;
use consolidated::{Consolidated, Promise};
pub(crate) use extents::Slot;
use extents::{Extents, Marks};

use crate::frame;
use crate::options::{Insert, LogOptions};
use crate::order::LogOrder;
use crate::ring::Ring;
use base::Durability;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;

/// The ring, and the part of it that appenders may use.
#[derive(Clone, Copy)]
pub(crate) struct Room<'a> {
    /// The ring.
    pub ring: &'a Ring,
    /// Life of the log, part of each frame's check.
    pub life: u64,
    /// The bytes of the ring below this position may be overwritten: they were written to a segment
    /// or, in memory mode, discarded.
    pub written: &'a AtomicU64,
    /// The log has failed. A record for which the ring has no room gets a position but is not
    /// copied, since the copy would overwrite acknowledged bytes that were never written.
    pub broken: &'a AtomicBool,
    /// How the ring gets room.
    pub drain: Drain,
    /// The flusher's thread, to wake when an appender must wait in place; `None` where the caller
    /// can return and try again.
    pub flusher: Option<&'a Thread>,
}

/// How the ring gets room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Drain {
    /// The flusher writes; an appender without room waits for it.
    Flusher,
    /// The oldest records are discarded.
    Oblivion,
}

impl Room<'_> {
    /// Bytes that end at or below this position overwrite nothing that is still needed.
    pub fn limit(&self) -> u64 {
        self.written.load(Ordering::Acquire) + self.ring.bytes() as u64
    }

    /// Whether an appender that wants to reserve positions up to `end` must wait first.
    pub fn must_wait(&self, end: u64) -> bool {
        self.drain == Drain::Flusher && end > self.limit() && !self.broken.load(Ordering::Acquire)
    }

    /// In memory mode: discards the records below `position`.
    pub fn forget_below(&self, position: u64) {
        self.written.fetch_max(position, Ordering::Release);
    }

    pub fn nudge(&self) {
        if let Some(flusher) = self.flusher {
            flusher.unpark();
        }
    }

    /// Whether bytes that end at `end` may be copied into the ring.
    pub fn welcomes(&self, end: u64) -> bool {
        self.drain == Drain::Oblivion || end <= self.limit()
    }
}

/// The ring has no room for this many bytes at `next`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowded {
    /// The next position to reserve.
    pub next: u64,
    /// Number of bytes to reserve.
    pub bytes: u64,
}

/// A record that was copied into the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    /// Position of the record.
    pub start: u64,
    /// Positions reserved for this record (and perhaps for later ones). Empty if the record went
    /// into positions reserved before.
    pub reserved: (u64, u64),
}

/// A record without a place.
pub(crate) struct Draft<'a> {
    pub content: Content<'a>,
    /// The position up to which the device had the log when the append began.
    pub stable: u64,
}

pub(crate) enum Content<'a> {
    /// A complete frame except the fields that depend on its place, and its checksum.
    Built(&'a mut [u8], u32),
    /// The parts of a frame that is built in the ring. Only in a log without checksums.
    Plain(frame::Plain<'a>),
}

impl Draft<'_> {
    #[inline]
    pub fn bytes(&self) -> u64 {
        match &self.content {
            Content::Built(frame, _) => frame.len() as u64,
            Content::Plain(plain) => frame::padded(plain.length) as u64,
        }
    }

    /// Copies the record to its place in the ring.
    ///
    /// # Safety
    /// The caller has exclusive use of the positions `start..start + bytes` of the ring.
    #[inline(always)]
    pub unsafe fn put(&mut self, room: &Room<'_>, start: u64) {
        let (bytes, behind) = (self.bytes() as usize, start - self.stable.min(start));
        match &mut self.content {
            Content::Built(frame, sum) => {
                frame::seal(frame, *sum, start, behind, room.life);
                // SAFETY: the caller's promise.
                unsafe { room.ring.put(start, frame) };
            }
            Content::Plain(plain) => {
                // SAFETY: the caller's promise.
                match unsafe { room.ring.place(start, bytes) } {
                    Some(place) => plain.lay(place, start, behind, room.life),
                    // SAFETY: the caller's promise.
                    None => unsafe { put_around(plain, bytes, (room.ring, room.life), start, behind) },
                }
            }
        }
    }
}

/// Copies a record that wraps round the end of the ring.
///
/// # Safety
/// As [`Draft::put`].
#[cold]
unsafe fn put_around(
    plain: &frame::Plain<'_>,
    bytes: usize,
    (ring, life): (&Ring, u64),
    start: u64,
    behind: u64,
) {
    let mut whole = vec![0; bytes];
    plain.lay(&mut whole, start, behind, life);
    // SAFETY: the caller's promise.
    unsafe { ring.put(start, &whole) };
}

/// The log is complete below `upto`. Segments begin at `cuts`.
#[derive(Default, Debug)]
pub(crate) struct Complete {
    pub upto: u64,
    pub cuts: Vec<u64>,
}

/// How the flusher treats positions that were reserved but not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holes {
    /// It stops before the first of them.
    Leave,
    /// It closes them below `upto`: a waiter needs the records below that position.
    Close { upto: u64 },
}

/// Counts since the log was opened.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counts {
    pub records: u64,
    pub padding: u64,
}

pub(crate) enum Inserter {
    Mutex(Central),
    Consolidated(Consolidated),
    Extents(Extents),
}

impl Inserter {
    /// Creates the inserter that `options` names, for a log that continues at `end` in a
    /// segment that ends at `segment_end`.
    pub fn new(options: &LogOptions, ring_bytes: u64, end: u64, segment_end: u64) -> Inserter {
        let (segment_end, segment_bytes) = (segment_end & !7, options.segment_bytes & !7);
        let tail = central::Tail::new(end, segment_end, segment_bytes);
        let marks = if options.durability == Durability::Async { Marks::Written } else { Marks::Absent };
        let promise = match options.durability {
            Durability::Async => Promise::Released,
            Durability::Sync | Durability::Replicated | Durability::Memory => Promise::Filled,
        };
        match options.insert {
            Insert::Mutex => Inserter::Mutex(Central::new(tail)),
            Insert::Consolidated => Inserter::Consolidated(Consolidated::new(tail, ring_bytes, promise)),
            Insert::Extents => {
                Inserter::Extents(Extents::new(end, segment_end, segment_bytes, ring_bytes, marks))
            }
        }
    }

    /// Puts a record into the positions that its thread has reserved already, if these are
    /// suitable. Returns the start of the record.
    #[inline(always)]
    pub fn append_within(
        &self,
        slot: &Slot,
        draft: &mut Draft<'_>,
        order: LogOrder,
        room: &Room<'_>,
    ) -> Option<u64> {
        match self {
            Inserter::Extents(extents) => extents.append_within(slot, draft, order, room),
            Inserter::Mutex(_) | Inserter::Consolidated(_) => None,
        }
    }

    pub fn append(
        &self,
        slot: &Arc<Slot>,
        draft: &mut Draft<'_>,
        order: LogOrder,
        room: &Room<'_>,
    ) -> Result<Placed, Crowded> {
        match self {
            Inserter::Extents(extents) => extents.append(slot, draft, order, room),
            Inserter::Mutex(central) => central.append(draft, room),
            Inserter::Consolidated(groups) => groups.append(draft, room),
        }
    }

    /// For an append of order [`LogOrder::Dependent`] that the slot's owner begins now: the
    /// position up to which the log must survive for the record to count. The flusher reaches that
    /// position on request. 0 if the record's own place is past all earlier records in any case.
    #[inline]
    pub fn depends_on(&self, slot: &Slot) -> u64 {
        match self {
            // Places ascend with time.
            Inserter::Mutex(_) | Inserter::Consolidated(_) => 0,
            Inserter::Extents(extents) => extents.depends_on(slot),
        }
    }

    /// A position at or past the end of each record of which the append is over, and of the
    /// positions that these depend on. The flusher reaches it.
    pub fn end(&self) -> u64 {
        match self {
            Inserter::Mutex(central) => central.end(),
            Inserter::Consolidated(groups) => groups.reserved(),
            Inserter::Extents(extents) => extents.end(),
        }
    }

    /// A position at or past the end of each record of which the append is over. Cheaper than
    /// [`Inserter::end`], but the flusher may never reach it.
    #[inline]
    pub fn reserved(&self) -> u64 {
        match self {
            Inserter::Mutex(central) => central.end(),
            Inserter::Consolidated(groups) => groups.reserved(),
            Inserter::Extents(extents) => extents.reserved(),
        }
    }

    /// A position below which the log is complete. Called by one thread at a time.
    pub fn complete(&self, holes: Holes, room: &Room<'_>) -> Complete {
        match self {
            Inserter::Mutex(central) => central.complete(),
            Inserter::Consolidated(groups) => groups.complete(),
            Inserter::Extents(extents) => extents.complete(holes, room),
        }
    }

    /// A position that divides the log in time: each record appended before the call starts below
    /// it and is complete, each later one starts at or past it.
    pub fn fence(&self, room: &Room<'_>) -> u64 {
        match self {
            Inserter::Mutex(central) => central.end(),
            Inserter::Consolidated(groups) => groups.fence(),
            Inserter::Extents(extents) => extents.fence(room),
        }
    }

    pub fn counts(&self) -> Counts {
        match self {
            Inserter::Mutex(central) => central.counts(),
            Inserter::Consolidated(groups) => groups.counts(),
            Inserter::Extents(extents) => extents.counts(),
        }
    }

    /// Runs `f` with the end of the reserved positions while no thread can reserve.
    pub fn held<T>(&self, f: impl FnOnce(u64) -> T) -> T {
        match self {
            Inserter::Mutex(central) => central.held(f),
            Inserter::Consolidated(groups) => groups.held(f),
            Inserter::Extents(extents) => extents.held(f),
        }
    }

    /// A slot for the calling thread, in which it keeps its reserved positions.
    pub fn slot(&self) -> Arc<Slot> {
        match self {
            Inserter::Extents(extents) => extents.slot(),
            Inserter::Mutex(_) | Inserter::Consolidated(_) => Arc::default(),
        }
    }
}
