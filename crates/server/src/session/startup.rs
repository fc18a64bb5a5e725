//! The beginning of a session: TLS, parameters, password.

use super::block::Block;
use super::filling::Numbers;
use super::names::Names;
use super::{Session, Stream};
use crate::access::{Demand, Origin};
use crate::counters::Counters;
use crate::engine::Engine;
use crate::incoming::{First, Message, Startup, violation};
use crate::outgoing::{Severity, Status};
use crate::scram::{self, Exchange, Verifier};
use crate::settings::{Settings, of_options};
use crate::shared::{Shared, stopped};
use crate::transport::{Frame, Lost, Transport};
use sql::{SqlError, SqlState};
use std::collections::HashMap;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// The newest minor version of protocol 3 that the server speaks.
const NEWEST_MINOR: u16 = 2;

/// Serves a connection from its first byte.
pub async fn serve<S: Stream, E: Engine>(
    stream: S,
    origin: Origin,
    tls: Option<TlsAcceptor>,
    shared: Arc<Shared<E>>,
) {
    Counters::add(&shared.counters.connections);
    let limit = shared.limits.startup;
    let opened = tokio::time::timeout(limit, open(Transport::new(stream, shared.limits.write), tls)).await;
    match opened {
        Err(_) => tracing::info!(?origin, "the start-up of a client took longer than {limit:?}"),
        Ok(None) => {}
        Ok(Some(Opened::Cancel { session, key, tls })) => {
            shared.cancel(session, &key);
            // A client may wait for the end of its connection, and takes one without the words of
            // TLS for an error.
            if let Some(mut transport) = tls {
                transport.shut().await;
            }
        }
        Ok(Some(Opened::Plain(transport, startup))) => begin(transport, startup, origin, shared).await,
        Ok(Some(Opened::Tls(transport, startup))) => begin(*transport, startup, origin, shared).await,
    }
}

enum Opened<S> {
    Plain(Transport<S>, Startup),
    Tls(Box<Transport<tokio_rustls::server::TlsStream<S>>>, Startup),
    Cancel { session: i32, key: Vec<u8>, tls: Option<Box<Transport<tokio_rustls::server::TlsStream<S>>>> },
}

/// Up to the start-up packet; `None` if the client left or was refused.
async fn open<S: Stream>(mut transport: Transport<S>, tls: Option<TlsAcceptor>) -> Option<Opened<S>> {
    match negotiate(&mut transport, tls.is_some()).await {
        Ok(First::Startup(startup)) => Some(Opened::Plain(transport, startup)),
        Ok(First::Cancel { session, key }) => Some(Opened::Cancel { session, key, tls: None }),
        Ok(First::Tls | First::Gss) => {
            let stream = match transport.into_stream() {
                Ok(stream) => stream,
                Err(lost) => return told(lost),
            };
            let stream =
                tls?.accept(stream).await.map_err(|e| tracing::info!("no TLS with a client: {e}")).ok()?;
            let mut transport = Transport::new(stream, std::time::Duration::from_secs(60));
            match transport.first().await {
                Ok(First::Startup(startup)) => Some(Opened::Tls(Box::new(transport), startup)),
                Ok(First::Cancel { session, key }) => {
                    Some(Opened::Cancel { session, key, tls: Some(Box::new(transport)) })
                }
                Ok(First::Tls | First::Gss) => refused(transport, violation("TLS is on already")).await,
                Err(Lost::Refused(error)) => refused(transport, error).await,
                Err(lost) => told(lost),
            }
        }
        Err(Lost::Refused(error)) => refused(transport, error).await,
        Err(lost) => told(lost),
    }
}

fn told<T>(lost: Lost) -> Option<T> {
    tracing::debug!("a client left before its start-up: {lost}");
    None
}

async fn refused<S: Stream, T>(mut transport: Transport<S>, error: SqlError) -> Option<T> {
    transport.out.error(Severity::Fatal, &error);
    transport.shut().await;
    None
}

/// Answers requests for encryption; each kind is asked for at most once. Returns [`First::Tls`]
/// when the handshake comes next.
async fn negotiate<S: Stream>(transport: &mut Transport<S>, has_tls: bool) -> Result<First, Lost> {
    if has_tls && transport.starts_like_tls().await? {
        return Err(Lost::Refused(violation("a client asks for TLS before it begins with it")));
    }
    for _ in 0..3 {
        match transport.first().await? {
            First::Tls if has_tls => {
                transport.answer_byte(b'S').await?;
                return Ok(First::Tls);
            }
            First::Tls | First::Gss => transport.answer_byte(b'N').await?,
            other => return Ok(other),
        }
    }
    Err(Lost::Refused(violation("the client asks for encryption again and again")))
}

