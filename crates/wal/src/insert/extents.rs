//! Extents: a thread reserves a run of the log and fills it record by record, sharing nothing.
//!
//! ```text
//!              written                                                reserved
//!  segment files  |  A: rec rec pad |  B: rec rec ....... | c | A: rec ....... |
//!                                      claimed^      end^              open
//! ```
//!
//! A record that [rests](Order::Resting) on all there is, as a commit does, goes where its thread's others go, and shares
//! nothing either: what is reserved is a bound for all that there is, and one look at `reserved` gives it. Only that bound
//! must be reached some day, though it may lie in the midst of another thread's extent. So the first who rests on it says so
//! in `reserved` itself ([`RELIED`]), and from then on the youngest extent does not give its rest back but pads it.
//!
//! `c` is a *lone* record: short, to come [`Order::Last`], of a thread that has no extent or not the youngest. It is
//! reserved and copied under the lock, and a thread that has an extent keeps it. With `marks`, each extent begins with a frame
//! that says how long it is: whoever finds the ring of a process that was killed gets over the unfilled rest with it.
//!
//! Who may do what:
//! - [`Slot`] is a thread's. Its owner alone moves `claimed` forward, by compare-and-swap, copies a record to what it
//!   claimed, and then moves `filled` there by a plain store. Anyone who holds the lock may set [`SEALED`] in `claimed`.
//! - `end`, `number` and `size` of a slot are written by whoever holds the lock.
//! - The lock protects the queue of extents and the shared end of the log. It is taken once per extent, per lone
//!   record, and per round of the flusher.
//! - `reserved` is written under the lock, but that anyone may set [`RELIED`] in it by compare-and-swap. Whoever gives the
//!   youngest extent's rest back takes `reserved` down by a compare-and-swap that fails if that was faster.
//! - The flusher alone calls [`Extents::complete`] (in memory mode, where there is none, whoever reserves and finds no
//!   room does so under the lock).
//!
//! Invariants:
//! 1. The queue's extents touch: each begins where the one before ends, the last ends at `reserved`. (Not on a broken
//!    log, where records get positions and go nowhere.)
//! 2. An open extent has one slot, a slot at most one open extent; `claimed` lies within it and is not sealed.
//! 3. A sealed extent is never written by its owner again: a claim is a compare-and-swap from an unsealed value. So
//!    whoever sealed it may pad from `claimed` on, while the owner still fills what lies before.
//! 4. `filled` only grows, and reaches every value that `claimed` had when it was sealed, as the claim came before the
//!    seal. Who waits for that waits for one copy, never for another append.
//! 5. An extent's rest is 0 or at least 16 bytes: a pad frame fits.
//! 6. Only the youngest extent gives its rest back; nothing was claimed there, so no position is used twice. No position up
//!    to which somebody relies on the log is given back: [`Extents::end`] is never below it, and the flusher reaches it. Its
//!    mark says so from then on, before anything else can be put there; one whose mark may have been written out keeps its
//!    rest.
//! 7. A record's start is at or behind what its [`Order`] asks for; for `Last` it is behind everything reserved by
//!    others when the append began. A slot's own records ascend but for lone ones, which overtake its extent.
//! 8. What a resting record rests on, or its own place, is at or behind the end of each record that was over, and of what
//!    those rest on. For it lies in the youngest extent and nobody relies on that one's end (then all others' records, and
//!    what they rest on, lie before that extent); or it rests on the end of the youngest extent.
//! 9. What [`Extents::complete`] gives out is frames without holes: records, pads, marks.

use super::sync::{Arc, AtomicU64, Backoff, CachePadded, Ordering, SpinMutex};
use super::{Complete, Counts, Crowded, Draft, Drain, Holes, Placed, Room};
use crate::frame::{self, HEAD};
use crate::order::Order;
use std::collections::VecDeque;

/// In `claimed`: no more claims. Positions are multiples of 8.
const SEALED: u64 = 1;
/// In `reserved`: some record rests on all below. Positions are multiples of 8.
const RELIED: u64 = 1;
/// The largest extent that several records share: two pages of the ring, so that reserving is rare and the pad small.
const LARGEST: u64 = 16 << 10;
/// A slot's first: a few short records.
const FIRST: u64 = 512;
/// An extent that ended early is followed by one of what was used of it, in steps of this.
const STEP: u64 = 64;
/// A longer record is not copied under the lock.
const LONE: u64 = 256;

/// What one thread has reserved.
pub(crate) struct Slot(CachePadded<Words>);

struct Words {
    claimed: AtomicU64,
    filled: AtomicU64,
    end: AtomicU64,
    /// Which extent it is, counted from the first of all.
    number: AtomicU64,
    /// How much the next extent should be, by what became of the last ones.
    size: AtomicU64,
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
    /// Notes it among those to wait for, if need be.
    fn late(self: &Arc<Self>, claimed: u64, late: &mut Late) {
        if self.0.filled.load(Ordering::Acquire) < claimed {
            late.push((self.clone(), claimed));
        }
    }

