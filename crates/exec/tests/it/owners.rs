//! Two workers that own keys, driven by hand on one thread: messages, branches, waits and restarts,
//! step by step.

use base::{Key, TableId};
use exec::{
    Answer, DesignKind, Engine, EngineOptions, Executor, KeyOwners, LocalTxn, LockPoint, PageEngine,
    Partitioned, Protection, Recovered, Scope, Setup, SiteRange, Visit,
};
use locks::LockTuning;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use txn::{
    Abort, Access, Column, Direction, Flow, IndexDef, Inserted, Range, RowBuf, Schema, TableDef, TableKind,
    Type,
};
use wal::Durability;

pub const T: TableId = TableId(1);
const BY_VALUE: TableId = TableId(2);
/// Keys below it belong to the first of two workers, the others to the second.
const BORDER: i64 = 50;

pub type Owned = PageEngine<Partitioned>;
pub type WorkerContext = <Owned as Engine>::WorkerContext;

fn table() -> TableDef {
    TableDef {
        id: T,
        name: "t".into(),
        columns: vec![Column::new("id", Type::I64), Column::new("value", Type::I64)],
        key: vec![0],
        indexes: vec![],
        domain: 100,
        kind: TableKind::Heap,
    }
}

/// Ten sites of ten keys each of the first column of `table`.
pub fn setup(design: DesignKind, dir: &std::path::Path, workers: usize, table: TableDef) -> Setup {
    Setup {
        design,
        dir: dir.into(),
        durability: Durability::Async,
        pool_pages: 256,
        workers,
        options: EngineOptions {
            locks: LockTuning::PLAIN,
            lock_timeout_ms: 1 << 20,
            ..EngineOptions::of(design)
        },
        schema: Schema { tables: vec![table] },
        site_range: SiteRange { sites: 10, own: 0..10, lock_columns: vec![(T, 1)] },
    }
}

pub fn key(id: i64) -> Key {
    Key::new().i64(id)
}

pub fn row(id: i64, value: i64) -> Vec<u8> {
    let mut buf = RowBuf::new(&table());
    let mut row = buf.start();
    row.set_int(0, id);
    row.set_int(1, value);
    buf.bytes().to_vec()
}

pub fn once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

pub struct Bench {
    pub engine: Arc<Owned>,
    pub contexts: Vec<WorkerContext>,
    pub executor: Executor,
}

type InDoubt = Vec<(Vec<u8>, <Owned as Engine>::InDoubt)>;

impl Bench {
    fn open(dir: &std::path::Path, workers: usize) -> (Bench, InDoubt) {
        Bench::open_as(DesignKind::Logical, dir, workers)
    }

    fn open_as(design: DesignKind, dir: &std::path::Path, workers: usize) -> (Bench, InDoubt) {
        let (engine, in_doubt) = Bench::engine(design, dir, workers);
        let contexts = (0..workers).map(|worker| engine.worker_context(worker, Arc::new(|| {}))).collect();
        (Bench { engine, contexts, executor: Executor::new(Arc::new(|| {})) }, in_doubt)
    }

    fn engine(design: DesignKind, dir: &std::path::Path, workers: usize) -> (Arc<Owned>, InDoubt) {
        let (engine, Recovered { in_doubt, .. }) =
            Owned::open(&setup(design, dir, workers, table())).unwrap();
        (Arc::new(engine), in_doubt)
    }

    /// Two owners, and rows 10 and 60 of value 0.
    pub fn new(dir: &std::path::Path) -> Bench {
        Bench::new_as(DesignKind::Logical, dir)
    }

    pub fn new_as(design: DesignKind, dir: &std::path::Path) -> Bench {
        let (bench, _) = Bench::open_as(design, dir, 2);
        for (worker, id) in [(0, 10), (1, 60)] {
            let mut txn = bench.begin(worker);
            assert_eq!(
                once(bench.access(worker, &mut txn).insert(T, &key(id), &row(id, 0))),
                Some(Ok(Inserted::Done))
            );
            Engine::commit(&*bench.engine, &bench.contexts[worker], &mut txn).unwrap();
        }
        bench
    }

