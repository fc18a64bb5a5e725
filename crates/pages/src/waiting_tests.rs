//! Waiting for pages without blocking: one read for many waiters, failures that reach each of them,
//! full disks, owners, and the effect of a scan on pages in use.

use crate::tests::{DATA, FRAMES, PAGES, Random, fill, get, log, open, put};
use crate::{Coupled, Owned, PAGE_HEADER, PAGE_SIZE, PageFault, Pool, PoolOptions, Progress, Stop, Tending};
use base::PageId;
use std::future::Future;
use std::io::ErrorKind;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::scope;
use std::time::{Duration, Instant};
use wal::Durability;
use world::{Deed, Files, Intervention, Means, Open, memory, watched};

#[derive(Default)]
struct Count(AtomicUsize);
impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls a future to its end as a worker does. If the future is never woken, the test fails instead
/// of hanging.
fn run<T>(pool: &Pool, future: impl Future<Output = T>) -> T {
    run_tending(pool, future, || ())
}

/// As [`run`], with the work of the pages' owner between two polls.
fn run_tending<T>(pool: &Pool, future: impl Future<Output = T>, tend: impl Fn()) -> T {
    let woken = Arc::new(Count(AtomicUsize::new(1)));
    let waker = Waker::from(woken.clone());
    let (mut future, give_up) = (pin!(future), Instant::now() + Duration::from_secs(20));
    loop {
        if woken.0.swap(0, Ordering::SeqCst) > 0
            && let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker))
        {
            return value;
        }
        pool.turn();
        tend();
        assert!(Instant::now() < give_up, "nobody woke the waiter");
        std::thread::yield_now();
    }
}

async fn with_pages<T>(pool: &Pool, f: impl Fn() -> Result<T, Stop>) -> T {
    loop {
        match f() {
            Ok(value) => return value,
            Err(Stop::Page(id)) => pool.wait_for(id).await.unwrap(),
            Err(Stop::Again) => {}
            Err(stop) => panic!("{stop}"),
        }
    }
}

/// A written database on `files`, reopened with no page in memory, reading by `means`.
fn reopened(files: &Arc<dyn Files>, means: Means) -> Pool {
    let first = open(files, Durability::Sync);
    fill(&first);
    first.write_back().unwrap();
    drop(first);
    let options = PoolOptions { max_pages: 1000, ..PoolOptions::new(FRAMES) };
    Pool::open_by(files.clone(), Path::new(DATA), options, log(files, Durability::Sync), means).unwrap()
}

/// A file system that counts reads of the data file and blocks them until they are allowed.
fn slow_reads() -> (Arc<dyn Files>, Arc<AtomicBool>, Arc<AtomicU64>) {
    let (held, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let files = SlowFiles { inner: memory(), held: held.clone(), reads: reads.clone() };
    (Arc::new(files), held, reads)
}

struct SlowFiles {
    inner: Arc<dyn Files>,
    held: Arc<AtomicBool>,
    reads: Arc<AtomicU64>,
}

struct SlowFile {
    inner: Arc<dyn world::File>,
    held: Arc<AtomicBool>,
    reads: Arc<AtomicU64>,
}

impl world::File for SlowFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
        if offset > 0 {
            self.reads.fetch_add(1, Ordering::SeqCst);
            while self.held.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.inner.read_at(buf, offset)
    }
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        self.inner.write_all_at(bytes, offset)
    }
    fn sync(&self) -> std::io::Result<()> {
        self.inner.sync()
    }
    fn len(&self) -> std::io::Result<u64> {
        self.inner.len()
    }
    fn set_len(&self, bytes: u64) -> std::io::Result<()> {
        self.inner.set_len(bytes)
    }
    fn allocate(&self, bytes: u64) -> std::io::Result<()> {
        self.inner.allocate(bytes)
    }
}

