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
//! - [`mod@parse`], `reading`, `words`, [`session`], [`cursor`], `sequence_text`: text into
//!   statements. `limits`: how much a text may hold. [`arrays`]: lists in place of arrays.
//! - `names`, [`types`], `coerce`, `operators`, `expressions`: expressions.
//! - `paths`, `sources`: how rows are found, in which order tables are searched. `views`,
//!   `expanded`: queries with a name, and what stands in their place.
//! - `select`, `insert`, `change`, `references`: statements on rows.
//! - `procedure_text`, `bodies`, `procedures`, `sub_queries`, `flow`: procedures, and statements
//!   that need others' values.
//! - [`ddl`]: statements on the catalog. `create_as`: tables with the rows of a query.
//! - [`describe`], [`describe_call`]: programs in words.
//! - [`general`], [`typed`]: the door to what runs all other queries, and what it needs from here.
//! - [`mod@tree`]: all other queries as trees of operators, for the crate `queries`.

#![forbid(unsafe_code)]

pub mod arrays;
mod bodies;
mod change;
mod coerce;
pub mod compiled;
mod copy;
mod create_as;
pub mod cursor;
pub mod ddl;
pub mod describe;
pub mod describe_call;
mod error;
mod expanded;
mod expressions;
mod flow;
pub mod general;
mod insert;
mod items;
mod limits;
mod names;
mod operand;
mod operators;
pub mod parse;
mod paths;
mod procedure_text;
mod procedures;
mod reading;
mod references;
mod select;
mod sequence_text;
pub mod session;
mod sources;
mod sub_queries;
mod tables;
pub mod tree;
pub mod typed;
pub mod types;
mod views;
mod walk;
mod words;
mod written_names;

pub use compiled::{Called, Compiled, Field, Fill, Query, Tag};
pub use create_as::TableOfRows;
pub use parse::{Parsed, on_its_stack, parse};
pub use session::Session;

use crate::coerce::Params;
use crate::error::no_table;
use crate::expressions::Compiler;
use crate::flow::Unit;
use crate::parse::Kind;
use crate::procedures::{Call, Form};
use crate::tables::Cache;
use sql::catalog::Catalog;
use sql::program::{FlowResult, Program, Statement};
use sql::{SqlError, SqlType};
use sqlparser::ast;
use std::sync::Arc;

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
    match on_its_stack(catalog, parsed, || any(catalog, parsed, given)) {
        Ok(compiled) => Ok(compiled),
        Err(Stop::Error(error)) => Err(error),
        Err(Stop::General(reason)) => Ok(Compiled::General { text: parsed.text().to_owned(), reason }),
    }
}

/// Where nothing else carries a statement out, what the direct path does not cover is refused.
fn plainly(stop: Stop) -> SqlError {
    match stop {
        Stop::Error(error) => error,
        Stop::General(reason) => SqlError::unsupported(reason, None),
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
            let resolved = |ty: &Option<_>| ty.as_ref().map(|ty| types::resolve(catalog, ty)).transpose();
            let types = types.iter().map(resolved).collect::<Result<Vec<_>, SqlError>>()?;
            Ok(Compiled::Prepare { name: name.clone(), types, statement: inner.clone() })
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
        Kind::AlterSequence(_) | Kind::CreateRoutine(_) | Kind::DropRoutine(_) => {
            Ok(Compiled::Define(ddl::Definition::new(parsed)))
        }
        Kind::Declare { declared, inner } => Ok(Compiled::Declare {
            declared: declared.clone(),
            query: Box::new(any(catalog, inner, given)?),
            statement: inner.clone(),
        }),
        Kind::CreateAs { create, inner } => {
            Ok(Compiled::CreateAs(create_as::compiled(catalog, create, inner)?))
        }
        Kind::Call { name, args } => {
            let call = Call { name: name.clone(), args: args.clone(), form: Form::Call };
            let mut compiler = Compiler::new(catalog, Params::new(parsed.params(), given));
            let query = procedures::call(&mut compiler, &call);
            Ok(Compiled::Query(query.map_err(|stop| placed(stop, &compiler, parsed))?))
        }
        Kind::Sql(statement) => match statement.as_ref() {
            ast::Statement::Copy { .. } => Ok(Compiled::Copy(copy::copy(catalog, statement)?)),
            statement if ddl::is_definition(statement) => Ok(Compiled::Define(ddl::Definition::new(parsed))),
            statement => {
                let mut compiler = Compiler::new(catalog, Params::new(parsed.params(), given));
                let query = query(&mut compiler, statement);
                Ok(Compiled::Query(query.map_err(|stop| placed(stop, &compiler, parsed))?))
            }
        },
    }
}

