//! Memory over time: the garbage of transactions goes, however much each of them leaves, and also
//! if no other transaction follows.

use crate::{Memstore, Options, Worker};
use base::TableId;
use std::sync::Arc;

const T: TableId = TableId(1);
const LIVE: u64 = 10_000;

fn store(mib: u64) -> Arc<Memstore> {
    let options = Options { pages: world::PageSize::Normal, ..Options::new(mib << 20, 2) };
    let store = Memstore::open(options).expect("a small store");
    store.create(T).unwrap();
    store
}

/// Rows come at one end and go at the other.
struct Queue {
    head: u64,
    tail: u64,
}

impl Queue {
    fn filled(w: &mut Worker) -> Queue {
        let mut queue = Queue { head: 0, tail: 0 };
        while queue.tail < LIVE {
            let mut txn = w.begin();
            (0..500).for_each(|_| queue.push(w, &mut txn));
            w.commit(txn).map_err(|(refused, _)| refused).unwrap();
        }
        queue
    }

    fn push(&mut self, w: &mut Worker, txn: &mut crate::Txn) {
        w.insert(txn, T, &self.tail.to_be_bytes(), &[7; 100]).expect("room for it");
        self.tail += 1;
    }

    /// One transaction that inserts `n` rows and deletes `n`.
    fn turn(&mut self, w: &mut Worker, n: u64) {
        let mut txn = w.begin();
        for _ in 0..n {
            self.push(w, &mut txn);
            assert_eq!(w.delete(&mut txn, T, &self.head.to_be_bytes()), Ok(true));
            self.head += 1;
        }
        w.commit(txn).map_err(|(refused, _)| refused).unwrap();
    }
}

#[test]
fn a_store_of_constant_size_stays_as_large_as_it_is_however_many_rows_a_transaction_deletes() {
    for (n, per_epoch) in [(64, 1), (65, 10), (128, 1), (128, 4), (512, 3), (5000, 1)] {
        let store = store(128);
        let mut w = store.worker(0).unwrap();
        let mut queue = Queue::filled(&mut w);
        let mut run = |rows: u64| {
            for turn in 0..rows / n {
                queue.turn(&mut w, n);
                if turn % per_epoch == 0 {
                    store.tick();
                }
            }
            store.used_bytes()
        };
        let warm = run(60_000);
        let end = run(240_000);
        assert!(end <= warm + (1 << 20), "{n} rows a transaction: {warm} bytes became {end}");
    }
}

/// The same for overwritten versions, while snapshots are taken.
#[test]
fn versions_go_however_many_a_transaction_leaves() {
    for n in [64, 512, 5000] {
        let store = store(128);
        let mut w = store.worker(0).unwrap();
        Queue::filled(&mut w);
        let mut run = |turns: u64| {
            for turn in 0..turns {
                let snapshot = w.open_snapshot();
                let mut txn = w.begin();
                for key in 0..n {
                    let grow = |row: &mut Vec<u8>| row[0] = turn as u8;
                    assert!(w.update(&mut txn, T, &u64::to_be_bytes(key), grow).unwrap().is_some());
                }
                w.commit(txn).map_err(|(refused, _)| refused).unwrap();
                w.close_snapshot(snapshot);
            }
            store.used_bytes()
        };
        let warm = run(60_000 / n);
        let end = run(240_000 / n);
        assert!(end <= warm + (1 << 20), "{n} rows a transaction: {warm} bytes became {end}");
    }
}

/// An idle worker removes its garbage in steps, each no larger than the given limit.
#[test]
fn an_idle_worker_gives_back_what_its_last_transaction_left() {
    let store = store(32);
    let mut w = store.worker(0).unwrap();
    let mut queue = Queue::filled(&mut w);
    let full = store.used_bytes();
    let mut again = |w: &mut Worker| {
        let mut txn = w.begin();
        while queue.head < queue.tail {
            assert_eq!(w.delete(&mut txn, T, &queue.head.to_be_bytes()), Ok(true));
            queue.head += 1;
        }
        w.commit(txn).map_err(|(refused, _)| refused).unwrap();
        assert!(w.has_garbage());
        let mut steps = 0;
        while w.has_garbage() {
            assert!(w.collect(100) <= 100);
            store.tick();
            steps += 1;
        }
        assert!(steps < 10_000 / 100 + 10, "{steps} steps");
        let mut txn = w.begin();
        (0..LIVE).for_each(|_| queue.push(w, &mut txn));
        w.commit(txn).map_err(|(refused, _)| refused).unwrap();
    };
    (0..5).for_each(|_| again(&mut w));
    let end = store.used_bytes();
    assert!(end <= full + full / 4, "{full} bytes became {end}");
}

/// A row that another transaction has prepared stays garbage for later: the step ends all the same.
#[test]
fn garbage_that_cannot_go_yet_is_looked_at_once_a_step() {
    let store = store(4);
    let mut w = store.worker(0).unwrap();
    let mut txn = w.begin();
    w.insert(&mut txn, T, b"a", b"1").unwrap();
    w.commit(txn).map_err(|(refused, _)| refused).unwrap();
    let mut txn = w.begin();
    assert_eq!(w.delete(&mut txn, T, b"a"), Ok(true));
    w.commit(txn).map_err(|(refused, _)| refused).unwrap();
    let mut other = store.worker(1).unwrap();
    let mut txn = other.begin();
    w.collect(0);
    other.insert(&mut txn, T, b"a", b"2").unwrap();
    other.pre_commit(&mut txn, crate::Scope::Distributed).unwrap();
    store.tick();
    let begun = std::time::Instant::now();
    assert_eq!(w.collect(usize::MAX), 1, "after {:?}", begun.elapsed());
    assert!(w.has_garbage());
    other.abort(txn);
    for _ in 0..4 {
        w.collect(10);
        store.tick();
    }
    assert!(!w.has_garbage());
    assert_eq!(w.find(T, b"a"), Ok(false));
}
