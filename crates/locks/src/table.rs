//! The lock table: acquire and release.
//!
//! Latch order ([`Rank`]): a slot's `fast`, then one bucket, then a slot's `wait` or `kept`. The
//! detector's mutex is taken before any of them, and only by a request that was just queued to wait
//! or by [`LockTable::blockers`]. A thread never holds two buckets, or the same part of two slots.

use crate::guarded::Guarded;
use crate::locker::{Granule, Held, LockCounts, LockPlace, Locker, NO_TABLE, Pending, Use};
use crate::mode::{LockName, Mode};
use crate::queue::{Entry, LockerId, Queue};
use crate::slot::{Slots, Wait};
use crate::tuning::{Escalation, LockOptions, LockTuning};
use crate::walk::Walk;
use latch::{Rank, RawMutex};
use probe::Section;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::Waker;

/// The outcome of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acquired {
    /// The lock is held.
    Granted,
    /// In the queue: [`LockTable::poll`] until it is granted, or [`LockTable::cancel`].
    Waiting,
    /// Waiting would close a cycle. The request is withdrawn; the locks held before are still held.
    Deadlock,
    /// [`MAX_LOCKERS`](crate::MAX_LOCKERS) other lockers hold or await locks in this table, and
    /// this locker holds none. Nothing was requested. There is room once the transaction of one of
    /// them has ended.
    Crowded,
}

/// Counts since the table was made.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct LockStats {
    pub waits: u64,
    pub deadlocks: u64,
    /// Waits given up: timeouts and cancelled requests.
    pub cancelled: u64,
    /// Intention locks moved from fast lists to buckets because of a strong request for the table.
    pub migrated: u64,
    /// Parked locks discarded because they conflicted with a request.
    pub invalidated: u64,
    /// Table locks taken in place of many key locks.
    pub escalations: u64,
    /// Escalations put off because they would have had to wait.
    pub escalations_put_off: u64,
    /// Escalated locks that went back to key locks, because their holder had to wait or asked for a
    /// stronger mode.
    pub de_escalations: u64,
    /// Granule locks requested, by transactions that have ended.
    pub granule_requests: u64,
    /// Of these, inherited from the transaction before.
    pub inherited: u64,
    /// Number of times that a granule lock was added to the table, changed there or removed, by
    /// transactions that have ended.
    pub granule_calls: u64,
}

impl LockStats {
    /// The sum over two tables.
    #[must_use]
    pub fn and(self, other: &LockStats) -> LockStats {
        LockStats {
            waits: self.waits + other.waits,
            deadlocks: self.deadlocks + other.deadlocks,
            cancelled: self.cancelled + other.cancelled,
            migrated: self.migrated + other.migrated,
            invalidated: self.invalidated + other.invalidated,
            escalations: self.escalations + other.escalations,
            escalations_put_off: self.escalations_put_off + other.escalations_put_off,
            de_escalations: self.de_escalations + other.de_escalations,
            granule_requests: self.granule_requests + other.granule_requests,
            inherited: self.inherited + other.inherited,
            granule_calls: self.granule_calls + other.granule_calls,
        }
    }
}

/// Counters of rare events: each of them is one cache line for all workers.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) waits: AtomicU64,
    pub(crate) deadlocks: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) migrated: AtomicU64,
    pub(crate) invalidated: AtomicU64,
    pub(crate) escalations: AtomicU64,
    pub(crate) escalations_put_off: AtomicU64,
    pub(crate) de_escalations: AtomicU64,
}

/// A bucket fills one cache line: the mutex and up to three requests.
#[repr(align(64))]
struct Bucket<M>(Guarded<M, Queue>);

/// One counter per table (modulo), so that unrelated tables keep their fast path.
const STRONG: usize = 256;

/// A lock table. `M` protects it: `SpinRaw` for a table that the workers of an instance share (the
/// central lock manager), `ThreadBound` for the table of a single worker (a partition's, or a
/// serial instance's).
pub struct LockTable<M: RawMutex> {
    buckets: Box<[Bucket<M>]>,
    /// 64 minus the logarithm of the number of buckets.
    shift: u32,
    pub(crate) tuning: LockTuning,
    /// Number of requests per table, granted or waiting, for modes stronger than an intention.
    /// While the number is 0, intentions on the table may be noted in slots.
    ///
    /// Incremented before such a request enters its queue, and decremented after it has left. A
    /// locker reads it while it holds the mutex of its slot's `fast`. A strong request increments
    /// the counter and then visits each slot. So for each slot either the request finds the
    /// intention there, or it visited the slot first, and the locker sees the increment (the slot's
    /// mutex orders the two).
    pub(crate) strong: Box<[AtomicU32]>,
    pub(crate) slots: Slots<M>,
    pub(crate) detector: Guarded<M, Walk>,
    pub(crate) counters: Counters,
}