/// From the start-up packet to the end of the session.
async fn begin<S: Stream, E: Engine>(
    mut transport: Transport<S>,
    startup: Startup,
    origin: Origin,
    shared: Arc<Shared<E>>,
) {
    transport.write_patience = shared.limits.write;
    let limit = shared.limits.startup;
    let admitted = tokio::time::timeout(limit, admit(&mut transport, &startup, origin, &shared)).await;
    match admitted {
        Ok(Ok(())) => {}
        Ok(Err(Lost::Refused(error))) => {
            Counters::add(&shared.counters.refused);
            tracing::info!(?origin, state = error.state.as_str(), "a client is refused: {error}");
            return refused(transport, error).await.unwrap_or(());
        }
        Ok(Err(lost)) => return told(lost).unwrap_or(()),
        Err(_) => return tracing::info!(?origin, "the start-up of a client took longer than {limit:?}"),
    }
    let registered = shared.register(startup.minor);
    let user = startup.parameter("user").unwrap_or_default();
    let database = startup.parameter("database").filter(|name| !name.is_empty()).unwrap_or(user).to_owned();
    let mut settings = Settings::default();
    let options = startup.parameter("options").map(of_options).unwrap_or_default();
    let given = [shared.limits.settings(), options, startup.parameters.clone()].concat();
    let refused = settings.start(&given);
    let out = &mut transport.out;
    out.authentication_ok();
    refused.iter().for_each(|error| out.notice(Severity::Warning, error));
    settings.reported().iter().for_each(|(name, value)| out.parameter_status(name, value));
    out.backend_key(registered.id, &registered.key);
    out.ready(Status::Idle);
    tracing::info!(session = registered.id, ?origin, database, "a session begins");
    let id = registered.id;
    let stops = Box::pin(stopped(shared.stopping.clone()));
    let mut session = Session {
        shared,
        transport,
        registered,
        database,
        settings,
        statements: Names::default(),
        portals: Names::default(),
        cursors: HashMap::new(),
        block: Block::default(),
        numbers: Numbers::default(),
        skips: false,
        stops,
    };
    if session.transport.flush().await.is_ok() {
        session.serve().await;
    }
    tracing::info!(session = id, "the session has ended");
}

/// Checks version, user, password, and the number of connections.
async fn admit<S: Stream, E: Engine>(
    transport: &mut Transport<S>,
    startup: &Startup,
    origin: Origin,
    shared: &Shared<E>,
) -> Result<(), Lost> {
    let refuse =
        |state: &[u8; 5], message: &str| Err(Lost::Refused(SqlError::new(SqlState(*state), message)));
    let unknown: Vec<&str> = startup
        .parameters
        .iter()
        .map(|(name, _)| name.as_str())
        .filter(|name| name.starts_with("_pq_."))
        .collect();
    if startup.minor > NEWEST_MINOR || !unknown.is_empty() {
        transport.out.negotiate(startup.minor.min(NEWEST_MINOR), &unknown);
    }
    let Some(user) = startup.parameter("user").filter(|user| !user.is_empty()) else {
        return refuse(b"28000", "no user name is given in the startup packet");
    };
    if startup.parameter("replication").is_some_and(|value| !["false", "off", "0", "no"].contains(&value)) {
        return refuse(b"0A000", "replication is not supported");
    }
    match shared.access.demand(origin, user).map_err(Lost::Refused)? {
        Demand::Nothing => {}
        Demand::Prove(verifier) => {
            let proved = prove(transport, &verifier).await;
            match proved {
                Ok(is_right) => {
                    shared.access.tried(origin, is_right);
                    if !is_right {
                        return refuse(
                            b"28P01",
                            &format!("password authentication failed for user \"{user}\""),
                        );
                    }
                }
                // A client without the password leaves, asks for it, and comes again.
                Err(lost) => return Err(lost),
            }
        }
    }
    if *shared.stopping.borrow() {
        return refuse(b"57P03", "the database system is shutting down");
    }
    if shared.sessions() >= shared.limits.connections {
        return refuse(b"53300", "sorry, too many clients already");
    }
    Ok(())
}

/// Asks the client to prove that it knows the password.
async fn prove<S: Stream>(transport: &mut Transport<S>, verifier: &Verifier) -> Result<bool, Lost> {
    transport.out.ask_for_scram();
    let first = answer(transport).await?;
    let malformed = || Lost::Refused(violation("malformed SCRAM message"));
    let first = first.strip_prefix(b"SCRAM-SHA-256\0").ok_or_else(malformed)?;
    let (length, first) = first.split_first_chunk::<4>().ok_or_else(malformed)?;
    if u32::from_be_bytes(*length) as usize != first.len() {
        return Err(malformed());
    }
    let first = std::str::from_utf8(first).map_err(|_| malformed())?;
    let nonce = scram::random::<18>()
        .map_err(|_| Lost::Refused(SqlError::new(SqlState::INTERNAL, "the system gives no random bytes")))?;
    let (exchange, text) = Exchange::begin(verifier, first, &nonce).ok_or_else(malformed)?;
    transport.out.scram_continue(&text);
    let last = answer(transport).await?;
    let last = std::str::from_utf8(&last).map_err(|_| malformed())?;
    let Some(text) = exchange.end(last) else { return Ok(false) };
    transport.out.scram_final(&text);
    Ok(true)
}

async fn answer<S: Stream>(transport: &mut Transport<S>) -> Result<Vec<u8>, Lost> {
    transport.flush().await?;
    // A message of another kind may be long. One that has proved nothing must not have it kept.
    if !matches!(transport.next_tag().await?, b'p' | b'X') {
        return Err(Lost::Refused(violation("expected a SASL response")));
    }
    match transport.frame().await? {
        Frame::Message { tag: b'p', body } => match Message::read(b'p', &body) {
            Ok(Message::Password(bytes)) => Ok(bytes.to_vec()),
            _ => Err(Lost::Refused(violation("expected a SASL response"))),
        },
        Frame::Message { tag: b'X', .. } => Err(Lost::Gone),
        Frame::Message { .. } | Frame::TooLong { .. } => {
            Err(Lost::Refused(violation("expected a SASL response")))
        }
    }
}
