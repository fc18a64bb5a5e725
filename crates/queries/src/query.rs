//! Queries: their bodies, order and limits.

use crate::row::{Flat, Frame, Row, internal};
use crate::run::Run;
use compiler::tree::{Body, Distinct, Key, Query, Set, SetOp};
use sql::compare::compare;
use sql::memory::size;
use sql::place::encode_key;
use sql::{Datum, Expr, SqlError, SqlState};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

impl<'r> Run<'r> {
    /// The rows of a query. `outer` is the row around it.
    pub fn query(&self, query: &'r Query, outer: Option<&Frame<'_, 'r>>) -> Result<Vec<Row>, SqlError> {
        let mark = self.mark();
        let mut rows = match &query.body {
            Body::Select(select) => self.select(select, outer)?,
            Body::Values(values) => {
                let frame = Frame::bare(self, outer);
                let mut rows = Vec::with_capacity(values.len());
                for row in values {
                    rows.push(self.made(self.all(row, &frame)?)?);
                }
                rows
            }
            Body::Set(set) => self.set(set, outer)?,
            Body::Mapped(query, row) => self.mapped(self.query(query, outer)?, row)?,
            Body::First(query, columns) => {
                let mut rows = self.query(query, outer)?;
                let mut seen = HashSet::new();
                rows.retain(|row| seen.insert(encode_key(&row[..*columns])));
                rows
            }
        };
        if !query.order.is_empty() {
            rows.sort_by(|a, b| by_keys(a, b, &query.order));
        }
        if let Body::Select(select) = &query.body
            && let Distinct::On(columns) = &select.distinct
        {
            let mut seen = HashSet::new();
            rows.retain(|row| {
                let values: Vec<Datum> = columns.iter().map(|column| row[*column].clone()).collect();
                seen.insert(encode_key(&values))
            });
        }
        self.limit(query, &mut rows, outer)?;
        if rows.first().is_some_and(|row| row.len() > query.width) {
            rows.iter_mut().for_each(|row| *row = Row::from(&row[..query.width]));
        }
        self.left(mark, &rows);
        Ok(rows)
    }

    /// Counts a new row.
    pub fn made(&self, row: Vec<Datum>) -> Result<Row, SqlError> {
        self.step()?;
        self.takes(size(&row))?;
        Ok(Row::from(row))
    }

    fn limit(
        &self,
        query: &Query,
        rows: &mut Vec<Row>,
        outer: Option<&Frame<'_, 'r>>,
    ) -> Result<(), SqlError> {
        let frame = Frame::bare(self, outer);
        let count = |expr: &Option<Expr>, clause: &str, state: &[u8; 5]| {
            let Some(expr) = expr else { return Ok(None) };
            match self.eval(expr, &frame)? {
                Datum::Null => Ok(None),
                Datum::Int(count) => match usize::try_from(count) {
                    Ok(count) => Ok(Some(count)),
                    Err(_) => {
                        let message = format!("{clause} must not be negative");
                        Err(SqlError::new(SqlState(*state), message))
                    }
                },
                _ => Err(internal("a limit that is no number")),
            }
        };
        let limit = count(&query.limit, "LIMIT", b"2201W")?;
        let offset = count(&query.offset, "OFFSET", b"2201X")?;
        if let Some(offset) = offset {
            rows.drain(..offset.min(rows.len()));
        }
        if let Some(limit) = limit {
            rows.truncate(limit);
        }
        Ok(())
    }

    /// Other values in the columns of rows.
    fn mapped(&self, rows: Vec<Row>, row: &[Expr]) -> Result<Vec<Row>, SqlError> {
        let is_same = row.iter().enumerate().all(|(at, expr)| *expr == Expr::Column(at as u16));
        if is_same && rows.first().is_none_or(|first| first.len() == row.len()) {
            return Ok(rows);
        }
        let context = self.context();
        let mut mapped = Vec::with_capacity(rows.len());
        for old in rows {
            let values = row.iter().map(|expr| expr.eval(&context, &Flat(&old)));
            mapped.push(self.made(values.collect::<Result<Vec<_>, _>>()?)?);
        }
        Ok(mapped)
    }

    fn set(&self, set: &'r Set, outer: Option<&Frame<'_, 'r>>) -> Result<Vec<Row>, SqlError> {
        let mut left = self.mapped(self.query(&set.left, outer)?, &set.left_row)?;
        let right = self.mapped(self.query(&set.right, outer)?, &set.right_row)?;
        if set.op == SetOp::Union {
            left.extend(right);
            if !set.all {
                self.distinct(&mut left)?;
            }
            return Ok(left);
        }
        let mut counts: HashMap<Vec<u8>, usize> = HashMap::new();
        for row in &right {
            self.step()?;
            *counts.entry(encode_key(row)).or_default() += 1;
        }
        if !set.all {
            self.distinct(&mut left)?;
            left.retain(|row| counts.contains_key(&encode_key(row)) == (set.op == SetOp::Intersect));
            return Ok(left);
        }
        left.retain(|row| {
            let count = counts.get_mut(&*encode_key(row)).filter(|count| **count > 0);
            let is_there = count.is_some();
            count.into_iter().for_each(|count| *count -= 1);
            is_there == (set.op == SetOp::Intersect)
        });
        Ok(left)
    }

    /// Leaves the first of equal rows.
    pub fn distinct(&self, rows: &mut Vec<Row>) -> Result<(), SqlError> {
        let mut seen: HashSet<Vec<u8>> = HashSet::new();
        let mut kept = Vec::with_capacity(rows.len());
        for row in rows.drain(..) {
            self.step()?;
            let key = encode_key(&row);
            let bytes = key.len();
            if seen.insert(key) {
                self.takes(bytes + 32)?;
                kept.push(row);
            }
        }
        *rows = kept;
        Ok(())
    }
}

/// The order of two values: nulls are above all others, unless they come first.
pub fn ordered(a: &Datum, b: &Datum, descending: bool, nulls_first: bool) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) if nulls_first => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) if nulls_first => Ordering::Greater,
        (false, true) => Ordering::Less,
        _ if descending => compare(b, a),
        _ => compare(a, b),
    }
}

fn by_keys(a: &Row, b: &Row, keys: &[Key]) -> Ordering {
    let orders = keys.iter().map(|key| {
        let (a, b) = (a.get(key.column), b.get(key.column));
        ordered(a.unwrap_or(&Datum::Null), b.unwrap_or(&Datum::Null), key.descending, key.nulls_first)
    });
    orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}
