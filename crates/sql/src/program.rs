//! Compiled statements.
//!
//! A [`Program`] is self-contained: it names physical tables and has all that their rows' layout
//! and the routes of its steps need, so the instances that run it know no catalog. The server
//! compiles a statement once for each version of the catalog.

use crate::catalog::{Slots, Store};
use crate::expression::Aggregate;
pub use crate::row::StoredColumn;

use crate::row::Layout;
use crate::{Datum, Expr, SqlType};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};

/// One or several statements that run as one transaction, or as a part of one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Program {
    pub statements: Vec<Statement>,
    pub params: Vec<SqlType>,
    /// Whether no statement writes or locks.
    pub only_reads: bool,
    /// How the statements of a procedure depend on each other; `None` if they run one by one and
    /// each has an outcome.
    pub flow: Option<Flow>,
}

/// The statements of a program as a graph.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Flow {
    /// Positions of statements. Those of one phase depend on statements of earlier phases only, and
    /// their steps run together.
    pub phases: Vec<Vec<u16>>,
    /// Values that statements leave in parameters, for later ones.
    pub given: Vec<Given>,
    /// The only outcome of the program.
    pub result: FlowResult,
}

/// A value that a statement leaves in a parameter of its program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Given {
    pub statement: u16,
    pub what: GivenValue,
    pub param: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum GivenValue {
    /// A column of the only row; null without a row, and more rows are an error (a sub-query).
    Only(u16),
    /// A column of the first row; null without a row (`INTO`).
    First(u16),
    /// Whether there is a row (`EXISTS`).
    Exists,
}

/// What a program with a flow gives.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub enum FlowResult {
    /// Nothing.
    #[default]
    Nothing,
    /// What the statement at this position gives, or its sum of rows.
    Statement(u16),
    /// One row of these values, over the parameters.
    Row(Vec<Expr>),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Statement {
    Select(Select),
    Insert(Insert),
    Update(Update),
    Delete(Delete),
}

/// A table as its rows are stored.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Stored {
    /// For error messages.
    pub name: String,
    pub store: Store,
    pub columns: Vec<StoredColumn>,
    /// Positions of the key's columns. Empty if rows have a hidden number as their key.
    pub key: Vec<u16>,
    pub key_name: String,
    pub slots: Slots,
    pub indexes: Vec<StoredIndex>,
    /// Made when first needed.
    #[serde(skip)]
    pub layout: OnceLock<Layout>,
}

impl Stored {
    /// A table of the catalog, without its dropped columns' constraints.
    pub fn of(table: &crate::catalog::Table) -> Stored {
        let column = |column: &crate::catalog::Column| StoredColumn {
            name: column.name.clone(),
            ty: column.ty,
            nullable: column.nullable || column.dropped,
            missing: column.missing.clone(),
            dropped: column.dropped,
        };
        let index = |index: &crate::catalog::Index| StoredIndex {
            name: index.name.clone(),
            store: index.store,
            columns: index.columns.clone(),
            unique: index.unique,
            slots: index.slots.clone(),
        };
        Stored {
            name: table.name.clone(),
            store: table.store,
            columns: table.columns.iter().map(column).collect(),
            key: table.key.clone(),
            key_name: table.key_name.clone(),
            slots: table.slots.clone(),
            indexes: table.indexes.iter().map(index).collect(),
            layout: OnceLock::new(),
        }
    }

    /// A physical table of which the rows are not looked into.
    pub fn raw(store: Store) -> Stored {
        Stored {
            name: String::new(),
            store,
            columns: Vec::new(),
            key: Vec::new(),
            key_name: String::new(),
            slots: Slots::Hash(Vec::new()),
            indexes: Vec::new(),
            layout: OnceLock::new(),
        }
    }

    pub fn layout(&self) -> &Layout {
        self.layout.get_or_init(|| Layout::of(&self.columns))
    }
}

/// An index: its entries lead to the keys of rows. They are stored by `slots` of their own.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StoredIndex {
    pub name: String,
    pub store: Store,
    pub columns: Vec<u16>,
    pub unique: bool,
    pub slots: Slots,
}

/// Rows of one table, as a statement reaches them. The output row has all columns of the table.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Source {
    #[serde(with = "crate::kept")]
    pub table: Arc<Stored>,
    pub path: Path,
    /// Over the table's columns, preceded by those of the sources before it in a join.
    pub filter: Option<Arc<Expr>>,
    pub lock: RowLock,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RowLock {
    None,
    /// `FOR UPDATE`, and the reads of statements that write.
    Update,
    /// `NOWAIT`: a row that another transaction has locked is an error.
    NoWait,
    /// `SKIP LOCKED`: such a row is left out. Only a select of one source has it.
    Skip,
    /// The rows as they are at the moment, those of other transactions too. Only `SKIP LOCKED`
    /// looks so, before it takes the locks.
    Look,
}

impl RowLock {
    pub fn locks(self) -> bool {
        !matches!(self, RowLock::None | RowLock::Look)
    }
}

