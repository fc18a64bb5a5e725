//! [`Engine`] over a deployment: programs as requests of the workload [`Database`].

use crate::bridge::{Answered, Bridge, NoAnswer, Reply};
use crate::engine::{Conversation, Engine, Job, RunError};
use crate::sequences::Block;
use base::InstanceId;
use channel::Address;
use sql::catalog::{Catalog, Sequence};
use sql::database::{Answer, Call, Command, Database, Request};
use sql::program::Outcome;
use sql::{SqlError, SqlState};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::sync::oneshot;
use txn::{Abort, Placement, Schema, Workload};

pub struct Deployed {
    inner: Arc<Inner>,
}

struct Inner {
    bridge: Bridge,
    database: Database,
    schema: Schema,
    placement: Placement,
    /// Of the next statement: higher than all numbers that an earlier server gave, because it begins
    /// with the nanoseconds since 2000 and no server runs a statement each nanosecond.
    next_statement: AtomicI64,
}

impl Deployed {
    /// The engine of a deployment; `placement` and `addresses` are its instances'. `now_ns` are the
    /// nanoseconds since 2000.
    ///
    /// # Errors
    /// When the bridge cannot start.
    pub fn new(
        database: Database,
        placement: Placement,
        (deployment, addresses): (u64, Vec<Address>),
        now_ns: i64,
    ) -> std::io::Result<Deployed> {
        let inner = Inner {
            bridge: Bridge::start(deployment, addresses)?,
            schema: database.schema(),
            database,
            placement,
            next_statement: AtomicI64::new(now_ns),
        };
        Ok(Deployed { inner: Arc::new(inner) })
    }

    /// The catalog as it is stored.
    ///
    /// # Errors
    /// When the engine does not answer.
    pub async fn catalog(&self) -> Result<Catalog, RunError> {
        match self.inner.once(&Request::ReadCatalog, true).await? {
            Answer::Catalog(catalog) => Ok(*catalog),
            Answer::Failed(error) => Err(RunError::Sql(error)),
            _ => Err(unexpected()),
        }
    }
}

impl Inner {
    fn call(&self, job: Job) -> Call {
        let statement = self.next_statement.fetch_add(1, Ordering::Relaxed);
        Call { program: job.program, params: job.params, now: job.now, statement }
    }

    /// The instance that owns the first place to which the request leads.
    fn home(&self, request: &Request) -> InstanceId {
        let mut home = None;
        self.database.routes(request, &mut |route| {
            let domain = self.schema.table(route.table).map_or(0, |table| table.domain);
            if home.is_none() && domain > 0 {
                home = Some(self.placement.owner(self.placement.site(route.key, domain)));
            }
        });
        home.unwrap_or(InstanceId(0))
    }

    /// A request that is a transaction by itself.
    async fn once(&self, request: &Request, only_reads: bool) -> Result<Answer, RunError> {
        let (_, reply) = self.bridge.submit(self.home(request), &encoded(request)?);
        match received(reply).await {
            Ok(answered) => decoded(&answered.bytes),
            Err(NoAnswer::Lost) if only_reads => Err(RunError::Abort(Abort::InstanceDown)),
            Err(why) => Err(no_answer(why)),
        }
    }
}

fn encoded<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, RunError> {
    postcard::to_stdvec(value).map_err(|_| RunError::Abort(Abort::TooLong))
}

fn decoded(bytes: &[u8]) -> Result<Answer, RunError> {
    postcard::from_bytes(bytes).map_err(|_| unexpected())
}

fn unexpected() -> RunError {
    RunError::Sql(SqlError::new(SqlState::INTERNAL, "the engine's answer does not fit the request"))
}

async fn received(reply: oneshot::Receiver<Reply>) -> Reply {
    // The bridge ends only with the server.
    reply.await.unwrap_or(Err(NoAnswer::Lost))
}

fn no_answer(why: NoAnswer) -> RunError {
    match why {
        NoAnswer::Abort(abort) => RunError::Abort(abort),
        NoAnswer::Unreachable(why) => RunError::Unreachable(why),
        NoAnswer::Lost => RunError::Unknown,
    }
}

