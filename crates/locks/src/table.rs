//! The lock table: acquire and release.
//!
//! Latch order: a slot's `fast`, then one bucket, then a slot's `wait` or `kept`. The detector's mutex is taken before
//! any of them and only by a request that has just been put to wait. No two buckets and no two slots' same part are
//! ever locked together.

use crate::detect::Walk;
use crate::guarded::Guarded;
use crate::locker::{Granule, Held, LockCounts, Locker, NO_TABLE, Pending, Place, Use};
use crate::mode::{LockName, Mode};
use crate::queue::{Entry, LockerId, Queue};
use crate::slot::{Slots, Wait};
use crate::tuning::{Escalation, LockOptions, LockTuning};
use latch::RawMutex;
use probe::Section;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::Waker;

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acquired {
    /// Held now.
    Granted,
    /// In the queue: [`LockTable::poll`] until it is granted, or [`LockTable::cancel`].
    Waiting,
    /// Waiting would close a cycle. The request is withdrawn; what was held before is still held.
    Deadlock,
    /// [`MAX_LOCKERS`](crate::MAX_LOCKERS) others hold or await locks in this table, and this locker holds none. Nothing was
    /// asked for; once the transaction of one of them has ended there is room.
    Crowded,
}

/// Why a wait ended without the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LockAbort {
    #[error("waiting for the lock would close a cycle of waiting transactions")]
    Deadlock,
    #[error("the lock was not granted in time")]
    Timeout,
}

/// What happened since the table was made.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct LockStats {
    pub waits: u64,
    pub deadlocks: u64,
    /// Waits given up: timeouts and cancelled requests.
    pub cancelled: u64,
    /// Intention locks moved from fast lists to buckets because somebody wanted the table itself.
    pub migrated: u64,
    /// Parked locks thrown out because somebody wanted what conflicts with them.
    pub invalidated: u64,
    /// Table locks taken in place of many keys'.
    pub escalations: u64,
    /// Escalations that would have had to wait and were put off.
    pub escalations_put_off: u64,
    /// Escalated locks that went back to keys, because their holder had to wait or asked for more.
    pub reductions: u64,
    /// Locks asked for on granules, by transactions that have ended.
    pub granule_requests: u64,
    /// Of these, left by the transaction before.
    pub inherited: u64,
    /// Times that a granule's lock was put into the table, changed there or taken out, by transactions that have ended.
    pub granule_calls: u64,
}

impl LockStats {
    /// The sum of two tables'.
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
            reductions: self.reductions + other.reductions,
            granule_requests: self.granule_requests + other.granule_requests,
            inherited: self.inherited + other.inherited,
            granule_calls: self.granule_calls + other.granule_calls,
        }
    }
}

/// Rare events only: each of these counters is one line for all workers.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) waits: AtomicU64,
    pub(crate) deadlocks: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) migrated: AtomicU64,
    pub(crate) invalidated: AtomicU64,
    pub(crate) escalations: AtomicU64,
    pub(crate) escalations_put_off: AtomicU64,
    pub(crate) reductions: AtomicU64,
}

/// A bucket fills one cache line: the mutex and up to three requests.
#[repr(align(64))]
struct Bucket<M>(Guarded<M, Queue>);

/// One counter per table (modulo), so that unrelated tables keep their fast path.
const STRONG: usize = 256;

/// A lock table. `M` is what protects it: `SpinRaw` for a table shared by the workers of an instance (the
/// central lock manager), `ThreadBound` for one that a single worker owns (a partition's, or a serial instance's).
pub struct LockTable<M: RawMutex> {
    buckets: Box<[Bucket<M>]>,
    /// 64 minus the logarithm of the number of buckets.
    shift: u32,
    pub(crate) tuning: LockTuning,
    /// Requests, granted or waiting, for table modes stronger than an intention. While a table's counter is 0, its
    /// intentions may be noted in slots. Changed before such a request enters its queue and after it has left; read
    /// by a locker while it holds its slot's `fast`. A strong request visits every slot after it has announced
    /// itself, so either it finds the intention in the slot, or the slot was visited first and the announcement is
    /// seen (the slot's mutex orders the two).
    pub(crate) strong: Box<[AtomicU32]>,
    pub(crate) slots: Slots<M>,
    pub(crate) detector: Guarded<M, Walk>,
    pub(crate) counters: Counters,
}

impl<M: RawMutex> LockTable<M> {
    /// A table that does what it is asked and no more: no inheritance, no escalation.
    ///
    /// # Panics
    /// If `buckets` is 0 or more than 2^30.
    pub fn new(buckets: usize) -> Self {
        LockTable::with(LockOptions { buckets, tuning: LockTuning::PLAIN })
    }

    /// # Panics
    /// If there are to be no buckets or more than 2^30.
    pub fn with(options: LockOptions) -> Self {
        assert!((1..=1 << 30).contains(&options.buckets), "between 1 and 2^30 buckets");
        let buckets = options.buckets.next_power_of_two().max(2);
        LockTable {
            buckets: (0..buckets).map(|_| Bucket(Guarded::new(Queue::default()))).collect(),
            shift: u64::BITS - buckets.trailing_zeros(),
            tuning: options.tuning,
            strong: (0..STRONG).map(|_| AtomicU32::new(0)).collect(),
            slots: Slots::new(),
            detector: Guarded::new(Walk::default()),
            counters: Counters::default(),
        }
    }

