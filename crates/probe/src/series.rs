//! A window second by second: the counts and latencies of each.
//!
//! The worker fills one [`Second`] at a time. Its histogram is coarser than [`crate::Latency`] (16
//! steps per octave: values are exact to 3 %) and small enough to stay in the core's cache. Of a
//! finished second only the steps with a count are kept.

use serde::{Deserialize, Serialize};

/// Steps of an octave, as a power of two.
const STEP_BITS: u32 = 4;
const STEPS: u64 = 1 << STEP_BITS;
/// Up to 2^40 ns, 18 minutes.
const HIGHEST: u64 = (1 << 40) - 1;
const BUCKETS: usize = ((40 - STEP_BITS + 1) << STEP_BITS) as usize;

pub const SECOND_NS: u64 = 1_000_000_000;

fn bucket(ns: u64) -> usize {
    let ns = ns.min(HIGHEST);
    if ns < STEPS {
        return ns as usize;
    }
    let octave = 63 - ns.leading_zeros() - STEP_BITS;
    (((u64::from(octave) + 1) << STEP_BITS) + ((ns >> octave) & (STEPS - 1))) as usize
}

/// The middle of a bucket, ns.
fn middle(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let octave = (bucket >> STEP_BITS) - 1;
    let low = (STEPS + (bucket & (STEPS - 1))) << octave;
    low + (1 << octave) / 2
}

/// The counts and latencies of one second of a window.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Second {
    /// Its length in ns: less at the end of a window.
    pub length_ns: u64,
    pub committed: u64,
    /// Attempts that ended without effect, for any reason.
    pub aborted: u64,
    /// Latencies: bucket and count, ascending.
    latency: Vec<(u16, u32)>,
}

impl Second {
    /// Adds the same second of another worker or instance; or the second that followed.
    pub fn merge(&mut self, other: &Second) {
        self.length_ns = self.length_ns.max(other.length_ns);
        self.committed += other.committed;
        self.aborted += other.aborted;
        for &(bucket, n) in &other.latency {
            match self.latency.binary_search_by_key(&bucket, |b| b.0) {
                Ok(at) => self.latency[at].1 = self.latency[at].1.saturating_add(n),
                Err(at) => self.latency.insert(at, (bucket, n)),
            }
        }
    }

    /// The latency in ns below which a share `q` (0..=1) lies, to 3 %; 0 if there are none.
    pub fn quantile(&self, q: f64) -> u64 {
        let all: u64 = self.latency.iter().map(|(_, n)| u64::from(*n)).sum();
        let rank = ((q * all as f64).ceil() as u64).max(1);
        let mut below = 0;
        let hit = self.latency.iter().find(|(_, n)| {
            below += u64::from(*n);
            below >= rank
        });
        hit.map_or(0, |(bucket, _)| middle(usize::from(*bucket)))
    }
}

/// The seconds of a worker's window. Only that worker touches it.
#[derive(Clone, Debug)]
pub struct Series {
    began_ns: u64,
    /// The end of the second that is being filled.
    next_ns: u64,
    now: Second,
    buckets: Box<[u32; BUCKETS]>,
    done: Vec<Second>,
}

impl Series {
    /// A window that begins at `now_ns`.
    pub fn new(now_ns: u64) -> Series {
        Series {
            began_ns: now_ns,
            next_ns: now_ns + SECOND_NS,
            now: Second::default(),
            buckets: Box::new([0; BUCKETS]),
            done: Vec::new(),
        }
    }

    #[inline]
    pub fn committed(&mut self, now_ns: u64) {
        self.roll(now_ns);
        self.now.committed += 1;
    }

    #[inline]
    pub fn aborted(&mut self, now_ns: u64) {
        self.roll(now_ns);
        self.now.aborted += 1;
    }

    /// Adds a latency to the second of the last call with a time.
    #[inline]
    pub fn latency(&mut self, ns: u64) {
        let count = &mut self.buckets[bucket(ns)];
        *count = count.saturating_add(1);
    }

