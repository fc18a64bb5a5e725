//! SQLite's method: each I/O operation of a small workload fails, at position 1, 2, 3, ..., once or
//! for ever.
//!
//! On any failure, the process must not panic, an error must name a file, and acknowledged
//! transactions must survive. That is checked in three cases: the next process on the same kernel
//! (its cache still shows data that a failed sync never brought to the device); after that process
//! has gone on working; and after a power cut.

use crate::crash::open_and_settle;
use crate::ledger::{Flaw, Ledger, Promise};
use crate::store_run::{Mix, StoreRun};
use crate::table::DIR;
use crate::{table, unwound};
use std::collections::BTreeMap;
use std::path::Path;
use store::{Store, StoreFault};
use txn::TableKind;
use wal::Durability;
use world::sim::{Disk, Lasts, Operation, Plan, Trouble};

/// A small workload: its initial state and its parameters.
#[derive(Clone)]
pub struct Script {
    pub name: &'static str,
    /// Where the rows lie.
    pub kind: TableKind,
    disk: Disk,
    ledger: Ledger,
    durability: Durability,
    frames: usize,
    mix: Mix,
    seed: u64,
}

/// The three scripts, over tables of this kind: a new database; one with more data than the pool
/// holds; a restart with work to do.
///
/// # Errors
/// A flaw while the initial state of the last one was made, without any failure.
pub fn scripts(kind: TableKind) -> Result<[Script; 3], Flaw> {
    let mix = Mix { keys: 60, commits: 12, wait_one_in: 2 };
    let (disk, ledger) = (Disk::new(), Ledger::default());
    let durability = Durability::Sync;
    let new = Script { name: "new", kind, disk, ledger, durability, frames: 64, mix, seed: 1 };
    let large = Mix { keys: 400, commits: 40, wait_one_in: 3 };
    let disk = Disk::new();
    let evicts = Script { name: "evicts", disk, frames: 24, mix: large, seed: 2, ..new.clone() };
    // Stopped in the middle: transactions running, others in doubt, pages half written.
    let mut before = evicts.start();
    let recorded = before.disk.clone().recording();
    before.live(&recorded)?;
    let tape = recorded.tape();
    let mut player = tape.player();
    player.go_to(tape.len() * 2 / 3);
    let (disk, promise) = (player.crash_image(5), Promise::Acknowledged(player.position()));
    let ledger = open_and_settle(&disk.killed(), &before.ledger, promise, (kind, durability))?;
    let restarts = Script { name: "restarts", disk, ledger, frames: 32, seed: 3, ..evicts.clone() };
    Ok([new, evicts, restarts])
}

impl Script {
    /// The script with a copy of its disk.
    fn start(&self) -> Script {
        Script { disk: self.disk.killed(), ..self.clone() }
    }

    /// Opens, works, checkpoints and closes. On an error the ledger holds the promises made until
    /// then.
    fn live(&mut self, disk: &Disk) -> Result<(), Flaw> {
        let options = table::options_of(self.kind, self.durability, self.frames);
        let (store, recovered) = Store::open(disk.files(), Path::new(DIR), options).map_err(Flaw::Refused)?;
        store.create(&table::schema_of(self.kind))?;
        let settled = self.ledger.settle(&store, recovered, Promise::Acknowledged(usize::MAX))?;
        self.ledger = settled.ledger;
        let mut run =
            StoreRun::new((&store, disk), &mut self.ledger, settled.in_doubt, (self.seed, self.mix));
        run.run()?;
        drop(run);
        store.checkpoint()?;
        Ok(store.close()?)
    }

    /// Operations of one life in which nothing fails.
    ///
    /// # Errors
    /// A flaw, although nothing fails.
    pub fn operations(&self) -> Result<u64, Flaw> {
        let mut script = self.start();
        let disk = script.disk.clone();
        script.live(&disk)?;
        Ok(disk.operations())
    }