impl<M: RawMutex> LockTable<M> {
    /// A table without inheritance and escalation.
    ///
    /// # Panics
    /// If `buckets` is 0 or more than 2^30.
    pub fn new(buckets: usize) -> Self {
        LockTable::with(LockOptions { buckets, tuning: LockTuning::PLAIN })
    }

    /// # Panics
    /// If the number of buckets is 0 or more than 2^30.
    pub fn with(options: LockOptions) -> Self {
        assert!((1..=1 << 30).contains(&options.buckets), "between 1 and 2^30 buckets");
        let buckets = options.buckets.next_power_of_two().max(2);
        LockTable {
            buckets: (0..buckets).map(|_| Bucket(Guarded::new(Rank::LockBucket, Queue::default()))).collect(),
            shift: u64::BITS - buckets.trailing_zeros(),
            tuning: options.tuning,
            strong: (0..STRONG).map(|_| AtomicU32::new(0)).collect(),
            slots: Slots::new(),
            detector: Guarded::new(Rank::LockDetector, Walk::default()),
            counters: Counters::default(),
        }
    }

    /// A new locker of this table. The caller keeps and reuses it from one transaction to the next.
    pub fn locker(&self) -> Locker {
        Locker::new(Arc::clone(&self.slots.ids))
    }

    /// Gives the locker a number if it has none. `false` if all numbers are taken.
    #[inline]
    fn has_number(&self, locker: &mut Locker) -> bool {
        locker.is_numbered || self.give_number(locker)
    }

    #[cold]
    fn give_number(&self, locker: &mut Locker) -> bool {
        let Some(id) = self.slots.register() else { return false };
        self.clear_estate(id);
        (locker.id, locker.is_numbered) = (id, true);
        let slot = self.slots.get(id);
        slot.label.store(locker.label, Ordering::Relaxed);
        let (totals, own) = (&slot.totals, &locker.counts);
        let before = |total: &AtomicU64, own: u64| total.load(Ordering::Relaxed).wrapping_sub(own);
        locker.predecessors = LockCounts {
            granule_requests: before(&totals.granule_requests, own.granule_requests),
            granule_calls: before(&totals.granule_calls, own.granule_calls),
            inherited: before(&totals.inherited, own.inherited),
            ..LockCounts::default()
        };
        true
    }

    /// Takes the number of a locker without a transaction, since numbers are scarce.
    #[cold]
    fn take_number(&self, locker: &mut Locker) {
        self.drop_all_parked(locker);
        self.slots.ids.give_back(locker.id);
        locker.is_numbered = false;
    }

    /// Requests `mode` on `name`, in addition to the mode that the locker holds there.
    ///
    /// # Panics
    /// In debug builds, if the locker is waiting already, if the mode is not of the name's kind, or
    /// if the locker belongs to another table.
    #[inline]
    pub fn acquire(&self, locker: &mut Locker, name: LockName, mode: Mode) -> Acquired {
        debug_assert!(Arc::ptr_eq(&locker.ids, &self.slots.ids), "a locker of another table");
        debug_assert!(locker.pending.is_none(), "a waiting locker asks for another lock");
        debug_assert_eq!(name.is_granule(), mode.0 >= Mode::IS.0, "{mode:?} does not apply to {name:?}");
        locker.ended = None;
        match name.is_granule() {
            true => self.acquire_granule(locker, name, mode),
            false => self.acquire_key(locker, name, mode, NO_TABLE),
        }
    }

