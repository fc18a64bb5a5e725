//! Groups of joined rows, and their aggregates.

use crate::query::ordered;
use crate::row::{Frame, Tuple};
use crate::run::Run;
use crate::select::{At, Candidate};
use crate::within;
use compiler::tree::{Aggregated, Grouping};
use sql::aggregate::Accumulator;
use sql::memory::size;
use sql::place::encode_key;
use sql::{Datum, Expr, SqlError};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// What a group has seen of one aggregate's arguments.
enum Seen {
    Folded(Accumulator),
    /// Keys of the order, and arguments: they are folded in the end.
    Ordered(Vec<(Vec<Datum>, Vec<Datum>)>),
}

struct Group {
    first: Tuple,
    seen: Vec<Seen>,
}

impl<'r> Run<'r> {
    /// Each group's first row with its aggregates, for each set of keys.
    pub fn groups(
        &self,
        grouping: &'r Grouping,
        tuples: Vec<Tuple>,
        at: &At<'_, 'r>,
    ) -> Result<Vec<Candidate>, SqlError> {
        if grouping.sets.is_empty() {
            let keys: Vec<&Expr> = grouping.keys.iter().collect();
            return self.grouped(grouping, &keys, &tuples, at);
        }
        let mut all = Vec::new();
        for set in &grouping.sets {
            let keys: Vec<&Expr> = set.keys.iter().filter_map(|key| grouping.keys.get(*key)).collect();
            for mut group in self.grouped(grouping, &keys, &tuples, at)? {
                let mut values = vec![Datum::Null; grouping.keys.len()];
                let frame = at.frame(self, &group.tuple);
                for (place, key) in set.keys.iter().zip(&keys) {
                    values[*place] = self.eval(key, &frame)?;
                }
                self.takes(size(&values))?;
                group.aggregates.extend(values);
                group.aggregates.extend(set.groupings.iter().copied().map(Datum::Int));
                all.push(group);
            }
        }
        Ok(all)
    }

    /// The groups of one set of keys. Without keys there is one group.
    fn grouped(
        &self,
        grouping: &'r Grouping,
        keys: &[&Expr],
        tuples: &[Tuple],
        at: &At<'_, 'r>,
    ) -> Result<Vec<Candidate>, SqlError> {
        let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut groups: Vec<Group> = Vec::new();
        let new = |first| Group { first, seen: grouping.aggregates.iter().map(seen).collect() };
        if keys.is_empty() {
            places.insert(Vec::new(), 0);
            groups.push(new(tuples.first().cloned().unwrap_or_else(|| at.empty())));
        }
        for tuple in tuples {
            self.step()?;
            let frame = at.frame(self, tuple);
            let values = keys.iter().map(|key| self.eval(key, &frame));
            let key = encode_key(&values.collect::<Result<Vec<_>, _>>()?);
            let bytes = key.len();
            let place = match places.entry(key) {
                Entry::Occupied(place) => *place.get(),
                Entry::Vacant(place) => {
                    self.takes(bytes + 64 + 128 * grouping.aggregates.len())?;
                    groups.push(new(tuple.clone()));
                    *place.insert(groups.len() - 1)
                }
            };
            for (aggregate, seen) in grouping.aggregates.iter().zip(&mut groups[place].seen) {
                self.see(aggregate, seen, &frame)?;
            }
        }
        let finish = |group: Group| {
            let values = group.seen.into_iter().zip(&grouping.aggregates);
            let aggregates = values.map(|(seen, aggregate)| self.finished(seen, aggregate));
            Ok(Candidate { tuple: group.first, aggregates: aggregates.collect::<Result<_, SqlError>>()? })
        };
        groups.into_iter().map(finish).collect()
    }

    /// Adds a row to what an aggregate has seen.
    fn see(&self, aggregate: &Aggregated, seen: &mut Seen, frame: &Frame<'_, 'r>) -> Result<(), SqlError> {
        if !self.hold(&aggregate.call.filter, frame)? {
            return Ok(());
        }
        let args = self.all(&aggregate.call.args, frame)?;
        match seen {
            Seen::Folded(accumulator) => self.takes(accumulator.add(&args)?),
            Seen::Ordered(rows) => {
                let exprs = aggregate.order.iter().map(|by| self.eval(&by.expr, frame));
                let keys = exprs.collect::<Result<Vec<_>, _>>()?;
                self.takes(size(&args) + size(&keys))?;
                rows.push((keys, args));
                Ok(())
            }
        }
    }

    fn finished(&self, seen: Seen, aggregate: &Aggregated) -> Result<Datum, SqlError> {
        let mut rows = match seen {
            Seen::Folded(accumulator) => return accumulator.finish(),
            Seen::Ordered(rows) => rows,
        };
        rows.sort_by(|(a, _), (b, _)| {
            let orders = a.iter().zip(b).zip(&aggregate.order);
            let orders = orders.map(|((a, b), by)| ordered(a, b, by.descending, by.nulls_first));
            orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        });
        let call = &aggregate.call;
        if within::is_of_order(call.function) {
            return within::value(&self.context(), call, rows);
        }
        if call.distinct {
            rows.dedup_by(|(_, a), (_, b)| encode_key(a) == encode_key(b));
        }
        let mut accumulator = Accumulator::new(call.function, false, call.ty);
        for (_, args) in rows {
            accumulator.add(&args)?;
        }
        accumulator.finish()
    }
}

fn seen(aggregate: &Aggregated) -> Seen {
    if aggregate.order.is_empty() {
        let call = &aggregate.call;
        Seen::Folded(Accumulator::new(call.function, call.distinct, call.ty))
    } else {
        Seen::Ordered(Vec::new())
    }
}
