//! The engine over restarts, on a simulated disk: acknowledged commits survive, a transaction in
//! doubt goes either way, notes come back until they are forgotten, and a failed log ends commits.

use super::tests::{BY_VALUE, T, Tried, key, once, row, setup, table_schema};
use super::*;
use crate::engine::maintenance::Maintenance;
use crate::engine::{Engine, EngineFault, LockPoint, Recovered, Scope, Setup};
use crate::executor::Executor;
use crate::options::OccConflict;
use memstore::InDoubt;
use std::task::{Context, Poll, Waker};
use txn::{Access, Inserted};
use wal::{Durability, FlushBy};
use world::sim::{Disk, Lasts, Operation, Plan, Trouble};

struct Life {
    engine: Arc<MemoryEngine>,
    ctx: MemoryWorkerContext,
    executor: Executor,
}

fn setup_of(durability: Durability) -> Setup {
    Setup { durability, schema: table_schema(), ..setup(OccConflict::Wait) }
}

fn try_open(disk: &Disk, setup: &Setup) -> Result<(MemoryEngine, Recovered<InDoubt>), EngineFault> {
    MemoryEngine::open_on(disk.files(), setup, |log| log.segment_bytes = 1 << 16)
}

fn open(disk: &Disk, durability: Durability) -> (Life, Recovered<InDoubt>) {
    let (engine, recovered) = try_open(disk, &setup_of(durability)).unwrap();
    let engine = Arc::new(engine);
    let ctx = engine.worker_context(0, Arc::new(|| {}));
    (Life { engine, ctx, executor: Executor::new(Arc::new(|| {})) }, recovered)
}

impl Life {
    fn begin(&self) -> MemoryLocalTxn {
        let mut txn = self.engine.local_txn(&self.ctx);
        self.engine.begin(&self.ctx, &mut txn, Protection::Locks);
        txn
    }

    fn put(&self, txn: &mut MemoryLocalTxn, id: i64, value: i64) {
        let mut access = self.engine.access(&self.ctx, &self.executor, txn);
        let there = once(access.update(T, &key(id), |row| row.set_int(1, value)));
        if there == Tried::Done(None) {
            assert_eq!(once(access.insert(T, &key(id), &row(id, value))), Tried::Done(Inserted::Done));
        }
    }

    fn validate(&self, txn: &mut MemoryLocalTxn, scope: Scope) {
        assert_eq!(once(self.engine.validate(&self.ctx, &self.executor, txn, scope)), Tried::Done(()));
    }

    fn value(&self, id: i64) -> Tried<Option<i64>> {
        let mut txn = self.begin();
        let mut access = self.engine.access(&self.ctx, &self.executor, &mut txn);
        let read = once(access.read(T, &key(id), |row| row.int(1)));
        self.engine.rollback(&self.ctx, &mut txn).unwrap();
        read
    }

    /// Waits as an idle worker does.
    fn wait(&self, lsn: base::Lsn) -> Result<(), Abort> {
        let mut durable = Box::pin(self.engine.durable(&self.ctx, lsn, FlushBy::Caller));
        loop {
            match durable.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(done) => return done,
                Poll::Pending => self.engine.flush_log_here(),
            }
        }
    }

    fn commit(&self, id: i64, value: i64) -> Result<(), Abort> {
        let mut txn = self.begin();
        self.put(&mut txn, id, value);
        let validated = once(self.engine.validate(&self.ctx, &self.executor, &mut txn, Scope::Home));
        if let Tried::Fails(abort) = validated {
            self.engine.rollback(&self.ctx, &mut txn)?;
            return Err(abort);
        }
        let lsn = self.engine.commit(&self.ctx, &mut txn)?;
        self.wait(lsn)
    }

    fn prepare(&self, txn: &mut MemoryLocalTxn, note: &[u8], lock_point: LockPoint) {
        self.validate(txn, Scope::Distributed);
        let vote = self.engine.prepare(&self.ctx, txn, note, lock_point).unwrap();
        self.wait(vote).unwrap();
    }

    fn close(self) -> Result<(), EngineFault> {
        drop(self.ctx);
        Arc::into_inner(self.engine).unwrap().close()
    }
}

