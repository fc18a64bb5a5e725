//! The databases of a sweep without `--data`: data that several deployments start from is loaded
//! once.
//!
//! Each shared database lies in a directory below a temporary one. Deployments run on copies of it;
//! the last one runs in the directory itself, which is removed after that deployment. A database
//! with a single user is not kept here, nor is one with durability `memory`.

use crate::failure::Failure;
use crate::stop::{Stop, bases};
use deploy::engine::Durability;
use deploy::{DataUse, Scratch};
use std::path::PathBuf;

/// How often a stop of the sweep needs freshly loaded data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reload {
    /// All mixes run one after the other on one load.
    Never,
    /// Each mix needs its own.
    EachMix,
}

impl Reload {
    /// The number of launches of a stop with this many mixes.
    fn launches(self, mixes: usize) -> usize {
        match self {
            Reload::Never => 1,
            Reload::EachMix => mixes,
        }
    }
}

/// A log in memory starts with an empty database: see [`DataUse::Copy`]. On other machines no
/// copies are made.
fn copies(stop: &Stop) -> bool {
    stop.deployment.durability != Durability::Memory && stop.deployment.machines.is_none()
}

pub struct Shelf {
    reload: Reload,
    scratch: Option<Scratch>,
    /// The database of each stop.
    bases: Vec<usize>,
    /// The remaining launches of each database.
    left: Vec<usize>,
    /// The directory that the previous deployment has left, which no later deployment needs.
    done: Option<PathBuf>,
}

impl Shelf {
    /// # Errors
    /// No temporary directory can be made.
    pub fn of(stops: &[Stop], reload: Reload) -> Result<Shelf, Failure> {
        let bases = bases(stops)?;
        let mut left = vec![0; bases.len()];
        for (stop, &base) in stops.iter().zip(&bases).filter(|(stop, _)| copies(stop)) {
            left[base] += reload.launches(stop.mixes.len());
        }
        let shares = left.iter().any(|n| *n > 1) && stops.iter().any(|s| s.deployment.data.is_none());
        let scratch = shares.then(Scratch::new).transpose()?;
        Ok(Shelf { reload, scratch, bases, left, done: None })
    }

    /// Tells stop `i`, which is about to be launched, the directory of its database.
    ///
    /// # Errors
    /// A directory that is not needed any more cannot be removed.
    pub fn lend(&mut self, i: usize, stop: &mut Stop) -> Result<(), Failure> {
        if let Some(path) = self.done.take().filter(|path| path.exists()) {
            std::fs::remove_dir_all(&path)
                .map_err(|e| Failure::Run(format!("cannot remove {}: {e}", path.display())))?;
        }
        let copies = copies(stop);
        let (base, mixes, d) = (self.bases[i], stop.mixes.len(), &mut stop.deployment);
        let (Some(scratch), None, true) = (&self.scratch, &d.data, copies) else { return Ok(()) };
        let (path, launches) = (scratch.path().join(base.to_string()), self.reload.launches(mixes));
        self.left[base] -= launches;
        let (loaded, last) = (path.exists(), self.left[base] == 0);
        if last && launches == 1 && !loaded {
            return Ok(()); // No other launch shares it.
        }
        d.data_use = if last && launches == 1 { DataUse::Spend } else { DataUse::Copy };
        self.done = last.then(|| path.clone());
        d.data = Some(path);
        Ok(())
    }
}
