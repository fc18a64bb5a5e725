//! A place for copies, and its contents.

use crate::CopyError;
use crate::bucket::{self, place};
use crate::error::{in_words, local};
use crate::manifest::Manifest;
use futures_util::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const MANIFEST: &str = "manifest";
pub(crate) const FOLDER: &str = "folder";

/// One place: a directory or a bucket.
pub struct Storage {
    pub(crate) store: Arc<dyn ObjectStore>,
    prefix: Key,
    /// Of a directory.
    root: Option<PathBuf>,
    url: String,
    runtime: tokio::runtime::Runtime,
}

/// A copy that can be used, as far as its manifest tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub log: String,
    pub id: String,
    pub manifest: Manifest,
}

/// A copy, or the rest of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listed {
    Whole(Found),
    /// Its manifest cannot be used.
    Damaged {
        id: String,
        what: String,
    },
    /// Without a manifest: a copy that is being put, or was left half put or half removed.
    /// The last change was at `changed`, in seconds since 1970 by the storage's clock.
    Half {
        id: String,
        changed: u64,
    },
}

/// The facts in the id of a copy, in the order by which the last is the newest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Age<'a> {
    position: u64,
    /// Copies of earlier versions have none.
    turn: u32,
    id: &'a str,
}

fn age(id: &str) -> Age<'_> {
    let parts: Vec<&str> = id.split('-').collect();
    let turn = if let [_, turn, _] = parts[..] { turn.parse().unwrap_or(0) } else { 0 };
    // A name without a position was made by another program; it comes first.
    Age { position: parts[0].parse().unwrap_or(0), turn, id }
}

/// Waits until a file, or all below a directory, is on the device.
fn sync_below(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.is_dir() {
        fs::read_dir(path)?.try_for_each(|entry| sync_below(&entry?.path()))?;
    }
    File::open(path)?.sync_all()
}

