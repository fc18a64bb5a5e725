//! Transactions in doubt at a restart, under the design they were prepared under and under others.

use crate::owners::setup;
use base::{Key, TableId};
use exec::{
    Conventional, Design, DesignKind, Engine, Executor, KeyOwners, LocalTxn, LockPoint, PageEngine,
    Partitioned, Protection,
};
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use txn::{Abort, Access, Column, Inserted, RowBuf, TableDef, TableKind, Type};

const T: TableId = TableId(1);

/// One lock of an owner covers all rows of a group.
fn table() -> TableDef {
    let int = |name| Column::new(name, Type::I64);
    TableDef {
        id: T,
        name: "t".into(),
        columns: vec![int("group"), int("id"), int("value")],
        key: vec![0, 1],
        indexes: vec![],
        domain: 100,
        kind: TableKind::Heap,
    }
}

type Id = (i64, i64);

fn key((group, id): Id) -> Key {
    Key::new().i64(group).i64(id)
}

fn row((group, id): Id) -> Vec<u8> {
    let mut buf = RowBuf::new(&table());
    let mut row = buf.start();
    row.set_int(0, group);
    row.set_int(1, id);
    buf.bytes().to_vec()
}

/// An operation that still waits after this many polls waits for a lock.
const LOOKS: usize = 200;

struct Life<D: Design> {
    engine: Arc<PageEngine<D>>,
    contexts: Vec<<PageEngine<D> as Engine>::WorkerContext>,
    executor: Executor,
}

type InDoubt<D> = Vec<<PageEngine<D> as Engine>::InDoubt>;

impl<D: Design> Life<D> {
    fn open(design: DesignKind, dir: &Path, workers: usize) -> (Life<D>, InDoubt<D>) {
        let (engine, recovered) = PageEngine::open(&setup(design, dir, workers, table())).unwrap();
        let engine = Arc::new(engine);
        let contexts = (0..workers).map(|worker| engine.worker_context(worker, Arc::new(|| {}))).collect();
        let doubts = recovered.in_doubt.into_iter().map(|(_, doubt)| doubt).collect();
        (Life { engine, contexts, executor: Executor::new(Arc::new(|| {})) }, doubts)
    }

    /// A table with these rows, inserted by the first worker.
    fn with(design: DesignKind, dir: &Path, ids: &[Id]) -> Life<D> {
        let (life, _) = Life::open(design, dir, 1);
        let mut txn = life.begin(0);
        for id in ids {
            let put = life.try_it(0, &mut txn, async |access| access.insert(T, &key(*id), &row(*id)).await);
            assert_eq!(put, Some(Ok(Inserted::Done)));
        }
        Engine::commit(&*life.engine, &life.contexts[0], &mut txn).unwrap();
        life
    }

    fn begin(&self, worker: usize) -> LocalTxn {
        let mut txn = Engine::local_txn(&*self.engine, &self.contexts[worker]);
        Engine::begin(&*self.engine, &self.contexts[worker], &mut txn, Protection::Locks);
        txn
    }

    /// The result of an operation; `None` if it has to wait for a lock.
    fn try_it<'a, R>(
        &'a self,
        worker: usize,
        txn: &'a mut LocalTxn,
        operation: impl AsyncFnOnce(&mut <PageEngine<D> as Engine>::RowAccess<'a>) -> R,
    ) -> Option<R> {
        let mut access = self.engine.access(&self.contexts[worker], &self.executor, txn);
        let mut doing = pin!(operation(&mut access));
        (0..LOOKS).find_map(|_| {
            // A page may have to be read.
            Engine::turn(&self.engine, &self.contexts[worker]);
            std::thread::sleep(std::time::Duration::from_micros(100));
            match doing.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(done) => Some(done),
                Poll::Pending => None,
            }
        })
    }

    fn update(&self, txn: &mut LocalTxn, id: Id, value: i64) {
        let set = |row: &mut txn::RowMut<'_>| row.set_int(2, value);
        assert_eq!(
            self.try_it(0, txn, async |access| access.update(T, &key(id), set).await),
            Some(Ok(Some(())))
        );
    }

    fn delete(&self, txn: &mut LocalTxn, id: Id) {
        assert_eq!(self.try_it(0, txn, async |access| access.delete(T, &key(id)).await), Some(Ok(true)));
    }

    /// Prepares all these transactions, and ends without their decisions.
    fn crash(self, txns: Vec<LocalTxn>) {
        for mut txn in txns {
            let prepared =
                Engine::prepare(&*self.engine, &self.contexts[0], &mut txn, b"note", LockPoint::Reached);
            prepared.unwrap();
            Engine::abandon(&*self.engine, &self.contexts[0], &mut txn);
        }
    }

    /// The value that a separate transaction sees; `None` if it would have to wait.
    fn value(&self, worker: usize, id: Id) -> Option<Result<Option<i64>, Abort>> {
        let mut txn = self.begin(worker);
        let seen =
            self.try_it(worker, &mut txn, async |access| access.read(T, &key(id), |row| row.int(2)).await);
        Engine::rollback(&*self.engine, &self.contexts[worker], &mut txn).unwrap();
        seen
    }

    /// Whether a row could be inserted there.
    fn has_room(&self, id: Id) -> bool {
        let mut txn = self.begin(0);
        let put = self.try_it(0, &mut txn, async |access| access.insert(T, &key(id), &row(id)).await);
        Engine::rollback(&*self.engine, &self.contexts[0], &mut txn).unwrap();
        put.is_some()
    }

    fn adopt(&self, worker: usize, doubt: <PageEngine<D> as Engine>::InDoubt) -> LocalTxn {
        Engine::adopt(&*self.engine, &self.contexts[worker], doubt)
    }

    /// Carries out the decision, and has every worker read its messages.
    fn decide(&self, worker: usize, txn: &mut LocalTxn, commits: bool) {
        match commits {
            true => drop(Engine::commit(&*self.engine, &self.contexts[worker], txn).unwrap()),
            false => Engine::rollback(&*self.engine, &self.contexts[worker], txn).unwrap(),
        }
        self.contexts.iter().for_each(|ctx| assert!(self.engine.receive(ctx).is_none()));
    }
}

