//! The pieces in which an instance's data is loaded. Its workers take them one by one.

use base::SiteId;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use txn::Workload;

/// How rows enter the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// Page by page, and the trees at the end: only into an empty store.
    Bulk,
    /// One by one; each piece is a transaction.
    Inserts,
}

/// The pieces of one instance's data.
pub(crate) struct LoadPlan {
    pieces: Vec<(SiteId, u32)>,
    next: AtomicU64,
    pub done: AtomicU64,
    /// Decided by the first worker that asks, before any worker has written.
    way: OnceLock<Way>,
    /// Workers that are not done.
    busy: AtomicUsize,
}

impl LoadPlan {
    /// The pieces of `sites`, for `workers` workers.
    pub fn new<W: Workload>(workload: &W, sites: std::ops::Range<u32>, workers: usize) -> LoadPlan {
        let pieces = sites
            .map(SiteId)
            .flat_map(|site| (0..workload.load_parts(site)).map(move |part| (site, part)))
            .collect();
        LoadPlan {
            pieces,
            next: AtomicU64::new(0),
            done: AtomicU64::new(0),
            way: OnceLock::new(),
            busy: AtomicUsize::new(workers),
        }
    }

    /// How rows enter the store; the first call decides.
    pub fn way(&self, decide: impl FnOnce() -> Way) -> Way {
        *self.way.get_or_init(decide)
    }

    /// Marks a worker as done. Returns whether it was the last.
    pub fn is_last(&self) -> bool {
        self.busy.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// The number of pieces.
    pub fn total(&self) -> u64 {
        self.pieces.len() as u64
    }

    /// The next piece that no worker has taken.
    pub fn take(&self) -> Option<(SiteId, u32)> {
        self.pieces.get(self.next.fetch_add(1, Ordering::Relaxed) as usize).copied()
    }
}
