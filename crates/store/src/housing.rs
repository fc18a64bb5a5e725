//! Which heap page a row lies in, where pages are divided among parts of the keys (thesis of Pandis, sections 3.3.3 and 4.3).
//!
//! ```text
//!   ByPartition   partition |  leaf  leaf  leaf  | leaf ...      ByLeaf     leaf   |  leaf  |  leaf
//!                           |    \   / \   /     |                         / | \   |  / \   |   |
//!   heap pages              |    page   page     | page                   p  p  p  | p   p  |   p
//! ```
//!
//! Nothing of it is written down but the form itself, in the catalog: **the keys of a page's rows say whose it is**, and the tree says what
//! parts the keys have. A row is put where rows near its key lie already (`homes`), else into a page without rows.
//!
//! A leaf that is split, or that deals its entries out anew with its neighbour, may leave a page that two leaves lead to. That costs
//! nothing but order: both leaves are of one partition, so one owner touches the page. So it is put right later: the
//! journal notes where leaves were parted ([`Store::parted`]), and whoever has the partition to itself comes back to it between
//! transactions ([`Store::settle_rows`]). Dividing a partition is another matter: its rows must be apart *before* it is split
//! ([`Store::divide_rows`], file `division`).
//!
//! **Moving a row** gives it another address: it is put in anew, every index is told, and the old one is taken out, all in a
//! transaction of its own, so that a crash finds it in one place. What makes that right beside others: log records name rows by
//! address, so a row must not move while a transaction that may yet be undone has changed it. No such transaction has changed a
//! page whose last change is older than the first record of every transaction that is running; other pages wait
//! ([`Divided::later`]). Nobody else may be at work on the partition meanwhile; readers hold no addresses between operations.

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

/// Heap pages that rows near a key lie in, the nearest first.
pub(crate) type Homes = SmallVec<[PageId; 8]>;

/// The most homes that are looked into: a leaf leads to fewer, unless its rows are long.
const HOMES: usize = 16;

/// Pages that are kept for rows that move to one side of a border.
const RESERVED: usize = 2;

/// What was done to have rows of different parts of the keys in different pages: the counts that the cost model of repartitioning
/// speaks of (thesis, Table 4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Divided {
    /// Leaves and heap pages read.
    pub leaves_read: usize,
    pub pages_read: usize,
    /// Rows moved, and their bytes.
    pub rows: usize,
    pub bytes: usize,
    /// Entries changed: of the primary tree, and of secondary ones.
    pub primary: usize,
    pub secondary: usize,
    /// Pages that must wait, since a running transaction may have changed them.
    pub later: usize,
    /// Leaves and pages that were not looked at, as they are not in memory.
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
    /// Of all parts at once, after a load.
    OnShelves(&'k mut Shelves),
    /// Those below this key, and the others; and the pages kept for either when they move.
    At {
        key: &'k [u8],
        reserved: &'k mut [Homes; 2],
    },
}

/// The parts of a table's keys while nobody else is at work on it, each with pages that were found to have room, the last one first to
/// be filled. Rows that were loaded in no order come from each page in as many parts as there are: if each part of each page went to a
/// page of its own there would be as many times the pages.
pub(crate) struct Shelves {
    /// Where the parts begin, ascending.
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
    /// Which rows share heap pages: the form of the first table with a key and rows in a heap; `None` if there is none.
    pub fn heap_form(&self) -> Option<HeapForm> {
        let schema = self.schema()?;
        let mut tables = schema.tables.iter().filter_map(|def| self.table(def.id));
        tables.find(|table| table.tree.is_some() && !table.is_clustered()).map(Table::form)
    }

    /// From now on heap pages are theirs who change them and take pages over ([`latch::claim`]): those of tables whose keys have owners, if
    /// they are divided, and those of tables without keys, whose appender has them. Pages of a table that everybody reads must stay
    /// nobody's: whoever latches one to read it would take it from the others.
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
        // Entries beside each other lead to the same pages: those looked for are the nearest two, or all there are.
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

