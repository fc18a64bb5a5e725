//! People at terminals: keying a request in, and looking at the answer (TPC-C clauses 5.2.5.2 to
//! 5.2.5.7).

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display};
use std::str::FromStr;

/// A factor on the workload's pauses. 0 means no pauses.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Think(f64);

impl Think {
    pub const NONE: Think = Think(0.0);
    pub const STANDARD: Think = Think(1.0);

    pub fn factor(self) -> f64 {
        self.0
    }
}

impl FromStr for Think {
    type Err = String;

    fn from_str(text: &str) -> Result<Think, String> {
        let factor = || {
            let factor = text.strip_prefix('x')?.parse::<f64>().ok()?;
            (factor > 0.0 && factor <= 1000.0).then_some(factor)
        };
        match text {
            "standard" => Ok(Think::STANDARD),
            "none" => Ok(Think::NONE),
            _ => factor().map(Think).ok_or_else(|| {
                format!("{text:?}: expected standard, none, or a multiple of standard such as x0.1")
            }),
        }
    }
}

impl Display for Think {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0.0 => f.write_str("none"),
            1.0 => f.write_str("standard"),
            factor => write!(f, "x{factor}"),
        }
    }
}

/// Draws the pauses of any number of people.
#[derive(Clone, Debug)]
pub struct Thinker {
    think: Think,
    random: Rng,
}

/// Longer think times are cut to this many means.
const LONGEST: f64 = 10.0;
/// Three rounds of TPC-C's pauses, in seconds.
const LEAD_S: f64 = 60.0;

impl Thinker {
    pub fn new(think: Think, seed: u64) -> Thinker {
        Thinker { think, random: Rng::with_seed(seed) }
    }

    /// The pause between an answer and the next request: a think time with mean `think_s`, and the
    /// keying time `keying_s`, which is constant.
    pub fn pause_ns(&mut self, think_s: f64, keying_s: f64) -> u64 {
        let drawn = -(1.0 - self.random.f64()).ln();
        let seconds = think_s * drawn.min(LONGEST) + keying_s;
        (seconds * self.think.0 * 1e9) as u64
    }

    /// How long before the load's begin the people began. It is long enough that the time of their
    /// begin has no effect left, so that requests arrive at the long-run rate from the first moment
    /// on.
    pub fn lead_ns(&self) -> u64 {
        (LEAD_S * self.think.0 * 1e9) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thoughts_are_exponential_and_cut_at_ten_means() {
        const DRAWS: usize = 200_000;
        let mut thinker = Thinker::new(Think::STANDARD, 5);
        let thoughts: Vec<f64> =
            (0..DRAWS).map(|_| thinker.pause_ns(12.0, 18.0) as f64 / 1e9 - 18.0).collect();
        let mean = thoughts.iter().sum::<f64>() / DRAWS as f64;
        assert!((mean - 12.0).abs() < 5.0 * 12.0 / (DRAWS as f64).sqrt(), "{mean}");
        assert!(thoughts.iter().all(|t| (-1e-6..=120.0 + 1e-6).contains(t)));
        for k in [0.5, 1.0, 3.0f64] {
            let found = thoughts.iter().filter(|t| **t > 12.0 * k).count() as f64 / DRAWS as f64;
            assert!((found - (-k).exp()).abs() < 0.006, "above {k} means: {found}");
        }
    }

    #[test]
    fn factors_scale_everything_and_wrong_words_are_refused() {
        let mean = |think: &str| {
            let mut thinker = Thinker::new(think.parse().unwrap(), 9);
            (0..20_000).map(|_| thinker.pause_ns(5.0, 2.0) as f64).sum::<f64>() / 20_000.0 / 1e9
        };
        assert!((mean("standard") / mean("x0.1") - 10.0).abs() < 1e-6);
        assert_eq!(mean("none"), 0.0);
        for bad in ["", "x", "x0", "x-1", "xNaN", "fast", "0.1"] {
            assert!(bad.parse::<Think>().is_err(), "{bad}");
        }
        for good in ["standard", "none", "x0.1"] {
            assert_eq!(good.parse::<Think>().unwrap().to_string(), good);
        }
    }
}
