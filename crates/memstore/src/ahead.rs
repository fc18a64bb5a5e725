//! Rows that a transaction is about to ask for, looked up side by side before it does ([`Worker::ahead`]).
//!
//! What was found is kept with the transaction and taken by the operations that follow, in the same order. It is no part of
//! what the transaction has read before it is taken, and it is taken only as long as the index would still answer so: a row that
//! is not dead is in its index, and an absence holds while its leaf is unchanged. The transaction is pinned since it
//! began, so what is kept names memory that is still what it was.

use crate::abreast::LANES;
use crate::arena::Arena;
use crate::index::Found;
use crate::row;
use crate::store::{LookAhead, Refused};
use crate::tid::DEAD;
use crate::transaction::Txn;
use crate::worker::Worker;
use base::TableId;
use std::sync::atomic::Ordering;

/// What was found for one transaction.
#[derive(Default)]
pub(crate) struct Ahead {
    keys: Vec<u8>,
    seen: Vec<Asked>,
    /// The first that was not asked for yet.
    next: usize,
}

struct Asked {
    table: TableId,
    /// Where its key ends in `keys`.
    end: usize,
    found: Found,
}

impl Ahead {
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.seen.clear();
        self.next = 0;
    }

    /// What was found of this key, if it is the next one.
    #[inline]
    pub(crate) fn take(&mut self, table: TableId, key: &[u8]) -> Option<Found> {
        let asked = self.seen.get(self.next)?;
        let start = self.next.checked_sub(1).map_or(0, |before| self.seen[before].end);
        if asked.table != table || &self.keys[start..asked.end] != key {
            return None;
        }
        self.next += 1;
        Some(asked.found)
    }
}

impl Found {
    /// Whether the index would say the same now.
    #[inline]
    pub(crate) fn is_current(&self, arena: &Arena) -> bool {
        match self.row {
            Some(row) => row::tid(arena, row).load(Ordering::Acquire) & DEAD == 0,
            None => self.seen.holds(arena),
        }
    }
}

impl Worker {
    /// Says which rows of a table the transaction will ask for next, in this order: they are looked up side by side, and
    /// fetched. A hint: it reads nothing as far as the transaction is concerned, and other operations may come between.
    ///
    /// # Errors
    /// [`Refused::NoTable`].
    #[inline]
    pub fn ahead(&mut self, txn: &mut Txn, table: TableId, keys: &[impl AsRef<[u8]>]) -> Result<(), Refused> {
        let index = self.store.index(table)?;
        if self.store.look_ahead == LookAhead::Never {
            return Ok(());
        }
        let arena = &self.store.arena;
        for keys in keys.chunks(LANES) {
            let ahead = &mut txn.ahead;
            let first = ahead.seen.len();
            for key in keys {
                ahead.keys.extend_from_slice(key.as_ref());
                ahead.seen.push(Asked { table, end: ahead.keys.len(), found: Found::default() });
            }
            index.find_abreast(arena, keys, |i, found| {
                found.row.inspect(|row| row::ask_for(arena, *row));
                ahead.seen[first + i].found = found;
            });
        }
        Ok(())
    }

    /// As [`Worker::find`] for many keys side by side: how many the index has.
    ///
    /// # Errors
    /// [`Refused::NoTable`].
    pub fn find_many(&mut self, table: TableId, keys: &[impl AsRef<[u8]>]) -> Result<usize, Refused> {
        let reading = self.own.reading.add(&self.store.epochs, self.number);
        let mut count = 0;
        let index = self.store.index(table).map(|index| {
            for keys in keys.chunks(LANES) {
                index.find_abreast(&self.store.arena, keys, |_, found| {
                    count += usize::from(found.row.is_some())
                });
            }
        });
        self.own.reading.remove(&self.store.epochs, self.number, reading);
        index.map(|()| count)
    }
}
