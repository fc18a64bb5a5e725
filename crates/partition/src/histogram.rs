//! The distribution of accesses over a partition's keys. Recent accesses weigh more (thesis section
//! 4.4.1, figures 4.4, 4.5).
//!
//! ```text
//!   age bucket   sub-bucket 0    1    2    3     accesses are counted in one row: the active one
//!      0 (2 ago)           10   12    9   11     ageing clears the oldest row and activates it
//!      1 (1 ago)           10   10   55   10
//!      2 (active)           9   11   80   12     load of a sub-bucket = sum over ages of
//!                                                  floor(100 / (age + 1)) * count
//! ```
//!
//! The thesis' formula runs forward from the active bucket and so gives the oldest count the second
//! weight; its figure and its text weigh recent counts more. This file follows the figure.
//!
//! Access rules: the owner of a partition alone counts and ages, without an atomic. The balancer
//! asks the owner for a [`PartitionLoad`], which is a value. The upper level of the two (accesses
//! of the whole partition) is summed up for that value instead of being counted at each access.

use std::ops::Range;

/// Weight of an access in the current period; one of `a` periods ago weighs `floor(100 / (a + 1))`.
pub const WEIGHT: u64 = 100;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no histogram over keys {start}..{end}: expected at least one key and at most 2^56")]
pub struct BadKeys {
    start: u64,
    end: u64,
}

/// The resolution of a histogram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grain {
    /// Sub-ranges of a partition's range; fewer if it has fewer keys. At least 1.
    pub sub_buckets: usize,
    /// Periods that are remembered, the current one among them. At least 1.
    pub ages: usize,
}

impl Default for Grain {
    /// 32 sub-buckets: one is 3 % of an even partition, well inside the tolerance of 10 %. 4 ages:
    /// figure 4.5.
    fn default() -> Self {
        Grain { sub_buckets: 32, ages: 4 }
    }
}

/// Access counts of one partition.
///
/// Invariant: `starts` begins with the first key and rises strictly; `counts` has `ages` rows, each
/// with one count per start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    keys: Range<u64>,
    starts: Box<[u64]>,
    /// First count of the active row.
    active: usize,
    counts: Box<[u64]>,
}

impl Histogram {
    /// Sub-buckets of equal width, to one key. A grain of 0 counts as 1.
    pub fn new(keys: Range<u64>, grain: Grain) -> Result<Histogram, BadKeys> {
        let width = keys.end.saturating_sub(keys.start);
        if width == 0 || width > crate::MAX_DOMAIN {
            return Err(BadKeys { start: keys.start, end: keys.end });
        }
        let subs = (grain.sub_buckets.clamp(1, 1 << 16) as u64).min(width);
        let start = |i: u64| keys.start + (u128::from(width) * u128::from(i) / u128::from(subs)) as u64;
        let starts = (0..subs).map(start).collect();
        Ok(Histogram::with_starts(keys.clone(), starts, grain.ages))
    }

    fn with_starts(keys: Range<u64>, starts: Box<[u64]>, ages: usize) -> Histogram {
        let counts = vec![0; starts.len() * ages.max(1)].into_boxed_slice();
        Histogram { keys, starts, active: 0, counts }
    }

