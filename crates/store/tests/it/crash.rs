//! Random transactions, with splits and merges of partitions between them, killed at random moments
//! and compared with a model; many seeds, few frames, deaths during restart as well. A life ends at
//! the latest when its store knows of the death.
//!
//! Each transaction appends its number to the history before it ends. So the surviving history
//! shows the transactions that it consists of. These must include every acknowledged one, must be a
//! prefix of the log's commits, and together must give exactly the rows found.

use crate::files::{Life, Mortal};
use crate::{
    ACCOUNTS, BY_SCORE, HEAPS, HISTORY, KIND, L, Model, TREES, contents, history, key, options, row, schema,
};
use access::Expect;
use base::{Key, Lsn, TableId};
use pages::Stop;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use store::{
    DeleteOutcome, HeapForm, InsertOutcome, Reach, Recovered, Savepoint, Store, StoreOptions, TreeKind, Txn,
    Writers,
};
use txn::{RowBuf, Schema, TableDef, TableKind};
use wal::Durability;
use world::Files;

const KEYS: u64 = 150;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// The new contents of the row with this key; `None` for a deleted row.
type Changes = BTreeMap<i64, Option<(i64, String)>>;

fn apply(model: &mut Model, changes: &Changes) {
    for (id, now) in changes {
        match now {
            Some(row) => drop(model.insert(*id, row.clone())),
            None => drop(model.remove(id)),
        }
    }
}

struct Running {
    number: i64,
    /// Each key belongs to one branch, as each key would to one worker.
    branches: Vec<Txn>,
    changes: Changes,
}

impl Running {
    fn branch(&mut self, id: i64) -> &mut Txn {
        let at = id as usize % self.branches.len();
        &mut self.branches[at]
    }

    fn all(&mut self) -> Vec<&mut Txn> {
        self.branches.iter_mut().collect()
    }
}

struct Committed {
    number: i64,
    lsn: Lsn,
    changes: Changes,
    was_prepared: bool,
}

struct Prepared {
    lsn: Lsn,
    changes: Changes,
    aborted: bool,
}

/// The state that any opening of the files must find.
#[derive(Default)]
struct Truth {
    /// The effect of all transactions known to have survived, and their numbers.
    base: Model,
    survived: BTreeSet<i64>,
    /// Transactions committed in the life that has just ended, in log order.
    pending: Vec<Committed>,
    prepared: BTreeMap<i64, Prepared>,
    /// The position up to which the log was durable when that life ended.
    safe: Lsn,
    next_number: i64,
}

impl Truth {
    /// Compares the result of an opening with the expected state, and takes it as the new base.
    /// Returns the prepared transactions, by number.
    fn settle(&mut self, store: &Store, recovered: Recovered) -> BTreeMap<i64, Running> {
        let mut doubts: BTreeMap<i64, (Vec<Txn>, Vec<i64>)> = BTreeMap::new();
        for doubt in recovered.in_doubt {
            let number = i64::from_le_bytes(doubt.note.as_slice().try_into().expect("a number"));
            let keys = doubt.touched.iter().filter(|t| t.index == ACCOUNTS);
            let ids = keys.map(|t| base::KeyReader::new(&t.key).i64().expect("an id")).collect();
            let mut branches = doubt.others;
            branches.push(doubt.txn);
            // A crash during an abort may have left some branches undecided; these wait for the
            // same decision.
            let before = doubts.insert(number, (branches, ids));
            assert!(before.is_none(), "prepared {number} is there twice");
        }
        let found: BTreeSet<i64> = history(store).into_iter().filter(|n| !doubts.contains_key(n)).collect();
        let mut lost = false;
        for c in std::mem::take(&mut self.pending) {
            if found.contains(&c.number) {
                assert!(!lost, "commit {} survived an earlier one that did not", c.number);
                apply(&mut self.base, &c.changes);
                self.survived.insert(c.number);
                self.prepared.remove(&c.number);
            } else {
                lost = true;
                assert!(c.lsn > self.safe, "commit {} was acknowledged and is lost", c.number);
                // Still in doubt, if its prepare record survived; that is checked below.
                let in_doubt = doubts.contains_key(&c.number);
                assert!(!in_doubt || c.was_prepared, "commit {} half survived", c.number);
            }
        }
        assert_eq!(found, self.survived, "transactions that never committed are there, or the reverse");
        self.prepared.retain(|number, p| {
            let there = doubts.contains_key(number);
            assert!(there || p.aborted || p.lsn > self.safe, "prepared transaction {number} is lost");
            there
        });
        assert_eq!(self.prepared.keys().collect::<Vec<_>>(), doubts.keys().collect::<Vec<_>>());
        let mut visible = self.base.clone();
        let running = doubts.into_iter().map(|(number, (branches, ids))| {
            let changes = self.prepared[&number].changes.clone();
            let missing: Vec<_> = changes.keys().filter(|id| !ids.contains(id)).collect();
            assert!(missing.is_empty(), "prepared {number} must lock {missing:?} again, it was told {ids:?}");
            self.prepared.get_mut(&number).expect("just compared").aborted = false;
            apply(&mut visible, &changes);
            (number, Running { number, branches, changes })
        });
        let running: BTreeMap<_, _> = running.collect();
        let report = crate::examined(store);
        assert_eq!(report.lost_pages, 0, "a crash loses no page");
        assert_eq!(contents(store), visible);
        running
    }
}

