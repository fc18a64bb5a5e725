//! Groups of rows with their aggregates. Groups from several instances are merged into one set.

use crate::aggregate::Accumulator;
use crate::bound::Bound;
use crate::memory;
use crate::place::encode_key;
use crate::program::{AggregateCall, Grouping};
use crate::row::Columns;
use crate::{Datum, SqlError};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// One group: the values of its keys, and what was seen of its rows.
pub type Group = (Vec<Datum>, Vec<Accumulator>);

/// Groups while rows are added.
pub struct Groups<'g> {
    grouping: &'g Grouping,
    /// By the encoded keys, in which equal values are equal bytes.
    places: HashMap<Vec<u8>, usize>,
    groups: Vec<Group>,
    /// The bytes of memory that are left for them.
    left: usize,
    most: usize,
}

impl<'g> Groups<'g> {
    /// Without keys there is one group, even if no row is added.
    pub fn new(grouping: &'g Grouping) -> Groups<'g> {
        Groups::within(memory::MOST, grouping)
    }

    /// Groups that need no more than so many bytes of memory.
    fn within(most: usize, grouping: &'g Grouping) -> Groups<'g> {
        let mut groups = Groups { grouping, places: HashMap::new(), groups: Vec::new(), left: most, most };
        if grouping.keys.is_empty() {
            groups.at(Vec::new());
        }
        groups
    }

    /// The place of the group with these keys, and the bytes of memory that a new one takes.
    fn at(&mut self, keys: Vec<Datum>) -> (usize, usize) {
        match self.places.entry(encode_key(&keys)) {
            Entry::Occupied(place) => (*place.get(), 0),
            Entry::Vacant(place) => {
                let new = |call: &AggregateCall| Accumulator::new(call.function, call.distinct, call.ty);
                let accumulators: Vec<Accumulator> = self.grouping.aggregates.iter().map(new).collect();
                let bytes = place.key().len() + memory::size(&keys) + size_of_val(&*accumulators);
                self.groups.push((keys, accumulators));
                (*place.insert(self.groups.len() - 1), bytes)
            }
        }
    }

    fn takes(&mut self, bytes: usize) -> Result<(), SqlError> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| memory::exceeded(self.most))?;
        Ok(())
    }

    /// Adds a row to its group.
    ///
    /// # Errors
    /// As the grouping's expressions and aggregates have them; `53200` for too much memory.
    pub fn add(&mut self, bound: &Bound, row: &dyn Columns) -> Result<(), SqlError> {
        let (cx, grouping) = (bound.context(), self.grouping);
        let keys = grouping.keys.iter().map(|key| key.eval(&cx, row)).collect::<Result<_, SqlError>>()?;
        let (place, mut bytes) = self.at(keys);
        for (call, accumulator) in grouping.aggregates.iter().zip(&mut self.groups[place].1) {
            if let Some(filter) = &call.filter
                && !filter.is_true(&cx, row)?
            {
                continue;
            }
            let args = call.args.iter().map(|arg| arg.eval(&cx, row));
            bytes += accumulator.add(&args.collect::<Result<Vec<Datum>, SqlError>>()?)?;
        }
        self.takes(bytes)
    }

    /// Adds groups of other rows.
    ///
    /// # Errors
    /// As the aggregates have them; `53200` for too much memory.
    pub fn merge(&mut self, others: Vec<Group>) -> Result<(), SqlError> {
        for (keys, accumulators) in others {
            let (place, new) = self.at(keys);
            self.takes(new + accumulators.iter().map(Accumulator::bytes).sum::<usize>())?;
            for (mine, other) in self.groups[place].1.iter_mut().zip(accumulators) {
                mine.merge(other)?;
            }
        }
        Ok(())
    }

    pub fn into_groups(self) -> Vec<Group> {
        self.groups
    }

    /// One row for each group: its keys, then its aggregates.
    ///
    /// # Errors
    /// As the aggregates have them.
    pub fn finish(self) -> Result<Vec<Vec<Datum>>, SqlError> {
        let row = |(mut row, accumulators): Group| {
            for accumulator in accumulators {
                row.push(accumulator.finish()?);
            }
            Ok(row)
        };
        self.groups.into_iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::Aggregate;
    use crate::{Expr, SqlState, SqlType};

    fn grouping(function: Aggregate, distinct: bool, keys: Vec<Expr>) -> Grouping {
        let separator = (function == Aggregate::StringAgg).then(|| Expr::Const(Datum::Text(",".into())));
        let args = [Expr::Column(0)].into_iter().chain(separator).collect();
        let call = AggregateCall { function, args, distinct, filter: None, ty: SqlType::Text };
        Grouping { keys, aggregates: vec![call] }
    }

    /// As many rows of texts of 100 bytes as go into the groups within so many bytes; at most 1000.
    fn rows_within(most: usize, grouping: &Grouping, row: impl Fn(usize) -> Vec<Datum>) -> usize {
        let (bound, mut groups) = (Bound::default(), Groups::within(most, grouping));
        for count in 0..1000 {
            match groups.add(&bound, &row(count)) {
                Ok(()) => {}
                Err(error) => {
                    assert_eq!(error.state, SqlState(*b"53200"));
                    return count;
                }
            }
        }
        1000
    }

    fn text(number: usize) -> Vec<Datum> {
        vec![Datum::Text(format!("{number:0100}"))]
    }

    #[test]
    fn what_aggregates_gather_has_a_limit() {
        for (function, distinct) in [
            (Aggregate::StringAgg, false),
            (Aggregate::ArrayAgg, false),
            (Aggregate::ArrayAgg, true),
            (Aggregate::Count, true),
        ] {
            let grouping = grouping(function, distinct, Vec::new());
            let rows = rows_within(10_000, &grouping, text);
            assert!((30..=100).contains(&rows), "{function:?}, distinct {distinct}: {rows} rows");
        }
    }

    #[test]
    fn groups_have_a_limit_and_rows_that_leave_nothing_have_none() {
        let of_each = grouping(Aggregate::Max, false, vec![Expr::Column(0)]);
        assert!((10..=100).contains(&rows_within(10_000, &of_each, text)));
        assert_eq!(rows_within(10_000, &of_each, |number| text(number % 9)), 1000);
        let of_all = grouping(Aggregate::Max, false, Vec::new());
        assert_eq!(rows_within(10_000, &of_all, text), 1000);
        let distinct = grouping(Aggregate::Count, true, Vec::new());
        assert_eq!(rows_within(10_000, &distinct, |number| text(number % 9)), 1000);
    }

    #[test]
    fn groups_of_several_instances_have_one_limit() {
        for distinct in [false, true] {
            let grouping = grouping(Aggregate::ArrayAgg, distinct, Vec::new());
            let part = |from: usize| {
                let mut groups = Groups::new(&grouping);
                (from..from + 30).for_each(|at| groups.add(&Bound::default(), &text(at)).unwrap());
                groups.into_groups()
            };
            let mut all = Groups::within(10_000, &grouping);
            all.merge(part(0)).unwrap();
            let error = (1..4).find_map(|at| all.merge(part(30 * at)).err());
            assert_eq!(error.map(|error| error.state), Some(SqlState(*b"53200")));
        }
    }
}
