//! Workers that own heap pages. Each inserts, updates and deletes rows of its own keys, on its own
//! thread, and keeps rows of different leaves, or partitions, apart meanwhile.

use base::{Key, TableId};
use exec::{
    DesignKind, Engine, EngineOptions, Executor, HeapForm, KeyOwners, PageEngine, Partitioned, Protection,
    Setup, SiteRange,
};
use latch::OwnerId;
use locks::LockTuning;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};
use std::thread::scope;
use txn::{Access, Column, IndexDef, Inserted, RowBuf, Schema, TableDef, TableKind, Type};
use wal::Durability;

const T: TableId = TableId(1);
const LOG: TableId = TableId(9);
const KEYS: i64 = 8_000;

type Owned = PageEngine<Partitioned>;

fn schema() -> Schema {
    let rows = TableDef {
        id: T,
        name: "t".into(),
        columns: vec![
            Column::new("id", Type::I64),
            Column::new("value", Type::I64),
            Column::new("text", Type::Text(80)),
        ],
        key: vec![0],
        indexes: vec![IndexDef { id: TableId(2), name: "by_value".into(), columns: vec![1] }],
        domain: KEYS as u64,
        kind: TableKind::Heap,
    };
    let log = TableDef { id: LOG, name: "log".into(), key: vec![], indexes: vec![], ..rows.clone() };
    Schema { tables: vec![rows, log] }
}

fn setup(design: DesignKind, dir: &std::path::Path) -> Setup {
    Setup {
        design,
        dir: dir.into(),
        durability: Durability::Async,
        pool_pages: 4096,
        workers: 2,
        options: EngineOptions {
            locks: LockTuning::PLAIN,
            lock_timeout_ms: 1 << 20,
            ..EngineOptions::of(design)
        },
        schema: schema(),
        site_range: SiteRange { sites: 2, own: 0..2, lock_columns: vec![(T, 1)] },
    }
}

fn once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("everything is in memory, and nobody has a lock"),
    }
}

/// Works on the keys of `worker` while it owns its pages; returns how many pages it owned at the
/// end.
fn work(engine: &Arc<Owned>, worker: usize, together: &Barrier) -> usize {
    let (ctx, executor) = (engine.worker_context(worker, Arc::new(|| {})), Executor::new(Arc::new(|| {})));
    engine.take_over(&ctx);
    Engine::turn(engine, &ctx);
    together.wait();
    let mine = |n: i64| worker as i64 * KEYS / 2 + n * 2_477 % (KEYS / 2);
    let mut buf = RowBuf::new(&schema().tables[0]);
    let mut txn = Engine::local_txn(&**engine, &ctx);
    for round in 0..600i64 {
        Engine::begin(&**engine, &ctx, &mut txn, Protection::Unlocked);
        let ids = (round * 5..round * 5 + 5).map(mine);
        for id in ids {
            let key = Key::new().i64(id);
            let mut access = engine.access(&ctx, &executor, &mut txn);
            let mut row = buf.start();
            row.set_int(0, id);
            row.set_int(1, id % 97);
            row.set_text(2, "short");
            assert_eq!(once(access.insert(T, &key, buf.bytes())), Ok(Inserted::Done));
            once(access.append(LOG, buf.bytes())).unwrap();
            if id % 3 == 0 {
                let grow = |row: &mut txn::RowMut<'_>| row.set_text(2, &"long".repeat(15));
                assert_eq!(once(access.update(T, &key, grow)), Ok(Some(())));
            }
            if id % 4 == 0 {
                assert_eq!(once(access.delete(T, &key)), Ok(true));
            }
        }
        if round % 7 == 6 {
            Engine::rollback(&**engine, &ctx, &mut txn).unwrap();
        } else {
            Engine::commit(&**engine, &ctx, &mut txn).unwrap();
        }
        Engine::turn(engine, &ctx);
    }
    let pool = engine.store().pool();
    let pages = (1..engine.store().pages_used()).map(base::PageId);
    let owned = pages.filter(|page| pool.owner_of(*page) == OwnerId::new(worker)).count();
    together.wait();
    engine.give_back(&ctx);
    together.wait();
    engine.leave(&ctx);
    owned
}

#[test]
fn owners_keep_their_rows_in_pages_of_their_own() {
    for design in [DesignKind::PlpRegular, DesignKind::PlpPartition, DesignKind::PlpLeaf] {
        let dir = tempfile::tempdir().unwrap();
        let (engine, _) = Owned::open(&setup(design, dir.path())).unwrap();
        let (engine, together) = (Arc::new(engine), Barrier::new(2));
        let owned = scope(|scope| {
            let threads = [0, 1].map(|worker| {
                let (engine, together) = (&engine, &together);
                scope.spawn(move || work(engine, worker, together))
            });
            threads.map(|thread| thread.join().expect("no panic"))
        });
        let report = engine.store().check().unwrap_or_else(|fault| panic!("{design}: {fault}"));
        let table = &report.tables[0];
        assert_eq!((table.form, table.undivided), (design.heap_form(), 0), "{design}");
        // 3,000 for each worker, less a quarter, and less those of every seventh transaction.
        assert!((3_500..4_200).contains(&table.rows()), "{design}: {} rows", table.rows());
        let heap_too = design.heap_form() != HeapForm::Shared;
        assert!(owned.iter().all(|pages| (*pages > 18) == heap_too), "{design}: {owned:?} pages");
        let next = (1..engine.store().pages_used()).map(base::PageId);
        assert_eq!(
            next.filter(|page| engine.store().pool().owner_of(*page).is_some()).count(),
            0,
            "{design}"
        );
        let Some(engine) = Arc::into_inner(engine) else { panic!("a thread has kept it") };
        Engine::close(engine).unwrap();
        // Divided by leaf, no row has to move when other workers own other parts.
        let more = Setup {
            workers: 3,
            site_range: SiteRange { sites: 3, own: 0..3, lock_columns: vec![(T, 1)] },
            ..setup(design, dir.path())
        };
        let (engine, _) = Owned::open(&more).unwrap();
        engine.store().check().unwrap_or_else(|fault| panic!("{design}: {fault}"));
        let other = setup(
            if design == DesignKind::PlpLeaf { DesignKind::PlpPartition } else { DesignKind::PlpLeaf },
            dir.path(),
        );
        drop(engine);
        let refused = Owned::open(&other).err().unwrap().to_string();
        assert!(refused.contains("--heap"), "{refused}");
    }
}
