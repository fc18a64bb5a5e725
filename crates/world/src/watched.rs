//! A file system that asks before each operation on an open file: for tests that fail a device,
//! lose writes or record their order.

use crate::{Caching, File, Files, FolderLock, Open, SharedMemory, Way};
use std::io::{self, Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An operation that is about to be done to a file.
#[derive(Clone, Copy, Debug)]
pub enum Deed<'a> {
    Read { offset: u64, bytes: usize },
    Write { offset: u64, bytes: &'a [u8] },
    Sync,
    Allocate { bytes: u64 },
}

/// The decision about the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intervention {
    Do,
    /// Nothing is done and success is reported (a read returns no bytes): a device that lies, or a
    /// dead process.
    Swallow,
    /// Nothing is done and this kind of error is reported.
    Fail(ErrorKind),
}

type Judge = dyn Fn(&Path, Deed<'_>) -> Intervention + Send + Sync;

/// `files`, with `judge` asked before each operation on an open file. Operations on names (open,
/// rename, remove) are not asked about.
pub fn watched(
    files: Arc<dyn Files>,
    judge: impl Fn(&Path, Deed<'_>) -> Intervention + Send + Sync + 'static,
) -> Arc<dyn Files> {
    Arc::new(Watched { files, judge: Arc::new(judge) })
}

struct Watched {
    files: Arc<dyn Files>,
    judge: Arc<Judge>,
}

struct WatchedFile {
    file: Arc<dyn File>,
    path: PathBuf,
    judge: Arc<Judge>,
}

impl WatchedFile {
    fn ask<T>(&self, deed: Deed<'_>, swallowed: T, go: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match (self.judge)(&self.path, deed) {
            Intervention::Do => go(),
            Intervention::Swallow => Ok(swallowed),
            Intervention::Fail(kind) => Err(Error::new(kind, format!("{}: {kind}", self.path.display()))),
        }
    }
}

impl File for WatchedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let deed = Deed::Read { offset, bytes: buf.len() };
        self.ask(deed, 0, || self.file.read_at(buf, offset))
    }
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.ask(Deed::Write { offset, bytes }, (), || self.file.write_all_at(bytes, offset))
    }
    fn sync(&self) -> io::Result<()> {
        self.ask(Deed::Sync, (), || self.file.sync())
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.ask(Deed::Allocate { bytes }, (), || self.file.set_len(bytes))
    }
    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.ask(Deed::Allocate { bytes }, (), || self.file.allocate(bytes))
    }
    fn way(&self) -> Way<'_> {
        match self.file.way() {
            Way::AtOnce => Way::AtOnce,
            // The kernel's queue would not ask the judge.
            Way::Kernel(_) | Way::Threads => Way::Threads,
        }
    }
}

impl Files for Watched {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let file = self.files.open(path, how)?;
        Ok(Arc::new(WatchedFile { file, path: path.to_owned(), judge: self.judge.clone() }))
    }
    fn open_direct(&self, path: &Path, how: Open) -> io::Result<(Arc<dyn File>, Caching)> {
        let (file, caching) = self.files.open_direct(path, how)?;
        let watched = WatchedFile { file, path: path.to_owned(), judge: self.judge.clone() };
        Ok((Arc::new(watched), caching))
    }
    fn boot(&self) -> u64 {
        self.files.boot()
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files.remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.files.rename(from, to)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.files.list(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.files.create_dir_all(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.files.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<FolderLock> {
        self.files.lock(path)
    }
    fn share(&self, path: &Path, bytes: usize) -> io::Result<Option<Box<dyn SharedMemory>>> {
        self.files.share(path, bytes)
    }
}
