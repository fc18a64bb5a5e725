//! Rows of `FROM`.

use super::{Env, Extra, Run, row_key};
use crate::plan::{Ex, Join, JoinKind, Source};
use crate::relations::Row;
use crate::value::{Value, key};
use sql::{SqlError, SqlState};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

impl Run<'_> {
    /// The rows of a source, after a row on its left that it may refer to.
    pub(super) fn source(
        &self,
        source: &Source,
        left: &[Value],
        outer: Option<&Env<'_>>,
    ) -> Result<Rc<Vec<Row>>, SqlError> {
        match source {
            Source::Relation(number) => Ok(self.relation(*number)),
            Source::With(number) => Ok(self.with.borrow().get(number).cloned().unwrap_or_default()),
            Source::Query { query, lateral: false } => Ok(Rc::new(self.query(query, outer)?)),
            Source::Query { query, lateral: true } => {
                let env = Env { row: left, extra: Extra::default(), parent: outer };
                Ok(Rc::new(self.query(query, Some(&env))?))
            }
            Source::Filtered { source, condition } => {
                Ok(Rc::new(self.filtered(Some(source), Some(condition), left, outer)?))
            }
            Source::Function { function, args, ordinality, columns } => {
                let env = Env { row: left, extra: Extra::default(), parent: outer };
                let args = args.iter().map(|arg| self.value(arg, &env)).collect::<Result<Vec<_>, _>>()?;
                let mut rows = elements(function.0, &args, *columns)?;
                if rows.is_none() {
                    let value = self.called(*function, &args)?;
                    rows = Some(vec![vec![value]]);
                }
                let mut rows = rows.unwrap_or_default();
                if *ordinality {
                    rows.iter_mut().zip(1..).for_each(|(row, at)| row.push(Value::Int(at)));
                }
                Ok(Rc::new(rows))
            }
            Source::Join(join) => Ok(Rc::new(self.join(join, left, outer)?)),
        }
    }

    fn join(&self, join: &Join, left: &[Value], outer: Option<&Env<'_>>) -> Result<Vec<Row>, SqlError> {
        let lefts = self.source(&join.left, left, outer)?;
        let is_lateral = join.right.is_lateral();
        let rights = if is_lateral { Rc::default() } else { self.source(&join.right, left, outer)? };
        let table = self.table(join, &rights, is_lateral, outer)?;
        let mut rows = Vec::new();
        let mut met: HashSet<usize> = HashSet::new();
        for left in lefts.iter() {
            let before = rows.len();
            let own = if is_lateral { self.source(&join.right, left, outer)? } else { Rc::clone(&rights) };
            let env = Env { row: left, extra: Extra::default(), parent: outer };
            let found: Box<dyn Iterator<Item = usize> + '_> = match &table {
                Some(table) => {
                    let keys = join.equal.iter().map(|(a, _)| self.value(a, &env));
                    let keys = keys.collect::<Result<Vec<_>, _>>()?;
                    match keys.iter().any(Value::is_null) {
                        true => Box::new(std::iter::empty()),
                        false => Box::new(table.get(&row_key(&keys)).into_iter().flatten().copied()),
                    }
                }
                None => Box::new(0..own.len()),
            };
            for at in found {
                self.step()?;
                let row: Row = left.iter().chain(&own[at]).cloned().collect();
                if self.fits(join, &row, table.is_none(), outer)? {
                    met.insert(at);
                    rows.push(row);
                }
            }
            if rows.len() == before && matches!(join.kind, JoinKind::Left | JoinKind::Full) {
                let nulls = std::iter::repeat_n(Value::Null, join.widths.1);
                rows.push(left.iter().cloned().chain(nulls).collect());
            }
        }
        if matches!(join.kind, JoinKind::Right | JoinKind::Full) {
            for (_, right) in rights.iter().enumerate().filter(|(at, _)| !met.contains(at)) {
                let nulls = std::iter::repeat_n(Value::Null, join.widths.0);
                rows.push(nulls.chain(right.iter().cloned()).collect());
            }
        }
        Ok(rows)
    }

    /// The right rows by the values that must be equal to those of a left row.
    fn table(
        &self,
        join: &Join,
        rights: &[Row],
        is_lateral: bool,
        outer: Option<&Env<'_>>,
    ) -> Result<Option<HashMap<String, Vec<usize>>>, SqlError> {
        if join.equal.is_empty() || is_lateral {
            return Ok(None);
        }
        let mut table: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, right) in rights.iter().enumerate() {
            self.step()?;
            let env = Env { row: right, extra: Extra::default(), parent: outer };
            let keys = join.equal.iter().map(|(_, b)| self.value(b, &env));
            let keys = keys.collect::<Result<Vec<_>, _>>()?;
            if !keys.iter().any(Value::is_null) {
                table.entry(row_key(&keys)).or_default().push(at);
            }
        }
        Ok(Some(table))
    }

    /// Whether a joined row meets the conditions of the join.
    fn fits(&self, join: &Join, row: &[Value], all: bool, outer: Option<&Env<'_>>) -> Result<bool, SqlError> {
        if all {
            let (left, right) = row.split_at(join.widths.0);
            for (a, b) in &join.equal {
                let of = |ex: &Ex, row| self.value(ex, &Env { row, extra: Extra::default(), parent: outer });
                let (a, b) = (of(a, left)?, of(b, right)?);
                if a.is_null() || b.is_null() || key(&a) != key(&b) {
                    return Ok(false);
                }
            }
        }
        match &join.on {
            Some(on) => {
                let env = Env { row, extra: Extra::default(), parent: outer };
                Ok(self.value(on, &env)?.is_true())
            }
            None => Ok(true),
        }
    }
}