    /// Requests `mode` on `name`, which lies beneath the granules `path`, the largest first.
    /// Intentions on the granules are acquired first. Nothing is requested that a granule's own
    /// mode covers, and many keys beneath one table become a lock on the table ([`Escalation`]).
    /// After a wait the caller must call again: the wait may have been for a granule.
    ///
    /// # Panics
    /// As [`LockTable::acquire`].
    #[inline]
    pub fn acquire_below(
        &self,
        locker: &mut Locker,
        path: &[LockName],
        name: LockName,
        mode: Mode,
    ) -> Acquired {
        let intention = mode.above();
        let mut table = None;
        for &granule in path {
            let at = match locker.granule(granule) {
                Some(at) if locker.granules[at].usage == Use::Held => at,
                _ => match self.acquire(locker, granule, intention) {
                    Acquired::Granted => locker.granule(granule).expect("granted"),
                    other => return other,
                },
            };
            let held = locker.granules[at].mode;
            if held.covers_beneath(mode) {
                if locker.granules[at].is_escalated() {
                    locker.remember(at, path, name, mode);
                }
                locker.counts.requests += 1;
                locker.counts.repeated += 1;
                return Acquired::Granted;
            }
            if !held.covers(intention) {
                self.de_escalate(locker, at);
                match self.acquire(locker, granule, intention) {
                    Acquired::Granted => {}
                    other => return other,
                }
            }
            if granule.is_table() {
                table = Some(at);
            }
        }
        match table {
            Some(_) if name.is_granule() => self.acquire(locker, name, mode),
            // A prefix that was requested after the table may have moved the table in the list.
            Some(_) if path.len() > 1 => {
                let at = path.iter().find(|g| g.is_table()).and_then(|&g| locker.granule(g));
                self.acquire_counted(locker, at.expect("held"), name, mode)
            }
            Some(at) => self.acquire_counted(locker, at, name, mode),
            None => self.acquire(locker, name, mode),
        }
    }

    #[inline]
    pub(crate) fn acquire_key(
        &self,
        locker: &mut Locker,
        name: LockName,
        mode: Mode,
        table: u16,
    ) -> Acquired {
        locker.counts.requests += 1;
        let Some(at) = locker.find(name) else { return self.first_key(locker, name, mode, table) };
        let before = locker.held[at].mode;
        if before.covers(mode) {
            locker.counts.repeated += 1;
            return Acquired::Granted;
        }
        self.raise_key(locker, at, before.with(mode))
    }

    #[inline]
    fn first_key(&self, locker: &mut Locker, name: LockName, mode: Mode, table: u16) -> Acquired {
        if !self.has_number(locker) {
            locker.counts.requests -= 1;
            return Acquired::Crowded;
        }
        let entry = self.bucket(name).with(|q| {
            let entry = q.enter(name, locker.id, mode);
            self.note_wait(locker, name, entry);
            entry
        });
        match entry {
            Entry::Granted => {
                locker.push(name, mode, table);
                Acquired::Granted
            }
            Entry::Waiting => self.wait(locker, Pending { name, before: Mode::NONE, wanted: mode, table }),
        }
    }

    /// Strengthens the key at position `at` of the locker's list to `wanted`. Also acquires again a
    /// key that was released while the list was indexed (its mode is `NONE`).
    #[cold]
    fn raise_key(&self, locker: &mut Locker, at: usize, wanted: Mode) -> Acquired {
        let Held { mode: before, table, .. } = locker.held[at];
        let name = locker.held[at].name();
        match self.convert(locker, name, wanted) {
            Entry::Granted => {
                locker.set(at, wanted);
                Acquired::Granted
            }
            Entry::Waiting => self.wait(locker, Pending { name, before, wanted, table }),
        }
    }

    fn convert(&self, locker: &Locker, name: LockName, wanted: Mode) -> Entry {
        self.bucket(name).with(|q| {
            self.clear_parked(q, name, locker.id, wanted);
            let entry = q.convert(name, locker.id, wanted);
            self.note_wait(locker, name, entry);
            entry
        })
    }

    pub(crate) fn acquire_granule(&self, locker: &mut Locker, name: LockName, mode: Mode) -> Acquired {
        locker.counts.requests += 1;
        match locker.granule(name) {
            Some(at) if locker.granules[at].usage != Use::Held => {
                locker.counts.granule_requests += 1;
                if self.take_up(locker, at, mode) {
                    locker.counts.higher += 1;
                    return Acquired::Granted;
                }
            }
            Some(at) => {
                let before = locker.granules[at].mode;
                if before.covers(mode) {
                    let granule = &mut locker.granules[at];
                    granule.asked = granule.asked.with(mode);
                    locker.counts.repeated += 1;
                    return Acquired::Granted;
                }
                return self.raise_granule(locker, at, mode);
            }
            None if !self.has_number(locker) => {
                locker.counts.requests -= 1;
                return Acquired::Crowded;
            }
            None => locker.counts.granule_requests += 1,
        }
        self.first_granule(locker, name, mode)
    }