impl Files for SlowFiles {
    fn open(&self, path: &Path, how: Open) -> std::io::Result<Arc<dyn world::File>> {
        let inner = self.inner.open(path, how)?;
        if path != Path::new(DATA) {
            return Ok(inner);
        }
        Ok(Arc::new(SlowFile { inner, held: self.held.clone(), reads: self.reads.clone() }))
    }
    fn remove(&self, path: &Path) -> std::io::Result<()> {
        self.inner.remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        self.inner.rename(from, to)
    }
    fn list(&self, dir: &Path) -> std::io::Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> std::io::Result<()> {
        self.inner.create_dir_all(dir)
    }
    fn sync_dir(&self, dir: &Path) -> std::io::Result<()> {
        self.inner.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> std::io::Result<world::FolderLock> {
        self.inner.lock(path)
    }
    fn share(&self, path: &Path, bytes: usize) -> std::io::Result<Option<Box<dyn world::SharedMemory>>> {
        self.inner.share(path, bytes)
    }
}

#[test]
fn a_page_is_read_once_however_many_wait_for_it_and_nobody_blocks() {
    let (files, held, reads) = slow_reads();
    let pool = reopened(&files, Means::Best);
    held.store(true, Ordering::SeqCst);
    reads.store(0, Ordering::SeqCst);
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    let mut waits: Vec<_> = (0..10).map(|_| Box::pin(pool.wait_for(PageId(3)))).collect();
    // Each waiter has a waker of its own, like a task.
    let wakers: Vec<Waker> = (0..10).map(|_| Waker::from(Arc::new(Relay(waker.clone())))).collect();
    for (wait, waker) in waits.iter_mut().zip(&wakers) {
        assert!(wait.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    }
    assert!(matches!(pool.shared::<Coupled>(PageId(3)), Err(Stop::Page(_))), "it is still being read");
    // Other work goes on meanwhile.
    let id = pool.allocate().unwrap();
    pool.fresh::<Coupled>(PageId(id.0 + 100)).map(drop).unwrap();
    held.store(false, Ordering::SeqCst);
    while !pool.turn() {
        std::thread::yield_now();
    }
    assert_eq!(count.0.load(Ordering::SeqCst), 10);
    for (wait, waker) in waits.iter_mut().zip(&wakers) {
        let Poll::Ready(read) = wait.as_mut().poll(&mut Context::from_waker(waker)) else {
            panic!("pending")
        };
        read.unwrap();
    }
    assert_eq!(reads.load(Ordering::SeqCst), 1);
    assert_eq!(get::<Coupled>(&pool, PageId(3)), 3);
}

struct Relay(Waker);
impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        self.0.wake_by_ref();
    }
}

#[test]
fn a_failed_read_reaches_every_waiter_and_can_be_repeated() {
    for means in [Means::Best, Means::Threads] {
        let broken = Arc::new(AtomicBool::new(false));
        let files = watched(memory(), {
            let broken = broken.clone();
            move |path, deed| match deed {
                Deed::Read { offset, .. }
                    if offset > 0 && path == Path::new(DATA) && broken.load(Ordering::SeqCst) =>
                {
                    Intervention::Fail(ErrorKind::TimedOut)
                }
                _ => Intervention::Do,
            }
        });
        let pool = reopened(&files, means);
        broken.store(true, Ordering::SeqCst);
        let fault = run(&pool, async {
            let (a, b) = (pool.wait_for(PageId(5)).await, pool.wait_for(PageId(5)).await);
            assert!(b.is_err());
            a.unwrap_err()
        });
        assert!(matches!(&fault, PageFault::Io(e) if e.kind() == ErrorKind::TimedOut), "{fault}");
        assert!(fault.to_string().contains(DATA), "{fault}");
        assert_eq!(pool.stats().resident, 0, "its frame is free again");
        broken.store(false, Ordering::SeqCst);
        run(&pool, pool.wait_for(PageId(5))).unwrap();
        assert_eq!(get::<Coupled>(&pool, PageId(5)), 5);
    }
}

#[test]
fn a_file_cut_in_the_middle_of_a_page_is_told_as_corrupt() {
    let files = memory();
    let pool = reopened(&files, Means::Best);
    let file = files.open(Path::new(DATA), Open::ReadWrite).unwrap();
    // Not a page of the last batch, because the doublewrite area has copies of those.
    file.write_all_at(&[0; 4000], 2 * PAGE_SIZE as u64 + 4192).unwrap();
    files.open(Path::new("db/doublewrite"), Open::ReadWrite).unwrap().write_all_at(&[0; 8], 0).unwrap();
    let fault = run(&pool, pool.wait_for(PageId(2))).unwrap_err();
    assert!(matches!(fault, PageFault::Corrupt { page: PageId(2), .. }), "{fault}");
}

/// The data file accepts no write while `full`.
fn full_disk() -> (Arc<dyn Files>, Arc<AtomicBool>) {
    let full = Arc::new(AtomicBool::new(false));
    let flag = full.clone();
    let files = watched(memory(), move |path, deed| match deed {
        Deed::Write { .. } if path == Path::new(DATA) && flag.load(Ordering::SeqCst) => {
            Intervention::Fail(ErrorKind::StorageFull)
        }
        _ => Intervention::Do,
    });
    (files, full)
}

