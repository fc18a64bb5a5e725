//! Queries in expressions. Each is run once for all rows that have the same values in the columns
//! that it needs.

use crate::row::{Flat, Frame, Row, internal, key_of};
use crate::run::Run;
use compiler::tree::{Asked, Sub};
use sql::expression::BinaryOp;
use sql::memory::size;
use sql::{Datum, Expr, SqlError, SqlState, SqlType};
use std::collections::HashSet;
use std::rc::Rc;

/// What is known of a query for some values of the columns that it needs.
pub enum Known {
    Value(Datum),
    Values(Values),
    /// The right sides of a comparison, of each row.
    Rows(Vec<Vec<Datum>>),
}

/// The values in which one is looked for.
pub struct Values {
    keys: HashSet<Vec<u8>>,
    has_null: bool,
    /// The row values themselves, for one of which a part is null.
    rows: Vec<Vec<Datum>>,
}

impl<'r> Run<'r> {
    /// The value of a query in an expression over a row.
    pub fn sub(&self, number: usize, frame: &Frame<'_, 'r>) -> Result<Datum, SqlError> {
        let sub = self.tree.subs.get(number).ok_or_else(|| internal("no such sub-query"))?;
        let key = self.needs(sub, frame)?;
        let known = self.subs.borrow()[number].get(&key).cloned();
        let known = match known {
            Some(known) => known,
            None => {
                let mark = self.mark();
                let rows = self.query(&sub.query, Some(frame))?;
                let known = Rc::new(self.known(sub, rows)?);
                self.nothing_left(mark);
                self.keeps(key.len() + 64 + known.size())?;
                self.subs.borrow_mut()[number].insert(key, Rc::clone(&known));
                known
            }
        };
        match (&sub.what, known.as_ref()) {
            (_, Known::Value(value)) => Ok(value.clone()),
            (Asked::Comparison { op, all, left, .. }, Known::Values(values)) => {
                let left = self.all(left, frame)?;
                if left.len() > 1 && left.iter().any(Datum::is_null) {
                    return self.compared(*op, *all, &left, &values.rows);
                }
                let found = is_in(&left, values);
                let found = if *op == BinaryOp::NotEqual { found.map(|found| !found) } else { found };
                Ok(found.map_or(Datum::Null, Datum::Bool))
            }
            (Asked::Comparison { op, all, left, .. }, Known::Rows(rows)) => {
                let left = self.all(left, frame)?;
                self.compared(*op, *all, &left, rows)
            }
            _ => Err(internal("a sub-query of another kind")),
        }
    }

    /// The values that a sub-query needs of the rows around it, so that different ones are
    /// different bytes.
    fn needs(&self, sub: &Sub, frame: &Frame<'_, 'r>) -> Result<Vec<u8>, SqlError> {
        let mut key = Vec::new();
        for outer in &sub.free {
            let value = frame.outer(*outer)?;
            sql::key::append(&mut key, &value);
            // Values that are equal but not the same have texts of their own.
            match &value {
                Datum::Numeric(_) => {
                    key.extend(sql::text::to_string(SqlType::Numeric(None), &value).bytes());
                }
                Datum::Float(value) => key.extend(value.to_bits().to_le_bytes()),
                Datum::Interval(value) => key.extend(format!("{value:?}").bytes()),
                _ => {}
            }
        }
        Ok(key)
    }

    fn known(&self, sub: &Sub, rows: Vec<Row>) -> Result<Known, SqlError> {
        let (op, all, right) = match &sub.what {
            Asked::Array(element) => {
                let values = rows.iter().filter_map(|row| row.first());
                return Ok(Known::Value(sql::text::array_of(*element, values)));
            }
            Asked::Existence => return Ok(Known::Value(Datum::Bool(!rows.is_empty()))),
            Asked::Value if rows.len() > 1 => {
                let message = "more than one row returned by a subquery used as an expression";
                return Err(SqlError::new(SqlState::CARDINALITY, message));
            }
            Asked::Value => {
                let value = rows.first().and_then(|row| row.first());
                return Ok(Known::Value(value.cloned().unwrap_or(Datum::Null)));
            }
            Asked::Comparison { op, all, right, .. } => (*op, *all, right),
        };
        let context = self.context();
        let mut sides = Vec::with_capacity(rows.len());
        for row in &rows {
            let values = right.iter().map(|expr| expr.eval(&context, &Flat(row)));
            sides.push(values.collect::<Result<Vec<Datum>, SqlError>>()?);
        }
        let is_search = matches!((op, all), (BinaryOp::Equal, false) | (BinaryOp::NotEqual, true));
        let has_null = sides.iter().any(|values| values.iter().any(Datum::is_null));
        if is_search && (right.len() == 1 || !has_null) {
            let keys = sides.iter().filter_map(|values| key_of(values)).collect();
            let rows = if right.len() > 1 { sides } else { Vec::new() };
            return Ok(Known::Values(Values { keys, has_null, rows }));
        }
        Ok(Known::Rows(sides))
    }

    /// `left op ANY (rows)`, or `ALL`, with SQL's three-valued logic.
    fn compared(
        &self,
        op: BinaryOp,
        all: bool,
        left: &[Datum],
        rows: &[Vec<Datum>],
    ) -> Result<Datum, SqlError> {
        let context = self.context();
        let mut result = Datum::Bool(all);
        for right in rows {
            self.step()?;
            let mut equal = Datum::Bool(true);
            for (a, b) in left.iter().zip(right) {
                let (a, b) = (Expr::Const(a.clone()), Expr::Const(b.clone()));
                let is_row = left.len() > 1;
                let op = if is_row { BinaryOp::Equal } else { op };
                let compared = Expr::Binary { op, left: a.into(), right: b.into(), ty: SqlType::Bool };
                let value = compared.eval(&context, &Vec::<Datum>::new())?;
                match (&equal, value) {
                    (_, Datum::Bool(false)) => equal = Datum::Bool(false),
                    (Datum::Bool(true), Datum::Null) => equal = Datum::Null,
                    _ => {}
                }
            }
            if left.len() > 1
                && op == BinaryOp::NotEqual
                && let Datum::Bool(is_equal) = equal
            {
                equal = Datum::Bool(!is_equal);
            }
            match equal {
                Datum::Bool(holds) if holds != all => return Ok(Datum::Bool(holds)),
                Datum::Null => result = Datum::Null,
                _ => {}
            }
        }
        Ok(result)
    }
}

/// Whether values are among others; `None` if that is unknown.
fn is_in(left: &[Datum], values: &Values) -> Option<bool> {
    if values.keys.is_empty() && !values.has_null {
        return Some(false);
    }
    let key = key_of(left)?;
    if values.keys.contains(&key) { Some(true) } else { (!values.has_null).then_some(false) }
}

impl Known {
    fn size(&self) -> usize {
        match self {
            Known::Value(value) => size(std::slice::from_ref(value)),
            Known::Values(values) => {
                let keys: usize = values.keys.iter().map(|key| key.len() + 32).sum();
                keys + values.rows.iter().map(|row| size(row)).sum::<usize>()
            }
            Known::Rows(rows) => rows.iter().map(|row| size(row)).sum(),
        }
    }
}
