//! A client of a deployment. It connects to the instances, sends each request to its home, and
//! reports the known outcome.
//!
//! If the link breaks before the answer, the outcome is [`ClientError::Unknown`]: the request may
//! have committed or not. One thread uses a client. The client knows instances by address and the
//! workload's routes, and nothing of storage.

#![forbid(unsafe_code)]

use base::InstanceId;
use channel::{Address, Guarding, Hello, Link, Parker, SendError};
use std::time::{Duration, Instant};
use txn::{Abort, Placement, Schema, Workload};
use wire::{Caller, Frame};

/// The outcome of a request that did not certainly commit.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ClientError {
    /// It had no effect.
    #[error("aborted ({name}): {0}", name = .0.name())]
    Aborted(Abort),
    /// It was never sent: its home cannot be reached. No effect.
    #[error("instance {instance} cannot be reached: {why}")]
    Unreachable { instance: InstanceId, why: String },
    /// The link to its home was lost, or time ran out, before the answer came: it may have
    /// committed.
    #[error("the answer of instance {0} is missing: the request may or may not have committed")]
    Unknown(InstanceId),
}

/// What a client hears in a conversation (`txn::Transaction::hear`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Turn<R> {
    /// The procedure says this, and waits for the next message.
    Said(Vec<u8>),
    /// The conversation has ended with the request's reply.
    Ended(R),
}

/// A conversation under way: its home, and the number of the request that began it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conversation {
    home: InstanceId,
    call: u64,
}

/// One connection to every instance of a deployment, opened when first needed and again after it
/// broke.
pub struct Client<W: Workload> {
    workload: W,
    schema: Schema,
    placement: Placement,
    deployment: u64,
    addresses: Vec<Address>,
    links: Vec<Option<Link>>,
    parker: Parker,
    next_call: u64,
    frame: Vec<u8>,
    /// The longest wait for an answer.
    pub patience: Duration,
    /// For instances at sealed addresses ([`Address::Tls`]).
    pub guard: Guarding,
}

impl<W: Workload> Client<W> {
    /// A client of the deployment `deployment`; its instance `i` listens at `addresses[i]`.
    pub fn new(
        workload: W,
        placement: Placement,
        deployment: u64,
        addresses: Vec<Address>,
    ) -> Result<Self, channel::ChannelError> {
        let links = addresses.iter().map(|_| None).collect();
        Ok(Client {
            schema: workload.schema(),
            workload,
            placement,
            deployment,
            addresses,
            links,
            parker: Parker::new()?,
            next_call: 1,
            frame: Vec::new(),
            patience: Duration::from_secs(10),
            guard: Guarding::default(),
        })
    }

    /// The instance that owns the request's first route.
    pub fn home(&self, request: &W::Request) -> InstanceId {
        let mut home = None;
        self.workload.routes(request, &mut |route| {
            let domain = self.schema.table(route.table).map_or(0, |t| t.domain);
            if home.is_none() && domain > 0 {
                home = Some(self.placement.owner(self.placement.site(route.key, domain)));
            }
        });
        home.unwrap_or(InstanceId(0))
    }

    /// Runs one request at its home and waits until its outcome is durable.
    pub fn submit(&mut self, request: &W::Request) -> Result<W::Reply, ClientError> {
        match self.converse(request)? {
            (_, Turn::Ended(reply)) => Ok(reply),
            // This procedure waits for messages, of which there are none.
            (Conversation { home, .. }, Turn::Said(_)) => {
                self.links[home.0 as usize] = None;
                Err(ClientError::Aborted(Abort::Abandoned))
            }
        }
    }

    /// Begins a conversation, and waits until its procedure says something or ends.
    ///
    /// # Errors
    /// As [`Client::submit`].
    pub fn converse(&mut self, request: &W::Request) -> Result<(Conversation, Turn<W::Reply>), ClientError> {
        let home = self.home(request);
        self.link(home)?;
        let call = self.next_call;
        self.next_call += 1;
        let mut bytes = Vec::new();
        W::encode_request(request, &mut bytes);
        let conversation = Conversation { home, call };
        self.turn(conversation, &Frame::Submit { call, request: &bytes }).map(|turn| (conversation, turn))
    }

