//! Two transactions side by side on one thread, step by step. An anomaly ends with the abort of one
//! of them at its validation; a prepared row is waited for; indexes follow their rows.

use super::*;
use crate::design::DesignKind;
use crate::engine::load::Load;
use crate::engine::maintenance::Maintenance;
use crate::engine::{Engine, Scope, Setup};
use crate::executor::Executor;
use crate::options::{EngineOptions, OccConflict};
use crate::owners::SiteRange;
use base::Key;
use locks::LockTuning;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use txn::{Access, Column, Direction, Flow, IndexDef, Inserted, Range, Row, RowBuf, TableKind, Type};
use wal::Durability;

pub(super) const T: TableId = TableId(1);
pub(super) const BY_VALUE: TableId = TableId(2);
const LOG: TableId = TableId(3);

fn table() -> TableDef {
    TableDef {
        id: T,
        name: "t".into(),
        columns: vec![Column::new("id", Type::I64), Column::new("value", Type::I64)],
        key: vec![0],
        indexes: vec![IndexDef { id: BY_VALUE, name: "by_value".into(), columns: vec![1] }],
        domain: 1,
        kind: TableKind::Heap,
    }
}

pub(super) fn table_schema() -> Schema {
    let log = TableDef { id: LOG, name: "log".into(), key: vec![], indexes: vec![], ..table() };
    Schema { tables: vec![table(), log] }
}

pub(super) fn key(id: i64) -> Key {
    Key::new().i64(id)
}

pub(super) fn row(id: i64, value: i64) -> Vec<u8> {
    let mut buf = RowBuf::new(&table());
    let mut row = buf.start();
    row.set_int(0, id);
    row.set_int(1, value);
    buf.bytes().to_vec()
}

pub(super) fn setup(conflict: OccConflict) -> Setup {
    Setup {
        design: DesignKind::Occ,
        dir: "/nowhere".into(),
        durability: Durability::Memory,
        pool_pages: 8 << 10,
        workers: 2,
        options: EngineOptions {
            locks: LockTuning::PLAIN,
            lock_timeout_ms: 1 << 20,
            occ_conflict: conflict,
            ..EngineOptions::of(DesignKind::Occ)
        },
        schema: table_schema(),
        site_range: SiteRange::whole(),
    }
}

#[derive(Debug, PartialEq)]
pub(super) enum Tried<T> {
    Done(T),
    Waits,
    Fails(Abort),
}
use Tried::{Done, Fails, Waits};

/// Polls once: the operation is done, or it waits.
pub(super) fn once<T>(future: impl Future<Output = Result<T, Abort>>) -> Tried<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(value)) => Done(value),
        Poll::Ready(Err(abort)) => Fails(abort),
        Poll::Pending => Waits,
    }
}

struct Bench {
    engine: Arc<MemoryEngine>,
    contexts: [MemoryWorkerContext; 2],
    executor: Executor,
}

struct Scene<'b> {
    bench: &'b Bench,
    ctx: &'b MemoryWorkerContext,
    txn: MemoryLocalTxn,
}

impl Bench {
    /// Rows 1 and 2 with the values 10 and 20, and row 100.
    fn new(conflict: OccConflict) -> Bench {
        Bench::of(MemoryEngine::open(&setup(conflict)).unwrap().0)
    }

    fn of(engine: MemoryEngine) -> Bench {
        let engine = Arc::new(engine);
        let contexts = [engine.worker_context(0, Arc::new(|| {})), engine.worker_context(1, Arc::new(|| {}))];
        let bench = Bench { engine, contexts, executor: Executor::new(Arc::new(|| {})) };
        let mut loader = bench.begin(0);
        for (id, value) in [(1, 10), (2, 20), (100, 0)] {
            assert_eq!(loader.insert(id, value), Done(Inserted::Done));
        }
        assert_eq!(loader.commit(), Done(()));
        bench
    }

