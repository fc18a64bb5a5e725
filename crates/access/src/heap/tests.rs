//! The heap against a map, against its own log, against threads, and on pages of garbage.
//! Directories are small.

use super::directory::{PER_DIRECTORY, Root};
use super::*;
use crate::page::name;
use crate::testing::{
    Forgetful, Random, Recorder, TABLE, assert_same_pages, pool, replay, settle, try_settle,
};
use latch::{Coupled, Owned};
use pages::PAGE_SIZE;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow::Continue;

pub(super) type Model = BTreeMap<Rid, Vec<u8>>;

pub(super) fn heap<'p>(pool: &'p Pool, journal: &mut Recorder, hints: &'p InsertPages) -> Heap<'p> {
    let root = settle(pool, || Heap::create::<Coupled>(pool, journal, TABLE));
    Heap::open(pool, root, TABLE, hints)
}

pub(super) fn content<L: LatchPolicy>(heap: &Heap<'_>) -> Model {
    let (mut all, mut place) = (Model::new(), HeapPlace::default());
    loop {
        let (next, some) = settle(heap.pool, || {
            let mut some = Vec::new();
            Ok((heap.chunk::<L>(place, |rid, row| some.push((rid, row.to_vec())))?, some))
        });
        for (rid, row) in some {
            assert_eq!(all.insert(rid, row), None, "{rid:?} was visited twice");
        }
        match next {
            Some(next) => place = next,
            None => break,
        }
    }
    assert_eq!(settle(heap.pool, || heap.pages::<L>()), place.ordinal);
    all
}

#[derive(Clone, Debug)]
enum Op {
    Insert(usize),
    Update(usize, usize),
    Poke(usize, usize),
    Delete(usize),
    Read(usize),
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..300usize, 2 => 300..3000usize, 1 => 3000..=INLINE, 1 => INLINE - 10..30_000]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => length().prop_map(Op::Insert),
        3 => (any::<usize>(), length()).prop_map(|(i, n)| Op::Update(i, n)),
        2 => (any::<usize>(), any::<usize>()).prop_map(|(i, n)| Op::Poke(i, n)),
        3 => any::<usize>().prop_map(Op::Delete),
        1 => any::<usize>().prop_map(Op::Read),
    ]
}

/// One operation on heap and model; ghosts to be purged later go to `ghosts`.
fn run<L: LatchPolicy>(
    heap: &Heap<'_>,
    journal: &mut Recorder,
    model: &mut Model,
    ghosts: &mut Vec<Rid>,
    random: &mut Random,
    op: &Op,
) {
    let pool = heap.pool;
    let pick = |model: &Model, i: usize| model.keys().nth(i % model.len().max(1)).copied();
    match *op {
        Op::Insert(len) => {
            let row = random.bytes(len);
            let rid = settle(pool, || heap.insert::<L>(journal, &row));
            assert_eq!(model.insert(rid, row), None, "a place in use is not given away");
            assert!(!ghosts.contains(&rid), "nor is a ghost's");
        }
        Op::Update(i, len) => {
            let Some(rid) = pick(model, i) else { return };
            let row = random.bytes(len);
            let moves = if i % 3 == 0 { Moves::Report } else { Moves::Forward };
            match settle(pool, || heap.update::<L>(journal, rid, &row, moves)) {
                HeapUpdate::Done(left) => {
                    model.insert(rid, row);
                    ghosts.extend(left);
                }
                HeapUpdate::Relocated(to) => {
                    assert_eq!(moves, Moves::Report);
                    model.remove(&rid);
                    ghosts.push(rid);
                    assert_eq!(model.insert(to, row), None);
                }
                HeapUpdate::Missing => panic!("the row at {rid:?} is missing"),
            }
        }
        Op::Poke(i, n) => poke::<L>(heap, journal, model, ghosts, pick(model, i), n),
        Op::Delete(i) => {
            let Some(rid) = pick(model, i) else { return };
            assert!(settle(pool, || heap.delete::<L>(journal, rid)));
            assert!(!settle(pool, || heap.delete::<L>(journal, rid)), "only once");
            model.remove(&rid);
            ghosts.push(rid);
        }
        Op::Read(i) => {
            let Some(rid) = pick(model, i) else { return };
            let row = settle(pool, || heap.read::<L, _>(rid, <[u8]>::to_vec));
            assert_eq!(row.as_ref(), model.get(&rid));
        }
    }
}

