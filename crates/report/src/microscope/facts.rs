//! The facts in rows of `atoll cachesim`: what tells traces and chips apart.

use serde_json::{Map, Value};

/// A row of `atoll cachesim --json`.
pub type CacheRow = Map<String, Value>;

/// What tells traces and chips apart, in the order of names.
pub const FACTS: [&str; 8] =
    ["workload", "design", "scale", "workers", "options", "machine", "warm", "transactions"];

pub fn named(fact: &str, value: &str) -> String {
    match value.parse::<f64>() {
        Ok(_) => format!("{} {value}", fact.replace('_', " ")),
        Err(_) => value.to_owned(),
    }
}

pub fn of<'a>(rows: &[&'a CacheRow], table: &str) -> Vec<&'a CacheRow> {
    let is = |row: &&&CacheRow| row.get("table").and_then(Value::as_str) == Some(table);
    rows.iter().filter(is).copied().collect()
}

pub fn number(row: &CacheRow, field: &str) -> Option<f64> {
    row.get(field).and_then(Value::as_f64).filter(|value| value.is_finite())
}

pub fn word(row: &CacheRow, field: &str) -> Option<String> {
    match row.get(field)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(n) => {
            Some(n.as_f64().filter(|v| *v == v.trunc()).map_or(n.to_string(), |v| v.to_string()))
        }
        _ => None,
    }
}

/// The facts of a row in which these rows differ: `tpcb, scale 16`.
pub fn trace(row: &CacheRow, among: &[&CacheRow]) -> String {
    let differs = |fact: &&&str| among.iter().any(|other| word(other, fact) != word(row, fact));
    let mut told: Vec<&str> = FACTS.iter().filter(differs).copied().collect();
    // The machine alone would leave open what ran on it.
    if told.is_empty() {
        told.push("workload");
    }
    let words = told.iter().filter_map(|fact| Some(named(fact, &word(row, fact)?)));
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ")
}
