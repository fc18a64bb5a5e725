//! The way from one version of the ranges to wanted ones, by as few splits, merges and moves as
//! possible.
//!
//! A split makes one border, a merge removes one, and a move changes the owner of a partition with
//! unchanged borders. So a plan needs a split for each new border, a merge for each border that
//! goes, and a move for each unchanged range with another owner. It has no more. (63 borders that
//! all shift are 126 changes: thesis section 4.5.2.)
//!
//! Splits come first, since they relieve a busy owner; then merges; then moves. Meanwhile there are
//! at most as many partitions as before plus new borders, and each piece already belongs to the
//! owner of its final range.

use crate::range::{RangeChange, RangeError, RangeMap, Ranges};
use base::{TableId, WorkerId};
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error(
        "no plan leads from table {from} with {from_keys} keys to table {to} with {to_keys}: plan within one table"
    )]
    OtherTable { from: TableId, from_keys: u64, to: TableId, to_keys: u64 },
    #[error(
        "the plan would leave worker {worker} without a partition: give it one, or take it out of the workers"
    )]
    Starves { worker: WorkerId },
    #[error(transparent)]
    Range(#[from] RangeError),
}

/// An ordered list of changes to one table's ranges, made for one version of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    pub table: TableId,
    pub made_for: u64,
    pub changes: Vec<RangeChange>,
}

/// The number of changes of each kind.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    pub splits: usize,
    pub merges: usize,
    pub moves: usize,
}

impl Counts {
    pub fn total(self) -> usize {
        self.splits + self.merges + self.moves
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { splits, merges, moves } = self;
        write!(f, "{splits} splits, {merges} merges, {moves} moves")
    }
}

