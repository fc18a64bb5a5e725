//! How a transaction waits for its turn at hot rows and heads (`hot`).

use crate::arena::Ref;
use crate::hot::{AccessKind, Head, HeatChange, Hot, QueueKey, Turn, TurnState};
use crate::read_reservation::HOT;
use crate::row;
use crate::store::{Cause, Conflict, Contention, Held, Refused, RowId};
use crate::tid::{LOCKED, PREPARED};
use crate::transaction::{Heads, Txn};
use crate::worker::Worker;
use base::TableId;
use std::sync::atomic::Ordering;

/// Spins while another worker has the turn: a turn lasts some microseconds.
const SPINS: u32 = if cfg!(test) { 4 } else { 400 };
/// Yields after that, where the caller cannot be told to wait ([`Conflict::Abort`]). Then the
/// transaction goes on without its turn.
const YIELDS: u32 = if cfg!(test) { 4 } else { 400 };

fn id_of(turn: &Turn) -> RowId {
    RowId(Ref(turn.place), Held::Turn { queue: turn.queue as u16, until: turn.until })
}

impl Worker {
    /// Waits for the turn of a transaction that is about to look at a row, if the row is hot.
    ///
    /// # Errors
    /// [`Refused::Busy`] when other transactions are ahead of it; [`Refused::Conflict`] when a row
    /// that it has read has changed meanwhile.
    #[inline]
    pub(crate) fn take_turn(
        &self,
        txn: &mut Txn,
        table: TableId,
        row: Ref,
        access: AccessKind,
    ) -> Result<(), Refused> {
        if row::readers(&self.store.arena, row).load(Ordering::Relaxed) & HOT == 0 {
            return Ok(());
        }
        self.queue_up(txn, table, QueueKey::Row(row), access)
    }

    /// Says that a transaction is about to look for rows of a table, from a key on, that it will
    /// change or delete. Waits for its turn if such transactions keep failing at the rows that they
    /// find from there.
    ///
    /// # Errors
    /// [`Refused::Busy`] when other transactions are ahead of it; [`Refused::Conflict`] when a row
    /// that it has read has changed meanwhile.
    pub fn queue_at(&self, txn: &mut Txn, table: TableId, key: &[u8]) -> Result<(), Refused> {
        let head = Head::of(table, key);
        if !txn.heads.contains(&(table, head)) {
            txn.heads.push((table, head));
        }
        if self.store.hot.is_hot(head) {
            self.queue_up(txn, table, QueueKey::Head(head), AccessKind::Writing)
        } else {
            Ok(())
        }
    }

    #[cold]
    fn queue_up(
        &self,
        txn: &mut Txn,
        table: TableId,
        at: QueueKey,
        access: AccessKind,
    ) -> Result<(), Refused> {
        let (hot, queue, now) = (&self.store.hot, Hot::queue_of(table, at), self.store.epochs.now());
        // Waits that only go upwards in the order of queues form no cycle.
        let is_upwards = txn.turns.iter().all(|turn| turn.queue <= queue);
        let known = txn.turns.iter().position(|turn| turn.queue == queue);
        let place = known.unwrap_or_else(|| {
            txn.turns.push(hot.enter(queue, at, access, self.number, now));
            txn.turns.len() - 1
        });
        let turn = txn.turns[place];
        if turn.has_begun {
            return Ok(());
        }
        let waits = known.is_some() || hot.state(&turn, now) != TurnState::Mine;
        self.await_turn(turn, is_upwards)?;
        txn.turns[place].has_begun = true;
        // Rows that it read before it waited may have changed: an abort costs less here than at
        // commit.
        let written = txn.writes.iter().map(|write| (write.row, write.seen));
        match !waits || txn.reads.iter().copied().chain(written).all(|(row, word)| self.is_current(row, word))
        {
            true => Ok(()),
            false => Err(Refused::Conflict(Cause::Changed)),
        }
    }

    fn await_turn(&self, turn: Turn, is_upwards: bool) -> Result<(), Refused> {
        let mut rounds = 0;
        loop {
            match self.store.hot.state(&turn, self.store.epochs.now()) {
                TurnState::Mine | TurnState::Over => return Ok(()),
                TurnState::Other if rounds < SPINS => std::hint::spin_loop(),
                state => match (self.store.conflict, state) {
                    _ if !is_upwards => return Ok(()),
                    (Conflict::Wait, _) => return Err(Refused::Busy(id_of(&turn))),
                    (Conflict::Abort, TurnState::Other) if rounds < SPINS + YIELDS => {
                        std::thread::yield_now()
                    }
                    (Conflict::Abort, _) => return Ok(()),
                },
            }
            rounds += 1;
        }
    }

    fn is_current(&self, row: Ref, word: u64) -> bool {
        row::tid(&self.store.arena, row).load(Ordering::Relaxed) & !(LOCKED | PREPARED) == word
    }

    /// Gives up the transaction's places.
    #[inline]
    pub(crate) fn end_turns(&self, txn: &mut Txn) {
        if !txn.turns.is_empty() {
            self.leave_queues(txn);
        }
    }

    #[cold]
    fn leave_queues(&self, txn: &mut Txn) {
        for turn in txn.turns.drain(..) {
            if self.store.hot.leave(&turn) == HeatChange::Cold {
                match turn.at {
                    QueueKey::Row(row) => {
                        _ = row::readers(&self.store.arena, row).fetch_and(!HOT, Ordering::Relaxed)
                    }
                    QueueKey::Head(head) => self.store.hot.cool(head),
                }
            }
        }
    }

    /// Notes that a transaction has failed at a row, and at the key from which it began to look for
    /// rows of that table. Returns the reason.
    #[cold]
    pub(crate) fn failed_at(&self, heads: &Heads, (table, row): (TableId, Ref), refused: Refused) -> Refused {
        if self.store.contention == Contention::Optimistic || !matches!(refused, Refused::Conflict(_)) {
            return refused;
        }
        let (hot, now) = (&self.store.hot, self.store.epochs.now());
        if hot.failed(row, now) == HeatChange::Hot {
            row::readers(&self.store.arena, row).fetch_or(HOT, Ordering::Relaxed);
        }
        // Only the first of several heads counts: a transaction that waits there does not come to
        // the others.
        if let Some((_, head)) = heads.iter().find(|(of, _)| *of == table) {
            hot.failed_from(*head, now);
        }
        refused
    }
}
