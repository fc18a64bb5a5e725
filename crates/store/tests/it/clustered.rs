//! Clustered tables: they pass the tests of heaps, and some of their own.

use super::*;
use access::Expect;
use base::PageId;
use store::{DeleteOutcome, InsertOutcome, StoreOptions};

/// Runs a test on tables with rows in the leaves.
fn clustered(test: impl FnOnce()) {
    KIND.set(TableKind::Clustered);
    test();
    KIND.set(TableKind::Heap);
}

#[test]
fn what_holds_for_heaps_holds_for_clustered_tables() {
    let tests: &[(&str, fn())] = &[
        ("basics", basics::rows_and_both_indexes_move_together),
        ("basics", basics::a_row_that_outgrows_its_page_keeps_its_entries),
        ("basics", basics::rollback_leaves_no_trace),
        ("basics", basics::an_unexpected_neighbour_is_reported_and_nothing_stays),
        ("basics", basics::what_does_not_fit_is_refused),
        ("basics", basics::a_reused_transaction_gets_a_new_number),
        ("savepoints", savepoints::what_came_after_a_savepoint_is_undone_and_the_rest_commits),
        ("savepoints", savepoints::a_partial_rollback_survives_a_crash_with_the_commit_and_goes_with_it),
        ("savepoints", savepoints::an_operation_that_runs_out_of_room_leaves_nothing_half_done),
        ("savepoints", savepoints::an_update_to_a_key_too_long_for_an_index_changes_nothing),
        ("first_touch", first_touch::opening_reads_no_page_that_nobody_wants),
        ("first_touch", first_touch::what_nobody_wants_is_repeated_beside_the_work),
        ("first_touch", first_touch::a_checkpoint_passes_no_page_that_waits),
        ("first_touch", first_touch::nor_does_one_taken_in_pieces),
        ("first_touch", first_touch::killed_while_pages_wait_it_restarts_from_the_same_place),
        ("large", large::rows_of_a_mebibyte_come_back_after_close_and_after_a_crash),
        ("large", large::changes_over_the_border_are_taken_back_by_rollback_and_by_restart),
        ("large", large::restart_purges_what_a_committed_transaction_left),
        ("large", large::a_large_row_that_finds_no_room_leaves_nothing),
        ("ddl", ddl::a_created_table_is_there_after_commit_and_gone_after_rollback),
        ("ddl", ddl::a_dropped_table_frees_its_pages_after_commit_and_comes_back_by_rollback),
        ("ddl", ddl::an_index_is_built_from_the_rows_there_are_and_kept_from_then_on),
        ("ddl", ddl::a_refused_definition_changes_nothing),
        ("ddl", ddl::a_build_that_fails_gives_its_pages_back),
        ("ddl", ddl::killed_at_any_point_a_schema_change_is_whole_and_loses_no_page),
        ("threads", threads::each_workers_history_is_a_prefix_with_all_that_was_acknowledged),
        ("restart", restart::two_losers_that_changed_the_same_rows_are_undone_youngest_first),
        ("restart", restart::a_restart_cut_at_every_change_is_finished_by_the_next),
        ("load", load::two_rows_with_one_key_are_refused),
    ];
    for (of, test) in tests {
        println!("{of}");
        clustered(test);
    }
}

/// Small nodes, in which rows of more than 300 bytes do not fit.
fn small(files: &Arc<dyn Files>) -> Store {
    let options = StoreOptions { node_bytes: 1200, ..options(Durability::Sync, 300) };
    let (store, _) = Store::open(files.clone(), Path::new("/db"), options).expect("the database opens");
    store
}

/// Accounts with only the index by score: entries by name would be too long for small nodes.
fn accounts() -> TableDef {
    let mut def = schema().tables[0].clone();
    def.indexes.truncate(1);
    TableDef { kind: TableKind::Clustered, ..def }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// One random change, made to the table and to the model.
fn change(store: &Store, txn: &mut Txn, model: &mut Model, random: &mut Random) {
    let table = store.table(ACCOUNTS).expect("created");
    let (id, score) = (random.below(300) as i64, random.below(40) as i64);
    let name = "m".repeat(random.below(25).pow(2) as usize + 1);
    match random.below(8) {
        0..3 => {
            let bytes = row(id, score, &name);
            let put = || store.insert::<L>(txn, table, &key(id), &bytes, Expect::Any);
            let there = model.contains_key(&id);
            assert_eq!(retry(store, put), if there { InsertOutcome::Exists } else { InsertOutcome::Done });
            model.entry(id).or_insert((score, name));
        }
        3 | 4 => {
            let gone = retry(store, || store.delete::<L>(txn, table, &key(id), Expect::Any));
            let was = model.remove(&id);
            assert_eq!(gone, if was.is_some() { DeleteOutcome::Done } else { DeleteOutcome::Missing });
        }
        draw => {
            let set = |row: &mut txn::RowMut<'_>| {
                row.set_int(1, score);
                if draw > 5 {
                    row.set_text(2, &name);
                }
            };
            let done = retry(store, || store.update::<L, _>(txn, table, &key(id), set));
            assert_eq!(done.is_some(), model.contains_key(&id));
            if let Some(now) = model.get_mut(&id) {
                now.0 = score;
                if draw > 5 {
                    now.1 = name;
                }
            }
        }
    }
}

