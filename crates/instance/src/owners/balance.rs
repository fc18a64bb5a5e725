//! Ownership of keys by workers, watched and changed while transactions run (thesis, section 4.4).
//!
//! ```text
//!   workers: for each site, a count of the steps of their transactions
//!       ^ once a period |
//!       |               v
//!   balancer's thread: counts -> aged histograms -> partition::Balancer -> a plan, with reasons
//!       |
//!       +-- repartition request --> inbox of the worker that gives, or owns, the keys; one by one
//! ```
//!
//! The transaction's own worker counts, in an array that no other thread touches, with one addition
//! a step. The owner of the keys does not count: an aged count is needed once a period, not at each
//! access, so the histogram belongs to the balancer. The balancer runs on a thread that sleeps
//! between periods.
//!
//! A plan is carried out change by change. A change fails if its owner is never idle. Then the
//! partitions stay as the earlier changes left them, and the balancer starts from those in the next
//! period.

use super::placing::Placer;
use super::sampling::Loads;
use crate::orders::WorkerOrder;
use crate::shared::Shared;
use base::WorkerId;
use exec::{Balance, Carried, Engine, KeyOwners, Refusal, RepartitionRequest, actor};
use partition::{
    BalanceError, BalanceVerdict, Balancer, Decision, Grain, Histogram, Mode, Partition, PartitionLoad, Plan,
    PlanError, QueueLength, RangeChange, RangeError, RangeMap, Ranges, Settings,
};
use probe::{Rebalance, Rebalanced};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use txn::Workload;

/// The largest number of sites of an instance where steps are counted: 256 KiB of counters for each
/// worker.
pub const MAX_SITES: usize = 1 << 16;

/// How long a worker may take to answer. It polls its inbox every few microseconds, unless it waits
/// for the device.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often an owner that stays busy is asked.
const TRIES: usize = 3;

/// Why the partitions were not, or not completely, changed as requested.
/// [`crate::Instance::partitions`] returns the present ones.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RepartitionError {
    #[error(
        "this design has no owners of keys; expected logical or one of plp-regular, plp-partition, plp-leaf"
    )]
    NoOwners,
    #[error("worker {worker} of {workers}: there is none of this number")]
    NoWorker { worker: usize, workers: usize },
    #[error(transparent)]
    Range(#[from] RangeError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("a worker has not answered in time: it has ended, or waits for a device")]
    Silent,
}

/// The requested partitions: which worker owns which sites, counted from the instance's first site.
pub(crate) fn wanted(
    now: &Ranges,
    parts: &[(Range<u32>, usize)],
    workers: usize,
) -> Result<Ranges, RepartitionError> {
    if let Some((_, worker)) = parts.iter().find(|(_, worker)| *worker >= workers) {
        return Err(RepartitionError::NoWorker { worker: *worker, workers });
    }
    let part = |(sites, worker): &(Range<u32>, usize)| Partition {
        keys: sites.start.into()..sites.end.into(),
        owner: WorkerId(*worker as u16),
    };
    Ok(Ranges::new(now.table(), now.domain(), parts.iter().map(part).collect())?)
}

/// Changes the present partitions into the requested ones.
pub(crate) fn repartition<W: Workload, E: Engine>(
    shared: &Shared<W, E>,
    parts: &[(Range<u32>, usize)],
) -> Result<Carried, RepartitionError> {
    let now = shared.engine.owners().ok_or(RepartitionError::NoOwners)?.ranges();
    let to = wanted(&now, parts, shared.config.workers())?;
    carry_out(shared, &now, &Plan::between(&now, &to)?)
}