    fn begin(&self, worker: usize) -> Scene<'_> {
        self.begin_under(worker, Protection::Locks)
    }

    fn begin_under(&self, worker: usize, protection: Protection) -> Scene<'_> {
        let ctx = &self.contexts[worker];
        let mut txn = self.engine.local_txn(ctx);
        self.engine.begin(ctx, &mut txn, protection);
        Scene { bench: self, ctx, txn }
    }

    /// The values of rows 1 and 2, read by a separate transaction.
    fn rows(&self) -> (Option<i64>, Option<i64>) {
        let mut scene = self.begin(0);
        let mut read = |id| match scene.read(id) {
            Done(value) => value,
            other => panic!("row {id}: {other:?}"),
        };
        (read(1), read(2))
    }
}

impl Scene<'_> {
    fn access(&mut self) -> MemoryAccess<'_> {
        self.bench.engine.access(self.ctx, &self.bench.executor, &mut self.txn)
    }

    fn read(&mut self, id: i64) -> Tried<Option<i64>> {
        once(self.access().read(T, &key(id), |row| row.int(1)))
    }

    fn write(&mut self, id: i64, value: i64) -> Tried<Option<()>> {
        once(self.access().update(T, &key(id), |row| row.set_int(1, value)))
    }

    fn insert(&mut self, id: i64, value: i64) -> Tried<Inserted> {
        once(self.access().insert(T, &key(id), &row(id, value)))
    }

    fn delete(&mut self, id: i64) -> Tried<bool> {
        once(self.access().delete(T, &key(id)))
    }

    /// Ids and values of a range of keys of the table, or of values of its index.
    fn scan(&mut self, index: TableId, (low, high): (i64, i64), way: Direction) -> Tried<Vec<(i64, i64)>> {
        let mut seen = Vec::new();
        let (low, high) = (key(low), key(high));
        let visit = |_: &[u8], row: Row<'_>| {
            seen.push((row.int(0), row.int(1)));
            Flow::More
        };
        match once(self.access().scan(index, Range::new(&low, &high), way, visit)) {
            Done(()) => Done(seen),
            Waits => Waits,
            Fails(abort) => Fails(abort),
        }
    }

    /// Ids in entries of an index, by value.
    fn entries(&mut self, (low, high): (i64, i64), way: Direction) -> Tried<Vec<i64>> {
        let mut seen = Vec::new();
        let (low, high) = (key(low), key(high));
        let visit = |entry: &[u8]| {
            seen.extend(base::KeyReader::last_i64(entry));
            Flow::More
        };
        match once(self.access().scan_keys(BY_VALUE, Range::new(&low, &high), way, visit)) {
            Done(()) => Done(seen),
            Waits => Waits,
            Fails(abort) => Fails(abort),
        }
    }

    fn validate(&mut self, scope: Scope) -> Tried<()> {
        let Bench { engine, executor, .. } = self.bench;
        once(engine.validate(self.ctx, executor, &mut self.txn, scope))
    }

    fn commit(mut self) -> Tried<()> {
        match self.validate(Scope::Home) {
            Done(()) => {
                self.bench.engine.commit(self.ctx, &mut self.txn).unwrap();
                Done(())
            }
            refused => refused,
        }
    }
}

impl Drop for Scene<'_> {
    fn drop(&mut self) {
        self.bench.engine.rollback(self.ctx, &mut self.txn).unwrap();
    }
}

const WAYS: [Direction; 2] = [Direction::Forward, Direction::Backward];
const CONFLICT: Tried<()> = Fails(Abort::Conflict);

/// With a log, which makes no difference to the tests below.
fn bench() -> Bench {
    let setup = Setup { durability: Durability::Sync, ..setup(OccConflict::Wait) };
    let files = world::sim::Disk::new().files();
    let opened = MemoryEngine::open_on(files, &setup, |log| log.segment_bytes = 1 << 20);
    Bench::of(opened.unwrap().0)
}

#[test]
fn g0_dirty_write() {
    let b = bench();
    let (mut one, mut two) = (b.begin(0), b.begin(1));
    assert_eq!((one.write(1, 11), two.write(1, 12)), (Done(Some(())), Done(Some(()))));
    assert_eq!((one.write(2, 21), two.write(2, 22)), (Done(Some(())), Done(Some(()))));
    assert_eq!((one.commit(), two.commit()), (Done(()), CONFLICT));
    assert_eq!(b.rows(), (Some(11), Some(21)));
}