/// One life of the process: the store that it opened, and its transactions.
struct Process<'a> {
    store: &'a Store,
    truth: &'a mut Truth,
    random: &'a mut Random,
    running: Vec<Running>,
    in_doubt: BTreeMap<i64, Running>,
    /// Leaves that may lead to pages with rows of other leaves.
    parted: Vec<(TableId, Key)>,
}

/// The process died, or its files failed.
struct Died;

impl From<store::StoreFault> for Died {
    fn from(_: store::StoreFault) -> Died {
        Died
    }
}

fn retry<T>(store: &Store, mut op: impl FnMut() -> Result<T, Stop>) -> Result<T, Died> {
    loop {
        match op() {
            Ok(done) => return Ok(done),
            Err(Stop::Page(page)) => store.load_page(page)?,
            Err(Stop::Again) => std::thread::yield_now(),
            Err(Stop::NoSpace) => panic!("the pool is too small for the test"),
            Err(Stop::Fault(_)) => return Err(Died),
        }
    }
}

impl Process<'_> {
    fn step(&mut self) -> Result<(), Died> {
        match self.random.below(20) {
            0 if !self.running.is_empty() => self.rollback(),
            1 if self.in_doubt.len() < 3 && !self.running.is_empty() => self.prepare(),
            2 if !self.in_doubt.is_empty() => self.decide(),
            3 if self.random.below(6) == 0 => Ok(self.store.checkpoint()?),
            3 if self.random.below(2) == 0 => self.change_schema(),
            7 | 8 if !self.running.is_empty() => self.go_back(),
            9 if !self.parted.is_empty() => self.settle(),
            10 if HEAPS.get() != HeapForm::Shared => self.repartition_divided(),
            10 if TREES.get() == TreeKind::MultiRooted => self.repartition(),
            4..=6 if !self.running.is_empty() => self.commit(),
            _ if self.running.len() < 3 => {
                let begin = |worker| {
                    let mut txn = Txn::default();
                    self.store.begin(&mut txn, worker as usize);
                    txn
                };
                let branches = (0..1 + self.random.below(3)).map(begin).collect();
                self.truth.next_number += 1;
                let number = self.truth.next_number;
                self.running.push(Running { number, branches, changes: Changes::new() });
                Ok(())
            }
            _ => self.change(),
        }
    }

    /// The transaction with an uncommitted change to the row, as a lock table would know it.
    fn holder(&self, id: i64) -> Option<i64> {
        let all = self.running.iter().chain(self.in_doubt.values());
        all.filter(|r| r.changes.contains_key(&id)).map(|r| r.number).next()
    }

    fn change(&mut self) -> Result<(), Died> {
        let who = self.random.below(self.running.len() as u64) as usize;
        self.change_by(who)
    }

    /// Makes some changes, undoes part of them, and later undoes all of them.
    fn go_back(&mut self) -> Result<(), Died> {
        let who = self.random.below(self.running.len() as u64) as usize;
        let (all, changes) = self.stand(who);
        self.change_by(who)?;
        let (some, kept) = self.stand(who);
        self.change_by(who)?;
        self.change_by(who)?;
        self.back_to(who, &some)?;
        self.running[who].changes = kept;
        self.change_by(who)?;
        self.back_to(who, &all)?;
        self.running[who].changes = changes;
        Ok(())
    }

    /// A savepoint of each branch, and the changes of the transaction.
    fn stand(&self, who: usize) -> (Vec<Savepoint>, Changes) {
        let r = &self.running[who];
        (r.branches.iter().map(|txn| self.store.savepoint(txn)).collect(), r.changes.clone())
    }

    fn back_to(&mut self, who: usize, savepoints: &[Savepoint]) -> Result<(), Died> {
        for (txn, savepoint) in self.running[who].branches.iter_mut().zip(savepoints) {
            retry(self.store, || self.store.rollback_to::<L>(txn, savepoint))?;
        }
        Ok(())
    }

    fn undo(&mut self, branches: &mut [Txn]) -> Result<(), Died> {
        branches.iter_mut().try_for_each(|txn| retry(self.store, || self.store.rollback::<L>(txn)))?;
        self.note(branches);
        Ok(())
    }

    fn note(&mut self, ended: &mut [Txn]) {
        self.parted.extend(ended.iter_mut().flat_map(|txn| self.store.parted(txn)));
    }

    /// Moves rows that share a page with rows of another leaf, if no transaction that may be undone
    /// has changed them.
    fn settle(&mut self) -> Result<(), Died> {
        let (table, key): (TableId, Key) = self.parted.pop().expect("looked");
        let settled = retry(self.store, || {
            self.store.settle_rows::<L>(&mut Txn::default(), table, &key, Writers::Running)
        });
        if settled?.0.later > 0 {
            self.parted.insert(0, (table, key));
        }
        Ok(())
    }

    /// Splits a partition after its rows are separated, or merges one, while no transaction runs.
    fn repartition_divided(&mut self) -> Result<(), Died> {
        let busy = !self.running.is_empty() || !self.in_doubt.is_empty();
        if busy || KIND.get() == TableKind::Clustered {
            return Ok(());
        }
        let starts = self.store.partitions(ACCOUNTS);
        let key = key(self.random.below(60) as i64);
        if starts.len() > 4 {
            return retry(self.store, || self.store.merge_partition::<L>(ACCOUNTS, &starts[2])).map(drop);
        }
        let apart = retry(self.store, || {
            self.store.divide_rows::<L>(
                &mut Txn::default(),
                ACCOUNTS,
                &key,
                (Reach::Partition, Writers::Gone),
            )
        });
        assert_eq!(apart?.later, 0, "nobody is at work");
        retry(self.store, || self.store.split_partition::<L>(ACCOUNTS, &key)).map(drop)
    }

    /// Creates or drops a table that no other transaction uses, or does so and rolls back.
    fn change_schema(&mut self) -> Result<(), Died> {
        let id = TableId(20);
        let def = TableDef { id, indexes: vec![], ..schema().tables[0].clone() };
        let mut txn = Txn::default();
        self.store.begin(&mut txn, 0);
        if self.store.table(id).is_some() {
            self.store.drop_table::<L>(&mut txn, id)?;
        } else {
            self.store.create_table::<L>(&mut txn, &def)?;
            let table = self.store.table(id).expect("created");
            for n in 0..self.random.below(60) as i64 {
                let bytes = row(n, n, &"s".repeat(300));
                let put = || self.store.insert::<L>(&mut txn, table, &key(n), &bytes, Expect::Any);
                assert_eq!(retry(self.store, put)?, InsertOutcome::Done);
            }
        }
        if self.random.below(3) == 0 {
            return retry(self.store, || self.store.rollback::<L>(&mut txn));
        }
        self.store.commit(&mut txn, None)?;
        self.store.committed::<L>(&mut txn);
        Ok(())
    }

    /// Moves a border between partitions of the primary tree or of a secondary one, while
    /// transactions run.
    fn repartition(&mut self) -> Result<(), Died> {
        let index = [ACCOUNTS, BY_SCORE][self.random.below(2) as usize];
        let starts = self.store.partitions(index);
        let at = if starts.len() < 8 && self.random.below(2) == 0 {
            key(self.random.below(if index == ACCOUNTS { KEYS } else { 50 }) as i64)
        } else {
            starts[self.random.below(starts.len() as u64) as usize].clone()
        };
        if at.is_empty() {
            return Ok(());
        }
        retry(self.store, || match starts.contains(&at) {
            true => self.store.merge_partition::<L>(index, &at),
            false => self.store.split_partition::<L>(index, &at),
        })?;
        assert_ne!(starts.contains(&at), self.store.partitions(index).contains(&at));
        Ok(())
    }

    fn change_by(&mut self, who: usize) -> Result<(), Died> {
        let id = self.random.below(KEYS) as i64;
        if self.holder(id).is_some_and(|h| h != self.running[who].number) {
            return Ok(());
        }
        let now = self.running[who].changes.get(&id).cloned();
        let now = now.unwrap_or_else(|| self.visible(id));
        let score = self.random.below(50) as i64;
        let name = "n".repeat(self.random.below(40).pow(2) as usize / 4 + 1);
        let (store, table) = (self.store, self.store.table(ACCOUNTS).expect("created"));
        let r = &mut self.running[who];
        let remove = self.random.below(3) == 0;
        if now.is_none() && self.random.below(4) == 0 {
            // No key is this long, so the insertion is undone, which leaves a compensated part in
            // the log.
            let bytes = row(id, score, &name);
            let wrong = Expect::Next(Some(&[0; 99]));
            let put = || store.insert::<L>(r.branch(id), table, &key(id), &bytes, wrong);
            assert!(matches!(retry(store, put)?, InsertOutcome::Next(_)));
        }
        match (&now, remove) {
            (None, _) => {
                let bytes = row(id, score, &name);
                let put = || store.insert::<L>(r.branch(id), table, &key(id), &bytes, Expect::Any);
                assert_eq!(retry(store, put)?, InsertOutcome::Done);
            }
            (Some(_), true) => {
                let gone = || store.delete::<L>(r.branch(id), table, &key(id), Expect::Any);
                assert_eq!(retry(store, gone)?, DeleteOutcome::Done);
            }
            (Some(_), false) => {
                let set = |row: &mut txn::RowMut<'_>| {
                    row.set_int(1, score);
                    row.set_text(2, &name);
                };
                let done = retry(store, || store.update::<L, _>(r.branch(id), table, &key(id), set))?;
                assert!(done.is_some(), "row {id} is missing");
            }
        }
        let gone = now.is_some() && remove;
        if !gone && now.as_ref().is_some_and(|row| (row.0, &row.1) == (score, &name)) {
            // Written with the same values: nothing is logged, and no lock is needed after a crash.
            return Ok(());
        }
        r.changes.insert(id, (!gone).then_some((score, name)));
        Ok(())
    }

    /// The committed row, in this life's view.
    fn visible(&self, id: i64) -> Option<(i64, String)> {
        let latest = self.truth.pending.iter().rev().find_map(|c| c.changes.get(&id));
        latest.cloned().unwrap_or_else(|| self.truth.base.get(&id).cloned())
    }

    fn take(&mut self) -> Running {
        let who = self.random.below(self.running.len() as u64) as usize;
        self.running.swap_remove(who)
    }

    /// The transaction's last change: it appends its number.
    fn sign(&mut self, r: &mut Running) -> Result<(), Died> {
        let table = self.store.table(HISTORY).expect("created");
        let mut buf = RowBuf::new(&table.def);
        buf.start().set_int(0, r.number);
        assert!(retry(self.store, || self.store.append::<L>(r.branch(r.number), table, buf.bytes()))?);
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Died> {
        let mut r = self.take();
        self.sign(&mut r)?;
        self.log_commit(r, false)
    }

    fn log_commit(&mut self, mut r: Running, was_prepared: bool) -> Result<(), Died> {
        let lsn = self.store.commit_together(&mut r.all(), None)?;
        let Running { number, changes, mut branches } = r;
        self.truth.pending.push(Committed { number, lsn, changes, was_prepared });
        branches.iter_mut().for_each(|txn| self.store.committed::<L>(txn));
        self.note(&mut branches);
        if self.random.below(3) == 0 {
            self.store.log().wait_durable(lsn).map_err(|_| Died)?;
        }
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), Died> {
        let mut r = self.take();
        if self.random.below(2) == 0 {
            self.sign(&mut r)?;
        }
        self.undo(&mut r.branches)
    }

    fn prepare(&mut self) -> Result<(), Died> {
        let mut r = self.take();
        self.sign(&mut r)?;
        let lsn = {
            let note = r.number.to_le_bytes();
            self.store.prepare_together(&mut r.all(), &note)?
        };
        self.truth.prepared.insert(r.number, Prepared { lsn, changes: r.changes.clone(), aborted: false });
        self.in_doubt.insert(r.number, r);
        Ok(())
    }

    fn decide(&mut self) -> Result<(), Died> {
        let Some((number, mut r)) = self.in_doubt.pop_first() else { return Ok(()) };
        if self.random.below(2) == 0 {
            return self.log_commit(r, true);
        }
        self.truth.prepared.get_mut(&number).expect("prepared").aborted = true;
        self.undo(&mut r.branches)
    }
}

