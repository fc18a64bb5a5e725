//! The worker that owns each key: table -> ordered partitions of its routing keys -> owner.
//!
//! ```text
//!   table 3, version 7      0          2500      3100           10000
//!                           |-- w0 ----|-- w1 ---|----- w2 -------> (keys past the domain too)
//! ```
//!
//! Access rules: a map is a value that never changes. A dispatcher holds a reference to one and
//! looks owners up in it without a shared write. A split, a merge or a move makes the next version,
//! which the dispatcher gets between two transactions (thesis section 3.3.1: workers do not consult
//! partition tables in normal work). An update names the version it was made for, and every other
//! version refuses it, so that two updates never mix.

use crate::routing::MAX_DOMAIN;
use base::{TableId, WorkerId};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    #[error("table {table}: no partition was given; at least one must hold the keys 0..{domain}")]
    NoPartition { table: TableId, domain: u64 },
    #[error("table {table}: no worker was given to own its partitions")]
    NoOwner { table: TableId },
    #[error("table {table}: the range {start}..{end} holds no key; leave it out or widen it")]
    Empty { table: TableId, start: u64, end: u64 },
    #[error("table {table}: keys {from}..{to} are in two ranges; let one end where the next begins")]
    Overlap { table: TableId, from: u64, to: u64 },
    #[error("table {table}: keys {from}..{to} are in no range; let one end where the next begins")]
    Gap { table: TableId, from: u64, to: u64 },
    #[error("table {table}: a range ends at {end}, past its {domain} routing keys")]
    PastDomain { table: TableId, end: u64, domain: u64 },
    #[error("table {table}: {partitions} partitions for {domain} keys; at most one partition for each key")]
    MorePartitionsThanKeys { table: TableId, partitions: usize, domain: u64 },
    #[error("table {table}: {domain} routing keys; at least 1 and at most 2^56 can be divided")]
    Domain { table: TableId, domain: u64 },
    #[error("table {table} is not partitioned; add it to the map first")]
    UnknownTable { table: TableId },
    #[error(
        "table {table} is at version {found}, the update was made for {expected}: plan again from the current map"
    )]
    Stale { table: TableId, expected: u64, found: u64 },
    #[error("table {table}: cannot split at {at}: a partition begins there already, or it is past the keys")]
    NoRoomToSplit { table: TableId, at: u64 },
    #[error("table {table}: no partition begins at {at}; see the map for the borders that there are")]
    NoBorder { table: TableId, at: u64 },
    #[error("table {table}: the first partition has no left neighbour to merge with")]
    NoLeftNeighbour { table: TableId },
}

/// A partition: its keys, as far as they are inside the domain, and the worker that runs the steps
/// on them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    pub keys: Range<u64>,
    pub owner: WorkerId,
}

/// The result of a look-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyPlace {
    /// Position of the partition among its table's, in key order; valid for one version of the map.
    pub partition: u32,
    pub owner: WorkerId,
}

/// One change from a version to the next. A border is named by the first key to its right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangeChange {
    /// The partition around `at` becomes two, the upper one beginning at `at`.
    Split { at: u64, lower: WorkerId, upper: WorkerId },
    /// The partitions left and right of `at` become one.
    Merge { at: u64, owner: WorkerId },
    /// The partition beginning at `start` gets another owner.
    Move { start: u64, owner: WorkerId },
}

impl fmt::Display for RangeChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RangeChange::Split { at, lower, upper } => {
                write!(f, "split at {at}: lower to worker {lower}, upper to {upper}")
            }
            RangeChange::Merge { at, owner } => write!(f, "merge at {at}: worker {owner} owns both"),
            RangeChange::Move { start, owner } => {
                write!(f, "move the partition at {start} to worker {owner}")
            }
        }
    }
}

/// The partitions of one table.
///
/// Invariant: `starts` begins with 0, rises strictly and stays below `domain`; `owners` has the
/// same length.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ranges {
    table: TableId,
    domain: u64,
    version: u64,
    starts: Vec<u64>,
    owners: Vec<WorkerId>,
}

