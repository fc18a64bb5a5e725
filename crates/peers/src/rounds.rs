//! Rounds in the order A B, B A: every contestant has a turn in each round, so that disturbances of
//! the machine affect all of them.

use crate::contestant::{Contestant, Rate, Work};
use crate::fault::PeerFault;

/// The results of one contestant, by round.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    pub name: String,
    pub values: Vec<f64>,
}

impl Series {
    pub fn new(name: impl Into<String>) -> Series {
        Series { name: name.into(), values: Vec::new() }
    }

    fn sorted(&self) -> Vec<f64> {
        let mut values = self.values.clone();
        values.sort_by(f64::total_cmp);
        values
    }

    /// The middle value; for an even number of values the mean of the two middle ones; 0 without
    /// values.
    pub fn median(&self) -> f64 {
        let v = self.sorted();
        match (v.len(), v.len() / 2) {
            (0, _) => 0.0,
            (n, middle) if n % 2 == 1 => v[middle],
            (_, middle) => (v[middle - 1] + v[middle]) / 2.0,
        }
    }

    pub fn min(&self) -> f64 {
        self.sorted().first().copied().unwrap_or(0.0)
    }

    pub fn max(&self) -> f64 {
        self.sorted().last().copied().unwrap_or(0.0)
    }
}

/// The three series of one contestant.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    pub tps: Series,
    pub per_cpu_second: Series,
    pub retries: Series,
}

impl Line {
    fn new(name: &str) -> Line {
        Line { tps: Series::new(name), per_cpu_second: Series::new(name), retries: Series::new(name) }
    }

    fn push(&mut self, rate: Rate) {
        self.tps.values.push(rate.tps);
        self.per_cpu_second.values.push(rate.per_cpu_second);
        self.retries.values.push(rate.retries);
    }
}

/// Runs `rounds` rounds of `work`. Each round has its own requests, the same for all contestants.
///
/// # Errors
/// The error of the first contestant that fails.
pub fn alternate(
    contestants: &mut [Box<dyn Contestant>],
    rounds: u32,
    work: &Work,
    mut progress: impl FnMut(&str, Rate),
) -> Result<Vec<Line>, PeerFault> {
    let mut lines = lines_of(contestants);
    for round in 0..rounds {
        one_round(contestants, &mut lines, round, work, &mut progress)?;
    }
    Ok(lines)
}

/// An empty line for each contestant.
pub fn lines_of(contestants: &[Box<dyn Contestant>]) -> Vec<Line> {
    contestants.iter().map(|c| Line::new(c.name())).collect()
}

/// Runs round number `round` of `work` and adds its results to `lines`. Every other round has the
/// reverse order: if one contestant leaves a disturbance behind (a disk that is still writing), it
/// does not always affect the same next one.
///
/// # Errors
/// As [`alternate`].
pub fn one_round(
    contestants: &mut [Box<dyn Contestant>],
    lines: &mut [Line],
    round: u32,
    work: &Work,
    progress: &mut impl FnMut(&str, Rate),
) -> Result<(), PeerFault> {
    let work = Work { seed: work.seed + u64::from(round), ..*work };
    let mut turn = |(contestant, line): (&mut Box<dyn Contestant>, &mut Line)| {
        let rate = contestant.run(&work)?;
        progress(contestant.name(), rate);
        line.push(rate);
        Ok(())
    };
    let mut all = contestants.iter_mut().zip(lines);
    if round.is_multiple_of(2) { all.try_for_each(turn) } else { all.rev().try_for_each(&mut turn) }
}

/// Column heads of [`cells`].
pub const HEADS: &str = "median | min | max";

/// Median, minimum and maximum as cells of a Markdown table.
pub fn cells(series: &Series, show: impl Fn(f64) -> String) -> String {
    format!("{} | {} | {}", show(series.median()), show(series.min()), show(series.max()))
}

/// A whole number with separated thousands.
pub fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 && digit.is_ascii_digit() && !out.ends_with('-') {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spread() {
        let series = |values: &[f64]| Series { name: "x".into(), values: values.to_vec() };
        assert_eq!(series(&[3.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(series(&[4.0, 1.0, 2.0, 3.0]).median(), 2.5);
        assert_eq!(cells(&series(&[1234.4, 999.0, 1e6]), thousands), "1,234 | 999 | 1,000,000");
        assert_eq!(series(&[]).median(), 0.0);
        assert_eq!((thousands(-123456.0), thousands(-12.0)), ("-123,456".into(), "-12".into()));
    }
}