/// The disk on which one life follows another.
struct Disk {
    files: Arc<dyn Files>,
    dir: PathBuf,
    durability: Durability,
}

/// Opens, works and dies (or closes). Returns `false` if it died before it had opened.
fn live(disk: &Disk, truth: &mut Truth, random: &mut Random) -> bool {
    let life = match random.below(3) {
        0 => Life::of_changes(random.below(60) as i64),
        1 => Life::of_changes(random.below(600) as i64),
        _ => Life::new(),
    };
    // Nodes as small as the longest entry allows, so that trees split and merge. In clustered
    // tables some rows are too long for them.
    let node_bytes = if KIND.get() == TableKind::Heap { 3400 } else { 1200 };
    let options = StoreOptions { node_bytes, ..options(disk.durability, 64) };
    let opened = Store::open(Mortal::over(&disk.files, &life), &disk.dir, options);
    let (store, recovered) = match opened {
        Ok(opened) => opened,
        Err(_) if life.is_dead() => return false,
        Err(fault) => panic!("{fault}"),
    };
    if store.create(&tables()).is_err() {
        assert!(life.is_dead());
        return false;
    }
    if life.is_dead() {
        // Data read from now on may be out of date. The next life checks.
        return false;
    }
    life.pause();
    let in_doubt = truth.settle(&store, recovered);
    life.go_on();
    let (running, parted) = (Vec::new(), Vec::new());
    let mut process = Process { store: &store, truth, random, running, in_doubt, parted };
    let death = process.random.below(800);
    for step in 0..process.random.below(400) {
        if step == death {
            life.kill();
        }
        if process.step().is_err() {
            assert!(life.is_dead() || store.fault().is_some());
            break;
        }
        if life.is_dead() {
            // Makes the flusher meet the death now, independent of its schedule.
            let _ = store.log().wait_stable(store.log().end());
        }
        if store.fault().is_some() {
            // A rollback undoes nothing from now on, so the contents differ from the committed
            // state.
            break;
        }
    }
    let idle = process.running.is_empty();
    drop(process);
    let clean = idle && !life.is_dead() && random.below(4) == 0;
    let end = store.log().end();
    if !clean {
        life.kill();
    }
    truth.safe = store.log().durable();
    if clean {
        match store.close() {
            Ok(()) => truth.safe = end,
            Err(fault) => assert!(life.is_dead(), "{fault}"),
        }
    }
    true
}

