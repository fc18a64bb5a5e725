//! Random transactions on a store, several at a time in turn, as a life of one process.

use crate::ledger::{Changes, Commit, Ledger, Prepare};
use crate::table::{self, ACCOUNTS, HISTORY, NAME, SCORE, Value, insist};
use access::Expect;
use base::{Key, TableId};
use fastrand::Rng;
use latch::Coupled;
use std::collections::BTreeMap;
use store::{DeleteOutcome, InsertOutcome, Reach, Store, StoreFault, Txn, Writers};
use world::sim::Disk;

type L = Coupled;

/// A key that no row has, longer than any: an insertion that names it as its neighbour is refused.
const NO_NEIGHBOUR: [u8; 99] = [0; 99];

/// A transaction that runs or is in doubt.
struct Running {
    number: i64,
    txn: Txn,
    changes: Changes,
}

/// The parameters of a life.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Ids in use.
    pub keys: u64,
    pub commits: usize,
    /// One commit in this many is waited for; the others become durable at any time.
    pub wait_one_in: u64,
}

/// One life: the store, and its transactions.
pub struct StoreRun<'a> {
    store: &'a Store,
    disk: &'a Disk,
    pub ledger: &'a mut Ledger,
    random: Rng,
    mix: Mix,
    running: Vec<Running>,
    in_doubt: BTreeMap<i64, Running>,
    committed: usize,
    /// Leaves that may lead to pages with rows of other leaves.
    parted: Vec<(TableId, Key)>,
}

