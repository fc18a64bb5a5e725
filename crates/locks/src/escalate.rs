//! Escalation: a transaction that locks many keys of one table locks the table instead.
//!
//! It never waits for that. At the threshold it requests `S` (after reads; `SIX` if it writes as
//! well) or `X` (after writes) on the table. It gets the lock only if no other transaction holds or
//! awaits a conflicting one. Otherwise it goes on locking keys and tries again after twice as many.
//! So escalation adds no edge to the waits-for graph and no deadlock: two transactions that both
//! escalated by waiting would wait for each other's intentions. It also overtakes no request, since
//! it fails while one waits for the table. A failed attempt visits the slot of every locker, and
//! therefore the distance doubles.
//!
//! Once the table is held, the keys that its mode covers are released, and later ones are not
//! requested. They are remembered: a transaction that must wait for another lock goes back to them
//! (see `de_escalate`).

use crate::locker::{Granule, Locker};
use crate::mode::{LockName, Mode};
use crate::table::{Acquired, LockTable};
use base::TableId;
use latch::RawMutex;
use std::sync::atomic::Ordering;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Many {
    Reads,
    Writes,
}

impl<M: RawMutex> LockTable<M> {
    /// Acquires a key beneath the table at position `at` of the locker's granules.
    #[inline]
    pub(crate) fn acquire_counted(
        &self,
        locker: &mut Locker,
        at: usize,
        name: LockName,
        mode: Mode,
    ) -> Acquired {
        let table = locker.granules[at].name.space as u16;
        if let Some(held) = locker.find(name)
            && locker.held[held].mode.covers(mode)
        {
            locker.counts.requests += 1;
            locker.counts.repeated += 1;
            return Acquired::Granted;
        }
        let granule = &mut locker.granules[at];
        let over = if mode.above() == Mode::IX {
            granule.writes += 1;
            (granule.writes > granule.most_writes).then_some(Many::Writes)
        } else {
            granule.reads += 1;
            (granule.reads > granule.most_reads).then_some(Many::Reads)
        };
        match over {
            Some(many) if self.escalate(locker, at, many) => {
                locker.remember(at, &[], name, mode);
                Acquired::Granted
            }
            _ => self.acquire_key(locker, name, mode, table),
        }
    }

    #[cold]
    fn escalate(&self, locker: &mut Locker, at: usize, many: Many) -> bool {
        let granule = &mut locker.granules[at];
        let wanted = match many {
            Many::Writes => Mode::X,
            Many::Reads => granule.mode.with(Mode::S),
        };
        let most = match many {
            Many::Writes => &mut granule.most_writes,
            Many::Reads => &mut granule.most_reads,
        };
        *most = most.saturating_mul(2).max(1);
        if !self.raise_at_once(locker, at, wanted) {
            self.counters.escalations_put_off.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.counters.escalations.fetch_add(1, Ordering::Relaxed);
        let (id, table) = (locker.id, locker.granules[at].name.space as u16);
        let mut covered = Vec::new();
        locker.leave(|held| {
            let goes = held.table == table && wanted.covers_beneath(held.mode);
            if goes && held.mode != Mode::NONE {
                self.lower(id, held.name(), Mode::NONE);
                covered.push((held.name(), held.mode));
            }
            goes
        });
        covered.into_iter().for_each(|(name, mode)| locker.remember(at, &[], name, mode));
        true
    }

    /// Strengthens a table's lock. Changes nothing if that would have to wait.
    fn raise_at_once(&self, locker: &mut Locker, at: usize, wanted: Mode) -> bool {
        let Granule { name, mode: before, .. } = locker.granules[at];
        // A check without side effects first: an announcement would move all lockers off the fast
        // path.
        let table = TableId(name.space as u16);
        let in_the_way = |held: Mode| !held.compatible(wanted);
        let others = self.slots.all().filter(|(id, _)| *id != locker.id);
        if others
            .into_iter()
            .any(|(id, _)| self.fast_of(id).with(|f| f.in_use(table)).is_some_and(in_the_way))
        {
            return false;
        }
        locker.counts.granule_calls += 1;
        self.settle_in_bucket(locker, at);
        self.announce(name, before, wanted);
        let raised = self.bucket(name).with(|q| {
            self.clear_parked(q, name, locker.id, wanted);
            q.convert_at_once(name, locker.id, wanted)
        });
        if raised {
            locker.granules[at].mode = wanted;
        } else {
            self.retract(name, wanted, before);
        }
        raised
    }
}
