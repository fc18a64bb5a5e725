//! The pieces that an instance's data is loaded in, taken by its workers one by one.

use base::SiteId;
use std::sync::atomic::{AtomicU64, Ordering};
use txn::Workload;

/// The pieces of one instance's data.
pub(crate) struct LoadPlan {
    pieces: Vec<(SiteId, u32)>,
    next: AtomicU64,
    pub done: AtomicU64,
}

impl LoadPlan {
    pub fn new<W: Workload>(workload: &W, sites: std::ops::Range<u32>) -> LoadPlan {
        let pieces = sites
            .map(SiteId)
            .flat_map(|site| (0..workload.load_parts(site)).map(move |part| (site, part)))
            .collect();
        LoadPlan { pieces, next: AtomicU64::new(0), done: AtomicU64::new(0) }
    }

    pub fn total(&self) -> u64 {
        self.pieces.len() as u64
    }

    pub fn take(&self) -> Option<(SiteId, u32)> {
        self.pieces.get(self.next.fetch_add(1, Ordering::Relaxed) as usize).copied()
    }
}