/// One transaction deletes a key, the other changes the row behind it: the gap between them is the
/// first one's.
#[test]
fn two_in_doubt_that_got_along_before_the_crash_get_along_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let life = Life::<Conventional>::with(DesignKind::Conventional, dir.path(), &[(1, 5), (1, 7)]);
    let (mut deletes, mut updates) = (life.begin(0), life.begin(0));
    life.delete(&mut deletes, (1, 5));
    life.update(&mut updates, (1, 7), 70);
    life.crash(vec![deletes, updates]);

    let (life, doubts) = Life::<Conventional>::open(DesignKind::Conventional, dir.path(), 1);
    let mut txns: Vec<LocalTxn> = doubts.into_iter().map(|doubt| life.adopt(0, doubt)).collect();
    assert_eq!((life.value(0, (1, 5)), life.value(0, (1, 7))), (None, None), "both are locked again");
    assert!(!life.has_room((1, 6)), "and the gap that one left");
    let of = |life: &Life<Conventional>| (life.value(0, (1, 5)), life.value(0, (1, 7)));
    life.decide(0, &mut txns[1], true);
    assert_eq!(of(&life), (None, Some(Ok(Some(70)))), "the other one still waits for its decision");
    life.decide(0, &mut txns[0], false);
    assert_eq!(of(&life), (Some(Ok(Some(0))), Some(Ok(Some(70)))));
    assert!(life.has_room((1, 6)));
}

/// Each has a row lock of its own; with owners one lock stands for both rows.
#[test]
fn rows_of_one_group_in_doubt_share_its_owners_lock() {
    let dir = tempfile::tempdir().unwrap();
    let life = Life::<Conventional>::with(DesignKind::Conventional, dir.path(), &[(60, 1), (60, 2), (70, 1)]);
    let txns = [(60, 1), (60, 2), (70, 1)].map(|id| {
        let mut txn = life.begin(0);
        life.update(&mut txn, id, 9);
        txn
    });
    life.crash(txns.into());

    let (life, doubts) = Life::<Partitioned>::open(DesignKind::Logical, dir.path(), 2);
    let mut txns: Vec<LocalTxn> = doubts.into_iter().map(|doubt| life.adopt(0, doubt)).collect();
    let of = |life: &Life<Partitioned>| [(60, 1), (60, 2), (70, 1)].map(|id| life.value(1, id));
    assert_eq!(of(&life), [None, None, None]);
    life.decide(0, &mut txns[2], true);
    assert_eq!(of(&life), [None, None, Some(Ok(Some(9)))], "whose locks exclude nobody's waits for nobody");
    life.decide(0, &mut txns[0], true);
    assert_eq!(of(&life), [None, None, Some(Ok(Some(9)))]);
    life.decide(0, &mut txns[1], false);
    assert_eq!(of(&life), [Some(Ok(Some(9))), Some(Ok(Some(0))), Some(Ok(Some(9)))]);
}

/// With owners no transaction locks gaps, so two may have deleted neighbours.
#[test]
fn neighbours_deleted_under_owners_share_the_gap_at_a_central_table() {
    let dir = tempfile::tempdir().unwrap();
    let life = Life::<Partitioned>::with(DesignKind::Logical, dir.path(), &[(1, 9), (2, 1), (2, 5)]);
    let (mut one, mut two) = (life.begin(0), life.begin(0));
    life.delete(&mut one, (1, 9));
    life.delete(&mut two, (2, 1));
    life.crash(vec![one, two]);

    let (life, doubts) = Life::<Conventional>::open(DesignKind::Conventional, dir.path(), 2);
    let mut txns: Vec<LocalTxn> =
        (0..).zip(doubts).map(|(worker, doubt)| life.adopt(worker, doubt)).collect();
    assert!(!life.has_room((2, 3)));
    assert_eq!(life.value(0, (2, 5)), Some(Ok(Some(0))), "its row is nobody's");
    life.decide(0, &mut txns[0], true);
    assert!(!life.has_room((2, 3)), "the other one may come back");
    life.decide(1, &mut txns[1], false);
    assert!(life.has_room((2, 3)));
    assert_eq!((life.value(0, (1, 9)), life.value(0, (2, 1))), (Some(Ok(None)), Some(Ok(Some(0)))));
}
