//! Paths: how the rows that a condition asks for are found.
//!
//! ```text
//!   conjunct   k = $1, k IN (..), k BETWEEN .., (a, b) IN (..), k < 5 OR k > 9
//!   regions    for each conjunct: alternatives, each a limit on some columns
//!   candidate  the primary key or an index: regions that limit its first columns, multiplied
//!   path       keys, if each region gives the whole key; ranges otherwise
//! ```
//!
//! A conjunct that the path expresses wholly is used up; the others stay as a filter.

use crate::operators::mirrored;
use crate::walk::{all_columns, is_stable};
use sql::Expr;
use sql::expression::BinaryOp;
use sql::program::{KeyRange, Order, Path, Stored};
use std::collections::{BTreeMap, BTreeSet};

/// The most ranges or keys of a path.
const MAX_REGIONS: usize = 8192;

/// The limits on one column.
#[derive(Clone, PartialEq, Debug, Default)]
struct Limits {
    equal: Option<Expr>,
    low: Option<(Expr, bool)>,
    high: Option<(Expr, bool)>,
}

/// Limits by column of the table.
type Region = BTreeMap<u16, Limits>;

/// A condition as alternatives. `is_exact` if it says no more than they do.
struct Regions {
    regions: Vec<Region>,
    is_exact: bool,
}

/// The rows that are searched, and what is known about them.
pub struct Wanted<'a> {
    pub table: &'a Stored,
    /// Position of the table's first column.
    pub offset: u16,
    /// Whether a column of another table is known when this one is searched.
    pub is_known: &'a dyn Fn(u16) -> bool,
    /// The order that is asked for: columns of the table, and whether descending.
    pub order: &'a [(u16, bool)],
    /// Whether only the first rows are wanted.
    pub is_limited: bool,
}

pub struct Way {
    pub path: Path,
    /// Positions of the conjuncts that the path expresses.
    pub used: Vec<usize>,
    /// 0 for all rows.
    pub score: u32,
    pub is_ordered: bool,
}

/// The score of a path that finds at most one row for each key.
const UNIQUE: u32 = 1000;

/// The best way to the rows for which all of `conjuncts` hold.
pub fn find(wanted: &Wanted<'_>, conjuncts: &[Expr]) -> Way {
    let analysed: Vec<(usize, Regions)> = conjuncts
        .iter()
        .enumerate()
        .filter_map(|(at, conjunct)| Some((at, wanted.regions(conjunct)?)))
        .collect();
    let key = (!wanted.table.key.is_empty()).then_some((None, wanted.table.key.as_slice(), true));
    let indexes = wanted.table.indexes.iter().zip(0_u16..);
    let indexes = indexes.map(|(index, at)| (Some(at), index.columns.as_slice(), index.unique));
    let ways = key
        .into_iter()
        .chain(indexes)
        .map(|(index, columns, unique)| wanted.way(index, columns, unique, &analysed));
    let best = ways.fold(None::<Way>, |best, way| match best {
        Some(best) if (best.score, best.is_ordered) >= (way.score, way.is_ordered) => Some(best),
        _ => Some(way),
    });
    match best {
        Some(way) if way.score > 0 || !wanted.order.is_empty() && way.is_ordered && wanted.is_limited => way,
        _ => Way { path: Path::All, used: Vec::new(), score: 0, is_ordered: wanted.order.is_empty() },
    }
}

