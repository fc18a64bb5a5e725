//! The latch and the spin lock under loom: every interleaving of a few steps, in loom's memory
//! model. This file compiles the crate's files a second time against loom's atomics, so the models
//! explore the shipped code.

mod sync {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
    pub(crate) use loom::thread::yield_now;
}
/// A waiting thread of the model yields at once: loom runs the other threads until something has
/// changed.
mod backoff {
    #[derive(Default)]
    pub struct Backoff;
    pub struct GaveUp;
    impl Backoff {
        pub fn new() -> Backoff {
            Backoff
        }
        pub fn wait(&mut self) {
            super::sync::yield_now();
        }
        pub fn wait_bounded(&mut self) -> Result<(), GaveUp> {
            self.wait();
            Ok(())
        }
    }
}
/// Loom's threads share one thread of the system, so each keeps its own note of the owner for which
/// it acts.
mod acting {
    use crate::owner_id::{NO_OWNER, OwnerId, owner_bits};
    use std::cell::Cell;
    loom::thread_local! {
        static ACTING: Cell<u64> = Cell::new(NO_OWNER);
    }
    pub fn act_for(n: usize) {
        ACTING.with(|a| a.set(owner_bits(OwnerId::new(n))));
    }
    pub fn mine() -> u64 {
        ACTING.with(Cell::get)
    }
}
#[allow(dead_code, clippy::duplicate_mod)]
#[path = "page_latch.rs"]
mod page_latch;
#[allow(dead_code, clippy::duplicate_mod)]
#[path = "ring.rs"]
mod ring;
#[allow(dead_code, clippy::duplicate_mod)]
#[path = "spin.rs"]
mod spin;

use loom::cell::UnsafeCell;
use loom::thread::spawn;
use page_latch::{PageChange, PageLatch};
use std::sync::Arc;

struct Guarded {
    latch: PageLatch,
    value: UnsafeCell<u64>,
}
// SAFETY: accesses are made under the latch; loom reports one that is not.
unsafe impl Sync for Guarded {}
// SAFETY: as above.
unsafe impl Send for Guarded {}

fn resident() -> Arc<Guarded> {
    let latch = PageLatch::from_word(sync::AtomicU64::new(0));
    assert!(latch.begin_load());
    latch.end_load();
    Arc::new(Guarded { latch, value: UnsafeCell::new(0) })
}

fn write(g: &Guarded) {
    if g.latch.exclusive().is_ok() {
        // SAFETY: the exclusive latch is held.
        g.value.with_mut(|v| unsafe { *v += 1 });
        g.latch.unlock_exclusive(PageChange::Bytes);
    }
}

fn read(g: &Guarded) -> Option<u64> {
    g.latch.shared().ok()?;
    // SAFETY: a shared latch is held.
    let v = g.value.with(|v| unsafe { *v });
    g.latch.unlock_shared();
    Some(v)
}

#[test]
fn a_writer_and_a_reader_beside_a_writer() {
    loom::model(|| {
        let g = resident();
        let other = spawn({
            let g = g.clone();
            move || write(&g)
        });
        write(&g);
        let seen = read(&g).unwrap();
        assert!(seen == 1 || seen == 2);
        other.join().unwrap();
        assert_eq!(read(&g), Some(2));
    });
}

#[test]
fn a_dirty_page_is_never_evicted_and_a_change_beside_the_writer_stays_dirty() {
    loom::model(|| {
        let g = resident();
        write(&g);
        let writer = spawn({
            let g = g.clone();
            move || write(&g)
        });
        if g.latch.try_shared_unmarked() {
            let copied = g.latch.begin_write();
            // SAFETY: a shared latch is held.
            let value = g.value.with(|v| unsafe { *v });
            g.latch.unlock_shared();
            assert!(copied);
            assert!(!g.latch.begin_evict(), "the copy is not in the file yet");
            g.latch.end_write();
            let evicted = g.latch.begin_evict();
            if evicted {
                // SAFETY: the exclusive latch is held.
                assert_eq!(g.value.with(|v| unsafe { *v }), value, "an unwritten change was thrown out");
                g.latch.end_evict();
            }
        }
        writer.join().unwrap();
    });
}

#[test]
fn one_thread_loads_a_page() {
    loom::model(|| {
        let g = Arc::new(Guarded {
            latch: PageLatch::from_word(sync::AtomicU64::new(0)),
            value: UnsafeCell::new(0),
        });
        let load = |g: &Guarded| {
            if g.latch.begin_load() {
                // SAFETY: the loader holds the exclusive latch.
                g.value.with_mut(|v| unsafe { *v += 1 });
                g.latch.end_load();
            }
        };
        let other = spawn({
            let g = g.clone();
            move || load(&g)
        });
        load(&g);
        other.join().unwrap();
        assert_eq!(read(&g), Some(1));
    });
}

