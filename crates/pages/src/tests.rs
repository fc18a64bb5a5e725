//! The pool against a model, a crash, a flipped bit, a full disk and a faulty log. Pools are tiny.

use crate::{Coupled, LatchPolicy, Owned, PAGE_HEADER, PAGE_SIZE, Page, PageFault, Pool, PoolOptions, Stop};
use base::{Lsn, PageId};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::scope;
use wal::{Durability, Log, LogOptions, LogOrder, RecordHeader};
use world::{Deed, Files, Intervention, Open, memory, watched};

pub(crate) const DATA: &str = "db/data";
pub(crate) const FRAMES: usize = 16;
pub(crate) const PAGES: u32 = 60;

pub(crate) fn log(files: &Arc<dyn Files>, durability: Durability) -> Arc<Log> {
    let options = LogOptions { segment_bytes: 1 << 16, buffer_bytes: 1 << 16, ..LogOptions::new(durability) };
    Arc::new(Log::open(files.clone(), Path::new("db/log"), options).unwrap())
}

pub(crate) fn open(files: &Arc<dyn Files>, durability: Durability) -> Pool {
    let options = PoolOptions { max_pages: 1000, ..PoolOptions::new(FRAMES) };
    Pool::open(files.clone(), Path::new(DATA), options, log(files, durability)).unwrap()
}

/// A pool in memory with `FRAMES` frames and the given number of zeroed pages.
pub(crate) fn pool_of(pages: u32) -> Pool {
    let pool = open(&memory(), Durability::Memory);
    for _ in 0..pages {
        let id = pool.allocate().unwrap();
        drop(pool.fresh::<Coupled>(id).unwrap());
    }
    pool
}

/// Calls `f` until its pages are in memory, as the layer above does.
fn with_pages<T>(pool: &Pool, f: impl Fn() -> Result<T, Stop>) -> T {
    loop {
        match f() {
            Ok(value) => return value,
            Err(Stop::Page(id)) => pool.load(id).unwrap(),
            Err(Stop::Again) => {}
            Err(stop) => panic!("{stop}"),
        }
    }
}

/// Fills page `id` with `value`, and logs that.
pub(crate) fn put<L: LatchPolicy>(pool: &Pool, id: PageId, value: u8) {
    with_pages(pool, || {
        let mut page = pool.exclusive::<L>(id)?;
        let span =
            pool.log().append(&RecordHeader::default(), LogOrder::ANY, &[&id.0.to_le_bytes(), &[value]]);
        page.bytes_mut()[PAGE_HEADER..].fill(value);
        page.logged(span.start);
        Ok(())
    });
}

pub(crate) fn get<L: LatchPolicy>(pool: &Pool, id: PageId) -> u8 {
    with_pages(pool, || {
        let page = pool.shared::<L>(id)?;
        let body = &page.bytes()[PAGE_HEADER..];
        assert!(body.iter().all(|&b| b == body[0]), "half a change was seen in {id:?}");
        Ok(body[0])
    })
}

pub(crate) fn fill(pool: &Pool) {
    for n in 1..=PAGES {
        let id = pool.allocate().unwrap();
        assert_eq!(id, PageId(n));
        drop(pool.fresh::<Coupled>(id).unwrap());
        put::<Coupled>(pool, id, n as u8);
    }
}