impl Ranges {
    /// Version 1, from ranges in any order that must cover `0..domain` exactly once.
    pub fn new(table: TableId, domain: u64, mut partitions: Vec<Partition>) -> Result<Ranges, RangeError> {
        fits(table, domain, partitions.len())?;
        for Partition { keys: Range { start, end }, .. } in &partitions {
            if start >= end {
                return Err(RangeError::Empty { table, start: *start, end: *end });
            }
        }
        partitions.sort_by_key(|p| p.keys.start);
        let mut next = 0;
        for Partition { keys, .. } in &partitions {
            if keys.start > next {
                return Err(RangeError::Gap { table, from: next, to: keys.start });
            }
            if keys.start < next {
                return Err(RangeError::Overlap { table, from: keys.start, to: next.min(keys.end) });
            }
            next = keys.end;
        }
        if next > domain {
            return Err(RangeError::PastDomain { table, end: next, domain });
        }
        if next < domain {
            return Err(RangeError::Gap { table, from: next, to: domain });
        }
        let starts = partitions.iter().map(|p| p.keys.start).collect();
        Ok(Ranges { table, domain, version: 1, starts, owners: partitions.iter().map(|p| p.owner).collect() })
    }

    /// `count` partitions of equal length (to one key), given to `owners` in runs of neighbours.
    pub fn equal(
        table: TableId,
        domain: u64,
        count: usize,
        owners: &[WorkerId],
    ) -> Result<Ranges, RangeError> {
        fits(table, domain, count)?;
        if owners.is_empty() {
            return Err(RangeError::NoOwner { table });
        }
        let start = |i: usize| (u128::from(domain) * i as u128 / count as u128) as u64;
        let owner = |i: usize| owners[(i as u128 * owners.len() as u128 / count as u128) as usize];
        Ok(Ranges {
            table,
            domain,
            version: 1,
            starts: (0..count).map(start).collect(),
            owners: (0..count).map(owner).collect(),
        })
    }

    pub fn table(&self) -> TableId {
        self.table
    }
    pub fn domain(&self) -> u64 {
        self.domain
    }
    pub fn version(&self) -> u64 {
        self.version
    }
    pub fn len(&self) -> usize {
        self.starts.len()
    }
    /// Always false: a partitioned table has at least one partition.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }
    /// First key of each partition.
    pub fn starts(&self) -> &[u64] {
        &self.starts
    }
    pub fn owners(&self) -> &[WorkerId] {
        &self.owners
    }

    /// The `i`-th partition, in key order.
    ///
    /// # Panics
    /// If there are fewer partitions.
    pub fn partition(&self, i: usize) -> Partition {
        let end = self.starts.get(i + 1).copied().unwrap_or(self.domain);
        Partition { keys: self.starts[i]..end, owner: self.owners[i] }
    }

    pub fn partitions(&self) -> impl Iterator<Item = Partition> + '_ {
        (0..self.len()).map(|i| self.partition(i))
    }

    /// Position of the partition with `key`; keys past the domain are in the last one. A binary
    /// search without a branch that depends on the key: 64 partitions take six loads.
    #[inline]
    pub fn index(&self, key: u64) -> usize {
        last_at_most(&self.starts, key)
    }

    #[inline]
    pub fn find(&self, key: u64) -> KeyPlace {
        let i = self.index(key);
        KeyPlace { partition: i as u32, owner: self.owners[i] }
    }

    /// The next version, with `change` made. `made_for` is the version on which the change was
    /// decided.
    pub fn apply(&self, made_for: u64, change: RangeChange) -> Result<Ranges, RangeError> {
        let table = self.table;
        if made_for != self.version {
            return Err(RangeError::Stale { table, expected: made_for, found: self.version });
        }
        let mut next = Ranges { version: self.version + 1, ..self.clone() };
        match change {
            RangeChange::Split { at, lower, upper } => {
                let i = self.index(at);
                if at >= self.domain || self.starts[i] == at {
                    return Err(RangeError::NoRoomToSplit { table, at });
                }
                next.owners[i] = lower;
                next.starts.insert(i + 1, at);
                next.owners.insert(i + 1, upper);
            }
            RangeChange::Merge { at, owner } => {
                let i = self.beginning(at)?;
                if i == 0 {
                    return Err(RangeError::NoLeftNeighbour { table });
                }
                next.owners[i - 1] = owner;
                next.starts.remove(i);
                next.owners.remove(i);
            }
            RangeChange::Move { start, owner } => next.owners[self.beginning(start)?] = owner,
        }
        Ok(next)
    }

    fn beginning(&self, at: u64) -> Result<usize, RangeError> {
        self.starts.binary_search(&at).map_err(|_| RangeError::NoBorder { table: self.table, at })
    }
}

