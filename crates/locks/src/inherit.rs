//! Granules without a visit to the buckets: the fast path of intentions, and inheritance from one
//! transaction to the next.
//!
//! **Fast path.** A locker notes `IS` and `IX` on a table in its own slot while no request for the
//! table is stronger than an intention. So the table's bucket is not a cache line that all workers
//! write.
//!
//! **Speculative lock inheritance** (Johnson, Pandis, Ailamaki, VLDB 2009, sections 3 and 4). At
//! the end of a transaction its granules in mode `IS`, `IX` or `S` are not released but *parked*,
//! if no request waits for them. They stay in the slot or in the bucket without a holder. The
//! locker is the paper's agent: it serves one transaction after the other.
//!
//! ```text
//!             granted            end of transaction
//!   (nothing) ------> held ----------------------> parked --(8 ends unused)--> released
//!                      ^   requested again           |
//!                      +------- (take up) -----------+--(a conflicting request)--> discarded
//! ```
//!
//! For a granule in the slot each move is one change of one word, as in the paper: parking and
//! taking up are no critical sections. For a granule in a bucket both sides lock the slot's `kept`.
//! So taking up touches only the locker's own slot. A request that conflicts with a parked lock
//! discards it at once, or finds it in use and waits for it like for any other lock. Parked locks
//! delay no request and appear in no waits-for walk.
//!
//! Differences from the paper:
//! - A granule is taken up in exactly the requested mode: a parked `IX` serves an `IS` as an `IS`,
//!   or not at all if it lies in a bucket. So no transaction waits that would not wait without
//!   inheritance.
//! - Every table and prefix counts as hot, because a parked lock costs other transactions nothing,
//!   and a latch does not report contention. A granule that stays unused is released after
//!   [`PATIENCE`] transactions.
//! - The states of all intentions of a slot share one word, so one compare-and-swap ends all
//!   intentions of a transaction.

use crate::fast::{Fast, Taken};
use crate::guarded::Guarded;
use crate::locker::{Granule, LockPlace, Locker, Use};
use crate::mode::{LockName, Mode};
use crate::queue::{LockerId, Queue};
use crate::slot::Kept;
use crate::table::{LockTable, enter};
use crate::tuning::Inheritance;
use base::TableId;
use latch::RawMutex;
use probe::Section;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Number of transactions of a locker that may end without a request for a parked granule before it
/// is released. The paper uses one. A worker here alternates between the few kinds of transactions
/// of its workload, and parked locks delay no other worker.
const PATIENCE: u8 = 8;

impl<M: RawMutex> LockTable<M> {
    fn strong(&self, name: LockName) -> &AtomicU32 {
        &self.strong[name.space as usize % self.strong.len()]
    }

    #[inline]
    pub(crate) fn enter_fast(&self, locker: &Locker, name: LockName, mode: Mode) -> bool {
        // The slot's mutex orders this against a strong request that searches the slot (see
        // `strong`). Acquire: the actions of a strong request that has left happen before those of
        // this one.
        let free = |_: &_| self.strong(name).load(Ordering::Acquire) == 0;
        self.fast_of(locker.id).with(|f| free(f) && f.put(table_of(name), mode))
    }

    pub(crate) fn raise_fast(&self, locker: &Locker, name: LockName, mode: Mode) -> bool {
        let table = table_of(name);
        // An entry that is still there conflicts with no request: a strong one would have moved it
        // first.
        self.fast_of(locker.id).with(|f| f.has(table) && f.put(table, mode))
    }

    pub(crate) fn lower_fast(&self, locker: LockerId, name: LockName, mode: Mode) -> bool {
        let table = table_of(name);
        self.fast_of(locker).with(|f| match mode {
            Mode::NONE => f.take(table).is_some(),
            weaker => f.has(table) && f.put(table, weaker),
        })
    }

    /// Called before a strong request on a table enters its queue. From now on intentions on the
    /// table go to the bucket. Those noted in slots are moved there, or discarded if they are
    /// parked.
    #[inline]
    pub(crate) fn announce(&self, name: LockName, before: Mode, wanted: Mode) {
        if name.is_table() && wanted.is_strong() && !before.is_strong() {
            self.strong(name).fetch_add(1, Ordering::Relaxed);
            for (id, _) in self.slots.all() {
                self.clear_fast(id, name);
            }
        }
    }

    /// Called after a strong request has left its queue or was lowered to an intention.
    #[inline]
    pub(crate) fn retract(&self, name: LockName, from: Mode, to: Mode) {
        if name.is_table() && from.is_strong() && !to.is_strong() {
            self.strong(name).fetch_sub(1, Ordering::Release);
        }
    }

