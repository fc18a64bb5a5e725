//! A compiled statement is carried out.

use super::block::{Kind, in_failed};
use super::{Failure, Session, Stream, limit_of};
use crate::counters::{Counters, Timed};
use crate::engine::{Conversation, Engine, RunError, outcomes};
use crate::language::{Prepared, Ready};
use crate::outgoing::Severity;
use crate::settings::{Lasts, Limit};
use crate::shared::{Registered, now};
use compiler::compiled::{Compiled, Copy, Discard, Isolation, Modes, Query, Session as About, Tag};
use sql::database::{Answer, Call, Command, Request};
use sql::program::{Outcome, Path, Statement};
use sql::{Datum, Program, SqlError, SqlState};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// The result of a statement.
pub(super) enum Product {
    Rows { rows: Vec<Vec<Datum>>, tag: RowsTag },
    Done(String),
}

/// The word at the end of rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum RowsTag {
    /// Followed by the number of rows that the client got.
    Counted(&'static str),
    Whole(String),
}

/// Whether a statement is a transaction by itself if the client has begun none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reach {
    Alone,
    /// Others follow in the same transaction.
    WithOthers,
}

/// Runs of a statement that the engine ends for reasons that pass.
const RUNS: u32 = 6;

/// Whether the rows of a statement may be too many for one message, so that it is read in parts
/// when it fails for that. The row of one key never is.
fn may_be_long(query: &Query) -> bool {
    let is_of_one_key = |statement: &Statement| match statement {
        Statement::Select(select) => match select.sources.as_slice() {
            [joined] => matches!(&joined.source.path, Path::Keys(keys) if keys.len() == 1),
            _ => false,
        },
        _ => false,
    };
    query.tag == Tag::Select
        && query.program.only_reads
        && query.call.is_none()
        && !query.program.statements.iter().all(is_of_one_key)
}

/// Whether it is a select that goes through all rows of a table.
fn reads_all(query: &Query) -> bool {
    let [Statement::Select(select)] = query.program.statements.as_slice() else { return false };
    query.tag == Tag::Select && select.sources.iter().any(|joined| joined.source.path == Path::All)
}

/// Ends when the client cancels the statement, or when its time is over.
pub(super) async fn given_up(registered: &Registered, limit: Option<Duration>) -> SqlError {
    let why = tokio::select! {
        () = registered.cancel.asked() => "user request",
        () = limit_of(limit) => "statement timeout",
    };
    SqlError::new(SqlState(*b"57014"), format!("canceling statement due to {why}"))
}

impl<S: Stream, E: Engine> Session<S, E> {
    /// Carries a statement out. `params` has a value for each of its parameters.
    pub(super) async fn carry(
        &mut self,
        prepared: &Prepared,
        params: Vec<Datum>,
        reach: Reach,
    ) -> Result<Option<(Arc<Ready>, Product)>, Failure> {
        let timed = Timed::begin(&self.registered.activity);
        let carried = self.carry_out(prepared, params, reach).await;
        self.shared.counters.latency.add(timed.time());
        carried
    }

