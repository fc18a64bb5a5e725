//! The door to what runs queries that the direct path does not cover.
//!
//! A [`Plan`] says which rows it needs, as programs of one select each. The session runs them in
//! the client's transaction, so the rows are those of one moment, with what the transaction wrote
//! itself, and under its locks. Then the plan computes the answer from them, away from the engine.

use crate::compiled::{Field, Query};
use crate::parse::Parsed;
use sql::catalog::{Catalog, Oid};
use sql::datetime::zone::Zone;
use sql::{Datum, Program, SqlError, SqlType};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// What plans queries.
pub trait General: Send + Sync + std::fmt::Debug {
    /// The plan of a statement; `None` if it is not for this planner. `given` has the types of
    /// parameters that the client knows, `reason` what the direct path lacks.
    ///
    /// # Errors
    /// PostgreSQL's errors of analysis; `0A000` for what the planner does not have.
    fn plan(
        &self,
        catalog: &Arc<Catalog>,
        statement: &Parsed,
        given: &[Option<SqlType>],
    ) -> Result<Option<Arc<dyn Plan>>, SqlError>;
}

/// A column of an answer.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    pub field: Field,
    /// PostgreSQL's number of the type, if it is one that [`SqlType`] lacks: its values are text.
    pub number: Option<u32>,
}

/// What a session knows and a query may ask for.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The begin of the transaction, in microseconds since 2000-01-01 UTC.
    pub now: i64,
    /// The zone of the session.
    pub zone: Zone,
    pub user: String,
    pub database: String,
    pub backend: i32,
    /// Names and values.
    pub settings: Vec<(String, String)>,
}

pub type Rows = Vec<Vec<Datum>>;

/// The rows of an answer, once they are there. Dropping it ends the work.
pub type Answer = Pin<Box<dyn Future<Output = Result<Rows, SqlError>> + Send>>;

/// Rows that a plan needs.
#[derive(Clone, PartialEq, Debug)]
pub struct Scan {
    pub table: String,
    /// A program of one select.
    pub program: Arc<Program>,
    pub params: Vec<Datum>,
    /// Whether it is run again and again, each time with one more parameter: where the rows begin
    /// ([`sql::program::Outcome::rest`]; no bytes first).
    pub in_parts: bool,
}

/// A query that can be carried out again and again.
pub trait Plan: Send + Sync {
    /// The types of the parameters.
    fn params(&self) -> &[SqlType];

    fn columns(&self) -> &[Column];

    /// The tables that it reads: they stay as they are meanwhile.
    fn tables(&self) -> &[Oid];

    /// The statement that is run for each row of the answer, if the plan is one of a statement that
    /// writes: its parameters are those of the client, then the row. The client gets what it gives.
    fn each(&self) -> Option<&Arc<Query>> {
        None
    }

    /// The parts of `WITH` that write, in their order. All reads, those of the plan too, come
    /// before the first write.
    fn parts(&self) -> &[Part] {
        &[]
    }

    /// What to read for these parameters.
    ///
    /// # Errors
    /// Those of the statement for these values.
    fn start(&self, facts: Facts, params: Vec<Datum>) -> Result<Box<dyn Started>, SqlError>;

    /// The lines of `EXPLAIN`.
    ///
    /// # Errors
    /// As [`Plan::start`].
    fn describe(&self) -> Result<Vec<String>, SqlError>;
}

/// A part of `WITH` that writes: its plan has a statement for each row.
#[derive(Clone)]
pub struct Part {
    pub rows: Arc<dyn Plan>,
    pub each: Arc<Query>,
}

/// A plan with its parameters.
pub trait Started: Send {
    fn scans(&self) -> &[Scan];

    /// The most memory of the rows of all scans, in bytes.
    fn memory(&self) -> usize {
        usize::MAX
    }

    /// Takes the rows that the statements of the parts before have given.
    fn give(&mut self, _parts: &[Rows]) {}

    /// The answer, from the rows of each scan.
    fn finish(self: Box<Self>, rows: Vec<Rows>) -> Answer;
}
