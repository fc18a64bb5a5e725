//! Histories of whole instances: steps go to the workers and instances that own their rows, and
//! note there what they touch.
//!
//! ```text
//! procedure --steps--> [`Watching`] --> the engine --> the owner: [`Recorded::run_step`]
//!           <-outputs- takes the notes <-------------- output | notes | their length
//! ```
//!
//! The exchange and the clients are those of the instance. An attempt begins in its procedure, and
//! ends there if it fails. It has committed when the instance tells the workload. An attempt that
//! the procedure completed and nothing tells of is of unknown outcome.

use super::history::{Event, Plan, Recorder, judge, reduced};
use super::noted::{Noted, Touch};
use crate::deployed::{Keys, move_keys, until};
use crate::histories::HistoryVerdict;
use adya::history::OpType;
use base::{InstanceId, SiteId};
use channel::Address;
use exec::DesignKind;
use fastrand::Rng;
use instance::{Instance, InstanceConfig, InstanceFault};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use traffic::{Retries, Share, Traffic};
use txn::step::{Effect, Route, StepId, Steps};
use txn::{Abort, Access, Placement, Schema, Transaction, Verdict, Workload};
use wal::Durability;
use workload::tpce::{Tpce, TpceAudit, TpceGenerator, TpceReply, TpceRequest};

/// Pages of an instance: all data stays in memory.
const PAGES: usize = 1 << 14;
/// Pauses before a request is tried again, as `atoll bench` has them for designs with owners.
const BACKOFF_NS: u64 = 10_000;

/// Records a history of `islands` instances under a design, with their data in `dir`, and has it
/// judged. Keys move between the owners of an instance if it is the only one.
///
/// # Errors
/// An instance does not start, or does not end as it should.
pub fn record(
    design: DesignKind,
    islands: u16,
    plan: Plan,
    dir: &Path,
) -> Result<HistoryVerdict, InstanceFault> {
    let tpce = reduced();
    let recorded = Recorded {
        schema: Arc::new(tpce.schema()),
        tpce,
        recorder: Arc::default(),
        told_of: Arc::default(),
        committed: Arc::default(),
    };
    let workers = if design.is_single_threaded() { 1 } else { plan.crew.workers };
    let mut instances = Vec::new();
    for id in 0..islands {
        let placement = Placement::even(recorded.sites(), islands);
        let own = dir.join(id.to_string());
        std::fs::create_dir_all(&own).map_err(|e| InstanceFault::Worker(e.to_string()))?;
        let config = InstanceConfig {
            id: InstanceId(id),
            durability: Durability::Memory,
            cpus: vec![None; workers],
            pool_pages: PAGES,
            listen: Some(Address::Ring(format!("{}-{id}", dir.display()))),
            spin_us: 5,
            ..InstanceConfig::new(own, placement, design)
        }
        .with(|o| o.lock_timeout_ms = if islands == 1 { 1000 } else { 50 });
        instances.push(Instance::start(recorded.clone(), config)?);
    }
    let addresses: Vec<_> = (0..)
        .zip(&instances)
        .filter_map(|(id, instance)| Some((InstanceId(id), instance.address()?)))
        .collect();
    instances.iter().for_each(|instance| instance.connect(&addresses));
    instances.iter().try_for_each(|instance| instance.load(&|_, _| {}))?;
    let traffic = Traffic {
        retries: Retries { limit: None, backoff_ns: BACKOFF_NS },
        ..Traffic::closed(plan.crew.clients as u32)
    };
    for (i, instance) in (0..).zip(&instances) {
        let share = Share { first: i * workers as u32, of: u32::from(islands) * workers as u32 };
        instance.load_with(traffic, share, (plan.seed << 32) + (u64::from(i) << 16));
    }
    let keys = if islands == 1 && design.owns_keys() && plan.seed % 4 > 1 { Keys::Move } else { Keys::Stay };
    let mut random = Rng::with_seed(plan.seed);
    until(&recorded.committed, plan.transactions, || match keys {
        Keys::Move => move_keys(&instances[0], recorded.sites(), workers, &mut random),
        Keys::Stay => Ok(()),
    })?;
    instances.iter().try_for_each(Instance::halt)?;
    instances.into_iter().try_for_each(|instance| instance.stop().map(drop))?;
    Ok(judge(recorded.events(), &recorded.tpce))
}