impl<'a> StoreRun<'a> {
    pub fn new(
        (store, disk): (&'a Store, &'a Disk),
        ledger: &'a mut Ledger,
        in_doubt: BTreeMap<i64, Txn>,
        (seed, mix): (u64, Mix),
    ) -> StoreRun<'a> {
        let adopt = |(number, txn)| {
            let changes = ledger.prepared.get(&number).map(|p| p.changes.clone()).unwrap_or_default();
            (number, Running { number, txn, changes })
        };
        let in_doubt = in_doubt.into_iter().map(adopt).collect();
        let random = Rng::with_seed(seed);
        let (running, parted) = (Vec::new(), Vec::new());
        StoreRun { store, disk, ledger, random, mix, running, in_doubt, committed: 0, parted }
    }

    /// Runs until the number of commits in the mix is reached. Some transactions are left running,
    /// as in a process that stops.
    ///
    /// # Errors
    /// The fault that ended it.
    pub fn run(&mut self) -> Result<(), StoreFault> {
        self.run_with(|_| {})
    }

    /// As [`StoreRun::run`]; calls `look` after each step.
    pub fn run_with(&mut self, mut look: impl FnMut(&Ledger)) -> Result<(), StoreFault> {
        while self.committed < self.mix.commits {
            self.step()?;
            look(self.ledger);
        }
        Ok(())
    }

    /// Rolls back the running and in-doubt transactions, and waits until everything is durable.
    ///
    /// # Errors
    /// The fault.
    pub fn finish(&mut self) -> Result<(), StoreFault> {
        while !self.running.is_empty() {
            self.rollback()?;
        }
        while let Some((number, mut r)) = self.in_doubt.pop_first() {
            let now = self.disk.changes();
            self.ledger.prepared.entry(number).and_modify(|p| p.rolled_back = Some(now));
            insist(self.store, || self.store.rollback::<L>(&mut r.txn))?;
        }
        let end = self.store.log().end();
        self.store.log().wait_durable(end)?;
        self.acknowledge(end);
        Ok(())
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.random.u64(..n) == 0
    }

    fn step(&mut self) -> Result<(), StoreFault> {
        match self.random.u32(..20) {
            0 if !self.running.is_empty() => self.rollback(),
            1 if self.in_doubt.len() < 3 && !self.running.is_empty() => self.prepare(),
            2 if !self.in_doubt.is_empty() => self.decide(),
            3 if self.one_in(6) => self.store.checkpoint(),
            4..=6 if !self.running.is_empty() => self.commit(),
            7 if self.one_in(4) => self.repartition(),
            _ if self.running.len() < 3 => {
                self.begin();
                Ok(())
            }
            _ => self.change(),
        }
    }

    fn begin(&mut self) {
        let mut txn = Txn::default();
        self.store.begin(&mut txn, self.running.len());
        self.ledger.next_number += 1;
        self.running.push(Running { number: self.ledger.next_number, txn, changes: Changes::new() });
    }

    /// The transaction that changed the row and has not ended, as a lock table would know it.
    fn holder(&self, id: i64) -> Option<i64> {
        let all = self.running.iter().chain(self.in_doubt.values());
        all.filter(|r| r.changes.contains_key(&id)).map(|r| r.number).next()
    }

    /// The committed row, as seen in this life.
    fn visible(&self, id: i64) -> Option<Value> {
        let latest = self.ledger.commits.iter().rev().find_map(|c| c.changes.get(&id));
        latest.cloned().unwrap_or_else(|| self.ledger.base.get(&id).cloned())
    }

    fn value(&mut self) -> Value {
        let length = self.random.usize(..40).pow(2) / 4 + 1;
        (self.random.i64(..50), "n".repeat(length))
    }

    fn change(&mut self) -> Result<(), StoreFault> {
        let who = self.random.usize(..self.running.len());
        let id = self.random.u64(..self.mix.keys) as i64;
        if self.holder(id).is_some_and(|h| h != self.running[who].number) {
            return Ok(());
        }
        let before = self.running[who].changes.get(&id).cloned();
        let before = before.unwrap_or_else(|| self.visible(id));
        let value = self.value();
        let (remove, take_back) = (self.one_in(3), self.one_in(4));
        let txn = &mut self.running[who].txn;
        let now = change_row(self.store, txn, (id, before.as_ref()), value, (remove, take_back))?;
        // The row was written with its old value: nothing is logged, and no lock is needed after a
        // restart.
        if now != before {
            self.running[who].changes.insert(id, now);
        }
        Ok(())
    }

    fn take(&mut self) -> Running {
        let who = self.random.usize(..self.running.len());
        self.running.swap_remove(who)
    }

    fn commit(&mut self) -> Result<(), StoreFault> {
        let mut r = self.take();
        sign(self.store, &mut r)?;
        self.log_commit(r)
    }

    fn log_commit(&mut self, mut r: Running) -> Result<(), StoreFault> {
        let (number, changes) = (r.number, std::mem::take(&mut r.changes));
        // Entered before the commit: when the store refuses it, it is unknown whether the record
        // was written.
        let unknown =
            Commit { number, lsn: base::Lsn(u64::MAX), changes, appended: usize::MAX, acknowledged: None };
        self.ledger.commits.push(unknown);
        let lsn = self.store.commit(&mut r.txn, None)?;
        if let Some(commit) = self.ledger.commits.last_mut() {
            (commit.lsn, commit.appended) = (lsn, self.disk.changes());
        }
        self.committed += 1;
        self.store.committed::<L>(&mut r.txn);
        self.settle(&mut r.txn)?;
        if self.one_in(self.mix.wait_one_in) {
            self.store.log().wait_durable(lsn)?;
            self.acknowledge(lsn);
        }
        Ok(())
    }

    /// Moves rows that lie beside rows of another leaf since the transaction parted them. Some must
    /// wait for running transactions.
    fn settle(&mut self, ended: &mut Txn) -> Result<(), StoreFault> {
        self.parted.extend(self.store.parted(ended));
        if self.one_in(3) {
            for (table, key) in std::mem::take(&mut self.parted) {
                let done = insist(self.store, || {
                    self.store.settle_rows::<L>(&mut Txn::default(), table, &key, Writers::Running)
                })?;
                if done.0.later > 0 && self.parted.len() < 20 {
                    self.parted.push((table, key));
                }
            }
        }
        Ok(())
    }

    /// Changes the borders of a partition of the accounts, where trees have several roots. With
    /// running transactions the rows only begin to be divided, as with an owner that is about to
    /// give keys away.
    fn repartition(&mut self) -> Result<(), StoreFault> {
        let starts = self.store.partitions(ACCOUNTS);
        if starts.is_empty() {
            return Ok(());
        }
        let at = table::key(self.random.u64(..self.mix.keys) as i64);
        if starts.contains(&at) && !self.running.is_empty() {
            return Ok(());
        }
        if self.one_in(2) || !self.in_doubt.is_empty() {
            return self.come_apart(&at);
        }
        while !self.running.is_empty() {
            self.rollback()?;
        }
        let crowded = starts.len() > 4 || starts.contains(&at);
        if let Some(start) = starts.get(1).filter(|_| crowded) {
            return insist(self.store, || self.store.merge_partition::<L>(ACCOUNTS, start)).map(drop);
        }
        let how = (Reach::Partition, Writers::Gone);
        insist(self.store, || self.store.divide_rows::<L>(&mut Txn::default(), ACCOUNTS, &at, how))?;
        insist(self.store, || self.store.split_partition::<L>(ACCOUNTS, &at)).map(drop)
    }

    fn come_apart(&mut self, at: &Key) -> Result<(), StoreFault> {
        let begun = insist(self.store, || self.store.begin_division::<L>(ACCOUNTS, at, Reach::Partition))?;
        let Some(mut division) = begun else { return Ok(()) };
        for _ in 0..self.random.usize(..40) {
            let (txn, writers) = (&mut Txn::default(), Writers::Running);
            insist(self.store, || self.store.go_on_dividing::<L>(txn, &mut division, writers, 1))?;
        }
        Ok(())
    }

    /// Everything up to `lsn` is durable now, so all of it is promised.
    fn acknowledge(&mut self, lsn: base::Lsn) {
        let now = self.disk.changes();
        let fresh = self.ledger.commits.iter_mut().rev().take_while(|c| c.acknowledged.is_none());
        fresh.filter(|c| c.lsn <= lsn).for_each(|c| c.acknowledged = Some(now));
    }

    fn rollback(&mut self) -> Result<(), StoreFault> {
        let mut r = self.take();
        if self.random.bool() {
            sign(self.store, &mut r)?;
        }
        insist(self.store, || self.store.rollback::<L>(&mut r.txn))
    }

    fn prepare(&mut self) -> Result<(), StoreFault> {
        let mut r = self.take();
        sign(self.store, &mut r)?;
        let changes = r.changes.clone();
        self.ledger.prepared.insert(r.number, Prepare { changes, acknowledged: None, rolled_back: None });
        let lsn = self.store.prepare(&mut r.txn, &r.number.to_le_bytes())?;
        if self.one_in(2) {
            self.store.log().wait_durable(lsn)?;
            let now = self.disk.changes();
            self.acknowledge(lsn);
            self.ledger.prepared.entry(r.number).and_modify(|p| p.acknowledged = Some(now));
        }
        self.in_doubt.insert(r.number, r);
        Ok(())
    }

    fn decide(&mut self) -> Result<(), StoreFault> {
        let Some((number, mut r)) = self.in_doubt.pop_first() else { return Ok(()) };
        if self.random.bool() {
            return self.log_commit(r);
        }
        let now = self.disk.changes();
        self.ledger.prepared.entry(number).and_modify(|p| p.rolled_back = Some(now));
        insist(self.store, || self.store.rollback::<L>(&mut r.txn))
    }
}

