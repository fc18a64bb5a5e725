//! Log insertion by extents: a thread reserves a run of the log, an *extent*, and fills it record
//! by record. Per record it writes no memory that other threads write.
//!
//! ```text
//!              written                                                reserved
//!  segment files  |  A: rec rec pad |  B: rec rec ....... | c | A: rec ....... |
//!                                      claimed^      end^              open
//! ```
//!
//! A and B are two threads. `c` is a *lone* record: a short record of order [`LogOrder::Last`],
//! appended by a thread that has no open extent, or has one that is not the youngest. The thread
//! reserves and copies it under the lock, and keeps its own extent.
//!
//! A commit [depends on](LogOrder::Dependent) all records that were appended before it. Its place
//! is wherever its thread's other records go, so it writes nothing shared either: `reserved` is an
//! upper bound of all appended records, and the commit reads it once. The log must reach that bound
//! some day, although the bound may lie in the middle of another thread's extent. For this the
//! first record that depends on the bound sets the bit [`RELIED`] in `reserved`. From then on the
//! youngest extent, when it is sealed, does not give its unused rest back but pads it.
//!
//! ```text
//! T1's extent (youngest)  [rec rec .........]      T2 commits: depends on `end`, sets RELIED
//!                                           ^end
//! T1's extent is sealed   [rec rec | pad    ]      the log reaches `end`, T2's commit is durable
//! ```
//!
//! With [`Marks::Written`], each extent begins with a frame that states its length. Recovery reads
//! it in the ring of a killed process and skips the unfilled rest of the extent.
//!
//! Access rules:
//! - A [`Slot`] belongs to one thread, its owner. Only the owner moves `claimed` forward, by
//!   compare-and-swap. It then copies the record to the claimed bytes and moves `filled` past
//!   them by a plain store. A thread that holds the lock may set [`SEALED`] in `claimed`.
//! - `end`, `number` and `size` of a slot: written by a thread that holds the lock.
//! - The lock protects the queue of extents and the shared end of the log. It is taken once per
//!   extent, once per lone record, and once per round of the flusher.
//! - `reserved`: written under the lock, except that any thread may set [`RELIED`] by
//!   compare-and-swap. A thread that gives the rest of the youngest extent back lowers `reserved`
//!   by a compare-and-swap, which fails if [`RELIED`] was set first.
//! - Only the flusher calls [`Extents::complete`]. Memory mode has no flusher: there a thread that
//!   reserves and finds no room does the same work under the lock.
//!
//! Invariants:
//! 1. The extents in the queue are contiguous: each begins where the one before it ends, and the
//!    last one ends at `reserved`. (On a broken log this does not hold: records get positions but
//!    are not written anywhere.)
//! 2. An open extent has one slot, and a slot has at most one open extent. `claimed` lies within
//!    the open extent and is not sealed.
//! 3. The owner never claims in a sealed extent: a claim is a compare-and-swap from an unsealed
//!    value. So the thread that sealed it may pad from `claimed` on while the owner still fills the
//!    bytes before `claimed`.
//! 4. `filled` only grows, and it reaches each value that `claimed` had when it was sealed, since
//!    the claim came before the seal. A thread that waits for this waits for one copy, never for
//!    another append.
//! 5. The rest of an extent is 0 or at least 16 bytes, so a pad frame fits.
//! 6. Only the youngest extent gives its rest back. Nothing was claimed in that rest, so no
//!    position is used twice. A position up to which some record relies on the log is never given
//!    back: [`Extents::end`] is at or past it, and the flusher reaches it. When the rest is given
//!    back, the extent's mark is rewritten with the new length before any other record can be put
//!    there. An extent of which the mark may have been written out keeps its rest.
//! 7. A record starts at or past the position that its [`LogOrder`] requires. For
//!    [`LogOrder::Last`] that is past all positions that other threads had reserved when the append
//!    began. The records of one slot ascend, except lone records, which may lie at higher positions
//!    than later records of the slot's extent.
//! 8. Let R be a dependent record, and let `h` be the larger of R's own end and the position that R
//!    depends on. Each record of which the append was over when R's began ends at or before `h`,
//!    and depends on positions at or before `h`. Two cases: (a) R lies in the youngest extent and
//!    no record relies on the end of that extent; then the records of all other threads, and the
//!    positions that they depend on, lie before that extent. (b) R depends on the end of the
//!    youngest extent.
//! 9. [`Extents::complete`] reports only frames without holes: records, pads, marks.