    #[inline]
    fn roll(&mut self, now_ns: u64) {
        while now_ns >= self.next_ns {
            self.finish(SECOND_NS);
            self.next_ns += SECOND_NS;
        }
    }

    fn finish(&mut self, length_ns: u64) {
        let filled = self.buckets.iter().enumerate().filter(|(_, n)| **n > 0);
        self.now.latency = filled.map(|(bucket, n)| (bucket as u16, *n)).collect();
        self.now.length_ns = length_ns;
        self.buckets.fill(0);
        self.done.push(std::mem::take(&mut self.now));
    }

    /// Ends the window at `now_ns` and begins the next one. A last second of less than a tenth is
    /// added to the one before.
    pub fn take(&mut self, now_ns: u64) -> Vec<Second> {
        self.roll(now_ns);
        let rest = now_ns - (self.next_ns - SECOND_NS);
        self.finish(rest);
        if rest < SECOND_NS / 10
            && self.done.len() > 1
            && let Some(sliver) = self.done.pop()
            && let Some(last) = self.done.last_mut()
        {
            last.merge(&sliver);
            last.length_ns += rest;
        }
        (self.began_ns, self.next_ns) = (now_ns, now_ns + SECOND_NS);
        std::mem::take(&mut self.done)
    }
}

/// Adds the window of one worker or instance to that of others. Windows that began together may
/// differ a little in length.
pub fn merge(into: &mut Vec<Second>, other: &[Second]) {
    if into.len() < other.len() {
        into.resize(other.len(), Second::default());
    }
    into.iter_mut().zip(other).for_each(|(a, b)| a.merge(b));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_again_to_three_per_cent() {
        let mut value = 1u64;
        while value < HIGHEST {
            let found = middle(bucket(value));
            assert!(found.abs_diff(value) as f64 <= value as f64 * 0.032, "{value}: {found}");
            value += value / 7 + 1;
        }
        assert!(bucket(u64::MAX) < BUCKETS);
        assert!((0..BUCKETS).all(|b| bucket(middle(b)) == b));
    }

    #[test]
    fn seconds_fill_one_after_the_other_and_a_sliver_joins_the_last() {
        let mut series = Series::new(100);
        for i in 0..250 {
            series.committed(100 + i * 10_000_000);
            series.latency(1_000 * (i / 100 + 1));
        }
        series.aborted(100 + 2_490_000_000);
        let seconds = series.take(100 + 2_500_000_000);
        let counts: Vec<_> = seconds.iter().map(|s| (s.committed, s.aborted, s.length_ns)).collect();
        assert_eq!(counts, [(100, 0, SECOND_NS), (100, 0, SECOND_NS), (50, 1, 500_000_000)]);
        assert!((1_940..=2_060).contains(&seconds[1].quantile(0.99)), "{seconds:?}");
        // The next window begins where this one ended, and its last 20 ms belong to its only whole
        // second.
        let again = 100 + 2_500_000_000;
        series.committed(again + 1);
        series.committed(again + SECOND_NS + 1);
        let seconds = series.take(again + SECOND_NS + 20_000_000);
        assert_eq!((seconds.len(), seconds[0].committed, seconds[0].length_ns), (1, 2, 1_020_000_000));
    }

    #[test]
    fn idle_seconds_are_there_and_workers_add_up() {
        let (mut a, mut b) = (Series::new(0), Series::new(0));
        a.committed(3_500_000_000);
        a.latency(10_000);
        b.committed(100);
        b.latency(90_000);
        b.committed(3_600_000_000);
        b.latency(10_000);
        let mut all = Vec::new();
        merge(&mut all, &a.take(4_000_000_000));
        merge(&mut all, &b.take(4_000_000_005));
        assert_eq!(all.iter().map(|s| s.committed).collect::<Vec<_>>(), [1, 0, 0, 2]);
        assert_eq!((all[1].quantile(0.5), all[3].latency.len()), (0, 1));
    }
}
