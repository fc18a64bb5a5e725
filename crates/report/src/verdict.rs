//! Which of two rows is better: the one rule for winners in tables, reports, the tour and
//! `atoll compare`.
//!
//! ```text
//!   a   |---------x----|                  least, reported and greatest repetition
//!   b                      |-----x---|
//!                       ^^^               the repetitions of a and b do not overlap,
//!                 <------------->         and the reported values differ by more than the margin
//! ```
//!
//! The margin is the share of the machine that other programs took while the two rows were measured
//! (`noise` of both rows, added up), and at least [`LEAST`]: windows of one run share the placement
//! of threads and memory, so they lie closer together than two runs would. The spread of a row with
//! a single repetition is not known; it is taken to be [`UNKNOWN`] in both directions.

use driver::{LatencyUs, RepetitionRow, ResultRow};

/// A difference smaller than this share does not count, however close together the repetitions are.
pub const LEAST: f64 = 0.02;
/// The assumed deviation of a value without repetitions, in both directions, as a share of it.
pub const UNKNOWN: f64 = 0.10;

/// The measure that rows are compared by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// Transactions per second: more is better.
    Tps,
    /// A quantile of latency: less is better.
    P50,
    P95,
    P99,
    P999,
}

/// The relation of one row to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowVerdict {
    Better,
    Worse,
    NoDifference,
}

/// The repetitions of a row by one measure. Invariant: `low <= value <= high`, all finite and not
/// negative.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    pub low: f64,
    /// The value that the row reports.
    pub value: f64,
    pub high: f64,
    /// Whether the ends were measured; otherwise they are [`UNKNOWN`] away.
    pub measured: bool,
}

impl Measure {
    pub const ALL: [Measure; 5] = [Measure::Tps, Measure::P50, Measure::P95, Measure::P99, Measure::P999];

    pub fn name(self) -> &'static str {
        match self {
            Measure::Tps => "tps",
            Measure::P50 => "p50",
            Measure::P95 => "p95",
            Measure::P99 => "p99",
            Measure::P999 => "p999",
        }
    }

    fn of_latency(self, latency: Option<&LatencyUs>) -> Option<f64> {
        let latency = latency?;
        match self {
            Measure::Tps => None,
            Measure::P50 => Some(latency.p50),
            Measure::P95 => latency.p95,
            Measure::P99 => Some(latency.p99),
            Measure::P999 => latency.p999,
        }
    }

    fn of_repetition(self, of: &RepetitionRow) -> Option<f64> {
        if self == Measure::Tps { Some(of.tps) } else { self.of_latency(of.latency_us.as_ref()) }
    }

    fn of_row(self, row: &ResultRow) -> Option<f64> {
        if self == Measure::Tps { Some(row.tps) } else { self.of_latency(row.latency_us.as_ref()) }
    }

    /// The value and repetitions of a row; `None` if it does not have the measure.
    pub fn spread(self, row: &ResultRow) -> Option<Spread> {
        let is_number = |v: &f64| v.is_finite() && *v >= 0.0;
        let value = self.of_row(row).filter(is_number)?;
        let mut all: Vec<f64> = row.repetitions.iter().filter_map(|r| self.of_repetition(r)).collect();
        if all.is_empty() && self == Measure::Tps && row.tps_min < row.tps_max {
            all = vec![row.tps_min, row.tps_max]; // A row of an earlier version.
        }
        all.retain(is_number);
        let measured = all.len() > 1;
        if !measured {
            let (low, high) = (value * (1.0 - UNKNOWN), value * (1.0 + UNKNOWN));
            return Some(Spread { low, value, high, measured });
        }
        let low = all.iter().copied().fold(value, f64::min);
        let high = all.iter().copied().fold(value, f64::max);
        Some(Spread { low, value, high, measured })
    }

    /// `a` divided by `b` so that a value above 1 means that `a` is better; `None` if a row does
    /// not have the measure, or its value is 0.
    pub fn advantage(self, a: &ResultRow, b: &ResultRow) -> Option<f64> {
        let (a, b) = (self.of_row(a)?, self.of_row(b)?);
        let ratio = if self == Measure::Tps { a / b } else { b / a };
        (ratio.is_finite() && ratio > 0.0).then_some(ratio)
    }

    /// The relation of `a` to `b` by the rule above; `None` if a row does not have the measure.
    pub fn judge(self, a: &ResultRow, b: &ResultRow) -> Option<RowVerdict> {
        let (this, that) = (self.spread(a)?, self.spread(b)?);
        let (less, more) = if this.value < that.value { (&this, &that) } else { (&that, &this) };
        let margin = (a.noise.max(0.0) + b.noise.max(0.0)).max(LEAST);
        if less.high >= more.low || more.value <= less.value * (1.0 + margin) {
            return Some(RowVerdict::NoDifference);
        }
        let is_more = this.value > that.value;
        Some(if is_more == (self == Measure::Tps) { RowVerdict::Better } else { RowVerdict::Worse })
    }
}

impl Spread {
    /// The distance from the least to the greatest repetition, as a share of the reported value.
    pub fn share(&self) -> f64 {
        (self.high - self.low) / self.value.max(1e-9)
    }
}

/// Among rows of one request: the row with the most transactions per second, the rows that do not
/// differ from it, and the others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    pub first: usize,
    /// No different from `first`; the fastest comes first.
    pub ties: Vec<usize>,
    /// Slower than `first` beyond spread and noise; the fastest comes first.
    pub beaten: Vec<usize>,
}