/// An error with its position in the client's text, if its place is known.
fn placed(stop: Stop, compiler: &Compiler<'_>, parsed: &Parsed) -> Stop {
    match (stop, compiler.place) {
        (Stop::Error(mut error), Some(place)) => {
            error.position = error.position.or_else(|| parsed.position(place));
            Stop::Error(error)
        }
        (stop, _) => stop,
    }
}

/// A statement on rows.
fn query(compiler: &mut Compiler<'_>, statement: &ast::Statement) -> Result<Query, Stop> {
    if let Some(call) = procedures::as_call(compiler.catalog, statement)? {
        return procedures::call(compiler, &call);
    }
    let (statement, fields, tag, reads, writes, mut only_reads) =
        row_statement(compiler, &mut Cache::default(), statement)?;
    let params = compiler.params.finish()?;
    let fills = std::mem::take(&mut compiler.fills);
    let all = params.iter().copied().chain(fills.iter().map(sources::fill_type)).collect();
    let mut units = compiler.hoisted.take().unwrap_or_default();
    let mut reads = reads;
    let (statements, flow) = if units.is_empty() {
        (vec![statement], None)
    } else {
        let hoisted = units.iter().flat_map(|unit| unit.reads.iter().copied());
        let hoisted: Vec<sql::catalog::Oid> = hoisted.collect();
        let result = FlowResult::Statement(units.len() as u16);
        let (uses, gives) = (std::mem::take(&mut compiler.uses), Vec::new());
        units.push(Unit { statement, reads: reads.clone(), writes: writes.clone(), uses, gives });
        let flow = flow::flow(&units, result);
        reads.extend(hoisted);
        only_reads &= writes.is_empty();
        (units.into_iter().map(|unit| unit.statement).collect(), Some(flow))
    };
    let program = Arc::new(Program { statements, params: all, only_reads, flow });
    Ok(Query { program, params, fills, output: fields, tag, reads, writes, call: None })
}

/// A statement on rows. Sub-queries that run before it are the compiler's `hoisted`.
fn row_statement(
    compiler: &mut Compiler<'_>,
    cache: &mut Cache,
    statement: &ast::Statement,
) -> Result<Parts, Stop> {
    compiler.hoisted = Some(Vec::new());
    Ok(match statement {
        ast::Statement::Query(query) => {
            let selected = select::query(compiler, cache, query)?;
            let statement = Statement::Select(selected.select);
            (statement, selected.fields, Tag::Select, selected.tables, Vec::new(), !selected.is_locking)
        }
        ast::Statement::Insert(insert) => of_written(insert::insert(compiler, cache, insert)?, Tag::Insert),
        ast::Statement::Update(update) => of_written(change::update(compiler, cache, update)?, Tag::Update),
        ast::Statement::Delete(delete) => of_written(change::delete(compiler, cache, delete)?, Tag::Delete),
        ast::Statement::Merge(_) => {
            let hint =
                "Use INSERT ... ON CONFLICT, or UPDATE ... FROM and INSERT ... SELECT in a transaction.";
            return Err(SqlError::unsupported("MERGE", Some(hint)).into());
        }
        other => {
            let text = other.to_string();
            let words: Vec<&str> = text.split_whitespace().take(2).collect();
            return Err(SqlError::unsupported(&words.join(" "), None).into());
        }
    })
}

type Parts = (Statement, Vec<Field>, Tag, Vec<sql::catalog::Oid>, Vec<sql::catalog::Oid>, bool);

fn of_written(written: insert::Written, tag: Tag) -> Parts {
    (written.statement, written.fields, tag, written.reads, written.writes, false)
}
