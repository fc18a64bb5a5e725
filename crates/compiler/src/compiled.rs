//! Compiled statements, as the server meets them.

use crate::create_as::TableOfRows;
use crate::cursor::Declared;
use crate::ddl::Definition;
use crate::parse::Parsed;
pub use crate::session::{Discard, Isolation, Modes, Session};
use sql::catalog::Oid;
use sql::{Expr, Program, SqlType};
use std::sync::Arc;
use std::time::Duration;

/// A statement, ready to be carried out.
#[derive(Clone, PartialEq, Debug)]
pub enum Compiled {
    Query(Query),
    /// A change of the catalog: [`Definition::apply`] makes it.
    Define(Definition),
    /// A new table with the rows of a query.
    CreateAs(TableOfRows),
    Session(Session),
    Copy(Copy),
    Explain {
        analyze: bool,
        inner: Box<Compiled>,
    },
    Prepare {
        name: String,
        types: Vec<Option<SqlType>>,
        statement: Parsed,
    },
    Execute {
        name: String,
        /// Expressions without columns and parameters, with their types.
        args: Vec<(Expr, SqlType)>,
    },
    /// A cursor over a query.
    Declare {
        declared: Declared,
        query: Box<Compiled>,
        statement: Parsed,
    },
    /// A query that the direct path does not cover: its text, and the part that is missing.
    General {
        text: String,
        reason: &'static str,
    },
}

impl Compiled {
    /// The call that it is, with its query.
    pub fn as_call(&self) -> Option<(&Query, &Called)> {
        let Compiled::Query(query) = self else { return None };
        query.call.as_deref().map(|call| (query, call))
    }
}

/// A statement that reads or writes rows.
#[derive(Clone, PartialEq, Debug)]
pub struct Query {
    pub program: Arc<Program>,
    /// The types of the parameters that the client gives: the first ones of the program's, unless
    /// it is a call.
    pub params: Vec<SqlType>,
    /// The program's parameters after those, which the server fills for each execution.
    pub fills: Vec<Fill>,
    /// The columns of the rows that the client gets; none if it gets only a count.
    pub output: Vec<Field>,
    pub tag: Tag,
    pub reads: Vec<Oid>,
    pub writes: Vec<Oid>,
    /// For a call of a procedure: how the client's parameters become the program's.
    pub call: Option<Arc<Called>>,
}

/// The arguments of a call.
#[derive(Clone, PartialEq, Debug)]
pub struct Called {
    pub procedure: Oid,
    /// The first parameters of the program, over the client's parameters and `fills`.
    pub args: Vec<Expr>,
    /// Values that the server gives after the client's parameters.
    pub fills: Vec<Fill>,
}

/// A value that the server knows and a program does not.
#[derive(Clone, PartialEq, Debug)]
pub enum Fill {
    /// The next number of a sequence.
    Next(Oid),
    /// The number that this session last took from a sequence.
    Current(Oid),
    /// The number that this session last took from any sequence.
    LastValue,
    /// Moves a sequence: its number, and whether that was taken already.
    SetSequence(Oid, i64, bool),
    User,
    Database,
    /// A setting of the session by name, as text.
    Setting(String),
    /// The number of the connection.
    Backend,
    /// The time at which the statement began, as `TimestampTz`.
    StatementTime,
    /// The time of the fill, as `TimestampTz`.
    ClockTime,
    /// `pg_sleep`: the empty text, after this time.
    Sleep(Duration),
    /// A value that a statement of the program gives; null before.
    Given(SqlType),
    /// A word about advisory locks.
    Advisory(Advisory),
}

/// A call of a function of advisory locks.
#[derive(Clone, PartialEq, Debug)]
pub struct Advisory {
    pub does: AdvisoryWord,
    pub mode: LockMode,
    /// One `bigint` or two `integer`s, over the client's parameters; none for all locks.
    pub key: Vec<Expr>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdvisoryWord {
    /// Waits.
    Lock(Owner),
    TryLock(Owner),
    Unlock,
    UnlockAll,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LockMode {
    Exclusive,
    Shared,
}

/// To which end a lock is held.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Owner {
    Session,
    Transaction,
}

/// What an advisory lock is on. One number and two are different locks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AdvisoryKey {
    One(i64),
    Two(i32, i32),
}

/// The function of advisory locks of this name.
pub fn advisory_word(name: &str) -> Option<(AdvisoryWord, LockMode)> {
    let (name, mode) = match name.strip_suffix("_shared") {
        Some(name) => (name, LockMode::Shared),
        None => (name, LockMode::Exclusive),
    };
    let word = match name {
        "pg_advisory_lock" => AdvisoryWord::Lock(Owner::Session),
        "pg_advisory_xact_lock" => AdvisoryWord::Lock(Owner::Transaction),
        "pg_try_advisory_lock" => AdvisoryWord::TryLock(Owner::Session),
        "pg_try_advisory_xact_lock" => AdvisoryWord::TryLock(Owner::Transaction),
        "pg_advisory_unlock" => AdvisoryWord::Unlock,
        "pg_advisory_unlock_all" if mode == LockMode::Exclusive => AdvisoryWord::UnlockAll,
        _ => return None,
    };
    Some((word, mode))
}

/// One column that a client gets.
#[derive(Clone, PartialEq, Debug)]
pub struct Field {
    pub name: String,
    pub ty: SqlType,
    /// The table and its column's number from 1, if the field is a plain column.
    pub column: Option<(Oid, u16)>,
}

/// The word that a client gets at the end of a statement, with the count of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tag {
    Select,
    Insert,
    Update,
    Delete,
    Call,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Copy {
    pub what: Copied,
    pub direction: Direction,
    pub options: CopyOptions,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Copied {
    /// From the client: positions of the columns, in the order in which they are sent. `insert`
    /// stores one row: parameter `i` is column `columns[i]`, the parameters after those are
    /// `fills`.
    Table { table: Oid, columns: Vec<u16>, insert: Box<Query> },
    /// To the client.
    Query(Box<Query>),
    /// To the client, by a plan: the query, and the part that a program lacks.
    General(Parsed, &'static str),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    FromClient,
    ToClient,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyFormat {
    Text,
    Csv,
    Binary,
}

#[derive(Clone, PartialEq, Debug)]
pub struct CopyOptions {
    pub format: CopyFormat,
    pub delimiter: char,
    /// The text that stands for null.
    pub null: String,
    pub header: bool,
    pub quote: char,
    pub escape: char,
}
