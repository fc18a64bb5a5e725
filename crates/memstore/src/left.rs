//! The state of a worker that stays when the worker is dropped.

use crate::arena::{Local, Ref};
use crate::epoch::EpochUse;
use crate::pins::Pins;
use base::TableId;
use std::collections::VecDeque;

/// Garbage that a commit leaves behind. A snapshot of an earlier epoch than the one noted with it
/// may still need it.
pub(crate) enum Garbage {
    Version(Ref),
    /// A row that is absent under this word and still in the index of the table.
    Row(TableId, Ref, u64),
}

/// State that belongs to a worker number. When a worker is dropped, the next worker with the same
/// number takes it over.
pub(crate) struct Left {
    pub(crate) local: Local,
    pub(crate) reading: Pins,
    pub(crate) committing: Pins,
    pub(crate) prepared: Pins,
    pub(crate) snapshots: Pins,
    pub(crate) garbage: VecDeque<(u64, Garbage)>,
    /// Length of `garbage` when the last transaction ended.
    pub(crate) kept: usize,
    pub(crate) last_tid: u64,
    pub(crate) appended: u64,
    /// The epoch in which the last search for removable garbage found none.
    pub(crate) looked: u64,
    /// The bytes in the worker's log buffer after the last record, which may have been taken since.
    /// With too many of them the next commit waits.
    pub(crate) unwritten: usize,
}

impl Default for Left {
    fn default() -> Left {
        Left {
            local: Local::new(),
            reading: Pins::new(EpochUse::Reading),
            committing: Pins::new(EpochUse::Committing),
            prepared: Pins::new(EpochUse::Prepared),
            snapshots: Pins::new(EpochUse::Snapshot),
            garbage: VecDeque::new(),
            kept: 0,
            last_tid: 0,
            appended: 0,
            looked: 0,
            unwritten: 0,
        }
    }
}
