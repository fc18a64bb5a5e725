//! One client's session, from its first packet to its end.
//!
//! ```text
//!   startup     TLS, parameters, password                          -> ready
//!   simple      Query: statements, all of them one transaction     -> ready
//!   extended    Parse, Bind, Describe, Execute, Close ... Sync     -> ready
//!                 an error skips all messages up to the next Sync
//!   carry       a compiled statement is carried out                block: its transaction
//!   copying     COPY: the client's data in, or rows out
//! ```
//!
//! A session works on one message at a time, in their order. While it works it reads nothing, so a
//! client that sends faster than it is served waits; and it writes with bounded memory, so a client
//! that does not read stops the session, and loses it after [`crate::shared::Limits::write`].
//!
//! A future is pinned where it is made (`pin!(f()).await`): awaited by value it is copied twice.
//! Large ones and rare ones are boxed, so that the task of an idle session is small.

mod block;
mod carry;
mod copying;
mod cursors;
mod defining;
mod explaining;
mod explaining_call;
mod extended;
mod filling;
mod general;
mod names;
mod simple;
pub mod startup;

use crate::engine::Engine;
use crate::inbox::HEAD;
use crate::incoming::{Message, is_extended, violation};
use crate::language::Prepared;
use crate::outgoing::Severity;
use crate::settings::{Limit, Settings};
use crate::shared::{Registered, Shared};
use crate::transport::{Frame, Lost, MOST_MESSAGE_BYTES, MOST_SHORT_BYTES, Transport};
use block::{Block, Kind};
use cursors::Cursor;
use extended::Portal;
use filling::Numbers;
use names::Names;
use sql::{SqlError, SqlState};
use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// The stream of a client.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send + Sync + 'static {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync + 'static> Stream for T {}

pub struct Session<S, E: Engine> {
    shared: Arc<Shared<E>>,
    transport: Transport<S>,
    registered: Registered,
    database: String,
    settings: Settings,
    statements: Names<Arc<Prepared>>,
    portals: Names<Portal>,
    cursors: HashMap<String, Cursor>,
    block: Block<E::Conversation>,
    numbers: Numbers,
    /// After an error in the extended protocol, up to the next Sync.
    skips: bool,
    /// Ends when the server stops. Made once: to begin this wait costs more than to go on with it.
    stops: Pin<Box<dyn Future<Output = ()> + Send + Sync>>,
}

/// Why a statement did not come to its end.
#[derive(Debug)]
enum Failure {
    /// The client gets to know it, and the session goes on.
    Statement(Box<SqlError>),
    Over(Lost),
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Failure {
        Failure::Statement(Box::new(error))
    }
}

impl From<Lost> for Failure {
    fn from(lost: Lost) -> Failure {
        Failure::Over(lost)
    }
}

/// A message that needs no wait, or not before it is read.
enum AtOnce {
    /// The outcome of one that was carried out.
    Done(Result<(), Failure>),
    /// The portal's name, and the most rows.
    Execute(String, u32),
    Sync,
}

/// How a session goes on after a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Message,
    End,
}

impl<S: Stream, E: Engine> Session<S, E> {
    /// Serves the client until one of both ends the session.
    async fn serve(mut self) {
        let lost = loop {
            match pin!(self.turn()).await {
                Ok(Next::Message) => {}
                Ok(Next::End) => break None,
                Err(lost) => break Some(lost),
            }
        };
        Box::pin(self.roll_back()).await;
        match lost {
            Some(Lost::Refused(error)) => {
                self.transport.out.error(Severity::Fatal, &error);
                tracing::info!(session = self.registered.id, state = error.state.as_str(), "{error}");
            }
            Some(lost) => tracing::info!(session = self.registered.id, "the session is lost: {lost}"),
            None => {}
        }
        self.transport.shut().await;
    }

    async fn turn(&mut self) -> Result<Next, Lost> {
        match self.at_once() {
            Some(AtOnce::Done(Ok(()))) if !self.transport.is_full() => return Ok(Next::Message),
            Some(AtOnce::Done(done)) => return Box::pin(self.done(done)).await,
            Some(AtOnce::Execute(portal, most)) => {
                return match Box::pin(self.execute(&portal, most)).await {
                    Ok(()) if !self.transport.is_full() => Ok(Next::Message),
                    done => Box::pin(self.done(done)).await,
                };
            }
            Some(AtOnce::Sync) => return pin!(self.sync()).await.map(|()| Next::Message),
            None => {}
        }
        let frame = pin!(self.wait()).await?;
        let (tag, body) = match frame {
            // Perhaps there is a whole message now.
            None => return Ok(Next::Message),
            Some(Frame::Message { tag, body }) => (tag, body),
            Some(Frame::TooLong { tag, bytes }) => {
                let message = format!("a message of {bytes} bytes; expected at most {MOST_MESSAGE_BYTES}");
                let error = SqlError::new(SqlState::PROGRAM_LIMIT, message)
                    .with_hint("Send fewer rows at once, or use COPY.");
                Box::pin(self.refuse(tag, error)).await?;
                return Ok(Next::Message);
            }
        };
        if self.skips && !matches!(tag, b'S' | b'X') {
            // The client may wait for the error before it sends a Sync.
            if tag == b'H' {
                self.transport.flush().await?;
            }
            return Ok(Next::Message);
        }
        match Message::read(tag, &body) {
            Ok(message) => pin!(self.message(message)).await,
            Err(error) => Box::pin(self.refuse(tag, error)).await.map(|()| Next::Message),
        }
    }

