//! The recorded changes of a disk, in order; any moment can be recovered from them.

use super::Disk;
use super::state::{Entry, State};
use std::sync::Arc;

/// All changes of a recording disk so far. Cheap to clone.
#[derive(Clone)]
pub struct Tape {
    pub(crate) begin: Arc<State>,
    pub(crate) entries: Arc<[Entry]>,
}

impl Tape {
    /// Number of changes. A position P means: the first P have happened.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The positions just before a file or a folder was synced: the pending changes are most there.
    pub fn syncs(&self) -> Vec<usize> {
        let is_sync = |e: &Entry| matches!(e, Entry::Sync { .. } | Entry::SyncFolder(_));
        (0..self.len()).filter(|n| is_sync(&self.entries[*n])).collect()
    }

    /// A player at the beginning.
    pub fn player(&self) -> Player {
        Player { tape: self.clone(), state: (*self.begin).clone(), position: 0 }
    }
}

/// Goes forward through a tape and returns the disk at any moment on the way.
#[derive(Clone)]
pub struct Player {
    tape: Tape,
    state: State,
    position: usize,
}

impl Player {
    pub fn position(&self) -> usize {
        self.position
    }

    /// Goes to `position`, which must not be before the present one.
    pub fn go_to(&mut self, position: usize) {
        assert!(self.position <= position && position <= self.tape.len(), "a player only goes forward");
        self.tape.entries[self.position..position].iter().for_each(|e| self.state.apply(e));
        self.position = position;
    }

    /// A new disk as after the power went at this moment; the seed decides which unsynced changes
    /// are kept.
    pub fn crash_image(&self, seed: u64) -> Disk {
        Disk::holding(self.state.crashed(seed))
    }

    /// A new disk as after the process was killed at this moment.
    pub fn killed(&self) -> Disk {
        Disk::holding(self.state.killed())
    }
}
