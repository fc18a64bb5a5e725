//! Rows longer than a page, and rows that outgrow their page, in transactions, rollback, restart
//! and checks.

use super::*;
use access::Expect;
use world::memory;

const DOCUMENTS: TableId = TableId(1);
const BY_TITLE: TableId = TableId(2);
const SCRAPS: TableId = TableId(3);
const MOST: u32 = 1 << 20;

fn documents() -> Schema {
    let column = |name: &str, ty| Column::new(name, ty);
    let columns =
        vec![column("id", Type::I64), column("title", Type::Text(50)), column("text", Type::Text(MOST))];
    let documents = TableDef {
        id: DOCUMENTS,
        name: "documents".into(),
        columns: columns.clone(),
        key: vec![0],
        indexes: vec![IndexDef { id: BY_TITLE, name: "by_title".into(), columns: vec![1] }],
        domain: 1,
        kind: TableKind::Heap,
    };
    let scraps = TableDef {
        id: SCRAPS,
        name: "scraps".into(),
        columns,
        key: vec![],
        indexes: vec![],
        domain: 1,
        kind: TableKind::Heap,
    };
    Schema { tables: vec![documents, scraps] }.of_kind(KIND.get())
}

fn document(id: i64, text: &str) -> Vec<u8> {
    let mut buf = RowBuf::new(&documents().tables[0]);
    let mut row = buf.start();
    row.set_int(0, id);
    row.set_text(1, &format!("document {id}"));
    row.set_text(2, text);
    buf.bytes().to_vec()
}

fn put(store: &Store, txn: &mut Txn, id: i64, text: &str) {
    let (table, row) = (store.table(DOCUMENTS).expect("created"), document(id, text));
    let done = retry(store, || store.insert::<L>(txn, table, &key(id), &row, Expect::Any));
    assert_eq!(done, store::InsertOutcome::Done);
}

fn change(store: &Store, txn: &mut Txn, id: i64, text: &str) {
    let table = store.table(DOCUMENTS).expect("created");
    let done = retry(store, || store.update::<L, _>(txn, table, &key(id), |row| row.set_text(2, text)));
    assert_eq!(done, Some(()));
}

fn remove(store: &Store, txn: &mut Txn, id: i64) {
    let table = store.table(DOCUMENTS).expect("created");
    let done = retry(store, || store.delete::<L>(txn, table, &key(id), Expect::Any));
    assert_eq!(done, store::DeleteOutcome::Done);
}

/// Id to text, by the primary key; the same through the secondary index, and backwards.
fn texts(store: &Store) -> BTreeMap<i64, String> {
    let table = store.table(DOCUMENTS).expect("created");
    let read = |rows: Vec<(Key, Vec<u8>)>| -> Vec<(i64, String)> {
        let row = |bytes: &[u8]| {
            let row = Row::new(&table.layout, bytes);
            (row.int(0), row.text(2).to_owned())
        };
        rows.iter().map(|(_, bytes)| row(bytes)).collect()
    };
    let all = read(scan(store, DOCUMENTS, Direction::Forward));
    let mut backward = read(scan(store, DOCUMENTS, Direction::Backward));
    backward.reverse();
    assert_eq!(all, backward);
    let mut by_title = read(scan(store, BY_TITLE, Direction::Forward));
    by_title.sort_unstable();
    assert_eq!(all, by_title);
    all.into_iter().collect()
}

fn lengths(store: &Store) -> Vec<(i64, usize)> {
    texts(store).into_iter().map(|(id, text)| (id, text.len())).collect()
}

fn filled(files: &Arc<dyn Files>) -> Store {
    let (store, _) = open(files, Durability::Sync, 400);
    store.create(&documents()).expect("a schema");
    let mut txn = begin(&store);
    for (id, length) in [(1, 10), (2, 5000), (3, 9000), (4, 100_000), (5, MOST as usize), (6, 40)] {
        put(&store, &mut txn, id, &"a".repeat(length));
    }
    commit(&store, txn);
    store
}

const FILLED: [(i64, usize); 6] = [(1, 10), (2, 5000), (3, 9000), (4, 100_000), (5, 1 << 20), (6, 40)];

#[test]
pub fn rows_of_a_mebibyte_come_back_after_close_and_after_a_crash() {
    let files = memory();
    let store = filled(&files);
    assert_eq!(lengths(&store), FILLED);
    store.close().expect("in order");
    let (store, _) = open(&files, Durability::Sync, 400);
    assert_eq!(lengths(&store), FILLED);
    let mut txn = begin(&store);
    change(&store, &mut txn, 6, &"b".repeat(30_000));
    change(&store, &mut txn, 5, "short");
    commit(&store, txn);
    drop(store);
    let (store, _) = open(&files, Durability::Sync, 400);
    let report = crate::examined(&store);
    assert_eq!(lengths(&store)[4..], [(5, 5), (6, 30_000)]);
    assert_eq!(report.tables[0].heap.large_rows, 3);
}