pub(crate) struct Random(pub u64);
impl Random {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

#[test]
fn a_page_comes_back_as_it_left() {
    for durability in [Durability::Memory, Durability::Async, Durability::Sync] {
        let files = memory();
        let pool = open(&files, durability);
        fill(&pool);
        for id in (1..=PAGES).map(PageId) {
            assert_eq!(get::<Coupled>(&pool, id), id.0 as u8);
        }
        let stats = pool.stats();
        assert!(stats.evicted >= u64::from(PAGES) && stats.loaded > 0 && stats.written > 0, "{stats:?}");
        assert!(stats.resident <= FRAMES && stats.allocated == PAGES);
    }
}

#[test]
fn the_real_file_system_serves_as_well() {
    let folder = tempfile::tempdir().unwrap();
    for durability in [Durability::Async, Durability::Sync, Durability::Memory] {
        let root = folder.path().join(format!("{durability:?}"));
        let open = || {
            let options =
                LogOptions { segment_bytes: 1 << 16, buffer_bytes: 1 << 16, ..LogOptions::new(durability) };
            let log = Arc::new(Log::open(world::real(), &root.join("log"), options).unwrap());
            world::real().create_dir_all(&root).unwrap();
            let options = PoolOptions { max_pages: 1000, ..PoolOptions::new(FRAMES) };
            Pool::open(world::real(), &root.join("data"), options, log).unwrap()
        };
        let pool = open();
        fill(&pool);
        (1..=PAGES).for_each(|n| assert_eq!(get::<Coupled>(&pool, PageId(n)), n as u8));
        pool.write_back().unwrap();
        drop(pool);
        let again = open();
        let expected = |n: u32| if durability == Durability::Memory { 0 } else { n as u8 };
        (1..=PAGES).for_each(|n| assert_eq!(get::<Coupled>(&again, PageId(n)), expected(n)));
        drop(again);
        let left = world::real().list(&root).unwrap();
        assert_eq!(left.is_empty(), durability == Durability::Memory, "{left:?}");
    }
}

#[test]
fn an_absent_page_is_told_and_a_page_never_written_is_zeros() {
    let files = memory();
    let pool = open(&files, Durability::Sync);
    let id = PageId(7);
    assert!(matches!(pool.shared::<Coupled>(id), Err(Stop::Page(PageId(7)))));
    assert!(matches!(pool.exclusive::<Owned>(id), Err(Stop::Page(PageId(7)))));
    pool.load(id).unwrap();
    let page = pool.shared::<Owned>(id).unwrap();
    assert_eq!((page.lsn(), page.kind()), (Lsn(0), 0));
    assert!(page.bytes().iter().all(|&b| b == 0));
    for bad in [0, 1000, u32::MAX] {
        let stop = pool.shared::<Coupled>(PageId(bad)).map(drop).unwrap_err();
        assert!(matches!(&stop, Stop::Fault(f) if matches!(**f, PageFault::Range { .. })), "{stop}");
    }
}

#[test]
fn random_work_on_one_thread_agrees_with_a_model() {
    fn run<L: LatchPolicy>(durability: Durability) {
        let files = memory();
        let pool = open(&files, durability);
        fill(&pool);
        pool.owner().claim();
        let mut model: HashMap<u32, u8> = (1..=PAGES).map(|n| (n, n as u8)).collect();
        let mut random = Random(5);
        for step in 0..4000u64 {
            let id = 1 + random.below(u64::from(PAGES)) as u32;
            match random.below(10) {
                0..4 => {
                    put::<L>(&pool, PageId(id), step as u8);
                    model.insert(id, step as u8);
                }
                4 if step % 16 == 0 => drop(pool.write_back().unwrap()),
                5 => {
                    let (a, b) = (PageId(id), PageId(1 + id % PAGES));
                    // One page is held while others are loaded and evicted: it must stay.
                    pool.load(a).unwrap();
                    if let Ok(held) = pool.shared::<L>(a) {
                        (1..=PAGES)
                            .map(PageId)
                            .filter(|p| *p != a)
                            .take(5)
                            .for_each(|p| pool.load(p).unwrap());
                        pool.load(b).unwrap();
                        assert_eq!(held.bytes()[PAGE_HEADER], model[&id]);
                    }
                }
                _ => assert_eq!(get::<L>(&pool, PageId(id)), model[&id]),
            }
        }
    }
    run::<Coupled>(Durability::Sync);
    run::<Owned>(Durability::Sync);
    run::<Owned>(Durability::Memory);
}

#[test]
fn random_work_on_many_threads_loses_nothing() {
    let files = memory();
    let pool = open(&files, Durability::Async);
    fill(&pool);
    for id in 1..=PAGES {
        put::<Coupled>(&pool, PageId(id), 0);
    }
    let counts: Vec<AtomicU64> = (0..=PAGES).map(|_| AtomicU64::new(0)).collect();
    let done = AtomicBool::new(false);
    scope(|s| {
        let workers: Vec<_> = (0..4u64)
            .map(|t| {
                let (pool, counts) = (&pool, &counts);
                s.spawn(move || {
                    let mut random = Random(t);
                    for _ in 0..1500 {
                        let id = 1 + random.below(u64::from(PAGES)) as u32;
                        if random.below(2) == 0 {
                            get::<Coupled>(pool, PageId(id));
                        } else {
                            increment(pool, PageId(id));
                            counts[id as usize].fetch_add(1, Ordering::Relaxed);
                        }
                    }
                })
            })
            .collect();
        s.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                pool.write_back().unwrap();
            }
        });
        let results: Vec<_> = workers.into_iter().map(|w| w.join()).collect();
        done.store(true, Ordering::Relaxed);
        results.into_iter().for_each(|r| r.unwrap());
    });
    pool.write_back().unwrap();
    let again = open(&files, Durability::Async);
    for id in 1..=PAGES {
        let expected = counts[id as usize].load(Ordering::Relaxed) as u8;
        assert_eq!(get::<Coupled>(&pool, PageId(id)), expected);
        assert_eq!(get::<Coupled>(&again, PageId(id)), expected, "the file lacks a change");
    }
}

