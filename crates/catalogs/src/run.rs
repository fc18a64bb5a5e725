//! A plan carried out over rows in memory.
//!
//! Relations are small (a row for each object), so joins look rows up in hash tables where two
//! columns are equal, and are nested loops elsewhere. A query in an expression runs again for each
//! row; where it finds its rows by an equal column, the table it looks them up in is made once.

mod evaluate;
mod joins;
mod select;

use crate::plan::{Body, Query, SetKind};
use crate::relations::{Row, World};
use crate::value::{Value, compare_nulls_last, key};
use sql::{SqlError, SqlState};
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering as Memory};

/// What was computed for a row besides its columns.
#[derive(Clone, Copy, Default)]
struct Extra<'a> {
    aggregates: &'a [Value],
    windows: &'a [Value],
    sets: &'a [Value],
}

/// A row, and the rows of the queries around it.
#[derive(Clone, Copy)]
struct Env<'a> {
    row: &'a [Value],
    extra: Extra<'a>,
    parent: Option<&'a Env<'a>>,
}

/// Rows by the value of one column.
type Lookup = Rc<HashMap<String, Vec<usize>>>;

/// One execution.
pub struct Run<'a> {
    world: &'a World<'a>,
    params: &'a [Value],
    /// Set when the session no longer waits for the answer.
    is_over: &'a AtomicBool,
    steps: Cell<u64>,
    relations: RefCell<HashMap<usize, Rc<Vec<Row>>>>,
    lookups: RefCell<HashMap<(usize, usize), Lookup>>,
    with: RefCell<HashMap<usize, Rc<Vec<Row>>>>,
    patterns: RefCell<HashMap<(String, bool, bool), Rc<regex_lite::Regex>>>,
}

/// Steps of one query: it would take minutes. Each is a row that was looked at.
const MOST_STEPS: u64 = 200_000_000;

