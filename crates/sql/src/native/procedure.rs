//! A procedure in Rust: a transaction that issues steps and statements.

use super::convert::Values;
use super::phase::{Phase, Wanted};
use super::step::Place;
use crate::error::Stop;
use crate::program::Outcome;
use crate::{Datum, SqlError, SqlState};
use serde::Serialize;
use serde::de::DeserializeOwned;
use txn::erased::Local;

/// A transaction as code. Its value is the arguments of a call; the code runs at the home instance,
/// where the first of its rows are.
pub trait Procedure: Serialize + DeserializeOwned + 'static {
    /// The name under which calls travel; no other procedure of the program has it.
    const NAME: &'static str;
    /// The tables that the procedure's steps use.
    const TABLES: &'static [&'static str] = &[];
    /// The statements that it runs, by their positions.
    const STATEMENTS: &'static [&'static str] = &[];
    type Output: Serialize + DeserializeOwned + 'static;

    /// The places that the call touches, the home first. If it is empty, they are those of the
    /// first phase: the code is then begun once more, up to its first steps, at the caller. A call
    /// that names too few is correct, only slower.
    fn places(&self) -> Vec<Place> {
        Vec::new()
    }

    /// The code. It may be run again if the engine ends the transaction by an abort, so it must
    /// change nothing but rows. An error ends the transaction without effect.
    #[allow(async_fn_in_trait)]
    async fn run(&self, txn: &mut Txn<'_>) -> Result<Self::Output, Stop>;
}

/// What a transaction needs of the engine.
pub(crate) trait AnyTransaction {
    /// Runs the steps of a phase, and returns their outputs.
    fn phase<'a>(&'a mut self, steps: Vec<Wanted>, is_last: bool) -> Local<'a, Result<Vec<Vec<u8>>, Stop>>;

    fn statement<'a>(&'a mut self, number: usize, params: Vec<Datum>) -> Local<'a, Result<Outcome, Stop>>;
}

/// One run of a procedure. If a step or a statement fails, the transaction has no effect, even if
/// the code goes on.
pub struct Txn<'a> {
    inner: &'a mut dyn AnyTransaction,
}

impl<'a> Txn<'a> {
    pub(super) fn new(inner: &'a mut dyn AnyTransaction) -> Txn<'a> {
        Txn { inner }
    }

    /// Runs steps that do not depend on each other, each where its rows are; returns their outputs
    /// when all are done. A phase is a step, a vector of steps of one type, or a tuple of phases.
    ///
    /// # Errors
    /// The first error of a step; aborts of the engine.
    pub async fn all<P: Phase>(&mut self, phase: P) -> Result<P::Outputs, Stop> {
        self.issue(phase, false).await
    }

    /// As [`Txn::all`], for the last phase: the commit rides on its steps. No steps or statements
    /// may follow.
    ///
    /// # Errors
    /// As [`Txn::all`].
    pub async fn last<P: Phase>(&mut self, phase: P) -> Result<P::Outputs, Stop> {
        self.issue(phase, true).await
    }

    async fn issue<P: Phase>(&mut self, phase: P, is_last: bool) -> Result<P::Outputs, Stop> {
        let mut wanted = Vec::new();
        phase.wanted(&mut wanted)?;
        let mut outputs = self.inner.phase(wanted, is_last).await?.into_iter();
        Ok(phase.outputs(&mut outputs)?)
    }

    /// Runs the procedure's statement of this number, from 0, and returns its rows.
    ///
    /// # Errors
    /// Those of the statement, and aborts of the engine.
    pub async fn query(&mut self, number: usize, params: impl Values) -> Result<Vec<Vec<Datum>>, Stop> {
        Ok(self.inner.statement(number, params.into_values()).await?.rows)
    }

    /// As [`Txn::query`]; returns the number of rows that were selected or changed.
    ///
    /// # Errors
    /// As [`Txn::query`].
    pub async fn execute(&mut self, number: usize, params: impl Values) -> Result<u64, Stop> {
        Ok(self.inner.statement(number, params.into_values()).await?.count)
    }
}

impl Stop {
    /// The procedure's own reason to end without effect, such as an account that is overdrawn: an
    /// error with the SQLSTATE `P0001`.
    pub fn refuse(reason: impl Into<String>) -> Stop {
        Stop::Error(SqlError::new(SqlState(*b"P0001"), reason))
    }
}
