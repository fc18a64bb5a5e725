//! Histories of a reduced TPC-E: its procedures, steps and exchange on an engine, with every row
//! that they touch recorded, and judged for strict serialisability.
//!
//! ```text
//! client   draws a request, runs its steps here, commits, tells the exchange
//!          |- each row read, updated, inserted, deleted: (row, hash of its bytes)
//! history  a register for each row that was written: reads and writes of versions
//! ```
//!
//! A row is a register, and the hash of its bytes names its version. Every write of TPC-E reads the
//! row before, so the writes of a row are ordered by what they read, and the checker finds lost
//! updates, stale reads, and cycles over several rows. Two kinds of reads are left out, because
//! they name no single write: those of a version that was written twice (an update that the next
//! one undoes), and those that find no row where one was deleted.

mod noted;

use crate::histories::HistoryVerdict;
use crate::workers::{self, Client, Crew, Pace};
use adya::history::{Id, Interner, Mop, Op, OpType, ReadValue, Scalar};
use adya::{History, Opts, Valid};
use base::{SiteId, TableId};
use exec::{
    Conventional, Design, DesignKind, Engine, EngineFault, EngineOptions, Maintenance, MemoryEngine,
    OccConflict, PageEngine, PageOptions, Serial, Setup, SiteRange,
};
use fastrand::Rng;
use locks::LockTuning;
use noted::{Noted, Touch};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use store::{Store, StoreFault, StoreOptions};
use txn::step::{Steps, Transaction};
use txn::{Abort, Generator, Inserted, NewRows, Schema, Workload};
use wal::Durability;
use workload::oracle::at_once;
use workload::tpce::{Mix, Tpce, TpceOptions};

/// Pages of the store's pool: all data stays in memory.
const PAGES: usize = 1 << 14;

/// Few customers with many trades: two hundred, ten brokers, 137 securities.
fn reduced() -> Tpce {
    let base = TpceOptions::new(1);
    let options = TpceOptions {
        mix: Mix::Full,
        unit: 200,
        sf: 20_000,
        days: 5,
        market_days: 50,
        news_bytes: 255,
        ..base
    };
    Tpce::new(options).expect("options in their ranges")
}

/// The parameters of a history.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub crew: Crew,
    pub transactions: usize,
    pub seed: u64,
}

type RowName = (TableId, Vec<u8>);

/// The start or the end of an attempt.
struct Event {
    order: u64,
    kind: OpType,
    process: i64,
    touched: Vec<Touch>,
}

/// Shared by the clients of one run.
#[derive(Default)]
struct Recorder {
    order: AtomicU64,
    events: Mutex<Vec<Event>>,
}

impl Recorder {
    fn stamp(&self) -> u64 {
        self.order.fetch_add(1, Ordering::SeqCst)
    }
}

/// Records a history and has it judged. `serial` has one worker. The designs in which workers own
/// keys need whole instances, where steps go to their owners: they run as `conventional` here.
///
/// # Errors
/// The engine does not open, or refuses the initial rows.
pub fn record(design: DesignKind, plan: Plan) -> Result<HistoryVerdict, EngineFault> {
    match design {
        DesignKind::Serial => on_pages::<Serial>(Plan { crew: Crew { workers: 1, ..plan.crew }, ..plan }),
        DesignKind::Occ => in_memory(plan),
        _ => on_pages::<Conventional>(plan),
    }
}

fn on_pages<D: Design>(plan: Plan) -> Result<HistoryVerdict, EngineFault> {
    let tpce = reduced();
    let open = || -> Result<Store, StoreFault> {
        let options = StoreOptions::new(Durability::Memory, PAGES);
        let (store, _) = Store::open(world::memory(), Path::new("/brokerage"), options)?;
        store.create(&tpce.schema())?;
        Ok(store)
    };
    let options = PageOptions {
        locks: workers::lock_options(plan.seed),
        lock_timeout_ns: 2_000_000_000,
        waits_for_log: false,
    };
    let engine = Arc::new(PageEngine::<D>::new(open()?, options));
    load(&engine, &tpce)?;
    Ok(judge(recorded(&engine, &tpce, plan), &tpce))
}

