//! Rows of SQL tables in files of Parquet, for `atoll dump --format parquet` and `atoll restore`.
//!
//! ```text
//!   cells as texts --> Writer --> file        a text is PostgreSQL's, as COPY has it
//!   file --> Reader --> cells as texts        also of files that other programs wrote
//! ```
//!
//! A column is given by its name and its type in SQL (`Column`). `kind` says how a type lies in
//! a file, and which of the types in a file go into it. Null is a level of its own, as Parquet has
//! it. A file has rows of plain values: a list or a group of columns is refused.
//!
//! Source: the specification of Parquet, `LogicalTypes.md`, for the types; `parquet` for the bytes.
//! This crate knows no server and no connection.

#![forbid(unsafe_code)]
#![cfg(feature = "parquet")]

mod kind;
mod reading;
mod shape;
mod text_of;
mod writing;

pub use reading::Reader;
pub use writing::Writer;

use sql::SqlType;

/// A column of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    pub name: String,
    /// `None` for a type that Atoll does not have: its values are texts.
    pub ty: Option<SqlType>,
    /// As an error tells the type.
    pub type_name: String,
}

/// A fault of a file, or of a value that goes into one.
#[derive(thiserror::Error, Debug)]
pub enum Error {
    #[error("it is damaged, or no file of Parquet: {0}")]
    Damaged(String),
    #[error("{0}")]
    Unfit(String),
    #[error("cannot write: {0}")]
    Unwritten(String),
}
