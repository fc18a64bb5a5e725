//! Multi-rooted trees against a map, their log cut at every record, threads beside splits and
//! merges, and pages of garbage. Nodes are small.

use super::race_tests::disturb;
use super::tests::{Model, content, find_batch};
use super::*;
use crate::testing::{
    Forgetful, Random, Recorder, TABLE, assert_same_pages, pool, pool_with_short_records, replay, settle,
    try_settle,
};
use base::Lsn;
use latch::{Coupled, Optimistic, Owned};
use pages::PAGE_SIZE;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;

const SMALL: usize = 256;

/// A multi-rooted tree's first page, and its map.
fn multi(pool: &Pool, journal: &mut Recorder) -> (PageId, RootMap) {
    let first = pool.allocate().unwrap();
    BTree::create_multi_at::<Coupled>(pool, journal, TABLE, first).unwrap();
    (first, BTree::read_roots(pool, first, TABLE).unwrap())
}

fn handle<'p>(pool: &'p Pool, first: PageId, roots: &'p RootMap) -> BTree<'p> {
    BTree::open(pool, first, TABLE).with_fill_limit(SMALL).with_roots(roots)
}

fn random_key(random: &mut Random) -> Vec<u8> {
    let n = random.below(400) as u16;
    [&n.to_be_bytes()[..], &[7; 9][..random.below(10)]].concat()
}

/// One random operation on tree and model; a repartitioning now and then.
fn step<L: LatchPolicy>(
    tree: &BTree<'_>,
    journal: &mut Recorder,
    random: &mut Random,
    model: &mut Model,
    grow: usize,
) {
    let key = random_key(random);
    let len = 1 + random.below(12);
    let value = random.bytes(len);
    let next = |model: &Model, key: &[u8]| {
        model.range::<[u8], _>((Bound::Excluded(key), Bound::Unbounded)).next().map(|(k, _)| k.clone())
    };
    match random.below(20) {
        0 => {
            let before = tree.partitions();
            let moved = settle(tree.pool, || tree.split_partition::<L>(journal, &key));
            let new = before.iter().all(|start| start.as_slice() != key);
            assert_eq!(
                (moved.pages_made > 0, tree.partitions().len()),
                (new, before.len() + usize::from(new))
            );
        }
        1 => {
            let starts = tree.partitions();
            if let Some(start) = starts.get(1 + random.below(starts.len())) {
                settle(tree.pool, || tree.merge_partition::<L>(journal, start));
                assert_eq!(tree.partitions().len(), starts.len() - 1);
            }
        }
        2 => {
            let found = settle(tree.pool, || tree.successor::<L>(Bound::Excluded(&key)));
            assert_eq!(found.map(|k| k.to_vec()), next(model, &key));
            let found = settle(tree.pool, || tree.predecessor::<L>(Bound::Excluded(&key)));
            let below = model.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(&key[..]))).next_back();
            assert_eq!(found.map(|k| k.to_vec()), below.map(|(k, _)| k.clone()));
        }
        n if n < 3 + grow => {
            let follows = next(model, &key);
            let wrong = Expect::Next(Some(b"\xff\xff\xff"));
            let put = |journal: &mut Recorder, expect| {
                settle(tree.pool, || tree.insert::<L>(journal, &key, &value, expect))
            };
            if !model.contains_key(&key) {
                let seen = put(journal, wrong);
                assert_eq!(seen, TreeInsert::Next(follows.as_deref().map(base::Key::from_bytes)));
            }
            match put(journal, Expect::Next(follows.as_deref())) {
                TreeInsert::Done => assert!(model.insert(key, value).is_none()),
                other => assert!(other == TreeInsert::Exists && model.contains_key(&key)),
            }
        }
        _ => {
            let key = model.range(key..).next().map_or_else(Vec::new, |(k, _)| k.clone());
            let follows = next(model, &key);
            let gone =
                settle(tree.pool, || tree.delete::<L>(journal, &key, Expect::Next(follows.as_deref())));
            assert_eq!(matches!(gone, TreeDelete::Done(_)), model.remove(&key).is_some());
        }
    }
}

fn verified<L: LatchPolicy>(tree: &BTree<'_>, model: &Model) {
    let mut seen = BTreeSet::new();
    tree.verify_into::<L>(&mut seen).expect("sound");
    assert_eq!(seen.len() as u32, tree.pool.stats().allocated, "no page is lost");
    let all: Vec<_> = model.clone().into_iter().collect();
    assert_eq!(content::<L>(tree, Direction::Forward), all);
    let backwards: Vec<_> = all.into_iter().rev().collect();
    assert_eq!(content::<L>(tree, Direction::Backward), backwards);
}

