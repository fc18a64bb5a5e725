//! Steps in Rust, carried out where their rows are.

use super::issued::Issued;
use super::registry;
use super::rows::Rows;
use crate::error::Stop;
use crate::{SqlError, place};
use serde::{Deserialize, Serialize};
use txn::{Abort, Access, Effect, Route, Step, StepId};

/// As [`Issued`], for a step that changes nothing.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct IssuedRead(pub(super) Issued);

/// The output of a step, as bytes.
pub type Said = Result<Vec<u8>, SqlError>;

impl Step for Issued {
    const ID: StepId = 20;
    type Output = Said;

    fn route(&self) -> Route {
        place::route(self.store, self.slot)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Said, Abort> {
        let run = match registry::step(&self.step) {
            Ok(run) => run,
            Err(error) => return Ok(Err(error)),
        };
        let mut rows = Rows::new(access, self);
        let said = run(&self.args, &mut rows).await;
        match (rows.aborted, said) {
            (Some(abort), _) | (None, Err(Stop::Abort(abort))) => Err(abort),
            (None, Ok(said)) => Ok(Ok(said)),
            (None, Err(Stop::Error(error))) => Ok(Err(error)),
        }
    }
}

impl Step for IssuedRead {
    const ID: StepId = 21;
    const EFFECT: Effect = Effect::Reads;
    type Output = Said;

    fn route(&self) -> Route {
        self.0.route()
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Said, Abort> {
        self.0.run(access).await
    }
}
