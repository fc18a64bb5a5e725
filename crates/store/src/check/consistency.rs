//! Checking a whole store. The check covers every page of the data file, the log, and every tree
//! and heap. Each row must have its entry in each tree, and each entry its row. The pages in use
//! must be the pages of the tables.
//!
//! There are two ways to check. [`Store::check`] is for a store that is open. [`scan_files`] and
//! [`Store::examine`] together check a database that is closed: the first reads the data file as it
//! is, the second checks the result of restart. On [`world::overlay`] files, neither changes
//! anything.

use crate::catalog::definition::HeapForm;
use crate::catalog::tables::{NOWHERE, Table};
use crate::check::finding::{Finding, TOLD, beyond_told};
use crate::check::lost_writes::LastChanges;
use crate::fault::offset_of;
use crate::rows::clustered::Lies;
use crate::state::store::Store;
use crate::{DATA, StoreFault};
use access::{BTree, HeapPlace, HeapReport, TreeReport};
use base::{Key, PageId, Rid, TableId, hash64};
use latch::Coupled;
use pages::Found;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::Path;
use txn::{Row, TableKind};
use world::Files;

/// The facts about a sound store.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CheckReport {
    pub tables: Vec<TableReport>,
    /// Pages in use that belong to no table. A crash between allocating a page and logging it
    /// leaves such a page.
    pub lost_pages: u64,
    /// The number of readable log records.
    pub log_records: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableReport {
    pub id: TableId,
    pub name: String,
    pub kind: TableKind,
    /// Of a clustered table: the rows that are too long for a leaf.
    pub heap: HeapReport,
    /// The primary tree, then the secondary ones.
    pub trees: Vec<(TableId, TreeReport)>,
    /// Which rows share a heap page.
    pub form: HeapForm,
    /// With [`HeapForm::ByLeaf`]: pages that several leaves of one partition lead to. Their owner
    /// will divide them.
    pub undivided: u64,
}

/// The expected entries of each tree of a table; `None` for a tree that is not compared.
type Marks = Vec<Option<Vec<Mark>>>;

impl TableReport {
    /// The number of rows of the table, in leaves and heap.
    pub fn rows(&self) -> u64 {
        match (self.kind, self.trees.first()) {
            (TableKind::Clustered, Some((_, primary))) => primary.entries,
            _ => self.heap.rows,
        }
    }
}

/// A progress callback: the subject, the units done, and the total number of units.
pub type CheckProgress<'a> = &'a mut dyn FnMut(&str, u64, u64);

/// An entry of a tree without its key: the row's address, and a hash of the key.
type Mark = (Rid, u64);

/// Checks every page of the data file in `dir` by itself: checksum, kind and format.
///
/// # Errors
/// The data file is missing, or is not of this version.
pub fn scan_files(
    files: &dyn Files,
    dir: &Path,
    watch: CheckProgress<'_>,
) -> Result<Vec<Finding>, StoreFault> {
    let path = dir.join(DATA);
    let mut findings = Vec::new();
    pages::scan(files, &path, |id, pages, found, page| {
        let at = Some(offset_of(id));
        match found {
            Found::Blank => {}
            Found::Intact => {
                if let Err(what) = access::check_kind(page) {
                    let what = format!("{id:?} is {what}");
                    let remedy = "open it with the version of Atoll that wrote it";
                    findings.push(Finding { remedy: remedy.into(), ..Finding::damage(&path, at, what) });
                }
            }
            Found::Torn => findings.push(Finding::note(
                &path,
                at,
                format!("{id:?} was torn by a crash and has a whole copy"),
                "nothing: it is repaired when the database is opened",
            )),
            Found::Corrupt => {
                let what = format!("{id:?} is corrupt: its checksum does not match");
                findings.push(Finding::damage(&path, at, what));
            }
        }
        if id.0 % 1024 == 0 || id.0 + 1 == pages {
            watch("pages", u64::from(id.0) + 1, pages.into());
        }
    })?;
    Ok(findings)
}

