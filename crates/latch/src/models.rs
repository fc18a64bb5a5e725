//! The latch and the spin lock under loom: every interleaving of a few steps, with loom's memory model. The files
//! of the crate are compiled a second time here against loom's atomics, so what is explored is what runs.

mod sync {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
    pub(crate) use loom::thread::yield_now;
}
/// A waiter of the model yields at once: loom then runs the others until something changed.
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
use page_latch::{Change, PageLatch};
use std::sync::Arc;

struct Guarded {
    latch: PageLatch,
    value: UnsafeCell<u64>,
}
// SAFETY: accesses are made under the latch; loom reports it when they are not.
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
        g.latch.unlock_exclusive(Change::Bytes);
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

/// A page of two words as an optimistic reader meets it: the words are atomics because reading beside a writer is
/// the point, and Relaxed because the page's bytes have no order of their own.
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

    /// What a reader that validates believes.
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
                pair.latch.unlock_exclusive(Change::Bytes);
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
                // What giving the memory back does to whoever still looks.
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

#[test]
fn the_spin_lock_excludes_and_publishes() {
    struct Counter {
        raw: spin::SpinRaw,
        value: UnsafeCell<u64>,
    }
    // SAFETY: accesses are made under the lock; loom reports it when they are not.
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

/// Two slots and three values, so that slots are used again while the other side is at work.
#[test]
fn a_ring_gives_every_value_once_and_in_order() {
    loom::model(|| {
        let (mut into, mut out) = ring::ring(2);
        let producer = spawn(move || {
            for value in 0..3u64 {
                let mut value = Box::new(value);
                while let Err(back) = into.push(value) {
                    value = back;
                    sync::yield_now();
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
        // The third may be left in the ring, for whoever drops it last.
        drop(out);
        producer.join().unwrap();
    });
}
