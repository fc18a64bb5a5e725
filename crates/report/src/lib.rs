//! A report: from result rows to one HTML page that opens anywhere, without a network.
//!
//! Text lines enter through [`Rows`], which names every unusable line with the reason. A [`Report`]
//! holds rows, their machines, and notes for the reader; [`Report::html`] is the result. In
//! between, [`sweep`] finds the options in which the rows differ and chooses the one for the axis,
//! `figures` turns rows into charts as plain values, each with a table of the same content, and
//! `page` writes both as HTML. An [`Essay`] is a page of other charts; [`microscope`] makes one of
//! the rows of modelled caches. ECharts draws the charts in the reader's browser; only their look
//! is decided there. [`verdict`] has the one rule by which a
//! row is better than another; [`compare`] applies it to two sets of rows, and [`flat`] writes rows
//! as CSV.
//!
//! This crate reads values and returns text. It opens no file, and does not know how rows are
//! measured.

#![forbid(unsafe_code)]

pub mod chart;
pub mod compare;
pub mod flat;
pub mod rows;
pub mod sweep;
pub mod table;
pub mod verdict;

mod essay;
mod figures;
mod frame;
mod glossary;
mod kinds;
mod machine;
mod microscope;
mod page;
mod text;

pub use essay::Essay;
pub use figures::Section;
pub use glossary::explain;
pub use kinds::kinds;
pub use microscope::{CacheRow, microscope};
pub use page::Report;
pub use rows::{Complaint, Row, Rows};

/// The fastest deployment for each request mix among these rows, as in the report: see [`verdict`].
pub fn winners(rows: &[driver::ResultRow]) -> table::Table {
    let rows: Vec<Row> = rows.iter().map(Row::from).collect();
    figures::winners(&rows, &sweep::Sweep::of(&rows))
}