    pub fn begin(&self, worker: usize) -> LocalTxn {
        let mut txn = Engine::local_txn(&*self.engine, &self.contexts[worker]);
        Engine::begin(&*self.engine, &self.contexts[worker], &mut txn, Protection::Locks);
        txn
    }

    pub fn access<'a>(&'a self, worker: usize, txn: &'a mut LocalTxn) -> <Owned as Engine>::RowAccess<'a> {
        self.engine.access(&self.contexts[worker], &self.executor, txn)
    }

    /// Runs steps of a transaction at an owner: sends them, runs `steps` there, and brings the
    /// answer back.
    pub fn visit<R>(
        &self,
        home: usize,
        txn: &mut LocalTxn,
        owner: usize,
        steps: impl FnOnce(&mut LocalTxn) -> R,
    ) -> R {
        let visit = self.arrive(home, txn, owner);
        self.finish(home, txn, visit, steps)
    }

    /// Sends steps of a transaction to an owner, up to their arrival.
    pub fn arrive(&self, home: usize, txn: &mut LocalTxn, owner: usize) -> (u32, Visit<LocalTxn>) {
        let ctx = &self.contexts[home];
        let meeting = self.engine.meeting(ctx);
        self.engine.send(ctx, txn, meeting, (owner, self.engine.map_version()), vec![7]);
        let visit = self.engine.receive(&self.contexts[owner]).expect("the steps have arrived");
        assert_eq!(visit.steps, [7]);
        (meeting, visit)
    }

    pub fn finish<R>(
        &self,
        home: usize,
        txn: &mut LocalTxn,
        (meeting, mut visit): (u32, Visit<LocalTxn>),
        steps: impl FnOnce(&mut LocalTxn) -> R,
    ) -> R {
        let done = steps(&mut visit.txn);
        let owner = 1 - home;
        self.engine.answer(&self.contexts[owner], visit, Ok(()), vec![8]);
        let ctx = &self.contexts[home];
        assert!(self.engine.receive(ctx).is_none());
        let answers = once(self.engine.rendezvous(ctx, txn, meeting)).expect("all have answered");
        let [Answer { owner: from, outcome: Ok(()), outputs }] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!((*from, &outputs[..]), (owner, &[8][..]));
        done
    }

    /// Has every worker read its messages.
    pub fn mail(&self) {
        for _ in 0..2 {
            self.contexts.iter().for_each(|ctx| assert!(self.engine.receive(ctx).is_none()));
        }
    }

    pub fn write(
        &self,
        worker: usize,
        txn: &mut LocalTxn,
        id: i64,
        value: i64,
    ) -> Option<Result<Option<()>, Abort>> {
        once(self.access(worker, txn).update(T, &key(id), |row| row.set_int(1, value)))
    }

    pub fn read(&self, worker: usize, txn: &mut LocalTxn, id: i64) -> Option<Result<Option<i64>, Abort>> {
        once(self.access(worker, txn).read(T, &key(id), |row| row.int(1)))
    }

    /// The value of a row, read by a transaction of its owner; `None` if it has to wait.
    pub fn value(&self, id: i64) -> Option<i64> {
        let worker = if id < BORDER { 0 } else { self.contexts.len() - 1 };
        let mut txn = self.begin(worker);
        let seen = {
            let (mut access, wanted) = (self.access(worker, &mut txn), key(id));
            let mut read = pin!(access.read(T, &wanted, |row| row.int(1)));
            // A page may have to be read; no lock is released meanwhile.
            (0..200).find_map(|_| {
                self.engine.turn();
                std::thread::sleep(std::time::Duration::from_micros(100));
                match read.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(seen) => Some(seen),
                    Poll::Pending => None,
                }
            })
        };
        Engine::rollback(&*self.engine, &self.contexts[worker], &mut txn).unwrap();
        Some(seen?.unwrap().unwrap())
    }

    pub fn commit(&self, worker: usize, txn: &mut LocalTxn) {
        once(self.engine.validate(&self.contexts[worker], &self.executor, txn, Scope::Home))
            .unwrap()
            .unwrap();
        Engine::commit(&*self.engine, &self.contexts[worker], txn).unwrap();
    }
}

