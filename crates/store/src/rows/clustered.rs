//! Clustered tables: the rows lie in the leaves of the primary tree.
//!
//! ```text
//! value of an entry:   row | 0        the row itself
//!                      address | 1    the row is too long for a leaf and lies in the table's heap
//! ```
//!
//! **Why an ordinary tree.** There are two designs: a special tree that knows rows, with ghosts and
//! overflow pages; or the existing tree with longer values, plus the existing heap for rows that
//! are too long. The second is built here. Splits, merges, logging, redo and bulk loads are those
//! of the index. Undo goes by key as for every index entry, because a row has no stable address.
//! Overflow rows with their forwards, ghosts and purges are those of the heap. The cost: a delete
//! leaves no ghost, so undoing it may have to split a leaf, as undoing the deletion of an index
//! entry may.
//!
//! **Updates** log the changed bytes together with the key ([`access::Kind::TreeUpdate`]). If a row
//! outgrows its leaf, the leaf splits. If a row is longer than a leaf takes, it moves to the heap
//! and stays there until it is deleted, even if it becomes short again.
//!
//! **Secondary indexes** hold no row addresses. Their entries contain the primary key, as in
//! every table. The value is empty, and a reader that follows an entry looks up the primary key.

use crate::catalog::tables::Table;
use crate::rows::row::{DeleteOutcome, Entries, InsertOutcome, LAYOUT, UpdateOutcome, change_row};
use crate::state::store::Store;
use crate::txn::chain::Txn;
use access::{Expect, MAX_ROW, Sight, TreeDelete, TreeInsert, TreeModify, TreeReplace};
use base::Rid;
use latch::Policies;
use pages::Stop;
use probe::mark::{self, marked};
use std::ops::ControlFlow;
use txn::{Columns, RowMut};

const HERE: u8 = 0;
const AWAY: u8 = 1;

/// Where the row of an entry in a clustered table's primary tree lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lies<'a> {
    Here(&'a [u8]),
    Away(Rid),
}

