//! Rows that move, and rows longer than a page: addresses, pages, undo at every record, damage.

use super::tests::{assert_every_page_is_reached, content, heap, purge_all};
use super::*;
use crate::testing::{Kept, Random, Recorder, TABLE, pool, replay, settle};
use latch::{Coupled, Owned};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

type Latch = Coupled;

fn update(heap: &Heap<'_>, journal: &mut Recorder, rid: Rid, row: &[u8]) -> Option<Rid> {
    match settle(heap.pool, || heap.update::<Latch>(journal, rid, row, Moves::Forward)) {
        HeapUpdate::Done(left) => left,
        other => panic!("{other:?}"),
    }
}

fn row_at(heap: &Heap<'_>, rid: Rid) -> Option<Vec<u8>> {
    settle(heap.pool, || heap.read::<Latch, _>(rid, <[u8]>::to_vec))
}

/// Fills the page of the first row, so that the row cannot grow there.
fn crowd(heap: &Heap<'_>, journal: &mut Recorder, len: usize) -> Rid {
    let rid = settle(heap.pool, || heap.insert::<Latch>(journal, &vec![1; len]));
    while settle(heap.pool, || heap.insert::<Latch>(journal, &[7; 300])).page == rid.page {}
    rid
}

#[test]
fn a_row_that_moves_again_and_again_keeps_its_address_and_one_forward() {
    let (pool, hints) = (pool(4096), InsertPages::new());
    let mut journal = Recorder::new(&pool);
    let heap = heap(&pool, &mut journal, &hints);
    let rid = crowd(&heap, &mut journal, 100);
    for len in [2000, 4000, 8000, 7000, 100, 3000] {
        let row = vec![len as u8; len];
        let left = update(&heap, &mut journal, rid, &row);
        assert_eq!(row_at(&heap, rid).as_ref(), Some(&row));
        if let Some(left) = left {
            assert_eq!(row_at(&heap, left), None, "where it lies is no address");
            assert!(settle(&pool, || heap.purge::<Latch>(&mut journal, left)));
        }
        let report = heap.verify::<Latch>().expect("sound");
        assert_eq!((report.moved_rows, report.ghosts), (u64::from(len > 100), 0), "{len} bytes");
    }
    assert!(settle(&pool, || heap.delete::<Latch>(&mut journal, rid)));
    assert_eq!(row_at(&heap, rid), None);
    assert_eq!(heap.verify::<Latch>().expect("sound").ghosts, 2);
    assert!(settle(&pool, || heap.purge::<Latch>(&mut journal, rid)), "takes both away");
    assert_every_page_is_reached::<Latch>(&heap);
}

#[test]
fn a_moved_row_is_changed_where_it_lies() {
    let (pool, hints) = (pool(4096), InsertPages::new());
    let mut journal = Recorder::new(&pool);
    let heap = heap(&pool, &mut journal, &hints);
    let rid = crowd(&heap, &mut journal, 100);
    update(&heap, &mut journal, rid, &[5; 2000]);
    let (before, mut buffer) = (journal.kept.len(), Vec::new());
    let mut modify = |value, then: ControlFlow<()>| {
        let mut put = |row: &mut Vec<u8>| {
            row[1999] = value;
            then.map_continue(|()| ((), 1999..2000))
        };
        settle(&pool, || heap.modify::<Latch, _>(&mut journal, rid, &mut buffer, &mut put))
    };
    // Left unchanged, because the closure breaks.
    assert_eq!(modify(7, ControlFlow::Break(())), HeapModify::Left(()));
    assert_eq!(row_at(&heap, rid).expect("a row")[1998..], [5, 5]);
    assert_eq!(modify(6, ControlFlow::Continue(())), HeapModify::Done(()));
    assert_eq!(journal.kept.len(), before + 1);
    assert_eq!(journal.kept[before].body.len(), 8 + 4 + 2, "one old and one new byte");
    assert_eq!(row_at(&heap, rid).expect("a row")[1998..], [5, 6]);
}

