//! The pieces that an instance's data is loaded in, taken by its workers one by one.

use base::SiteId;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use store::Loaded;
use txn::Workload;

/// How rows come into the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// Page by page, and the trees at the end: only into an empty store.
    Bulk,
    /// One by one, each piece a transaction.
    Inserts,
}

/// The pieces of one instance's data.
pub(crate) struct LoadPlan {
    pieces: Vec<(SiteId, u32)>,
    next: AtomicU64,
    pub done: AtomicU64,
    /// Decided by whoever asks first, before anybody has written.
    way: OnceLock<Way>,
    /// What the workers that are done have loaded, and how many are not.
    loaded: Mutex<Loaded>,
    busy: AtomicUsize,
}

impl LoadPlan {
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
            loaded: Mutex::default(),
            busy: AtomicUsize::new(workers),
        }
    }

    pub fn way(&self, decide: impl FnOnce() -> Way) -> Way {
        *self.way.get_or_init(decide)
    }

    /// Takes what a worker has loaded; the last one to come is given all of it, to build the trees from.
    pub fn collect(&self, loaded: Loaded) -> Option<Loaded> {
        let mut all = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        all.merge(loaded);
        (self.busy.fetch_sub(1, Ordering::Relaxed) == 1).then(|| std::mem::take(&mut *all))
    }

    pub fn total(&self) -> u64 {
        self.pieces.len() as u64
    }

    pub fn take(&self) -> Option<(SiteId, u32)> {
        self.pieces.get(self.next.fetch_add(1, Ordering::Relaxed) as usize).copied()
    }
}