fn model_run<L: LatchPolicy>(seed: u64, steps: usize, frames: usize) {
    let pool = pool(frames);
    let mut journal = Recorder::new(&pool);
    let (first, roots) = multi(&pool, &mut journal);
    let tree = handle(&pool, first, &roots);
    let (mut random, mut model) = (Random(seed), Model::new());
    for n in 0..steps {
        step::<L>(&tree, &mut journal, &mut random, &mut model, if n / 300 % 2 == 0 { 12 } else { 5 });
        if n % 100 == 0 {
            verified::<L>(&tree, &model);
        }
    }
    assert!(journal.kept.len() > steps / 4);
    verified::<L>(&tree, &model);
    let copy = replay(&journal.kept);
    assert_same_pages(&pool, &copy, pool.allocator().next.0 - 1);
    let again = BTree::read_roots(&copy, first, TABLE).unwrap();
    verified::<Coupled>(&handle(&copy, first, &again), &model);
}

#[test]
fn several_roots_behave_as_one_sorted_map() {
    for seed in 0..3 {
        model_run::<Optimistic>(seed, 700, 4096);
        model_run::<Coupled>(seed + 100, 400, 4096);
        model_run::<Owned>(seed + 200, 400, 40);
    }
}

/// After a crash behind any record, every split and merge is there whole or not at all.
#[test]
fn a_log_cut_at_any_record_gives_a_sound_tree() {
    let pool = pool(4096);
    let mut journal = Recorder::new(&pool);
    let (first, roots) = multi(&pool, &mut journal);
    let tree = handle(&pool, first, &roots);
    let (mut random, mut model) = (Random(42), Model::new());
    let mut states = vec![(journal.kept.len(), model.clone())];
    for n in 0..160 {
        step::<Coupled>(&tree, &mut journal, &mut random, &mut model, if n < 110 { 13 } else { 4 });
        states.push((journal.kept.len(), model.clone()));
    }
    let mut repartitioned = 0;
    for cut in 1..=journal.kept.len() {
        let copy = replay(&journal.kept[..cut]);
        let again = BTree::read_roots(&copy, first, TABLE).unwrap();
        let tree = handle(&copy, first, &again);
        let mut seen = BTreeSet::new();
        tree.verify_into::<Coupled>(&mut seen).expect("sound");
        assert_eq!(seen.len() as u32, copy.stats().allocated, "no page is lost behind record {cut}");
        if let Some((_, model)) = states.iter().find(|(at, _)| *at == cut) {
            assert_eq!(content::<Coupled>(&tree, Direction::Forward).len(), model.len());
        }
        repartitioned = repartitioned.max(tree.partitions().len());
    }
    assert!(repartitioned > 2, "{repartitioned}");
}

fn fill(tree: &BTree<'_>, journal: &mut Recorder, from: u32, count: u32) {
    for n in from..from + count {
        tree.insert::<Coupled>(journal, &n.to_be_bytes(), b"a value", Expect::Any).unwrap();
    }
}

fn levels(tree: &BTree<'_>, key: u32) -> u8 {
    let root = tree.pool.shared::<Coupled>(tree.partition(&key.to_be_bytes()).root).unwrap();
    Node::new(root.bytes()).level() + 1
}

/// Section 4.3.5: two sub-trees of one height, then the left or the right one higher; the moved
/// entries are counted.
#[test]
fn sub_trees_of_any_heights_merge() {
    const MIDDLE: u32 = 1 << 16;
    for (left, right) in
        [(3, 3), (6, 6), (60, 60), (400, 400), (400, 3), (3, 400), (400, 60), (60, 400), (0, 90), (90, 0)]
    {
        let pool = pool(4096);
        let mut journal = Recorder::new(&pool);
        let (first, roots) = multi(&pool, &mut journal);
        let tree = handle(&pool, first, &roots);
        let key = MIDDLE.to_be_bytes();
        let moved = tree.split_partition::<Coupled>(&mut journal, &key).unwrap();
        assert_eq!((moved.pages_made, moved.leaf_entries, tree.partitions().len()), (1, 0, 2));
        fill(&tree, &mut journal, MIDDLE - left, left);
        fill(&tree, &mut journal, MIDDLE, right);
        let heights = (levels(&tree, 0), levels(&tree, MIDDLE));
        let moved = tree.merge_partition::<Coupled>(&mut journal, &key).unwrap();
        assert_eq!(tree.partitions().len(), 1);
        if heights.0 != heights.1 {
            assert_eq!((moved.leaf_entries, moved.inner_entries), (0, 0), "only pointers: {moved:?}");
            assert!(levels(&tree, 0) <= heights.0.max(heights.1));
        } else {
            assert!(
                moved.pages_freed + moved.pages_made == 1 && moved.inner_entries + moved.leaf_entries > 0
            );
        }
        let all = content::<Coupled>(&tree, Direction::Forward);
        assert_eq!(all.len() as u32, left + right);
        let mut seen = BTreeSet::new();
        tree.verify_into::<Coupled>(&mut seen).expect("sound");
        assert_eq!(seen.len() as u32, pool.stats().allocated);

        // And apart again, in the middle of a leaf: one new node on each level, at most half a
        // leaf's entries.
        let (at, height) = (MIDDLE - left / 2, usize::from(levels(&tree, 0)));
        let moved = tree.split_partition::<Coupled>(&mut journal, &at.to_be_bytes()).unwrap();
        assert!(moved.pages_made <= height && moved.leaf_entries < 30, "{moved:?}");
        assert_eq!(content::<Coupled>(&tree, Direction::Backward).len() as u32, left + right);
        tree.verify::<Coupled>().expect("sound");
    }
}

