//! A consolidation array with decoupled buffer fill (Aether, sections 4.1 to 4.3). Threads that
//! find the lock busy join a group, and the first member reserves positions for all. Each member
//! copies its record outside the lock. Groups become visible in the order of their positions.
//!
//! ```text
//! group:  open, empty --join--> open, n bytes of k members --leader holds the lock--> closed
//!                  ^                                                                    |
//!                  +------ done, collected <--last member-- filled <--members copy-- base known
//! ```
//!
//! Access rules:
//! - A thread joins an open group by one compare-and-swap of `joined`. The thread that joins an
//!   empty group is its leader.
//! - The leader, under the lock, closes the group, puts a fresh group in its place, reserves the
//!   positions and publishes `base`.
//! - Each member copies its record and decrements `unfilled`. The last member moves `released` from
//!   the start of the group to its end and marks the group as done.
//! - If `released` has not reached the start of the group, the last member does not wait. It adds
//!   the range to `early`, and the thread that releases the range before it releases this one too
//!   (delegated release). So a thread that is preempted in the middle of a copy does not stop the
//!   others. (With [`Promise::Released`] each member then waits until its own record is released.)
//! - The flusher reads the ring only below `released`.

use super::central::Tail;
use super::{Complete, Counts, Crowded, Draft, Placed, Room};
use latch::{Backoff, CachePadded, Rank, SpinMutex};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Number of groups that can be joined at a time. The paper finds three or four enough.
const ARRAY: usize = 4;
/// Number of groups in total: open, being filled, or free. More than the threads that can append at
/// once.
const GROUPS: usize = 256;
/// Bit of `joined`: the group admits no more members.
const CLOSED: u64 = 1 << 63;
/// One member, in `joined`. The bits below count the bytes.
const MEMBER: u64 = 1 << 40;
const BYTES: u64 = MEMBER - 1;
/// Value of `base` before the leader has published it.
const UNKNOWN: u64 = u64::MAX;

/// A group of records that share one reservation.
struct Group {
    /// [`CLOSED`], the number of members, and the bytes of their records.
    joined: AtomicU64,
    /// Position of the group, or [`UNKNOWN`]. Published by the leader.
    base: AtomicU64,
    /// Bytes of all members together. Set before `base`.
    bytes: AtomicU64,
    /// Number of members that have not filled their part. Set before `base`.
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

/// State that the lock protects.
struct Locked {
    tail: Tail,
    /// Groups that are not in use.
    free: Vec<usize>,
}

pub(crate) struct Consolidated {
    locked: CachePadded<SpinMutex<Locked>>,
    /// All positions below are reserved.
    reserved: CachePadded<AtomicU64>,
    /// All positions below are filled.
    released: CachePadded<AtomicU64>,
    /// Indexes of the groups that can be joined.
    array: [AtomicUsize; ARRAY],
    groups: Box<[CachePadded<Group>]>,
    /// One bit per group that is filled and can be used again. Collected by the thread that holds
    /// the lock.
    done: [AtomicU64; GROUPS / 64],
    /// Largest number of bytes of a group.
    group_bytes: u64,
    /// Ranges that are filled but not released, since an earlier range is not filled; `waiting`
    /// counts them.
    early: CachePadded<SpinMutex<Vec<(u64, u64)>>>,
    waiting: AtomicU64,
    /// Decides when an append is over.
    promise: Promise,
}

/// When an append is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Promise {
    /// When the record is in the ring.
    Filled,
    /// When all records before it are in the ring, too. Then the ring of a killed process has no
    /// holes.
    Released,
}

thread_local! {
    /// Index of the group that the thread tries first, so that threads spread over the array.
    static FIRST: Cell<usize> = const { Cell::new(0) };
}

impl Consolidated {
    pub fn new(tail: Tail, ring_bytes: u64, promise: Promise) -> Consolidated {
        let open = |n: usize| Group::new(if n < ARRAY { 0 } else { CLOSED });
        let next = tail.next;
        let locked = Locked { tail, free: (ARRAY..GROUPS).collect() };
        Consolidated {
            reserved: CachePadded::new(AtomicU64::new(next)),
            released: CachePadded::new(AtomicU64::new(next)),
            locked: CachePadded::new(SpinMutex::ranked(Rank::LogTail, locked)),
            array: std::array::from_fn(AtomicUsize::new),
            groups: (0..GROUPS).map(open).collect(),
            done: std::array::from_fn(|_| AtomicU64::new(0)),
            group_bytes: (ring_bytes / 8).min(64 << 10),
            early: CachePadded::new(SpinMutex::ranked(Rank::LogEarly, Vec::new())),
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

    /// Reserves positions for one record.
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
            // The record is too long for a group, or all groups are full.
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

    /// Joins a group that has room. Returns the group's index and the record's offset in the group.
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

    /// Reserves positions for the group. Returns the reserved range.
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

    /// Moves the groups that are done to the free list.
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
            // SAFETY: these positions were reserved for this record alone, and there is room for
            // them.
            unsafe { draft.put(room, start) };
        }
    }

    /// One member has filled its part. The last member releases the group.
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

    /// Makes a filled range visible once all earlier ranges are: at once, or by the thread that
    /// releases the range before it.
    fn release(&self, (start, end): (u64, u64)) {
        // Sequentially consistent, like the count below. Let T1 move `released` to `start` while T2
        // (this thread) finds it lower. Then T1 sees T2's count, or T2 sees T1's `released`: one of
        // them releases the range.
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
            // No other thread moves `released` from here: the position is the start of this range.
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

/// Waits until the leader has published the start of the group.
fn known(group: &Group) -> u64 {
    let mut backoff = Backoff::new();
    loop {
        match group.base.load(Ordering::Acquire) {
            UNKNOWN => backoff.wait(),
            base => return base,
        }
    }
}
