//! A new engine by the steps of `docs/adding-a-design.md`: one lock around maps in main memory. A
//! transaction has the lock from its first access to its end, and undoes its changes if it rolls
//! back.

use crate::isolation::KIND;
use base::{Key, Lsn, TableId};
use exec::engine::owners::NoOwners;
use exec::{
    DesignKind, Engine, EngineCounts, EngineFault, EngineOptions, Executor, Holds, LockPoint, NoteId,
    Protection, Recovered, Scope, Setup, SiteRange, WaitOrder,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::ops::Bound;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use txn::row::Layout;
use txn::{
    Abort, Access, Column, Direction, Flow, Inserted, Range, Route, Row, RowBuf, RowMut, Schema, Step,
    StepId, Steps, TableDef, Type,
};
use wal::{Durability, FlushBy};

type Place = (TableId, Vec<u8>);

/// The rows, and the number of the transaction that has the lock.
#[derive(Default)]
struct Data {
    rows: BTreeMap<Place, Vec<u8>>,
    holder: Option<u64>,
    waiting: Vec<Waker>,
    begun: u64,
}

struct GlobalLock {
    layouts: BTreeMap<TableId, Layout>,
    data: Mutex<Data>,
}

#[derive(Default)]
struct LocalTxn {
    number: u64,
    /// Each changed row as it was, oldest first.
    undo: Vec<(Place, Option<Vec<u8>>)>,
}

struct RowAccess<'a> {
    engine: &'a GlobalLock,
    txn: &'a mut LocalTxn,
}

impl GlobalLock {
    fn data(&self) -> MutexGuard<'_, Data> {
        self.data.lock().expect("no holder of this lock panics")
    }

    /// Gives the lock to the next transaction.
    fn end(&self, txn: &mut LocalTxn) {
        txn.undo.clear();
        let mut data = self.data();
        if data.holder == Some(txn.number) {
            data.holder = None;
            data.waiting.drain(..).for_each(Waker::wake);
        }
    }
}

impl RowAccess<'_> {
    /// Waits for the lock, and returns the rows.
    async fn locked(&self) -> MutexGuard<'_, Data> {
        poll_fn(|cx| {
            let mut data = self.engine.data();
            match data.holder {
                Some(other) if other != self.txn.number => {
                    data.waiting.push(cx.waker().clone());
                    Poll::Pending
                }
                _ => {
                    data.holder = Some(self.txn.number);
                    Poll::Ready(())
                }
            }
        })
        .await;
        self.engine.data()
    }

    fn layout(&self, table: TableId) -> Result<&Layout, Abort> {
        self.engine.layouts.get(&table).ok_or(Abort::BadRequest)
    }

    /// Writes a row, or removes it. Returns whether there was one.
    async fn put(&mut self, place: Place, row: Option<Vec<u8>>) -> bool {
        let mut data = self.locked().await;
        let before = match row {
            Some(row) => data.rows.insert(place.clone(), row),
            None => data.rows.remove(&place),
        };
        drop(data);
        let any = before.is_some();
        self.txn.undo.push((place, before));
        any
    }
}

impl Access for RowAccess<'_> {
    async fn read<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        let layout = self.layout(table)?;
        let data = self.locked().await;
        Ok(data.rows.get(&(table, key.to_vec())).map(|row| f(Row::new(layout, row))))
    }

    async fn update<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        let place = (table, key.to_vec());
        let Some(mut row) = self.locked().await.rows.get(&place).cloned() else { return Ok(None) };
        let done = f(&mut RowMut::new(self.layout(table)?, &mut row));
        self.put(place, Some(row)).await;
        Ok(Some(done))
    }

    async fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<Inserted, Abort> {
        let place = (table, key.to_vec());
        if self.locked().await.rows.contains_key(&place) {
            return Ok(Inserted::Exists);
        }
        self.put(place, Some(row.to_vec())).await;
        Ok(Inserted::Done)
    }

    /// Its place is the number of rows.
    async fn append(&mut self, table: TableId, row: &[u8]) -> Result<(), Abort> {
        let number = self.locked().await.rows.len() as u64;
        self.put((table, number.to_be_bytes().to_vec()), Some(row.to_vec())).await;
        Ok(())
    }

    async fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Abort> {
        Ok(self.put((table, key.to_vec()), None).await)
    }

    /// It has no secondary indexes.
    async fn scan(
        &mut self,
        table: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        let layout = self.layout(table)?;
        let data = self.locked().await;
        let low = Bound::Included((table, range.low.unwrap_or_default().to_vec()));
        let high = range.high.map_or((TableId(table.0 + 1), Vec::new()), |high| (table, high.to_vec()));
        let rows = data.rows.range((low, Bound::Excluded(high)));
        let mut visit = |((_, key), row): (&Place, &Vec<u8>)| f(key, Row::new(layout, row)) == Flow::Enough;
        match direction {
            Direction::Forward => rows.into_iter().any(&mut visit),
            Direction::Backward => rows.rev().any(&mut visit),
        };
        Ok(())
    }
}