/// More partitions than a page of the table holds: the table grows by pages, and frees them again.
#[test]
fn the_partition_table_grows_by_pages_and_shrinks() {
    let pool = pool(4096);
    let mut journal = Recorder::new(&pool);
    let (first, roots) = multi(&pool, &mut journal);
    let tree = handle(&pool, first, &roots);
    let (mut random, mut keys) = (Random(3), BTreeSet::new());
    while keys.len() < 200 {
        let key = random_key(&mut random);
        tree.split_partition::<Coupled>(&mut journal, &key).unwrap();
        keys.insert(key);
        assert_eq!(tree.partitions().len(), keys.len() + 1);
    }
    let table = table::starts_of::<Coupled>(&pool, TABLE, first).unwrap();
    assert!(table.1.len() > 10 && table.0 == roots.starts().0);
    fill(&tree, &mut journal, 0, 100);
    verified_count(&tree, 100);
    for key in keys {
        tree.merge_partition::<Coupled>(&mut journal, &key).unwrap();
    }
    verified_count(&tree, 100);
    assert_eq!(table::starts_of::<Coupled>(&pool, TABLE, first).unwrap().1, [first]);
}

/// Regression: a split that needed a record longer than the log takes freed its sub-tree's pages,
/// but not the new page of the table.
#[test]
fn a_split_that_fails_gives_back_the_page_that_the_table_was_to_grow_by() {
    let pool = pool_with_short_records(4096, 1 << 12);
    let mut journal = Recorder::new(&pool);
    let (first, roots) = multi(&pool, &mut journal);
    let tree = BTree::open(&pool, first, TABLE).with_fill_limit(700).with_roots(&roots);
    fill(&tree, &mut journal, 0, 4000);
    let (mut random, mut refused) = (Random(4), 0);
    for _ in 0..300 {
        let key = [&(random.below(4000) as u32).to_be_bytes()[..], &[7; 16][..random.below(17)]].concat();
        if tree.split_partition::<Coupled>(&mut journal, &key).is_err() {
            refused += 1;
            verified_count(&tree, 4000);
        }
    }
    let done = tree.partitions().len();
    assert!(refused > 10 && done > 50, "{refused} were refused, {done} done");
}

fn verified_count(tree: &BTree<'_>, entries: u64) {
    let mut seen = BTreeSet::new();
    assert_eq!(tree.verify_into::<Coupled>(&mut seen).expect("sound").entries, entries);
    assert_eq!(seen.len() as u32, tree.pool.stats().allocated);
}

/// Regression: repeated splits and merges made trees ever higher, with more and more nodes of one
/// child.
#[test]
fn repartitioning_makes_a_tree_no_higher() {
    let pool = pool(4096);
    let mut journal = Recorder::new(&pool);
    let (first, roots) = multi(&pool, &mut journal);
    let tree = handle(&pool, first, &roots);
    fill(&tree, &mut journal, 0, 1000);
    let (height, used) = (levels(&tree, 0), pool.stats().allocated);
    let mut random = Random(5);
    for _ in 0..150 {
        let keys = [0; 3].map(|_| (random.below(1100) as u32).to_be_bytes());
        for key in keys {
            tree.split_partition::<Coupled>(&mut journal, &key).unwrap();
        }
        for start in tree.partitions().iter().skip(1).rev() {
            tree.merge_partition::<Coupled>(&mut journal, start).unwrap();
        }
    }
    verified_count(&tree, 1000);
    let (now, pages) = (levels(&tree, 0), pool.stats().allocated);
    assert!(now <= height + 1 && pages < used * 3, "{height} levels were {now}, {used} pages {pages}");
}