fn increment(pool: &Pool, id: PageId) {
    with_pages(pool, || {
        let mut page = pool.exclusive::<Coupled>(id)?;
        let lsn = pool.log().append(&RecordHeader::default(), LogOrder::ANY, &[b"+1"]).end;
        page.bytes_mut()[PAGE_HEADER..].iter_mut().for_each(|b| *b = b.wrapping_add(1));
        page.logged(lsn);
        Ok(())
    });
}

/// A thread that holds a page exclusively may have to evict, and thus to write, while a checkpoint
/// waits for that page.
#[test]
fn a_checkpoint_and_an_eviction_do_not_wait_for_each_other() {
    let files = memory();
    let pool = open(&files, Durability::Sync);
    fill(&pool);
    let id = PageId(PAGES);
    scope(|s| {
        let mut held = pool.exclusive::<Coupled>(id).unwrap();
        let checkpoint = s.spawn(|| pool.write_back().unwrap());
        // Long enough for the checkpoint to write the other pages and wait for this one.
        std::thread::sleep(std::time::Duration::from_millis(30));
        (1..PAGES).for_each(|n| put::<Coupled>(&pool, PageId(n), 77));
        assert!(!checkpoint.is_finished(), "the change being made belongs to the checkpoint");
        held.bytes_mut()[PAGE_HEADER..].fill(78);
        held.logged(pool.log().end());
        drop(held);
        checkpoint.join().unwrap();
    });
    assert_eq!(get::<Coupled>(&open(&files, Durability::Sync), id), 78);
}

#[test]
fn versions_tell_changes_and_nothing_else() {
    let files = memory();
    let pool = open(&files, Durability::Memory);
    fill(&pool);
    let id = PageId(PAGES);
    let version = pool.shared::<Coupled>(id).unwrap().version();
    get::<Owned>(&pool, id);
    assert!(pool.version_unchanged(id, version));
    {
        let page = pool.exclusive::<Coupled>(id).unwrap();
        assert_eq!(page.version(), version);
        assert!(!pool.version_unchanged(id, version), "it is being changed");
    }
    assert!(!pool.version_unchanged(id, version));
    let version = pool.shared::<Coupled>(id).unwrap().version();
    // Other pages are used again and again until this one is evicted.
    let others = || (1..FRAMES as u32 + 5).for_each(|n| _ = get::<Coupled>(&pool, PageId(n)));
    (0..50).take_while(|_| pool.latch(id).look().resident()).for_each(|_| others());
    pool.load(id).unwrap();
    assert!(!pool.version_unchanged(id, version), "it left and came back");
}

#[test]
fn a_pool_that_was_given_fewer_addresses_says_so_and_what_to_do() {
    let mut pool = open(&memory(), Durability::Memory);
    assert_eq!(pool.shortage(), None);
    pool.asked_pages = 1 << 24;
    let said = pool.shortage().unwrap();
    assert!(said.contains("0.01 GiB of pages instead of 128.00") && said.contains("ulimit -v"), "{said}");
    let up_to =
        |most: usize| move |bytes: usize| if bytes <= most * PAGE_SIZE { Ok(bytes) } else { Err(bytes) };
    let reserve =
        |pages, least, most| crate::pool::reserve_most(pages, least, up_to(most)).map(|(_, pages)| pages);
    assert_eq!(reserve(1000, 16, 1000), Ok(1000));
    assert_eq!(reserve(1000, 16, 999), Ok(500));
    assert_eq!(reserve(1000, 16, 100), Ok(62));
    assert_eq!(reserve(1000, 200, 100), Err(250 * PAGE_SIZE), "no fewer than there must be");
}

