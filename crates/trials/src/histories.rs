//! Histories: the requests and results of clients, recorded and judged by a checker that is
//! independent of this engine (`adya`, after Adya's and Elle's papers). The verdict is strict
//! serialisability, or the cycle that violates it.
//!
//! Rows hold lists. A transaction appends to some, inserting a row if there is none. It reads
//! others, one by one or as a range, where an absent row reads as the empty list. A phantom
//! therefore shows as an anti-dependency like any other. All elements of a list differ, so a list
//! that was read shows the order of its writes.

use crate::workers::{self, Client, Crew, Pace};
use adya::history::{Id, Interner, Mop, Op, OpType, ReadValue, Scalar};
use adya::{History, Opts, Valid, Workload};
use base::{Key, TableId};
use exec::{
    Conventional, Design, DesignKind, Engine, EngineFault, EngineOptions, Maintenance, MemoryEngine,
    OccConflict, PageEngine, PageOptions, Partitioned, Serial, Setup, SiteRange,
};
use fastrand::Rng;
use locks::LockTuning;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use store::{Store, StoreFault, StoreOptions};
use txn::{
    Abort, Access, Column, Direction, Flow, Inserted, Range, RowBuf, Schema, TableDef, TableKind, Type,
};
use wal::Durability;

const LISTS: TableId = TableId(1);
const LIST: u16 = 1;
/// Lists in use at a time; each takes [`ELEMENTS`] elements and is then replaced by a new one.
const ACTIVE: i64 = 10;
/// Elements of a list.
const ELEMENTS: i64 = 24;
/// A scan reads this many keys.
const RANGE: i64 = 3;

fn table(kind: TableKind) -> TableDef {
    TableDef {
        id: LISTS,
        name: "lists".into(),
        columns: vec![Column::new("id", Type::I64), Column::new("list", Type::Text(1000))],
        key: vec![0],
        indexes: vec![],
        domain: 1,
        kind,
    }
}

fn key(id: i64) -> Key {
    Key::new().i64(id)
}

/// The elements of a list in its text form.
pub(crate) fn elements(text: &str) -> Vec<i64> {
    text.split(',').filter_map(|n| n.parse().ok()).collect()
}

/// One operation of a transaction.
#[derive(Clone, Debug)]
enum Ask {
    Append { id: i64, element: i64 },
    Read { id: i64 },
    Scan { low: i64, direction: Direction },
}

/// The result of an operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Seen {
    Append { id: i64, element: i64 },
    Read { id: i64, list: Option<Vec<i64>> },
}

/// The start or the end of an attempt.
pub(crate) struct Event {
    pub order: u64,
    pub kind: OpType,
    pub process: i64,
    pub seen: Vec<Seen>,
}

/// Shared by the clients of one run.
#[derive(Default)]
pub(crate) struct Recorder {
    order: AtomicU64,
    element: AtomicI64,
    events: Mutex<Vec<Event>>,
}

impl Recorder {
    /// The next position in the total order of events.
    pub fn stamp(&self) -> u64 {
        self.order.fetch_add(1, Ordering::SeqCst)
    }

    /// An element that was never returned before.
    pub fn element(&self) -> i64 {
        self.element.fetch_add(1, Ordering::Relaxed)
    }

    /// How many were returned.
    pub fn elements(&self) -> i64 {
        self.element.load(Ordering::Relaxed)
    }

    /// The oldest list still in use advances with the elements returned.
    fn lists(&self) -> std::ops::Range<i64> {
        let first = self.elements() / ELEMENTS;
        first..first + ACTIVE
    }

    /// Adds events.
    pub fn push(&self, events: Vec<Event>) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).extend(events);
    }

    /// All events, in their order; none is left.
    pub fn events(&self) -> Vec<Event> {
        let mut events = std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner));
        events.sort_by_key(|e| e.order);
        events
    }

    /// The recorded history in the checker's form; the recorder is empty afterwards.
    pub fn history(&self) -> History {
        history(&self.events())
    }
}

/// The events in the checker's form.
pub(crate) fn history(events: &[Event]) -> History {
    let mut interner = Interner::default();
    let ops = events.iter().enumerate().map(|(index, event)| Op {
        index: index as u64,
        kind: event.kind,
        process: Some(event.process),
        value: event.seen.iter().map(|seen| mop(&mut interner, seen)).collect(),
        time: None,
    });
    let ops = ops.collect();
    History::from_ops(ops, interner)
}

fn mop(interner: &mut Interner, seen: &Seen) -> Mop {
    let mut id = |n: i64| -> Id { interner.intern(Scalar::Int(n)) };
    match seen {
        Seen::Append { id: list, element } => Mop::Append { key: id(*list), value: id(*element) },
        Seen::Read { id: list, list: Some(read) } => {
            Mop::Read { key: id(*list), value: ReadValue::List(read.iter().map(|e| id(*e)).collect()) }
        }
        Seen::Read { id: list, list: None } => Mop::Read { key: id(*list), value: ReadValue::Nil },
    }
}

