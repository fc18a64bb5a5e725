//! The lock table: acquire, wait, release.
//!
//! Latch order: a slot's `fast`, then one bucket, then a slot's `wait`. The detector's mutex is taken before any
//! of them and only by a request that has just been put to wait. No two buckets and no two slots' same part are
//! ever locked together.

use crate::guarded::Guarded;
use crate::locker::{Held, Locker, Pending};
use crate::mode::{LockName, Mode};
use crate::queue::{Entry, LockerId, Queue};
use crate::slot::Slots;
use base::TableId;
use latch::RawMutex;
use probe::{Counter, Section};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acquired {
    /// Held now.
    Granted,
    /// In the queue: [`LockTable::poll`] until it is granted, or [`LockTable::cancel`].
    Waiting,
    /// Waiting would close a cycle. The request is withdrawn; what was held before is still held.
    Deadlock,
}

/// Why a wait ended without the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LockAbort {
    #[error("waiting for the lock would close a cycle of waiting transactions")]
    Deadlock,
    #[error("the lock was not granted in time")]
    Timeout,
}

/// How a wait that was to be given up ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cancelled {
    /// The lock had just been granted: it is held.
    Granted,
    /// The request is gone; what was held before is still held. Also when nothing was awaited.
    Gone,
}

/// Rare events since the table was made.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct LockStats {
    pub waits: u64,
    pub deadlocks: u64,
    /// Waits given up: timeouts and cancelled requests.
    pub cancelled: u64,
    /// Intention locks moved from fast lists to buckets because somebody wanted the table itself.
    pub migrated: u64,
}

#[derive(Default)]
struct Counters {
    waits: AtomicU64,
    deadlocks: AtomicU64,
    cancelled: AtomicU64,
    migrated: AtomicU64,
}

/// A bucket fills one cache line: the mutex and up to three requests.
#[repr(align(64))]
struct Bucket<M>(Guarded<M, Queue>);

/// One counter per table (modulo), so that unrelated tables keep their fast path.
const STRONG: usize = 256;

/// Working memory of the detector.
#[derive(Default)]
pub(crate) struct Walk {
    stack: Vec<LockerId>,
    seen: Vec<LockerId>,
    /// One bit per locker.
    marks: Vec<u64>,
}

impl Walk {
    fn start(&mut self, from: LockerId) {
        for id in self.seen.drain(..) {
            self.marks[id as usize / 64] = 0;
        }
        self.stack.clear();
        self.visit(from);
    }

    fn visit(&mut self, id: LockerId) {
        let (word, bit) = (id as usize / 64, 1 << (id % 64));
        if self.marks.len() <= word {
            self.marks.resize(word + 1, 0);
        }
        if self.marks[word] & bit == 0 {
            self.marks[word] |= bit;
            self.seen.push(id);
            self.stack.push(id);
        }
    }
}

/// A lock table. `M` is what protects it: `SpinRaw` for a table shared by the workers of an instance (the
/// central lock manager), `ThreadBound` for one that a single worker owns (a partition's, or a serial instance's).
pub struct LockTable<M: RawMutex> {
    buckets: Box<[Bucket<M>]>,
    /// 64 minus the logarithm of the number of buckets.
    shift: u32,
    /// Requests, granted or waiting, for more than an intention on a table. Raised before the fast lists are
    /// searched, and read under a fast list's mutex: an intention lock is either found or sees the count.
    strong: Box<[AtomicU32]>,
    slots: Slots<M>,
    detector: Guarded<M, Walk>,
    counters: Counters,
}

impl<M: RawMutex> LockTable<M> {
    /// A table of at least `buckets` buckets of 64 bytes. A few times the number of locks held at one moment
    /// is enough; fewer that stay in the L2 cache are better than many that do not.
    pub fn new(buckets: usize) -> LockTable<M> {
        let buckets = buckets.max(2).next_power_of_two();
        LockTable {
            buckets: (0..buckets).map(|_| Bucket(Guarded::new(Queue::default()))).collect(),
            shift: u64::BITS - buckets.trailing_zeros(),
            strong: (0..STRONG).map(|_| AtomicU32::new(0)).collect(),
            slots: Slots::new(),
            detector: Guarded::new(Walk::default()),
            counters: Counters::default(),
        }
    }

    /// A new locker of this table, to be kept and reused from one transaction to the next.
    ///
    /// # Panics
    /// If 65,536 lockers are alive already.
    pub fn locker(&self) -> Locker {
        let id = self.slots.register().expect("a lock table has at most 65,536 lockers");
        Locker::new(id, Arc::clone(&self.slots.ids))
    }