/// TPC-E, with every row that is touched recorded.
#[derive(Clone)]
struct Recorded {
    tpce: Tpce,
    schema: Arc<Schema>,
    recorder: Arc<Recorder>,
    /// The attempts that their procedures completed, until their commit is told.
    told_of: Arc<Mutex<HashMap<u64, Vec<Touch>>>>,
    committed: Arc<AtomicUsize>,
}

/// A reply, with the attempt that gave it.
#[derive(Serialize, Deserialize)]
struct Told {
    attempt: u64,
    reply: TpceReply,
}

impl Recorded {
    fn note(&self, kind: OpType, attempt: u64, touched: Vec<Touch>) {
        let order = self.recorder.stamp();
        self.recorder.push([Event { order, kind, process: attempt as i64, touched }]);
    }

    fn open(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Vec<Touch>>> {
        self.told_of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All events, those of attempts with an unknown outcome included; none is left.
    fn events(&self) -> Vec<Event> {
        let unknown: Vec<_> = self.open().drain().collect();
        unknown.into_iter().for_each(|(attempt, touched)| self.note(OpType::Info, attempt, touched));
        self.recorder.events()
    }
}

impl Workload for Recorded {
    type Request = TpceRequest;
    type Reply = Told;
    type Generator = TpceGenerator;
    type Audit = TpceAudit;

    fn name(&self) -> String {
        self.tpce.name()
    }

    fn schema(&self) -> Schema {
        self.tpce.schema()
    }

    fn sites(&self) -> u32 {
        self.tpce.sites()
    }

    async fn run<T: Transaction>(&self, request: &TpceRequest, txn: &mut T) -> Result<Told, Abort> {
        let attempt = self.recorder.stamp();
        let process = attempt as i64;
        self.recorder.push([Event { order: attempt, kind: OpType::Invoke, process, touched: Vec::new() }]);
        let mut watching = Watching { txn, schema: &self.schema, touched: Vec::new() };
        let done = self.tpce.run(request, &mut watching).await;
        let touched = watching.touched;
        match done {
            Ok(reply) => {
                self.open().insert(attempt, touched);
                Ok(Told { attempt, reply })
            }
            Err(abort) => {
                self.note(OpType::Fail, attempt, touched);
                Err(abort)
            }
        }
    }

    async fn run_step<A: Access>(
        &self,
        id: StepId,
        args: &[u8],
        access: &mut A,
        out: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        let mut touched = Vec::new();
        let mut noted = Noted { access, schema: &self.schema, touched: &mut touched };
        self.tpce.run_step(id, args, &mut noted, out).await?;
        let notes = out.len();
        txn::step::encode(&touched, out);
        let length = (out.len() - notes) as u32;
        out.extend_from_slice(&length.to_le_bytes());
        Ok(())
    }

    fn routes(&self, request: &TpceRequest, visit: &mut dyn FnMut(Route)) {
        self.tpce.routes(request, visit);
    }

    fn only_reads(&self, request: &TpceRequest) -> bool {
        self.tpce.only_reads(request)
    }

    fn kind(&self, request: &TpceRequest) -> &'static str {
        self.tpce.kind(request)
    }

    fn committed(&self, request: &TpceRequest, told: &Told) {
        let touched = self.open().remove(&told.attempt).unwrap_or_default();
        self.note(OpType::Ok, told.attempt, touched);
        self.committed.fetch_add(1, Ordering::Relaxed);
        self.tpce.committed(request, &told.reply);
    }

    fn generator(&self, seed: u64, sites: Range<u32>) -> TpceGenerator {
        self.tpce.generator(seed, sites)
    }

    fn load_parts(&self, site: SiteId) -> u32 {
        self.tpce.load_parts(site)
    }

    async fn load<A: Access>(&self, site: SiteId, part: u32, access: &mut A) -> Result<(), Abort> {
        self.tpce.load(site, part, access).await
    }

    async fn load_replicated<A: Access>(&self, access: &mut A) -> Result<(), Abort> {
        self.tpce.load_replicated(access).await
    }

    async fn audit<A: Access>(&self, sites: Range<u32>, access: &mut A) -> Result<TpceAudit, Abort> {
        self.tpce.audit(sites, access).await
    }

    fn judge(&self, audits: Vec<TpceAudit>, committed: Option<u64>) -> Verdict {
        self.tpce.judge(audits, committed)
    }
}

/// A transaction of which the steps note what they touch.
struct Watching<'a, T> {
    txn: &'a mut T,
    schema: &'a Schema,
    touched: Vec<Touch>,
}

