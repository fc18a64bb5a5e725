//! Expressions.

use super::joins::elements;
use super::{Env, Run};
use crate::functions::{self, Function};
use crate::plan::{Ex, Op, Query};
use crate::system;
use crate::value::{Value, compare, compare_nulls_last};
use sql::{SqlError, SqlState};
use std::rc::Rc;

impl Run<'_> {
    pub(super) fn value(&self, ex: &Ex, env: &Env<'_>) -> Result<Value, SqlError> {
        let column = |depth: usize, at: usize| {
            let mut here = Some(env);
            for _ in 0..depth {
                here = here.and_then(|env| env.parent);
            }
            here.and_then(|env| env.row.get(at)).cloned().unwrap_or_default()
        };
        Ok(match ex {
            Ex::Const(value) => value.clone(),
            Ex::Param(at) => self.params.get(*at).cloned().unwrap_or_default(),
            Ex::Column { depth, at } => column(*depth, *at),
            Ex::Aggregate(at) => env.extra.aggregates.get(*at).cloned().unwrap_or_default(),
            Ex::Window(at) => env.extra.windows.get(*at).cloned().unwrap_or_default(),
            Ex::Set(at) => env.extra.sets.get(*at).cloned().unwrap_or_default(),
            Ex::And(a, b) => self.connected(a, b, env, false)?,
            Ex::Or(a, b) => self.connected(a, b, env, true)?,
            Ex::Not(a) => match self.value(a, env)? {
                Value::Bool(v) => Value::Bool(!v),
                _ => Value::Null,
            },
            Ex::IsNull(a) => Value::Bool(self.value(a, env)?.is_null()),
            Ex::Same(a, b) => {
                let (a, b) = (self.value(a, env)?, self.value(b, env)?);
                Value::Bool(compare_nulls_last(&a, &b).is_eq())
            }
            Ex::Binary(op, a, b) => self.binary(*op, self.value(a, env)?, self.value(b, env)?)?,
            Ex::Case { branches, otherwise } => {
                for (when, then) in branches {
                    if self.value(when, env)?.is_true() {
                        return self.value(then, env);
                    }
                }
                self.value(otherwise, env)?
            }
            Ex::Cast { value, from, to } => system::cast(self.world, self.value(value, env)?, *from, *to)?,
            Ex::Call { function, args } => {
                let args = args.iter().map(|arg| self.value(arg, env)).collect::<Result<Vec<_>, _>>()?;
                self.called(*function, &args)?
            }
            Ex::Array(items) => Value::Array(self.all(items, env)?),
            Ex::Row(items) => {
                let values = self.all(items, env)?;
                Value::Record(values.into_iter().map(|value| (String::new(), value)).collect())
            }
            Ex::Field(of, name) => match self.value(of, env)? {
                Value::Record(fields) => {
                    fields.into_iter().find(|(known, _)| known == name).map(|(_, v)| v).unwrap_or_default()
                }
                _ => Value::Null,
            },
            Ex::Element(array, index) => match (self.value(array, env)?, self.value(index, env)?) {
                (Value::Array(items), Value::Int(at)) => at
                    .checked_sub(1)
                    .and_then(|at| usize::try_from(at).ok())
                    .and_then(|at| items.get(at).cloned())
                    .unwrap_or_default(),
                // The characters of a name count from 0.
                (Value::Text(text), Value::Int(at)) => {
                    let at = usize::try_from(at).ok();
                    let found = at.and_then(|at| text.chars().nth(at));
                    found.map_or(Value::Null, |c| Value::text(c.to_string()))
                }
                _ => Value::Null,
            },
            other => self.of_query(other, env)?,
        })
    }

    /// `OR` if `decides` is true, else `AND`: one value decides alone, the other one needs both
    /// sides.
    fn connected(&self, a: &Ex, b: &Ex, env: &Env<'_>, decides: bool) -> Result<Value, SqlError> {
        let a = self.value(a, env)?;
        if a == Value::Bool(decides) {
            return Ok(a);
        }
        let b = self.value(b, env)?;
        Ok(match (&a, &b) {
            (_, Value::Bool(b)) if *b == decides => Value::Bool(decides),
            (Value::Bool(_), Value::Bool(_)) => Value::Bool(!decides),
            _ => Value::Null,
        })
    }

    fn of_query(&self, ex: &Ex, env: &Env<'_>) -> Result<Value, SqlError> {
        let column = |query: &Query| -> Result<Vec<Value>, SqlError> {
            let rows = self.query(query, Some(env))?;
            Ok(rows.into_iter().map(single).collect())
        };
        Ok(match ex {
            Ex::OfArray { op, left, array, all } => {
                let left = self.value(left, env)?;
                match self.value(array, env)? {
                    Value::Array(items) => self.any_of(*op, &left, items, *all)?,
                    _ => Value::Null,
                }
            }
            Ex::OfQuery { op, left, query, all } => {
                let left = self.value(left, env)?;
                let items = match column(query)? {
                    // An array that a query gives.
                    items
                        if matches!(items.as_slice(), [Value::Array(_)])
                            && !matches!(left, Value::Array(_)) =>
                    {
                        match items.into_iter().next() {
                            Some(Value::Array(items)) => items,
                            _ => Vec::new(),
                        }
                    }
                    items => items,
                };
                self.any_of(*op, &left, items, *all)?
            }
            Ex::Exists(query) => Value::Bool(!self.query(query, Some(env))?.is_empty()),
            Ex::Scalar(query) => {
                let mut values = column(query)?;
                if values.len() > 1 {
                    let message = "more than one row returned by a subquery used as an expression";
                    return Err(SqlError::new(SqlState::CARDINALITY, message));
                }
                values.pop().unwrap_or_default()
            }
            Ex::Collected(query) => Value::Array(column(query)?),
            _ => Value::Null,
        })
    }

    fn all(&self, items: &[Ex], env: &Env<'_>) -> Result<Vec<Value>, SqlError> {
        items.iter().map(|item| self.value(item, env)).collect()
    }

    /// Whether the comparison holds with any element, or with all.
    fn any_of(&self, op: Op, left: &Value, items: Vec<Value>, all: bool) -> Result<Value, SqlError> {
        let mut unknown = false;
        for item in items {
            match self.binary(op, left.clone(), item)? {
                Value::Bool(holds) if holds != all => return Ok(Value::Bool(!all)),
                Value::Null => unknown = true,
                _ => {}
            }
        }
        Ok(if unknown { Value::Null } else { Value::Bool(all) })
    }

    pub(super) fn called(&self, function: Function, args: &[Value]) -> Result<Value, SqlError> {
        match functions::call(function.0, args) {
            Some(value) => Ok(value),
            None => system::call(self.world, function.0, args),
        }
    }

    /// The elements of a function of a set.
    pub(super) fn elements(&self, ex: &Ex, env: &Env<'_>) -> Result<Vec<Value>, SqlError> {
        let Ex::Call { function, args } = ex else { return Ok(vec![self.value(ex, env)?]) };
        let args = self.all(args, env)?;
        let rows = elements(function.0, &args, 1)?;
        Ok(rows.unwrap_or_default().into_iter().map(single).collect())
    }

    fn binary(&self, op: Op, a: Value, b: Value) -> Result<Value, SqlError> {
        if a.is_null() || b.is_null() {
            return Ok(Value::Null);
        }
        let bool = |holds: bool| Ok(Value::Bool(holds));
        match op {
            Op::Equal => bool(compare(&a, &b).is_eq()),
            Op::NotEqual => bool(compare(&a, &b).is_ne()),
            Op::Less => bool(compare(&a, &b).is_lt()),
            Op::LessEqual => bool(compare(&a, &b).is_le()),
            Op::Greater => bool(compare(&a, &b).is_gt()),
            Op::GreaterEqual => bool(compare(&a, &b).is_ge()),
            Op::Concat => Ok(match (a, b) {
                (Value::Array(mut a), Value::Array(b)) => {
                    a.extend(b);
                    Value::Array(a)
                }
                (Value::Array(mut a), b) => {
                    a.push(b);
                    Value::Array(a)
                }
                (a, Value::Array(b)) => Value::Array(std::iter::once(a).chain(b).collect()),
                (a, b) => Value::Text(a.to_text() + &b.to_text()),
            }),
            Op::Matches { ignore_case, negated } => {
                let pattern = self.pattern(&b.to_text(), ignore_case, false)?;
                bool(pattern.is_match(&a.to_text()) != negated)
            }
            Op::Like { ignore_case, negated } => {
                let pattern = self.pattern(&b.to_text(), ignore_case, true)?;
                bool(pattern.is_match(&a.to_text()) != negated)
            }
            Op::Contains | Op::Overlaps => {
                let (Value::Array(a), Value::Array(b)) = (a, b) else { return Ok(Value::Null) };
                let has = |wanted: &Value| a.iter().any(|item| compare_nulls_last(item, wanted).is_eq());
                bool(if op == Op::Contains { b.iter().all(has) } else { b.iter().any(has) })
            }
            op => number(op, &a, &b),
        }
    }

    /// A regular expression, or the pattern of a LIKE, made once.
    fn pattern(
        &self,
        text: &str,
        ignore_case: bool,
        is_like: bool,
    ) -> Result<Rc<regex_lite::Regex>, SqlError> {
        let key = (text.to_owned(), ignore_case, is_like);
        if let Some(pattern) = self.patterns.borrow().get(&key) {
            return Ok(Rc::clone(pattern));
        }
        let source = if is_like { of_like(text) } else { text.to_owned() };
        let made = regex_lite::RegexBuilder::new(&source)
            .case_insensitive(ignore_case)
            .dot_matches_new_line(true)
            .build()
            .map_err(|error| {
                SqlError::new(SqlState(*b"2201B"), format!("invalid regular expression: {error}"))
            })?;
        let made = Rc::new(made);
        self.patterns.borrow_mut().insert(key, Rc::clone(&made));
        Ok(made)
    }
}

