//! The number of rows of a table, from those that were touched.

/// Rows that there are, if `distinct` rows were touched, `once` of them by one transaction and
/// `twice` by two: the bias-corrected estimate of Chao (1984), a lower bound where some rows are
/// more popular than others. Where hardly a row was touched again nothing tells how many there are:
/// at most 100 for each one that was touched.
pub fn estimate(distinct: u64, once: u64, twice: u64) -> u64 {
    let unseen = once as f64 * (once.saturating_sub(1)) as f64 / (2.0 * (twice as f64 + 1.0));
    distinct + (unseen as u64).min(distinct * MOST_UNSEEN)
}

/// Rows that are assumed for each one that was touched, at most.
const MOST_UNSEEN: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn uniform_draws_tell_the_number_of_rows() {
        let mut random = Rng::with_seed(3);
        for rows in [50_u64, 5_000, 100_000] {
            let mut seen: BTreeMap<u64, u32> = BTreeMap::new();
            (0..20_000).for_each(|_| *seen.entry(random.u64(..rows)).or_default() += 1);
            let times = |n| seen.values().filter(|&&times| times == n).count() as u64;
            let found = estimate(seen.len() as u64, times(1), times(2)) as f64;
            assert!((found / rows as f64 - 1.0).abs() < 0.1, "{found} of {rows}");
        }
        assert_eq!(estimate(0, 0, 0), 0);
        assert_eq!(estimate(1, 1, 0), 1, "one draw says nothing about others");
        assert_eq!(estimate(5_000, 5_000, 0), 505_000, "bounded where none was drawn again");
    }
}
