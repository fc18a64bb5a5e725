//! The point of an axis at which one deployment stops to be better than another.

use serde::{Deserialize, Serialize};

/// A change of the best choice along an axis.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BreakEven {
    /// The axis, such as `multisite`.
    pub axis: String,
    /// The value at which both are equal.
    pub at: f64,
    /// The winner at smaller values.
    pub below: String,
    /// The winner at larger values.
    pub above: String,
}

/// Intervals in which a first change of sign is looked for.
const GRID: usize = 8;

/// The least value in `range` at which `advantage` changes its sign, to within `tolerance`; `None`
/// if it has the same sign at all points of a grid. Each call costs a prediction: about
/// `9 + log2(range / 8 / tolerance)` of them.
///
/// # Errors
/// Those of `advantage`.
pub fn crossing<E>(
    range: (f64, f64),
    tolerance: f64,
    mut advantage: impl FnMut(f64) -> Result<f64, E>,
) -> Result<Option<f64>, E> {
    let (least, most) = range;
    let mut low = least;
    let at_least = advantage(least)?;
    for step in 1..=GRID {
        let high = least + (most - least) * step as f64 / GRID as f64;
        if (advantage(high)? > 0.0) == (at_least > 0.0) {
            low = high;
            continue;
        }
        let mut end = high;
        while end - low > tolerance {
            let middle = (low + end) / 2.0;
            if (advantage(middle)? > 0.0) == (at_least > 0.0) { low = middle } else { end = middle }
        }
        return Ok(Some((low + end) / 2.0));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn of(advantage: impl Fn(f64) -> f64) -> Option<f64> {
        crossing((0.0, 100.0), 0.25, |x| Ok::<_, Infallible>(advantage(x))).unwrap()
    }

    #[test]
    fn bisection_finds_where_the_sign_changes() {
        for at in [0.4, 3.0, 14.0, 49.9, 99.0] {
            let found = of(|x| at - x).unwrap();
            assert!((found - at).abs() <= 0.25, "{at} {found}");
            let found = of(|x| x - at).unwrap();
            assert!((found - at).abs() <= 0.25, "{at} {found}");
        }
        assert_eq!(of(|_| 1.0), None);
        assert_eq!(of(|_| -1.0), None);
        let twice = of(|x| (x - 20.0) * (x - 60.0)).unwrap();
        assert!((twice - 20.0).abs() <= 0.25, "the first of two: {twice}");
    }

    #[test]
    fn an_error_ends_the_search() {
        assert_eq!(crossing((0.0, 1.0), 0.1, |_| Err::<f64, _>("no latencies")), Err("no latencies"));
    }
}
