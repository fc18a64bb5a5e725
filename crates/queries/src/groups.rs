//! Groups of joined rows, and their aggregates.

use crate::query::ordered;
use crate::row::{Tuple, size};
use crate::run::Run;
use crate::select::{At, Candidate};
use compiler::tree::{Aggregated, Grouping};
use sql::aggregate::Accumulator;
use sql::place::encode_key;
use sql::{Datum, SqlError};
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
    /// Each group's first row with its aggregates. Without keys there is one group.
    pub fn groups(
        &self,
        grouping: &'r Grouping,
        tuples: Vec<Tuple>,
        at: &At<'_, 'r>,
    ) -> Result<Vec<Candidate>, SqlError> {
        let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut groups: Vec<Group> = Vec::new();
        let new = |first| Group { first, seen: grouping.aggregates.iter().map(seen).collect() };
        if grouping.keys.is_empty() {
            places.insert(Vec::new(), 0);
            groups.push(new(at.empty()));
        }
        for (number, tuple) in tuples.into_iter().enumerate() {
            self.step()?;
            let frame = at.frame(self, &tuple);
            let key = encode_key(&self.all(&grouping.keys, &frame)?);
            let bytes = key.len();
            let place = match places.entry(key) {
                Entry::Occupied(place) => *place.get(),
                Entry::Vacant(place) => {
                    self.takes(bytes + 64 + 128 * grouping.aggregates.len())?;
                    groups.push(new(tuple.clone()));
                    *place.insert(groups.len() - 1)
                }
            };
            if number == 0 && grouping.keys.is_empty() {
                groups[place].first = tuple.clone();
            }
            let frame = at.frame(self, &tuple);
            for (aggregate, seen) in grouping.aggregates.iter().zip(&mut groups[place].seen) {
                if !self.hold(&aggregate.call.filter, &frame)? {
                    continue;
                }
                let args = self.all(&aggregate.call.args, &frame)?;
                match seen {
                    Seen::Folded(accumulator) => {
                        if aggregate.call.distinct {
                            self.takes(size(&args))?;
                        }
                        accumulator.add(&args)?;
                    }
                    Seen::Ordered(rows) => {
                        let exprs = aggregate.order.iter().map(|by| self.eval(&by.expr, &frame));
                        let keys = exprs.collect::<Result<Vec<_>, _>>()?;
                        self.takes(size(&args) + size(&keys))?;
                        rows.push((keys, args));
                    }
                }
            }
        }
        let finish = |group: Group| {
            let values = group.seen.into_iter().zip(&grouping.aggregates);
            let aggregates = values.map(|(seen, aggregate)| finished(seen, aggregate));
            Ok(Candidate { tuple: group.first, aggregates: aggregates.collect::<Result<_, SqlError>>()? })
        };
        groups.into_iter().map(finish).collect()
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

fn finished(seen: Seen, aggregate: &Aggregated) -> Result<Datum, SqlError> {
    let mut rows = match seen {
        Seen::Folded(accumulator) => return accumulator.finish(),
        Seen::Ordered(rows) => rows,
    };
    rows.sort_by(|(a, _), (b, _)| {
        let orders = a.iter().zip(b).zip(&aggregate.order);
        let orders = orders.map(|((a, b), by)| ordered(a, b, by.descending, by.nulls_first));
        orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    if aggregate.call.distinct {
        rows.dedup_by(|(_, a), (_, b)| encode_key(a) == encode_key(b));
    }
    let mut accumulator = Accumulator::new(aggregate.call.function, false, aggregate.call.ty);
    for (_, args) in rows {
        accumulator.add(&args)?;
    }
    accumulator.finish()
}