/// The transaction's last change: its number.
fn sign(store: &Store, r: &mut Running) -> Result<(), StoreFault> {
    let table = store.table(HISTORY).ok_or_else(no_table)?;
    let row = table::history_row(r.number);
    insist(store, || store.append::<L>(&mut r.txn, table, &row)).map(drop)
}

fn no_table() -> StoreFault {
    StoreFault::Schema("the tables are not there".into())
}

/// A change with a result that contradicts the ledger: reported like a fault, so that it ends the
/// life.
fn surprise(id: i64, what: &str) -> StoreFault {
    StoreFault::Broken { table: ACCOUNTS, what: format!("row {id}: {what}") }
}

/// Inserts, updates or removes one row; returns its new value.
fn change_row(
    store: &Store,
    txn: &mut Txn,
    (id, before): (i64, Option<&Value>),
    value: Value,
    (remove, take_back): (bool, bool),
) -> Result<Option<Value>, StoreFault> {
    let table = store.table(ACCOUNTS).ok_or_else(no_table)?;
    let key = table::key(id);
    if before.is_none() {
        let bytes = table::row(id, &value);
        let mut put = |expect| insist(store, || store.insert::<L>(txn, table, &key, &bytes, expect));
        if take_back && !matches!(put(Expect::Next(Some(&NO_NEIGHBOUR)))?, InsertOutcome::Next(_)) {
            return Err(surprise(id, "inserted beside a neighbour that does not exist"));
        }
        return match put(Expect::Any)? {
            InsertOutcome::Done => Ok(Some(value)),
            _ => Err(surprise(id, "is there and must not be")),
        };
    }
    if remove {
        let gone = insist(store, || store.delete::<L>(txn, table, &key, Expect::Any))?;
        return if gone == DeleteOutcome::Done { Ok(None) } else { Err(surprise(id, "is missing")) };
    }
    let set = |row: &mut txn::RowMut<'_>| {
        row.set_int(SCORE, value.0);
        row.set_text(NAME, &value.1);
    };
    let done = insist(store, || store.update::<L, _>(txn, table, &key, set))?;
    done.map(|()| Some(value)).ok_or_else(|| surprise(id, "is missing"))
}
