//! SQL text into programs.
//!
//! ```text
//!   text --> parse --> Parsed --> compile(catalog) --> Compiled
//!                                   Query      a program, types of parameters and columns
//!                                   Define     a change of the catalog, and work on stored rows
//!                                   Session    words about the transaction and its settings
//!                                   General    a query for an engine that joins and sorts at will
//! ```
//!
//! The direct path covers queries that find their rows by keys, indexes or one scan, and what
//! groups, sorts and cuts them. Names, types and error codes are PostgreSQL's.
//!
//! - [`mod@parse`], `words`, [`session`], `sequence_text`: text into statements.
//! - `names`, [`types`], `coerce`, `operators`, `expressions`: expressions.
//! - `paths`, `sources`: how rows are found, in which order tables are searched.
//! - `select`, `insert`, `change`, `references`: statements on rows.
//! - [`ddl`]: statements on the catalog.
//! - [`describe`]: programs in words.
//! - [`general`], [`typed`]: the door to what runs all other queries, and what it needs from here.

#![forbid(unsafe_code)]

mod change;
mod coerce;
pub mod compiled;
mod copy;
pub mod ddl;
pub mod describe;
mod error;
mod expressions;
pub mod general;
mod insert;
mod names;
mod operators;
pub mod parse;
mod paths;
mod references;
mod select;
mod sequence_text;
pub mod session;
mod sources;
mod tables;
pub mod typed;
pub mod types;
mod walk;
mod words;

pub use compiled::{Compiled, Field, Fill, Query, Tag};
pub use parse::{Parsed, parse};
pub use session::Session;

use crate::coerce::Params;
use crate::error::no_table;
use crate::expressions::Compiler;
use crate::parse::Kind;
use crate::tables::Cache;
use sql::catalog::Catalog;
use sql::program::{Program, Statement};
use sql::{SqlError, SqlType};
use sqlparser::ast;

/// Why a statement was not compiled.
enum Stop {
    /// It is wrong.
    Error(SqlError),
    /// The direct path does not cover it: the part that is missing.
    General(&'static str),
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Stop {
        Stop::Error(error)
    }
}

/// A statement for a catalog. `given` has the types of parameters that the client knows.
///
/// # Errors
/// PostgreSQL's errors of analysis: unknown and ambiguous names, types that do not fit, and so on.
pub fn compile(catalog: &Catalog, parsed: &Parsed, given: &[Option<SqlType>]) -> Result<Compiled, SqlError> {
    match any(catalog, parsed, given) {
        Ok(compiled) => Ok(compiled),
        Err(Stop::Error(error)) => Err(error),
        Err(Stop::General(reason)) => Ok(Compiled::General { text: parsed.text().to_owned(), reason }),
    }
}

fn any(catalog: &Catalog, parsed: &Parsed, given: &[Option<SqlType>]) -> Result<Compiled, Stop> {
    match parsed.kind() {
        Kind::Session(session) => {
            if let Session::Vacuum(tables) | Session::Analyze(tables) | Session::Lock { tables, .. } = session
                && let Some(missing) = tables.iter().find(|name| catalog.table(name).is_none())
            {
                return Err(no_table(missing).into());
            }
            Ok(Compiled::Session(session.clone()))
        }
        Kind::Explain { analyze, inner } => {
            let inner = Box::new(any(catalog, inner, given)?);
            Ok(Compiled::Explain { analyze: *analyze, inner })
        }
        Kind::Prepare { name, types, inner } => {
            Ok(Compiled::Prepare { name: name.clone(), types: types.clone(), statement: inner.clone() })
        }
        Kind::Execute { name, args } => {
            let mut compiler = Compiler::new(catalog, Params::default());
            let scope = names::Scope::default();
            let mut values = Vec::with_capacity(args.len());
            for arg in args {
                let value = compiler.expr(&scope, arg)?;
                let value = compiler.params.settle(value)?;
                values.push((value.expr, value.ty));
            }
            Ok(Compiled::Execute { name: name.clone(), args: values })
        }
        Kind::AlterSequence(_) => Ok(Compiled::Define(ddl::Definition::new(parsed))),
        Kind::Sql(statement) => match statement.as_ref() {
            ast::Statement::Copy { .. } => Ok(Compiled::Copy(copy::copy(catalog, statement)?)),
            statement if ddl::is_definition(statement) => Ok(Compiled::Define(ddl::Definition::new(parsed))),
            statement => Ok(Compiled::Query(query(catalog, statement, parsed.params(), given)?)),
        },
    }
}

/// A statement on rows.
fn query(
    catalog: &Catalog,
    statement: &ast::Statement,
    params: usize,
    given: &[Option<SqlType>],
) -> Result<Query, Stop> {
    let mut compiler = Compiler::new(catalog, Params::new(params, given));
    let compiler = &mut compiler;
    let cache = &mut Cache::default();
    let (statement, fields, tag, reads, writes, only_reads) = match statement {
        ast::Statement::Query(query) => {
            let selected = select::query(compiler, cache, query)?;
            let statement = Statement::Select(selected.select);
            (statement, selected.fields, Tag::Select, selected.tables, Vec::new(), !selected.is_locking)
        }
        ast::Statement::Insert(insert) => of_written(insert::insert(compiler, cache, insert)?, Tag::Insert),
        ast::Statement::Update(update) => of_written(change::update(compiler, cache, update)?, Tag::Update),
        ast::Statement::Delete(delete) => of_written(change::delete(compiler, cache, delete)?, Tag::Delete),
        ast::Statement::Call(_) => return Err(SqlError::unsupported("CALL", None).into()),
        ast::Statement::Merge(_) => return Err(Stop::General("MERGE")),
        other => {
            let text = other.to_string();
            let words: Vec<&str> = text.split_whitespace().take(2).collect();
            return Err(SqlError::unsupported(&words.join(" "), None).into());
        }
    };
    let params = compiler.params.finish()?;
    let fills = std::mem::take(&mut compiler.fills);
    let all = params.iter().copied().chain(fills.iter().map(sources::fill_type)).collect();
    let program = Program { statements: vec![statement], params: all, only_reads };
    Ok(Query { program, params, fills, output: fields, tag, reads, writes })
}

type Parts = (Statement, Vec<Field>, Tag, Vec<sql::catalog::Oid>, Vec<sql::catalog::Oid>, bool);

fn of_written(written: insert::Written, tag: Tag) -> Parts {
    (written.statement, written.fields, tag, written.reads, written.writes, false)
}