    async fn carry_out(
        &mut self,
        prepared: &Prepared,
        params: Vec<Datum>,
        reach: Reach,
    ) -> Result<Option<(Arc<Ready>, Product)>, Failure> {
        Counters::add(&self.shared.counters.statements);
        self.registered.cancel.clear();
        let guarded = pin!(self.guarded(prepared)).await;
        let ready = match guarded {
            Ok(Some(ready)) => ready,
            Ok(None) => return Ok(None),
            Err(_) if self.block.failed => return Err(in_failed().into()),
            Err(error) => return Err(error.into()),
        };
        if self.block.failed && !ready.ends_failure() {
            return Err(in_failed().into());
        }
        let begins = reach == Reach::WithOthers && self.block.kind == Kind::None;
        let product = match &ready.compiled {
            Compiled::Session(about) => Box::pin(self.about_session(about)).await?,
            Compiled::Query(query) => {
                if begins {
                    self.begin(Kind::Implicit);
                }
                pin!(self.carry_query(prepared, (&ready, query), params)).await?
            }
            Compiled::Copy(copy) => Box::pin(self.carry_copy((&ready, copy), reach)).await?,
            Compiled::Define(definition) => Box::pin(self.define(definition, reach)).await?,
            Compiled::CreateAs(table) => self.create_as(table, reach).await?,
            Compiled::Prepare { name, types, statement } => {
                let prepared = Prepared::of(Some(statement.clone()), types.clone(), &self.catalog())?;
                self.keep(name, Arc::new(prepared))?;
                Product::Done("PREPARE".into())
            }
            Compiled::Declare { declared, statement, .. } => {
                if begins {
                    self.begin(Kind::Implicit);
                }
                self.declare(declared, statement, params, reach).await?
            }
            Compiled::Execute { .. } => {
                return Err(SqlError::unsupported("EXECUTE inside of another statement", None).into());
            }
            Compiled::Explain { analyze: false, inner } if inner.as_call().is_some() => {
                self.explain_call(inner).await?
            }
            Compiled::Explain { analyze, inner } => {
                Box::pin(self.explain(&ready, (inner, *analyze), params)).await?
            }
            Compiled::General { .. } => {
                if begins {
                    self.begin(Kind::Implicit);
                }
                Box::pin(self.general(&ready, params)).await?
            }
        };
        self.release_guards();
        Ok(Some((ready, product)))
    }

    /// Runs a query; in parts, if the rows are too many for one message and may be read so.
    async fn carry_query(
        &mut self,
        prepared: &Prepared,
        (ready, query): (&Arc<Ready>, &Query),
        params: Vec<Datum>,
    ) -> Result<Product, Failure> {
        let is_alone = self.block.kind == Kind::None;
        let again = (is_alone && may_be_long(query)).then(|| params.clone());
        let outcome = pin!(self.run_query(ready, query, params)).await;
        match (outcome, again) {
            (Err(Failure::Statement(error)), Some(params)) if error.state == SqlState::PROGRAM_LIMIT => {
                Box::pin(self.large(prepared, ready, params)).await
            }
            (outcome, _) => outcome,
        }
    }

    /// `COPY`, in a transaction of its own unless there is one.
    async fn carry_copy(&mut self, (ready, copy): (&Ready, &Copy), reach: Reach) -> Result<Product, Failure> {
        if self.block.kind == Kind::None {
            self.begin(Kind::Implicit);
        }
        let product = self.copy(ready, copy).await?;
        if self.block.kind == Kind::Implicit && reach == Reach::Alone {
            Box::pin(self.commit()).await?;
        }
        Ok(product)
    }

    async fn run_query(
        &mut self,
        ready: &Ready,
        query: &Query,
        mut params: Vec<Datum>,
    ) -> Result<Product, Failure> {
        self.check_writes(query)?;
        self.called(query, &mut params).await?;
        if !query.fills.is_empty() {
            Box::pin(self.fill(&query.fills, &mut params)).await?;
        }
        // In a transaction block an answer that is too long for a message would end it.
        if self.block.kind != Kind::None
            && reads_all(query)
            && let Some(rows) = Box::pin(self.whole_table(query, &params)).await?
        {
            return Ok(Product::Rows { rows, tag: RowsTag::Counted("SELECT") });
        }
        let mut outcomes = pin!(self.run_program(ready, params)).await?;
        let outcome = outcomes.pop().unwrap_or_default();
        Ok(match (query.tag, ready.fields.is_some()) {
            (Tag::Select, _) => Product::Rows { rows: outcome.rows, tag: RowsTag::Counted("SELECT") },
            (tag, true) => {
                Product::Rows { rows: outcome.rows, tag: RowsTag::Whole(tag_text(tag, outcome.count)) }
            }
            (tag, false) => Product::Done(tag_text(tag, outcome.count)),
        })
    }

    /// Refuses a statement that writes where the transaction only reads.
    pub(super) fn check_writes(&self, query: &Query) -> Result<(), SqlError> {
        if !self.block.read_only || query.writes.is_empty() {
            return Ok(());
        }
        let word = tag_word(query.tag);
        let message = format!("cannot execute {word} in a read-only transaction");
        Err(SqlError::new(SqlState(*b"25006"), message))
    }

    /// A program with its parameters, for this session's zone.
    pub(super) fn call_of(&self, program: Arc<Program>, params: Vec<Datum>, now: i64) -> Call {
        self.shared.call(program, params, now, self.settings.zone())
    }