impl Storage {
    /// Opens `url`: a directory that is there, `file:///DIR`, or a bucket with a prefix.
    ///
    /// # Errors
    /// There is no such place, or this build cannot reach it.
    pub fn open(url: &str) -> Result<Storage, CopyError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| CopyError::Place(format!("{url}: {e}")))?;
        let dir = match url.split_once("://") {
            None => Some(url),
            Some(("file", path)) => Some(path),
            Some(_) => None,
        };
        let (store, prefix, root): (Arc<dyn ObjectStore>, _, _) = match dir {
            None => {
                let (store, prefix) = bucket::open(url)?;
                (store, prefix, None)
            }
            Some(dir) => {
                let root = PathBuf::from(dir);
                match fs::metadata(&root) {
                    Err(e) if e.kind() == io::ErrorKind::NotFound => {
                        return Err(place(url, "there is no such directory, make it first"));
                    }
                    Err(e) => return Err(local(&root)(e)),
                    Ok(about) if !about.is_dir() => return Err(place(url, "this is no directory")),
                    Ok(_) => {}
                }
                let root = fs::canonicalize(&root).map_err(local(&root))?;
                let opened = LocalFileSystem::new_with_prefix(&root);
                let opened =
                    opened.map_err(|e| CopyError::Storage { url: url.into(), what: in_words(&e) })?;
                (Arc::new(opened.with_automatic_cleanup(true)), Key::default(), Some(root))
            }
        };
        Ok(Storage { store, prefix, root, url: url.to_owned(), runtime })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn wait<T>(
        &self,
        what: impl Future<Output = Result<T, object_store::Error>>,
    ) -> Result<T, CopyError> {
        let outcome = self.runtime.block_on(what);
        outcome.map_err(|e| CopyError::Storage { url: self.url.clone(), what: in_words(&e) })
    }

    /// As [`Storage::wait`]; `None` if the object is not there.
    pub(crate) fn wait_if_there<T>(
        &self,
        what: impl Future<Output = Result<T, object_store::Error>>,
    ) -> Result<Option<T>, CopyError> {
        self.wait(async {
            match what.await {
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                other => other.map(Some),
            }
        })
    }

    pub(crate) fn key(&self, parts: &[&str]) -> Key {
        let below = parts.iter().flat_map(|part| part.split('/'));
        below.fold(self.prefix.clone(), |key, part| key.join(part))
    }

    pub(crate) fn damaged(&self, log: &str, id: &str, what: impl Into<String>) -> CopyError {
        let (url, log, id) = (self.url.clone(), log.to_owned(), id.to_owned());
        CopyError::Damaged { url, log, id, what: what.into() }
    }

    /// Waits until the copy is on the device of its directory.
    pub(crate) fn settle(&self, log: &str, id: &str) -> Result<(), CopyError> {
        let Some(root) = &self.root else { return Ok(()) };
        let own = root.join(log).join(id);
        let settled = sync_below(&own)
            .and_then(|()| File::open(root.join(log))?.sync_all())
            .and_then(|()| File::open(root)?.sync_all());
        settled.map_err(local(&own))
    }

    /// The names directly below a key.
    fn names(&self, key: &Key) -> Result<Vec<String>, CopyError> {
        let below = self.wait(self.store.list_with_delimiter(Some(key)))?.common_prefixes;
        Ok(below.iter().filter_map(|key| key.filename().map(str::to_owned)).collect())
    }

    fn objects(&self, key: &Key) -> Result<Vec<ObjectMeta>, CopyError> {
        self.wait(self.store.list(Some(key)).try_collect())
    }

    /// The numbers N of logs `NAME-N` that have something here, ascending.
    ///
    /// # Errors
    /// The storage does not answer.
    pub fn numbers(&self, name: &str) -> Result<Vec<u16>, CopyError> {
        let names = self.names(&self.key(&[]))?;
        let number = |log: &String| log.strip_prefix(name)?.strip_prefix('-')?.parse().ok();
        let mut numbers: Vec<u16> = names.iter().filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// All copies of a log, the newest last.
    ///
    /// # Errors
    /// The storage does not answer.
    pub fn list(&self, log: &str) -> Result<Vec<Listed>, CopyError> {
        let mut ids = self.names(&self.key(&[log]))?;
        ids.sort_unstable_by(|one, other| age(one).cmp(&age(other)));
        ids.into_iter().map(|id| self.look(log, id)).collect()
    }

    /// The turn of the next copy of a log up to this position: behind those that are there, also if
    /// they are half.
    pub(crate) fn next_turn(&self, log: &str, position: u64) -> Result<u32, CopyError> {
        let ids = self.names(&self.key(&[log]))?;
        let turns = ids.iter().map(|id| age(id)).filter(|age| age.position == position).map(|age| age.turn);
        Ok(turns.max().map_or(1, |last| last.saturating_add(1)))
    }

    fn look(&self, log: &str, id: String) -> Result<Listed, CopyError> {
        let key = self.key(&[log, &id, MANIFEST]);
        let got = self.wait_if_there(async { self.store.get(&key).await?.bytes().await })?;
        let Some(bytes) = got else {
            let objects = self.objects(&self.key(&[log, &id]))?;
            let changed = objects.iter().map(|object| object.last_modified.timestamp()).max();
            return Ok(Listed::Half { id, changed: changed.unwrap_or(0).max(0) as u64 });
        };
        Ok(match Manifest::decode(&bytes) {
            Ok(manifest) if manifest.head.log == log => {
                Listed::Whole(Found { log: log.to_owned(), id, manifest })
            }
            Ok(manifest) => Listed::Damaged { id, what: format!("is one of log {}", manifest.head.log) },
            Err(what) => Listed::Damaged { id, what },
        })
    }

    /// The copies of a log that can be used, the newest last.
    ///
    /// # Errors
    /// The storage does not answer.
    pub fn whole(&self, log: &str) -> Result<Vec<Found>, CopyError> {
        let found = |listed| if let Listed::Whole(found) = listed { Some(found) } else { None };
        Ok(self.list(log)?.into_iter().filter_map(found).collect())
    }

    /// The newest copy of a log, or that with this id.
    ///
    /// # Errors
    /// There is none, or it cannot be used.
    pub fn find(&self, log: &str, id: Option<&str>) -> Result<Found, CopyError> {
        let nothing = || CopyError::Nothing { url: self.url.clone(), log: log.to_owned() };
        let Some(id) = id else {
            return self.whole(log)?.pop().ok_or_else(nothing);
        };
        match self.look(log, id.to_owned())? {
            Listed::Whole(found) => Ok(found),
            Listed::Damaged { what, .. } => Err(self.damaged(log, id, what)),
            Listed::Half { changed: 0, .. } => Err(self.damaged(log, id, "is not there")),
            Listed::Half { .. } => Err(self.damaged(log, id, "has no manifest: it is not complete")),
        }
    }

    /// Verifies that each file of a copy is there, with its length.
    ///
    /// # Errors
    /// One is not; the storage does not answer.
    pub fn require_whole(&self, found: &Found) -> Result<(), CopyError> {
        let Found { log, id, manifest } = found;
        let objects = self.objects(&self.key(&[log, id, FOLDER]))?;
        for file in &manifest.files {
            let key = self.key(&[log, id, FOLDER, &file.path]);
            let what = match objects.iter().find(|object| object.location == key) {
                Some(object) if object.size == file.bytes => continue,
                Some(object) => format!("has {} bytes of {}, and had {}", object.size, file.path, file.bytes),
                None => format!("lacks {}", file.path),
            };
            return Err(self.damaged(log, id, what));
        }
        Ok(())
    }

    /// Removes a copy, or the rest of one.
    ///
    /// # Errors
    /// The storage does not answer; the rest is a half copy.
    pub fn remove(&self, log: &str, id: &str) -> Result<(), CopyError> {
        let manifest = self.key(&[log, id, MANIFEST]);
        self.wait_if_there(self.store.delete(&manifest))?;
        for object in self.objects(&self.key(&[log, id]))? {
            self.wait_if_there(self.store.delete(&object.location))?;
        }
        Ok(())
    }
}
