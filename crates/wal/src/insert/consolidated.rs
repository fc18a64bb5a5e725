//! A consolidation array with decoupled buffer fill (Aether, sections 4.1 to 4.3): threads that find the lock busy
//! join a group, its first member reserves for all, everyone copies outside the lock, and groups become visible in the
//! order of their places.
//!
//! ```text
//! group:  open, empty ──join──> open, n bytes of k ──leader holds the lock──> closed ──place known──> filled ──> open, empty
//! ```
//!
//! Who may do what:
//! - a thread joins by one compare-and-swap of `joined` while it is open; whoever joins an empty group leads it;
//! - the leader, holding the lock, closes the group, puts a fresh one in its place, and publishes `base`;
//! - members fill their parts and count `unfilled` down; the last one moves `released` from the group's start to its
//!   end and gives the group back; when `released` has not got there yet, it leaves that to those it waits for
//!   (delegated release): a thread that lost its processor in the middle of a copy must not stop all others;
//! - the flusher reads the ring below `released` only.

use super::central::Tail;
use super::{Complete, Counts, Crowded, Draft, Placed, Room};
use latch::{Backoff, CachePadded, SpinMutex};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Groups that can be joined at a time: the paper finds three or four enough.
const ARRAY: usize = 4;
/// Groups altogether; those not open are being filled or free. More than threads that can be inside at once.
const GROUPS: usize = 256;
/// In `joined`: nobody can join.
const CLOSED: u64 = 1 << 63;
/// In `joined`: one member. The bytes lie below.
const MEMBER: u64 = 1 << 40;
const BYTES: u64 = MEMBER - 1;
/// `base` before it is known.
const UNKNOWN: u64 = u64::MAX;

struct Group {
    joined: AtomicU64,
    base: AtomicU64,
    /// Of all members together; set before `base`.
    bytes: AtomicU64,
    unfilled: AtomicU64,
}

impl Group {
    fn new(joined: u64) -> CachePadded<Group> {
        CachePadded::new(Group {
            joined: AtomicU64::new(joined),
            base: AtomicU64::new(UNKNOWN),
            bytes: AtomicU64::new(0),
            unfilled: AtomicU64::new(0),
        })
    }
}

/// Behind the lock.
struct Locked {
    tail: Tail,
    /// Groups nobody uses.
    free: Vec<usize>,
}

pub(crate) struct Consolidated {
    locked: CachePadded<SpinMutex<Locked>>,
    /// Everything below is reserved.
    reserved: CachePadded<AtomicU64>,
    /// Everything below is filled.
    released: CachePadded<AtomicU64>,
    /// The groups that can be joined.
    array: [AtomicUsize; ARRAY],
    groups: Box<[CachePadded<Group>]>,
    /// Groups filled and to be used again, as bits; collected by whoever holds the lock.
    done: [AtomicU64; GROUPS / 64],
    group_bytes: u64,
    /// What is filled and not yet released, since something before it is not; and how many there are.
    early: CachePadded<SpinMutex<Vec<(u64, u64)>>>,
    waiting: AtomicU64,
    promise: Promise,
}

/// When a record counts as appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Promise {
    /// When it is in the ring.
    Filled,
    /// When everything before it is, too: what a killed process leaves has no holes.
    Released,
}

thread_local! {
    /// Which group to try first, so that threads spread.
    static FIRST: Cell<usize> = const { Cell::new(0) };
}

impl Consolidated {
    pub fn new(tail: Tail, ring_bytes: u64, promise: Promise) -> Consolidated {
        let open = |n: usize| Group::new(if n < ARRAY { 0 } else { CLOSED });
        Consolidated {
            reserved: CachePadded::new(AtomicU64::new(tail.next)),
            released: CachePadded::new(AtomicU64::new(tail.next)),
            locked: CachePadded::new(SpinMutex::new(Locked { tail, free: (ARRAY..GROUPS).collect() })),
            array: std::array::from_fn(AtomicUsize::new),
            groups: (0..GROUPS).map(open).collect(),
            done: std::array::from_fn(|_| AtomicU64::new(0)),
            group_bytes: (ring_bytes / 8).min(64 << 10),
            early: CachePadded::default(),
            waiting: AtomicU64::new(0),
            promise,
        }
    }

    #[inline]
    pub fn append(&self, draft: &mut Draft<'_>, room: &Room<'_>) -> Result<Placed, Crowded> {
        if let Some(mut locked) = self.locked.try_lock() {
            return self.alone(&mut locked, draft, room).map(|reserved| {
                drop(locked);
                self.fill(reserved.0, draft, room);
                self.release(reserved);
                Placed { start: reserved.0, reserved }
            });
        }
        self.in_company(draft, room)
    }

    /// Reserves for one record.
    fn alone(&self, locked: &mut Locked, draft: &Draft<'_>, room: &Room<'_>) -> Result<(u64, u64), Crowded> {
        let bytes = draft.bytes();
        locked.tail.crowded(bytes, room)?;
        let start = locked.tail.take(bytes);
        locked.tail.records += 1;
        self.reserved.store(locked.tail.next, Ordering::Release);
        Ok((start, start + bytes))
    }

    #[cold]
    fn in_company(&self, draft: &mut Draft<'_>, room: &Room<'_>) -> Result<Placed, Crowded> {
        let bytes = draft.bytes();
        let Some((index, offset)) = self.join(bytes) else {
            // Too long for a group, or all are full.
            let mut locked = self.locked.lock();
            let reserved = self.alone(&mut locked, draft, room)?;
            drop(locked);
            self.fill(reserved.0, draft, room);
            self.release(reserved);
            return Ok(Placed { start: reserved.0, reserved });
        };
        probe::enter(probe::Section::LogGroup);
        let group = &self.groups[index];
        let reserved = if offset == 0 { self.lead(index, room) } else { (0, 0) };
        let base = known(group);
        let start = base + offset;
        self.fill(start, draft, room);
        self.leave(index, base);
        self.await_release(start + bytes);
        Ok(Placed { start, reserved })
    }

