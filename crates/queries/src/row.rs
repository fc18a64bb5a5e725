//! Rows, joined rows, and how expressions read them.

use crate::run::Run;
use compiler::tree::{AGGREGATES, OUTER, Outer, Place, SUB, WINDOWS};
use sql::row::Columns;
use sql::{Datum, SqlError, SqlState};
use std::rc::Rc;

/// Shared by the joined rows that it is a part of.
pub type Row = Rc<[Datum]>;
pub type Rows = Rc<Vec<Row>>;

/// A joined row: the row of each relation. `None` is a row of nulls, or one that is not joined so
/// far.
pub type Tuple = Box<[Option<Row>]>;

pub fn internal(what: &str) -> SqlError {
    SqlError::new(SqlState::INTERNAL, format!("a query was planned badly: {what}"))
}

/// What an expression sees.
#[derive(Clone, Copy)]
pub struct Frame<'f, 'r> {
    pub run: &'f Run<'r>,
    pub places: &'f [Place],
    pub tuple: &'f [Option<Row>],
    pub aggregates: &'f [Datum],
    pub windows: &'f [Datum],
    /// The row around the query.
    pub parent: Option<&'f Frame<'f, 'r>>,
}

impl<'f, 'r> Frame<'f, 'r> {
    /// Without a row of its own.
    pub fn bare(run: &'f Run<'r>, parent: Option<&'f Frame<'f, 'r>>) -> Frame<'f, 'r> {
        Frame { run, places: &[], tuple: &[], aggregates: &[], windows: &[], parent }
    }

    /// A column of this row, or of one further out.
    pub fn outer(&self, outer: Outer) -> Result<Datum, SqlError> {
        let mut frame = self;
        for _ in 0..outer.depth {
            frame = frame.parent.ok_or_else(|| internal("no row is so far out"))?;
        }
        frame.own(outer.column)
    }

    fn own(&self, column: u16) -> Result<Datum, SqlError> {
        let place = self.places.get(usize::from(column)).ok_or_else(|| internal("no such column"))?;
        let row = self.tuple.get(usize::from(place.relation)).ok_or_else(|| internal("no such relation"))?;
        match row {
            Some(row) => {
                let value = row.get(usize::from(place.column));
                value.cloned().ok_or_else(|| internal("a column that was not read"))
            }
            None => Ok(Datum::Null),
        }
    }
}

impl Columns for Frame<'_, '_> {
    fn column(&self, position: u16) -> Result<Datum, SqlError> {
        let of = |values: &[Datum], first: u16| {
            let value = values.get(usize::from(position - first));
            value.cloned().ok_or_else(|| internal("no such value of the group"))
        };
        match position {
            ..OUTER => self.own(position),
            OUTER..SUB => self.outer(self.run.outer(position - OUTER)?),
            SUB..AGGREGATES => self.run.sub(usize::from(position - SUB), self),
            AGGREGATES..WINDOWS => of(self.aggregates, AGGREGATES),
            WINDOWS.. => of(self.windows, WINDOWS),
        }
    }
}

/// A row by itself, as an expression over a query's output sees it.
pub struct Flat<'a>(pub &'a [Datum]);

impl Columns for Flat<'_> {
    fn column(&self, position: u16) -> Result<Datum, SqlError> {
        self.0.column(position)
    }
}

/// The bytes by which equal values are equal; `None` if one of them is null.
pub fn key_of(values: &[Datum]) -> Option<Vec<u8>> {
    if values.iter().any(Datum::is_null) {
        return None;
    }
    Some(sql::place::encode_key(values))
}

/// The bytes of memory of a joined row, without the rows that it shares.
pub fn tuple_size(tuple: &[Option<Row>]) -> usize {
    32 + size_of_val(tuple)
}