/// Carries out a plan; each change is done by the worker that it concerns.
fn carry_out<W: Workload, E: Engine>(
    shared: &Shared<W, E>,
    now: &Ranges,
    plan: &Plan,
) -> Result<Carried, RepartitionError> {
    // Each worker that owned keys before the plan must own some after it.
    let mut fed: Vec<WorkerId> = now.owners().to_vec();
    fed.sort_unstable();
    fed.dedup();
    plan.feeds(&RangeMap::new([now.clone()]), &fed)?;
    let mut carried = Carried::default();
    for (worker, gives, made_for, changes) in runs(now, plan)? {
        let mut tries = 0;
        loop {
            let (done, answer) = mpsc::channel();
            let progress = Arc::<AtomicU64>::default();
            let request = RepartitionRequest {
                made_for,
                changes: changes.clone(),
                gives,
                progress: Arc::clone(&progress),
                done,
            };
            shared.inboxes[worker].put(WorkerOrder::Repartition(request));
            match outcome(&answer, &progress)? {
                Ok(did) => break carried.add(&did),
                Err(Refusal::Busy { .. }) if tries + 1 < TRIES => tries += 1,
                Err(refusal) => return Err(refusal.into()),
            }
        }
    }
    Ok(carried)
}

/// Waits for an answer as long as there is progress: under `plp-partition` very many rows may have
/// to move.
fn outcome(
    answer: &Receiver<Result<Carried, Refusal>>,
    progress: &AtomicU64,
) -> Result<Result<Carried, Refusal>, RepartitionError> {
    let mut seen = 0;
    loop {
        match answer.recv_timeout(PATIENCE) {
            Ok(outcome) => return Ok(outcome),
            Err(RecvTimeoutError::Timeout) if progress.load(Ordering::Relaxed) != seen => {
                seen = progress.load(Ordering::Relaxed);
            }
            Err(_) => return Err(RepartitionError::Silent),
        }
    }
}

/// Consecutive changes by one worker: the worker, whether it gives keys away, the version of the
/// map before the first change, and the changes.
type Runs = Vec<(usize, bool, u64, Vec<RangeChange>)>;

fn runs(now: &Ranges, plan: &Plan) -> Result<Runs, RepartitionError> {
    let mut runs: Runs = Vec::new();
    let mut ranges = now.clone();
    for &change in &plan.changes {
        for change in each_by_one(&ranges, change) {
            let version = ranges.version();
            let next = ranges.apply(version, change)?;
            let actor = actor(&ranges, &next, change).ok_or(Refusal::NotOwner(0))?;
            match runs.last_mut() {
                Some((worker, gives, _, changes)) if *worker == actor.worker => {
                    *gives |= actor.gives;
                    changes.push(change);
                }
                _ => runs.push((actor.worker, actor.gives, version, vec![change])),
            }
            ranges = next;
        }
    }
    Ok(runs)
}

/// A merge of two partitions with different owners begins with moves to one owner: the worker that
/// merges two trees must own both.
fn each_by_one(now: &Ranges, change: RangeChange) -> Vec<RangeChange> {
    let mut all = Vec::new();
    if let RangeChange::Merge { at, owner } = change
        && at > 0
    {
        let pieces = [now.partition(now.index(at - 1)), now.partition(now.index(at))];
        let foreign = pieces.into_iter().filter(|piece| piece.owner != owner);
        all.extend(foreign.map(|piece| RangeChange::Move { start: piece.keys.start, owner }));
    }
    all.push(change);
    all
}

/// The balancer's decisions, for measurements; times by [`world::now_ns`].
pub(crate) type Ledger = Arc<Mutex<Vec<Rebalance>>>;

/// The balancer's thread, and the channel that ends it.
pub(crate) struct BalancerThread {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl BalancerThread {
    /// `None` where nothing is to be balanced.
    pub fn start<W: Workload, E: Engine>(
        shared: &Arc<Shared<W, E>>,
        ledger: &Ledger,
    ) -> std::io::Result<Option<BalancerThread>> {
        let Balance { mode, .. } = shared.config.options.balance;
        if mode == Mode::Off || !E::OWNERS || shared.config.workers() < 2 {
            return Ok(None);
        }
        let (stop, stopped) = mpsc::channel();
        let (shared, ledger) = (Arc::clone(shared), Arc::clone(ledger));
        let name = format!("i{}balance", shared.config.id.0);
        let body = move || Watching::new(&shared, ledger).watch(&stopped);
        let thread = std::thread::Builder::new().name(name).spawn(body)?;
        Ok(Some(BalancerThread { stop, thread }))
    }