    /// Asks for `mode` on `name`, on top of what the locker holds there.
    ///
    /// # Panics
    /// In debug builds, if the locker is waiting already, if the mode is not of the name's kind, or if the
    /// locker belongs to another table.
    #[inline]
    pub fn acquire(&self, locker: &mut Locker, name: LockName, mode: Mode) -> Acquired {
        debug_assert!(Arc::ptr_eq(&locker.ids, &self.slots.ids), "a locker of another table");
        debug_assert!(locker.pending.is_none(), "a waiting locker asks for another lock");
        debug_assert_eq!(name.is_table(), mode.0 >= Mode::IS.0, "{mode:?} does not apply to {name:?}");
        locker.cancelled = false;
        locker.counts.requests += 1;
        let Some(at) = locker.find(name) else { return self.first(locker, name, mode) };
        let before = locker.held[at].mode;
        if before.covers(mode) {
            locker.counts.repeated += 1;
            probe::count(Counter::LockRepeats);
            return Acquired::Granted;
        }
        self.raise(locker, at, before.with(mode))
    }

    #[inline]
    fn first(&self, locker: &mut Locker, name: LockName, mode: Mode) -> Acquired {
        count_lock(name);
        if name.is_table() {
            if mode.is_intention() && self.enter_fast(locker, name, mode) {
                locker.push(name, mode, true);
                locker.counts.fast += 1;
                probe::count(Counter::LockFast);
                return Acquired::Granted;
            }
            self.announce(name, Mode::NONE, mode);
        }
        let entry = self.bucket(name).with(|q| {
            let entry = q.enter(name, locker.id, mode);
            self.note_wait(locker.id, name, entry);
            entry
        });
        match entry {
            Entry::Granted => {
                locker.push(name, mode, false);
                Acquired::Granted
            }
            Entry::Waiting => self.wait(locker, Pending { name, before: Mode::NONE, wanted: mode }),
        }
    }

    /// Strengthens the lock at position `at` of the locker's list to `wanted`. Also takes up again a lock that
    /// was given back while the list was indexed (its mode is `NONE`).
    #[cold]
    fn raise(&self, locker: &mut Locker, at: usize, wanted: Mode) -> Acquired {
        count_lock(locker.held[at].name());
        let Held { mode: before, fast, .. } = locker.held[at];
        let name = locker.held[at].name();
        if name.is_table() {
            if fast && wanted.is_intention() && self.raise_fast(locker, name, wanted) {
                locker.set(at, wanted);
                return Acquired::Granted;
            }
            self.migrate(locker.id, name);
            locker.held[at].fast = false;
            self.announce(name, before, wanted);
        }
        let entry = self.bucket(name).with(|q| {
            let entry = q.convert(name, locker.id, wanted);
            self.note_wait(locker.id, name, entry);
            entry
        });
        match entry {
            Entry::Granted => {
                locker.set(at, wanted);
                Acquired::Granted
            }
            Entry::Waiting => self.wait(locker, Pending { name, before, wanted }),
        }
    }

    /// Publishes the wait while the bucket is still held, so that no grant comes before it.
    #[inline]
    fn note_wait(&self, locker: LockerId, name: LockName, entry: Entry) {
        if entry == Entry::Waiting {
            self.slots.get(locker).wait.with(|w| w.begin(name));
        }
    }

    #[cold]
    fn wait(&self, locker: &mut Locker, pending: Pending) -> Acquired {
        locker.counts.waited += 1;
        locker.pending = Some(pending);
        self.counters.waits.fetch_add(1, Ordering::Relaxed);
        if !self.closes_cycle(locker.id) {
            return Acquired::Waiting;
        }
        match self.withdraw(locker) {
            true => {
                self.counters.deadlocks.fetch_add(1, Ordering::Relaxed);
                Acquired::Deadlock
            }
            false => Acquired::Granted,
        }
    }

    /// Whether `start`, which is in a queue and has published it, waits for itself.
    ///
    /// Complete, because walks are serial and every member of a cycle walks after it has published its wait: the
    /// last one to walk sees all of the others. An edge that appears later leads to a locker that was just
    /// granted something, and that one walks before it waits again. A stale publication is harmless: the queue
    /// tells whether the request still waits.
    fn closes_cycle(&self, start: LockerId) -> bool {
        enter::<M>(Section::LockDetector);
        self.detector.with(|walk| {
            walk.start(start);
            while let Some(id) = walk.stack.pop() {
                let Some(name) = self.slots.get(id).wait.with(|w| w.name()) else { continue };
                let mut cycle = false;
                self.bucket(name).with(|q| {
                    q.blockers(name, id, |b| {
                        cycle |= b == start;
                        walk.visit(b);
                    });
                });
                if cycle {
                    return true;
                }
            }
            false
        })
    }

