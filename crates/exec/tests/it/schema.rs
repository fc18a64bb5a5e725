//! Changes of the schema beside other transactions, and savepoints.

use crate::isolation::KIND;
use base::{Key, TableId};
use exec::{Conventional, Executor, LocalTxn, PageAccess, PageEngine, PageOptions, Protection};
use locks::{LockOptions, LockTuning};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use store::{Store, StoreOptions};
use txn::{Abort, Access, Column, IndexDef, Inserted, RowBuf, TableDef, Type};
use wal::Durability;

const T: TableId = TableId(1);
const BY_VALUE: TableId = TableId(2);

fn table() -> TableDef {
    let columns = vec![Column::new("id", Type::I64), Column::new("value", Type::I64)];
    TableDef { id: T, name: "t".into(), columns, key: vec![0], indexes: vec![], domain: 1, kind: KIND.get() }
}

fn by_value() -> IndexDef {
    IndexDef { id: BY_VALUE, name: "by_value".into(), columns: vec![1] }
}

struct Bench {
    engine: PageEngine<Conventional>,
    executor: Executor,
}

impl Bench {
    fn new() -> Bench {
        let options = StoreOptions::new(Durability::Memory, 256);
        let (store, _) = Store::open(world::memory(), std::path::Path::new("/db"), options).unwrap();
        let options = PageOptions {
            locks: LockOptions { buckets: 64, tuning: LockTuning::default() },
            lock_timeout_ns: 1 << 40,
            waits_for_log: false,
        };
        Bench { engine: PageEngine::new(store, options), executor: Executor::new(Arc::new(|| {})) }
    }

    fn txn(&self) -> LocalTxn {
        let mut txn = self.engine.local_txn();
        self.engine.begin(&mut txn, 0, Protection::Locks);
        txn
    }

    fn access<'a>(&'a self, txn: &'a mut LocalTxn) -> PageAccess<'a, Conventional> {
        PageAccess::new(&self.engine, &self.executor, txn)
    }
}

fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

fn now<T>(future: impl Future<Output = T>) -> T {
    poll(pin!(future)).expect("nobody is in the way")
}

fn row(id: i64, value: i64) -> Vec<u8> {
    let mut buf = RowBuf::new(&table());
    let mut row = buf.start();
    row.set_int(0, id);
    row.set_int(1, value);
    buf.bytes().to_vec()
}

#[test]
pub fn who_waited_for_a_changed_table_sees_what_became_of_it() {
    let bench = Bench::new();
    let mut txn = bench.txn();
    now(bench.access(&mut txn).create_table(&table())).unwrap();
    let first = Key::new().i64(1);
    assert_eq!(now(bench.access(&mut txn).insert(T, &first, &row(1, 10))), Ok(Inserted::Done));
    bench.engine.commit(&mut txn).unwrap();

    // An insertion that waits while an index is made has its entry in it.
    let (mut ddl, mut other) = (bench.txn(), bench.txn());
    now(bench.access(&mut ddl).create_index(T, &by_value())).unwrap();
    {
        let (second, bytes) = (Key::new().i64(2), row(2, 20));
        let mut access = bench.access(&mut other);
        let mut insert = pin!(access.insert(T, &second, &bytes));
        assert!(poll(insert.as_mut()).is_none(), "the table is locked");
        bench.engine.commit(&mut ddl).unwrap();
        assert_eq!(poll(insert.as_mut()), Some(Ok(Inserted::Done)));
    }
    bench.engine.commit(&mut other).unwrap();
    bench.engine.store().check().unwrap();

    // A read that waits while the table is dropped finds none.
    let (mut ddl, mut other) = (bench.txn(), bench.txn());
    now(bench.access(&mut ddl).drop_table(T)).unwrap();
    {
        let mut access = bench.access(&mut other);
        let mut read = pin!(access.read(T, &first, |row| row.int(1)));
        assert!(poll(read.as_mut()).is_none(), "the table is locked");
        bench.engine.commit(&mut ddl).unwrap();
        assert_eq!(poll(read.as_mut()), Some(Err(Abort::BadRequest)));
    }
    bench.engine.rollback(&mut other).unwrap();
    assert_eq!(bench.engine.store().check().unwrap().lost_pages, 0);
}

#[test]
pub fn a_part_goes_back_to_its_savepoint_and_keeps_its_locks() {
    let bench = Bench::new();
    let mut txn = bench.txn();
    now(bench.access(&mut txn).create_table(&table())).unwrap();
    bench.engine.commit(&mut txn).unwrap();
    let (mut txn, mut other) = (bench.txn(), bench.txn());
    let keys = [1, 2].map(|id| Key::new().i64(id));
    let mut access = bench.access(&mut txn);
    now(access.insert(T, &keys[0], &row(1, 1))).unwrap();
    let savepoint = access.savepoint();
    now(access.insert(T, &keys[1], &row(2, 2))).unwrap();
    now(access.rollback_to(&savepoint)).unwrap();
    assert_eq!(now(access.read(T, &keys[1], |_| ())), Ok(None));
    assert!(poll(pin!(bench.access(&mut other).read(T, &keys[1], |_| ()))).is_none(), "still locked");
    bench.engine.commit(&mut txn).unwrap();
    bench.engine.rollback(&mut other).unwrap();
    let mut last = bench.txn();
    assert_eq!(now(bench.access(&mut last).read(T, &keys[0], |row| row.int(1))), Ok(Some(1)));
    bench.engine.commit(&mut last).unwrap();
}