impl Standing {
    /// The standing of the rows at these places; `None` if there are none.
    pub fn of<'a>(rows: impl Fn(usize) -> &'a ResultRow, places: &[usize]) -> Option<Standing> {
        let mut order = places.to_vec();
        order.sort_by(|a, b| rows(*b).tps.total_cmp(&rows(*a).tps));
        let (first, others) = order.split_first()?;
        let is_beaten =
            |other: &usize| Measure::Tps.judge(rows(*first), rows(*other)) == Some(RowVerdict::Better);
        let (beaten, ties) = others.iter().partition(|other| is_beaten(other));
        Some(Standing { first: *first, ties, beaten })
    }

    /// The winner, if a row is better than all others.
    pub fn winner(&self) -> Option<usize> {
        (self.ties.is_empty() && !self.beaten.is_empty()).then_some(self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tps: &[f64], noise: f64) -> ResultRow {
        let repetitions: Vec<RepetitionRow> = tps
            .iter()
            .map(|tps| RepetitionRow {
                tps: *tps,
                noise,
                latency_us: Some(LatencyUs { p50: 1e6 / tps, p99: 1e7 / tps, ..LatencyUs::default() }),
            })
            .collect();
        let mut order: Vec<usize> = (0..tps.len()).collect();
        order.sort_by(|a, b| tps[*a].total_cmp(&tps[*b]));
        let median = repetitions[order[(tps.len() - 1) / 2]];
        ResultRow {
            tps: median.tps,
            tps_min: tps[order[0]],
            tps_max: tps[order[tps.len() - 1]],
            latency_us: median.latency_us,
            repetitions,
            noise,
            ..ResultRow::default()
        }
    }

    fn judge(a: &ResultRow, b: &ResultRow) -> RowVerdict {
        let verdict = Measure::Tps.judge(a, b).unwrap();
        let turned = Measure::Tps.judge(b, a).unwrap();
        let opposite = match verdict {
            RowVerdict::Better => RowVerdict::Worse,
            RowVerdict::Worse => RowVerdict::Better,
            RowVerdict::NoDifference => RowVerdict::NoDifference,
        };
        assert_eq!(turned, opposite, "the rule has no side");
        for latency in [Measure::P50, Measure::P99] {
            assert_eq!(latency.judge(a, b), Some(verdict), "the shorter latency is the better one");
        }
        verdict
    }

    #[test]
    fn a_winner_is_beyond_the_spread_of_both() {
        let slow = row(&[100.0, 102.0, 98.0], 0.0);
        assert_eq!(judge(&row(&[120.0, 122.0, 118.0], 0.0), &slow), RowVerdict::Better);
        // 1.94 times as fast with a spread of 149 %: one repetition was slower than all repetitions
        // of the other row.
        assert_eq!(judge(&row(&[194.0, 369.0, 80.0], 0.0), &slow), RowVerdict::NoDifference);
        // 1.02 times as fast with a spread of 7 %.
        assert_eq!(judge(&row(&[102.0, 106.0, 99.0], 0.0), &slow), RowVerdict::NoDifference);
        assert_eq!(judge(&slow, &slow), RowVerdict::NoDifference);
    }

    #[test]
    fn a_winner_is_beyond_the_noise_and_the_least_difference() {
        let slow = row(&[100.0, 100.1, 99.9], 0.0);
        assert_eq!(judge(&row(&[101.5, 101.6, 101.4], 0.0), &slow), RowVerdict::NoDifference);
        assert_eq!(judge(&row(&[103.0, 103.1, 102.9], 0.0), &slow), RowVerdict::Better);
        assert_eq!(judge(&row(&[103.0, 103.1, 102.9], 0.04), &slow), RowVerdict::NoDifference);
        assert_eq!(
            judge(&row(&[130.0, 130.1, 129.9], 0.04), &row(&[100.0, 100.1, 99.9], 0.3)),
            RowVerdict::NoDifference
        );
        assert_eq!(
            judge(&row(&[150.0, 150.1, 149.9], 0.04), &row(&[100.0, 100.1, 99.9], 0.3)),
            RowVerdict::Better
        );
    }

    #[test]
    fn a_value_without_repetitions_may_be_off() {
        let one = |tps| row(&[tps], 0.0);
        assert!(!Measure::Tps.spread(&one(100.0)).unwrap().measured);
        assert_eq!(judge(&one(115.0), &one(100.0)), RowVerdict::NoDifference);
        assert_eq!(judge(&one(130.0), &one(100.0)), RowVerdict::Better);
        // A row of an earlier version has the ends, but not the repetitions.
        let old = ResultRow { repetitions: Vec::new(), ..row(&[194.0, 369.0, 80.0], 0.0) };
        assert_eq!(Measure::Tps.judge(&old, &one(100.0)), Some(RowVerdict::NoDifference));
        assert_eq!(Measure::P95.judge(&old, &one(100.0)), None, "nothing is judged that was not measured");
        let nothing = ResultRow::default();
        assert_eq!(Measure::Tps.judge(&nothing, &nothing), Some(RowVerdict::NoDifference));
        assert_eq!(Measure::Tps.advantage(&nothing, &one(1.0)), None);
    }

    #[test]
    fn those_that_cannot_be_told_from_the_first_are_named() {
        let rows = [
            row(&[100.0, 101.0, 99.0], 0.0),
            row(&[150.0, 160.0, 140.0], 0.0),
            row(&[155.0, 158.0, 150.0], 0.0),
            row(&[90.0, 160.0, 80.0], 0.0),
        ];
        let of = |places: &[usize]| Standing::of(|r| &rows[r], places).unwrap();
        let all = of(&[0, 1, 2, 3]);
        assert_eq!(all, Standing { first: 2, ties: vec![1, 3], beaten: vec![0] });
        assert_eq!((all.winner(), of(&[0, 1]).winner(), of(&[1]).winner()), (None, Some(1), None));
        assert!(Standing::of(|r| &rows[r], &[]).is_none());
    }
}
