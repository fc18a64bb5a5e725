//! The log alone: `cargo run --release -p wal --example log_insert [memory|sync|all]` (default
//! `all`).
//!
//! `memory`: GB of frames per second into a log in memory, for each way to insert, 1 and 2 threads,
//! and records of several sizes (bodies, without the 40 bytes of a frame). The same with every
//! fifth record of order [`LogOrder::Last`], and with every fifth a commit
//! ([`LogOrder::Dependent`]). Rounds go over all combinations in turn; shown are the median and, in
//! brackets, the lowest and highest. "x" is the rate of two threads over that of one.
//!
//! `sync`: the time of the device for 4 KiB writes to a file written before (write and fdatasync),
//! beside commits of 120 bytes by 1 and 16 clients, each of which waits for its own; in turn again.

use base::{Lsn, TxnId};
use std::path::Path;
use std::time::{Duration, Instant};
use wal::{Durability, Insert, Log, LogFault, LogOptions, LogOrder, RecordHeader};
use world::Open;

const ROUNDS: usize = 9;
const BYTES_PER_THREAD: u64 = 24 << 20;
const SIZES: [usize; 4] = [40, 120, 400, 2000];
const TIME: Duration = Duration::from_millis(700);

/// The share and the kind of ordered records.
#[derive(Clone, Copy)]
enum Commits {
    Never,
    /// Every fifth record has order [`LogOrder::Last`].
    FifthLast,
    /// Every fifth record is a commit, [`LogOrder::Dependent`].
    FifthDependent,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("memory") => in_memory()?,
        Some("sync") => synced()?,
        None | Some("all") => {
            in_memory()?;
            synced()?;
        }
        Some(other) => return Err(format!("{other}: expected memory, sync or all").into()),
    }
    Ok(())
}

fn in_memory() -> Result<(), LogFault> {
    for commits in [Commits::Never, Commits::FifthLast, Commits::FifthDependent] {
        let with = match commits {
            Commits::Never => "no commits",
            Commits::FifthLast => "every fifth last",
            Commits::FifthDependent => "every fifth a commit",
        };
        for size in SIZES {
            let mut rates = vec![[const { Vec::new() }; 2]; Insert::ALL.len()];
            for _ in 0..ROUNDS {
                for (insert, rates) in Insert::ALL.into_iter().zip(&mut rates) {
                    for threads in [1, 2] {
                        rates[threads - 1].push(rate(insert, threads, size, commits)?);
                    }
                }
            }
            for (insert, [one, two]) in Insert::ALL.into_iter().zip(rates) {
                let factor = median(&two) / median(&one);
                let name = insert.name();
                println!(
                    "{name:12} {size:4} B, {with}: 1 thread {} GB/s, 2 threads {} GB/s, x{factor:.2}",
                    told(&one),
                    told(&two)
                );
            }
        }
    }
    Ok(())
}

fn median(of: &[f64]) -> f64 {
    let mut sorted = of.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn told(of: &[f64]) -> String {
    let (low, high) = of.iter().fold((f64::MAX, 0f64), |(l, h), &v| (l.min(v), h.max(v)));
    format!("{:.2} [{low:.2}-{high:.2}]", median(of))
}

/// Bytes of frames per nanosecond, padding not counted.
fn rate(insert: Insert, threads: usize, size: usize, commits: Commits) -> Result<f64, LogFault> {
    let options = LogOptions { insert, ..LogOptions::new(Durability::Memory) };
    let log = Log::open(world::memory(), Path::new("log"), options)?;
    let records = BYTES_PER_THREAD / (size as u64 + 40);
    let start = Instant::now();
    std::thread::scope(|s| {
        for t in 0..threads {
            let log = &log;
            s.spawn(move || append(log, t as u64, size, records, commits));
        }
    });
    let ns = start.elapsed().as_nanos() as f64;
    let stats = log.stats();
    Ok((records * threads as u64 * (size as u64 + 40).next_multiple_of(8)) as f64 / ns)
        .inspect(|_| assert_eq!(stats.records, records * threads as u64, "{insert:?}"))
}

fn append(log: &Log, thread: u64, size: usize, records: u64, commits: Commits) {
    let header = RecordHeader { kind: 1, txn: TxnId(thread), ..Default::default() };
    let body = vec![thread as u8; size];
    for n in 0..records {
        let order = match commits {
            Commits::FifthLast if n % 5 == 4 => LogOrder::Last,
            Commits::FifthDependent if n % 5 == 4 => LogOrder::Dependent(Lsn(0)),
            _ => LogOrder::ANY,
        };
        log.append(&header, order, &[&body[..20], &body[20..]]);
    }
}

fn synced() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("atoll-log-insert-{}", std::process::id()));
    world::real().create_dir_all(&folder)?;
    let (mut device, mut one, mut sixteen) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        device.push(bare(&folder)?);
        one.push(commits_per_s(&folder, 1)?);
        sixteen.push(commits_per_s(&folder, 16)?);
    }
    println!("device, 4 KiB writes: {}/s", told(&device));
    println!("1 client: {} commits/s, {:.2} of the device", told(&one), median(&one) / median(&device));
    println!(
        "16 clients: {} commits/s, {:.1} of the device",
        told(&sixteen),
        median(&sixteen) / median(&device)
    );
    Ok(std::fs::remove_dir_all(folder)?)
}

fn commits_per_s(folder: &Path, clients: u64) -> Result<f64, LogFault> {
    let log = Log::open(world::real(), &folder.join("log"), LogOptions::new(Durability::Sync))?;
    std::thread::scope(|s| {
        for t in 0..clients {
            let log = &log;
            s.spawn(move || {
                let header = RecordHeader { txn: TxnId(t), ..Default::default() };
                let start = Instant::now();
                while start.elapsed() < TIME {
                    let span = log.append(&header, LogOrder::Dependent(Lsn(0)), &[&[1; 120]]);
                    if let Err(fault) = log.wait_durable(span.holds) {
                        return eprintln!("{fault}");
                    }
                }
            });
        }
    });
    Ok(log.stats().records as f64 / TIME.as_secs_f64())
}

fn bare(folder: &Path) -> std::io::Result<f64> {
    let file = world::real().open(&folder.join("bare"), Open::Create)?;
    (0..256).try_for_each(|n| file.write_all_at(&[0; 1 << 16], n << 16))?;
    file.sync()?;
    let (start, mut n) = (Instant::now(), 0);
    while start.elapsed() < TIME {
        file.write_all_at(&[7; 4096], n % 4096 * 4096)?;
        file.sync()?;
        n += 1;
    }
    Ok(n as f64 / TIME.as_secs_f64())
}