/// Changes one byte in place and checks the length of the log record.
fn poke<L: LatchPolicy>(
    heap: &Heap<'_>,
    journal: &mut Recorder,
    model: &mut Model,
    ghosts: &mut Vec<Rid>,
    rid: Option<Rid>,
    n: usize,
) {
    let Some(row) = rid.and_then(|rid| model.get_mut(&rid)) else { return };
    let (rid, at) = (rid.expect("a row"), n % row.len().max(1));
    let Some(byte) = row.get_mut(at) else { return };
    *byte ^= 1;
    let mut buffer = Vec::new();
    let done = settle(heap.pool, || {
        heap.modify::<L, _>(journal, rid, &mut buffer, |row| {
            row[at] ^= 1;
            Continue((row.len(), at..at + 1))
        })
    });
    // A row that moved at this length became a large one.
    if row.len() > INLINE || row.len() + rows::MOVED > INLINE && done == HeapModify::Outgrown(row.len()) {
        assert_eq!((done, &buffer), (HeapModify::Outgrown(row.len()), &*row));
        match settle(heap.pool, || heap.update::<L>(journal, rid, row, Moves::Forward)) {
            HeapUpdate::Done(Some(left)) => ghosts.push(left),
            HeapUpdate::Done(None) if row.len() <= INLINE => {}
            other => panic!("a large row is written anew, not {other:?}"),
        }
        return;
    }
    assert_eq!(done, HeapModify::Done(row.len()));
    assert_eq!(journal.kept.last().expect("logged").body.len(), 8 + 4 + 2, "one old and one new byte");
}

/// Once nothing is left to be purged, the pages of the heap are exactly the allocated pages.
pub(super) fn assert_every_page_is_reached<L: LatchPolicy>(heap: &Heap<'_>) {
    let mut seen = BTreeSet::new();
    assert_eq!(heap.verify_into::<L>(&mut seen).expect("sound").ghosts, 0);
    let state = heap.pool.allocator();
    let free: BTreeSet<_> = state.free.into_iter().collect();
    let used: BTreeSet<_> = (1..state.next.0).map(PageId).filter(|id| !free.contains(id)).collect();
    assert_eq!(seen, used);
}

pub(super) fn purge_all<L: LatchPolicy>(heap: &Heap<'_>, journal: &mut Recorder, ghosts: &mut Vec<Rid>) {
    for rid in ghosts.drain(..) {
        assert!(settle(heap.pool, || heap.purge::<L>(journal, rid)));
        assert!(!settle(heap.pool, || heap.purge::<L>(journal, rid)), "only once");
    }
}

fn model_run<L: LatchPolicy>(ops: &[Op], frames: usize) {
    let (pool, hints) = (pool(frames), InsertPages::new());
    let mut journal = Recorder::new(&pool);
    let heap = heap(&pool, &mut journal, &hints);
    let (mut model, mut ghosts, mut random) = (Model::new(), Vec::new(), Random(1));
    for (i, op) in ops.iter().enumerate() {
        journal.worker = i % 3;
        run::<L>(&heap, &mut journal, &mut model, &mut ghosts, &mut random, op);
        if i % 40 == 39 {
            purge_all::<L>(&heap, &mut journal, &mut ghosts);
            heap.verify::<L>().expect("sound");
        }
    }
    let report = heap.verify::<L>().expect("sound");
    assert_eq!(report.rows as usize, model.len());
    assert_eq!(content::<L>(&heap), model);
    purge_all::<L>(&heap, &mut journal, &mut ghosts);
    assert_every_page_is_reached::<L>(&heap);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_a_map(ops in prop::collection::vec(op(), 1..400), owned: bool) {
        if owned { model_run::<Owned>(&ops, 4096) } else { model_run::<Coupled>(&ops, 4096) }
    }

    #[test]
    fn stopping_for_a_page_changes_nothing(ops in prop::collection::vec(op(), 200..400)) {
        model_run::<Coupled>(&ops, 12);
    }
}

fn churn(
    heap: &Heap<'_>,
    journal: &mut Recorder,
    model: &mut Model,
    ghosts: &mut Vec<Rid>,
    seed: u64,
    steps: usize,
) {
    let mut random = Random(seed);
    for _ in 0..steps {
        let (i, kind) = (random.below(1 << 20), random.below(10));
        let len = random.below([200, 2000, 20_000][usize::from(kind > 4) + usize::from(kind > 8)]);
        let op = match random.below(10) {
            0..4 => Op::Insert(len),
            4..6 => Op::Update(i, len),
            6..7 => Op::Poke(i, len),
            _ => Op::Delete(i),
        };
        run::<Coupled>(heap, journal, model, ghosts, &mut random, &op);
    }
}