#[test]
pub fn changes_over_the_border_are_taken_back_by_rollback_and_by_restart() {
    let files = memory();
    let store = filled(&files);
    let pages = store.pages_used();
    let disturb = |store: &Store, txn: &mut Txn| {
        change(store, txn, 1, &"c".repeat(20_000));
        change(store, txn, 3, "c");
        change(store, txn, 4, &"c".repeat(60_000));
        change(store, txn, 4, &"d".repeat(70_000));
        remove(store, txn, 5);
        put(store, txn, 7, &"c".repeat(50_000));
        change(store, txn, 7, &"d".repeat(7000));
    };
    let mut txn = begin(&store);
    disturb(&store, &mut txn);
    retry(&store, || store.rollback::<L>(&mut txn));
    assert_eq!(lengths(&store), FILLED);
    assert!(store.pages_used() <= pages + 1, "what was taken for it is free again");
    let mut txn = begin(&store);
    disturb(&store, &mut txn);
    store.checkpoint().expect("sound");
    store.log().wait_stable(store.log().end()).expect("on the device");
    drop((store, txn));
    let (store, recovered) = open(&files, Durability::Sync, 400);
    assert_eq!(recovered.rolled_back, 1);
    assert_eq!(lengths(&store), FILLED);
    crate::examined(&store);
    assert!(store.pages_used() <= pages + 1);
}

/// The transaction is durable, but the process dies before it purges the transaction's ghosts.
#[test]
pub fn restart_purges_what_a_committed_transaction_left() {
    let files = memory();
    let store = filled(&files);
    let pages = store.pages_used();
    let mut txn = begin(&store);
    change(&store, &mut txn, 5, "tiny");
    change(&store, &mut txn, 1, &"e".repeat(4000));
    change(&store, &mut txn, 1, &"e".repeat(7500));
    remove(&store, &mut txn, 4);
    let lsn = store.commit(&mut txn, None).expect("sound");
    store.log().wait_durable(lsn).expect("on the device");
    assert!(store.pages_used() >= pages);
    drop((store, txn));
    let (store, _) = open(&files, Durability::Sync, 400);
    let report = crate::examined(&store);
    assert_eq!(report.tables[0].heap.ghosts, 0);
    assert!(store.pages_used() < pages - 140, "the pages of two large rows are free again");
    assert_eq!(lengths(&store), [(1, 7500), (2, 5000), (3, 9000), (5, 4), (6, 40)]);
}

#[test]
fn large_rows_of_a_table_without_a_key_are_read_one_by_one() {
    let files = memory();
    let (store, _) = open(&files, Durability::Memory, 64);
    store.create(&documents()).expect("a schema");
    let (table, mut txn) = (store.table(SCRAPS).expect("created"), begin(&store));
    for id in 0..20 {
        let row = document(id, &"f".repeat(if id % 3 == 0 { 200_000 } else { 20 }));
        assert!(retry(&store, || store.append::<L>(&mut txn, table, &row)));
    }
    commit(&store, txn);
    let mut ids: Vec<i64> = scan(&store, SCRAPS, Direction::Forward)
        .iter()
        .map(|(_, bytes)| Row::new(&table.layout, bytes).int(0))
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..20).collect::<Vec<_>>());
}

#[test]
fn rows_that_may_be_longer_than_the_longest_are_refused_with_the_schema() {
    let (store, _) = open(&memory(), Durability::Memory, 64);
    let mut schema = documents();
    schema.tables[0].columns[2].ty = Type::Text(4 << 20);
    let text = store.create(&schema).expect_err("too long").to_string();
    assert!(text.contains("documents") && text.contains("4194304"), "{text}");
}

/// The pool is too small for the row: the operation returns an error and leaves nothing half done.
#[test]
pub fn a_large_row_that_finds_no_room_leaves_nothing() {
    let files = memory();
    let mut options = options(Durability::Sync, 64);
    options.pool.max_pages = 60;
    let (store, _) = Store::open(files, Path::new("/db"), options).expect("it opens");
    store.create(&documents()).expect("a schema");
    let (table, mut txn) = (store.table(DOCUMENTS).expect("created"), begin(&store));
    // Long enough for the heap also in a clustered table, so that the heap has its first page.
    put(&store, &mut txn, 1, &"b".repeat(3_000));
    let pages = store.pages_used();
    let row = document(2, &"g".repeat(600_000));
    let refused = store.insert::<L>(&mut txn, table, &key(2), &row, Expect::Any);
    assert!(matches!(refused, Err(Stop::NoSpace)), "{refused:?}");
    assert_eq!(store.pages_used(), pages);
    put(&store, &mut txn, 2, &"h".repeat(50_000));
    commit(&store, txn);
    assert_eq!(lengths(&store), [(1, 3_000), (2, 50_000)]);
}