/// How rows are found. Expressions are over parameters and, in a join, the columns of the sources
/// before this one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Path {
    /// Rows by their whole keys: each entry has one value for each key column. Entries may turn out
    /// equal; a row counts once. An entry with a null finds nothing, nor does an integer beyond the
    /// column's type.
    Keys(Vec<Vec<Expr>>),
    /// A range of the primary key, or of an index: equal values of the first columns, then bounds
    /// on the next one. In order if `direction` is set. Ranges may turn out to overlap; a row
    /// counts once. A range with a null finds nothing.
    Ranges { index: Option<u16>, ranges: Vec<KeyRange>, direction: Option<Order> },
    /// All rows, in no order.
    All,
    /// The rows of a `VALUES` list; the table stores nothing.
    Values(Vec<Vec<Expr>>),
    /// The integers from a first to a last one by a step (`generate_series`), in a row each; the
    /// table stores nothing.
    Series { from: Expr, to: Expr, step: Expr },
    /// All rows, in the order of their slots and keys, from a place on: that of an earlier
    /// [`Outcome::rest`], or no bytes for the first row. As many as a message takes well.
    Part(Expr),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Order {
    Forward,
    Backward,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct KeyRange {
    pub equal: Vec<Expr>,
    pub low: Option<(Expr, bool)>,
    /// The bound, and whether it is included.
    pub high: Option<(Expr, bool)>,
}

/// Sources joined from left to right (each is searched once for each row so far), then grouped,
/// sorted and cut.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Select {
    pub sources: Vec<Joined>,
    pub grouping: Option<Grouping>,
    /// Over the joined row, or over the groups' row. Without sources there is one joined row, and
    /// it is empty.
    pub having: Option<Expr>,
    /// Over the same row as `having`.
    pub output: Vec<Output>,
    pub distinct: bool,
    /// Over the output row.
    pub order: Vec<SortKey>,
    /// Whether the path gives the order already.
    pub is_ordered: bool,
    pub limit: Option<Expr>,
    pub offset: Option<Expr>,
    /// The number of columns at the end of `output` that only the order needs.
    pub hidden: u16,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Joined {
    pub source: Source,
    /// Whether a row without a partner stays, with nulls (`LEFT JOIN`).
    pub is_outer: bool,
}

/// The groups' row: the keys, then the aggregates.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Grouping {
    pub keys: Vec<Expr>,
    pub aggregates: Vec<AggregateCall>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AggregateCall {
    pub function: Aggregate,
    pub args: Vec<Expr>,
    pub distinct: bool,
    pub filter: Option<Expr>,
    pub ty: SqlType,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Output {
    pub name: String,
    pub expr: Expr,
    pub ty: SqlType,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SortKey {
    /// Position in the output.
    pub column: u16,
    pub descending: bool,
    pub nulls_first: bool,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Insert {
    #[serde(with = "crate::kept")]
    pub table: Arc<Stored>,
    pub rows: InsertRows,
    pub checks: Vec<Checked>,
    pub references: Vec<Reference>,
    pub conflict: Option<Conflict>,
    /// Over the new row's columns.
    pub returning: Vec<Output>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum InsertRows {
    /// One expression for each column of the table. Values of sequences are parameters.
    Values(Vec<Vec<Expr>>),
    /// The rows of a query: `row` has one expression for each column of the table, over the query's
    /// output.
    Query { select: Box<Select>, row: Vec<Expr> },
}

/// A condition on each new row, over the table's columns.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Checked {
    pub name: String,
    pub condition: Expr,
}

/// Rows elsewhere that must exist (a foreign key of a new row), or that must not (of an old one).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Reference {
    pub name: String,
    /// Columns of the changed table.
    pub columns: Vec<u16>,
    /// How rows of the other table are found, from the changed row. Nothing is looked for if one of
    /// `columns` is null.
    pub other: Source,
    /// Columns of the other table that refer to the changed row, or to which it refers.
    pub other_columns: Vec<u16>,
    pub kind: ReferenceKind,
    /// The changed table, for error messages.
    #[serde(with = "crate::kept")]
    pub changed: Arc<Stored>,
    /// What follows where rows of the other table are deleted or changed too.
    pub further: Vec<Reference>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ReferenceKind {
    /// The other table must have a row.
    MustExist,
    /// The other table must have none.
    MustNot,
    /// Rows of the other table are deleted too.
    Cascade,
    /// Their columns become null.
    SetNull,
    /// Their columns become those of the changed row (`ON UPDATE CASCADE`).
    Follow,
}

/// `ON CONFLICT`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Conflict {
    /// The unique index that is meant; `None` for the primary key, or for any with `DO NOTHING`.
    pub index: Option<u16>,
    /// `DO UPDATE`: assignments over the existing row, followed by the row that was to be inserted.
    pub update: Option<(Vec<Assignment>, Option<Expr>)>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Assignment {
    pub column: u16,
    pub value: Expr,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Update {
    pub source: Source,
    /// Further sources (`UPDATE ... FROM`), joined after the table.
    pub from: Vec<Joined>,
    /// Over the joined row.
    pub set: Arc<Vec<Assignment>>,
    pub checks: Arc<Vec<Checked>>,
    /// Of a row, those apply of which one of `columns` changes.
    pub references: Vec<Reference>,
    /// Over the joined row, in which the table's columns have their new values.
    pub returning: Vec<Output>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Delete {
    pub source: Source,
    pub from: Vec<Joined>,
    pub references: Vec<Reference>,
    pub returning: Vec<Output>,
}

/// The outcome of one statement.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Rows selected, inserted, updated or deleted.
    pub count: u64,
    /// The rows of a `SELECT` or `RETURNING`.
    pub rows: Vec<Vec<Datum>>,
    /// Where the next rows begin, if the path was [`Path::Part`] and there may be more.
    pub rest: Option<Vec<u8>>,
}