pub const DONE: Option<Result<Option<()>, Abort>> = Some(Ok(Some(())));

#[test]
fn a_transaction_of_two_owners_commits_at_both() {
    let dir = tempfile::tempdir().unwrap();
    let b = Bench::new(dir.path());
    let mut txn = b.begin(0);
    assert_eq!(b.write(0, &mut txn, 10, 1), DONE);
    b.visit(0, &mut txn, 1, |branch| assert_eq!(b.write(1, branch, 60, 2), DONE));
    // A second visit continues the same branch.
    b.visit(0, &mut txn, 1, |branch| assert_eq!(b.read(1, branch, 60), Some(Ok(Some(2)))));
    assert_eq!((b.value(10), b.value(60)), (None, None), "both are locked");
    b.commit(0, &mut txn);
    assert_eq!((b.value(10), b.value(60)), (Some(1), None), "the owner has not read its mail");
    b.mail();
    assert_eq!((b.value(10), b.value(60)), (Some(1), Some(2)));
}

#[test]
fn a_rollback_reaches_every_owner() {
    let dir = tempfile::tempdir().unwrap();
    let b = Bench::new(dir.path());
    let mut txn = b.begin(1);
    b.visit(1, &mut txn, 0, |branch| assert_eq!(b.write(0, branch, 10, 1), DONE));
    assert_eq!(b.write(1, &mut txn, 60, 2), DONE);
    Engine::rollback(&*b.engine, &b.contexts[1], &mut txn).unwrap();
    assert!(!b.engine.is_settled(&b.contexts[1]));
    assert_eq!((b.value(10), b.value(60)), (None, Some(0)));
    b.mail();
    assert!(b.engine.is_settled(&b.contexts[1]));
    assert_eq!((b.value(10), b.value(60)), (Some(0), Some(0)));
}

/// Each transaction holds the lock that the other wants, at different owners: no lock table sees
/// the cycle.
#[test]
fn a_circle_over_two_owners_is_found_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let b = Bench::new(dir.path());
    let (mut one, mut two) = (b.begin(0), b.begin(1));
    assert_eq!(b.write(0, &mut one, 10, 1), DONE);
    assert_eq!(b.write(1, &mut two, 60, 2), DONE);
    let mut one_there = b.arrive(0, &mut one, 1);
    assert_eq!(b.write(1, &mut one_there.1.txn, 60, 1), None);
    b.visit(1, &mut two, 0, |branch| {
        assert_eq!(b.write(0, branch, 10, 2), Some(Err(Abort::Deadlock)));
    });
    Engine::rollback(&*b.engine, &b.contexts[1], &mut two).unwrap();
    b.finish(0, &mut one, one_there, |_| ());
    b.mail();
    b.commit(0, &mut one);
    b.mail();
    assert_eq!((b.value(10), b.value(60)), (Some(1), Some(0)));
}

