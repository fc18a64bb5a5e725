//! A file system in this process' memory, for tests: no data is ever lost, and syncs cost nothing.
//! The files' paths imply the folders.

use crate::{File, Files, FolderLock, Open, SharedMemory, Way};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// An empty file system. Clone the `Arc` to open the same files again.
pub fn memory() -> Arc<dyn Files> {
    Arc::new(Memory::default())
}

#[derive(Default)]
struct Memory {
    files: Mutex<BTreeMap<PathBuf, Arc<MemoryFile>>>,
    dirs: Mutex<BTreeSet<PathBuf>>,
    locks: Arc<Mutex<BTreeSet<PathBuf>>>,
}

#[derive(Default)]
struct MemoryFile(RwLock<Vec<u8>>);

/// A poisoned mutex is usable, because the maps are consistent at every step; so the panic of one
/// test does not hide behind an error of another.
fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

fn missing(path: &Path) -> Error {
    Error::new(ErrorKind::NotFound, format!("{}: no such file", path.display()))
}

impl File for MemoryFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let from = bytes.len().min(usize::try_from(offset).unwrap_or(usize::MAX));
        let n = buf.len().min(bytes.len() - from);
        buf[..n].copy_from_slice(&bytes[from..from + n]);
        Ok(n)
    }

    fn write_all_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let mut bytes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let from = usize::try_from(offset).map_err(|_| ErrorKind::FileTooLarge)?;
        let end = from + data.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[from..end].copy_from_slice(data);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.read().unwrap_or_else(PoisonError::into_inner).len() as u64)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let bytes = usize::try_from(bytes).map_err(|_| ErrorKind::FileTooLarge)?;
        self.0.write().unwrap_or_else(PoisonError::into_inner).resize(bytes, 0);
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        if self.len()? < bytes { self.set_len(bytes) } else { Ok(()) }
    }

    fn way(&self) -> Way<'_> {
        Way::AtOnce
    }
}

impl Files for Memory {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let mut files = lock(&self.files);
        match (files.get(path), how) {
            (Some(file), _) => Ok(file.clone()),
            (None, Open::Create) => Ok(files.entry(path.to_owned()).or_default().clone()),
            (None, Open::Read | Open::ReadWrite) => Err(missing(path)),
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        lock(&self.files).remove(path).map(drop).ok_or_else(|| missing(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = lock(&self.files);
        let file = files.remove(from).ok_or_else(|| missing(from))?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let files = lock(&self.files);
        let inside = files.keys().filter_map(|p| p.strip_prefix(dir).ok()?.iter().next());
        let names: BTreeSet<_> = inside.map(|n| n.to_string_lossy().into_owned()).collect();
        if names.is_empty() && !lock(&self.dirs).contains(dir) {
            return Err(missing(dir));
        }
        Ok(names.into_iter().collect())
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        lock(&self.dirs).extend(dir.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<FolderLock> {
        if !lock(&self.locks).insert(path.to_owned()) {
            let text = format!("{}: in use; close it first or choose another folder", path.display());
            return Err(Error::new(ErrorKind::WouldBlock, text));
        }
        Ok(Box::new(MemoryLock { path: path.to_owned(), locks: self.locks.clone() }))
    }

    fn share(&self, _: &Path, _: usize) -> io::Result<Option<Box<dyn SharedMemory>>> {
        Ok(None)
    }
}

struct MemoryLock {
    path: PathBuf,
    locks: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        lock(&self.locks).remove(&self.path);
    }
}
