//! Operations on one row, which keep a table's primary tree, secondary trees and heap consistent.
//!
//! Errors by phase:
//!
//! - *Finding* the row, before any change: [`Stop`] goes to the caller, which loads the page and
//!   calls again.
//! - *Changing*: if a later part of the operation needs an absent page, it blocks for the page
//!   here, because earlier parts are done already. If a part fails for good (no space), the parts
//!   before it are undone (see `whole`): the operation has changed nothing, and the transaction may
//!   continue.
//! - Only a fault leaves a part of the operation done. The store is then poisoned and commits
//!   nothing.

use crate::catalog::definition::HeapForm;
use crate::catalog::tables::{NOWHERE, Table};
use crate::state::store::Store;
use crate::txn::chain::Txn;
use access::{Expect, HeapModify, HeapUpdate, MAX_ROW, Moves, Sight, TreeDelete, TreeInsert, TreeReplace};
use base::{Key, Rid};
use latch::Policies;
use pages::Stop;
use probe::mark::{self, marked};
use std::mem;
use std::ops::{ControlFlow, Range};
use txn::{Columns, Row, RowMut};

const NO_ADDRESS: &str = "an index entry is no row address";
pub(crate) const LAYOUT: &str = "a row does not have the table's layout";

/// The result of an update's closure on a copy of a row.
pub(crate) struct Changed<R> {
    pub result: R,
    pub set: Columns,
    /// See [`RowMut::touched`].
    pub touched: Range<usize>,
    /// The closure set an indexed column, and the caller must lock the index entries first: nothing
    /// may be written.
    pub held_back: bool,
}

