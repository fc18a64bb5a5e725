//! Multi-rooted trees: they pass the tests of trees with one root, and their partitions are split,
//! merged, loaded and owned.

use super::*;
use access::Expect;
use latch::{ByPage, OwnerId, act_for};
use std::sync::Mutex;
use std::thread::scope;
use store::{StoreFault, TreeKind};
use world::memory;

/// Runs a test on tables with multi-rooted trees.
fn multi(test: impl FnOnce()) {
    TREES.set(TreeKind::MultiRooted);
    test();
    TREES.set(TreeKind::BTree);
}

#[test]
fn what_holds_for_one_root_holds_for_several() {
    let tests: &[(&str, fn())] = &[
        ("basics", basics::rows_and_both_indexes_move_together),
        ("basics", basics::rollback_leaves_no_trace),
        ("basics", basics::an_unexpected_neighbour_is_reported_and_nothing_stays),
        ("savepoints", savepoints::a_partial_rollback_survives_a_crash_with_the_commit_and_goes_with_it),
        ("large", large::changes_over_the_border_are_taken_back_by_rollback_and_by_restart),
        ("ddl", ddl::a_created_table_is_there_after_commit_and_gone_after_rollback),
        ("ddl", ddl::a_dropped_table_frees_its_pages_after_commit_and_comes_back_by_rollback),
        ("ddl", ddl::an_index_is_built_from_the_rows_there_are_and_kept_from_then_on),
        ("ddl", ddl::a_build_that_fails_gives_its_pages_back),
        ("ddl", ddl::killed_at_any_point_a_schema_change_is_whole_and_loses_no_page),
        ("restart", restart::two_losers_that_changed_the_same_rows_are_undone_youngest_first),
        ("load", load::two_rows_with_one_key_are_refused),
        ("load", load::what_was_loaded_is_there_at_once_and_after_a_crash),
    ];
    for (of, test) in tests {
        println!("{of}");
        multi(test);
    }
}

fn small_options() -> StoreOptions {
    StoreOptions {
        node_bytes: 400,
        trees: TreeKind::MultiRooted,
        partitions: 4,
        ..options(Durability::Sync, 200)
    }
}

fn small(files: &Arc<dyn Files>) -> (Store, Recovered) {
    Store::open(files.clone(), Path::new("/db"), small_options()).unwrap_or_else(|fault| panic!("{fault}"))
}

fn put(store: &Store, txn: &mut Txn, ids: std::ops::Range<i64>) {
    let table = store.table(ACCOUNTS).expect("created");
    for id in ids {
        // Short enough for an entry of small nodes.
        let bytes = row(id, id % 50, &"n".repeat((id % 20) as usize + 1));
        let put = retry(store, || store.insert::<L>(txn, table, &key(id), &bytes, Expect::Any));
        assert_eq!(put, store::InsertOutcome::Done);
    }
}

fn sound(store: &Store) -> usize {
    let report = crate::examined(store);
    assert_eq!(report.lost_pages, 0);
    contents(store).len()
}

#[test]
fn a_load_divides_each_tree_by_its_entries() {
    let files = memory();
    let (store, _) = small(&files);
    store.create(&schema()).expect("a schema");
    let table = store.table(ACCOUNTS).expect("created");
    let mut loader = store.loader();
    for id in 0..400 {
        loader.add::<L>(table, Some(&key(id)), &row(id, id % 3, "name")).expect("a row");
    }
    store.build_trees::<L>(loader.finish::<L>().expect("written")).expect("built");
    assert_eq!([ACCOUNTS, BY_SCORE, BY_NAME].map(|index| store.partitions(index).len()), [4; 3]);
    assert_eq!(store.partitions(ACCOUNTS)[2], key(200), "the halves have as many rows");
    assert_eq!(sound(&store), 400);
    store.close().expect("closed");
    // The kind is stored in the catalog, not taken from the options.
    let (store, _) = open(&files, Durability::Sync, 200);
    assert_eq!(store.partitions(BY_NAME).len(), 4);
    drop(store);
    let (store, _) = small(&files);
    assert_eq!(sound(&store), 400);
}