    /// Puts a row where its key belongs; `None` if its key is there already.
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
        // Nothing has changed yet, so an absent page is the caller's to wait for.
        if let Some(rid) = heap.among(&near).insert_among::<P::Heap>(&mut self.writer(&mut txn.chain), row)? {
            return Ok(Some(rid));
        }
        let (_, mut all) = self.homes::<P>(table, key, HOMES)?;
        let root = || self.tree(table).partition(key).root().0;
        let group = (table.form() == HeapForm::ByPartition).then(|| table.coming.group(root(), key));
        // Only while it is the thread's own: somebody else might make it another partition's at this moment.
        let mine = |page: &PageId| acting_for().is_some() && self.pool.owner_of(*page) == acting_for();
        let last = group.and_then(|group| table.insert_pages.of_group(group)).filter(mine);
        all.extend(last.filter(|last| !all.contains(last)));
        let rid = heap.among(&all).insert::<P::Heap>(&mut self.writer(&mut txn.chain), row)?;
        if let Some(group) = group {
            table.insert_pages.set_group(group, rid.page);
        }
        Ok(Some(rid))
    }

    /// Where a row that outgrows its page may go.
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

    /// Where leaves were parted that lead to rows, since the transaction began: the trees, and keys in the new leaves. To be settled
    /// once it has ended.
    pub fn parted(&self, txn: &mut Txn) -> Vec<(TableId, Key)> {
        let mut parted = std::mem::take(&mut txn.chain.parted);
        parted.retain(|(tree, _)| self.table(*tree).is_some_and(|table| table.form() == HeapForm::ByLeaf));
        parted
    }

    /// Sees to it that no other leaf leads to pages that the leaf covering `key` leads to, if the table's pages are divided so. For
    /// whoever has the partition to itself; `txn` has ended. Gives where the next leaf begins. What is absent is not looked at
    /// ([`Divided::absent`]): it has not been changed of late.
    ///
    /// # Errors
    /// [`Stop::NoSpace`], [`Stop::Fault`]: some pages are not divided.
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

    /// As [`Store::insist`], but `None` where a page is absent.
    fn at_hand<T>(&self, mut look: impl FnMut() -> Result<T, Stop>) -> Result<Option<T>, Stop> {
        self.insist(|| match look() {
            Err(Stop::Page(_)) => Ok(None),
            looked => looked.map(Some),
        })
    }

    /// The partition of a table's primary tree that covers `key`: where it begins, and where the next one does.
    pub(crate) fn bounds(&self, table: &Table, key: &[u8]) -> (Key, Option<Key>) {
        let starts = self.tree(table).partitions();
        let behind = starts.partition_point(|start| start.as_slice() <= key);
        let start = behind.checked_sub(1).map(|at| starts[at].clone()).unwrap_or_default();
        (start, starts.get(behind).cloned())
    }

    /// After a load: no page holds rows of two leaves, or of two partitions.
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

    /// Calls `visit` with the entries of each leaf between two keys; gives the number of leaves.
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

    /// The first record of any transaction that is running; what is older is nobody's to undo.
    fn oldest_change(&self) -> Lsn {
        self.active.running().iter().map(|running| running.first).min().unwrap_or(Lsn(u64::MAX))
    }

    /// Moves rows out of `page` until all that are left belong to one part of the keys: that which has most of them.
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
            // What has a page with room goes there; a page that all its rows leave is anybody's.
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

    /// Rows, in the order of their keys, by the parts they belong to.
    fn grouped<P: Policies>(
        &self,
        table: &Table,
        part: &Part<'_>,
        rows: Vec<Lodger>,
    ) -> Result<Vec<Vec<Lodger>>, Stop> {
        let mut groups: Vec<Vec<Lodger>> = Vec::new();
        // Where the last group ends.
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

    /// Puts a row into the last of these pages, which are given up as they are found full, or into one without rows.
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

    /// Gives rows that belong together other addresses, and tells every index.
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
            // Only the last ones have room.
            homes.truncate(RESERVED);
            reserved[usize::from(first.key.as_slice() >= *key)] = homes;
        }
        Ok(())
    }
}
