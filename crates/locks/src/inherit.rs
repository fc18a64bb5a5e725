//! Granules that cost no visit to the buckets: the fast path of intentions, and what one transaction leaves to the next.
//!
//! **Fast path.** A locker notes `IS` and `IX` on tables in its own slot while nobody holds or wants more than an
//! intention on the table, so that the table's bucket is not a line all workers fight for.
//!
//! **Speculative lock inheritance** (Johnson, Pandis, Ailamaki, VLDB 2009, sections 3 and 4). At the end of a
//! transaction its granules in mode `IS`, `IX` or `S` are not given back but *parked*, if nobody waits for them: they
//! stay in the slot or in the bucket, held for nobody. The locker is the paper's agent: it serves one transaction after
//! the other.
//!
//! ```text
//!              granted                end of transaction
//!   (nothing) ---------> held --------------------------------> parked --(8 ends unused)--> given back
//!                         ^   next transaction asks: take up       |
//!                         +----------------------------------------+--(a request that conflicts)--> thrown out
//! ```
//!
//! For what lies in the slot each move is one change of one word, as in the paper: parking and taking up are no critical
//! sections. For what lies in a bucket both sides take the slot's `kept`. So taking up touches the locker's own slot and
//! nothing else, and a request that a parked lock is in the way of either throws it out at once or finds it in use and
//! waits for it like for any other.
//! Parked locks never delay anybody and appear in no waits-for walk.
//!
//! Where this differs from the paper: what is taken up gets just the mode that is asked for (a parked `IX` serves an
//! `IS` as an `IS`, or not at all when it lies in a bucket), so that nobody waits who would not wait without inheritance;
//! every table and prefix counts as hot (what is not, goes after [`PATIENCE`] transactions), because it costs others
//! nothing, and a latch tells nobody that it was contended; the states of all intentions of a slot share one word, so that
//! one compare-and-swap ends all of a transaction's.

use crate::fast::{Fast, Taken};
use crate::guarded::Guarded;
use crate::locker::{Granule, Locker, Place, Use};
use crate::mode::{LockName, Mode};
use crate::queue::{LockerId, Queue};
use crate::slot::Kept;
use crate::table::{LockTable, enter};
use crate::tuning::Inheritance;
use base::TableId;
use latch::RawMutex;
use probe::Section;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A locker's transactions that may end without asking for a parked granule before that is given back. The paper says
/// one; a worker here alternates between the few kinds of transactions of its workload, and parked locks delay nobody.
const PATIENCE: u8 = 8;

impl<M: RawMutex> LockTable<M> {
    fn strong(&self, name: LockName) -> &AtomicU32 {
        &self.strong[name.space as usize % self.strong.len()]
    }

    #[inline]
    pub(crate) fn enter_fast(&self, locker: &Locker, name: LockName, mode: Mode) -> bool {
        // The slot's mutex orders this against a strong request that searches the slot (see `strong`); Acquire: what a strong
        // one that is gone has done lies before what this one does.
        let free = |_: &_| self.strong(name).load(Ordering::Acquire) == 0;
        self.fast_of(locker.id).with(|f| free(f) && f.put(table_of(name), mode))
    }

    pub(crate) fn raise_fast(&self, locker: &Locker, name: LockName, mode: Mode) -> bool {
        let table = table_of(name);
        // An entry that is still there conflicts with nobody: a strong request would have moved it first.
        self.fast_of(locker.id).with(|f| f.has(table) && f.put(table, mode))
    }

    pub(crate) fn lower_fast(&self, locker: LockerId, name: LockName, mode: Mode) -> bool {
        let table = table_of(name);
        self.fast_of(locker).with(|f| match mode {
            Mode::NONE => f.take(table).is_some(),
            weaker => f.has(table) && f.put(table, weaker),
        })
    }

    /// Before a strong request on a table enters its queue: from now on intentions on it go to the bucket, and
    /// those that did not are moved there, or thrown out if they are parked.
    #[inline]
    pub(crate) fn announce(&self, name: LockName, before: Mode, wanted: Mode) {
        if name.is_table() && wanted.is_strong() && !before.is_strong() {
            self.strong(name).fetch_add(1, Ordering::Relaxed);
            for (id, _) in self.slots.all() {
                self.clear_fast(id, name);
            }
        }
    }

