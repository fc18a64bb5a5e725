//! Loom models of node versions, epochs, the log's buffers, read reservations and rows' lives:
//! every interleaving of a few steps, under loom's memory model. The source files are compiled a
//! second time here, against loom's atomics, so the models explore the code that ships.

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
    pub(crate) type CachePadded<T> = Plain<T>;

    /// Loom has no cache lines.
    pub struct Plain<T>(T);
    impl<T> Plain<T> {
        pub fn new(value: T) -> Self {
            Plain(value)
        }
    }
    impl<T> std::ops::Deref for Plain<T> {
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
            self.0.lock().expect("no thread of a model panics and goes on")
        }
    }

    /// A waiting thread of a model yields at once: loom then runs the others until something has
    /// changed.
    pub struct Backoff;
    impl Backoff {
        pub fn new() -> Backoff {
            Backoff
        }
        pub fn wait(&mut self) {
            loom::thread::yield_now();
        }
    }
}
#[allow(dead_code, clippy::duplicate_mod)]
#[path = "log/buffer.rs"]
mod buffer;
#[allow(dead_code, clippy::duplicate_mod)]
#[path = "epoch.rs"]
mod epoch;
#[allow(dead_code, clippy::duplicate_mod)]
#[path = "life.rs"]
mod life;
#[allow(dead_code, clippy::duplicate_mod)]
#[path = "read_reservation.rs"]
mod read_reservation;
#[allow(dead_code, clippy::duplicate_mod)]
#[path = "version.rs"]
mod version;

use loom::thread::spawn;
use std::sync::Arc;
use sync::{AtomicU64, Ordering};

/// Has loom run every interleaving, and checks that there were several. With the reader as the
/// first thread and the writer spawned, loom 0.7 runs these models in one order only, which no bug
/// can fail.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    let runs = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = runs.clone();
    loom::model(move || {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        model();
    });
    assert!(runs.load(std::sync::atomic::Ordering::Relaxed) > 5, "{runs:?} interleavings are not all");
}

/// A node of two words that are equal whenever no thread is changing it.
struct Node {
    version: AtomicU64,
    words: [AtomicU64; 2],
}

impl Node {
    fn new() -> Arc<Node> {
        let words = [AtomicU64::new(0), AtomicU64::new(0)];
        Arc::new(Node { version: AtomicU64::new(version::FRESH), words })
    }

    fn add(&self) -> bool {
        let Some(seen) = version::begin(&self.version) else { return false };
        if !version::try_lock(&self.version, seen) {
            return false;
        }
        for word in &self.words {
            word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        version::unlock(&self.version);
        true
    }

    fn read(&self) -> Option<u64> {
        let seen = version::begin(&self.version)?;
        let [a, b] = [0, 1].map(|i| self.words[i].load(Ordering::Relaxed));
        version::check(&self.version, seen).then(|| {
            assert_eq!(a, b, "half a change was believed");
            a
        })
    }
}

#[test]
fn a_reader_never_believes_half_a_change() {
    explore(|| {
        let node = Node::new();
        let reader = spawn({
            let node = node.clone();
            move || node.read()
        });
        assert!(node.add());
        reader.join().unwrap();
        assert_eq!(node.read(), Some(1));
    });
}

#[test]
fn two_writers_lose_no_change() {
    explore(|| {
        let node = Node::new();
        let other = spawn({
            let node = node.clone();
            move || u64::from(node.add())
        });
        let own = u64::from(node.add());
        let both = own + other.join().unwrap();
        assert!(both >= 1);
        assert_eq!(node.read(), Some(both));
    });
}

#[test]
fn a_retired_node_is_never_locked_again() {
    explore(|| {
        let node = Node::new();
        let other = spawn({
            let node = node.clone();
            move || {
                let seen = version::begin(&node.version).unwrap();
                if version::try_lock(&node.version, seen) {
                    version::retire(&node.version);
                    return true;
                }
                false
            }
        });
        let own = node.add();
        let retired = other.join().unwrap();
        assert!(own || retired);
        assert_eq!(version::begin(&node.version).is_none(), retired);
        assert!(!retired || !node.add());
    });
}

/// A distributed reader adds itself and then checks the lock; a writer locks and then checks the
/// count. At most one of them goes on.
#[test]
fn a_guarded_reader_and_a_writer_see_each_other() {
    explore(|| {
        let (lock, count) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(7)));
        let reader = spawn({
            let (lock, count) = (lock.clone(), count.clone());
            move || {
                read_reservation::enter(&count, read_reservation::OF_ROW);
                let reads = lock.load(Ordering::Acquire) == 0;
                if !reads {
                    read_reservation::leave(&count, read_reservation::OF_ROW);
                }
                reads
            }
        });
        assert!(lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok());
        read_reservation::settle();
        let writes = !read_reservation::is_held(&count, read_reservation::OF_ROW);
        // The lower bits of the word change under the lock.
        count.fetch_add(2, Ordering::Relaxed);
        let reads = reader.join().unwrap();
        assert!(!(reads && writes), "what is read is written before the decision");
        assert_eq!(count.load(Ordering::Relaxed), 9 + if reads { read_reservation::OF_ROW } else { 0 });
    });
}