#[test]
fn a_replayed_log_gives_the_same_pages() {
    let (pool, hints) = (pool(4096), InsertPages::new());
    let mut journal = Recorder::new(&pool);
    let heap = heap(&pool, &mut journal, &hints);
    let (mut model, mut ghosts) = (Model::new(), Vec::new());
    for seed in 0..6 {
        churn(&heap, &mut journal, &mut model, &mut ghosts, seed, 300);
        purge_all::<Coupled>(&heap, &mut journal, &mut ghosts);
    }
    assert!(heap.verify::<Coupled>().expect("sound").directories > 2);
    let again = replay(&journal.kept);
    assert_eq!(again.allocator(), pool.allocator(), "the records tell which pages are in use");
    assert_same_pages(&pool, &again, pool.allocator().next.0 - 1);
    let copy = Heap::open(&again, heap.root(), TABLE, &hints);
    copy.verify::<Coupled>().expect("sound");
    assert_eq!(content::<Coupled>(&copy), model);
}

#[test]
fn undoing_everything_gives_the_rows_before() {
    let (pool, hints) = (pool(4096), InsertPages::new());
    let mut journal = Recorder::new(&pool);
    let heap = heap(&pool, &mut journal, &hints);
    let (mut model, mut ghosts) = (Model::new(), Vec::new());
    churn(&heap, &mut journal, &mut model, &mut ghosts, 1, 400);
    purge_all::<Coupled>(&heap, &mut journal, &mut ghosts);
    let (before, from) = (model.clone(), journal.kept.len());
    churn(&heap, &mut journal, &mut model, &mut ghosts, 2, 600);
    assert_ne!(model, before);
    journal.roll_back(&pool, None, from);
    let report = heap.verify::<Coupled>().expect("sound");
    assert_eq!(report.ghosts, 0, "what was deleted is back");
    assert_eq!(content::<Coupled>(&heap), before);
    assert_every_page_is_reached::<Coupled>(&heap);
    assert_same_pages(&pool, &replay(&journal.kept), pool.allocator().next.0 - 1);
}

/// A shrunk row keeps its room and a deleted row its place, although other rows fill the page
/// meanwhile.
#[test]
fn undo_finds_its_room_in_a_page_that_others_have_filled() {
    let (pool, hints) = (pool(64), InsertPages::new());
    let mut journal = Recorder::new(&pool);
    let heap = heap(&pool, &mut journal, &hints);
    let rids: Vec<_> = (0..4u8).map(|n| heap.insert::<Coupled>(&mut journal, &[n; 1500]).unwrap()).collect();
    let from = journal.kept.len();
    heap.update::<Coupled>(&mut journal, rids[0], &[9; 10], Moves::Forward).unwrap();
    heap.delete::<Coupled>(&mut journal, rids[1]).unwrap();
    let mine = journal.kept.len();
    let mut others = Recorder::new(&pool);
    while heap.insert::<Coupled>(&mut others, &[7; 40]).unwrap().page == rids[0].page {}
    journal.kept.truncate(mine);
    journal.roll_back(&pool, None, from);
    for (n, rid) in rids.iter().enumerate() {
        assert_eq!(heap.read::<Coupled, _>(*rid, <[u8]>::to_vec).unwrap(), Some(vec![n as u8; 1500]));
    }
    heap.verify::<Coupled>().expect("sound");
}

#[test]
fn rows_of_every_length_up_to_the_longest() {
    let (pool, hints) = (pool(4096), InsertPages::new());
    let mut journal = Recorder::new(&pool);
    let heap = heap(&pool, &mut journal, &hints);
    let mut buffer = Vec::new();
    let near = INLINE - 12..INLINE + 12;
    for len in (0..40_000).step_by(997).chain(near).chain([1, 1 << 20, MAX_ROW - 1, MAX_ROW]) {
        let rid = heap.insert::<Coupled>(&mut journal, &vec![1; len]).unwrap();
        assert_eq!(heap.read::<Coupled, _>(rid, <[u8]>::len).unwrap(), Some(len));
    }
    let records = journal.kept.len();
    let long = vec![1; MAX_ROW + 1];
    let rid = Rid { page: PageId(heap.page_at::<Coupled>(0).unwrap().unwrap().0), slot: 0 };
    let stops = [
        heap.insert::<Coupled>(&mut journal, &long).unwrap_err(),
        heap.update::<Coupled>(&mut journal, rid, &long, Moves::Forward).unwrap_err(),
        heap.modify::<Coupled, _>(&mut journal, rid, &mut buffer, |row| {
            row.resize(MAX_ROW + 1, 0);
            Continue(((), 0..0))
        })
        .unwrap_err(),
    ];
    for stop in stops {
        assert!(stop.to_string().contains("at most"), "{stop}");
    }
    assert_eq!(journal.kept.len(), records, "nothing was logged");
}