    /// After a strong request has left its queue or was lowered to an intention.
    #[inline]
    pub(crate) fn retract(&self, name: LockName, from: Mode, to: Mode) {
        if name.is_table() && from.is_strong() && !to.is_strong() {
            self.strong(name).fetch_sub(1, Ordering::Release);
        }
    }

    /// Moves one locker's intention lock to the bucket. Both are locked meanwhile, so that nobody misses it.
    fn clear_fast(&self, id: LockerId, name: LockName) {
        self.fast_of(id).with(|f| match f.rob(table_of(name)) {
            Some(Taken::InUse(mode)) => {
                self.bucket(name).with(|q| q.place(name, id, mode));
                self.counters.migrated.fetch_add(1, Ordering::Relaxed);
            }
            Some(Taken::Parked) => {
                self.counters.invalidated.fetch_add(1, Ordering::Relaxed);
            }
            None => {}
        });
    }

    /// Makes a granule in use an ordinary request of its bucket.
    pub(crate) fn settle_in_bucket(&self, locker: &mut Locker, at: usize) {
        let Granule { name, place, .. } = locker.granules[at];
        match place {
            Place::Bucket => {}
            Place::Fast => self.clear_fast(locker.id, name),
            Place::Kept => self.bucket(name).with(|_| {
                self.kept_of(locker.id).with(|k| k.strike(name));
            }),
        }
        locker.granules[at].place = Place::Bucket;
    }

    /// Throws out of a bucket what is parked there and in the way of `mode`.
    #[inline]
    pub(crate) fn clear_parked(&self, queue: &mut Queue, name: LockName, me: LockerId, mode: Mode) {
        if self.tuning.inheritance == Inheritance::Off || !name.is_granule() {
            return;
        }
        queue.drop_unused(name, me, mode, |id, held| {
            let parked = matches!(self.kept_of(id).with(|k| k.strike(name)), Some(Taken::Parked));
            if parked {
                self.retract(name, held, Mode::NONE);
                self.counters.invalidated.fetch_add(1, Ordering::Relaxed);
            }
            parked
        });
    }

    /// A parked granule is asked for. If it cannot be used, it is off the list, and the caller asks the table.
    pub(crate) fn take_up(&self, locker: &mut Locker, at: usize, mode: Mode) -> bool {
        let slot = self.slots.get(locker.id);
        let Granule { name, mode: held, place, .. } = locker.granules[at];
        let taken = match place {
            Place::Fast => mode.is_intention() && slot.fast.reuse(table_of(name), mode),
            _ => mode == held && self.mark_kept(locker.id, name, true),
        };
        let parked = locker.granules[at];
        if taken {
            locker.granules[at] = self.fresh(name, mode, place);
            locker.counts.inherited += 1;
        } else {
            locker.granules.swap_remove(at);
            locker.counts.granule_calls += 1;
            self.drop_parked(locker.id, &parked);
        }
        taken
    }

    /// Takes what lies in a bucket into use, or parks it.
    fn mark_kept(&self, id: LockerId, name: LockName, used: bool) -> bool {
        self.kept_of(id).with(|k| k.mark(name, used))
    }

    /// A visit of a locker's list of intentions, under its mutex.
    #[inline]
    pub(crate) fn fast_of(&self, id: LockerId) -> &Fast<M> {
        enter::<M>(Section::LockSlot);
        &self.slots.get(id).fast
    }

    /// A visit of a locker's list of what may be parked in buckets.
    #[inline]
    fn kept_of(&self, id: LockerId) -> &Guarded<M, Kept> {
        enter::<M>(Section::LockSlot);
        &self.slots.get(id).kept
    }

    /// Gives a parked granule back, unless somebody has thrown it out.
    fn drop_parked(&self, id: LockerId, granule: &Granule) {
        match granule.place {
            Place::Fast => {
                self.fast_of(id).with(|f| f.take(table_of(granule.name)));
            }
            _ => self.drop_kept(id, granule.name),
        }
    }