#[test]
fn what_was_acknowledged_is_there_after_a_crash_and_after_a_close() {
    for (life, durability) in [Durability::Sync, Durability::Async].into_iter().enumerate() {
        let disk = Disk::new();
        let (first, recovered) = open(&disk, durability);
        assert_eq!((recovered.life, recovered.in_doubt.len(), recovered.notes.len()), (1, 0, 0));
        (1..50).for_each(|id| first.commit(id, id * 10).unwrap());
        let image =
            if durability == Durability::Sync { disk.crash_image(life as u64) } else { disk.killed() };
        let (second, recovered) = open(&image, durability);
        assert_eq!(recovered.life, 2);
        assert!((1..50).all(|id| second.value(id) == Tried::Done(Some(id * 10))));
        assert!(second.engine.check(&mut |_, _, _| {}).wrong.is_empty());
        // No transaction waits for this commit: closing writes it, in every durability mode.
        let mut txn = second.begin();
        second.put(&mut txn, 7, 77);
        second.validate(&mut txn, Scope::Home);
        second.engine.commit(&second.ctx, &mut txn).unwrap();
        second.engine.checkpoint().unwrap();
        second.commit(8, 88).unwrap();
        second.close().unwrap();
        let (third, recovered) = open(&image.crash_image(9), durability);
        assert_eq!(
            (recovered.life, third.value(7), third.value(8)),
            (3, Tried::Done(Some(77)), Tried::Done(Some(88)))
        );
        assert_eq!(third.value(9), Tried::Done(Some(90)));
    }
}

#[test]
fn a_reply_waits_for_the_log_and_so_does_who_read_what_is_not_durable() {
    let disk = Disk::new();
    let (life, _) = open(&disk, Durability::Sync);
    let mut txn = life.begin();
    life.put(&mut txn, 1, 11);
    life.validate(&mut txn, Scope::Home);
    let written = life.engine.commit(&life.ctx, &mut txn).unwrap();
    let mut txn = life.begin();
    let mut access = life.engine.access(&life.ctx, &life.executor, &mut txn);
    assert_eq!(once(access.read(T, &key(1), |row| row.int(1))), Tried::Done(Some(11)));
    life.validate(&mut txn, Scope::Distributed);
    assert_eq!(life.engine.horizon(&txn, &life.ctx), written);
    let read = life.engine.commit(&life.ctx, &mut txn).unwrap();
    assert_eq!(read, written);
    life.wait(read).unwrap();
    assert_eq!(life.engine.durable_now(written), Some(Ok(())));
    let (again, _) = open(&disk.crash_image(1), Durability::Sync);
    assert_eq!(again.value(1), Tried::Done(Some(11)));
}

#[test]
fn a_part_in_doubt_holds_its_rows_until_its_decision_and_goes_either_way() {
    for commits in [true, false] {
        let disk = Disk::new();
        let (life, _) = open(&disk, Durability::Sync);
        life.commit(1, 10).unwrap();
        life.commit(2, 20).unwrap();
        let mut txn = life.begin();
        life.put(&mut txn, 1, 11);
        let mut access = life.engine.access(&life.ctx, &life.executor, &mut txn);
        assert_eq!(once(access.read(T, &key(2), |row| row.int(1))), Tried::Done(Some(20)));
        life.prepare(&mut txn, b"who", LockPoint::Ahead);
        let image = disk.crash_image(2);
        let (life, mut recovered) = open(&image, Durability::Sync);
        let (note, doubt) = recovered.in_doubt.pop().unwrap();
        assert_eq!(note, b"who");
        let mut txn = life.engine.adopt(&life.ctx, doubt);
        assert_eq!(life.value(1), Tried::Waits, "it is written");
        // Row 2 may be read, not changed.
        assert_eq!(life.value(2), Tried::Done(Some(20)));
        let mut writer = life.begin();
        life.put(&mut writer, 2, 21);
        assert_eq!(
            once(life.engine.validate(&life.ctx, &life.executor, &mut writer, Scope::Home)),
            Tried::Waits
        );
        life.engine.rollback(&life.ctx, &mut writer).unwrap();
        if commits {
            let lsn = life.engine.commit(&life.ctx, &mut txn).unwrap();
            life.wait(lsn).unwrap();
        } else {
            life.engine.rollback(&life.ctx, &mut txn).unwrap();
        }
        life.commit(2, 22).unwrap();
        let (life, recovered) = open(&image.crash_image(3), Durability::Sync);
        assert!(recovered.in_doubt.is_empty());
        let one = if commits { 11 } else { 10 };
        assert_eq!((life.value(1), life.value(2)), (Tried::Done(Some(one)), Tried::Done(Some(22))));
        assert!(life.engine.check(&mut |_, _, _| {}).wrong.is_empty());
    }
}

#[test]
fn at_the_lock_point_reads_are_let_go_with_the_vote() {
    let disk = Disk::new();
    let (life, _) = open(&disk, Durability::Sync);
    life.commit(2, 20).unwrap();
    let mut txn = life.begin();
    life.put(&mut txn, 1, 11);
    let mut access = life.engine.access(&life.ctx, &life.executor, &mut txn);
    assert_eq!(once(access.read(T, &key(2), |row| row.int(1))), Tried::Done(Some(20)));
    life.prepare(&mut txn, b"who", LockPoint::Reached);
    life.commit(2, 21).unwrap();
    let lsn = life.engine.commit(&life.ctx, &mut txn).unwrap();
    life.wait(lsn).unwrap();
    assert_eq!((life.value(1), life.value(2)), (Tried::Done(Some(11)), Tried::Done(Some(21))));
}

