//! Groups of rows with their aggregates. Groups from several instances are merged into one set.

use crate::aggregate::Accumulator;
use crate::bound::Bound;
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
}

impl<'g> Groups<'g> {
    /// Without keys there is one group, even if no row is added.
    pub fn new(grouping: &'g Grouping) -> Groups<'g> {
        let mut groups = Groups { grouping, places: HashMap::new(), groups: Vec::new() };
        if grouping.keys.is_empty() {
            groups.at(Vec::new());
        }
        groups
    }

    /// The accumulators of the group with these keys.
    fn at(&mut self, keys: Vec<Datum>) -> &mut Vec<Accumulator> {
        let place = match self.places.entry(encode_key(&keys)) {
            Entry::Occupied(place) => *place.get(),
            Entry::Vacant(place) => {
                let new = |call: &AggregateCall| Accumulator::new(call.function, call.distinct, call.ty);
                self.groups.push((keys, self.grouping.aggregates.iter().map(new).collect()));
                *place.insert(self.groups.len() - 1)
            }
        };
        &mut self.groups[place].1
    }

    /// Adds a row to its group.
    ///
    /// # Errors
    /// As the grouping's expressions and aggregates have them.
    pub fn add(&mut self, bound: &Bound, row: &dyn Columns) -> Result<(), SqlError> {
        let (cx, grouping) = (bound.context(), self.grouping);
        let keys = grouping.keys.iter().map(|key| key.eval(&cx, row)).collect::<Result<_, SqlError>>()?;
        for (call, accumulator) in grouping.aggregates.iter().zip(self.at(keys)) {
            if let Some(filter) = &call.filter
                && !filter.is_true(&cx, row)?
            {
                continue;
            }
            let args = call.args.iter().map(|arg| arg.eval(&cx, row));
            accumulator.add(&args.collect::<Result<Vec<Datum>, SqlError>>()?)?;
        }
        Ok(())
    }

    /// Adds groups of other rows.
    ///
    /// # Errors
    /// As the aggregates have them.
    pub fn merge(&mut self, others: Vec<Group>) -> Result<(), SqlError> {
        for (keys, accumulators) in others {
            for (mine, other) in self.at(keys).iter_mut().zip(accumulators) {
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