#[test]
fn a_large_row_is_read_through_a_pool_smaller_than_itself() {
    let (pool, hints) = (pool(24), InsertPages::new());
    let mut journal = Recorder::new(&pool);
    let heap = heap(&pool, &mut journal, &hints);
    let rows: BTreeMap<Rid, Vec<u8>> = (0..3)
        .map(|seed| {
            let row = Random(seed).bytes(300_000);
            (settle(&pool, || heap.insert::<Latch>(&mut journal, &row)), row)
        })
        .collect();
    for _ in 0..3 {
        for (&rid, row) in &rows {
            assert!(row_at(&heap, rid).as_ref() == Some(row), "{rid:?}");
        }
        assert_eq!(content::<Latch>(&heap), rows);
    }
    let report = heap.verify::<Latch>().expect("sound");
    assert_eq!((report.rows, report.large_rows, report.row_bytes), (3, 3, 900_000));
    assert!(report.large_pages >= 300);
}

/// Two transactions read different large rows in turns, page by page, in a pool that holds neither
/// row.
#[test]
fn reads_of_large_rows_that_disturb_each_other_end() {
    let (pool, hints) = (pool(24), InsertPages::new());
    let mut journal = Recorder::new(&pool);
    let heap = heap(&pool, &mut journal, &hints);
    let rids = [1u8, 2].map(|n| settle(&pool, || heap.insert::<Latch>(&mut journal, &vec![n; 200_000])));
    let (mut done, mut stops) = ([false; 2], 0);
    while done != [true; 2] {
        for (i, rid) in rids.into_iter().enumerate() {
            match heap.read::<Latch, _>(rid, |row| row.iter().all(|b| *b == i as u8 + 1)) {
                Err(Stop::Page(id)) => pool.load(id).expect("a page"),
                read => done[i] |= read.expect("a row") == Some(true),
            }
            stops += 1;
        }
        assert!(stops < 100_000, "they start over and over");
    }
}

/// The operations of which the records are cut below, on a row of each kind.
fn operations(heap: &Heap<'_>, journal: &mut Recorder, rids: &[Rid]) {
    for (i, &rid) in rids.iter().enumerate() {
        match i % 6 {
            0 => drop(update(heap, journal, rid, &[9; 20_000])),
            1 => drop(update(heap, journal, rid, &[8; 5000])),
            2 => drop(update(heap, journal, rid, &[7; 12])),
            3 => assert!(settle(heap.pool, || heap.delete::<Latch>(journal, rid))),
            4 => drop(update(heap, journal, rid, &[5; 2500])),
            _ => drop(settle(heap.pool, || heap.insert::<Latch>(journal, &[4; 15_000]))),
        }
    }
}

/// A crash after any record: the records in the log are redone, then undone, and every page is as
/// before.
#[test]
fn a_transaction_cut_at_any_record_is_undone_whole() {
    let (pool, hints) = (pool(4096), InsertPages::new());
    let mut journal = Recorder::new(&pool);
    let heap = heap(&pool, &mut journal, &hints);
    let mut rids = Vec::new();
    for _ in 0..6 {
        rids.push(crowd(&heap, &mut journal, 50));
    }
    for &rid in &rids {
        let moved = update(&heap, &mut journal, rid, &[3; 2000]);
        assert_eq!(moved, None);
    }
    for _ in 0..6 {
        rids.push(settle(&pool, || heap.insert::<Latch>(&mut journal, &[2; 10_000])));
    }
    for _ in 0..6 {
        rids.push(settle(&pool, || heap.insert::<Latch>(&mut journal, &[1; 60])));
    }
    let (before, from) = (content::<Latch>(&heap), journal.kept.len());
    operations(&heap, &mut journal, &rids);
    assert_ne!(content::<Latch>(&heap), before);
    for cut in from..=journal.kept.len() {
        let kept: Vec<Kept> = journal.kept[..cut].to_vec();
        let again = replay(&kept);
        let mut rest = Recorder::new(&again);
        rest.kept = kept;
        rest.log_after(&journal);
        rest.roll_back(&again, None, from);
        let fresh = InsertPages::new();
        let copy = Heap::open(&again, heap.root(), TABLE, &fresh);
        assert_eq!(content::<Latch>(&copy), before, "cut at {cut}");
        assert_every_page_is_reached::<Latch>(&copy);
    }
}

