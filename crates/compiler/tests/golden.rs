//! Statements and the programs that they become, in words.
//!
//! Each file in `tests/golden` has statements, each with the lines that follow from it:
//!
//! ```text
//!   > UPDATE t SET v = v + 1 WHERE k = $1
//!   Update t: v = (t.v + 1)
//!     From t by key (k = $1), one slot, locked
//!   $1 integer
//! ```
//!
//! `ATOLL_GOLDEN=write` writes the files anew.

use compiler::compiled::Copied;
use compiler::ddl::Stores;
use compiler::{Compiled, compile, describe, parse};
use sql::catalog::{Catalog, Store};
use std::fmt::Write;
use std::path::Path;

fn stores() -> Stores {
    Stores { free: (1..400).map(Store).collect() }
}

/// The outcome of one statement in words; a definition changes the catalog.
fn outcome(catalog: &mut Catalog, stores: &mut Stores, text: &str) -> String {
    let mut out = String::new();
    let parsed = match parse(text) {
        Ok(parsed) if parsed.is_empty() => return "nothing\n".into(),
        Ok(parsed) => parsed,
        Err(error) => {
            let place = error.position.map_or(String::new(), |at| format!(" at {at}"));
            return format!("{}{place} {error}\n", error.state.as_str());
        }
    };
    for statement in parsed {
        match compile(catalog, &statement, &[]) {
            Err(error) => {
                let place = error.position.map_or(String::new(), |at| format!(" at {at}"));
                writeln!(out, "{}{place} {error}", error.state.as_str())
            }
            Ok(Compiled::Query(query)) => {
                query_lines(&query, &mut out);
                Ok(())
            }
            Ok(Compiled::Define(definition)) => match definition.apply(catalog, stores) {
                Err(error) => writeln!(out, "{} {error}", error.state.as_str()),
                Ok(change) => {
                    *catalog = change.catalog;
                    let lines = change.tasks.iter().map(|task| format!("{task:?}"));
                    let lines = lines.chain(change.notices.iter().map(|notice| format!("notice: {notice}")));
                    lines.for_each(|line| writeln!(out, "{line}").unwrap());
                    writeln!(out, "{}", change.tag)
                }
            },
            Ok(Compiled::General { reason, .. }) => writeln!(out, "general: {reason}"),
            Ok(Compiled::Explain { analyze, inner }) => {
                writeln!(out, "explain, analyze: {analyze}").unwrap();
                if let Compiled::Query(query) = *inner {
                    query_lines(&query, &mut out);
                }
                Ok(())
            }
            Ok(Compiled::Copy(copy)) => {
                writeln!(out, "copy {:?} {:?}", copy.direction, copy.options).unwrap();
                let (Copied::Table { insert: query, .. } | Copied::Query(query)) = copy.what else {
                    panic!("a COPY by a plan");
                };
                query_lines(&query, &mut out);
                Ok(())
            }
            Ok(Compiled::Prepare { name, types, statement }) => {
                writeln!(out, "prepare {name}: {}", statement.text()).unwrap();
                match compile(catalog, &statement, &types) {
                    Ok(Compiled::Query(query)) => {
                        query_lines(&query, &mut out);
                        Ok(())
                    }
                    Ok(other) => writeln!(out, "{other:?}"),
                    Err(error) => writeln!(out, "{} {error}", error.state.as_str()),
                }
            }
            Ok(Compiled::Declare { declared, statement, .. }) => {
                writeln!(out, "{declared:?}: {}", statement.text())
            }
            Ok(Compiled::CreateAs(table)) => {
                let insert = table.insert.as_ref().map_or("without data", |insert| insert.text());
                writeln!(out, "{}\n{insert}", table.create.text())
            }
            Ok(Compiled::Session(session)) => writeln!(out, "{session:?}"),
            Ok(other) => writeln!(out, "{other:?}"),
        }
        .unwrap();
    }
    out
}

fn query_lines(query: &compiler::Query, out: &mut String) {
    for line in describe::describe(query) {
        writeln!(out, "{line}").unwrap();
    }
    let mut notes = Vec::new();
    for (ty, at) in query.params.iter().zip(1..) {
        notes.push(format!("${at} {}", compiler::types::full_name_of(*ty)));
    }
    for (fill, at) in query.fills.iter().zip(query.params.len() + 1..) {
        notes.push(format!("${at} {fill:?}"));
    }
    if !query.output.is_empty() {
        let field =
            |field: &compiler::Field| format!("{} {}", field.name, compiler::types::full_name_of(field.ty));
        let fields: Vec<String> = query.output.iter().map(field).collect();
        notes.push(format!("gives {}", fields.join(", ")));
    }
    if !notes.is_empty() {
        writeln!(out, "{}", notes.join("; ")).unwrap();
    }
}

fn check(file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    let (mut catalog, mut stores) = (Catalog::default(), stores());
    let mut told = String::new();
    for line in text.lines() {
        if let Some(statement) = line.strip_prefix("> ") {
            writeln!(told, "{line}").unwrap();
            let outcome = outcome(&mut catalog, &mut stores, statement);
            told.push_str(&outcome);
        } else if line.is_empty() || line.starts_with("# ") {
            writeln!(told, "{line}").unwrap();
        }
    }
    if std::env::var("ATOLL_GOLDEN").is_ok_and(|value| value == "write") {
        std::fs::write(&path, told).unwrap();
        return;
    }
    for (number, (is, should)) in told.lines().zip(text.lines()).enumerate() {
        assert_eq!(is, should, "{file}:{}", number + 1);
    }
    assert_eq!(told.lines().count(), text.lines().count(), "{file}");
}

#[test]
fn pgbench() {
    check("pgbench.txt");
}

#[test]
fn views() {
    check("views.txt");
}

#[test]
fn sysbench() {
    check("sysbench.txt");
}

#[test]
fn tpcc() {
    check("tpcc.txt");
}

#[test]
fn select() {
    check("select.txt");
}

#[test]
fn changes() {
    check("changes.txt");
}

#[test]
fn definitions() {
    check("definitions.txt");
}

#[test]
fn procedures() {
    check("procedures.txt");
}

#[test]
fn session() {
    check("session.txt");
}

#[test]
fn enums() {
    check("enums.txt");
}