/// One transaction of the cycle has locks at one owner only, and records no wait: the one that
/// searches looks through it.
#[test]
fn a_circle_leads_through_one_that_is_at_a_single_owner() {
    let dir = tempfile::tempdir().unwrap();
    let b = Bench::new(dir.path());
    for (worker, id) in [(0, 20), (1, 70)] {
        let mut txn = b.begin(worker);
        let inserted = once(b.access(worker, &mut txn).insert(T, &key(id), &row(id, 0)));
        assert_eq!(inserted, Some(Ok(Inserted::Done)));
        Engine::commit(&*b.engine, &b.contexts[worker], &mut txn).unwrap();
    }
    let (mut one, mut local, mut two) = (b.begin(0), b.begin(0), b.begin(1));
    assert_eq!(b.write(1, &mut two, 60, 2), DONE);
    b.visit(1, &mut two, 0, |branch| assert_eq!(b.write(0, branch, 20, 2), DONE));
    b.visit(0, &mut one, 1, |branch| assert_eq!(b.write(1, branch, 70, 1), DONE));
    assert_eq!(b.write(0, &mut local, 10, 3), DONE);
    assert_eq!(b.write(0, &mut local, 20, 3), None, "it waits for the second one");
    assert_eq!(b.write(1, &mut two, 70, 2), None, "it waits for the first one");
    assert_eq!(b.write(0, &mut one, 10, 1), Some(Err(Abort::Deadlock)));
    for (worker, txn) in [(0, &mut one), (0, &mut local), (1, &mut two)] {
        Engine::rollback(&*b.engine, &b.contexts[worker], txn).unwrap();
    }
    b.mail();
    assert_eq!([10, 20, 60, 70].map(|id| b.value(id)), [Some(0); 4]);
}

#[test]
fn a_scan_locks_what_its_worker_owns_of_the_table() {
    let dir = tempfile::tempdir().unwrap();
    let b = Bench::new(dir.path());
    let (mut one, mut two) = (b.begin(0), b.begin(0));
    let (low, high) = (key(5), key(20));
    let mut seen = Vec::new();
    let visit = |_: &[u8], row: txn::Row<'_>| {
        seen.push(row.int(0));
        Flow::More
    };
    let mut access = b.access(0, &mut one);
    let scan = access.scan(T, Range::new(&low, &high), Direction::Forward, visit);
    assert_eq!(once(scan), Some(Ok(())));
    assert_eq!(seen, [10]);
    assert_eq!(once(b.access(0, &mut two).insert(T, &key(11), &row(11, 0))), None, "a phantom waits");
    let mut three = b.begin(1);
    assert_eq!(b.write(1, &mut three, 60, 5), DONE, "the other owner's table is another one");
    for (worker, txn) in [(0, &mut one), (0, &mut two), (1, &mut three)] {
        Engine::rollback(&*b.engine, &b.contexts[worker], txn).unwrap();
    }
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "which worker 1 owns: a step must touch keys of the site that it is routed to")]
fn a_step_that_reaches_into_another_owners_keys_is_a_bug() {
    let dir = tempfile::tempdir().unwrap();
    let b = Bench::new(dir.path());
    let mut txn = b.begin(0);
    // Dropped with its locks while this panics, which is allowed.
    let _ = b.read(0, &mut txn, 60);
}

/// No lock here protects keys behind the worker's own.
#[test]
fn a_scan_that_goes_on_into_another_owners_keys_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let b = Bench::new(dir.path());
    let (low, high) = (key(5), key(20));
    let open = [Range::ALL, Range { low: Some(&low), high: None }, Range { low: None, high: Some(&high) }];
    for protection in [Protection::Locks, Protection::Unlocked] {
        for range in open {
            let mut txn = Engine::local_txn(&*b.engine, &b.contexts[0]);
            Engine::begin(&*b.engine, &b.contexts[0], &mut txn, protection);
            let mut access = b.access(0, &mut txn);
            let scan = access.scan(T, range, Direction::Forward, |_, _| panic!("a row that may change"));
            assert_eq!(once(scan), Some(Err(Abort::BadRequest)), "{protection:?} {range:?}");
            Engine::rollback(&*b.engine, &b.contexts[0], &mut txn).unwrap();
        }
    }
    // A single owner may scan everything.
    drop(b);
    let (b, _) = Bench::open(dir.path(), 1);
    assert_eq!((b.value(10), b.value(60)), (Some(0), Some(0)));
    let mut txn = b.begin(0);
    let mut seen = 0;
    let mut access = b.access(0, &mut txn);
    let visit = |_: &[u8], _: txn::Row<'_>| {
        seen += 1;
        Flow::More
    };
    assert_eq!(once(access.scan(T, Range::ALL, Direction::Forward, visit)), Some(Ok(())));
    Engine::rollback(&*b.engine, &b.contexts[0], &mut txn).unwrap();
    assert_eq!(seen, 2);
}

