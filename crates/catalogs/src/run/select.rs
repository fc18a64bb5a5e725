//! Selects: filters, groups, windows, sets, distinct rows.

use super::{Env, Extra, Run, distinct, row_key};
use crate::plan::{Aggregate, Ex, Op, Select, Source, Window, conjuncts};
use crate::relations::Row;
use crate::value::{Value, compare, compare_nulls_last, key};
use sql::SqlError;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

impl Run<'_> {
    pub(super) fn select(&self, select: &Select, outer: Option<&Env<'_>>) -> Result<Vec<Row>, SqlError> {
        let rows = self.filtered(select.from.as_ref(), select.filter.as_ref(), &[], outer)?;
        let groups = if select.is_grouped { self.groups(select, rows, outer)? } else { plain(rows) };
        let mut kept = Vec::with_capacity(groups.len());
        for (row, aggregates) in groups {
            let extra = Extra { aggregates: &aggregates, ..Extra::default() };
            let env = Env { row: &row, extra, parent: outer };
            let holds = match &select.having {
                Some(having) => self.value(having, &env)?.is_true(),
                None => true,
            };
            if holds {
                kept.push((row, aggregates));
            }
        }
        let windows = self.windows(&select.windows, &kept, outer)?;
        let mut output = Vec::with_capacity(kept.len());
        for (at, (row, aggregates)) in kept.iter().enumerate() {
            let extra = Extra { aggregates, windows: &windows[at], sets: &[] };
            self.output(select, &Env { row, extra, parent: outer }, &mut output)?;
        }
        if !select.distinct_on.is_empty() {
            let width = select.items.len();
            // The keys were put behind the items.
            let mut seen = HashSet::new();
            output.retain(|row: &Row| seen.insert(row_key(&row[width..])));
            output.iter_mut().for_each(|row| row.truncate(width));
        }
        if select.distinct {
            distinct(&mut output, usize::MAX);
        }
        Ok(output)
    }

    /// The rows of a source that meet a condition; one without columns where there is no source.
    pub(super) fn filtered(
        &self,
        source: Option<&Source>,
        condition: Option<&Ex>,
        left: &[Value],
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<Row>, SqlError> {
        let holds = |row: &[Value]| match condition {
            Some(condition) => {
                let env = Env { row, extra: Extra::default(), parent: outer };
                Ok(self.value(condition, &env)?.is_true())
            }
            None => Ok(true),
        };
        let Some(source) = source else {
            return Ok(if holds(&[])? { vec![Vec::new()] } else { Vec::new() });
        };
        let rows = match (source, condition) {
            (Source::Relation(number), Some(condition)) => {
                self.by_lookup(*number, condition, outer)?.map(Rc::new)
            }
            _ => None,
        };
        let rows = match rows {
            Some(rows) => rows,
            None => self.source(source, left, outer)?,
        };
        let mut kept = Vec::new();
        for row in rows.iter() {
            self.step()?;
            if holds(row)? {
                kept.push(row.clone());
            }
        }
        Ok(kept)
    }

    /// Rows of a relation of which a column equals a value from outside; `None` if the condition
    /// asks for none.
    fn by_lookup(
        &self,
        number: usize,
        filter: &Ex,
        outer: Option<&Env<'_>>,
    ) -> Result<Option<Vec<Row>>, SqlError> {
        let mut parts = Vec::new();
        conjuncts(filter.clone(), &mut parts);
        for part in &parts {
            let Ex::Binary(Op::Equal, a, b) = part else { continue };
            let (column, value) = match (a.as_ref(), b.as_ref()) {
                (Ex::Column { depth: 0, at }, value) | (value, Ex::Column { depth: 0, at }) => (*at, value),
                _ => continue,
            };
            if value.columns().is_none_or(|columns| !columns.is_empty()) {
                continue;
            }
            let env = Env { row: &[], extra: Extra::default(), parent: outer };
            let value = self.value(value, &env)?;
            let rows = self.relation(number);
            let found = self.lookup(number, column).get(&key(&value)).cloned().unwrap_or_default();
            return Ok(Some(found.into_iter().map(|at| rows[at].clone()).collect()));
        }
        Ok(None)
    }

    /// Each group's first row, and its aggregates.
    fn groups(
        &self,
        select: &Select,
        rows: Vec<Row>,
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<(Row, Vec<Value>)>, SqlError> {
        let mut order: Vec<String> = Vec::new();
        let mut groups: HashMap<String, Vec<Row>> = HashMap::new();
        for row in rows {
            let env = Env { row: &row, extra: Extra::default(), parent: outer };
            let keys = select.keys.iter().map(|key| self.value(key, &env)).collect::<Result<Vec<_>, _>>()?;
            let key = row_key(&keys);
            let group = groups.entry(key.clone()).or_default();
            if group.is_empty() {
                order.push(key);
            }
            group.push(row);
        }
        if select.keys.is_empty() && order.is_empty() {
            order.push(String::new());
        }
        let mut done = Vec::with_capacity(order.len());
        for key in order {
            let rows = groups.remove(&key).unwrap_or_default();
            let values = select.aggregates.iter().map(|aggregate| self.aggregate(aggregate, &rows, outer));
            let values = values.collect::<Result<Vec<_>, _>>()?;
            // Without rows, all columns of the row are null.
            done.push((rows.into_iter().next().unwrap_or_else(|| vec![Value::Null; 512]), values));
        }
        Ok(done)
    }

    fn aggregate(
        &self,
        aggregate: &Aggregate,
        rows: &[Row],
        outer: Option<&Env<'_>>,
    ) -> Result<Value, SqlError> {
        let mut all: Vec<(Vec<Value>, Vec<Value>)> = Vec::new();
        for row in rows {
            let env = Env { row, extra: Extra::default(), parent: outer };
            if let Some(filter) = &aggregate.filter
                && !self.value(filter, &env)?.is_true()
            {
                continue;
            }
            let args =
                aggregate.args.iter().map(|arg| self.value(arg, &env)).collect::<Result<Vec<_>, _>>()?;
            let keys = aggregate.order.iter().map(|(key, _)| self.value(key, &env));
            all.push((keys.collect::<Result<_, _>>()?, args));
        }
        let descending: Vec<bool> = aggregate.order.iter().map(|(_, descending)| *descending).collect();
        all.sort_by(|(a, _), (b, _)| by_keys(a, b, &descending));
        if aggregate.distinct {
            let mut seen = HashSet::new();
            all.retain(|(_, args)| seen.insert(row_key(args)));
        }
        let args: Vec<Vec<Value>> = all.into_iter().map(|(_, args)| args).collect();
        Ok(folded(&aggregate.name, args))
    }

    /// The values of the windows, for each row.
    fn windows(
        &self,
        windows: &[Window],
        rows: &[(Row, Vec<Value>)],
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<Vec<Value>>, SqlError> {
        let mut values = vec![Vec::new(); rows.len()];
        for window in windows {
            let mut partitions: HashMap<String, Vec<(Vec<Value>, usize)>> = HashMap::new();
            for (at, (row, aggregates)) in rows.iter().enumerate() {
                let extra = Extra { aggregates, ..Extra::default() };
                let env = Env { row, extra, parent: outer };
                let of = |ex: &Ex| self.value(ex, &env);
                let partition = window.partition.iter().map(of).collect::<Result<Vec<_>, _>>()?;
                let keys = window.order.iter().map(|(key, _)| of(key)).collect::<Result<Vec<_>, _>>()?;
                partitions.entry(row_key(&partition)).or_default().push((keys, at));
            }
            let descending: Vec<bool> = window.order.iter().map(|(_, descending)| *descending).collect();
            for mut partition in partitions.into_values() {
                partition.sort_by(|(a, _), (b, _)| by_keys(a, b, &descending));
                let count = partition.len() as i64;
                let mut rank = 1;
                for (place, (keys, at)) in partition.iter().enumerate() {
                    let place_number = place as i64 + 1;
                    if place > 0 && by_keys(&partition[place - 1].0, keys, &descending).is_ne() {
                        rank = place_number;
                    }
                    let value = match window.name.as_str() {
                        "rank" => rank,
                        "count" => count,
                        _ => place_number,
                    };
                    values[*at].push(Value::Int(value));
                }
            }
        }
        Ok(values)
    }

    /// The output of a row: several rows if it has functions of sets.
    fn output(&self, select: &Select, env: &Env<'_>, output: &mut Vec<Row>) -> Result<(), SqlError> {
        let mut sets = Vec::with_capacity(select.sets.len());
        for set in &select.sets {
            sets.push(self.elements(set, env)?);
        }
        let count = if sets.is_empty() { 1 } else { sets.iter().map(Vec::len).max().unwrap_or(0) };
        for at in 0..count {
            let values: Vec<Value> =
                sets.iter().map(|set| set.get(at).cloned().unwrap_or_default()).collect();
            let extra = Extra { sets: &values, ..env.extra };
            let env = Env { extra, ..*env };
            let items = select.items.iter().chain(&select.distinct_on);
            output.push(items.map(|item| self.value(item, &env)).collect::<Result<_, _>>()?);
        }
        Ok(())
    }
}

fn plain(rows: Vec<Row>) -> Vec<(Row, Vec<Value>)> {
    rows.into_iter().map(|row| (row, Vec::new())).collect()
}

fn by_keys(a: &[Value], b: &[Value], descending: &[bool]) -> Ordering {
    let orders = a.iter().zip(b).zip(descending).map(|((a, b), descending)| {
        let order = compare_nulls_last(a, b);
        if *descending { order.reverse() } else { order }
    });
    orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// An aggregate of the arguments of all rows.
fn folded(name: &str, args: Vec<Vec<Value>>) -> Value {
    if name == "count" {
        let counted = |args: &&Vec<Value>| args.first().is_none_or(|arg| !arg.is_null());
        return Value::Int(args.iter().filter(counted).count() as i64);
    }
    if name == "array_agg" {
        let items: Vec<Value> = args.into_iter().filter_map(|args| args.into_iter().next()).collect();
        return if items.is_empty() { Value::Null } else { Value::Array(items) };
    }
    let separator = args.first().and_then(|args| args.get(1)).map(Value::to_text).unwrap_or_default();
    let values: Vec<Value> = args
        .into_iter()
        .filter_map(|args| args.into_iter().next())
        .filter(|value| !value.is_null())
        .collect();
    if values.is_empty() {
        return Value::Null;
    }
    match name {
        "sum" => Value::Int(values.iter().filter_map(Value::as_int).sum()),
        "min" => values.into_iter().min_by(compare).unwrap_or_default(),
        "max" => values.into_iter().max_by(compare).unwrap_or_default(),
        "bool_and" | "every" => Value::Bool(values.iter().all(Value::is_true)),
        "bool_or" => Value::Bool(values.iter().any(Value::is_true)),
        "json_agg" => {
            let texts: Vec<String> = values.iter().map(Value::to_text).collect();
            Value::Text(format!("[{}]", texts.join(", ")))
        }
        _ => {
            let texts: Vec<String> = values.iter().map(Value::to_text).collect();
            Value::Text(texts.join(&separator))
        }
    }
}
