//! Extents under loom: every interleaving of a few steps of two appenders and the flusher, in
//! loom's memory model. This file compiles `extents.rs` a second time against loom's atomics, so
//! the model explores the shipped code. The ring consists of loom's cells: loom reports a byte that
//! two threads access without ordering.

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
    pub(crate) use std::sync::Arc;

    #[derive(Default)]
    pub struct Backoff;
    impl Backoff {
        pub fn new() -> Backoff {
            Backoff
        }
        /// A waiting thread of the model yields at once: loom runs the other threads until
        /// something has changed.
        pub fn wait(&mut self) {
            loom::thread::yield_now();
        }
    }

    pub struct CachePadded<T>(T);
    impl<T> CachePadded<T> {
        pub fn new(value: T) -> Self {
            CachePadded(value)
        }
    }
    impl<T> std::ops::Deref for CachePadded<T> {
        type Target = T;
        fn deref(&self) -> &T {
            &self.0
        }
    }

    pub struct SpinMutex<T>(loom::sync::Mutex<T>);
    impl<T> SpinMutex<T> {
        pub fn ranked(_: latch::Rank, value: T) -> Self {
            SpinMutex(loom::sync::Mutex::new(value))
        }
        pub fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }
}

#[allow(dead_code, clippy::duplicate_mod)]
#[path = "extents.rs"]
mod extents;

use super::{Complete, Counts, Crowded, Drain, Holes, Placed};
use crate::frame::{self, HEAD, Item};
use crate::order::LogOrder;
use base::Lsn;
use extents::{Extents, Marks, Slot};
use loom::cell::UnsafeCell;
use loom::thread::spawn;
use std::sync::Arc;

const LIFE: u64 = 5;
const START: u64 = 64;
const WORDS: usize = 64;
/// Length of a record of the model: three words, so that a record differs from a pad frame.
const RECORD: usize = 24;
const MAGIC: u64 = 0xfeed << 32;

struct Ring([UnsafeCell<u64>; WORDS]);
// SAFETY: loom reports two threads that use a cell without ordering.
unsafe impl Sync for Ring {}
// SAFETY: as above.
unsafe impl Send for Ring {}

impl Ring {
    fn bytes(&self) -> usize {
        WORDS * 8
    }
    unsafe fn put(&self, at: u64, bytes: &[u8]) {
        for (n, word) in bytes.chunks_exact(8).enumerate() {
            let value = u64::from_le_bytes(word.try_into().unwrap());
            // SAFETY: loom checks it.
            self.0[(at as usize / 8 + n) % WORDS].with_mut(|cell| unsafe { *cell = value });
        }
    }
    fn get(&self, at: u64) -> u64 {
        // SAFETY: loom checks it.
        self.0[at as usize / 8 % WORDS].with(|cell| unsafe { *cell })
    }
}

#[derive(Clone, Copy)]
struct Room<'a> {
    ring: &'a Ring,
    life: u64,
    drain: Drain,
}

impl Room<'_> {
    fn limit(&self) -> u64 {
        START + self.ring.bytes() as u64
    }
    fn must_wait(&self, end: u64) -> bool {
        assert!(end <= self.limit(), "the model's ring is large enough");
        false
    }
    fn welcomes(&self, _: u64) -> bool {
        true
    }
    fn forget_below(&self, _: u64) {}
}

struct Draft<'a> {
    frame: &'a mut [u8],
}

impl Draft<'_> {
    fn bytes(&self) -> u64 {
        self.frame.len() as u64
    }
    unsafe fn put(&mut self, room: &Room<'_>, start: u64) {
        // SAFETY: the caller's promise, and loom checks it.
        unsafe { room.ring.put(start, self.frame) };
    }
}

struct House {
    extents: Extents,
    ring: Ring,
}

fn house() -> Arc<House> {
    let extents = Extents::new(START, u64::MAX, 1 << 20, 2048, Marks::Written);
    Arc::new(House { extents, ring: Ring(std::array::from_fn(|_| UnsafeCell::new(0))) })
}

impl House {
    fn room(&self) -> Room<'_> {
        Room { ring: &self.ring, life: LIFE, drain: Drain::Flusher }
    }

    fn append(&self, slot: &Arc<Slot>, who: u64, order: LogOrder) -> u64 {
        let mut frame = [0; RECORD];
        for (n, word) in frame.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&(MAGIC | who << 8 | n as u64).to_le_bytes());
        }
        let placed = self.extents.append(slot, &mut Draft { frame: &mut frame }, order, &self.room());
        let Ok(Placed { start, .. }) = placed else { unreachable!("nobody waits for room") };
        assert!(!matches!(order, LogOrder::After(lsn) | LogOrder::Dependent(lsn) if start < lsn.0));
        start
    }

    /// Appends a dependent record. Returns the position up to which the log must survive for it to
    /// count.
    fn commit(&self, slot: &Arc<Slot>, who: u64) -> u64 {
        let depends_on = self.extents.depends_on(slot);
        depends_on.max(self.append(slot, who, LogOrder::Dependent(Lsn(0))) + RECORD as u64)
    }

    /// Walks the part of the log that is reported complete. Returns the writers of the records in
    /// it.
    fn walk(&self, mut from: u64, upto: u64) -> Vec<u64> {
        let mut found = Vec::new();
        while from < upto {
            let first = self.ring.get(from);
            if first & MAGIC == MAGIC {
                let who = first >> 8 & 0xff;
                for n in 0..RECORD as u64 / 8 {
                    assert_eq!(self.ring.get(from + n * 8), MAGIC | who << 8 | n, "half a record");
                }
                found.push(who);
                from += RECORD as u64;
                continue;
            }
            let head: Vec<u8> =
                (0..HEAD as u64 / 8).flat_map(|n| self.ring.get(from + n * 8).to_le_bytes()).collect();
            match frame::item(&head, from, LIFE) {
                Some(Item::Pad(bytes)) => from += bytes as u64,
                Some(Item::Mark(_)) => from += HEAD as u64,
                _ => panic!("a hole at {from}"),
            }
        }
        assert_eq!(from, upto, "the end of what is whole lies within a frame");
        found
    }
}

