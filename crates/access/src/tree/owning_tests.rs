//! Trees that change owners between threads, beside a tree that all threads latch. The pool is so
//! small that pages are evicted all the time, and a page freed in one tree is soon used by another.

use super::tests::{Model, content};
use super::*;
use crate::testing::{Forgetful, Random, Recorder, pool, settle};
use latch::{ByPage, Coupled, OwnerId, act_for};
use pages::Tending;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::scope;

const TREES: usize = 5;
const WORKERS: usize = 3;
const SHARED: TableId = TableId(99);

fn make<'p>(pool: &'p Pool, journal: &mut Recorder, id: TableId) -> BTree<'p> {
    let root = settle(pool, || BTree::create::<Coupled>(pool, journal, id));
    BTree::open(pool, root, id).with_fill_limit(256)
}

/// One random change of `tree`, made in `model` too.
fn change(tree: &BTree<'_>, journal: &mut Forgetful, random: &mut Random, model: &mut Model, prefix: u8) {
    let mut key = vec![prefix];
    key.extend(random.bytes(1));
    key.extend([0; 9]);
    let value = random.bytes(6);
    // Phases of growth and of shrinking, so that the tree splits and merges.
    if random.below(8) < 3 + (model.len() / 64 + prefix as usize) % 3 {
        match settle(tree.pool, || tree.insert::<ByPage>(journal, &key, &value, Expect::Any)) {
            TreeInsert::Done => assert!(model.insert(key, value).is_none()),
            TreeInsert::Exists => assert!(model.contains_key(&key)),
            TreeInsert::Next(_) => unreachable!(),
        }
    } else {
        let gone = settle(tree.pool, || tree.delete::<ByPage>(journal, &key, Expect::Any));
        assert_eq!(matches!(gone, TreeDelete::Done(_)), model.remove(&key).is_some());
    }
    let got =
        settle(tree.pool, || tree.get::<ByPage, _>(&[prefix, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0], <[u8]>::to_vec));
    assert_eq!(got.as_ref(), model.get(&[prefix, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0][..]));
}

#[test]
fn trees_change_hands_beside_one_that_is_latched() {
    let pool = &pool(48);
    let mut journal = Recorder::new(pool);
    let shared = make(pool, &mut journal, SHARED);
    let trees: Vec<_> = (0..TREES as u16).map(|t| make(pool, &mut journal, TableId(t + 1))).collect();
    let free = &Mutex::new(trees.into_iter().map(|tree| (tree, Model::new())).collect::<Vec<_>>());
    let (done, turns) = (&AtomicBool::new(false), &AtomicU64::new(0));
    let mut own = Vec::new();
    scope(|scope| {
        let cleaner = scope.spawn(move || pool.serve(Tending::Cleaner, done));
        let workers: Vec<_> = (0..WORKERS)
            .map(|w| {
                scope.spawn(move || {
                    act_for(OwnerId::new(w));
                    let (mut journal, mut random) = (Forgetful::new(pool, w), Random(w as u64));
                    let mut mine = Model::new();
                    for _ in 0..150 {
                        let taken = free.lock().unwrap().pop();
                        let Some((tree, mut model)) = taken else { continue };
                        assert!(settle(pool, || tree.own_pages()) > 0);
                        for _ in 0..random.below(60) {
                            change(&tree, &mut journal, &mut random, &mut model, 1);
                            change(&shared, &mut journal, &mut random, &mut mine, w as u8 + 10);
                            pool.turn();
                        }
                        let owned = content::<ByPage>(&tree, Direction::Forward);
                        assert_eq!(owned, model.clone().into_iter().collect::<Vec<_>>());
                        settle(pool, || tree.disown_pages());
                        free.lock().unwrap().insert(0, (tree, model));
                        turns.fetch_add(1, Ordering::Relaxed);
                    }
                    mine
                })
            })
            .collect();
        own = workers.into_iter().map(|w| w.join().expect("no panic")).collect::<Vec<_>>();
        done.store(true, Ordering::Relaxed);
        pool.stop_serving();
        cleaner.join().expect("no panic");
    });
    assert!(turns.load(Ordering::Relaxed) > 200 && pool.stats().evicted > 1000, "{:?}", pool.stats());
    let mut used = settle(pool, || shared.verify::<Coupled>().map_err(|_| Stop::NoSpace));
    let all: Model = own.into_iter().flatten().collect();
    assert_eq!(content::<Coupled>(&shared, Direction::Forward), all.into_iter().collect::<Vec<_>>());
    for (tree, model) in free.lock().unwrap().drain(..) {
        assert_eq!(content::<Coupled>(&tree, Direction::Backward).len(), model.len());
        let report = tree.verify::<Coupled>().expect("sound");
        used.leaves += report.leaves;
        used.inner_nodes += report.inner_nodes;
    }
    assert_eq!(pool.stats().allocated, (used.leaves + used.inner_nodes) as u32, "no page is lost");
    assert!((1..=used.leaves as u32).all(|id| pool.owner_of(base::PageId(id)).is_none()));
}

/// The owner of the pages is right after splits, merges and the root's growing and shrinking.
#[test]
fn an_owned_tree_owns_what_it_grows_by_and_nothing_it_has_freed() {
    let pool = &pool(4096);
    let mut journal = Recorder::new(pool);
    let tree = make(pool, &mut journal, TableId(1));
    act_for(OwnerId::new(3));
    tree.own_pages().unwrap();
    let key = |i: u32| base::Key::new().u32(i).u64(0);
    for i in 0..600 {
        tree.insert::<ByPage>(&mut journal, &key(i), b"value", Expect::Any).unwrap();
    }
    let owned =
        |pool: &Pool| (1..=pool.allocator().next.0).filter(|&p| pool.owner_of(PageId(p)).is_some()).count();
    let report = tree.verify::<ByPage>().unwrap();
    assert!(report.levels > 2, "{report:?}");
    assert_eq!(owned(pool) as u64, report.leaves + report.inner_nodes);
    let mut foreign = || {
        act_for(OwnerId::new(4));
        let stop = tree.insert::<ByPage>(&mut journal, &key(9999), b"x", Expect::Any);
        act_for(OwnerId::new(3));
        stop
    };
    if !cfg!(debug_assertions) {
        assert!(matches!(foreign(), Err(Stop::Fault(_))), "another owner is refused");
    }
    for i in 0..600 {
        tree.delete::<ByPage>(&mut journal, &key(i), Expect::Any).unwrap();
    }
    let report = tree.verify::<ByPage>().unwrap();
    assert_eq!((owned(pool), pool.stats().allocated), (1, 1), "{report:?}");
    assert_eq!(tree.disown_pages().unwrap(), 1);
    assert_eq!(owned(pool), 0);
    act_for(None);
}
