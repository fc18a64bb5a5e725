//! The order of eviction: three queues, so that a scan does not evict pages that are used
//! repeatedly (S3-FIFO, Yang et al., SOSP 2023; the second queue is 2Q's, Johnson and Shasha, VLDB
//! 1994).
//!
//! ```text
//!   loaded --> young --(marked)--> probed --unused since--> evicted, remembered as a ghost
//!                |                    | used since
//!                +- was a ghost ->  main  <--used since--+
//!                                     +--> marked, to the end; unused for a whole round: evicted
//! ```
//!
//! The transaction that loads a page uses it at once, once or a few times in a row, which shows
//! nothing about later use. So a page is marked only when half of the allowed number of unproven
//! pages were loaded after it. It counts as proven if it is used after that. A page that is evicted
//! unproven and soon loaded again goes directly to the main queue.
//!
//! The queues contain slots. Every slot that names a page is in one of the queues, or was popped by
//! a thread that is examining it. The marks are in the pages' words and cost the user of a page
//! nothing.

use base::PageId;
use std::collections::{HashSet, VecDeque};

/// Maximum number of pages evicted in one call. Each eviction costs a system call, which gives the
/// memory back.
pub(crate) const LEAVE: usize = 32;

/// A page that its owner may evict: its slot, its number, and the queue it was taken from.
pub(crate) type Offered = (usize, PageId, From);

/// The result of one search for pages to evict.
#[derive(Default)]
pub(crate) struct Found {
    pub left: usize,
    /// Pages put into a batch, to be evicted once it is written.
    pub leaving: usize,
    pub looked: usize,
}

/// The unproven pages may take one in this many frames: a tenth, as in the paper.
const YOUNG_SHARE: usize = 10;
/// In a small pool the unproven pages may take this many frames, but at most half of all. With
/// fewer, the pages that waiting transactions have asked for would be evicted before those
/// transactions use them.
const YOUNG_LEAST: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// The page is unproven.
    Young,
    Main,
}

pub(crate) struct Replacement {
    young: VecDeque<u32>,
    probed: VecDeque<u32>,
    main: VecDeque<u32>,
    ghosts: VecDeque<u32>,
    remembered: HashSet<u32>,
    /// Maximum number of young and probed pages while the main queue is not empty.
    unproven: usize,
    frames: usize,
}

impl Replacement {
    pub fn new(frames: usize) -> Replacement {
        Replacement {
            young: VecDeque::new(),
            probed: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: VecDeque::new(),
            remembered: HashSet::new(),
            unproven: (frames / YOUNG_SHARE).max(YOUNG_LEAST).min(frames / 2).max(1),
            frames,
        }
    }

    /// A page was loaded into `slot`. Returns the slot of the page that must be marked now, if
    /// there is one.
    #[must_use]
    pub fn enter(&mut self, slot: usize, page: PageId) -> Option<usize> {
        if self.remembered.remove(&page.0) {
            self.main.push_back(slot as u32);
            return None;
        }
        self.young.push_back(slot as u32);
        if self.young.len() <= self.unproven / 2 {
            return None;
        }
        let probed = self.young.pop_front()?;
        self.probed.push_back(probed);
        Some(probed as usize)
    }

    /// The next slot. The caller examines it, and then calls [`Replacement::stays`] or evicts the
    /// page.
    pub fn pop(&mut self) -> Option<(usize, From)> {
        let crowded = self.young.len() + self.probed.len() > self.unproven;
        let unproven = if crowded || self.main.is_empty() { self.probed.pop_front() } else { None };
        let slot = match unproven {
            Some(slot) => (slot, From::Young),
            None => match self.main.pop_front() {
                Some(slot) => (slot, From::Main),
                None => (self.young.pop_front()?, From::Young),
            },
        };
        Some((slot.0 as usize, slot.1))
    }

    /// The page in `slot` stays: it is proven, or gets another round.
    pub fn stays(&mut self, slot: usize) {
        self.main.push_back(slot as u32);
    }

    /// A page was evicted.
    pub fn left(&mut self, page: PageId, from: From) {
        if from == From::Main || !self.remembered.insert(page.0) {
            return;
        }
        self.ghosts.push_back(page.0);
        if self.ghosts.len() > self.frames
            && let Some(oldest) = self.ghosts.pop_front()
        {
            self.remembered.remove(&oldest);
        }
    }

    /// The next slots for eviction, in order.
    pub fn next(&self) -> impl Iterator<Item = usize> {
        self.probed.iter().chain(&self.main).chain(&self.young).map(|&slot| slot as usize)
    }
}