#[test]
fn pages_are_read_side_by_side_only_where_frames_are_to_spare() {
    for (frames, under_way) in [(512, 16), (64, 0)] {
        let files = memory();
        let options = PoolOptions { max_pages: 2000, ..PoolOptions::new(frames) };
        let log = log(&files, Durability::Memory);
        let pool = Pool::open(files.clone(), Path::new(DATA), options, log).unwrap();
        for _ in 0..2 * frames {
            let id = pool.allocate().unwrap();
            drop(pool.fresh::<Coupled>(id).unwrap());
        }
        let absent = |id: &PageId| !pool.latch(*id).look().resident();
        let absent: Vec<PageId> = (1..=frames as u32).map(PageId).filter(absent).take(16).collect();
        assert_eq!(absent.len(), 16);
        let ahead = || absent.iter().for_each(|id| pool.prefetch_beside(*id));
        let free: Vec<_> = (0..frames / 2).map(|_| pool.room().unwrap()).collect();
        ahead();
        assert_eq!(pool.reading(), 0, "no frame is free");
        free.into_iter().for_each(|slot| pool.slots.give(slot));
        ahead();
        assert_eq!(pool.reading(), under_way, "of {frames} frames");
        absent.iter().for_each(|id| pool.load(*id).unwrap());
    }
}

#[test]
fn when_every_frame_is_held_nothing_can_come_in() {
    let files = memory();
    let pool = open(&files, Durability::Memory);
    fill(&pool);
    let held: Vec<_> = (1..=PAGES)
        .map_while(|n| {
            pool.load(PageId(n)).ok()?;
            Some(pool.shared::<Coupled>(PageId(n)).unwrap())
        })
        .collect();
    assert_eq!(held.len(), FRAMES);
    assert!(matches!(pool.load(PageId(PAGES)), Err(PageFault::NoFrame { frames: FRAMES })));
    let id = pool.allocate().unwrap();
    assert!(matches!(pool.fresh::<Coupled>(id), Err(Stop::NoSpace)));
    drop(held);
    pool.fresh::<Coupled>(id).map(drop).unwrap();
}

#[test]
fn the_allocator_gives_each_page_once_and_survives_as_a_value() {
    let files = memory();
    let options = PoolOptions { max_pages: 5, ..PoolOptions::new(8) };
    let log = log(&files, Durability::Memory);
    let pool = Pool::open(files, Path::new(DATA), options, log).unwrap();
    let ids: Vec<_> = (0..4).map(|_| pool.allocate().unwrap().0).collect();
    assert_eq!(ids, [1, 2, 3, 4]);
    assert!(matches!(pool.allocate(), Err(Stop::NoSpace)));
    pool.free(PageId(3));
    pool.free(PageId(2));
    let state = pool.allocator();
    assert_eq!((state.next, &state.free[..]), (PageId(5), &[PageId(2), PageId(3)][..]));
    assert_eq!(pool.allocate().unwrap(), PageId(2));
    pool.restore_allocator(&crate::AllocatorState { next: PageId(1), free: vec![] }).unwrap();
    pool.reserve(PageId(3)).unwrap();
    pool.reserve(PageId(1)).unwrap();
    assert_eq!(pool.allocator(), crate::AllocatorState { next: PageId(4), free: vec![PageId(2)] });
    assert!(pool.reserve(PageId(77)).is_err());
}

/// A page newer than its log: the log was lost, or belongs to another database. If such a page were
/// read, its first change would ask the log for a place after a position that the log does not
/// reach.
#[test]
fn a_page_newer_than_the_log_is_refused() {
    let files = memory();
    let pool = open(&files, Durability::Sync);
    let end = pool.log().end();
    for (number, lsn) in [(3, end), (4, Lsn(end.0 + 1)), (5, Lsn(u64::MAX))] {
        let mut page = Page::zeroed();
        page.set_kind(1);
        page.set_lsn(lsn);
        page.seal(PageId(number));
        poke(&files, DATA, u64::from(number) * PAGE_SIZE as u64, page.bytes());
    }
    pool.load(PageId(3)).unwrap();
    for number in [4, 5] {
        let fault = pool.load(PageId(number)).unwrap_err();
        assert!(matches!(fault, PageFault::Newer { page, .. } if page.0 == number), "{fault}");
        assert!(fault.to_string().contains("the log ends at"), "{fault}");
    }
}

