//! Queries that join, group and sort at will.
//!
//! ```text
//!   text --> compiler::tree --> scans: programs of one select --> the session runs them
//!                          \--> operators over rows in memory <-- rows
//!                                   |  on a thread of its own
//!                                   v
//!                                 answer
//! ```
//!
//! The meaning of names, types, operators, functions and aggregates is that of compiled statements,
//! because it is the same code. Here are the operators around them: joins by hashing, groups,
//! windows, sub-queries, set operations, recursion, order.
//!
//! A query has a limit of memory, for the rows of its tables and all that is made of them. It ends
//! when its answer is dropped. It runs on a thread of its own, and no more such threads run at once
//! than there are processors: other queries wait without a thread.
//!
//! - `run`: one execution, its memory, and what it keeps. `row`: rows, joined rows, and how
//!   expressions read them.
//! - `query`, `select`, `groups`, `within`, `windows`: the parts of a query. `joins`, `leaves`:
//!   `FROM`.
//! - `sub_query`: queries in expressions. `with`: common table expressions.
//! - `plan`: the door of the server. `describe`: the lines of `EXPLAIN`.

#![forbid(unsafe_code)]

mod describe;
mod groups;
mod joins;
mod leaves;
mod plan;
mod query;
mod row;
mod run;
mod select;
mod sub_query;
mod windows;
mod with;
mod within;

use compiler::Parsed;
use compiler::general::{General, Plan};
use sql::catalog::Catalog;
use sql::{SqlError, SqlType};
use std::sync::Arc;

/// The planner of all queries on tables of users.
#[derive(Clone, Copy, Debug)]
pub struct Queries {
    /// The most memory of one query, in bytes: the rows of its tables, and all that it makes of
    /// them.
    pub memory: usize,
}

impl Default for Queries {
    fn default() -> Queries {
        Queries { memory: sql::memory::MOST }
    }
}

impl General for Queries {
    fn plan(
        &self,
        catalog: &Arc<Catalog>,
        statement: &Parsed,
        given: &[Option<SqlType>],
    ) -> Result<Option<Arc<dyn Plan>>, SqlError> {
        let planned = if statement.is_change() {
            let written = compiler::tree::written(catalog, statement, given)?;
            plan::Planned::new(written.tree, Some(written.each), self.memory)
        } else if statement.is_staged() {
            plan::Planned::staged(compiler::tree::staged(catalog, statement, given)?, self.memory)
        } else {
            plan::Planned::new(compiler::tree::tree(catalog, statement, given)?, None, self.memory)
        };
        Ok(Some(Arc::new(planned)))
    }
}
