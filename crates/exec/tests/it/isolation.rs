//! The anomalies as scripts. Each operation is polled by hand once: it is done, or it waits.

use base::{Key, KeyReader, Lsn, TableId};
use exec::{Conventional, Executor, LocalTxn, PageAccess, PageEngine, PageOptions, Protection};
use locks::{Inheritance, LockOptions, LockTuning};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use store::{Store, StoreOptions};
use txn::{
    Abort, Access, Column, Direction, Flow, IndexDef, Inserted, Range, RowBuf, Schema, TableDef, TableKind,
    Type,
};
use wal::Durability;

pub const T: TableId = TableId(1);
/// As `T`, with an index over `value`.
pub const INDEXED: TableId = TableId(2);
pub const BY_VALUE: TableId = TableId(3);
/// Rows so wide that a leaf's neighbours and several heap pages take part.
const WIDE: u16 = 400;

fn table(id: TableId) -> TableDef {
    let by_value = IndexDef { id: BY_VALUE, name: "by_value".into(), columns: vec![1] };
    TableDef {
        id,
        name: format!("t{}", id.0),
        columns: vec![
            Column::new("id", Type::I64),
            Column::new("value", Type::I64),
            Column::new("pad", Type::Char(WIDE)),
        ],
        key: vec![0],
        indexes: if id == INDEXED { vec![by_value] } else { vec![] },
        domain: 1,
        kind: KIND.get(),
    }
}

pub fn key(id: i64) -> Key {
    Key::new().i64(id)
}

pub fn row(id: i64, value: i64) -> Vec<u8> {
    let mut buf = RowBuf::new(&table(T));
    let mut row = buf.start();
    row.set_int(0, id);
    row.set_int(1, value);
    buf.bytes().to_vec()
}

pub struct Bench {
    pub engine: PageEngine<Conventional>,
    /// The table on which the operations below work.
    table: TableId,
    /// Local transactions of ended scenes: the next scenes inherit table locks from them.
    txns: RefCell<Vec<LocalTxn>>,
    executor: Executor,
    /// Scans of values read entries alone, not the rows they lead to.
    pub entries_alone: Cell<bool>,
    _dir: tempfile::TempDir,
}

thread_local! {
    /// How the tables of benches made on this thread store their rows.
    pub static KIND: Cell<TableKind> = const { Cell::new(TableKind::Heap) };
    static INHERITANCE: Cell<Inheritance> = const { Cell::new(Inheritance::On) };
}

fn bench(ids: impl Iterator<Item = i64>) -> Bench {
    let inheritance = INHERITANCE.get();
    bench_with(LockTuning { inheritance, ..LockTuning::PLAIN }, T, ids)
}

/// `table` with these rows, all of value 0, and some local transactions with locks to inherit.
pub fn bench_with(tuning: LockTuning, table: TableId, ids: impl Iterator<Item = i64>) -> Bench {
    bench_that(false, tuning, table, ids)
}

/// As [`bench_with`]. Answers wait for the log or do not.
pub fn bench_that(
    waits_for_log: bool,
    tuning: LockTuning,
    table: TableId,
    ids: impl Iterator<Item = i64>,
) -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions::new(Durability::Memory, 1024);
    let (store, _) = Store::open(world::memory(), dir.path(), options).unwrap();
    store.create(&Schema { tables: vec![self::table(T), self::table(INDEXED)] }).unwrap();
    let locks = LockOptions { buckets: 64, tuning };
    let options = PageOptions { locks, lock_timeout_ns: 1 << 40, waits_for_log };
    let bench = Bench {
        engine: PageEngine::new(store, options),
        table,
        txns: RefCell::default(),
        executor: Executor::new(Arc::new(|| {})),
        entries_alone: Cell::new(false),
        _dir: dir,
    };
    let mut loader = bench.begin();
    for id in ids {
        assert_eq!(bench.insert(&mut loader, id), Done(Inserted::Done));
    }
    loader.commit();
    let readers = [bench.begin(), bench.begin(), bench.begin()];
    for mut reader in readers {
        assert_eq!(bench.read(&mut reader, -1), Done(None));
        reader.commit();
    }
    bench
}