    /// Ready once the awaited lock is held; wakes `cx` when that may be so. Ready at once if nothing is awaited,
    /// with [`LockAbort::Timeout`] if the wait was cancelled.
    pub fn poll(&self, locker: &mut Locker, cx: &mut Context<'_>) -> Poll<Result<(), LockAbort>> {
        if locker.pending.is_none() {
            return Poll::Ready(if locker.cancelled { Err(LockAbort::Timeout) } else { Ok(()) });
        }
        match self.slots.get(locker.id).wait.with(|w| w.poll(cx)) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                self.settle(locker);
                Poll::Ready(Ok(()))
            }
        }
    }

    /// As [`poll`](Self::poll), and gives up when `now_ns` has reached the locker's deadline.
    pub fn poll_until(
        &self,
        locker: &mut Locker,
        now_ns: u64,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), LockAbort>> {
        let polled = self.poll(locker, cx);
        if polled.is_pending() && now_ns >= locker.deadline_ns {
            self.cancel(locker);
            return self.poll(locker, cx);
        }
        polled
    }

    /// Gives up the wait, if there is one; the next [`poll`](Self::poll) tells the same.
    pub fn cancel(&self, locker: &mut Locker) -> Cancelled {
        if locker.pending.is_none() {
            return Cancelled::Gone;
        }
        if !self.withdraw(locker) {
            return Cancelled::Granted;
        }
        locker.cancelled = true;
        self.counters.cancelled.fetch_add(1, Ordering::Relaxed);
        Cancelled::Gone
    }

    /// Ends a wait without the lock (true), or with it because it has just been granted (false).
    fn withdraw(&self, locker: &mut Locker) -> bool {
        let Some(Pending { name, before, wanted }) = locker.pending else { return false };
        let mut wakers = Wakers::new();
        let withdrawn = self.bucket(name).with(|q| {
            let waits = q.state(name, locker.id).is_some_and(|(_, waits)| waits);
            if waits && q.lower(name, locker.id, before) {
                self.promote(q, name, &mut wakers);
            }
            waits
        });
        if withdrawn {
            locker.pending = None;
            self.slots.get(locker.id).wait.with(|w| w.end());
            self.retract(name, wanted, before);
        } else {
            self.settle(locker);
        }
        wake(wakers);
        withdrawn
    }

    /// Takes a granted request into the locker's list.
    fn settle(&self, locker: &mut Locker) {
        let Some(Pending { name, wanted, .. }) = locker.pending.take() else { return };
        self.slots.get(locker.id).wait.with(|w| w.end());
        match locker.find(name) {
            Some(at) => locker.set(at, wanted),
            None => locker.push(name, wanted, false),
        }
    }

    /// Gives one lock back before the end of the transaction.
    pub fn release(&self, locker: &mut Locker, name: LockName) {
        self.restore(locker, name, Mode::NONE);
    }

    /// Gives back a [`Mode::GAP_INSERT`], wanted only while the key is put into the gap, and keeps whatever else
    /// is held on the name. To be called after the insertion: a scan that came between would miss the new key.
    pub fn release_instant(&self, locker: &mut Locker, name: LockName) {
        let held = locker.holds(name);
        self.restore(locker, name, held.without_insert());
    }

    /// Lowers the lock on `name` to `mode`, usually what [`Locker::holds`] said before it was acquired.
    pub fn restore(&self, locker: &mut Locker, name: LockName, mode: Mode) {
        let Some(at) = locker.find(name) else { return };
        let held = locker.held[at];
        if held.mode == mode {
            return;
        }
        debug_assert!(held.mode.covers(mode), "{:?} cannot be lowered to {mode:?}", held.mode);
        locker.set(at, mode);
        self.lower(locker.id, held, mode);
    }

    /// Gives back what only protects reads. Sound once this transaction acquires no lock anywhere any more, on
    /// any instance: earlier it would break two-phase locking.
    pub fn release_shared(&self, locker: &mut Locker) {
        for at in (0..locker.held.len()).rev() {
            let held = locker.held[at];
            if held.mode != Mode::NONE && held.mode.is_shared() {
                locker.set(at, Mode::NONE);
                self.lower(locker.id, held, Mode::NONE);
            }
        }
    }

    /// Gives everything back, and any wait up: the end of the transaction. The locker may begin another one.
    pub fn release_all(&self, locker: &mut Locker) {
        self.cancel(locker);
        for i in (0..locker.held.len()).rev() {
            let held = locker.held[i];
            if held.mode != Mode::NONE {
                self.lower(locker.id, held, Mode::NONE);
            }
        }
        locker.clear();
        locker.cancelled = false;
        locker.deadline_ns = u64::MAX;
    }

    #[inline]
    fn lower(&self, locker: LockerId, held: Held, mode: Mode) {
        let name = held.name();
        if held.fast && self.lower_fast(locker, name, mode) {
            return;
        }
        let mut wakers = Wakers::new();
        self.bucket(name).with(|q| {
            if q.lower(name, locker, mode) {
                self.promote(q, name, &mut wakers);
            }
        });
        if name.is_table() {
            self.retract(name, held.mode, mode);
        }
        wake(wakers);
    }

    #[cold]
    fn promote(&self, queue: &mut Queue, name: LockName, wakers: &mut Wakers) {
        queue.promote(name, |id| wakers.extend(self.slots.get(id).wait.with(|w| w.grant())));
    }

    #[inline]
    fn bucket(&self, name: LockName) -> &Guarded<M, Queue> {
        enter::<M>(Section::LockBucket);
        &self.buckets[(name.mix() >> self.shift) as usize].0
    }

    pub fn stats(&self) -> LockStats {
        let read = |c: &AtomicU64| c.load(Ordering::Relaxed);
        let Counters { waits, deadlocks, cancelled, migrated } = &self.counters;
        LockStats {
            waits: read(waits),
            deadlocks: read(deadlocks),
            cancelled: read(cancelled),
            migrated: read(migrated),
        }
    }

    /// How many requests, granted or waiting, lie in the buckets: 0 when all transactions have ended.
    pub fn requests(&self) -> usize {
        self.buckets.iter().map(|b| b.0.with(|q| q.requests().count())).sum()
    }
}