    /// Runs a program in the transaction, or as one by itself.
    pub(super) async fn run_program(
        &mut self,
        ready: &Ready,
        params: Vec<Datum>,
    ) -> Result<Vec<Outcome>, SqlError> {
        let Some(program) = ready.program.clone() else {
            return Err(SqlError::new(SqlState::INTERNAL, "the statement has no program"));
        };
        match self.block.kind {
            Kind::None => pin!(self.run_alone(self.call_of(program, params, now()))).await,
            Kind::Implicit | Kind::Explicit => {
                let call = self.call_of(program, params, self.block.now);
                let answer = pin!(self.command(Command::Run(call))).await?;
                outcomes(answer).map_err(RunError::into_sql)
            }
        }
    }

    /// A transaction of one program. It has not been shown to the client yet, so after a conflict
    /// it runs again.
    async fn run_alone(&self, call: Call) -> Result<Vec<Outcome>, SqlError> {
        let limit = self.settings.limit(Limit::Statement);
        let only_reads = call.program.only_reads;
        let all = async {
            let mut run = 1;
            loop {
                match self.shared.engine.once(Request::Once(call.clone())).await {
                    Err(error) if error.is_transient() && run < RUNS => {
                        Counters::add(&self.shared.counters.retries);
                        tokio::time::sleep(pause(run)).await;
                        run += 1;
                    }
                    outcome => return outcome,
                }
            }
        };
        // A write may commit in the moment in which the session gives up, and the client would be
        // told that it did not. So a write is waited for: the engine itself limits its waits.
        let outcome = if only_reads {
            tokio::select! {
                biased;
                outcome = all => outcome,
                error = self.given_up(limit) => return Err(error),
            }
        } else {
            all.await
        };
        let counters = &self.shared.counters;
        Counters::add(if outcome.is_ok() { &counters.commits } else { &counters.rollbacks });
        outcome.and_then(outcomes).map_err(RunError::into_sql)
    }

    /// A part of a transaction.
    pub(super) async fn command(&mut self, command: Command) -> Result<Answer, SqlError> {
        let limit = self.settings.limit(Limit::Statement);
        self.conversation()?;
        let Some(mut conversation) = self.block.conversation.take() else { return Err(in_failed()) };
        let outcome = tokio::select! {
            biased;
            outcome = conversation.command(command) => outcome,
            error = self.given_up(limit) => {
                // The program may still run: only the whole transaction can be rolled back.
                (self.block.lost, self.block.failed) = (true, true);
                self.block.savepoints.clear();
                drop(conversation);
                return Err(error);
            }
        };
        self.block.conversation = Some(conversation);
        outcome.map_err(|error| self.ended(error))
    }

    /// See [`given_up`].
    pub(super) async fn given_up(&self, limit: Option<Duration>) -> SqlError {
        given_up(&self.registered, limit).await
    }

    fn about_settings(&mut self, about: &About) -> Result<Product, Failure> {
        let tag = match about {
            About::SetTransaction(modes) => {
                if self.block.kind == Kind::None {
                    let message = "SET TRANSACTION can only be used in transaction blocks";
                    self.notice(Severity::Warning, SqlState(*b"25P01"), message);
                } else {
                    self.set_modes(*modes)?;
                }
                "SET"
            }
            About::SetCharacteristics(modes) => {
                self.set_characteristics(*modes)?;
                "SET"
            }
            About::Set { name, value, local } => {
                self.set(name, value.as_deref(), *local)?;
                "SET"
            }
            About::SetConfig { name, value, local } => {
                self.set(name, Some(value), *local)?;
                let value = self.settings.get(name)?.to_owned();
                return Ok(Product::Rows {
                    rows: vec![vec![Datum::Text(value)]],
                    tag: RowsTag::Counted("SELECT"),
                });
            }
            About::Show(name) => {
                let value = self.settings.get(name)?.to_owned();
                return Ok(Product::Rows {
                    rows: vec![vec![Datum::Text(value)]],
                    tag: RowsTag::Whole("SHOW".into()),
                });
            }
            About::ShowAll => {
                let row =
                    |(name, value)| vec![Datum::Text(name), Datum::Text(value), Datum::Text(String::new())];
                let rows = self.settings.all().into_iter().map(row).collect();
                return Ok(Product::Rows { rows, tag: RowsTag::Whole("SHOW".into()) });
            }
            About::Reset(name) => {
                self.set(name, None, false)?;
                "RESET"
            }
            About::ResetAll => {
                self.reset_all();
                "RESET"
            }
            _ => "",
        };
        Ok(Product::Done(tag.into()))
    }

