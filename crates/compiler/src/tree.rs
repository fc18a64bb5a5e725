//! Queries as trees: what joins, groups and sorts at will, over rows in memory.
//!
//! The leaves are scans: programs of one select each, which read a table's rows with the conditions
//! that concern that table alone. All else is carried out by the crate `queries`. Expressions are
//! those of programs. Their columns have ranges of their own:
//!
//! ```text
//!        0   columns of the joined row, by Select::places
//!    OUTER   columns of the rows around the query, by Tree::outers
//!      SUB   values of sub-queries, by Tree::subs: one that no expression asks for is not run
//!  0x8000    aggregates of the row's group, then values of its keys and of GROUPING
//!  WINDOWS   window functions
//! ```

mod before;
mod calls;
mod condition;
mod from;
mod grouping;
mod push;
mod query;
mod reference;
mod returning;
mod rows;
mod scan;
mod select;
mod stages;
mod sub_query;
mod written;

use crate::coerce::Params;
use crate::compiled::{Field, Fill};
use crate::expressions::Compiler;
use crate::parse::{Kind, Parsed};
use crate::{Stop, placed};
use sql::catalog::{Catalog, Oid};
use sql::expression::BinaryOp;
use sql::program::AggregateCall;
use sql::{Element, Expr, Program, SqlError, SqlType};
use sqlparser::ast;
use std::sync::Arc;

pub(crate) use reference::State;
pub use stages::{Staged, staged};
pub use written::{Written, written};

pub const OUTER: u16 = 0x4000;
pub const SUB: u16 = 0x6000;
pub const AGGREGATES: u16 = crate::expressions::AGGREGATES;
pub const WINDOWS: u16 = 0xC000;

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Tree {
    pub query: Query,
    /// The types of the client's parameters.
    pub params: Vec<SqlType>,
    /// The parameters after those.
    pub fills: Vec<Fill>,
    pub fields: Vec<Field>,
    pub scans: Vec<Scan>,
    /// Of the columns of joined rows, by [`Select::places`].
    pub places: Vec<Vec<Place>>,
    pub outers: Vec<Outer>,
    pub subs: Vec<Sub>,
    pub withs: Vec<With>,
    pub tables: Vec<Oid>,
    /// Those that it names, and those that these name.
    pub views: Vec<Oid>,
}

/// The rows of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct Scan {
    pub table: String,
    /// Its columns in the order of the program's output.
    pub columns: Vec<u16>,
    pub program: Arc<Program>,
    /// Whether the program reads the rows in parts: its last parameter is where it begins.
    pub in_parts: bool,
}

/// Where a column of a joined row is: a relation, and a column of its rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub relation: u16,
    pub column: u16,
}

/// A column of a row that is `depth` queries further out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Outer {
    pub depth: u16,
    pub column: u16,
}

