//! The Kafka protocol: one topic a log, of one partition, its offset the position (from 1 on).
//!
//! By `rskafka`, in Rust alone. It waits for all replicas in sync with each append. It has no
//! idempotent producer, and the fence needs none: an entry that is there twice counts once.
//!
//! The client library waits for an answer for ever, also from a broker that was stopped, and asks
//! the same broker again. So a request without an answer makes another client, by way of the next
//! server ([`Talk::renew`]).
//!
//! A topic is made with all settings on which the log depends ([`crate::topic`]): brokers remove
//! nothing of it by themselves. By default they remove what is older than a week, by the time in
//! the record. Kafka is safe by copies: its brokers sync in the background unless
//! `log.flush.interval.messages=1`.

use crate::fault::{Fault, Trouble};
use crate::tape::{Landed, Landing, Room, Sending, Tape};
use crate::topic::{self, Unmade};
use rskafka::client::ClientBuilder;
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::record::Record;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The service's answer to one request is awaited for this long.
const PATIENCE: Duration = Duration::from_secs(4);
/// The same, for a new client by way of one server. A stopped one takes connections and does not
/// answer.
const REACH: Duration = Duration::from_secs(2);
/// Bytes of one request: brokers take 1 MiB.
const BATCH: usize = 900 << 10;
const OPENING: Duration = Duration::from_secs(30);
/// One attempt of an opening, by way of one server: it may make the topic.
const ATTEMPT: Duration = Duration::from_secs(9);

pub(crate) struct Kafka {
    talk: Arc<Talk>,
    entries: UnboundedSender<Sending>,
    room: Room,
}

/// The connections that serve a topic at the moment.
struct Talk {
    servers: Vec<String>,
    topic: String,
    now: Mutex<Arc<PartitionClient>>,
    /// Held while a new client is made.
    renewing: tokio::sync::Mutex<()>,
    /// The server that is asked first.
    next: AtomicUsize,
}

impl Talk {
    fn partition(&self) -> Arc<PartitionClient> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes a new client in place of `spent`, unless there is one already. Without a server that
    /// answers and a leader that does, `spent` stays.
    async fn renew(&self, spent: &Arc<PartitionClient>) {
        let _alone = self.renewing.lock().await;
        for _ in &self.servers {
            if !Arc::ptr_eq(spent, &self.partition()) {
                return;
            }
            let server = &self.servers[self.next.fetch_add(1, Ordering::Relaxed) % self.servers.len()];
            let reaching = connect(vec![server.clone()], &self.topic);
            if let Ok(Ok(partition)) = tokio::time::timeout(REACH, reaching).await {
                *self.now.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(partition);
            }
        }
    }
}

/// A client of the topic, connected with the leader.
async fn connect(servers: Vec<String>, topic: &str) -> Result<PartitionClient, String> {
    let client = ClientBuilder::new(servers).build().await.map_err(|e| e.to_string())?;
    let partition = client.partition_client(topic, 0, UnknownTopicHandling::Retry);
    partition.await.map_err(|e| e.to_string())
}