fn assert_is(store: &Store, model: &Model) {
    assert_eq!(&contents(store), model);
    let mut backward: Vec<_> = scan(store, ACCOUNTS, Direction::Backward);
    backward.reverse();
    assert_eq!(backward, scan(store, ACCOUNTS, Direction::Forward));
    let layout = &store.table(ACCOUNTS).expect("created").layout;
    let by_score: Vec<_> = scan(store, BY_SCORE, Direction::Forward)
        .iter()
        .map(|(_, bytes)| (Row::new(layout, bytes).int(1), Row::new(layout, bytes).int(0)))
        .collect();
    let mut expected: Vec<_> = model.iter().map(|(id, (score, _))| (*score, *id)).collect();
    expected.sort_unstable();
    assert_eq!(by_score, expected);
    for id in 0..300 {
        let name = |bytes: &[u8]| Row::new(layout, bytes).text(2).to_owned();
        let table = store.table(ACCOUNTS).expect("created");
        let read = retry(store, || store.get::<L, _>(table, &key(id), name));
        assert_eq!(read.as_ref(), model.get(&id).map(|(_, name)| name));
    }
    let report = crate::examined(store);
    assert_eq!((report.tables[0].trees[0].1.entries, report.lost_pages), (model.len() as u64, 0));
}

/// Rows of 1 to 600 bytes in leaves that take 300: they move to the heap, split leaves and merge
/// them.
#[test]
fn a_clustered_table_behaves_like_a_sorted_map() {
    for seed in 0..4 {
        let (files, mut random, mut model) = (world::memory(), Random(seed), Model::new());
        let store = small(&files);
        store.create(&Schema { tables: vec![accounts()] }).expect("a schema");
        for round in 0..60 {
            let (mut txn, before) = (begin(&store), model.clone());
            (0..random.below(40)).for_each(|_| change(&store, &mut txn, &mut model, &mut random));
            let (savepoint, kept) = (store.savepoint(&txn), model.clone());
            (0..random.below(20)).for_each(|_| change(&store, &mut txn, &mut model, &mut random));
            if random.below(2) == 0 {
                retry(&store, || store.rollback_to::<L>(&mut txn, &savepoint));
                model = kept;
            }
            if random.below(4) == 0 {
                retry(&store, || store.rollback::<L>(&mut txn));
                model = before;
            } else {
                commit(&store, txn);
            }
            if round % 10 == 9 {
                assert_is(&store, &model);
            }
        }
        let heap = store.check().expect("sound").tables[0].heap.clone();
        assert!(
            heap.rows > 20 && heap.rows < model.len() as u64,
            "some rows are too long for a leaf: {heap:?}"
        );
        store.log().wait_stable(store.log().end()).expect("on the device");
        drop(store);
        assert_is(&small(&files), &model);
    }
}

/// A row that has left its leaf and becomes short again, and a row that leaves by an update that is
/// undone.
#[test]
fn a_row_that_outgrows_leaves_goes_to_the_heap_and_undo_brings_it_back() {
    let store = small(&world::memory());
    store.create(&Schema { tables: vec![accounts()] }).expect("a schema");
    let table = store.table(ACCOUNTS).expect("created");
    let long_rows = || store.check().expect("sound").tables[0].heap.rows;
    let set = |txn: &mut Txn, length: usize| {
        let name = "l".repeat(length);
        let set = |row: &mut txn::RowMut<'_>| row.set_text(2, &name);
        assert_eq!(retry(&store, || store.update::<L, _>(txn, table, &key(1), set)), Some(()));
    };
    let name = || contents(&store)[&1].1.len();
    let mut txn = begin(&store);
    retry(&store, || store.insert::<L>(&mut txn, table, &key(1), &row(1, 1, "short"), Expect::Any));
    commit(&store, txn);
    let mut txn = begin(&store);
    set(&mut txn, 590);
    assert_eq!((name(), long_rows()), (590, 1));
    retry(&store, || store.rollback::<L>(&mut txn));
    assert_eq!((name(), long_rows()), (5, 0));
    let mut txn = begin(&store);
    [590, 10, 300].into_iter().for_each(|length| set(&mut txn, length));
    commit(&store, txn);
    assert_eq!((name(), long_rows()), (300, 1));
    let mut txn = begin(&store);
    let gone = retry(&store, || store.delete::<L>(&mut txn, table, &key(1), Expect::Any));
    assert_eq!(gone, DeleteOutcome::Done);
    commit(&store, txn);
    assert_eq!(long_rows(), 0, "the heap's row goes with its entry");
}