impl<'a> Lies<'a> {
    /// `None` for a value that is neither a row nor an address.
    #[inline]
    pub fn of(value: &'a [u8]) -> Option<Lies<'a>> {
        match value.split_last()? {
            (&HERE, row) => Some(Lies::Here(row)),
            (&AWAY, address) => Rid::decode(address).map(Lies::Away),
            _ => None,
        }
    }
}

/// The value for a row that lies in its leaf.
pub(crate) fn here(value: &mut Vec<u8>, row: &[u8]) {
    value.clear();
    value.extend_from_slice(row);
    value.push(HERE);
}

/// The value for a row in the heap.
pub(crate) fn away(rid: Rid) -> [u8; Rid::BYTES + 1] {
    let mut value = [AWAY; Rid::BYTES + 1];
    value[..Rid::BYTES].copy_from_slice(&rid.encode());
    value
}

/// Bytes of the value for a row that lies in its leaf.
pub(crate) fn length_here(row: &[u8]) -> usize {
    row.len() + 1
}

const NO_VALUE: &str = "an entry is neither a row nor the address of one";
const NO_ROW: &str = "the address of a long row has no row";

/// The result of looking at one entry.
enum Look<R> {
    Done(R),
    Away(Rid),
    Bad(&'static str),
}

impl Store {
    /// As [`Store::get`].
    #[inline]
    pub(crate) fn get_clustered<P: Policies, R>(
        &self,
        table: &Table,
        key: &[u8],
        sight: Option<Sight>,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, Stop> {
        let _traced = marked::<{ mark::LOOKUP }>();
        let mut f = Some(f);
        let look = self.tree(table).get_seen::<P::Index, _>(key, sight, |value| match Lies::of(value) {
            Some(Lies::Here(row)) if table.layout.fits(row) => {
                f.take().map_or(Look::Bad(LAYOUT), |f| Look::Done(f(row)))
            }
            Some(Lies::Here(_)) => Look::Bad(LAYOUT),
            Some(Lies::Away(rid)) => Look::Away(rid),
            None => Look::Bad(NO_VALUE),
        })?;
        match look {
            None => Ok(None),
            Some(Look::Done(result)) => Ok(Some(result)),
            Some(Look::Away(rid)) => f.map_or(Ok(None), |f| self.get_away::<P, R>(table, rid, f)),
            Some(Look::Bad(what)) => Err(self.broken(table, what)),
        }
    }

    /// [`Store::get_at`], kept out of the fast path of rows that lie in their leaves.
    #[cold]
    pub(crate) fn get_away<P: Policies, R>(
        &self,
        table: &Table,
        rid: Rid,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, Stop> {
        self.get_at::<P, R>(table, rid, f)
    }

    /// As [`Store::update`]. `row` is the working buffer.
    #[inline]
    pub(crate) fn update_clustered<P: Policies, R>(
        &self,
        txn: &mut Txn,
        (table, entries): (&Table, Entries),
        (key, sight): (&[u8], Option<Sight>),
        row: &mut Vec<u8>,
        f: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Result<UpdateOutcome<R>, Stop> {
        let _traced = marked::<{ mark::CHANGE }>();
        let tree = self.tree(table);
        let old_row = &mut txn.old_row;
        let (mut f, mut set) = (Some(f), Columns::NONE);
        let change = |value: &mut Vec<u8>| {
            match Lies::of(value) {
                Some(Lies::Here(row)) if table.layout.fits(row) => {}
                Some(Lies::Here(_)) => return ControlFlow::Break(Look::Bad(LAYOUT)),
                Some(Lies::Away(rid)) => return ControlFlow::Break(Look::Away(rid)),
                None => return ControlFlow::Break(Look::Bad(NO_VALUE)),
            }
            value.pop();
            let changed = change_row((table, entries), value, old_row, |row| f.take().map(|f| f(row)));
            set = changed.set;
            if changed.held_back {
                return ControlFlow::Break(Look::Done(changed.result));
            }
            value.push(HERE);
            ControlFlow::Continue((Look::Done(changed.result), changed.touched))
        };
        let done =
            tree.modify_seen::<P::Index, _>(&mut self.writer(&mut txn.chain), key, sight, row, change)?;
        let (result, outgrown) = match done {
            TreeModify::Done(Look::Done(Some(result))) => (result, false),
            TreeModify::Outgrown(Look::Done(Some(result))) => (result, true),
            TreeModify::Left(Look::Done(Some(result))) => return Ok(UpdateOutcome::Entries(result)),
            TreeModify::Left(Look::Away(rid)) => {
                let Some(f) = f else { return Ok(UpdateOutcome::Missing) };
                // `update_at` works in `txn.row`, which the caller has taken out.
                std::mem::swap(&mut txn.row, row);
                let done = self.update_at::<P, R>(txn, (table, entries), rid, f);
                std::mem::swap(&mut txn.row, row);
                return done;
            }
            TreeModify::Left(Look::Bad(what)) => return Err(self.broken(table, what)),
            // The closure runs at most once, and continues only with a result.
            _ => return Ok(UpdateOutcome::Missing),
        };
        if outgrown {
            self.regrow::<P>(txn, table, key, row)?;
        }
        row.pop();
        self.reindex::<P>(txn, (table, set), row, &[])?;
        Ok(UpdateOutcome::Done(result))
    }

    /// Writes the value of a row that has outgrown its leaf, or that is too long for any leaf.
    #[cold]
    fn regrow<P: Policies>(
        &self,
        txn: &mut Txn,
        table: &Table,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), Stop> {
        let tree = self.tree(table);
        let stub;
        let value = if tree.takes(key.len(), value.len()) {
            value
        } else {
            let row = &value[..value.len() - 1];
            let rid =
                self.insist(|| self.heap(table).insert::<P::Heap>(&mut self.writer(&mut txn.chain), row))?;
            stub = away(rid);
            &stub
        };
        match self.insist(|| tree.replace::<P::Index>(&mut self.writer(&mut txn.chain), key, value))? {
            TreeReplace::Done(_) => Ok(()),
            TreeReplace::Missing => Err(self.broken(table, "a row vanished while it was updated")),
        }
    }

    /// As [`Store::insert`], without the secondary trees.
    pub(crate) fn insert_clustered<P: Policies>(
        &self,
        txn: &mut Txn,
        table: &Table,
        key: &[u8],
        row: &[u8],
        expect: Expect<'_>,
    ) -> Result<InsertOutcome, Stop> {
        let tree = self.tree(table);
        if row.len() > MAX_ROW || !tree.takes(key.len(), length_here(row)) {
            let put = self.insert_in_heap::<P, _>(txn, table, key, row, expect, away)?;
            return Ok(put.map_or_else(|outcome| outcome, |_| InsertOutcome::Done));
        }
        let mut value = std::mem::take(&mut txn.row);
        here(&mut value, row);
        let _traced = marked::<{ mark::CREATE_ENTRY }>();
        let put = tree.insert::<P::Index>(&mut self.writer(&mut txn.chain), key, &value, expect);
        txn.row = value;
        Ok(match put? {
            TreeInsert::Done => InsertOutcome::Done,
            TreeInsert::Exists => InsertOutcome::Exists,
            TreeInsert::Next(next) => InsertOutcome::Next(next),
        })
    }

    /// As [`Store::delete`], without the secondary trees. If the table has any, `txn.old_row`
    /// becomes a copy of the row.
    pub(crate) fn delete_clustered<P: Policies>(
        &self,
        txn: &mut Txn,
        table: &Table,
        key: &[u8],
        expect: Expect<'_>,
    ) -> Result<DeleteOutcome, Stop> {
        let (tree, heap) = (self.tree(table), self.heap(table));
        let value = match tree.delete::<P::Index>(&mut self.writer(&mut txn.chain), key, expect)? {
            TreeDelete::Done(value) => value,
            TreeDelete::Missing => return Ok(DeleteOutcome::Missing),
            TreeDelete::Next(next) => return Ok(DeleteOutcome::Next(next)),
        };
        let is_wanted = !table.indexes.is_empty();
        let old = &mut txn.old_row;
        old.clear();
        match Lies::of(&value) {
            Some(Lies::Here(row)) if is_wanted => old.extend_from_slice(row),
            Some(Lies::Here(_)) => {}
            Some(Lies::Away(rid)) => {
                let mut copy = |row: &[u8]| {
                    old.clear();
                    old.extend_from_slice(row);
                };
                if is_wanted && self.insist(|| heap.read::<P::Heap, _>(rid, &mut copy))?.is_none() {
                    return Err(self.broken(table, NO_ROW));
                }
                self.insist(|| heap.delete::<P::Heap>(&mut self.writer(&mut txn.chain), rid))?;
                txn.ghosts.push((table.def.id, rid));
            }
            None => return Err(self.broken(table, NO_VALUE)),
        }
        if is_wanted && !table.layout.fits(&txn.old_row) {
            return Err(self.broken(table, LAYOUT));
        }
        Ok(DeleteOutcome::Done)
    }
}