/// A step spread over sites sees the rows of one owner at each, and leaves that owner's locks
/// behind.
#[test]
fn a_share_of_a_scan_visits_its_sites_and_keeps_them_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let b = Bench::new(dir.path());
    let (mut one, mut two) = (b.begin(0), b.begin(0));
    for (sites, seen) in [(0..5, vec![10]), (1..2, vec![10]), (2..5, vec![])] {
        for direction in [Direction::Forward, Direction::Backward] {
            let (mut access, mut met) = (b.access(0, &mut one), Vec::new());
            access.within(Some(sites.clone())).unwrap();
            let visit = |_: &[u8], row: txn::Row<'_>| {
                met.push(row.int(0));
                Flow::More
            };
            assert_eq!(once(access.scan(T, Range::ALL, direction, visit)), Some(Ok(())));
            assert_eq!(met, seen, "{sites:?} {direction:?}");
        }
    }
    assert_eq!(once(b.access(0, &mut two).insert(T, &key(49), &row(49, 0))), None, "a phantom waits");
    Engine::rollback(&*b.engine, &b.contexts[0], &mut two).unwrap();
    for (sites, why) in [(4..6, Abort::Conflict), (5..6, Abort::Conflict), (9..11, Abort::BadRequest)] {
        assert_eq!(b.access(0, &mut one).within(Some(sites)), Err(why), "another's, or nobody's");
    }
    assert_eq!(b.access(0, &mut one).within(Some(3..3)), Err(Abort::BadRequest));
    Engine::rollback(&*b.engine, &b.contexts[0], &mut one).unwrap();
    // The next transaction in the same value is no share of a spread step.
    Engine::begin(&*b.engine, &b.contexts[0], &mut one, Protection::Locks);
    let scan = once(b.access(0, &mut one).scan(T, Range::ALL, Direction::Forward, |_, _| Flow::More));
    assert_eq!(scan, Some(Err(Abort::BadRequest)));
    Engine::rollback(&*b.engine, &b.contexts[0], &mut one).unwrap();
}

