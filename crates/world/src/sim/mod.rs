//! A simulated disk: it loses unsynced data when the power goes, tears, fails and fills up,
//! controlled by a seed and a plan.
//!
//! **The medium.** Each file has its bytes that are surely on the device, and a volatile cache in
//! front of them. A sync brings one file's bytes to the device. Names (made, renamed, removed) get
//! there only by [`Files::sync_dir`] of their folder; a synced file without a synced name is gone
//! after a crash. At a crash every unsynced change is kept, lost, or torn between sectors of 512 or
//! 4096 bytes, in any order; a file's length likewise. This is more than today's file systems do
//! (ext4 orders names) and all that POSIX allows, with one exception: a folder made by
//! [`Files::create_dir_all`] is durable at once.
//!
//! **Images.** [`Disk::crash_image`] returns a new disk as after power loss, [`Disk::killed`] as
//! after `kill -9`; the original goes on. Blocks are shared until they are written, so an image
//! costs a list of pointers. A disk made by [`Disk::recording`] keeps all changes: one run gives
//! images of every moment ([`Tape`]).
//!
//! **Shared memory** ([`Files::share`]) is memory of which the kernel may write the content to the
//! device at any time. A kill keeps all of it; a power cut keeps any subset of its pages. The tape
//! has its content as it was at the syncs.
//!
//! # Access rules
//!
//! Any thread may call anything; one mutex makes each operation atomic.

mod blocks;
mod files;
mod node;
mod random;
mod state;
mod tape;
mod trouble;

pub use tape::{Player, Tape};
pub use trouble::{Lasts, Operation, Plan, Trouble};

use crate::Files;
use node::PendingChange;
use random::Random;
use state::{Entry, Naming, NodeId, State};
use std::collections::BTreeSet;
use std::io::{self, Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trouble::Grows;

/// A simulated disk. A clone is another handle to the same disk.
#[derive(Clone)]
pub struct Disk(Arc<Mutex<Inner>>);

/// Operations since the disk was made, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub reads: u64,
    pub writes: u64,
    /// Of files and folders.
    pub syncs: u64,
    pub renames: u64,
    pub removes: u64,
    /// All others: opening, lengths, lists, locks.
    pub others: u64,
}

impl Counts {
    fn add(&mut self, operation: Operation) {
        *match operation {
            Operation::Read => &mut self.reads,
            Operation::Write => &mut self.writes,
            Operation::Sync | Operation::SyncFolder => &mut self.syncs,
            Operation::Rename => &mut self.renames,
            Operation::Remove => &mut self.removes,
            _ => &mut self.others,
        } += 1;
    }
}

struct Inner {
    state: State,
    /// The initial state and all entries since then; `None` on a disk that does not record.
    tape: Option<(Arc<State>, Vec<Entry>)>,
    /// Entries applied, recorded or not.
    changes: usize,
    operations: u64,
    counts: Counts,
    plan: Option<Plan>,
    /// How often the plan made an operation fail.
    struck: u64,
    capacity: Option<u64>,
    locks: BTreeSet<PathBuf>,
    maps: Vec<(NodeId, Arc<Mapped>)>,
}

/// Memory of whole words, so that it can be read while its users store into it.
struct Mapped(Box<[AtomicU64]>);

impl Disk {
    /// An empty disk.
    #[expect(clippy::new_without_default, reason = "there are two ways to make one; both have a name")]
    pub fn new() -> Disk {
        Disk::holding(State::default())
    }

    fn holding(state: State) -> Disk {
        Disk(Arc::new(Mutex::new(Inner {
            state,
            tape: None,
            changes: 0,
            operations: 0,
            counts: Counts::default(),
            plan: None,
            struck: 0,
            capacity: None,
            locks: BTreeSet::new(),
            maps: Vec::new(),
        })))
    }

    /// This disk, which from now on records its changes ([`Disk::tape`]).
    pub fn recording(self) -> Disk {
        {
            let mut inner = self.inner();
            inner.tape = Some((Arc::new(inner.state.clone()), Vec::new()));
            inner.changes = 0;
        }
        self
    }

