//! A file system that a process loses at some moment: from then on every change fails, as if the
//! process had been killed.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use world::{File, Files, FolderLock, Open, SharedMemory};

/// Counts down with each change. At zero the process is dead.
pub struct Life {
    dead: AtomicBool,
    paused: AtomicBool,
    changes_left: AtomicI64,
}

impl Life {
    /// Lives until it is killed.
    pub fn new() -> Arc<Life> {
        Life::of_changes(i64::MAX)
    }

    /// Dies before its `n`-th change to any file.
    pub fn of_changes(n: i64) -> Arc<Life> {
        let flag = || AtomicBool::new(false);
        Arc::new(Life { dead: flag(), paused: flag(), changes_left: AtomicI64::new(n) })
    }

    pub fn kill(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }

    /// Changes do not count until [`Life::go_on`]: for checks that need a living process.
    pub fn pause(&self) {
        self.paused.store(true, Ordering::SeqCst);
    }

    pub fn go_on(&self) {
        self.paused.store(false, Ordering::SeqCst);
    }

    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    fn change(&self, f: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let counts = !self.paused.load(Ordering::SeqCst);
        if counts && self.changes_left.fetch_sub(1, Ordering::SeqCst) <= 0 {
            self.kill();
        }
        if self.is_dead() { Err(io::Error::other("this process was killed")) } else { f() }
    }
}

/// `inner`, as one life of a process sees it.
pub struct Mortal {
    pub inner: Arc<dyn Files>,
    pub life: Arc<Life>,
}

impl Mortal {
    pub fn over(inner: &Arc<dyn Files>, life: &Arc<Life>) -> Arc<dyn Files> {
        Arc::new(Mortal { inner: inner.clone(), life: life.clone() })
    }
}

struct MortalFile {
    inner: Arc<dyn File>,
    life: Arc<Life>,
}

impl File for MortalFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buf, offset)
    }
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.life.change(|| self.inner.write_all_at(bytes, offset))
    }
    fn sync(&self) -> io::Result<()> {
        self.life.change(|| self.inner.sync())
    }
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.life.change(|| self.inner.set_len(bytes))
    }
    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.life.change(|| self.inner.allocate(bytes))
    }
}

impl Files for Mortal {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        self.life.change(|| Ok(()))?;
        Ok(Arc::new(MortalFile { inner: self.inner.open(path, how)?, life: self.life.clone() }))
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.life.change(|| self.inner.remove(path))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.life.change(|| self.inner.rename(from, to))
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir_all(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.life.change(|| self.inner.sync_dir(dir))
    }
    fn lock(&self, path: &Path) -> io::Result<FolderLock> {
        self.inner.lock(path)
    }
    fn share(&self, path: &Path, bytes: usize) -> io::Result<Option<Box<dyn SharedMemory>>> {
        self.life.change(|| Ok(()))?;
        self.inner.share(path, bytes)
    }
}
