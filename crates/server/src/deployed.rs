//! [`Engine`] over a deployment: requests of the workload [`Database`].
//!
//! A session sends over the links of its own thread ([`crate::station`]); any other task through
//! the [`Bridge`]. A conversation stays on the way on which it began.

use crate::bridge::Bridge;
use crate::carrier::{Answered, Instances, NoAnswer, Reply, ReplyTo};
use crate::engine::{Conversation, Engine, RunError, done, unexpected};
use crate::station::{self, Stations};
use base::InstanceId;
use channel::Address;
use sql::database::{Answer, Command, Database, Request};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::oneshot;
use txn::{Abort, Placement, Schema, Workload};
use workload::{AnyReply, AnyRequest};

pub struct Deployed {
    inner: Arc<Inner>,
}

struct Inner {
    bridge: Bridge,
    stations: Arc<Stations>,
    deployment: u64,
    database: Database,
    schema: Schema,
    placement: Placement,
    /// Requests by their homes.
    requests: Vec<AtomicU64>,
}

/// On which links a call is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Those of the session's thread.
    Station,
    Bridge,
}

/// A call under way: its home, its number, and on which links.
#[derive(Clone, Copy, Debug)]
struct Under {
    home: InstanceId,
    call: u64,
    way: Way,
}

impl Deployed {
    /// The engine of a deployment; `placement` and `addresses` are its instances'. Sessions run on
    /// `stations`, which are started if there are none.
    ///
    /// # Errors
    /// When threads cannot be started.
    pub fn new(
        database: Database,
        placement: Placement,
        (deployment, addresses): (u64, Vec<Address>),
        stations: Arc<Stations>,
    ) -> std::io::Result<Deployed> {
        let instances = Instances { deployment, addresses };
        stations.connect(instances.clone());
        stations.start(stations_beside_instances())?;
        let inner = Inner {
            requests: instances.addresses.iter().map(|_| AtomicU64::new(0)).collect(),
            bridge: Bridge::start(instances)?,
            stations,
            deployment,
            schema: database.schema(),
            database,
            placement,
        };
        Ok(Deployed { inner: Arc::new(inner) })
    }
}

/// How many threads sessions get where instances have processes, and cores, of their own: sessions
/// take about as much time as the work in the instances does.
fn stations_beside_instances() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2))
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stations.stop();
    }
}

impl Inner {
    /// The instance that owns the first place to which the request leads. Counts the request.
    fn home(&self, request: &Request) -> InstanceId {
        let home = self.first_owner(request);
        if let Some(requests) = self.requests.get(usize::from(home.0)) {
            requests.fetch_add(1, Ordering::Relaxed);
        }
        home
    }

    fn first_owner(&self, request: &Request) -> InstanceId {
        if self.placement.instances() == 1 {
            return InstanceId(0);
        }
        let mut home = None;
        self.database.routes(request, &mut |route| {
            let domain = self.schema.table(route.table).map_or(0, |table| table.domain);
            if home.is_none() && domain > 0 {
                home = Some(self.placement.owner(self.placement.site(route.key, domain)));
            }
        });
        home.unwrap_or(InstanceId(0))
    }

    /// Sends a request to its home.
    async fn submit(&self, request: Request) -> Result<(Under, oneshot::Receiver<Reply>), NoAnswer> {
        let home = self.home(&request);
        let request = AnyRequest::Sql(request);
        let sent = station::send(self.deployment, |carrier, scratch| {
            txn::step::encode(&request, scratch);
            let (reply, answer) = station::reply();
            let call = carrier.submit(home, scratch, reply);
            (Under { home, call, way: Way::Station }, answer)
        });
        if let Some(sent) = sent {
            return Ok(sent);
        }
        let mut bytes = Vec::new();
        txn::step::encode(&request, &mut bytes);
        let (call, answer) = self.bridge.submit(home, bytes).await.ok_or(NoAnswer::Lost)?;
        Ok((Under { home, call, way: Way::Bridge }, answer))
    }

    /// Sends the next message of a conversation.
    fn more(&self, under: Under, command: &Command) -> oneshot::Receiver<Reply> {
        let (reply, answer) = station::reply();
        self.say(under, command, Some(reply));
        answer
    }

    fn say(&self, under: Under, command: &Command, reply: Option<ReplyTo>) {
        let to = (under.home, under.call);
        match under.way {
            // On another thread the link is another: there the call is unknown. Its own thread, and
            // with it the link, has ended.
            Way::Station => drop(station::send(self.deployment, |carrier, scratch| {
                txn::step::encode(command, scratch);
                carrier.more(to, scratch, reply);
            })),
            Way::Bridge => {
                let mut message = Vec::new();
                txn::step::encode(command, &mut message);
                self.bridge.more(to, message, reply);
            }
        }
    }
}

/// What a procedure says in a conversation.
fn said(bytes: &[u8]) -> Result<Answer, RunError> {
    postcard::from_bytes(bytes).map_err(|_| unexpected())
}

/// The reply to a request.
fn decoded(bytes: &[u8]) -> Result<Answer, RunError> {
    match postcard::from_bytes(bytes) {
        Ok(AnyReply::Sql(answer)) => Ok(answer),
        _ => Err(unexpected()),
    }
}

async fn received(reply: oneshot::Receiver<Reply>) -> Reply {
    // The links of a thread end with it.
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
        let reply = match self.inner.submit(request).await {
            Ok((_, reply)) => received(reply).await,
            Err(why) => Err(why),
        };
        match reply {
            Ok(answered) => decoded(&answered.bytes),
            Err(NoAnswer::Lost) if only_reads => Err(RunError::Abort(Abort::InstanceDown)),
            Err(why) => Err(no_answer(why)),
        }
    }

    fn station(&self) -> Option<tokio::runtime::Handle> {
        self.inner.stations.next()
    }

    fn reached(&self, request: &Request) -> Vec<(u32, Option<u32>)> {
        let inner = &*self.inner;
        let mut reached: Vec<(u32, Option<u32>)> = inner
            .database
            .reached(request)
            .into_iter()
            .map(|slot| {
                let site = inner.placement.site(slot.into(), inner.database.sites.into());
                (slot, Some(inner.placement.owner(site).0.into()))
            })
            .collect();
        reached.dedup();
        reached
    }

    fn island_of(&self, slot: u32) -> Option<u32> {
        let inner = &*self.inner;
        let site = inner.placement.site(slot.into(), inner.database.sites.into());
        Some(inner.placement.owner(site).0.into())
    }

    fn begin(&self) -> Talk {
        Talk { inner: Arc::clone(&self.inner), call: None, is_over: false }
    }

    fn requests(&self) -> Vec<u64> {
        self.inner.requests.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

/// A transaction as a conversation with the instance where it began.
pub struct Talk {
    inner: Arc<Inner>,
    /// The call that began it.
    call: Option<Under>,
    is_over: bool,
}

impl Talk {
    async fn say(&mut self, command: Command) -> Reply {
        let reply = match self.call {
            None => {
                let (under, reply) = self.inner.submit(Request::Converse(command)).await?;
                self.call = Some(under);
                reply
            }
            Some(under) => self.inner.more(under, &command),
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
        if let Some(under) = self.call.filter(|_| !self.is_over) {
            self.inner.say(under, &Command::Rollback, None);
        }
    }
}
