//! Heap pages divided among the leaves, or the partitions, of a table's primary tree. They pass the
//! tests of shared pages. In addition, each page has rows of one part of the keys only, and a row
//! that must move is never lost or duplicated.

use super::*;
use access::Expect;
use latch::{ByPage, Claiming, OwnerId, Policies, act_for, claim};
use std::collections::{BTreeMap, BTreeSet};
use std::thread::scope;
use store::{Divided, InsertOutcome, Reach, Writers};
use world::memory;

const DIVIDED: [HeapForm; 2] = [HeapForm::ByPartition, HeapForm::ByLeaf];

/// No transaction runs, and rows of different leaves are in different pages.
const APART: (Reach, Writers) = (Reach::Leaf, Writers::Gone);

/// Runs a test on tables with divided heap pages, for each form.
fn divided(test: impl Fn()) {
    for form in DIVIDED {
        println!("{}", form.name());
        TREES.set(TreeKind::MultiRooted);
        HEAPS.set(form);
        test();
        TREES.set(TreeKind::BTree);
        HEAPS.set(HeapForm::Shared);
    }
}

#[test]
fn what_holds_for_shared_pages_holds_for_divided_ones() {
    let tests: &[fn()] = &[
        basics::rows_and_both_indexes_move_together,
        basics::rollback_leaves_no_trace,
        basics::an_unexpected_neighbour_is_reported_and_nothing_stays,
        savepoints::a_partial_rollback_survives_a_crash_with_the_commit_and_goes_with_it,
        large::changes_over_the_border_are_taken_back_by_rollback_and_by_restart,
        ddl::a_created_table_is_there_after_commit_and_gone_after_rollback,
        ddl::an_index_is_built_from_the_rows_there_are_and_kept_from_then_on,
        ddl::killed_at_any_point_a_schema_change_is_whole_and_loses_no_page,
        restart::two_losers_that_changed_the_same_rows_are_undone_youngest_first,
    ];
    tests.iter().for_each(divided);
}

/// Small nodes, so that few rows make many leaves. Without row placement, pages would have rows of
/// many leaves.
fn small(files: &Arc<dyn Files>, form: HeapForm) -> Store {
    let options = StoreOptions {
        node_bytes: 400,
        trees: TreeKind::MultiRooted,
        heaps: form,
        partitions: 4,
        ..options(Durability::Sync, 600)
    };
    let (store, _) = Store::open(files.clone(), Path::new("/db"), options).expect("it opens");
    store.create(&schema()).expect("a schema");
    store
}

fn bytes_of(id: i64) -> Vec<u8> {
    row(id, id % 50, &"n".repeat((id % 20) as usize + 1))
}

fn put<P: Policies>(store: &Store, txn: &mut Txn, ids: impl IntoIterator<Item = i64>) {
    let table = store.table(ACCOUNTS).expect("created");
    for id in ids {
        let put = retry(store, || store.insert::<P>(txn, table, &key(id), &bytes_of(id), Expect::Any));
        assert_eq!(put, InsertOutcome::Done);
    }
}

/// The numbers below `n`, in a scattered order.
fn scattered(n: i64) -> impl Iterator<Item = i64> {
    (0..n).map(move |i| i * 7919 % n)
}

/// The number of pages that several leaves of one partition lead to. The check itself verifies that
/// no page belongs to several partitions.
fn undivided(store: &Store) -> u64 {
    let report = crate::examined(store);
    assert_eq!(report.lost_pages, 0);
    report.tables[0].undivided
}

fn settle<P: Policies>(store: &Store, parted: &mut Vec<(TableId, Key)>) -> Divided {
    let (mut all, mut later) = (Divided::default(), Vec::new());
    for (table, at) in parted.drain(..) {
        let (done, _) =
            retry(store, || store.settle_rows::<P>(&mut Txn::default(), table, &at, Writers::Running));
        all += done;
        if done.later > 0 {
            later.push((table, at));
        }
    }
    *parted = later;
    all
}

