//! A file system over another one that it never changes: all changes stay in memory, above the
//! original files.
//!
//! So a program that repairs files as it opens them (a database that restarts from its log) can
//! open them for a look and leave no trace. A file is covered in blocks; a block that was never
//! written is read from below. Locks are taken below, because they keep other processes from
//! changing the files meanwhile.

use crate::{File, Files, FolderLock, Open, SharedMemory};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a block. Pages of a database are multiples of it, so most writes cover whole blocks.
const BLOCK: usize = 4096;

/// The files of `below`, with changes in memory only.
pub fn overlay(below: Arc<dyn Files>) -> Arc<dyn Files> {
    Arc::new(Overlay { below, entries: Mutex::default(), dirs: Mutex::default() })
}

struct Overlay {
    below: Arc<dyn Files>,
    /// Files that were opened, made or removed (`None`) here; all others are as below.
    entries: Mutex<BTreeMap<PathBuf, Option<Arc<Covered>>>>,
    dirs: Mutex<BTreeSet<PathBuf>>,
}

struct Covered {
    below: Option<Arc<dyn File>>,
    cover: Mutex<Cover>,
}

struct Cover {
    blocks: BTreeMap<u64, Box<[u8; BLOCK]>>,
    len: u64,
    /// The first `shown` bytes of the file are as below where no block covers them; bytes beyond
    /// are zeros.
    shown: u64,
}

/// A poisoned mutex is usable, because the maps are consistent at every step.
fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

fn missing(path: &Path) -> Error {
    Error::new(ErrorKind::NotFound, format!("{}: no such file", path.display()))
}

impl Covered {
    fn over(below: Option<Arc<dyn File>>) -> io::Result<Covered> {
        let len = below.as_ref().map_or(Ok(0), |file| file.len())?;
        Ok(Covered { below, cover: Mutex::new(Cover { blocks: BTreeMap::new(), len, shown: len }) })
    }

    /// A whole block in its present state.
    fn block(&self, cover: &Cover, number: u64) -> io::Result<Box<[u8; BLOCK]>> {
        if let Some(block) = cover.blocks.get(&number) {
            return Ok(block.clone());
        }
        let (mut block, start) = (Box::new([0; BLOCK]), number * BLOCK as u64);
        let shown = cover.shown.saturating_sub(start).min(BLOCK as u64) as usize;
        if let (Some(below), true) = (&self.below, shown > 0) {
            below.read_at(&mut block[..shown], start)?;
        }
        Ok(block)
    }

    fn is_blank(&self, cover: &Cover, number: u64) -> bool {
        number * BLOCK as u64 >= cover.shown && !cover.blocks.contains_key(&number)
    }
}

/// The parts of `offset..offset + len` by block: block number, offset in the block, length.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut at = offset;
    let end = offset + len as u64;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let (number, inside) = (at / BLOCK as u64, (at % BLOCK as u64) as usize);
            let length = (BLOCK - inside).min((end - at) as usize);
            at += length as u64;
            (number, inside, length)
        })
    })
}

impl File for Covered {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let cover = lock(&self.cover);
        let len = cover.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        let mut rest = &mut buf[..len];
        for (number, inside, length) in parts(offset, len) {
            let (part, behind) = rest.split_at_mut(length);
            match cover.blocks.get(&number) {
                Some(block) => part.copy_from_slice(&block[inside..inside + length]),
                None => {
                    part.copy_from_slice(&self.block(&cover, number)?[inside..inside + length]);
                }
            }
            rest = behind;
        }
        Ok(len)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut cover = lock(&self.cover);
        let mut rest = bytes;
        for (number, inside, length) in parts(offset, bytes.len()) {
            let (part, behind) = rest.split_at(length);
            rest = behind;
            // Files are often filled with zeros in advance; such zeros take no memory.
            if self.is_blank(&cover, number) && part.iter().all(|&b| b == 0) {
                continue;
            }
            let mut block = self.block(&cover, number)?;
            block[inside..inside + length].copy_from_slice(part);
            cover.blocks.insert(number, block);
        }
        cover.len = cover.len.max(offset + bytes.len() as u64);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(lock(&self.cover).len)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut cover = lock(&self.cover);
        if bytes < cover.len {
            let (number, inside) = (bytes / BLOCK as u64, (bytes % BLOCK as u64) as usize);
            let mut block = self.block(&cover, number)?;
            block[inside..].fill(0);
            cover.blocks.split_off(&number);
            if inside > 0 {
                cover.blocks.insert(number, block);
            }
            cover.shown = cover.shown.min(bytes);
        }
        cover.len = bytes;
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        if self.len()? < bytes { self.set_len(bytes) } else { Ok(()) }
    }
}

