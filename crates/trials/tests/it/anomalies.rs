//! The catalogue of isolation anomalies (Adya 1999; Bailis et al. 2013; the P-phenomena of Berenson et al. 1995), one
//! script each, under every design. A script walks up to the step that would complete the anomaly: there the transaction
//! must wait, or be refused because waiting would close a circle.

use base::{Key, TableId};
use exec::{
    Conventional, Design, EngineOptions, Executor, Here, PageEngine, Part, Partitioned, Protection, Serial,
};
use std::cell::Cell;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use store::{Store, StoreOptions};
use txn::{
    Abort, Access, Column, Direction, Flow, Inserted, Range, RowBuf, Schema, TableDef, TableKind, Type,
};
use wal::Durability;

const T: TableId = TableId(1);

fn table(kind: TableKind) -> TableDef {
    let columns = ["id", "value"].map(|name| Column::new(name, Type::I64)).into();
    TableDef { kind, ..TableDef::new(T, "t", columns, &[0], 1) }
}

fn key(id: i64) -> Key {
    Key::new().i64(id)
}

#[derive(Debug, PartialEq)]
enum Tried<T> {
    Done(T),
    Waits,
    Fails(Abort),
}
use Tried::{Done, Fails, Waits};

/// Polled once: it is done, or it waits.
fn once<T>(future: impl Future<Output = Result<T, Abort>>) -> Tried<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(value)) => Done(value),
        Poll::Ready(Err(abort)) => Fails(abort),
        Poll::Pending => Waits,
    }
}

struct Bench<D: Design> {
    engine: PageEngine<D>,
    executor: Executor,
}

/// One transaction, rolled back at the end of its scene unless it has ended.
struct Scene<'b, D: Design> {
    bench: &'b Bench<D>,
    part: Part,
    over: bool,
}

impl<D: Design> Bench<D> {
    /// Rows 1 and 2 with the values 10 and 20, and row 100.
    fn new() -> Bench<D> {
        let options = StoreOptions::new(Durability::Memory, 256);
        let (store, _) = Store::open(world::memory(), Path::new("/anomalies"), options).unwrap();
        store.create(&Schema { tables: vec![table(KIND.get())] }).unwrap();
        let options = EngineOptions {
            locks: trials::workers::lock_options(0),
            lock_timeout_ns: 1 << 40,
            waits_for_log: false,
        };
        let bench =
            Bench { engine: PageEngine::new(store, options), executor: Executor::new(Arc::new(|| {})) };
        bench.engine.own();
        let mut loader = bench.begin();
        for (id, value) in [(1, 10), (2, 20), (100, 0)] {
            assert_eq!(loader.insert(id, value), Done(Inserted::Done));
        }
        loader.commit();
        bench
    }

    fn begin(&self) -> Scene<'_, D> {
        let mut part = self.engine.part();
        self.engine.begin(&mut part, 0, Protection::Locks);
        Scene { bench: self, part, over: false }
    }

    /// Values of rows 1 and 2, seen by a transaction of its own.
    fn rows(&self) -> (Option<i64>, Option<i64>) {
        let mut scene = self.begin();
        let mut read = |id| match scene.read(id) {
            Done(value) => value,
            other => panic!("row {id}: {other:?}"),
        };
        (read(1), read(2))
    }
}

