//! Folders that must not be opened, and stores that must not continue.

use crate::files::{Life, Mortal};
use crate::{ACCOUNTS, L, begin, commit, key, open, options, retry, row, schema};
use access::Expect;
use pages::PAGE_SIZE;
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
            // A page of the catalog, which opening reads.
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

fn patch(files: &Arc<dyn Files>, name: &str, at: u64, bytes: &[u8]) {
    files.open(&Path::new("/db").join(name), Open::ReadWrite).unwrap().write_all_at(bytes, at).unwrap();
}

/// A database with several log segments and some work for restart.
fn used() -> Arc<dyn Files> {
    let files = world::memory();
    let life = Life::new();
    let (store, _) = open(&Mortal::over(&files, &life), Durability::Sync, 64);
    store.create(&schema()).unwrap();
    let table = store.table(ACCOUNTS).unwrap();
    for round in 0..2 {
        for id in 0..400 {
            let mut txn = begin(&store);
            let id = round * 1000 + id;
            retry(&store, || {
                store.insert::<L>(&mut txn, table, &key(id), &row(id, 0, &"x".repeat(200)), Expect::Any)
            });
            commit(&store, txn);
        }
        if round == 0 {
            store.checkpoint().unwrap();
        }
    }
    store.log().wait_durable(store.log().end()).unwrap();
    life.kill();
    drop(store);
    files
}

/// The bytes of the data file, page by page.
fn pages(files: &Arc<dyn Files>) -> Vec<Vec<u8>> {
    let bytes = files.open(Path::new("/db/data"), Open::Read).unwrap();
    let mut all = vec![0; bytes.len().unwrap() as usize];
    bytes.read_at(&mut all, 0).unwrap();
    all.chunks(PAGE_SIZE).map(<[u8]>::to_vec).collect()
}

/// Changes some rows of `used`, with a close or a crash behind. Returns the pages that differ, each
/// with its older state and its newer one.
fn changed_pages(files: &Arc<dyn Files>, ends_by: End) -> Vec<(usize, Vec<u8>, Vec<u8>)> {
    open(files, Durability::Sync, 64).0.close().unwrap();
    let before = pages(files);
    let life = Life::new();
    let (store, _) = open(&Mortal::over(files, &life), Durability::Sync, 64);
    let table = store.table(ACCOUNTS).unwrap();
    for id in 0..20 {
        let mut txn = begin(&store);
        retry(&store, || store.update::<L, _>(&mut txn, table, &key(id * 10), |row| row.set_int(1, 77)));
        commit(&store, txn);
    }
    match ends_by {
        End::Close => store.close().unwrap(),
        End::Crash => {
            store.log().wait_durable(store.log().end()).unwrap();
            store.pool().write_back().unwrap();
            life.kill();
            drop(store);
        }
    }
    let differ = before.into_iter().zip(pages(files)).enumerate().filter(|(_, (old, new))| old != new);
    differ.map(|(at, (old, new))| (at, old, new)).collect()
}

#[derive(Clone, Copy)]
enum End {
    Close,
    Crash,
}

fn findings(files: &Arc<dyn Files>) -> Vec<String> {
    let overlay = world::overlay(files.clone());
    let (store, _) = open(&overlay, Durability::Sync, 64);
    let (_, findings) = store.examine(&mut |_, _, _| {});
    findings.into_iter().map(|finding| finding.what).collect()
}

/// The device has acknowledged a write and not done it, and the checkpoint at the close relies on
/// it. The checksum of the older state is right.
#[test]
fn a_lost_write_is_found_by_a_check() {
    let files = used();
    let differ = changed_pages(&files, End::Close);
    assert!(differ.len() > 1, "rows and entries changed");
    assert_eq!(findings(&files), [""; 0]);
    for (page, old, new) in differ {
        patch(&files, "data", (page * PAGE_SIZE) as u64, &old);
        let found = findings(&files);
        assert!(found.iter().any(|what| what.contains("a write of it was lost")), "page {page}: {found:?}");
        patch(&files, "data", (page * PAGE_SIZE) as u64, &new);
    }
    assert_eq!(findings(&files), [""; 0]);
}

