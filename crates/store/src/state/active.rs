//! The list of running transactions, for checkpoints. It costs a transaction only plain stores.
//!
//! Access rules:
//!
//! - The worker that runs a transaction writes the transaction's slot.
//! - A checkpoint reads all slots.
//!
//! `last` is the start of the transaction's last record: 0 before the first record, [`BUSY`] while
//! a record is being appended.
//!
//! **Why a checkpoint misses no transaction.** The checkpoint puts a fence into the log and then
//! reads the slots. Take a record below the fence, of transaction T. T stored `BUSY` before it
//! claimed the record's place in the log, and the fence synchronises with that claim: it reads the
//! value that the claim released. So the checkpoint sees `BUSY` or a newer value, and waits until
//! the slot lists the record.

use base::{Lsn, TxnId};
use latch::CachePadded;
use probe::Section;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use crate::state::control::Running;

const BUSY: u64 = u64::MAX;

#[derive(Default)]
struct Words {
    id: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
    /// Odd while the transaction uses tables that it has no lock on.
    visits: AtomicU64,
}

#[derive(Default)]
pub(crate) struct Slot(CachePadded<Words>);

impl Slot {
    /// Runs `append`, which returns the start of the record, and lists the record in the slot.
    #[inline]
    pub fn record(&self, id: TxnId, first: Lsn, append: impl FnOnce() -> Lsn) -> Lsn {
        probe::enter(Section::TransactionSlot);
        self.0.last.store(BUSY, Ordering::Relaxed);
        // A checkpoint that reads the new `id` or `first` also reads `BUSY` or a newer value in
        // `last`.
        fence(Ordering::Release);
        let start = append();
        self.0.id.store(id.0, Ordering::Relaxed);
        self.0.first.store(if first == Lsn(0) { start.0 } else { first.0 }, Ordering::Relaxed);
        self.0.last.store(start.0, Ordering::Release);
        start
    }

    /// Runs `append`, which writes the transaction's last record, and clears the slot.
    #[inline]
    pub fn end(&self, append: impl FnOnce() -> Lsn) -> Lsn {
        probe::enter(Section::TransactionSlot);
        self.0.last.store(BUSY, Ordering::Relaxed);
        fence(Ordering::Release);
        let end = append();
        self.0.last.store(0, Ordering::Release);
        end
    }

