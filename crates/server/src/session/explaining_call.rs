//! `EXPLAIN CALL`.

use super::carry::{Product, RowsTag};
use super::{Failure, Session, Stream};
use crate::engine::Engine;
use crate::shared::now;
use compiler::compiled::Compiled;
use compiler::describe_call::{Reached, alone, explain_call};
use sql::Datum;
use sql::database::Request;
use sql::program::Program;
use std::sync::Arc;

impl<S: Stream, E: Engine> Session<S, E> {
    /// The phases and statements of a procedure, with the slots that they reach with the arguments
    /// of the call. Arguments that the client has not given are null, and lead nowhere.
    pub(super) async fn explain_call(&mut self, compiled: &Compiled) -> Result<Product, Failure> {
        let Some((query, call)) = compiled.as_call() else { return Ok(Product::Done("EXPLAIN".into())) };
        let mut params = vec![Datum::Null; query.params.len()];
        let has_numbers = !call.fills.is_empty();
        if has_numbers {
            // A number of a sequence must not be taken.
            params = vec![Datum::Null; call.args.len()];
        } else {
            self.called(query, &mut params).await?;
        }
        params.resize(query.program.params.len(), Datum::Null);
        let reached = |program: &Program, at: usize| -> Vec<Reached> {
            let call = self.call_of(Arc::new(alone(program, at)), params.clone(), now());
            self.shared.engine.reached(&Request::Once(call))
        };
        let lines = explain_call(&self.catalog(), call, &reached)?;
        let rows = lines.into_iter().map(|line| vec![Datum::Text(line)]).collect();
        Ok(Product::Rows { rows, tag: RowsTag::Whole("EXPLAIN".into()) })
    }
}