/// Rows loaded in order and out of order, by packing and by inserting, equal rows that transactions
/// inserted.
#[test]
fn a_load_equals_inserted_rows_however_they_come() {
    let value = |id: i64| (id % 40, "v".repeat((id * 37 % 500) as usize + 1));
    let model: Model = (0..300).map(|id| (id, value(id))).collect();
    for (order, keep) in [(1, 1 << 20), (7, 1 << 20), (1, 5_000), (7, 5_000)] {
        let store = small(&world::memory());
        store.create(&Schema { tables: vec![accounts()] }).expect("a schema");
        assert!(store.is_blank::<L>().expect("sound"));
        let table = store.table(ACCOUNTS).expect("created");
        let mut loaders = [store.loader().keeping_at_most(keep), store.loader().keeping_at_most(keep)];
        for id in (0..300).map(|id| id * order % 300) {
            let (score, name) = value(id);
            let bytes = row(id, score, &name);
            loaders[(id / 150) as usize].add::<L>(table, Some(&key(id)), &bytes).expect("a row");
        }
        let mut all = store::Loaded::default();
        loaders.into_iter().for_each(|loader| all.merge(loader.finish::<L>().expect("written")));
        store.build_trees::<L>(all).expect("built");
        assert!(!store.is_blank::<L>().expect("sound"));
        assert_is(&store, &model);
    }
}

#[test]
fn a_key_that_comes_twice_is_refused_by_a_load_that_inserts() {
    let store = small(&world::memory());
    store.create(&Schema { tables: vec![accounts()] }).expect("a schema");
    let table = store.table(ACCOUNTS).expect("created");
    let mut loader = store.loader().keeping_at_most(0);
    loader.add::<L>(table, Some(&key(1)), &row(1, 1, "once")).expect("a row");
    let refused = loader.add::<L>(table, Some(&key(1)), &row(1, 1, "twice")).expect_err("refused");
    assert!(refused.to_string().contains("same key"), "{refused}");
}

#[test]
fn a_clustered_table_without_a_key_is_refused() {
    let store = small(&world::memory());
    let def = TableDef { kind: TableKind::Clustered, ..schema().tables[1].clone() };
    let refused = store.create(&Schema { tables: vec![def] }).expect_err("refused");
    assert!(refused.to_string().contains("primary key"), "{refused}");
}

/// Replaces each `old` in a page by `new`, in memory. Returns the number of replacements.
fn plant(store: &Store, old: &[u8], new: &[u8]) -> usize {
    let mut planted = 0;
    for page in 1..store.pages_used() + 1 {
        retry(store, || {
            let mut page = store.pool().exclusive::<L>(PageId(page))?;
            let places: Vec<usize> = page
                .bytes()
                .windows(old.len())
                .enumerate()
                .filter(|(_, w)| *w == old)
                .map(|(at, _)| at)
                .collect();
            for at in places {
                page.bytes_mut()[at..at + new.len()].copy_from_slice(new);
                planted += 1;
            }
            Ok(())
        });
    }
    planted
}

/// The finding of a check on a database in which `old` was replaced by `new`.
fn flaw(old: &[u8], new: &[u8]) -> String {
    let store = small(&world::memory());
    store.create(&Schema { tables: vec![accounts()] }).expect("a schema");
    let (table, mut txn) = (store.table(ACCOUNTS).expect("created"), begin(&store));
    for id in 0..100 {
        let name = format!("name {id:03} {}", "x".repeat((id * 37 % 500) as usize));
        let bytes = row(id, id + 7_000_000, &name);
        retry(&store, || store.insert::<L>(&mut txn, table, &key(id), &bytes, Expect::Any));
    }
    commit(&store, txn);
    store.check().expect("sound");
    assert!(plant(&store, old, new) > 0, "nothing was planted");
    store.check().expect_err("damaged").to_string()
}

#[test]
fn a_check_finds_a_row_under_another_key_and_entries_that_lead_nowhere() {
    // A row has the key of another row.
    let id = |id: i64, score: i64| [id.to_le_bytes(), score.to_le_bytes()].concat();
    let other = flaw(&id(3, 7_000_003), &id(77, 7_000_003));
    assert!(other.contains("another key"), "{other}");
    // A long row in the heap does: number 13 is 490 bytes long.
    let long = flaw(&id(13, 7_000_013), &id(14, 7_000_013));
    assert!(long.contains("another key"), "{long}");
    // A row has another score than its index entry.
    let score = flaw(&id(5, 7_000_005), &id(5, 7_000_006));
    assert!(score.contains("by_score") && score.contains("no entry"), "{score}");
}