fn in_memory(plan: Plan) -> Result<HistoryVerdict, EngineFault> {
    let tpce = reduced();
    let setup = Setup {
        design: DesignKind::Occ,
        dir: "/brokerage".into(),
        durability: Durability::Memory,
        pool_pages: PAGES,
        workers: plan.crew.workers,
        options: EngineOptions {
            locks: LockTuning::PLAIN,
            lock_timeout_ms: 2_000,
            occ_conflict: OccConflict::ALL[plan.seed as usize % 2],
            ..EngineOptions::of(DesignKind::Occ)
        },
        schema: tpce.schema(),
        site_range: SiteRange::whole(),
    };
    let files = world::sim::Disk::new().files();
    let (engine, _) = MemoryEngine::open_on(files, &setup, |log| log.segment_bytes = 16 << 20)?;
    let (engine, stop) = (Arc::new(engine), AtomicBool::new(false));
    let events = std::thread::scope(|scope| {
        scope.spawn(|| engine.clean(&stop));
        let loaded = load(&engine, &tpce);
        let events = loaded.map(|()| recorded(&engine, &tpce, plan));
        stop.store(true, Ordering::Release);
        engine.stop_cleaner();
        events
    })?;
    Ok(judge(events, &tpce))
}

/// Inserts the initial rows, each part of a site in a transaction.
fn load<E: Maintenance>(engine: &Arc<E>, tpce: &Tpce) -> Result<(), EngineFault> {
    let failed = Arc::new(Mutex::new(None));
    workers::run(engine, Crew { workers: 1, clients: 1 }, |mut client: Client<E>| {
        let (tpce, failed) = (tpce.clone(), Arc::clone(&failed));
        async move {
            let mut done = load_part(&mut client, &tpce, None).await;
            for site in (0..tpce.sites()).map(SiteId) {
                for part in 0..tpce.load_parts(site) {
                    if done.is_ok() {
                        done = load_part(&mut client, &tpce, Some((site, part))).await;
                    }
                }
            }
            *failed.lock().unwrap_or_else(PoisonError::into_inner) = done.err();
        }
    });
    let failed = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
    match failed {
        None => Ok(()),
        Some(abort) => Err(EngineFault::from(StoreFault::from(std::io::Error::other(format!(
            "the initial rows are refused: {abort:?}"
        ))))),
    }
}

async fn load_part<E: Engine>(
    client: &mut Client<E>,
    tpce: &Tpce,
    part: Option<(SiteId, u32)>,
) -> Result<(), Abort> {
    client.begin(Pace::InOneGo);
    match part {
        Some((site, part)) => tpce.load(site, part, &mut client.access()).await?,
        None => tpce.load_replicated(&mut client.access()).await?,
    }
    client.validate().await?;
    client.commit().await.map(drop)
}

fn recorded<E: Maintenance>(engine: &Arc<E>, tpce: &Tpce, plan: Plan) -> Vec<Event> {
    let recorder = Arc::new(Recorder::default());
    let each = plan.transactions.div_ceil(plan.crew.workers * plan.crew.clients);
    workers::run(engine, plan.crew, |client| {
        work(client, tpce.clone(), Arc::clone(&recorder), plan.seed, each)
    });
    let mut events = std::mem::take(&mut *recorder.events.lock().unwrap_or_else(PoisonError::into_inner));
    events.sort_by_key(|event| event.order);
    events
}

async fn work<E: Engine>(
    mut client: Client<E>,
    tpce: Tpce,
    recorder: Arc<Recorder>,
    seed: u64,
    transactions: usize,
) {
    let process = client.number as i64;
    let mut random = Rng::with_seed(seed ^ (client.number as u64) << 32);
    let mut requests = tpce.generator(random.u64(..), 0..tpce.sites());
    let (schema, mut events) = (tpce.schema(), Vec::new());
    for _ in 0..transactions {
        let request = requests.next();
        events.push(Event { order: recorder.stamp(), kind: OpType::Invoke, process, touched: Vec::new() });
        let pace = if random.bool() { Pace::InOneGo } else { Pace::Interrupted };
        // Every second one of the read-only transactions reads a snapshot, if the engine has them.
        if tpce.only_reads(&request) && random.bool() {
            client.begin_reading(pace);
        } else {
            client.begin(pace);
        }
        let mut direct = Direct { client: &mut client, schema: &schema, touched: Vec::new() };
        let mut done = tpce.run(&request, &mut direct).await;
        let touched = direct.touched;
        if done.is_ok() {
            done = client.validate().await.and(done);
        }
        let kind = match &done {
            Ok(reply) => match client.commit().await {
                Ok(_) => {
                    tpce.committed(&request, reply);
                    OpType::Ok
                }
                Err(_) => OpType::Info,
            },
            Err(_) if client.rollback().is_ok() => OpType::Fail,
            Err(_) => OpType::Info,
        };
        events.push(Event { order: recorder.stamp(), kind, process, touched });
        exec::yield_now().await;
    }
    recorder.events.lock().unwrap_or_else(PoisonError::into_inner).extend(events);
}

