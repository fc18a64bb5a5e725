//! A report: result rows in, one HTML page out, that opens anywhere without a network.
//!
//! Text lines enter through [`Rows`], which says of every line it cannot use why; a [`Report`] is rows, the machines they
//! come from, and what a reader must know besides; [`Report::html`] leaves. In between, [`sweep`] finds out which options the rows
//! differ in and which of them belongs on an axis, `figures` turns rows into charts as plain values, each with the table
//! that says the same, and `page` writes both down. Drawing is left to ECharts in the reader's browser; nothing but
//! the look of a chart is decided there.
//!
//! This room reads values and returns text. It opens no file, and knows nothing of how rows are measured.

#![forbid(unsafe_code)]

pub mod chart;
pub mod rows;
pub mod sweep;
pub mod table;

mod figures;
mod machine;
mod page;
mod text;

pub use page::Report;
pub use rows::{Complaint, Row, Rows};