/// Position of the last of `starts` that is no greater than `key`; 0 if there is none.
#[inline]
pub(crate) fn last_at_most(starts: &[u64], key: u64) -> usize {
    let mut base = 0;
    let mut size = starts.len();
    while size > 1 {
        let half = size / 2;
        base = std::hint::select_unpredictable(starts[base + half] <= key, base + half, base);
        size -= half;
    }
    base
}

fn fits(table: TableId, domain: u64, partitions: usize) -> Result<(), RangeError> {
    if domain == 0 || domain > MAX_DOMAIN {
        return Err(RangeError::Domain { table, domain });
    }
    if partitions == 0 {
        return Err(RangeError::NoPartition { table, domain });
    }
    if partitions as u64 > domain {
        return Err(RangeError::MorePartitionsThanKeys { table, partitions, domain });
    }
    Ok(())
}

/// All partitioned tables. Tables with a copy in every instance are not in it.
#[derive(Clone, Default, Debug)]
pub struct RangeMap {
    tables: Vec<Option<Arc<Ranges>>>,
}

impl RangeMap {
    pub fn new(tables: impl IntoIterator<Item = Ranges>) -> RangeMap {
        tables.into_iter().fold(RangeMap::default(), RangeMap::with)
    }

    /// The same map with these ranges for their table. The other tables are shared with the old
    /// map.
    #[must_use]
    pub fn with(mut self, ranges: Ranges) -> RangeMap {
        let place = ranges.table.0 as usize;
        if self.tables.len() <= place {
            self.tables.resize(place + 1, None);
        }
        self.tables[place] = Some(Arc::new(ranges));
        self
    }

    #[inline]
    pub fn table(&self, table: TableId) -> Option<&Ranges> {
        self.tables.get(table.0 as usize)?.as_deref()
    }

    pub fn tables(&self) -> impl Iterator<Item = &Ranges> {
        self.tables.iter().flatten().map(|r| &**r)
    }

    /// The partition and worker for a step on routing key `key`; `None` for a table that is not
    /// partitioned.
    #[inline]
    pub fn find(&self, table: TableId, key: u64) -> Option<KeyPlace> {
        self.table(table).map(|ranges| ranges.find(key))
    }

