//! The disk as [`Files`] and [`File`]: each operation is counted, fails if the plan says so, and is
//! recorded as entries.

use super::node::PendingChange;
use super::state::{Entry, Naming, NodeId};
use super::trouble::{self, Grows};
use super::{Disk, Mapped, Operation, Trouble};
use crate::{File, Files, FolderLock, Open, SharedMemory};
use std::collections::BTreeSet;
use std::io::{self, Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

struct SimFile {
    disk: Disk,
    node: NodeId,
    path: PathBuf,
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut inner = self.disk.inner();
        if inner.maps.iter().any(|(node, _)| *node == self.node) {
            inner.absorb();
        }
        let trouble = inner.trouble(Operation::Read, Grows::No);
        let read = inner.state.nodes[self.node].current.read(offset, buf);
        match trouble {
            None => Ok(read),
            Some(Trouble::Short) => Ok(read / 2),
            Some(t) => Err(trouble::error(t, "read", &self.path)),
        }
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut inner = self.disk.inner();
        let end = offset + bytes.len() as u64;
        let grows = inner.grows(self.node, end);
        let trouble = inner.trouble(Operation::Write, grows);
        if trouble == Some(Trouble::Error) {
            inner.failed_write(self.node, bytes, offset);
        }
        if let Some(t) = trouble {
            return Err(trouble::error(t, "write", &self.path));
        }
        inner.room(self.node, end, "write", &self.path)?;
        inner.reflect(self.node, offset, bytes);
        let change = PendingChange::Write { at: offset, bytes: bytes.into() };
        inner.apply(Entry::PendingChange { node: self.node, change });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut inner = self.disk.inner();
        inner.absorb();
        if let Some(t) = inner.trouble(Operation::Sync, Grows::No) {
            let seed = inner.operations;
            inner.apply(Entry::FailedSync { node: self.node, seed });
            return Err(trouble::error(t, "sync", &self.path));
        }
        inner.apply(Entry::Sync { node: self.node });
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        let mut inner = self.disk.inner();
        inner.begin(Operation::Length, Grows::No, "stat", &self.path)?;
        Ok(inner.state.nodes[self.node].current.len())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut inner = self.disk.inner();
        let grows = inner.grows(self.node, bytes);
        inner.begin(Operation::Length, grows, "set the length", &self.path)?;
        inner.room(self.node, bytes, "set the length", &self.path)?;
        inner.length(self.node, bytes);
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let mut inner = self.disk.inner();
        let grows = inner.grows(self.node, bytes);
        inner.begin(Operation::Length, grows, "reserve room", &self.path)?;
        inner.room(self.node, bytes, "reserve room", &self.path)?;
        let len = inner.state.nodes[self.node].current.len();
        inner.length(self.node, bytes.max(len));
        Ok(())
    }
}

impl Files for Disk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let mut inner = self.inner();
        let new = how == Open::Create && inner.node(path).is_err();
        let grows = if new { Grows::Yes } else { Grows::No };
        inner.begin(Operation::Open, grows, "open", path)?;
        let node = if new { inner.make(path)? } else { inner.node(path)? };
        Ok(Arc::new(SimFile { disk: self.clone(), node, path: path.to_owned() }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut inner = self.inner();
        inner.begin(Operation::Remove, Grows::No, "remove", path)?;
        inner.node(path)?;
        inner.apply(Entry::Name(Naming::Remove { path: path.to_owned() }));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        {
            let mut inner = self.inner();
            inner.begin(Operation::Rename, Grows::No, "rename", from)?;
            let node = inner.node(from)?;
            inner.apply(Entry::Name(Naming::Rename { from: from.to_owned(), to: to.to_owned(), node }));
        }
        self.sync_dir(parent(to))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut inner = self.inner();
        inner.begin(Operation::List, Grows::No, "list", dir)?;
        let state = &inner.state;
        if !state.folders.contains(dir) {
            return Err(Error::new(ErrorKind::NotFound, format!("{}: no such folder", dir.display())));
        }
        let there = state.names.keys().chain(&state.folders);
        let inside = there.filter_map(|p| p.strip_prefix(dir).ok()?.iter().next());
        let names: BTreeSet<_> = inside.map(|n| n.to_string_lossy().into_owned()).collect();
        Ok(names.into_iter().collect())
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut inner = self.inner();
        let grows = if inner.state.folders.contains(dir) { Grows::No } else { Grows::Yes };
        inner.begin(Operation::MakeFolder, grows, "make the folder", dir)?;
        inner.apply(Entry::Folder(dir.to_owned()));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut inner = self.inner();
        inner.absorb();
        inner.begin(Operation::SyncFolder, Grows::No, "sync the folder", dir)?;
        inner.apply(Entry::SyncFolder(dir.to_owned()));
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<FolderLock> {
        let mut inner = self.inner();
        let grows = if inner.node(path).is_err() { Grows::Yes } else { Grows::No };
        inner.begin(Operation::Lock, grows, "lock", path)?;
        inner.make(path)?;
        if !inner.locks.insert(path.to_owned()) {
            let text = format!("{}: in use; close it first or choose another folder", path.display());
            return Err(Error::new(ErrorKind::WouldBlock, text));
        }
        Ok(Box::new(SimLock { path: path.to_owned(), disk: self.clone() }))
    }

    fn boot(&self) -> u64 {
        self.inner().state.boots + 1
    }

    fn share(&self, path: &Path, bytes: usize) -> io::Result<Option<Box<dyn SharedMemory>>> {
        let mut inner = self.inner();
        inner.begin(Operation::Share, Grows::Yes, "share", path)?;
        let node = inner.make(path)?;
        inner.room(node, bytes as u64, "share", path)?;
        let len = inner.state.nodes[node].current.len();
        inner.length(node, len.max(bytes as u64));
        let mut content = vec![0; bytes.next_multiple_of(8)];
        inner.state.nodes[node].current.read(0, &mut content);
        let word = |c: &[u8]| AtomicU64::new(u64::from_ne_bytes(c.try_into().expect("eight bytes")));
        let map = Arc::new(Mapped(content.chunks_exact(8).map(word).collect()));
        inner.maps.push((node, map.clone()));
        Ok(Some(Box::new(SimMemory { map, bytes })))
    }
}

struct SimLock {
    path: PathBuf,
    disk: Disk,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.inner().locks.remove(&self.path);
    }
}

/// The disk keeps the memory as long as the disk lives, so the stores of a process that ended are
/// still there.
struct SimMemory {
    map: Arc<Mapped>,
    bytes: usize,
}

impl SharedMemory for SimMemory {
    fn start(&self) -> *mut u8 {
        self.map.0.as_ptr().cast::<u8>().cast_mut()
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
}
