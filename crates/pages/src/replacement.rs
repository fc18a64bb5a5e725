//! Which page is to leave: three queues, so that a scan does not drive out what is used again and again (S3-FIFO, Yang
//! et al., SOSP 2023; the second queue is 2Q's, Johnson and Shasha, VLDB 1994).
//!
//! ```text
//!   loaded --> young --(marked)--> probed --unused since--> leaves, remembered as a ghost
//!                |                    | used since
//!                +- was a ghost ->  main  <--used since--+
//!                                     +--> marked, to the end; unused for a whole turn: leaves
//! ```
//!
//! A page just loaded is used at once by whoever loaded it, once or a few times in a row: that says nothing. So it is
//! marked only when half of the young pages have come after it, and proves itself by being used after that. A page that
//! leaves unproven and comes back soon goes to the main queue at once.
//!
//! The queues hold slots; every named slot is in one of them, or in the hands of whoever popped it. The marks are in the
//! pages' words and cost the user of a page nothing.

use base::PageId;
use std::collections::{HashSet, VecDeque};

/// Share of the frames that unproven pages may take: a tenth, as in the paper.
const YOUNG_SHARE: usize = 10;
/// They may take so many in a small pool, up to half of it: fewer than the transactions that wait for pages have asked for, and
/// pages would be thrown out before whoever asked comes to use them.
const YOUNG_LEAST: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// Unproven.
    Young,
    Main,
}

pub(crate) struct Replacement {
    young: VecDeque<u32>,
    probed: VecDeque<u32>,
    main: VecDeque<u32>,
    ghosts: VecDeque<u32>,
    remembered: HashSet<u32>,
    /// Pages that may be young or probed while the main queue has any.
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

    /// A page was loaded into `slot`. Gives a slot whose page must now be marked, if there is one.
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

    /// The slot whose turn it is; the caller has it in its hands until it says [`Replacement::stays`] or the page left.
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

    /// The page in `slot` stays, proven or with another turn to prove itself.
    pub fn stays(&mut self, slot: usize) {
        self.main.push_back(slot as u32);
    }

    /// A page has left.
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

    /// The slots next to leave, in order.
    pub fn next(&self) -> impl Iterator<Item = usize> {
        self.probed.iter().chain(&self.main).map(|&slot| slot as usize)
    }
}
