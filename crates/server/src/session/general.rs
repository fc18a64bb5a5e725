//! A query that is no program: its rows are read in the client's transaction, then its plan makes
//! the answer of them.

use super::block::Kind;
use super::carry::{Product, RowsTag, given_up};
use super::{Failure, Session, Stream};
use crate::access::USER;
use crate::counters::Counters;
use crate::engine::{Conversation, Engine, RunError, outcomes};
use crate::guards::Hold;
use crate::language::{Prepared, Ready};
use crate::settings::Limit;
use crate::shared::now;
use crate::transport::Lost;
use compiler::Query;
use compiler::general::{Facts, General, Plan, Rows, Scan, Started};
use sql::database::Command;
use sql::program::{Outcome, Path, RowLock, Statement};
use sql::{Datum, Expr, Program, SqlError, SqlState, SqlType};
use std::sync::Arc;

/// Runs of the scans if the engine ends them for reasons that pass.
const RUNS: u32 = 6;
/// Memory for the rows of a select of a whole table, in bytes: as much as that of other queries.
const MOST_OF_A_TABLE: usize = 512 << 20;

impl<S: Stream, E: Engine> Session<S, E> {
    pub(super) async fn general(&mut self, ready: &Ready, params: Vec<Datum>) -> Result<Product, Failure> {
        let Some(plan) = ready.plan.clone() else {
            return Err(SqlError::new(SqlState::INTERNAL, "the statement has no plan").into());
        };
        if plan.each().is_some() || !plan.parts().is_empty() {
            return Box::pin(self.change(ready, &plan, params)).await;
        }
        let rows = self.answer(&plan, params).await?;
        Ok(Product::Rows { rows, tag: RowsTag::Counted("SELECT") })
    }

    /// The rows of a plan, read in the transaction, or in one by themselves.
    pub(super) async fn answer(&mut self, plan: &Arc<dyn Plan>, params: Vec<Datum>) -> Result<Rows, Failure> {
        if !plan.parts().is_empty() {
            let why = SqlError::unsupported("WITH that writes, in COPY or a cursor", None);
            return Err(why.into());
        }
        let started = plan.start(self.facts(), params)?;
        let rows = self.scan(started.scans(), started.memory()).await?;
        self.finished(started, rows).await
    }

    /// The answer of a plan, from the rows of its scans.
    async fn finished(&mut self, started: Box<dyn Started>, rows: Vec<Rows>) -> Result<Rows, Failure> {
        let limit = self.settings.limit(Limit::Statement);
        let answer = started.finish(rows);
        tokio::select! {
            biased;
            rows = answer => Ok(rows?),
            error = given_up(&self.registered, limit) => Err(error.into()),
            // A query that nothing waits for must not keep a thread.
            () = self.transport.gone() => Err(Lost::Gone.into()),
        }
    }

    /// A query of which the rows are too many for one message: a plan reads its tables in parts.
    pub(super) async fn large(
        &mut self,
        prepared: &Prepared,
        ready: &Ready,
        params: Vec<Datum>,
    ) -> Result<Product, Failure> {
        let types: Vec<Option<SqlType>> = ready.params.iter().map(|ty| Some(*ty)).collect();
        let plan = match prepared.parsed() {
            Some(parsed) => queries::Queries::default().plan(&self.catalog(), parsed, &types)?,
            None => None,
        };
        let plan = plan.ok_or_else(|| SqlError::new(SqlState::INTERNAL, "the statement has no plan"))?;
        let rows = self.answer(&plan, params).await?;
        Ok(Product::Rows { rows, tag: RowsTag::Counted("SELECT") })
    }

    /// The rows of a select of all rows of one table, read in parts; `None` if it does more.
    pub(super) async fn whole_table(
        &mut self,
        query: &Query,
        params: &[Datum],
    ) -> Result<Option<Rows>, Failure> {
        let Some(program) = in_parts(&query.program) else { return Ok(None) };
        let (program, params) = (Arc::new(program), params.to_vec());
        let scan = Scan { table: String::new(), program, params, in_parts: true };
        Ok(self.scan(&[scan], MOST_OF_A_TABLE).await?.pop())
    }