#[test]
fn purged_room_is_used_again() {
    let (pool, hints) = (pool(4096), InsertPages::new());
    let mut journal = Recorder::new(&pool);
    let heap = heap(&pool, &mut journal, &hints);
    let mut rids: Vec<_> =
        (0..2000).map(|_| heap.insert::<Coupled>(&mut journal, &[3; 250]).unwrap()).collect();
    let pages = heap.pages::<Coupled>().unwrap();
    assert!(pages as usize <= 2000 / 31 + 1, "31 rows of 250 bytes share a page");
    let mut random = Random(2);
    for _ in 0..6000 {
        let rid = rids.swap_remove(random.below(rids.len()));
        assert!(heap.delete::<Coupled>(&mut journal, rid).unwrap());
        assert!(heap.purge::<Coupled>(&mut journal, rid).unwrap());
        rids.push(heap.insert::<Coupled>(&mut journal, &[4; 250]).unwrap());
    }
    let now = heap.pages::<Coupled>().unwrap();
    assert!(now <= pages + pages / 4, "{pages} pages became {now}");
}

#[test]
fn workers_insert_into_pages_of_their_own() {
    let (pool, hints) = (pool(4096), InsertPages::new());
    let mut journal = Recorder::new(&pool);
    let heap = heap(&pool, &mut journal, &hints);
    let mut last = Vec::new();
    for round in 0..200 {
        for worker in 0..4 {
            journal.worker = worker;
            let rid = heap.insert::<Coupled>(&mut journal, &[0; 100]).unwrap();
            match last.get_mut(worker) {
                None => last.push(rid.page),
                Some(page) => *page = rid.page,
            }
        }
        let distinct: BTreeSet<_> = last.iter().collect();
        assert_eq!(distinct.len(), 4, "round {round}");
    }
}

#[test]
fn threads_insert_move_and_delete() {
    let (pool, hints) = (pool(4096), InsertPages::new());
    let mut journal = Recorder::new(&pool);
    let heap = heap(&pool, &mut journal, &hints);
    let mut all = Model::new();
    std::thread::scope(|scope| {
        // Two workers share each current page, so pages hold rows of several threads.
        let threads: Vec<_> = (0..4).map(|t| scope.spawn(move || disturb(&heap, t))).collect();
        for thread in threads {
            let own = thread.join().expect("no panic");
            let expected = all.len() + own.len();
            all.extend(own);
            assert_eq!(all.len(), expected, "no place was given to two");
        }
    });
    assert_eq!(content::<Coupled>(&heap), all);
    assert_every_page_is_reached::<Coupled>(&heap);
}

fn disturb(heap: &Heap<'_>, thread: usize) -> Model {
    let mut journal = Forgetful::new(heap.pool, thread / 2);
    let mut random = Random(thread as u64 + 10);
    let mut own = Model::new();
    for _ in 0..4000 {
        let pick = own.keys().nth(random.below(own.len().max(1))).copied();
        let most = if random.below(200) == 0 { 20_000 } else { 700 };
        let len = random.below(most);
        let row = random.bytes(len);
        match (random.below(4), pick) {
            (0, Some(rid)) => {
                let moves = [Moves::Forward, Moves::Report][random.below(2)];
                let left = match settle(heap.pool, || heap.update::<Coupled>(&mut journal, rid, &row, moves))
                {
                    HeapUpdate::Done(left) => {
                        own.insert(rid, row);
                        left
                    }
                    HeapUpdate::Relocated(to) => {
                        own.remove(&rid);
                        assert_eq!(own.insert(to, row), None);
                        Some(rid)
                    }
                    HeapUpdate::Missing => panic!("{rid:?} is missing"),
                };
                if let Some(left) = left {
                    assert!(settle(heap.pool, || heap.purge::<Coupled>(&mut journal, left)));
                }
            }
            (1, Some(rid)) => {
                let read = settle(heap.pool, || heap.read::<Coupled, _>(rid, <[u8]>::to_vec));
                assert_eq!(read.as_ref(), own.get(&rid));
                assert!(settle(heap.pool, || heap.delete::<Coupled>(&mut journal, rid)));
                assert!(settle(heap.pool, || heap.purge::<Coupled>(&mut journal, rid)));
                own.remove(&rid);
            }
            _ => {
                let rid = settle(heap.pool, || heap.insert::<Coupled>(&mut journal, &row));
                assert_eq!(own.insert(rid, row), None);
            }
        }
    }
    own
}