impl<T: Transaction> Transaction for Watching<'_, T> {
    async fn all<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        let (outputs, touched) = self.txn.all(Noting { steps, schema: self.schema }).await?;
        self.touched.extend(touched);
        Ok(outputs)
    }

    async fn last<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        let (outputs, touched) = self.txn.last(Noting { steps, schema: self.schema }).await?;
        self.touched.extend(touched);
        Ok(outputs)
    }

    async fn last_elsewhere<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        let (outputs, touched) = self.txn.last_elsewhere(Noting { steps, schema: self.schema }).await?;
        self.touched.extend(touched);
        Ok(outputs)
    }
}

/// Steps with what they touched.
struct Noting<'a, S> {
    steps: S,
    schema: &'a Schema,
}

impl<S: Steps> Steps for Noting<'_, S> {
    type Outputs = (S::Outputs, Vec<Touch>);
    type Partial = (S::Partial, Vec<Touch>);

    fn count(&self) -> usize {
        self.steps.count()
    }

    fn effect(&self) -> Effect {
        self.steps.effect()
    }

    fn effect_of(&self, i: usize) -> Effect {
        self.steps.effect_of(i)
    }

    fn route(&self, i: usize) -> Route {
        self.steps.route(i)
    }

    fn id(&self, i: usize) -> StepId {
        self.steps.id(i)
    }

    fn encode(&self, i: usize, out: &mut Vec<u8>) {
        self.steps.encode(i, out);
    }

    fn partial(&self) -> Self::Partial {
        (self.steps.partial(), Vec::new())
    }

    async fn run<A: Access>(&self, i: usize, access: &mut A, into: &mut Self::Partial) -> Result<(), Abort> {
        let mut noted = Noted { access, schema: self.schema, touched: &mut into.1 };
        self.steps.run(i, &mut noted, &mut into.0).await
    }

    fn accept(&self, i: usize, bytes: &[u8], into: &mut Self::Partial) -> Result<(), Abort> {
        let (output, touched) = parts(bytes).ok_or(Abort::BadRequest)?;
        into.1.extend(touched);
        self.steps.accept(i, output, &mut into.0)
    }

    fn finish(partial: Self::Partial) -> Self::Outputs {
        (S::finish(partial.0), partial.1)
    }

    async fn run_all<A: Access>(&self, access: &mut A) -> Result<Self::Outputs, Abort> {
        let mut touched = Vec::new();
        let mut noted = Noted { access, schema: self.schema, touched: &mut touched };
        let outputs = self.steps.run_all(&mut noted).await?;
        Ok((outputs, touched))
    }
}

/// The output of a step that ran elsewhere, and its notes, which [`Recorded::run_step`] has put
/// behind it.
fn parts(bytes: &[u8]) -> Option<(&[u8], Vec<Touch>)> {
    let (rest, length) = bytes.split_last_chunk::<4>()?;
    let output = rest.len().checked_sub(u32::from_le_bytes(*length) as usize)?;
    let touched = postcard::from_bytes(&rest[output..]).ok()?;
    Some((&rest[..output], touched))
}