/// The value of a row: of its only column, or of all.
fn single(mut row: Vec<Value>) -> Value {
    match row.len() {
        1 => row.pop().unwrap_or_default(),
        _ => Value::Record(row.into_iter().map(|value| (String::new(), value)).collect()),
    }
}

fn of_like(pattern: &str) -> String {
    let mut out = String::from("^");
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            '\\' => out.push_str(&regex_lite::escape(&chars.next().unwrap_or('\\').to_string())),
            c => out.push_str(&regex_lite::escape(&c.to_string())),
        }
    }
    out.push('$');
    out
}

fn number(op: Op, a: &Value, b: &Value) -> Result<Value, SqlError> {
    let out_of_range = || SqlError::new(SqlState::NUMERIC_OUT_OF_RANGE, "bigint out of range");
    let zero = || SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero");
    if let (Value::Float(_), _) | (_, Value::Float(_)) = (a, b) {
        let of = |value: &Value| value.to_text().parse::<f64>().unwrap_or(f64::NAN);
        let (a, b) = (of(a), of(b));
        return Ok(Value::Float(match op {
            Op::Add => a + b,
            Op::Subtract => a - b,
            Op::Multiply => a * b,
            _ if b == 0.0 => return Err(zero()),
            Op::Divide => a / b,
            _ => a % b,
        }));
    }
    let (Some(a), Some(b)) = (a.as_int(), b.as_int()) else { return Ok(Value::Null) };
    let value = match op {
        Op::Add => a.checked_add(b),
        Op::Subtract => a.checked_sub(b),
        Op::Multiply => a.checked_mul(b),
        Op::BitAnd => Some(a & b),
        Op::BitOr => Some(a | b),
        _ if b == 0 => return Err(zero()),
        Op::Divide => a.checked_div(b),
        _ => a.checked_rem(b),
    };
    value.map(Value::Int).ok_or_else(out_of_range)
}