    /// A statement that writes what a plan finds: in the transaction, or as one by itself, which
    /// runs again if it fails for a reason that passes.
    async fn change(
        &mut self,
        ready: &Ready,
        plan: &Arc<dyn Plan>,
        params: Vec<Datum>,
    ) -> Result<Product, Failure> {
        if self.block.kind != Kind::None {
            return self.change_once(ready, plan, params).await;
        }
        let mut run = 1;
        loop {
            self.begin(Kind::Implicit);
            let mut outcome = self.change_once(ready, plan, params.clone()).await;
            if outcome.is_ok()
                && let Err(error) = self.commit().await
            {
                outcome = Err(error.into());
            }
            let passes = matches!(&outcome, Err(Failure::Statement(error))
                if matches!(error.state, SqlState::SERIALIZATION_FAILURE | SqlState::DEADLOCK_DETECTED));
            if outcome.is_err() {
                self.roll_back().await;
            }
            if !passes || run == RUNS {
                return outcome;
            }
            for table in &ready.tables {
                self.guard(*table, Hold::Shared).await?;
            }
            if self.catalog().version != ready.version {
                return outcome;
            }
            Counters::add(&self.shared.counters.retries);
            tokio::time::sleep(super::carry::pause(run)).await;
            run += 1;
        }
    }

    async fn change_once(
        &mut self,
        ready: &Ready,
        plan: &Arc<dyn Plan>,
        params: Vec<Datum>,
    ) -> Result<Product, Failure> {
        let parts = plan.parts();
        for each in parts.iter().map(|part| &part.each).chain(plan.each()) {
            self.check_writes(each)?;
        }
        // All parts see the rows from before the first change.
        let mut begun = Vec::with_capacity(parts.len() + 1);
        for plan in parts.iter().map(|part| &part.rows).chain([plan]) {
            let started = plan.start(self.facts(), params.clone())?;
            let rows = self.scan(started.scans(), started.memory()).await?;
            begun.push((started, rows));
        }
        let (mut given, mut all) = (Vec::with_capacity(parts.len()), Rows::new());
        for (place, (mut started, rows)) in begun.into_iter().enumerate() {
            started.give(&given);
            all = self.finished(started, rows).await?;
            if let Some(part) = parts.get(place) {
                given.push(self.each(&part.each, &params, std::mem::take(&mut all)).await?.1);
            }
        }
        let Some(each) = plan.each() else {
            return Ok(Product::Rows { rows: all, tag: RowsTag::Counted("SELECT") });
        };
        let (count, rows) = self.each(each, &params, all).await?;
        let tag = super::carry::tag_text(each.tag, count);
        Ok(match ready.fields {
            Some(_) => Product::Rows { rows, tag: RowsTag::Whole(tag) },
            None => Product::Done(tag),
        })
    }

    /// A statement for each row. Returns how many rows it has changed, and the rows that it gives.
    async fn each(&mut self, each: &Query, params: &[Datum], rows: Rows) -> Result<(u64, Rows), Failure> {
        let (mut count, mut given) = (0, Rows::new());
        for row in rows {
            let mut values = params.to_vec();
            values.extend(row);
            self.fill(&each.fills, &mut values).await?;
            let call = self.call_of(Arc::clone(&each.program), values, self.block.now);
            let answer = self.command(Command::Run(call)).await?;
            for outcome in outcomes(answer).map_err(RunError::into_sql)? {
                count += outcome.count;
                given.extend(outcome.rows);
            }
        }
        Ok((count, given))
    }

    fn facts(&self) -> Facts {
        Facts {
            now: if self.block.kind == Kind::None { now() } else { self.block.now },
            zone: self.settings.zone(),
            user: USER.into(),
            database: self.database.clone(),
            backend: self.registered.id,
            settings: self.settings.all(),
        }
    }

    /// The rows of each scan, of one moment.
    async fn scan(&mut self, scans: &[Scan], most: usize) -> Result<Vec<Rows>, Failure> {
        if scans.is_empty() {
            return Ok(Vec::new());
        }
        if self.block.kind != Kind::None {
            let mut reading = Reading::new(scans, most);
            while let Some((program, params)) = reading.next() {
                let call = self.call_of(program, params, self.block.now);
                let answer = self.command(Command::Run(call)).await.map_err(too_long)?;
                reading.take(outcomes(answer).map_err(RunError::into_sql)?)?;
            }
            return Ok(reading.rows);
        }
        let limit = self.settings.limit(Limit::Statement);
        let all = self.scan_alone(scans, most);
        let outcome = tokio::select! {
            biased;
            outcome = all => outcome,
            error = self.given_up(limit) => return Err(error.into()),
        };
        outcome.map_err(|error| too_long(error.into_sql()).into())
    }