impl<D: Design> Scene<'_, D> {
    fn here(&mut self) -> Here<'_, D> {
        Here { engine: &self.bench.engine, executor: &self.bench.executor, part: &mut self.part }
    }

    fn read(&mut self, id: i64) -> Tried<Option<i64>> {
        once(self.here().read(T, &key(id), |row| row.int(1)))
    }

    fn write(&mut self, id: i64, value: i64) -> Tried<Option<()>> {
        once(self.here().update(T, &key(id), |row| row.set_int(1, value)))
    }

    fn insert(&mut self, id: i64, value: i64) -> Tried<Inserted> {
        let mut buf = RowBuf::new(&table(KIND.get()));
        let mut row = buf.start();
        row.set_int(0, id);
        row.set_int(1, value);
        once(self.here().insert(T, &key(id), buf.bytes()))
    }

    fn delete(&mut self, id: i64) -> Tried<bool> {
        once(self.here().delete(T, &key(id)))
    }

    /// The ids from `low` to below `high` whose value `wanted` accepts.
    fn select(
        &mut self,
        (low, high): (i64, i64),
        direction: Direction,
        wanted: impl Fn(i64) -> bool,
    ) -> Tried<Vec<i64>> {
        let mut seen = Vec::new();
        let (low, high) = (key(low), key(high));
        let visit = |_: &[u8], row: txn::Row<'_>| {
            if wanted(row.int(1)) {
                seen.push(row.int(0));
            }
            Flow::More
        };
        match once(self.here().scan(T, Range::new(&low, &high), direction, visit)) {
            Done(()) => Done(seen),
            Waits => Waits,
            Fails(abort) => Fails(abort),
        }
    }

    fn commit(mut self) {
        self.over = true;
        self.bench.engine.commit(&mut self.part).unwrap();
    }

    fn rollback(self) {}
}

impl<D: Design> Drop for Scene<'_, D> {
    fn drop(&mut self) {
        if !self.over && !std::thread::panicking() {
            self.bench.engine.rollback(&mut self.part).unwrap();
        }
    }
}

thread_local! {
    static KIND: Cell<TableKind> = const { Cell::new(TableKind::Heap) };
}

fn on_every_kind(script: fn()) {
    for kind in TableKind::ALL {
        KIND.set(kind);
        script();
    }
}

