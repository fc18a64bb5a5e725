//! A copy of a database that follows the logs of its islands at a relay, for base copies: nothing
//! runs on it, and the machine that serves the database is not asked.

use crate::DeployError;
use crate::home::look;
use crate::layout::{Standing, no_database, standing};
use crate::lock::{self, Lock};
use crate::manifest::{self, MEMORY, Manifest, read};
use crate::partial::{Form, Partial};
use crate::whole::judge;
use base::InstanceId;
use relay::files::{self, Followed, Part};
use relay::{Signs, Tape};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use world::FolderLock;

/// How long a relay may give no answer, in all.
const PATIENCE: Duration = Duration::from_secs(30);

/// A locked copy of a database.
pub struct Follower {
    dir: PathBuf,
    manifest: Manifest,
    description: String,
    _lock: Lock,
    /// Of the islands: agents lock no database.
    _islands: Vec<FolderLock>,
}

/// How far a folder has the log of its island.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Of the log, drawn when it began.
    pub stream: u64,
    pub term: u64,
    pub counted: u64,
    /// The first position that the folder does not have.
    pub next: u64,
}

impl Follower {
    /// Locks the database in `dir`, or those of its islands that are there.
    ///
    /// # Errors
    /// No database, one that is in use, or one that is not complete.
    pub fn open(dir: &Path) -> Result<Follower, DeployError> {
        match standing(dir)? {
            Standing::Database(_) => {}
            other => return Err(no_database(dir, other)),
        }
        drop(look(dir)?);
        let lock = lock::exclusive(dir)?;
        let Some(mut contents) = read(dir)? else { return Err(DeployError::NoDatabase { path: dir.into() }) };
        // The count lacks all that the log brings.
        contents.effects = None;
        let description = contents.to_text();
        let manifest = contents.manifest;
        let mut follower =
            Follower { dir: dir.into(), manifest, description, _lock: lock, _islands: Vec::new() };
        let there = follower.islands();
        if there.len() == usize::from(follower.manifest.islands) {
            judge(dir, &follower.manifest, contents.identity.as_ref()).or_refuse(dir)?;
        }
        for island in there {
            let path = follower.folder(island).join(manifest::LOCK);
            let locked = world::real().lock(&path);
            follower._islands.push(locked.map_err(DeployError::io("lock", &path))?);
        }
        Ok(follower)
    }

    /// Those that are there, ascending.
    pub fn islands(&self) -> Vec<InstanceId> {
        let all = (0..self.manifest.islands).map(InstanceId);
        all.filter(|island| self.folder(*island).is_dir()).collect()
    }

    pub fn folder(&self, island: InstanceId) -> PathBuf {
        self.dir.join(island.to_string())
    }

    /// The database in words.
    pub fn data(&self) -> &str {
        &self.manifest.data
    }

    /// The description of the database, as a copy of it has it.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// How far the folder of an island has its log; `None` if it follows none.
    ///
    /// # Errors
    /// Its mark is damaged.
    pub fn reach(&self, island: InstanceId) -> Result<Option<Reach>, String> {
        let mark =
            files::mark_of(&*world::real(), &self.folder(island)).map_err(|fault| fault.to_string())?;
        Ok(mark.map(|(stream, place)| Reach {
            stream,
            term: place.term.0,
            counted: place.counted,
            next: place.next,
        }))
    }

    /// Brings the folder of an island to the end of its log. `known` is what earlier calls told of
    /// the owner.
    ///
    /// # Errors
    /// The log cannot be read, has lost entries, is another one, or begins behind the folder's
    /// end of it.
    pub fn follow(&self, island: InstanceId, log: &LogAtRelay, known: Signs) -> Result<Followed, String> {
        let part = if self.manifest.family == MEMORY { Part::All } else { Part::Log };
        let (folder, log) = (self.folder(island), (&*log.tape, known));
        let followed = files::follow(world::real(), &folder, log, part, PATIENCE);
        followed.map_err(|fault| fault.to_string())
    }
}

/// The log of an island at a relay, for a reader that is not its owner.
pub struct LogAtRelay {
    tape: Arc<dyn Tape>,
}

impl LogAtRelay {
    /// # Errors
    /// The relay cannot be reached, or this build has no client for it.
    pub fn open(address: &str, name: &str) -> Result<LogAtRelay, String> {
        let address: relay::Address = address.parse()?;
        let tape = address.open(name).map_err(|fault| fault.to_string())?;
        Ok(LogAtRelay { tape })
    }

    /// Appends a milestone, at which the log may begin later. `note` says where base copies are.
    ///
    /// # Errors
    /// The log is empty, or takes no entry.
    pub fn milestone(&self, note: &str) -> Result<u64, String> {
        files::milestone(&*self.tape, note, PATIENCE).map_err(|fault| fault.to_string())
    }

    /// The position at which the log begins.
    ///
    /// # Errors
    /// No answer.
    pub fn begins(&self) -> Result<u64, String> {
        self.tape.range().map(|(first, _)| first).map_err(|trouble| trouble.to_string())
    }

    /// Removes all before the milestone at this position. Returns the number of positions
    /// that are gone.
    ///
    /// # Errors
    /// There is no milestone, or the relay does not remove.
    pub fn trim(&self, to: u64, note: &str) -> Result<u64, String> {
        files::trim(&*self.tape, to, note, PATIENCE).map_err(|fault| fault.to_string())
    }
}

/// Makes the directory `to`, which is not there or empty. It gets its name when `fill` has written
/// it and its names are on the device; if that fails nothing is left.
///
/// # Errors
/// Those of `fill`; `to` exists; I/O.
pub fn make_whole<E: From<DeployError>>(
    to: &Path,
    fill: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    let partial = Partial::begin(to, Form::Directory, true)?;
    fill(partial.path())?;
    Ok(partial.finish()?)
}
