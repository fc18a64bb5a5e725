//! Repeating the changes behind a folder's mark.
//!
//! The changes up to the first rename or removal are gathered. If that one has been done before the
//! crash, all of them are on the device, and none is repeated: the file that it takes away may be
//! missing. The mark moves behind each rename and removal that is repeated, so that a crash of the
//! replay itself leaves no more than one of them behind the mark.

use super::change::{Change, Op, decode};
use super::mark::Mark;
use super::{Part, of_file};
use crate::fault::Fault;
use crate::walker::Place;
use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use world::{File, Files, Open};

pub(super) struct Replay {
    files: Arc<dyn Files>,
    dir: PathBuf,
    part: Part,
    open: HashMap<String, Arc<dyn File>>,
    /// Folders with new names.
    folders: HashSet<PathBuf>,
    /// The changes up to the first that cannot be repeated; `None` behind it.
    first: Option<Vec<Op>>,
    entries: u64,
    stream: u64,
}

/// How often the changes of an entry can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeats {
    Always,
    /// One of them is a rename or removal.
    Once,
}

impl Replay {
    pub fn new(files: Arc<dyn Files>, dir: &Path, part: Part, stream: u64) -> Replay {
        let (open, folders, first) = (HashMap::new(), HashSet::new(), Some(Vec::new()));
        let (dir, entries) = (dir.to_owned(), 0);
        Replay { files, dir, part, open, folders, first, entries, stream }
    }

    /// Takes the next entry, which ends at `place`.
    pub fn entry(&mut self, place: &Place, payload: &[u8]) -> Result<Repeats, Fault> {
        self.entries += 1;
        let mut repeats = Repeats::Always;
        let ops = decode(payload).ok_or_else(|| {
            Fault::Stranger(format!("entry {} behind the mark holds no changes of files", self.entries))
        })?;
        for op in ops {
            let is_once = matches!(op, Op::Rename(..) | Op::Remove(_));
            match &mut self.first {
                None if is_once => self.once(&op)?,
                None => self.act(&op)?,
                Some(gathered) => {
                    gathered.push(op);
                    if is_once {
                        self.first()?;
                    }
                }
            }
            if is_once {
                // It is the last change of its entry.
                repeats = Repeats::Once;
                let mark = Mark { stream: self.stream, place: *place };
                mark.write(&*self.files, &self.dir).map_err(of_file)?;
            }
        }
        Ok(repeats)
    }

    /// Acts on what was gathered.
    fn first(&mut self) -> Result<(), Fault> {
        let mut gathered = self.first.take().unwrap_or_default();
        let once = gathered.pop_if(|op| matches!(op, Op::Rename(..) | Op::Remove(_)));
        if let Some(Op::Rename(taken, _) | Op::Remove(taken)) = &once {
            let is_new = gathered.contains(&Op::Create(taken.clone()));
            if !is_new && !self.is_there(taken)? {
                return Ok(());
            }
        }
        gathered.iter().try_for_each(|op| self.act(op))?;
        once.map_or(Ok(()), |op| self.once(&op))
    }

    /// A change that cannot be repeated, with all others on the device before it.
    fn once(&mut self, op: &Op) -> Result<(), Fault> {
        self.bring()?;
        self.act(op)?;
        self.bring()
    }

    fn bring(&mut self) -> Result<(), Fault> {
        self.open.values().try_for_each(|file| file.sync()).map_err(of_file)?;
        self.folders.drain().try_for_each(|folder| self.files.sync_dir(&folder)).map_err(of_file)
    }

    /// Acts on what is left and brings everything to the device. Returns the number of entries.
    pub fn finish(mut self) -> Result<u64, Fault> {
        if self.first.is_some() {
            self.first()?;
        }
        self.bring()?;
        Ok(self.entries)
    }

    fn is_there(&self, name: &str) -> Result<bool, Fault> {
        match self.files.open(&self.dir.join(name), Open::Read) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(of_file(e)),
        }
    }

    fn act(&mut self, op: &Op) -> Result<(), Fault> {
        match op {
            Op::Change(name, change) => self.change(name, change),
            Op::Create(name) => {
                let path = self.dir.join(name);
                if let Some(folder) = path.parent() {
                    self.files.create_dir_all(folder).map_err(of_file)?;
                    self.folders.insert(folder.to_owned());
                }
                let file = self.files.open(&path, Open::Create).map_err(of_file)?;
                self.open.insert(name.clone(), file);
                Ok(())
            }
            Op::Rename(from, to) => {
                let file = self.file(from)?.clone();
                let (old, new) = (self.dir.join(from), self.dir.join(to));
                self.files.rename(&old, &new).map_err(of_file)?;
                self.folders.extend([old, new].iter().filter_map(|path| path.parent().map(Path::to_owned)));
                self.open.remove(from);
                self.open.insert(to.clone(), file);
                Ok(())
            }
            Op::Remove(_) if self.part == Part::Log => Ok(()),
            Op::Remove(name) => {
                self.open.remove(name);
                let path = self.dir.join(name);
                self.folders.extend(path.parent().map(Path::to_owned));
                match self.files.remove(&path) {
                    Err(e) if e.kind() != ErrorKind::NotFound => Err(of_file(e)),
                    _ => Ok(()),
                }
            }
        }
    }

    fn change(&mut self, name: &str, change: &Change) -> Result<(), Fault> {
        let file = self.file(name)?.clone();
        change.apply(&*file).map_err(of_file)
    }

    fn file(&mut self, name: &str) -> Result<&Arc<dyn File>, Fault> {
        if !self.open.contains_key(name) {
            let path = self.dir.join(name);
            let file = self.files.open(&path, Open::ReadWrite).map_err(|e| match e.kind() {
                ErrorKind::NotFound => Fault::Stranger(format!(
                    "{}: the relay's log changes this file, and it is not there; begin with a copy of the folder that \
                     has it",
                    path.display()
                )),
                _ => of_file(e),
            })?;
            self.open.insert(name.to_owned(), file);
        }
        Ok(&self.open[name])
    }
}