    fn first_granule(&self, locker: &mut Locker, name: LockName, mode: Mode) -> Acquired {
        locker.counts.higher += 1;
        locker.counts.granule_calls += 1;
        if mode.is_intention() && name.is_table() && self.enter_fast(locker, name, mode) {
            self.hold(locker, name, mode, LockPlace::Fast);
            locker.counts.fast += 1;
            return Acquired::Granted;
        }
        self.announce(name, Mode::NONE, mode);
        let entry = self.bucket(name).with(|q| {
            self.clear_parked(q, name, locker.id, mode);
            let entry = q.enter(name, locker.id, mode);
            self.note_wait(locker, name, entry);
            entry
        });
        match entry {
            Entry::Granted => {
                self.hold(locker, name, mode, LockPlace::Bucket);
                Acquired::Granted
            }
            Entry::Waiting => {
                self.wait(locker, Pending { name, before: Mode::NONE, wanted: mode, table: NO_TABLE })
            }
        }
    }

    #[cold]
    fn raise_granule(&self, locker: &mut Locker, at: usize, mode: Mode) -> Acquired {
        locker.counts.higher += 1;
        locker.counts.granule_calls += 1;
        let Granule { name, mode: before, asked, place, .. } = locker.granules[at];
        let wanted = before.with(mode);
        if place == LockPlace::Fast && wanted.is_intention() && self.raise_fast(locker, name, wanted) {
            (locker.granules[at].mode, locker.granules[at].asked) = (wanted, wanted);
            return Acquired::Granted;
        }
        self.settle_in_bucket(locker, at);
        self.announce(name, before, wanted);
        match self.convert(locker, name, wanted) {
            Entry::Granted => {
                (locker.granules[at].mode, locker.granules[at].asked) = (wanted, asked.with(mode));
                Acquired::Granted
            }
            Entry::Waiting => self.wait(locker, Pending { name, before, wanted, table: NO_TABLE }),
        }
    }

    pub(crate) fn hold(&self, locker: &mut Locker, name: LockName, mode: Mode, place: LockPlace) {
        locker.granules.push(self.fresh(name, mode, place));
    }

    /// A granule of a transaction that has locked nothing beneath it yet.
    #[inline]
    pub(crate) fn fresh(&self, name: LockName, mode: Mode, place: LockPlace) -> Granule {
        let Escalation { reads, writes } = self.tuning.escalation;
        Granule {
            name,
            mode,
            place,
            usage: Use::Held,
            reads: 0,
            writes: 0,
            most_reads: reads.unwrap_or(u32::MAX),
            most_writes: writes.unwrap_or(u32::MAX),
            asked: mode,
            fixed: false,
        }
    }

    /// Releases one lock before the end of the transaction.
    pub fn release(&self, locker: &mut Locker, name: LockName) {
        self.restore(locker, name, Mode::NONE);
    }

    /// Releases a [`Mode::GAP_INSERT`], which is needed only during the insertion, and keeps the
    /// other modes held on the name. Call it after the insertion: a scan in between would miss the
    /// new key.
    #[inline]
    pub fn release_instant(&self, locker: &mut Locker, name: LockName) {
        let held = locker.holds(name);
        self.restore(locker, name, held.without_insert());
    }

    /// Lowers the lock on `name` to `mode`, usually the mode that [`Locker::holds`] returned before
    /// the lock was acquired.
    pub fn restore(&self, locker: &mut Locker, name: LockName, mode: Mode) {
        let held = locker.holds(name);
        if held == mode {
            return;
        }
        debug_assert!(held.covers(mode), "{held:?} cannot be lowered to {mode:?}");
        if name.is_granule() {
            let at = locker.granule(name).expect("held");
            self.lower_granule(locker, at, mode);
        } else {
            let at = locker.find(name).expect("held");
            locker.set(at, mode);
            self.lower(locker.id, name, mode);
        }
    }

    /// Releases the locks that protect only reads. Sound only if this transaction acquires no
    /// further lock on any instance: otherwise it breaks two-phase locking.
    pub fn release_shared(&self, locker: &mut Locker) {
        for at in (0..locker.held.len()).rev() {
            let held = locker.held[at];
            if held.mode != Mode::NONE && held.mode.is_shared() {
                locker.set(at, Mode::NONE);
                self.lower(locker.id, held.name(), Mode::NONE);
            }
        }
        for at in (0..locker.granules.len()).rev() {
            if locker.granules[at].usage == Use::Held && locker.granules[at].mode.is_shared() {
                self.lower_granule(locker, at, Mode::NONE);
            }
        }
    }