    /// The histogram of a new partition, made from the histograms of the old ones that it overlaps,
    /// with their counts. Their sub-buckets stay in place, so that the position of a hot spot is
    /// kept. Idle neighbours are joined and busy ones halved until there are as many as `grain`
    /// says.
    pub fn successor<'a>(
        keys: Range<u64>,
        grain: Grain,
        old: impl IntoIterator<Item = &'a Histogram>,
    ) -> Result<Histogram, BadKeys> {
        let old: Vec<&Histogram> = old.into_iter().collect();
        let even = Histogram::new(keys.clone(), Grain { sub_buckets: 1, ..grain })?;
        let mut borders: Vec<u64> =
            old.iter().flat_map(|h| h.starts.iter().copied().chain([h.keys.end])).collect();
        borders.retain(|start| keys.contains(start));
        borders.extend(&*even.starts);
        borders.sort_unstable();
        borders.dedup();
        let mut first = Histogram::with_starts(keys.clone(), borders.into(), grain.ages);
        old.iter().for_each(|h| first.inherit(h));
        let starts = first.reshaped(grain.sub_buckets.clamp(1, 1 << 16));
        let mut successor = Histogram::with_starts(keys, starts, grain.ages);
        old.iter().for_each(|h| successor.inherit(h));
        Ok(successor)
    }

    /// Starts of `count` sub-buckets (fewer if there are fewer keys) that hold about the same load
    /// each.
    fn reshaped(&self, count: usize) -> Box<[u64]> {
        let subs = (0..self.starts.len()).map(|i| (self.starts[i], self.load(i))).collect();
        let mut shape = Shape { subs, end: self.keys.end };
        while shape.subs.len() > count && shape.join() {}
        while shape.subs.len() < count && shape.halve() {}
        for _ in 0..count {
            if !shape.is_lopsided() || !shape.join() || !shape.halve() {
                break;
            }
        }
        shape.subs.into_iter().map(|s| s.0).collect()
    }

    pub fn keys(&self) -> Range<u64> {
        self.keys.clone()
    }
    pub fn sub_buckets(&self) -> usize {
        self.starts.len()
    }
    pub fn ages(&self) -> usize {
        self.counts.len() / self.starts.len()
    }

    #[inline]
    fn sub(&self, key: u64) -> usize {
        crate::range::last_at_most(&self.starts, key)
    }

    /// Counts one access. A key outside the range counts at the nearest end: the first and the last
    /// partition own the keys beyond the domain too.
    #[inline]
    pub fn record(&mut self, key: u64) {
        self.counts[self.active + self.sub(key)] += 1;
    }

    /// Counts many accesses of one key.
    pub fn add(&mut self, key: u64, accesses: u64) {
        let sub = self.sub(key);
        let count = &mut self.counts[self.active + sub];
        *count = count.saturating_add(accesses);
    }

    /// Ends the current period: the oldest counts are forgotten, and their row becomes the active
    /// one.
    pub fn age(&mut self) {
        self.active = (self.active + self.starts.len()) % self.counts.len();
        self.counts[self.active..self.active + self.starts.len()].fill(0);
    }

    /// The counts of `age` periods ago; 0 is the current one.
    fn row(&self, age: usize) -> &[u64] {
        let len = self.counts.len();
        let start = (self.active + len - age * self.starts.len()) % len;
        &self.counts[start..start + self.starts.len()]
    }

    fn row_mut(&mut self, age: usize) -> &mut [u64] {
        let len = self.counts.len();
        let start = (self.active + len - age * self.starts.len()) % len;
        &mut self.counts[start..start + self.starts.len()]
    }

    /// Access load of a sub-bucket, in hundredths of an access of the current period.
    ///
    /// # Panics
    /// If there is no such sub-bucket.
    pub fn load(&self, sub: usize) -> u64 {
        let weighted = |age| (WEIGHT / (age as u64 + 1)).saturating_mul(self.row(age)[sub]);
        (0..self.ages()).map(weighted).fold(0, u64::saturating_add)
    }

    /// The first key of sub-bucket `sub`; the end of the range for the one after the last.
    fn border(&self, sub: usize) -> u64 {
        self.starts.get(sub).copied().unwrap_or(self.keys.end)
    }

    /// The load for the balancer.
    pub fn snapshot(&self, requests: u64, queue: QueueLength) -> PartitionLoad {
        let sub = |i| SubLoad { start: self.border(i), load: self.load(i) };
        PartitionLoad { end: self.keys.end, requests, queue, subs: (0..self.starts.len()).map(sub).collect() }
    }

    /// Adds the counts of another histogram with the same sub-buckets, age by age: two of several
    /// threads, or one from before a change of owners and one from after it. Returns `other` if its
    /// sub-buckets differ.
    pub fn merge(&mut self, other: Histogram) -> Result<(), Histogram> {
        if (&self.keys, &self.starts, self.ages()) != (&other.keys, &other.starts, other.ages()) {
            return Err(other);
        }
        for age in 0..self.ages() {
            for (own, theirs) in self.row_mut(age).iter_mut().zip(other.row(age)) {
                *own = own.saturating_add(*theirs);
            }
        }
        Ok(())
    }

    /// Takes over the counts of `old` in the keys that the two ranges share, and spreads the count
    /// of a sub-bucket evenly over its keys. Over all partitions that share `old`, no access is
    /// lost or counted twice.
    fn inherit(&mut self, old: &Histogram) {
        for age in 0..self.ages().min(old.ages()) {
            for sub in 0..old.starts.len() {
                let (count, source) = (old.row(age)[sub], old.border(sub)..old.border(sub + 1));
                if count > 0 {
                    self.spread(age, count, source);
                }
            }
        }
    }

    fn spread(&mut self, age: usize, count: u64, source: Range<u64>) {
        let width = u128::from(source.end - source.start);
        let below = |key: u64| {
            let part = key.clamp(source.start, source.end) - source.start;
            (u128::from(count) * u128::from(part) / width) as u64
        };
        let (start, end) = (source.start.max(self.keys.start), source.end.min(self.keys.end));
        if start >= end {
            return;
        }
        for sub in self.sub(start)..=self.sub(end - 1) {
            let share = below(self.border(sub + 1)) - below(self.border(sub));
            self.row_mut(age)[sub] += share;
        }
    }
}