/// Lets `f` change `row`, which fits the layout. If the table has secondary indexes, `old_row`
/// becomes a copy of the row before the change.
#[inline]
pub(crate) fn change_row<R>(
    (table, entries): (&Table, Entries),
    row: &mut Vec<u8>,
    old_row: &mut Vec<u8>,
    f: impl FnOnce(&mut RowMut<'_>) -> R,
) -> Changed<R> {
    if !table.indexes.is_empty() {
        old_row.clear();
        old_row.extend_from_slice(row);
    }
    // The comparison uses the key in the page, not the key that the caller looked for: if a damaged
    // page holds another key, that is not a bug in `f`.
    let before = cfg!(debug_assertions).then(|| table.def.key_of(Row::new(&table.layout, row)));
    let mut row_mut = RowMut::new(&table.layout, row);
    let result = f(&mut row_mut);
    let (set, touched) = (row_mut.columns_set(), row_mut.touched());
    debug_assert!(
        before.is_none_or(|before| before == table.def.key_of(Row::new(&table.layout, row))),
        "an update changed the key"
    );
    Changed { result, set, touched, held_back: entries == Entries::HoldBack && table.indexed(set) }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InsertOutcome {
    Done,
    /// A row with the key exists; nothing was changed.
    Exists,
    /// The following key is this one, not the expected one; nothing was changed.
    Next(Option<Key>),
    /// The key or the row is longer than the maximum; nothing was changed.
    TooLong,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UpdateOutcome<R> {
    Done(R),
    Missing,
    /// The update set a column of a secondary index, and nothing was changed. [`Txn::held_back`]
    /// returns the row before and after the update. Only with [`Entries::HoldBack`].
    Entries(R),
}

/// How an update treats secondary indexes if it sets one of their columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entries {
    /// It changes the index as well.
    Follow,
    /// It changes nothing: the caller must lock the index entries first.
    HoldBack,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeleteOutcome {
    Done,
    Missing,
    /// The following key is this one, not the expected one; nothing was changed.
    Next(Option<Key>),
}

impl Store {
    #[inline]
    fn find<P: Policies>(&self, table: &Table, key: &[u8]) -> Result<Option<Rid>, Stop> {
        let _traced = marked::<{ mark::LOOKUP }>();
        match self.tree(table).get::<P::Index, _>(key, Rid::decode)? {
            None => Ok(None),
            Some(Some(rid)) => Ok(Some(rid)),
            Some(None) => Err(self.broken(table, NO_ADDRESS)),
        }
    }

    /// As [`Store::find`]. Uses the address from a batched look-up ([`Store::prefetch`]) if it is
    /// still valid.
    #[inline]
    fn locate<P: Policies>(
        &self,
        table: &Table,
        key: &[u8],
        sight: Option<Sight>,
    ) -> Result<Option<Rid>, Stop> {
        let seen = sight.as_ref().and_then(|sight| Rid::decode(sight.value(&self.pool)?));
        if seen.is_some() {
            return Ok(seen);
        }
        let found = self.find::<P>(table, key)?;
        if let Some(rid) = found {
            self.heap(table).ask(rid, table.layout.row_bytes());
        }
        Ok(found)
    }

    /// Calls `f` on the row with this key, in place, under its page's latch; `None` if there is no
    /// such row.
    ///
    /// # Errors
    /// [`Stop`]; `f` was not called.
    ///
    /// # Panics
    /// If the table has no key.
    #[inline]
    pub fn get<P: Policies, R>(
        &self,
        table: &Table,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, Stop> {
        self.get_seen::<P, R>(table, key, None, f)
    }

    /// As [`Store::get`], with the result of [`Store::prefetch`] for the key.
    ///
    /// # Errors
    /// As [`Store::get`].
    ///
    /// # Panics
    /// As [`Store::get`].
    #[inline]
    pub fn get_seen<P: Policies, R>(
        &self,
        table: &Table,
        key: &[u8],
        sight: Option<Sight>,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, Stop> {
        if table.is_clustered() {
            return self.get_clustered::<P, R>(table, key, sight, f);
        }
        match self.locate::<P>(table, key, sight)? {
            Some(rid) => self.get_at::<P, R>(table, rid, f),
            None => Ok(None),
        }
    }

    /// As [`Store::get`], for a row in the heap at a known address.
    #[inline]
    pub(crate) fn get_at<P: Policies, R>(
        &self,
        table: &Table,
        rid: Rid,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, Stop> {
        let read = self.heap(table).read::<P::Heap, _>(rid, |row| table.layout.fits(row).then(|| f(row)))?;
        match read {
            Some(Some(result)) => Ok(Some(result)),
            Some(None) => Err(self.broken(table, LAYOUT)),
            // Without locks, another thread may have removed the row after the index was read.
            None => Ok(None),
        }
    }

    /// Runs `f` on a copy of the row with this key and writes the changes back; `None` if there is
    /// no such row. `f` must not change the key columns.
    ///
    /// # Errors
    /// [`Stop`]; the row is unchanged. [`Stop::Page`] and [`Stop::Again`] are returned only before
    /// `f` was called.
    ///
    /// # Panics
    /// If the table has no key.
    #[inline]
    pub fn update<P: Policies, R>(
        &self,
        txn: &mut Txn,
        table: &Table,
        key: &[u8],
        f: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Result<Option<R>, Stop> {
        match self.update_seen::<P, R>(txn, table, key, (None, Entries::Follow), f)? {
            UpdateOutcome::Done(result) => Ok(Some(result)),
            UpdateOutcome::Missing | UpdateOutcome::Entries(_) => Ok(None),
        }
    }

    /// As [`Store::update`], with the result of [`Store::prefetch`] for the key, and with a choice
    /// for secondary indexes.
    ///
    /// # Errors
    /// As [`Store::update`].
    ///
    /// # Panics
    /// As [`Store::update`].
    #[inline]
    pub fn update_seen<P: Policies, R>(
        &self,
        txn: &mut Txn,
        table: &Table,
        key: &[u8],
        (sight, entries): (Option<Sight>, Entries),
        f: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Result<UpdateOutcome<R>, Stop> {
        if table.is_clustered() {
            let mut row = mem::take(&mut txn.row);
            let done = self.whole::<P, _>(txn, |store, txn| {
                store.update_clustered::<P, R>(txn, (table, entries), (key, sight), &mut row, f)
            });
            txn.row = row;
            return done;
        }
        let Some(rid) = self.locate::<P>(table, key, sight)? else { return Ok(UpdateOutcome::Missing) };
        self.whole::<P, _>(txn, |store, txn| store.update_at::<P, R>(txn, (table, entries), rid, f))
    }

    /// Updates a row that lies in the heap.
    #[inline]
    pub(crate) fn update_at<P: Policies, R>(
        &self,
        txn: &mut Txn,
        (table, entries): (&Table, Entries),
        rid: Rid,
        f: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Result<UpdateOutcome<R>, Stop> {
        let (heap, _traced) = (self.heap(table), marked::<{ mark::CHANGE }>());
        let Txn { chain, row, old_row, .. } = txn;
        let mut set = Columns::NONE;
        let change = |row: &mut Vec<u8>| {
            if !table.layout.fits(row) {
                return ControlFlow::Break(None);
            }
            let changed = change_row((table, entries), row, old_row, f);
            set = changed.set;
            match changed.held_back {
                true => ControlFlow::Break(Some(changed.result)),
                false => ControlFlow::Continue((Some(changed.result), changed.touched)),
            }
        };
        let done = heap.modify::<P::Heap, _>(&mut self.writer(chain), rid, row, change)?;
        let (result, outgrown) = match done {
            HeapModify::Missing => return Ok(UpdateOutcome::Missing),
            HeapModify::Left(Some(result)) => return Ok(UpdateOutcome::Entries(result)),
            HeapModify::Outgrown(Some(result)) => (result, true),
            HeapModify::Done(Some(result)) => (result, false),
            HeapModify::Left(None) | HeapModify::Outgrown(None) | HeapModify::Done(None) => {
                return Err(self.broken(table, LAYOUT));
            }
        };
        if outgrown || table.indexed(set) {
            self.follow::<P>(txn, table, rid, (outgrown, set))?;
        }
        Ok(UpdateOutcome::Done(result))
    }

    /// Completes an update of the row in `txn.row`, which belongs to `rid`, if the row outgrew its
    /// place or indexed columns were set.
    fn follow<P: Policies>(
        &self,
        txn: &mut Txn,
        table: &Table,
        rid: Rid,
        (outgrown, set): (bool, Columns),
    ) -> Result<(), Stop> {
        let row = mem::take(&mut txn.row);
        let followed = self.follow_row::<P>(txn, table, (rid, &row), (outgrown, set));
        txn.row = row;
        followed
    }

    fn follow_row<P: Policies>(
        &self,
        txn: &mut Txn,
        table: &Table,
        (rid, row): (Rid, &[u8]),
        (outgrown, set): (bool, Columns),
    ) -> Result<(), Stop> {
        let at = if outgrown { self.rewrite::<P>(txn, table, rid, row)? } else { rid };
        if at != rid {
            self.readdress::<P>(txn, (table, set), row, at)?;
        }
        self.reindex::<P>(txn, (table, set), row, table.reference(at).as_slice())
    }

    /// Writes a row that outgrew its place, and returns its address. With [`HeapForm::Shared`] the
    /// address stays the same, so that indexes need no change. In the other forms the row may move
    /// to another address.
    fn rewrite<P: Policies>(&self, txn: &mut Txn, table: &Table, rid: Rid, row: &[u8]) -> Result<Rid, Stop> {
        let near_pages = match table.form() {
            HeapForm::Shared => None,
            _ => Some(self.pages_for_outgrown::<P>(table, row, rid)?),
        };
        let (heap, moves) = match &near_pages {
            None => (self.heap(table), Moves::Forward),
            Some(near_pages) => (self.heap(table).among(near_pages), Moves::Report),
        };
        let write = || heap.update::<P::Heap>(&mut self.writer(&mut txn.chain), rid, row, moves);
        match self.insist(write)? {
            HeapUpdate::Done(left) => {
                txn.ghosts.extend(left.map(|left| (table.def.id, left)));
                Ok(rid)
            }
            HeapUpdate::Relocated(to) => {
                txn.ghosts.push((table.def.id, rid));
                Ok(to)
            }
            HeapUpdate::Missing => Err(self.broken(table, "a row vanished while it was updated")),
        }
    }

    /// Updates every index to the row's new address, except entries that [`Store::reindex`]
    /// replaces anyway.
    fn readdress<P: Policies>(
        &self,
        txn: &mut Txn,
        (table, set): (&Table, Columns),
        row: &[u8],
        to: Rid,
    ) -> Result<(), Stop> {
        let key = table.def.key_of(Row::new(&table.layout, row));
        let mut told = self.insist(|| {
            self.tree(table).replace::<P::Index>(&mut self.writer(&mut txn.chain), &key, &to.encode())
        })?;
        for index in &table.indexes {
            let entry = |row: &[u8]| table.def.entry_of(&index.def, Row::new(&table.layout, row));
            let now = entry(row);
            if told == TreeReplace::Missing || index.columns.meets(set) && entry(&txn.old_row) != now {
                continue;
            }
            told = self.insist(|| {
                self.secondary(index).replace::<P::Secondary>(
                    &mut self.writer(&mut txn.chain),
                    &now,
                    table.reference(to).as_slice(),
                )
            })?;
        }
        match told {
            TreeReplace::Done(_) => Ok(()),
            TreeReplace::Missing => Err(self.broken(table, "a row that moved is missing from an index")),
        }
    }

    /// Updates the secondary trees that contain one of the columns `set`, from `txn.old_row` to
    /// `row`. `reference` is the value of their entries.
    #[inline]
    pub(crate) fn reindex<P: Policies>(
        &self,
        txn: &mut Txn,
        (table, set): (&Table, Columns),
        row: &[u8],
        reference: &[u8],
    ) -> Result<(), Stop> {
        for index in table.indexes.iter().filter(|index| index.columns.meets(set)) {
            let tree = self.secondary(index);
            let entry = |row: &[u8]| table.def.entry_of(&index.def, Row::new(&table.layout, row));
            let (old, new) = (entry(&txn.old_row), entry(row));
            if old != new {
                self.insist(|| {
                    tree.delete::<P::Secondary>(&mut self.writer(&mut txn.chain), &old, Expect::Any)
                })?;
                self.insist(|| {
                    tree.insert::<P::Secondary>(
                        &mut self.writer(&mut txn.chain),
                        &new,
                        reference,
                        Expect::Any,
                    )
                })?;
            }
        }
        Ok(())
    }

    /// Inserts a row into a table with a key. `expect` is the key that the caller expects to follow
    /// in the primary tree.
    ///
    /// # Errors
    /// [`Stop`]; nothing is changed. After a fault, parts may be done, and only [`Store::rollback`]
    /// is left.
    ///
    /// # Panics
    /// If the table has no key.
    pub fn insert<P: Policies>(
        &self,
        txn: &mut Txn,
        table: &Table,
        key: &[u8],
        row: &[u8],
        expect: Expect<'_>,
    ) -> Result<InsertOutcome, Stop> {
        self.whole::<P, _>(txn, |store, txn| store.insert_parts::<P>(txn, table, key, row, expect))
    }

    fn insert_parts<P: Policies>(
        &self,
        txn: &mut Txn,
        table: &Table,
        key: &[u8],
        row: &[u8],
        expect: Expect<'_>,
    ) -> Result<InsertOutcome, Stop> {
        let tree = self.tree(table);
        if key.len() > tree.max_key() || row.len() > MAX_ROW {
            return Ok(InsertOutcome::TooLong);
        }
        debug_assert!(table.layout.fits(row), "a row of another table");
        let entries =
            || table.indexes.iter().map(|i| table.def.entry_of(&i.def, Row::new(&table.layout, row)));
        if entries().any(|e| e.len() > tree.max_key()) {
            return Ok(InsertOutcome::TooLong);
        }
        let rid = if table.is_clustered() {
            match self.insert_clustered::<P>(txn, table, key, row, expect)? {
                InsertOutcome::Done => NOWHERE,
                outcome => return Ok(outcome),
            }
        } else {
            match self.insert_in_heap::<P, _>(txn, table, key, row, expect, Rid::encode)? {
                Ok(rid) => rid,
                Err(outcome) => return Ok(outcome),
            }
        };
        let reference = table.reference(rid);
        for (index, entry) in table.indexes.iter().zip(entries()) {
            let tree = self.secondary(index);
            let put = self.insist(|| {
                tree.insert::<P::Secondary>(
                    &mut self.writer(&mut txn.chain),
                    &entry,
                    reference.as_slice(),
                    Expect::Any,
                )
            })?;
            if put != TreeInsert::Done {
                return Err(self.broken(table, "a secondary index has an entry for a row that was not there"));
            }
        }
        Ok(InsertOutcome::Done)
    }

    /// Inserts a row into the heap and its entry into the primary tree. `value` makes the entry's
    /// value from the row's address. Returns the reason if the row was not inserted.
    pub(crate) fn insert_in_heap<P: Policies, V: AsRef<[u8]>>(
        &self,
        txn: &mut Txn,
        table: &Table,
        key: &[u8],
        row: &[u8],
        expect: Expect<'_>,
        value: impl FnOnce(Rid) -> V,
    ) -> Result<Result<Rid, InsertOutcome>, Stop> {
        let tree = self.tree(table);
        let (before, creating) = (txn.mark(), marked::<{ mark::CREATE_RECORD }>());
        let rid = if table.form() == HeapForm::Shared {
            if tree.get::<P::Index, _>(key, |_| ())?.is_some() {
                return Ok(Err(InsertOutcome::Exists));
            }
            self.insist(|| self.heap(table).insert::<P::Heap>(&mut self.writer(&mut txn.chain), row))?
        } else {
            match self.insert_near::<P>(txn, table, key, row)? {
                Some(rid) => rid,
                None => return Ok(Err(InsertOutcome::Exists)),
            }
        };
        let value = value(rid);
        let _traced = creating.then::<{ mark::CREATE_ENTRY }>();
        let outcome = match self.insist(|| {
            tree.insert::<P::Index>(&mut self.writer(&mut txn.chain), key, value.as_ref(), expect)
        })? {
            TreeInsert::Done => return Ok(Ok(rid)),
            TreeInsert::Exists => InsertOutcome::Exists,
            TreeInsert::Next(next) => InsertOutcome::Next(next),
        };
        // Another transaction inserted the key after the check above: undo the insertion of the
        // row.
        self.insist_on_undo(|| self.undo_to::<P>(txn, before))?;
        Ok(Err(outcome))
    }

    /// Appends a row to a table without a key; `false` if the row is longer than [`MAX_ROW`].
    ///
    /// # Errors
    /// [`Stop`]; nothing was changed.
    pub fn append<P: Policies>(&self, txn: &mut Txn, table: &Table, row: &[u8]) -> Result<bool, Stop> {
        if row.len() > MAX_ROW {
            return Ok(false);
        }
        debug_assert!(table.layout.fits(row), "a row of another table");
        self.whole::<P, _>(txn, |store, txn| {
            store.heap(table).insert::<P::Heap>(&mut store.writer(&mut txn.chain), row).map(|_| true)
        })
    }

    /// Deletes the row with this key. The row stays as a ghost until [`Store::committed`].
    ///
    /// # Errors
    /// As [`Store::insert`].
    ///
    /// # Panics
    /// If the table has no key.
    pub fn delete<P: Policies>(
        &self,
        txn: &mut Txn,
        table: &Table,
        key: &[u8],
        expect: Expect<'_>,
    ) -> Result<DeleteOutcome, Stop> {
        self.whole::<P, _>(txn, |store, txn| store.delete_parts::<P>(txn, table, key, expect))
    }

    fn delete_parts<P: Policies>(
        &self,
        txn: &mut Txn,
        table: &Table,
        key: &[u8],
        expect: Expect<'_>,
    ) -> Result<DeleteOutcome, Stop> {
        let outcome = match table.is_clustered() {
            true => self.delete_clustered::<P>(txn, table, key, expect)?,
            false => self.delete_in_heap::<P>(txn, table, key, expect)?,
        };
        if outcome != DeleteOutcome::Done {
            return Ok(outcome);
        }
        for index in &table.indexes {
            let entry = table.def.entry_of(&index.def, Row::new(&table.layout, &txn.old_row));
            self.insist(|| {
                self.secondary(index).delete::<P::Secondary>(
                    &mut self.writer(&mut txn.chain),
                    &entry,
                    Expect::Any,
                )
            })?;
        }
        Ok(DeleteOutcome::Done)
    }

    /// Deletes the primary entry and the row. If the table has secondary indexes, `txn.old_row`
    /// becomes a copy of the row.
    fn delete_in_heap<P: Policies>(
        &self,
        txn: &mut Txn,
        table: &Table,
        key: &[u8],
        expect: Expect<'_>,
    ) -> Result<DeleteOutcome, Stop> {
        let heap = self.heap(table);
        if !table.indexes.is_empty() {
            // Reads the row before the first change: if its page is absent, the caller waits for it
            // instead of blocking here.
            let Some(rid) = self.find::<P>(table, key)? else { return Ok(DeleteOutcome::Missing) };
            let old = &mut txn.old_row;
            old.clear();
            heap.read::<P::Heap, _>(rid, |row| old.extend_from_slice(row))?;
            if !table.layout.fits(old) {
                return Err(self.broken(table, LAYOUT));
            }
        }
        let value =
            match self.tree(table).delete::<P::Index>(&mut self.writer(&mut txn.chain), key, expect)? {
                TreeDelete::Done(value) => value,
                TreeDelete::Missing => return Ok(DeleteOutcome::Missing),
                TreeDelete::Next(next) => return Ok(DeleteOutcome::Next(next)),
            };
        let rid = Rid::decode(&value).ok_or_else(|| self.broken(table, NO_ADDRESS))?;
        self.insist(|| heap.delete::<P::Heap>(&mut self.writer(&mut txn.chain), rid))?;
        txn.ghosts.push((table.def.id, rid));
        Ok(DeleteOutcome::Done)
    }
}