    /// Ends the thread, and waits for it.
    pub fn end(self) {
        drop(self.stop);
        // A panic of the thread has already printed its message.
        drop(self.thread.join());
    }
}

/// The state of the balancer's thread.
struct Watching<'s, W: Workload, E: Engine> {
    shared: &'s Shared<W, E>,
    ledger: Ledger,
    balancer: Balancer,
    /// The version of the map to which `histograms` belong.
    version: u64,
    histograms: Vec<Histogram>,
    /// `None` where the distance between workers does not matter.
    placer: Option<Placer>,
}

impl<'s, W: Workload, E: Engine> Watching<'s, W, E> {
    fn new(shared: &'s Shared<W, E>, ledger: Ledger) -> Self {
        let settings = Settings { mode: shared.config.options.balance.mode, ..Settings::default() };
        let balancer = Balancer::new(settings).expect("the default settings fit each other");
        let islands = &shared.config.worker_islands;
        let placer =
            shared.watches_meetings().then(|| Placer::new(islands, shared.config.workers(), settings.settle));
        Watching { shared, ledger, balancer, version: 0, histograms: Vec::new(), placer }
    }

    fn watch(mut self, stopped: &Receiver<()>) {
        let period = Duration::from_millis(self.shared.config.options.balance.every_ms);
        while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
            let Some(loads) = self.gather() else { return };
            if let Err(error) = self.round(&loads) {
                world::tell(format_args!("atoll: balance: {}: {error}", self.shared.config.id));
            }
        }
    }

    /// `None` when a worker has ended.
    fn gather(&self) -> Option<Vec<Loads>> {
        let (reply, replies) = mpsc::channel();
        self.shared.order_all(|| WorkerOrder::Loads(reply.clone()));
        drop(reply);
        (0..self.shared.config.workers()).map(|_| replies.recv_timeout(PATIENCE).ok()).collect()
    }

    fn round(&mut self, loads: &[Loads]) -> Result<(), BalanceError> {
        let Some(owners) = self.shared.engine.owners() else { return Ok(()) };
        let ranges = owners.ranges();
        self.follow(&ranges);
        for worker in loads {
            for (site, &steps) in worker.steps.iter().enumerate().filter(|(_, steps)| **steps > 0) {
                self.histograms[ranges.index(site as u64)].add(site as u64, steps.into());
            }
        }
        let partitions = self.loads_of(&ranges, loads);
        self.histograms.iter_mut().for_each(Histogram::age);
        let decided_ns = world::now_ns();
        let decision = self.balancer.judge(&ranges, &partitions)?;
        let on = self.shared.config.options.balance.mode == Mode::On;
        if let BalanceVerdict::Repartition { plan, .. } = &decision.verdict {
            let outcome = on.then(|| carry_out(self.shared, &ranges, plan));
            self.enter(told(&decision), plan, outcome, decided_ns);
        } else if let Some(placer) = &mut self.placer {
            loads.iter().for_each(|worker| placer.met(&worker.met));
            let work: Vec<u64> = partitions.iter().map(PartitionLoad::load).collect();
            if let Some((to, why)) = placer.judge(&ranges, &work) {
                let plan = Plan::between(&ranges, &to)?;
                let outcome = on.then(|| carry_out(self.shared, &ranges, &plan));
                self.enter(why, &plan, outcome, decided_ns);
            }
        }
        Ok(())
    }

    /// Adapts the histograms to these partitions, keeping the counts of the old ones.
    fn follow(&mut self, ranges: &Ranges) {
        if self.version == ranges.version() && self.histograms.len() == ranges.len() {
            return;
        }
        let grain = Grain::default();
        let old = std::mem::take(&mut self.histograms);
        let made = ranges.partitions().map(|p| Histogram::successor(p.keys, grain, &old));
        self.histograms = made.collect::<Result<_, _>>().expect("partitions have keys");
        self.version = ranges.version();
    }

    /// The load of each partition. Its queue is that of its owner.
    fn loads_of(&self, ranges: &Ranges, workers: &[Loads]) -> Vec<PartitionLoad> {
        let queue = |owner: WorkerId| {
            let of = workers.iter().find(|loads| loads.worker == usize::from(owner.0));
            of.map_or(QueueLength::default(), |loads| loads.queue)
        };
        let owners = ranges.owners().iter();
        self.histograms.iter().zip(owners).map(|(h, &owner)| h.snapshot(0, queue(owner))).collect()
    }

    fn enter(
        &self,
        why: String,
        plan: &Plan,
        outcome: Option<Result<Carried, RepartitionError>>,
        decided_ns: u64,
    ) {
        let id = self.shared.config.id;
        world::tell(format_args!("atoll: balance: {id}: {why}"));
        let counts = plan.counts();
        let carried = outcome.as_ref().and_then(|done| done.as_ref().ok()).copied().unwrap_or_default();
        let outcome = match outcome {
            None => Rebalanced::Advised,
            Some(Ok(_)) => Rebalanced::Done,
            Some(Err(error)) => {
                world::tell(format_args!("atoll: balance: {id}: not carried out to its end: {error}"));
                Rebalanced::Refused(error.to_string())
            }
        };
        let moved = carried.moved;
        let entry = Rebalance {
            at_ns: decided_ns,
            instance: id.0,
            why,
            outcome,
            splits: counts.splits as u64,
            merges: counts.merges as u64,
            moves: counts.moves as u64,
            took_ns: world::now_ns() - decided_ns,
            shut_ns: carried.shut_ns,
            held: carried.held as u64,
            trees: carried.trees as u64,
            entries: (moved.leaf_entries + moved.inner_entries) as u64,
            pages_read: moved.pages_read as u64,
            pointers: moved.pointers as u64,
            rows: carried.rows.rows as u64,
            row_bytes: carried.rows.bytes as u64,
            addresses: (carried.rows.primary + carried.rows.secondary) as u64,
        };
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    }
}

