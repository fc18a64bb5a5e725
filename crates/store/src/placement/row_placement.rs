//! Row placement: which heap page a row lies in if heap pages are divided among parts of the keys
//! (thesis of Pandis, sections 3.3.3 and 4.3).
//!
//! ```text
//!   ByPartition   partition |  leaf  leaf  leaf  | leaf ...   ByLeaf     leaf   |  leaf  |  leaf
//!                           |    \   / \   /     |                      / | \   |  / \   |   |
//!   heap pages              |    page   page     | page                p  p  p  | p   p  |   p
//! ```
//!
//! Only the form is stored, in the catalog. **The keys of a page's rows determine its part**: the
//! primary tree shows which parts the keys have. A row goes into a page that already holds rows
//! with keys near its own (`near_pages`), or else into a page without rows.
//!
//! **After a leaf splits.** When a leaf splits, or exchanges entries with its neighbour, two leaves
//! may lead to one page. Both leaves belong to one partition, so still only one owner touches the
//! page: the shared page costs locality, not safety. So it is corrected later. The journal notes
//! the leaf ([`Store::parted`]), and the thread that has exclusive use of the partition returns to
//! it between transactions ([`Store::settle_rows`]). Splitting a partition is different: the rows
//! of both sides must be in different pages *before* the split ([`Store::divide_rows`], file
//! `division`).
//!
//! **Moving a row** changes its address: a transaction of its own inserts the row elsewhere,
//! updates every index and deletes the old copy, so that after a crash the row exists once.
//!
//! A row must not move while a transaction that may still roll back has changed it, because log
//! records name rows by address. Example: T1 updates row R in page A. If R moved to page B, the
//! undo of T1 would look for it in A. So a page is divided only if its last change (page LSN) is
//! older than the first record of every running transaction. Other pages are left for later
//! ([`Divided::later`]). No other thread may change the partition meanwhile. Readers keep no
//! addresses between operations.

use crate::catalog::definition::HeapForm;
use crate::catalog::tables::Table;
use crate::rows::row::LAYOUT;
use crate::state::store::Store;
use crate::txn::chain::Txn;
use access::{Around, TreeReplace};
use base::{Key, Lsn, PageId, Rid, TableId};
use latch::{OwnerId, Policies, acting_for};
use pages::Stop;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{AddAssign, Bound, ControlFlow};
use txn::Row;

/// Heap pages that hold rows with keys near a given key, the nearest first.
pub(crate) type NearPages = SmallVec<[PageId; 8]>;

/// Maximum number of near pages to try. A leaf leads to fewer pages, unless its rows are long.
const MAX_NEAR_PAGES: usize = 16;

/// How many recently filled pages are remembered on each side of a border, for the next rows that
/// move there.
const RESERVED: usize = 2;

/// The work of separating rows of different parts into different pages, in the terms of the cost
/// model of repartitioning (thesis, Table 4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Divided {
    /// Leaves and heap pages read.
    pub leaves_read: usize,
    pub pages_read: usize,
    /// Rows moved, and their bytes.
    pub rows: usize,
    pub bytes: usize,
    /// Entries changed in the primary tree, and in secondary trees.
    pub primary: usize,
    pub secondary: usize,
    /// Pages that must wait, because a running transaction may have changed them.
    pub later: usize,
    /// Leaves and pages that were skipped, because they are not in memory.
    pub absent: usize,
}

impl AddAssign for Divided {
    fn add_assign(&mut self, more: Divided) {
        self.leaves_read += more.leaves_read;
        self.pages_read += more.pages_read;
        self.rows += more.rows;
        self.bytes += more.bytes;
        self.primary += more.primary;
        self.secondary += more.secondary;
        self.later += more.later;
        self.absent += more.absent;
    }
}

/// Whether transactions that changed rows of the partition may still be running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writers {
    /// They may: a page that one of them may have changed waits ([`Divided::later`]).
    Running,
    /// None is running; the caller has ensured that.
    Gone,
}

/// Which rows may share a page.
pub(crate) enum Sharing<'k> {
    OfLeaf,
    /// All parts of the table at once, after a load.
    Loaded(&'k mut PartPages),
    /// Two parts: keys below `key`, and the others. `reserved` are the pages that moved rows of
    /// either part go to.
    At {
        key: &'k [u8],
        reserved: &'k mut [NearPages; 2],
    },
}