impl Engine for GlobalLock {
    const HOLDS: Holds = Holds::FromSteps;
    type WorkerContext = ();
    type LocalTxn = LocalTxn;
    type RowAccess<'a> = RowAccess<'a>;
    type InDoubt = ();
    type Owners = NoOwners;

    fn open_in(_: Arc<dyn world::Files>, setup: &Setup) -> Result<(Self, Recovered<()>), EngineFault> {
        let layouts = setup.schema.tables.iter().map(|table| (table.id, Layout::of(table))).collect();
        let none = Recovered { life: 1, log_bytes: 0, in_doubt: Vec::new(), notes: Vec::new() };
        Ok((GlobalLock { layouts, data: Mutex::default() }, none))
    }

    fn close(self) -> Result<(), EngineFault> {
        Ok(())
    }

    fn fault(&self) -> Option<String> {
        None
    }

    fn worker_context(self: &Arc<Self>, _: usize, _: exec::executor::Unpark) {}

    fn leave(&self, (): &()) {}

    fn protection_at_home(&self, (): &()) -> Protection {
        Protection::Locks
    }

    fn local_txn(&self, (): &()) -> LocalTxn {
        LocalTxn::default()
    }

    fn begin(&self, (): &(), txn: &mut LocalTxn, _: Protection) {
        let mut data = self.data();
        data.begun += 1;
        txn.number = data.begun;
    }

    fn protection(_: &LocalTxn) -> Protection {
        Protection::Locks
    }

    fn set_wait_order(_: &mut LocalTxn, _: WaitOrder) {}

    fn wrote(txn: &LocalTxn) -> bool {
        !txn.undo.is_empty()
    }

    fn access<'a>(&'a self, (): &'a (), _: &'a Executor, txn: &'a mut LocalTxn) -> RowAccess<'a> {
        RowAccess { engine: self, txn }
    }

    fn holds(&self, (): &(), _: &mut LocalTxn) -> bool {
        true
    }

    async fn validate(&self, (): &(), _: &Executor, _: &mut LocalTxn, _: Scope) -> Result<(), Abort> {
        Ok(())
    }

    fn commit(&self, (): &(), txn: &mut LocalTxn) -> Result<Lsn, Abort> {
        self.end(txn);
        Ok(Lsn(0))
    }

    fn commit_with_note(&self, ctx: &(), txn: &mut LocalTxn, _: &[u8]) -> Result<(Lsn, NoteId), Abort> {
        self.commit(ctx, txn).map(|lsn| (lsn, NoteId(lsn)))
    }

    fn forget(&self, (): &(), _: NoteId) {}

    fn prepare(&self, (): &(), _: &mut LocalTxn, _: &[u8], _: LockPoint) -> Result<Lsn, Abort> {
        Ok(Lsn(0))
    }

    fn rollback(&self, (): &(), txn: &mut LocalTxn) -> Result<(), Abort> {
        for (place, before) in txn.undo.drain(..).rev() {
            let rows = &mut self.data().rows;
            match before {
                Some(row) => drop(rows.insert(place, row)),
                None => drop(rows.remove(&place)),
            }
        }
        self.end(txn);
        Ok(())
    }

    fn abandon(&self, (): &(), _: &mut LocalTxn) {}

    fn adopt(&self, (): &(), (): ()) -> LocalTxn {
        LocalTxn::default()
    }

    fn horizon(&self, _: &LocalTxn, (): &()) -> Lsn {
        Lsn(0)
    }

    fn durable_now(&self, _: Lsn) -> Option<Result<(), Abort>> {
        Some(Ok(()))
    }

    async fn durable(&self, (): &(), _: Lsn, _: FlushBy) -> Result<(), Abort> {
        Ok(())
    }

    async fn stable(&self, (): &(), _: Lsn, _: FlushBy) -> Result<(), Abort> {
        Ok(())
    }

    fn is_stable(&self, _: Lsn) -> bool {
        true
    }

    fn turn(self: &Arc<Self>, (): &()) -> bool {
        false
    }

    fn counts(&self) -> EngineCounts {
        EngineCounts::default()
    }
}

