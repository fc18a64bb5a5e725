//! Expressions evaluated here and by PostgreSQL 15: values, types and errors must be the same.
//! `scripts/sql-golden` writes the files with a PostgreSQL server.

#[path = "golden/parser.rs"]
mod parser;

use parser::{Parser, type_name};
use sql::aggregate::Accumulator;
use sql::datetime::zone::Zone;
use sql::expression::Aggregate;
use sql::{Context, Datum, SqlError, SqlType, binary, text};

/// Value of a null in a file.
const NULL: &str = "\\N";

fn evaluate(expression: &str) -> Result<(SqlType, Datum), SqlError> {
    if expression.starts_with("(select") {
        return aggregate(expression);
    }
    let (expr, ty) = Parser::parse(expression);
    let cx = Context { params: &[], now: 0, zone: &Zone::UTC, random: &|| 0 };
    let row: Vec<Datum> = Vec::new();
    Ok((ty, expr.eval(&cx, &row)?))
}

/// `(select FUNCTION([distinct ]v[, separator]) from unnest('{...}'::TYPE[]) v)`
fn aggregate(query: &str) -> Result<(SqlType, Datum), SqlError> {
    let (call, values) = query["(select ".len()..].split_once(") from unnest('{").unwrap();
    let (name, argument) = call.split_once('(').unwrap();
    let (values, ty) = values.split_once("}'::").unwrap();
    let ty = Parser::named_type(ty.split('[').next().unwrap());
    let distinct = argument.starts_with("distinct");
    let (function, result) = match (name, ty) {
        ("count", _) if argument == "*" => (Aggregate::CountRows, SqlType::Int8),
        ("count", _) => (Aggregate::Count, SqlType::Int8),
        ("sum", SqlType::Int2 | SqlType::Int4) => (Aggregate::Sum, SqlType::Int8),
        ("sum", SqlType::Int8) => (Aggregate::Sum, SqlType::Numeric(None)),
        ("sum", ty) => (Aggregate::Sum, ty),
        ("avg", SqlType::Interval) => (Aggregate::Avg, ty),
        ("avg", SqlType::Float4 | SqlType::Float8) => (Aggregate::Avg, SqlType::Float8),
        ("avg", _) => (Aggregate::Avg, SqlType::Numeric(None)),
        ("min", ty) => (Aggregate::Min, ty),
        ("max", ty) => (Aggregate::Max, ty),
        ("bool_and", ty) => (Aggregate::BoolAnd, ty),
        ("bool_or", ty) => (Aggregate::BoolOr, ty),
        ("string_agg", ty) => (Aggregate::StringAgg, ty),
        (name, _) => panic!("no aggregate {name}"),
    };
    let separator = argument.split_once(", ").map(|(_, separator)| match separator {
        "null" => Datum::Null,
        separator => Datum::Text(separator.trim_matches('\'').into()),
    });
    let mut accumulator = Accumulator::new(function, distinct, result);
    for value in values.split(',') {
        let value = if value == "NULL" { Datum::Null } else { text::read(ty, value)? };
        let args: Vec<Datum> = [value].into_iter().chain(separator.clone()).collect();
        accumulator.add(if argument == "*" { &[] } else { &args })?;
    }
    Ok((result, accumulator.finish()?))
}

/// The columns behind the expression.
fn outcome(expression: &str) -> [String; 3] {
    match evaluate(expression) {
        Ok((ty, Datum::Null)) => [type_name(ty), NULL.into(), NULL.into()],
        Ok((ty, value)) => {
            let (text, mut bytes) = (text::to_string(ty, &value), Vec::new());
            binary::write(&mut bytes, ty, &value);
            for read in [text::read(ty, &text), binary::read(ty, &bytes)] {
                let read = read.unwrap_or_else(|error| panic!("{expression}: not read again: {error}"));
                assert_eq!(text::to_string(ty, &read), text, "{expression}");
            }
            [type_name(ty), text, bytes.iter().map(|byte| format!("{byte:02x}")).collect()]
        }
        Err(error) => [format!("error {}", error.state.as_str()), error.message.clone(), NULL.into()],
    }
}

/// A column of `COPY` in its text format.
fn unescaped(column: &str) -> String {
    if column == NULL {
        return column.into();
    }
    let mut out = String::new();
    let mut chars = column.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some('b') => '\u{8}',
                Some(c) => c,
                None => '\\',
            },
            c => c,
        });
    }
    out
}

fn check(file: &str) {
    let path = format!("{}/tests/golden/{file}.tsv", env!("CARGO_MANIFEST_DIR"));
    let lines = std::fs::read_to_string(&path).unwrap();
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in lines.lines() {
        let columns: Vec<String> = line.split('\t').map(unescaped).collect();
        let [expression, expected @ ..] = columns.as_slice() else { panic!("{path}: no columns: {line}") };
        let found = outcome(expression);
        if found[..] != *expected {
            let (expected, found) = (expected.join(" | "), found.join(" | "));
            wrong.push(format!("{expression}\n    PostgreSQL: {expected}\n    here:       {found}"));
        }
        count += 1;
    }
    assert!(count > 50, "{path} has {count} expressions");
    assert!(wrong.is_empty(), "{} of {count} expressions differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn numbers() {
    check("numbers");
}

#[test]
fn logic() {
    check("logic");
}

#[test]
fn strings() {
    check("strings");
}

#[test]
fn casts() {
    check("casts");
}

#[test]
fn json() {
    check("json");
}

#[test]
fn times() {
    check("times");
}

#[test]
fn to_char() {
    check("to_char");
}

#[test]
fn aggregates() {
    check("aggregates");
}

#[test]
fn random_numbers() {
    check("random_numbers");
}

#[test]
fn random_times() {
    check("random_times");
}