#[test]
fn g1_what_is_not_committed_is_not_seen() {
    let b = bench();
    let (mut one, mut two) = (b.begin(0), b.begin(1));
    assert_eq!(one.write(1, 101), Done(Some(())));
    assert_eq!(two.read(1), Done(Some(10)));
    drop(one);
    assert_eq!(two.commit(), Done(()));
}

#[test]
fn g1c_circular_information_flow() {
    let b = bench();
    let (mut one, mut two) = (b.begin(0), b.begin(1));
    assert_eq!((one.write(1, 11), two.write(2, 22)), (Done(Some(())), Done(Some(()))));
    assert_eq!((one.read(2), two.read(1)), (Done(Some(20)), Done(Some(10))));
    assert_eq!((one.commit(), two.commit()), (Done(()), CONFLICT));
}

#[test]
fn p4_lost_update() {
    let b = bench();
    let (mut one, mut two) = (b.begin(0), b.begin(1));
    assert_eq!((one.read(1), two.read(1)), (Done(Some(10)), Done(Some(10))));
    assert_eq!((one.write(1, 11), two.write(1, 11)), (Done(Some(())), Done(Some(()))));
    assert_eq!((two.commit(), one.commit()), (Done(()), CONFLICT));
}

#[test]
fn g_single_read_skew() {
    let b = bench();
    let (mut one, mut two) = (b.begin(0), b.begin(1));
    assert_eq!(one.read(1), Done(Some(10)));
    assert_eq!((two.write(1, 12), two.write(2, 18)), (Done(Some(())), Done(Some(()))));
    assert_eq!(two.commit(), Done(()));
    assert_eq!(one.read(2), Done(Some(18)), "seen, but it cannot commit");
    assert_eq!(one.commit(), CONFLICT);
}

#[test]
fn g2_item_write_skew() {
    let b = bench();
    let (mut one, mut two) = (b.begin(0), b.begin(1));
    for scene in [&mut one, &mut two] {
        assert_eq!((scene.read(1), scene.read(2)), (Done(Some(10)), Done(Some(20))));
    }
    assert_eq!((one.write(1, 11), two.write(2, 21)), (Done(Some(())), Done(Some(()))));
    assert_eq!((one.commit(), two.commit()), (Done(()), CONFLICT));
}

