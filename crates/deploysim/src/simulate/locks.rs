//! Row locks: first come, first served, shared or exclusive.
//!
//! Rows of small tables, and the most popular ones of large tables, have a lock each. The others
//! are so many that two transactions under way hardly ever meet there: they count as free.

use crate::transaction::Transactions;
use std::collections::{HashMap, VecDeque};

/// Rows of one table beyond this number have no lock of their own.
const MOST_ROWS: u64 = 1 << 20;

/// A lock's number; `NONE` for a row without one.
pub(crate) type LockId = u32;
pub(crate) const NONE: LockId = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

/// A party that waits: a task's number, which the caller understands.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Waiter<T> {
    pub task: T,
    pub mode: Mode,
    pub since: f64,
}

/// A lock's state in one word: 0 free, [`EXCLUSIVE`], or the number of sharers.
const EXCLUSIVE: u32 = u32::MAX;

pub(crate) struct Locks<T> {
    /// Keys `start..end` have the locks from `first` on.
    ranges: Vec<(u64, u64, u32)>,
    states: Vec<u32>,
    queues: HashMap<LockId, VecDeque<Waiter<T>>>,
    /// Waits per lock, for the hottest one; only contended locks have an entry.
    waits: HashMap<LockId, u64>,
}

impl<T: Copy> Locks<T> {
    pub fn new(transactions: &Transactions) -> Locks<T> {
        let (mut ranges, mut first, mut key) = (Vec::new(), 0_u32, 0_u64);
        let mut add = |rows: u64| {
            let locked = rows.min(MOST_ROWS);
            // Of a large table with evenly popular rows, a part with locks would say nothing.
            let is_worth_it = rows <= MOST_ROWS || transactions.skew() != (0.0, None);
            if is_worth_it {
                ranges.push((key, key + locked, first));
                first += locked as u32;
            }
            key += rows;
        };
        transactions.tables().iter().for_each(|table| add(table.rows));
        let states = vec![0; first as usize];
        Locks { ranges, states, queues: HashMap::new(), waits: HashMap::new() }
    }

    /// A lock for each of `rows` rows; their keys are `0..rows`.
    pub fn of_rows(rows: u32) -> Locks<T> {
        let states = vec![0; rows as usize];
        Locks { ranges: vec![(0, u64::from(rows), 0)], states, queues: HashMap::new(), waits: HashMap::new() }
    }

    /// The lock of a row.
    #[inline]
    pub fn of(&self, key: u64) -> LockId {
        let range = self.ranges.iter().find(|(start, end, _)| (*start..*end).contains(&key));
        range.map_or(NONE, |(start, _, first)| first + (key - start) as u32)
    }

    /// The row of a lock.
    pub fn key(&self, lock: LockId) -> u64 {
        let range = self.ranges.iter().rev().find(|(_, _, first)| *first <= lock);
        range.map_or(0, |(start, _, first)| start + u64::from(lock - first))
    }

    /// Whether `mode` would be granted at once.
    #[inline]
    pub fn is_free(&self, lock: LockId, mode: Mode) -> bool {
        let state = self.states[lock as usize];
        match mode {
            Mode::Exclusive => state == 0,
            // A waiting writer goes first.
            Mode::Shared => state != EXCLUSIVE && (state == 0 || !self.queues.contains_key(&lock)),
        }
    }

    /// Grants the lock, or refuses.
    #[inline]
    pub fn try_take(&mut self, lock: LockId, mode: Mode) -> bool {
        if !self.is_free(lock, mode) {
            return false;
        }
        let state = &mut self.states[lock as usize];
        match mode {
            Mode::Exclusive => *state = EXCLUSIVE,
            Mode::Shared => *state += 1,
        }
        true
    }

    pub fn wait(&mut self, lock: LockId, waiter: Waiter<T>) {
        self.queues.entry(lock).or_default().push_back(waiter);
        *self.waits.entry(lock).or_default() += 1;
    }

    /// Gives the lock back; those that are granted it now are added to `granted`.
    pub fn release(&mut self, lock: LockId, granted: &mut Vec<Waiter<T>>) {
        let state = &mut self.states[lock as usize];
        debug_assert!(*state > 0, "a free lock is given back");
        *state = if *state == EXCLUSIVE { 0 } else { *state - 1 };
        if self.queues.is_empty() {
            return;
        }
        let Some(queue) = self.queues.get_mut(&lock) else { return };
        while let Some(first) = queue.front() {
            match (first.mode, *state) {
                (Mode::Exclusive, 0) => *state = EXCLUSIVE,
                (Mode::Shared, sharers) if sharers != EXCLUSIVE => *state += 1,
                _ => break,
            }
            granted.push(*first);
            queue.pop_front();
        }
        if queue.is_empty() {
            self.queues.remove(&lock);
        }
    }

    /// Takes a party that has waited since then out of a lock's queue; `false` if it does not wait.
    pub fn withdraw(&mut self, lock: LockId, task: T, since: f64) -> bool
    where
        T: PartialEq,
    {
        let Some(queue) = self.queues.get_mut(&lock) else { return false };
        let found = queue.iter().position(|waiter| waiter.task == task && waiter.since == since);
        found.map(|at| queue.remove(at));
        if queue.is_empty() {
            self.queues.remove(&lock);
        }
        found.is_some()
    }

    /// The lock with the most waits.
    pub fn hottest(&self) -> Option<LockId> {
        self.waits
            .iter()
            .max_by_key(|(lock, waits)| (**waits, std::cmp::Reverse(**lock)))
            .map(|(lock, _)| *lock)
    }

    /// Grants that were not given back, and parties that wait.
    pub fn owed(&self) -> usize {
        let grants = |state: &u32| if *state == EXCLUSIVE { 1 } else { *state as usize };
        self.states.iter().map(grants).sum::<usize>() + self.waiting()
    }

    /// Parties that wait.
    pub fn waiting(&self) -> usize {
        self.queues.values().map(VecDeque::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::micro::Op;

    #[test]
    fn a_lock_goes_to_the_first_that_waits_and_sharers_share() {
        let transactions = Transactions::micro_of(1, Op::Update, 0.0).unwrap();
        let mut locks: Locks<u8> = Locks::new(&transactions);
        let lock = locks.of(7);
        let waiter = |task, mode| Waiter { task, mode, since: 0.0 };
        assert!(locks.try_take(lock, Mode::Exclusive) && !locks.try_take(lock, Mode::Shared));
        locks.wait(lock, waiter(1, Mode::Shared));
        locks.wait(lock, waiter(2, Mode::Shared));
        locks.wait(lock, waiter(3, Mode::Exclusive));
        let mut granted = Vec::new();
        locks.release(lock, &mut granted);
        assert_eq!(granted.iter().map(|w| w.task).collect::<Vec<_>>(), [1, 2]);
        assert!(!locks.is_free(lock, Mode::Shared), "a waiting writer goes first");
        locks.release(lock, &mut granted);
        locks.release(lock, &mut granted);
        assert_eq!(granted.last().unwrap().task, 3);
        locks.release(lock, &mut granted);
        assert_eq!(locks.owed(), 0);
        assert_eq!(locks.key(lock), 7);
    }
}