/// The parts of a table's keys after a load, while no other thread uses the table. Each part has a
/// list of pages with room, and the last page of the list is filled first.
///
/// Rows that were loaded in random order put rows of every part into every page. If each part of
/// each page got a page of its own, the table would need as many times the pages as there are
/// parts. Filling the pages of a part one after the other avoids that.
pub(crate) struct PartPages {
    /// The first key of each part, ascending.
    starts: Vec<Key>,
    pages: Vec<Vec<PageId>>,
}

impl PartPages {
    fn new(starts: Vec<Key>) -> PartPages {
        let pages = starts.iter().map(|_| Vec::new()).collect();
        PartPages { starts, pages }
    }

    fn part(&self, key: &Key) -> usize {
        self.starts.partition_point(|start| start <= key).saturating_sub(1)
    }

    fn of(&mut self, key: &Key) -> &mut Vec<PageId> {
        let part = self.part(key);
        &mut self.pages[part]
    }
}

/// A row of a page that is being divided.
struct PlacedRow {
    key: Key,
    rid: Rid,
    row: Vec<u8>,
}

impl Store {
    /// The heap form of the first table that has a key and rows in a heap; `None` if there is no
    /// such table.
    pub fn heap_form(&self) -> Option<HeapForm> {
        let schema = self.schema()?;
        let mut tables = schema.tables.iter().filter_map(|def| self.table(def.id));
        tables.find(|table| table.tree.is_some() && !table.is_clustered()).map(Table::form)
    }

    /// Lets threads take over the heap pages that they change ([`latch::claim`]). This applies to
    /// divided tables of which `keys_have_owners` is true, and to tables without a key, of which
    /// the pages belong to the worker that appends to them.
    ///
    /// A table that every worker reads must keep unowned pages: a reader that latches an owned page
    /// would take it over from the other workers.
    pub fn have_owners(&self, keys_have_owners: impl Fn(TableId) -> bool) {
        let schema = self.schema().unwrap_or_default();
        let tables = schema.tables.iter().filter_map(|def| self.table(def.id));
        let divided = |table: &&Table| {
            table.tree.is_none() || table.form() != HeapForm::Shared && keys_have_owners(table.def.id)
        };
        tables.filter(divided).for_each(|table| table.insert_pages.have_owners());
    }