/// A damaged log or control file may name pages beyond the memory of the pool. They must not be
/// given out.
#[test]
fn an_allocator_that_speaks_of_pages_out_of_reach_is_refused() {
    let files = memory();
    let options = PoolOptions { max_pages: 5, ..PoolOptions::new(8) };
    let pool = Pool::open(files.clone(), Path::new(DATA), options, log(&files, Durability::Memory)).unwrap();
    let before = pool.allocator();
    for (next, free) in [(5, 5), (6, 1), (5, u32::MAX), (u32::MAX, 4_000_000_000), (3, 0), (3, 4)] {
        let state = crate::AllocatorState { next: PageId(next), free: vec![PageId(free)] };
        let refused = pool.restore_allocator(&state);
        assert!(matches!(refused, Err(PageFault::Range { .. })), "{state:?}: {refused:?}");
    }
    assert_eq!(pool.allocator(), before);
}

fn poke(files: &Arc<dyn Files>, path: &str, offset: u64, bytes: &[u8]) {
    files.open(Path::new(path), Open::ReadWrite).unwrap().write_all_at(bytes, offset).unwrap();
}

/// Fills a pool and closes it. Pages 1 to `PAGES` are in the file, the highest ones also in the
/// doublewrite area.
fn written() -> Arc<dyn Files> {
    let files = memory();
    let pool = open(&files, Durability::Sync);
    fill(&pool);
    pool.write_back().unwrap();
    files
}

#[test]
fn a_torn_page_is_repaired_when_the_file_is_opened() {
    let files = written();
    let id = PageId(PAGES);
    let before = get::<Coupled>(&open(&files, Durability::Sync), id);
    // The write in place stopped after its first half, over the old page.
    poke(&files, DATA, u64::from(id.0) * PAGE_SIZE as u64 + 4096, &[0; 4096]);
    let pool = open(&files, Durability::Sync);
    assert_eq!(pool.stats().repaired, 1);
    assert_eq!(get::<Coupled>(&pool, id), before);
    assert_eq!(open(&files, Durability::Sync).stats().repaired, 0);
}

#[test]
fn a_page_torn_while_the_pool_is_open_is_repaired_when_loaded() {
    let files = written();
    let pool = open(&files, Durability::Sync);
    poke(&files, DATA, u64::from(PAGES) * PAGE_SIZE as u64 + 500, &[0xaa; 9]);
    assert_eq!(get::<Coupled>(&pool, PageId(PAGES)), PAGES as u8);
    assert_eq!(pool.stats().repaired, 1);
}

#[test]
fn a_torn_doublewrite_batch_repairs_nothing_and_harms_nothing() {
    let files = written();
    for (offset, bytes) in [(4096 + 100, &[7u8; 8][..]), (20, &[9; 4]), (0, b"?")] {
        poke(&files, "db/doublewrite", offset, bytes);
        let pool = open(&files, Durability::Sync);
        assert_eq!(pool.stats().repaired, 0);
        (1..=PAGES).for_each(|n| assert_eq!(get::<Coupled>(&pool, PageId(n)), n as u8));
    }
}

#[test]
fn a_flipped_bit_is_named_never_served() {
    let files = written();
    let offset = 3 * PAGE_SIZE as u64;
    for at in [0, 5, 9, 17, 100, 8191] {
        let mut byte = [0];
        files.open(Path::new(DATA), Open::Read).unwrap().read_at(&mut byte, offset + at).unwrap();
        poke(&files, DATA, offset + at, &[byte[0] ^ 16]);
        let pool = open(&files, Durability::Sync);
        for _ in 0..2 {
            let fault = pool.load(PageId(3)).unwrap_err();
            let PageFault::Corrupt { page, file, offset: found } = &fault else { panic!("{fault}") };
            assert_eq!((*page, file.as_path(), *found), (PageId(3), Path::new(DATA), offset));
            assert!(fault.to_string().contains(DATA), "{fault}");
        }
        assert!(matches!(pool.shared::<Coupled>(PageId(3)), Err(Stop::Page(_))));
        poke(&files, DATA, offset + at, &byte);
    }
    // A whole page in another page's place has a right checksum but a wrong number.
    let mut page = vec![0; PAGE_SIZE];
    files.open(Path::new(DATA), Open::Read).unwrap().read_at(&mut page, 4 * PAGE_SIZE as u64).unwrap();
    poke(&files, DATA, offset, &page);
    assert!(matches!(open(&files, Durability::Sync).load(PageId(3)), Err(PageFault::Corrupt { .. })));
}