/// Every resident page is dirty and cannot be written: a waiter for a frame gets the error, with a
/// cleaner thread and without.
#[test]
fn a_full_disk_is_told_to_those_who_wait_for_a_frame() {
    for served in [false, true] {
        let (files, full) = full_disk();
        let pool = reopened(&files, Means::Best);
        let stop = AtomicBool::new(false);
        scope(|s| {
            if served {
                s.spawn(|| pool.serve(Tending::Cleaner, &stop));
            }
            full.store(true, Ordering::SeqCst);
            (1..=FRAMES as u32).for_each(|n| put::<Coupled>(&pool, PageId(n), 200));
            let fault = run(&pool, pool.wait_for(PageId(PAGES))).unwrap_err();
            assert!(fault.is_want_of_room() && fault.to_string().contains(DATA), "{fault}");
            assert_eq!(get::<Coupled>(&pool, PageId(1)), 200, "what is in memory can be read");
            full.store(false, Ordering::SeqCst);
            while run(&pool, pool.wait_for(PageId(PAGES))).is_err() {}
            assert_eq!(get::<Coupled>(&pool, PageId(PAGES)), PAGES as u8);
            stop.store(true, Ordering::SeqCst);
            pool.stop_serving();
        });
        pool.write_back().unwrap();
        let again = open(&files, Durability::Sync);
        (1..=FRAMES as u32).for_each(|n| assert_eq!(get::<Coupled>(&again, PageId(n)), 200));
    }
}

