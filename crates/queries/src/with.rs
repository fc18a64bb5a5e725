//! Common table expressions: each is run once, when its rows are first asked for.

use crate::row::{Row, Rows, internal};
use crate::run::Run;
use compiler::tree::Query;
use sql::SqlError;
use sql::memory::size;
use sql::place::encode_key;
use std::collections::HashSet;
use std::rc::Rc;

impl<'r> Run<'r> {
    pub fn with(&self, number: usize) -> Result<Rows, SqlError> {
        if let Some(rows) = self.withs.borrow().get(number).cloned().flatten() {
            return Ok(rows);
        }
        let with = self.tree.withs.get(number).ok_or_else(|| internal("no such WITH query"))?;
        let mark = self.mark();
        let mut rows = self.query(&with.query, None)?;
        if let Some((step, all)) = &with.step {
            rows = self.rounds(number, rows, step, *all)?;
        }
        self.nothing_left(mark);
        self.keeps(rows.iter().map(|row| size(row)).sum())?;
        let rows = Rc::new(rows);
        if let Some(kept) = self.withs.borrow_mut().get_mut(number) {
            *kept = Some(Rc::clone(&rows));
        }
        Ok(rows)
    }

    /// Rounds of a recursive query until one adds nothing. Each reads what the one before it has
    /// added.
    fn rounds(
        &self,
        number: usize,
        mut rows: Vec<Row>,
        step: &'r Query,
        all: bool,
    ) -> Result<Vec<Row>, SqlError> {
        let mut seen = HashSet::new();
        if !all {
            rows.retain(|row| seen.insert(encode_key(row)));
        }
        let mut added = rows.clone();
        while !added.is_empty() {
            self.working.borrow_mut()[number] = Some(Rc::new(added));
            // What was computed of the rows of the round before is no longer true.
            self.subs.borrow_mut().iter_mut().for_each(|known| known.clear());
            added = self.query(step, None)?;
            self.takes(added.iter().map(|row| size(row)).sum())?;
            if !all {
                added.retain(|row| seen.insert(encode_key(row)));
            }
            rows.extend(added.iter().cloned());
        }
        self.working.borrow_mut()[number] = None;
        Ok(rows)
    }
}