/// Sub-buckets on their way to another shape: (start, load).
struct Shape {
    subs: Vec<(u64, u64)>,
    end: u64,
}

impl Shape {
    fn width(&self, i: usize) -> u64 {
        self.subs.get(i + 1).map_or(self.end, |s| s.0) - self.subs[i].0
    }

    /// The pair of neighbours with the least load together, and that load.
    fn idlest(&self) -> Option<(usize, u64)> {
        let pairs = self.subs.windows(2).map(|w| w[0].1.saturating_add(w[1].1)).enumerate();
        pairs.min_by_key(|p| p.1)
    }

    /// The sub-bucket with the most load, of those with two keys or more.
    fn busiest(&self) -> Option<usize> {
        let divisible = (0..self.subs.len()).filter(|&i| self.width(i) > 1);
        divisible.max_by_key(|&i| (self.subs[i].1, self.width(i)))
    }

    /// Whether half of the busiest still has more load than the idlest pair.
    fn is_lopsided(&self) -> bool {
        let busiest = self.busiest().map_or(0, |i| self.subs[i].1);
        self.idlest().is_some_and(|(_, load)| busiest / 2 > load)
    }

    fn join(&mut self) -> bool {
        let Some((left, load)) = self.idlest() else { return false };
        self.subs.remove(left + 1);
        self.subs[left].1 = load;
        true
    }

    fn halve(&mut self) -> bool {
        let Some(busiest) = self.busiest() else { return false };
        let middle = self.subs[busiest].0 + self.width(busiest) / 2;
        let half = self.subs[busiest].1 / 2;
        self.subs[busiest].1 -= half;
        self.subs.insert(busiest + 1, (middle, half));
        true
    }
}

/// Load of a run of keys: from `start` to the start of the next run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubLoad {
    pub start: u64,
    /// In hundredths of an access of the current period, aged.
    pub load: u64,
}

/// The load of a partition, from its owner to the balancer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionLoad {
    /// First key past the partition.
    pub end: u64,
    /// Work that the partition has done, in any unit that all partitions share: requests served, or
    /// nanoseconds busy where requests differ. The thesis' request load.
    pub requests: u64,
    pub queue: QueueLength,
    /// In key order, at least one.
    pub subs: Vec<SubLoad>,
}

impl PartitionLoad {
    /// Access load of the whole partition: the upper level of the histogram.
    pub fn load(&self) -> u64 {
        self.subs.iter().map(|s| s.load).fold(0, u64::saturating_add)
    }
}

/// Mean length of a queue over a period, in thousandths of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct QueueLength(pub u64);

/// Measures one queue. A single look tells little, since a full queue may have been empty a moment
/// ago.
#[derive(Clone, Copy, Default, Debug)]
pub struct QueueMeter {
    sum: u64,
    looks: u64,
}

impl QueueMeter {
    /// Records the number of requests that wait.
    #[inline]
    pub fn look(&mut self, waiting: usize) {
        self.sum += waiting as u64;
        self.looks += 1;
    }

