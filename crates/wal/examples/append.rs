//! What appending costs: `cargo run --release -p wal --example append [memory|async|sync] [threads]`.
//! Records of 120 bytes (frame of 160); nanoseconds per record and bytes per second, best of five rounds.

use base::TxnId;
use std::time::Instant;
use wal::{Durability, Log, LogOptions, Order, RecordHeader};

const RECORDS: u64 = 1_000_000;

fn main() {
    let mut args = std::env::args().skip(1);
    let durability = match args.next().as_deref() {
        None | Some("memory") => Durability::Memory,
        Some("async") => Durability::Async,
        Some("sync") => Durability::Sync,
        Some(other) => return eprintln!("{other}: expected memory, async or sync"),
    };
    let threads: u64 = args.next().and_then(|t| t.parse().ok()).unwrap_or(1);
    let folder = std::env::temp_dir().join(format!("atoll-append-{}", std::process::id()));
    let log = match Log::open(world::real(), &folder, LogOptions::new(durability)) {
        Ok(log) => log,
        Err(fault) => return eprintln!("{fault}"),
    };
    let best = (0..5).map(|_| round(&log, threads)).fold(f64::MAX, f64::min);
    let bytes = log.stats().bytes as f64 / log.stats().records as f64;
    println!("{durability:?}, {threads} thread(s): {best:.1} ns a record, {:.2} GB/s", bytes / best);
    drop(log);
    // Nothing is there in memory mode.
    let _ = std::fs::remove_dir_all(folder);
}

/// Wall nanoseconds per record of all threads together.
fn round(log: &Log, threads: u64) -> f64 {
    let start = Instant::now();
    std::thread::scope(|s| {
        for t in 0..threads {
            s.spawn(move || {
                let header = RecordHeader { kind: 1, txn: TxnId(t), ..Default::default() };
                let body = [t as u8; 120];
                for _ in 0..RECORDS / threads {
                    log.append(&header, Order::ANY, &[&body[..20], &body[20..]]);
                }
            });
        }
    });
    start.elapsed().as_nanos() as f64 / RECORDS as f64
}
