//! One execution of a query: its rows, its memory, and what it computes once and keeps.

use crate::leaves::Index;
use crate::row::{Frame, Row, Rows, internal};
use crate::sub_query::Known;
use compiler::tree::{Leaf, Outer, Tree};
use sql::bound::Bound;
use sql::memory::{exceeded, size};
use sql::{Context, Datum, Expr, SqlError, SqlState};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rows between two looks at whether the query is still wanted.
const STEPS: u64 = 1024;

pub struct Run<'r> {
    pub tree: &'r Tree,
    bound: &'r Bound,
    /// Set when the answer is no longer wanted.
    is_over: &'r AtomicBool,
    steps: Cell<u64>,
    most: usize,
    /// Bytes of what is passed from one operator to the next, and of what is kept to the end.
    passing: Cell<usize>,
    lasting: Cell<usize>,
    /// The rows of each scan.
    pub scans: Vec<Rows>,
    pub withs: RefCell<Vec<Option<Rows>>>,
    /// What the last round of each recursive expression has added.
    pub working: RefCell<Vec<Option<Rows>>>,
    pub subs: RefCell<Vec<HashMap<Vec<u8>, Rc<Known>>>>,
    /// By the leaf's address, which stays while the tree is borrowed.
    pub indexes: RefCell<HashMap<*const Leaf, Rc<Index>>>,
}

impl<'r> Run<'r> {
    /// `given` has the rows of the parts of `WITH` before.
    ///
    /// # Errors
    /// `53200` if the rows of the tables are more than `most` bytes.
    pub fn new(
        tree: &'r Tree,
        bound: &'r Bound,
        (is_over, most): (&'r AtomicBool, usize),
        rows: Vec<Vec<Vec<Datum>>>,
        given: Vec<Vec<Vec<Datum>>>,
    ) -> Result<Run<'r>, SqlError> {
        let mut run = Run {
            tree,
            bound,
            is_over,
            steps: Cell::new(0),
            most,
            passing: Cell::new(0),
            lasting: Cell::new(0),
            scans: Vec::with_capacity(rows.len()),
            withs: RefCell::new(vec![None; tree.withs.len()]),
            working: RefCell::new(vec![None; tree.withs.len()]),
            subs: RefCell::new(tree.subs.iter().map(|_| HashMap::new()).collect()),
            indexes: RefCell::default(),
        };
        for rows in rows {
            let rows = run.shared(rows)?;
            run.scans.push(rows);
        }
        let given = given.into_iter().map(|rows| run.shared(rows)).collect::<Result<Vec<_>, _>>()?;
        for (with, rows) in tree.withs.iter().zip(run.withs.borrow_mut().iter_mut()) {
            *rows = with.given.and_then(|part| given.get(part).cloned());
        }
        Ok(run)
    }

    fn shared(&self, rows: Vec<Vec<Datum>>) -> Result<Rows, SqlError> {
        let mut shared = Vec::with_capacity(rows.len());
        for row in rows {
            self.keeps(size(&row))?;
            shared.push(Row::from(row));
        }
        Ok(Rc::new(shared))
    }

    pub fn context(&self) -> Context<'_> {
        self.bound.context()
    }

    pub fn eval(&self, expr: &Expr, frame: &Frame<'_, 'r>) -> Result<Datum, SqlError> {
        expr.eval(&self.context(), frame)
    }

    pub fn all(&self, exprs: &[Expr], frame: &Frame<'_, 'r>) -> Result<Vec<Datum>, SqlError> {
        exprs.iter().map(|expr| self.eval(expr, frame)).collect()
    }

    /// Whether all conditions hold.
    pub fn hold<'e>(
        &self,
        conditions: impl IntoIterator<Item = &'e Expr>,
        frame: &Frame<'_, 'r>,
    ) -> Result<bool, SqlError> {
        for condition in conditions {
            if !condition.is_true(&self.context(), frame)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub fn outer(&self, number: u16) -> Result<Outer, SqlError> {
        let outer = self.tree.outers.get(usize::from(number)).copied();
        outer.ok_or_else(|| internal("no such column further out"))
    }

    /// Counts a row.
    ///
    /// # Errors
    /// `57014` if the answer is no longer wanted.
    pub fn step(&self) -> Result<(), SqlError> {
        let steps = self.steps.get() + 1;
        self.steps.set(steps);
        if steps.is_multiple_of(STEPS) && self.is_over.load(Ordering::Relaxed) {
            return Err(SqlError::new(SqlState(*b"57014"), "canceling statement due to user request"));
        }
        Ok(())
    }

    /// Counts memory that the operators around will pass on or give up.
    ///
    /// # Errors
    /// `53200` for too much.
    pub fn takes(&self, bytes: usize) -> Result<(), SqlError> {
        self.passing.set(self.passing.get() + bytes);
        self.check()
    }

    /// Counts memory that stays to the end.
    ///
    /// # Errors
    /// As [`Run::takes`].
    pub fn keeps(&self, bytes: usize) -> Result<(), SqlError> {
        self.lasting.set(self.lasting.get() + bytes);
        self.check()
    }

    fn check(&self) -> Result<(), SqlError> {
        if self.passing.get() + self.lasting.get() <= self.most {
            return Ok(());
        }
        Err(exceeded(self.most))
    }

    /// What is passed on at the moment.
    pub fn mark(&self) -> usize {
        self.passing.get()
    }

    /// Of all that was taken since the mark, these rows are left.
    pub fn left(&self, mark: usize, rows: &[Row]) {
        self.passing.set(mark + rows.iter().map(|row| size(row)).sum::<usize>());
    }

    /// Of all that was taken since the mark, nothing is left.
    pub fn nothing_left(&self, mark: usize) {
        self.passing.set(mark);
    }
}
