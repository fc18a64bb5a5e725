//! The Kafka protocol: one topic a log, of one partition, its offset the position (from 1 on).
//!
//! By `rskafka`, in Rust alone. It waits for all replicas in sync with each append. It has no
//! idempotent producer, and the fence needs none: an entry that is there twice counts once.
//!
//! The brokers must run with `min.insync.replicas=2` (for three copies) and without unclean
//! elections: a topic takes both from them, and the client cannot ask. Kafka is safe by copies: its
//! brokers sync in the background unless `log.flush.interval.messages=1`.

use crate::fault::{Fault, Trouble};
use crate::tape::{Landed, Landing, Tape};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// The service's answer to one request is awaited for this long.
const PATIENCE: Duration = Duration::from_secs(4);
const OPENING: Duration = Duration::from_secs(30);

pub(crate) struct Kafka {
    runtime: Runtime,
    partition: Arc<PartitionClient>,
    _client: Client,
}

/// Opens the topic `name`, made with `replicas` copies if there is none.
pub(crate) fn open(servers: &[String], name: &str, replicas: usize) -> Result<Kafka, Fault> {
    let gone = |what: String| {
        let all = servers.join(",");
        Fault::Gone(format!("relay kafka://{all}: {what}; check that a quorum of the brokers runs"))
    };
    let runtime = crate::tape::runtime().map_err(|e| gone(e.to_string()))?;
    let topic = format!("atoll-{name}");
    let opening = async {
        let client = ClientBuilder::new(servers.to_vec()).build().await.map_err(|e| e.to_string())?;
        loop {
            let topics = client.list_topics().await.map_err(|e| e.to_string())?;
            if topics.iter().any(|t| t.name == topic) {
                break;
            }
            let controller = client.controller_client().map_err(|e| e.to_string())?;
            // Another opener may have made it meanwhile; the list tells.
            if let Err(e) = controller.create_topic(&topic, 1, replicas as i16, 5_000).await
                && e.to_string().contains("InvalidReplicationFactor")
            {
                return Err(format!("topic {topic} cannot have {replicas} copies: {e}"));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let partition = client
            .partition_client(&topic, 0, UnknownTopicHandling::Retry)
            .await
            .map_err(|e| e.to_string())?;
        Ok::<_, String>((client, partition))
    };
    let opened = runtime.block_on(async { tokio::time::timeout(OPENING, opening).await });
    match opened {
        Ok(Ok((client, partition))) => Ok(Kafka { runtime, partition: Arc::new(partition), _client: client }),
        Ok(Err(why)) => Err(gone(why)),
        Err(_) => Err(gone("no answer".to_owned())),
    }
}

impl Kafka {
    fn wait<T>(&self, what: impl Future<Output = Result<T, String>>) -> Result<T, Trouble> {
        let waited = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, what).await });
        waited.unwrap_or_else(|_| Err("no answer".to_owned())).map_err(Trouble)
    }
}

impl Tape for Kafka {
    fn append(&self, ticket: u64, bytes: Arc<Vec<u8>>, _after: Option<u64>, landing: &Landing) {
        let (partition, landing) = (self.partition.clone(), landing.clone());
        self.runtime.spawn(async move {
            let value = Arc::unwrap_or_clone(bytes);
            let timestamp = chrono::DateTime::UNIX_EPOCH;
            let record = Record { key: None, value: Some(value), headers: Default::default(), timestamp };
            let producing = partition.produce(vec![record], Compression::NoCompression);
            let landed = match tokio::time::timeout(PATIENCE, producing).await {
                Ok(Ok(offsets)) => match offsets.first() {
                    Some(offset) if *offset >= 0 => Landed::At(*offset as u64 + 1),
                    _ => Landed::Unknown("no position in the answer".to_owned()),
                },
                Ok(Err(e)) => Landed::Unknown(e.to_string()),
                Err(_) => Landed::Unknown("no answer".to_owned()),
            };
            landing(ticket, landed);
        });
    }

    fn range(&self) -> Result<(u64, u64), Trouble> {
        self.wait(async {
            let of = async |at| self.partition.get_offset(at).await.map_err(|e| e.to_string());
            let (first, end) = (of(OffsetAt::Earliest).await?, of(OffsetAt::Latest).await?);
            Ok((first as u64 + 1, end as u64 + 1))
        })
    }

    fn read(&self, from: u64, to: u64, each: &mut dyn FnMut(u64, &[u8])) -> Result<(), Trouble> {
        let mut at = from;
        while at < to {
            let fetching = self.partition.fetch_records(at as i64 - 1, 1..8 << 20, 500);
            let (records, _) = self.wait(async { fetching.await.map_err(|e| e.to_string()) })?;
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
