//! Files that change through a log first: a folder that a quorum can rebuild, byte for byte.
//!
//! ```text
//!   write ---> outbox (in memory) ---sync---> an entry of the log --a quorum has it--> the file
//!                                                                                  --> fdatasync
//! ```
//! A change reaches a local file only after the log has it. So the folder never has what the log
//! lacks: it is the state that the log describes up to some entry, and opening it means to seal the
//! log and to repeat the entries behind the folder's *mark*. This is the same after a crash, and on
//! another machine from an older copy of the folder.
//!
//! - Writes, lengths and new files are repeated in any state between the mark and the crash: they
//!   say what the bytes are.
//! - A rename or a removal cannot be repeated. Before one is done, all earlier changes are on the
//!   device; after it, the mark moves behind it. So at most one of them lies behind the mark and
//!   has been done, and whether it has been is seen from the file that it takes away.
//!
//! Access rules: the lock of `outbox` orders all changes. `names` is held by one rename, removal or
//! opening at a time, and taken before `outbox`.

mod change;
mod follow;
mod mark;
mod node;
mod replay;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod trim_tests;

use crate::entry::Term;
use crate::fault::Fault;
use crate::log::RelayLog;
use crate::opening::{Loss, TakeOver, reach, take_over};
use crate::tape::Tape;
use change::{Change, Op};
pub use follow::{Followed, follow, mark_of, milestone, trim};
use mark::Mark;
pub use mark::NAME as MARK;
use node::{Handle, Node};
use replay::Replay;
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use world::{Caching, File, Files, FolderLock, Open, SharedMemory};

/// Bytes of changes at which an entry is made without a sync.
const FULL: usize = 1 << 18;

/// Which files of the folder go through the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Those in its folder `log`. All others follow from them and from the copy that the folder
    /// began as. Files that were removed from `log` are there again in a folder that is rebuilt,
    /// because the older copy may need them.
    Log,
    /// All but its lock.
    All,
}

/// How a folder is opened.
#[derive(Clone, Debug)]
pub struct Opening {
    pub part: Part,
    /// See [`TakeOver`], also for the rest.
    pub claim: Option<Term>,
    pub loss: Loss,
    pub at_least: u64,
    pub patience: Duration,
}

impl Opening {
    pub fn new(part: Part) -> Opening {
        let TakeOver { claim, loss, at_least, patience, .. } = TakeOver::default();
        Opening { part, claim, loss, at_least, patience }
    }
}

/// The files of one folder through its log; everything else as it is in `below`.
pub struct Replicated {
    inner: Arc<Inner>,
    /// What an opening with [`Loss::Accept`] has accepted.
    pub lost: Option<String>,
    /// Entries that the opening has repeated.
    pub repeated: u64,
}

struct Inner {
    below: Arc<dyn Files>,
    dir: PathBuf,
    part: Part,
    log: RelayLog,
    stream: u64,
    outbox: Mutex<Outbox>,
    /// By name: files that are open, or have changes to come.
    names: Mutex<HashMap<String, Arc<Node>>>,
}

#[derive(Default)]
struct Outbox {
    ops: Vec<Op>,
    bytes: usize,
    /// Folders with new names that may not be on the device.
    folders: HashSet<PathBuf>,
}

/// A poisoned mutex is usable: the lists are consistent at every step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn of_file(e: io::Error) -> Fault {
    Fault::Gone(e.to_string())
}

/// A fault of the relay as what a failed device is.
fn failed(fault: Fault) -> io::Error {
    io::Error::other(format!("relay: {fault}"))
}

impl Replicated {
    /// Seals the log on `tape` and brings the folder `dir` up to the seal.
    ///
    /// # Errors
    /// [`Fault`]: the log cannot be taken over, the folder is not one of this log, or a file of it
    /// failed.
    pub fn open(
        below: Arc<dyn Files>,
        dir: &Path,
        tape: Arc<dyn Tape>,
        how: &Opening,
    ) -> Result<Replicated, Fault> {
        below.create_dir_all(dir).map_err(of_file)?;
        let (mark, seal) = mark::agree(&*below, dir, how.part, &*tape, how.patience)?;
        let mut replay = Replay::new(below.clone(), dir, how.part, mark.stream);
        let over = TakeOver {
            from: mark.place,
            claim: how.claim,
            seal,
            loss: how.loss,
            at_least: how.at_least,
            patience: how.patience,
        };
        let opened = take_over(tape, &over, &mut |place, payload| replay.entry(place, payload).map(drop))?;
        let repeated = replay.finish()?;
        let stream = mark.stream;
        Mark { stream, place: opened.place }.write(&*below, dir).map_err(of_file)?;
        let inner = Inner {
            below,
            dir: dir.to_owned(),
            part: how.part,
            log: opened.log,
            stream,
            outbox: Mutex::default(),
            names: Mutex::default(),
        };
        Ok(Replicated { inner: Arc::new(inner), lost: opened.lost, repeated })
    }

    /// The log, for its state.
    pub fn log(&self) -> &RelayLog {
        &self.inner.log
    }
}

/// How many entries of the log on `tape` count, read from the mark of the folder `dir` on. Nothing
/// is changed, neither there nor here.
///
/// # Errors
/// [`Fault`]: the log has lost entries, or the folder is not one of this log.
pub fn reaches(files: &dyn Files, dir: &Path, tape: &dyn Tape, patience: Duration) -> Result<u64, Fault> {
    let (mark, _) = mark::agree(files, dir, Part::Log, tape, patience)?;
    Ok(reach(tape, mark.place, patience)?.counted)
}

