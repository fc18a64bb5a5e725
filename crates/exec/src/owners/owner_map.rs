//! The owner map: which worker owns each site. All workers of an instance read it, and it changes
//! while transactions run.
//!
//! ```text
//!   a home                                   the giver                        the taker
//!   version 7, worker 0 owns site 3
//!   message (version 7, site 3) ---------->  drained; site 3 := worker 1;
//!                                            version 8
//!                                            reads the message: the version
//!                                            is not 7, site 3 is not its own
//!   looks again  <------------------ moved   and sends it back
//!   version 8, worker 1 owns site 3
//!   message (version 8, site 3) ---------------------------------------->  runs it
//! ```
//!
//! Access rules:
//!
//! - The owner of a site alone gives it away, on its own thread, at a moment when no transaction
//!   holds a lock or is at work there. One owner at a time does so (the caller holds a mutex).
//! - Every worker reads.
//! - **An owner runs a step only after it has checked that the step's sites are its own
//!   ([`OwnerMap::holds`]), and gives nothing away before that step has ended.**
//!
//! So two workers never work on one site at a time. The giver's work on a site also happens before
//! the taker's: the step that comes to the taker was routed by a worker that had read the giver's
//! write.
//!
//! The map version (in a [`MapVersion`]) spares the receiver a look at each site of a message. A
//! home reads the version first and the sites afterwards; a giver writes the sites first and
//! increments the version afterwards. If the receiver finds the version that is on the message, it
//! has given nothing away since the home looked: its own giving would have incremented the version.
//! If it finds another version, it looks at the sites.

use super::sync::{AtomicU16, AtomicU64, Ordering};
use std::ops::Range;

/// The owner map. Only owners write it, by [`OwnerMap::give`]; see the file's head.
#[derive(Debug)]
pub(crate) struct OwnerMap {
    owners: Box<[AtomicU16]>,
    version: AtomicU64,
}

/// The map version under which the steps of a message were routed, and their sites. It tells the
/// receiver whether the steps are its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapVersion {
    seen: u64,
    /// The sites of the instance that the steps lie in, and perhaps some between.
    sites: Range<u32>,
}

impl MapVersion {
    /// Adds a site in which steps lie.
    #[inline]
    pub fn widen(&mut self, site: u32) {
        let Range { start, end } = self.sites;
        self.sites = if start == end { site..site + 1 } else { start.min(site)..end.max(site + 1) };
    }
}

impl OwnerMap {
    pub fn new(owners: impl IntoIterator<Item = usize>) -> OwnerMap {
        let owners = owners.into_iter().map(|owner| AtomicU16::new(owner as u16)).collect();
        OwnerMap { owners, version: AtomicU64::new(0) }
    }

    pub fn sites(&self) -> usize {
        self.owners.len()
    }

    /// The owner of a site. Sites past the end belong to the owner of the last one.
    #[inline]
    pub fn owner(&self, site: usize) -> usize {
        let site = site.min(self.owners.len() - 1);
        // Acquire: the new owner works after the old owner's last work on the site.
        usize::from(self.owners[site].load(Ordering::Acquire))
    }

    /// To be taken before the owners of the steps of one message are looked up.
    #[inline]
    pub fn map_version(&self) -> MapVersion {
        MapVersion { seen: self.version(), sites: 0..0 }
    }

    /// The map version: incremented whenever sites change hands.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Whether `worker`, the calling one, may run steps with this map version. One without sites is
    /// valid for its own version only.
    #[inline]
    pub fn holds(&self, worker: usize, map_version: &MapVersion) -> bool {
        let own = |site: u32| self.owner(site as usize) == worker;
        self.version() == map_version.seen
            || (!map_version.sites.is_empty() && map_version.sites.clone().all(own))
    }

    /// Gives sites away. Called by their owner once no transaction is at work there, and by one
    /// thread at a time.
    pub fn give(&self, sites: Range<usize>, to: usize) {
        self.owners[sites].iter().for_each(|owner| owner.store(to as u16, Ordering::Release));
        self.version.fetch_add(1, Ordering::AcqRel);
    }
}
