//! SQL below its syntax: values, types, keys, rows, expressions, and programs (compiled statements)
//! with the steps into which they run.
//!
//! ```text
//!   compiler: SQL text + catalog --> Program
//!   here:     Program + parameters --> phases of steps --> rows           run, step
//!             a step runs where its rows are: keys, rows, expressions     key, row, expression
//! ```
//!
//! This crate knows no SQL text and no engine. The engine knows one workload, [`Database`]: a fixed
//! set of physical tables, all of one shape (slot, key, row). The SQL tables and indexes of a
//! catalog are each stored in one of them. So a change of the catalog is a change of rows.
//!
//! - [`types`], [`value`]: types and values, PostgreSQL's by meaning.
//! - [`mod@array`]: arrays of one dimension, as texts.
//! - [`enumeration`]: types of labels in an order.
//! - [`memory`]: the memory of rows, and the limit of a query.
//! - [`text`], [`binary`]: values as PostgreSQL's clients send and expect them.
//! - [`key`], [`row`]: values as order-preserving keys and as stored rows.
//! - [`expression`]: expressions and their evaluation.
//! - [`catalog`]: tables, indexes, sequences, constraints as plain values.
//! - `tasks`: work on the catalog, on whole tables, and on sequences.
//! - [`aggregate`], [`moments`], [`group`]: functions of many rows.
//! - [`program`]: compiled statements. `step`, `run`: their execution.
//! - [`native`]: procedures and steps written in Rust by the program that embeds the database.
//! - [`database`]: all of this as the workload that engines know. [`audit`]: its consistency.
//! - [`error`]: an error of SQL, with its SQLSTATE. `violation`: those of constraints.

#![forbid(unsafe_code)]
#![allow(async_fn_in_trait)]

pub mod aggregate;
pub mod array;
pub mod audit;
pub mod binary;
pub mod bound;
pub mod catalog;
mod catalog_rows;
pub mod compare;
pub mod database;
pub mod datetime;
pub mod enumeration;
pub mod error;
pub mod expression;
pub mod from_char;
pub mod group;
pub mod json;
pub mod kept;
pub mod key;
pub mod measured;
pub mod memory;
pub mod moments;
pub mod native;
pub mod number_format;
pub mod numeric;
mod oid;
pub mod place;
pub mod power;
pub mod program;
pub mod row;
pub mod run;
#[cfg(test)]
mod sample;
pub mod step;
mod tasks;
pub mod text;
pub mod to_char;
pub mod types;
pub mod value;
mod violation;

pub use database::Database;
pub use enumeration::Enum;
pub use error::{SqlError, SqlState};
pub use expression::{Context, Expr};
pub use program::Program;
pub use row::Columns;
pub use types::{Element, SqlType};
pub use value::Datum;