/// The most rows of a series.
const MOST_NUMBERS: usize = 1_000_000;

/// The rows of a function of a set; `None` if it is a function of one value.
///
/// # Errors
/// `54000` for a series that is too long.
pub(super) fn elements(name: &str, args: &[Value], columns: usize) -> Result<Option<Vec<Row>>, SqlError> {
    let rows = rows_of_set(name, args, columns);
    if rows.as_ref().is_some_and(|rows| name == "generate_series" && rows.len() > MOST_NUMBERS) {
        let message = format!("generate_series: expected at most {MOST_NUMBERS} rows");
        return Err(SqlError::new(SqlState(*b"54000"), message));
    }
    Ok(rows)
}

fn rows_of_set(name: &str, args: &[Value], columns: usize) -> Option<Vec<Row>> {
    let int = |at: usize| args.get(at).and_then(Value::as_int);
    Some(match name {
        "unnest" => {
            let arrays: Vec<&[Value]> = args
                .iter()
                .map(|arg| match arg {
                    Value::Array(items) => items.as_slice(),
                    _ => &[],
                })
                .collect();
            let length = arrays.iter().map(|array| array.len()).max().unwrap_or(0);
            let row =
                |at: usize| arrays.iter().map(|array| array.get(at).cloned().unwrap_or_default()).collect();
            (0..length).map(row).collect()
        }
        "generate_series" => {
            let (from, to, step) = (int(0)?, int(1)?, int(2).unwrap_or(1));
            let is_within = |at: &i64| if step > 0 { *at <= to } else { *at >= to };
            let next = |at: &i64| at.checked_add(step).filter(is_within);
            let numbers = std::iter::successors(Some(from).filter(|at| step != 0 && is_within(at)), next);
            numbers.take(MOST_NUMBERS + 1).map(|at| vec![Value::Int(at)]).collect()
        }
        "generate_subscripts" => {
            let length = match args.first() {
                Some(Value::Array(items)) => items.len() as i64,
                _ => 0,
            };
            // Vectors count from 0: theirs is the first argument's type, told by a third argument.
            let first = int(2).unwrap_or(1);
            (0..length).map(|at| vec![Value::Int(at + first)]).collect()
        }
        // No table is a part of another, and no foreign server has options.
        "pg_partition_ancestors" | "pg_options_to_table" => Vec::new(),
        "_pg_expandarray" => {
            let items = match args.first() {
                Some(Value::Array(items)) => items.clone(),
                _ => Vec::new(),
            };
            let of = |(item, at): (Value, i64)| {
                if columns == 1 {
                    vec![Value::Record(vec![("x".into(), item), ("n".into(), Value::Int(at))])]
                } else {
                    vec![item, Value::Int(at)]
                }
            };
            items.into_iter().zip(1..).map(of).collect()
        }
        _ => return None,
    })
}
