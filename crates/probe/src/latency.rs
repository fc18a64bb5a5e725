//! Latency histograms: three significant digits from 1 ns to 100 s.

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const HIGHEST_NS: u64 = 100_000_000_000;

/// A histogram of nanoseconds. Values above 100 s count as 100 s.
#[derive(Clone)]
pub struct Latency(Histogram<u64>);

impl std::fmt::Debug for Latency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} values, median {} ns, max {} ns", self.count(), self.quantile(0.5), self.max())
    }
}

impl Default for Latency {
    fn default() -> Self {
        Latency(Histogram::new_with_bounds(1, HIGHEST_NS, 3).expect("constant bounds are valid"))
    }
}

impl Latency {
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.clamp(1, HIGHEST_NS));
    }

    pub fn merge(&mut self, other: &Latency) {
        self.0.add(&other.0).expect("equal bounds");
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The value in ns below which a share `q` (0..=1) of the recorded values lies; 0 if there are
    /// none.
    pub fn quantile(&self, q: f64) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.value_at_quantile(q) }
    }

    pub fn max(&self) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.max() }
    }

    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// The recorded values, ascending: (value in ns, number of times).
    pub fn recorded(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value()))
    }
}

impl Serialize for Latency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.recorded().collect::<Vec<(u64, u64)>>().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Latency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut latency = Latency::default();
        for (value, count) in Vec::<(u64, u64)>::deserialize(deserializer)? {
            latency.0.saturating_record_n(value.clamp(1, HIGHEST_NS), count);
        }
        Ok(latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_and_sending_keep_the_quantiles() {
        let (mut a, mut b) = (Latency::default(), Latency::default());
        (1..=1000).for_each(|v| if v % 2 == 0 { a.record(v * 1000) } else { b.record(v * 1000) });
        a.merge(&b);
        let back: Latency = serde_json_free_round_trip(&a);
        for q in [0.5, 0.95, 0.99] {
            let want = q * 1_000_000.0;
            assert!((a.quantile(q) as f64 - want).abs() < want * 0.01, "{q}: {}", a.quantile(q));
            assert_eq!(a.quantile(q), back.quantile(q));
        }
        assert_eq!((a.count(), back.count()), (1000, 1000));
    }

    fn serde_json_free_round_trip(latency: &Latency) -> Latency {
        postcard::from_bytes(&postcard::to_stdvec(latency).unwrap()).unwrap()
    }
}