/// Opens the topic `name`, made with `replicas` copies if there is none.
pub(crate) fn open(servers: &[String], name: &str, replicas: usize) -> Result<Kafka, Fault> {
    let gone = |what: String| {
        let all = servers.join(",");
        Fault::Gone(format!("relay kafka://{all}: {what}; check that a quorum of the brokers runs"))
    };
    let room = Room::open().map_err(|e| gone(e.to_string()))?;
    let topic = format!("atoll-{name}");
    let mut last = "no answer".to_owned();
    let opening = async {
        for server in servers.iter().cycle() {
            match tokio::time::timeout(ATTEMPT, make(server, servers, &topic, replicas)).await {
                Ok(Ok(partition)) => return Ok(partition),
                Ok(Err(Unopened::ForGood(why))) => return Err(why),
                Ok(Err(Unopened::ForNow(why))) => last = why,
                Err(_) => last = format!("no answer by way of {server}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err("no server is named".to_owned())
    };
    let opened = room.block_on(async { tokio::time::timeout(OPENING, opening).await });
    match opened {
        Ok(Ok(partition)) => {
            let talk = Talk {
                servers: servers.to_vec(),
                topic,
                now: Mutex::new(Arc::new(partition)),
                renewing: tokio::sync::Mutex::default(),
                next: AtomicUsize::new(0),
            };
            let (talk, (entries, waiting)) = (Arc::new(talk), unbounded_channel());
            room.spawn(send(talk.clone(), waiting));
            Ok(Kafka { talk, entries, room })
        }
        Ok(Err(why)) => Err(gone(why)),
        Err(_) => Err(gone(last)),
    }
}

enum Unopened {
    ForNow(String),
    ForGood(String),
}

/// Makes the topic if there is none, and a client of it by way of one server.
async fn make(
    server: &str,
    servers: &[String],
    topic: &str,
    replicas: usize,
) -> Result<PartitionClient, Unopened> {
    let for_now = |e: rskafka::client::error::Error| Unopened::ForNow(e.to_string());
    let client = ClientBuilder::new(vec![server.to_owned()]).build().await.map_err(for_now)?;
    loop {
        let topics = client.list_topics().await.map_err(for_now)?;
        if topics.iter().any(|t| t.name == topic) {
            break;
        }
        // The list tells whether it is there: another opener may make it, too.
        if let Err(Unmade::TooManyCopies(why)) = topic::make(servers, topic, replicas).await {
            return Err(Unopened::ForGood(format!("topic {topic} cannot have {replicas} copies: {why}")));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let partition = client.partition_client(topic, 0, UnknownTopicHandling::Retry);
    partition.await.map_err(for_now)
}

/// Sends what has come in batches, one batch at a time: so the entries stay in order.
async fn send(talk: Arc<Talk>, mut entries: UnboundedReceiver<Sending>) {
    let mut left = None;
    loop {
        let Some(first) = (match left.take() {
            Some(entry) => Some(entry),
            None => entries.recv().await,
        }) else {
            return;
        };
        let (mut bytes, mut batch) = (first.bytes.len(), vec![first]);
        while let Ok(next) = entries.try_recv() {
            bytes += next.bytes.len();
            if bytes > BATCH {
                left = Some(next);
                break;
            }
            batch.push(next);
        }
        let record = |sending: &Sending| Record {
            key: None,
            value: Some(sending.bytes.to_vec()),
            headers: BTreeMap::new(),
            timestamp: chrono::DateTime::UNIX_EPOCH,
        };
        let records = batch.iter().map(record).collect();
        let partition = talk.partition();
        let producing = partition.produce(records, Compression::NoCompression);
        let (offsets, why) = match tokio::time::timeout(PATIENCE, producing).await {
            Ok(Ok(offsets)) => (offsets, "no position in the answer".to_owned()),
            Ok(Err(e)) => (Vec::new(), e.to_string()),
            Err(_) => (Vec::new(), "no answer".to_owned()),
        };
        let is_spent = offsets.is_empty();
        for (n, Sending { ticket, landing, .. }) in batch.into_iter().enumerate() {
            let landed = match offsets.get(n).and_then(|offset| u64::try_from(*offset).ok()) {
                Some(offset) => Landed::At(offset + 1),
                None => Landed::Unknown(why.clone()),
            };
            landing(ticket, landed);
        }
        if is_spent {
            talk.renew(&partition).await;
        }
    }
}

impl Kafka {
    /// Waits for an answer of the partition's leader; without one another client is made for the
    /// next question.
    fn ask<T>(&self, what: impl AsyncFn(&PartitionClient) -> Result<T, String>) -> Result<T, Trouble> {
        let partition = self.talk.partition();
        let answer = self.room.wait(PATIENCE, what(&partition));
        if answer.is_err() {
            let talk = self.talk.clone();
            self.room.spawn(async move { talk.renew(&partition).await });
        }
        answer
    }
}

impl Tape for Kafka {
    fn append(&self, ticket: u64, bytes: Arc<Vec<u8>>, after: Option<u64>, landing: &Landing) {
        let sending = Sending { ticket, bytes, after, landing: landing.clone() };
        if let Err(unsent) = self.entries.send(sending) {
            (unsent.0.landing)(ticket, Landed::Unknown("the client has ended".to_owned()));
        }
    }

    fn range(&self) -> Result<(u64, u64), Trouble> {
        self.ask(async |partition| {
            let of = async |at| partition.get_offset(at).await.map_err(|e| e.to_string());
            let (first, end) = (of(OffsetAt::Earliest).await?, of(OffsetAt::Latest).await?);
            Ok((first as u64 + 1, end as u64 + 1))
        })
    }

    fn trim(&self, first: u64) -> Result<(), Trouble> {
        self.ask(async |partition| {
            let removing = partition.delete_records(first as i64 - 1, PATIENCE.as_millis() as i32);
            removing.await.map_err(|e| e.to_string())
        })
    }

    fn read(&self, from: u64, to: u64, each: &mut dyn FnMut(u64, &[u8])) -> Result<(), Trouble> {
        let mut at = from;
        while at < to {
            let (records, _) = self.ask(async |partition| {
                let fetching = partition.fetch_records(at as i64 - 1, 1..8 << 20, 500);
                fetching.await.map_err(|e| e.to_string())
            })?;
            if records.is_empty() {
                return Err(Trouble(format!("position {at} is not there yet")));
            }
            for record in records {
                let position = record.offset as u64 + 1;
                if position >= at && position < to {
                    each(position, record.record.value.as_deref().unwrap_or_default());
                    at = position + 1;
                } else if position >= to {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