impl Store {
    /// Verifies all tables, and that the pages in use belong to them. No transaction may run
    /// meanwhile.
    ///
    /// # Errors
    /// The first damage found. It also poisons the store.
    pub fn check(&self) -> Result<CheckReport, StoreFault> {
        let mut findings = Vec::new();
        let report = self.check_tables(&mut findings, &mut |_, _, _| {});
        match findings.into_iter().find(|f| f.weight == crate::Weight::Damage) {
            None => Ok(report),
            Some(Finding { table, what, .. }) => {
                let fault = StoreFault::Broken { table: table.unwrap_or_default(), what };
                self.poison(fault.clone());
                Err(fault)
            }
        }
    }

    /// As [`Store::check`], but returns all findings, reads the whole log, and looks for pages that
    /// lack a change that the log has.
    pub fn examine(&self, watch: CheckProgress<'_>) -> (CheckReport, Vec<Finding>) {
        let mut findings = Vec::new();
        let (log_records, changes) = self.read_log(&mut findings, watch);
        changes.report(self, &mut findings);
        let report = self.check_tables(&mut findings, watch);
        (CheckReport { log_records, ..report }, findings)
    }

    fn read_log(&self, findings: &mut Vec<Finding>, watch: CheckProgress<'_>) -> (u64, LastChanges) {
        let (first, end, mut records) = (self.log.first(), self.log.end(), 0);
        let mut changes = LastChanges::default();
        for record in self.log.read_from(first) {
            match record {
                Ok((span, header, body)) => {
                    records += 1;
                    changes.note(span, header.kind, &body);
                    if records % 4096 == 0 {
                        watch("log", span.end.0 - first.0, end.0 - first.0);
                    }
                }
                Err(fault) => findings.push(Finding::of(&fault.into(), &self.dir)),
            }
        }
        (records, changes)
    }

    fn check_tables(&self, findings: &mut Vec<Finding>, watch: CheckProgress<'_>) -> CheckReport {
        let mut report = CheckReport::default();
        let schema = self.schema().unwrap_or_default();
        let (mut seen, total) = (BTreeSet::new(), schema.tables.len() as u64);
        let mut whole = true;
        if let Err(flaw) = self.catalog_heap().verify_into::<Coupled>(&mut seen) {
            findings.push(self.flaw(flaw.page(), format!("the catalog: {flaw}")));
            whole = false;
        }
        for (done, table) in schema.tables.iter().filter_map(|def| self.table(def.id)).enumerate() {
            watch(&table.def.name, done as u64, total);
            let before = findings.len();
            report.tables.extend(self.check_table(table, &mut seen, findings));
            for finding in &mut findings[before..] {
                finding.what = format!("table '{}': {}", table.def.name, finding.what);
                finding.table = Some(table.def.id);
                whole = false;
            }
        }
        // If a table could not be walked, the set of its pages is incomplete.
        if whole {
            report.lost_pages = self.check_pages(&seen, findings);
        }
        report
    }

    /// A finding of damage to `page`, or to the data file as a whole.
    fn flaw(&self, page: Option<PageId>, what: String) -> Finding {
        Finding::in_pages(&self.dir, page, what)
    }

