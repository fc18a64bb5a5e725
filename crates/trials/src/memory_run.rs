//! Lives of the engine in main memory (`occ`) on a simulated disk, and the checks of its openings.
//!
//! The engine does not decide transactions in doubt. Each opening here decides them as their home
//! would: commit if the number is even. If a cut loses a decision, the next opening makes it again,
//! the same way.

use crate::engine_run::{self, Mix};
use crate::ledger::{Commit, Flaw, Found, Ledger, Promise};
use crate::table::{self, ACCOUNTS, DIR, HISTORY, NAME, SCORE};
use crate::unwound;
use exec::{
    DesignKind, Engine, EngineFault, EngineOptions, Executor, Maintenance, MemoryEngine, OccConflict,
    Protection, Setup, SiteRange,
};
use locks::LockTuning;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use txn::{Abort, Access, Direction, Flow, Range};
use wal::Durability;
use world::Files;
use world::sim::{Disk, Lasts, Operation, Plan, Trouble};

/// Memory of an engine, in pages: more than all rows of a trial take.
const PAGES: usize = 4096;

/// Two workers; a transaction that meets the row of one left in doubt gives up soon.
fn setup(dir: &Path, durability: Durability, conflict: OccConflict) -> Setup {
    Setup {
        design: DesignKind::Occ,
        dir: dir.into(),
        durability,
        pool_pages: PAGES,
        workers: 2,
        options: EngineOptions {
            locks: LockTuning::PLAIN,
            lock_timeout_ms: 2,
            occ_conflict: conflict,
            ..EngineOptions::of(DesignKind::Occ)
        },
        schema: table::schema(),
        site_range: SiteRange::whole(),
    }
}

/// An open engine, and its transactions in doubt.
pub struct Opened {
    pub engine: Arc<MemoryEngine>,
    in_doubt: BTreeMap<i64, <MemoryEngine as Engine>::InDoubt>,
}

/// The decision of the home for a transaction in doubt.
fn commits(number: i64) -> bool {
    number % 2 == 0
}

/// Opens the engine on these files, with small log files and frequent checkpoints.
///
/// # Errors
/// The engine's fault.
pub fn open(files: Arc<dyn Files>, durability: Durability, seed: u64) -> Result<Opened, Flaw> {
    open_in((files, Path::new(DIR)), durability, seed)
}

/// As [`open`], in a folder of the caller's choice.
///
/// # Errors
/// The engine's fault.
pub fn open_in(
    (files, dir): (Arc<dyn Files>, &Path),
    durability: Durability,
    seed: u64,
) -> Result<Opened, Flaw> {
    let conflict = OccConflict::ALL[seed as usize % 2];
    let (engine, recovered) = MemoryEngine::open_on(files, &setup(dir, durability, conflict), |log| {
        (log.segment_bytes, log.checkpoint_bytes) = (1 << 16, 1 << 15);
        log.leisure = Duration::from_micros(200);
        log.threads = 1;
    })?;
    let mut in_doubt = BTreeMap::new();
    for (note, doubt) in recovered.in_doubt {
        let number = note.as_slice().try_into().map(i64::from_le_bytes);
        in_doubt.insert(number.map_err(|_| Flaw::Other("a note is garbled".into()))?, doubt);
    }
    Ok(Opened { engine: Arc::new(engine), in_doubt })
}

/// The result of a future that has nothing to wait for.
fn at_once<T>(future: impl Future<Output = Result<T, Abort>>) -> Result<T, Flaw> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done.map_err(|abort| Flaw::Other(format!("an abort: {}", abort.name()))),
        Poll::Pending => Err(Flaw::Other("a row is locked, and no transaction holds it".into())),
    }
}