#[derive(Clone, Debug, PartialEq)]
pub enum Tried<T> {
    Done(T),
    Waits,
    Fails(Abort),
}
pub use Tried::{Done, Fails, Waits};

pub fn once<T>(future: impl Future<Output = Result<T, Abort>>) -> Tried<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(value)) => Done(value),
        Poll::Ready(Err(abort)) => Fails(abort),
        Poll::Pending => Waits,
    }
}

/// A transaction that is rolled back when its scene is over, unless it has ended.
pub struct Scene<'b> {
    bench: &'b Bench,
    txn: Option<LocalTxn>,
    over: bool,
}

impl Scene<'_> {
    pub fn txn(&mut self) -> &mut LocalTxn {
        self.txn.as_mut().expect("only a scene that is dropped has none")
    }

    /// Commits. Returns the position that has to be durable before an answer.
    pub fn commit(mut self) -> Lsn {
        self.over = true;
        self.bench.engine.commit(self.txn.as_mut().unwrap()).unwrap()
    }

    pub fn rollback(self) {}
}

impl Drop for Scene<'_> {
    fn drop(&mut self) {
        let mut txn = self.txn.take().unwrap();
        if !self.over {
            self.bench.engine.rollback(&mut txn).unwrap();
        }
        self.bench.txns.borrow_mut().push(txn);
    }
}

impl Bench {
    pub fn begin(&self) -> Scene<'_> {
        let mut txn = self.txns.borrow_mut().pop().unwrap_or_else(|| self.engine.local_txn());
        self.engine.begin(&mut txn, 0, Protection::Locks);
        Scene { bench: self, txn: Some(txn), over: false }
    }

    pub fn access<'a>(&'a self, txn: &'a mut LocalTxn) -> PageAccess<'a, Conventional> {
        PageAccess::new(&self.engine, &self.executor, txn)
    }

    /// The values and ids met in a scan of values from `low` to below `high`.
    pub fn scan_values(
        &self,
        scene: &mut Scene<'_>,
        low: i64,
        high: i64,
        direction: Direction,
    ) -> Tried<Vec<(i64, i64)>> {
        let mut seen = Vec::new();
        let (low, high) = (key(low), key(high));
        let range = Range::new(&low, &high);
        let mut access = self.access(scene.txn());
        let outcome = if self.entries_alone.get() {
            once(access.scan_keys(BY_VALUE, range, direction, |entry| {
                let mut entry = KeyReader::new(entry);
                seen.extend(entry.i64().zip(entry.i64()));
                Flow::More
            }))
        } else {
            once(access.scan(BY_VALUE, range, direction, |_, row| {
                seen.push((row.int(1), row.int(0)));
                Flow::More
            }))
        };
        match outcome {
            Done(()) => Done(seen),
            Waits => Waits,
            Fails(abort) => Fails(abort),
        }
    }

    pub fn inherited(&self) -> u64 {
        self.engine.lock_stats().inherited
    }

    pub fn escalated(&self) -> u64 {
        self.engine.lock_stats().escalations
    }

    pub fn read(&self, scene: &mut Scene<'_>, id: i64) -> Tried<Option<i64>> {
        once(self.access(scene.txn()).read(self.table, &key(id), |row| row.int(1)))
    }

    pub fn write(&self, scene: &mut Scene<'_>, id: i64, value: i64) -> Tried<Option<()>> {
        once(self.access(scene.txn()).update(self.table, &key(id), |row| row.set_int(1, value)))
    }

    pub fn insert(&self, scene: &mut Scene<'_>, id: i64) -> Tried<Inserted> {
        once(self.access(scene.txn()).insert(self.table, &key(id), &row(id, 0)))
    }

    pub fn delete(&self, scene: &mut Scene<'_>, id: i64) -> Tried<bool> {
        once(self.access(scene.txn()).delete(self.table, &key(id)))
    }

    pub fn scan(&self, scene: &mut Scene<'_>, low: i64, high: i64, direction: Direction) -> Tried<Vec<i64>> {
        let mut seen = Vec::new();
        let (low, high) = (key(low), key(high));
        let outcome =
            once(self.access(scene.txn()).scan(self.table, Range::new(&low, &high), direction, |_, row| {
                seen.push(row.int(0));
                Flow::More
            }));
        match outcome {
            Done(()) => Done(seen),
            Waits => Waits,
            Fails(abort) => Fails(abort),
        }
    }
}

