//! `COPY`.

use crate::coerce::Params;
use crate::compiled::{Copied, Copy, CopyFormat, CopyOptions, Direction, Field, Query, Tag};
use crate::expressions::Compiler;
use crate::names::{folded, table};
use crate::tables::Cache;
use crate::{Stop, insert, sources};
use sql::catalog::{Catalog, Column, Table};
use sql::program::{Insert, InsertRows, Joined, Output, Path, Program, RowLock, Select, Source, Statement};
use sql::{Expr, SqlError, SqlState};
use sqlparser::ast::{self, CopyLegacyOption, CopyOption, CopySource, CopyTarget};

pub fn copy(catalog: &Catalog, statement: &ast::Statement) -> Result<Copy, Stop> {
    let ast::Statement::Copy { source, to, target, options, legacy_options, .. } = statement else {
        return Err(Stop::General("COPY of this kind"));
    };
    let direction = if *to { Direction::ToClient } else { Direction::FromClient };
    match target {
        CopyTarget::Stdin | CopyTarget::Stdout => {}
        _ => {
            let hint = "Use COPY ... FROM STDIN or TO STDOUT; psql's \\copy reads and writes files.";
            return Err(SqlError::unsupported("COPY of a file of the server", Some(hint)).into());
        }
    }
    let options = options_of(options, legacy_options)?;
    let what = match source {
        CopySource::Query(query) => {
            let statement = ast::Statement::Query(query.clone());
            let mut compiler = Compiler::new(catalog, Params::default());
            match crate::query(&mut compiler, &statement) {
                Ok(query) => Copied::Query(Box::new(query)),
                Err(Stop::General(reason)) => {
                    let parsed = crate::parse(&query.to_string())?.pop();
                    Copied::General(parsed.ok_or(Stop::General(reason))?, reason)
                }
                Err(stop) => return Err(stop),
            }
        }
        CopySource::Table { table_name, columns } => {
            let table = table(catalog, table_name)?;
            let names: Vec<ast::ObjectName> =
                columns.iter().map(|ident| ast::ObjectName::from(vec![ident.clone()])).collect();
            let columns = insert::columns(table, &names)?;
            match direction {
                Direction::FromClient => {
                    let insert = Box::new(row(catalog, table, &columns)?);
                    Copied::Table { table: table.oid, columns, insert }
                }
                Direction::ToClient => Copied::Query(Box::new(all_rows(table, &columns))),
            }
        }
    };
    Ok(Copy { what, direction, options })
}

/// The query of all rows of a table.
fn all_rows(table: &Table, columns: &[u16]) -> Query {
    let source =
        Source { table: Cache::default().get(table), path: Path::All, filter: None, lock: RowLock::None };
    let (mut output, mut fields) = (Vec::new(), Vec::new());
    for position in columns {
        let Column { name, ty, .. } = &table.columns[usize::from(*position)];
        output.push(Output { name: name.clone(), expr: Expr::Column(*position), ty: *ty });
        fields.push(Field { name: name.clone(), ty: *ty, column: Some((table.oid, position + 1)) });
    }
    let select = Select {
        sources: vec![Joined { source, is_outer: false }],
        grouping: None,
        having: None,
        output,
        distinct: false,
        order: Vec::new(),
        is_ordered: false,
        limit: None,
        offset: None,
        hidden: 0,
    };
    Query {
        program: Program {
            statements: vec![Statement::Select(select)],
            params: Vec::new(),
            only_reads: true,
            flow: None,
        }
        .into(),
        call: None,
        params: Vec::new(),
        fills: Vec::new(),
        output: fields,
        tag: Tag::Select,
        reads: vec![table.oid],
        writes: Vec::new(),
    }
}