    /// Sends the next message of a conversation, and waits for what follows. Other requests of this
    /// client wait meanwhile.
    ///
    /// # Errors
    /// As [`Client::submit`]: the conversation has ended.
    pub fn say(&mut self, to: Conversation, message: &[u8]) -> Result<Turn<W::Reply>, ClientError> {
        if self.links[to.home.0 as usize].is_none() {
            return Err(ClientError::Unknown(to.home));
        }
        self.turn(to, &Frame::More { call: to.call, message })
    }

    /// Sends a frame to the home, and waits for what follows.
    fn turn(&mut self, to: Conversation, frame: &Frame<'_>) -> Result<Turn<W::Reply>, ClientError> {
        let Conversation { home, call } = to;
        let mut bytes = std::mem::take(&mut self.frame);
        frame.encode(&mut bytes);
        let link = self.links[home.0 as usize].as_mut().expect("just opened");
        let taken = link.send(&[&bytes]);
        let sent = taken.is_ok() && link.flush().is_ok();
        self.frame = bytes;
        if let Err(SendError::TooLong { .. }) = taken {
            return Err(ClientError::Aborted(Abort::TooLong));
        }
        if !sent {
            self.links[home.0 as usize] = None;
            return Err(ClientError::Unknown(home));
        }
        let answer = self.answer(home, call);
        if matches!(answer, Err(ClientError::Unknown(_))) {
            self.links[home.0 as usize] = None;
        }
        answer
    }

    fn link(&mut self, home: InstanceId) -> Result<(), ClientError> {
        let slot = &mut self.links[home.0 as usize];
        if slot.is_some() {
            return Ok(());
        }
        let hello = wire::Hello { version: wire::VERSION, deployment: self.deployment, from: Caller::Client }
            .encode();
        let opened = channel::connect_guarded(
            &self.addresses[home.0 as usize],
            Hello(hello),
            Duration::from_millis(500),
            &self.guard,
        )
        .and_then(|mut link| link.register(&self.parker).map(|()| link));
        match opened {
            Ok(link) => {
                *slot = Some(link);
                Ok(())
            }
            Err(e) => Err(ClientError::Unreachable { instance: home, why: e.to_string() }),
        }
    }

    fn answer(&mut self, home: InstanceId, call: u64) -> Result<Turn<W::Reply>, ClientError> {
        let unknown = ClientError::Unknown(home);
        let end = Instant::now() + self.patience;
        let link = self.links[home.0 as usize].as_mut().ok_or(unknown.clone())?;
        loop {
            match link.receive() {
                Err(_) => return Err(unknown),
                Ok(Some(message)) => match Frame::decode(message) {
                    Ok(Frame::Done { call: answered, outcome, reply }) if answered == call => {
                        return match outcome {
                            Ok(()) => W::decode_reply(reply).map(Turn::Ended).map_err(|_| unknown),
                            // The log may have failed after the commit record was in it.
                            Err(Abort::Fault) => Err(unknown),
                            Err(abort) => Err(ClientError::Aborted(abort)),
                        };
                    }
                    Ok(Frame::Said { call: answered, said }) if answered == call => {
                        return Ok(Turn::Said(said.to_vec()));
                    }
                    Ok(Frame::Done { .. } | Frame::Said { .. }) => {}
                    _ => return Err(unknown),
                },
                Ok(None) => {
                    if Instant::now() >= end {
                        return Err(unknown);
                    }
                    // A long request is sent bit by bit as there is room. The next receive reports
                    // the end of the link.
                    let _ = link.flush();
                    self.parker.park(Some(Duration::from_millis(20)), || true);
                }
            }
        }
    }
}
