//! The arrivals of an open loop: requests arrive at their own times, whether or not the one before
//! has been answered.
//!
//! A stream counts in *requests*, not in time. The distance to the next arrival is drawn in units
//! of the mean number of requests (exponential for Poisson, 1 for uniform), and the rate's curve
//! turns that into time. So a ramp, or a new rate in the middle of a gap, needs no special case:
//! the rest of the gap is kept in requests. (The time-change theorem for Poisson processes; Lewis
//! and Shedler 1979 have its history.)

use crate::rate::Rate;
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Arrivals {
    /// Independent of each other, like the requests of very many people.
    Poisson,
    /// Evenly spaced.
    Uniform,
}

impl Arrivals {
    pub fn name(self) -> &'static str {
        match self {
            Arrivals::Poisson => "poisson",
            Arrivals::Uniform => "uniform",
        }
    }
}

impl FromStr for Arrivals {
    type Err = String;

    fn from_str(text: &str) -> Result<Arrivals, String> {
        match text {
            "poisson" => Ok(Arrivals::Poisson),
            "uniform" => Ok(Arrivals::Uniform),
            _ => Err(format!("{text:?}: expected poisson or uniform")),
        }
    }
}

/// The moments at which one worker's requests are due, in ascending order.
#[derive(Clone, Debug)]
pub struct ArrivalStream {
    arrivals: Arrivals,
    random: Rng,
    rate: Rate,
    /// The start of the rate's curve.
    began_ns: u64,
    /// The next arrival, in seconds since `began_ns`. Exact to the nanosecond for a hundred days.
    next_s: f64,
}

impl ArrivalStream {
    /// A stream that begins at `now_ns`. `phase`, 0..1, is the position in its gap at which a
    /// uniform stream begins: streams that share a rate take different ones, so that their arrivals
    /// interleave evenly.
    pub fn new(arrivals: Arrivals, rate: Rate, seed: u64, phase: f64, now_ns: u64) -> ArrivalStream {
        let mut stream =
            ArrivalStream { arrivals, random: Rng::with_seed(seed), rate, began_ns: now_ns, next_s: 0.0 };
        let gap = match arrivals {
            Arrivals::Poisson => stream.gap(),
            Arrivals::Uniform => phase,
        };
        stream.next_s = rate.time_for(0.0, gap);
        stream
    }

    /// The distance to the next arrival, in requests.
    fn gap(&mut self) -> f64 {
        match self.arrivals {
            Arrivals::Poisson => -(1.0 - self.random.f64()).ln(),
            Arrivals::Uniform => 1.0,
        }
    }

    /// The moment at which the next request is due.
    #[inline]
    pub fn next_ns(&self) -> u64 {
        self.began_ns.saturating_add((self.next_s * 1e9) as u64)
    }

    /// Takes the next arrival, and returns the moment at which it was due.
    #[inline]
    pub fn take(&mut self) -> u64 {
        let due = self.next_ns();
        let gap = self.gap();
        self.next_s += self.rate.time_for(self.next_s, gap);
        due
    }

    /// Changes the rate from `now_ns` on; its ramp begins at that moment. Arrivals that are due
    /// already stay due.
    pub fn change(&mut self, rate: Rate, now_ns: u64) {
        let now_s = now_ns.saturating_sub(self.began_ns) as f64 / 1e9;
        let late = self.next_s < now_s;
        let left = if late { 0.0 } else { self.rate.requests_between(now_s, self.next_s) };
        (self.rate, self.began_ns) = (rate, now_ns);
        self.next_s = rate.time_for(0.0, left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(arrivals: Arrivals, rate: &str) -> ArrivalStream {
        ArrivalStream::new(arrivals, rate.parse().unwrap(), 42, 0.0, 1_000)
    }

    /// Compares the gaps of a Poisson stream with the exponential law: mean, variance, and the
    /// share above multiples of the mean (each within five standard deviations of 200,000 draws).
    #[test]
    fn gaps_of_a_poisson_stream_are_exponential() {
        const DRAWS: usize = 200_000;
        let mut arrivals = stream(Arrivals::Poisson, "1000");
        let times: Vec<f64> = (0..=DRAWS).map(|_| arrivals.take() as f64 / 1e6).collect();
        let gaps: Vec<f64> = times.windows(2).map(|w| w[1] - w[0]).collect();
        let mean = gaps.iter().sum::<f64>() / DRAWS as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / DRAWS as f64;
        assert!((mean - 1.0).abs() < 5.0 / (DRAWS as f64).sqrt(), "mean {mean} ms");
        assert!((variance - 1.0).abs() < 5.0 * (8.0 / DRAWS as f64).sqrt(), "variance {variance}");
        for k in [0.1, 0.5, 1.0, 2.0, 4.0f64] {
            let expected = (-k).exp();
            let found = gaps.iter().filter(|g| **g > k).count() as f64 / DRAWS as f64;
            let five = 5.0 * (expected * (1.0 - expected) / DRAWS as f64).sqrt();
            assert!((found - expected).abs() < five, "above {k}: expected {expected}, found {found}");
        }
        // The gaps have no memory: neighbouring ones do not correlate.
        let together = gaps.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum::<f64>() / DRAWS as f64;
        assert!(together.abs() < 5.0 / (DRAWS as f64).sqrt(), "covariance {together}");
    }

    #[test]
    fn uniform_streams_of_one_rate_interleave_evenly() {
        let rate: Rate = Rate::constant(1000.0 / 3.0).unwrap();
        let streams = (0..3).map(|i| ArrivalStream::new(Arrivals::Uniform, rate, 1, f64::from(i) / 3.0, 0));
        let mut all: Vec<u64> = streams.flat_map(|mut s| (0..50_000).map(move |_| s.take())).collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|w| (999_990..=1_000_010).contains(&(w[1] - w[0]))));
    }

    #[test]
    fn a_ramp_brings_what_its_curve_says() {
        for arrivals in [Arrivals::Poisson, Arrivals::Uniform] {
            let mut stream = stream(arrivals, "10000..50000/4s");
            let mut counts = [0u32; 6];
            while stream.next_ns() < 6_000_001_000 {
                counts[((stream.take() - 1_000) / 1_000_000_000) as usize] += 1;
            }
            for (found, expected) in counts.iter().zip([15e3, 25e3, 35e3, 45e3, 50e3, 50e3f64]) {
                assert!((f64::from(*found) - expected).abs() < 5.0 * expected.sqrt(), "{counts:?}");
            }
        }
    }

    #[test]
    fn a_new_rate_keeps_what_is_left_of_the_gap_and_what_is_late() {
        let mut stream = stream(Arrivals::Uniform, "1");
        assert_eq!((stream.take(), stream.next_ns()), (1_000, 1_000_001_000));
        stream.change(Rate::constant(10.0).unwrap(), 500_001_000);
        assert_eq!(stream.next_ns(), 550_001_000);
        stream.change(Rate::constant(1.0).unwrap(), 2_000_000_000);
        assert_eq!((stream.take(), stream.take()), (2_000_000_000, 3_000_000_000));
    }
}
