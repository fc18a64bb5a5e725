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
//! with keys near its own (`homes`), or else into a page without rows.
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

use crate::catalog::Table;
use crate::definition::HeapForm;
use crate::division::Writers;
use crate::open::Store;
use crate::rows::LAYOUT;
use crate::txn::Txn;
use access::{Around, TreeReplace};
use base::{Key, Lsn, PageId, Rid, TableId};
use latch::{OwnerId, Policies, acting_for};
use pages::Stop;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{AddAssign, Bound, ControlFlow};
use txn::Row;

/// Heap pages that hold rows with keys near a given key, the nearest first.
pub(crate) type Homes = SmallVec<[PageId; 8]>;

/// Maximum number of homes to try. A leaf leads to fewer pages, unless its rows are long.
const HOMES: usize = 16;

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

/// Which rows may share a page.
pub(crate) enum Part<'k> {
    OfLeaf,
    /// All parts of the table at once, after a load.
    OnShelves(&'k mut Shelves),
    /// Two parts: keys below `key`, and the others. `reserved` are the pages that moved rows of
    /// either part go to.
    At {
        key: &'k [u8],
        reserved: &'k mut [Homes; 2],
    },
}

/// The parts of a table's keys after a load, while no other thread uses the table. Each part has a
/// list of pages with room, and the last page of the list is filled first.
///
/// Rows that were loaded in random order put rows of every part into every page. If each part of
/// each page got a page of its own, the table would need as many times the pages as there are
/// parts. Filling the pages of a part one after the other avoids that.
pub(crate) struct Shelves {
    /// The first key of each part, ascending.
    starts: Vec<Key>,
    pages: Vec<Vec<PageId>>,
}

