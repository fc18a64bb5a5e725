//! Tables and indexes that are created and dropped by transactions.

use crate::{
    ACCOUNTS, BY_NAME, BY_SCORE, HISTORY, L, begin, commit, contents, key, killed_before_every_change,
    options, retry, row, scan, schema,
};
use access::Expect;
use base::TableId;
use std::path::Path;
use std::sync::Arc;
use store::{Store, StoreFault, Txn};
use txn::{Direction, IndexDef, TableDef};
use wal::Durability;
use world::Files;

const BY_BOTH: TableId = TableId(7);

fn by_both() -> IndexDef {
    IndexDef { id: BY_BOTH, name: "by_both".into(), columns: vec![2, 1] }
}

fn accounts() -> TableDef {
    schema().tables[0].clone()
}

/// Enough rows for several levels in every tree with small nodes.
fn fill(store: &Store, txn: &mut Txn, ids: std::ops::Range<i64>) {
    let table = store.table(ACCOUNTS).unwrap();
    for id in ids {
        let bytes = row(id, id % 7, &format!("name {}", id * 7919 % 1000));
        retry(store, || store.insert::<L>(txn, table, &key(id), &bytes, Expect::Any));
    }
}

fn small(files: &Arc<dyn Files>) -> (Store, store::Recovered) {
    Store::open(files.clone(), Path::new("/db"), small_options()).unwrap_or_else(|fault| panic!("{fault}"))
}

/// Every page in use is reached from the catalog, once.
fn no_page_is_lost(store: &Store) {
    let report = crate::examined(store);
    assert_eq!(report.lost_pages, 0);
}

#[test]
pub fn a_created_table_is_there_after_commit_and_gone_after_rollback() {
    let files = world::memory();
    let (store, _) = small(&files);
    let before = store.pages_used();
    let mut txn = begin(&store);
    store.create_table::<L>(&mut txn, &accounts()).unwrap();
    fill(&store, &mut txn, 0..200);
    retry(&store, || store.rollback::<L>(&mut txn));
    assert!(store.table(ACCOUNTS).is_none() && store.index(BY_SCORE).is_none() && store.schema().is_none());
    assert!(store.pages_used() <= before + 2, "the catalog's own pages stay");
    no_page_is_lost(&store);

    let mut txn = begin(&store);
    store.create_table::<L>(&mut txn, &accounts()).unwrap();
    fill(&store, &mut txn, 0..200);
    commit(&store, txn);
    assert_eq!(contents(&store).len(), 200);
    store.close().unwrap();
    let (store, _) = small(&files);
    assert_eq!(store.schema().unwrap().tables, [accounts()]);
    assert_eq!(contents(&store).len(), 200);
    no_page_is_lost(&store);
}

#[test]
pub fn a_dropped_table_frees_its_pages_after_commit_and_comes_back_by_rollback() {
    let files = world::memory();
    let (store, _) = small(&files);
    let empty = store.pages_used();
    store.create(&schema()).unwrap();
    let mut txn = begin(&store);
    fill(&store, &mut txn, 0..300);
    commit(&store, txn);
    let full = store.pages_used();

    let mut txn = begin(&store);
    fill(&store, &mut txn, 300..310);
    let savepoint = store.savepoint(&txn);
    store.drop_table::<L>(&mut txn, ACCOUNTS).unwrap();
    assert!(store.table(ACCOUNTS).is_none() && store.index(BY_NAME).is_none());
    assert!(store.drop_table::<L>(&mut txn, ACCOUNTS).is_err());
    retry(&store, || store.rollback_to::<L>(&mut txn, &savepoint));
    assert_eq!(contents(&store).len(), 310);
    store.drop_table::<L>(&mut txn, ACCOUNTS).unwrap();
    // The rows inserted before the drop are undone after the drop has been undone.
    retry(&store, || store.rollback::<L>(&mut txn));
    assert_eq!(contents(&store).len(), 300);
    assert!(store.pages_used() >= full);
    no_page_is_lost(&store);

    let mut txn = begin(&store);
    store.drop_table::<L>(&mut txn, ACCOUNTS).unwrap();
    store.drop_table::<L>(&mut txn, HISTORY).unwrap();
    commit(&store, txn);
    assert!(store.schema().is_none());
    assert!(store.pages_used() <= empty + 2);
    no_page_is_lost(&store);
    // The ids can be used again, with another meaning.
    let mut other = accounts();
    (other.id, other.indexes) = (BY_SCORE, vec![]);
    let mut txn = begin(&store);
    store.create_table::<L>(&mut txn, &other).unwrap();
    commit(&store, txn);
    store.close().unwrap();
    assert_eq!(small(&files).0.schema().unwrap().tables, [other]);
}

