//! Predictions against measured windows: errors, the noise of a window, ranks, and regret.

use std::collections::BTreeMap;

/// The median, of an even number the mean of the two in the middle; `None` of none.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The value below which the share `q` lies, interpolated; `None` of none.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = sorted.len().checked_sub(1)? as f64 * q;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(low + (high - low) * (at - at.floor()))
}

/// One deployment of a point, with its measured windows.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// `conventional/2`.
    pub deployment: String,
    /// Transactions per second, by round.
    pub windows: Vec<f64>,
}

impl Measured {
    pub fn truth(&self) -> Option<f64> {
        median(&self.windows)
    }
}

/// The errors of a scheme at one point: `|predicted / measured - 1|` by deployment.
pub fn errors(predicted: &BTreeMap<String, f64>, measured: &[Measured]) -> Vec<(String, f64)> {
    let error = |cell: &Measured| {
        let (tps, truth) = (predicted.get(&cell.deployment)?, cell.truth()?);
        Some((cell.deployment.clone(), tps / truth - 1.0))
    };
    measured.iter().filter_map(error).collect()
}

/// Each window against the median of the others of its cell: the error of a predictor that has
/// measured. Needs three windows.
pub fn noise(measured: &[Measured]) -> Vec<f64> {
    let of = |cell: &Measured| -> Vec<f64> {
        if cell.windows.len() < 3 {
            return Vec::new();
        }
        (0..cell.windows.len())
            .filter_map(|at| Some((cell.windows[at] / median(&without(&cell.windows, at))? - 1.0).abs()))
            .collect()
    };
    measured.iter().flat_map(of).collect()
}

fn without(windows: &[f64], at: usize) -> Vec<f64> {
    windows.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, tps)| *tps).collect()
}

/// Spearman's rank correlation of predictions and measurements; `None` below three deployments.
pub fn rank_correlation(predicted: &BTreeMap<String, f64>, measured: &[Measured]) -> Option<f64> {
    let both: Vec<(f64, f64)> =
        measured.iter().filter_map(|cell| Some((*predicted.get(&cell.deployment)?, cell.truth()?))).collect();
    if both.len() < 3 {
        return None;
    }
    let (a, b) = (ranks(both.iter().map(|pair| pair.0)), ranks(both.iter().map(|pair| pair.1)));
    let mean = (both.len() as f64 - 1.0) / 2.0;
    let product = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>();
    let norm = (product(&a, &a) * product(&b, &b)).sqrt();
    (norm > 0.0).then(|| product(&a, &b) / norm)
}

/// Ranks from 0; equal values share the mean of theirs.
fn ranks(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let values: Vec<f64> = values.collect();
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count() as f64;
        let equal = values.iter().filter(|other| *other == value).count() as f64;
        below + (equal - 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

/// The loss of a pick against the best deployment of the point, from 0.
///
/// One window at a time is set aside: the others name the best deployment, and the one set aside
/// compares it with the pick. So a lucky window does not make a best deployment out of another one.
/// The mean over the windows that every deployment has. `None` if the pick was not measured, or if
/// there are fewer than two windows.
pub fn regret(pick: &str, measured: &[Measured]) -> Option<f64> {
    let windows = measured.iter().map(|cell| cell.windows.len()).min().filter(|n| *n >= 2)?;
    let picked = measured.iter().find(|cell| cell.deployment == pick)?;
    let losses = (0..windows).filter_map(|at| {
        let by_others = |cell: &&Measured| median(&without(&cell.windows, at)).unwrap_or(0.0);
        let best = measured.iter().max_by(|a, b| by_others(a).total_cmp(&by_others(b)))?;
        Some((1.0 - picked.windows[at] / best.windows[at]).max(0.0))
    });
    let losses: Vec<f64> = losses.collect();
    Some(losses.iter().sum::<f64>() / losses.len() as f64)
}

/// Wilson's interval at 95 % of a share of `n`.
pub fn wilson(hits: usize, n: usize) -> (f64, f64) {
    if n == 0 {
        return (0.0, 1.0);
    }
    let (z, n, p) = (1.96_f64, n as f64, hits as f64 / n as f64);
    let centre = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    ((centre - half).max(0.0), (centre + half).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(deployment: &str, windows: &[f64]) -> Measured {
        Measured { deployment: deployment.into(), windows: windows.to_vec() }
    }

    fn predicted(of: &[(&str, f64)]) -> BTreeMap<String, f64> {
        of.iter().map(|(name, tps)| ((*name).to_owned(), *tps)).collect()
    }

    #[test]
    fn errors_are_against_the_median_window() {
        let measured = [cell("a", &[90.0, 100.0, 200.0]), cell("b", &[])];
        let errors = errors(&predicted(&[("a", 110.0), ("b", 1.0)]), &measured);
        assert_eq!(errors.len(), 1, "no window, no error");
        assert!((errors[0].1 - 0.1).abs() < 1e-9);
        // 90 against 150, 100 against 145, 200 against 95.
        let noise = noise(&measured);
        assert!((noise[0] - 0.4).abs() < 1e-9 && (noise[2] - 105.0 / 95.0).abs() < 1e-9, "{noise:?}");
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0], 0.5), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn ranks_need_no_right_figures() {
        let measured = [cell("a", &[1.0]), cell("b", &[2.0]), cell("c", &[3.0])];
        let rank = |of: &[(&str, f64)]| rank_correlation(&predicted(of), &measured);
        assert_eq!(rank(&[("a", 10.0), ("b", 20.0), ("c", 90.0)]), Some(1.0));
        assert_eq!(rank(&[("a", 3.0), ("b", 2.0), ("c", 1.0)]), Some(-1.0));
        assert_eq!(rank(&[("a", 1.0), ("b", 2.0)]), None);
        assert_eq!(rank(&[("a", 5.0), ("b", 5.0), ("c", 5.0)]), None);
    }

    #[test]
    fn a_lucky_window_makes_no_regret() {
        // `b` has one lucky window; by the others `a` is the best.
        let measured = [cell("a", &[100.0, 100.0, 100.0]), cell("b", &[90.0, 150.0, 90.0])];
        let [of_a, of_b] = ["a", "b"].map(|pick| regret(pick, &measured).unwrap());
        // With the lucky window among the others `b` looks best (mean of 150 and 90), and loses.
        assert!(of_a < 0.01, "{of_a}");
        assert!(of_b <= 0.04, "{of_b}");
        let clear = [cell("a", &[100.0, 100.0]), cell("b", &[50.0, 50.0])];
        assert_eq!((regret("a", &clear), regret("b", &clear)), (Some(0.0), Some(0.5)));
        assert_eq!(regret("c", &clear), None);
        assert_eq!(regret("a", &[cell("a", &[1.0])]), None);
    }

    #[test]
    fn wilson_narrows_with_the_number_of_points() {
        let (low, high) = wilson(60, 60);
        assert!((low - 0.94).abs() < 0.01 && high > 0.999, "{low} {high}");
        assert!(wilson(6, 6).0 < low);
        assert_eq!(wilson(0, 0), (0.0, 1.0));
    }
}