#[test]
fn a_leaf_that_is_split_takes_its_rows_along_once_nobody_can_undo_them() {
    let files = memory();
    let store = small(&files, HeapForm::ByLeaf);
    let mut parted = Vec::new();
    let mut txn = begin(&store);
    put::<L>(&store, &mut txn, scattered(300));
    parted.extend(store.parted(&mut txn));
    assert!(parted.len() > 10 && undivided(&store) > 0, "leaves were split, and rows stayed");
    let wait = settle::<L>(&store, &mut parted);
    assert!(wait.later > 0 && wait.rows == 0, "the transaction may be undone: {wait:?}");
    commit(&store, txn);
    let moved = settle::<L>(&store, &mut parted);
    assert_eq!((moved.primary, moved.secondary), (moved.rows, 2 * moved.rows));
    assert!(moved.rows > 0 && parted.is_empty());
    assert_eq!((undivided(&store), contents(&store).len()), (0, 300));

    // An undone deletion may bring a row back into a page with rows of another leaf.
    let mut txn = begin(&store);
    let table = store.table(ACCOUNTS).expect("created");
    for id in (0..300).filter(|id| id % 3 == 0) {
        let gone = retry(&store, || store.delete::<L>(&mut txn, table, &key(id), Expect::Any));
        assert_eq!(gone, store::DeleteOutcome::Done);
    }
    let mut other = begin(&store);
    put::<L>(&store, &mut other, 300..500);
    parted.extend(store.parted(&mut other));
    commit(&store, other);
    retry(&store, || store.rollback::<L>(&mut txn));
    parted.extend(store.parted(&mut txn));
    settle::<L>(&store, &mut parted);
    assert_eq!((undivided(&store), parted.len(), contents(&store).len()), (0, 0, 500));
}

#[test]
fn a_row_that_outgrows_its_page_stays_with_its_part_of_the_keys() {
    for form in DIVIDED {
        let files = memory();
        let store = small(&files, form);
        let mut txn = begin(&store);
        put::<L>(&store, &mut txn, 0..200);
        commit(&store, txn);
        for at in [50, 100, 150] {
            retry(&store, || store.divide_rows::<L>(&mut Txn::default(), ACCOUNTS, &key(at), APART));
            store.split_partition::<L>(ACCOUNTS, &key(at)).expect("room");
        }
        let before = contents(&store);
        let table = store.table(ACCOUNTS).expect("created");
        for undo in [true, false] {
            let mut txn = begin(&store);
            for id in 0..200 {
                let grow = |row: &mut txn::RowMut<'_>| row.set_text(2, &"x".repeat(36));
                assert!(retry(&store, || store.update::<L, _>(&mut txn, table, &key(id), grow)).is_some());
            }
            if undo {
                retry(&store, || store.rollback::<L>(&mut txn));
                assert_eq!(contents(&store), before);
            } else {
                commit(&store, txn);
            }
            undivided(&store);
        }
        assert_eq!(store.check().expect("sound").tables[0].heap.moved_rows, 0, "no forwards");
        assert!(contents(&store).values().all(|(_, name)| name.len() == 36));
    }
}

/// The cost model. By leaf, at most the rows of one leaf move. By partition, about half of the rows
/// in pages with both sides move. In shared pages none move.
#[test]
fn rows_are_apart_before_their_partition_is_split() {
    let mut moved = BTreeMap::new();
    for form in HeapForm::ALL {
        let files = memory();
        let store = small(&files, form);
        let mut txn = begin(&store);
        put::<L>(&store, &mut txn, scattered(1000));
        let mut parted = store.parted(&mut txn);
        commit(&store, txn);
        settle::<L>(&store, &mut parted);
        let done = retry(&store, || store.divide_rows::<L>(&mut Txn::default(), ACCOUNTS, &key(505), APART));
        assert_eq!((done.primary, done.secondary, done.later), (done.rows, 2 * done.rows, 0));
        store.split_partition::<L>(ACCOUNTS, &key(505)).expect("room");
        assert_eq!((undivided(&store), contents(&store).len()), (0, 1000), "{form:?}");
        moved.insert(form.name(), (done.rows, done.leaves_read));
    }
    assert_eq!(moved["shared"], (0, 0));
    assert!(moved["leaf"].0 <= 20 && moved["leaf"].1 == 1, "{moved:?}");
    assert!(moved["partition"].0 > 60 && moved["partition"].1 > 50, "{moved:?}");
}

#[test]
fn a_page_with_rows_of_two_partitions_is_damage() {
    let files = memory();
    let store = small(&files, HeapForm::ByPartition);
    let mut txn = begin(&store);
    put::<L>(&store, &mut txn, 0..100);
    commit(&store, txn);
    // A split without separating the rows before it.
    store.split_partition::<L>(ACCOUNTS, &key(50)).expect("room");
    let fault = store.check().unwrap_err().to_string();
    assert!(fault.contains("holds rows of several partitions"), "{fault}");
}