    /// Enters a group that has room; gives which, and where in it.
    fn join(&self, bytes: u64) -> Option<(usize, u64)> {
        let first = FIRST.get();
        for n in 0..ARRAY {
            let place = (first + n) % ARRAY;
            let index = self.array[place].load(Ordering::Acquire);
            let joined = self.groups[index].joined.load(Ordering::Relaxed);
            if joined & CLOSED == 0 && (joined & BYTES) + bytes <= self.group_bytes {
                let more = joined + MEMBER + bytes;
                let swap = self.groups[index].joined.compare_exchange(
                    joined,
                    more,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                );
                if swap.is_ok() {
                    return Some((index, joined & BYTES));
                }
            }
            FIRST.set(place + 1);
        }
        None
    }

    /// Reserves for the group; gives what it reserved.
    fn lead(&self, index: usize, room: &Room<'_>) -> (u64, u64) {
        let mut backoff = Backoff::new();
        let mut locked = loop {
            let mut locked = self.locked.lock();
            self.collect(&mut locked);
            if !locked.free.is_empty() && !room.must_wait(locked.tail.next + self.group_bytes) {
                break locked;
            }
            drop(locked);
            room.nudge();
            backoff.wait();
        };
        let fresh = locked.free.pop().expect("looked at above");
        self.groups[fresh].joined.store(0, Ordering::Release);
        let place = self.array.iter().find(|a| a.load(Ordering::Relaxed) == index);
        place.expect("an open group is in the array").store(fresh, Ordering::Release);
        let joined = self.groups[index].joined.swap(CLOSED, Ordering::AcqRel);
        let (bytes, members) = (joined & BYTES, joined / MEMBER);
        let start = locked.tail.take(bytes);
        locked.tail.records += members;
        self.groups[index].bytes.store(bytes, Ordering::Relaxed);
        self.groups[index].unfilled.store(members, Ordering::Relaxed);
        self.groups[index].base.store(start, Ordering::Release);
        self.reserved.store(locked.tail.next, Ordering::Release);
        (start, start + bytes)
    }

    /// Takes back the groups that are done.
    fn collect(&self, locked: &mut Locked) {
        for (word, done) in self.done.iter().enumerate() {
            let mut bits =
                if done.load(Ordering::Relaxed) == 0 { 0 } else { done.swap(0, Ordering::Acquire) };
            while bits != 0 {
                locked.free.push(word * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }

    fn fill(&self, start: u64, draft: &mut Draft<'_>, room: &Room<'_>) {
        if room.welcomes(start + draft.bytes()) {
            // SAFETY: these positions were reserved for this record alone, and there is room for them.
            unsafe { draft.put(room, start) };
        }
    }

    /// One member's part is filled; the last one passes the group on.
    fn leave(&self, index: usize, base: u64) {
        let group = &self.groups[index];
        if group.unfilled.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let end = base + group.bytes.load(Ordering::Relaxed);
        group.base.store(UNKNOWN, Ordering::Relaxed);
        self.release((base, end));
        self.done[index / 64].fetch_or(1 << (index % 64), Ordering::Release);
    }

    /// Makes what is filled visible, after everything before it: now, or by whoever fills that.
    fn release(&self, (start, end): (u64, u64)) {
        // Sequentially consistent, as is the count below: of two threads, one that moves `released` up to `start` and
        // this one, at least one sees what the other did.
        if self.released.compare_exchange(start, end, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            self.early.lock().push((start, end));
            self.waiting.fetch_add(1, Ordering::SeqCst);
        }
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.release_early();
        }
        self.await_release(end);
    }

    #[cold]
    fn release_early(&self) {
        let mut early = self.early.lock();
        loop {
            let released = self.released.load(Ordering::SeqCst);
            let Some(next) = early.iter().position(|(start, _)| *start == released) else { return };
            let (_, end) = early.swap_remove(next);
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            // Nobody else moves it from here: these positions are this range's.
            self.released.store(end, Ordering::SeqCst);
        }
    }

    fn await_release(&self, end: u64) {
        let mut backoff = Backoff::new();
        while self.promise == Promise::Released && self.released.load(Ordering::Acquire) < end {
            backoff.wait();
        }
    }

    #[inline]
    pub fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Acquire)
    }

    pub fn complete(&self) -> Complete {
        let upto = self.released.load(Ordering::Acquire);
        let mut locked = self.locked.lock();
        let cuts = &mut locked.tail.cuts;
        let ready = cuts.partition_point(|&cut| cut < upto);
        Complete { upto, cuts: cuts.drain(..ready).collect() }
    }

    pub fn fence(&self) -> u64 {
        let fence = self.reserved();
        let mut backoff = Backoff::new();
        while self.released.load(Ordering::Acquire) < fence {
            backoff.wait();
        }
        fence
    }

    pub fn held<T>(&self, f: impl FnOnce(u64) -> T) -> T {
        let locked = self.locked.lock();
        f(locked.tail.next)
    }

    pub fn counts(&self) -> Counts {
        Counts { records: self.locked.lock().tail.records, padding: 0 }
    }
}

/// Where the group begins, once its leader knows.
fn known(group: &Group) -> u64 {
    let mut backoff = Backoff::new();
    loop {
        match group.base.load(Ordering::Acquire) {
            UNKNOWN => backoff.wait(),
            base => return base,
        }
    }
}