impl Inner {
    /// The name of a file in the log; `None` if its changes do not go there.
    fn name(&self, path: &Path) -> Option<String> {
        let name = path.strip_prefix(&self.dir).ok()?.to_str()?;
        let is_ours = match self.part {
            Part::Log => name.starts_with("log/"),
            Part::All => !mark::is_local(name),
        };
        is_ours.then(|| name.to_owned())
    }

    /// Adds a change to the outbox, and to the file's list of changes to come.
    fn change(&self, node: &Node, change: &Change) -> io::Result<()> {
        let mut outbox = lock(&self.outbox);
        for piece in change.pieces() {
            outbox.bytes += piece.bytes();
            node.expect(self.log.next_index(), piece.clone());
            outbox.put(node.name(), piece);
            if outbox.bytes >= FULL {
                self.ship(&mut outbox);
            }
        }
        self.log.fault().map_or(Ok(()), |fault| Err(failed(fault)))
    }

    /// Makes an entry of the outbox. Returns the index of the last entry.
    fn ship(&self, outbox: &mut Outbox) -> u64 {
        if outbox.ops.is_empty() {
            return self.log.next_index() - 1;
        }
        outbox.bytes = 0;
        self.log.append(&change::encode(&std::mem::take(&mut outbox.ops)))
    }

    /// Waits until a quorum has all changes made so far. Returns the index of the last entry.
    fn keep(&self) -> io::Result<u64> {
        let index = self.ship(&mut lock(&self.outbox));
        self.log.wait(index).map_err(failed)?;
        Ok(index)
    }

    /// A change that cannot be repeated: see the top of `files`.
    fn once(
        &self,
        names: &mut HashMap<String, Arc<Node>>,
        (op, touched): (Op, &[&Path]),
        act: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let index = {
            let mut outbox = lock(&self.outbox);
            outbox.ops.push(op);
            self.ship(&mut outbox)
        };
        self.log.wait(index).map_err(failed)?;
        let place = self.log.place();
        for node in names.values() {
            node.bring(place.counted)?;
        }
        act()?;
        // Names reach the device with their folder: those of new files, and this one.
        let mut folders = std::mem::take(&mut lock(&self.outbox).folders);
        folders.extend(touched.iter().filter_map(|path| path.parent().map(Path::to_owned)));
        folders.iter().try_for_each(|folder| self.below.sync_dir(folder))?;
        names.retain(|_, node| Arc::strong_count(node) > 1 || node.is_behind());
        Mark { stream: self.stream, place }.write(&*self.below, &self.dir)
    }
}

impl Outbox {
    fn put(&mut self, name: String, change: Change) {
        if let Some(Op::Change(last, before)) = self.ops.last_mut()
            && *last == name
            && before.extend(&change)
        {
            return;
        }
        self.ops.push(Op::Change(name, change));
    }
}

impl Files for Replicated {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let inner = &self.inner;
        let Some(name) = inner.name(path) else { return inner.below.open(path, how) };
        let mut names = lock(&inner.names);
        if let Some(node) = names.get(&name).cloned() {
            return Ok(Arc::new(Handle { node, inner: inner.clone() }));
        }
        let file = match how {
            Open::Read => return inner.below.open(path, how),
            Open::ReadWrite => inner.below.open(path, how)?,
            Open::Create => {
                let file = inner.below.open(path, how)?;
                let mut outbox = lock(&inner.outbox);
                outbox.ops.push(Op::Create(name.clone()));
                outbox.folders.extend(path.parent().map(Path::to_owned));
                file
            }
        };
        let node = Arc::new(Node::new(name.clone(), file));
        names.insert(name, node.clone());
        Ok(Arc::new(Handle { node, inner: inner.clone() }))
    }

    fn open_direct(&self, path: &Path, how: Open) -> io::Result<(Arc<dyn File>, Caching)> {
        match self.inner.name(path) {
            None => self.inner.below.open_direct(path, how),
            Some(_) => Ok((self.open(path, how)?, Caching::System)),
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let inner = &self.inner;
        let Some(name) = inner.name(path) else { return inner.below.remove(path) };
        let mut names = lock(&inner.names);
        names.remove(&name);
        inner.once(&mut names, (Op::Remove(name), &[path]), || inner.below.remove(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let inner = &self.inner;
        let (Some(old), Some(new)) = (inner.name(from), inner.name(to)) else {
            return inner.below.rename(from, to);
        };
        let mut names = lock(&inner.names);
        let node = names.get(&old).cloned();
        let op = Op::Rename(old.clone(), new.clone());
        inner.once(&mut names, (op, &[from, to]), || {
            // The writer of the file waits for its new name: its changes are ordered behind it.
            node.iter().for_each(|node| node.rename(&new));
            inner.below.rename(from, to)
        })?;
        names.remove(&old);
        if let Some(node) = node {
            names.insert(new, node);
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.below.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner.below.create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.below.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<FolderLock> {
        self.inner.below.lock(path)
    }

    fn share(&self, path: &Path, bytes: usize) -> io::Result<Option<Box<dyn SharedMemory>>> {
        match self.inner.name(path) {
            None => self.inner.below.share(path, bytes),
            Some(_) => Ok(None),
        }
    }

    fn boot(&self) -> u64 {
        self.inner.below.boot()
    }
}