/// Regression: the last merge below a root waited for the node that it held itself, gave up, and
/// left the root with one child.
#[test]
fn a_root_that_is_left_with_one_child_takes_its_place_at_once() {
    let pool = pool(256);
    let mut journal = Recorder::new(&pool);
    let tree = super::tests::tree(&pool, &mut journal, SMALL);
    fill(&tree, &mut journal, 0, 20);
    let mut report = tree.verify::<Coupled>().expect("sound");
    assert_eq!(report.levels, 2);
    for n in 0..20u32 {
        tree.delete::<Coupled>(&mut journal, &n.to_be_bytes(), Expect::Any).unwrap();
        report = tree.verify::<Coupled>().expect("sound");
        assert_eq!(report.leaves == 1, report.levels == 1, "behind the deletion of {n}");
    }
    assert_eq!((report.levels, pool.stats().allocated), (1, 1));
}

#[test]
fn partitions_are_loaded_one_by_one() {
    let pool = pool(4096);
    let mut journal = Recorder::new(&pool);
    let (first, roots) = multi(&pool, &mut journal);
    let tree = handle(&pool, first, &roots);
    let entries: Vec<_> = (0..500u32).map(|n| (n.to_be_bytes(), b"loaded")).collect();
    for at in [100u32, 200, 450] {
        tree.split_partition::<Coupled>(&mut journal, &at.to_be_bytes()).unwrap();
    }
    for (from, to) in [(0, 100), (100, 200), (200, 450), (450, 500)] {
        let part = tree.partition(&(from as u32).to_be_bytes());
        let all = || entries.iter().copied();
        let beyond = part.bulk::<Coupled, _, _>(&mut journal, all().skip(from), 90);
        assert_eq!(beyond.is_err(), to < 500, "a key behind its bound");
        if to < 500 {
            part.bulk::<Coupled, _, _>(&mut journal, all().take(to).skip(from), 90).unwrap();
        }
    }
    verified_count(&tree, 500);
}

/// Regression: the root of one sub-tree was not resident, and the keys of the other sub-trees were
/// not seen either.
#[test]
fn a_key_in_a_cold_sub_tree_hides_no_other_from_looking_ahead() {
    let pool = pool(24);
    let mut journal = Recorder::new(&pool);
    let (first, roots) = multi(&pool, &mut journal);
    let tree = handle(&pool, first, &roots);
    let key = |n: usize| (n as u32).to_be_bytes().to_vec();
    for n in 0..600 {
        settle(&pool, || tree.insert::<Optimistic>(&mut journal, &key(n), b"v", Expect::Any));
    }
    for start in (10..600).step_by(10) {
        settle(&pool, || tree.split_partition::<Optimistic>(&mut journal, &key(start)));
    }
    let (mut random, mut cold) = (Random(6), 0);
    for _ in 0..100 {
        let hot = random.below(600);
        settle(&pool, || tree.get::<Optimistic, _>(&key(hot), |_| ()));
        let seen = find_batch::<Optimistic>(&tree, &[key((hot + 300) % 600), key(hot)]);
        cold += usize::from(seen[0].is_none());
        assert!(seen[1].is_some(), "{hot} is in memory");
    }
    assert!(cold > 20, "{cold} of 100 were cold");
}

/// Threads that change, scan and look for the next key, while partitions are split and merged.
fn repartition_under<L: LatchPolicy>(frames: usize, steps: usize) {
    let pool = &pool(frames);
    let mut journal = Recorder::new(pool);
    let (first, roots) = multi(pool, &mut journal);
    let tree = handle(pool, first, &roots);
    let over = &AtomicBool::new(false);
    let mut survivors = Vec::new();
    scope(|scope| {
        let balancer = scope.spawn(move || {
            let (mut journal, mut random) = (Forgetful::new(pool, 9), Random(9));
            let mut changes = 0;
            // On a busy machine the other threads may be done before this thread gets its turn.
            while !over.load(Ordering::Relaxed) || changes < 3 {
                let starts = tree.partitions();
                let key = [random.below(5) as u8, random.below(2) as u8, random.next() as u8];
                let grow = random.below(12) >= starts.len();
                if let Some(start) = starts.get(1 + random.below(starts.len())).filter(|_| !grow) {
                    settle(pool, || tree.merge_partition::<L>(&mut journal, start));
                } else {
                    settle(pool, || tree.split_partition::<L>(&mut journal, &key));
                }
                changes += 1;
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        });
        let checker = scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                tree.verify::<L>().expect("sound at every moment");
            }
        });
        let threads: Vec<_> = (0..3u8).map(|t| scope.spawn(move || disturb::<L>(&tree, t, steps))).collect();
        survivors = threads.into_iter().map(|t| t.join()).collect();
        over.store(true, Ordering::Relaxed);
        balancer.join().expect("no panic");
        checker.join().expect("no flaw");
    });
    let all: Model = content::<L>(&tree, Direction::Forward).into_iter().collect();
    for (t, own) in survivors.into_iter().enumerate() {
        let found: Model =
            all.iter().filter(|(k, _)| k[0] == t as u8 + 1).map(|(k, v)| (k.clone(), v.clone())).collect();
        assert_eq!(found, own.expect("no panic"), "thread {t}'s own keys");
    }
    let mut seen = BTreeSet::new();
    tree.verify_into::<L>(&mut seen).expect("sound");
    assert_eq!(seen.len() as u32, pool.stats().allocated, "no page is lost");
}

