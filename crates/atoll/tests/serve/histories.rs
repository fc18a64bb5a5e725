//! Histories of lists over SQL, judged for strict serialisability by a checker that knows nothing
//! of this server (`adya`, after Adya's and Elle's papers).
//!
//! A row holds a list of numbers as text, and all numbers differ, so a list that was read shows the
//! order of its writes. Writers append to some lists and read others. Readers read one list each
//! time. A writer that is not told the outcome goes on under another name.

use crate::kills::Fate;
use adya::history::{Id, Interner, Mop, Op, OpType, ReadValue, Scalar};
use adya::{History, Opts, Valid, Workload};
use fastrand::Rng;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_postgres::{Client, Error, SimpleQueryMessage};

/// Rows; a trial ends early for its writers when all are full.
const LISTS: i64 = 8192;
/// Lists lie at all instances: runs of 64 numbers go round the slots.
const APART: i64 = 64;
/// Lists in use at a time; each takes about [`ELEMENTS`] elements, and a new one follows it.
const ACTIVE: i64 = 6;
const ELEMENTS: i64 = 16;
/// How long the checker may take.
const JUDGED: Duration = Duration::from_secs(600);

#[derive(Clone, Debug)]
enum Did {
    Append(i64, i64),
    /// `None`: not known, before the answer.
    Read(i64, Option<Vec<i64>>),
}

struct Event {
    kind: OpType,
    process: i64,
    did: Vec<Did>,
}

/// Shared by the clients of one trial.
#[derive(Default)]
pub(crate) struct Record {
    /// In the order in which they happened.
    events: Mutex<Vec<Event>>,
    element: AtomicI64,
    process: AtomicI64,
}

/// What the checker found.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub strictly_serialisable: bool,
    pub committed: usize,
    pub unknown: usize,
    /// The kinds of anomaly, and the first one explained.
    pub anomalies: Vec<String>,
    pub explanation: String,
}

/// Makes the table, with all lists empty.
pub(crate) async fn make(client: &Client) {
    let table = "CREATE TABLE list (id bigint PRIMARY KEY, elements text NOT NULL)";
    client.batch_execute(table).await.unwrap();
    for part in 0..LISTS / 512 {
        let rows: Vec<String> =
            (part * 512..(part + 1) * 512).map(|list| format!("({}, '')", list * APART)).collect();
        client.batch_execute(&format!("INSERT INTO list VALUES {}", rows.join(", "))).await.unwrap();
    }
}

fn elements(text: &str) -> Vec<i64> {
    text.split(',').filter_map(|element| element.parse().ok()).collect()
}