    async fn about_session(&mut self, about: &About) -> Result<Product, Failure> {
        let tag = match about {
            About::Begin(modes) => {
                if self.block.kind == Kind::Explicit {
                    let message = "there is already a transaction in progress";
                    self.notice(Severity::Warning, SqlState(*b"25001"), message);
                }
                self.begin(Kind::Explicit);
                self.set_modes(*modes)?;
                "BEGIN"
            }
            About::Commit { chain } => return self.end(true, *chain).await,
            About::Rollback { chain } => return self.end(false, *chain).await,
            About::Savepoint(name) => {
                self.savepoint(name.clone()).await?;
                "SAVEPOINT"
            }
            About::RollbackTo(name) => {
                self.roll_back_to(name).await?;
                "ROLLBACK"
            }
            About::Release(name) => {
                self.release(name)?;
                "RELEASE"
            }
            About::SetTransaction(_)
            | About::SetCharacteristics(_)
            | About::Set { .. }
            | About::SetConfig { .. }
            | About::Show(_)
            | About::ShowAll
            | About::Reset(_)
            | About::ResetAll => return self.about_settings(about),
            About::Fetch(fetch) => return Ok(self.fetch_rows(fetch)?),
            About::Close(name) => self.close_cursor(name.as_ref())?,
            About::Deallocate(None) => {
                self.statements.clear();
                "DEALLOCATE ALL"
            }
            About::Deallocate(Some(name)) => {
                if self.statements.remove(name).is_none() {
                    return Err(super::no_statement(name).into());
                }
                "DEALLOCATE"
            }
            About::Discard(what) => self.discard(*what)?,
            About::Vacuum(tables) => {
                self.require_tables(tables)?;
                "VACUUM"
            }
            About::Analyze(tables) => {
                self.require_tables(tables)?;
                "ANALYZE"
            }
            About::Lock { tables, .. } => {
                self.require_tables(tables)?;
                "LOCK TABLE"
            }
            About::CreateDatabase { if_not_exists: true, .. } => "CREATE DATABASE",
            About::CreateDatabase { name, .. } => return Err(one_database(name).into()),
            About::DropDatabase { .. } => {
                return Err(SqlError::unsupported("DROP DATABASE", Some("Drop its tables.")).into());
            }
            About::Nothing(word) => word,
        };
        Ok(Product::Done(tag.into()))
    }

    /// `COMMIT` or `ROLLBACK`.
    async fn end(&mut self, commits: bool, chain: bool) -> Result<Product, Failure> {
        if self.block.kind == Kind::None || (self.block.kind == Kind::Implicit && chain) {
            if chain {
                let word = if commits { "COMMIT" } else { "ROLLBACK" };
                let message = format!("{word} AND CHAIN can only be used in transaction blocks");
                return Err(SqlError::new(SqlState(*b"25P01"), message).into());
            }
            self.notice(Severity::Warning, SqlState(*b"25P01"), "there is no transaction in progress");
        }
        let read_only = self.block.read_only;
        let committed = match commits {
            true => self.commit().await?,
            false => {
                self.roll_back().await;
                false
            }
        };
        if chain {
            self.begin(Kind::Explicit);
            self.block.read_only = read_only;
        }
        // Without a transaction there is nothing that could not commit.
        Ok(Product::Done(if commits && committed { "COMMIT" } else { "ROLLBACK" }.into()))
    }

    fn set_modes(&mut self, modes: Modes) -> Result<(), SqlError> {
        if let Some(isolation) = modes.isolation {
            self.settings.set("transaction_isolation", Some(level(isolation)), Lasts::Transaction, true)?;
        }
        if let Some(read_only) = modes.read_only {
            self.block.read_only = read_only;
            let value = if read_only { "on" } else { "off" };
            self.settings.set("transaction_read_only", Some(value), Lasts::Transaction, true)?;
        }
        Ok(())
    }

