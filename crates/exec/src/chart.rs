//! Who owns each site, as all workers of an instance see it while it changes under them.
//!
//! ```text
//!   a home                                   the giver                               the taker
//!   stamp 7, site 3 is of worker 0
//!   letter (stamp 7, site 3) ------------->  drained; site 3 := worker 1; stamp 8
//!                                            reads the letter: not 7 any more, and 3 is not mine
//!   looks again  <------------------ moved   and sends it back
//!   stamp 8, site 3 is of worker 1
//!   letter (stamp 8, site 3) ------------------------------------------------------> runs it
//! ```
//!
//! Who may do what: a site is given away by its owner alone, on its own thread, at a moment when no transaction holds a lock there
//! or is at work there; one owner at a time does so (the caller's mutex). Everybody reads. **An owner runs a step only after it has asked
//! whether the step's sites are its own ([`Chart::holds`]), and gives nothing away before that step has ended.** So two workers
//! never work on one site at a time, and what the giver did there happened before what the taker does: the step that comes to the taker was
//! routed by somebody who saw what the giver wrote.
//!
//! The stamp spares the receiver a look at each site of a letter. A home reads it first and the sites afterwards; a giver writes the sites first and
//! counts the stamp up afterwards. If the receiver finds the stamp that is on the letter, it has given nothing away since the home
//! looked: its own giving would have counted it up. If it finds another one, it looks at the sites.

use super::sync::{AtomicU16, AtomicU64, Ordering};
use std::ops::Range;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Chart {
    owners: Box<[AtomicU16]>,
    stamp: AtomicU64,
}

/// What a letter says of its steps, so that who gets it can tell whether they are for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stamp {
    seen: u64,
    /// The sites of the instance that the steps lie in, and perhaps some between.
    sites: Range<u32>,
}

impl Stamp {
    /// The steps lie in this site too.
    #[inline]
    pub fn widen(&mut self, site: u32) {
        let Range { start, end } = self.sites;
        self.sites = if start == end { site..site + 1 } else { start.min(site)..end.max(site + 1) };
    }
}

impl Chart {
    pub fn new(owners: impl IntoIterator<Item = usize>) -> Chart {
        let owners = owners.into_iter().map(|owner| AtomicU16::new(owner as u16)).collect();
        Chart { owners, stamp: AtomicU64::new(0) }
    }

    pub fn sites(&self) -> usize {
        self.owners.len()
    }

    /// Sites past the end belong to the last one's owner.
    #[inline]
    pub fn owner(&self, site: usize) -> usize {
        let site = site.min(self.owners.len() - 1);
        // Acquire: who works for a new owner works behind what the old one did.
        usize::from(self.owners[site].load(Ordering::Acquire))
    }

    /// To be taken before the owners of steps are looked up that share a letter.
    #[inline]
    pub fn stamp(&self) -> Stamp {
        Stamp { seen: self.version(), sites: 0..0 }
    }

    /// Counted up whenever sites change hands.
    #[inline]
    pub fn version(&self) -> u64 {
        self.stamp.load(Ordering::Acquire)
    }

    /// Whether `worker`, the calling one, may run steps that were stamped like this. One without sites is good for the stamp alone.
    #[inline]
    pub fn holds(&self, worker: usize, stamp: &Stamp) -> bool {
        let own = |site: u32| self.owner(site as usize) == worker;
        self.version() == stamp.seen || (!stamp.sites.is_empty() && stamp.sites.clone().all(own))
    }

    /// Gives sites away; by their owner, once nobody is at work there, and by one thread at a time.
    pub fn give(&self, sites: Range<usize>, to: usize) {
        self.owners[sites].iter().for_each(|owner| owner.store(to as u16, Ordering::Release));
        self.stamp.fetch_add(1, Ordering::AcqRel);
    }
}