const LINKED: u64 = 1;
const USED_AGAIN: u64 = 2;

/// A cell holds the number of a block, 0 or 1. A block says whether it is still the one that was
/// linked.
fn reclaimed(tick: bool) {
    explore(move || {
        let epochs = Arc::new(epoch::Epochs::new(1, 1));
        let cell = Arc::new(AtomicU64::new(0));
        let blocks = Arc::new([AtomicU64::new(LINKED), AtomicU64::new(LINKED)]);
        let reader = spawn({
            let (epochs, cell, blocks) = (epochs.clone(), cell.clone(), blocks.clone());
            move || {
                epochs.publish(0, epoch::EpochUse::Reading, epochs.now());
                let at = cell.load(Ordering::Acquire) as usize;
                assert_eq!(blocks[at].load(Ordering::Relaxed), LINKED, "used again under a reader");
                epochs.withdraw(0, epoch::EpochUse::Reading, epoch::IDLE);
            }
        });
        cell.store(1, Ordering::Release);
        let tag = epochs.tag();
        if tick {
            epochs.tick();
        }
        if epochs.horizon() > tag {
            blocks[0].store(USED_AGAIN, Ordering::Relaxed);
        }
        reader.join().unwrap();
        assert!(epochs.horizon() > tag);
    });
}

#[test]
fn a_block_is_not_used_again_under_a_reader() {
    reclaimed(false);
}

#[test]
fn a_tick_between_changes_nothing() {
    reclaimed(true);
}

/// A row leaves its index, and its block becomes another row as soon as that is allowed. A reader
/// comes by a hint that was made for one of the two.
fn hinted(wanted: u64, tick: bool) {
    explore(move || {
        let epochs = Arc::new(epoch::Epochs::new(1, 1));
        let word = Arc::new(AtomicU64::new(0));
        let key = Arc::new(AtomicU64::new(1));
        let reader = spawn({
            let (epochs, word, key) = (epochs.clone(), word.clone(), key.clone());
            move || {
                epochs.publish(0, epoch::EpochUse::Reading, epochs.now());
                if life::is_there(&word) && key.load(Ordering::Relaxed) == wanted {
                    // The row is in its index, and its block does not become another row while the
                    // reader is pinned.
                    let seen = word.load(Ordering::Relaxed) & !life::DEAD;
                    assert_eq!(seen, wanted - 1, "the key is of another life than the word");
                    assert_eq!(key.load(Ordering::Relaxed), wanted, "another row under a reader");
                }
                epochs.withdraw(0, epoch::EpochUse::Reading, epoch::IDLE);
            }
        });
        life::leave(&word, 0);
        let tag = epochs.tag();
        if tick {
            epochs.tick();
        }
        if epochs.horizon() > tag {
            word.store(1 | life::DEAD, Ordering::Relaxed);
            key.store(2, Ordering::Relaxed);
            life::enter(&word);
        }
        reader.join().unwrap();
    });
}

#[test]
fn a_row_that_a_hint_finds_is_the_one_it_says() {
    for tick in [false, true] {
        hinted(1, tick);
        hinted(2, tick);
    }
}

/// The moment at which a worker of the model appends its record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Appends {
    BeforeItWithdraws,
    Afterwards,
}

/// A worker logs in an epoch while another thread flushes. Returns whether a record was missing
/// that the flush claims to have.
fn flushed(appends: Appends) -> Arc<std::sync::atomic::AtomicBool> {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    let missed = Arc::new(AtomicBool::new(false));
    let told = missed.clone();
    explore(move || {
        let epochs = Arc::new(epoch::Epochs::new(1, 1));
        let buffer = Arc::new(buffer::Buffer::new());
        let worker = spawn({
            let (epochs, buffer) = (epochs.clone(), buffer.clone());
            move || {
                epochs.publish(0, epoch::EpochUse::Committing, epochs.now());
                let now = epochs.now();
                let append = || buffer.append(|bytes| bytes.push(now as u8));
                if appends == Appends::BeforeItWithdraws {
                    append();
                }
                epochs.withdraw(0, epoch::EpochUse::Committing, epoch::IDLE);
                if appends == Appends::Afterwards {
                    append();
                }
                now
            }
        });
        let ended = epochs.now();
        epochs.end(ended);
        let is_complete = epochs.oldest(epoch::EpochUse::Committing) > ended;
        let mut taken = Vec::new();
        buffer.take(&mut taken);
        let logged = worker.join().unwrap();
        if is_complete && logged <= ended && taken.is_empty() {
            told.store(true, Relaxed);
        }
    });
    missed
}

#[test]
fn a_flush_that_completes_an_epoch_has_all_its_records() {
    let missed = flushed(Appends::BeforeItWithdraws);
    assert!(!missed.load(std::sync::atomic::Ordering::Relaxed));
    let missed = flushed(Appends::Afterwards);
    assert!(missed.load(std::sync::atomic::Ordering::Relaxed), "the model finds what it is there to find");
}
