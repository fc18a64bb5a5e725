//! Folders that must not be opened, and stores that must not go on.

use crate::files::{Life, Mortal};
use crate::{ACCOUNTS, L, begin, commit, key, open, options, retry, row, schema};
use access::Expect;
use std::path::Path;
use std::sync::Arc;
use store::{Store, StoreFault};
use wal::Durability;
use world::{Files, Open};

fn error(files: &Arc<dyn Files>, durability: Durability) -> StoreFault {
    match Store::open(files.clone(), Path::new("/db"), options(durability, 64)) {
        Ok(_) => panic!("the folder was opened"),
        Err(fault) => fault,
    }
}

fn made(files: &Arc<dyn Files>) {
    let (store, _) = open(files, Durability::Sync, 64);
    store.create(&schema()).unwrap();
    store.close().unwrap();
}

#[test]
fn a_folder_in_use_is_named() {
    let files = world::memory();
    let (store, _) = open(&files, Durability::Sync, 64);
    let fault = error(&files, Durability::Sync);
    assert!(matches!(fault, StoreFault::InUse { .. }), "{fault}");
    assert!(fault.to_string().starts_with("/db: this data folder is in use"), "{fault}");
    store.close().unwrap();
    open(&files, Durability::Sync, 64).0.close().unwrap();
}

#[test]
fn memory_and_log_do_not_mix() {
    let files = world::memory();
    made(&files);
    assert!(matches!(error(&files, Durability::Memory), StoreFault::HasLog { .. }));
    made(&files);

    let files = world::memory();
    let life = Life::new();
    let (store, _) = open(&Mortal::over(&files, &life), Durability::Memory, 64);
    life.kill();
    drop(store);
    let fault = error(&files, Durability::Sync);
    assert!(matches!(fault, StoreFault::Gone { .. }), "{fault}");

    let files = world::memory();
    open(&files, Durability::Memory, 64).0.close().unwrap();
    made(&files);
}

#[test]
fn a_lost_log_or_control_is_noticed() {
    let files = world::memory();
    made(&files);
    let log = Path::new("/db/log");
    for name in files.list(log).unwrap() {
        files.remove(&log.join(name)).unwrap();
    }
    let fault = error(&files, Durability::Sync);
    assert!(matches!(&fault, StoreFault::Missing { file } if file.ends_with("log")), "{fault}");

    let files = world::memory();
    made(&files);
    for name in ["control-0", "control-1"] {
        files.remove(&Path::new("/db").join(name)).unwrap();
    }
    assert!(matches!(error(&files, Durability::Sync), StoreFault::NotADatabase { .. }));
}

#[test]
fn a_flipped_bit_in_the_data_is_an_error_and_never_a_row() {
    let files = world::memory();
    let (store, _) = open(&files, Durability::Sync, 64);
    store.create(&schema()).unwrap();
    let table = store.table(ACCOUNTS).unwrap();
    let mut txn = begin(&store);
    for id in 0..300 {
        retry(&store, || store.insert::<L>(&mut txn, table, &key(id), &row(id, 0, "x"), Expect::Any));
    }
    commit(&store, txn);
    let pages = store.pages_used();
    store.close().unwrap();
    files.open(Path::new("/db/doublewrite"), Open::ReadWrite).unwrap().set_len(0).unwrap();
    let data = files.open(Path::new("/db/data"), Open::ReadWrite).unwrap();
    for page in 1..=u64::from(pages) {
        let mut owner = [0; 4];
        data.read_at(&mut owner, page * 8192 + 20).unwrap();
        if u32::from_le_bytes(owner) == u32::from(u16::MAX) {
            // The catalog, which opening reads.
            continue;
        }
        let at = page * 8192 + 4000;
        let mut byte = [0];
        data.read_at(&mut byte, at).unwrap();
        data.write_all_at(&[byte[0] ^ 4], at).unwrap();
    }
    let (store, _) = open(&files, Durability::Sync, 64);
    let fault = store.check().unwrap_err();
    assert!(fault.to_string().contains("corrupt"), "{fault}");
    let mut txn = begin(&store);
    assert!(store.commit(&mut txn, None).is_err(), "a store that met corruption commits nothing");
    retry(&store, || store.rollback::<L>(&mut txn));
    assert!(store.close().is_err());
}

#[test]
fn after_a_failed_sync_nothing_commits() {
    let files = world::memory();
    let life = Life::new();
    let (store, _) = open(&Mortal::over(&files, &life), Durability::Sync, 64);
    store.create(&schema()).unwrap();
    let table = store.table(ACCOUNTS).unwrap();
    let put = |id| {
        let mut txn = begin(&store);
        retry(&store, || store.insert::<L>(&mut txn, table, &key(id), &row(id, 0, "x"), Expect::Any));
        let end = store.commit(&mut txn, None);
        end.inspect_err(|_| store.rollback::<L>(&mut txn).unwrap())
    };
    store.log().wait_durable(put(1).unwrap()).unwrap();
    life.kill();
    let unlucky = put(2).unwrap();
    assert!(store.log().wait_durable(unlucky).is_err());
    assert!(put(3).is_err() && store.fault().is_some() && store.note(b"x").is_err());
    assert!(store.checkpoint().is_err());
    drop(store);
    let (store, _) = open(&files, Durability::Sync, 64);
    assert_eq!(crate::contents(&store).keys().copied().collect::<Vec<_>>(), [1]);
}