/// The parameters of a history.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub crew: Crew,
    pub transactions: usize,
    /// One transaction in this many decides to roll back.
    pub rollback_one_in: usize,
    pub durability: Durability,
    /// Where the rows lie.
    pub kind: TableKind,
    pub seed: u64,
}

/// A recorded history and the checker's verdict.
pub struct HistoryVerdict {
    pub strictly_serialisable: bool,
    pub committed: usize,
    pub aborted: usize,
    /// The kinds of anomaly found, and the first one explained.
    pub anomalies: Vec<String>,
    pub explanation: String,
}

/// Records a history under `conventional` and has it judged.
///
/// # Errors
/// The store's fault.
pub fn conventional(plan: Plan) -> Result<HistoryVerdict, StoreFault> {
    record::<Conventional>(plan)
}

/// Records a history under `serial`, which has one worker. Half of the transactions run in one go;
/// the others are interrupted, as participants of distributed ones are.
///
/// # Errors
/// The store's fault.
pub fn serial(plan: Plan) -> Result<HistoryVerdict, StoreFault> {
    record::<Serial>(Plan { crew: Crew { workers: 1, ..plan.crew }, ..plan })
}

/// Records a history under `logical` as one owner sees it, and has it judged.
///
/// # Errors
/// The store's fault.
pub fn logical(plan: Plan) -> Result<HistoryVerdict, StoreFault> {
    record::<Partitioned>(Plan { crew: Crew { workers: 1, ..plan.crew }, ..plan })
}

fn record<D: Design>(plan: Plan) -> Result<HistoryVerdict, StoreFault> {
    let options = StoreOptions::new(plan.durability, 2048);
    let (store, _) = Store::open(world::memory(), Path::new("/histories"), options)?;
    store.create(&Schema { tables: vec![table(plan.kind)] })?;
    let waits_for_log = plan.durability == Durability::Sync;
    let options = PageOptions {
        locks: workers::lock_options(plan.seed),
        lock_timeout_ns: 2_000_000_000,
        waits_for_log,
    };
    Ok(judge(&recorded(&Arc::new(PageEngine::<D>::new(store, options)), plan)))
}

/// Records a history under `occ` and has it judged. Half of the transactions are prepared, and
/// others run before they commit.
///
/// # Errors
/// The engine does not open.
pub fn occ(plan: Plan) -> Result<HistoryVerdict, EngineFault> {
    let conflict = OccConflict::ALL[plan.seed as usize % 2];
    let setup = Setup {
        design: DesignKind::Occ,
        dir: "/histories".into(),
        durability: plan.durability,
        pool_pages: 1 << 14,
        workers: plan.crew.workers,
        options: EngineOptions {
            locks: LockTuning::PLAIN,
            lock_timeout_ms: 2_000,
            occ_conflict: conflict,
            ..EngineOptions::of(DesignKind::Occ)
        },
        schema: Schema { tables: vec![table(plan.kind)] },
        site_range: SiteRange::whole(),
    };
    let files = world::sim::Disk::new().files();
    let (engine, _) = MemoryEngine::open_on(files, &setup, |log| log.segment_bytes = 1 << 20)?;
    let (engine, stop) = (Arc::new(engine), AtomicBool::new(false));
    let history = std::thread::scope(|scope| {
        scope.spawn(|| engine.clean(&stop));
        let history = recorded(&engine, plan);
        stop.store(true, Ordering::Release);
        engine.stop_cleaner();
        history
    });
    Ok(judge(&history))
}

fn recorded<E: Maintenance>(engine: &Arc<E>, plan: Plan) -> History {
    let recorder = Arc::new(Recorder::default());
    let each = plan.transactions.div_ceil(plan.crew.workers * plan.crew.clients);
    workers::run(engine, plan.crew, |client| work(client, Arc::clone(&recorder), plan, each));
    recorder.history()
}

/// Has the checker judge a history.
pub(crate) fn judge(history: &History) -> HistoryVerdict {
    let count = |kind| history.ops.iter().filter(|op| op.kind == kind).count();
    let opts = Opts { timeout: std::time::Duration::from_secs(20), ..Opts::default() };
    let report = adya::check(history, Workload::ListAppend, &opts);
    let first = report.anomalies.values().flatten().next();
    HistoryVerdict {
        strictly_serialisable: report.valid == Valid::True,
        committed: count(OpType::Ok),
        aborted: count(OpType::Fail),
        explanation: first.map(|a| a.explanation.clone()).unwrap_or_default(),
        anomalies: report.anomaly_types,
    }
}