/// Its entries lead to rows of other workers, which may change them: refused with and without
/// locks.
#[test]
fn a_scan_through_an_index_that_is_cut_otherwise_is_refused_unless_it_is_spread() {
    let dir = tempfile::tempdir().unwrap();
    let index = IndexDef { id: BY_VALUE, name: "by_value".into(), columns: vec![1] };
    let def = TableDef { indexes: vec![index], ..table() };
    let (engine, _) = Owned::open(&setup(DesignKind::Logical, dir.path(), 2, def)).unwrap();
    let engine = Arc::new(engine);
    let contexts: Vec<WorkerContext> =
        (0..2).map(|worker| engine.worker_context(worker, Arc::new(|| {}))).collect();
    let b = Bench { engine, contexts, executor: Executor::new(Arc::new(|| {})) };
    for (worker, id, value) in [(0, 10, 7), (1, 60, 7), (0, 20, 8), (1, 70, 6)] {
        let mut txn = b.begin(worker);
        let inserted = once(b.access(worker, &mut txn).insert(T, &key(id), &row(id, value)));
        assert_eq!(inserted, Some(Ok(Inserted::Done)));
        b.commit(worker, &mut txn);
    }
    let (low, high) = (key(7), key(9));
    let range = Range::new(&low, &high);
    for protection in [Protection::Unlocked, Protection::Locks] {
        let mut txn = Engine::local_txn(&*b.engine, &b.contexts[0]);
        Engine::begin(&*b.engine, &b.contexts[0], &mut txn, protection);
        let mut access = b.access(0, &mut txn);
        let scan = access.scan(BY_VALUE, range, Direction::Forward, |_, _| panic!("a row that may change"));
        assert_eq!(once(scan), Some(Err(Abort::BadRequest)), "{protection:?}");
        Engine::rollback(&*b.engine, &b.contexts[0], &mut txn).unwrap();
    }
    let mut home = b.begin(0);
    let share = |worker: usize, txn: &mut LocalTxn, sites| {
        let (mut access, mut met) = (b.access(worker, txn), Vec::new());
        access.within(Some(sites)).unwrap();
        let visit = |_: &[u8], row: txn::Row<'_>| {
            met.push(row.int(0));
            Flow::More
        };
        assert_eq!(once(access.scan(BY_VALUE, range, Direction::Forward, visit)), Some(Ok(())));
        met
    };
    assert_eq!(share(0, &mut home, 0..5), [10, 20]);
    assert_eq!(b.visit(0, &mut home, 1, |branch| share(1, branch, 5..10)), [60]);
    // A row that enters the range does so at its owner, which has locked its part of the index with
    // its rows.
    let mut other = b.begin(1);
    assert_eq!(b.write(1, &mut other, 70, 8), None);
    Engine::rollback(&*b.engine, &b.contexts[1], &mut other).unwrap();
    b.commit(0, &mut home);
    b.mail();
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "which worker 1 owns: a step must touch keys of the site that it is routed to")]
fn a_scan_over_the_border_is_a_bug() {
    let dir = tempfile::tempdir().unwrap();
    let b = Bench::new(dir.path());
    let mut txn = b.begin(0);
    let (low, high) = (key(5), key(70));
    let mut access = b.access(0, &mut txn);
    // Dropped with its locks while this panics, which is allowed.
    let _ = once(access.scan(T, Range::new(&low, &high), Direction::Forward, |_, _| Flow::More));
}

/// Prepared at two owners, found by three, and decided either way.
#[test]
fn what_was_prepared_at_two_owners_is_locked_again_and_decided_as_one() {
    for commits in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let b = Bench::new(dir.path());
        let mut txn = b.begin(0);
        assert_eq!(b.write(0, &mut txn, 10, 1), DONE);
        b.visit(0, &mut txn, 1, |branch| assert_eq!(b.write(1, branch, 60, 2), DONE));
        Engine::prepare(&*b.engine, &b.contexts[0], &mut txn, b"note", LockPoint::Reached).unwrap();
        Engine::abandon(&*b.engine, &b.contexts[0], &mut txn);
        drop((txn, b));
        let (b, mut in_doubt) = Bench::open(dir.path(), 3);
        let (note, doubt) = in_doubt.pop().expect("one is in doubt");
        assert!(in_doubt.is_empty() && note == b"note");
        assert_eq!(
            (b.value(10), b.value(60)),
            (None, None),
            "locked by their owners, the first and the last"
        );
        let mut txn = b.engine.adopt(&b.contexts[1], doubt);
        assert!(<Owned as Engine>::wrote(&txn));
        if commits {
            Engine::commit(&*b.engine, &b.contexts[1], &mut txn).unwrap();
        } else {
            Engine::rollback(&*b.engine, &b.contexts[1], &mut txn).unwrap();
        }
        b.mail();
        let (one, two) = if commits { (1, 2) } else { (0, 0) };
        assert_eq!((b.value(10), b.value(60)), (Some(one), Some(two)));
    }
}