#[test]
fn p3_phantoms_of_every_kind_through_table_and_index() {
    type Change = fn(&mut Scene<'_>);
    let changes: [Change; 3] = [
        |two| assert_eq!(two.insert(3, 15), Done(Inserted::Done)),
        |two| assert_eq!(two.delete(2), Done(true)),
        |two| assert_eq!(two.write(2, 19), Done(Some(()))),
    ];
    for (index, range) in [(T, (0, 50)), (BY_VALUE, (5, 50))] {
        for (way, change) in WAYS.into_iter().flat_map(|way| changes.map(|change| (way, change))) {
            let b = bench();
            let (mut one, mut two) = (b.begin(0), b.begin(1));
            assert!(matches!(one.scan(index, range, way), Done(seen) if seen.len() == 2));
            change(&mut two);
            assert_eq!(one.write(100, 1), Done(Some(())));
            assert_eq!((two.commit(), one.commit()), (Done(()), CONFLICT), "{index:?} {way:?}");
        }
    }
    for (way, change) in WAYS.into_iter().flat_map(|way| changes.map(|change| (way, change))) {
        let b = bench();
        let (mut one, mut two) = (b.begin(0), b.begin(1));
        assert!(matches!(one.entries((5, 50), way), Done(seen) if seen.len() == 2));
        change(&mut two);
        assert_eq!(one.write(100, 1), Done(Some(())));
        assert_eq!((two.commit(), one.commit()), (Done(()), CONFLICT), "entries {way:?}");
    }
}

/// A scan of entries alone does not conflict with changes of the rows they lead to, and finds the
/// entries of its own changes.
#[test]
fn entries_alone_are_read_without_their_rows() {
    let b = bench();
    let mut past = b.begin_under(1, Protection::Snapshot);
    let (mut one, mut two) = (b.begin(0), b.begin(1));
    assert_eq!(one.entries((1, 50), Direction::Forward), Done(vec![1, 2]));
    assert_eq!(two.write(1, 10), Done(Some(())));
    assert_eq!(two.commit(), Done(()));
    assert_eq!((one.write(2, 5), one.insert(3, 7)), (Done(Some(())), Done(Inserted::Done)));
    assert_eq!(one.entries((1, 50), Direction::Backward), Done(vec![1, 3, 2]));
    assert_eq!(one.commit(), Done(()));
    assert_eq!(past.entries((1, 50), Direction::Backward), Done(vec![2, 1]));
}

#[test]
fn a_decision_made_from_what_was_never_there_together_is_none() {
    let b = bench();
    let (mut one, mut two) = (b.begin(0), b.begin(1));
    assert_eq!(one.read(1), Done(Some(10)));
    assert!(b.engine.holds(one.ctx, &mut one.txn));
    drop(one);
    let mut one = b.begin(0);
    assert_eq!(one.read(1), Done(Some(10)));
    assert_eq!((two.write(1, 12), two.write(2, 18)), (Done(Some(())), Done(Some(()))));
    assert_eq!(two.commit(), Done(()));
    assert_eq!(one.read(2), Done(Some(18)));
    assert!(!b.engine.holds(one.ctx, &mut one.txn));
}

#[test]
fn a_prepared_row_is_waited_for_until_its_decision() {
    for commits in [true, false] {
        let b = bench();
        let mut one = b.begin(0);
        assert_eq!(one.write(1, 11), Done(Some(())));
        assert_eq!(one.validate(Scope::Distributed), Done(()));
        let mut two = b.begin(1);
        assert_eq!(two.read(1), Waits);
        assert_eq!(two.read(2), Done(Some(20)));
        if commits {
            b.engine.commit(one.ctx, &mut one.txn).unwrap();
        } else {
            b.engine.rollback(one.ctx, &mut one.txn).unwrap();
        }
        assert_eq!(two.read(1), Done(Some(if commits { 11 } else { 10 })));
        assert_eq!(two.commit(), Done(()));
    }
}

/// The past shows rows and index as they were at the begin. Its reader blocks no transaction and is
/// blocked by none.
#[test]
fn the_past_is_read_whole_and_unchecked() {
    let b = bench();
    let mut past = b.begin_under(1, Protection::Snapshot);
    assert_eq!(past.read(1), Done(Some(10)));
    let mut one = b.begin(0);
    assert_eq!((one.write(1, 11), one.write(2, 31)), (Done(Some(())), Done(Some(()))));
    assert_eq!((one.delete(100), one.insert(3, 25)), (Done(true), Done(Inserted::Done)));
    assert_eq!(one.commit(), Done(()));
    let mut other = b.begin(0);
    assert_eq!((other.delete(2), other.write(3, 26)), (Done(true), Done(Some(()))));
    assert_eq!(other.commit(), Done(()));
    let was = vec![(1, 10), (2, 20)];
    for way in WAYS {
        let turned = |rows: &[(i64, i64)]| match way {
            Direction::Forward => rows.to_vec(),
            Direction::Backward => rows.iter().rev().copied().collect(),
        };
        assert_eq!(past.scan(T, (0, 50), way), Done(turned(&was)));
        assert_eq!(past.scan(BY_VALUE, (1, 50), way), Done(turned(&was)));
        let now = [(1, 11), (3, 26)];
        assert_eq!(b.begin_under(0, Protection::Snapshot).scan(BY_VALUE, (1, 50), way), Done(turned(&now)));
    }
    assert_eq!((past.read(2), past.read(3)), (Done(Some(20)), Done(None)));
    assert!(matches!(past.read(100), Done(Some(_))));
    assert_eq!(past.validate(Scope::Home), Done(()));
    assert!(b.engine.holds(past.ctx, &mut past.txn));
    assert_eq!(past.commit(), Done(()));
}

/// The past waits for transactions that wrote before it and were not done, not for later ones.
#[test]
fn the_past_is_read_when_all_of_it_is_decided() {
    for commits in [true, false] {
        let b = bench();
        let mut one = b.begin(0);
        assert_eq!(one.write(1, 11), Done(Some(())));
        assert_eq!(one.validate(Scope::Distributed), Done(()));
        let mut past = b.begin_under(1, Protection::Snapshot);
        assert_eq!((past.read(1), past.scan(T, (0, 50), Direction::Forward)), (Waits, Waits));
        if commits {
            b.engine.commit(one.ctx, &mut one.txn).unwrap();
        } else {
            b.engine.rollback(one.ctx, &mut one.txn).unwrap();
        }
        let mut later = b.begin(0);
        assert_eq!(later.write(2, 21), Done(Some(())));
        assert_eq!(later.validate(Scope::Distributed), Done(()));
        assert_eq!(past.read(1), Done(Some(if commits { 11 } else { 10 })));
        assert_eq!(past.read(2), Done(Some(20)));
        assert_eq!(past.commit(), Done(()));
    }
}

/// A procedure that was declared to write nothing and writes runs again like any other.
#[test]
fn nothing_is_written_in_the_past() {
    let b = bench();
    let mut past = b.begin_under(0, Protection::Snapshot);
    assert_eq!(past.write(1, 11), Fails(Abort::NeedsLocks));
    assert_eq!(past.insert(3, 30), Fails(Abort::NeedsLocks));
    assert_eq!(past.delete(2), Fails(Abort::NeedsLocks));
    let appended = once(past.access().append(LOG, &row(1, 1)));
    assert_eq!(appended, Fails(Abort::NeedsLocks));
    drop(past);
    assert_eq!(b.rows(), (Some(10), Some(20)));
}

/// A commit that the answer does not show need not be durable before it, even if it is earlier.
#[test]
fn an_answer_from_the_past_rests_on_what_it_shows() {
    let b = bench();
    b.engine.begin_epoch();
    let mut one = b.begin(0);
    assert_eq!(one.write(1, 11), Done(Some(())));
    assert_eq!(one.commit(), Done(()));
    let mut past = b.begin_under(1, Protection::Snapshot);
    assert_eq!(past.read(2), Done(Some(20)));
    let without = b.engine.horizon(&past.txn, past.ctx);
    assert_eq!(past.read(1), Done(Some(11)));
    let with = b.engine.horizon(&past.txn, past.ctx);
    assert!(without < with, "{without:?} {with:?}");
    assert_eq!(b.engine.commit(past.ctx, &mut past.txn), Ok(with));
}

#[test]
fn a_prepared_row_is_an_abort_where_that_is_asked_for() {
    let b = Bench::new(OccConflict::Abort);
    let mut one = b.begin(0);
    assert_eq!(one.write(1, 11), Done(Some(())));
    assert_eq!(one.validate(Scope::Distributed), Done(()));
    assert_eq!(b.begin(1).read(1), Fails(Abort::Conflict));
    let mut two = b.begin(1);
    assert_eq!((two.read(2), two.write(100, 1)), (Done(Some(20)), Done(Some(()))));
    assert_eq!(two.commit(), Done(()));
}

/// Two transactions, each of which reads at one instance the row that the other writes there (write
/// skew over two instances): once the first is prepared, the other cannot be.
#[test]
fn what_a_distributed_part_has_read_stays_until_its_decision() {
    let b = Bench::new(OccConflict::Abort);
    let (mut one, mut two) = (b.begin(0), b.begin(1));
    assert_eq!((one.read(1), two.write(1, 11)), (Done(Some(10)), Done(Some(()))));
    assert_eq!(one.validate(Scope::Distributed), Done(()));
    assert_eq!(two.validate(Scope::Distributed), CONFLICT);
    drop(two);
    b.engine.commit(one.ctx, &mut one.txn).unwrap();
    let mut two = b.begin(1);
    assert_eq!(two.write(1, 11), Done(Some(())));
    assert_eq!(two.commit(), Done(()));
}

#[test]
fn whoever_waits_is_woken_by_the_decision_and_not_for_ever_without_one() {
    let waits = setup(OccConflict::Wait);
    let options = EngineOptions { lock_timeout_ms: 2, ..waits.options };
    let (engine, _) = MemoryEngine::open(&Setup { options, ..waits }).unwrap();
    let engine = Arc::new(engine);
    let (ctx, other) = (engine.worker_context(0, Arc::new(|| {})), engine.worker_context(1, Arc::new(|| {})));
    let executor = Executor::new(Arc::new(|| {}));
    let mut txn = engine.local_txn(&ctx);
    engine.begin(&ctx, &mut txn, Protection::Locks);
    let mut access = engine.access(&ctx, &executor, &mut txn);
    assert_eq!(once(access.insert(T, &key(1), &row(1, 10))), Done(Inserted::Done));
    assert_eq!(once(engine.validate(&ctx, &executor, &mut txn, Scope::Distributed)), Done(()));
    let outcome = std::rc::Rc::new(RefCell::new(None));
    let (told, waiter) = (outcome.clone(), Arc::clone(&engine));
    let executor = std::rc::Rc::new(executor);
    let inner = executor.clone();
    let spawned = executor.spawn(async move {
        let mut txn = waiter.local_txn(&other);
        waiter.begin(&other, &mut txn, Protection::Locks);
        let read = waiter.access(&other, &inner, &mut txn).read(T, &key(1), |row| row.int(1)).await;
        *told.borrow_mut() = Some(read);
        waiter.rollback(&other, &mut txn).unwrap();
    });
    assert!(spawned);
    while outcome.borrow().is_none() {
        executor.turn(world::now_ns());
    }
    assert_eq!(*outcome.borrow(), Some(Err(Abort::LockTimeout)));
    engine.rollback(&ctx, &mut txn).unwrap();
}

/// Random operations of consecutive transactions, compared with a map: rows, an index, both
/// directions through both, and rollbacks.
#[test]
fn rows_and_their_index_agree_with_a_map() {
    let b = bench();
    let mut rows: BTreeMap<i64, i64> = [(1, 10), (2, 20), (100, 0)].into();
    let mut seed = 1u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((seed >> 33) % below) as i64
    };
    for round in 0..600 {
        let before = rows.clone();
        let mut scene = b.begin(round % 2);
        for _ in 0..random(6) {
            let (id, value) = (random(40), random(12));
            match random(4) {
                0 => {
                    let fresh = !rows.contains_key(&id);
                    let want = if fresh { Inserted::Done } else { Inserted::Exists };
                    assert_eq!(scene.insert(id, value), Done(want));
                    rows.entry(id).or_insert(value);
                }
                1 => assert_eq!(scene.delete(id), Done(rows.remove(&id).is_some())),
                2 => {
                    let there = rows.get_mut(&id).map(|old| *old = value);
                    assert_eq!(scene.write(id, value), Done(there));
                }
                _ => {
                    let (low, high) = (id.min(value * 3), id.max(value * 3));
                    let mut by_key: Vec<_> = rows.range(low..high).map(|(k, v)| (*k, *v)).collect();
                    let mut by_value: Vec<_> =
                        rows.iter().filter(|(_, v)| (low..high).contains(v)).map(|(k, v)| (*v, *k)).collect();
                    by_value.sort_unstable();
                    let mut by_value: Vec<_> = by_value.into_iter().map(|(v, k)| (k, v)).collect();
                    for way in WAYS {
                        assert_eq!(scene.scan(T, (low, high), way), Done(by_key.clone()));
                        assert_eq!(scene.scan(BY_VALUE, (low, high), way), Done(by_value.clone()));
                        by_key.reverse();
                        by_value.reverse();
                    }
                }
            }
        }
        if random(4) == 0 {
            rows = before;
        } else {
            assert_eq!(scene.commit(), Done(()));
        }
    }
}