    /// Waits until everything below `claimed` is in the ring (invariant 4).
    fn settle(&self, claimed: u64) {
        let mut backoff = Backoff::new();
        while self.0.filled.load(Ordering::Acquire) < claimed {
            backoff.wait();
        }
    }
}

/// A stretch of the log between what is written and what is reserved.
struct Extent {
    start: u64,
    end: u64,
    state: State,
    /// Who fills, or filled, it; `None` for lone records.
    slot: Option<Arc<Slot>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Everything below has been claimed, and what lies behind is padded.
    Sealed {
        claimed: u64,
    },
}

/// Why an extent ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// No room for one more record.
    Full,
    /// An order, or the flusher.
    Early,
}

struct Tail {
    /// The shared end.
    next: u64,
    segment_end: u64,
    segment_bytes: u64,
    cuts: Vec<u64>,
    queue: VecDeque<Extent>,
    /// Extents that have left the queue.
    popped: u64,
    /// Everything below has been given out as whole, and is the flusher's.
    given: u64,
    slots: Vec<Arc<Slot>>,
    lone: u64,
    padding: u64,
}

pub(crate) struct Extents {
    tail: CachePadded<SpinMutex<Tail>>,
    /// `next`, for a look without the lock.
    reserved: CachePadded<AtomicU64>,
    largest: u64,
    mark: u64,
}

/// Whether extents begin with a mark: needed where a dead process' ring is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Marks {
    Written,
    Absent,
}

