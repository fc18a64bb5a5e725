//! Changes of the catalog.

use super::carry::{Product, Reach};
use super::{Failure, Session, Stream};
use compiler::ddl::Definition;
use crate::engine::Engine;
use sql::SqlError;

impl<S: Stream, E: Engine> Session<S, E> {
    pub(super) async fn define(&mut self, _definition: &Definition, _reach: Reach) -> Result<Product, Failure> {
        Err(SqlError::unsupported("a change of the catalog", None).into())
    }
}
