//! NATS JetStream: one stream a log, its sequence the position.
//!
//! The servers must run with `sync_interval: always`; with their default they acknowledge before
//! the device has the bytes. `Nats-Expected-Last-Sequence` keeps the appends of one owner in order.
//! It is no fence: a seal takes the place of a refused entry, and the next ones fit again.

use crate::fault::{Fault, Trouble};
use crate::tape::{Landed, Landing, Room, Sending, Tape};
use async_nats::HeaderMap;
use async_nats::jetstream::stream::{Config, StorageType, Stream};
use async_nats::jetstream::{self, Context, consumer};
use futures_util::StreamExt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The service's answer to one request is awaited for this long: elections end with an error.
const PATIENCE: Duration = Duration::from_secs(3);
/// The opening of a stream waits for an election of its servers: 4 to 9 s as they are compiled.
const OPENING: Duration = Duration::from_secs(20);

/// After two pings without an answer the client turns to another server. Its default, a minute, is
/// how long nothing would count once the client's server is cut off or stopped.
const PING_EVERY: Duration = Duration::from_secs(1);

/// Messages that a reader asks for at a time. Half as many more may be on their way besides, each
/// of up to half a MiB: a server ends the connection of a client to which it owes 64 MiB.
const READ_AHEAD: i64 = 80;

pub(crate) struct Nats {
    stream: Stream,
    entries: UnboundedSender<Sending>,
    room: Room,
}

/// Opens the stream `name`, made with `replicas` copies if there is none.
pub(crate) fn open(servers: &[String], name: &str, replicas: usize) -> Result<Nats, Fault> {
    let gone = |what: String| {
        let all = servers.join(",");
        Fault::Gone(format!(
            "relay nats://{all}: {what}; check that a quorum of the servers runs, each with a `jetstream` block with \
             `sync_interval: always`"
        ))
    };
    let room = Room::open().map_err(|e| gone(e.to_string()))?;
    let subject = format!("atoll.{name}");
    let config = Config {
        name: format!("atoll-{name}"),
        subjects: vec![subject.clone()],
        num_replicas: replicas,
        storage: StorageType::File,
        max_message_size: 1 << 20,
        deny_delete: true,
        ..Config::default()
    };
    let urls: Vec<String> = servers.iter().map(|s| format!("nats://{s}")).collect();
    let opening = async {
        let options = async_nats::ConnectOptions::new()
            .connection_timeout(Duration::from_secs(1))
            .ping_interval(PING_EVERY)
            .retry_on_initial_connect();
        let client = options.connect(urls).await.map_err(|e| e.to_string())?;
        let mut context = jetstream::new(client);
        context.set_timeout(PATIENCE);
        loop {
            match context.get_or_create_stream(config.clone()).await {
                Ok(stream) => return Ok::<_, String>((context, stream)),
                // No leader yet, or no server.
                Err(e) if is_passing(&e.to_string()) => tokio::time::sleep(Duration::from_millis(200)).await,
                Err(e) => return Err(e.to_string()),
            }
        }
    };
    let opened = room.block_on(async { tokio::time::timeout(OPENING, opening).await });
    let (context, stream) = match opened {
        Ok(Ok(opened)) => opened,
        Ok(Err(why)) => return Err(gone(why)),
        Err(_) => return Err(gone("no answer".to_owned())),
    };
    let found = stream.cached_info().config.clone();
    if found.num_replicas < replicas {
        let (name, has) = (&found.name, found.num_replicas);
        return Err(gone(format!("stream {name} has {has} copies, expected {replicas}")));
    }
    let (entries, waiting) = unbounded_channel();
    room.spawn(send(context, subject, waiting));
    Ok(Nats { stream, entries, room })
}

fn is_passing(error: &str) -> bool {
    [
        "timed out",
        "timeout",
        "no responders",
        "unavailable",
        "not available",
        "10008",
        "10074",
        "insufficient",
    ]
    .iter()
    .any(|passing| error.to_lowercase().contains(passing))
}

/// Hands the entries to the connection in their order; the answers come when they come.
async fn send(context: Context, subject: String, mut entries: UnboundedReceiver<Sending>) {
    while let Some(Sending { ticket, bytes, after, landing }) = entries.recv().await {
        let mut headers = HeaderMap::new();
        if let Some(after) = after {
            headers.insert("Nats-Expected-Last-Sequence", after.to_string().as_str());
        }
        let bytes = bytes::Bytes::from_owner(Bytes(bytes));
        let sending = context.publish_with_headers(subject.clone(), headers, bytes);
        let ack = match tokio::time::timeout(PATIENCE, sending).await {
            Ok(Ok(ack)) => ack,
            Ok(Err(e)) => {
                landing(ticket, Landed::Unknown(e.to_string()));
                continue;
            }
            Err(_) => {
                landing(ticket, Landed::Unknown("no connection".to_owned()));
                continue;
            }
        };
        tokio::spawn(async move {
            let landed = match tokio::time::timeout(PATIENCE, ack.into_future()).await {
                Ok(Ok(ack)) => Landed::At(ack.sequence),
                Ok(Err(e)) => Landed::Unknown(e.to_string()),
                Err(_) => Landed::Unknown("no answer".to_owned()),
            };
            landing(ticket, landed);
        });
    }
}

impl Tape for Nats {
    fn append(&self, ticket: u64, bytes: Arc<Vec<u8>>, after: Option<u64>, landing: &Landing) {
        let sending = Sending { ticket, bytes, after, landing: landing.clone() };
        if let Err(unsent) = self.entries.send(sending) {
            (unsent.0.landing)(ticket, Landed::Unknown("the client has ended".to_owned()));
        }
    }

    fn range(&self) -> Result<(u64, u64), Trouble> {
        let state = self.room.wait(PATIENCE, async {
            self.stream.get_info().await.map(|info| info.state).map_err(|e| e.to_string())
        })?;
        Ok((state.first_sequence.max(1), state.last_sequence + 1))
    }

    fn trim(&self, first: u64) -> Result<(), Trouble> {
        self.room.wait(PATIENCE, async {
            let purging = self.stream.purge().sequence(first);
            purging.await.map(drop).map_err(|e| e.to_string())
        })
    }

    fn read(&self, from: u64, to: u64, each: &mut dyn FnMut(u64, &[u8])) -> Result<(), Trouble> {
        if from >= to {
            return Ok(());
        }
        // An ordered consumer starts anew by itself after a gap or a lost server: behind its last
        // message, or at the stream's beginning if it had none.
        let config = consumer::pull::OrderedConfig {
            deliver_policy: consumer::DeliverPolicy::ByStartSequence { start_sequence: from },
            max_batch: READ_AHEAD,
            ..Default::default()
        };
        let mut messages = self.room.wait(PATIENCE, async {
            let consumer = self.stream.create_consumer(config).await.map_err(|e| e.to_string())?;
            consumer.messages().await.map_err(|e| e.to_string())
        })?;
        let mut next = from;
        loop {
            let (position, payload) = self.room.wait(PATIENCE, async {
                let message =
                    messages.next().await.ok_or("the consumer ended")?.map_err(|e| e.to_string())?;
                let position = message.info().map_err(|e| e.to_string())?.stream_sequence;
                Ok((position, message.payload.clone()))
            })?;
            if position >= to {
                return Ok(());
            }
            if position < next {
                return Err(Trouble(format!("position {position} came, expected {next}")));
            }
            next = position + 1;
            each(position, &payload);
            if position + 1 == to {
                return Ok(());
            }
        }
    }
}

/// Shares the bytes of an entry with the connection.
struct Bytes(Arc<Vec<u8>>);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
