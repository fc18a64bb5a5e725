//! The cost of counting and routing: nanoseconds per look-up and per counted access, over random
//! keys.
//!
//! `cargo run --release -p partition --example partition_cost`; each line is the median of 15 runs
//! with the spread of all.

use base::{TableId, WorkerId};
use partition::{Grain, Histogram, RangeMap, Ranges};
use std::hint::black_box;
use std::time::Instant;

const KEYS: u64 = 640_000;

fn measure(name: &str, keys: &[u64], mut each: impl FnMut(u64)) {
    let mut runs: Vec<f64> = Vec::new();
    for _ in 0..15 {
        let start = Instant::now();
        keys.iter().for_each(|&key| each(key));
        runs.push(start.elapsed().as_secs_f64() * 1e9 / keys.len() as f64);
    }
    runs.sort_by(f64::total_cmp);
    println!("{name:<44} {:5.2} ns ({:.2} .. {:.2})", runs[7], runs[0], runs[14]);
}

fn main() {
    let mut rng = fastrand::Rng::with_seed(7);
    let keys: Vec<u64> = (0..200_000).map(|_| rng.u64(..KEYS)).collect();
    measure("the loop alone", &keys, |key| {
        black_box(key);
    });
    for partitions in [2, 16, 64, 512] {
        let workers: Vec<WorkerId> = (0..partitions).map(WorkerId).collect();
        let map = RangeMap::new([
            Ranges::equal(TableId(1), KEYS, partitions as usize, &workers).expect("as many keys")
        ]);
        measure(&format!("owner of a key, {partitions} partitions"), &keys, |key| {
            black_box(map.find(TableId(1), key));
        });
    }
    for sub_buckets in [8, 32, 128] {
        let mut histogram = Histogram::new(0..KEYS, Grain { sub_buckets, ages: 4 }).expect("keys");
        measure(&format!("count an access, {sub_buckets} sub-buckets"), &keys, |key| {
            histogram.record(black_box(key))
        });
        black_box(&histogram);
    }
}