/// Those who have claimed and not yet filled.
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
            tail: CachePadded::new(SpinMutex::new(tail)),
            reserved: CachePadded::new(AtomicU64::new(next)),
            largest: LARGEST.min(ring_bytes / 16),
            mark: if marks == Marks::Written { HEAD as u64 } else { 0 },
        }
    }

    /// A slot for the calling thread, perhaps one that a thread which is gone has left.
    pub fn slot(&self) -> Arc<Slot> {
        let mut tail = self.tail.lock();
        if let Some(slot) = tail.slots.iter().find(|s| Arc::strong_count(s) == 1) {
            // Only the registry has it: its last owner let go of it, after whatever it did to it.
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
        order: Order,
        room: &Room<'_>,
    ) -> Result<Placed, Crowded> {
        match self.append_within(slot, draft, order, room) {
            Some(start) => Ok(Placed { start, reserved: (start, start) }),
            None => self.reserve(slot, draft, order, room),
        }
    }

    /// Puts a record into the slot's extent, if that is open and takes it; gives the place.
    #[inline(always)]
    pub fn append_within(
        &self,
        slot: &Slot,
        draft: &mut Draft<'_>,
        order: Order,
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

    /// Whether the slot's extent takes a record at `start`.
    #[inline]
    fn admits(&self, slot: &Slot, start: u64, bytes: u64, order: Order) -> bool {
        let end = slot.0.end.load(Ordering::Relaxed);
        let ordered = match order {
            Order::After(lsn) | Order::Resting(lsn) => lsn.0 <= start,
            // Everything that was reserved before this extent lies before it, nothing was reserved after it, and no record
            // before it rests on what it has not filled yet.
            Order::Last => self.reserved.load(Ordering::Acquire) == end,
        };
        start & SEALED == 0 && fits(start, end, bytes) && ordered
    }

    #[inline(never)]
    fn reserve(
        &self,
        slot: &Arc<Slot>,
        draft: &mut Draft<'_>,
        order: Order,
        room: &Room<'_>,
    ) -> Result<Placed, Crowded> {
        let bytes = draft.bytes();
        let mut tail = self.tail.lock();
        let claimed = slot.0.claimed.load(Ordering::Relaxed);
        let open = claimed & SEALED == 0;
        let free = self.reserved.load(Ordering::Acquire) == tail.next;
        let youngest = open && free && slot.0.end.load(Ordering::Relaxed) == tail.next;
        if order == Order::Last && !youngest && bytes <= LONE {
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
            // SAFETY: these positions were reserved just now, there is room for them, and they are nobody else's
            // before the slot says so.
            unsafe { room.ring.put(at, &mark) };
            tail.padding += self.mark;
        }
        let words = &slot.0;
        words.number.store(tail.popped + tail.queue.len() as u64, Ordering::Relaxed);
        words.end.store(end, Ordering::Relaxed);
        words.filled.store(start, Ordering::Release);
        words.claimed.store(start + bytes, Ordering::Release);
        tail.queue.push_back(Extent { start: at, end, state: State::Open, slot: Some(slot.clone()) });
        self.reserved.store(end, Ordering::Release);
        drop(tail);
        fill(slot, start, draft, room);
        Ok(Placed { start, reserved: (at, end) })
    }

    /// Takes an extent for a record of `bytes` from the shared end; `None` if the log is broken and it would
    /// overwrite something.
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

    /// A short record that comes after everything, while the thread keeps its own extent.
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
        // SAFETY: these positions were reserved just now and there is room for them; whoever might read them needs
        // the lock to learn of them.
        unsafe { draft.put(room, start) };
        tail.lone += 1;
        let end = tail.next;
        match tail.queue.back_mut().filter(|e| e.slot.is_none()) {
            Some(before) => before.end = end,
            None => {
                let state = State::Sealed { claimed: end };
                tail.queue.push_back(Extent { start, end, state, slot: None });
            }
        }
        self.reserved.store(end, Ordering::Release);
        Ok(Placed { start, reserved: (start, end) })
    }

    /// A position for a record that goes nowhere: the log is broken.
    fn dropped(&self, tail: &mut Tail, bytes: u64) -> Placed {
        let start = tail.next;
        tail.next += bytes;
        tail.lone += 1;
        self.reserved.store(tail.next, Ordering::Release);
        Placed { start, reserved: (start, tail.next) }
    }

    /// Ends the `index`-th extent of the queue, which is open: its rest is given back or padded.
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
        extent.state = State::Sealed { claimed };
        let take_back =
            |end| self.reserved.compare_exchange(end, claimed, Ordering::AcqRel, Ordering::Acquire);
        let can_tell = self.mark == 0 || extent.start >= tail.given;
        if extent.end == tail.next && can_tell && take_back(extent.end).is_ok() {
            extent.end = claimed;
            tail.next = claimed;
            if self.mark > 0 {
                // Its owner may still be filling what it claimed. Should the process die of it, this says where the hole
                // ends.
                let mark = frame::mark(extent.start, used, room.life);
                // SAFETY: the flusher was not given the mark yet, nobody else writes or reads it, and the lock is held.
                unsafe { room.ring.put(extent.start, &mark) };
            }
        } else if rest > 0 {
            tail.padding += rest;
            // SAFETY: sealed, so its owner touches nothing from `claimed` on, and it is behind what the flusher was
            // given.
            unsafe { room.ring.put(claimed, &frame::pad(claimed, rest, room.life)) };
        }
    }

    /// In memory: everything that the ring up to `end` overwrites is done with.
    fn forget(&self, tail: &mut Tail, end: u64, room: &Room<'_>) {
        if room.drain == Drain::Oblivion && end > room.limit() {
            let mut late = Late::new();
            let upto = end - room.ring.bytes() as u64;
            let whole = self.whole(tail, Holes::Close { upto }, room, &mut late);
            // Under the lock, since nobody else makes room; each is one copy away.
            late.iter().for_each(|(slot, claimed)| slot.settle(*claimed));
            room.forget_below(whole);
        }
    }

    /// Takes extents off the queue's front as far as they are whole, or `holes` says to make them so.
    fn whole(&self, tail: &mut Tail, holes: Holes, room: &Room<'_>, late: &mut Late) -> u64 {
        while let Some(front) = tail.queue.front() {
            match (front.state, &front.slot) {
                (State::Open, Some(slot)) => {
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
                (State::Sealed { claimed }, Some(slot)) => slot.late(claimed, late),
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
            if tail.queue[index].state == State::Open {
                self.seal(&mut tail, index, Why::Early, room);
            }
            let extent = &tail.queue[index];
            if let (State::Sealed { claimed }, Some(slot)) = (extent.state, &extent.slot) {
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

    /// See [`Inserter::rests_on`](super::Inserter::rests_on); invariant 8.
    #[inline]
    pub fn rests_on(&self, slot: &Slot) -> u64 {
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

    /// See [`Inserter::end`](super::Inserter::end): the youngest extent counts as far as it is claimed, or whole if somebody
    /// relies on it.
    pub fn end(&self) -> u64 {
        let tail = self.tail.lock();
        match tail.queue.back() {
            Some(Extent { state: State::Open, slot: Some(slot), end, .. })
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

    /// Runs `f` while nobody can reserve; gives it the shared end.
    pub fn held<T>(&self, f: impl FnOnce(u64) -> T) -> T {
        let tail = self.tail.lock();
        f(tail.next)
    }
}

impl Tail {
    /// Takes the next `bytes`, beginning a segment with them when they do not fit the current one.
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

/// Copies a record to what the slot's owner has claimed for it.
#[inline(always)]
fn fill(slot: &Slot, start: u64, draft: &mut Draft<'_>, room: &Room<'_>) {
    // SAFETY: the owner has claimed these positions of an extent for which there was room; nobody reads them before
    // `filled` says so, and a seal pads only behind them.
    unsafe { draft.put(room, start) };
    slot.0.filled.store(start + draft.bytes(), Ordering::Release);
    slot.0.records.store(slot.0.records.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
