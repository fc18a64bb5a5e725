//! A page of the cache microscope: charts from the rows of `atoll cachesim`, by the question that
//! each of their tables answers.
//!
//! ```text
//!   chapter 6   caches, three-c, l1i-size, operations, components, code, data   bars, curves
//!   chapter 7   schedulers and the sweeps of their parameters                   curves
//!   chapter 8   schedulers on one number of cores                               bars
//! ```
//!
//! Rows of several traces stand side by side: a bar or curve has the facts in which they differ in
//! its name.

mod facts;
mod parts;
mod schedulers;

use crate::essay::Essay;
pub use facts::CacheRow;
use facts::{FACTS, named, word};
use serde_json::Value;
use std::collections::HashSet;

/// What an experiment stamps on a row; rows that differ in it alone are one.
const STAMPS: [&str; 5] = ["experiment", "size", "definition", "version", "build"];

/// The page; `None` if no row is of a table that has a chart.
pub fn microscope(title: &str, rows: &[CacheRow]) -> Option<Essay> {
    let rows = distinct(rows);
    let rows: Vec<&CacheRow> = rows.iter().collect();
    let mut sections = parts::sections(&rows);
    sections.extend(schedulers::sections(&rows));
    sections.retain(|section| !section.figures.is_empty());
    let lead = FACTS.iter().filter_map(|fact| shared(&rows, fact)).collect::<Vec<_>>().join(" · ");
    (!sections.is_empty()).then(|| Essay { title: title.to_owned(), lead, text: String::new(), sections })
}

/// The rows without their stamps, each once.
fn distinct(rows: &[CacheRow]) -> Vec<CacheRow> {
    let mut seen = HashSet::new();
    let without = |row: &CacheRow| {
        let mut row = row.clone();
        row.retain(|name, _| !STAMPS.contains(&name.as_str()));
        row
    };
    let is_new = |row: &CacheRow| seen.insert(Value::Object(row.clone()).to_string());
    rows.iter().map(without).filter(is_new).collect()
}

/// A fact that all rows share, in words.
fn shared(rows: &[&CacheRow], fact: &str) -> Option<String> {
    let value = word(rows.first()?, fact).filter(|value| !value.is_empty())?;
    rows.iter().all(|row| word(row, fact).as_ref() == Some(&value)).then(|| named(fact, &value))
}

#[cfg(test)]
mod tests;
