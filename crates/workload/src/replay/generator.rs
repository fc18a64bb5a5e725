//! Requests: transactions of the recording with a home in the given sites.

use super::{Replay, ReplayRequest};
use crate::random::Random;
use std::ops::Range;
use txn::{Generator, Workload};

/// Numbers of a stream's requests, in bits; of the rest of 42 bits the stream has its number.
const COUNT_BITS: u32 = 30;
const STREAM_BITS: u32 = 12;

/// Transactions by their homes.
#[derive(Debug)]
pub(super) struct Pool {
    /// Positions in the recording, those of one home beside each other.
    order: Vec<u32>,
    /// The first of each home, and the end.
    starts: Vec<usize>,
}

impl Pool {
    pub fn new(sites: u32, of: impl Iterator<Item = (u32, u32)>) -> Pool {
        let mut all: Vec<(u32, u32)> = of.map(|(at, home)| (home, at)).collect();
        all.sort_unstable();
        let starts = (0..=sites).map(|site| all.partition_point(|(home, _)| *home < site)).collect();
        Pool { order: all.into_iter().map(|(_, at)| at).collect(), starts }
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn within(&self, sites: &Range<u32>) -> &[u32] {
        &self.order[self.starts[sites.start as usize]..self.starts[sites.end as usize]]
    }
}

pub struct ReplayGenerator {
    replay: Replay,
    random: Random,
    sites: Range<u32>,
    /// The number of the next request, and above it that of the stream.
    at: u64,
}

impl ReplayGenerator {
    pub(super) fn new(replay: Replay, seed: u64, sites: Range<u32>) -> ReplayGenerator {
        let mut random = Random::new(seed);
        let stream = random.within(0..1 << STREAM_BITS);
        ReplayGenerator { replay, random, sites, at: stream << COUNT_BITS }
    }

    /// A transaction of one of the pools, and how far its sites move so that its home is here.
    fn pick(&mut self, of_multi: bool) -> (u32, u32) {
        let of = &self.replay.of;
        let pool = if of_multi { &of.multi } else { &of.local };
        let here = pool.within(&self.sites);
        if !here.is_empty() {
            return (here[self.random.within(0..here.len() as u64) as usize], 0);
        }
        let number = pool.order[self.random.within(0..pool.len() as u64) as usize];
        let home = of.recording.transactions[number as usize].1;
        let aim = self.random.within(self.sites.start.into()..self.sites.end.into()) as u32;
        (number, (aim + self.replay.sites() - home) % self.replay.sites())
    }

    /// Whether the next transaction is one over several sites.
    fn is_multi(&mut self) -> bool {
        let of = &self.replay.of;
        match self.replay.multisite {
            Some(share) => self.random.chance(share),
            None => {
                let [local, multi] = [&of.local, &of.multi].map(|pool| pool.within(&self.sites).len() as u64);
                let [local, multi] = if local + multi > 0 {
                    [local, multi]
                } else {
                    [of.local.len() as u64, of.multi.len() as u64]
                };
                self.random.within(0..local + multi) < multi
            }
        }
    }
}

impl Generator for ReplayGenerator {
    type Request = ReplayRequest;

    fn next(&mut self) -> ReplayRequest {
        let is_multi = self.is_multi();
        // Without a local transaction one of the others has all its rows at home.
        let is_local = !is_multi && self.replay.of.local.is_empty();
        let (number, shift) = self.pick(is_multi || is_local);
        let low = (1 << COUNT_BITS) - 1;
        let at = self.at;
        self.at = (at & !low) | ((at + 1) & low);
        ReplayRequest { number, draw: self.random.within(0..u64::MAX), at, shift, is_local }
    }
}
