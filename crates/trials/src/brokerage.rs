//! Histories of a reduced TPC-E: its procedures, steps and exchange on an engine, with every row
//! that they touch recorded, and judged for strict serialisability.
//!
//! ```text
//! client   draws a request, runs its steps here, commits, tells the exchange
//!          |- each row read, updated, inserted, deleted: (row, hash of its bytes)
//! history  a register for each row that was written: reads and writes of versions
//! ```
//!
//! Where workers own keys, a whole instance runs, and its steps note at their owners what they
//! touch ([`deployed`]).

pub mod deployed;
mod history;
mod noted;

pub use history::Plan;

use crate::histories::HistoryVerdict;
use crate::workers::{self, Client, Crew, Pace};
use adya::history::OpType;
use base::SiteId;
use exec::{
    Conventional, Design, DesignKind, Engine, EngineFault, EngineOptions, Maintenance, MemoryEngine,
    OccConflict, PageEngine, PageOptions, Serial, Setup, SiteRange,
};
use fastrand::Rng;
use history::{Event, Recorder, judge, reduced};
use locks::LockTuning;
use noted::{Noted, Touch};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use store::{Store, StoreFault, StoreOptions};
use txn::step::{Steps, Transaction};
use txn::{Abort, Generator, Schema, Workload};
use wal::Durability;
use workload::tpce::Tpce;

/// Pages of the store's pool: all data stays in memory.
const PAGES: usize = 1 << 14;

/// Records a history of one engine and has it judged. `serial` has one worker. The designs in which
/// workers own keys need whole instances ([`deployed`]): they run as `conventional` here.
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
    recorder.events()
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
    recorder.push(events);
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
