//! Notes and prepared transactions over several openings.

use crate::files::{Life, Mortal};
use crate::{ACCOUNTS, L, begin, commit, contents, key, open, retry, row, schema};
use access::Expect;
use base::Lsn;
use std::sync::Arc;
use store::{NoteId, Recovered, Store, Txn};
use wal::Durability;
use world::Files;

/// Opens, lets `f` work, and kills the process, or closes the store if `clean`.
fn live(files: &Arc<dyn Files>, clean: bool, f: impl FnOnce(&Store, Recovered)) {
    let life = Life::new();
    let (store, recovered) = open(&Mortal::over(files, &life), Durability::Sync, 64);
    if recovered.life == 1 {
        store.create(&schema()).unwrap();
    }
    f(&store, recovered);
    if clean {
        store.close().unwrap();
    } else {
        life.kill();
    }
}

fn put(store: &Store, txn: &mut Txn, id: i64, name: &str) {
    let table = store.table(ACCOUNTS).unwrap();
    retry(store, || store.insert::<L>(txn, table, &key(id), &row(id, 0, name), Expect::Any));
}

fn texts(recovered: &Recovered) -> Vec<&[u8]> {
    recovered.notes.iter().map(|(_, note)| note.as_slice()).collect()
}

#[test]
fn a_note_lives_until_it_is_forgotten() {
    for clean in [true, false] {
        let files = world::memory();
        let mut kept = NoteId(Lsn(0));
        live(&files, clean, |store, _| {
            let (gone, _) = store.note(b"gone").unwrap();
            let (stays, safe) = store.note(b"stays").unwrap();
            store.forget(gone);
            kept = stays;
            let mut txn = begin(store);
            put(store, &mut txn, 1, "one");
            let with_commit = store.commit(&mut txn, Some(b"with a commit")).unwrap();
            let mut reader = begin(store);
            let alone = store.commit(&mut reader, Some(b"of a reader")).unwrap();
            assert!(safe < with_commit && with_commit < alone);
            store.log().wait_durable(store.log().end()).unwrap();
        });
        live(&files, clean, |store, recovered| {
            assert_eq!(texts(&recovered), [&b"stays"[..], b"with a commit", b"of a reader"]);
            assert_eq!(recovered.notes[0].0, kept);
            assert_eq!(contents(store).len(), 1);
            store.forget(recovered.notes[1].0);
            store.forget(recovered.notes[1].0);
            store.log().wait_durable(store.log().end()).unwrap();
        });
        live(&files, clean, |_, recovered| {
            assert_eq!(texts(&recovered), [&b"stays"[..], b"of a reader"]);
        });
    }
}

#[test]
fn a_prepared_transaction_waits_for_its_decision_through_any_number_of_openings() {
    let files = world::memory();
    live(&files, false, |store, _| {
        let mut txn = begin(store);
        (0..4).for_each(|id| put(store, &mut txn, id, "base"));
        commit(store, txn);
        for (id, note) in [(10, "first"), (20, "second")] {
            let mut txn = begin(store);
            put(store, &mut txn, id, note);
            let table = store.table(ACCOUNTS).unwrap();
            let first = id == 10;
            let (gone, changed) = if first { (key(0), key(1)) } else { (key(2), key(3)) };
            retry(store, || store.delete::<L>(&mut txn, table, &gone, Expect::Any));
            retry(store, || store.update::<L, _>(&mut txn, table, &changed, |r| r.set_int(1, 7)));
            let safe = store.prepare(&mut txn, note.as_bytes()).unwrap();
            store.log().wait_durable(safe).unwrap();
            if first {
                store.checkpoint().unwrap();
            }
        }
        let mut loser = begin(store);
        put(store, &mut loser, 30, "never");
        store.log().wait_durable(store.log().end()).unwrap();
    });
    for clean in [false, true, false] {
        live(&files, clean, |store, recovered| {
            let mut found: Vec<_> = recovered.in_doubt.iter().map(|d| d.note.as_slice()).collect();
            found.sort_unstable();
            assert_eq!(found, [&b"first"[..], b"second"]);
            assert_eq!(contents(store).keys().copied().collect::<Vec<_>>(), [1, 3, 10, 20]);
        });
    }
    live(&files, false, |store, recovered| {
        for mut doubt in recovered.in_doubt {
            assert!(doubt.txn.is_prepared());
            let mut primary: Vec<_> = doubt.touched.iter().filter(|t| t.index == ACCOUNTS).collect();
            primary.sort_unstable_by_key(|t| t.key.clone());
            let keys: Vec<_> = primary.iter().map(|t| t.key.clone()).collect();
            let gaps: Vec<_> = primary.iter().map(|t| t.gap.clone()).collect();
            if doubt.note == b"first" {
                assert_eq!(keys, [key(0), key(1), key(10)]);
                assert_eq!(gaps, [Some(Some(key(1))), None, None]);
                retry(store, || store.rollback::<L>(&mut doubt.txn));
            } else {
                assert_eq!(keys, [key(2), key(3), key(20)]);
                assert!(doubt.touched.iter().any(|t| t.index == crate::BY_SCORE && t.table == ACCOUNTS));
                commit(store, doubt.txn);
            }
        }
        store.log().wait_durable(store.log().end()).unwrap();
        assert_eq!(store.check().unwrap().tables[0].heap.ghosts, 0);
    });
    live(&files, true, |store, recovered| {
        assert!(recovered.in_doubt.is_empty());
        let left = contents(store);
        assert_eq!(left.keys().copied().collect::<Vec<_>>(), [0, 1, 3, 20]);
        assert_eq!((left[&1].0, left[&3].0), (0, 7));
    });
}

#[test]
fn checkpoints_let_old_segments_go() {
    let files = world::memory();
    live(&files, false, |store, _| {
        for id in 0..2000 {
            let mut txn = begin(store);
            put(store, &mut txn, id, "some text to fill the log with");
            commit(store, txn);
        }
        let mut open = begin(store);
        put(store, &mut open, 5000, "still running");
        store.checkpoint().unwrap();
        let held = store.log().first();
        assert!(held.0 > 1 << 16, "the first segments are gone, the log starts at {held:?}");
        for id in 2000..4000 {
            let mut txn = begin(store);
            put(store, &mut txn, id, "some text to fill the log with");
            commit(store, txn);
        }
        store.checkpoint().unwrap();
        assert_eq!(store.log().first(), held, "the running transaction's records are needed");
        retry(store, || store.rollback::<L>(&mut open));
        store.checkpoint().unwrap();
        assert!(store.log().first() > held);
    });
    live(&files, true, |store, recovered| {
        assert!(recovered.redo_records < 10, "{} records after a checkpoint", recovered.redo_records);
        assert_eq!(contents(store).len(), 4000);
        store.check().unwrap();
    });
}
