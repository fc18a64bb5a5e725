//! The cost of reaching a page: `cargo run --release -p pages --example latching`. Nanoseconds to
//! latch, read and release, over 64 resident pages and over 4096, best of five rounds.

use base::PageId;
use pages::{Coupled, LatchPolicy, Owned, Pool, PoolOptions};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use wal::{Durability, Log, LogOptions};

const TURNS: u32 = 10_000_000;

fn main() {
    let files = world::memory();
    let log = Log::open(files.clone(), Path::new("log"), LogOptions::new(Durability::Memory));
    let pool = log.map_err(|e| e.to_string()).and_then(|log| {
        Pool::open(
            files,
            Path::new("data"),
            PoolOptions { max_pages: 5000, ..PoolOptions::new(5000) },
            Arc::new(log),
        )
        .map_err(|e| e.to_string())
    });
    let pool = match pool {
        Ok(pool) => pool,
        Err(error) => return eprintln!("{error}"),
    };
    for _ in 0..4096 {
        let fresh = pool.allocate().and_then(|id| pool.fresh::<Owned>(id).map(drop));
        if let Err(stop) = fresh {
            return eprintln!("{stop}");
        }
    }
    for pages in [64, 4096] {
        shared::<Owned>(&pool, pages);
        shared::<Coupled>(&pool, pages);
        exclusive::<Owned>(&pool, pages);
        exclusive::<Coupled>(&pool, pages);
    }
}

fn best(what: &str, pages: u32, mut one: impl FnMut(PageId)) {
    let round = |one: &mut dyn FnMut(u32)| {
        let start = Instant::now();
        (0..TURNS).for_each(one);
        start.elapsed().as_nanos() as f64 / f64::from(TURNS)
    };
    // A stride that visits all pages of a power of two in an order that the hardware does not
    // predict.
    let mut visit = |n: u32| one(PageId(1 + n.wrapping_mul(0x9e37_79b1) % pages));
    let ns = (0..5).map(|_| round(&mut visit)).fold(f64::MAX, f64::min);
    println!("{what:24} {pages:5} pages: {ns:5.1} ns");
}

fn shared<L: LatchPolicy>(pool: &Pool, pages: u32) {
    best(&format!("shared::<{}>", L::NAME), pages, |id| {
        if let Ok(page) = pool.shared::<L>(black_box(id)) {
            black_box(page.kind());
        }
    });
}

fn exclusive<L: LatchPolicy>(pool: &Pool, pages: u32) {
    best(&format!("exclusive::<{}>", L::NAME), pages, |id| {
        if let Ok(mut page) = pool.exclusive::<L>(black_box(id)) {
            page.set_kind(1);
        }
    });
}
