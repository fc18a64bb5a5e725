//! Queries that join, group and sort at will, by the query engine DataFusion.
//!
//! ```text
//!   text --> rewrite --> the engine's planner, with our operators   operators, functions, aggregates
//!                          |
//!                        plan --> scans: programs of one select      scan
//!                                   | run by the session, in the client's transaction
//!                        rows --> arrays --> the engine --> rows     values
//! ```
//!
//! The engine joins, groups, sorts and cuts. What an expression means is decided and computed by
//! the same code as in compiled statements, so its values, types and errors are PostgreSQL's. The
//! crate knows no storage and no protocol. It is a package that only a binary with the feature
//! `query` builds.

#![forbid(unsafe_code)]
#![allow(clippy::result_large_err)]

mod aggregates;
mod error;
mod functions;
mod operators;
mod plan;
mod rewrite;
mod scan;
mod values;

use compiler::Parsed;
use compiler::general::{General, Plan};
use sql::catalog::Catalog;
use sql::{SqlError, SqlType};
use std::sync::Arc;

/// The query engine.
#[derive(Clone, Copy, Debug)]
pub struct Queries {
    /// The most memory of one query, in bytes: its rows, what it sorts and groups, its result.
    pub memory: usize,
}

impl Default for Queries {
    fn default() -> Queries {
        Queries { memory: 256 << 20 }
    }
}

impl General for Queries {
    fn plan(
        &self,
        catalog: &Arc<Catalog>,
        statement: &Parsed,
        given: &[Option<SqlType>],
    ) -> Result<Option<Arc<dyn Plan>>, SqlError> {
        plan::plan(catalog, statement, given, self.memory).map(Some)
    }
}