#[test]
fn what_committed_updates_and_deletes_leave_is_given_back() {
    let (pool, hints) = (pool(4096), InsertPages::new());
    let mut journal = Recorder::new(&pool);
    let heap = heap(&pool, &mut journal, &hints);
    let mut random = Random(4);
    let lengths = [40, 400, 3000, 9000, 30_000];
    let mut rids: Vec<Rid> = (0..300)
        .map(|i| settle(&pool, || heap.insert::<Latch>(&mut journal, &vec![1; lengths[i % 5]])))
        .collect();
    let mut pages = 0;
    for round in 0..12 {
        for _ in 0..300 {
            let at = random.below(rids.len());
            let row = vec![2; lengths[random.below(5)]];
            let mut left = update(&heap, &mut journal, rids[at], &row).into_iter().collect();
            purge_all::<Latch>(&heap, &mut journal, &mut left);
            let gone = rids.swap_remove(random.below(rids.len()));
            assert!(settle(&pool, || heap.delete::<Latch>(&mut journal, gone)));
            purge_all::<Latch>(&heap, &mut journal, &mut vec![gone]);
            let row = vec![3; lengths[random.below(5)]];
            rids.push(settle(&pool, || heap.insert::<Latch>(&mut journal, &row)));
        }
        if round == 3 {
            pages = pool.stats().allocated;
        }
    }
    let now = pool.stats().allocated;
    assert!(now <= pages + pages / 5, "{pages} pages became {now} in a steady state");
    assert_every_page_is_reached::<Latch>(&heap);
}

#[test]
fn the_owner_needs_no_latch_for_moved_and_large_rows() {
    let (pool, hints) = (pool(4096), InsertPages::new());
    let mut journal = Recorder::new(&pool);
    let heap = heap(&pool, &mut journal, &hints);
    let rid = crowd(&heap, &mut journal, 60);
    for len in [2000, 50_000, 10] {
        let done = settle(&pool, || heap.update::<Owned>(&mut journal, rid, &vec![1; len], Moves::Forward));
        assert!(matches!(done, HeapUpdate::Done(_)));
        assert_eq!(settle(&pool, || heap.read::<Owned, _>(rid, <[u8]>::len)), Some(len));
    }
    assert!(settle(&pool, || heap.delete::<Owned>(&mut journal, rid)));
}

#[test]
fn verify_finds_broken_moves_and_large_rows() {
    type Break = fn(&Heap<'_>, Rid, Rid);
    let poke = |heap: &Heap<'_>, page: PageId, at: usize| {
        heap.pool.exclusive::<Latch>(page).expect("a page").bytes_mut()[at] ^= 1;
    };
    let breaks: [(&str, Break, bool); 4] = [
        ("a forward that leads elsewhere", |h, moved, _| replace(h, moved, |b| b[5] ^= 1), true),
        ("a stub with another length", |h, _, large| replace(h, large, |b| b[5] ^= 1), true),
        ("a stub with another root", |h, _, large| replace(h, large, |b| b[1] ^= 1), true),
        ("nothing", |_, _, _| {}, false),
    ];
    let build = |pool: &Pool, hints: &InsertPages, f: &dyn Fn(&Heap<'_>, Rid, Rid)| {
        let mut journal = Recorder::new(pool);
        let heap = heap(pool, &mut journal, hints);
        let moved = crowd(&heap, &mut journal, 60);
        update(&heap, &mut journal, moved, &[1; 2500]);
        let large = settle(pool, || heap.insert::<Latch>(&mut journal, &[2; 20_000]));
        f(&heap, moved, large);
        heap.verify::<Latch>().map(drop)
    };
    for (what, damage, found) in breaks {
        let (pool, hints) = (pool(256), InsertPages::new());
        assert_eq!(build(&pool, &hints, &damage).is_err(), found, "{what}");
    }
    // In the root: length, number of pages, state, a page's number. In a data page: its root, index
    // and bytes.
    for (root, at) in [(true, 24), (true, 28), (true, 30), (true, 32), (false, 24), (false, 28), (false, 30)]
    {
        let (pool, hints) = (pool(256), InsertPages::new());
        let damaged = build(&pool, &hints, &|heap, _, rid| {
            let large = stub(heap, rid);
            let page = heap.pages_of_large::<Latch>(large).expect("pages")[usize::from(!root)];
            poke(heap, page, at);
        });
        assert!(damaged.is_err(), "byte {at} of {}", if root { "the root" } else { "a data page" });
    }
}

