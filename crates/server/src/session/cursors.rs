//! Cursors: a query's rows, taken at once when the cursor is declared, and given in parts.

use super::block::Kind;
use super::carry::{Product, Reach, RowsTag};
use super::extended::MOST_NAMES;
use super::general::bytes_of;
use super::{Failure, Session, Stream};
use crate::engine::Engine;
use crate::language::Prepared;
use crate::outgoing::Field;
use compiler::Parsed;
use compiler::cursor::{Declared, Fetch, Way};
use sql::{Datum, SqlError, SqlState, SqlType};
use std::pin::Pin;

pub(super) struct Cursor {
    rows: Vec<Vec<Datum>>,
    /// The memory of its rows.
    bytes: usize,
    pub fields: Vec<Field>,
    pub types: Vec<SqlType>,
    /// 0 before the first row, the number of a row, or one more than there are.
    at: usize,
    scrolls: bool,
    holds: bool,
    /// Whether the transaction that declared it has committed.
    pub is_held: bool,
}

fn no_cursor(name: &str) -> SqlError {
    SqlError::new(SqlState(*b"34000"), format!("cursor \"{name}\" does not exist"))
}

/// The numbers of the rows that a cursor at `at` of `count` rows gives, and where it is then.
fn steps(way: Way, at: usize, count: usize) -> (Vec<usize>, usize) {
    let (at, count) = (at as i64, count as i64);
    let clamp = |number: i64| number.clamp(0, count + 1);
    let run = |from: i64, to: i64| {
        let end = clamp(to);
        let rows = if to >= from {
            (from + 1..=end.min(count)).collect()
        } else {
            (end.max(1)..from).rev().collect()
        };
        (rows, end)
    };
    let (rows, end): (Vec<i64>, i64) = match way {
        Way::Rows(0) | Way::Relative(0) => ((1..=count).filter(|row| *row == at).collect(), at),
        Way::Rows(number) => run(at, at.saturating_add(number)),
        Way::AllForward => run(at, count + 1),
        Way::AllBackward => run(at, 0),
        Way::Absolute(number) => {
            let row = if number < 0 { clamp(count + 1 + number) } else { clamp(number) };
            ((1..=count).filter(|known| *known == row).collect(), row)
        }
        Way::Relative(number) => {
            let row = clamp(at.saturating_add(number));
            ((1..=count).filter(|known| *known == row).collect(), row)
        }
    };
    (rows.into_iter().map(|row| row as usize).collect(), end as usize)
}

impl<S: Stream, E: Engine> Session<S, E> {
    pub(super) fn cursor(&self, name: &str) -> Result<&Cursor, SqlError> {
        self.cursors.get(name).ok_or_else(|| no_cursor(name))
    }

    /// Runs the query, and keeps its rows. It is a statement inside of this one: the future is
    /// boxed.
    pub(super) fn declare<'s>(
        &'s mut self,
        declared: &'s Declared,
        statement: &'s Parsed,
        params: Vec<Datum>,
        reach: Reach,
    ) -> Pin<Box<dyn Future<Output = Result<Product, Failure>> + Send + 's>> {
        Box::pin(async move {
            if !declared.holds && self.block.kind == Kind::None && reach == Reach::Alone {
                let message = "DECLARE CURSOR can only be used in transaction blocks";
                return Err(SqlError::new(SqlState(*b"25P01"), message).into());
            }
            if self.cursors.contains_key(&declared.name) {
                let message = format!("cursor \"{}\" already exists", declared.name);
                return Err(SqlError::new(SqlState(*b"42P03"), message).into());
            }
            if self.cursors.len() >= MOST_NAMES {
                let message = format!("a session has at most {MOST_NAMES} cursors");
                return Err(SqlError::new(SqlState::PROGRAM_LIMIT, message).into());
            }
            let query = Prepared::of(Some(statement.clone()), Vec::new(), &self.catalog())?;
            let carried = self.carry(&query, params, reach).await?;
            let Some((ready, Product::Rows { rows, .. })) = carried else {
                let message = "DECLARE CURSOR must be of a query";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).into());
            };
            let bytes = bytes_of(&rows);
            self.may_keep(bytes)?;
            let cursor = Cursor {
                rows,
                bytes,
                fields: ready.fields.clone().unwrap_or_default(),
                types: ready.types.clone(),
                at: 0,
                scrolls: declared.scrolls,
                holds: declared.holds,
                is_held: self.block.kind == Kind::None,
            };
            self.cursors.insert(declared.name.clone(), cursor);
            Ok(Product::Done("DECLARE CURSOR".into()))
        })
    }

    /// The memory of the rows of all cursors.
    pub(super) fn bytes_of_cursors(&self) -> usize {
        self.cursors.values().map(|cursor| cursor.bytes).sum()
    }

    pub(super) fn fetch_rows(&mut self, fetch: &Fetch) -> Result<Product, SqlError> {
        let cursor = self.cursors.get_mut(&fetch.cursor).ok_or_else(|| no_cursor(&fetch.cursor))?;
        let (numbers, end) = steps(fetch.way, cursor.at, cursor.rows.len());
        if !cursor.scrolls && end < cursor.at {
            return Err(SqlError::new(SqlState(*b"55000"), "cursor can only scan forward")
                .with_hint("Declare it with SCROLL option to enable backward scan."));
        }
        cursor.at = end;
        if fetch.moves {
            return Ok(Product::Done(format!("MOVE {}", numbers.len())));
        }
        let rows: Vec<Vec<Datum>> = numbers.iter().map(|number| cursor.rows[number - 1].clone()).collect();
        let tag = RowsTag::Whole(format!("FETCH {}", rows.len()));
        Ok(Product::Rows { rows, tag })
    }

    pub(super) fn close_cursor(&mut self, name: Option<&String>) -> Result<&'static str, SqlError> {
        match name {
            None => {
                self.cursors.clear();
                Ok("CLOSE CURSOR ALL")
            }
            Some(name) => self.cursors.remove(name).map(|_| "CLOSE CURSOR").ok_or_else(|| no_cursor(name)),
        }
    }

    /// The transaction is over: cursors that hold their rows stay if it has committed, and those of
    /// earlier transactions stay.
    pub(super) fn end_cursors(&mut self, commits: bool) {
        self.cursors.retain(|_, cursor| cursor.is_held || cursor.holds && commits);
        self.cursors.values_mut().for_each(|cursor| cursor.is_held = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_lead_where_postgresql_leads() {
        // Ways from a place among 3 rows: the rows given, and the place after.
        for (way, at, rows, end) in [
            (Way::Rows(1), 0, vec![1], 1),
            (Way::Rows(2), 2, vec![3], 4),
            (Way::Rows(1), 4, vec![], 4),
            (Way::Rows(-1), 4, vec![3], 3),
            (Way::Rows(-2), 2, vec![1], 0),
            (Way::Rows(0), 2, vec![2], 2),
            (Way::Rows(0), 0, vec![], 0),
            (Way::AllForward, 1, vec![2, 3], 4),
            (Way::AllBackward, 3, vec![2, 1], 0),
            (Way::Absolute(2), 0, vec![2], 2),
            (Way::Absolute(-1), 0, vec![3], 3),
            (Way::Absolute(9), 0, vec![], 4),
            (Way::Relative(2), 1, vec![3], 3),
            (Way::Relative(-5), 2, vec![], 0),
        ] {
            assert_eq!(steps(way, at, 3), (rows, end), "{way:?} from {at}");
        }
    }
}
