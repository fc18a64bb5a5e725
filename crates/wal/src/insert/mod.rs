//! Three ways to give records their places, to be compared (Johnson et al., "Aether: A Scalable Approach to Logging",
//! PVLDB 2010, sections 4 and 5).
//!
//! | way | reserving a place | copying | shared per record |
//! |---|---|---|---|
//! | [`Central`] | one lock | under the lock | the lock, the tail |
//! | [`Consolidated`] | one lock, taken once for a group | outside, released in order | the lock or a group's word |
//! | [`Extents`] | one lock, taken once per run of the log | outside | nothing |
//!
//! All three promise the flusher the same: [`Inserter::complete`] gives a position below which the ring holds whole
//! frames and no hole, and where segments must begin below it.

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
use crate::options::{Durability, Insert, LogOptions};
use crate::order::Order;
use crate::ring::Ring;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;

/// The ring, and how much of it appenders may have.
#[derive(Clone, Copy)]
pub(crate) struct Room<'a> {
    pub ring: &'a Ring,
    pub life: u64,
    /// Below this position the ring's bytes are somebody else's no more: written out, or in memory forgotten.
    pub written: &'a AtomicU64,
    /// The log has failed: a record for which there is no room gets a position and goes nowhere, since it would
    /// overwrite what was acknowledged and never written.
    pub broken: &'a AtomicBool,
    pub drain: Drain,
    /// To be woken by whoever cannot go away and come again.
    pub flusher: Option<&'a Thread>,
}

/// Who makes room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Drain {
    /// The flusher, by writing; an appender without room waits for it.
    Flusher,
    /// Nobody: the oldest records are forgotten.
    Oblivion,
}

impl Room<'_> {
    /// Bytes that end at or below this overwrite nothing that is still needed.
    pub fn limit(&self) -> u64 {
        self.written.load(Ordering::Acquire) + self.ring.bytes() as u64
    }

    /// Whether an appender that wants to reserve up to `end` must wait first.
    pub fn must_wait(&self, end: u64) -> bool {
        self.drain == Drain::Flusher && end > self.limit() && !self.broken.load(Ordering::Acquire)
    }

    /// In memory: nobody needs what lies below `position`.
    pub fn forget_below(&self, position: u64) {
        self.written.fetch_max(position, Ordering::Release);
    }

    pub fn nudge(&self) {
        if let Some(flusher) = self.flusher {
            flusher.unpark();
        }
    }

    /// Whether bytes that end at `end` may be put into the ring.
    pub fn welcomes(&self, end: u64) -> bool {
        self.drain == Drain::Oblivion || end <= self.limit()
    }
}

/// There is no room for so many bytes at `next`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowded {
    pub next: u64,
    pub bytes: u64,
}

/// A record in the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub start: u64,
    /// Positions that were reserved for it (and perhaps for others), empty when there was room already.
    pub reserved: (u64, u64),
}

/// A record on its way.
pub(crate) struct Draft<'a> {
    pub content: Content<'a>,
    /// What the device had when the append began.
    pub stable: u64,
}

pub(crate) enum Content<'a> {
    /// Built but for what depends on its place, with its sum.
    Built(&'a mut [u8], u32),
    /// To be written in its place. Only in a log whose records are not summed.
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

    /// Puts the record where it belongs.
    ///
    /// # Safety
    /// The caller has the positions `start..start + bytes` of the ring for itself.
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

/// A record at the end of the ring and at its beginning.
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

/// What is whole: everything below `upto`; segments begin at `cuts`.
#[derive(Default, Debug)]
pub(crate) struct Complete {
    pub upto: u64,
    pub cuts: Vec<u64>,
}

/// What the flusher does about places that were reserved and not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holes {
    /// Stop before the first.
    Leave,
    /// Close them: the records below a position are asked for.
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
    /// The way that `options` names, for a log that goes on at `end` and whose segment is full at `segment_end`.
    pub fn new(options: &LogOptions, ring_bytes: u64, end: u64, segment_end: u64) -> Inserter {
        let (segment_end, segment_bytes) = (segment_end & !7, options.segment_bytes & !7);
        let tail = central::Tail::new(end, segment_end, segment_bytes);
        let marks = if options.durability == Durability::Async { Marks::Written } else { Marks::Absent };
        let promise = match options.durability {
            Durability::Async => Promise::Released,
            Durability::Sync | Durability::Memory => Promise::Filled,
        };
        match options.insert {
            Insert::Mutex => Inserter::Mutex(Central::new(tail)),
            Insert::Consolidated => Inserter::Consolidated(Consolidated::new(tail, ring_bytes, promise)),
            Insert::Extents => {
                Inserter::Extents(Extents::new(end, segment_end, segment_bytes, ring_bytes, marks))
            }
        }
    }

    /// Puts a record into what its thread has reserved already, if that does; gives the place.
    #[inline(always)]
    pub fn append_within(
        &self,
        slot: &Slot,
        draft: &mut Draft<'_>,
        order: Order,
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
        order: Order,
        room: &Room<'_>,
    ) -> Result<Placed, Crowded> {
        match self {
            Inserter::Extents(extents) => extents.append(slot, draft, order, room),
            Inserter::Mutex(central) => central.append(draft, room),
            Inserter::Consolidated(groups) => groups.append(draft, room),
        }
    }

    /// What a record rests on whose append by the slot's owner begins now, and that rests on all whose append is over: a
    /// position that the flusher reaches when it is asked to; 0 when wherever the record goes is behind that.
    #[inline]
    pub fn rests_on(&self, slot: &Slot) -> u64 {
        match self {
            // Places grow with time.
            Inserter::Mutex(_) | Inserter::Consolidated(_) => 0,
            Inserter::Extents(extents) => extents.rests_on(slot),
        }
    }

    /// At or behind the end of every record whose append is over and of what it rests on, and reached by the flusher before
    /// long.
    pub fn end(&self) -> u64 {
        match self {
            Inserter::Mutex(central) => central.end(),
            Inserter::Consolidated(groups) => groups.reserved(),
            Inserter::Extents(extents) => extents.end(),
        }
    }

    /// At or behind the end of every record whose append is over. Cheap; may be more than is ever written.
    #[inline]
    pub fn reserved(&self) -> u64 {
        match self {
            Inserter::Mutex(central) => central.end(),
            Inserter::Consolidated(groups) => groups.reserved(),
            Inserter::Extents(extents) => extents.reserved(),
        }
    }

    /// A position below which the log is whole. Called by one thread at a time.
    pub fn complete(&self, holes: Holes, room: &Room<'_>) -> Complete {
        match self {
            Inserter::Mutex(central) => central.complete(),
            Inserter::Consolidated(groups) => groups.complete(),
            Inserter::Extents(extents) => extents.complete(holes, room),
        }
    }

    /// A position such that every record appended before starts below it and is whole, and every later one does not.
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

    /// Runs `f` while nobody can reserve; gives it the end of what is reserved.
    pub fn held<T>(&self, f: impl FnOnce(u64) -> T) -> T {
        match self {
            Inserter::Mutex(central) => central.held(f),
            Inserter::Consolidated(groups) => groups.held(f),
            Inserter::Extents(extents) => extents.held(f),
        }
    }

    /// The calling thread's own place to keep what it has reserved.
    pub fn slot(&self) -> Arc<Slot> {
        match self {
            Inserter::Extents(extents) => extents.slot(),
            Inserter::Mutex(_) | Inserter::Consolidated(_) => Arc::default(),
        }
    }
}