/// A heap of several directories, and one page in the middle of it.
fn small<'p>(pool: &'p Pool, hints: &'p InsertPages) -> (Heap<'p>, Vec<Rid>) {
    let mut journal = Recorder::new(pool);
    let heap = heap(pool, &mut journal, hints);
    let mut rids = Vec::new();
    while heap.pages::<Coupled>().unwrap() <= PER_DIRECTORY as u32 * 2 {
        rids.push(heap.insert::<Coupled>(&mut journal, &[6; 900]).unwrap());
    }
    (heap, rids)
}

#[test]
fn verify_finds_what_is_broken() {
    type Break = fn(&mut [u8; PAGE_SIZE]);
    let header = pages::PAGE_HEADER;
    assert_eq!(header, 24, "the offsets below");
    let breaks: [(&str, Break); 8] = [
        ("foreign", |b| b[5] = 9),
        ("count", |b| b[24] += 1),
        ("heap", |b| b[26] ^= 1),
        ("dead", |b| b[28] += 1),
        ("free slots", |b| b[30] += 1),
        ("ordinal", |b| b[32] ^= 1),
        ("ghosts", |b| b[36] += 1),
        ("an offset", |b| b[40] ^= 0x10),
    ];
    for (what, damage) in breaks {
        let (pool, hints) = (pool(64), InsertPages::new());
        let (heap, rids) = small(&pool, &hints);
        heap.verify::<Coupled>().expect("sound before");
        damage(pool.exclusive::<Coupled>(rids[rids.len() / 2].page).unwrap().bytes_mut());
        assert!(heap.verify::<Coupled>().is_err(), "{what} was not found");
    }
    let (pool, hints) = (pool(64), InsertPages::new());
    let (heap, _) = small(&pool, &hints);
    // The second page of the first directory is also listed as the third.
    let directory = Root::new(pool.shared::<Coupled>(heap.root()).unwrap().bytes()).directory(0).unwrap();
    let at = header + 4 + PER_DIRECTORY + 4;
    pool.exclusive::<Coupled>(directory).unwrap().bytes_mut().copy_within(at..at + 4, at + 4);
    assert!(matches!(heap.verify::<Coupled>(), Err(HeapFlaw::Twice(_))));
}

#[test]
fn garbage_is_an_error_never_a_panic() {
    let mut random = Random(9);
    for round in 0..200 {
        let (pool, hints) = (pool(256), InsertPages::new());
        let (heap, rids) = small(&pool, &hints);
        let directory = Root::new(pool.shared::<Coupled>(heap.root()).unwrap().bytes()).directory(1).unwrap();
        let (victim, kind) = match round % 4 {
            0 => (heap.root(), crate::page::KIND_HEAP_ROOT),
            1 => (directory, crate::page::KIND_DIRECTORY),
            n => (rids[rids.len() - n * 5].page, KIND_ROWS),
        };
        spoil(&pool, victim, kind, round, &mut random);
        let mut journal = Forgetful::new(&pool, 0);
        let mut buffer = Vec::new();
        for &rid in &rids {
            let _ = try_settle_twice(&pool, || heap.read::<Coupled, _>(rid, <[u8]>::len));
            let _ = try_settle_twice(&pool, || {
                heap.modify::<Coupled, _>(&mut journal, rid, &mut buffer, |row| {
                    row.push(1);
                    Continue(((), 0..0))
                })
            });
            let _ = try_settle_twice(&pool, || {
                heap.update::<Coupled>(&mut journal, rid, &[2; 3000], Moves::Forward)
            });
            let _ = try_settle_twice(&pool, || heap.delete::<Coupled>(&mut journal, rid));
            let _ = try_settle(&pool, || heap.purge::<Coupled>(&mut journal, rid));
            let _ = try_settle(&pool, || heap.insert::<Coupled>(&mut journal, &[1; 500]));
        }
        let _ = try_settle(&pool, || heap.chunk::<Coupled>(HeapPlace { ordinal: 9, slot: 0 }, |_, _| {}));
        let _ = heap.verify::<Coupled>();
    }
}