    /// Releases all locks and gives up any wait: the end of the transaction. The locker may begin
    /// another one.
    #[inline]
    pub fn release_all(&self, locker: &mut Locker) {
        if locker.pending.is_some() {
            self.cancel(locker);
        }
        for held in &locker.held {
            if held.mode != Mode::NONE {
                self.lower(locker.id, held.name(), Mode::NONE);
            }
        }
        locker.clear_keys();
        if !locker.granules.is_empty() {
            self.leave_granules(locker);
        }
        locker.ended = None;
        locker.deadline_ns = u64::MAX;
        locker.report();
        if locker.is_numbered && self.slots.ids.are_scarce() {
            self.take_number(locker);
        }
    }

    /// Lowers a lock that is in a bucket.
    #[inline]
    pub(crate) fn lower(&self, locker: LockerId, name: LockName, mode: Mode) {
        if self.bucket(name).with(|q| q.lower(name, locker, mode)) {
            self.let_others_by(name);
        }
    }

    /// Grants the requests that can be granted. The bucket is released and taken again in between;
    /// no request can overtake meanwhile, since a new one queues behind those that wait.
    #[cold]
    fn let_others_by(&self, name: LockName) {
        let mut wakers = Wakers::new();
        self.bucket(name).with(|q| self.promote(q, name, &mut wakers));
        wake(wakers);
    }

    /// Lowers a granule in use, in its slot or its bucket.
    pub(crate) fn lower_granule(&self, locker: &mut Locker, at: usize, mode: Mode) {
        locker.counts.granule_calls += 1;
        let Granule { name, mode: held, place, .. } = locker.granules[at];
        if place == LockPlace::Kept {
            self.settle_in_bucket(locker, at);
        }
        if place != LockPlace::Fast || !self.lower_fast(locker.id, name, mode) {
            self.lower(locker.id, name, mode);
            self.retract(name, held, mode);
        }
        match mode {
            Mode::NONE => {
                locker.granules.remove(at);
            }
            _ => (locker.granules[at].mode, locker.granules[at].asked) = (mode, mode),
        }
    }

    #[cold]
    pub(crate) fn promote(&self, queue: &mut Queue, name: LockName, wakers: &mut Wakers) {
        queue.promote(name, |id| wakers.extend(self.wait_of(id).with(|w| w.grant())));
    }

    #[inline]
    pub(crate) fn bucket(&self, name: LockName) -> &Guarded<M, Queue> {
        enter::<M>(Section::LockBucket);
        &self.buckets[(name.mix() >> self.shift) as usize].0
    }

    /// Visits the wait of a locker.
    #[inline]
    pub(crate) fn wait_of(&self, id: LockerId) -> &Guarded<M, Wait> {
        enter::<M>(Section::LockSlot);
        &self.slots.get(id).wait
    }

    /// Prefetches the bucket of a name, as a hint that the name will be requested.
    #[inline]
    pub fn prefetch(&self, name: LockName) {
        latch::prefetch(&raw const self.buckets[(name.mix() >> self.shift) as usize]);
    }

    pub fn stats(&self) -> LockStats {
        let read = |c: &AtomicU64| c.load(Ordering::Relaxed);
        let c = &self.counters;
        let sum = |of: fn(&crate::slot::Totals) -> &AtomicU64| {
            self.slots.all().map(|(_, slot)| read(of(&slot.totals))).sum()
        };
        LockStats {
            waits: read(&c.waits),
            deadlocks: read(&c.deadlocks),
            cancelled: read(&c.cancelled),
            migrated: read(&c.migrated),
            invalidated: read(&c.invalidated),
            escalations: read(&c.escalations),
            escalations_put_off: read(&c.escalations_put_off),
            de_escalations: read(&c.de_escalations),
            granule_requests: sum(|t| &t.granule_requests),
            inherited: sum(|t| &t.inherited),
            granule_calls: sum(|t| &t.granule_calls),
        }
    }

    /// Number of requests, granted or waiting, in the buckets, without parked ones. 0 when all
    /// transactions have ended.
    pub fn requests(&self) -> usize {
        let parked = |name: LockName, id: LockerId| {
            name.is_granule() && self.slots.get(id).kept.with(|k| k.is_parked(name))
        };
        let in_bucket = |q: &mut Queue| q.requests().filter(|&(name, id, ..)| !parked(name, id)).count();
        self.buckets.iter().map(|b| b.0.with(in_bucket)).sum()
    }
}

/// Counts a visit to data that other workers may visit at the same time.
#[inline(always)]
pub(crate) fn enter<M: RawMutex>(section: Section) {
    if M::SHARED {
        probe::enter(section);
    }
}

pub(crate) type Wakers = SmallVec<[Waker; 4]>;

/// Called after all latches are released: a waker may run any code.
#[inline]
pub(crate) fn wake(wakers: Wakers) {
    wakers.into_iter().for_each(Waker::wake);
}