    /// As [`Slot::end`], for several transactions (branches) that one record ends. A checkpoint
    /// lists either all branches that have records below its fence, or none of them if the record
    /// ended them.
    pub fn end_all<'a>(slots: impl Iterator<Item = &'a Slot> + Clone, append: impl FnOnce() -> Lsn) -> Lsn {
        probe::enter(Section::TransactionSlot);
        slots.clone().for_each(|slot| slot.0.last.store(BUSY, Ordering::Relaxed));
        fence(Ordering::Release);
        let end = append();
        slots.for_each(|slot| slot.0.last.store(0, Ordering::Release));
        end
    }

    /// Runs `visit`, which looks up tables and uses them without a lock. A table that the visitor
    /// finds stays until the visit ends. A thread that removes a table hides it first and then
    /// waits for visitors. Of the two sequentially consistent fences one comes first: either the
    /// visitor no longer finds the table, or the remover sees the odd `visits` and waits.
    pub fn visiting<R>(&self, visit: impl FnOnce() -> R) -> R {
        let before = self.0.visits.load(Ordering::Relaxed);
        self.0.visits.store(before + 1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let done = visit();
        self.0.visits.store(before + 2, Ordering::Release);
        done
    }

    fn wait_for_visitor(&self) {
        let seen = self.0.visits.load(Ordering::Acquire);
        while seen % 2 == 1 && self.0.visits.load(Ordering::Acquire) == seen {
            std::thread::yield_now();
        }
    }

    fn running(&self) -> Option<Running> {
        loop {
            let last = self.0.last.load(Ordering::Acquire);
            if last == 0 {
                return None;
            }
            let id = TxnId(self.0.id.load(Ordering::Relaxed));
            let first = Lsn(self.0.first.load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            if last != BUSY && self.0.last.load(Ordering::Relaxed) == last {
                return Some(Running { id, first });
            }
            std::thread::yield_now();
        }
    }
}

/// All slots of a store, and the source of transaction numbers.
pub(crate) struct Active {
    slots: Mutex<Vec<Arc<Slot>>>,
    next_id: AtomicU64,
}

/// Transaction numbers are reserved in batches of this size, so that workers do not contend for one
/// counter.
pub(crate) const IDS: u64 = 256;

impl Active {
    /// Numbers are unique over the life of the database, because each opening starts its own range:
    /// `life` is in the upper bits.
    pub fn new(life: u32) -> Active {
        Active { slots: Mutex::default(), next_id: AtomicU64::new((u64::from(life) << 40) + 1) }
    }

    pub fn ids(&self) -> std::ops::Range<u64> {
        probe::enter(Section::TransactionIds);
        let start = self.next_id.fetch_add(IDS, Ordering::Relaxed);
        start..start + IDS
    }

    pub fn slot(&self) -> Arc<Slot> {
        let slot = Arc::<Slot>::default();
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).push(slot.clone());
        slot
    }

    /// Waits for the end of all visits that may have begun before the call.
    pub fn wait_for_visitors(&self) {
        fence(Ordering::SeqCst);
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner).clone();
        slots.iter().for_each(|slot| slot.wait_for_visitor());
    }

    /// The transactions that have written records and have not ended. Drops the slots of
    /// transactions that are gone.
    pub fn running(&self) -> Vec<Running> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|s| Arc::strong_count(s) > 1 || s.running().is_some());
        slots.iter().filter_map(|s| s.running()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_listed_from_its_first_record_to_its_last() {
        let active = Active::new(2);
        let slot = active.slot();
        assert!(active.running().is_empty());
        slot.record(TxnId(5), Lsn(0), || Lsn(100));
        slot.record(TxnId(5), Lsn(100), || Lsn(200));
        assert_eq!(active.running(), [Running { id: TxnId(5), first: Lsn(100) }]);
        slot.end(|| Lsn(300));
        assert!(active.running().is_empty());
        assert!(active.ids().start > 2 << 40);
    }

    /// A table is in use while its word is set. A visitor must never see a table removed during its
    /// visit.
    #[test]
    fn what_a_visitor_found_stays_until_it_leaves() {
        let active = Active::new(1);
        let slot = active.slot();
        let tables: Vec<(AtomicU64, AtomicU64)> =
            (0..20_000).map(|_| (AtomicU64::new(1), AtomicU64::new(1))).collect();
        std::thread::scope(|scope| {
            let remover = scope.spawn(|| {
                for (visible, there) in &tables {
                    visible.store(0, Ordering::Release);
                    active.wait_for_visitors();
                    there.store(0, Ordering::Release);
                }
            });
            while !remover.is_finished() {
                for (visible, there) in &tables {
                    slot.visiting(|| {
                        if visible.load(Ordering::Acquire) == 1 {
                            assert_eq!(there.load(Ordering::Acquire), 1);
                        }
                    });
                }
            }
        });
    }

    #[test]
    fn a_checkpoint_never_sees_half_of_two_transactions() {
        let active = Active::new(1);
        let slot = active.slot();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for i in 1..20_000u64 {
                    slot.record(TxnId(i), Lsn(0), || Lsn(i * 1000));
                    slot.record(TxnId(i), Lsn(i * 1000), || Lsn(i * 1000 + 1));
                    slot.end(|| Lsn(i * 1000 + 2));
                }
            });
            while !writer.is_finished() {
                for r in active.running() {
                    assert_eq!(r.first.0, r.id.0 * 1000);
                }
            }
        });
    }
}