    /// The scans as a transaction by themselves, again if it fails for a reason that passes.
    async fn scan_alone(&self, scans: &[Scan], most: usize) -> Result<Vec<Rows>, RunError> {
        let mut run = 1;
        loop {
            match self.scan_once(scans, most).await {
                Err(error) if error.is_transient() && run < RUNS => {
                    Counters::add(&self.shared.counters.retries);
                    tokio::time::sleep(super::carry::pause(run)).await;
                    run += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn scan_once(&self, scans: &[Scan], most: usize) -> Result<Vec<Rows>, RunError> {
        let mut conversation = self.shared.engine.begin();
        let mut reading = Reading::new(scans, most);
        let at = now();
        while let Some((program, params)) = reading.next() {
            let call = self.call_of(program, params, at);
            let answer = conversation.command(Command::Run(call)).await?;
            let taken = outcomes(answer).and_then(|outcomes| reading.take(outcomes).map_err(RunError::Sql));
            if let Err(error) = taken {
                conversation.rollback().await;
                return Err(error);
            }
        }
        // Only now it is certain that all rows are of one moment.
        conversation.commit().await?;
        Ok(reading.rows)
    }
}

/// Scans under way: the rows so far, and where those of the last scan go on.
struct Reading<'s> {
    scans: &'s [Scan],
    rows: Vec<Rows>,
    rest: Option<Vec<u8>>,
    /// Bytes that are left for rows.
    left: usize,
    most: usize,
}

impl<'s> Reading<'s> {
    fn new(scans: &'s [Scan], most: usize) -> Reading<'s> {
        Reading { scans, rows: Vec::with_capacity(scans.len()), rest: None, left: most, most }
    }

    /// The next program and its parameters.
    fn next(&mut self) -> Option<(Arc<Program>, Vec<Datum>)> {
        let place = match self.rest.take() {
            Some(place) => place,
            None => {
                self.scans.get(self.rows.len())?;
                self.rows.push(Rows::new());
                Vec::new()
            }
        };
        let scan = self.scans.get(self.rows.len() - 1)?;
        let mut params = scan.params.clone();
        params.extend(scan.in_parts.then_some(Datum::Bytes(place)));
        Some((Arc::clone(&scan.program), params))
    }

    fn take(&mut self, mut outcomes: Vec<Outcome>) -> Result<(), SqlError> {
        let outcome = outcomes.pop().unwrap_or_default();
        let bytes = bytes_of(&outcome.rows);
        self.left = self.left.checked_sub(bytes).ok_or_else(|| {
            let message = format!("the rows of the query's tables need more than {} MiB", self.most >> 20);
            SqlError::new(SqlState(*b"53200"), message)
                .with_hint("Select fewer columns, or add conditions on the columns of its tables.")
        })?;
        if let Some(rows) = self.rows.last_mut() {
            rows.extend(outcome.rows);
        }
        self.rest = outcome.rest;
        Ok(())
    }
}

/// The memory of rows, in bytes.
pub(super) fn bytes_of(rows: &[Vec<Datum>]) -> usize {
    rows.iter().map(|row| size_of_val(&row[..]) + row.iter().map(heap).sum::<usize>()).sum()
}

fn heap(value: &Datum) -> usize {
    match value {
        Datum::Text(text) => text.len(),
        Datum::Bytes(bytes) => bytes.len(),
        _ => 0,
    }
}

/// The program of a select of all rows of one table, as one that reads them in parts; `None` if it
/// does more than that.
pub(super) fn in_parts(program: &Program) -> Option<Program> {
    let [Statement::Select(select)] = program.statements.as_slice() else { return None };
    let [only] = select.sources.as_slice() else { return None };
    let is_plain = select.grouping.is_none()
        && !select.distinct
        && select.order.is_empty()
        && select.limit.is_none()
        && select.offset.is_none();
    if only.source.path != Path::All || only.source.lock != RowLock::None || !is_plain {
        return None;
    }
    let mut program = program.clone();
    let place = u16::try_from(program.params.len()).ok()?;
    program.params.push(SqlType::Bytea);
    if let [Statement::Select(select)] = program.statements.as_mut_slice() {
        select.sources[0].source.path = Path::Part(Expr::Param(place));
    }
    Some(program)
}

/// What to do where a scan has too many rows.
fn too_long(error: SqlError) -> SqlError {
    if error.state != SqlState::PROGRAM_LIMIT {
        return error;
    }
    error.with_hint(
        "Rows that a key or an index finds are at most 16 MiB at once. Select fewer columns, or add a \
         condition.",
    )
}
