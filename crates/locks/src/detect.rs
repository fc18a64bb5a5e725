//! Waiting, giving up, and finding cycles of waiting transactions.
//!
//! A request that must wait walks over the waits-for graph at once. The walk is *complete*. Walks
//! are serial, and each member of a cycle walks after it has published its wait, so the last member
//! to walk sees all others:
//!
//! ```text
//! T1 publishes its wait for T2, walks: T2 does not wait, no cycle
//! T2 publishes its wait for T1, walks: T1 waits for T2, a cycle
//! ```
//!
//! An edge that appears later leads to a locker that was just granted a lock, and that locker walks
//! before it waits again. Parked locks are never edges: a waiting request has discarded those that
//! conflicted with it.
//!
//! The walk is also *exact*, although it visits one bucket after the other while other threads go
//! on. A cycle is confirmed before a transaction is aborted for it: all members are waiting; then
//! each edge is still there; then all members are still in the same wait. A waiting transaction
//! releases nothing, so at one moment the whole cycle stood. If it is not confirmed, the walk
//! starts again.

use crate::abort::LockAbort;
use crate::locker::{LockPlace, Locker, Pending, Use};
use crate::mode::LockName;
use crate::queue::{Entry, LockerId};
use crate::slot::{Awaited, Standing};
use crate::table::{Acquired, LockTable, Wakers, enter, wake};
use crate::tuning::Victim;
use crate::walk::Walk;
use latch::RawMutex;
use probe::Section;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

/// The outcome of [`LockTable::cancel`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cancelled {
    /// The lock had just been granted: it is held.
    Granted,
    /// The request is withdrawn; the locks held before are still held. Also if the locker did not
    /// wait.
    Gone,
}

impl<M: RawMutex> LockTable<M> {
    /// Publishes the wait while the bucket is still held, so that no grant comes before it. A wait
    /// of a locker with an escalated table is withdrawn at once and repeated with key locks. It
    /// must not be an edge, or another locker would find a cycle through it.
    #[inline]
    pub(crate) fn note_wait(&self, locker: &Locker, name: LockName, entry: Entry) {
        if entry == Entry::Waiting {
            self.wait_of(locker.id).with(|w| match locker.covered.is_empty() {
                true => w.begin(name, locker.begun_ns),
                false => w.end(),
            });
        }
    }

    #[cold]
    pub(crate) fn wait(&self, locker: &mut Locker, pending: Pending) -> Acquired {
        locker.pending = Some(pending);
        if !locker.covered.is_empty() {
            return self.wait_with_keys(locker, pending);
        }
        locker.counts.waited += 1;
        self.counters.waits.fetch_add(1, Ordering::Relaxed);
        let mut wakers = Wakers::new();
        let dies = self.break_cycles(locker.id, &mut wakers);
        wake(wakers);
        if !dies {
            return Acquired::Waiting;
        }
        match self.withdraw(locker) {
            Standing::Waits => {
                self.counters.deadlocks.fetch_add(1, Ordering::Relaxed);
                Acquired::Deadlock
            }
            Standing::Denied => Acquired::Deadlock,
            Standing::Granted => Acquired::Granted,
        }
    }

    /// Breaks all cycles that `start` closes; `start` is queued and has published its wait. True if
    /// `start` itself must give up.
    fn break_cycles(&self, start: LockerId, wakers: &mut Wakers) -> bool {
        enter::<M>(Section::LockDetector);
        self.detector.with(|walk| {
            while let Some(last) = self.cycle(walk, start) {
                let Some(youngest) = self.confirm(&walk.members(start, last)) else { continue };
                let victim = match self.tuning.victim {
                    Victim::Requester => start,
                    Victim::Youngest => youngest,
                };
                if victim == start {
                    return true;
                }
                self.deny(victim, wakers);
            }
            false
        })
    }

    /// Finds a locker that waits for `start` and for which `start` waits, directly or not.
    fn cycle(&self, walk: &mut Walk, start: LockerId) -> Option<LockerId> {
        walk.start(start);
        while let Some(id) = walk.stack.pop() {
            let Some(Awaited { name, .. }) = self.wait_of(id).with(|w| w.awaited()) else { continue };
            let mut closes = false;
            self.bucket(name).with(|q| {
                q.blockers(name, id, |b| {
                    closes |= b == start;
                    walk.visit(b, id);
                });
            });
            if closes {
                return Some(id);
            }
        }
        None
    }

    /// Checks that each member waits for the one before it, and the first for the last, all at one
    /// moment. Returns the youngest of them (of equally old ones, the one with the highest number).
    fn confirm(&self, members: &[LockerId]) -> Option<LockerId> {
        let waits = || members.iter().map(|&id| self.wait_of(id).with(|w| w.awaited()));
        let before: Vec<Awaited> = waits().collect::<Option<_>>()?;
        let mut blocker = *members.last()?;
        for (&id, awaited) in members.iter().zip(&before) {
            let mut stands = false;
            self.bucket(awaited.name).with(|q| q.blockers(awaited.name, id, |b| stands |= b == blocker));
            if !stands {
                return None;
            }
            blocker = id;
        }
        if !waits().eq(before.iter().map(|&w| Some(w))) {
            return None;
        }
        let ages = before.iter().map(|w| w.begun_ns).zip(members);
        ages.max().map(|(_, &youngest)| youngest)
    }

