//! A query that is no program: its rows are read in the client's transaction, then its plan makes
//! the answer of them.

use super::block::Kind;
use super::carry::{Product, RowsTag};
use super::{Failure, Session, Stream};
use crate::access::USER;
use crate::counters::Counters;
use crate::engine::{Conversation, Engine, RunError, outcomes};
use crate::language::Ready;
use crate::shared::now;
use compiler::general::{Facts, Rows, Scan};
use sql::database::Command;
use sql::{Datum, SqlError, SqlState};
use std::sync::Arc;

/// Runs of the scans if the engine ends them for reasons that pass.
const RUNS: u32 = 6;

impl<S: Stream, E: Engine> Session<S, E> {
    pub(super) async fn general(&mut self, ready: &Ready, params: Vec<Datum>) -> Result<Product, Failure> {
        let Some(plan) = ready.plan.clone() else {
            return Err(SqlError::new(SqlState::INTERNAL, "the statement has no plan").into());
        };
        let started = plan.start(self.facts(), params)?;
        let rows = self.scan(started.scans()).await?;
        let limit = self.settings.limit("statement_timeout");
        let answer = started.finish(rows);
        let rows = tokio::select! {
            biased;
            rows = answer => rows?,
            error = self.given_up(limit) => return Err(error.into()),
        };
        Ok(Product::Rows { rows, tag: RowsTag::Counted("SELECT") })
    }

    fn facts(&self) -> Facts {
        Facts {
            now: if self.block.kind == Kind::None { now() } else { self.block.now },
            user: USER.into(),
            database: self.database.clone(),
            backend: self.registered.id,
            settings: self.settings.all(),
        }
    }

    /// The rows of each scan, of one moment.
    async fn scan(&mut self, scans: &[Scan]) -> Result<Vec<Rows>, Failure> {
        if scans.is_empty() {
            return Ok(Vec::new());
        }
        if self.block.kind != Kind::None {
            let mut all = Vec::with_capacity(scans.len());
            for scan in scans {
                let call = self.shared.call(Arc::clone(&scan.program), scan.params.clone(), self.block.now);
                let answer = self.command(Command::Run(call)).await.map_err(too_long)?;
                all.push(rows_of(outcomes(answer).map_err(RunError::into_sql)?));
            }
            return Ok(all);
        }
        let limit = self.settings.limit("statement_timeout");
        let all = self.scan_alone(scans);
        let outcome = tokio::select! {
            biased;
            outcome = all => outcome,
            error = self.given_up(limit) => return Err(error.into()),
        };
        outcome.map_err(|error| too_long(error.into_sql()).into())
    }

    /// The scans as a transaction by themselves, again if it fails for a reason that passes.
    async fn scan_alone(&self, scans: &[Scan]) -> Result<Vec<Rows>, RunError> {
        let mut run = 1;
        loop {
            match self.scan_once(scans).await {
                Err(error) if error.is_transient() && run < RUNS => {
                    Counters::add(&self.shared.counters.retries);
                    tokio::time::sleep(super::carry::pause(run)).await;
                    run += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn scan_once(&self, scans: &[Scan]) -> Result<Vec<Rows>, RunError> {
        let mut conversation = self.shared.engine.begin();
        let mut all = Vec::with_capacity(scans.len());
        let at = now();
        for scan in scans {
            let call = self.shared.call(Arc::clone(&scan.program), scan.params.clone(), at);
            let answer = conversation.command(Command::Run(call)).await?;
            match outcomes(answer) {
                Ok(outcomes) => all.push(rows_of(outcomes)),
                Err(error) => {
                    conversation.rollback().await;
                    return Err(error);
                }
            }
        }
        // Only now it is certain that all rows are of one moment.
        conversation.commit().await?;
        Ok(all)
    }
}

fn rows_of(mut outcomes: Vec<sql::program::Outcome>) -> Rows {
    outcomes.pop().unwrap_or_default().rows
}

/// What to do where a scan has too many rows.
fn too_long(error: SqlError) -> SqlError {
    if error.state != SqlState::PROGRAM_LIMIT {
        return error;
    }
    error.with_hint(
        "A query with joins, groups or sub-queries reads at most 16 MiB of a table, after the conditions on \
         its columns. Select fewer columns, or add a condition.",
    )
}