const T: TableId = TableId(1);

fn table() -> TableDef {
    let columns = vec![Column::new("id", Type::I64), Column::new("balance", Type::I64)];
    TableDef { id: T, name: "t".into(), columns, key: vec![0], indexes: vec![], domain: 1, kind: KIND.get() }
}

/// Opens an account without money.
#[derive(Serialize, Deserialize)]
struct Open(i64);

impl Step for Open {
    const ID: StepId = 1;
    type Output = bool;

    fn route(&self) -> Route {
        Route { table: T, key: self.0 as u64 }
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<bool, Abort> {
        let mut buf = RowBuf::new(&table());
        buf.start().set_int(0, self.0);
        Ok(access.insert(T, &Key::new().i64(self.0), buf.bytes()).await? == Inserted::Done)
    }
}

/// Adds to an account.
#[derive(Serialize, Deserialize)]
struct Deposit(i64, i64);

impl Step for Deposit {
    const ID: StepId = 2;
    type Output = Option<i64>;

    fn route(&self) -> Route {
        Route { table: T, key: self.0 as u64 }
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Option<i64>, Abort> {
        let add = |row: &mut RowMut<'_>| {
            let sum = row.int(1) + self.1;
            row.set_int(1, sum);
            sum
        };
        access.update(T, &Key::new().i64(self.0), add).await
    }
}

/// The money in all accounts.
#[derive(Serialize, Deserialize)]
struct Total;

impl Step for Total {
    const ID: StepId = 3;
    type Output = i64;

    fn route(&self) -> Route {
        Route { table: T, key: 0 }
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<i64, Abort> {
        let mut total = 0;
        let add = |_: &[u8], row: Row<'_>| {
            total += row.int(1);
            Flow::More
        };
        access.scan(T, Range::ALL, Direction::Forward, add).await?;
        Ok(total)
    }
}

struct Bench {
    engine: Arc<GlobalLock>,
    executor: Executor,
}

fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

impl Bench {
    fn new() -> Bench {
        let design = DesignKind::Conventional;
        let setup = Setup {
            design,
            dir: "/global-lock".into(),
            durability: Durability::Memory,
            pool_pages: 0,
            workers: 1,
            options: EngineOptions::of(design),
            schema: Schema { tables: vec![table()] },
            site_range: SiteRange::whole(),
        };
        let (engine, _) = GlobalLock::open_in(world::memory(), &setup).unwrap();
        Bench { engine: Arc::new(engine), executor: Executor::new(Arc::new(|| {})) }
    }

    fn begin(&self) -> LocalTxn {
        let mut txn = self.engine.local_txn(&());
        self.engine.begin(&(), &mut txn, Protection::Locks);
        txn
    }

    /// Runs a phase; `None` if it waits.
    fn run<S: Steps>(&self, txn: &mut LocalTxn, steps: S) -> Option<Result<S::Outputs, Abort>> {
        let mut access = self.engine.access(&(), &self.executor, txn);
        poll(pin!(steps.run_all(&mut access)))
    }
}

#[test]
fn an_engine_made_by_the_steps_of_the_page_runs_transactions() {
    let b = Bench::new();
    let mut txn = b.begin();
    assert_eq!(b.run(&mut txn, (Open(1), Open(2), Open(1))), Some(Ok((true, true, false))));
    let deposits = (Deposit(1, 10), Deposit(2, 5), Deposit(3, 1));
    assert_eq!(b.run(&mut txn, deposits), Some(Ok((Some(10), Some(5), None))));
    assert!(GlobalLock::wrote(&txn));
    b.engine.commit(&(), &mut txn).unwrap();

    // A rollback undoes all changes of a transaction, newest first.
    let mut txn = b.begin();
    assert_eq!(
        b.run(&mut txn, (Deposit(1, 1), Deposit(1, 1), Open(3))),
        Some(Ok((Some(11), Some(12), true)))
    );
    assert_eq!(b.run(&mut txn, Total), Some(Ok(17)));
    b.engine.rollback(&(), &mut txn).unwrap();

    // Another transaction waits from its first access to the end of the one before.
    let (mut first, mut second) = (b.begin(), b.begin());
    assert_eq!(b.run(&mut first, Total), Some(Ok(15)));
    assert_eq!(b.run(&mut second, Deposit(1, 100)), None, "the lock is held");
    b.engine.commit(&(), &mut first).unwrap();
    assert_eq!(b.run(&mut second, Deposit(1, 100)), Some(Ok(Some(110))));
    b.engine.commit(&(), &mut second).unwrap();
}