use super::sync::{Arc, AtomicU64, Backoff, CachePadded, Ordering, SpinMutex};
use super::{Complete, Counts, Crowded, Draft, Drain, Holes, Placed, Room};
use crate::frame::{self, HEAD};
use crate::order::LogOrder;
use latch::Rank;
use std::collections::VecDeque;

/// Bit of `claimed`: no more claims. Positions are multiples of 8, so the bit is free.
const SEALED: u64 = 1;
/// Bit of `reserved`: some record depends on all positions below. Positions are multiples of 8, so
/// the bit is free.
const RELIED: u64 = 1;
/// The largest extent that several records share. At this size threads reserve rarely, and the pad
/// that closes an extent stays small.
const LARGEST: u64 = 16 << 10;
/// Size of the first extent of a slot: a few short records.
const FIRST: u64 = 512;
/// After an extent that was sealed early, the next one has the size of the used part, rounded up to
/// a multiple of this.
const STEP: u64 = 64;
/// A longer record is not copied under the lock.
const LONE: u64 = 256;

/// The extent that one thread has reserved.
pub(crate) struct Slot(CachePadded<Words>);

struct Words {
    /// The next position that the owner may claim, with the bit [`SEALED`].
    claimed: AtomicU64,
    /// All claimed bytes below are in the ring. Written by the owner alone.
    filled: AtomicU64,
    /// End of the slot's extent.
    end: AtomicU64,
    /// Number of the extent, counted from the first extent of the log.
    number: AtomicU64,
    /// Size of the next extent: doubled after a full extent, cut to the used part after one sealed
    /// early.
    size: AtomicU64,
    /// Number of records that the slot's owners have filled. Written by the owner.
    records: AtomicU64,
}

impl Default for Slot {
    fn default() -> Slot {
        Slot(CachePadded::new(Words {
            claimed: AtomicU64::new(SEALED),
            filled: AtomicU64::new(0),
            end: AtomicU64::new(0),
            number: AtomicU64::new(0),
            size: AtomicU64::new(FIRST),
            records: AtomicU64::new(0),
        }))
    }
}

impl Slot {
    /// Adds the slot to `late` if its owner has claimed bytes below `claimed` that it has not
    /// filled yet.
    fn late(self: &Arc<Self>, claimed: u64, late: &mut Late) {
        if self.0.filled.load(Ordering::Acquire) < claimed {
            late.push((self.clone(), claimed));
        }
    }

    /// Waits until all bytes below `claimed` are in the ring (invariant 4).
    fn settle(&self, claimed: u64) {
        let mut backoff = Backoff::new();
        while self.0.filled.load(Ordering::Acquire) < claimed {
            backoff.wait();
        }
    }
}

/// A run of the log between `written` and `reserved`.
struct Extent {
    start: u64,
    end: u64,
    state: ExtentState,
    /// Slot of the thread that fills or filled it; `None` for lone records.
    slot: Option<Arc<Slot>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ExtentState {
    Open,
    /// All bytes below `claimed` were claimed; the bytes from there on are padded or given back.
    Sealed {
        claimed: u64,
    },
}

/// Why an extent ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// It has no room for one more record.
    Full,
    /// The order of a record requires a later place, or the flusher needs the bytes after it.
    Early,
}

struct Tail {
    /// The shared end of the log: the next position to reserve.
    next: u64,
    /// The position at which the current segment is full.
    segment_end: u64,
    /// Bytes of a segment.
    segment_bytes: u64,
    /// Positions at which segments must begin and that [`Extents::complete`] has not reported yet.
    cuts: Vec<u64>,
    /// The extents from the oldest incomplete one to the youngest, which ends at `next`.
    queue: VecDeque<Extent>,
    /// Number of extents that have left the queue.
    popped: u64,
    /// All positions below were reported to the flusher as complete; the flusher may read them.
    given: u64,
    /// All slots of the log, those of ended threads included.
    slots: Vec<Arc<Slot>>,
    /// Number of lone and dropped records.
    lone: u64,
    /// Bytes of pads and marks.
    padding: u64,
}