    /// The next map, with one table changed.
    pub fn apply(&self, table: TableId, made_for: u64, change: RangeChange) -> Result<RangeMap, RangeError> {
        let ranges = self.table(table).ok_or(RangeError::UnknownTable { table })?;
        Ok(self.clone().with(ranges.apply(made_for, change)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: TableId = TableId(5);

    fn part(keys: Range<u64>, owner: u16) -> Partition {
        Partition { keys, owner: WorkerId(owner) }
    }

    fn three() -> Ranges {
        Ranges::new(T, 100, vec![part(40..60, 1), part(0..40, 0), part(60..100, 2)]).unwrap()
    }

    #[test]
    fn ranges_that_do_not_cover_the_keys_once_are_refused() {
        let new = |parts: Vec<Partition>| Ranges::new(T, 100, parts).unwrap_err();
        assert_eq!(
            new(vec![part(0..50, 0), part(40..100, 1)]),
            RangeError::Overlap { table: T, from: 40, to: 50 }
        );
        assert_eq!(
            new(vec![part(0..50, 0), part(60..100, 1)]),
            RangeError::Gap { table: T, from: 50, to: 60 }
        );
        assert_eq!(new(vec![part(10..100, 0)]), RangeError::Gap { table: T, from: 0, to: 10 });
        assert_eq!(new(vec![part(0..90, 0)]), RangeError::Gap { table: T, from: 90, to: 100 });
        assert_eq!(new(vec![part(0..101, 0)]), RangeError::PastDomain { table: T, end: 101, domain: 100 });
        assert_eq!(
            new(vec![part(0..100, 0), part(30..30, 1)]),
            RangeError::Empty { table: T, start: 30, end: 30 }
        );
        assert_eq!(new(vec![]), RangeError::NoPartition { table: T, domain: 100 });
        let w = [WorkerId(0)];
        let more = Ranges::equal(T, 3, 4, &w).unwrap_err();
        assert_eq!(more.to_string(), "table 5: 4 partitions for 3 keys; at most one partition for each key");
        assert_eq!(Ranges::equal(T, 3, 2, &[]).unwrap_err(), RangeError::NoOwner { table: T });
        assert!(matches!(Ranges::equal(T, 0, 1, &w).unwrap_err(), RangeError::Domain { .. }));
        assert!(matches!(Ranges::equal(T, u64::MAX, 1, &w).unwrap_err(), RangeError::Domain { .. }));
    }

    #[test]
    fn a_key_is_found_where_its_range_is() {
        let ranges = three();
        for key in 0..200 {
            let expected = if key < 40 { 0 } else { 1 + usize::from(key >= 60) };
            assert_eq!(ranges.index(key), expected, "key {key}");
        }
        assert_eq!(ranges.find(u64::MAX), KeyPlace { partition: 2, owner: WorkerId(2) });
    }

    #[test]
    fn equal_partitions_differ_by_one_key_at_most_and_neighbours_share_owners() {
        let owners = [WorkerId(0), WorkerId(1), WorkerId(2)];
        let ranges = Ranges::equal(T, 1003, 7, &owners).unwrap();
        let lengths: Vec<u64> = ranges.partitions().map(|p| p.keys.end - p.keys.start).collect();
        assert_eq!(lengths.iter().sum::<u64>(), 1003);
        assert!(lengths.iter().all(|l| (143..=144).contains(l)));
        assert!(ranges.owners().is_sorted() && owners.iter().all(|o| ranges.owners().contains(o)));
    }

    #[test]
    fn changes_make_new_versions_and_leave_the_old_alone() {
        let old = RangeMap::new([three()]);
        let [a, b, c] = [7, 8, 9].map(WorkerId);
        let map = old.apply(T, 1, RangeChange::Split { at: 10, lower: a, upper: b }).unwrap();
        let map = map.apply(T, 2, RangeChange::Merge { at: 60, owner: c }).unwrap();
        let map = map.apply(T, 3, RangeChange::Move { start: 10, owner: a }).unwrap();
        let ranges = map.table(T).unwrap();
        assert_eq!(
            (ranges.starts(), ranges.owners(), ranges.version()),
            (&[0, 10, 40][..], &[a, a, c][..], 4)
        );
        assert_eq!(old.table(T), Some(&three()));
    }

    #[test]
    fn changes_that_do_not_fit_are_refused() {
        let map = RangeMap::new([three()]);
        let w = WorkerId(0);
        let apply = |version, change| map.apply(T, version, change).unwrap_err();
        let split = |at| RangeChange::Split { at, lower: w, upper: w };
        assert_eq!(apply(2, split(10)), RangeError::Stale { table: T, expected: 2, found: 1 });
        for at in [0, 40, 100, 1000] {
            assert_eq!(apply(1, split(at)), RangeError::NoRoomToSplit { table: T, at });
        }
        assert_eq!(
            apply(1, RangeChange::Merge { at: 41, owner: w }),
            RangeError::NoBorder { table: T, at: 41 }
        );
        assert_eq!(
            apply(1, RangeChange::Merge { at: 0, owner: w }),
            RangeError::NoLeftNeighbour { table: T }
        );
        assert_eq!(
            apply(1, RangeChange::Move { start: 1, owner: w }),
            RangeError::NoBorder { table: T, at: 1 }
        );
        let other = map.apply(TableId(6), 1, split(10)).unwrap_err();
        assert_eq!(other, RangeError::UnknownTable { table: TableId(6) });
    }
}