    /// The disk as a file system for the crates above.
    pub fn files(&self) -> Arc<dyn Files> {
        Arc::new(self.clone())
    }

    /// A poisoned mutex is usable, because each step leaves the state consistent.
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Operations so far, failed ones too; a plan can make each of them fail.
    pub fn operations(&self) -> u64 {
        self.inner().operations
    }

    pub fn counts(&self) -> Counts {
        self.inner().counts
    }

    /// Changes so far, since the recording began if there is one: a position of the [`Tape`].
    pub fn changes(&self) -> usize {
        self.inner().changes
    }

    /// The changes since [`Disk::recording`]; empty if this disk does not record.
    pub fn tape(&self) -> Tape {
        let mut inner = self.inner();
        inner.absorb();
        let (begin, entries) = match &inner.tape {
            Some((begin, entries)) => (begin.clone(), entries.as_slice().into()),
            None => (Arc::new(inner.state.clone()), [].into()),
        };
        Tape { begin, entries }
    }

    /// A new disk as after power loss now; the seed decides which unsynced changes are kept.
    pub fn crash_image(&self, seed: u64) -> Disk {
        let mut inner = self.inner();
        inner.absorb();
        Disk::holding(inner.state.crashed(seed))
    }

    /// A new disk as the next process finds it when this one is killed now.
    pub fn killed(&self) -> Disk {
        let mut inner = self.inner();
        inner.absorb();
        Disk::holding(inner.state.killed())
    }

    /// Makes operations fail, in place of any earlier plan.
    pub fn plan(&self, plan: Plan) {
        let mut inner = self.inner();
        (inner.plan, inner.struck) = (Some(plan), 0);
    }

    /// Ends the plan: operations succeed again. Data that a failed sync lost stays lost.
    pub fn heal(&self) {
        self.inner().plan = None;
    }

    /// How often the last plan made an operation fail.
    pub fn struck(&self) -> u64 {
        self.inner().struck
    }

    /// Room for this many bytes in all files together; an operation that would need more fails as
    /// on a full disk.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.inner().capacity = bytes;
    }

    /// Bytes in all files together.
    pub fn used(&self) -> u64 {
        self.inner().state.used()
    }

    /// All files, in order, each with its length.
    pub fn paths(&self) -> Vec<(PathBuf, u64)> {
        let inner = self.inner();
        let state = &inner.state;
        state.names.iter().map(|(path, node)| (path.clone(), state.nodes[*node].current.len())).collect()
    }

    /// A file's bytes as programs see them; `None` when there is no such file.
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let mut inner = self.inner();
        inner.absorb();
        let node = *inner.state.names.get(path)?;
        Some(inner.state.nodes[node].current.to_vec())
    }

    /// A hash of names and bytes: equal for two disks with the same names and bytes, different for
    /// almost all others.
    pub fn fingerprint(&self) -> u64 {
        let mut inner = self.inner();
        inner.absorb();
        let state = &inner.state;
        let mut mix = Random::new(0);
        for (path, node) in &state.names {
            path.as_os_str().as_encoded_bytes().iter().for_each(|b| mix.stir(u64::from(*b)));
            state.nodes[*node].current.stir(&mut mix);
        }
        mix.next()
    }

    /// Flips one bit of a file, on the device and in the cache; no effect when the file is shorter.
    pub fn flip(&self, path: &Path, byte: u64, bit: u32) {
        let mut inner = self.inner();
        let Some(&id) = inner.state.names.get(path) else { return };
        let node = &mut inner.state.nodes[id];
        for bytes in [&mut node.stable, &mut node.current] {
            let mut one = [0];
            if bytes.read(byte, &mut one) == 1 {
                bytes.write(byte, &[one[0] ^ (1 << (bit % 8))]);
            }
        }
    }
}

impl Inner {
    fn apply(&mut self, entry: Entry) {
        self.state.apply(&entry);
        self.changes += 1;
        if let Some((_, entries)) = &mut self.tape {
            entries.push(entry);
        }
    }