#[test]
pub fn a_dirty_row_is_neither_read_nor_overwritten() {
    let b = bench(0..10);
    let (mut one, mut two) = (b.begin(), b.begin());
    assert_eq!(b.write(&mut one, 3, 7), Done(Some(())));
    assert_eq!(b.read(&mut two, 3), Waits);
    two.rollback();
    let mut two = b.begin();
    assert_eq!(b.write(&mut two, 3, 8), Waits);
    one.rollback();
    two.rollback();
    let mut three = b.begin();
    assert_eq!(b.read(&mut three, 3), Done(Some(0)));
}

#[test]
pub fn what_was_read_stays() {
    let b = bench(0..10);
    let (mut one, mut two) = (b.begin(), b.begin());
    assert_eq!(b.read(&mut one, 3), Done(Some(0)));
    assert_eq!(b.write(&mut two, 3, 8), Waits);
}

#[test]
pub fn write_skew_ends_in_a_deadlock() {
    let b = bench(0..10);
    let (mut one, mut two) = (b.begin(), b.begin());
    assert_eq!(b.read(&mut one, 1), Done(Some(0)));
    assert_eq!(b.read(&mut two, 2), Done(Some(0)));
    assert_eq!(b.write(&mut one, 2, 1), Waits);
    assert_eq!(b.write(&mut two, 1, 1), Fails(Abort::Deadlock));
}

#[test]
pub fn a_missing_key_stays_missing() {
    let b = bench((0..10).map(|i| i * 10));
    let (mut one, mut two) = (b.begin(), b.begin());
    assert_eq!(b.read(&mut one, 15), Done(None));
    assert_eq!(b.insert(&mut two, 15), Waits);
}

/// A scan for the oldest entry of a queue, for example: a transaction that takes later entries or
/// adds to the queue need not wait.
#[test]
fn a_scan_that_has_enough_at_once_locks_only_what_it_saw() {
    let b = bench((0..10).map(|i| i * 10));
    let mut one = b.begin();
    let (low, high) = (key(0), key(1_000));
    let first = |_: &[u8], _: txn::Row<'_>| Flow::Enough;
    let range = Range::new(&low, &high);
    assert_eq!(once(b.access(one.txn()).scan(b.table, range, Direction::Forward, first)), Done(()));
    let mut two = b.begin();
    assert_eq!(b.write(&mut two, 10, 1), Done(Some(())));
    assert_eq!(b.insert(&mut two, 15), Done(Inserted::Done));
    two.commit();
    let (mut two, mut three) = (b.begin(), b.begin());
    assert_eq!(b.write(&mut two, 0, 1), Waits, "the row was read");
    assert_eq!(b.insert(&mut three, -5), Waits, "and the gap below it");
}

#[test]
pub fn an_aborted_insert_is_gone_and_a_duplicate_is_told() {
    let b = bench(0..10);
    let mut one = b.begin();
    assert_eq!(b.insert(&mut one, 100), Done(Inserted::Done));
    assert_eq!(b.insert(&mut one, 5), Done(Inserted::Exists));
    one.rollback();
    let mut two = b.begin();
    assert_eq!(b.read(&mut two, 100), Done(None));
}

/// Ids 0, 10, 20, ...: so many that the index has several leaves.
const MANY: i64 = 3000;