impl Wanted<'_> {
    fn own(&self, expr: &Expr) -> Option<u16> {
        let Expr::Column(column) = expr else { return None };
        let position = column.checked_sub(self.offset)?;
        (usize::from(position) < self.table.columns.len()).then_some(position)
    }

    fn is_value(&self, expr: &Expr) -> bool {
        all_columns(expr, self.is_known) && is_stable(expr)
    }

    fn regions(&self, condition: &Expr) -> Option<Regions> {
        match condition {
            Expr::Binary { op, left, right, .. } => {
                let (column, op, value) = match (self.own(left), self.own(right)) {
                    (Some(column), _) if self.is_value(right) => (column, *op, right),
                    (_, Some(column)) if self.is_value(left) => (column, mirrored(*op), left),
                    _ => return None,
                };
                let value = value.as_ref().clone();
                let limits = match op {
                    BinaryOp::Equal => Limits { equal: Some(value), ..Limits::default() },
                    BinaryOp::Greater => Limits { low: Some((value, false)), ..Limits::default() },
                    BinaryOp::GreaterEqual => Limits { low: Some((value, true)), ..Limits::default() },
                    BinaryOp::Less => Limits { high: Some((value, false)), ..Limits::default() },
                    BinaryOp::LessEqual => Limits { high: Some((value, true)), ..Limits::default() },
                    _ => return None,
                };
                Some(Regions { regions: vec![Region::from([(column, limits)])], is_exact: true })
            }
            Expr::In { expr, list } => {
                let column = self.own(expr)?;
                if list.len() > MAX_REGIONS || !list.iter().all(|value| self.is_value(value)) {
                    return None;
                }
                let one = |value: &Expr| {
                    Region::from([(column, Limits { equal: Some(value.clone()), ..Limits::default() })])
                };
                Some(Regions { regions: list.iter().map(one).collect(), is_exact: true })
            }
            Expr::And(list) => self.both(list),
            Expr::Or(list) => {
                let mut all = Regions { regions: Vec::new(), is_exact: true };
                for arm in list {
                    let arm = self.regions(arm)?;
                    all.regions.extend(arm.regions);
                    all.is_exact &= arm.is_exact;
                }
                (all.regions.len() <= MAX_REGIONS).then_some(all)
            }
            _ => None,
        }
    }

    fn both(&self, list: &[Expr]) -> Option<Regions> {
        let mut all = Regions { regions: vec![Region::new()], is_exact: true };
        for arm in list {
            match self.regions(arm) {
                Some(arm) => all.is_exact &= multiply(&mut all.regions, &arm.regions) && arm.is_exact,
                None => all.is_exact = false,
            }
        }
        all.regions.iter().all(|region| !region.is_empty()).then_some(all)
    }

    fn way(&self, index: Option<u16>, columns: &[u16], unique: bool, analysed: &[(usize, Regions)]) -> Way {
        let usable = usable(columns, analysed);
        let mut chosen: Vec<&(usize, Regions)> = analysed
            .iter()
            .filter(|(_, found)| found.regions.iter().all(|region| region.keys().any(|c| usable.contains(c))))
            .collect();
        // Equalities first: a bound on the same column then stays in the filter.
        chosen.sort_by_key(|(_, found)| !found.regions.iter().all(|r| r.values().all(|l| l.equal.is_some())));
        let mut regions = vec![Region::new()];
        let mut merged = Vec::new();
        for (at, found) in chosen {
            if multiply(&mut regions, &found.regions) && found.is_exact {
                merged.push((*at, found));
            }
        }
        let equal = |region: &Region| {
            columns.iter().take_while(|c| region.get(c).is_some_and(|limits| limits.equal.is_some())).count()
        };
        let bounded =
            |region: &Region, equal: usize| columns.get(equal).is_some_and(|c| region.contains_key(c));
        // A column is covered if each region's keys or ranges express its limits.
        let covered = |column: &u16| {
            regions.iter().all(|region| {
                let equal = equal(region);
                columns[..equal].contains(column) || bounded(region, equal) && columns[equal] == *column
            })
        };
        let is_used = |found: &Regions| found.regions.iter().all(|region| region.keys().all(covered));
        let used = merged.iter().filter(|(_, found)| is_used(found)).map(|(at, _)| *at).collect();
        let is_whole = !columns.is_empty() && regions.iter().all(|region| equal(region) == columns.len());
        let least = regions.iter().map(|r| (2 * equal(r) + usize::from(bounded(r, equal(r)))) as u32).min();
        let score = if is_whole && unique { UNIQUE } else { 2 * least.unwrap_or(0) };
        let score = if score > 0 && index.is_none() { score + 1 } else { score };
        let direction = match regions.as_slice() {
            [region] => self.direction(columns, equal(region), unique),
            _ => None,
        };
        let is_ordered = self.order.is_empty() || direction.is_some();
        let path = match index {
            None if is_whole => {
                Path::Keys(regions.into_iter().map(|region| values(columns, region)).collect())
            }
            _ => {
                let ranges = distinct(regions.into_iter().map(|region| range(columns, region)).collect());
                Path::Ranges { index, ranges, direction: direction.filter(|_| !self.order.is_empty()) }
            }
        };
        Way { path, used, score, is_ordered }
    }

    /// The direction in which the key gives the order that is asked for, after `equal` columns that
    /// have one value.
    fn direction(&self, columns: &[u16], equal: usize, unique: bool) -> Option<Order> {
        let (mut next, mut direction) = (equal, None);
        for (column, descending) in self.order {
            if columns[..equal].contains(column) {
                continue;
            }
            if next == columns.len() && unique {
                break;
            }
            let wanted = if *descending { Order::Backward } else { Order::Forward };
            let nullable = self.table.columns.get(usize::from(*column)).is_none_or(|column| column.nullable);
            let is_key_column = self.table.key.contains(column);
            if columns.get(next) != Some(column)
                || nullable && !is_key_column
                || direction.is_some_and(|d| d != wanted)
            {
                return None;
            }
            direction = Some(wanted);
            next += 1;
        }
        Some(direction.unwrap_or(Order::Forward))
    }
}

