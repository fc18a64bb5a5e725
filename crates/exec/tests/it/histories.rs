//! Random histories of three transactions at a time, each operation polled once. An operation that
//! has to wait rolls its transaction back. Locks are held to the end, so the transactions could
//! have run one by one in the order of their commits. Each committed transaction is replayed in
//! that order on an ordered map, and its results must be the same.

use crate::isolation::{BY_VALUE, Bench, Done, INDEXED, Tried, Waits, bench_with, key, once, row};
use exec::{Conventional, Executor, PageAccess, PageEngine, Protection};
use locks::{Escalation, Inheritance, LockTuning, Victim};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use txn::{Abort, Access, Direction, Flow, Inserted, Range, Row};

#[derive(Clone, Copy, Debug)]
enum Op {
    Read(i64),
    Write(i64, i64),
    Insert(i64),
    Delete(i64),
    Scan(i64, i64, Direction),
    ScanValues(i64, i64, Direction),
}

#[derive(Clone, PartialEq, Debug)]
enum Told {
    Value(Option<i64>),
    Wrote(Option<()>),
    Put(Inserted),
    Gone(bool),
    Ids(Vec<i64>),
    Pairs(Vec<(i64, i64)>),
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as i64 % n
    }

    fn op(&mut self) -> Op {
        let (id, value) = (self.below(40), self.below(30));
        let way = [Direction::Forward, Direction::Backward][self.below(2) as usize];
        match self.below(10) {
            0 | 1 => Op::Read(id),
            2 | 3 => Op::Write(id, value),
            4 => Op::Insert(id),
            5 => Op::Delete(id),
            6 | 7 => Op::Scan(id, id + self.below(12), way),
            _ => Op::ScanValues(value, value + self.below(12), way),
        }
    }
}

/// One operation on the table with an index.
async fn act(access: &mut PageAccess<'_, Conventional>, op: Op) -> Result<Told, Abort> {
    let t = INDEXED;
    Ok(match op {
        Op::Read(id) => Told::Value(access.read(t, &key(id), |row| row.int(1)).await?),
        Op::Write(id, value) => Told::Wrote(access.update(t, &key(id), |row| row.set_int(1, value)).await?),
        Op::Insert(id) => Told::Put(access.insert(t, &key(id), &row(id, 0)).await?),
        Op::Delete(id) => Told::Gone(access.delete(t, &key(id)).await?),
        Op::Scan(low, high, way) => {
            let (mut ids, low, high) = (Vec::new(), key(low), key(high));
            let see = |_: &[u8], row: Row<'_>| {
                ids.push(row.int(0));
                Flow::More
            };
            access.scan(t, Range::new(&low, &high), way, see).await?;
            Told::Ids(ids)
        }
        Op::ScanValues(low, high, way) => {
            let (mut pairs, low, high) = (Vec::new(), key(low), key(high));
            let see = |_: &[u8], row: Row<'_>| {
                pairs.push((row.int(1), row.int(0)));
                Flow::More
            };
            access.scan(BY_VALUE, Range::new(&low, &high), way, see).await?;
            Told::Pairs(pairs)
        }
    })
}

fn replay(model: &mut BTreeMap<i64, i64>, op: Op) -> Told {
    fn turned<T>(way: Direction, mut all: Vec<T>) -> Vec<T> {
        if way == Direction::Backward {
            all.reverse();
        }
        all
    }
    match op {
        Op::Read(id) => Told::Value(model.get(&id).copied()),
        Op::Write(id, value) => Told::Wrote(model.get_mut(&id).map(|v| *v = value)),
        Op::Insert(id) if model.contains_key(&id) => Told::Put(Inserted::Exists),
        Op::Insert(id) => {
            model.insert(id, 0);
            Told::Put(Inserted::Done)
        }
        Op::Delete(id) => Told::Gone(model.remove(&id).is_some()),
        Op::Scan(low, high, way) => {
            Told::Ids(turned(way, model.range(low..high).map(|(id, _)| *id).collect()))
        }
        Op::ScanValues(low, high, way) => {
            let mut pairs: Vec<_> = model.iter().map(|(id, v)| (*v, *id)).collect();
            pairs.retain(|(v, _)| (low..high).contains(v));
            pairs.sort_unstable();
            Told::Pairs(turned(way, pairs))
        }
    }
}