impl<'a> Run<'a> {
    pub fn new(world: &'a World<'a>, params: &'a [Value], is_over: &'a AtomicBool) -> Run<'a> {
        Run {
            world,
            params,
            is_over,
            steps: Cell::new(0),
            relations: RefCell::default(),
            lookups: RefCell::default(),
            with: RefCell::default(),
            patterns: RefCell::default(),
        }
    }

    /// The rows of a query.
    ///
    /// # Errors
    /// Those of its expressions; `54000` for one that goes on too long.
    pub fn rows(&self, query: &Query) -> Result<Vec<Row>, SqlError> {
        self.query(query, None)
    }

    /// Counts a step.
    fn step(&self) -> Result<(), SqlError> {
        let steps = self.steps.get() + 1;
        self.steps.set(steps);
        if steps.is_multiple_of(4096) && self.is_over.load(Memory::Relaxed) {
            return Err(SqlError::new(SqlState(*b"57014"), "canceling statement due to user request"));
        }
        if steps > MOST_STEPS {
            let message = "a query on the system catalogs looks at too many rows";
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT, message));
        }
        Ok(())
    }

    fn query(&self, query: &Query, outer: Option<&Env<'_>>) -> Result<Vec<Row>, SqlError> {
        for with in &query.with {
            let mut rows = self.query(&with.query, outer)?;
            if let Some((step, all)) = &with.step {
                rows = self.rounds(with.number, rows, (step, *all), outer)?;
            }
            self.with.borrow_mut().insert(with.number, Rc::new(rows));
        }
        let mut rows = match &query.body {
            Body::Select(select) => self.select(select, outer)?,
            Body::Values(rows) => {
                let env = Env { row: &[], extra: Extra::default(), parent: outer };
                let row = |row: &Vec<crate::plan::Ex>| row.iter().map(|ex| self.value(ex, &env)).collect();
                rows.iter().map(row).collect::<Result<_, _>>()?
            }
            Body::Set { kind, all, left, right } => {
                let (left, right) = (self.query(left, outer)?, self.query(right, outer)?);
                set(*kind, *all, left, right)
            }
        };
        if !query.order.is_empty() {
            rows.sort_by(|a, b| order(query, a, b));
        }
        let env = Env { row: &[], extra: Extra::default(), parent: outer };
        let number = |ex: &Option<crate::plan::Ex>| -> Result<Option<usize>, SqlError> {
            let Some(ex) = ex else { return Ok(None) };
            Ok(self.value(ex, &env)?.as_int().map(|v| usize::try_from(v).unwrap_or(0)))
        };
        let (offset, limit) = (number(&query.offset)?.unwrap_or(0), number(&query.limit)?);
        let width = query.columns.len();
        let kept = rows.into_iter().skip(offset).take(limit.unwrap_or(usize::MAX));
        Ok(kept
            .map(|mut row| {
                row.truncate(width);
                row
            })
            .collect())
    }

    /// Rounds of a recursive query until one adds nothing. Each reads the rows that the one before
    /// has added.
    fn rounds(
        &self,
        number: usize,
        mut rows: Vec<Row>,
        (step, all): (&Query, bool),
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<Row>, SqlError> {
        let mut seen = HashSet::new();
        rows.retain(|row| all || seen.insert(row_key(row)));
        let mut added = rows.clone();
        while !added.is_empty() {
            self.with.borrow_mut().insert(number, Rc::new(added));
            added = self.query(step, outer)?;
            added.retain(|row| all || seen.insert(row_key(row)));
            for _ in &added {
                self.step()?;
            }
            rows.extend(added.iter().cloned());
        }
        Ok(rows)
    }

    /// The rows of a relation, made once.
    fn relation(&self, number: usize) -> Rc<Vec<Row>> {
        if let Some(rows) = self.relations.borrow().get(&number) {
            return Rc::clone(rows);
        }
        let rows = Rc::new(self.world.rows(number));
        self.relations.borrow_mut().insert(number, Rc::clone(&rows));
        rows
    }

    /// The rows of a relation by one of its columns.
    fn lookup(&self, number: usize, column: usize) -> Lookup {
        if let Some(lookup) = self.lookups.borrow().get(&(number, column)) {
            return Rc::clone(lookup);
        }
        let mut lookup: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, row) in self.relation(number).iter().enumerate() {
            if !row[column].is_null() {
                lookup.entry(key(&row[column])).or_default().push(at);
            }
        }
        let lookup = Rc::new(lookup);
        self.lookups.borrow_mut().insert((number, column), Rc::clone(&lookup));
        lookup
    }
}

fn order(query: &Query, a: &Row, b: &Row) -> Ordering {
    let keys = query.order.iter().map(|key| {
        let (a, b) = (&a[key.column], &b[key.column]);
        match (a.is_null(), b.is_null()) {
            (true, false) if key.nulls_first => Ordering::Less,
            (false, true) if key.nulls_first => Ordering::Greater,
            (false, false) if key.descending => compare_nulls_last(b, a),
            _ => compare_nulls_last(a, b),
        }
    });
    keys.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

fn row_key(row: &[Value]) -> String {
    row.iter().map(key).collect::<Vec<_>>().join("\u{0}")
}

/// Keeps the first of equal rows.
fn distinct(rows: &mut Vec<Row>, width: usize) {
    let mut seen = HashSet::new();
    rows.retain(|row| seen.insert(row_key(&row[..width.min(row.len())])));
}

fn set(kind: SetKind, all: bool, mut left: Vec<Row>, right: Vec<Row>) -> Vec<Row> {
    match kind {
        SetKind::Union => left.extend(right),
        SetKind::Except | SetKind::Intersect => {
            let other: HashSet<String> = right.iter().map(|row| row_key(row)).collect();
            left.retain(|row| other.contains(&row_key(row)) == (kind == SetKind::Intersect));
        }
    }
    if !all {
        distinct(&mut left, usize::MAX);
    }
    left
}