/// Garbage may contradict itself at each call ("call again"), so two calls are enough.
fn try_settle_twice<T>(pool: &Pool, mut f: impl FnMut() -> Result<T, Stop>) -> Result<T, Stop> {
    let mut again = 0;
    loop {
        match f() {
            Err(Stop::Page(id)) => pool.load(id)?,
            Err(Stop::Again) if again < 2 => again += 1,
            done => return done,
        }
    }
}

fn spoil(pool: &Pool, victim: PageId, kind: u8, round: usize, random: &mut Random) {
    let mut page = pool.exclusive::<Coupled>(victim).unwrap();
    if round % 8 < 4 {
        let noise = random.bytes(PAGE_SIZE);
        page.bytes_mut().copy_from_slice(&noise);
    } else {
        for _ in 0..1 + random.below(8) {
            let at = random.below(80);
            page.bytes_mut()[at] = random.next() as u8;
        }
    }
    name(&mut page, kind, TABLE);
    page.set_lsn(Lsn(1));
}

/// A full page in which rows are removed and inserted. Each new row takes the place that was left,
/// without a compaction for each.
#[test]
fn a_row_that_leaves_a_full_page_makes_room_at_once() {
    let mut bytes = Box::new([0; PAGE_SIZE]);
    let mut page = rows::RowsMut::new(&mut bytes);
    page.format(0);
    let (mut random, mut model) = (Random(7), BTreeMap::new());
    let put = |page: &mut rows::RowsMut<'_>, model: &mut BTreeMap<u16, Vec<u8>>, n: u8| {
        let row = vec![n; 40 + usize::from(n % 5)];
        if !page.rows().fits(row.len()) {
            return false;
        }
        let slot = page.rows().next_slot().unwrap();
        page.insert(slot, Form::Plain, &[], &row).unwrap();
        assert_eq!(model.insert(slot, row), None);
        true
    };
    let mut n: u8 = 0;
    while put(&mut page, &mut model, n) {
        n = n.wrapping_add(1);
    }
    assert!(model.len() > 100);
    for round in 0..2_000 {
        let slot = *model.keys().nth(random.below(model.len())).unwrap();
        let row = model.remove(&slot).unwrap();
        page.bury(slot).unwrap();
        page.remove(slot).unwrap();
        assert!(page.rows().dead() <= 48, "round {round}: more than one row's place lies between others");
        assert!(put(&mut page, &mut model, row[0]));
        let found: BTreeMap<u16, Vec<u8>> = (0..page.rows().slots())
            .filter_map(|i| Some((i, page.rows().plain(i).unwrap()?.to_vec())))
            .collect();
        assert_eq!(found, model, "round {round}");
    }
}

/// Rows of a full page shrink and grow again, while others leave and come: a row keeps its room, so
/// that it can always take back its longest form.
#[test]
fn a_row_that_shrinks_keeps_its_room() {
    let mut bytes = Box::new([0; PAGE_SIZE]);
    let mut page = rows::RowsMut::new(&mut bytes);
    page.format(0);
    let mut random = Random(11);
    // The rows by slot: their content, and the length up to which they have room.
    let mut model: BTreeMap<u16, (Vec<u8>, usize)> = BTreeMap::new();
    for round in 0..6_000 {
        let row = vec![random.next() as u8; random.below(120)];
        if page.rows().fits(row.len()) {
            let slot = page.rows().next_slot().unwrap();
            page.insert(slot, Form::Plain, &[], &row).unwrap();
            let room = row.len().max(LEAST_ROOM);
            assert!(model.insert(slot, (row, room)).is_none());
        } else if random.below(4) == 0 {
            let slot = *model.keys().nth(random.below(model.len())).unwrap();
            page.remove(slot).unwrap();
            model.remove(&slot);
        } else {
            let nth = random.below(model.len());
            let (slot, (row, room)) = model.iter_mut().nth(nth).unwrap();
            *row = vec![random.next() as u8; if round % 2 == 0 { *room } else { random.below(*room + 1) }];
            page.replace(*slot, Form::Plain, row).unwrap();
        }
        for (slot, (row, room)) in &model {
            assert_eq!(page.rows().plain(*slot).unwrap(), Some(&row[..]), "round {round}");
            assert_eq!(page.rows().slot(*slot).unwrap().extent().len(), *room, "round {round}");
        }
    }
}
