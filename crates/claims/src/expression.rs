//! A small language over result rows: it selects numbers from rows, computes with them, and
//! compares them.
//!
//! ```text
//! condition   sum  (< | <= | > | >= | =)  sum  [(< | <= | > | >= | =)  sum] ...
//! sum         product  {(+ | -) product}
//! product     factor  {(* | /) factor}
//! factor      - factor  |  atom {[ filter, ... ]}
//! atom        number  |  field  |  function(sum, ...)  |  ( sum )
//! filter      field (= | !=) value {| value}        value: a number, a word, 'words', max or min
//! ```
//!
//! A field is a path in a row (`latency_us.p50`) and stands for its values in all rows, in their
//! order; a filter selects some of the rows. So `tps[op=read, islands=max]` is the throughput of
//! the reading rows with the most islands. An operator on two lists works pair by pair, and a list
//! of one fits every length. `max` in a filter is the largest value of the field.

mod parse;

use crate::error::EvalError;
use crate::row::Row;
use parse::ParseError;
use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone, PartialEq, Debug)]
pub struct Expression(pub(crate) Node);

/// A chain of comparisons, each of which must hold for each pair of values.
#[derive(Clone, PartialEq, Debug)]
pub struct Condition {
    pub(crate) first: Node,
    pub(crate) rest: Vec<(Comparison, Node)>,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Node {
    Number(f64),
    Field(String),
    Negative(Box<Node>),
    Pair(Operator, Box<Node>, Box<Node>),
    Call(Function, Vec<Node>),
    Select(Box<Node>, Vec<Filter>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operator {
    Plus,
    Minus,
    Times,
    Over,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Comparison {
    Less,
    AtMost,
    More,
    AtLeast,
    Same,
}

/// The functions with their names; all but the first two reduce many values to one.
macro_rules! functions {
    ($($variant:ident $name:literal $arity:literal $meaning:literal)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Function { $(#[doc = $meaning] $variant),* }
        impl Function {
            pub(crate) const ALL: &[Function] = &[$(Function::$variant),*];
            pub(crate) const fn name(self) -> &'static str { match self { $(Function::$variant => $name),* } }
            pub(crate) const fn arity(self) -> usize { match self { $(Function::$variant => $arity),* } }
        }
    };
}

functions! {
    Abs "abs" 1 "each value without its sign"
    Steps "steps" 1 "from each value to the next: all positive when the values rise"
    OrZero "or_zero" 1 "a field, 0 in rows that have none"
    Min "min" 1 "the smallest"
    Max "max" 1 "the largest"
    Mean "mean" 1 "the arithmetic mean"
    Sum "sum" 1 "all added up"
    Count "count" 1 "how many"
    Slope "slope" 2 "of the straight line through the points (first, second), by least squares"
    Straight "straight" 2 "how straight the points (first, second) lie: R squared"
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Filter {
    pub field: String,
    pub is: Sense,
    pub values: Vec<Wanted>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sense {
    OneOf,
    NoneOf,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Wanted {
    Number(f64),
    Word(String),
    Largest,
    Smallest,
}

/// The meaning of names other than the fields of rows.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Values that were computed before.
    pub values: BTreeMap<String, Vec<f64>>,
    /// Fields that are computed from others, row by row.
    pub columns: BTreeMap<String, Expression>,
}

impl Expression {
    /// # Errors
    /// Text that is no expression, with the place and the expected text.
    pub fn parse(text: &str) -> Result<Expression, ParseError> {
        parse::expression(text).map(Expression)
    }

    /// The values over these rows.
    ///
    /// # Errors
    /// A field that a row does not have; a filter that leaves no row; lists of different lengths; a
    /// division by zero.
    pub fn values(&self, rows: &[&Row], names: &Names) -> Result<Vec<f64>, EvalError> {
        let values = eval(&self.0, rows, names)?;
        match values.iter().find(|v| !v.is_finite()) {
            None => Ok(values),
            Some(v) => Err(EvalError::NotFinite(v.to_string())),
        }
    }
}

impl Condition {
    /// # Errors
    /// Text that is no condition, with the place and the expected text.
    pub fn parse(text: &str) -> Result<Condition, ParseError> {
        parse::condition(text)
    }

    /// # Errors
    /// As [`Expression::values`].
    pub fn holds(&self, rows: &[&Row], names: &Names) -> Result<bool, EvalError> {
        let mut left = eval(&self.first, rows, names)?;
        for (comparison, node) in &self.rest {
            let right = eval(node, rows, names)?;
            if !pairs(&left, &right)?.all(|(a, b)| comparison.holds(a, b)) {
                return Ok(false);
            }
            left = right;
        }
        Ok(true)
    }
}

impl Comparison {
    fn holds(self, a: f64, b: f64) -> bool {
        match self {
            Comparison::Less => a < b,
            Comparison::AtMost => a <= b,
            Comparison::More => a > b,
            Comparison::AtLeast => a >= b,
            // Sums and quotients have rounding errors: differences in the last digits do not count.
            Comparison::Same => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0),
        }
    }
}

fn pairs<'a>(left: &'a [f64], right: &'a [f64]) -> Result<impl Iterator<Item = (f64, f64)> + 'a, EvalError> {
    let n = left.len().max(right.len());
    if [left.len(), right.len()].iter().any(|&len| len != n && len != 1) {
        return Err(EvalError::Lengths { left: left.len(), right: right.len() });
    }
    let at = |list: &'a [f64], i: usize| list[if list.len() == 1 { 0 } else { i }];
    Ok((0..n).map(move |i| (at(left, i), at(right, i))))
}

fn eval(node: &Node, rows: &[&Row], names: &Names) -> Result<Vec<f64>, EvalError> {
    match node {
        Node::Number(n) => Ok(vec![*n]),
        Node::Field(name) => field(name, rows, names),
        Node::Negative(of) => Ok(eval(of, rows, names)?.into_iter().map(|v| -v).collect()),
        Node::Pair(operator, a, b) => {
            let (a, b) = (eval(a, rows, names)?, eval(b, rows, names)?);
            let apply = |(a, b): (f64, f64)| match operator {
                Operator::Plus => a + b,
                Operator::Minus => a - b,
                Operator::Times => a * b,
                Operator::Over => a / b,
            };
            Ok(pairs(&a, &b)?.map(apply).collect())
        }
        Node::Call(Function::OrZero, args) => match &args[0] {
            Node::Field(name) => Ok(rows.iter().map(|row| row.number(name).unwrap_or(0.0)).collect()),
            other => eval(other, rows, names),
        },
        Node::Call(function, args) => {
            let args: Result<Vec<_>, _> = args.iter().map(|a| eval(a, rows, names)).collect();
            call(*function, &args?)
        }
        Node::Select(of, filters) => eval(of, &select(rows, filters)?, names),
    }
}

fn field(name: &str, rows: &[&Row], names: &Names) -> Result<Vec<f64>, EvalError> {
    if let Some(values) = names.values.get(name) {
        return Ok(values.clone());
    }
    let of = |row: &&Row| match names.columns.get(name) {
        Some(column) => eval(&column.0, &[row], names),
        None => Ok(vec![row.number(name).ok_or_else(|| missing(name, row))?]),
    };
    let values: Result<Vec<_>, _> = rows.iter().map(of).collect();
    Ok(values?.concat())
}

/// A row without a value at `a.b` may give the reason in `a_missing`.
fn missing(name: &str, row: &Row) -> EvalError {
    let whole = name.split('.').next().unwrap_or(name);
    match row.word(&format!("{whole}_missing")) {
        Some(why) => EvalError::Missing { field: name.into(), why },
        None => EvalError::NoField(name.into()),
    }
}

/// The rows that pass all filters.
pub(crate) fn select<'a>(rows: &[&'a Row], filters: &[Filter]) -> Result<Vec<&'a Row>, EvalError> {
    let left: Vec<&Row> =
        rows.iter().filter(|row| filters.iter().all(|f| f.takes(row, rows))).copied().collect();
    if left.is_empty() {
        let words: Vec<String> = filters.iter().map(Filter::to_string).collect();
        return Err(EvalError::NoRows(words.join(", ")));
    }
    Ok(left)
}

impl Filter {
    fn takes(&self, row: &Row, all: &[&Row]) -> bool {
        let numbers = || all.iter().filter_map(|r| r.number(&self.field));
        let equal = |wanted: &Wanted| match wanted {
            Wanted::Number(n) => row.number(&self.field) == Some(*n),
            Wanted::Word(word) => row.word(&self.field).as_deref() == Some(word),
            Wanted::Largest => row.number(&self.field).is_some_and(|n| numbers().all(|other| other <= n)),
            Wanted::Smallest => row.number(&self.field).is_some_and(|n| numbers().all(|other| other >= n)),
        };
        self.values.iter().any(equal) == (self.is == Sense::OneOf)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |v: &Wanted| match v {
            Wanted::Number(n) => n.to_string(),
            Wanted::Word(word) => word.clone(),
            Wanted::Largest => "max".into(),
            Wanted::Smallest => "min".into(),
        };
        let values: Vec<String> = self.values.iter().map(value).collect();
        let sign = if self.is == Sense::OneOf { "=" } else { "!=" };
        write!(f, "{}{sign}{}", self.field, values.join("|"))
    }
}

fn call(function: Function, args: &[Vec<f64>]) -> Result<Vec<f64>, EvalError> {
    let all = &args[0];
    let one = |value: Option<f64>| Ok(vec![value.ok_or(EvalError::Nothing(function.name()))?]);
    match function {
        Function::Abs => Ok(all.iter().map(|v| v.abs()).collect()),
        Function::Steps => Ok(all.windows(2).map(|w| w[1] - w[0]).collect()),
        Function::OrZero => Ok(all.clone()),
        Function::Min => one(all.iter().copied().reduce(f64::min)),
        Function::Max => one(all.iter().copied().reduce(f64::max)),
        Function::Mean => one((!all.is_empty()).then(|| mean(all))),
        Function::Sum => Ok(vec![all.iter().sum()]),
        Function::Count => Ok(vec![all.len() as f64]),
        Function::Slope => line(&args[0], &args[1]).map(|(slope, _)| vec![slope]),
        Function::Straight => line(&args[0], &args[1]).map(|(_, straight)| vec![straight]),
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The slope and R squared of `y` over `x`.
fn line(x: &[f64], y: &[f64]) -> Result<(f64, f64), EvalError> {
    if x.len() != y.len() {
        return Err(EvalError::Lengths { left: x.len(), right: y.len() });
    }
    if x.len() < 2 {
        return Err(EvalError::Nothing("a line"));
    }
    let (mx, my) = (mean(x), mean(y));
    let products = |a: &[f64], ma: f64, b: &[f64], mb: f64| -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - ma) * (b - mb)).sum()
    };
    let (xx, yy, xy) = (products(x, mx, x, mx), products(y, my, y, my), products(x, mx, y, my));
    Ok((xy / xx, if yy == 0.0 { 1.0 } else { xy * xy / (xx * yy) }))
}

#[cfg(test)]
mod tests;