#[test]
pub fn an_index_is_built_from_the_rows_there_are_and_kept_from_then_on() {
    let files = world::memory();
    let (store, _) = small(&files);
    store.create(&schema()).unwrap();
    let mut txn = begin(&store);
    fill(&store, &mut txn, 0..500);
    commit(&store, txn);
    let mut txn = begin(&store);
    store.create_index::<L>(&mut txn, ACCOUNTS, &by_both()).unwrap();
    fill(&store, &mut txn, 500..520);
    let half = store.savepoint(&txn);
    store.drop_index::<L>(&mut txn, BY_BOTH).unwrap();
    store.drop_index::<L>(&mut txn, BY_SCORE).unwrap();
    fill(&store, &mut txn, 520..540);
    retry(&store, || store.rollback_to::<L>(&mut txn, &half));
    store.drop_index::<L>(&mut txn, BY_NAME).unwrap();
    commit(&store, txn);
    no_page_is_lost(&store);
    assert_eq!(scan(&store, BY_BOTH, Direction::Forward).len(), 520);
    let ids: Vec<_> = store.table(ACCOUNTS).unwrap().def.indexes.iter().map(|i| i.id).collect();
    assert_eq!(ids, [BY_SCORE, BY_BOTH]);
    store.close().unwrap();
    let (store, _) = small(&files);
    no_page_is_lost(&store);
    assert_eq!(scan(&store, BY_BOTH, Direction::Backward).len(), 520);
}

#[test]
pub fn a_refused_definition_changes_nothing() {
    let (store, _) = small(&world::memory());
    store.create(&schema()).unwrap();
    let mut txn = begin(&store);
    fill(&store, &mut txn, 0..50);
    let used = store.pages_used();
    let refused = |done: Result<(), StoreFault>, why: &str| {
        let text = done.expect_err(why).to_string();
        assert!(text.contains(why), "{text}");
    };
    refused(
        store.create_index::<L>(&mut txn, ACCOUNTS, &IndexDef { columns: vec![9], ..by_both() }),
        "column 9",
    );
    refused(
        store.create_index::<L>(&mut txn, ACCOUNTS, &IndexDef { id: HISTORY, ..by_both() }),
        "same id 10",
    );
    refused(
        store.create_index::<L>(&mut txn, HISTORY, &IndexDef { columns: vec![0], ..by_both() }),
        "primary key",
    );
    refused(store.create_index::<L>(&mut txn, BY_BOTH, &by_both()), "no table 7");
    refused(store.create_table::<L>(&mut txn, &TableDef { id: TableId(u16::MAX), ..accounts() }), "same id");
    let lonely = TableDef { id: TableId(u16::MAX), indexes: vec![], ..accounts() };
    refused(store.create_table::<L>(&mut txn, &lonely), "catalog's own");
    refused(store.drop_table::<L>(&mut txn, BY_NAME), "no table 3");
    refused(store.drop_index::<L>(&mut txn, ACCOUNTS), "no index 1");
    let table = store.table(ACCOUNTS).unwrap();
    let long = row(99, 0, &"x".repeat(60));
    retry(&store, || store.insert::<L>(&mut txn, table, &key(99), &long, Expect::Any));
    assert!(store.prepare(&mut begin(&store), b"").is_ok());
    assert_eq!(store.pages_used(), used);
    commit(&store, txn);
    assert_eq!(store.schema().unwrap(), schema());
    no_page_is_lost(&store);

    let mut txn = begin(&store);
    store.drop_index::<L>(&mut txn, BY_NAME).unwrap();
    refused(store.prepare(&mut txn, b"note").map(drop), "cannot be prepared");
    retry(&store, || store.rollback::<L>(&mut txn));
    no_page_is_lost(&store);
}