/// Every answer, in order.
fn history(tuning: LockTuning, seed: u64) -> (Vec<Tried<Told>>, Bench) {
    let b = bench_with(tuning, INDEXED, (0..40).step_by(2));
    let mut model: BTreeMap<i64, i64> = (0..40).step_by(2).map(|id| (id, 0)).collect();
    let mut random = Random(seed * 0x9e37_79b9 + 1);
    let mut answers = Vec::new();
    {
        let mut scenes: Vec<_> = (0..3).map(|_| (b.begin(), Vec::new())).collect();
        for step in 0..120 {
            let who = random.below(3) as usize;
            let op = random.op();
            let (scene, done) = &mut scenes[who];
            let answer = once(act(&mut b.access(scene.txn()), op));
            answers.push(answer.clone());
            let over = match answer {
                Done(told) => {
                    done.push((op, told));
                    random.below(6) == 0
                }
                _ => false,
            };
            if !over && matches!(answers.last(), Some(Done(_))) {
                continue;
            }
            let (scene, done) = std::mem::replace(&mut scenes[who], (b.begin(), Vec::new()));
            if !over {
                scene.rollback();
                continue;
            }
            scene.commit();
            for (op, told) in done {
                assert_eq!(replay(&mut model, op), told, "seed {seed}, step {step}, {op:?}, {tuning:?}");
            }
        }
    }
    (answers, b)
}

#[test]
pub fn committed_transactions_ran_one_by_one_whatever_the_lock_manager_does() {
    let (mut inherited, mut escalated, mut waited, mut done) = (0, 0, 0, 0);
    for seed in 0..60 {
        let (plain, _) = history(LockTuning::PLAIN, seed);
        let inheriting = LockTuning { inheritance: Inheritance::On, ..LockTuning::PLAIN };
        let (same, b) = history(inheriting, seed);
        assert_eq!(plain, same, "seed {seed}: inheritance changed an outcome");
        inherited += b.inherited();
        let escalation = Escalation { reads: Some(4), writes: Some(3) };
        let (other, b) = history(LockTuning { escalation, ..inheriting }, seed);
        escalated += b.escalated();
        waited += plain.iter().chain(&other).filter(|a| **a == Waits).count();
        done += plain.iter().chain(&other).filter(|a| matches!(a, Done(_))).count();
    }
    assert!(
        inherited > 500 && escalated > 100 && waited > 500 && done > 5_000,
        "{inherited} {escalated} {waited} {done}"
    );
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park_timeout(Duration::from_secs(5)),
        }
    }
}

/// A committed transaction: its place in the order of commits, and its operations with their
/// results.
type Committed = (u64, Vec<(Op, Told)>);

fn transactions(
    engine: &PageEngine<Conventional>,
    seed: u64,
    order: &AtomicU64,
    all: &Mutex<Vec<Committed>>,
) {
    let executor = Executor::new(Arc::new(|| {}));
    let mut random = Random(seed * 0x9e37_79b9 + 1);
    let mut txn = engine.local_txn();
    for _ in 0..1500 {
        engine.begin(&mut txn, 0, Protection::Locks);
        let mut done = Vec::new();
        let mut access = PageAccess::new(engine, &executor, &mut txn);
        let ops: Vec<Op> = (0..=random.below(4)).map(|_| random.op()).collect();
        let ran = block_on(async {
            for op in ops {
                done.push((op, act(&mut access, op).await?));
            }
            Ok::<(), Abort>(())
        });
        if ran.is_err() || random.below(8) == 0 {
            engine.rollback(&mut txn).unwrap();
            continue;
        }
        // All locks are held: a conflicting transaction has drawn its number before, or draws it
        // after this commit.
        let place = order.fetch_add(1, Ordering::SeqCst);
        engine.commit(&mut txn).unwrap();
        all.lock().unwrap().push((place, done));
    }
}

#[test]
pub fn threads_that_interleave_at_will_ran_one_by_one() {
    let inheriting = LockTuning { inheritance: Inheritance::On, ..LockTuning::PLAIN };
    let escalating = Escalation { reads: Some(6), writes: Some(4) };
    for tuning in [
        LockTuning::PLAIN,
        inheriting,
        LockTuning { victim: Victim::Youngest, ..inheriting },
        LockTuning { escalation: escalating, ..inheriting },
    ] {
        let b = bench_with(tuning, INDEXED, (0..40).step_by(2));
        let (order, all, together) = (AtomicU64::new(0), Mutex::default(), Barrier::new(3));
        std::thread::scope(|scope| {
            for seed in 0..3 {
                let (engine, order, all, together) = (&b.engine, &order, &all, &together);
                scope.spawn(move || {
                    together.wait();
                    transactions(engine, seed, order, all);
                });
            }
        });
        let mut all: Vec<Committed> = all.into_inner().unwrap();
        all.sort_by_key(|(place, _)| *place);
        let mut model: BTreeMap<i64, i64> = (0..40).step_by(2).map(|id| (id, 0)).collect();
        for (place, done) in &all {
            for (op, told) in done {
                assert_eq!(replay(&mut model, *op), *told, "commit {place}, {op:?}, {tuning:?}");
            }
        }
        assert!(all.len() > 1000, "{} committed", all.len());
    }
}