/// The statement that stores one row of a `COPY ... FROM`.
fn row(catalog: &Catalog, table: &Table, columns: &[u16]) -> Result<Query, Stop> {
    let types: Vec<Option<sql::SqlType>> =
        columns.iter().map(|column| Some(table.columns[usize::from(*column)].ty)).collect();
    let mut compiler = Compiler::new(catalog, Params::new(columns.len(), &types));
    let cache = &mut Cache::default();
    let mut row = Vec::with_capacity(table.columns.len());
    for (column, position) in table.columns.iter().zip(0_u16..) {
        let given = columns.iter().position(|given| *given == position).and_then(|at| u16::try_from(at).ok());
        row.push(match given {
            Some(at) => Expr::Param(at),
            None if column.dropped => Expr::Const(sql::Datum::Null),
            None => insert::default(&mut compiler, table, position)?,
        });
    }
    let insert = Insert {
        table: cache.get(table),
        rows: InsertRows::Values(vec![row]),
        checks: crate::references::checks(table, None),
        references: crate::references::of_new_rows(catalog, cache, table),
        conflict: None,
        returning: Vec::new(),
    };
    let params = compiler.params.finish()?;
    let fills = std::mem::take(&mut compiler.fills);
    let all = params.iter().copied().chain(fills.iter().map(sources::fill_type)).collect();
    let statements = vec![Statement::Insert(insert)];
    let program = Program { statements, params: all, only_reads: false, flow: None };
    let reads = table.foreign_keys.iter().map(|key| key.to).collect();
    Ok(Query {
        program: program.into(),
        params,
        fills,
        output: Vec::new(),
        tag: Tag::Insert,
        reads,
        writes: vec![table.oid],
        call: None,
    })
}

fn options_of(options: &[CopyOption], legacy: &[CopyLegacyOption]) -> Result<CopyOptions, SqlError> {
    let mut format = CopyFormat::Text;
    for option in options {
        if let CopyOption::Format(name) = option {
            format = match folded(name).as_str() {
                "text" => CopyFormat::Text,
                "csv" => CopyFormat::Csv,
                "binary" => CopyFormat::Binary,
                other => {
                    let message = format!("COPY format \"{other}\" not recognized");
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER, message));
                }
            };
        }
    }
    for option in legacy {
        match option {
            CopyLegacyOption::Binary => format = CopyFormat::Binary,
            CopyLegacyOption::Csv(_) => format = CopyFormat::Csv,
            _ => {}
        }
    }
    let is_csv = format == CopyFormat::Csv;
    let mut copied = CopyOptions {
        format,
        delimiter: if is_csv { ',' } else { '\t' },
        null: if is_csv { String::new() } else { "\\N".into() },
        header: false,
        quote: '"',
        escape: '"',
    };
    for option in options {
        match option {
            CopyOption::Delimiter(delimiter) => copied.delimiter = *delimiter,
            CopyOption::Null(null) => copied.null.clone_from(null),
            CopyOption::Header(header) => copied.header = *header,
            CopyOption::Quote(quote) => (copied.quote, copied.escape) = (*quote, *quote),
            CopyOption::Escape(escape) => copied.escape = *escape,
            CopyOption::Format(_) | CopyOption::Freeze(_) => {}
            CopyOption::Encoding(name) if matches!(name.to_lowercase().as_str(), "utf8" | "utf-8") => {}
            other => return Err(SqlError::unsupported(&format!("COPY with {other}"), None)),
        }
    }
    for option in legacy {
        legacy_option(option, &mut copied)?;
    }
    Ok(copied)
}

fn legacy_option(option: &CopyLegacyOption, copied: &mut CopyOptions) -> Result<(), SqlError> {
    match option {
        CopyLegacyOption::Binary => {}
        CopyLegacyOption::Delimiter(delimiter) => copied.delimiter = *delimiter,
        CopyLegacyOption::Null(null) => copied.null.clone_from(null),
        CopyLegacyOption::Header => copied.header = true,
        CopyLegacyOption::Csv(options) => {
            for option in options {
                match option {
                    ast::CopyLegacyCsvOption::Header => copied.header = true,
                    ast::CopyLegacyCsvOption::Quote(quote) => {
                        (copied.quote, copied.escape) = (*quote, *quote)
                    }
                    ast::CopyLegacyCsvOption::Escape(escape) => copied.escape = *escape,
                    other => return Err(SqlError::unsupported(&format!("COPY with {other}"), None)),
                }
            }
        }
        other => return Err(SqlError::unsupported(&format!("COPY with {other}"), None)),
    }
    Ok(())
}