    async fn message(&mut self, message: Message<'_>) -> Result<Next, Lost> {
        let done = match message {
            Message::Terminate => return Ok(Next::End),
            Message::Query(text) => return Box::pin(self.query(text)).await.map(|()| Next::Message),
            Message::Sync => return pin!(self.sync()).await.map(|()| Next::Message),
            Message::Flush => return self.transport.flush().await.map(|()| Next::Message),
            Message::Parse { statement, text, types } => self.parse(statement, text, &types),
            Message::Bind(bind) => self.bind(&bind),
            Message::Describe(target, name) => self.describe(target, name),
            Message::Close(target, name) => self.close(target, name),
            Message::Execute { portal, most } => Box::pin(self.execute(portal, most)).await,
            // What remains of a COPY that has failed.
            Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => Ok(()),
            Message::Password(_) => return Err(Lost::Refused(violation("unexpected password message"))),
        };
        pin!(self.done(done)).await
    }

    /// After a message of the extended protocol.
    async fn done(&mut self, done: Result<(), Failure>) -> Result<Next, Lost> {
        match done {
            Ok(()) => {}
            Err(Failure::Statement(error)) => {
                self.skips = true;
                Box::pin(self.failed(&error)).await;
            }
            Err(Failure::Over(lost)) => return Err(lost),
        }
        pin!(self.transport.relieve()).await?;
        Ok(Next::Message)
    }

    /// Carries out the next message where it lies, if it is here as a whole and needs no wait, or
    /// says which of the commonest two it is. The others, and those that cannot be read, are left.
    fn at_once(&mut self) -> Option<AtOnce> {
        if self.skips {
            return None;
        }
        let inbox = std::mem::take(&mut self.transport.inbox);
        let found = inbox.message(MOST_SHORT_BYTES).filter(|(tag, _)| b"BCDEPS".contains(tag));
        let length = found.map_or(0, |(_, body)| body.len() + HEAD);
        let done = found.and_then(|(tag, body)| match Message::read(tag, body).ok()? {
            Message::Parse { statement, text, types } => {
                Some(AtOnce::Done(self.parse(statement, text, &types)))
            }
            Message::Bind(bind) => Some(AtOnce::Done(self.bind(&bind))),
            Message::Describe(target, name) => Some(AtOnce::Done(self.describe(target, name))),
            Message::Close(target, name) => Some(AtOnce::Done(self.close(target, name))),
            Message::Execute { portal, most } => Some(AtOnce::Execute(portal.to_owned(), most)),
            Message::Sync => Some(AtOnce::Sync),
            _ => None,
        });
        self.transport.inbox = inbox;
        if done.is_some() {
            self.transport.inbox.take(length);
        }
        done
    }

    /// Refuses a message that cannot be read; those of unknown types end the session, because the
    /// stream may be out of step.
    async fn refuse(&mut self, tag: u8, error: SqlError) -> Result<(), Lost> {
        self.failed(&error).await;
        match tag {
            b'Q' => {
                self.end_implicit().await;
                self.ready().await
            }
            b'S' => self.sync().await,
            b'd' | b'c' | b'f' => Ok(()),
            _ if is_extended(tag) => {
                self.skips = true;
                Ok(())
            }
            _ => Err(Lost::Refused(error)),
        }
    }

    /// Tells the client of an error; the transaction has failed.
    async fn failed(&mut self, error: &SqlError) {
        self.shared.counters.error(error.state);
        tracing::debug!(session = self.registered.id, state = error.state.as_str(), "{error}");
        self.transport.out.error(Severity::Error, error);
        self.fail().await;
    }

    fn notice(&mut self, severity: Severity, state: SqlState, message: &str) {
        self.transport.out.notice(severity, &SqlError::new(state, message));
    }

    async fn ready(&mut self) -> Result<(), Lost> {
        self.transport.out.ready(self.block.status());
        self.transport.flush().await
    }

    /// The next message of the client, or `None` when its first bytes have come. It may take long.
    async fn wait(&mut self) -> Result<Option<Frame>, Lost> {
        if let Some(frame) = self.transport.frame_here() {
            return Ok(Some(frame));
        }
        let (limit, state, message) = match self.block.kind {
            Kind::None => (
                self.settings.limit(Limit::IdleSession),
                *b"57P05",
                "terminating connection due to idle-session timeout",
            ),
            Kind::Implicit | Kind::Explicit => (
                self.settings.limit(Limit::IdleInTransaction),
                *b"25P03",
                "terminating connection due to idle-in-transaction timeout",
            ),
        };
        let stops_now = self.block.kind == Kind::None && !self.skips;
        tokio::select! {
            biased;
            frame = self.transport.frame_or_bytes() => frame,
            () = limit_of(limit) => Err(Lost::Refused(SqlError::new(SqlState(state), message))),
            () = &mut self.stops, if stops_now => Err(Lost::Refused(by_command())),
        }
    }
}

impl<S, E: Engine> Drop for Session<S, E> {
    fn drop(&mut self) {
        self.shared.guards.release(self.registered.id, self.block.held.drain(..));
        self.shared.advisory.end_session(self.registered.id);
        self.shared.unregister(self.registered.id);
    }
}

/// The error of a session that ends with the server.
fn no_statement(name: &str) -> SqlError {
    SqlError::new(SqlState(*b"26000"), format!("prepared statement \"{name}\" does not exist"))
}

fn by_command() -> SqlError {
    SqlError::new(SqlState(*b"57P01"), "terminating connection due to administrator command")
}

/// Ends after the limit; never without one.
async fn limit_of(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}
