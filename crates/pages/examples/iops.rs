//! Random reads of 8 KiB, by turns in one run: the rate of the device at a queue depth, and the
//! rate of the pool with as many waiters.
//!
//! `cargo run --profile quick -p pages --example iops -- DIR [MIB [DEPTH [SECONDS]]]` creates a
//! file of MIB (256) in DIR, four times the pool, and reads it at DEPTH (16). The result is the
//! ratio of the pool's rate to the device's rate, per page read.

use base::PageId;
use pages::{Coupled, PAGE_SIZE, Pool, PoolOptions, Stop};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use wal::{Durability, Log, LogOptions};
use world::{IoQueue, Means, Open, real};

#[repr(align(4096))]
struct Buffer([u8; PAGE_SIZE]);

struct Random(u64);
impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, default: u64| args.get(n).map_or(Ok(default), |a| a.parse());
    let dir = args.first().map_or_else(std::env::temp_dir, PathBuf::from).join("atoll-iops");
    let (mib, depth, seconds) = (number(1, 256)?, number(2, 16)? as usize, number(3, 2)?);
    let pages = (mib << 20) / PAGE_SIZE as u64;
    real().create_dir_all(&dir)?;
    fill(&dir, pages)?;
    for _ in 0..3 {
        let (device, caching) = device(&dir, pages, depth, seconds)?;
        let (pool, longest) = pool(&dir, pages, depth, seconds)?;
        println!(
            "depth {depth}, {caching:?}: device {device:.0} reads/s, pool {pool:.0} reads/s ({:.2}), longest wait {:.1} ms",
            pool / device,
            longest.as_secs_f64() * 1000.0
        );
    }
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

fn open(dir: &Path, frames: usize) -> Result<Pool, Box<dyn std::error::Error>> {
    let log = Arc::new(Log::open(real(), &dir.join("log"), LogOptions::new(Durability::Async))?);
    Ok(Pool::open(real(), &dir.join("data"), PoolOptions::new(frames), log)?)
}

/// Writes the pages once, through the pool.
fn fill(dir: &Path, pages: u64) -> Result<(), Box<dyn std::error::Error>> {
    let pool = open(dir, 2048)?;
    for _ in 1..pages {
        let id = pool.allocate()?;
        pool.fresh::<Coupled>(id)?.bytes_mut()[100] = 1;
    }
    pool.write_back()?;
    Ok(())
}

/// Reads per second of the bare queue.
fn device(
    dir: &Path,
    pages: u64,
    depth: usize,
    seconds: u64,
) -> Result<(f64, world::Caching), Box<dyn std::error::Error>> {
    let (file, caching) = real().open_direct(&dir.join("data"), Open::Read)?;
    let mut buffers: Vec<Buffer> = (0..depth).map(|_| Buffer([0; PAGE_SIZE])).collect();
    let queue = IoQueue::new(depth as u32, Means::Best)?;
    let (mut random, mut done, mut reads) = (Random(7), Vec::new(), 0u64);
    let begun = Instant::now();
    let mut idle: Vec<usize> = (0..depth).collect();
    while begun.elapsed() < Duration::from_secs(seconds) {
        for n in idle.drain(..) {
            let offset = random.below(pages) * PAGE_SIZE as u64;
            // SAFETY: the buffers outlive the queue, which is dropped first and then waits; each
            // has one read at a time.
            unsafe { queue.read(&file, buffers[n].0.as_mut_ptr(), PAGE_SIZE, offset, n as u64) };
        }
        queue.flush();
        if queue.poll(&mut done) == 0 {
            std::hint::spin_loop();
        }
        for one in done.drain(..) {
            one.result?;
            idle.push(one.token as usize);
            reads += 1;
        }
    }
    let rate = reads as f64 / begun.elapsed().as_secs_f64();
    drop(queue);
    Ok((rate, caching))
}

struct Flag(AtomicBool);
impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// Page reads per second of the pool with `depth` tasks that each read random pages, and the
/// longest read.
fn pool(
    dir: &Path,
    pages: u64,
    depth: usize,
    seconds: u64,
) -> Result<(f64, Duration), Box<dyn std::error::Error>> {
    let pool = open(dir, (pages / 4) as usize)?;
    let flags: Vec<Arc<Flag>> = (0..depth).map(|_| Arc::new(Flag(AtomicBool::new(true)))).collect();
    let longest = std::cell::Cell::new(Duration::ZERO);
    let mut tasks: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> =
        (0..depth).map(|n| Box::pin(look(&pool, pages, n as u64, &longest)) as _).collect();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(seconds) {
        for (task, flag) in tasks.iter_mut().zip(&flags) {
            if flag.0.swap(false, Ordering::Acquire) {
                let waker = Waker::from(flag.clone());
                if let Poll::Ready(()) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return Err("a page could not be read".into());
                }
            }
        }
        pool.tend();
        pool.turn();
    }
    Ok((pool.stats().loaded as f64 / begun.elapsed().as_secs_f64(), longest.get()))
}

/// Reads pages until one cannot be read.
async fn look(pool: &Pool, pages: u64, seed: u64, longest: &std::cell::Cell<Duration>) {
    let mut random = Random(seed);
    loop {
        let id = PageId(1 + random.below(pages - 1) as u32);
        let begun = Instant::now();
        loop {
            match pool.shared::<Coupled>(id).map(drop) {
                Ok(()) => break,
                Err(Stop::Page(_)) if pool.wait_for(id).await.is_err() => return,
                Err(Stop::Page(_)) => longest.set(longest.get().max(begun.elapsed())),
                Err(_) => return,
            }
        }
        // Other tasks get a turn also after a page that was in memory.
        let mut yielded = false;
        std::future::poll_fn(|cx| {
            cx.waker().wake_by_ref();
            if std::mem::replace(&mut yielded, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