impl Overlay {
    /// The file at `path`, if there is one here or below.
    fn find(&self, path: &Path) -> io::Result<Option<Arc<Covered>>> {
        let mut entries = lock(&self.entries);
        if let Some(entry) = entries.get(path) {
            return Ok(entry.clone());
        }
        let below = match self.below.open(path, Open::Read) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        let file = Arc::new(Covered::over(Some(below))?);
        entries.insert(path.to_owned(), Some(file.clone()));
        Ok(Some(file))
    }
}

impl Files for Overlay {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        match (self.find(path)?, how) {
            (Some(file), _) => Ok(file),
            (None, Open::Read | Open::ReadWrite) => Err(missing(path)),
            (None, Open::Create) => {
                let file = Arc::new(Covered::over(None)?);
                lock(&self.entries).insert(path.to_owned(), Some(file.clone()));
                Ok(file)
            }
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.find(path)?.ok_or_else(|| missing(path))?;
        lock(&self.entries).insert(path.to_owned(), None);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let file = self.find(from)?.ok_or_else(|| missing(from))?;
        let mut entries = lock(&self.entries);
        entries.insert(from.to_owned(), None);
        entries.insert(to.to_owned(), Some(file));
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names: BTreeSet<String> = match self.below.list(dir) {
            Err(e) if e.kind() == ErrorKind::NotFound && lock(&self.dirs).contains(dir) => BTreeSet::new(),
            listed => listed?.into_iter().collect(),
        };
        for (path, entry) in lock(&self.entries).iter() {
            let Ok(inside) = path.strip_prefix(dir) else { continue };
            let mut steps = inside.iter().map(|n| n.to_string_lossy().into_owned());
            match (steps.next(), steps.next(), entry) {
                (Some(name), None, None) => drop(names.remove(&name)),
                (Some(name), _, Some(_)) => drop(names.insert(name)),
                _ => {}
            }
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
        match self.below.open(path, Open::Read) {
            // Without a lock file, no process uses the folder.
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Box::new(())),
            found => drop(found?),
        }
        match self.below.lock(path) {
            // A file that this process may not write to needs no lock.
            Err(e) if matches!(e.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied) => {
                Ok(Box::new(()))
            }
            locked => locked,
        }
    }

    fn share(&self, _: &Path, _: usize) -> io::Result<Option<Box<dyn SharedMemory>>> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory;

    fn text(files: &Arc<dyn Files>, path: &str) -> Vec<u8> {
        let file = files.open(Path::new(path), Open::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
        bytes
    }

    #[test]
    fn what_is_changed_above_is_not_changed_below() {
        let below = memory();
        let old = below.open(Path::new("d/a"), Open::Create).unwrap();
        old.write_all_at(&[1; 10_000], 0).unwrap();
        below.open(Path::new("d/b"), Open::Create).unwrap().write_all_at(b"old", 0).unwrap();
        let above = overlay(below.clone());
        let file = above.open(Path::new("d/a"), Open::ReadWrite).unwrap();
        file.write_all_at(&[2; 5000], 3000).unwrap();
        let mut expected = [[1; 3000].as_slice(), &[2; 5000], &[1; 2000]].concat();
        assert_eq!(text(&above, "d/a"), expected);
        file.set_len(7000).unwrap();
        file.set_len(9000).unwrap();
        expected.truncate(7000);
        expected.resize(9000, 0);
        assert_eq!(text(&above, "d/a"), expected, "what was cut off does not come back");
        file.write_all_at(&[0; 8192], 9000).unwrap();
        file.write_all_at(b"end", 20_000).unwrap();
        expected.resize(20_000, 0);
        expected.extend(b"end");
        assert_eq!(text(&above, "d/a"), expected);
        above.rename(Path::new("d/b"), Path::new("d/c")).unwrap();
        above.remove(Path::new("d/a")).unwrap();
        assert_eq!(above.list(Path::new("d")).unwrap(), ["c"]);
        assert_eq!(text(&above, "d/c"), b"old");
        assert!(above.open(Path::new("d/a"), Open::Read).is_err());
        assert_eq!(text(&below, "d/a"), [1; 10_000]);
        assert_eq!(below.list(Path::new("d")).unwrap(), ["a", "b"]);
    }

    #[test]
    fn a_lock_below_is_respected_and_none_is_made() {
        let below = memory();
        let above = overlay(below.clone());
        above.lock(Path::new("d/lock")).unwrap();
        assert!(below.list(Path::new("d")).is_err(), "no lock file came about");
        below.open(Path::new("d/lock"), Open::Create).unwrap();
        let held = below.lock(Path::new("d/lock")).unwrap();
        assert_eq!(above.lock(Path::new("d/lock")).err().unwrap().kind(), ErrorKind::WouldBlock);
        drop(held);
        let held = above.lock(Path::new("d/lock")).unwrap();
        assert!(below.lock(Path::new("d/lock")).is_err());
        drop(held);
    }
}
