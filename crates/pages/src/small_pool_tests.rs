//! Many clients in few frames: the pages that one client has read for itself are still there when
//! it uses them. Measured in page reads, not in time: without seats, pages are read again and again
//! and no client makes progress.

use crate::tests::{DATA, Random, log};
use crate::{Coupled, PAGE_HEADER, Pool, PoolOptions, Stop};
use base::PageId;
use std::cell::Cell;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use wal::{Durability, LogOrder, RecordHeader};
use world::memory;

/// The last page numbers of a tree's root, its inner pages, its leaves, and the heap's pages.
const ROOT: u32 = 1;
const INNER: u32 = 7;
const LEAVES: u32 = 207;
const HEAP: u32 = 607;
/// Pages of one operation, which it must find in memory at the same time.
const PATH: u64 = 4;
const OPERATIONS: u64 = 400;

struct Flag(AtomicBool);
impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn between(random: &mut Random, after: u32, to: u32) -> PageId {
    PageId(after + 1 + random.below(u64::from(to - after)) as u32)
}

/// Visits root, inner page, leaf and heap page, like a look-up. Every other visit changes the heap
/// page.
fn visit(pool: &Pool, path: &[PageId; PATH as usize], number: u64) -> Result<(), Stop> {
    let [above @ .., last] = path;
    above.iter().try_for_each(|&id| pool.shared::<Coupled>(id).map(drop))?;
    if number.is_multiple_of(2) {
        return pool.shared::<Coupled>(*last).map(drop);
    }
    let mut page = pool.exclusive::<Coupled>(*last)?;
    let span = pool.log().append(&RecordHeader::default(), LogOrder::ANY, &[&number.to_le_bytes()]);
    page.bytes_mut()[PAGE_HEADER] = number as u8;
    page.logged(span.start);
    Ok(())
}

async fn client(pool: &Pool, seed: u64, done: &Cell<u64>) {
    let mut random = Random(seed);
    for number in 0.. {
        let inner = between(&mut random, ROOT, INNER);
        let (leaf, row) = (between(&mut random, INNER, LEAVES), between(&mut random, LEAVES, HEAP));
        let path = [PageId(ROOT), inner, leaf, row];
        let mut seat = None;
        loop {
            match visit(pool, &path, number) {
                Ok(()) => break,
                Err(Stop::Page(id)) => {
                    if seat.is_none() {
                        seat = Some(pool.seat().await);
                    }
                    pool.wait_for(id).await.unwrap();
                }
                Err(Stop::Again) => {}
                Err(stop) => panic!("{stop}"),
            }
        }
        done.set(done.get() + 1);
    }
}

/// Page reads per page of a finished operation.
fn reads_per_visit(frames: usize, clients: u64) -> f64 {
    let files = memory();
    let options = PoolOptions { max_pages: 1000, ..PoolOptions::new(frames) };
    let pool = Pool::open(files.clone(), Path::new(DATA), options, log(&files, Durability::Async)).unwrap();
    for _ in 0..HEAP {
        let id = pool.allocate().unwrap();
        drop(pool.fresh::<Coupled>(id).unwrap());
    }
    pool.write_back().unwrap();
    let before = pool.stats().loaded;
    let done = Cell::new(0);
    let flags: Vec<Arc<Flag>> = (0..clients).map(|_| Arc::new(Flag(AtomicBool::new(true)))).collect();
    let mut tasks: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> =
        (0..clients).map(|n| Box::pin(client(&pool, n, &done)) as _).collect();
    let goal = OPERATIONS + clients;
    while done.get() < goal {
        for (task, flag) in tasks.iter_mut().zip(&flags) {
            if flag.0.swap(false, Ordering::SeqCst) {
                let waker = Waker::from(flag.clone());
                assert!(matches!(task.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending));
            }
        }
        pool.turn();
        pool.tend();
        let reads = pool.stats().loaded - before;
        assert!(
            reads < 2 * PATH * goal,
            "{frames} frames, {clients} clients: {reads} reads, {} done",
            done.get()
        );
    }
    (pool.stats().loaded - before) as f64 / (done.get() * PATH) as f64
}

#[test]
fn in_small_pools_pages_are_used_before_they_leave() {
    for frames in [24, 32, 48] {
        for clients in [1, 4, 8, 16, 32, 64] {
            let reads = reads_per_visit(frames, clients);
            println!("{frames} frames, {clients} clients: {reads:.2} reads for each page looked at");
            assert!(
                reads <= 1.0,
                "{frames} frames, {clients} clients: {reads:.2} reads for each page looked at"
            );
        }
    }
}