/// One worker has prepared changes of keys of both owners in one chain. The worker that takes it
/// over undoes it before it tells the other owner to release its locks.
#[test]
fn an_owner_lets_go_of_what_was_in_doubt_when_all_of_it_is_undone() {
    let dir = tempfile::tempdir().unwrap();
    drop(Bench::new(dir.path()));
    let (b, _) = Bench::open(dir.path(), 1);
    assert_eq!((b.value(10), b.value(60)), (Some(0), Some(0)));
    let mut txn = b.begin(0);
    for id in [10, 60] {
        assert_eq!(b.write(0, &mut txn, id, 7), DONE);
    }
    Engine::prepare(&*b.engine, &b.contexts[0], &mut txn, b"note", LockPoint::Reached).unwrap();
    Engine::abandon(&*b.engine, &b.contexts[0], &mut txn);
    drop((txn, b));

    let seen = Arc::new(std::sync::Mutex::new(None));
    let (engine, mut in_doubt) = Bench::engine(DesignKind::Logical, dir.path(), 2);
    let (looked, store) = (Arc::clone(&seen), Arc::clone(&engine));
    let look = move || {
        let store = store.store();
        let table = store.table(T).unwrap();
        let row = loop {
            match store.get::<latch::Coupled, _>(table, &key(60), |row| row.to_vec()) {
                Ok(row) => break row,
                Err(pages::Stop::Page(page)) => store.load_page(page).unwrap(),
                Err(stop) => panic!("{stop}"),
            }
        };
        *looked.lock().unwrap() = row;
    };
    let contexts = vec![engine.worker_context(0, Arc::new(|| {})), engine.worker_context(1, Arc::new(look))];
    let b = Bench { engine, contexts, executor: Executor::new(Arc::new(|| {})) };
    let mut txn = b.engine.adopt(&b.contexts[0], in_doubt.pop().expect("one is in doubt").1);
    Engine::rollback(&*b.engine, &b.contexts[0], &mut txn).unwrap();
    let at_the_message = seen.lock().unwrap().take().expect("a message has come");
    assert_eq!(at_the_message, row(60, 0), "the lock may go as soon as the message is there");
    b.mail();
    assert_eq!((b.value(10), b.value(60)), (Some(0), Some(0)));
}

/// The worker that receives the decision touches pages of several workers: none of them has an
/// owner before it is carried out.
#[test]
fn pages_have_owners_only_when_nothing_is_in_doubt() {
    for commits in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let b = Bench::new_as(DesignKind::PlpRegular, dir.path());
        let mut txn = b.begin(0);
        assert_eq!(b.write(0, &mut txn, 10, 1), DONE);
        b.visit(0, &mut txn, 1, |branch| assert_eq!(b.write(1, branch, 60, 2), DONE));
        Engine::prepare(&*b.engine, &b.contexts[0], &mut txn, b"note", LockPoint::Reached).unwrap();
        Engine::abandon(&*b.engine, &b.contexts[0], &mut txn);
        drop((txn, b));
        let (b, mut in_doubt) = Bench::open_as(DesignKind::PlpRegular, dir.path(), 2);
        let owned = || {
            let pages = (1..b.engine.store().pages_used()).map(base::PageId);
            let mut owners = [0; 2];
            pages
                .filter_map(|page| b.engine.store().pool().owner_of(page))
                .for_each(|owner| owners[owner.number()] += 1);
            owners
        };
        let turn = |worker: usize| {
            latch::act_for(latch::OwnerId::new(worker));
            Engine::turn(&b.engine, &b.contexts[worker]);
        };
        let mut txn = b.engine.adopt(&b.contexts[1], in_doubt.pop().expect("one is in doubt").1);
        b.contexts.iter().for_each(|ctx| b.engine.take_over(ctx));
        (0..2).for_each(turn);
        assert_eq!(owned(), [0, 0], "the decision is still to come");
        if commits {
            Engine::commit(&*b.engine, &b.contexts[1], &mut txn).unwrap();
        } else {
            Engine::rollback(&*b.engine, &b.contexts[1], &mut txn).unwrap();
        }
        b.mail();
        (0..2).for_each(turn);
        assert_eq!(owned(), [1, 1], "a root each");
        for worker in 0..2 {
            latch::act_for(latch::OwnerId::new(worker));
            b.engine.give_back(&b.contexts[worker]);
        }
        assert_eq!(owned(), [0, 0]);
        latch::act_for(None);
        let (one, two) = if commits { (1, 2) } else { (0, 0) };
        assert_eq!((b.value(10), b.value(60)), (Some(one), Some(two)));
    }
}
