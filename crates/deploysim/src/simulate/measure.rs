//! Counts and times of the measured window.

use crate::outcome::{Component, Latencies, Messages};

/// Buckets per doubling: a bucket is 1.6 % wide at most.
const FINE: usize = 64;
const BUCKETS: usize = 40 * FINE;

/// Latencies in buckets of equal ratio.
pub(super) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: f64,
    max: f64,
}

impl Histogram {
    pub fn new() -> Histogram {
        Histogram { counts: vec![0; BUCKETS], total: 0, sum: 0.0, max: 0.0 }
    }

    /// The position follows from the exponent and the top bits of the mantissa.
    #[inline]
    fn bucket(ns: f64) -> usize {
        let bits = ns.max(1.0).to_bits();
        let exponent = (bits >> 52) as usize - 1023;
        let top = (bits >> (52 - FINE.trailing_zeros())) as usize & (FINE - 1);
        (exponent * FINE + top).min(BUCKETS - 1)
    }

    #[inline]
    pub fn add(&mut self, ns: f64) {
        self.counts[Histogram::bucket(ns)] += 1;
        self.total += 1;
        self.sum += ns;
        self.max = self.max.max(ns);
    }

    /// The middle of the bucket in which the quantile lies.
    fn quantile(&self, share: f64) -> f64 {
        let rank = (share * self.total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                let low = 2.0_f64.powi((at / FINE) as i32) * (1.0 + (at % FINE) as f64 / FINE as f64);
                return (low * (1.0 + 0.5 / FINE as f64)).min(self.max);
            }
        }
        self.max
    }

    pub fn latencies(&self) -> Latencies {
        if self.total == 0 {
            return Latencies::default();
        }
        Latencies {
            mean_ns: self.sum / self.total as f64,
            p50_ns: self.quantile(0.5),
            p90_ns: self.quantile(0.9),
            p99_ns: self.quantile(0.99),
            max_ns: self.max,
        }
    }
}

/// The kinds of messages between instances.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Steps,
    Reply,
    Prepare,
    Vote,
    Release,
    Decision,
    Ack,
    Forwarded,
}

/// All counters; [`Counts::begin_window`] clears them.
pub(super) struct Counts {
    pub committed: u64,
    pub distributed: u64,
    pub participants: u64,
    pub aborts: u64,
    pub latency: Histogram,
    pub components: [f64; 7],
    pub sent: Messages,
    /// Messages that the loop has taken from links, of all kinds.
    pub received: u64,
    pub lock_waits: u64,
    pub lock_wait_ns: f64,
    /// Requests under way, the sum of their begins (at the earliest the window's), and the time
    /// that ended ones were under way in the window.
    in_flight: u64,
    begun: f64,
    ended: f64,
    window_start: f64,
}

impl Counts {
    pub fn new() -> Counts {
        Counts {
            committed: 0,
            distributed: 0,
            participants: 0,
            aborts: 0,
            latency: Histogram::new(),
            components: [0.0; 7],
            sent: Messages::default(),
            received: 0,
            lock_waits: 0,
            lock_wait_ns: 0.0,
            in_flight: 0,
            begun: 0.0,
            ended: 0.0,
            window_start: 0.0,
        }
    }

    pub fn begin_window(&mut self, now: f64) {
        let in_flight = self.in_flight;
        *self = Counts { in_flight, begun: in_flight as f64 * now, window_start: now, ..Counts::new() };
    }

    #[inline]
    pub fn spend(&mut self, component: Component, ns: f64) {
        self.components[component as usize] += ns;
    }

    /// A request has come at `born`.
    pub fn begin(&mut self, born: f64) {
        self.in_flight += 1;
        self.begun += born.max(self.window_start);
    }

    /// A request of `born` has its answer.
    pub fn end(&mut self, born: f64, now: f64) {
        self.latency.add(now - born);
        self.in_flight -= 1;
        self.begun -= born.max(self.window_start);
        self.ended += now - born.max(self.window_start);
    }

    /// Requests under way.
    pub fn under_way(&self) -> u64 {
        self.in_flight
    }

    /// Requests under way on average, in a window that ends at `now`.
    pub fn mean_in_flight(&self, now: f64) -> f64 {
        let still = self.in_flight as f64 * now - self.begun;
        (self.ended + still) / (now - self.window_start).max(1.0)
    }

    pub fn count(&mut self, kind: Kind) {
        let sent = &mut self.sent;
        let counter = match kind {
            Kind::Steps => &mut sent.steps,
            Kind::Reply => &mut sent.replies,
            Kind::Prepare => &mut sent.prepares,
            Kind::Vote => &mut sent.votes,
            Kind::Release => &mut sent.releases,
            Kind::Decision => &mut sent.decisions,
            Kind::Ack => &mut sent.acks,
            Kind::Forwarded => &mut sent.forwarded,
        };
        *counter += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_bucket() {
        let mut histogram = Histogram::new();
        (1..=10_000).for_each(|ns| histogram.add(f64::from(ns)));
        let latencies = histogram.latencies();
        for (got, want) in
            [(latencies.p50_ns, 5_000.0), (latencies.p90_ns, 9_000.0), (latencies.p99_ns, 9_900.0)]
        {
            assert!((got / want - 1.0_f64).abs() < 0.016, "{got} for {want}");
        }
        assert!((latencies.mean_ns - 5_000.5).abs() < 1e-6 && latencies.max_ns == 10_000.0);
    }
}