/// One list, as its text.
async fn read(client: &Client, list: i64) -> Result<String, Error> {
    let query = format!("SELECT elements FROM list WHERE id = {}", list * APART);
    let rows = client.simple_query(&query).await?;
    let row = rows.iter().find_map(|row| match row {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    Ok(row.unwrap_or_else(|| panic!("list {list} is gone")))
}

/// What the error of the last or of an earlier statement says about the transaction.
fn fate_of(error: &Error, was_last: bool) -> Fate {
    match error.code().map(tokio_postgres::error::SqlState::code) {
        Some("08007") => Fate::Unknown,
        Some(_) => Fate::Refused,
        None if was_last => Fate::Unknown,
        None => Fate::Refused,
    }
}

impl Record {
    fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, kind: OpType, process: i64, did: Vec<Did>) {
        self.events().push(Event { kind, process, did });
    }

    /// The name of another client.
    pub fn process(&self) -> i64 {
        self.process.fetch_add(1, Ordering::Relaxed)
    }

    fn first(&self) -> i64 {
        self.element.load(Ordering::Relaxed) / ELEMENTS
    }

    pub fn is_full(&self) -> bool {
        self.first() + ACTIVE >= LISTS
    }

    fn end(&self, process: i64, fate: Fate, asked: Vec<Did>, done: Vec<Did>) -> Fate {
        match fate {
            Fate::Acknowledged => self.note(OpType::Ok, process, done),
            Fate::Refused => self.note(OpType::Fail, process, asked),
            Fate::Unknown => self.note(OpType::Info, process, asked),
        }
        fate
    }

    /// A transaction over two or three lists. It is of unknown fate after `patience`.
    pub async fn write(&self, client: &Client, process: i64, rng: &mut Rng, patience: Duration) -> Fate {
        let mut lists: Vec<i64> = (self.first()..self.first() + ACTIVE).collect();
        rng.shuffle(&mut lists);
        lists.truncate(rng.usize(2..=3));
        let mut asked = Vec::new();
        for list in lists {
            asked.push(Did::Read(list, None));
            if rng.bool() {
                asked.push(Did::Append(list, self.element.fetch_add(1, Ordering::Relaxed)));
            }
        }
        self.note(OpType::Invoke, process, asked.clone());
        let mut done = Vec::new();
        let working = work(client, &asked, &mut done);
        let fate = tokio::time::timeout(patience, working).await.unwrap_or(Fate::Unknown);
        self.end(process, fate, asked, done)
    }

    /// A read of one list. One that is not answered has no effect.
    pub async fn read(&self, client: &Client, process: i64, rng: &mut Rng, patience: Duration) -> Fate {
        let list = rng.i64(self.first()..self.first() + ACTIVE);
        let asked = vec![Did::Read(list, None)];
        self.note(OpType::Invoke, process, asked.clone());
        let answered = tokio::time::timeout(patience, read(client, list)).await;
        let (fate, done) = match answered {
            Ok(Ok(text)) => (Fate::Acknowledged, vec![Did::Read(list, Some(elements(&text)))]),
            _ => (Fate::Refused, Vec::new()),
        };
        self.end(process, fate, asked, done)
    }

    /// Reads all lists that were used, at the end: an append that nothing read later would not be
    /// judged.
    pub async fn read_all(&self, client: &Client) {
        let process = self.process();
        for list in 0..(self.first() + ACTIVE).min(LISTS) {
            self.note(OpType::Invoke, process, vec![Did::Read(list, None)]);
            let text = read(client, list).await.unwrap();
            self.note(OpType::Ok, process, vec![Did::Read(list, Some(elements(&text)))]);
        }
    }

    pub fn judge(&self) -> Verdict {
        let events = std::mem::take(&mut *self.events());
        let count = |kind| events.iter().filter(|event| event.kind == kind).count();
        let mut interner = Interner::default();
        let ops = events.iter().enumerate().map(|(index, event)| Op {
            index: index as u64,
            kind: event.kind,
            process: Some(event.process),
            value: event.did.iter().map(|did| mop(&mut interner, did)).collect(),
            time: None,
        });
        let ops = ops.collect();
        let opts = Opts { timeout: JUDGED, ..Opts::default() };
        let report = adya::check(&History::from_ops(ops, interner), Workload::ListAppend, &opts);
        let first = report.anomalies.values().flatten().next();
        Verdict {
            strictly_serialisable: report.valid == Valid::True,
            committed: count(OpType::Ok),
            unknown: count(OpType::Info),
            explanation: first.map(|anomaly| anomaly.explanation.clone()).unwrap_or_default(),
            anomalies: report.anomaly_types,
        }
    }
}

fn mop(interner: &mut Interner, did: &Did) -> Mop {
    let mut id = |number: i64| -> Id { interner.intern(Scalar::Int(number)) };
    match did {
        Did::Append(list, element) => Mop::Append { key: id(*list), value: id(*element) },
        Did::Read(list, Some(read)) => {
            let read = read.iter().map(|element| id(*element)).collect();
            Mop::Read { key: id(*list), value: ReadValue::List(read) }
        }
        Did::Read(list, None) => Mop::Read { key: id(*list), value: ReadValue::Nil },
    }
}

/// Carries a transaction out; `done` gets what it has read and appended.
async fn work(client: &Client, asked: &[Did], done: &mut Vec<Did>) -> Fate {
    let body = async {
        client.batch_execute("BEGIN").await?;
        let mut text = String::new();
        for did in asked {
            match did {
                Did::Read(list, _) => {
                    text = read(client, *list).await?;
                    done.push(Did::Read(*list, Some(elements(&text))));
                }
                Did::Append(list, element) => {
                    let comma = if text.is_empty() { "" } else { "," };
                    let change = format!(
                        "UPDATE list SET elements = '{text}{comma}{element}' WHERE id = {}",
                        list * APART
                    );
                    client.batch_execute(&change).await?;
                    done.push(did.clone());
                }
            }
        }
        Ok::<_, Error>(())
    };
    if let Err(error) = body.await {
        // The connection may have gone.
        let _ = client.batch_execute("ROLLBACK").await;
        return fate_of(&error, false);
    }
    match client.batch_execute("COMMIT").await {
        Ok(()) => Fate::Acknowledged,
        Err(error) => fate_of(&error, true),
    }
}

/// The checker finds a read that a deposed machine answers.
#[test]
fn a_stale_read_is_found() {
    let judged = |last: Vec<i64>| {
        let record = Record::default();
        let read = |process, list: Vec<i64>| {
            record.note(OpType::Invoke, process, vec![Did::Read(0, None)]);
            record.note(OpType::Ok, process, vec![Did::Read(0, Some(list))]);
        };
        for element in 1..=2 {
            record.note(OpType::Invoke, 0, vec![Did::Append(0, element)]);
            record.note(OpType::Ok, 0, vec![Did::Append(0, element)]);
        }
        read(0, vec![1, 2]);
        read(1, last);
        record.judge()
    };
    let whole = judged(vec![1, 2]);
    assert!(whole.strictly_serialisable && whole.committed == 4, "{whole:?}");
    let stale = judged(vec![1]);
    assert!(!stale.strictly_serialisable && !stale.anomalies.is_empty(), "{stale:?}");
}