    /// Moves one locker's intention lock to the bucket. Both are locked meanwhile, so no thread
    /// misses it.
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
            LockPlace::Bucket => {}
            LockPlace::Fast => self.clear_fast(locker.id, name),
            LockPlace::Kept => self.bucket(name).with(|_| {
                self.kept_of(locker.id).with(|k| k.strike(name));
            }),
        }
        locker.granules[at].place = LockPlace::Bucket;
    }

    /// Removes parked requests that conflict with `mode` from a bucket.
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

    /// Takes up a parked granule that is requested. If it cannot be used, it is removed from the
    /// list, and the caller requests it from the table.
    pub(crate) fn take_up(&self, locker: &mut Locker, at: usize, mode: Mode) -> bool {
        let slot = self.slots.get(locker.id);
        let Granule { name, mode: held, place, .. } = locker.granules[at];
        let taken = match place {
            LockPlace::Fast => mode.is_intention() && slot.fast.reuse(table_of(name), mode),
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

    /// Marks a granule in a bucket as in use or parked.
    fn mark_kept(&self, id: LockerId, name: LockName, used: bool) -> bool {
        self.kept_of(id).with(|k| k.mark(name, used))
    }

    /// Visits a locker's list of intentions; the caller locks its mutex.
    #[inline]
    pub(crate) fn fast_of(&self, id: LockerId) -> &Fast<M> {
        enter::<M>(Section::LockSlot);
        &self.slots.get(id).fast
    }

    /// Visits a locker's list of granules that may be parked in buckets.
    #[inline]
    fn kept_of(&self, id: LockerId) -> &Guarded<M, Kept> {
        enter::<M>(Section::LockSlot);
        &self.slots.get(id).kept
    }

    /// Releases a parked granule, unless another thread has discarded it.
    fn drop_parked(&self, id: LockerId, granule: &Granule) {
        match granule.place {
            LockPlace::Fast => {
                self.fast_of(id).with(|f| f.take(table_of(granule.name)));
            }
            _ => self.drop_kept(id, granule.name),
        }
    }

    /// Releases all parked granules of a locker without a transaction.
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
            // No request waits for a parked one.
            q.lower(name, id, Mode::NONE);
            Some(held)
        });
        if let Some(held) = gone {
            self.retract(name, held, Mode::NONE);
        }
    }

    /// Releases the granules that the number's last locker left parked, before the number names
    /// another locker.
    pub(crate) fn clear_estate(&self, id: LockerId) {
        if self.tuning.inheritance == Inheritance::Off {
            return;
        }
        self.fast_of(id).with(|f| f.clear());
        let names: Vec<LockName> = self.kept_of(id).with(|k| k.names().collect());
        names.into_iter().for_each(|name| self.drop_kept(id, name));
    }

    /// Ends a transaction's use of its granules: they are parked or released. The intentions in the
    /// slot go together, by one change of its word.
    pub(crate) fn leave_granules(&self, locker: &mut Locker) {
        let inheritance = self.tuning.inheritance;
        let fast = |g: &Granule| g.place == LockPlace::Fast && g.usage == Use::Held;
        let together = locker.granules.iter().any(fast) && self.slots.get(locker.id).fast.leave(inheritance);
        let mut at = 0;
        while at < locker.granules.len() {
            let stays = match locker.granules[at].usage {
                Use::Held if together && locker.granules[at].place == LockPlace::Fast => {
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

    /// Parks a granule that lies in its bucket, or releases it and returns false.
    fn park_in_bucket(&self, locker: &mut Locker, at: usize) -> bool {
        let Granule { name, mode, place, .. } = locker.granules[at];
        let escalated = locker.granules[at].is_escalated();
        if place == LockPlace::Kept && self.mark_kept(locker.id, name, false) {
            return true;
        }
        locker.counts.granule_calls += 1;
        let fits = self.tuning.inheritance == Inheritance::On && mode.is_inheritable() && !escalated;
        if fits && place == LockPlace::Bucket {
            let id = locker.id;
            let parked = self.bucket(name).with(|q| {
                let alone = !q.has_waiters(name) && q.state(name, id).is_some();
                alone && self.kept_of(id).with(|k| k.note(name))
            });
            if parked {
                locker.granules[at].place = LockPlace::Kept;
                return true;
            }
        }
        if place != LockPlace::Fast || !self.lower_fast(locker.id, name, Mode::NONE) {
            self.lower(locker.id, name, Mode::NONE);
            self.retract(name, mode, Mode::NONE);
        }
        false
    }

    /// Publishes the locker's counts for other threads.
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