/// More rows than one cut of a quiet transaction, in one transaction's place.
#[test]
fn a_filling_and_a_quiet_scan_of_many_rows() {
    let b = bench();
    let many = i64::from(CUT) * 3 + 7;
    {
        let mut filling = b.engine.filling(&b.contexts[0]);
        for id in 1_000..1_000 + many {
            assert_eq!(once(filling.insert(T, &key(id), &row(id, id))), Done(Inserted::Done));
            assert_eq!(once(filling.append(LOG, &row(id, id))), Done(()));
        }
        b.engine.filled(filling).unwrap();
    }
    let mut txn = b.engine.local_txn(&b.contexts[1]);
    b.engine.begin(&b.contexts[1], &mut txn, Protection::Exclusive);
    for (index, want) in [(T, many + 3), (BY_VALUE, many + 3), (LOG, many)] {
        for way in WAYS {
            let mut count = 0;
            let mut access = b.engine.access(&b.contexts[1], &b.executor, &mut txn);
            let visit = |_: &[u8], _: Row<'_>| {
                count += 1;
                Flow::More
            };
            assert_eq!(once(access.scan(index, Range::ALL, way, visit)), Done(()));
            assert_eq!(count, want, "{index:?} {way:?}");
        }
    }
    b.engine.commit(&b.contexts[1], &mut txn).unwrap();
}