impl Shelves {
    fn new(starts: Vec<Key>) -> Shelves {
        let pages = starts.iter().map(|_| Vec::new()).collect();
        Shelves { starts, pages }
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
struct Lodger {
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
    fn homes<P: Policies>(&self, table: &Table, key: &[u8], most: usize) -> Result<(Around, Homes), Stop> {
        let mut homes = Homes::new();
        // Neighbouring entries mostly lead to the same pages. With a small `most`, only that many
        // entries are examined; otherwise all of the leaf.
        let mut looks = if most < HOMES { most } else { usize::MAX };
        let around = self.tree(table).around::<P::Index>(key, |value| {
            looks -= 1;
            if let Some(rid) = Rid::decode(value)
                && !homes.contains(&rid.page)
            {
                homes.push(rid.page);
            }
            if homes.len() < most && looks > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok((around, homes))
    }

    /// Inserts a row into a page of its part; `None` if its key exists already.
    pub(crate) fn put_at_home<P: Policies>(
        &self,
        txn: &mut Txn,
        table: &Table,
        key: &[u8],
        row: &[u8],
    ) -> Result<Option<Rid>, Stop> {
        let (around, near) = self.homes::<P>(table, key, 2)?;
        if around.found {
            return Ok(None);
        }
        let heap = self.heap(table);
        // Nothing has changed yet, so the caller can wait for an absent page.
        if let Some(rid) = heap.among(&near).insert_among::<P::Heap>(&mut self.writer(&mut txn.chain), row)? {
            return Ok(Some(rid));
        }
        let (_, mut all) = self.homes::<P>(table, key, HOMES)?;
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
    pub(crate) fn homes_of_outgrown<P: Policies>(
        &self,
        table: &Table,
        row: &[u8],
        from: Rid,
    ) -> Result<Homes, Stop> {
        let key = table.def.key_of(Row::new(&table.layout, row));
        let (_, mut homes) = self.insist(|| self.homes::<P>(table, &key, HOMES))?;
        homes.retain(|page| *page != from.page);
        Ok(homes)
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
            let Some(housed) = self.at_hand(|| self.heap(table).housed::<P::Heap>(page))? else {
                done.absent += 1;
                continue;
            };
            done.pages_read += 1;
            if housed.rows > entries {
                done += self.divide_page::<P>(txn, table, page, Part::OfLeaf, writers)?;
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
    pub(crate) fn house<P: Policies>(&self, table: &Table) -> Result<Divided, Stop> {
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
        let (mut txn, mut shelves) = (Txn::default(), Shelves::new(starts));
        for page in mixed {
            let part = Part::OnShelves(&mut shelves);
            done += self.divide_page::<P>(&mut txn, table, page, part, Writers::Running)?;
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
    /// rows. With shelves, a part that already has a page with room moves there instead of staying.
    pub(crate) fn divide_page<P: Policies>(
        &self,
        txn: &mut Txn,
        table: &Table,
        page: PageId,
        mut part: Part<'_>,
        writers: Writers,
    ) -> Result<Divided, Stop> {
        let mut done = Divided { pages_read: 1, ..Divided::default() };
        let mut lodgers = Vec::new();
        let housed = self.insist(|| {
            lodgers.clear();
            self.heap(table).rows_in::<P::Heap>(page, |rid, row| lodgers.push((rid, row.to_vec())))
        })?;
        if writers == Writers::Running && housed.lsn > self.oldest_change() {
            done.later = 1;
            return Ok(done);
        }
        let mut rows = Vec::with_capacity(lodgers.len());
        for (rid, row) in lodgers {
            if !table.layout.fits(&row) {
                return Err(self.broken(table, LAYOUT));
            }
            rows.push(Lodger { key: table.def.key_of(Row::new(&table.layout, &row)), rid, row });
        }
        rows.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let mut groups = self.grouped::<P>(table, &part, rows)?;
        let mut may_stay: Vec<usize> = (0..groups.len()).collect();
        if let Part::OnShelves(shelves) = &mut part
            && groups.len() > 1
        {
            // A part that has a page with room moves there. A page that all rows have left becomes
            // unassigned.
            may_stay.retain(|&at| shelves.of(&groups[at][0].key).is_empty());
        }
        let stays = may_stay.into_iter().max_by_key(|&at| groups[at].len());
        let stays = stays.map(|at| groups.swap_remove(at));
        if groups.is_empty() {
            return Ok(done);
        }
        self.begin(txn, acting_for().map_or(0, OwnerId::number));
        let moved =
            groups.iter().try_for_each(|group| self.move_out::<P>(txn, table, group, &mut part, &mut done));
        match moved {
            Ok(()) => {
                if let (Part::OnShelves(shelves), Some(stays)) = (&mut part, &stays) {
                    shelves.of(&stays[0].key).push(page);
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
                self.insist(|| self.rollback::<P>(txn))?;
                Err(stop)
            }
        }
    }

    /// Groups rows by part. `rows` are in key order.
    fn grouped<P: Policies>(
        &self,
        table: &Table,
        part: &Part<'_>,
        rows: Vec<Lodger>,
    ) -> Result<Vec<Vec<Lodger>>, Stop> {
        let mut groups: Vec<Vec<Lodger>> = Vec::new();
        // The end of the last group's part.
        let mut end: Option<Key> = None;
        for row in rows {
            let inside = !groups.is_empty() && end.as_ref().is_none_or(|end| row.key < *end);
            if !inside {
                end = match part {
                    Part::OfLeaf => {
                        let look =
                            || self.tree(table).around::<P::Index>(&row.key, |_| ControlFlow::Break(()));
                        self.insist(look)?.high
                    }
                    Part::OnShelves(shelves) => shelves.starts.get(shelves.part(&row.key) + 1).cloned(),
                    Part::At { key, .. } => Some(Key::from_bytes(key)).filter(|key| row.key < *key),
                };
                groups.push(Vec::new());
            }
            groups.last_mut().expect("one was pushed").push(row);
        }
        Ok(groups)
    }

    /// Inserts a row into the last page of `shelf`, or into a page without rows. Full pages are
    /// removed from `shelf`.
    fn put_on<P: Policies>(
        &self,
        txn: &mut Txn,
        table: &Table,
        shelf: &mut Vec<PageId>,
        row: &[u8],
    ) -> Result<Rid, Stop> {
        let heap = self.heap(table);
        while let Some(last) = shelf.last() {
            let among = std::slice::from_ref(last);
            let put = || heap.among(among).insert_among::<P::Heap>(&mut self.writer(&mut txn.chain), row);
            if let Some(rid) = self.insist(put)? {
                return Ok(rid);
            }
            shelf.pop();
        }
        let rid = self.insist(|| heap.among(&[]).insert::<P::Heap>(&mut self.writer(&mut txn.chain), row))?;
        shelf.push(rid.page);
        Ok(rid)
    }

    /// Moves the rows of one group and updates every index.
    fn move_out<P: Policies>(
        &self,
        txn: &mut Txn,
        table: &Table,
        rows: &[Lodger],
        part: &mut Part<'_>,
        done: &mut Divided,
    ) -> Result<(), Stop> {
        let Some(first) = rows.first() else { return Ok(()) };
        let mut homes = match part {
            Part::OfLeaf => self.insist(|| self.homes::<P>(table, &first.key, HOMES))?.1,
            Part::OnShelves(_) => Homes::new(),
            Part::At { key, reserved } => reserved[usize::from(first.key.as_slice() >= *key)].clone(),
        };
        homes.retain(|page| *page != first.rid.page);
        let (heap, tree) = (self.heap(table), self.tree(table));
        for Lodger { key, rid, row } in rows {
            let to = match part {
                Part::OnShelves(shelves) => self.put_on::<P>(txn, table, shelves.of(key), row)?,
                Part::OfLeaf | Part::At { .. } => {
                    let put = || heap.among(&homes).insert::<P::Heap>(&mut self.writer(&mut txn.chain), row);
                    let to = self.insist(put)?;
                    if !homes.contains(&to.page) {
                        homes.insert(0, to.page);
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
        if let Part::At { key, reserved } = part {
            // Rows go to the first page with room, and a new page goes to the front.
            homes.truncate(RESERVED);
            reserved[usize::from(first.key.as_slice() >= *key)] = homes;
        }
        Ok(())
    }
}
