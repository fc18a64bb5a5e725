//! A hot range: a given share of the requests goes to a given share of the keys, and the rest goes
//! evenly to the other keys.
//!
//! The range is contiguous, so it lies in few partitions: the load that the balancing experiments
//! move (PLP thesis, sections 4.2 and 4.5: "50 % of requests to 30 % of keys" loads the partitions
//! there 1.67 times their share).

use crate::random::Random;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display};
use std::ops::Range;
use std::str::FromStr;

/// All values are in per cent; the range lies within 0 to 100.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Hot {
    requests: f64,
    keys: f64,
    /// The start of the range.
    from: f64,
}

impl Hot {
    /// # Errors
    /// Shares outside 0 to 100; a range without keys or past the end; with the expected values.
    pub fn new(requests: f64, keys: f64, from: f64) -> Result<Hot, String> {
        if !(0.0..=100.0).contains(&requests) {
            return Err(format!("{requests} % of requests: expected 0 to 100"));
        }
        if !(keys > 0.0 && keys <= 100.0) {
            return Err(format!("{keys} % of keys: expected more than 0 and up to 100"));
        }
        if !(from >= 0.0 && from + keys <= 100.0) {
            return Err(format!("a range of {keys} % from {from} % on: expected one that ends within 100 %"));
        }
        Ok(Hot { requests, keys, from })
    }

    /// The hot part of the keys `0..keys`: at least one key.
    pub fn range(&self, keys: u64) -> Range<u64> {
        let edge = |per_cent: f64| ((keys as f64 * per_cent / 100.0).round() as u64).min(keys);
        let start = edge(self.from).min(keys - 1);
        start..edge(self.from + self.keys).max(start + 1)
    }

    /// Draws one of the keys `0..keys`.
    pub fn draw(&self, random: &mut Random, keys: u64) -> u64 {
        let hot = self.range(keys);
        let others = keys - (hot.end - hot.start);
        if others == 0 || random.chance(self.requests) {
            return random.within(hot);
        }
        let key = random.within(0..others);
        if key < hot.start { key } else { key + (hot.end - hot.start) }
    }
}

impl FromStr for Hot {
    type Err = String;

    /// `50/30`, `50/30@40`, or `50% of requests to 30% of keys from 40%`.
    fn from_str(text: &str) -> Result<Hot, String> {
        let expected = || {
            format!(
                "{text:?}: expected a hot range such as 50/30 or 50/30@40 (50 % of requests to 30 % of keys, from 40 % on)"
            )
        };
        let words = text.replace('%', " ").replace(" of requests to ", "/").replace(" of keys", "");
        let words = words.replace("from", "@").replace(char::is_whitespace, "");
        let (requests, rest) = words.split_once('/').ok_or_else(expected)?;
        let (keys, from) = rest.split_once('@').unwrap_or((rest, "0"));
        let number = |part: &str| part.parse::<f64>().map_err(|_| expected());
        Hot::new(number(requests)?, number(keys)?, number(from)?)
    }
}

impl Display for Hot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.requests, self.keys)?;
        if self.from > 0.0 { write!(f, "@{}", self.from) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hot_and_other_keys_get_their_shares_evenly() {
        const DRAWS: usize = 200_000;
        let mut random = Random::new(3);
        for (text, keys) in [("50/30", 1000), ("50/30@40", 1000), ("90/10@90", 50), ("20/100", 10)] {
            let hot: Hot = text.parse().unwrap();
            let mut counts = vec![0.0; keys as usize];
            (0..DRAWS).for_each(|_| counts[hot.draw(&mut random, keys) as usize] += 1.0);
            let range = hot.range(keys);
            let width = (range.end - range.start) as usize;
            let share = if width as u64 == keys { 1.0 } else { hot.requests / 100.0 };
            for (key, count) in counts.iter().enumerate() {
                let p = if range.contains(&(key as u64)) {
                    share / width as f64
                } else {
                    (1.0 - share) / (counts.len() - width) as f64
                };
                let mean = p * DRAWS as f64;
                assert!(
                    (count - mean).abs() < 6.0 * mean.sqrt(),
                    "{text} key {key}: {count}, expected {mean}"
                );
            }
        }
    }

    #[test]
    fn people_may_write_it_out_and_nonsense_is_refused() {
        let long: Hot = "50% of requests to 30 % of keys from 40%".parse().unwrap();
        assert_eq!((long, long.to_string()), ("50/30@40".parse().unwrap(), "50/30@40".into()));
        assert_eq!("50/30@0".parse::<Hot>().unwrap().to_string(), "50/30");
        for bad in
            ["", "50", "50/", "a/b", "101/5", "-1/5", "5/0", "5/-1", "5/101", "50/30@71", "NaN/5", "5/NaN"]
        {
            assert!(bad.parse::<Hot>().is_err(), "{bad}");
        }
        assert_eq!("1/1".parse::<Hot>().unwrap().range(3), 0..1);
        assert_eq!("1/1@99".parse::<Hot>().unwrap().range(1), 0..1);
    }
}