#[test]
fn bad_requests_and_a_full_budget_are_aborts_that_change_nothing() {
    let b = bench();
    let mut scene = b.begin(0);
    assert_eq!(once(scene.access().insert(T, &[1; 2_000], &row(1, 1))), Fails(Abort::BadRequest));
    assert_eq!(once(scene.access().read(TableId(9), &key(1), |_| ())), Fails(Abort::BadRequest));
    assert_eq!(once(scene.access().append(LOG, &vec![0; 300 << 10])), Fails(Abort::BadRequest));
    assert_eq!(scene.commit(), Done(()));
    let fills = |n: i64| {
        let mut scene = b.begin(0);
        let big = vec![7; 200 << 10];
        match once(scene.access().insert(LOG, &key(n), &big)) {
            Done(_) => scene.commit(),
            Fails(abort) => Fails(abort),
            Waits => Waits,
        }
    };
    let full = (0..2_000).map(fills).find(|tried| *tried != Done(()));
    assert_eq!(full, Some(Fails(Abort::NoSpace)), "64 MiB hold fewer than 2,000 rows of 200 KiB");
    assert_eq!(b.rows(), (Some(10), Some(20)));
}

/// No transaction follows that would free the rows that the last one deleted: the worker does so
/// when it is idle.
#[test]
fn an_idle_worker_takes_away_what_is_deleted() {
    let b = bench();
    let ids = 1_000_000..1_004_000;
    let mut scene = b.begin(0);
    for id in ids.clone() {
        assert_eq!(once(scene.access().insert(T, &key(id), &row(id, 5))), Done(Inserted::Done));
    }
    assert_eq!(scene.commit(), Done(()));
    // A transaction that began before the deletion keeps all of it until it ends.
    let reader = b.begin(1);
    let mut scene = b.begin(0);
    ids.for_each(|id| assert_eq!(once(scene.access().delete(T, &key(id))), Done(true)));
    assert_eq!(scene.commit(), Done(()));
    assert_eq!(reader.commit(), Done(()));
    b.engine.stirred.store(false, Ordering::Relaxed);
    let mut steps = 0;
    while b.contexts[0].worker.borrow().has_garbage() {
        while b.engine.tidy(&b.contexts[0]) {
            steps += 1;
        }
        assert!(b.engine.stirred.swap(false, Ordering::Relaxed), "an epoch has to follow");
        b.engine.begin_epoch();
        assert!(steps < 1_000, "it goes on and on");
    }
    assert!(steps > 10, "in steps, not in one go that transactions would have to wait for");
    assert!(!b.engine.tidy(&b.contexts[0]) && !b.engine.stirred.load(Ordering::Relaxed), "then all is quiet");
    assert_eq!(b.rows(), (Some(10), Some(20)));
}
