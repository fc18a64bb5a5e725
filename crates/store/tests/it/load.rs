//! Loading an empty store: rows and trees equal inserted ones, are logged once, and survive a
//! crash.

use super::*;
use world::memory;

fn loaded(files: &Arc<dyn Files>, rows: i64) -> Store {
    let (store, _) = open(files, Durability::Sync, 400);
    store.create(&schema()).expect("a schema");
    assert!(store.is_blank::<L>().expect("sound"));
    let (accounts, notes) = (store.table(ACCOUNTS).expect("created"), store.table(HISTORY).expect("created"));
    let mut loaders = [store.loader(), store.loader()];
    for id in 0..rows {
        // Not in key order, and by two workers.
        let (id, loader) = (id * 7919 % rows, &mut loaders[(id % 2) as usize]);
        let bytes = row(id, id % 50, &"n".repeat((id % 100) as usize + 1));
        loader.add::<L>(accounts, Some(&key(id)), &bytes).expect("a row");
        if id % 3 == 0 {
            let mut buf = RowBuf::new(&schema().tables[1]);
            buf.start().set_int(0, id);
            loader.add::<L>(notes, None, buf.bytes()).expect("a row");
        }
    }
    let mut all = store::Loaded::default();
    for loader in loaders {
        all.merge(loader.finish::<L>().expect("written"));
    }
    store.build_trees::<L>(all).expect("built");
    assert!(!store.is_blank::<L>().expect("sound"));
    store
}

fn assert_loaded(store: &Store, rows: i64) {
    let report = crate::examined(store);
    assert_eq!((report.tables[0].rows(), report.lost_pages), (rows as u64, 0));
    assert_eq!(report.tables[0].trees.iter().map(|(_, t)| t.entries).collect::<Vec<_>>(), [rows as u64; 3]);
    let all = contents(store);
    assert_eq!(all.len() as i64, rows);
    assert!(all.iter().all(|(id, (score, name))| *score == id % 50 && name.len() as i64 == id % 100 + 1));
    assert_eq!(history(store), (0..rows).filter(|id| id % 3 == 0).collect::<Vec<_>>());
}

#[test]
pub fn what_was_loaded_is_there_at_once_and_after_a_crash() {
    let files = memory();
    let store = loaded(&files, 5000);
    assert_loaded(&store, 5000);
    let logged = store.log().stats().bytes;
    let data = u64::from(store.pages_used()) * pages::PAGE_SIZE as u64;
    assert!(logged < data + data / 10, "{logged} bytes of log for {data} of pages");
    store.log().wait_stable(store.log().end()).expect("on the device");
    drop(store);
    let (store, _) = open(&files, Durability::Sync, 400);
    assert_loaded(&store, 5000);
    let mut txn = begin(&store);
    let table = store.table(ACCOUNTS).expect("created");
    let more = retry(&store, || {
        store.insert::<L>(&mut txn, table, &key(9999), &row(9999, 1, "x"), access::Expect::Any)
    });
    assert_eq!(more, store::InsertOutcome::Done);
    commit(&store, txn);
    crate::examined(&store);
}

#[test]
pub fn two_rows_with_one_key_are_refused() {
    let files = memory();
    let (store, _) = open(&files, Durability::Memory, 400);
    store.create(&schema()).expect("a schema");
    let table = store.table(ACCOUNTS).expect("created");
    let mut loader = store.loader();
    for _ in 0..2 {
        loader.add::<L>(table, Some(&key(1)), &row(1, 1, "twice")).expect("a row");
    }
    let refused = store.build_trees::<L>(loader.finish::<L>().expect("written")).expect_err("refused");
    assert!(refused.to_string().contains("ascend"), "{refused}");
}