/// A page of two words as an optimistic reader sees it. The words are atomics because the test
/// reads beside a writer on purpose, and Relaxed because the bytes of a page have no order of their
/// own.
struct Pair {
    latch: PageLatch,
    words: [sync::AtomicU64; 2],
}

impl Pair {
    fn resident() -> Arc<Pair> {
        let pair = Pair {
            latch: PageLatch::from_word(sync::AtomicU64::new(0)),
            words: [sync::AtomicU64::new(0), sync::AtomicU64::new(0)],
        };
        assert!(pair.latch.begin_load());
        pair.latch.end_load();
        Arc::new(pair)
    }

    fn set(&self, to: u64) {
        self.words.iter().for_each(|w| w.store(to, sync::Ordering::Relaxed));
    }

    /// The values that a reader accepts after validation.
    fn believed(&self) -> Option<[u64; 2]> {
        let began = self.latch.glimpse().ok()?;
        let read = [0, 1].map(|i: usize| self.words[i].load(sync::Ordering::Relaxed));
        self.latch.unchanged(began).then_some(read)
    }
}

#[test]
fn an_optimistic_reader_believes_no_half_change() {
    loom::model(|| {
        let pair = Pair::resident();
        let writer = spawn({
            let pair = pair.clone();
            move || {
                pair.latch.exclusive().ok().unwrap();
                pair.set(1);
                pair.latch.unlock_exclusive(PageChange::Bytes);
            }
        });
        if let Some([a, b]) = pair.believed() {
            assert_eq!(a, b, "half a change was believed");
        }
        writer.join().unwrap();
        assert_eq!(pair.believed(), Some([1, 1]));
    });
}

#[test]
fn an_optimistic_reader_believes_nothing_of_a_page_that_left_or_came_back() {
    loom::model(|| {
        let pair = Pair::resident();
        pair.set(7);
        let clock = spawn({
            let pair = pair.clone();
            move || {
                assert!(pair.latch.begin_evict());
                // The memory is reused while a reader may still look at it.
                pair.set(0);
                pair.latch.end_evict();
                assert!(pair.latch.begin_load());
                pair.set(7);
                pair.latch.end_load();
            }
        });
        if let Some(read) = pair.believed() {
            assert_eq!(read, [7, 7], "zeros of a page that left were believed");
        }
        clock.join().unwrap();
        assert_eq!(pair.believed(), Some([7, 7]));
    });
}

#[test]
fn an_optimistic_reader_takes_the_mark_off() {
    loom::model(|| {
        let pair = Pair::resident();
        pair.latch.mark(pair.latch.look());
        let reader = spawn({
            let pair = pair.clone();
            move || pair.believed()
        });
        let evicted = pair.latch.look().marked() && pair.latch.begin_evict();
        if evicted {
            pair.set(9);
            pair.latch.end_evict();
        }
        match reader.join().unwrap() {
            Some(read) => assert_eq!(read, [0, 0]),
            None => assert!(evicted, "nobody changed the page"),
        }
        assert!(evicted || !pair.latch.look().marked(), "the page was used, and does not look it");
    });
}

/// All interleavings with at most two switches that no wait forces: more take minutes.
fn bounded(check: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(check);
}

/// A change by the owner's plain stores, or under the latch if the page has no owner. `false` if
/// refused.
fn write_by_page(g: &Guarded) -> bool {
    let taken = g.latch.by_page_exclusive().is_ok();
    if taken {
        // SAFETY: the page is held exclusively.
        g.value.with_mut(|v| unsafe { *v += 1 });
        g.latch.by_page_unlock_exclusive(PageChange::Bytes);
    }
    taken
}

/// Only one read-modify-write by another thread can hit the word of an owned page: the end of a
/// write that the owner began.
#[test]
fn an_owner_changes_its_page_beside_the_end_of_a_write() {
    bounded(|| {
        acting::act_for(0);
        let g = resident();
        g.latch.own().ok().unwrap();
        assert!(write_by_page(&g));
        assert!(g.latch.try_shared_unmarked() && g.latch.begin_write());
        g.latch.unlock_shared();
        let writer = spawn({
            let g = g.clone();
            move || {
                assert!(!g.latch.try_shared_unmarked() && !g.latch.begin_evict(), "the page is foreign");
                assert!(g.latch.shared().is_err() && g.latch.exclusive().is_err());
                g.latch.end_write();
            }
        });
        assert!(write_by_page(&g));
        g.latch.by_page_shared().ok().unwrap();
        g.latch.by_page_unlock_shared();
        writer.join().unwrap();
        let seen = g.latch.look();
        assert!(seen.dirty() && !seen.writing() && !seen.exclusive() && seen.sharers() == 0);
    });
}

