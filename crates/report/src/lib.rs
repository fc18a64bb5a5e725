//! A report: result rows in, one HTML page out, that opens anywhere without a network.
//!
//! Text lines enter through [`Rows`], which says of every line it cannot use why; a [`Report`] is rows, the machines they
//! come from, and what a reader must know besides; [`Report::html`] leaves. In between, [`sweep`] finds out which options the rows
//! differ in and which of them belongs on an axis, `figures` turns rows into charts as plain values, each with the table
//! that says the same, and `page` writes both down. Drawing is left to ECharts in the reader's browser; nothing but
//! the look of a chart is decided there. [`verdict`] has the one rule by which a row is better than another; [`compare`] holds two
//! sets of rows against each other by it, and [`flat`] writes rows as CSV.
//!
//! This room reads values and returns text. It opens no file, and knows nothing of how rows are measured.

#![forbid(unsafe_code)]

pub mod chart;
pub mod compare;
pub mod flat;
pub mod rows;
pub mod sweep;
pub mod table;
pub mod verdict;

mod figures;
mod glossary;
mod kinds;
mod machine;
mod page;
mod text;

pub use glossary::explain;
pub use kinds::kinds;
pub use page::Report;
pub use rows::{Complaint, Row, Rows};

/// The fastest deployment of each request mix among these rows, as the report has it: see [`verdict`].
pub fn winners(rows: &[driver::ResultRow]) -> table::Table {
    let rows: Vec<Row> = rows.iter().map(Row::from).collect();
    figures::winners(&rows, &sweep::Sweep::of(&rows))
}