fn explore(f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(f);
}

/// The flusher seals while owners claim and fill. All that it gets is complete, and at the end all
/// records are there.
#[test]
fn what_is_given_to_the_flusher_is_whole() {
    explore(|| {
        let house = house();
        let (one, two) = (Arc::<Slot>::default(), Arc::<Slot>::default());
        let other = {
            let house = house.clone();
            spawn(move || {
                house.append(&two, 2, LogOrder::ANY);
                house.append(&two, 3, LogOrder::Last);
            })
        };
        let flusher = {
            let house = house.clone();
            spawn(move || {
                let end = house.extents.end();
                let Complete { upto, .. } = house.extents.complete(Holes::Close { upto: end }, &house.room());
                assert!(upto >= end);
                (house.walk(START, upto), upto)
            })
        };
        house.append(&one, 1, LogOrder::ANY);
        house.append(&one, 4, LogOrder::ANY);
        other.join().unwrap();
        let (mut found, upto) = flusher.join().unwrap();
        let end = house.extents.end();
        let rest = house.extents.complete(Holes::Close { upto: end }, &house.room());
        found.extend(house.walk(upto, rest.upto));
        found.sort_unstable();
        assert_eq!(found, [1, 2, 3, 4]);
        let Counts { records, .. } = house.extents.counts();
        assert!(records <= 4);
    });
}

/// A record of order `Last` lies past each record that its thread has heard of.
#[test]
fn last_is_behind_what_was_over() {
    explore(|| {
        let house = house();
        let (one, two) = (Arc::<Slot>::default(), Arc::<Slot>::default());
        let heard = Arc::new(loom::sync::atomic::AtomicU64::new(0));
        let other = {
            let (house, heard) = (house.clone(), heard.clone());
            spawn(move || {
                house.append(&two, 2, LogOrder::ANY);
                heard.store(house.append(&two, 3, LogOrder::ANY), loom::sync::atomic::Ordering::Release);
            })
        };
        house.append(&one, 1, LogOrder::ANY);
        let before = heard.load(loom::sync::atomic::Ordering::Acquire);
        assert!(house.append(&one, 4, LogOrder::Last) > before);
        assert!(house.append(&one, 5, LogOrder::After(Lsn(before + 1))) > before);
        other.join().unwrap();
    });
}

/// T1 reads the position up to which T2's commit needs the log. T1's next commit needs at least as
/// much, and the flusher reaches both while it closes extents.
#[test]
fn what_is_rested_on_is_passed_on_and_reached() {
    explore(|| {
        let house = house();
        let (one, two) = (Arc::<Slot>::default(), Arc::<Slot>::default());
        let heard = Arc::new(loom::sync::atomic::AtomicU64::new(0));
        let other = {
            let (house, heard) = (house.clone(), heard.clone());
            spawn(move || {
                house.append(&two, 2, LogOrder::ANY);
                let holds = house.commit(&two, 3);
                heard.store(holds, loom::sync::atomic::Ordering::Release);
                holds
            })
        };
        let flusher = {
            let house = house.clone();
            spawn(move || {
                let end = house.extents.end();
                house.extents.complete(Holes::Close { upto: end }, &house.room()).upto
            })
        };
        house.append(&one, 1, LogOrder::ANY);
        let before = heard.load(loom::sync::atomic::Ordering::Acquire);
        let holds = house.commit(&one, 4);
        assert!(holds >= before, "a commit rests on less than one it has seen");
        let theirs = other.join().unwrap();
        flusher.join().unwrap();
        let end = house.extents.end();
        assert!(end >= holds.max(theirs), "records rest on more than there will be");
        let whole = house.extents.complete(Holes::Close { upto: end }, &house.room()).upto;
        assert!(whole >= holds.max(theirs), "what records rest on is not reached");
    });
}

/// A record of order `Last` lies past the positions on which earlier commits rest.
#[test]
fn last_is_behind_what_is_rested_on() {
    explore(|| {
        let house = house();
        let (one, two) = (Arc::<Slot>::default(), Arc::<Slot>::default());
        let heard = Arc::new(loom::sync::atomic::AtomicU64::new(0));
        let other = {
            let (house, heard) = (house.clone(), heard.clone());
            spawn(move || {
                house.append(&two, 2, LogOrder::ANY);
                heard.store(house.commit(&two, 3), loom::sync::atomic::Ordering::Release);
            })
        };
        house.append(&one, 1, LogOrder::ANY);
        let before = heard.load(loom::sync::atomic::Ordering::Acquire);
        assert!(house.append(&one, 4, LogOrder::Last) >= before);
        other.join().unwrap();
    });
}

/// Records appended before the fence lie below it, later ones do not.
#[test]
fn a_fence_divides() {
    explore(|| {
        let house = house();
        let (one, two) = (Arc::<Slot>::default(), Arc::<Slot>::default());
        let other = {
            let house = house.clone();
            spawn(move || {
                house.append(&two, 2, LogOrder::ANY);
                house.append(&two, 3, LogOrder::ANY);
            })
        };
        let before = house.append(&one, 1, LogOrder::ANY);
        let fence = house.extents.fence(&house.room());
        let after = house.append(&one, 4, LogOrder::ANY);
        assert!(before < fence && after >= fence);
        other.join().unwrap();
    });
}

#[expect(dead_code, reason = "the model never runs out of room")]
fn unused(_: Crowded) {}