/// The clustered table has no index by name, because entries of that index are too long for the
/// nodes.
fn tables() -> Schema {
    let mut schema = schema();
    if KIND.get() == TableKind::Clustered {
        schema.tables[0].indexes.truncate(1);
    }
    schema
}

fn campaign(disk: &Disk, seed: u64) {
    KIND.set(TableKind::ALL[seed as usize % 2]);
    HEAPS.set(HeapForm::ALL[seed as usize / 2 % 3]);
    TREES.set(TreeKind::ALL[usize::from(HEAPS.get() != HeapForm::Shared || seed % 5 > 2)]);
    let (mut truth, mut random) = (Truth::default(), Random(seed));
    let mut lives = 0;
    while lives < 8 {
        lives += usize::from(live(disk, &mut truth, &mut random));
    }
}

fn seeds(few: u64) -> u64 {
    std::env::var("ATOLL_CRASH_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(few)
}

/// Once the store knows of its fault, a rollback ends a transaction and undoes nothing. The
/// contents of such a store differ from the committed state, which only the next life shows. So
/// results read from such a store must not be reported.
#[test]
fn what_a_store_with_a_fault_shows_after_a_rollback_is_not_what_was_committed() {
    let files = world::memory();
    let life = Life::new();
    let open =
        |files| Store::open(files, std::path::Path::new("/db"), options(Durability::Async, 64)).unwrap();
    let (store, _) = open(Mortal::over(&files, &life));
    store.create(&schema()).expect("a schema");
    let table = store.table(ACCOUNTS).expect("created");
    let insert = |txn: &mut Txn, id| {
        let bytes = row(id, 1, "n");
        retry(&store, || store.insert::<L>(txn, table, &key(id), &bytes, Expect::Any)).ok()
    };
    let mut txn = Txn::default();
    store.begin(&mut txn, 0);
    assert_eq!(insert(&mut txn, 5), Some(InsertOutcome::Done));
    store.log().wait_stable(store.log().end()).expect("it lives");
    assert_eq!(insert(&mut txn, 6), Some(InsertOutcome::Done));
    life.kill();
    assert!(store.log().wait_stable(store.log().end()).is_err(), "the flusher meets the death");
    assert!(store.fault().is_some());

    store.rollback::<L>(&mut txn).expect("it ends");
    store.begin(&mut txn, 0);
    assert_eq!(insert(&mut txn, 5), Some(InsertOutcome::Exists), "nothing was undone");
    assert!(store.commit(&mut txn, None).is_err(), "and nothing that has seen it commits");
    store.rollback::<L>(&mut txn).expect("it ends");
    drop((txn, store));

    let (store, _) = open(files);
    assert_eq!(contents(&store), Model::new());
}

#[test]
fn what_was_acknowledged_survives_and_nothing_else_does() {
    for seed in 0..seeds(40) {
        let disk = Disk { files: world::memory(), dir: "/db".into(), durability: Durability::Sync };
        let run = std::panic::catch_unwind(AssertUnwindSafe(|| campaign(&disk, seed)));
        run.unwrap_or_else(|_| panic!("seed {seed} fails"));
    }
}

/// In async mode a commit is acknowledged when it is appended, to memory shared with the kernel.
#[test]
fn what_was_only_appended_survives_the_process_in_async_mode() {
    for seed in 0..seeds(6) {
        let dir = tempfile::tempdir().expect("a folder");
        let disk = Disk { files: world::real(), dir: dir.path().join("db"), durability: Durability::Async };
        let run = std::panic::catch_unwind(AssertUnwindSafe(|| campaign(&disk, seed)));
        run.unwrap_or_else(|_| panic!("seed {seed} fails"));
    }
}
