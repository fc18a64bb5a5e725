//! Several workers, a checkpointer, few frames, and a sudden end. Each worker's history must
//! survive as a prefix that contains all acknowledged steps.

use crate::files::{Life, Mortal};
use crate::{ACCOUNTS, HISTORY, L, Model, contents, history, key, options, row, schema};
use access::Expect;
use pages::Stop;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::{Store, StoreFault, Txn};
use txn::RowBuf;
use wal::Durability;
use world::Files;

const WORKERS: i64 = 3;
/// Numbers of one worker's transactions: `worker * PER_WORKER ..`.
const PER_WORKER: i64 = 1_000_000;

fn retry<T>(store: &Store, mut op: impl FnMut() -> Result<T, Stop>) -> Result<T, StoreFault> {
    loop {
        match op() {
            Ok(done) => return Ok(done),
            Err(Stop::Page(page)) => store.load_page(page)?,
            Err(Stop::Again) => std::thread::yield_now(),
            Err(Stop::NoSpace) => panic!("the pool is too small for the test"),
            Err(Stop::Fault(fault)) => return Err(StoreFault::Page(fault)),
        }
    }
}

/// The changes of a worker's `step`-th transaction to its own keys. A pure function, so that it can
/// be replayed on a model.
fn plan(worker: i64, step: i64) -> Vec<(i64, Option<(i64, String)>)> {
    let mut x = (worker * 7919 + step + 1) as u64;
    let mut below = |n: u64| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 33) % n
    };
    let mut all = Vec::new();
    for _ in 0..1 + below(5) {
        let id = below(60) as i64 * WORKERS + worker;
        let gone = below(4) == 0;
        let name = "w".repeat(below(200) as usize + 1);
        all.push((id, (!gone).then_some((step, name))));
    }
    all
}

fn model(worker: i64, steps: impl Iterator<Item = i64>) -> Model {
    let mut model = Model::new();
    for (id, now) in steps.flat_map(|step| plan(worker, step)) {
        match now {
            Some(row) => drop(model.insert(id, row)),
            None => drop(model.remove(&id)),
        }
    }
    model
}

fn run(store: &Store, txn: &mut Txn, worker: i64, step: i64) -> Result<base::Lsn, StoreFault> {
    let table = store.table(ACCOUNTS).expect("created");
    store.begin(txn, worker as usize);
    for (id, now) in plan(worker, step) {
        let Some((score, name)) = now else {
            retry(store, || store.delete::<L>(txn, table, &key(id), Expect::Any))?;
            continue;
        };
        let set = |row: &mut txn::RowMut<'_>| {
            row.set_int(1, score);
            row.set_text(2, &name);
        };
        if retry(store, || store.update::<L, _>(txn, table, &key(id), set))?.is_none() {
            let bytes = row(id, score, &name);
            retry(store, || store.insert::<L>(txn, table, &key(id), &bytes, Expect::Any))?;
        }
    }
    let table = store.table(HISTORY).expect("created");
    let mut buf = RowBuf::new(&table.def);
    buf.start().set_int(0, worker * PER_WORKER + step);
    retry(store, || store.append::<L>(txn, table, buf.bytes()))?;
    let lsn = store.commit(txn, None)?;
    store.committed::<L>(txn);
    Ok(lsn)
}

/// Works until the files fail. Returns the number of acknowledged steps.
fn work(store: &Store, worker: i64, from: i64, acknowledged: &AtomicU64) {
    let mut txn = Txn::default();
    for step in from.. {
        let Ok(lsn) = run(store, &mut txn, worker, step) else { return };
        if step % 3 == 0 {
            if store.log().wait_durable(lsn).is_err() {
                return;
            }
            acknowledged.store(step as u64 + 1, Ordering::Relaxed);
        }
    }
}

#[test]
pub fn each_workers_history_is_a_prefix_with_all_that_was_acknowledged() {
    let files: Arc<dyn Files> = world::memory();
    let mut done = [0i64; WORKERS as usize];
    for round in 0..6 {
        let life = Life::of_changes(800 + 400 * round);
        let acknowledged: Vec<AtomicU64> = done.iter().map(|&d| AtomicU64::new(d as u64)).collect();
        let opened =
            Store::open(Mortal::over(&files, &life), Path::new("/db"), options(Durability::Sync, 40));
        if let Ok((store, _)) = opened
            && store.create(&schema()).is_ok()
        {
            std::thread::scope(|scope| {
                for (worker, (from, acknowledged)) in done.iter().zip(&acknowledged).enumerate() {
                    let store = &store;
                    scope.spawn(move || work(store, worker as i64, *from, acknowledged));
                }
                scope.spawn(|| {
                    while store.checkpoint().is_ok() {
                        std::thread::sleep(std::time::Duration::from_millis(3));
                    }
                });
            });
        }
        let (store, _) = Store::open(files.clone(), Path::new("/db"), options(Durability::Sync, 40)).unwrap();
        if store.schema().is_none() {
            continue;
        }
        store.check().unwrap_or_else(|e| panic!("round {round}: {e}"));
        let (found, rows) = (history(&store), contents(&store));
        for worker in 0..WORKERS {
            let of_worker = found.iter().filter(|n| *n / PER_WORKER == worker).map(|n| n % PER_WORKER);
            let steps: Vec<i64> = of_worker.collect();
            let count = steps.len() as i64;
            assert_eq!(steps, (0..count).collect::<Vec<_>>(), "round {round}: worker {worker}'s steps");
            let safe = acknowledged[worker as usize].load(Ordering::Relaxed) as i64;
            assert!(count >= safe, "round {round}: worker {worker} was told {safe} steps, {count} survived");
            let own: Model =
                rows.iter().filter(|r| r.0 % WORKERS == worker).map(|(k, v)| (*k, v.clone())).collect();
            assert_eq!(own, model(worker, 0..count), "round {round}: worker {worker}'s rows");
            done[worker as usize] = count;
        }
        store.close().unwrap();
    }
    assert!(done.iter().sum::<i64>() > 100, "the workers did nothing: {done:?}");
}

#[test]
fn a_store_is_shared_and_a_transaction_moves() {
    fn shared<T: Send + Sync>() {}
    fn moves<T: Send>() {}
    shared::<Store>();
    moves::<Txn>();
}