fn outcomes(answer: Answer) -> Result<Vec<Outcome>, RunError> {
    match answer {
        Answer::Outcomes(outcomes) => Ok(outcomes),
        Answer::Failed(error) => Err(RunError::Sql(error)),
        _ => Err(unexpected()),
    }
}

impl Engine for Deployed {
    type Conversation = Talk;

    async fn run(&self, job: Job) -> Result<Vec<Outcome>, RunError> {
        let only_reads = job.program.only_reads;
        let request = Request::Once(self.inner.call(job));
        outcomes(self.inner.once(&request, only_reads).await?)
    }

    fn begin(&self) -> Talk {
        Talk { inner: Arc::clone(&self.inner), call: None, is_over: false }
    }

    async fn next_block(&self, sequence: &Sequence) -> Result<Block, RunError> {
        let _ = sequence;
        Err(unexpected())
    }

    async fn set_sequence(&self, sequence: &Sequence, number: i64, is_taken: bool) -> Result<(), RunError> {
        let _ = (sequence, number, is_taken);
        Err(unexpected())
    }
}

/// A transaction as a conversation with the instance where it began.
pub struct Talk {
    inner: Arc<Inner>,
    /// The home, and the number of the call that began it.
    call: Option<(InstanceId, u64)>,
    is_over: bool,
}

impl Talk {
    /// Any command but the last.
    pub async fn command(&mut self, command: Command) -> Result<Answer, RunError> {
        let answered = match self.say(command).await {
            Ok(answered) => answered,
            // The instance rolls back what its client has lost the link to.
            Err(NoAnswer::Lost) => return Err(RunError::Abort(Abort::InstanceDown)),
            Err(why) => return Err(no_answer(why)),
        };
        self.is_over |= answered.ends;
        if answered.ends { Err(unexpected()) } else { decoded(&answered.bytes) }
    }

    async fn say(&mut self, command: Command) -> Reply {
        let too_long = |_| NoAnswer::Abort(Abort::TooLong);
        let reply = match self.call {
            None => {
                let request = Request::Converse(command);
                let home = self.inner.home(&request);
                let (call, reply) = self.inner.bridge.submit(home, &encoded(&request).map_err(too_long)?);
                self.call = Some((home, call));
                reply
            }
            Some((home, call)) => {
                self.inner.bridge.more(home, call, &encoded(&command).map_err(too_long)?)
            }
        };
        let answered: Result<Answered, NoAnswer> = received(reply).await;
        // A message that is too long was not sent: the conversation can be told to end.
        self.is_over |= matches!(answered, Err(NoAnswer::Lost | NoAnswer::Unreachable(_)));
        answered
    }

    async fn end(&mut self, command: Command) -> Result<(), RunError> {
        if self.call.is_none() || self.is_over {
            return Ok(());
        }
        let answered = self.say(command).await;
        self.is_over = true;
        match decoded(&answered.map_err(no_answer)?.bytes)? {
            Answer::Done => Ok(()),
            Answer::Failed(error) => Err(RunError::Sql(error)),
            _ => Err(unexpected()),
        }
    }
}

impl Conversation for Talk {
    async fn run(&mut self, job: Job) -> Result<Vec<Outcome>, RunError> {
        let call = self.inner.call(job);
        outcomes(self.command(Command::Run(call)).await?)
    }

    async fn commit(mut self) -> Result<(), RunError> {
        self.end(Command::Commit).await
    }

    async fn rollback(mut self) {
        // A rollback has one outcome only.
        let _ = self.end(Command::Rollback).await;
    }

    async fn savepoint(&mut self) -> Result<u64, RunError> {
        match self.command(Command::Savepoint).await? {
            Answer::Point(point) => Ok(point),
            Answer::Failed(error) => Err(RunError::Sql(error)),
            _ => Err(unexpected()),
        }
    }

    async fn rollback_to(&mut self, savepoint: u64) -> Result<(), RunError> {
        match self.command(Command::UndoTo(savepoint)).await? {
            Answer::Done => Ok(()),
            Answer::Failed(error) => Err(RunError::Sql(error)),
            _ => Err(unexpected()),
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        if let Some((home, call)) = self.call.filter(|_| !self.is_over)
            && let Ok(message) = encoded(&Command::Rollback)
        {
            self.inner.bridge.last(home, call, &message);
        }
    }
}
