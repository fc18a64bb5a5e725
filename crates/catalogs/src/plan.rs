//! A query with names resolved and types decided, as it is carried out.

use crate::functions::Function;
use crate::value::{Type, Value};

/// An expression over a row, the rows of the queries around it, and what was computed for the row's
/// group.
#[derive(Clone, PartialEq, Debug)]
pub enum Ex {
    Const(Value),
    Param(usize),
    /// A column of the row, or of a row `depth` queries further out.
    Column {
        depth: usize,
        at: usize,
    },
    /// Of the aggregates, windows or sets of the row.
    Aggregate(usize),
    Window(usize),
    Set(usize),
    And(Box<Ex>, Box<Ex>),
    Or(Box<Ex>, Box<Ex>),
    Not(Box<Ex>),
    IsNull(Box<Ex>),
    /// `IS NOT DISTINCT FROM`.
    Same(Box<Ex>, Box<Ex>),
    Binary(Op, Box<Ex>, Box<Ex>),
    /// `expr op ANY (array)`, or `ALL`.
    OfArray {
        op: Op,
        left: Box<Ex>,
        array: Box<Ex>,
        all: bool,
    },
    /// `expr op ANY (query)`, or `ALL`. `IN (query)` is `= ANY`.
    OfQuery {
        op: Op,
        left: Box<Ex>,
        query: Box<Query>,
        all: bool,
    },
    Exists(Box<Query>),
    /// The value of a query of one row.
    Scalar(Box<Query>),
    /// All values of a query, as an array.
    Collected(Box<Query>),
    Case {
        branches: Vec<(Ex, Ex)>,
        otherwise: Box<Ex>,
    },
    Cast {
        value: Box<Ex>,
        from: Type,
        to: Type,
    },
    Call {
        function: Function,
        args: Vec<Ex>,
    },
    Array(Vec<Ex>),
    Row(Vec<Ex>),
    Field(Box<Ex>, String),
    Element(Box<Ex>, Box<Ex>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    BitAnd,
    BitOr,
    Concat,
    Matches {
        ignore_case: bool,
        negated: bool,
    },
    Like {
        ignore_case: bool,
        negated: bool,
    },
    /// `a @> b`, `a && b` on arrays.
    Contains,
    Overlaps,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Output {
    pub name: String,
    pub ty: Type,
}

/// A common table expression.
#[derive(Clone, PartialEq, Debug)]
pub struct With {
    /// In the statement.
    pub number: usize,
    pub query: Query,
    /// The recursive part, which reads the rows that the last round has added, and whether equal
    /// rows stay.
    pub step: Option<(Query, bool)>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Query {
    pub with: Vec<With>,
    pub body: Body,
    pub columns: Vec<Output>,
    /// Positions of the sort keys: those after `columns` are dropped from the result.
    pub order: Vec<SortKey>,
    pub limit: Option<Ex>,
    pub offset: Option<Ex>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SortKey {
    pub column: usize,
    pub descending: bool,
    pub nulls_first: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Body {
    Select(Box<Select>),
    Values(Vec<Vec<Ex>>),
    Set { kind: SetKind, all: bool, left: Box<Query>, right: Box<Query> },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetKind {
    Union,
    Except,
    Intersect,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Select {
    pub from: Option<Source>,
    pub filter: Option<Ex>,
    pub keys: Vec<Ex>,
    pub aggregates: Vec<Aggregate>,
    pub is_grouped: bool,
    pub having: Option<Ex>,
    pub windows: Vec<Window>,
    /// Functions of sets in the output: a row for each element.
    pub sets: Vec<Ex>,
    pub items: Vec<Ex>,
    pub distinct: bool,
    /// `DISTINCT ON`.
    pub distinct_on: Vec<Ex>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Aggregate {
    pub name: String,
    pub args: Vec<Ex>,
    pub distinct: bool,
    pub filter: Option<Ex>,
    pub order: Vec<(Ex, bool)>,
}

/// `row_number()`, `rank()` or `count(*)` over a partition.
#[derive(Clone, PartialEq, Debug)]
pub struct Window {
    pub name: String,
    pub partition: Vec<Ex>,
    pub order: Vec<(Ex, bool)>,
}

/// Rows to select from. Columns of a join are those of its sides.
#[derive(Clone, PartialEq, Debug)]
pub enum Source {
    /// A relation of the catalogs, by its number.
    Relation(usize),
    /// A common table expression.
    With(usize),
    Query {
        query: Box<Query>,
        lateral: bool,
    },
    /// The rows that meet a condition.
    Filtered {
        source: Box<Source>,
        condition: Ex,
    },
    /// A function of a set, with the number of the row.
    Function {
        function: Function,
        args: Vec<Ex>,
        ordinality: bool,
        columns: usize,
    },
    Join(Box<Join>),
}

#[derive(Clone, PartialEq, Debug)]
pub struct Join {
    pub left: Source,
    pub right: Source,
    pub widths: (usize, usize),
    pub kind: JoinKind,
    /// Pairs of equal values: over the left row, over the right one.
    pub equal: Vec<(Ex, Ex)>,
    /// Over both rows.
    pub on: Option<Ex>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
}

impl Source {
    /// Whether it has to be made again for each row on its left.
    pub fn is_lateral(&self) -> bool {
        match self {
            Source::Query { lateral, .. } => *lateral,
            Source::Function { args, .. } => args.iter().any(|arg| !matches!(arg, Ex::Const(_))),
            Source::Filtered { source, .. } => source.is_lateral(),
            Source::Join(join) => join.left.is_lateral() || join.right.is_lateral(),
            Source::Relation(_) | Source::With(_) => false,
        }
    }
}

impl Ex {
    /// Calls `visit` for this expression and those in it, but not for those in queries. Returns
    /// false if there is a query.
    pub fn walk(&self, visit: &mut dyn FnMut(&Ex)) -> bool {
        visit(self);
        let mut all = true;
        let mut each = |inner: &Ex| all &= inner.walk(visit);
        match self {
            Ex::And(a, b) | Ex::Or(a, b) | Ex::Same(a, b) | Ex::Binary(_, a, b) | Ex::Element(a, b) => {
                each(a);
                each(b);
            }
            Ex::OfArray { left, array, .. } => {
                each(left);
                each(array);
            }
            Ex::Not(a) | Ex::IsNull(a) | Ex::Field(a, _) | Ex::Cast { value: a, .. } => each(a),
            Ex::Case { branches, otherwise } => {
                branches.iter().for_each(|(when, then)| {
                    each(when);
                    each(then);
                });
                each(otherwise);
            }
            Ex::Call { args, .. } | Ex::Array(args) | Ex::Row(args) => args.iter().for_each(each),
            Ex::OfQuery { .. } | Ex::Exists(_) | Ex::Scalar(_) | Ex::Collected(_) => return false,
            _ => {}
        }
        all
    }

    /// The columns of the row that it reads; `None` if it has a query, which may read any.
    pub fn columns(&self) -> Option<Vec<usize>> {
        let mut columns = Vec::new();
        let all = self.walk(&mut |ex| {
            if let Ex::Column { depth: 0, at } = ex {
                columns.push(*at);
            }
        });
        all.then_some(columns)
    }

    /// The same expression over a row of which the first `by` columns are missing.
    pub fn shifted(&self, by: usize) -> Ex {
        let mut ex = self.clone();
        ex.each_column(&mut |at| *at = at.saturating_sub(by));
        ex
    }
}

/// The parts of a condition that all must hold.
pub fn conjuncts(ex: Ex, out: &mut Vec<Ex>) {
    match ex {
        Ex::And(a, b) => {
            conjuncts(*a, out);
            conjuncts(*b, out);
        }
        other => out.push(other),
    }
}

/// One condition of all parts.
pub fn all_of(parts: Vec<Ex>) -> Option<Ex> {
    parts.into_iter().reduce(|a, b| Ex::And(a.into(), b.into()))
}

/// Gives conditions to the joins that can check them: with these their rows are found faster.
/// Returns the conditions that are left.
pub fn push_down(source: &mut Source, conditions: Vec<Ex>) -> Vec<Ex> {
    let Source::Join(join) = source else { return conditions };
    let width = join.widths.0;
    let mut left_over = Vec::new();
    let (mut to_left, mut to_right) = (Vec::new(), Vec::new());
    for condition in conditions {
        let Some(columns) = condition.columns() else {
            left_over.push(condition);
            continue;
        };
        let on_left = columns.iter().all(|at| *at < width);
        let on_right = columns.iter().all(|at| *at >= width);
        match join.kind {
            JoinKind::Inner | JoinKind::Left if on_left => to_left.push(condition),
            JoinKind::Inner if on_right => to_right.push(condition.shifted(width)),
            JoinKind::Inner => add(join, condition),
            _ => left_over.push(condition),
        }
    }
    filter(&mut join.left, to_left);
    filter(&mut join.right, to_right);
    left_over
}

/// Makes a source keep the rows only that meet the conditions.
fn filter(source: &mut Source, conditions: Vec<Ex>) {
    let rest = push_down(source, conditions);
    if let Some(condition) = all_of(rest) {
        let inner = std::mem::replace(source, Source::With(0));
        *source = Source::Filtered { source: Box::new(inner), condition };
    }
}

/// Adds a condition to a join: as a pair of equal values if it is one.
pub fn add(join: &mut Join, condition: Ex) {
    let width = join.widths.0;
    if let Ex::Binary(Op::Equal, a, b) = &condition {
        let side = |ex: &Ex| {
            let columns = ex.columns()?;
            if columns.is_empty() {
                return None;
            }
            if columns.iter().all(|at| *at < width) {
                return Some(true);
            }
            columns.iter().all(|at| *at >= width).then_some(false)
        };
        match (side(a), side(b)) {
            (Some(true), Some(false)) => return join.equal.push(((**a).clone(), b.shifted(width))),
            (Some(false), Some(true)) => return join.equal.push(((**b).clone(), a.shifted(width))),
            _ => {}
        }
    }
    join.on = Some(match join.on.take() {
        Some(on) => Ex::And(on.into(), condition.into()),
        None => condition,
    });
}

impl Ex {
    fn each_column(&mut self, change: &mut dyn FnMut(&mut usize)) {
        match self {
            Ex::Column { depth: 0, at } => change(at),
            Ex::And(a, b) | Ex::Or(a, b) | Ex::Same(a, b) | Ex::Binary(_, a, b) | Ex::Element(a, b) => {
                a.each_column(change);
                b.each_column(change);
            }
            Ex::OfArray { left, array, .. } => {
                left.each_column(change);
                array.each_column(change);
            }
            Ex::Not(a) | Ex::IsNull(a) | Ex::Field(a, _) | Ex::Cast { value: a, .. } => a.each_column(change),
            Ex::Case { branches, otherwise } => {
                for (when, then) in branches {
                    when.each_column(change);
                    then.each_column(change);
                }
                otherwise.each_column(change);
            }
            Ex::Call { args, .. } | Ex::Array(args) | Ex::Row(args) => {
                args.iter_mut().for_each(|arg| arg.each_column(change));
            }
            _ => {}
        }
    }
}
