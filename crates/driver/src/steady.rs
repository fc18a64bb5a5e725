//! Has the throughput settled?
//!
//! Two questions about the seconds. Is there a trend? (Mann 1945 and Kendall: among all pairs of
//! seconds, how many more rise than fall; by chance that many in one case of twenty.) And does it
//! matter? (The slope of Theil and Sen is the median of the slopes of all pairs. Over the whole
//! length it is compared with the median throughput.) Both tests use ranks and medians. So a second
//! lost to another program is one point of many. Throughput is steady if it has no such trend, or a
//! small one.

/// With fewer seconds than this there is no result.
pub const LEAST: usize = 5;
/// Of the standard normal distribution, two-sided: one case of twenty.
const SIGNIFICANT: f64 = 1.96;
/// A drift over the whole length that does not matter, as a share of the median.
const HARMLESS: f64 = 0.05;

/// `None` if there are fewer than [`LEAST`] values.
pub fn is_steady(tps: &[f64]) -> Option<bool> {
    (tps.len() >= LEAST).then(|| trend(tps).abs() <= SIGNIFICANT || drift(tps).abs() <= HARMLESS)
}

fn pairs(values: &[f64]) -> impl Iterator<Item = (usize, f64)> {
    let n = values.len();
    (0..n).flat_map(move |i| (i + 1..n).map(move |j| (j - i, values[j] - values[i])))
}

/// The Mann-Kendall statistic in standard deviations, with the correction for continuity.
fn trend(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let sum: f64 = pairs(values).map(|(_, rise)| if rise == 0.0 { 0.0 } else { rise.signum() }).sum();
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    (sum.abs() - 1.0).max(0.0) * sum.signum() / deviation
}

/// How far the straight line through the values rises from the first to the last, as a share of
/// their median.
fn drift(values: &[f64]) -> f64 {
    let slope = median(pairs(values).map(|(apart, rise)| rise / apart as f64).collect());
    slope * (values.len() - 1) as f64 / median(values.to_vec()).max(1e-9)
}

/// The middle value, or the mean of the two middle ones; 0 for an empty list.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    if n == 0 { 0.0 } else { (values[(n - 1) / 2] + values[n / 2]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value in -1..1 that follows from its position.
    fn noise(i: usize) -> f64 {
        base::hash64(&i.to_le_bytes()) as f64 / u64::MAX as f64 * 2.0 - 1.0
    }

    #[test]
    fn noise_is_steady_in_nineteen_cases_of_twenty() {
        for length in [5, 15, 60] {
            let flat = |run: usize| -> Vec<f64> {
                (0..length).map(|i| 1000.0 + 100.0 * noise(run * 1000 + i)).collect()
            };
            let steady = (0..400).filter(|run| is_steady(&flat(*run)) == Some(true)).count();
            assert!(steady >= 370, "{length}: {steady} of 400");
        }
    }

    #[test]
    fn ramps_steps_and_decay_are_seen_through_noise() {
        type Shape = fn(f64) -> f64;
        let shapes: [(&str, Shape); 4] = [
            ("a ramp", |t| 1000.0 + 300.0 * t),
            ("a step down", |t| if t < 0.5 { 1000.0 } else { 650.0 }),
            ("a cache that fills", |t| 1000.0 * (1.0 - 0.6 * (-5.0 * t).exp())),
            ("a leak", |t| 1000.0 - 250.0 * t),
        ];
        for (name, shape) in shapes {
            let values: Vec<f64> = (0..15).map(|i| shape(i as f64 / 14.0) + 20.0 * noise(i)).collect();
            assert_eq!(is_steady(&values), Some(false), "{name}: {values:?}");
        }
    }

    #[test]
    fn a_small_drift_does_no_harm_and_a_stolen_second_is_one_of_many() {
        let creeping: Vec<f64> = (0..20).map(|i| 1000.0 + f64::from(i)).collect();
        assert_eq!(is_steady(&creeping), Some(true));
        let mut stolen = vec![1000.0; 15];
        stolen[14] = 10.0;
        assert_eq!(is_steady(&stolen), Some(true));
        assert_eq!(is_steady(&[1.0; 4]), None);
    }
}