#[test]
pub fn nothing_appears_in_a_scanned_range_and_everything_may_beside_it() {
    for direction in [Direction::Forward, Direction::Backward] {
        let b = bench((0..MANY).map(|i| i * 10));
        let (low, high) = (5, 20_005);
        let mut one = b.begin();
        let mut want: Vec<i64> = (1..=2000).map(|i| i * 10).collect();
        if direction == Direction::Backward {
            want.reverse();
        }
        assert_eq!(b.scan(&mut one, low, high, direction), Done(want), "{direction:?}");
        for id in (low..high).step_by(37).filter(|id| id % 10 != 0).chain([6, 9, 20_001, 20_004]) {
            let mut two = b.begin();
            assert_eq!(b.insert(&mut two, id), Waits, "{direction:?} {id}");
            two.rollback();
        }
        let mut two = b.begin();
        assert_eq!(b.delete(&mut two, 500), Waits);
        two.rollback();
        let mut three = b.begin();
        for id in [20_011, 25_003, MANY * 10 + 5] {
            assert_eq!(b.insert(&mut three, id), Done(Inserted::Done), "{direction:?} {id}");
        }
        assert_eq!(b.delete(&mut three, 29_000), Done(true));
        three.commit();
        one.commit();
    }
}

#[test]
pub fn a_scan_to_the_end_locks_what_lies_behind_the_last_key() {
    let b = bench(0..10);
    let (mut one, mut two) = (b.begin(), b.begin());
    assert_eq!(b.scan(&mut one, 8, 100, Direction::Forward), Done(vec![8, 9]));
    assert_eq!(b.insert(&mut two, 50), Waits);
}

#[test]
pub fn a_deleted_key_and_its_gap_stay_closed_until_the_end() {
    let b = bench((0..10).map(|i| i * 10));
    let mut one = b.begin();
    assert_eq!(b.delete(&mut one, 50), Done(true));
    for id in [50, 45, 55] {
        let mut two = b.begin();
        assert_eq!(b.insert(&mut two, id), Waits, "{id}");
        two.rollback();
    }
    let mut two = b.begin();
    assert_eq!(b.scan(&mut two, 40, 60, Direction::Forward), Waits);
    two.rollback();
    one.rollback();
    let mut three = b.begin();
    assert_eq!(b.scan(&mut three, 40, 60, Direction::Forward), Done(vec![40, 50]));
}

#[test]
pub fn two_inserts_into_one_gap_do_not_wait_for_each_other() {
    let b = bench((0..10).map(|i| i * 10));
    let (mut one, mut two) = (b.begin(), b.begin());
    assert_eq!(b.insert(&mut one, 41), Done(Inserted::Done));
    assert_eq!(b.insert(&mut two, 45), Done(Inserted::Done));
    two.commit();
    one.commit();
    let mut three = b.begin();
    assert_eq!(b.scan(&mut three, 40, 51, Direction::Backward), Done(vec![50, 45, 41, 40]));
}

#[test]
pub fn a_whole_scan_and_a_writer_exclude_each_other() {
    let b = bench(0..10);
    let (mut one, mut two) = (b.begin(), b.begin());
    let mut count = 0;
    let all = once(b.access(one.txn()).scan(T, Range::ALL, Direction::Forward, |_, _| {
        count += 1;
        Flow::More
    }));
    assert_eq!((all, count), (Done(()), 10));
    assert_eq!(b.write(&mut two, 1, 1), Waits);
    two.rollback();
    one.commit();
    let mut three = b.begin();
    assert_eq!(b.write(&mut three, 1, 1), Done(Some(())));
}