/// A query in an expression.
#[derive(Clone, PartialEq, Debug)]
pub struct Sub {
    pub what: Asked,
    pub query: Query,
    /// What it needs of the rows around it. The row of the expression has depth 0.
    pub free: Vec<Outer>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Asked {
    /// The value of its only row; null without a row.
    Value,
    Existence,
    /// The array of its values.
    Array(Element),
    /// `left op ANY (query)`, or `ALL`. `right` is over the query's row. Row values are compared
    /// with `=` and `<>` only.
    Comparison {
        op: BinaryOp,
        all: bool,
        left: Vec<Expr>,
        right: Vec<Expr>,
    },
}

/// A common table expression, which is run once.
#[derive(Clone, PartialEq, Debug)]
pub struct With {
    pub name: String,
    pub query: Query,
    /// The recursive part, which reads what the last round has added, and whether equal rows stay.
    pub step: Option<(Query, bool)>,
    /// The part of the statement that gives the rows; the query is not run then.
    pub given: Option<usize>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Query {
    pub body: Body,
    pub order: Vec<Key>,
    pub limit: Option<Expr>,
    pub offset: Option<Expr>,
    /// The number of columns of its rows. Those that the body gives besides are for the order.
    pub width: usize,
}

/// A column by which rows are ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    pub column: usize,
    pub descending: bool,
    pub nulls_first: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Body {
    Select(Box<Select>),
    Values(Vec<Vec<Expr>>),
    Set(Box<Set>),
    /// The rows of a query, as values over them.
    Mapped(Box<Query>, Vec<Expr>),
    /// The first row for each value of so many first columns.
    First(Box<Query>, usize),
}

#[derive(Clone, PartialEq, Debug)]
pub struct Set {
    pub op: SetOp,
    /// Whether equal rows stay.
    pub all: bool,
    pub left: Query,
    pub right: Query,
    /// The columns as of their common types, over the rows of each side.
    pub left_row: Vec<Expr>,
    pub right_row: Vec<Expr>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetOp {
    Union,
    Intersect,
    Except,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Select {
    /// In [`Tree::places`].
    pub places: usize,
    pub relations: usize,
    /// `None` for one row without columns.
    pub from: Option<Node>,
    pub grouping: Option<Grouping>,
    pub having: Option<Expr>,
    pub windows: Vec<Window>,
    /// The output, then what only the order needs.
    pub items: Vec<Expr>,
    pub distinct: Distinct,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Distinct {
    No,
    /// Of the whole output.
    Rows,
    /// The first row for each value of these items.
    On(Vec<usize>),
}

#[derive(Clone, PartialEq, Debug)]
pub struct Grouping {
    pub keys: Vec<Expr>,
    pub aggregates: Vec<Aggregated>,
    /// With sets, a group has further values behind its aggregates: those of all keys, null if the
    /// set does not have them, and those of each `GROUPING`. Without, the keys are the only set.
    pub sets: Vec<GroupingSet>,
}

/// Keys by which the rows are grouped, in one of several ways.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupingSet {
    /// In [`Grouping::keys`].
    pub keys: Vec<usize>,
    /// The value of each `GROUPING`.
    pub groupings: Vec<i64>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Aggregated {
    pub call: AggregateCall,
    pub order: Vec<OrderBy>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct OrderBy {
    pub expr: Expr,
    pub ty: SqlType,
    pub descending: bool,
    pub nulls_first: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Window {
    pub function: WindowFunction,
    pub args: Vec<Expr>,
    pub filter: Option<Expr>,
    pub partition: Vec<Expr>,
    pub order: Vec<OrderBy>,
    pub frame: Frame,
    pub ty: SqlType,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowFunction {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    Ntile,
    Lag,
    Lead,
    FirstValue,
    LastValue,
    NthValue,
    Aggregate(sql::expression::Aggregate),
}

/// The rows around a row of a window. `RANGE` and `GROUPS` end at rows that are equal by the order;
/// the offset of `RANGE` is one of the only key.
#[derive(Clone, PartialEq, Debug)]
pub struct Frame {
    pub by: FrameBy,
    pub start: Bound,
    pub end: Bound,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameBy {
    Rows,
    Range,
    Groups,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Bound {
    First,
    /// So many before the current row, or so much.
    Before(Expr),
    Current,
    After(Expr),
    Last,
}

/// What gives joined rows.
#[derive(Clone, PartialEq, Debug)]
pub enum Node {
    Leaf(Leaf),
    /// Inner joins of any number of parts, in an order that the rows decide; if one part needs the
    /// rows of those before it, in this order.
    Inner {
        parts: Vec<Node>,
        conditions: Vec<Condition>,
        in_order: bool,
    },
    Outer(Box<OuterJoin>),
    Filter {
        input: Box<Node>,
        conditions: Vec<Expr>,
    },
}

#[derive(Clone, PartialEq, Debug)]
pub struct Leaf {
    pub relation: u16,
    pub source: Source,
    /// Equalities of an expression over the leaf's row and one that is known without it: rows are
    /// found by them.
    pub lookup: Vec<(Expr, Expr)>,
    /// Conditions on its rows.
    pub conditions: Vec<Expr>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Source {
    /// In [`Tree::scans`].
    Scan(usize),
    /// In [`Tree::withs`].
    With(usize),
    /// What the last round of a recursive expression has added.
    Working(usize),
    /// `LATERAL` if it needs the rows of the parts before it, which then have depth 1.
    Query { query: Box<Query>, is_lateral: bool },
    /// `generate_series`: from, to, step, of integers, decimal numbers or times.
    Series { args: Vec<Expr>, ty: SqlType },
    /// The elements of arrays with their types, side by side. A shorter array ends in nulls.
    Elements(Vec<(Expr, SqlType)>),
    /// The rows of a series or of arrays, with their numbers from 1.
    Numbered(Box<Source>),
}

/// A condition on the rows of several parts.
#[derive(Clone, PartialEq, Debug)]
pub struct Condition {
    pub expr: Expr,
    /// The relations that it names, a bit each.
    pub relations: u64,
    /// Both sides, and the relations that each names.
    pub equal: Option<Box<[(Expr, u64); 2]>>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct OuterJoin {
    pub left: Node,
    pub right: Node,
    /// Whether rows without a partner stay.
    pub keeps_left: bool,
    pub keeps_right: bool,
    /// Equal values: over the left row, over the right row.
    pub equal: Vec<(Expr, Expr)>,
    /// The other conditions, over the joined row.
    pub conditions: Vec<Expr>,
    /// Whether the right side needs the left row.
    pub is_lateral: bool,
}

/// The tree of a statement.
///
/// # Errors
/// PostgreSQL's errors of analysis; `0A000` for what trees lack, and for statements that are no
/// queries.
pub fn tree(catalog: &Catalog, parsed: &Parsed, given: &[Option<SqlType>]) -> Result<Tree, SqlError> {
    crate::on_its_stack(catalog, parsed, || bound(catalog, parsed, given))
}

fn bound(catalog: &Catalog, parsed: &Parsed, given: &[Option<SqlType>]) -> Result<Tree, SqlError> {
    let query = match parsed.kind() {
        Kind::Sql(statement) => match statement.as_ref() {
            ast::Statement::Query(query) => query,
            _ => return Err(refused("a statement of this kind with joins or sub-queries")),
        },
        _ => return Err(refused("a statement of this kind with joins or sub-queries")),
    };
    let mut compiler = Compiler::new(catalog, Params::new(parsed.params(), given));
    compiler.tree = Some(State::default());
    match whole(&mut compiler, query) {
        Ok(tree) => Ok(tree),
        Err(stop) => Err(match placed(stop, &compiler, parsed) {
            Stop::Error(error) => error,
            Stop::General(what) => refused(what),
        }),
    }
}

fn refused(what: &str) -> SqlError {
    SqlError::unsupported(what, Some("Ask for it in several statements, or compute it in the client."))
}

fn whole(compiler: &mut Compiler<'_>, ast: &ast::Query) -> Result<Tree, Stop> {
    let bound = compiler.tree_query(ast)?;
    finished(compiler, bound.query, bound.fields)
}

/// The tree of a query that is bound.
fn finished(compiler: &mut Compiler<'_>, query: Query, fields: Vec<Field>) -> Result<Tree, Stop> {
    let params = compiler.params.finish()?;
    let fills = std::mem::take(&mut compiler.fills);
    if fills.iter().any(is_of_sequence) {
        return Err(Stop::General("a sequence in a query with joins or sub-queries"));
    }
    let all: Vec<SqlType> =
        params.iter().copied().chain(fills.iter().map(crate::sources::fill_type)).collect();
    let mut state = compiler.tree.take().unwrap_or_default();
    let scans = scan::programs(compiler, &mut state, &all)?;
    let State { outers, subs, withs, places, mut tables, views, .. } = state;
    tables.sort_unstable();
    tables.dedup();
    let places = places.into_iter().map(|(places, _)| places).collect();
    Ok(Tree { query, params, fills, fields, scans, places, outers, subs, withs, tables, views })
}

fn is_of_sequence(fill: &Fill) -> bool {
    matches!(fill, Fill::Next(_) | Fill::SetSequence(..) | Fill::Current(_) | Fill::LastValue)
}