/// After the last checkpoint no page in the file is relied on: restart repeats the change.
#[test]
fn a_write_lost_after_the_checkpoint_is_repaired_by_restart() {
    let files = used();
    let differ = changed_pages(&files, End::Crash);
    assert!(differ.len() > 1, "rows and entries changed");
    for (page, old, _) in &differ {
        patch(&files, "data", (page * PAGE_SIZE) as u64, old);
    }
    assert_eq!(findings(&files), [""; 0]);
    let (store, _) = open(&files, Durability::Sync, 64);
    assert_eq!(crate::contents(&store).values().filter(|(score, _)| *score == 77).count(), 20);
}

#[test]
fn every_file_of_another_version_is_refused_by_name() {
    let segments = used().list(Path::new("/db/log")).unwrap();
    let segment = format!("log/{}", segments.iter().rfind(|n| n.starts_with("log-")).unwrap());
    for name in ["data", "doublewrite", segment.as_str()] {
        let files = used();
        // The position of the format in each of them. The log's segment is named after its
        // position, which differs between runs.
        let file = files.list(Path::new("/db/log")).unwrap();
        let name = if name.contains('/') {
            format!("log/{}", file.iter().rfind(|n| n.starts_with("log-")).unwrap())
        } else {
            name.to_owned()
        };
        patch(&files, &name, 8, &99u32.to_le_bytes());
        let text = error(&files, Durability::Sync).to_string();
        assert!(text.contains(&format!("/db/{name}")) && text.contains("99"), "{name}: {text}");
    }
    let files = used();
    for name in ["control-0", "control-1"] {
        let mut bytes =
            vec![0; files.open(&Path::new("/db").join(name), Open::Read).unwrap().len().unwrap() as usize];
        files.open(&Path::new("/db").join(name), Open::Read).unwrap().read_at(&mut bytes, 0).unwrap();
        bytes[8] = 99;
        bytes[32..36].fill(0);
        let sum = base::crc32c(&bytes);
        bytes[32..36].copy_from_slice(&sum.to_le_bytes());
        patch(&files, name, 0, &bytes);
    }
    let text = error(&files, Durability::Sync).to_string();
    assert!(text.contains("/db/control-") && text.contains("format 99"), "{text}");
}

#[test]
fn files_that_the_checkpoint_relies_on_are_missed() {
    for name in ["data", "doublewrite"] {
        let files = used();
        files.remove(&Path::new("/db").join(name)).unwrap();
        let text = error(&files, Durability::Sync).to_string();
        assert!(
            text.contains(&format!("/db/{name}: this file is missing"))
                && text.contains("restore the database from a backup"),
            "{text}"
        );
        assert!(!files.list(Path::new("/db")).unwrap().contains(&name.to_owned()), "and not made anew");
    }
    let files = used();
    let data = files.open(Path::new("/db/data"), Open::ReadWrite).unwrap();
    data.set_len(3 * 8192).unwrap();
    let text = error(&files, Durability::Sync).to_string();
    assert!(text.contains("/db/data: the file ends at byte 24576"), "{text}");
}

#[test]
fn a_missing_log_segment_is_named() {
    let files = used();
    let log = Path::new("/db/log");
    let names: Vec<_> = files.list(log).unwrap().into_iter().filter(|n| n.starts_with("log-")).collect();
    assert!(names.len() > 2, "{names:?}");
    let gone = &names[names.len() / 2];
    files.remove(&log.join(gone)).unwrap();
    let text = error(&files, Durability::Sync).to_string();
    assert!(text.contains(gone.as_str()), "{text}");

    let files = used();
    let names: Vec<_> = files.list(log).unwrap().into_iter().filter(|n| n.starts_with("log-")).collect();
    files.remove(&log.join(&names[0])).unwrap();
    let text = error(&files, Durability::Sync).to_string();
    assert!(text.contains("log"), "{text}");
}