/// The text of a decision without the number of the table, since one map serves all tables.
fn told(decision: &Decision) -> String {
    let told = decision.to_string();
    told.split_once(": ").map_or(told.as_str(), |(_, why)| why).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::TableId;

    fn ranges(workers: u16) -> Ranges {
        let owners: Vec<WorkerId> = (0..workers).map(WorkerId).collect();
        Ranges::equal(TableId(0), 100, workers.into(), &owners).unwrap()
    }

    #[test]
    fn what_is_no_partitioning_is_refused_with_what_is_wrong() {
        let now = ranges(2);
        let refused = |parts: &[(Range<u32>, usize)]| wanted(&now, parts, 2).unwrap_err().to_string();
        assert!(refused(&[(0..50, 0), (40..100, 1)]).contains("keys 40..50 are in two ranges"));
        assert!(refused(&[(0..50, 0), (60..100, 1)]).contains("keys 50..60 are in no range"));
        assert!(refused(&[(0..50, 0), (50..101, 1)]).contains("past its 100"));
        assert!(refused(&[(0..50, 0), (50..100, 2)]).contains("worker 2 of 2"));
        assert!(refused(&[(0..50, 0), (50..50, 1), (50..100, 1)]).contains("holds no key"));
        let many: Vec<_> = (0..101).map(|i| (i..i + 1, 0)).collect();
        assert!(refused(&many).contains("101 partitions for 100 keys"));
    }

    #[test]
    fn changes_of_one_worker_are_one_errand() {
        let now = ranges(3);
        let to = wanted(&now, &[(0..20, 0), (20..80, 1), (80..100, 2)], 3).unwrap();
        let plan = Plan::between(&now, &to).unwrap();
        let runs = runs(&now, &plan).unwrap();
        let told: Vec<_> =
            runs.iter().map(|(worker, gives, _, changes)| (*worker, *gives, changes.len())).collect();
        // The border between 0 and 1 goes down, that between 1 and 2 goes up. Both changes enlarge
        // worker 1, which then merges.
        assert_eq!(told, [(0, true, 1), (2, true, 1), (1, false, 2)]);
        // One partition fewer: its keys change owners before they are merged with the others.
        let to = wanted(&now, &[(0..33, 1), (33..66, 1), (66..100, 2)], 3).unwrap();
        let whole = Plan {
            changes: vec![RangeChange::Merge { at: 33, owner: WorkerId(1) }],
            ..Plan::between(&now, &to).unwrap()
        };
        let told: Vec<_> = super::runs(&now, &whole)
            .unwrap()
            .into_iter()
            .map(|(worker, gives, ..)| (worker, gives))
            .collect();
        assert_eq!(told, [(0, true), (1, false)]);
    }
}
