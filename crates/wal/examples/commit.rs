//! What a durable commit costs: `cargo run --release -p wal --example commit [threads]`.
//! Each thread appends 120 bytes and blocks until the device has them, for two seconds; beside it the bare device:
//! one writer, a preallocated file, write + fdatasync.

use base::TxnId;
use std::time::{Duration, Instant};
use wal::{Durability, Log, LogOptions, Order, RecordHeader};
use world::Open;

const TIME: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let threads: u64 = std::env::args().nth(1).and_then(|t| t.parse().ok()).unwrap_or(1);
    let folder = std::env::temp_dir().join(format!("atoll-commit-{}", std::process::id()));
    let log = Log::open(world::real(), &folder, LogOptions::new(Durability::Sync))?;
    std::thread::scope(|s| {
        (0..threads).for_each(|t| {
            drop(s.spawn({
                let log = &log;
                move || commit(log, t)
            }))
        })
    });
    let stats = log.stats();
    println!("{threads} thread(s): {} commits/s, {} fsyncs/s", stats.records / 2, stats.fsyncs / 2);
    println!("bare device: {} writes/s", bare(&folder)?);
    drop(log);
    Ok(std::fs::remove_dir_all(folder)?)
}

fn commit(log: &Log, thread: u64) {
    let start = Instant::now();
    while start.elapsed() < TIME {
        let span =
            log.append(&RecordHeader { txn: TxnId(thread), ..Default::default() }, Order::Last, &[&[1; 120]]);
        if let Err(fault) = log.wait_durable(span.end) {
            return eprintln!("{fault}");
        }
    }
}

fn bare(folder: &std::path::Path) -> std::io::Result<u64> {
    let file = world::real().open(&folder.join("bare"), Open::Create)?;
    file.write_all_at(&vec![0; 16 << 20], 0)?;
    file.sync()?;
    let (start, mut n) = (Instant::now(), 0);
    while start.elapsed() < TIME {
        file.write_all_at(&[7; 160], n % 100_000 * 160)?;
        file.sync()?;
        n += 1;
    }
    Ok(n / 2)
}