/// Runs every step at the client's engine.
struct Direct<'a, E: Engine> {
    client: &'a mut Client<E>,
    schema: &'a Schema,
    touched: Vec<Touch>,
}

impl<E: Engine> Transaction for Direct<'_, E> {
    async fn all<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        let mut outputs = steps.partial();
        for i in 0..steps.count() {
            let mut access = self.client.access();
            let mut noted = Noted { access: &mut access, schema: self.schema, touched: &mut self.touched };
            steps.run(i, &mut noted, &mut outputs).await?;
            drop(access);
            self.client.pause().await;
        }
        Ok(S::finish(outputs))
    }

    async fn last<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        self.all(steps).await
    }
}

/// The version of each row as loaded.
#[derive(Default)]
struct Initial(HashMap<RowName, u64>);

impl NewRows for Initial {
    fn put(&mut self, table: TableId, key: Option<&[u8]>, row: &[u8]) -> Result<Inserted, Abort> {
        self.0.insert((table, key.unwrap_or_default().to_vec()), base::hash64(row));
        Ok(Inserted::Done)
    }
}

fn initial(tpce: &Tpce) -> HashMap<RowName, u64> {
    let mut rows = Initial::default();
    let _ = at_once(tpce.load_replicated(&mut rows)); // storage that refuses nothing
    for site in (0..tpce.sites()).map(SiteId) {
        for part in 0..tpce.load_parts(site) {
            let _ = at_once(tpce.load(site, part, &mut rows)); // as above
        }
    }
    rows.0
}

/// What the writes of a row tell.
#[derive(Default)]
struct Written {
    /// Versions by the number of transactions that wrote them.
    versions: BTreeMap<u64, u32>,
    deleted: bool,
}

/// Puts the history into the checker's form and has it judged.
fn judge(events: Vec<Event>, tpce: &Tpce) -> HistoryVerdict {
    let initial = initial(tpce);
    let mut written: HashMap<RowName, Written> = HashMap::new();
    for event in &events {
        let mut own: HashSet<(&RowName, Option<u64>)> = HashSet::new();
        for touch in &event.touched {
            if let Touch::Wrote(row, version) = touch
                && own.insert((row, *version))
            {
                let of = written.entry(row.clone()).or_default();
                match version {
                    Some(version) => *of.versions.entry(*version).or_default() += 1,
                    None => of.deleted = true,
                }
            }
        }
    }
    let mut names = Names { interner: Interner::default(), rows: HashMap::new(), deletions: 0 };
    let mut ops = Vec::new();
    let mut strange = Vec::new();
    for (index, event) in events.iter().enumerate() {
        let value = event
            .touched
            .iter()
            .filter_map(|touch| names.mop(touch, &written, &initial, &mut strange))
            .collect();
        ops.push(Op {
            index: index as u64,
            kind: event.kind,
            process: Some(event.process),
            value,
            time: None,
        });
    }
    let history = History::from_ops(ops, names.interner);
    let count = |kind| history.ops.iter().filter(|op| op.kind == kind).count();
    let timeout = std::time::Duration::from_secs(20);
    let opts = Opts { timeout, wfr_keys: true, ..Opts::default() };
    let report = adya::check(&history, adya::Workload::RwRegister, &opts);
    let first = report.anomalies.values().flatten().next();
    let explanation = strange.first().cloned().or_else(|| first.map(|a| a.explanation.clone()));
    HistoryVerdict {
        strictly_serialisable: report.valid == Valid::True && strange.is_empty(),
        committed: count(OpType::Ok),
        aborted: count(OpType::Fail),
        explanation: explanation.unwrap_or_default(),
        anomalies: report.anomaly_types,
    }
}

