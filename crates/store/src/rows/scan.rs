//! Scans: many rows, a chunk at a time, from a primary key, a secondary index, or a heap in storage
//! order.
//!
//! A chunk is at most one leaf or heap page. Its entries are read under one latch, the rows they
//! point to after that latch is released. A caller that isolates by locks must lock the rows that
//! it read and then read them again.

use crate::catalog::tables::Table;
use crate::rows::clustered::Lies;
use crate::rows::row::LAYOUT;
use crate::state::store::Store;
use access::{BTree, HeapPlace};
use base::{Key, Rid, TableId};
use latch::Policies;
use pages::Stop;
use std::ops::{Bound, ControlFlow};
use txn::Direction;

/// A chunk ends after the row that makes it longer than this many bytes, because rows may be long.
const CHUNK_BYTES: usize = 1 << 18;

/// Of the rows in a heap that a leaf leads to, the slot is prefetched this many rows ahead, and the
/// row half as many.
const SLOT_AHEAD: usize = 8;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChunkEnd {
    /// The range continues: read the next chunk from here.
    More(Bound<Key>),
    /// The range is finished, with the first key beyond it if one was read. In a forward scan,
    /// `None` means that the range ends with the gap after the last key of the index.
    Done(Option<Key>),
}

impl Default for ChunkEnd {
    fn default() -> Self {
        ChunkEnd::Done(None)
    }
}

impl Store {
    /// The tree with this id: a table's primary tree or a secondary index.
    pub(crate) fn tree_of(&self, index: TableId) -> Option<(&Table, BTree<'_>)> {
        let (table, position) = self.catalog.index(index)?;
        let tree = match position {
            None => {
                table.tree.as_ref()?;
                self.tree(table)
            }
            Some(i) => self.secondary(&table.indexes[i]),
        };
        Some((table, tree))
    }