#[test]
fn random_waiting_work_on_many_threads_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for means in [Means::Best, Means::Threads] {
        let root = folder.path().join(format!("{means:?}"));
        world::real().create_dir_all(&root).unwrap();
        let pool_log = || {
            let options =
                wal::LogOptions { segment_bytes: 1 << 20, ..wal::LogOptions::new(Durability::Async) };
            Arc::new(wal::Log::open(world::real(), &root.join("log"), options).unwrap())
        };
        let options = PoolOptions { max_pages: 1000, ..PoolOptions::new(FRAMES) };
        let open =
            || Pool::open_by(world::real(), &root.join("data"), options.clone(), pool_log(), means).unwrap();
        let pool = open();
        fill(&pool);
        (1..=PAGES).for_each(|n| put::<Coupled>(&pool, PageId(n), 0));
        let counts: Vec<AtomicU64> = (0..=PAGES).map(|_| AtomicU64::new(0)).collect();
        let stop = AtomicBool::new(false);
        scope(|s| {
            let cleaner = s.spawn(|| pool.serve(Tending::Cleaner, &stop));
            let workers: Vec<_> = (0..3)
                .map(|t| {
                    let (pool, counts) = (&pool, &counts);
                    s.spawn(move || {
                        let mut random = Random(t);
                        for _ in 0..100 {
                            let id = PageId(1 + random.below(u64::from(PAGES)) as u32);
                            run(pool, increment(pool, id));
                            counts[id.0 as usize].fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            workers.into_iter().for_each(|w| w.join().unwrap());
            stop.store(true, Ordering::SeqCst);
            pool.stop_serving();
            cleaner.join().unwrap();
        });
        pool.write_back().unwrap();
        drop(pool);
        let again = open();
        for n in 1..=PAGES {
            assert_eq!(get::<Coupled>(&again, PageId(n)), counts[n as usize].load(Ordering::Relaxed) as u8);
        }
    }
}

async fn increment(pool: &Pool, id: PageId) {
    with_pages(pool, || {
        let mut page = pool.exclusive::<Coupled>(id)?;
        let lsn = pool.log().append(&wal::RecordHeader::default(), wal::LogOrder::Last, &[b"+1"]).end;
        page.bytes_mut()[PAGE_HEADER..].iter_mut().for_each(|b| *b = b.wrapping_add(1));
        page.logged(lsn);
        Ok(())
    })
    .await;
}

/// The owner copies and another thread writes: the owner continues during a checkpoint and
/// evictions.
#[test]
fn an_owner_cleans_in_slices_while_another_thread_writes() {
    let files = memory();
    let pool = reopened(&files, Means::Best);
    let stop = AtomicBool::new(false);
    let mut model = [0u8; PAGES as usize + 1];
    scope(|s| {
        let writer = s.spawn(|| pool.serve(Tending::Owner, &stop));
        pool.owner().claim();
        let mut random = Random(9);
        for round in 0..20u8 {
            let mut run_of = pool.begin_write_back();
            loop {
                let id = 1 + random.below(u64::from(PAGES)) as u32;
                let page = with_pages(&pool, || pool.exclusive::<Owned>(PageId(id)).map(drop));
                // An owner that does not call `tend` meanwhile waits for a frame for ever.
                run_tending(&pool, page, || {
                    pool.tend();
                });
                put::<Owned>(&pool, PageId(id), round);
                model[id as usize] = round;
                pool.tend();
                if pool.step_write_back(&mut run_of).unwrap() == Progress::Finished {
                    break;
                }
            }
            s.spawn(|| pool.sync_written().unwrap());
        }
        stop.store(true, Ordering::SeqCst);
        pool.stop_serving();
        writer.join().unwrap();
        pool.write_back().unwrap();
        pool.owner().disown();
    });
    let again = open(&files, Durability::Sync);
    for n in 1..=PAGES {
        let expected = if model[n as usize] == 0 { None } else { Some(model[n as usize]) };
        let found = get::<Coupled>(&again, PageId(n));
        assert!(expected.is_none_or(|e| e == found), "page {n}: {found} in the file, {expected:?} expected");
    }
}

#[test]
fn dirty_pages_are_offered_and_clean_once_taken() {
    let files = memory();
    let pool = reopened(&files, Means::Best);
    (1..=4).for_each(|n| put::<Coupled>(&pool, PageId(n), 9));
    let offered = pool.dirty_pages(3);
    assert_eq!(offered.len(), 3);
    assert_eq!(pool.clean(&offered), 3);
    assert!(pool.write_out() && pool.tend());
    assert!(pool.dirty_pages(10).iter().all(|id| !offered.contains(id)));
}

#[test]
fn a_pool_can_go_while_pages_are_being_read() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..20 {
        let options = wal::LogOptions::new(Durability::Memory);
        let log = Arc::new(wal::Log::open(world::real(), &folder.path().join("log"), options).unwrap());
        let options = PoolOptions { max_pages: 1000, ..PoolOptions::new(FRAMES) };
        let pool = Pool::open(world::real(), &folder.path().join("data"), options, log).unwrap();
        assert!((1..9).all(|n| pool.prefetch(PageId(n))));
        pool.flush();
    }
}

/// Look-ups of popular pages, with scans between them: compares the share of popular look-ups that
/// find their page in memory, for the pool and for a plain clock (second chance), on the same
/// trace.
#[test]
fn scans_leave_the_popular_pages_alone() {
    let (frames, pages) = (200, 2000u64);
    let trace = trace(pages);
    let files = memory();
    let options = PoolOptions { max_pages: 4000, ..PoolOptions::new(frames) };
    let pool = Pool::open(files.clone(), Path::new(DATA), options, log(&files, Durability::Memory)).unwrap();
    let mut misses = 0;
    for &(id, asker) in &trace {
        let before = pool.stats().loaded;
        run(&pool, with_pages(&pool, || pool.shared::<Coupled>(PageId(id)).map(drop)));
        misses += usize::from(asker == Asker::Popular && pool.stats().loaded > before);
    }
    let popular = trace.iter().filter(|t| t.1 == Asker::Popular).count() as f64;
    let hits = 1.0 - misses as f64 / popular;
    let plain = 1.0 - clock_misses(&trace, frames) as f64 / popular;
    println!("popular look-ups that hit: {hits:.3}, with a plain clock {plain:.3}");
    assert!(hits > plain * 1.1, "{hits:.3} of the popular look-ups hit, {plain:.3} with a plain clock");
}

#[derive(Clone, Copy, PartialEq)]
enum Asker {
    Popular,
    Scan,
}

/// A thousand Zipf-like look-ups, then a scan of 600 pages with several uses in a row; repeated.
fn trace(pages: u64) -> Vec<(u32, Asker)> {
    let mut random = Random(3);
    let mut trace = Vec::new();
    for _ in 0..60 {
        for _ in 0..1000 {
            // The fourth power makes low numbers popular, about like Zipf with exponent 0.75.
            let u = random.below(1 << 20) as f64 / f64::from(1 << 20);
            trace.push((1 + (u.powi(4) * pages as f64) as u32, Asker::Popular));
        }
        let start = random.below(pages - 600) as u32;
        (0..600).for_each(|n| trace.extend([(1 + start + n, Asker::Scan); 3]));
    }
    trace
}

fn clock_misses(trace: &[(u32, Asker)], frames: usize) -> usize {
    let (mut slots, mut used) = (vec![0u32; frames], vec![false; frames]);
    let mut at = std::collections::HashMap::new();
    let (mut hand, mut misses) = (0, 0);
    for &(id, asker) in trace {
        if let Some(&slot) = at.get(&id) {
            let slot: usize = slot;
            used[slot] = true;
            continue;
        }
        misses += usize::from(asker == Asker::Popular);
        while std::mem::take(&mut used[hand]) {
            hand = (hand + 1) % frames;
        }
        at.remove(&slots[hand]);
        slots[hand] = id;
        used[hand] = true;
        at.insert(id, hand);
        hand = (hand + 1) % frames;
    }
    misses
}
