//! The tree under threads: each thread may see only states that existed. Nodes are small and pools
//! tight, so that splits, merges and evictions come all the time.

use super::tests::{Model, content, tree};
use super::*;
use crate::testing::{Forgetful, Random, Recorder, pool, settle, try_settle};
use base::Key;
use latch::{Coupled, Optimistic};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::scope;

/// Tells the threads that run until told to end, also when the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Several threads grow, shrink and scan; each has keys of its own and knows which of them exist.
fn fight<L: LatchPolicy>(frames: usize, steps: usize) {
    let pool = pool(frames);
    let mut journal = Recorder::new(&pool);
    let tree = tree(&pool, &mut journal, 256);
    let done = &AtomicBool::new(false);
    let mut survivors = Vec::new();
    scope(|scope| {
        let ends = Ends(done);
        let checker = scope.spawn(move || {
            let mut checks = 0;
            while !done.load(Ordering::Relaxed) {
                tree.verify::<L>().expect("sound at every moment");
                checks += 1;
            }
            checks
        });
        let threads: Vec<_> = (0..4u8).map(|t| scope.spawn(move || disturb::<L>(&tree, t, steps))).collect();
        survivors = threads.into_iter().map(|t| t.join().expect("no panic")).collect();
        drop(ends);
        assert!(checker.join().expect("no flaw") > 0);
    });
    let report = tree.verify::<L>().expect("sound");
    assert_eq!(pool.stats().allocated, (report.leaves + report.inner_nodes) as u32, "no page is lost");
    let all: Model = content::<L>(&tree, Direction::Forward).into_iter().collect();
    for (t, own) in survivors.iter().enumerate() {
        let found: Model =
            all.iter().filter(|(k, _)| k[0] == t as u8 + 1).map(|(k, v)| (k.clone(), v.clone())).collect();
        assert_eq!(&found, own, "thread {t}'s own keys");
    }
}

#[test]
fn threads_on_disjoint_and_shared_keys() {
    fight::<Coupled>(4096, 3000);
    fight::<Optimistic>(4096, 6000);
}

#[test]
fn threads_in_a_pool_too_small_for_the_tree() {
    fight::<Optimistic>(24, 1200);
}

/// One thread's work: keys of its own, and keys that all threads change.
pub(super) fn disturb<L: LatchPolicy>(tree: &BTree<'_>, thread: u8, steps: usize) -> Model {
    let mut journal = Forgetful::new(tree.pool, thread.into());
    let mut random = Random(u64::from(thread));
    let mut own = Model::new();
    for step in 0..steps {
        let n = random.below(300) as u16;
        let shared = random.below(3) == 0;
        let key = [&[if shared { 0 } else { thread + 1 }][..], &n.to_be_bytes()].concat();
        // Phases that grow and phases that shrink, so that nodes split and merge.
        let insert = random.below(4) < if step / 400 % 2 == 0 { 3 } else { 1 };
        if insert {
            // Each insert first asks for the next key, so that the look at the next leaf is tested
            // too.
            let done = settle(tree.pool, || {
                let next = tree.successor::<L>(Bound::Excluded(&key))?;
                tree.insert::<L>(&mut journal, &key, &[thread], Expect::Next(next.as_deref()))
            });
            if done == TreeInsert::Done && !shared {
                assert_eq!(own.insert(key, vec![thread]), None);
            }
        } else {
            let done = settle(tree.pool, || tree.delete::<L>(&mut journal, &key, Expect::Any));
            if !shared {
                assert_eq!(own.remove(&key).is_some(), matches!(done, TreeDelete::Done(_)));
            }
        }
        if random.below(200) == 0 {
            check_scans::<L>(tree, thread, own.len());
        }
    }
    own
}

fn check_scans<L: LatchPolicy>(tree: &BTree<'_>, thread: u8, own: usize) {
    for direction in [Direction::Forward, Direction::Backward] {
        let seen = content::<L>(tree, direction);
        let ordered = seen.is_sorted_by(|a, b| match direction {
            Direction::Forward => a.0 < b.0,
            Direction::Backward => a.0 > b.0,
        });
        assert!(ordered, "a scan beside writers is in order and shows no key twice");
        let mine = seen.iter().filter(|(k, _)| k[0] == thread + 1).count();
        assert_eq!(mine, own, "a scan misses none of the thread's own keys");
    }
}