/// The checker's names of rows and versions.
struct Names {
    interner: Interner,
    rows: HashMap<RowName, i64>,
    deletions: i64,
}

impl Names {
    fn row(&mut self, row: &RowName) -> Id {
        let next = self.rows.len() as i64;
        let number = *self.rows.entry(row.clone()).or_insert(next);
        self.interner.intern(Scalar::Int(number))
    }

    /// The operation on a register; `None` if it tells nothing. A row that nothing has written is
    /// noted as strange.
    fn mop(
        &mut self,
        touch: &Touch,
        written: &HashMap<RowName, Written>,
        initial: &HashMap<RowName, u64>,
        strange: &mut Vec<String>,
    ) -> Option<Mop> {
        match touch {
            Touch::Wrote(row, version) => {
                let of = written.get(row)?;
                let value = match version {
                    // A version that several transactions wrote has no single writer; nor has one
                    // that is equal to the first.
                    Some(version) if of.versions.get(version) != Some(&1) => return None,
                    Some(version) if initial.get(row) == Some(version) => return None,
                    Some(version) => self.interner.intern(Scalar::Int(*version as i64)),
                    None => {
                        self.deletions += 1;
                        self.interner.intern(Scalar::Int(-self.deletions))
                    }
                };
                Some(Mop::Write { key: self.row(row), value })
            }
            Touch::Read(row, version) => {
                let first = initial.get(row);
                let of = written.get(row);
                let known = |version| of.is_some_and(|of| of.versions.contains_key(version));
                match version {
                    Some(version) if first != Some(version) && !known(version) => {
                        strange.push(format!("a row of {} with content that nothing wrote", row.0));
                        None
                    }
                    None if first.is_some() && !of.is_some_and(|of| of.deleted) => {
                        strange.push(format!("a row of {} is lost", row.0));
                        None
                    }
                    _ => self.read(row, *version, first, of?),
                }
            }
        }
    }

    fn read(
        &mut self,
        row: &RowName,
        version: Option<u64>,
        first: Option<&u64>,
        of: &Written,
    ) -> Option<Mop> {
        let value = match version {
            None if of.deleted => return None,
            None => ReadValue::Nil,
            Some(version) if first == Some(&version) && !of.versions.contains_key(&version) => ReadValue::Nil,
            Some(version) if of.versions.get(&version) != Some(&1) || first == Some(&version) => return None,
            Some(version) => ReadValue::Scalar(self.interner.intern(Scalar::Int(version as i64))),
        };
        Some(Mop::Read { key: self.row(row), value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(order: u64, kind: OpType, process: i64, touched: Vec<Touch>) -> Event {
        Event { order, kind, process, touched }
    }

    /// A key that no loaded row has.
    fn row() -> RowName {
        (TableId(1), b"new".to_vec())
    }

    fn verdict(touched: [Vec<Touch>; 2]) -> HistoryVerdict {
        let [a, b] = touched;
        let events = vec![
            event(0, OpType::Invoke, 0, Vec::new()),
            event(1, OpType::Invoke, 1, Vec::new()),
            event(2, OpType::Ok, 0, a),
            event(3, OpType::Ok, 1, b),
        ];
        judge(events, &reduced())
    }

    #[test]
    fn a_lost_update_is_found_and_updates_in_turn_are_not() {
        let change = |from, to| vec![Touch::Read(row(), from), Touch::Wrote(row(), Some(to))];
        assert!(verdict([change(None, 5), change(Some(5), 6)]).strictly_serialisable);
        let lost = verdict([change(None, 5), change(None, 6)]);
        assert!(!lost.strictly_serialisable, "{:?}", lost.anomalies);
    }

    #[test]
    fn a_row_that_nothing_wrote_is_found() {
        let strange = verdict([vec![Touch::Read(row(), Some(9))], Vec::new()]);
        assert!(!strange.strictly_serialisable && strange.explanation.contains("nothing wrote"));
    }
}
