//! Queries that are no programs: which planners this process has, and which of them takes one.
//!
//! The system catalogs and the crate `queries` are always here. A process may add others, which are
//! asked between both.

use compiler::Parsed;
use compiler::general::{General, Plan};
use sql::catalog::Catalog;
use sql::{SqlError, SqlType};
use std::sync::{Arc, PoisonError, RwLock};

static PLANNERS: RwLock<Vec<Arc<dyn General>>> = RwLock::new(Vec::new());

/// What a user can do where no planner takes a query.
const HINT: &str = "Ask for it in several queries, of which keys, indexes or one scan find the rows.";

/// Adds a planner, for all servers of the process.
pub fn add(planner: Arc<dyn General>) {
    PLANNERS.write().unwrap_or_else(PoisonError::into_inner).push(planner);
}

/// The plan of a query on the system catalogs; `None` if it is none.
///
/// # Errors
/// Those of the query.
pub fn of_catalogs(
    catalog: &Arc<Catalog>,
    statement: &Parsed,
    given: &[Option<SqlType>],
) -> Result<Option<Arc<dyn Plan>>, SqlError> {
    catalogs::Catalogs.plan(catalog, statement, given)
}

/// The plan of a query that lacks `reason` to be a program.
///
/// # Errors
/// Those of the query; `0A000` if no planner takes it.
pub fn plan(
    catalog: &Arc<Catalog>,
    statement: &Parsed,
    given: &[Option<SqlType>],
    reason: &str,
) -> Result<Arc<dyn Plan>, SqlError> {
    if let Some(plan) = of_catalogs(catalog, statement, given)? {
        return Ok(plan);
    }
    let planners = PLANNERS.read().unwrap_or_else(PoisonError::into_inner).clone();
    for planner in &planners {
        if let Some(plan) = planner.plan(catalog, statement, given)? {
            return Ok(plan);
        }
    }
    match queries::Queries::default().plan(catalog, statement, given)? {
        Some(plan) => Ok(plan),
        None => Err(SqlError::unsupported(reason, Some(HINT))),
    }
}