impl Opened {
    /// Ends the transactions in doubt and compares the rows with the promises. Returns the ledger
    /// for the next life, and for each transaction that was in doubt the position at which its
    /// decision is durable.
    ///
    /// # Errors
    /// The first promise that is broken.
    pub fn settle(
        &mut self,
        before: &Ledger,
        promise: Promise,
    ) -> Result<(Ledger, BTreeMap<i64, base::Lsn>), Flaw> {
        let engine = &self.engine;
        let ctx = engine.worker_context(0, Arc::new(|| {}));
        let (mut doubts, mut ends) = (BTreeMap::new(), BTreeMap::new());
        for (number, doubt) in std::mem::take(&mut self.in_doubt) {
            let mut txn = engine.adopt(&ctx, doubt);
            let ended = match commits(number) {
                true => engine.commit(&ctx, &mut txn),
                false => engine.rollback(&ctx, &mut txn).map(|()| base::Lsn(0)),
            };
            let lsn = ended.map_err(|abort| Flaw::Other(format!("a decision: {}", abort.name())))?;
            doubts.insert(number, None);
            ends.insert(number, lsn);
        }
        let executor = Executor::new(Arc::new(|| {}));
        let mut txn = engine.local_txn(&ctx);
        engine.begin(&ctx, &mut txn, Protection::Exclusive);
        let mut access = engine.access(&ctx, &executor, &mut txn);
        let (mut accounts, mut history) = (table::Rows::new(), Vec::new());
        at_once(access.scan(ACCOUNTS, Range::ALL, Direction::Forward, |key, row| {
            let value = (row.int(SCORE), row.text(NAME).to_owned());
            accounts.insert(table::id_of(key).unwrap_or(-1), value);
            Flow::More
        }))?;
        at_once(access.scan(HISTORY, Range::ALL, Direction::Forward, |_, row| {
            history.push(row.int(0));
            Flow::More
        }))?;
        let _ = engine.rollback(&ctx, &mut txn);
        history.retain(|number| !doubts.contains_key(number));
        history.sort_unstable();
        let shown: BTreeSet<i64> = doubts.keys().copied().filter(|n| commits(*n)).collect();
        drop(ctx);
        if let Some((table, what)) = engine.check(&mut |_, _, _| {}).wrong.first() {
            return Err(Flaw::Differs(format!("table {}: {what}", table.0)));
        }
        let known = decided(before, &doubts, &history);
        let ledger = known.compare(&Found { doubts, history, accounts, shown }, promise)?;
        Ok((ledger, ends))
    }

    /// Drops the engine without closing it, once no other thread holds it: a checkpoint's own
    /// thread may hold it for a moment longer.
    pub fn leave(self) {
        while Arc::strong_count(&self.engine) > 1 {
            std::thread::yield_now();
        }
    }

    /// Writes everything, and closes the engine.
    fn close(self) -> Result<(), EngineFault> {
        let mut engine = self.engine;
        loop {
            // A checkpoint's own thread may hold it for a moment longer.
            match Arc::try_unwrap(engine) {
                Ok(engine) => return engine.close(),
                Err(busy) => engine = busy,
            }
            std::thread::yield_now();
        }
    }
}

/// A transaction that was in doubt at an opening that was cut may have been decided by then.
fn decided(before: &Ledger, doubts: &BTreeMap<i64, Option<BTreeSet<i64>>>, history: &[i64]) -> Ledger {
    let mut known = before.clone();
    let ended = before.prepared.iter().filter(|(number, _)| !doubts.contains_key(number));
    for (&number, prepare) in ended {
        let is_known = before.commits.iter().any(|commit| commit.number == number);
        if commits(number) && !is_known && history.binary_search(&number).is_ok() {
            let (changes, appended) = (prepare.changes.clone(), usize::MAX);
            let commit = Commit { number, lsn: base::Lsn(0), changes, appended, acknowledged: None };
            known.commits.push(commit);
        }
        if !commits(number) {
            known.prepared.entry(number).and_modify(|p| p.rolled_back = p.rolled_back.or(Some(0)));
        }
    }
    known
}

/// Opens the database on `disk` and compares it with the ledger; returns the ledger for the next
/// life.
///
/// # Errors
/// The promise that is broken.
pub fn open_and_settle(
    disk: &Disk,
    ledger: &Ledger,
    promise: Promise,
    durability: Durability,
) -> Result<Ledger, Flaw> {
    Ok(open(disk.files(), durability, 0)?.settle(ledger, promise)?.0)
}

/// One process: opens, ends the transactions in doubt, works, and stops in the middle of its work.
///
/// # Errors
/// The promise that an opening did not keep, or the fault.
pub fn live(
    (files, disk): (Arc<dyn Files>, &Disk),
    before: &Ledger,
    promise: Promise,
    (durability, mix): (Durability, Mix),
) -> Result<Ledger, Flaw> {
    let mut ledger = before.clone();
    work((files, disk), &mut ledger, promise, (durability, mix)).map(|_| ledger)
}