const KEYS: usize = 400;

/// A value that differs from the value of every other key and counter, in all of its bytes.
fn value_of(key: usize, counter: u64) -> Vec<u8> {
    let mut random = Random(key as u64 * 1_000_003 + counter);
    let mut value = [key as u64, counter].map(u64::to_le_bytes).concat();
    value.extend(random.bytes(4));
    value
}

fn counter_of(key: usize, value: &[u8]) -> u64 {
    let counter = u64::from_le_bytes(value[8..16].try_into().expect("a value of this test"));
    assert_eq!(value, value_of(key, counter), "bytes of two values, or of another key's");
    counter
}

fn key_of(key: usize) -> [u8; 4] {
    (key as u32 * 7).to_be_bytes()
}

/// One writer for each key, counting up. Readers must never see a torn value, a counter that goes
/// back, or one that the writer has not begun to write. Splits, merges and evictions happen
/// meanwhile.
fn history<L: LatchPolicy>(frames: usize, rounds: u64) {
    let pool = pool(frames);
    let mut journal = Recorder::new(&pool);
    let tree = tree(&pool, &mut journal, 512);
    for key in 0..KEYS {
        settle(&pool, || tree.insert::<L>(&mut journal, &key_of(key), &value_of(key, 0), Expect::Any));
    }
    let begun: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let done: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let (begun, done, over) = (&begun[..], &done[..], &AtomicBool::new(false));
    scope(|scope| {
        let ends = Ends(over);
        let readers: Vec<_> =
            (0..2).map(|r| scope.spawn(move || watch::<L>(&tree, begun, done, over, r))).collect();
        let writers: Vec<_> =
            (0..2).map(|w| scope.spawn(move || count_up::<L>(&tree, begun, done, w, rounds))).collect();
        let stirrer = scope.spawn(move || stir::<L>(&tree, over));
        writers.into_iter().for_each(|w| w.join().expect("no panic"));
        drop(ends);
        stirrer.join().expect("no panic");
        let reads: u64 = readers.into_iter().map(|r| r.join().expect("a sound history")).sum();
        assert!(reads > 0);
    });
    tree.verify::<L>().expect("sound");
}

fn count_up<L: LatchPolicy>(
    tree: &BTree<'_>,
    begun: &[AtomicU64],
    done: &[AtomicU64],
    writer: usize,
    rounds: u64,
) {
    let mut journal = Forgetful::new(tree.pool, writer);
    let mut random = Random(writer as u64);
    for _ in 0..rounds {
        let key = random.below(KEYS / 2) * 2 + writer;
        let counter = begun[key].fetch_add(1, Ordering::SeqCst) + 1;
        let value = value_of(key, counter);
        let put = settle(tree.pool, || tree.replace::<L>(&mut journal, &key_of(key), &value));
        assert_eq!(put, TreeReplace::Done(Key::from_bytes(&value_of(key, counter - 1))));
        done[key].store(counter, Ordering::SeqCst);
    }
}

fn watch<L: LatchPolicy>(
    tree: &BTree<'_>,
    begun: &[AtomicU64],
    done: &[AtomicU64],
    over: &AtomicBool,
    seed: u64,
) -> u64 {
    let (mut random, mut reads) = (Random(seed + 50), 0);
    while !over.load(Ordering::Relaxed) {
        let key = random.below(KEYS);
        let least = done[key].load(Ordering::SeqCst);
        let seen = if random.below(20) > 0 {
            settle(tree.pool, || tree.get::<L, _>(&key_of(key), |value| counter_of(key, value)))
        } else {
            let (low, mut seen) = (key_of(key), None);
            let mut visit = |k: &[u8], v: &[u8]| {
                if k == key_of(key) {
                    seen = Some(counter_of(key, v));
                }
            };
            let from = Bound::Included(&low[..]);
            settle(tree.pool, || tree.chunk::<L>(from, None, Direction::Forward, &mut visit));
            seen
        };
        let seen = seen.expect("no key of the history is ever deleted");
        assert!(seen >= least, "a value older than one that was there before the read");
        assert!(seen <= begun[key].load(Ordering::SeqCst), "a value from the future");
        reads += 1;
    }
    reads
}