/// Each script, on each kind of table, as a test of its own under each design.
macro_rules! under_every_design {
    ($($script:ident)*) => {
        mod conventional {
            $(#[test] fn $script() { super::on_every_kind(super::$script::<super::Conventional>); })*
        }
        mod logical {
            $(#[test] fn $script() { super::on_every_kind(super::$script::<super::Partitioned>); })*
        }
        mod serial {
            $(#[test] fn $script() { super::on_every_kind(super::$script::<super::Serial>); })*
        }
    };
}

under_every_design! {
    g0_dirty_write
    g1a_aborted_read
    g1b_intermediate_read
    g1c_circular_information_flow
    otv_observed_transaction_vanishes
    pmp_predicate_many_preceders
    pmp_predicate_many_preceders_of_a_write
    p4_lost_update
    g_single_read_skew
    g_single_read_skew_of_a_predicate
    g_single_read_skew_ended_by_a_write
    g2_item_write_skew
    g2_anti_dependency_cycle_of_predicates
    g2_two_predicates_three_transactions
    p3_phantom_of_an_insert
    p3_phantom_of_a_delete
    p3_phantom_of_an_update
}

fn g0_dirty_write<D: Design>() {
    let b = Bench::<D>::new();
    let (mut one, mut two) = (b.begin(), b.begin());
    assert_eq!(one.write(1, 11), Done(Some(())));
    assert_eq!(two.write(1, 12), Waits);
    assert_eq!(one.write(2, 21), Done(Some(())));
    one.commit();
    two.rollback();
    assert_eq!(b.rows(), (Some(11), Some(21)));
}

fn g1a_aborted_read<D: Design>() {
    let b = Bench::<D>::new();
    let (mut one, mut two) = (b.begin(), b.begin());
    assert_eq!(one.write(1, 101), Done(Some(())));
    assert_eq!(two.read(1), Waits);
    two.rollback();
    one.rollback();
    assert_eq!(b.rows(), (Some(10), Some(20)));
}

fn g1b_intermediate_read<D: Design>() {
    let b = Bench::<D>::new();
    let (mut one, mut two) = (b.begin(), b.begin());
    assert_eq!(one.write(1, 101), Done(Some(())));
    assert_eq!(two.read(1), Waits);
    two.rollback();
    assert_eq!(one.write(1, 11), Done(Some(())));
    one.commit();
    assert_eq!(b.rows(), (Some(11), Some(20)));
}

fn g1c_circular_information_flow<D: Design>() {
    let b = Bench::<D>::new();
    let (mut one, mut two) = (b.begin(), b.begin());
    assert_eq!(one.write(1, 11), Done(Some(())));
    assert_eq!(two.write(2, 22), Done(Some(())));
    assert_eq!(one.read(2), Waits);
    assert_eq!(two.read(1), Fails(Abort::Deadlock));
}

fn otv_observed_transaction_vanishes<D: Design>() {
    let b = Bench::<D>::new();
    let (mut one, mut two, mut three) = (b.begin(), b.begin(), b.begin());
    assert_eq!(one.write(1, 11), Done(Some(())));
    assert_eq!(one.write(2, 19), Done(Some(())));
    assert_eq!(two.write(1, 12), Waits);
    assert_eq!(three.read(1), Waits);
    three.rollback();
    two.rollback();
    one.commit();
    let mut two = b.begin();
    assert_eq!(two.write(1, 12), Done(Some(())));
    // What the first wrote is not seen beside what the second is about to replace it with.
    let mut three = b.begin();
    assert_eq!(three.read(2), Done(Some(19)));
    assert_eq!(three.read(1), Waits);
}

fn pmp_predicate_many_preceders<D: Design>() {
    let b = Bench::<D>::new();
    let (mut one, mut two) = (b.begin(), b.begin());
    assert_eq!(one.select((0, 50), Direction::Forward, |v| v == 30), Done(vec![]));
    assert_eq!(two.insert(3, 30), Waits);
    two.rollback();
    assert_eq!(one.select((0, 50), Direction::Backward, |v| v % 3 == 0), Done(vec![]));
}

fn pmp_predicate_many_preceders_of_a_write<D: Design>() {
    let b = Bench::<D>::new();
    let (mut one, mut two) = (b.begin(), b.begin());
    // update ... set value = value + 10; then the other: delete where value = 20
    assert_eq!(one.write(1, 20), Done(Some(())));
    assert_eq!(one.write(2, 30), Done(Some(())));
    assert_eq!(two.select((0, 50), Direction::Forward, |v| v == 20), Waits);
    two.rollback();
    one.commit();
    let mut two = b.begin();
    assert_eq!(two.select((0, 50), Direction::Forward, |v| v == 20), Done(vec![1]));
    assert_eq!(two.delete(1), Done(true));
    two.commit();
    assert_eq!(b.rows(), (None, Some(30)));
}

fn p4_lost_update<D: Design>() {
    let b = Bench::<D>::new();
    let (mut one, mut two) = (b.begin(), b.begin());
    assert_eq!(one.read(1), Done(Some(10)));
    assert_eq!(two.read(1), Done(Some(10)));
    assert_eq!(one.write(1, 11), Waits);
    assert_eq!(two.write(1, 11), Fails(Abort::Deadlock));
}

fn g_single_read_skew<D: Design>() {
    let b = Bench::<D>::new();
    let (mut one, mut two) = (b.begin(), b.begin());
    assert_eq!(one.read(1), Done(Some(10)));
    assert_eq!(two.read(1), Done(Some(10)));
    assert_eq!(two.read(2), Done(Some(20)));
    assert_eq!(two.write(1, 12), Waits);
    assert_eq!(one.read(2), Done(Some(20)));
}

fn g_single_read_skew_of_a_predicate<D: Design>() {
    let b = Bench::<D>::new();
    let (mut one, mut two) = (b.begin(), b.begin());
    assert_eq!(one.select((0, 50), Direction::Forward, |v| v % 5 == 0), Done(vec![1, 2]));
    assert_eq!(two.write(1, 12), Waits);
    two.rollback();
    assert_eq!(one.select((0, 50), Direction::Forward, |v| v % 3 == 0), Done(vec![]));
}

fn g_single_read_skew_ended_by_a_write<D: Design>() {
    let b = Bench::<D>::new();
    let (mut one, mut two) = (b.begin(), b.begin());
    assert_eq!(one.read(1), Done(Some(10)));
    assert_eq!(two.write(2, 18), Done(Some(())));
    assert_eq!(two.write(1, 12), Waits);
    assert_eq!(one.delete(2), Fails(Abort::Deadlock));
}

fn g2_item_write_skew<D: Design>() {
    let b = Bench::<D>::new();
    let (mut one, mut two) = (b.begin(), b.begin());
    for scene in [&mut one, &mut two] {
        assert_eq!((scene.read(1), scene.read(2)), (Done(Some(10)), Done(Some(20))));
    }
    assert_eq!(one.write(1, 11), Waits);
    assert_eq!(two.write(2, 21), Fails(Abort::Deadlock));
}

fn g2_anti_dependency_cycle_of_predicates<D: Design>() {
    let b = Bench::<D>::new();
    let (mut one, mut two) = (b.begin(), b.begin());
    for scene in [&mut one, &mut two] {
        assert_eq!(scene.select((0, 50), Direction::Forward, |v| v % 3 == 0), Done(vec![]));
    }
    assert_eq!(one.insert(3, 30), Waits);
    assert_eq!(two.insert(4, 42), Fails(Abort::Deadlock));
}

/// Fekete, O'Neil and O'Neil's read-only anomaly, with ranges: a reader that sees one of two writers and not the other.
fn g2_two_predicates_three_transactions<D: Design>() {
    let b = Bench::<D>::new();
    let (mut one, mut two) = (b.begin(), b.begin());
    assert_eq!(one.select((0, 50), Direction::Forward, |_| true), Done(vec![1, 2]));
    assert_eq!(two.write(2, 25), Waits);
    two.rollback();
    let mut three = b.begin();
    assert_eq!(three.select((0, 50), Direction::Backward, |_| true), Done(vec![2, 1]));
    assert_eq!(one.write(1, 0), Waits);
    three.commit();
}

fn p3_phantom_of_an_insert<D: Design>() {
    for direction in [Direction::Forward, Direction::Backward] {
        let b = Bench::<D>::new();
        let mut one = b.begin();
        assert!(matches!(one.select((1, 50), direction, |_| true), Done(seen) if seen.len() == 2));
        for id in [3, 49] {
            assert_eq!(b.begin().insert(id, 0), Waits, "{direction:?} {id}");
        }
        // The gap that ends a range is locked as a whole: what lies behind the next key is free. Owners lock the table.
        if !D::OWNERS {
            assert_eq!(b.begin().insert(101, 0), Done(Inserted::Done));
        }
    }
}

fn p3_phantom_of_a_delete<D: Design>() {
    let b = Bench::<D>::new();
    let (mut one, mut two) = (b.begin(), b.begin());
    assert_eq!(one.select((0, 50), Direction::Forward, |_| true), Done(vec![1, 2]));
    assert_eq!(two.delete(2), Waits);
    two.rollback();
    one.commit();
    let (mut one, mut two) = (b.begin(), b.begin());
    assert_eq!(two.delete(2), Done(true));
    assert_eq!(one.select((0, 50), Direction::Forward, |_| true), Waits, "nor is its absence seen too early");
}

fn p3_phantom_of_an_update<D: Design>() {
    let b = Bench::<D>::new();
    let (mut one, mut two) = (b.begin(), b.begin());
    assert_eq!(one.select((0, 150), Direction::Forward, |v| v == 0), Done(vec![100]));
    assert_eq!(
        two.write(2, 0),
        Waits,
        "a row that would match later is locked, though it does not match now"
    );
}
