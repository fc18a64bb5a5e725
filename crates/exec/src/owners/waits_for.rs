//! The waits-for graph over the lock tables of several owners.
//!
//! A worker's own lock table finds every cycle that lies inside it before a wait begins. A cycle
//! over two tables is seen by neither:
//!
//! ```text
//!   owner 0: T1 waits for T2          owner 1: T2 waits for T1
//! ```
//!
//! So a transaction that has steps at several owners and has to wait records in this graph the
//! transactions that block it, and looks for a path from them back to itself. If there is one, it
//! gives up. No other transaction touches the graph: one that need not wait, or that has steps at
//! one owner only, pays nothing. A cycle may lead through a transaction with steps at one owner
//! only. That one waits in the table in which it is waited for, so the transaction that records its
//! wait looks through it to its blockers ([`locks::LockTable::blockers`]).
//!
//! **Every cycle is found.** Recording and searching are one step under the mutex, so the last
//! member of a cycle to record its wait sees all the others. The blockers of a waiting transaction
//! may change while it waits (a transaction that stood before it gets the lock), and that may close
//! a cycle. It therefore records them again every [`AGAIN_NS`], and finds the cycle then.
//!
//! **No cycle is reported where there is none,** with one exception. A name in the graph belongs to
//! one transaction for ever, and a transaction keeps its locks until its end. An entry that is out
//! of date therefore names a transaction that is still waited for, or one that has ended and waits
//! for none. The exception: T1 has looked through T2, which waits for T3, and recorded T3; then T2
//! gives up. For up to [`AGAIN_NS`] T1 still counts as waiting for T3. A transaction may then be
//! retried without need.

use probe::Section;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The interval at which a waiting transaction records its blockers again.
pub(crate) const AGAIN_NS: u64 = 1_000_000;

/// The blockers of each waiting transaction, keyed by its name and the owner where it waits.
#[derive(Default)]
pub(crate) struct WaitsForGraph(Mutex<BTreeMap<(u64, usize), Vec<u64>>>);

impl WaitsForGraph {
    /// Records that a transaction waits at `owner` for `blockers`. True if that closes a cycle:
    /// then nothing is recorded, and the transaction must give up.
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

    /// Removes the entry: the wait is over.
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
        let graph = WaitsForGraph::default();
        assert!(!graph.closes_cycle(1, 0, &[2]));
        assert!(!graph.closes_cycle(2, 1, &[3, 9]));
        assert!(graph.closes_cycle(3, 0, &[8, 1]));
        assert!(!graph.closes_cycle(1, 0, &[2]), "the cycle went with the one that gave up");
        graph.strike_out(2, 1);
        assert!(!graph.closes_cycle(3, 0, &[1]));
    }

    /// A transaction with steps at two owners may wait at both.
    #[test]
    fn all_waits_of_a_transaction_count() {
        let graph = WaitsForGraph::default();
        assert!(!graph.closes_cycle(1, 0, &[5]));
        assert!(!graph.closes_cycle(1, 1, &[2]));
        assert!(graph.closes_cycle(2, 3, &[1]));
        graph.strike_out(1, 1);
        assert!(!graph.closes_cycle(2, 3, &[1]));
    }
}