#[test]
fn a_file_of_something_else_is_refused() {
    for (offset, bytes, told) in
        [(0, &b"SQLite"[..], "not a data file"), (8, &[9], "format 9"), (12, &[1], "checksum")]
    {
        let files = written();
        poke(&files, DATA, offset, bytes);
        let options = PoolOptions { max_pages: 1000, ..PoolOptions::new(FRAMES) };
        let log = log(&files, Durability::Sync);
        let fault = Pool::open(files, Path::new(DATA), options, log).map(drop).unwrap_err();
        assert!(fault.to_string().contains(told) && fault.to_string().contains(DATA), "{fault}");
    }
}

#[test]
fn memory_mode_leaves_nothing_and_harms_nothing() {
    let files = written();
    let pool = open(&files, Durability::Memory);
    fill(&pool);
    (1..=PAGES).for_each(|n| put::<Coupled>(&pool, PageId(n), 200));
    drop(pool);
    assert_eq!(files.list(Path::new("db")).unwrap(), ["data", "doublewrite", "log"]);
    assert_eq!(get::<Coupled>(&open(&files, Durability::Sync), PageId(9)), 9);
}

/// A disk that refuses writes to the data file while `full`.
fn full_disk() -> (Arc<dyn Files>, Arc<AtomicBool>) {
    let full = Arc::new(AtomicBool::new(false));
    let files = watched(memory(), {
        let full = full.clone();
        move |path, deed| match deed {
            Deed::Write { offset, .. } if path == Path::new(DATA) && full.load(Ordering::SeqCst) => {
                // A failure half-way through a batch is harder than one at its start.
                let later = !(offset / PAGE_SIZE as u64).is_multiple_of(3);
                if later { Intervention::Fail(ErrorKind::StorageFull) } else { Intervention::Do }
            }
            _ => Intervention::Do,
        }
    });
    (files, full)
}

#[test]
fn a_full_disk_fails_what_needs_it_and_loses_nothing() {
    let (files, full) = full_disk();
    let pool = open(&files, Durability::Sync);
    for n in 1..=FRAMES as u32 {
        let id = pool.allocate().unwrap();
        drop(pool.fresh::<Coupled>(id).unwrap());
        put::<Coupled>(&pool, id, n as u8);
    }
    full.store(true, Ordering::SeqCst);
    let fault = pool.write_back().unwrap_err();
    assert!(fault.to_string().contains(DATA), "{fault}");
    let id = pool.allocate().unwrap();
    let stop = pool.fresh::<Coupled>(id).map(drop).unwrap_err();
    assert!(matches!(&stop, Stop::Fault(f) if matches!(**f, PageFault::Io(_))), "{stop}");
    (1..=FRAMES as u32).for_each(|n| assert_eq!(get::<Coupled>(&pool, PageId(n)), n as u8));
    full.store(false, Ordering::SeqCst);
    assert!(pool.write_back().unwrap() > 0);
    pool.fresh::<Coupled>(id).map(drop).unwrap();
    let again = open(&files, Durability::Sync);
    (1..=FRAMES as u32).for_each(|n| assert_eq!(get::<Coupled>(&again, PageId(n)), n as u8));
}

#[test]
fn after_a_failed_sync_nothing_is_written_any_more() {
    let broken = Arc::new(AtomicBool::new(false));
    let files = watched(memory(), {
        let broken = broken.clone();
        move |path, deed| match deed {
            Deed::Sync if path == Path::new(DATA) && broken.load(Ordering::SeqCst) => {
                Intervention::Fail(ErrorKind::Other)
            }
            _ => Intervention::Do,
        }
    });
    let pool = open(&files, Durability::Sync);
    fill(&pool);
    broken.store(true, Ordering::SeqCst);
    assert!(matches!(pool.write_back(), Err(PageFault::Poisoned(_))));
    broken.store(false, Ordering::SeqCst);
    assert!(matches!(pool.write_back(), Err(PageFault::Poisoned(_))));
}

