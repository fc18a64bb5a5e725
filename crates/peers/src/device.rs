//! What the disk itself does: the bar for commits that wait for it.

use crate::fault::PeerFault;
use crate::rounds::Series;
use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// Linux's `O_DIRECT | O_DSYNC`.
const DIRECT_SYNCED: i32 = 0o40_000 | 0o10_000;
const BLOCK: usize = 4096;
const FILE_BYTES: usize = 64 << 20;

/// A block at an address that direct writes accept.
#[repr(align(4096))]
struct Block([u8; BLOCK]);

/// 4 KiB writes per second by `writers` threads, each overwriting a preallocated file of its own in order, every write synced.
///
/// # Errors
/// When the file system does not take direct writes.
pub fn synced_writes(dir: &Path, writers: usize, window: Duration) -> Result<f64, PeerFault> {
    let writer = |number: usize| {
        let path = dir.join(format!("device-{number}"));
        let io = || PeerFault::io(&path);
        std::fs::write(&path, vec![1; FILE_BYTES]).map_err(io())?;
        let file = OpenOptions::new().write(true).custom_flags(DIRECT_SYNCED).open(&path).map_err(io())?;
        file.sync_all().map_err(io())?;
        let (block, start) = (Block([2; BLOCK]), Instant::now());
        let mut writes = 0;
        while start.elapsed() < window {
            let at = writes as usize * BLOCK % FILE_BYTES;
            file.write_all_at(&block.0, at as u64).map_err(io())?;
            writes += 1;
        }
        let rate = f64::from(writes) / start.elapsed().as_secs_f64();
        std::fs::remove_file(&path).map_err(io())?;
        Ok::<_, PeerFault>(rate)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..writers).map(|n| scope.spawn(move || writer(n))).collect();
        let rates =
            threads.into_iter().map(|t| t.join().map_err(|_| PeerFault::Panicked("the device".into()))?);
        rates.sum()
    })
}

/// `rounds` measurements.
///
/// # Errors
/// As [`synced_writes`].
pub fn series(dir: &Path, writers: usize, window: Duration, rounds: u32) -> Result<Series, PeerFault> {
    let name = format!("the device: 4 KiB direct synced writes, {writers} at a time");
    let values = (0..rounds).map(|_| synced_writes(dir, writers, window)).collect::<Result<_, _>>()?;
    Ok(Series { name, values })
}