pub(crate) struct Extents {
    /// The state behind the lock.
    tail: CachePadded<SpinMutex<Tail>>,
    /// Copy of `next`, with the bit [`RELIED`], for reads without the lock.
    reserved: CachePadded<AtomicU64>,
    /// Size limit of an extent: [`LARGEST`], less in a small ring.
    largest: u64,
    /// Bytes of the mark at the start of an extent; 0 for [`Marks::Absent`].
    mark: u64,
}

/// Whether extents begin with a mark. Needed where recovery reads the ring of a dead process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Marks {
    Written,
    Absent,
}

/// Slots of which the owner has claimed and not yet filled, each with the position to wait for.
type Late = Vec<(Arc<Slot>, u64)>;

fn fits(start: u64, end: u64, bytes: u64) -> bool {
    let after = start + bytes;
    after == end || after + HEAD as u64 <= end
}

impl Extents {
    pub fn new(next: u64, segment_end: u64, segment_bytes: u64, ring_bytes: u64, marks: Marks) -> Extents {
        let tail = Tail {
            next,
            segment_end,
            segment_bytes,
            cuts: Vec::new(),
            queue: VecDeque::new(),
            popped: 0,
            given: next,
            slots: Vec::new(),
            lone: 0,
            padding: 0,
        };
        Extents {
            tail: CachePadded::new(SpinMutex::ranked(Rank::LogTail, tail)),
            reserved: CachePadded::new(AtomicU64::new(next)),
            largest: LARGEST.min(ring_bytes / 16),
            mark: if marks == Marks::Written { HEAD as u64 } else { 0 },
        }
    }

    /// A slot for the calling thread. Reuses the slot of a thread that has ended.
    pub fn slot(&self) -> Arc<Slot> {
        let mut tail = self.tail.lock();
        if let Some(slot) = tail.slots.iter().find(|s| Arc::strong_count(s) == 1) {
            // Only the registry refers to the slot. The fence pairs with the drop by the last
            // owner: all its writes to the slot happen before this use.
            std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
            return slot.clone();
        }
        let slot = Arc::<Slot>::default();
        tail.slots.push(slot.clone());
        slot
    }

    pub fn append(
        &self,
        slot: &Arc<Slot>,
        draft: &mut Draft<'_>,
        order: LogOrder,
        room: &Room<'_>,
    ) -> Result<Placed, Crowded> {
        match self.append_within(slot, draft, order, room) {
            Some(start) => Ok(Placed { start, reserved: (start, start) }),
            None => self.reserve(slot, draft, order, room),
        }
    }