/// The fast path of intention locks: a locker notes `IS` and `IX` in its own slot while nobody holds or wants
/// more than an intention on the table, so that the table's bucket is not a line all workers fight for.
impl<M: RawMutex> LockTable<M> {
    fn strong(&self, name: LockName) -> &AtomicU32 {
        &self.strong[name.space as usize % STRONG]
    }

    #[inline]
    fn enter_fast(&self, locker: &Locker, name: LockName, mode: Mode) -> bool {
        // Relaxed: the slot's mutex orders this against a strong request that searches the slot (see `strong`).
        enter::<M>(Section::LockSlot);
        let free = |_: &_| self.strong(name).load(Ordering::Relaxed) == 0;
        self.slots.get(locker.id).fast.with(|f| free(f) && f.put(table_of(name), mode))
    }

    fn raise_fast(&self, locker: &Locker, name: LockName, mode: Mode) -> bool {
        let table = table_of(name);
        enter::<M>(Section::LockSlot);
        // An entry that is still there conflicts with nobody: a strong request would have moved it first.
        self.slots.get(locker.id).fast.with(|f| f.has(table) && f.put(table, mode))
    }

    fn lower_fast(&self, locker: LockerId, name: LockName, mode: Mode) -> bool {
        enter::<M>(Section::LockSlot);
        let table = table_of(name);
        self.slots.get(locker).fast.with(|f| match mode {
            Mode::NONE => f.take(table).is_some(),
            weaker => f.has(table) && f.put(table, weaker),
        })
    }

    /// Before a strong request on a table enters its queue: from now on intentions on it go to the bucket, and
    /// those that did not are moved there.
    #[inline]
    fn announce(&self, name: LockName, before: Mode, wanted: Mode) {
        if wanted.is_strong() && !before.is_strong() {
            self.strong(name).fetch_add(1, Ordering::Relaxed);
            for (id, _) in self.slots.all() {
                self.migrate(id, name);
            }
        }
    }

    /// After a strong request has left its queue or was lowered to an intention.
    #[inline]
    fn retract(&self, name: LockName, from: Mode, to: Mode) {
        if name.is_table() && from.is_strong() && !to.is_strong() {
            self.strong(name).fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Moves one locker's intention lock to the bucket. Both are locked meanwhile, so that nobody misses it.
    fn migrate(&self, id: LockerId, name: LockName) {
        self.slots.get(id).fast.with(|f| {
            if let Some(mode) = f.take(table_of(name)) {
                self.bucket(name).with(|q| q.place(name, id, mode));
                self.counters.migrated.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
}

/// Counts a visit to data that other workers may visit at the same time.
#[inline(always)]
fn enter<M: RawMutex>(section: Section) {
    if M::SHARED {
        probe::enter(section);
    }
}

#[inline(always)]
fn count_lock(name: LockName) {
    probe::count(if name.is_table() { Counter::HigherLocks } else { Counter::RowLocks });
}

#[inline]
fn table_of(name: LockName) -> TableId {
    TableId(name.space as u16)
}

type Wakers = SmallVec<[Waker; 4]>;

/// After every latch is released: a waker may run anything.
#[inline]
fn wake(wakers: Wakers) {
    wakers.into_iter().for_each(Waker::wake);
}