impl Plan {
    /// The shortest plan from `old` to the borders and owners of `new`. The version of `new` does
    /// not matter.
    pub fn between(old: &Ranges, new: &Ranges) -> Result<Plan, PlanError> {
        if (old.table(), old.domain()) != (new.table(), new.domain()) {
            return Err(PlanError::OtherTable {
                from: old.table(),
                from_keys: old.domain(),
                to: new.table(),
                to_keys: new.domain(),
            });
        }
        let owner = |key| new.find(key).owner;
        let has = |ranges: &Ranges, at: &u64| ranges.starts().binary_search(at).is_ok();
        let made = new.starts().iter().filter(|at| !has(old, at));
        let splits = made.map(|&at| {
            // The lower half begins at the nearest border to the left, old or new.
            let (a, b) = (old.starts()[old.index(at)], new.starts()[new.index(at - 1)]);
            RangeChange::Split { at, lower: owner(a.max(b)), upper: owner(at) }
        });
        let gone = old.starts().iter().filter(|at| !has(new, at));
        let merges = gone.map(|&at| RangeChange::Merge { at, owner: owner(at) });
        let same = old.partitions().filter(|p| new.partition(new.index(p.keys.start)).keys == p.keys);
        let moved = same.filter(|p| owner(p.keys.start) != p.owner);
        let moves = moved.map(|p| RangeChange::Move { start: p.keys.start, owner: owner(p.keys.start) });
        let changes = splits.chain(merges).chain(moves).collect();
        Ok(Plan { table: old.table(), made_for: old.version(), changes })
    }

    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The version of the ranges after all changes.
    pub fn leads_to(&self) -> u64 {
        self.made_for + self.changes.len() as u64
    }

    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for change in &self.changes {
            match change {
                RangeChange::Split { .. } => counts.splits += 1,
                RangeChange::Merge { .. } => counts.merges += 1,
                RangeChange::Move { .. } => counts.moves += 1,
            }
        }
        counts
    }

    /// The map after all changes.
    pub fn apply(&self, map: &RangeMap) -> Result<RangeMap, PlanError> {
        let mut steps = self.changes.iter().zip(self.made_for..);
        let done =
            steps.try_fold(map.clone(), |map, (&change, version)| map.apply(self.table, version, change));
        Ok(done?)
    }

    /// Refuses a plan that leaves one of `workers` without a partition in any table.
    pub fn feeds(&self, map: &RangeMap, workers: &[WorkerId]) -> Result<(), PlanError> {
        let after = self.apply(map)?;
        let fed = |worker| after.tables().any(|t| t.owners().contains(worker));
        match workers.iter().find(|worker| !fed(worker)) {
            Some(&worker) => Err(PlanError::Starves { worker }),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { table, made_for, .. } = self;
        write!(f, "table {table}, from version {made_for} to {}: {}", self.leads_to(), self.counts())?;
        self.changes.iter().try_for_each(|change| write!(f, "\n  {change}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Partition;

    const T: TableId = TableId(1);

    fn ranges(domain: u64, parts: &[(u64, u16)]) -> Ranges {
        let ends = parts.iter().skip(1).map(|p| p.0).chain([domain]);
        let part = |(&(start, owner), end)| Partition { keys: start..end, owner: WorkerId(owner) };
        Ranges::new(T, domain, parts.iter().zip(ends).map(part).collect()).unwrap()
    }

    fn leads(old: &Ranges, new: &Ranges) -> Plan {
        let plan = Plan::between(old, new).unwrap();
        let after = plan.apply(&RangeMap::new([old.clone()])).unwrap();
        let after = after.table(T).unwrap();
        assert_eq!((after.starts(), after.owners()), (new.starts(), new.owners()), "{plan}");
        assert_eq!(after.version(), plan.leads_to());
        plan
    }

    #[test]
    fn sixty_three_borders_that_shift_are_126_changes() {
        let workers: Vec<WorkerId> = (0..64).map(WorkerId).collect();
        let old = Ranges::equal(T, 640_000, 64, &workers).unwrap();
        let shifted: Vec<(u64, u16)> =
            (0..64).map(|i| (i * 10_000 + u64::from(i > 0) * 77, i as u16)).collect();
        let plan = leads(&old, &ranges(640_000, &shifted));
        assert_eq!(plan.counts(), Counts { splits: 63, merges: 63, moves: 0 });
        assert_eq!(plan.counts().total(), 126);
        assert!(leads(&old, &old).is_empty());
    }

    #[test]
    fn a_plan_says_what_it_does() {
        let plan = leads(&ranges(90, &[(0, 0), (30, 1), (60, 2)]), &ranges(90, &[(0, 0), (20, 1), (60, 0)]));
        let told = "table 1, from version 1 to 4: 1 splits, 1 merges, 1 moves\n  split at 20: lower to worker 0, upper to 1\n  \
                    merge at 30: worker 1 owns both\n  move the partition at 60 to worker 0";
        assert_eq!(plan.to_string(), told);
    }

    #[test]
    fn a_plan_that_starves_a_worker_is_refused() {
        let map = RangeMap::new([ranges(90, &[(0, 0), (30, 1), (60, 2)])]);
        let workers = [0, 1, 2].map(WorkerId);
        let plan = leads(map.table(T).unwrap(), &ranges(90, &[(0, 0), (20, 1)]));
        assert_eq!(plan.feeds(&map, &workers), Err(PlanError::Starves { worker: WorkerId(2) }));
        assert_eq!(plan.feeds(&map, &workers[..2]), Ok(()));
        let elsewhere = Ranges::equal(TableId(2), 10, 1, &[WorkerId(2)]).unwrap();
        assert_eq!(plan.feeds(&map.with(elsewhere), &workers), Ok(()));
    }

    #[test]
    fn plans_for_another_table_or_version_are_refused() {
        let old = ranges(90, &[(0, 0), (30, 1)]);
        let other = Ranges::equal(T, 91, 2, &[WorkerId(0)]).unwrap();
        assert!(matches!(Plan::between(&old, &other), Err(PlanError::OtherTable { .. })));
        let plan = leads(&old, &ranges(90, &[(0, 0), (40, 1)]));
        let map = plan.apply(&RangeMap::new([old])).unwrap();
        assert!(matches!(plan.apply(&map), Err(PlanError::Range(RangeError::Stale { .. }))));
    }
}