    /// Puts a record into the slot's extent if that is open and has room, in the required order.
    /// Returns the start of the record.
    #[inline(always)]
    pub fn append_within(
        &self,
        slot: &Slot,
        draft: &mut Draft<'_>,
        order: LogOrder,
        room: &Room<'_>,
    ) -> Option<u64> {
        let bytes = draft.bytes();
        let words = &slot.0;
        let start = words.claimed.load(Ordering::Relaxed);
        if !self.admits(slot, start, bytes, order) {
            return None;
        }
        words.claimed.compare_exchange(start, start + bytes, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        fill(slot, start, draft, room);
        Some(start)
    }

    /// Whether the slot's extent may take a record at `start`.
    #[inline]
    fn admits(&self, slot: &Slot, start: u64, bytes: u64, order: LogOrder) -> bool {
        let end = slot.0.end.load(Ordering::Relaxed);
        let ordered = match order {
            LogOrder::After(lsn) | LogOrder::Dependent(lsn) => lsn.0 <= start,
            // If the extent is the youngest and its end carries no RELIED bit: all positions
            // reserved before it lie before it, none were reserved after it, and no earlier record
            // depends on its unfilled part.
            LogOrder::Last => self.reserved.load(Ordering::Acquire) == end,
        };
        start & SEALED == 0 && fits(start, end, bytes) && ordered
    }

    #[inline(never)]
    fn reserve(
        &self,
        slot: &Arc<Slot>,
        draft: &mut Draft<'_>,
        order: LogOrder,
        room: &Room<'_>,
    ) -> Result<Placed, Crowded> {
        let bytes = draft.bytes();
        let mut tail = self.tail.lock();
        let claimed = slot.0.claimed.load(Ordering::Relaxed);
        let open = claimed & SEALED == 0;
        let free = self.reserved.load(Ordering::Acquire) == tail.next;
        let youngest = open && free && slot.0.end.load(Ordering::Relaxed) == tail.next;
        if order == LogOrder::Last && !youngest && bytes <= LONE {
            return self.lone(&mut tail, draft, room);
        }
        if open {
            let full = !fits(claimed, slot.0.end.load(Ordering::Relaxed), bytes);
            let why = if full { Why::Full } else { Why::Early };
            let index = (slot.0.number.load(Ordering::Relaxed) - tail.popped) as usize;
            self.seal(&mut tail, index, why, room);
        }
        debug_assert!(order.allows(tail.next), "a record after {order:?}, behind the end {}", tail.next);
        let Some((at, end)) = self.take(&mut tail, slot, bytes, room)? else {
            return Ok(self.dropped(&mut tail, bytes));
        };
        let start = at + self.mark;
        if self.mark > 0 {
            let mark = frame::mark(at, end - at, room.life);
            // SAFETY: these positions were reserved just now and there is room for them. No other
            // thread uses them before the slot publishes them.
            unsafe { room.ring.put(at, &mark) };
            tail.padding += self.mark;
        }
        let words = &slot.0;
        words.number.store(tail.popped + tail.queue.len() as u64, Ordering::Relaxed);
        words.end.store(end, Ordering::Relaxed);
        words.filled.store(start, Ordering::Release);
        words.claimed.store(start + bytes, Ordering::Release);
        tail.queue.push_back(Extent { start: at, end, state: ExtentState::Open, slot: Some(slot.clone()) });
        self.reserved.store(end, Ordering::Release);
        drop(tail);
        fill(slot, start, draft, room);
        Ok(Placed { start, reserved: (at, end) })
    }

    /// Reserves an extent for a record of `bytes` at the shared end. `None` if the log is broken
    /// and the extent would overwrite bytes that were never written.
    fn take(
        &self,
        tail: &mut Tail,
        slot: &Slot,
        bytes: u64,
        room: &Room<'_>,
    ) -> Result<Option<(u64, u64)>, Crowded> {
        let need = bytes + self.mark;
        let mut size = slot.0.size.load(Ordering::Relaxed).min(self.largest);
        size = if fits(0, size, need) { size } else { need };
        if room.must_wait(tail.next + size) {
            size = need;
        }
        if room.must_wait(tail.next + size) {
            return Err(Crowded { next: tail.next, bytes: size });
        }
        if tail.next + size > tail.segment_end && fits(tail.next, tail.segment_end, need) {
            size = tail.segment_end - tail.next;
        }
        self.forget(tail, tail.next + size, room);
        if !room.welcomes(tail.next + size) {
            return Ok(None);
        }
        let at = tail.advance(size);
        Ok(Some((at, tail.next)))
    }

    /// Appends a short record of order [`LogOrder::Last`]; the thread keeps its own extent.
    fn lone(&self, tail: &mut Tail, draft: &mut Draft<'_>, room: &Room<'_>) -> Result<Placed, Crowded> {
        let bytes = draft.bytes();
        if room.must_wait(tail.next + bytes) {
            return Err(Crowded { next: tail.next, bytes });
        }
        self.forget(tail, tail.next + bytes, room);
        if !room.welcomes(tail.next + bytes) {
            return Ok(self.dropped(tail, bytes));
        }
        let start = tail.advance(bytes);
        // SAFETY: these positions were reserved just now and there is room for them. A reader
        // learns of them only under the lock.
        unsafe { draft.put(room, start) };
        tail.lone += 1;
        let end = tail.next;
        match tail.queue.back_mut().filter(|e| e.slot.is_none()) {
            Some(before) => before.end = end,
            None => {
                let state = ExtentState::Sealed { claimed: end };
                tail.queue.push_back(Extent { start, end, state, slot: None });
            }
        }
        self.reserved.store(end, Ordering::Release);
        Ok(Placed { start, reserved: (start, end) })
    }

    /// A position for a record that is dropped because the log is broken.
    fn dropped(&self, tail: &mut Tail, bytes: u64) -> Placed {
        let start = tail.next;
        tail.next += bytes;
        tail.lone += 1;
        self.reserved.store(tail.next, Ordering::Release);
        Placed { start, reserved: (start, tail.next) }
    }

    /// Seals the `index`-th extent of the queue, which must be open. Its rest is given back or
    /// padded.
    fn seal(&self, tail: &mut Tail, index: usize, why: Why, room: &Room<'_>) {
        let extent = &mut tail.queue[index];
        let slot = extent.slot.as_ref().expect("an open extent has a slot");
        let claimed = slot.0.claimed.fetch_or(SEALED, Ordering::AcqRel);
        debug_assert!(claimed & SEALED == 0 && (extent.start..=extent.end).contains(&claimed));
        let (used, rest) = (claimed - extent.start, extent.end - claimed);
        let size = match why {
            Why::Full => (slot.0.size.load(Ordering::Relaxed) * 2).min(LARGEST),
            Why::Early => used.next_multiple_of(STEP),
        };
        slot.0.size.store(size, Ordering::Relaxed);
        extent.state = ExtentState::Sealed { claimed };
        let take_back =
            |end| self.reserved.compare_exchange(end, claimed, Ordering::AcqRel, Ordering::Acquire);
        let can_tell = self.mark == 0 || extent.start >= tail.given;
        if extent.end == tail.next && can_tell && take_back(extent.end).is_ok() {
            extent.end = claimed;
            tail.next = claimed;
            if self.mark > 0 {
                // The owner may still be filling its last claim. If the process dies meanwhile,
                // this mark states where the hole ends.
                let mark = frame::mark(extent.start, used, room.life);
                // SAFETY: the mark was not yet reported to the flusher, no other thread writes or
                // reads it, and the lock is held.
                unsafe { room.ring.put(extent.start, &mark) };
            }
        } else if rest > 0 {
            tail.padding += rest;
            // SAFETY: the extent is sealed, so its owner touches nothing from `claimed` on, and
            // these positions were not yet reported to the flusher.
            unsafe { room.ring.put(claimed, &frame::pad(claimed, rest, room.life)) };
        }
    }

    /// In memory mode: discards all records that the ring overwrites up to position `end`.
    fn forget(&self, tail: &mut Tail, end: u64, room: &Room<'_>) {
        if room.drain == Drain::Oblivion && end > room.limit() {
            let mut late = Late::new();
            let upto = end - room.ring.bytes() as u64;
            let whole = self.whole(tail, Holes::Close { upto }, room, &mut late);
            // Waits under the lock, since no other thread makes room. Each wait lasts one copy.
            late.iter().for_each(|(slot, claimed)| slot.settle(*claimed));
            room.forget_below(whole);
        }
    }

    /// Removes complete extents from the front of the queue. Seals open ones where `holes` asks for
    /// it. Returns the position up to which the log is complete once the slots in `late` have
    /// settled.
    fn whole(&self, tail: &mut Tail, holes: Holes, room: &Room<'_>, late: &mut Late) -> u64 {
        while let Some(front) = tail.queue.front() {
            match (front.state, &front.slot) {
                (ExtentState::Open, Some(slot)) => {
                    let claimed = slot.0.claimed.load(Ordering::Acquire);
                    match holes {
                        Holes::Close { upto } if upto > claimed => {
                            self.seal(tail, 0, Why::Early, room);
                            continue;
                        }
                        Holes::Close { .. } | Holes::Leave => {
                            slot.late(claimed, late);
                            return claimed;
                        }
                    }
                }
                (ExtentState::Sealed { claimed }, Some(slot)) => slot.late(claimed, late),
                (_, None) => {}
            }
            tail.queue.pop_front();
            tail.popped += 1;
        }
        tail.next
    }

    /// See [`Inserter::complete`](super::Inserter::complete).
    pub fn complete(&self, holes: Holes, room: &Room<'_>) -> Complete {
        let mut late = Late::new();
        let mut tail = self.tail.lock();
        let upto = self.whole(&mut tail, holes, room, &mut late);
        tail.given = upto;
        let ready = tail.cuts.partition_point(|&cut| cut < upto);
        let cuts = tail.cuts.drain(..ready).collect();
        drop(tail);
        late.iter().for_each(|(slot, claimed)| slot.settle(*claimed));
        Complete { upto, cuts }
    }

    /// See [`Inserter::fence`](super::Inserter::fence).
    pub fn fence(&self, room: &Room<'_>) -> u64 {
        let mut late = Late::new();
        let mut tail = self.tail.lock();
        for index in 0..tail.queue.len() {
            if tail.queue[index].state == ExtentState::Open {
                self.seal(&mut tail, index, Why::Early, room);
            }
            let extent = &tail.queue[index];
            if let (ExtentState::Sealed { claimed }, Some(slot)) = (extent.state, &extent.slot) {
                slot.late(claimed, &mut late);
            }
        }
        let fence = tail.next;
        drop(tail);
        late.iter().for_each(|(slot, claimed)| slot.settle(*claimed));
        fence
    }

    #[inline]
    pub fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Acquire) & !RELIED
    }

    /// See [`Inserter::depends_on`](super::Inserter::depends_on); invariant 8.
    #[inline]
    pub fn depends_on(&self, slot: &Slot) -> u64 {
        let end = slot.0.end.load(Ordering::Relaxed);
        let open = slot.0.claimed.load(Ordering::Relaxed) & SEALED == 0;
        let mut seen = self.reserved.load(Ordering::Acquire);
        loop {
            if open && seen == end {
                return 0;
            }
            if seen & RELIED != 0 {
                return seen & !RELIED;
            }
            let relied = seen | RELIED;
            match self.reserved.compare_exchange(seen, relied, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return seen,
                Err(now) => seen = now,
            }
        }
    }

    /// See [`Inserter::end`](super::Inserter::end). The youngest extent counts up to `claimed`, or
    /// whole if a record relies on its end.
    pub fn end(&self) -> u64 {
        let tail = self.tail.lock();
        match tail.queue.back() {
            Some(Extent { state: ExtentState::Open, slot: Some(slot), end, .. })
                if self.reserved.load(Ordering::Acquire) == *end =>
            {
                slot.0.claimed.load(Ordering::Acquire)
            }
            _ => tail.next,
        }
    }

    pub fn counts(&self) -> Counts {
        let tail = self.tail.lock();
        let filled: u64 = tail.slots.iter().map(|s| s.0.records.load(Ordering::Relaxed)).sum();
        Counts { records: filled + tail.lone, padding: tail.padding }
    }

    /// Runs `f` with the shared end while the lock keeps all threads from reserving.
    pub fn held<T>(&self, f: impl FnOnce(u64) -> T) -> T {
        let tail = self.tail.lock();
        f(tail.next)
    }
}

impl Tail {
    /// Reserves the next `bytes`. Begins a segment with them if they do not fit the current one.
    fn advance(&mut self, bytes: u64) -> u64 {
        let start = self.next;
        self.next += bytes;
        if self.next > self.segment_end {
            self.cuts.push(start);
            self.segment_end = start + bytes.max(self.segment_bytes);
        }
        start
    }
}

/// Copies a record to the bytes that the slot's owner has claimed for it.
#[inline(always)]
fn fill(slot: &Slot, start: u64, draft: &mut Draft<'_>, room: &Room<'_>) {
    // SAFETY: the owner has claimed these positions of an extent for which there was room. No
    // thread reads them before `filled` covers them, and a seal pads only the bytes after them.
    unsafe { draft.put(room, start) };
    slot.0.filled.store(start + draft.bytes(), Ordering::Release);
    slot.0.records.store(slot.0.records.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