    fn set_characteristics(&mut self, modes: Modes) -> Result<(), SqlError> {
        let within = self.block.kind != Kind::None;
        if let Some(isolation) = modes.isolation {
            let name = "default_transaction_isolation";
            self.settings.set(name, Some(level(isolation)), Lasts::Session, within)?;
        }
        if let Some(read_only) = modes.read_only {
            let value = if read_only { "on" } else { "off" };
            self.settings.set("default_transaction_read_only", Some(value), Lasts::Session, within)?;
        }
        Ok(())
    }

    pub(super) fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<(), SqlError> {
        let within = self.block.kind != Kind::None;
        if local && !within {
            self.notice(
                Severity::Warning,
                SqlState(*b"25P01"),
                "SET LOCAL can only be used in transaction blocks",
            );
            return Ok(());
        }
        let before = self.settings.reported();
        let lasts = if local { Lasts::Transaction } else { Lasts::Session };
        self.settings.set(name, value, lasts, within)?;
        self.report(&before);
        if name.eq_ignore_ascii_case("transaction_read_only") {
            self.block.read_only = self.settings.is_on("transaction_read_only");
        }
        Ok(())
    }

    fn reset_all(&mut self) {
        let before = self.settings.reported();
        self.settings.reset_all(self.block.kind != Kind::None);
        self.report(&before);
    }

    /// Tells the client of reported settings that have changed.
    pub(super) fn report(&mut self, before: &[(&'static str, String)]) {
        for (old, new) in before.iter().zip(self.settings.reported()) {
            if *old != new {
                self.transport.out.parameter_status(new.0, &new.1);
            }
        }
    }

    fn discard(&mut self, what: Discard) -> Result<&'static str, SqlError> {
        Ok(match what {
            Discard::All => {
                if self.block.kind == Kind::Explicit {
                    let message = "DISCARD ALL cannot run inside a transaction block";
                    return Err(SqlError::new(SqlState(*b"25001"), message));
                }
                self.statements.clear();
                self.portals.clear();
                self.cursors.clear();
                self.numbers.clear();
                self.shared.advisory.unlock_all(self.registered.id);
                self.reset_all();
                "DISCARD ALL"
            }
            Discard::Plans => "DISCARD PLANS",
            Discard::Sequences => {
                self.numbers.clear();
                "DISCARD SEQUENCES"
            }
            Discard::Temporary => "DISCARD TEMP",
        })
    }

    fn require_tables(&self, tables: &[String]) -> Result<(), SqlError> {
        let catalog = self.catalog();
        match tables.iter().find(|name| catalog.table(name).is_none()) {
            None => Ok(()),
            Some(name) => {
                let message = format!("relation \"{name}\" does not exist");
                Err(SqlError::new(SqlState::UNDEFINED_TABLE, message))
            }
        }
    }
}

fn one_database(name: &str) -> SqlError {
    SqlError::new(SqlState(*b"42P04"), format!("database \"{name}\" already exists"))
        .with_detail("A server has one database, under every name.")
}

fn level(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadUncommitted => "read uncommitted",
        Isolation::ReadCommitted => "read committed",
        Isolation::RepeatableRead => "repeatable read",
        Isolation::Serializable => "serializable",
    }
}

fn tag_word(tag: Tag) -> &'static str {
    match tag {
        Tag::Select => "SELECT",
        Tag::Insert => "INSERT",
        Tag::Update => "UPDATE",
        Tag::Delete => "DELETE",
        Tag::Call => "CALL",
    }
}

pub(super) fn tag_text(tag: Tag, count: u64) -> String {
    match tag {
        Tag::Insert => format!("INSERT 0 {count}"),
        Tag::Call => "CALL".into(),
        _ => format!("{} {count}", tag_word(tag)),
    }
}

/// Before the next run: some milliseconds, more after each, of which a part is chance, so that two
/// that met do not meet again.
pub(super) fn pause(run: u32) -> Duration {
    let chance = crate::scram::random::<1>().map_or(0, |[byte]| u64::from(byte));
    Duration::from_micros(500 * (1 << run.min(8)) + chance * 8 * u64::from(run))
}