/// Returns whether the last change was acknowledged.
fn repartition(files: &Arc<dyn Files>) -> bool {
    let Ok((store, _)) = Store::open(files.clone(), Path::new("/db"), small_options()) else { return false };
    let change = || -> Result<(), StoreFault> {
        let stopped = |stop: Stop| std::io::Error::other(stop.to_string());
        let mut lost = begin(&store);
        put(&store, &mut lost, 100..110);
        for at in [20, 40, 41, 105] {
            store.split_partition::<L>(ACCOUNTS, &key(at)).map_err(stopped)?;
        }
        store.split_partition::<L>(BY_SCORE, &key(3)).map_err(stopped)?;
        let mut txn = begin(&store);
        put(&store, &mut txn, 60..80);
        store.checkpoint()?;
        for at in [40, 105] {
            store.merge_partition::<L>(ACCOUNTS, &key(at)).map_err(stopped)?;
        }
        let end = store.commit(&mut txn, None)?;
        store.log().wait_durable(end)?;
        store.committed::<L>(&mut txn);
        store.merge_partition::<L>(ACCOUNTS, &key(41)).map_err(stopped)?;
        store.checkpoint()?;
        Ok(())
    };
    let acknowledged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(change));
    matches!(acknowledged, Ok(Ok(())))
}

/// A crash at any change of the files, while transactions run, and another one during restart:
/// every split and merge is complete or absent, and no row and no page is lost.
#[test]
fn killed_at_any_point_a_repartitioning_is_whole() {
    let fill = |store: &Store, txn: &mut Txn| put(store, txn, 0..60);
    let changes = killed_before_every_change(small_options, fill, (repartition, 17), |store, done, n| {
        let rows = sound(store);
        assert!(rows == 80 || (rows == 60 && !done), "{rows} rows, killed before change {n}");
        if done {
            assert_eq!(store.partitions(ACCOUNTS), [Key::new(), key(20)]);
        }
    });
    assert!(changes > 10, "only {changes} changes");
}

/// Workers that own partitions of the primary tree work on their rows without latching its pages,
/// and hand partitions on. The secondary trees have no owners.
#[test]
fn owners_work_on_their_partitions_and_hand_them_on() {
    let files = memory();
    let (store, _) = small(&files);
    store.create(&schema()).expect("a schema");
    let mut txn = begin(&store);
    put(&store, &mut txn, 0..400);
    commit(&store, txn);
    for at in [100, 200, 300] {
        store.split_partition::<L>(ACCOUNTS, &key(at)).expect("room");
    }
    let (store, free) = (&store, &Mutex::new(vec![0i64, 100, 200, 300]));
    scope(|scope| {
        for worker in 0..2usize {
            scope.spawn(move || {
                act_for(OwnerId::new(worker));
                let table = store.table(ACCOUNTS).expect("created");
                for turn in 0..20 {
                    let Some(from) = free.lock().unwrap().pop() else { continue };
                    assert!(store.own_partition(ACCOUNTS, &key(from)).expect("nobody's") > 1);
                    let mut txn = begin(store);
                    for id in from..from + 100 {
                        let change = |row: &mut txn::RowMut<'_>| {
                            let score = row.int(1);
                            row.set_int(1, score + 1000);
                        };
                        let done =
                            retry(store, || store.update::<ByPage, _>(&mut txn, table, &key(id), change));
                        assert_eq!(done, Some(()));
                        store.pool().turn();
                    }
                    if turn % 3 == 0 {
                        retry(store, || store.rollback::<ByPage>(&mut txn));
                    } else {
                        store.commit(&mut txn, None).expect("sound");
                        store.committed::<ByPage>(&mut txn);
                    }
                    // The owner may split its own partition and merge it again.
                    store.split_partition::<ByPage>(ACCOUNTS, &key(from + 50)).expect("room");
                    store.merge_partition::<ByPage>(ACCOUNTS, &key(from + 50)).expect("room");
                    store.disown_partition(ACCOUNTS, &key(from)).expect("its own");
                    free.lock().unwrap().insert(0, from);
                }
            });
        }
    });
    assert_eq!(store.partitions(ACCOUNTS).len(), 4);
    assert_eq!(sound(store), 400);
    assert!(contents(store).values().any(|(score, _)| *score >= 1000));
}