    /// Gives back all that is parked, of a locker whose transaction has ended.
    pub(crate) fn drop_all_parked(&self, locker: &mut Locker) {
        for granule in std::mem::take(&mut locker.granules) {
            locker.counts.granule_calls += 1;
            self.drop_parked(locker.id, &granule);
        }
        self.publish(locker);
    }

    fn drop_kept(&self, id: LockerId, name: LockName) {
        let gone = self.bucket(name).with(|q| {
            self.kept_of(id).with(|k| k.strike(name))?;
            let (held, _) = q.state(name, id)?;
            // Nobody waits for what was parked.
            q.lower(name, id, Mode::NONE);
            Some(held)
        });
        if let Some(held) = gone {
            self.retract(name, held, Mode::NONE);
        }
    }

    /// What a locker that is gone left parked is given back before its number names another.
    pub(crate) fn clear_estate(&self, id: LockerId) {
        if self.tuning.inheritance == Inheritance::Off {
            return;
        }
        self.fast_of(id).with(|f| f.clear());
        let names: Vec<LockName> = self.kept_of(id).with(|k| k.names().collect());
        names.into_iter().for_each(|name| self.drop_kept(id, name));
    }

    /// The end of a transaction, for its granules: parked or given back. The intentions that lie in the slot go
    /// together, by one change of its word.
    pub(crate) fn leave_granules(&self, locker: &mut Locker) {
        let inheritance = self.tuning.inheritance;
        let fast = |g: &Granule| g.place == Place::Fast && g.usage == Use::Held;
        let together = locker.granules.iter().any(fast) && self.slots.get(locker.id).fast.leave(inheritance);
        let mut at = 0;
        while at < locker.granules.len() {
            let stays = match locker.granules[at].usage {
                Use::Held if together && locker.granules[at].place == Place::Fast => {
                    locker.counts.granule_calls += u64::from(inheritance == Inheritance::Off);
                    inheritance == Inheritance::On
                }
                Use::Held => self.park_in_bucket(locker, at),
                Use::Parked(ends) if ends < PATIENCE => {
                    locker.granules[at].usage = Use::Parked(ends + 1);
                    at += 1;
                    continue;
                }
                Use::Parked(_) => {
                    locker.counts.granule_calls += 1;
                    self.drop_parked(locker.id, &locker.granules[at]);
                    false
                }
            };
            if stays {
                locker.granules[at].usage = Use::Parked(0);
                at += 1;
            } else {
                locker.granules.swap_remove(at);
            }
        }
        self.publish(locker);
    }

    /// Parks a granule that lies in its bucket, or gives it back (false).
    fn park_in_bucket(&self, locker: &mut Locker, at: usize) -> bool {
        let Granule { name, mode, place, .. } = locker.granules[at];
        let escalated = locker.granules[at].is_escalated();
        if place == Place::Kept && self.mark_kept(locker.id, name, false) {
            return true;
        }
        locker.counts.granule_calls += 1;
        let fits = self.tuning.inheritance == Inheritance::On && mode.is_inheritable() && !escalated;
        if fits && place == Place::Bucket {
            let id = locker.id;
            let parked = self.bucket(name).with(|q| {
                let alone = !q.has_waiters(name) && q.state(name, id).is_some();
                alone && self.kept_of(id).with(|k| k.note(name))
            });
            if parked {
                locker.granules[at].place = Place::Kept;
                return true;
            }
        }
        if place != Place::Fast || !self.lower_fast(locker.id, name, Mode::NONE) {
            self.lower(locker.id, name, Mode::NONE);
            self.retract(name, mode, Mode::NONE);
        }
        false
    }

    /// Lets others read what the locker has counted.
    #[inline]
    fn publish(&self, locker: &Locker) {
        let totals = &self.slots.get(locker.id).totals;
        let (counts, before) = (&locker.counts, &locker.predecessors);
        let set = |total: &AtomicU64, value: u64| total.store(value, Ordering::Relaxed);
        set(&totals.granule_requests, before.granule_requests.wrapping_add(counts.granule_requests));
        set(&totals.granule_calls, before.granule_calls.wrapping_add(counts.granule_calls));
        set(&totals.inherited, before.inherited.wrapping_add(counts.inherited));
    }
}

#[inline]
fn table_of(name: LockName) -> TableId {
    TableId(name.space as u16)
}