    /// The first key of `index` at or after `bound`; `None` also if there is no such tree.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn successor<P: Policies>(&self, index: TableId, bound: Bound<&[u8]>) -> Result<Option<Key>, Stop> {
        self.tree_of(index).map_or(Ok(None), |(table, tree)| match index == table.def.id {
            true => tree.successor::<P::Index>(bound),
            false => tree.successor::<P::Secondary>(bound),
        })
    }

    /// The last key of `index` at or before `bound`.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn predecessor<P: Policies>(&self, index: TableId, bound: Bound<&[u8]>) -> Result<Option<Key>, Stop> {
        self.tree_of(index).map_or(Ok(None), |(table, tree)| match index == table.def.id {
            true => tree.predecessor::<P::Index>(bound),
            false => tree.predecessor::<P::Secondary>(bound),
        })
    }

    /// Calls `visit` with key and row of at most `limit` entries of one leaf, in the direction of
    /// the scan.
    ///
    /// The range goes from `from` to `until`: exclusive in a forward scan, inclusive in a backward
    /// scan. A table without a key is read forwards in storage order, whole, and with empty keys;
    /// begin with [`Bound::Unbounded`]. If a row was moved or deleted after its entry was read, it
    /// is visited as an empty slice: the caller locks it and reads again.
    ///
    /// # Errors
    /// [`Stop`]; some rows may have been visited.
    pub fn chunk<P: Policies>(
        &self,
        index: TableId,
        from: Bound<&[u8]>,
        until: Option<&[u8]>,
        direction: Direction,
        limit: usize,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<ChunkEnd, Stop> {
        self.chunk_of::<P>(index, (from, until), direction, limit, (|_| true, visit))
    }

    /// As [`Store::chunk`], for the entries that `wanted` accepts. The rows of other entries are
    /// not read, so they may lie in pages of other owners.
    ///
    /// # Errors
    /// As [`Store::chunk`].
    pub fn chunk_of<P: Policies>(
        &self,
        index: TableId,
        (from, until): (Bound<&[u8]>, Option<&[u8]>),
        direction: Direction,
        limit: usize,
        (wanted, mut visit): (impl Fn(&[u8]) -> bool, impl FnMut(&[u8], &[u8])),
    ) -> Result<ChunkEnd, Stop> {
        let Some((table, tree)) = self.tree_of(index) else {
            let end = self.file_chunk::<P>(index, from, |row| visit(&[], row))?;
            return Ok(end);
        };
        let way = way(direction);
        if table.is_clustered() {
            return match index == table.def.id {
                true => self.clustered_chunk::<P>(table, from, until, way, limit, visit),
                false => {
                    self.entries_chunk::<P>((table, tree, index), (from, until), way, limit, (wanted, visit))
                }
            };
        }
        let mut entries: Vec<(Key, Option<Rid>)> = Vec::new();
        let mut cut = false;
        let met = |key: &[u8], value: &[u8]| {
            if !wanted(key) {
                return ControlFlow::Continue(());
            }
            cut = entries.len() >= limit;
            if cut {
                return ControlFlow::Break(());
            }
            entries.push((Key::from_bytes(key), Rid::decode(value)));
            ControlFlow::Continue(())
        };
        let read = match index == table.def.id {
            true => tree.chunk_while::<P::Index>(from, until, way, met)?,
            false => tree.chunk_while::<P::Secondary>(from, until, way, met)?,
        };
        let seen = self.rows_chunk::<P>(table, &entries, visit)?;
        let end = match entries[..seen].last() {
            Some((last, _)) if cut || seen < entries.len() => ChunkEnd::More(Bound::Excluded(last.clone())),
            _ => onward(read, way),
        };
        Ok(end)
    }

    /// Reads the rows at these addresses in order, until they have more than [`CHUNK_BYTES`].
    /// Returns how many were visited.
    fn rows_chunk<P: Policies>(
        &self,
        table: &Table,
        entries: &[(Key, Option<Rid>)],
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<usize, Stop> {
        let (heap, mut bytes) = (self.heap(table), 0);
        for rid in entries.iter().take(SLOT_AHEAD).skip(1).filter_map(|(_, rid)| *rid) {
            heap.prefetch_slot::<P::Heap>(rid);
        }
        for (i, (key, rid)) in entries.iter().enumerate() {
            if bytes > CHUNK_BYTES {
                return Ok(i);
            }
            if let Some((_, Some(rid))) = entries.get(i + SLOT_AHEAD) {
                heap.prefetch_slot::<P::Heap>(*rid);
            }
            if let Some((_, Some(rid))) = entries.get(i + SLOT_AHEAD / 2) {
                heap.prefetch_row::<P::Heap>(*rid);
            }
            let rid = rid.ok_or_else(|| self.broken(table, "an index entry is no row address"))?;
            let fits = heap.read::<P::Heap, _>(rid, |row| {
                let fits = table.layout.fits(row);
                if fits {
                    bytes += row.len();
                    visit(key, row);
                }
                fits
            })?;
            match fits {
                Some(true) => {}
                Some(false) => return Err(self.broken(table, LAYOUT)),
                None => visit(key, &[]),
            }
        }
        Ok(entries.len())
    }

    /// As [`Store::chunk_of`], for the keys alone: no row is read.
    ///
    /// # Errors
    /// As [`Store::chunk`].
    pub fn keys_chunk<P: Policies>(
        &self,
        index: TableId,
        (from, until): (Bound<&[u8]>, Option<&[u8]>),
        direction: Direction,
        limit: usize,
        (wanted, mut visit): (impl Fn(&[u8]) -> bool, impl FnMut(&[u8])),
    ) -> Result<ChunkEnd, Stop> {
        let Some((table, tree)) = self.tree_of(index) else { return Ok(ChunkEnd::Done(None)) };
        let way = way(direction);
        let (mut met, mut last, mut cut) = (0, None, false);
        let each = |key: &[u8], _: &[u8]| {
            if !wanted(key) {
                return ControlFlow::Continue(());
            }
            cut = last.is_some();
            if cut {
                return ControlFlow::Break(());
            }
            visit(key);
            met += 1;
            last = (met == limit).then(|| Key::from_bytes(key));
            ControlFlow::Continue(())
        };
        let read = match index == table.def.id {
            true => tree.chunk_while::<P::Index>(from, until, way, each)?,
            false => tree.chunk_while::<P::Secondary>(from, until, way, each)?,
        };
        Ok(match last.filter(|_| cut) {
            Some(last) => ChunkEnd::More(Bound::Excluded(last)),
            None => onward(read, way),
        })
    }

    /// A scan of a clustered table by its primary key. Rows are visited in their leaf, up to the
    /// first row that lies in the heap.
    fn clustered_chunk<P: Policies>(
        &self,
        table: &Table,
        from: Bound<&[u8]>,
        until: Option<&[u8]>,
        way: access::Direction,
        limit: usize,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<ChunkEnd, Stop> {
        let (mut met, mut bytes, mut bad, mut last) = (0, 0, false, None);
        let mut away = None;
        let read = self.tree(table).chunk_while::<P::Index>(from, until, way, |key, value| {
            match Lies::of(value) {
                Some(Lies::Here(row)) if table.layout.fits(row) => {
                    visit(key, row);
                    (met, bytes) = (met + 1, bytes + row.len());
                }
                Some(Lies::Away(rid)) => away = Some((Key::from_bytes(key), rid)),
                _ => bad = true,
            }
            if met == limit || bytes > CHUNK_BYTES {
                last = Some(Key::from_bytes(key));
            }
            match away.is_some() || last.is_some() || bad {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        if bad {
            return Err(
                self.broken(table, "an entry holds neither a row of the table nor the address of one")
            );
        }
        if let Some((key, rid)) = away {
            // The leaf's latch is released here. If the row was deleted meanwhile, it is visited as
            // an empty slice, as in a heap.
            if self.get_away::<P, _>(table, rid, |row| visit(&key, row))?.is_none() {
                visit(&key, &[]);
            }
            last = Some(key);
        }
        Ok(match last {
            Some(last) => ChunkEnd::More(Bound::Excluded(last)),
            None => onward(read, way),
        })
    }

    /// A scan of a clustered table by a secondary index: each row is looked up by the primary key
    /// at the end of its entry.
    fn entries_chunk<P: Policies>(
        &self,
        (table, tree, index): (&Table, BTree<'_>, TableId),
        (from, until): (Bound<&[u8]>, Option<&[u8]>),
        way: access::Direction,
        limit: usize,
        (wanted, mut visit): (impl Fn(&[u8]) -> bool, impl FnMut(&[u8], &[u8])),
    ) -> Result<ChunkEnd, Stop> {
        let mut entries: Vec<Key> = Vec::new();
        let mut cut = false;
        let read = tree.chunk_while::<P::Secondary>(from, until, way, |entry, _| {
            if !wanted(entry) {
                return ControlFlow::Continue(());
            }
            cut = entries.len() >= limit;
            if cut {
                return ControlFlow::Break(());
            }
            entries.push(Key::from_bytes(entry));
            ControlFlow::Continue(())
        })?;
        let def = table.def.indexes.iter().find(|def| def.id == index);
        let mut bytes = 0;
        for (i, entry) in entries.iter().enumerate() {
            if bytes > CHUNK_BYTES {
                entries.truncate(i);
                cut = true;
                break;
            }
            let key = def.and_then(|def| table.def.key_in_entry(def, entry));
            let key = key.ok_or_else(|| self.broken(table, "an index entry has no primary key"))?;
            let seen = self.get_clustered::<P, _>(table, &key, None, |row| {
                bytes += row.len();
                visit(entry, row);
            })?;
            if seen.is_none() {
                visit(entry, &[]);
            }
        }
        Ok(match (cut, entries.last()) {
            (true, Some(last)) => ChunkEnd::More(Bound::Excluded(last.clone())),
            _ => onward(read, way),
        })
    }

    /// Calls `visit` with rows of one page of a table's heap, in storage order. Begin with
    /// [`Bound::Unbounded`], and continue from [`ChunkEnd::More`] (the page's ordinal and the slot,
    /// big-endian). Section 3.4.8 of Pandis' thesis measures such file scans.
    ///
    /// # Errors
    /// [`Stop`]; some rows may have been visited.
    pub fn file_chunk<P: Policies>(
        &self,
        id: TableId,
        from: Bound<&[u8]>,
        mut visit: impl FnMut(&[u8]),
    ) -> Result<ChunkEnd, Stop> {
        let Some(table) = self.table(id) else { return Ok(ChunkEnd::Done(None)) };
        let place = match from {
            Bound::Included(key) | Bound::Excluded(key) => place_of(key),
            Bound::Unbounded => HeapPlace::default(),
        };
        let mut bad = false;
        let next = self.heap(table).chunk::<P::Heap>(place, |_, row| match table.layout.fits(row) {
            true => visit(row),
            false => bad = true,
        })?;
        if bad {
            return Err(self.broken(table, LAYOUT));
        }
        Ok(match next {
            Some(HeapPlace { ordinal, slot }) => {
                ChunkEnd::More(Bound::Included(Key::new().u32(ordinal).u32(slot.into())))
            }
            None => ChunkEnd::Done(None),
        })
    }
}

/// The heap position of a cursor of [`Store::chunk`]; the end of the heap if `key` is not a cursor.
fn place_of(key: &[u8]) -> HeapPlace {
    let Ok(bytes) = <[u8; 8]>::try_from(key) else { return HeapPlace { ordinal: u32::MAX, slot: 0 } };
    let number = u64::from_be_bytes(bytes);
    HeapPlace { ordinal: (number >> 32) as u32, slot: number as u16 }
}

fn way(direction: Direction) -> access::Direction {
    match direction {
        Direction::Forward => access::Direction::Forward,
        Direction::Backward => access::Direction::Backward,
    }
}

fn onward(end: access::ChunkEnd, direction: access::Direction) -> ChunkEnd {
    use access::Direction;
    match (end, direction) {
        (access::ChunkEnd::Continue(fence), Direction::Forward) => ChunkEnd::More(Bound::Included(fence)),
        (access::ChunkEnd::Continue(fence), Direction::Backward) => ChunkEnd::More(Bound::Excluded(fence)),
        (access::ChunkEnd::Key(key), _) => ChunkEnd::Done(Some(key)),
        // A chunk that was cut goes on behind its last entry, which the caller knows.
        (access::ChunkEnd::End | access::ChunkEnd::Cut, _) => ChunkEnd::Done(None),
    }
}