    /// Takes over the stores into shared memory since the last call.
    fn absorb(&mut self) {
        for (node, map) in self.maps.iter().map(|(n, m)| (*n, m.clone())).collect::<Vec<_>>() {
            let chunks = map.0.chunks(blocks::BLOCK / 8).enumerate();
            for (n, words) in chunks {
                let now: Vec<u8> =
                    words.iter().flat_map(|w| w.load(Ordering::Relaxed).to_ne_bytes()).collect();
                let (at, mut before) = ((n * blocks::BLOCK) as u64, vec![0; now.len()]);
                self.state.nodes[node].current.read(at, &mut before);
                if before != now {
                    self.apply(Entry::PendingChange {
                        node,
                        change: PendingChange::Write { at, bytes: now.into() },
                    });
                }
            }
        }
        // A map that only this list refers to receives no more stores.
        self.maps.retain(|(_, map)| Arc::strong_count(map) > 1);
    }

    /// Copies the written bytes of a file into the memory shared with it: the two are the same
    /// bytes.
    fn reflect(&self, node: NodeId, at: u64, bytes: &[u8]) {
        for (_, map) in self.maps.iter().filter(|(mapped, _)| *mapped == node) {
            for (place, byte) in (at..).zip(bytes) {
                let Some(word) = map.0.get((place / 8) as usize) else { break };
                let mut content = word.load(Ordering::Relaxed).to_ne_bytes();
                content[(place % 8) as usize] = *byte;
                word.store(u64::from_ne_bytes(content), Ordering::Relaxed);
            }
        }
    }

    /// Counts an operation; returns its trouble, if the plan has one for it.
    fn trouble(&mut self, operation: Operation, grows: Grows) -> Option<Trouble> {
        self.operations += 1;
        self.counts.add(operation);
        let trouble = Plan::strikes(&mut self.plan, self.operations, operation, grows);
        self.struck += u64::from(trouble.is_some());
        trouble
    }

    /// As [`Inner::trouble`], with any trouble as an error.
    fn begin(&mut self, operation: Operation, grows: Grows, doing: &str, path: &Path) -> io::Result<()> {
        self.trouble(operation, grows).map_or(Ok(()), |t| Err(trouble::error(t, doing, path)))
    }

    /// Whether there is room for a file of `len` bytes.
    fn room(&self, node: NodeId, len: u64, doing: &str, path: &Path) -> io::Result<()> {
        let more = len.saturating_sub(self.state.nodes[node].current.len());
        match self.capacity {
            Some(capacity) if more > 0 && self.state.used() + more > capacity => {
                Err(trouble::error(Trouble::Full, doing, path))
            }
            _ => Ok(()),
        }
    }

    fn grows(&self, node: NodeId, len: u64) -> Grows {
        if len > self.state.nodes[node].current.len() { Grows::Yes } else { Grows::No }
    }

    fn node(&self, path: &Path) -> io::Result<NodeId> {
        let missing = || Error::new(ErrorKind::NotFound, format!("{}: no such file", path.display()));
        self.state.names.get(path).copied().ok_or_else(missing)
    }

    /// The file at `path`, made when needed.
    fn make(&mut self, path: &Path) -> io::Result<NodeId> {
        if let Ok(node) = self.node(path) {
            return Ok(node);
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        if !self.state.folders.contains(folder) {
            return Err(Error::new(ErrorKind::NotFound, format!("{}: no such folder", folder.display())));
        }
        let node = self.state.nodes.len();
        self.apply(Entry::Node);
        self.apply(Entry::Name(Naming::Create { path: path.to_owned(), node }));
        Ok(node)
    }

    fn length(&mut self, node: NodeId, len: u64) {
        if self.state.nodes[node].current.len() != len {
            self.apply(Entry::PendingChange { node, change: PendingChange::Length(len) });
        }
    }

    /// Applies a failed write: none, half or all of its bytes.
    fn failed_write(&mut self, node: NodeId, bytes: &[u8], at: u64) {
        let kept = bytes.len() * Random::new(self.operations).below(3) / 2;
        if kept > 0 {
            self.apply(Entry::PendingChange {
                node,
                change: PendingChange::Write { at, bytes: bytes[..kept].into() },
            });
        }
    }
}

#[cfg(test)]
mod tests;
