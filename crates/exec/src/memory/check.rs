//! A check that rows and indexes agree, in a store that no other thread uses.
//!
//! Files are checked as the store opens: every block of checkpoint and log has a checksum, and the
//! control file names the files that must exist. This check covers the rest: each row is a row of
//! its table, under its own key, with one entry in each index, and there are no other entries.

use crate::memory::{CUT, MemoryEngine, Relation, Table};
use base::TableId;
use memstore::{Refused, Txn, Worker};
use txn::{Direction, Flow, Range, Row};

/// The counts of one table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableCount {
    pub id: TableId,
    pub name: String,
    pub rows: u64,
    /// Bytes of keys and rows, without the overhead in memory.
    pub bytes: u64,
}

/// The result of a check.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checked {
    pub tables: Vec<TableCount>,
    /// The errors found, each with its table; the first of each kind.
    pub wrong: Vec<(TableId, String)>,
}

/// A walk over rows in several transactions: each resumes at the point where the one before had
/// read as much as one transaction may.
struct Walk<'w> {
    worker: &'w mut Worker,
    txn: Box<Txn>,
}

impl Walk<'_> {
    /// Visits all rows of a table, or entries of an index: `f` gets the transaction, key and row.
    fn all(
        &mut self,
        table: TableId,
        mut f: impl FnMut(&mut Worker, &mut Txn, &[u8], &[u8]) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let mut from: Vec<u8> = Vec::new();
        loop {
            let mut some: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            let rest = Range { low: Some(&from), high: None };
            self.worker.scan(&mut self.txn, table, rest, Direction::Forward, |key, row| {
                some.push((key.to_vec(), row.to_vec()));
                if some.len() < CUT as usize { Flow::More } else { Flow::Enough }
            })?;
            for (key, row) in &some {
                f(self.worker, &mut self.txn, key, row)?;
            }
            let old = std::mem::replace(&mut self.txn, self.worker.begin());
            self.worker.abort(old);
            let Some((last, _)) = some.pop().filter(|_| some.len() + 1 >= CUT as usize) else {
                return Ok(());
            };
            from = [&last[..], &[0]].concat();
        }
    }
}

impl MemoryEngine {
    /// Checks every row and every entry. `watch` is called with a description, the number of tables
    /// done, and the number of tables.
    pub fn check(&self, watch: &mut dyn FnMut(&str, u64, u64)) -> Checked {
        let mut checked = Checked::default();
        let Ok(mut worker) = self.store.worker(self.spare) else { return checked };
        let txn = worker.begin();
        let mut walk = Walk { worker: &mut worker, txn };
        let tables: Vec<&Table> = self.relations.iter().filter_map(Relation::table).collect();
        for (done, table) in tables.iter().enumerate() {
            watch(&format!("table {}", table.def.name), done as u64, tables.len() as u64);
            if let Err(refused) = checked.table(table, &mut walk) {
                checked.wrong.push((table.def.id, format!("its rows cannot be read: {refused}")));
            }
        }
        let Walk { txn, .. } = walk;
        worker.abort(txn);
        checked
    }
}

impl Checked {
    fn table(&mut self, table: &Table, walk: &mut Walk<'_>) -> Result<(), Refused> {
        let def = &table.def;
        let mut count = TableCount { id: def.id, name: def.name.clone(), rows: 0, bytes: 0 };
        let mut wrong = Vec::new();
        walk.all(def.id, |worker, txn, key, bytes| {
            count.rows += 1;
            count.bytes += (key.len() + bytes.len()) as u64;
            if !table.layout.fits(bytes) {
                wrong.push("a row is none of this table".to_owned());
                return Ok(());
            }
            let row = Row::new(&table.layout, bytes);
            if !def.key.is_empty() && def.key_of(row).as_slice() != key {
                wrong.push("a row lies under another key than its own".to_owned());
            }
            for index in &def.indexes {
                if worker.read(txn, index.id, &def.entry_of(index, row), |_| ())?.is_none() {
                    wrong.push(format!("a row has no entry in the index {}", index.name));
                }
            }
            Ok(())
        })?;
        for index in &def.indexes {
            let mut entries = 0;
            walk.all(index.id, |_, _, _, _| {
                entries += 1;
                Ok(())
            })?;
            if entries != count.rows {
                wrong.push(format!("the index {} has {entries} entries for {} rows", index.name, count.rows));
            }
        }
        wrong.sort();
        wrong.dedup();
        self.wrong.extend(wrong.into_iter().map(|what| (def.id, what)));
        self.tables.push(count);
        Ok(())
    }
}
