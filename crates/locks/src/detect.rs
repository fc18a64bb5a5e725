//! Waiting, giving up, and finding cycles of those who wait.
//!
//! A request that has to wait walks over waits-for at once. The walk is *complete*: walks are serial, and every member of
//! a cycle walks after it has published its wait, so the last one to walk sees all of the others. An edge that appears
//! later leads to a locker that was just granted something, and that one walks before it waits again. Parked locks are
//! nobody's edge: whoever waits has thrown out those that conflicted with it.
//!
//! And it is *exact*, although it looks at one bucket after the other while others go on: a cycle that was met is
//! confirmed before anybody dies for it. All its members are waiting; then each edge is looked at once more; then all
//! of them are still in the same wait. Who waits gives nothing up, so there was a moment at which the whole cycle stood.
//! If it is not confirmed, the walk is made again.

use crate::locker::{Locker, Pending, Place, Use};
use crate::mode::LockName;
use crate::queue::{Entry, LockerId};
use crate::slot::{Awaited, Standing};
use crate::table::{Acquired, LockAbort, LockTable, Wakers, enter, wake};
use crate::tuning::Victim;
use latch::RawMutex;
use probe::Section;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

/// How a wait that was to be given up ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cancelled {
    /// The lock had just been granted: it is held.
    Granted,
    /// The request is gone; what was held before is still held. Also when nothing was awaited.
    Gone,
}

/// Working memory of the detector.
#[derive(Default)]
pub(crate) struct Walk {
    stack: Vec<LockerId>,
    /// Every locker met, and who waits for it.
    seen: Vec<(LockerId, LockerId)>,
    /// One bit per locker.
    marks: Vec<u64>,
}

impl Walk {
    fn start(&mut self, from: LockerId) {
        for (id, _) in self.seen.drain(..) {
            self.marks[id as usize / 64] = 0;
        }
        self.stack.clear();
        self.visit(from, from);
    }

    fn visit(&mut self, id: LockerId, from: LockerId) {
        let (word, bit) = (id as usize / 64, 1 << (id % 64));
        if self.marks.len() <= word {
            self.marks.resize(word + 1, 0);
        }
        if self.marks[word] & bit == 0 {
            self.marks[word] |= bit;
            self.seen.push((id, from));
            self.stack.push(id);
        }
    }

    /// The members of the cycle that `last` closes by waiting for `start`.
    fn members(&self, start: LockerId, last: LockerId) -> Vec<LockerId> {
        let mut members = vec![last];
        let mut at = last;
        while at != start {
            let from = self.seen.iter().find(|s| s.0 == at).map_or(start, |s| s.1);
            members.push(from);
            at = from;
        }
        members
    }
}

impl<M: RawMutex> LockTable<M> {
    /// Publishes the wait while the bucket is still held, so that no grant comes before it. One that is taken back at once, to
    /// be repeated with keys in place of an escalated table, is nobody's edge: another locker would take it for a cycle's.
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

    /// Breaks every cycle that `start` closes, which is in a queue and has published it. True if `start` itself is to
    /// give up.
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

    /// A locker that waits for `start`, and for which `start` waits.
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

    /// Whether each member waits for the one before it, and the first for the last, all at one moment; and the
    /// youngest of them (of equally old ones, the one with the highest number).
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

    /// Ends another's wait. It learns when it polls, and gives back the rest of its locks when it aborts.
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

    /// Gives the locker's transaction a name by which [`LockTable::blockers`] tells of it. It stays until another is given.
    #[inline]
    pub fn label(&self, locker: &mut Locker, label: u64) {
        locker.label = label;
        if locker.is_numbered {
            self.slots.get(locker.id).label.store(label, Ordering::Relaxed);
        }
    }

    /// Calls `f` with the label of each locker that this one waits for now, and of those that they wait for in this table, and so on; not
    /// at all if it does not wait. For whoever looks for cycles over several tables: inside this one they are found before a wait
    /// begins, and as what waits in one table only is seen through, only who is at several has to be looked at.
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

    /// Calls `f` with the label of every locker, of those too whose transaction has ended: for whoever waits until all that hold
    /// locks now have ended.
    pub fn labels(&self, mut f: impl FnMut(u64)) {
        self.slots.all().for_each(|(_, slot)| f(slot.label.load(Ordering::Relaxed)));
    }

    /// Ready once the awaited lock is held; wakes `cx` when that may be so. Ready at once if nothing is awaited,
    /// with the reason if the wait was given up.
    ///
    /// # Errors
    /// [`LockAbort::Timeout`] after [`cancel`](Self::cancel), [`LockAbort::Deadlock`] when this wait was chosen to
    /// break a cycle. What was held before is still held.
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

    /// As [`poll`](Self::poll), and gives up when `now_ns` has reached the locker's deadline.
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

    /// Gives up the wait, if there is one; the next [`poll`](Self::poll) tells the same.
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

    /// Ends a wait, and says how it stood: `Waits` is one that would have gone on.
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

    /// The request has left its queue.
    fn forget(&self, locker: &mut Locker, why: LockAbort) {
        let Some(Pending { name, before, wanted, .. }) = locker.pending.take() else { return };
        self.wait_of(locker.id).with(|w| w.end());
        self.retract(name, wanted, before);
        locker.ended = Some(why);
    }

    /// Takes a granted request into the locker's list.
    fn settle(&self, locker: &mut Locker) {
        let Some(Pending { name, wanted, table, .. }) = locker.pending.take() else { return };
        self.wait_of(locker.id).with(|w| w.end());
        if name.is_granule() {
            match locker.granules.iter_mut().find(|g| g.name == name && g.usage == Use::Held) {
                Some(granule) => (granule.mode, granule.asked) = (wanted, wanted),
                None => self.hold(locker, name, wanted, Place::Bucket),
            }
            return;
        }
        match locker.find(name) {
            Some(at) => locker.set(at, wanted),
            None => locker.push(name, wanted, table),
        }
    }
}