#[test]
fn half_a_control_file_leaves_the_other_and_two_halves_nothing() {
    let cut = |files: &Arc<dyn Files>, name: &str| {
        let file = files.open(&Path::new("/db").join(name), Open::ReadWrite).unwrap();
        file.set_len(file.len().unwrap() / 2).unwrap();
    };
    for name in ["control-0", "control-1"] {
        let files = world::memory();
        made(&files);
        cut(&files, name);
        // A crash while one control file is written leaves the log that the other one needs. Here
        // the file is cut without a crash, so opening may refuse.
        match Store::open(files.clone(), Path::new("/db"), options(Durability::Sync, 64)) {
            Ok((store, _)) => drop(store.check().unwrap()),
            Err(fault) => assert!(fault.to_string().contains("log"), "{fault}"),
        }
    }
    let files = used();
    cut(&files, "control-0");
    cut(&files, "control-1");
    let text = error(&files, Durability::Sync).to_string();
    assert!(text.contains("/db") && text.contains("control-0") && text.contains("control-1"), "{text}");
}

/// The checksums are right, but the number of the layout is wrong. Opening reads the catalog.
#[test]
fn a_page_of_an_unknown_version_is_refused_with_its_place() {
    let files = world::memory();
    made(&files);
    let data = files.open(Path::new("/db/data"), Open::ReadWrite).unwrap();
    let mut page = vec![0; 8192];
    data.read_at(&mut page, 8192).unwrap();
    page[4] = 99;
    let sum = base::crc32c(&page[4..]);
    page[..4].copy_from_slice(&sum.to_le_bytes());
    data.write_all_at(&page, 8192).unwrap();
    let text = error(&files, Durability::Sync).to_string();
    assert!(text.contains("/db/data: the page at byte 8192") && text.contains("atoll check"), "{text}");
}

/// A record that names a page out of range must be refused before the allocator uses it. Otherwise
/// all pages below it would be listed as free, up to four thousand million of them. This also holds
/// for pages that a record frees.
#[test]
fn a_record_that_names_a_page_out_of_reach_is_refused_before_it_is_believed() {
    let files = world::memory();
    let (store, _) = open(&files, Durability::Sync, 64);
    store.create(&schema()).unwrap();
    let all: Vec<_> = store.log().read_from(store.log().first()).map(Result::unwrap).collect();
    store.close().unwrap();
    let mut seen = [false; 2];
    for (_, header, body) in all {
        let mut named = Vec::new();
        access::each_page(header.kind, &body, |page, how| named.push((page, how)));
        let Some((page, _)) = named.iter().find(|(_, how)| *how == access::PageUse::Formatted) else {
            continue;
        };
        for (n, number) in [1 << 24, u32::MAX].into_iter().enumerate() {
            let Some(bad) = renamed(header.kind, &body, *page, base::PageId(number)) else { continue };
            let copy = world::overlay(files.clone());
            let log = wal::Log::open(copy.clone(), Path::new("/db/log"), options(Durability::Sync, 64).log);
            let log = log.unwrap();
            log.append(&header, wal::LogOrder::ANY, &[&bad]);
            drop(log);
            let fault = error(&copy, Durability::Sync);
            assert!(fault.to_string().contains("limit"), "{fault}");
            seen[n] = true;
        }
    }
    assert_eq!(seen, [true; 2], "no record could be changed");
}

/// The record's body with another number for `page`, at each place where the body contains it.
fn renamed(kind: u8, body: &[u8], page: base::PageId, new: base::PageId) -> Option<Vec<u8>> {
    (0..body.len().saturating_sub(3)).find_map(|at| {
        let mut bad = body.to_vec();
        bad[at..at + 4].copy_from_slice(&new.0.to_le_bytes());
        let mut found = false;
        let sound = body[at..at + 4] == page.0.to_le_bytes()
            && access::each_page(kind, &bad, |page, _| found |= page == new);
        (sound && found).then_some(bad)
    })
}
