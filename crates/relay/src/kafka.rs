//! The Kafka protocol: one topic a log, of one partition, its offset the position (from 1 on).
//!
//! By `rskafka`, in Rust alone. It waits for all replicas in sync with each append. It has no
//! idempotent producer, and the fence needs none: an entry that is there twice counts once.
//!
//! A topic is made with all settings on which the log depends ([`crate::topic`]): nothing of it is
//! ever removed. By default brokers remove what is older than a week, by the time in the record.
//! Kafka is safe by copies: its brokers sync in the background unless
//! `log.flush.interval.messages=1`.

use crate::fault::{Fault, Trouble};
use crate::tape::{Landed, Landing, Room, Sending, Tape};
use crate::topic::{self, Unmade};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The service's answer to one request is awaited for this long.
const PATIENCE: Duration = Duration::from_secs(4);
/// Bytes of one request: brokers take 1 MiB.
const BATCH: usize = 900 << 10;
const OPENING: Duration = Duration::from_secs(30);

pub(crate) struct Kafka {
    partition: Arc<PartitionClient>,
    entries: UnboundedSender<Sending>,
    _client: Client,
    room: Room,
}

/// Opens the topic `name`, made with `replicas` copies if there is none.
pub(crate) fn open(servers: &[String], name: &str, replicas: usize) -> Result<Kafka, Fault> {
    let gone = |what: String| {
        let all = servers.join(",");
        Fault::Gone(format!("relay kafka://{all}: {what}; check that a quorum of the brokers runs"))
    };
    let room = Room::open().map_err(|e| gone(e.to_string()))?;
    let topic = format!("atoll-{name}");
    let opening = async {
        let client = ClientBuilder::new(servers.to_vec()).build().await.map_err(|e| e.to_string())?;
        loop {
            let topics = client.list_topics().await.map_err(|e| e.to_string())?;
            if topics.iter().any(|t| t.name == topic) {
                break;
            }
            // The list tells whether it is there: another opener may make it, too.
            if let Err(Unmade::TooManyCopies(why)) = topic::make(servers, &topic, replicas).await {
                return Err(format!("topic {topic} cannot have {replicas} copies: {why}"));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let partition = client
            .partition_client(&topic, 0, UnknownTopicHandling::Retry)
            .await
            .map_err(|e| e.to_string())?;
        Ok::<_, String>((client, partition))
    };
    let opened = room.block_on(async { tokio::time::timeout(OPENING, opening).await });
    match opened {
        Ok(Ok((client, partition))) => {
            let (partition, (entries, waiting)) = (Arc::new(partition), unbounded_channel());
            room.spawn(send(partition.clone(), waiting));
            Ok(Kafka { partition, entries, _client: client, room })
        }
        Ok(Err(why)) => Err(gone(why)),
        Err(_) => Err(gone("no answer".to_owned())),
    }
}

/// Sends what has come in batches, one batch at a time: so the entries stay in order.
async fn send(partition: Arc<PartitionClient>, mut entries: UnboundedReceiver<Sending>) {
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
        let producing = partition.produce(records, Compression::NoCompression);
        let (offsets, why) = match tokio::time::timeout(PATIENCE, producing).await {
            Ok(Ok(offsets)) => (offsets, "no position in the answer".to_owned()),
            Ok(Err(e)) => (Vec::new(), e.to_string()),
            Err(_) => (Vec::new(), "no answer".to_owned()),
        };
        for (n, Sending { ticket, landing, .. }) in batch.into_iter().enumerate() {
            let landed = match offsets.get(n).and_then(|offset| u64::try_from(*offset).ok()) {
                Some(offset) => Landed::At(offset + 1),
                None => Landed::Unknown(why.clone()),
            };
            landing(ticket, landed);
        }
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
        self.room.wait(PATIENCE, async {
            let of = async |at| self.partition.get_offset(at).await.map_err(|e| e.to_string());
            let (first, end) = (of(OffsetAt::Earliest).await?, of(OffsetAt::Latest).await?);
            Ok((first as u64 + 1, end as u64 + 1))
        })
    }

    fn read(&self, from: u64, to: u64, each: &mut dyn FnMut(u64, &[u8])) -> Result<(), Trouble> {
        let mut at = from;
        while at < to {
            let fetching = self.partition.fetch_records(at as i64 - 1, 1..8 << 20, 500);
            let (records, _) =
                self.room.wait(PATIENCE, async { fetching.await.map_err(|e| e.to_string()) })?;
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
