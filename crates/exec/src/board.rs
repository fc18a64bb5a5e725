//! Who waits for whom over several owners' lock tables.
//!
//! A worker's own table finds every cycle that lies inside it before a wait begins. A transaction that waits at one owner while it
//! holds locks at another can close a cycle that no table sees. So whoever is at several owners and has to wait writes on the board for
//! whom, and looks whether that leads back to itself; if it does, it is the one that gives up. Nothing else ever touches the board: a
//! transaction that need not wait, or has steps at one owner only, pays nothing. A cycle may lead through such a one; but it waits in the
//! table in which it is waited for, so who writes sees through it ([`locks::LockTable::blockers`]).
//!
//! **Found:** writing and looking are one step under the mutex, so of the members of a cycle the last one to write sees the
//! others. For whom a transaction waits may change while it waits (the lock goes to one that stood before it), so it
//! writes anew every [`AGAIN_NS`], and a cycle that such a change closes is found then. **Never found where there is none:** a name
//! on the board belongs to one transaction for ever, and a transaction keeps its locks until its end, so an entry that is out of
//! date names one that is still waited for, or one that has ended and waits for nobody.

use probe::Section;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// How often one that waits writes anew.
pub(crate) const AGAIN_NS: u64 = 1_000_000;

/// The names of those who wait, where each does, and for whom.
#[derive(Default)]
pub(crate) struct Board(Mutex<BTreeMap<(u64, usize), Vec<u64>>>);

impl Board {
    /// Writes down that `who` waits at `owner` for `blockers`. True if a cycle is closed: then nothing is written, and `who` must
    /// give up.
    pub fn closes_cycle(&self, who: u64, owner: usize, blockers: &[u64]) -> bool {
        probe::enter(Section::LockDetector);
        let mut waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let written = waits.entry((who, owner)).or_default();
        written.clear();
        written.extend_from_slice(blockers);
        let closed = leads_back(&waits, who);
        if closed {
            waits.remove(&(who, owner));
        }
        closed
    }

    /// The wait is over.
    pub fn strike_out(&self, who: u64, owner: usize) {
        probe::enter(Section::LockDetector);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&(who, owner));
    }
}

fn leads_back(waits: &BTreeMap<(u64, usize), Vec<u64>>, start: u64) -> bool {
    let (mut stack, mut seen) = (vec![start], vec![start]);
    while let Some(who) = stack.pop() {
        for &blocker in waits.range((who, 0)..=(who, usize::MAX)).flat_map(|(_, blockers)| blockers) {
            if blocker == start {
                return true;
            }
            if !seen.contains(&blocker) {
                seen.push(blocker);
                stack.push(blocker);
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_a_cycle_finds_it_and_the_others_go_on() {
        let board = Board::default();
        assert!(!board.closes_cycle(1, 0, &[2]));
        assert!(!board.closes_cycle(2, 1, &[3, 9]));
        assert!(board.closes_cycle(3, 0, &[8, 1]));
        assert!(!board.closes_cycle(1, 0, &[2]), "the cycle went with the one that gave up");
        board.strike_out(2, 1);
        assert!(!board.closes_cycle(3, 0, &[1]));
    }

    /// A transaction with steps at two owners waits at both.
    #[test]
    fn all_waits_of_a_transaction_count() {
        let board = Board::default();
        assert!(!board.closes_cycle(1, 0, &[5]));
        assert!(!board.closes_cycle(1, 1, &[2]));
        assert!(board.closes_cycle(2, 3, &[1]));
        board.strike_out(1, 1);
        assert!(!board.closes_cycle(2, 3, &[1]));
    }
}
