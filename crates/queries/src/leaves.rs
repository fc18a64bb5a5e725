//! The leaves of `FROM`: the rows of tables, queries, common table expressions and functions.

use crate::row::{Frame, Row, Rows, Tuple, internal, key_of};
use crate::run::Run;
use crate::select::At;
use compiler::tree::{Leaf, Source};
use sql::compare::compare;
use sql::expression::BinaryOp;
use sql::{Datum, Expr, SqlError, SqlState, SqlType};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::rc::Rc;

/// The positions of a source's rows by the values that a leaf looks for.
pub type Index = HashMap<Vec<u8>, Vec<u32>>;

impl<'r> Run<'r> {
    /// The joined rows of a leaf: `base` with each of its rows that meets the conditions.
    pub fn leaf(&self, leaf: &'r Leaf, at: &At<'_, 'r>, base: &Tuple) -> Result<Vec<Tuple>, SqlError> {
        let place = usize::from(leaf.relation);
        let mut tuple = base.clone();
        let mut kept = Vec::new();
        let is_kept = matches!(leaf.source, Source::Scan(_) | Source::With(_));
        let rows = self.source(leaf, at, base)?;
        if is_kept && !leaf.lookup.is_empty() {
            let index = self.index(leaf, &rows, at)?;
            let outside: Vec<Datum> = {
                let frame = at.frame(self, base);
                leaf.lookup.iter().map(|(_, value)| self.eval(value, &frame)).collect::<Result<_, _>>()?
            };
            let found = key_of(&outside).and_then(|key| index.get(&key));
            for number in found.into_iter().flatten() {
                tuple[place] = Some(Rc::clone(&rows[*number as usize]));
                if self.hold(&leaf.conditions, &at.frame(self, &tuple))? {
                    kept.push(self.joined(tuple.clone())?);
                }
            }
            return Ok(kept);
        }
        for row in rows.iter() {
            self.step()?;
            tuple[place] = Some(Rc::clone(row));
            let frame = at.frame(self, &tuple);
            if self.hold(&leaf.conditions, &frame)? && self.equal(&leaf.lookup, &frame)? {
                kept.push(self.joined(tuple.clone())?);
            }
        }
        Ok(kept)
    }

    fn equal(&self, pairs: &[(Expr, Expr)], frame: &Frame<'_, 'r>) -> Result<bool, SqlError> {
        for (a, b) in pairs {
            let (a, b) = (self.eval(a, frame)?, self.eval(b, frame)?);
            if a.is_null() || b.is_null() || compare(&a, &b) != Ordering::Equal {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn index(&self, leaf: &'r Leaf, rows: &Rows, at: &At<'_, 'r>) -> Result<Rc<Index>, SqlError> {
        let address: *const Leaf = leaf;
        if let Some(index) = self.indexes.borrow().get(&address) {
            return Ok(Rc::clone(index));
        }
        let mut index = Index::new();
        let mut tuple = at.empty();
        for (row, number) in rows.iter().zip(0_u32..) {
            self.step()?;
            tuple[usize::from(leaf.relation)] = Some(Rc::clone(row));
            let frame = at.frame(self, &tuple);
            let own = leaf.lookup.iter().map(|(own, _)| self.eval(own, &frame));
            if let Some(key) = key_of(&own.collect::<Result<Vec<_>, _>>()?) {
                self.keeps(key.len() + 48)?;
                index.entry(key).or_default().push(number);
            }
        }
        let index = Rc::new(index);
        self.indexes.borrow_mut().insert(address, Rc::clone(&index));
        Ok(index)
    }

    fn source(&self, leaf: &'r Leaf, at: &At<'_, 'r>, base: &Tuple) -> Result<Rows, SqlError> {
        match &leaf.source {
            Source::Scan(number) => {
                self.scans.get(*number).cloned().ok_or_else(|| internal("a table was not read"))
            }
            Source::With(number) => self.with(*number),
            Source::Working(number) => {
                let working = self.working.borrow().get(*number).cloned().flatten();
                working.ok_or_else(|| internal("a recursive query has no rows so far"))
            }
            Source::Query { query, is_lateral: false } => Ok(Rc::new(self.query(query, at.outer)?)),
            Source::Query { query, is_lateral: true } => {
                Ok(Rc::new(self.query(query, Some(&at.frame(self, base)))?))
            }
            Source::Series { .. } | Source::Elements(_) | Source::Numbered(_) => {
                let around = at.frame(self, base);
                Ok(Rc::new(self.made_rows(&leaf.source, &Frame::bare(self, Some(&around)))?))
            }
        }
    }

    /// The rows of a function.
    fn made_rows(&self, source: &Source, frame: &Frame<'_, 'r>) -> Result<Vec<Row>, SqlError> {
        match source {
            Source::Series { args, ty } => self.series(self.all(args, frame)?, *ty),
            Source::Elements(arrays) => {
                let mut columns = Vec::with_capacity(arrays.len());
                for (array, ty) in arrays {
                    columns.push(elements(&self.eval(array, frame)?, *ty)?);
                }
                let count = columns.iter().map(Vec::len).max().unwrap_or(0);
                let value = |column: &Vec<Datum>, at: usize| column.get(at).cloned().unwrap_or(Datum::Null);
                (0..count)
                    .map(|at| self.made(columns.iter().map(|column| value(column, at)).collect()))
                    .collect()
            }
            Source::Numbered(source) => {
                let rows = self.made_rows(source, frame)?;
                let numbered = rows.iter().zip(1..).map(|(row, number)| {
                    self.made(row.iter().cloned().chain([Datum::Int(number)]).collect())
                });
                numbered.collect()
            }
            _ => Err(internal("a function without rows")),
        }
    }

    /// `generate_series`.
    fn series(&self, args: Vec<Datum>, ty: SqlType) -> Result<Vec<Row>, SqlError> {
        let Ok([from, to, step]) = <[Datum; 3]>::try_from(args) else {
            return Err(internal("a series has three arguments"));
        };
        if from.is_null() || to.is_null() || step.is_null() {
            return Ok(Vec::new());
        }
        let zero = match &step {
            Datum::Interval(_) => Datum::Interval(sql::value::Interval::default()),
            _ => Datum::Int(0),
        };
        let way = compare(&step, &zero);
        if way == Ordering::Equal {
            return Err(SqlError::new(SqlState::INVALID_PARAMETER, "step size cannot equal zero"));
        }
        let context = self.context();
        let mut rows = Vec::new();
        let mut value = from;
        while compare(&value, &to) != way {
            rows.push(self.made(vec![value.clone()])?);
            let next = Expr::Binary {
                op: BinaryOp::Add,
                left: Expr::Const(value).into(),
                right: Expr::Const(step.clone()).into(),
                ty,
            };
            value = match next.eval(&context, &Vec::<Datum>::new()) {
                Ok(value) => value,
                // The last number of the type.
                Err(error) if error.state == SqlState::NUMERIC_OUT_OF_RANGE => break,
                Err(error) => return Err(error),
            };
        }
        Ok(rows)
    }
}

/// The values of an array's elements; none of a null.
fn elements(array: &Datum, ty: SqlType) -> Result<Vec<Datum>, SqlError> {
    let Datum::Text(text) = array else { return Ok(Vec::new()) };
    let one = |text: Option<String>| text.map_or(Ok(Datum::Null), |text| sql::text::read(ty, &text));
    sql::array::elements(text)?.into_iter().map(one).collect()
}