/// Inserts and deletes keys between those of the history, so that its leaves split and merge.
fn stir<L: LatchPolicy>(tree: &BTree<'_>, over: &AtomicBool) {
    let mut journal = Forgetful::new(tree.pool, 9);
    let mut round = 0usize;
    while !over.load(Ordering::Relaxed) {
        for n in 0..KEYS * 2 {
            let key = ((n * 7 / 2) as u32).to_be_bytes();
            let key = [&key[..], &[1]].concat();
            if round.is_multiple_of(2) {
                settle(tree.pool, || tree.insert::<L>(&mut journal, &key, &[7; 12], Expect::Any));
            } else {
                settle(tree.pool, || tree.delete::<L>(&mut journal, &key, Expect::Any));
            }
            if over.load(Ordering::Relaxed) {
                return;
            }
        }
        round += 1;
    }
}

#[test]
fn readers_without_latches_see_whole_values_in_order() {
    history::<Optimistic>(4096, 12_000);
}

#[test]
fn readers_without_latches_see_whole_values_while_pages_come_and_go() {
    history::<Optimistic>(14, 1500);
}

#[test]
fn readers_with_latches_see_whole_values_in_order() {
    history::<Coupled>(4096, 4000);
}

/// A split under one parent succeeds while another parent is held.
#[test]
fn structure_modifications_in_different_subtrees_do_not_exclude_each_other() {
    let pool = pool(4096);
    let mut journal = Recorder::new(&pool);
    let tree = tree(&pool, &mut journal, 256);
    for n in 0..3000u32 {
        settle(&pool, || tree.insert::<Optimistic>(&mut journal, &n.to_be_bytes(), &[1; 9], Expect::Any));
    }
    assert!(tree.verify::<Optimistic>().expect("sound").levels >= 3);
    let held =
        tree.exclusive_at::<Optimistic>(Probe::new(&5u32.to_be_bytes()), 1).unwrap().expect("a parent");
    let allocated = pool.stats().allocated;
    let insert = || {
        for n in 0..60u8 {
            let key = [&2000u32.to_be_bytes()[..], &[n]].concat();
            let done = try_settle(&pool, || {
                tree.insert::<Optimistic>(&mut Forgetful::new(&pool, 0), &key, &[2; 9], Expect::Any)
            });
            assert_eq!(done.expect("no page is in the way"), TreeInsert::Done);
        }
    };
    std::thread::scope(|scope| scope.spawn(insert).join()).expect("no panic");
    assert!(pool.stats().allocated > allocated + 1, "leaves split while a parent elsewhere was held");
    drop(held);
    tree.verify::<Optimistic>().expect("sound");
}

/// "Top to bottom, then left to right": the other way is found although no other thread is there.
#[test]
#[cfg(debug_assertions)]
fn pages_asked_for_upwards_or_to_the_left_are_found() {
    let pool = pool(4096);
    let mut journal = Recorder::new(&pool);
    let tree = tree(&pool, &mut journal, 256);
    for n in 0..300u32 {
        settle(&pool, || tree.insert::<Optimistic>(&mut journal, &n.to_be_bytes(), &[1; 9], Expect::Any));
    }
    let take = |n: u32, level| {
        let page = tree.exclusive_at::<Optimistic>(Probe::new(&n.to_be_bytes()), level);
        page.expect("in memory").expect("a node")
    };
    let ends = |f: &(dyn Fn() + Sync)| std::thread::scope(|scope| scope.spawn(f).join());
    ends(&|| drop((take(5, 0), take(280, 0)))).expect("the order of the protocol");
    for inverted in
        [&(|| drop((take(5, 0), take(5, 1)))) as &(dyn Fn() + Sync), &|| drop((take(280, 0), take(5, 0)))]
    {
        let text = *ends(inverted).expect_err("an inversion").downcast::<String>().expect("a text");
        assert!(text.starts_with("latch order: TreePlace"), "{text}");
    }
    tree.verify::<Optimistic>().expect("sound");
}