/// A page that lost its last row is reused for rows of any keys. So is a page that an undone
/// insertion took.
#[test]
fn pages_without_rows_are_used_again() {
    for form in DIVIDED {
        let files = memory();
        let store = small(&files, form);
        let table = store.table(ACCOUNTS).expect("created");
        let pages = |store: &Store| store.check().expect("sound").tables[0].heap.pages;
        let mut most = 0;
        for round in 0..12i64 {
            let ids = round * 400..(round + 1) * 400;
            let mut txn = begin(&store);
            put::<L>(&store, &mut txn, ids.clone());
            if round % 3 == 2 {
                retry(&store, || store.rollback::<L>(&mut txn));
                continue;
            }
            commit(&store, txn);
            most = most.max(pages(&store));
            let mut txn = begin(&store);
            for id in ids {
                retry(&store, || store.delete::<L>(&mut txn, table, &key(id), Expect::Any));
            }
            commit(&store, txn);
        }
        let (now, first) = (pages(&store), most);
        assert!(now <= first + 8 * 12, "{now} pages, {first} at most held rows");
    }
}

/// Each of two threads has half of the partitions. The pages that it changes become its own, heap
/// pages as well as index pages, and no thread latches them.
#[test]
fn owners_take_over_the_heap_pages_that_they_change() {
    for form in DIVIDED {
        let files = memory();
        let store = small(&files, form);
        let mut txn = begin(&store);
        put::<L>(&store, &mut txn, scattered(400));
        let mut parted = store.parted(&mut txn);
        commit(&store, txn);
        settle::<L>(&store, &mut parted);
        for at in [100, 200, 300] {
            retry(&store, || store.divide_rows::<L>(&mut Txn::default(), ACCOUNTS, &key(at), APART));
            store.split_partition::<L>(ACCOUNTS, &key(at)).expect("room");
        }
        store.have_owners(|_| true);
        let store = &store;
        let owned: Vec<BTreeSet<u32>> = scope(|scope| {
            let work = |worker: i64| {
                act_for(OwnerId::new(worker as usize));
                claim(Claiming::Pages);
                for from in [200 * worker, 200 * worker + 100] {
                    assert!(store.own_partition(ACCOUNTS, &key(from)).expect("nobody's") > 1);
                }
                let table = store.table(ACCOUNTS).expect("created");
                let mut parted = Vec::new();
                for round in 0..6 {
                    let mut txn = begin(store);
                    for id in 200 * worker..200 * worker + 200 {
                        let grow = |row: &mut txn::RowMut<'_>| row.set_text(2, &"x".repeat(10 + 5 * round));
                        let done = || store.update::<ByPage, _>(&mut txn, table, &key(id), grow);
                        assert!(retry(store, done).is_some());
                        store.pool().turn();
                    }
                    if round % 3 == 1 {
                        retry(store, || store.rollback::<ByPage>(&mut txn));
                    } else {
                        store.commit(&mut txn, None).expect("sound");
                        store.committed::<ByPage>(&mut txn);
                    }
                    parted.extend(store.parted(&mut txn));
                    settle::<ByPage>(store, &mut parted);
                }
                let me = OwnerId::new(worker as usize);
                let all = 1..store.pages_used() + 50;
                let mine = all.filter(|&page| store.pool().owner_of(base::PageId(page)) == me).collect();
                assert!(store.pool().disown_mine().expect("nothing is held") > 20);
                claim(Claiming::Nothing);
                act_for(None);
                mine
            };
            let threads = [0, 1].map(|worker| scope.spawn(move || work(worker)));
            threads.map(|thread| thread.join().expect("no panic")).into()
        });
        assert!(owned[0].is_disjoint(&owned[1]));
        assert_eq!(contents(store).len(), 400);
        undivided(store);
    }
}