    /// A new locker of this table, to be kept and reused from one transaction to the next.
    pub fn locker(&self) -> Locker {
        Locker::new(Arc::clone(&self.slots.ids))
    }

    /// Sees to it that the locker has a number; `false` if there is none left.
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

    /// The locker's transaction has ended, and others need numbers more.
    #[cold]
    fn take_number(&self, locker: &mut Locker) {
        self.drop_all_parked(locker);
        self.slots.ids.give_back(locker.id);
        locker.is_numbered = false;
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
        debug_assert_eq!(name.is_granule(), mode.0 >= Mode::IS.0, "{mode:?} does not apply to {name:?}");
        locker.ended = None;
        match name.is_granule() {
            true => self.acquire_granule(locker, name, mode),
            false => self.acquire_key(locker, name, mode, NO_TABLE),
        }
    }

    /// Asks for `mode` on `name`, which lies beneath the granules `path`, the largest first: intentions on those come
    /// first, nothing is asked for that a granule's own mode covers, and many keys beneath one table become a lock on
    /// the table ([`Escalation`]). After a wait, ask again: the wait may have been for a granule.
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
                self.reduce(locker, at);
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
            // A prefix that was asked for after the table may have moved it in the list.
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

    /// Strengthens the key at position `at` of the locker's list to `wanted`. Also takes up again one that was given
    /// back while the list was indexed (its mode is `NONE`).
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
            self.hold(locker, name, mode, Place::Fast);
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
                self.hold(locker, name, mode, Place::Bucket);
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
        if place == Place::Fast && wanted.is_intention() && self.raise_fast(locker, name, wanted) {
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

    pub(crate) fn hold(&self, locker: &mut Locker, name: LockName, mode: Mode, place: Place) {
        locker.granules.push(self.fresh(name, mode, place));
    }

    /// A granule of a transaction that has locked nothing beneath it yet.
    #[inline]
    pub(crate) fn fresh(&self, name: LockName, mode: Mode, place: Place) -> Granule {
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

    /// Gives one lock back before the end of the transaction.
    pub fn release(&self, locker: &mut Locker, name: LockName) {
        self.restore(locker, name, Mode::NONE);
    }

    /// Gives back a [`Mode::GAP_INSERT`], wanted only while the key is put into the gap, and keeps whatever else
    /// is held on the name. To be called after the insertion: a scan that came between would miss the new key.
    #[inline]
    pub fn release_instant(&self, locker: &mut Locker, name: LockName) {
        let held = locker.holds(name);
        self.restore(locker, name, held.without_insert());
    }

    /// Lowers the lock on `name` to `mode`, usually what [`Locker::holds`] said before it was acquired.
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

    /// Gives back what only protects reads. Sound once this transaction acquires no lock anywhere any more, on
    /// any instance: earlier it would break two-phase locking.
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

    /// Gives everything back, and any wait up: the end of the transaction. The locker may begin another one.
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

    /// Lowers what is in a bucket.
    #[inline]
    pub(crate) fn lower(&self, locker: LockerId, name: LockName, mode: Mode) {
        if self.bucket(name).with(|q| q.lower(name, locker, mode)) {
            self.let_others_by(name);
        }
    }

    /// Grants what can be granted now. Nobody comes between: who asks meanwhile queues behind those who wait.
    #[cold]
    fn let_others_by(&self, name: LockName) {
        let mut wakers = Wakers::new();
        self.bucket(name).with(|q| self.promote(q, name, &mut wakers));
        wake(wakers);
    }

    /// Lowers a granule in use, wherever it is.
    pub(crate) fn lower_granule(&self, locker: &mut Locker, at: usize, mode: Mode) {
        locker.counts.granule_calls += 1;
        let Granule { name, mode: held, place, .. } = locker.granules[at];
        if place == Place::Kept {
            self.settle_in_bucket(locker, at);
        }
        if place != Place::Fast || !self.lower_fast(locker.id, name, mode) {
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

    /// A visit of a locker's wait.
    #[inline]
    pub(crate) fn wait_of(&self, id: LockerId) -> &Guarded<M, Wait> {
        enter::<M>(Section::LockSlot);
        &self.slots.get(id).wait
    }

    /// Has the bucket of a name fetched from memory: a hint that it will be asked for.
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
            reductions: read(&c.reductions),
            granule_requests: sum(|t| &t.granule_requests),
            inherited: sum(|t| &t.inherited),
            granule_calls: sum(|t| &t.granule_calls),
        }
    }

    /// How many requests, granted or waiting, lie in the buckets, without what is parked: 0 when all transactions
    /// have ended.
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

/// After every latch is released: a waker may run anything.
#[inline]
pub(crate) fn wake(wakers: Wakers) {
    wakers.into_iter().for_each(Waker::wake);
}