/// A page goes from one owner to none to the next, while other threads latch it when they can.
#[test]
fn a_page_changes_hands_and_no_change_is_lost() {
    bounded(|| {
        let g = resident();
        let other = spawn({
            let g = g.clone();
            move || {
                acting::act_for(1);
                let owned = g.latch.own().is_ok();
                let wrote = write_by_page(&g);
                assert!(wrote || !owned, "an owner is not refused its own page");
                if owned {
                    g.latch.disown().ok().unwrap();
                }
                u64::from(wrote)
            }
        });
        acting::act_for(0);
        let mut wrote = u64::from(write_by_page(&g));
        if g.latch.own().is_ok() {
            assert!(write_by_page(&g));
            wrote += 1;
            g.latch.disown().ok().unwrap();
        }
        wrote += other.join().unwrap();
        assert!(g.latch.look().owner().is_none());
        g.latch.shared().ok().unwrap();
        // SAFETY: a shared latch is held.
        assert_eq!(g.value.with(|v| unsafe { *v }), wrote);
    });
}

#[test]
fn an_owned_page_stays_until_its_owner_throws_it_out() {
    loom::model(|| {
        let g = resident();
        let clock = spawn({
            let g = g.clone();
            move || {
                g.latch.mark(g.latch.look());
                let evicted = g.latch.begin_evict();
                if evicted {
                    g.latch.end_evict();
                }
                evicted
            }
        });
        acting::act_for(0);
        g.latch.own().ok().unwrap();
        let wrote = write_by_page(&g);
        let evicted = clock.join().unwrap();
        assert!(wrote || evicted, "the owner was refused a page that is there");
        assert_eq!(g.latch.look().resident(), wrote);
        assert!(g.latch.is_mine(), "also a page that left");
    });
}

/// A reader that began before the page got an owner accepts nothing that the owner's thread then
/// wrote.
#[test]
fn a_reader_from_before_the_owner_came_believes_no_half_change() {
    loom::model(|| {
        let pair = Pair::resident();
        let owner = spawn({
            let pair = pair.clone();
            move || {
                acting::act_for(0);
                pair.latch.own().ok().unwrap();
                pair.latch.by_page_exclusive().ok().unwrap();
                pair.set(1);
                pair.latch.by_page_unlock_exclusive(PageChange::Bytes);
                pair.latch.disown().ok().unwrap();
            }
        });
        // While the page belongs to another owner, no thread may ask for a view of it: the access
        // path is closed before.
        let began = pair.latch.glimpse().ok().unwrap();
        if !began.foreign() {
            let read = [0, 1].map(|i: usize| pair.words[i].load(sync::Ordering::Relaxed));
            if pair.latch.unchanged(began) {
                assert_eq!(read[0], read[1], "half a change was believed");
            }
        }
        owner.join().unwrap();
        assert_eq!(pair.believed(), Some([1, 1]));
    });
}

#[test]
fn the_spin_lock_excludes_and_publishes() {
    struct Counter {
        raw: spin::SpinRaw,
        value: UnsafeCell<u64>,
    }
    // SAFETY: accesses are made under the lock; loom reports one that is not.
    unsafe impl Sync for Counter {}
    // SAFETY: as above.
    unsafe impl Send for Counter {}
    loom::model(|| {
        let c = Arc::new(Counter {
            raw: spin::SpinRaw::from_flag(sync::AtomicBool::new(false)),
            value: UnsafeCell::new(0),
        });
        let add = |c: &Counter| {
            c.raw.acquire();
            // SAFETY: the lock is held.
            c.value.with_mut(|v| unsafe { *v += 1 });
            c.raw.release();
        };
        let other = spawn({
            let c = c.clone();
            move || add(&c)
        });
        add(&c);
        other.join().unwrap();
        c.raw.acquire();
        // SAFETY: the lock is held.
        assert_eq!(c.value.with(|v| unsafe { *v }), 2);
    });
}

/// Two slots and three values, so that a slot is used again while the other side is at work.
#[test]
fn a_ring_gives_every_value_once_and_in_order() {
    loom::model(|| {
        let (mut into, mut out) = ring::ring(2);
        let producer = spawn(move || {
            // The first two are published together, the third when the producer is dropped.
            for number in 0..3u64 {
                let mut value = Box::new(number);
                while let Err(back) = into.stage(value) {
                    value = back;
                    sync::yield_now();
                }
                if number == 1 {
                    into.publish();
                }
            }
        });
        for expected in 0..2u64 {
            let value = loop {
                match out.pop() {
                    Some(value) => break value,
                    None => sync::yield_now(),
                }
            };
            assert_eq!(*value, expected);
        }
        // The third may be left in the ring, for the thread that drops the ring last.
        drop(out);
        producer.join().unwrap();
    });
}
