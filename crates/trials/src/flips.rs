//! Flipped bits in the files of a database that does not run. Each must be reported when the
//! database is opened and checked, or have no visible effect.

use crate::crash::open_and_settle;
use crate::ledger::{Flaw, Ledger, Promise};
use crate::store_run::{Mix, StoreRun};
use crate::table::DIR;
use crate::{table, unwound};
use fastrand::Rng;
use latch::Coupled;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use store::{Store, Txn};
use txn::TableKind;
use wal::Durability;
use world::sim::Disk;

/// A database to damage.
struct Victim {
    name: &'static str,
    kind: TableKind,
    disk: Disk,
    ledger: Ledger,
    /// Its files, and in each the positions of bytes that are not zero.
    files: Vec<(PathBuf, u64, Vec<u64>)>,
}

/// Of each kind a database that was closed, and one that was killed and has all its work in the
/// log.
fn victims(kinds: &[TableKind]) -> Result<Vec<Victim>, Flaw> {
    let mut victims = Vec::new();
    for &kind in kinds {
        victims.push(victim("closed", kind, 1, true)?);
        victims.push(victim("killed", kind, 2, false)?);
    }
    Ok(victims)
}

fn victim(name: &'static str, kind: TableKind, seed: u64, closes: bool) -> Result<Victim, Flaw> {
    let disk = Disk::new();
    let options = table::options_of(kind, Durability::Sync, 1024);
    let (store, _) = Store::open(disk.files(), Path::new(DIR), options).map_err(Flaw::Refused)?;
    store.create(&table::schema_of(kind))?;
    let mut ledger = Ledger::default();
    let mix = Mix { keys: 200, commits: 150, wait_one_in: 2 };
    let mut run = StoreRun::new((&store, &disk), &mut ledger, BTreeMap::new(), (seed, mix));
    run.run()?;
    run.finish()?;
    drop(run);
    if closes {
        store.close()?;
    } else {
        // The last record of a cut log cannot be distinguished from a torn one. With one more
        // record behind them, all promised records can.
        unfinished(&store)?;
    }
    let disk = disk.killed();
    let files = disk.paths().into_iter().filter(|(_, bytes)| *bytes > 0).map(|(path, bytes)| {
        let content = disk.bytes(&path).unwrap_or_default();
        let used = (0..bytes).filter(|at| content[*at as usize] != 0).collect();
        (path, bytes, used)
    });
    let files = files.collect();
    Ok(Victim { name, kind, disk, ledger, files })
}

fn unfinished(store: &Store) -> Result<(), Flaw> {
    let mut txn = Txn::default();
    store.begin(&mut txn, 0);
    if let Some(history) = store.table(table::HISTORY) {
        let row = table::history_row(i64::MAX);
        table::insist(store, || store.append::<Coupled>(&mut txn, history, &row))?;
    }
    let end = store.log().end();
    Ok(store.log().wait_durable(end).map_err(store::StoreFault::from)?)
}

/// The results of the flips.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Reported at opening or checking.
    pub detected: u64,
    /// All data as it was.
    pub harmless: u64,
    /// Flips by the file they were in, without its number.
    pub files: BTreeMap<String, u64>,
    /// Neither: the position, and the difference.
    pub silent: Vec<(String, Flaw)>,
}

/// Flips `flips` bits, one at a time, in databases with tables of these kinds; half of the flips
/// hit bytes that are not zero.
///
/// # Errors
/// A flaw before any damage was done.
pub fn campaign(kinds: &[TableKind], flips: u64, seed: u64) -> Result<Outcome, Flaw> {
    let mut outcome = Outcome::default();
    let victims = victims(kinds)?;
    let mut random = Rng::with_seed(seed);
    for n in 0..flips {
        let victim = &victims[n as usize % victims.len()];
        let (path, bytes, used) = &victim.files[random.usize(..victim.files.len())];
        let byte = match random.choice(used) {
            Some(byte) if random.bool() => *byte,
            _ => random.u64(..*bytes),
        };
        let bit = random.u32(..8);
        let disk = victim.disk.killed();
        disk.flip(path, byte, bit);
        let everything = Promise::Acknowledged(usize::MAX);
        let opened =
            unwound(|| open_and_settle(&disk, &victim.ledger, everything, (victim.kind, Durability::Sync)));
        let file = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let kind = file.trim_end_matches(|c: char| c.is_ascii_hexdigit()).to_owned();
        *outcome.files.entry(if kind.is_empty() { file } else { kind }).or_default() += 1;
        match opened {
            Ok(_) => outcome.harmless += 1,
            Err(Flaw::Refused(_) | Flaw::Fault(_)) => outcome.detected += 1,
            Err(flaw) => {
                let place = format!(
                    "{} ({}): {}, byte {byte}, bit {bit}",
                    victim.name,
                    victim.kind.name(),
                    path.display()
                );
                outcome.silent.push((place, flaw));
            }
        }
    }
    Ok(outcome)
}