#[test]
fn partitions_are_split_and_merged_under_threads() {
    repartition_under::<Optimistic>(4096, 2000);
    repartition_under::<Coupled>(4096, 800);
    repartition_under::<Optimistic>(48, 500);
}

#[test]
fn what_cannot_be_split_or_merged_is_refused() {
    let pool = pool(256);
    let mut journal = Recorder::new(&pool);
    let (first, roots) = multi(&pool, &mut journal);
    let tree = handle(&pool, first, &roots);
    fill(&tree, &mut journal, 0, 50);
    let kept = journal.kept.len();
    let refused = |done: Result<Moved, Stop>| matches!(done, Err(Stop::Fault(_)));
    assert!(refused(tree.merge_partition::<Coupled>(&mut journal, b"nothing begins here")));
    assert!(refused(tree.merge_partition::<Coupled>(&mut journal, b"")), "nothing lies before the first");
    assert!(refused(tree.split_partition::<Coupled>(&mut journal, &[1; SMALL])));
    let single = super::tests::tree(&pool, &mut journal, SMALL);
    assert!(refused(single.split_partition::<Coupled>(&mut journal, b"a")) && single.partitions().is_empty());
    assert_eq!(tree.split_partition::<Coupled>(&mut journal, b"").unwrap().pages_made, 0, "it begins there");
    assert_eq!(journal.kept.len(), kept + 1, "the single tree's root, and nothing else");
    assert!(BTree::read_roots(&pool, single.root, TABLE).is_err(), "a node is no partition table");
}

#[test]
fn a_garbled_partition_table_is_an_error() {
    let mut random = Random(11);
    for round in 0..80 {
        let pool = pool(256);
        let mut journal = Recorder::new(&pool);
        let (first, roots) = multi(&pool, &mut journal);
        let tree = handle(&pool, first, &roots);
        fill(&tree, &mut journal, 0, 40);
        for at in [10u32, 20, 30] {
            tree.split_partition::<Coupled>(&mut journal, &at.to_be_bytes()).unwrap();
        }
        {
            let mut page = pool.exclusive::<Coupled>(first).unwrap();
            let noise = random.bytes(PAGE_SIZE);
            for _ in 0..1 + random.below(6) {
                let at = pages::PAGE_HEADER + random.below(if round % 2 == 0 { 50 } else { 1000 });
                page.bytes_mut()[at] = noise[at];
            }
            if round % 5 == 0 {
                page.bytes_mut().copy_from_slice(&noise);
            }
            page.set_lsn(Lsn(1));
        }
        let read = try_settle(&pool, || BTree::read_roots(&pool, first, TABLE));
        let same = read.as_ref().is_ok_and(|map| map.starts().0 == roots.starts().0);
        assert_eq!(tree.verify::<Coupled>().is_ok(), same, "another table than there was is a flaw");
        if let Ok(map) = read {
            let tree = handle(&pool, first, &map);
            for n in 0..40u32 {
                let key = n.to_be_bytes();
                let _ = try_settle(&pool, || tree.get::<Optimistic, _>(&key, <[u8]>::len));
                let _ = try_settle(&pool, || tree.successor::<Coupled>(Bound::Included(&key)));
            }
            let _ = tree.verify::<Coupled>();
        }
        let _ = try_settle(&pool, || tree.split_partition::<Coupled>(&mut journal, &[0, 0, 0, 25]));
        let _ = try_settle(&pool, || tree.merge_partition::<Coupled>(&mut journal, &[0, 0, 0, 20]));
    }
}
