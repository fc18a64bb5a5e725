//! The number of partitions of each table: in proportion to its share of the requests (thesis
//! section 4.4.2).
//!
//! With N_avg partitions and QT_avg requests per table on average, QT_avg / N_avg = QT_i / N_i for
//! every table i. The N_i are whole numbers, at least 1, at most the number of the table's keys,
//! and sum up to the total. The partitions that rounding leaves go to the largest remainders.

use base::TableId;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    #[error("{total} partitions for {tables} tables: every table needs one")]
    TooFew { total: u32, tables: usize },
    #[error(
        "{total} partitions, but all tables together have {keys} keys: at most one partition for each key"
    )]
    MoreThanKeys { total: u32, keys: u64 },
    #[error("table {table} has no keys: nothing can be divided")]
    NoKeys { table: TableId },
}

/// The demand of one table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand {
    pub table: TableId,
    /// Requests (or work) in the observed time: the thesis' QT_i.
    pub requests: u64,
    /// The number of routing keys: no table gets more partitions.
    pub keys: u64,
    /// Its partitions at present.
    pub partitions: u32,
}

/// The number of partitions for each table, in the order given, summing up to `total`. For T tables
/// on a machine the thesis takes T times its hardware contexts. All numbers stay as they are unless
/// some table is off by more than one partition and by more than a quarter of its number, or
/// `total` is not the sum.
pub fn counts(demands: &[Demand], total: u32) -> Result<Vec<u32>, CountError> {
    if (total as usize) < demands.len() {
        return Err(CountError::TooFew { total, tables: demands.len() });
    }
    if let Some(d) = demands.iter().find(|d| d.keys == 0) {
        return Err(CountError::NoKeys { table: d.table });
    }
    let keys = demands.iter().map(|d| d.keys).fold(0, u64::saturating_add);
    if u64::from(total) > keys {
        return Err(CountError::MoreThanKeys { total, keys });
    }
    let ideal = ideals(demands, total);
    let now: u32 = demands.iter().map(|d| d.partitions).fold(0, u32::saturating_add);
    let off = |(d, ideal): (&Demand, &f64)| {
        let off = (ideal - f64::from(d.partitions)).abs();
        d.partitions == 0
            || u64::from(d.partitions) > d.keys
            || off > 1.0 && off > f64::from(d.partitions) / 4.0
    };
    if now == total && !demands.iter().zip(&ideal).any(off) {
        return Ok(demands.iter().map(|d| d.partitions).collect());
    }
    Ok(rounded(demands, &ideal, total))
}

/// Shares of the total between 1 and the number of the table's keys. The partitions that these
/// limits take from one table go to the others.
fn ideals(demands: &[Demand], total: u32) -> Vec<f64> {
    let quiet = demands.iter().all(|d| d.requests == 0);
    let weight = |d: &Demand| if quiet { 1.0 } else { d.requests as f64 };
    // The factor from requests to partitions for which the limited shares sum up to the total,
    // found by bisection.
    let share = |d: &Demand, factor: f64| (weight(d) * factor).clamp(1.0, d.keys as f64);
    let sum = |factor: f64| demands.iter().map(|d| share(d, factor)).sum::<f64>();
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..128 {
        if sum(high) >= f64::from(total) {
            break;
        }
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if sum(middle) < f64::from(total) { low = middle } else { high = middle }
    }
    demands.iter().map(|d| share(d, high)).collect()
}

fn rounded(demands: &[Demand], ideal: &[f64], total: u32) -> Vec<u32> {
    // Slightly more, for shares that are whole but for rounding.
    let mut counts: Vec<u32> = ideal.iter().map(|i| (i + 1e-6) as u32).collect();
    let mut left = total.saturating_sub(counts.iter().sum());
    while left > 0 {
        let open = (0..counts.len()).filter(|&i| u64::from(counts[i]) < demands[i].keys);
        let lacks = |i: usize| ideal[i] - f64::from(counts[i]);
        let Some(next) = open.max_by(|&a, &b| lacks(a).total_cmp(&lacks(b))) else { break };
        counts[next] += 1;
        left -= 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demands(of: &[(u64, u64, u32)]) -> Vec<Demand> {
        let demand = |(i, &(requests, keys, partitions)): (usize, &(u64, u64, u32))| Demand {
            table: TableId(i as u16),
            requests,
            keys,
            partitions,
        };
        of.iter().enumerate().map(demand).collect()
    }

    #[test]
    fn partitions_follow_the_share_of_requests() {
        // TATP-like: subscriber 80 %, two tables 10 % each, 3 tables on 64 contexts.
        let three = demands(&[(800, 1 << 20, 64), (100, 1 << 20, 64), (100, 1 << 20, 64)]);
        assert_eq!(counts(&three, 192), Ok(vec![154, 19, 19]));
    }

    #[test]
    fn every_table_gets_one_and_none_more_than_its_keys() {
        let mixed = demands(&[(1000, 2, 4), (0, 100, 4), (1000, 100, 4)]);
        assert_eq!(counts(&mixed, 12), Ok(vec![2, 1, 9]));
        let quiet = demands(&[(0, 100, 1), (0, 100, 5)]);
        assert_eq!(counts(&quiet, 6), Ok(vec![3, 3]));
    }

    #[test]
    fn a_small_shift_changes_nothing() {
        let near = demands(&[(110, 100, 8), (90, 100, 8)]);
        assert_eq!(counts(&near, 16), Ok(vec![8, 8]));
        let far = demands(&[(150, 100, 8), (50, 100, 8)]);
        assert_eq!(counts(&far, 16), Ok(vec![12, 4]));
        let settled = demands(&[(140, 100, 12), (60, 100, 4)]);
        assert_eq!(counts(&settled, 16), Ok(vec![12, 4]));
    }

    #[test]
    fn totals_that_cannot_be_are_refused() {
        assert_eq!(
            counts(&demands(&[(1, 9, 1), (1, 9, 1)]), 1),
            Err(CountError::TooFew { total: 1, tables: 2 })
        );
        let few = demands(&[(1, 2, 1), (1, 2, 1)]);
        assert_eq!(counts(&few, 5), Err(CountError::MoreThanKeys { total: 5, keys: 4 }));
        let none = demands(&[(1, 0, 1), (1, 2, 1)]);
        assert_eq!(counts(&none, 2), Err(CountError::NoKeys { table: TableId(0) }));
    }
}
