//! Histories of a whole instance with workers that own keys: the requests and results of its
//! clients, recorded while procedures send steps from owner to owner, scans are spread over all of
//! them, and keys move between them. The judge is that of [`crate::histories`].

use crate::histories::{HistoryVerdict, Plan, Recorder, judge};
use crate::lists::{Lists, SLOTS};
use exec::{DesignKind, Refusal};
use fastrand::Rng;
use instance::{Instance, InstanceConfig, InstanceFault, RepartitionError};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use txn::{Placement, Workload};

/// After this time without a commit a history is judged as it is.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether keys move between owners during the history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keys {
    Stay,
    Move,
}

/// Records a history of an instance under a design, with its data in `dir`, and has it judged.
///
/// # Errors
/// The instance does not start, or does not end as it should.
pub fn deployed(
    design: DesignKind,
    plan: Plan,
    keys: Keys,
    dir: &Path,
) -> Result<HistoryVerdict, InstanceFault> {
    let recorder = Arc::new(Recorder::default());
    let lists = Lists {
        recorder: Arc::clone(&recorder),
        committed: Arc::default(),
        rollback_one_in: plan.rollback_one_in,
    };
    let committed = Arc::clone(&lists.committed);
    let config = InstanceConfig {
        durability: plan.durability,
        cpus: vec![None; plan.crew.workers],
        pool_pages: 2048,
        spin_us: 5,
        ..InstanceConfig::new(dir.to_owned(), Placement::even(SLOTS as u32, 1), design)
    }
    .with(|o| (o.tables, o.lock_timeout_ms) = (plan.kind, 1000));
    let instance = Instance::start(lists, config)?;
    instance.load(&|_, _| {})?;
    instance.drive(plan.crew.clients, plan.seed << 32);
    let mut random = Rng::with_seed(plan.seed);
    until(&committed, plan.transactions, || match keys {
        Keys::Move => move_keys(&instance, SLOTS as u32, plan.crew.workers, &mut random),
        Keys::Stay => Ok(()),
    })?;
    instance.halt()?;
    instance.stop()?;
    Ok(judge(&recorder.history()))
}

/// Waits until that many transactions have committed, or none commits for [`PATIENCE`]. `meanwhile`
/// runs every few milliseconds.
pub(crate) fn until(
    committed: &AtomicUsize,
    transactions: usize,
    mut meanwhile: impl FnMut() -> Result<(), InstanceFault>,
) -> Result<(), InstanceFault> {
    let mut last = (0, Instant::now());
    while last.0 < transactions && last.1.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
        meanwhile()?;
        let now = committed.load(Ordering::Relaxed);
        last = if now > last.0 { (now, Instant::now()) } else { last };
    }
    Ok(())
}

/// Draws other borders between the owners of an instance with all `sites`.
pub(crate) fn move_keys<W: Workload>(
    instance: &Instance<W>,
    sites: u32,
    workers: usize,
    random: &mut Rng,
) -> Result<(), InstanceFault> {
    let mut starts: Vec<u32> = (1..sites).collect();
    random.shuffle(&mut starts);
    starts.truncate(workers - 1);
    starts.push(0);
    starts.sort_unstable();
    let ends = starts.iter().skip(1).copied().chain([sites]);
    let parts: Vec<_> =
        starts.iter().zip(ends).enumerate().map(|(w, (start, end))| (*start..end, w)).collect();
    match instance.repartition(&parts) {
        // An owner may not become idle in time.
        Ok(_) | Err(RepartitionError::Refused(Refusal::Busy { .. })) => Ok(()),
        Err(error) => Err(InstanceFault::Worker(error.to_string())),
    }
}