    /// Ends another locker's wait. That locker learns of it when it polls, and releases its other
    /// locks when it aborts.
    fn deny(&self, victim: LockerId, wakers: &mut Wakers) {
        let Some(Awaited { name, .. }) = self.wait_of(victim).with(|w| w.awaited()) else { return };
        self.bucket(name).with(|q| {
            let Some((held, true)) = q.state(name, victim) else { return };
            wakers.extend(self.wait_of(victim).with(|w| w.deny()));
            self.counters.deadlocks.fetch_add(1, Ordering::Relaxed);
            if q.lower(name, victim, held) {
                self.promote(q, name, wakers);
            }
        });
    }

    /// Gives the locker's transaction a label, which [`LockTable::blockers`] reports. It stays
    /// until the next call.
    #[inline]
    pub fn label(&self, locker: &mut Locker, label: u64) {
        locker.label = label;
        if locker.is_numbered {
            self.slots.get(locker.id).label.store(label, Ordering::Relaxed);
        }
    }

    /// Calls `f` with the label of each locker that this one waits for in this table, directly or
    /// through others that wait here. Does nothing if it does not wait.
    ///
    /// For a search for cycles over several tables. Cycles inside this table are found before a
    /// wait begins, and the walk follows waits inside this table. So the search needs to look only
    /// at transactions that are in several tables.
    pub fn blockers(&self, locker: &Locker, mut f: impl FnMut(u64)) {
        if locker.pending.is_none() {
            return;
        }
        enter::<M>(Section::LockDetector);
        self.detector.with(|walk| {
            walk.start(locker.id);
            while let Some(id) = walk.stack.pop() {
                let slot = self.slots.get(id);
                if id != locker.id {
                    f(slot.label.load(Ordering::Relaxed));
                }
                let Some(Awaited { name, .. }) = self.wait_of(id).with(|w| w.awaited()) else { continue };
                self.bucket(name).with(|q| q.blockers(name, id, |b| walk.visit(b, id)));
            }
        });
    }

    /// Calls `f` with the label of each locker, also of those without a transaction. For a caller
    /// that waits until all present holders of locks have ended.
    pub fn labels(&self, mut f: impl FnMut(u64)) {
        self.slots.all().for_each(|(_, slot)| f(slot.label.load(Ordering::Relaxed)));
    }

    /// Ready once the awaited lock is held; wakes `cx` when that may be so. Ready at once if the
    /// locker does not wait, with the reason if the wait was given up.
    ///
    /// # Errors
    /// [`LockAbort::Timeout`] after [`cancel`](Self::cancel), [`LockAbort::Deadlock`] if this wait
    /// was chosen to break a cycle. The locks held before are still held.
    pub fn poll(&self, locker: &mut Locker, cx: &mut Context<'_>) -> Poll<Result<(), LockAbort>> {
        if locker.pending.is_none() {
            return Poll::Ready(locker.ended.map_or(Ok(()), Err));
        }
        match self.wait_of(locker.id).with(|w| w.poll(cx)) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Standing::Denied) => {
                self.forget(locker, LockAbort::Deadlock);
                Poll::Ready(Err(LockAbort::Deadlock))
            }
            Poll::Ready(_) => {
                self.settle(locker);
                Poll::Ready(Ok(()))
            }
        }
    }

    /// As [`poll`](Self::poll), and gives up once `now_ns` has reached the locker's deadline.
    ///
    /// # Errors
    /// As [`poll`](Self::poll).
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

    /// Gives up the wait, if there is one. The next [`poll`](Self::poll) reports the same outcome.
    pub fn cancel(&self, locker: &mut Locker) -> Cancelled {
        if locker.pending.is_none() {
            return Cancelled::Gone;
        }
        match self.withdraw(locker) {
            Standing::Granted => Cancelled::Granted,
            Standing::Denied => Cancelled::Gone,
            Standing::Waits => {
                locker.ended = Some(LockAbort::Timeout);
                self.counters.cancelled.fetch_add(1, Ordering::Relaxed);
                Cancelled::Gone
            }
        }
    }

    /// Ends a wait and returns how it stood: `Waits` means that it would have continued.
    pub(crate) fn withdraw(&self, locker: &mut Locker) -> Standing {
        let Some(Pending { name, before, .. }) = locker.pending else { return Standing::Denied };
        let mut wakers = Wakers::new();
        let standing = self.bucket(name).with(|q| {
            let standing = self.wait_of(locker.id).with(|w| w.standing());
            if standing == Standing::Waits && q.lower(name, locker.id, before) {
                self.promote(q, name, &mut wakers);
            }
            standing
        });
        match standing {
            Standing::Granted => self.settle(locker),
            _ => self.forget(locker, LockAbort::Deadlock),
        }
        wake(wakers);
        standing
    }

    /// Ends a wait without the lock; the request has left its queue.
    fn forget(&self, locker: &mut Locker, why: LockAbort) {
        let Some(Pending { name, before, wanted, .. }) = locker.pending.take() else { return };
        self.wait_of(locker.id).with(|w| w.end());
        self.retract(name, wanted, before);
        locker.ended = Some(why);
    }

    /// Adds a granted request to the locker's list.
    fn settle(&self, locker: &mut Locker) {
        let Some(Pending { name, wanted, table, .. }) = locker.pending.take() else { return };
        self.wait_of(locker.id).with(|w| w.end());
        if name.is_granule() {
            match locker.granules.iter_mut().find(|g| g.name == name && g.usage == Use::Held) {
                Some(granule) => (granule.mode, granule.asked) = (wanted, wanted),
                None => self.hold(locker, name, wanted, LockPlace::Bucket),
            }
            return;
        }
        match locker.find(name) {
            Some(at) => locker.set(at, wanted),
            None => locker.push(name, wanted, table),
        }
    }
}