#[test]
fn notes_come_back_until_they_are_forgotten() {
    let disk = Disk::new();
    let (life, _) = open(&disk, Durability::Sync);
    let mut notes = Vec::new();
    for (id, note) in [(1, b"one"), (2, b"two")] {
        let mut txn = life.begin();
        life.put(&mut txn, id, id);
        life.validate(&mut txn, Scope::Distributed);
        let (lsn, id) = life.engine.commit_with_note(&life.ctx, &mut txn, note).unwrap();
        life.wait(lsn).unwrap();
        notes.push((id, note.to_vec()));
    }
    let image = disk.crash_image(1);
    let (life, recovered) = open(&image, Durability::Sync);
    assert_eq!(recovered.notes, notes);
    life.engine.forget(&life.ctx, notes[0].0);
    life.commit(3, 3).unwrap();
    let (life, recovered) = open(&image.crash_image(2), Durability::Sync);
    assert_eq!(recovered.notes, notes[1..]);
    assert_eq!((life.value(1), life.value(2)), (Tried::Done(Some(1)), Tried::Done(Some(2))));
}

#[test]
fn a_log_that_fails_ends_commits_and_says_why_and_the_next_opening_has_what_was_acknowledged() {
    for only in [Operation::Sync, Operation::Write] {
        let disk = Disk::new();
        let (life, _) = open(&disk, Durability::Sync);
        life.commit(1, 10).unwrap();
        let (trouble, lasts, at) = (Trouble::Error, Lasts::Forever, disk.operations() + 1);
        disk.plan(Plan { trouble, lasts, at, only: Some(only) });
        assert_eq!(life.commit(1, 11), Err(Abort::Fault));
        assert_eq!(life.commit(2, 20), Err(Abort::Fault));
        assert!(life.engine.fault().is_some_and(|fault| fault.contains("/nowhere")), "it names the file");
        // A thread of the log that prepares a segment may meet the failure first. Then the commit
        // is refused before it changes the row.
        assert!(matches!(life.value(1), Tried::Done(Some(10 | 11))), "reads go on");
        assert!(life.close().is_err());
        disk.heal();
        let (life, _) = open(&disk.crash_image(1), Durability::Sync);
        assert!(matches!(life.value(1), Tried::Done(Some(10 | 11))));
        life.commit(1, 12).unwrap();
    }
}

#[test]
fn rows_that_do_not_fit_the_budget_and_files_of_nobody_are_refused_in_words() {
    let disk = Disk::new();
    let (life, _) = open(&disk, Durability::Sync);
    (0..20_000).for_each(|id| {
        let mut txn = life.begin();
        life.put(&mut txn, id, id);
        life.validate(&mut txn, Scope::Home);
        life.engine.commit(&life.ctx, &mut txn).unwrap();
    });
    life.close().unwrap();
    let small = Setup { pool_pages: 64, ..setup_of(Durability::Sync) };
    let fault = try_open(&disk, &small).map(drop).unwrap_err().to_string();
    assert!(fault.contains("larger budget"), "{fault}");
    let control = disk.files();
    let file = control.open(std::path::Path::new("/nowhere/control"), world::Open::ReadWrite).unwrap();
    file.write_all_at(b"something", 0).unwrap();
    let fault = try_open(&disk, &setup_of(Durability::Sync)).map(drop).unwrap_err();
    let (place, at) = fault.place().unwrap();
    assert!(place.ends_with("control") && at == Some(0), "{fault}");
}

/// An entry without its row, and a row without its entry, made below the engine.
#[test]
fn a_check_finds_rows_and_entries_that_do_not_agree() {
    let disk = Disk::new();
    let (life, _) = open(&disk, Durability::Sync);
    (1..5).for_each(|id| life.commit(id, id * 10).unwrap());
    assert!(life.engine.check(&mut |_, _, _| {}).wrong.is_empty());
    let entry = base::Key::new().i64(20).i64(2);
    {
        let mut worker = life.ctx.worker.borrow_mut();
        let mut txn = worker.begin();
        assert_eq!(worker.delete(&mut txn, BY_VALUE, &entry), Ok(true));
        worker.commit(txn).map_err(|(refused, _)| refused).unwrap();
    }
    let wrong = life.engine.check(&mut |_, _, _| {}).wrong;
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(wrong.iter().any(|(_, what)| what.contains("no entry")), "{wrong:?}");
    assert!(wrong.iter().any(|(_, what)| what.contains("3 entries for 4 rows")), "{wrong:?}");
}