    /// The mean since the last call; starts over.
    pub fn take(&mut self) -> QueueLength {
        let QueueMeter { sum, looks } = std::mem::take(self);
        QueueLength(sum.saturating_mul(1000) / looks.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(histogram: &mut Histogram, key: u64, times: u64) {
        (0..times).for_each(|_| histogram.record(key));
    }

    #[test]
    fn loads_are_those_of_figure_4_5() {
        let mut histogram = Histogram::new(0..1, Grain { sub_buckets: 1, ages: 4 }).unwrap();
        let mut loads = Vec::new();
        for accesses in [10, 20, 30, 40, 50] {
            if !loads.is_empty() {
                histogram.age();
            }
            count(&mut histogram, 0, accesses);
            loads.push(histogram.load(0));
        }
        assert_eq!(loads, [1000, 2500, 4330, 6410, 8490]);
        assert_eq!(*histogram.counts, [50, 20, 30, 40], "the first age bucket was used again");
    }

    #[test]
    fn every_key_counts_in_the_sub_bucket_whose_borders_hold_it() {
        for (keys, sub_buckets) in
            [(7..7 + 1000, 7), (0..5, 32), (100..133, 32), (0..crate::MAX_DOMAIN, 1000)]
        {
            let histogram = Histogram::new(keys.clone(), Grain { sub_buckets, ages: 1 }).unwrap();
            let step = ((keys.end - keys.start) / 5000).max(1);
            let mut last = 0;
            for key in keys.clone().step_by(step as usize).chain([keys.end - 1]) {
                let sub = histogram.sub(key);
                assert!((histogram.border(sub)..histogram.border(sub + 1)).contains(&key), "{keys:?}: {key}");
                assert!(sub >= last);
                last = sub;
            }
            assert_eq!(last, histogram.starts.len() - 1, "{keys:?}");
            let ideal = (keys.end - keys.start) as f64 / histogram.starts.len() as f64;
            for sub in 0..histogram.starts.len() {
                let width = (histogram.border(sub + 1) - histogram.border(sub)) as f64;
                assert!((width - ideal).abs() <= 1.0 + ideal / 100.0, "{keys:?}: {width} for {ideal}");
            }
        }
    }

    #[test]
    fn keys_outside_count_at_the_nearer_end() {
        let mut histogram = Histogram::new(10..20, Grain { sub_buckets: 2, ages: 1 }).unwrap();
        [0, 9, 20, u64::MAX, u64::MAX].into_iter().for_each(|key| histogram.record(key));
        assert_eq!(*histogram.counts, [2, 3]);
    }

    #[test]
    fn what_is_old_enough_is_forgotten() {
        let mut histogram = Histogram::new(0..100, Grain { sub_buckets: 4, ages: 3 }).unwrap();
        count(&mut histogram, 30, 6);
        let mut loads = Vec::new();
        for _ in 0..4 {
            loads.push(histogram.snapshot(0, QueueLength(0)).load());
            histogram.age();
        }
        assert_eq!(loads, [600, 300, 198, 0]);
    }

    #[test]
    fn merging_adds_age_by_age_whatever_row_is_active() {
        let grain = Grain { sub_buckets: 2, ages: 2 };
        let (mut a, mut b) = (Histogram::new(0..10, grain).unwrap(), Histogram::new(0..10, grain).unwrap());
        count(&mut a, 1, 3);
        a.age();
        count(&mut a, 9, 2);
        count(&mut b, 9, 5);
        a.merge(b.clone()).unwrap();
        assert_eq!((a.row(0), a.row(1)), (&[0, 7][..], &[3, 0][..]));
        let other = Histogram::new(0..11, grain).unwrap();
        assert!(a.merge(other).is_err());
    }

    #[test]
    fn a_successor_inherits_counts_and_nothing_is_lost() {
        let grain = Grain { sub_buckets: 8, ages: 3 };
        let mut old = Histogram::new(0..1000, grain).unwrap();
        for period in 0..3 {
            old.age();
            (0..1000).for_each(|i| old.record((i * 7 + period) % 1000));
        }
        let pieces = [0..137, 137..138, 138..900, 900..1000];
        let mut sum = 0;
        for keys in pieces {
            let piece = Histogram::successor(keys.clone(), grain, [&old]).unwrap();
            let load = piece.snapshot(0, QueueLength(0)).load();
            assert!(load.abs_diff((keys.end - keys.start) * 183) <= 183 * 8, "{keys:?}: {load}");
            sum += (0..3).map(|age| piece.row(age).iter().sum::<u64>()).sum::<u64>();
        }
        assert_eq!(sum, 3000);
    }

    #[test]
    fn a_successor_looks_closer_where_the_load_is() {
        let grain = Grain { sub_buckets: 8, ages: 2 };
        let mut old = Histogram::new(0..8000, grain).unwrap();
        count(&mut old, 2500, 1000);
        let second = Histogram::successor(0..16_000, grain, [&old]).unwrap();
        assert_eq!(second.sub_buckets(), 8);
        let hot = second.sub(2500);
        assert!(second.border(hot + 1) - second.border(hot) <= 250, "{:?}", second.starts);
        let third = Histogram::successor(0..3, grain, [&second]).unwrap();
        assert_eq!(*third.starts, [0, 1, 2], "not more than keys");
    }

    #[test]
    fn a_queue_is_judged_by_its_mean() {
        let mut meter = QueueMeter::default();
        assert_eq!(meter.take(), QueueLength(0));
        [0, 10, 5].into_iter().for_each(|n| meter.look(n));
        assert_eq!((meter.take(), meter.take()), (QueueLength(5000), QueueLength(0)));
    }

    #[test]
    fn an_empty_range_has_no_histogram() {
        assert!(Histogram::new(5..5, Grain::default()).is_err());
        assert!(Histogram::new(0..u64::MAX, Grain::default()).is_err());
    }
}
