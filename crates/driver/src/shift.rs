//! Figures about throughput when the load changed (`--phases`), and about decisions on keys. The
//! series has all the information, but an expression cannot compare two series.

use crate::row::{RebalanceRow, RebalancedRow, SecondRow, ShiftRow};
use crate::steady::median;

/// Seconds after the start of the first window that do not count, if there are more than twice as
/// many.
const SETTLING: usize = 2;
/// The share of the former throughput that counts as full recovery; the rest is chance.
const BACK: f64 = 0.95;
/// Seconds for which the recovery must last.
const LASTS: usize = 3;

/// The shift at `at`, in seconds since the first window began; `None` without two seconds on either
/// side.
pub(crate) fn shift(series: &[SecondRow], at: f64) -> Option<ShiftRow> {
    let long = |second: &&SecondRow| second.committed as f64 >= 0.5 * second.tps;
    let (before, after): (Vec<&SecondRow>, Vec<&SecondRow>) =
        series.iter().filter(long).partition(|second| second.at < at);
    // The second in which the load changes belongs to neither side.
    let mut before: Vec<f64> = before.into_iter().filter(|s| s.at + 1.0 <= at).map(|s| s.tps).collect();
    let settling = if before.len() > 2 * SETTLING { SETTLING } else { 0 };
    before.drain(..settling);
    if before.len() < 2 || after.len() < 2 {
        return None;
    }
    let before_tps = median(before);
    let share: Vec<f64> = after.iter().map(|second| second.tps / before_tps).collect();
    let back = share.windows(LASTS.min(share.len())).position(|some| some.iter().all(|s| *s >= BACK));
    let lost = share[..back.unwrap_or(share.len())].iter().map(|share| (1.0 - share).max(0.0)).sum();
    let last = share[share.len() - (share.len() / 3).max(1)..].to_vec();
    Some(ShiftRow {
        at,
        before_tps,
        lowest: share.iter().copied().fold(f64::INFINITY, f64::min),
        lost_s: lost,
        back_s: back.map(|seconds| after[seconds].at - at),
        last: median(last),
    })
}

/// The sums over the decisions since the load changed; over all of them if it did not change.
pub(crate) fn rebalanced(made: &[RebalanceRow], shifted: Option<f64>) -> RebalancedRow {
    let (mut sum, from) = (RebalancedRow::default(), shifted.unwrap_or_default());
    for made in made.iter().filter(|made| shifted.is_none_or(|at| made.at >= at)) {
        sum.decisions += 1;
        sum.done += u64::from(made.outcome == "done");
        sum.splits += made.splits;
        sum.merges += made.merges;
        sum.moves += made.moves;
        sum.took_ms += made.took_ms;
        sum.shut_ms += made.shut_ms;
        sum.entries += made.entries;
        sum.rows += made.rows;
        sum.row_bytes += made.row_bytes;
        sum.addresses += made.addresses;
        sum.first_s = sum.first_s.or(Some(made.at - from));
        sum.last_s = Some(made.at - from + made.took_ms / 1e3);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(tps: &[f64]) -> Vec<SecondRow> {
        let second = |(at, tps): (usize, &f64)| SecondRow {
            at: at as f64,
            tps: *tps,
            committed: *tps as u64,
            ..SecondRow::default()
        };
        tps.iter().enumerate().map(second).collect()
    }

    #[test]
    fn a_dip_is_measured_until_throughput_stays_back() {
        let tps = [10.0, 10.0, 100.0, 100.0, 102.0, 98.0, 60.0, 97.0, 80.0, 96.0, 104.0, 103.0, 104.0];
        let shift = shift(&seconds(&tps), 6.0).unwrap();
        assert_eq!((shift.before_tps, shift.lowest, shift.back_s), (100.0, 0.6, Some(3.0)));
        assert!((shift.lost_s - 0.63).abs() < 1e-9 && (shift.last - 1.035).abs() < 1e-9, "{shift:?}");
    }

    #[test]
    fn what_does_not_come_back_has_no_time_and_too_little_has_nothing() {
        let seconds = seconds(&[100.0, 100.0, 100.0, 70.0, 96.0, 70.0]);
        let never = shift(&seconds, 3.0).unwrap();
        assert_eq!((never.back_s, never.last), (None, 0.96_f64.min(never.last)));
        assert!((never.lost_s - 0.64).abs() < 1e-9, "{never:?}");
        assert_eq!(shift(&seconds, 5.0), None);
        // A change within a second leaves that second out.
        assert_eq!(shift(&seconds, 2.5).map(|shift| shift.before_tps), Some(100.0));
    }

    #[test]
    fn decisions_are_added_up_from_the_change_on() {
        let made = |at, splits, outcome: &str| RebalanceRow {
            at,
            splits,
            outcome: outcome.into(),
            took_ms: 500.0,
            ..RebalanceRow::default()
        };
        let all = [made(1.0, 7, "done"), made(10.5, 2, "done"), made(11.0, 3, "a worker was busy")];
        let sum = rebalanced(&all, Some(10.0));
        assert_eq!((sum.decisions, sum.done, sum.splits, sum.took_ms), (2, 1, 5, 1000.0));
        assert_eq!((sum.first_s, sum.last_s), (Some(0.5), Some(1.5)));
        assert_eq!(rebalanced(&all, None).decisions, 3);
        assert_eq!(rebalanced(&all, Some(20.0)), RebalancedRow::default());
    }
}