async fn work<E: Engine>(mut client: Client<E>, recorder: Arc<Recorder>, plan: Plan, transactions: usize) {
    let mut random = Rng::with_seed(plan.seed ^ (client.number as u64) << 32);
    let mut events = Vec::new();
    for _ in 0..transactions {
        let asks = asks(&recorder, &mut random);
        let process = client.number as i64;
        let seen = asks.iter().flat_map(unknown).collect();
        events.push(Event { order: recorder.stamp(), kind: OpType::Invoke, process, seen });
        let gives_up = random.usize(..plan.rollback_one_in) == 0;
        let pace = if random.bool() { Pace::InOneGo } else { Pace::Interrupted };
        // Every second one of the read-only transactions reads a snapshot, if the engine offers
        // that.
        let reads = asks.iter().all(|ask| !matches!(ask, Ask::Append { .. }));
        if reads && random.bool() {
            client.begin_reading(pace);
        } else {
            client.begin(pace);
        }
        let mut done = carry_out(&mut client, &asks, &mut random).await;
        if done.is_ok() && !gives_up {
            done = client.validate().await.and(done);
        }
        let (kind, seen) = match done {
            Ok(seen) if !gives_up => match client.commit().await {
                Ok(_) => (OpType::Ok, seen),
                Err(_) => (OpType::Info, asks.iter().flat_map(unknown).collect()),
            },
            _ => {
                let undone = client.rollback();
                let kind = if undone.is_ok() { OpType::Fail } else { OpType::Info };
                (kind, asks.iter().flat_map(unknown).collect())
            }
        };
        events.push(Event { order: recorder.stamp(), kind, process, seen });
        // Other clients of this worker have their turn.
        exec::yield_now().await;
    }
    recorder.push(events);
}

fn asks(recorder: &Recorder, random: &mut Rng) -> Vec<Ask> {
    let lists = recorder.lists();
    let count = random.usize(2..=5);
    let ask = |_| {
        let id = random.i64(lists.clone());
        match random.u32(..10) {
            0..5 => Ask::Append { id, element: recorder.element() },
            5..8 => Ask::Read { id },
            n => {
                let direction = if n == 8 { Direction::Forward } else { Direction::Backward };
                Ask::Scan { low: id, direction }
            }
        }
    };
    (0..count).map(ask).collect()
}

/// The operation as known before it is carried out: reads have no result.
fn unknown(ask: &Ask) -> Vec<Seen> {
    match *ask {
        Ask::Append { id, element } => vec![Seen::Append { id, element }],
        Ask::Read { id } => vec![Seen::Read { id, list: None }],
        Ask::Scan { low, .. } => (low..low + RANGE).map(|id| Seen::Read { id, list: None }).collect(),
    }
}

async fn carry_out<E: Engine>(
    client: &mut Client<E>,
    asks: &[Ask],
    random: &mut Rng,
) -> Result<Vec<Seen>, Abort> {
    let mut seen = Vec::new();
    for ask in asks {
        match *ask {
            Ask::Append { id, element } => {
                append(client, id, element).await?;
                seen.push(Seen::Append { id, element });
            }
            Ask::Read { id } => {
                let read = client.access().read(LISTS, &key(id), |row| elements(row.text(LIST))).await?;
                seen.push(Seen::Read { id, list: Some(read.unwrap_or_default()) });
            }
            Ask::Scan { low, direction } => {
                let mut found: Vec<(i64, Vec<i64>)> = Vec::new();
                let (from, to) = (key(low), key(low + RANGE));
                let range = Range::new(&from, &to);
                let visit = |_: &[u8], row: txn::Row<'_>| {
                    found.push((row.int(0), elements(row.text(LIST))));
                    Flow::More
                };
                client.access().scan(LISTS, range, direction, visit).await?;
                seen.extend((low..low + RANGE).map(|id| {
                    let read = found.iter().find(|(n, _)| *n == id).map(|(_, list)| list.clone());
                    Seen::Read { id, list: Some(read.unwrap_or_default()) }
                }));
            }
        }
        if random.bool() {
            client.pause().await;
        }
    }
    Ok(seen)
}

/// Appends to the list, which begins with this element if there is none.
async fn append<E: Engine>(client: &mut Client<E>, id: i64, element: i64) -> Result<(), Abort> {
    let add = |row: &mut txn::RowMut<'_>| {
        let text = format!("{},{element}", row.row().text(LIST));
        row.set_text(LIST, &text);
    };
    if client.access().update(LISTS, &key(id), add).await?.is_some() {
        return Ok(());
    }
    let mut buf = RowBuf::new(&table(TableKind::Heap));
    let mut row = buf.start();
    row.set_int(0, id);
    row.set_text(LIST, &element.to_string());
    match client.access().insert(LISTS, &key(id), buf.bytes()).await? {
        Inserted::Done => Ok(()),
        // The update that found no row has locked its absence.
        Inserted::Exists => Err(Abort::User(1)),
    }
}
