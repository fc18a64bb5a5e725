//! [`Engine`] over a deployment: requests of the workload [`Database`].

use crate::bridge::{Answered, Bridge, NoAnswer, Reply};
use crate::engine::{Conversation, Engine, RunError, done, unexpected};
use base::InstanceId;
use channel::Address;
use sql::database::{Answer, Command, Database, Request};
use std::sync::Arc;
use tokio::sync::oneshot;
use txn::{Abort, Placement, Schema, Workload};
use workload::{AnyReply, AnyRequest};

pub struct Deployed {
    inner: Arc<Inner>,
}

struct Inner {
    bridge: Bridge,
    database: Database,
    schema: Schema,
    placement: Placement,
}

impl Deployed {
    /// The engine of a deployment; `placement` and `addresses` are its instances'.
    ///
    /// # Errors
    /// When the bridge cannot start.
    pub fn new(
        database: Database,
        placement: Placement,
        (deployment, addresses): (u64, Vec<Address>),
    ) -> std::io::Result<Deployed> {
        let inner = Inner {
            bridge: Bridge::start(deployment, addresses)?,
            schema: database.schema(),
            database,
            placement,
        };
        Ok(Deployed { inner: Arc::new(inner) })
    }
}

impl Inner {
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
}

fn encoded<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, RunError> {
    postcard::to_stdvec(value).map_err(|_| RunError::Abort(Abort::TooLong))
}

/// What a procedure says in a conversation.
fn said(bytes: &[u8]) -> Result<Answer, RunError> {
    postcard::from_bytes(bytes).map_err(|_| unexpected())
}

/// A request as instances take it: they run workloads of any kind.
fn encoded_request(request: &Request) -> Result<Vec<u8>, RunError> {
    encoded(&AnyRequest::Sql(request.clone()))
}

/// The reply to a request.
fn decoded(bytes: &[u8]) -> Result<Answer, RunError> {
    match postcard::from_bytes(bytes) {
        Ok(AnyReply::Sql(answer)) => Ok(answer),
        _ => Err(unexpected()),
    }
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

impl Engine for Deployed {
    type Conversation = Talk;

    async fn once(&self, request: Request) -> Result<Answer, RunError> {
        let only_reads = self.inner.database.only_reads(&request);
        let (_, reply) = self.inner.bridge.submit(self.inner.home(&request), &encoded_request(&request)?);
        match received(reply).await {
            Ok(answered) => decoded(&answered.bytes),
            Err(NoAnswer::Lost) if only_reads => Err(RunError::Abort(Abort::InstanceDown)),
            Err(why) => Err(no_answer(why)),
        }
    }

    fn island_of(&self, slot: u32) -> Option<u32> {
        Some(self.inner.placement.owner(base::SiteId(slot)).0.into())
    }

    fn begin(&self) -> Talk {
        Talk { inner: Arc::clone(&self.inner), call: None, is_over: false }
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
    async fn say(&mut self, command: Command) -> Reply {
        let too_long = |_| NoAnswer::Abort(Abort::TooLong);
        let reply = match self.call {
            None => {
                let request = Request::Converse(command);
                let home = self.inner.home(&request);
                let (call, reply) =
                    self.inner.bridge.submit(home, &encoded_request(&request).map_err(too_long)?);
                self.call = Some((home, call));
                reply
            }
            Some((home, call)) => self.inner.bridge.more(home, call, &encoded(&command).map_err(too_long)?),
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
        done(decoded(&answered.map_err(no_answer)?.bytes)?)
    }
}

impl Conversation for Talk {
    async fn command(&mut self, command: Command) -> Result<Answer, RunError> {
        let answered = match self.say(command).await {
            Ok(answered) => answered,
            // The instance rolls back what its client has lost the link to.
            Err(NoAnswer::Lost) => return Err(RunError::Abort(Abort::InstanceDown)),
            Err(why) => return Err(no_answer(why)),
        };
        self.is_over |= answered.ends;
        if answered.ends { Err(unexpected()) } else { said(&answered.bytes) }
    }

    async fn commit(mut self) -> Result<(), RunError> {
        self.end(Command::Commit).await
    }

    async fn rollback(mut self) {
        // A rollback has one outcome only.
        let _ = self.end(Command::Rollback).await;
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