/// TPC-C's Delivery takes the oldest of a queue. With read locks both transactions would see it,
/// and each would wait for the other.
#[test]
pub fn two_that_scan_to_take_the_oldest_do_not_deadlock() {
    let b = bench((0..10).map(|i| i * 10));
    let oldest = |scene: &mut Scene<'_>| {
        let (low, high, mut seen) = (key(0), key(1_000), None);
        let first = |_: &[u8], row: txn::Row<'_>| {
            seen = Some(row.int(0));
            Flow::Enough
        };
        let range = Range::new(&low, &high);
        match once(b.access(scene.txn()).scan_for_update(b.table, range, Direction::Forward, first)) {
            Done(()) => Done(seen),
            Waits => Waits,
            Fails(abort) => Fails(abort),
        }
    };
    let (mut one, mut two, mut reader, mut inserter) = (b.begin(), b.begin(), b.begin(), b.begin());
    assert_eq!(oldest(&mut one), Done(Some(0)));
    assert_eq!(b.read(&mut reader, 0), Done(Some(0)), "readers share it");
    reader.commit();
    assert_eq!(b.insert(&mut inserter, -5), Waits, "the gap that was scanned is protected");
    inserter.rollback();
    assert_eq!(oldest(&mut two), Waits);
    two.rollback();
    assert_eq!(b.delete(&mut one, 0), Done(true));
    one.commit();
    let mut three = b.begin();
    assert_eq!(oldest(&mut three), Done(Some(10)));
}

/// TPC-C's Payment finds its customer by name. Two transactions that choose read the same keys, and
/// both are protected.
#[test]
pub fn two_that_scan_keys_to_choose_a_row_share_them() {
    let b = bench((0..10).map(|i| i * 10));
    let choose = |scene: &mut Scene<'_>| {
        let (low, high, mut seen) = (key(0), key(1_000), Vec::new());
        let each = |entry: &[u8]| {
            seen.extend(KeyReader::new(entry).i64());
            Flow::More
        };
        let range = Range::new(&low, &high);
        match once(b.access(scene.txn()).scan_keys_for_update(b.table, range, Direction::Forward, each)) {
            Done(()) => Done(seen.len()),
            Waits => Waits,
            Fails(abort) => Fails(abort),
        }
    };
    let (mut one, mut two, mut inserter) = (b.begin(), b.begin(), b.begin());
    assert_eq!(choose(&mut one), Done(10));
    assert_eq!(choose(&mut two), Done(10));
    two.rollback();
    assert_eq!(b.insert(&mut inserter, 5), Waits, "the range that was scanned is protected");
    inserter.rollback();
    assert_eq!(b.write(&mut one, 50, 7), Done(Some(())));
    one.commit();
    let mut three = b.begin();
    assert_eq!(b.read(&mut three, 50), Done(Some(7)));
}

#[test]
pub fn a_whole_table_scanned_for_update_is_shared_with_readers_only() {
    let b = bench(0..10);
    let (mut one, mut two, mut reader) = (b.begin(), b.begin(), b.begin());
    let all = |scene: &mut Scene<'_>| {
        once(b.access(scene.txn()).scan_for_update(T, Range::ALL, Direction::Forward, |_, _| Flow::More))
    };
    assert_eq!(all(&mut one), Done(()));
    assert_eq!(b.read(&mut reader, 3), Done(Some(0)));
    reader.commit();
    assert_eq!(all(&mut two), Waits);
    two.rollback();
    assert_eq!(b.write(&mut one, 3, 7), Done(Some(())));
    one.commit();
}

/// Every script once more where nothing is inherited: the outcomes are the same.
#[test]
pub fn the_same_without_inheritance() {
    INHERITANCE.set(Inheritance::Off);
    for script in [
        a_dirty_row_is_neither_read_nor_overwritten,
        what_was_read_stays,
        write_skew_ends_in_a_deadlock,
        a_missing_key_stays_missing,
        an_aborted_insert_is_gone_and_a_duplicate_is_told,
        nothing_appears_in_a_scanned_range_and_everything_may_beside_it,
        a_scan_to_the_end_locks_what_lies_behind_the_last_key,
        a_deleted_key_and_its_gap_stay_closed_until_the_end,
        two_inserts_into_one_gap_do_not_wait_for_each_other,
        a_whole_scan_and_a_writer_exclude_each_other,
        two_that_scan_to_take_the_oldest_do_not_deadlock,
        two_that_scan_keys_to_choose_a_row_share_them,
        a_whole_table_scanned_for_update_is_shared_with_readers_only,
    ] {
        script();
    }
}
