//! Shared by the examples: a pool in memory, and a log without cost.

use access::Journal;
use base::Lsn;
use pages::{Pool, PoolOptions};
use std::path::Path;
use std::sync::Arc;
use wal::{Durability, Log, LogOptions, LogOrder};

/// Advances the log's position without keeping records: the log's own cost is measured elsewhere.
pub struct Counter(pub u64);

impl Journal for Counter {
    fn undoable(&mut self, _: u8, _: Lsn, body: &[&[u8]]) -> Lsn {
        self.0 += body.iter().map(|part| part.len() as u64).sum::<u64>();
        Lsn(self.0)
    }
    fn system(&mut self, kind: u8, _: LogOrder, body: &[&[u8]]) -> Lsn {
        self.undoable(kind, Lsn(0), body)
    }
    fn worker(&self) -> usize {
        0
    }
}

pub fn pool(frames: usize) -> Pool {
    let options = LogOptions::new(Durability::Memory);
    let log = Log::open(world::memory(), Path::new("log"), options).expect("a memory log");
    let options = PoolOptions { max_pages: 1 << 20, ..PoolOptions::new(frames) };
    Pool::open(world::memory(), Path::new("data"), options, Arc::new(log)).expect("a pool in memory")
}
