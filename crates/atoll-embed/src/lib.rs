//! Atoll inside a program: an OLTP database over islands of cores, with SQL and with procedures in
//! Rust.
//!
//! ```
//! use atoll::Database;
//!
//! # fn main() -> Result<(), atoll::Error> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("mydb");
//! let db = Database::open(&path)?;
//! db.execute("CREATE TABLE city (name text PRIMARY KEY, people int8)", ())?;
//! db.execute("INSERT INTO city VALUES ($1, $2)", ("Lausanne", 141_418))?;
//! let row = db.query_one("SELECT people FROM city WHERE name = $1", "Lausanne")?;
//! assert_eq!(row.get::<i64>("people")?, 141_418);
//! db.close()
//! # }
//! ```
//!
//! - [`Database`] and [`Options`]: open, in a directory or in memory, under any design and number
//!   of islands, hosted by threads or by processes ([`host_instance`]); close.
//! - [`Table`]: tables from code. All else is SQL: [`Database::execute`], [`Database::query`].
//! - [`Database::transaction`], [`Database::snapshot`], [`Connection`], [`Transaction`].
//! - [`Procedure`] and [`Step`]: transactions as Rust code that runs where the rows are, in one
//!   round trip ([`Database::call`], [`Procedures`]).
//! - [`Database::listen`]: the same database for clients of PostgreSQL's protocol.
//! - [`back_up`] and [`restore`].
//!
//! All calls block their thread. In an async program they belong into its `spawn_blocking`.
//!
//! # Which way is fast
//!
//! A statement is compiled once for each connection and version of the catalog, and then costs one
//! round trip to a session's thread and one to the instance. A transaction of several statements
//! pays that for each, and its locks stay meanwhile. A procedure is one round trip, however many
//! steps it has. An unoptimised build of the engine is slow: give a program that is measured
//! `[profile.dev.package."*"] opt-level = 3`, or build it with `--release`.
//!
//! # Values
//!
//! Parameters are given as a value, a tuple, an array or a vector ([`Values`]), and become values
//! of the type that the statement expects, as in an SQL assignment. Columns are read as types of
//! Rust ([`FromValue`]): `i64` for all integers, `f64` for floats and numerics, `String`, `bool`,
//! `Vec<u8>` for `bytea`, `Option` of these where there may be nulls, [`Value`] for all types.

#![forbid(unsafe_code)]

mod calls;
mod connection;
mod copies;
mod database;
mod error;
mod options;
mod pipe;
mod procedures;
mod rooms;
mod row;
mod table;
mod text;
mod wait;

pub use connection::{Connection, Transaction};
pub use copies::{back_up, restore};
pub use database::Database;
pub use error::{Error, Sql};
pub use options::{Design, Durability, Host, Options};
pub use pipe::{Column, Outcome};
pub use procedures::{Procedures, host_instance};
pub use row::Row;
pub use table::Table;
pub use text::to_text;

pub use sql::native::convert::{FromDatum as FromValue, Values};
pub use sql::native::phase::Phase;
pub use sql::native::procedure::{Procedure, Txn};
pub use sql::native::record::Record;
pub use sql::native::rows::Rows;
pub use sql::native::step::{Place, Step};
pub use sql::run::Stop as Failure;
pub use sql::value::{Interval, Numeric};
pub use sql::{Datum as Value, SqlError, SqlState, SqlType as Type};
pub use txn::{Abort, Direction, Flow};