    /// One life with a failure, and its consequences; returns how the life ended.
    ///
    /// # Errors
    /// The promise that was broken.
    pub fn with(&self, plan: Plan) -> Result<Ended, Flaw> {
        let mut script = self.start();
        let disk = script.disk.clone();
        disk.plan(plan);
        let lived = unwound(|| script.live(&disk));
        let struck = disk.struck() > 0;
        let ended = match lived {
            Ok(()) if struck => Ended::Unharmed,
            Ok(()) => Ended::Untouched,
            Err(flaw) => told(flaw, struck)?,
        };
        disk.heal();
        let everything = Promise::Acknowledged(usize::MAX);
        for draw in 0..2 {
            let image = disk.crash_image(draw);
            open_and_settle(&image, &script.ledger, everything, (self.kind, self.durability))?;
        }
        script.go_on(&disk)?;
        Ok(ended)
    }

    /// The next process on the same kernel: it finds everything, goes on, and its promises survive
    /// a power cut.
    fn go_on(&mut self, disk: &Disk) -> Result<(), Flaw> {
        self.seed += 100;
        self.mix.commits = 3;
        let disk = disk.clone().recording();
        self.live(&disk)?;
        for draw in 0..2 {
            let image = disk.crash_image(draw);
            let promise = Promise::Acknowledged(usize::MAX);
            open_and_settle(&image, &self.ledger, promise, (self.kind, self.durability))?;
        }
        Ok(())
    }
}

/// How a life with a failure ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Ended {
    /// The failure did not happen: the life was over before.
    Untouched,
    /// It happened, and the life went on to its end.
    Unharmed,
    /// The database did not open.
    Refused,
    /// The store stopped.
    Stopped,
}

/// An error is acceptable if it names a file and no promise is broken.
fn told(flaw: Flaw, struck: bool) -> Result<Ended, Flaw> {
    let text = flaw.to_string();
    let ended = match &flaw {
        Flaw::Refused(_) => Ended::Refused,
        // A check that could not read a page uses the same words as a check that found damage.
        Flaw::Fault(StoreFault::Broken { what, .. }) if !what.contains("(simulated)") => return Err(flaw),
        Flaw::Fault(_) => Ended::Stopped,
        _ => return Err(flaw),
    };
    match (struck, text.contains(DIR)) {
        (true, true) => Ok(ended),
        (true, false) => Err(Flaw::Other(format!("an error that names no file: {text}"))),
        (false, _) => Err(Flaw::Other(format!("nothing failed, and yet: {text}"))),
    }
}

/// The result of a campaign.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Lives with a failure, by how they ended.
    pub ended: BTreeMap<Ended, u64>,
    /// Each with the script and the plan.
    pub failures: Vec<(String, Flaw)>,
}

/// Every failure of every script over tables of these kinds, at each `stride`-th position from a
/// first one that `seed` draws.
///
/// # Errors
/// A flaw before anything failed.
pub fn campaign(kinds: &[TableKind], stride: u64, seed: u64) -> Result<Outcome, Flaw> {
    let mut outcome = Outcome::default();
    let mut all = Vec::new();
    for &kind in kinds {
        all.extend(scripts(kind)?);
    }
    for script in all {
        let operations = script.operations().map_err(|e| Flaw::Other(format!("{}: {e}", script.name)))?;
        for trouble in [Trouble::Error, Trouble::Full, Trouble::Short] {
            for lasts in [Lasts::Once, Lasts::Forever] {
                for at in (1 + seed % stride..=operations).step_by(stride as usize) {
                    outcome.add(&script, Plan { trouble, lasts, at, only: None });
                }
            }
        }
        for at in (1 + seed % stride..=operations).step_by(4 * stride as usize) {
            for only in [Operation::Sync, Operation::SyncFolder] {
                outcome
                    .add(&script, Plan { trouble: Trouble::Error, lasts: Lasts::Once, at, only: Some(only) });
            }
        }
    }
    Ok(outcome)
}

impl Outcome {
    fn add(&mut self, script: &Script, plan: Plan) {
        match script.with(plan) {
            Ok(ended) => *self.ended.entry(ended).or_default() += 1,
            Err(flaw) => self
                .failures
                .push((format!("script {} ({}), {plan:?}", script.name, script.kind.name()), flaw)),
        }
    }
}