/// As [`live`]. On an error the ledger holds the promises made until then.
///
/// # Errors
/// As [`live`].
pub fn work(
    (files, disk): (Arc<dyn Files>, &Disk),
    ledger: &mut Ledger,
    promise: Promise,
    (durability, mix): (Durability, Mix),
) -> Result<Opened, Flaw> {
    let begun = disk.changes();
    let mut opened = open(files, durability, mix.seed)?;
    let (settled, ends) = opened.settle(ledger, promise)?;
    *ledger = settled;
    for (number, lsn) in ends {
        let Some(prepare) = ledger.prepared.get_mut(&number) else { continue };
        if commits(number) {
            let (changes, appended) = (prepare.changes.clone(), disk.changes());
            ledger.commits.push(Commit { number, lsn, changes, appended, acknowledged: None });
        } else {
            prepare.rolled_back = Some(begun);
        }
    }
    *ledger = engine_run::run_on(&opened.engine, disk, std::mem::take(ledger), mix);
    match opened.engine.fault() {
        Some(fault) => {
            opened.leave();
            Err(Flaw::Stopped(fault))
        }
        None => Ok(opened),
    }
}

/// The results of lives with a failing device.
#[derive(Debug, Default)]
pub struct Failing {
    /// `unharmed`: the failure did not happen, or had no effect. `stopped`: the engine stopped or
    /// did not open, and reported why.
    pub unharmed: u64,
    pub stopped: u64,
    pub failures: Vec<(String, Flaw)>,
}

/// A small life: works, writes a checkpoint, closes.
fn small(disk: &Disk, ledger: &mut Ledger, seed: u64) -> Result<(), Flaw> {
    let crew = crate::workers::Crew { workers: 2, clients: 2 };
    let mix = Mix { crew, keys: 60, commits: 12, prepares: 2, seed };
    let everything = Promise::Acknowledged(usize::MAX);
    let opened = work((disk.files(), disk), ledger, everything, (Durability::Sync, mix))?;
    opened.engine.checkpoint()?;
    Ok(opened.close()?)
}

/// One life in which an operation fails, and its consequences: two power cuts, and the next process
/// on the same kernel.
fn fail_once(plan: Plan) -> Result<bool, Flaw> {
    let (disk, mut ledger) = (Disk::new(), Ledger::default());
    small(&disk, &mut ledger, 1)?;
    disk.plan(Plan { at: disk.operations() + plan.at, ..plan });
    let lived = unwound(|| small(&disk, &mut ledger, 2));
    let struck = disk.struck() > 0;
    if let Err(flaw) = &lived {
        let text = flaw.to_string();
        let is_told = matches!(flaw, Flaw::Engine(_) | Flaw::Stopped(_)) && text.contains(DIR);
        if !struck || !is_told {
            return Err(Flaw::Other(format!("struck: {struck}; told: {text}")));
        }
    }
    disk.heal();
    let everything = Promise::Acknowledged(usize::MAX);
    for draw in 0..2 {
        open_and_settle(&disk.crash_image(draw), &ledger, everything, Durability::Sync)?;
    }
    small(&disk, &mut ledger, 3)?;
    open_and_settle(&disk.crash_image(2), &ledger, everything, Durability::Sync)?;
    Ok(lived.is_err())
}

/// Every failure of such a life, at each `stride`-th position from one that `seed` draws.
///
/// # Errors
/// A flaw before anything failed.
pub fn faults(stride: u64, seed: u64) -> Result<Failing, Flaw> {
    let (disk, mut ledger) = (Disk::new(), Ledger::default());
    small(&disk, &mut ledger, 1)?;
    let before = disk.operations();
    small(&disk, &mut ledger, 2)?;
    let operations = disk.operations() - before;
    let mut all = Vec::new();
    for at in (1 + seed % stride..=operations).step_by(stride as usize) {
        for trouble in [Trouble::Error, Trouble::Full, Trouble::Short] {
            for lasts in [Lasts::Once, Lasts::Forever] {
                all.push(Plan { trouble, lasts, at, only: None });
            }
        }
        all.push(Plan { trouble: Trouble::Error, lasts: Lasts::Once, at, only: Some(Operation::Sync) });
    }
    let mut failing = Failing::default();
    for plan in all {
        match fail_once(plan) {
            Ok(true) => failing.stopped += 1,
            Ok(false) => failing.unharmed += 1,
            Err(flaw) => failing.failures.push((format!("{plan:?}"), flaw)),
        }
    }
    Ok(failing)
}