/// The pool waits for a device even if that takes longer than any wait for a latch.
#[test]
fn a_slow_device_is_not_mistaken_for_a_full_pool() {
    let slow = Arc::new(AtomicBool::new(false));
    let files = watched(memory(), {
        let slow = slow.clone();
        move |path, deed| {
            if matches!(deed, Deed::Sync) && path.ends_with("doublewrite") && slow.load(Ordering::SeqCst) {
                std::thread::sleep(std::time::Duration::from_millis(300));
            }
            Intervention::Do
        }
    });
    let options = PoolOptions { max_pages: 1000, ..PoolOptions::new(8) };
    let log = log(&files, Durability::Sync);
    let pool = Pool::open(files, Path::new(DATA), options, log).unwrap();
    fill(&pool);
    (1..=8).for_each(|n| put::<Coupled>(&pool, PageId(n), 1));
    slow.store(true, Ordering::SeqCst);
    scope(|s| {
        let checkpoint = s.spawn(|| pool.write_back().unwrap());
        std::thread::sleep(std::time::Duration::from_millis(50));
        pool.load(PageId(20)).unwrap();
        checkpoint.join().unwrap();
    });
}

/// Records the device's operations in order, and checks two rules: no page is written before the
/// log up to its LSN is durable, and no page is overwritten in place before its copy is durable.
#[derive(Default)]
struct Recorder {
    log_written: u64,
    log_synced: u64,
    copies: Vec<u32>,
    copies_synced: bool,
    in_place: usize,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

impl Recorder {
    fn see(&mut self, path: &Path, deed: Deed<'_>, log_start: u64) {
        let name = path.file_name().unwrap().to_string_lossy();
        match deed {
            Deed::Write { offset, bytes } if path.starts_with("db/log") && offset >= 4096 => {
                self.log_written = log_start + offset - 4096 + bytes.len() as u64;
            }
            Deed::Sync if path.starts_with("db/log") => self.log_synced = self.log_written,
            Deed::Write { offset, bytes } if name == "doublewrite" => {
                assert_eq!(offset, 0);
                (self.copies, self.copies_synced) = (vec![], false);
                for page in bytes[4096..].chunks_exact(PAGE_SIZE) {
                    self.page(page);
                    self.copies.push(word(page, 16));
                }
            }
            Deed::Sync if name == "doublewrite" => self.copies_synced = true,
            Deed::Write { offset, bytes } if name == "data" && offset > 0 => {
                self.page(bytes);
                let id = (offset / PAGE_SIZE as u64) as u32;
                assert!(self.copies_synced && self.copies.contains(&id), "page {id} has no copy");
                self.in_place += 1;
            }
            _ => {}
        }
    }

    fn page(&self, bytes: &[u8]) {
        let lsn = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
        assert!(lsn < self.log_synced, "a page of lsn {lsn} ran ahead of the log at {}", self.log_synced);
    }
}

#[test]
fn no_page_runs_ahead_of_the_log_or_its_own_copy() {
    for durability in [Durability::Sync, Durability::Async] {
        let recorder = Arc::new(Mutex::new(Recorder::default()));
        let files = watched(memory(), {
            let recorder = recorder.clone();
            move |path, deed| {
                // The flusher and the page writer both call this. The test sees a violation at its
                // end.
                recorder.lock().unwrap().see(path, deed, 64);
                Intervention::Do
            }
        });
        let options =
            LogOptions { segment_bytes: 1 << 22, buffer_bytes: 1 << 16, ..LogOptions::new(durability) };
        let log = Arc::new(Log::open(files.clone(), Path::new("db/log"), options).unwrap());
        let options = PoolOptions { max_pages: 1000, ..PoolOptions::new(FRAMES) };
        let pool = Pool::open(files.clone(), Path::new(DATA), options, log).unwrap();
        fill(&pool);
        let mut random = Random(1);
        for n in 0..500u64 {
            put::<Coupled>(&pool, PageId(1 + random.below(u64::from(PAGES)) as u32), n as u8);
        }
        pool.write_back().unwrap();
        assert!(recorder.lock().expect("no rule was broken").in_place > PAGES as usize);
    }
}