fn stub(heap: &Heap<'_>, rid: Rid) -> PageId {
    let page = heap.pool.shared::<Latch>(rid.page).expect("a page");
    match Rows::new(page.bytes()).cell(rid.slot) {
        Ok(Some(Cell::Large(large))) => large.root,
        other => panic!("{other:?}"),
    }
}

/// Changes the bytes of a special slot directly, without a log record.
fn replace(heap: &Heap<'_>, rid: Rid, f: impl FnOnce(&mut Vec<u8>)) {
    let mut page = heap.pool.exclusive::<Latch>(rid.page).expect("a page");
    let mut content = Rows::new(page.bytes()).content_of(rid.slot).expect("a slot").to_vec();
    f(&mut content);
    RowsMut::new(page.bytes_mut()).replace(rid.slot, Form::Special, &content).expect("it fits");
}

#[test]
fn filled_pages_are_logged_once_and_hold_what_was_pushed() {
    let (pool, hints) = (pool(4096), InsertPages::new());
    let mut journal = Recorder::new(&pool);
    let heap = heap(&pool, &mut journal, &hints);
    let (mut random, mut rows) = (Random(11), BTreeMap::new());
    let mut fillers = [HeapFiller::new(heap), HeapFiller::new(heap)];
    for i in 0..600 {
        let most = if i % 50 == 0 { 20_000 } else { 900 };
        let row = {
            let len = random.below(most);
            random.bytes(len)
        };
        let rid = settle(&pool, || fillers[i % 2].push::<Latch>(&mut journal, &row));
        assert_eq!(rows.insert(rid, row), None);
    }
    for filler in &mut fillers {
        settle(&pool, || filler.finish::<Latch>(&mut journal));
    }
    assert_eq!(content::<Latch>(&heap), rows);
    assert_every_page_is_reached::<Latch>(&heap);
    let bytes: usize = rows.values().map(Vec::len).sum();
    let logged: usize = journal.kept.iter().map(|kept| kept.body.len()).sum();
    assert!(logged < bytes + bytes / 10, "{logged} bytes of log for {bytes} of rows");
    let again = replay(&journal.kept);
    let copy = Heap::open(&again, heap.root(), TABLE, &hints);
    assert_eq!(content::<Latch>(&copy), rows);
    // The pages are ordinary ones: rows can be inserted and removed.
    let rid = *rows.keys().next().expect("a row");
    assert!(settle(&pool, || heap.delete::<Latch>(&mut journal, rid)));
    assert!(settle(&pool, || heap.purge::<Latch>(&mut journal, rid)));
    settle(&pool, || heap.insert::<Latch>(&mut journal, &[1; 10]));
    heap.verify::<Latch>().expect("sound");
}

#[test]
fn a_filler_that_is_dropped_leaves_no_page() {
    let (pool, hints) = (pool(64), InsertPages::new());
    let mut journal = Recorder::new(&pool);
    let heap = heap(&pool, &mut journal, &hints);
    let mut filler = HeapFiller::new(heap);
    settle(&pool, || filler.push::<Latch>(&mut journal, &[1; 100]));
    drop(filler);
    assert_every_page_is_reached::<Latch>(&heap);
}