/// A row with an index entry that is too long for a node makes the building fail half-way.
#[test]
pub fn a_build_that_fails_gives_its_pages_back() {
    let (store, _) = small(&world::memory());
    let mut plain = accounts();
    plain.indexes.clear();
    let mut txn = begin(&store);
    store.create_table::<L>(&mut txn, &plain).unwrap();
    fill(&store, &mut txn, 0..100);
    let table = store.table(ACCOUNTS).unwrap();
    let long = row(100, 0, &"z".repeat(300));
    retry(&store, || store.insert::<L>(&mut txn, table, &key(100), &long, Expect::Any));
    let used = store.pages_used();
    let by_name = IndexDef { columns: vec![2], ..by_both() };
    let fault = store.create_index::<L>(&mut txn, ACCOUNTS, &by_name).unwrap_err();
    assert!(fault.to_string().contains("at most 50 fit"), "{fault}");
    assert_eq!(store.pages_used(), used);
    commit(&store, txn);
    assert_eq!(contents(&store).len(), 101);
    no_page_is_lost(&store);
}

/// One scenario, killed before its n-th change to the files, for every n; each restart is killed
/// once as well. The next opening finds the state before or after the transaction, complete, and no
/// page is lost.
#[test]
pub fn killed_at_any_point_a_schema_change_is_whole_and_loses_no_page() {
    let fill = |store: &Store, txn: &mut Txn| fill(store, txn, 0..60);
    let changes = killed_before_every_change(small_options, fill, (change_schema, 23), |store, done, n| {
        no_page_is_lost(store);
        let tables = store.schema().unwrap().tables;
        let changed = tables[0].indexes.iter().any(|i| i.id == BY_BOTH);
        assert_eq!(tables.len(), if changed { 1 } else { 2 }, "killed before change {n}");
        assert_eq!(contents(store).len(), if changed { 80 } else { 60 });
        assert!(changed || !done, "what was acknowledged is lost, killed before change {n}");
    });
    assert!(changes > 20, "only {changes} changes");
}

fn small_options() -> store::StoreOptions {
    store::StoreOptions { node_bytes: 400, ..options(Durability::Sync, 200) }
}

/// Returns whether it was acknowledged.
fn change_schema(files: &Arc<dyn Files>) -> bool {
    let Ok((store, _)) = Store::open(files.clone(), Path::new("/db"), small_options()) else { return false };
    let change = || -> Result<(), StoreFault> {
        let mut lost = begin(&store);
        let temporary = TableDef { id: TableId(20), indexes: vec![], ..accounts() };
        store.create_table::<L>(&mut lost, &temporary)?;
        let mut txn = begin(&store);
        store.create_index::<L>(&mut txn, ACCOUNTS, &by_both())?;
        fill(&store, &mut txn, 60..80);
        store.drop_index::<L>(&mut txn, BY_NAME)?;
        store.drop_table::<L>(&mut txn, HISTORY)?;
        store.checkpoint()?;
        let end = store.commit(&mut txn, None)?;
        store.log().wait_durable(end)?;
        // Not before the commit is acknowledged, so that deaths between the two are tested as well.
        store.committed::<L>(&mut txn);
        store.checkpoint()?;
        Ok(())
    };
    let acknowledged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(change));
    matches!(acknowledged, Ok(Ok(())))
}
