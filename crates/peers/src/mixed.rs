//! The speed of the disk with the reads and writes that pages need: the limit for data larger than
//! memory.
//!
//! ```text
//!   depth readers: 8 KiB at a random place, one read at a time; no faster than their writes
//!   one writer:    log, sync; batch to one place, sync; each page in place, sync;
//!                  as often as the engine does it
//! ```
//!
//! All I/O except the log bypasses the system's page cache, as in the engine. Blocking threads keep
//! the queue at its depth.

use crate::fault::PeerFault;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use world::{File, IoQueue, Means, Open};

const PAGE: usize = 8192;
/// Pages written together, as the pool does.
const BATCH: usize = 128;
const HEADER: usize = 4096;
const LOG_BYTES: u64 = 16 << 20;

#[repr(align(4096))]
struct Page([u8; PAGE]);

/// The load that an engine put on its disk in a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Reads under way at once.
    pub depth: usize,
    pub writes_per_read: f64,
    /// Bytes of log that must be durable before a page is written, per page.
    pub log_per_write: f64,
}

/// The rate that the disk reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reached {
    /// Reads per second, each with the writes that belong to it.
    pub reads_per_s: f64,
    pub longest_read: Duration,
}

/// A file as large as the data, and the other files of the writer.
pub struct Disk {
    data: Arc<dyn File>,
    pages: u64,
    doublewrite: Arc<dyn File>,
    log: Arc<dyn File>,
    dir: PathBuf,
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n.max(1)
    }
}

#[derive(Default)]
struct Done {
    reads: AtomicU64,
    writes: AtomicU64,
    longest_ns: AtomicU64,
    stop: AtomicBool,
}

impl Disk {
    /// Creates the files in the existing directory `dir`.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn prepare(dir: &Path, pages: u64) -> Result<Disk, PeerFault> {
        let make = |name: &str, bytes: u64| {
            let path = dir.join(name);
            let zeros = vec![1; 1 << 20];
            let file = world::real().open(&path, Open::Create)?;
            for at in (0..bytes).step_by(zeros.len()) {
                file.write_all_at(&zeros[..zeros.len().min((bytes - at) as usize)], at)?;
            }
            file.sync()?;
            Ok::<_, std::io::Error>(world::real().open_direct(&path, Open::ReadWrite)?.0)
        };
        let made = || {
            let data = make("disk-pages", pages * PAGE as u64)?;
            let doublewrite = make("disk-doublewrite", (HEADER + BATCH * PAGE) as u64)?;
            make("disk-log", LOG_BYTES)?;
            let log = world::real().open(&dir.join("disk-log"), Open::ReadWrite)?;
            Ok(Disk { data, pages, doublewrite, log, dir: dir.to_owned() })
        };
        made().map_err(PeerFault::io(dir))
    }

    /// Runs the mix for `window`.
    ///
    /// # Errors
    /// I/O.
    pub fn run(&self, mix: &Mix, window: Duration, seed: u64) -> Result<Reached, PeerFault> {
        let done = Done::default();
        let begun = Instant::now();
        let ran: std::io::Result<()> = std::thread::scope(|scope| {
            let done = &done;
            let readers = (0..mix.depth as u64).map(|n| scope.spawn(move || self.read(mix, seed + n, done)));
            let mut threads: Vec<_> = readers.collect();
            if mix.writes_per_read > 0.0 {
                threads.push(scope.spawn(move || self.write(mix, seed, done)));
            }
            std::thread::sleep(window);
            done.stop.store(true, Relaxed);
            let ended = threads
                .into_iter()
                .map(|t| t.join().unwrap_or_else(|_| Err(std::io::Error::other("a panic"))));
            ended.collect()
        });
        ran.map_err(PeerFault::io(&self.dir))?;
        let reads = done.reads.load(Relaxed) as f64;
        let paid = done.writes.load(Relaxed) as f64 / mix.writes_per_read;
        Ok(Reached {
            reads_per_s: if mix.writes_per_read > 0.0 { reads.min(paid) } else { reads }
                / begun.elapsed().as_secs_f64(),
            longest_read: Duration::from_nanos(done.longest_ns.load(Relaxed)),
        })
    }

    fn read(&self, mix: &Mix, seed: u64, done: &Done) -> std::io::Result<()> {
        let (mut random, mut page) = (Random(seed), Box::new(Page([0; PAGE])));
        while !done.stop.load(Relaxed) {
            // Readers stay at most four batches ahead of the writer: an engine's readers need
            // frames, which its writer frees.
            if done.reads.load(Relaxed) as f64 * mix.writes_per_read
                > (done.writes.load(Relaxed) + 4 * BATCH as u64) as f64
            {
                std::thread::sleep(Duration::from_micros(50));
                continue;
            }
            let begun = Instant::now();
            self.data.read_at(&mut page.0, random.below(self.pages) * PAGE as u64)?;
            done.longest_ns.fetch_max(begun.elapsed().as_nanos() as u64, Relaxed);
            done.reads.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    fn write(&self, mix: &Mix, seed: u64, done: &Done) -> std::io::Result<()> {
        let queue = IoQueue::new(BATCH as u32, Means::Best)?;
        let (mut random, mut at) = (Random(!seed), 0);
        let pages: Box<[Page]> = (0..BATCH).map(|_| Page([2; PAGE])).collect();
        let log = vec![3; ((mix.log_per_write * BATCH as f64) as usize).clamp(64, LOG_BYTES as usize)];
        while !done.stop.load(Relaxed) {
            if (done.reads.load(Relaxed) as f64) * mix.writes_per_read < done.writes.load(Relaxed) as f64 {
                std::thread::sleep(Duration::from_micros(50));
                continue;
            }
            at = if at + log.len() as u64 > LOG_BYTES { 0 } else { at };
            self.log.write_all_at(&log, at)?;
            self.log.sync()?;
            at += log.len() as u64;
            let together: Vec<(&[u8], u64)> =
                (0..).zip(&pages).map(|(n, page)| (&page.0[..], HEADER as u64 + n * PAGE as u64)).collect();
            queue.write_all(&self.doublewrite, &together)?;
            self.doublewrite.sync()?;
            let apart: Vec<(&[u8], u64)> =
                pages.iter().map(|page| (&page.0[..], random.below(self.pages) * PAGE as u64)).collect();
            queue.write_all(&self.data, &apart)?;
            self.data.sync()?;
            done.writes.fetch_add(BATCH as u64, Relaxed);
        }
        Ok(())
    }
}
