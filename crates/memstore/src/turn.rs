//! How a transaction comes to hot rows: waiting for its turn (`hot`), and what a worker remembers of where it failed.

use crate::arena::Ref;
use crate::guard::HOT;
use crate::hot::{Hot, Now, State, Ticket, Turn};
use crate::row;
use crate::store::{Cause, Conflict, Contention, Held, Refused, RowId};
use crate::tid::{LOCKED, PREPARED};
use crate::transaction::Txn;
use crate::worker::Worker;
use std::sync::atomic::Ordering;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum For {
    Reading,
    Writing,
}

/// Where a worker's transactions failed last: they come back, and then read these in turn.
#[derive(Default)]
pub(crate) struct Failures {
    rows: [Ref; 8],
    next: usize,
    /// How many tickets the worker has drawn.
    tickets: u64,
}

impl Failures {
    fn note(&mut self, row: Ref) {
        if !self.rows.contains(&row) {
            self.rows[self.next] = row;
            self.next = (self.next + 1) % self.rows.len();
        }
    }

    fn forget(&mut self, row: Ref) {
        self.rows.iter_mut().filter(|known| **known == row).for_each(|known| *known = Ref::NONE);
    }
}

/// A turn lasts some microseconds, which one waits for on the spot; then others get the core.
const SPINS: u32 = 400;

impl Worker {
    /// Waits for the turn of a transaction that is about to look at a row, if the row is hot.
    ///
    /// # Errors
    /// [`Refused::Busy`] when others are before it; [`Refused::Conflict`] when what it has read has changed meanwhile.
    #[inline]
    pub(crate) fn take_turn(&mut self, txn: &mut Txn, row: Ref, access: For) -> Result<(), Refused> {
        if row::readers(&self.store.arena, row).load(Ordering::Relaxed) & HOT == 0 {
            return Ok(());
        }
        self.queue_up(txn, row, access)
    }

    #[cold]
    fn queue_up(&mut self, txn: &mut Txn, row: Ref, access: For) -> Result<(), Refused> {
        if access == For::Reading && !self.failures.rows.contains(&row) {
            return Ok(());
        }
        let queue = Hot::queue_of(row);
        // Upwards in the order of queues there is no cycle of waiting.
        let is_upwards = txn.turns.iter().all(|turn| turn.queue <= queue);
        let turn = match txn.turns.iter().find(|turn| turn.queue == queue) {
            Some(turn) => *turn,
            None => {
                self.failures.tickets += 1;
                let ticket = Ticket::new(self.failures.tickets, self.number);
                let turn = self.store.hot.enter(row, ticket, &self.store.epochs);
                txn.turns.push(turn);
                turn
            }
        };
        match self.store.hot.state(&turn, &self.store.epochs) {
            State::Mine | State::Over => Ok(()),
            _ => self.await_turn(txn, turn, is_upwards),
        }
    }

    fn await_turn(&self, txn: &Txn, turn: Turn, is_upwards: bool) -> Result<(), Refused> {
        let mut spins = 0;
        loop {
            match self.store.hot.state(&turn, &self.store.epochs) {
                State::Mine => break,
                State::Over => return Ok(()),
                State::Other if spins < SPINS => std::hint::spin_loop(),
                State::Other | State::OwnWorker => match self.store.conflict {
                    _ if !is_upwards => return Ok(()),
                    Conflict::Wait => return Err(Refused::Busy(RowId(turn.row, Held::Turn(turn)))),
                    Conflict::Abort if spins < 2 * SPINS => std::thread::yield_now(),
                    Conflict::Abort => return Ok(()),
                },
            }
            spins += 1;
        }
        // What it read before it waited may have changed: better to know now than when it commits.
        match txn.reads.iter().all(|(row, word)| self.is_current(*row, *word)) {
            true => Ok(()),
            false => Err(Refused::Conflict(Cause::Changed)),
        }
    }

    fn is_current(&self, row: Ref, word: u64) -> bool {
        row::tid(&self.store.arena, row).load(Ordering::Relaxed) & !(LOCKED | PREPARED) == word
    }

    /// Gives up the transaction's places.
    #[inline]
    pub(crate) fn end_turns(&mut self, txn: &mut Txn) {
        if !txn.turns.is_empty() {
            self.leave_queues(txn);
        }
    }

    #[cold]
    fn leave_queues(&mut self, txn: &mut Txn) {
        for turn in txn.turns.drain(..) {
            self.failures.forget(turn.row);
            if self.store.hot.leave(&turn) == Now::Cold {
                row::readers(&self.store.arena, turn.row).fetch_and(!HOT, Ordering::Relaxed);
            }
        }
    }

    /// Notes that a transaction has failed at a row. Returns why.
    #[cold]
    pub(crate) fn failed_at(&mut self, row: Ref, refused: Refused) -> Refused {
        if self.store.contention == Contention::Queues && matches!(refused, Refused::Conflict(_)) {
            self.failures.note(row);
            if self.store.hot.failed(row, self.store.epochs.now()) == Now::Hot {
                row::readers(&self.store.arena, row).fetch_or(HOT, Ordering::Relaxed);
            }
        }
        refused
    }
}