/// The first columns of a key that conjuncts make equal, and the next one if they limit it.
fn usable(columns: &[u16], analysed: &[(usize, Regions)]) -> BTreeSet<u16> {
    let is_equal = |column: &u16| {
        analysed.iter().any(|(_, found)| {
            found.regions.iter().all(|region| region.get(column).is_some_and(|limits| limits.equal.is_some()))
        })
    };
    let equal = columns.iter().take_while(|column| is_equal(column)).count();
    columns[..(equal + 1).min(columns.len())].iter().copied().collect()
}

/// Each region with each of the others. `false` if one limit could not be taken over: the regions
/// then allow more than both conditions do.
fn multiply(regions: &mut Vec<Region>, by: &[Region]) -> bool {
    if regions.len() * by.len() > MAX_REGIONS {
        return false;
    }
    let mut is_exact = true;
    let mut product = Vec::with_capacity(regions.len() * by.len());
    for region in regions.iter() {
        for other in by {
            let mut both = region.clone();
            for (column, limits) in other {
                is_exact &= tighten(both.entry(*column).or_default(), limits);
            }
            product.push(both);
        }
    }
    *regions = product;
    is_exact
}

/// Adds limits to those of a column; `false` if there is one of the same side already.
fn tighten(limits: &mut Limits, by: &Limits) -> bool {
    if *limits == *by {
        return true;
    }
    if limits.equal.is_some() {
        return false;
    }
    if by.equal.is_some() {
        let is_free = *limits == Limits::default();
        if is_free {
            limits.equal.clone_from(&by.equal);
        }
        return is_free;
    }
    let mut is_exact = true;
    for (own, by) in [(&mut limits.low, &by.low), (&mut limits.high, &by.high)] {
        match (own.is_some(), by) {
            (_, None) => {}
            (false, Some(_)) => own.clone_from(by),
            (true, Some(_)) => is_exact = false,
        }
    }
    is_exact
}

fn values(columns: &[u16], mut region: Region) -> Vec<Expr> {
    columns.iter().filter_map(|column| region.remove(column).and_then(|limits| limits.equal)).collect()
}

fn range(columns: &[u16], mut region: Region) -> KeyRange {
    let mut range = KeyRange { equal: Vec::new(), low: None, high: None };
    for column in columns {
        let Some(limits) = region.remove(column) else { break };
        match limits.equal {
            Some(value) => range.equal.push(value),
            None => {
                (range.low, range.high) = (limits.low, limits.high);
                break;
            }
        }
    }
    range
}

/// Without ranges that stand twice, as far as that is cheap to find.
fn distinct(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    if ranges.len() > 64 {
        ranges.dedup();
        return ranges;
    }
    let mut distinct: Vec<KeyRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        if !distinct.contains(&range) {
            distinct.push(range);
        }
    }
    distinct
}