    /// The leaf that covers `key`, and at most `most` of the pages that it leads to.
    fn near_pages<P: Policies>(
        &self,
        table: &Table,
        key: &[u8],
        most: usize,
    ) -> Result<(Around, NearPages), Stop> {
        let mut near_pages = NearPages::new();
        // Neighbouring entries mostly lead to the same pages. With a small `most`, only that many
        // entries are examined; otherwise all of the leaf.
        let mut looks = if most < MAX_NEAR_PAGES { most } else { usize::MAX };
        let around = self.tree(table).around::<P::Index>(key, |value| {
            looks -= 1;
            if let Some(rid) = Rid::decode(value)
                && !near_pages.contains(&rid.page)
            {
                near_pages.push(rid.page);
            }
            if near_pages.len() < most && looks > 0 {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        Ok((around, near_pages))
    }

    /// Inserts a row into a page of its part; `None` if its key exists already.
    pub(crate) fn insert_near<P: Policies>(
        &self,
        txn: &mut Txn,
        table: &Table,
        key: &[u8],
        row: &[u8],
    ) -> Result<Option<Rid>, Stop> {
        let (around, near) = self.near_pages::<P>(table, key, 2)?;
        if around.found {
            return Ok(None);
        }
        let heap = self.heap(table);
        // Nothing has changed yet, so the caller can wait for an absent page.
        if let Some(rid) = heap.among(&near).insert_among::<P::Heap>(&mut self.writer(&mut txn.chain), row)? {
            return Ok(Some(rid));
        }
        let (_, mut all) = self.near_pages::<P>(table, key, MAX_NEAR_PAGES)?;
        let root = || self.tree(table).partition(key).root().0;
        let group = (table.form() == HeapForm::ByPartition).then(|| table.coming.group(root(), key));
        // The group's last page is usable only while this thread owns it: another thread could give
        // an unowned page to another partition at this moment.
        let mine = |page: &PageId| acting_for().is_some() && self.pool.owner_of(*page) == acting_for();
        let last = group.and_then(|group| table.insert_pages.of_group(group)).filter(mine);
        all.extend(last.filter(|last| !all.contains(last)));
        let rid = heap.among(&all).insert::<P::Heap>(&mut self.writer(&mut txn.chain), row)?;
        if let Some(group) = group {
            table.insert_pages.set_group(group, rid.page);
        }
        Ok(Some(rid))
    }

    /// The pages that a row which outgrows its page may move to.
    pub(crate) fn pages_for_outgrown<P: Policies>(
        &self,
        table: &Table,
        row: &[u8],
        from: Rid,
    ) -> Result<NearPages, Stop> {
        let key = table.def.key_of(Row::new(&table.layout, row));
        let (_, mut near_pages) = self.insist(|| self.near_pages::<P>(table, &key, MAX_NEAR_PAGES))?;
        near_pages.retain(|page| *page != from.page);
        Ok(near_pages)
    }

    /// The divided leaves of which entries moved since the transaction began: the trees, and keys
    /// in the new leaves. The caller passes them to [`Store::settle_rows`] after the transaction
    /// has ended.
    pub fn parted(&self, txn: &mut Txn) -> Vec<(TableId, Key)> {
        let mut parted = std::mem::take(&mut txn.chain.parted);
        parted.retain(|(tree, _)| self.table(*tree).is_some_and(|table| table.form() == HeapForm::ByLeaf));
        parted
    }

    /// Moves rows until no other leaf leads to the pages that the leaf covering `key` leads to, if
    /// the table's pages are divided by leaf. The caller has exclusive use of the partition, and
    /// `txn` has ended. Returns where the next leaf begins.
    ///
    /// Absent pages are skipped ([`Divided::absent`]): a page that is not in memory has not been
    /// changed recently.
    ///
    /// # Errors
    /// [`Stop::NoSpace`], [`Stop::Fault`]: some pages are still shared.
    pub fn settle_rows<P: Policies>(
        &self,
        txn: &mut Txn,
        table: TableId,
        key: &[u8],
        writers: Writers,
    ) -> Result<(Divided, Option<Key>), Stop> {
        let mut done = Divided::default();
        let Some(table) = self.table(table).filter(|table| table.form() == HeapForm::ByLeaf) else {
            return Ok((done, None));
        };
        let mut pages = BTreeMap::<PageId, usize>::new();
        let around = self.at_hand(|| {
            pages.clear();
            self.tree(table).around::<P::Index>(key, |value| {
                if let Some(rid) = Rid::decode(value) {
                    *pages.entry(rid.page).or_default() += 1;
                }
                ControlFlow::Continue(())
            })
        })?;
        let Some(around) = around else {
            done.absent = 1;
            return Ok((done, None));
        };
        done.leaves_read = 1;
        for (page, entries) in pages {
            let Some(summary) = self.at_hand(|| self.heap(table).page_summary::<P::Heap>(page))? else {
                done.absent += 1;
                continue;
            };
            done.pages_read += 1;
            if summary.rows > entries {
                done += self.divide_page::<P>(txn, table, page, Sharing::OfLeaf, writers)?;
            }
        }
        Ok((done, around.high))
    }

    /// As [`Store::insist`], but returns `None` if a page is absent.
    fn at_hand<T>(&self, mut look: impl FnMut() -> Result<T, Stop>) -> Result<Option<T>, Stop> {
        self.insist(|| match look() {
            Err(Stop::Page(_)) => Ok(None),
            looked => looked.map(Some),
        })
    }

    /// The partition of a table's primary tree that covers `key`: its first key, and the first key
    /// of the next partition.
    pub(crate) fn bounds(&self, table: &Table, key: &[u8]) -> (Key, Option<Key>) {
        let starts = self.tree(table).partitions();
        let behind = starts.partition_point(|start| start.as_slice() <= key);
        let start = behind.checked_sub(1).map(|at| starts[at].clone()).unwrap_or_default();
        (start, starts.get(behind).cloned())
    }

    /// After a load, moves rows so that no page holds rows of two parts of the table (leaves or
    /// partitions).
    pub(crate) fn place_loaded_rows<P: Policies>(&self, table: &Table) -> Result<Divided, Stop> {
        let mut done = Divided::default();
        if table.form() == HeapForm::Shared {
            return Ok(done);
        }
        let by_leaf = table.form() == HeapForm::ByLeaf;
        let mut starts = if by_leaf { Vec::new() } else { self.tree(table).partitions() };
        let (mut whose, mut mixed) = (BTreeMap::<PageId, usize>::new(), BTreeSet::new());
        done.leaves_read = self.each_leaf::<P>(table, Key::new(), None, |entries| {
            if let (true, Some((first, _))) = (by_leaf, entries.first()) {
                starts.push(first.clone());
            }
            for (key, rid) in entries {
                let part = if by_leaf { starts.len() } else { starts.partition_point(|start| start <= key) };
                if *whose.entry(rid.page).or_insert(part) != part {
                    mixed.insert(rid.page);
                }
            }
        })?;
        let (mut txn, mut part_pages) = (Txn::default(), PartPages::new(starts));
        for page in mixed {
            let sharing = Sharing::Loaded(&mut part_pages);
            done += self.divide_page::<P>(&mut txn, table, page, sharing, Writers::Running)?;
        }
        Ok(done)
    }

    /// Calls `visit` with the entries of each leaf between two keys. Returns the number of leaves.
    pub(crate) fn each_leaf<P: Policies>(
        &self,
        table: &Table,
        from: Key,
        until: Option<Key>,
        mut visit: impl FnMut(&[(Key, Rid)]),
    ) -> Result<usize, Stop> {
        let (tree, mut from, mut leaves) = (self.tree(table), from, 0);
        loop {
            let (mut entries, mut bad) = (Vec::new(), false);
            let end =
                self.insist(|| {
                    entries.clear();
                    bad = false;
                    let (start, end) = (Bound::Included(from.as_slice()), until.as_deref());
                    tree.chunk::<P::Index>(start, end, access::Direction::Forward, |key, value| {
                        match Rid::decode(value) {
                            Some(rid) => entries.push((Key::from_bytes(key), rid)),
                            None => bad = true,
                        }
                    })
                })?;
            if bad {
                return Err(self.broken(table, "an index entry is no row address"));
            }
            leaves += 1;
            visit(&entries);
            match end {
                access::ChunkEnd::Continue(fence) if until.as_ref().is_none_or(|until| fence < *until) => {
                    from = fence;
                }
                _ => return Ok(leaves),
            }
        }
    }

    /// The start of the oldest record that a running transaction may still undo.
    fn oldest_change(&self) -> Lsn {
        self.active.running().iter().map(|running| running.first).min().unwrap_or(Lsn(u64::MAX))
    }

    /// Moves rows out of `page` until the remaining rows belong to one part: the part with the most
    /// rows. After a load, a part that already has a page with room moves there instead of staying.
    pub(crate) fn divide_page<P: Policies>(
        &self,
        txn: &mut Txn,
        table: &Table,
        page: PageId,
        mut sharing: Sharing<'_>,
        writers: Writers,
    ) -> Result<Divided, Stop> {
        let mut done = Divided { pages_read: 1, ..Divided::default() };
        let mut found = Vec::new();
        let summary = self.insist(|| {
            found.clear();
            self.heap(table).rows_in::<P::Heap>(page, |rid, row| found.push((rid, row.to_vec())))
        })?;
        if writers == Writers::Running && summary.lsn > self.oldest_change() {
            done.later = 1;
            return Ok(done);
        }
        let mut rows = Vec::with_capacity(found.len());
        for (rid, row) in found {
            if !table.layout.fits(&row) {
                return Err(self.broken(table, LAYOUT));
            }
            rows.push(PlacedRow { key: table.def.key_of(Row::new(&table.layout, &row)), rid, row });
        }
        rows.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let mut groups = self.grouped::<P>(table, &sharing, rows)?;
        let mut may_stay: Vec<usize> = (0..groups.len()).collect();
        if let Sharing::Loaded(part_pages) = &mut sharing
            && groups.len() > 1
        {
            // A part that has a page with room moves there. A page that all rows have left becomes
            // unassigned.
            may_stay.retain(|&at| part_pages.of(&groups[at][0].key).is_empty());
        }
        let stays = may_stay.into_iter().max_by_key(|&at| groups[at].len());
        let stays = stays.map(|at| groups.swap_remove(at));
        if groups.is_empty() {
            return Ok(done);
        }
        self.begin(txn, acting_for().map_or(0, OwnerId::number));
        let moved = groups
            .iter()
            .try_for_each(|group| self.move_out::<P>(txn, table, group, &mut sharing, &mut done));
        match moved {
            Ok(()) => {
                if let (Sharing::Loaded(part_pages), Some(stays)) = (&mut sharing, &stays) {
                    part_pages.of(&stays[0].key).push(page);
                }
                let committed = self.commit(txn, None);
                if let Err(fault) = committed {
                    self.poison(fault);
                    return Err(Stop::Fault(self.corrupt(page)));
                }
                self.committed::<P>(txn);
                Ok(done)
            }
            Err(stop) => {
                self.insist_on_undo(|| self.rollback::<P>(txn))?;
                Err(stop)
            }
        }
    }

    /// Groups rows by part. `rows` are in key order.
    fn grouped<P: Policies>(
        &self,
        table: &Table,
        sharing: &Sharing<'_>,
        rows: Vec<PlacedRow>,
    ) -> Result<Vec<Vec<PlacedRow>>, Stop> {
        let mut groups: Vec<Vec<PlacedRow>> = Vec::new();
        // The end of the last group's part.
        let mut end: Option<Key> = None;
        for row in rows {
            let inside = !groups.is_empty() && end.as_ref().is_none_or(|end| row.key < *end);
            if !inside {
                end = match sharing {
                    Sharing::OfLeaf => {
                        let look =
                            || self.tree(table).around::<P::Index>(&row.key, |_| ControlFlow::Break(()));
                        self.insist(look)?.high
                    }
                    Sharing::Loaded(part_pages) => {
                        part_pages.starts.get(part_pages.part(&row.key) + 1).cloned()
                    }
                    Sharing::At { key, .. } => Some(Key::from_bytes(key)).filter(|key| row.key < *key),
                };
                groups.push(Vec::new());
            }
            groups.last_mut().expect("one was pushed").push(row);
        }
        Ok(groups)
    }

    /// Inserts a row into the last page of `pages`, or into a page without rows. Full pages are
    /// removed from `pages`.
    fn put_on<P: Policies>(
        &self,
        txn: &mut Txn,
        table: &Table,
        pages: &mut Vec<PageId>,
        row: &[u8],
    ) -> Result<Rid, Stop> {
        let heap = self.heap(table);
        while let Some(last) = pages.last() {
            let among = std::slice::from_ref(last);
            let put = || heap.among(among).insert_among::<P::Heap>(&mut self.writer(&mut txn.chain), row);
            if let Some(rid) = self.insist(put)? {
                return Ok(rid);
            }
            pages.pop();
        }
        let rid = self.insist(|| heap.among(&[]).insert::<P::Heap>(&mut self.writer(&mut txn.chain), row))?;
        pages.push(rid.page);
        Ok(rid)
    }

    /// Moves the rows of one group and updates every index.
    fn move_out<P: Policies>(
        &self,
        txn: &mut Txn,
        table: &Table,
        rows: &[PlacedRow],
        sharing: &mut Sharing<'_>,
        done: &mut Divided,
    ) -> Result<(), Stop> {
        let Some(first) = rows.first() else { return Ok(()) };
        let mut near_pages = match sharing {
            Sharing::OfLeaf => self.insist(|| self.near_pages::<P>(table, &first.key, MAX_NEAR_PAGES))?.1,
            Sharing::Loaded(_) => NearPages::new(),
            Sharing::At { key, reserved } => reserved[usize::from(first.key.as_slice() >= *key)].clone(),
        };
        near_pages.retain(|page| *page != first.rid.page);
        let (heap, tree) = (self.heap(table), self.tree(table));
        for PlacedRow { key, rid, row } in rows {
            let to = match sharing {
                Sharing::Loaded(part_pages) => self.put_on::<P>(txn, table, part_pages.of(key), row)?,
                Sharing::OfLeaf | Sharing::At { .. } => {
                    let put =
                        || heap.among(&near_pages).insert::<P::Heap>(&mut self.writer(&mut txn.chain), row);
                    let to = self.insist(put)?;
                    if !near_pages.contains(&to.page) {
                        near_pages.insert(0, to.page);
                    }
                    to
                }
            };
            let told = self
                .insist(|| tree.replace::<P::Index>(&mut self.writer(&mut txn.chain), key, &to.encode()))?;
            if !matches!(told, TreeReplace::Done(old) if Rid::decode(&old) == Some(*rid)) {
                return Err(self.broken(table, "a row that is to be moved is not where its index says"));
            }
            for index in &table.indexes {
                let entry = table.def.entry_of(&index.def, Row::new(&table.layout, row));
                let told = self.insist(|| {
                    self.secondary(index).replace::<P::Secondary>(
                        &mut self.writer(&mut txn.chain),
                        &entry,
                        table.reference(to).as_slice(),
                    )
                })?;
                if told == TreeReplace::Missing {
                    return Err(self.broken(table, "a row that is to be moved is missing from an index"));
                }
                done.secondary += 1;
            }
            self.insist(|| heap.delete::<P::Heap>(&mut self.writer(&mut txn.chain), *rid))?;
            txn.ghosts.push((table.def.id, *rid));
            done.rows += 1;
            done.primary += 1;
            done.bytes += row.len();
        }
        if let Sharing::At { key, reserved } = sharing {
            // Rows go to the first page with room, and a new page goes to the front.
            near_pages.truncate(RESERVED);
            reserved[usize::from(first.key.as_slice() >= *key)] = near_pages;
        }
        Ok(())
    }
}