/// The work of an owner before it gives up keys, while its transactions run. Rows that may be
/// undone stay until their transactions have ended, and new rows stay on their side.
#[test]
fn rows_come_apart_beside_transactions() {
    act_for(OwnerId::new(0));
    claim(Claiming::Pages);
    for form in DIVIDED {
        let files = memory();
        let store = small(&files, form);
        let mut txn = begin(&store);
        put::<L>(&store, &mut txn, scattered(1000).filter(|id| id % 2 == 0));
        let mut parted = store.parted(&mut txn);
        commit(&store, txn);
        settle::<L>(&store, &mut parted);
        store.have_owners(|_| true);
        assert!(store.own_partition(ACCOUNTS, &key(0)).expect("nobody's") > 10);
        let (table, before) = (store.table(ACCOUNTS).expect("created"), contents(&store));
        let divide = || {
            let begun = store.begin_division::<ByPage>(ACCOUNTS, &key(505), Reach::Leaf);
            let (mut division, mut done) =
                (begun.expect("sound").expect("pages are divided"), Divided::default());
            while !division.is_done() {
                let txn = &mut Txn::default();
                let piece = store.go_on_dividing::<ByPage>(txn, &mut division, Writers::Running, 1);
                done += piece.expect("room");
            }
            (division, done)
        };
        let mut undone = begin(&store);
        for id in [500, 504, 506, 510] {
            let change = |row: &mut txn::RowMut<'_>| row.set_int(1, 49);
            assert!(
                retry(&store, || store.update::<ByPage, _>(&mut undone, table, &key(id), change)).is_some()
            );
        }
        let (_, first) = divide();
        assert!(first.later > 0, "{form:?}: {first:?}");
        retry(&store, || store.rollback::<ByPage>(&mut undone));
        assert_eq!(contents(&store), before, "{form:?}");
        let (division, second) = divide();
        assert!(second.later == 0 && second.rows > 0, "{form:?}: {second:?}");
        let mut txn = begin(&store);
        put::<ByPage>(&store, &mut txn, scattered(1000).filter(|id| id % 2 == 1));
        let mut parted = store.parted(&mut txn);
        commit(&store, txn);
        settle::<ByPage>(&store, &mut parted);
        let last =
            store.divide_rows::<ByPage>(&mut Txn::default(), ACCOUNTS, &key(505), APART).expect("room");
        // At most the rows of the leaf at the border, some twenty.
        assert!(last.rows <= 20, "{form:?}: {last:?}");
        drop(division);
        store.split_partition::<ByPage>(ACCOUNTS, &key(505)).expect("room");
        store.pool().disown_mine().expect("nothing is held");
        assert_eq!((undivided(&store), contents(&store).len()), (0, 1000), "{form:?}");
    }
    claim(Claiming::Nothing);
    act_for(None);
}

/// Rows loaded in key order make leaves that end where pages end, so that no row has to move.
#[test]
fn a_load_ends_leaves_where_pages_end() {
    let logged = HeapForm::ALL.map(|form| {
        let files = memory();
        let (store, _) = Store::open(
            files.clone(),
            Path::new("/db"),
            StoreOptions { trees: TreeKind::MultiRooted, heaps: form, ..options(Durability::Sync, 600) },
        )
        .expect("it opens");
        store.create(&schema()).expect("a schema");
        let table = store.table(ACCOUNTS).expect("created");
        let mut loader = store.loader();
        for id in 0..6000 {
            loader.add::<L>(table, Some(&key(id)), &bytes_of(id)).expect("a row");
        }
        store.build_trees::<L>(loader.finish::<L>().expect("written")).expect("built");
        assert_eq!((undivided(&store), contents(&store).len()), (0, 6000));
        let report = store.check().expect("sound");
        (report.tables[0].heap.pages, report.tables[0].trees[0].1.leaves)
    });
    let [shared, partition, leaf] = logged;
    assert!(partition.0 <= shared.0 + 3 && leaf.0 <= shared.0 + 6, "{logged:?} heap pages and leaves");
    // At worst half as full: here a page has more than half as many rows as a leaf has entries.
    assert!(leaf.1 <= shared.1 * 2, "{logged:?} heap pages and leaves");
}

/// After a load in random order, each page has rows of every part of the keys. With a separate page
/// for each part of each page, the table would take as many times the pages as a page has parts.
#[test]
fn a_load_in_no_order_fills_its_pages() {
    const ROWS: i64 = 6_000;
    let [shared, partition, leaf] = HeapForm::ALL.map(|form| {
        let files = memory();
        let options = StoreOptions {
            trees: TreeKind::MultiRooted,
            heaps: form,
            partitions: 30,
            ..options(Durability::Sync, 1_000)
        };
        let (store, _) = Store::open(files.clone(), Path::new("/db"), options).expect("it opens");
        store.create(&schema()).expect("a schema");
        let table = store.table(ACCOUNTS).expect("created");
        let mut loader = store.loader();
        for id in scattered(ROWS) {
            loader.add::<L>(table, Some(&key(id)), &bytes_of(id)).expect("a row");
        }
        store.build_trees::<L>(loader.finish::<L>().expect("written")).expect("built");
        assert_eq!((undivided(&store), contents(&store).len()), (0, ROWS as usize));
        let report = store.check().expect("sound");
        (report.tables[0].heap.pages, report.tables[0].trees[0].1.leaves)
    });
    // Each of the 30 parts may have one page that is begun and not filled, and one that is half
    // full because rows differ in length.
    assert!(partition.0 <= shared.0 + 2 * 30, "{shared:?} {partition:?} heap pages and leaves");
    assert!(leaf.0 <= 2 * shared.0 + leaf.1, "{shared:?} {leaf:?} heap pages and leaves");
    eprintln!("{shared:?} {partition:?} {leaf:?} heap pages and leaves");
}
