//! Requests per second, constant or rising or falling in a straight line.

use crate::time::parse_time;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

/// From `from` to `to` requests per second within `over_ns`, and `to` from then on. Both ends are
/// above 0 and finite.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Rate {
    from: f64,
    to: f64,
    over_ns: u64,
}

/// The highest rate, per second: more than a machine answers. At a hundred times this rate a worker
/// would only count arrivals.
const HIGHEST: f64 = 1e7;

impl Rate {
    /// A constant rate.
    ///
    /// # Errors
    /// A description, for a number that is not above 0, or above ten million.
    pub fn constant(per_second: f64) -> Result<Rate, String> {
        Rate::ramp(per_second, per_second, Duration::ZERO)
    }

    /// A ramp from `from` to `to` requests per second within `over`.
    ///
    /// # Errors
    /// As for [`Rate::constant`].
    pub fn ramp(from: f64, to: f64, over: Duration) -> Result<Rate, String> {
        for rate in [from, to] {
            if !(rate > 0.0 && rate <= HIGHEST) {
                return Err(format!(
                    "{rate} requests a second: expected a number above 0 and up to {HIGHEST}"
                ));
            }
        }
        Ok(Rate { from, to, over_ns: over.as_nanos() as u64 })
    }

    /// The rate before the ramp begins.
    #[must_use]
    pub fn at_rest(&self) -> Rate {
        Rate { to: self.from, over_ns: 0, ..*self }
    }

    /// Whether it changes with time.
    pub fn is_ramp(&self) -> bool {
        self.over_ns > 0 && self.from != self.to
    }

    /// The given share of this rate.
    #[must_use]
    pub fn scaled(&self, share: f64) -> Rate {
        Rate { from: self.from * share, to: self.to * share, ..*self }
    }

    /// Requests per second, `seconds` after the ramp has begun.
    pub fn at(&self, seconds: f64) -> f64 {
        let over = self.over_ns as f64 / 1e9;
        if seconds >= over { self.to } else { self.from + (self.to - self.from) * seconds / over }
    }

    /// The length of time, from `seconds` after the begin, in which `requests` arrive on average.
    /// Solves `r d + a d^2 / 2 = requests` for `d` on the ramp, where `r` is the rate at `seconds`
    /// and `a` its slope.
    pub(crate) fn time_for(&self, seconds: f64, requests: f64) -> f64 {
        let left = self.over_ns as f64 / 1e9 - seconds;
        let now = self.at(seconds);
        if left <= 0.0 {
            return requests / now;
        }
        let on_ramp = (now + self.to) / 2.0 * left;
        if requests > on_ramp {
            return left + (requests - on_ramp) / self.to;
        }
        let slope = (self.to - now) / left;
        2.0 * requests / (now + (now * now + 2.0 * slope * requests).max(0.0).sqrt())
    }

    /// The number of requests that arrive on average between two moments after the begin.
    pub fn requests_between(&self, from: f64, until: f64) -> f64 {
        let over = (self.over_ns as f64 / 1e9).max(from);
        let ramp_end = until.min(over);
        (self.at(from) + self.at(ramp_end)) / 2.0 * (ramp_end - from) + self.to * (until - ramp_end)
    }
}

impl FromStr for Rate {
    type Err = String;

    /// `5000`, or `1000..50000/30s`.
    fn from_str(text: &str) -> Result<Rate, String> {
        let number = |part: &str| {
            part.trim().parse::<f64>().map_err(|_| {
                format!(
                    "{text:?} is no rate: expected requests a second such as 5000, or a ramp such as 1000..50000/30s"
                )
            })
        };
        let Some((from, rest)) = text.split_once("..") else { return Rate::constant(number(text)?) };
        let (to, time) = rest
            .split_once('/')
            .ok_or_else(|| format!("{text:?}: how fast? Expected a ramp such as 1000..50000/30s"))?;
        Rate::ramp(number(from)?, number(to)?, parse_time(time.trim())?)
    }
}

impl Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_ramp() {
            write!(f, "{}..{}/{}s", self.from, self.to, self.over_ns as f64 / 1e9)
        } else {
            write!(f, "{}", self.to)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_what_it_says() {
        assert_eq!("5000".parse::<Rate>().unwrap(), Rate::constant(5000.0).unwrap());
        let ramp: Rate = "1000..50000/30s".parse().unwrap();
        assert_eq!(
            (ramp.at(0.0), ramp.at(15.0), ramp.at(30.0), ramp.at(99.0)),
            (1000.0, 25_500.0, 50_000.0, 50_000.0)
        );
        for rate in ["5000", "1000..50000/30s", "0.5", "90..10/1.5s"] {
            assert_eq!(rate.parse::<Rate>().unwrap().to_string(), rate);
        }
    }

    #[test]
    fn rates_that_are_none_are_refused_with_what_was_expected() {
        for bad in ["-1", "0", "NaN", "inf", "1e12", "0..5/1s", "5..-1/1s"] {
            let why = bad.parse::<Rate>().unwrap_err();
            assert!(why.contains("above 0"), "{bad}: {why}");
        }
        for bad in ["", "fast", "1..2", "1..2/", "1..2/5 parsecs", "1../3s"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
        assert!("1..2".parse::<Rate>().unwrap_err().contains("/30s"));
    }

    #[test]
    fn time_and_count_are_each_others_inverse() {
        for rate in ["100", "10..1000/4s", "1000..10/4s"] {
            let rate: Rate = rate.parse().unwrap();
            for from in [0.0, 1.5, 3.9, 4.0, 9.0] {
                for requests in [0.5, 30.0, 700.0, 5000.0] {
                    let time = rate.time_for(from, requests);
                    let back = rate.requests_between(from, from + time);
                    assert!((back - requests).abs() < 1e-6 * requests, "{rate} {from} {requests}: {back}");
                }
            }
        }
    }
}