    fn check_table(
        &self,
        table: &Table,
        seen: &mut BTreeSet<PageId>,
        findings: &mut Vec<Finding>,
    ) -> Option<TableReport> {
        let heap = match self.heap(table).verify_into::<Coupled>(seen) {
            Ok(heap) => heap,
            Err(flaw) => {
                findings.push(self.flaw(flaw.page(), flaw.to_string()));
                return None;
            }
        };
        let trees: Vec<(TableId, &str, BTree<'_>)> = table
            .tree
            .iter()
            .map(|_| (table.def.id, table.def.name.as_str(), self.tree(table)))
            .chain(table.indexes.iter().map(|i| (i.def.id, i.def.name.as_str(), self.secondary(i))))
            .collect();
        let expected = match table.is_clustered() {
            true => self.marks_by_key(table, heap.rows, findings)?,
            false => self.marks_of_rows(table, heap.rows, findings)?,
        };
        let (id, name, kind) = (table.def.id, table.def.name.clone(), table.def.kind);
        let (form, before) = (table.form(), findings.len());
        let mut report = TableReport { id, name, kind, heap, trees: Vec::new(), form, undivided: 0 };
        for ((id, name, tree), expected) in trees.into_iter().zip(expected) {
            match tree.verify_into::<Coupled>(seen) {
                Err(flaw) => findings.push(self.flaw(flaw.page(), format!("index '{name}': {flaw}"))),
                Ok(walked) => {
                    report.trees.push((id, walked));
                    if let Some(expected) = expected {
                        self.compare(table, name, &tree, expected, findings);
                    }
                }
            }
        }
        if form != HeapForm::Shared && findings.len() == before {
            report.undivided = self.check_placement(table, findings);
        }
        Some(report)
    }

    /// Checks that every heap page holds rows of one partition. Returns the number of pages with
    /// rows of several leaves, if the form is [`HeapForm::ByLeaf`].
    fn check_placement(&self, table: &Table, findings: &mut Vec<Finding>) -> u64 {
        let starts = self.tree(table).partitions();
        // For each page: leaf and partition of the first row found in it.
        let (mut whose, mut leaf) = (BTreeMap::<PageId, (usize, usize)>::new(), 0);
        let (mut undivided, mut mixed) = (BTreeSet::new(), BTreeSet::new());
        let walked = self.each_leaf::<Coupled>(table, Key::new(), None, |entries| {
            leaf += 1;
            for (key, rid) in entries {
                let here = (leaf, starts.partition_point(|start| start <= key));
                let first = *whose.entry(rid.page).or_insert(here);
                if first.1 != here.1 {
                    mixed.insert(rid.page);
                } else if first.0 != leaf {
                    undivided.insert(rid.page);
                }
            }
        });
        if let Err(stop) = walked {
            findings.push(self.flaw(None, stop.to_string()));
        }
        for &page in mixed.iter().take(TOLD) {
            findings.push(self.flaw(Some(page), format!("{page:?} holds rows of several partitions")));
        }
        if let Some(more) = beyond_told(mixed.len()) {
            let what = format!("and {more} more pages hold rows of several partitions");
            findings.push(self.flaw(None, what));
        }
        if table.form() == HeapForm::ByLeaf { undivided.len() as u64 } else { 0 }
    }

    /// The entries that each tree of the table must contain, from its rows.
    fn marks_of_rows(&self, table: &Table, counted: u64, findings: &mut Vec<Finding>) -> Option<Marks> {
        let mut marks = vec![Vec::new(); usize::from(table.tree.is_some()) + table.indexes.len()];
        let (mut place, mut met) = (HeapPlace::default(), 0);
        let heap = self.heap(table);
        loop {
            let mut part: Vec<(Rid, Option<Vec<u64>>)> = Vec::new();
            let next = self.insist(|| {
                part.clear();
                heap.chunk::<Coupled>(place, |rid, row| part.push((rid, hashes(table, row))))
            });
            for (rid, hashes) in part {
                met += 1;
                match hashes {
                    Some(hashes) => marks.iter_mut().zip(hashes).for_each(|(m, hash)| m.push((rid, hash))),
                    None => findings.push(self.flaw(
                        Some(rid.page),
                        format!("the row in slot {} of {:?} has another layout", rid.slot, rid.page),
                    )),
                }
            }
            match next {
                Ok(Some(next)) => place = next,
                Ok(None) => break,
                Err(stop) => {
                    findings.push(self.flaw(None, stop.to_string()));
                    return None;
                }
            }
        }
        if met != counted {
            findings.push(self.flaw(None, format!("{met} rows were met, {counted} counted")));
        }
        Some(marks.into_iter().map(Some).collect())
    }

    /// The entries that each secondary tree of a clustered table must contain, from its rows;
    /// `None` for the primary tree.
    ///
    /// The primary tree contains the rows and is checked here: every row lies under its own key,
    /// every long row lies in the heap, and the heap has no other rows.
    fn marks_by_key(&self, table: &Table, counted: u64, findings: &mut Vec<Finding>) -> Option<Marks> {
        let (mut marks, mut away) = (vec![Vec::new(); table.indexes.len()], BTreeSet::new());
        let mut bad = Vec::new();
        let mut from = Bound::Unbounded;
        let is_read_whole = loop {
            let mut part = Vec::new();
            let read = || {
                part.clear();
                let bound = from.as_ref().map(Key::as_slice);
                self.tree(table).chunk::<Coupled>(bound, None, access::Direction::Forward, |key, value| {
                    part.push((Key::from_bytes(key), value.to_vec()));
                })
            };
            let chunk = match self.insist(read) {
                Ok(chunk) => chunk,
                // The walk over the tree may report the cause.
                Err(stop) => {
                    findings.push(self.flaw(None, stop.to_string()));
                    break false;
                }
            };
            for (key, value) in part {
                match self.row_under(table, &key, &value, &mut away) {
                    Ok(hashes) => marks.iter_mut().zip(hashes).for_each(|(m, h)| m.push((NOWHERE, h))),
                    Err(what) => bad.push(what),
                }
            }
            match chunk {
                access::ChunkEnd::Continue(fence) => from = Bound::Included(fence),
                _ => break true,
            }
        };
        for what in bad.iter().take(TOLD) {
            findings.push(self.flaw(None, what.clone()));
        }
        if let Some(more) = beyond_told(bad.len()) {
            findings
                .push(self.flaw(None, format!("and {more} more entries of its primary tree are no rows")));
        }
        if is_read_whole && away.len() as u64 != counted {
            let what = format!("{counted} long rows lie in its heap, and the tree leads to {}", away.len());
            findings.push(self.flaw(None, what));
        }
        Some(
            [None].into_iter().chain(marks.into_iter().map(|marks| is_read_whole.then_some(marks))).collect(),
        )
    }

    /// The hashes of a clustered row's entries in the secondary trees, or a description of the
    /// damage.
    fn row_under(
        &self,
        table: &Table,
        key: &Key,
        value: &[u8],
        away: &mut BTreeSet<Rid>,
    ) -> Result<Vec<u64>, String> {
        let of = |row: &[u8]| {
            let fits = table.layout.fits(row);
            let same = fits && table.def.key_of(Row::new(&table.layout, row)) == *key;
            let hashes = hashes(table, row).filter(|_| same).map(|all| all[1..].to_vec());
            hashes.ok_or_else(|| format!("the row under the key {key:?} has another layout or another key"))
        };
        match Lies::of(value) {
            None => Err(format!("the entry {key:?} is neither a row nor the address of one")),
            Some(Lies::Here(row)) => of(row),
            Some(Lies::Away(rid)) if !away.insert(rid) => {
                Err(format!("two entries lead to the row in slot {} of {:?}", rid.slot, rid.page))
            }
            Some(Lies::Away(rid)) => match self.insist(|| self.heap(table).read::<Coupled, _>(rid, of)) {
                Ok(Some(hashes)) => hashes,
                Ok(None) => Err(format!(
                    "the entry {key:?} leads to slot {} of {:?}, which has no row",
                    rid.slot, rid.page
                )),
                Err(stop) => Err(stop.to_string()),
            },
        }
    }

    /// Compares a tree's entries with the expected entries, in both directions.
    fn compare(
        &self,
        table: &Table,
        name: &str,
        tree: &BTree<'_>,
        mut expected: Vec<Mark>,
        findings: &mut Vec<Finding>,
    ) {
        let mut found = match self.marks_of_tree(table, tree) {
            Ok(found) => found,
            Err(what) => return findings.push(self.flaw(None, format!("index '{name}': {what}"))),
        };
        expected.sort_unstable();
        found.sort_unstable();
        let missing = difference(&expected, &found);
        let surplus = difference(&found, &expected);
        for (marks, what) in [
            (missing, "has no entry for the row"),
            (surplus, "has an entry that does not fit a row, for the place"),
        ] {
            if table.is_clustered() {
                if !marks.is_empty() {
                    let what = format!("index '{name}' {what} by key: {} of these", marks.len());
                    findings.push(self.flaw(None, what));
                }
                continue;
            }
            for (rid, _) in marks.iter().take(TOLD) {
                let what = format!("index '{name}' {what} in slot {} of {:?}", rid.slot, rid.page);
                findings.push(self.flaw(Some(rid.page), what));
            }
            if let Some(more) = beyond_told(marks.len()) {
                findings.push(self.flaw(None, format!("index '{name}' {what}: and {more} more of these")));
            }
        }
    }

    fn marks_of_tree(&self, table: &Table, tree: &BTree<'_>) -> Result<Vec<Mark>, String> {
        let (mut found, mut from, mut bad) = (Vec::new(), Bound::Unbounded, 0);
        loop {
            let mut part = Vec::new();
            let read = || {
                part.clear();
                tree.chunk::<Coupled>(
                    from.as_ref().map(Key::as_slice),
                    None,
                    access::Direction::Forward,
                    |key, value| part.push((mark(table, value), hash64(key))),
                )
            };
            let chunk = self.insist(read).map_err(|stop| stop.to_string())?;
            bad += part.iter().filter(|(rid, _)| rid.is_none()).count();
            found.extend(part.into_iter().filter_map(|(rid, hash)| Some((rid?, hash))));
            match chunk {
                access::ChunkEnd::Continue(fence) => from = Bound::Included(fence),
                _ if bad > 0 && table.is_clustered() => {
                    return Err(format!("{bad} entries have a value, and should have none"));
                }
                _ if bad > 0 => return Err(format!("{bad} entries are no row addresses")),
                _ => return Ok(found),
            }
        }
    }

    /// Compares the pages of all tables with the pages in use. Returns the number of pages that
    /// belong to no table.
    fn check_pages(&self, seen: &BTreeSet<PageId>, findings: &mut Vec<Finding>) -> u64 {
        let allocator = self.pool.allocator();
        let free: BTreeSet<PageId> = allocator.free.into_iter().collect();
        let is_loose = |id: &&PageId| free.contains(id) || **id >= allocator.next;
        let loose: Vec<PageId> = seen.iter().filter(is_loose).copied().collect();
        for &id in loose.iter().take(TOLD) {
            findings.push(self.flaw(Some(id), format!("{id:?} belongs to a table and is listed as free")));
        }
        if let Some(more) = beyond_told(loose.len()) {
            let what = format!("and {more} more pages belong to a table and are listed as free");
            findings.push(self.flaw(None, what));
        }
        let used = (1..allocator.next.0).map(PageId).filter(|id| !free.contains(id));
        let lost: Vec<PageId> = used.filter(|id| !seen.contains(id)).collect();
        if let Some(first) = lost.first() {
            findings.push(Finding::note(
                &self.dir.join(DATA),
                Some(offset_of(*first)),
                format!("{} pages belong to no table, the first is {first:?}", lost.len()),
                "nothing: they cost room only; loading the data into a new folder gives it back",
            ));
        }
        lost.len() as u64
    }
}

/// The address in an entry. Entries of a clustered table have none, and get [`NOWHERE`].
fn mark(table: &Table, value: &[u8]) -> Option<Rid> {
    if table.is_clustered() { value.is_empty().then_some(NOWHERE) } else { Rid::decode(value) }
}

/// The hash of the row's key in each tree of its table; `None` if it is not a row of the table.
fn hashes(table: &Table, row: &[u8]) -> Option<Vec<u64>> {
    if !table.layout.fits(row) {
        return None;
    }
    let row = Row::new(&table.layout, row);
    let primary = table.tree.iter().map(|_| hash64(&table.def.key_of(row)));
    let secondary = table.indexes.iter().map(|i| hash64(&table.def.entry_of(&i.def, row)));
    Some(primary.chain(secondary).collect())
}

/// The elements of `a` that are not in `b`. Both are sorted.
fn difference(a: &[Mark], b: &[Mark]) -> Vec<Mark> {
    let mut rest = b;
    let missing = |mark: &&Mark| {
        rest = &rest[rest.partition_point(|other| other < *mark)..];
        rest.first() != Some(*mark)
    };
    a.iter().filter(missing).copied().collect()
}
