//! Which worker of an instance owns which keys.
//!
//! ```text
//!   deployment's sites   0 ........... 7 | 8 ................ 15 | ...
//!   this instance                          8   9  10  11 | 12 ... 15
//!   its owners                             worker 0        worker 1        a run of adjacent sites each
//! ```
//!
//! **The unit is the site, not the table.** A step here does whatever a transaction has to do in one site (TPC-B's deposit touches
//! four tables of a branch), and every table is cut at the same sites, so one map for all tables keeps a step's rows with one owner
//! and a transaction at one worker. The alternative is the thesis' prototype: each table has workers of its own, and a
//! transaction becomes an action for each table, so that even one that stays in its branch passes messages
//! (TPC-B four each way) to gain a parallelism inside transactions that is worth having only where cores idle. A
//! deployment with more sites than workers has as many borders to balance with as it has sites.
//!
//! Who may do what: a map is a value that never changes while the engine is open, read by every worker from its own
//! cache. [`Ranges`] carries a version, so another map can take its place once no transaction is under way.

use base::{Key, KeyReader, TableId, WorkerId};
use partition::{Partition, RangeError, Ranges};
use std::ops::Range;
use txn::{Route, Schema};

/// What of a deployment's data an engine holds, and how finely its owners lock it.
#[derive(Clone, Debug)]
pub struct Territory {
    /// Sites of the deployment.
    pub sites: u32,
    /// Those of this instance.
    pub own: Range<u32>,
    /// For each table, how many leading columns of its key (all of them integers) one lock stands for.
    pub lock_columns: Vec<(TableId, u8)>,
}

impl Territory {
    /// One site, one lock for each value of a key's first column.
    pub fn whole() -> Territory {
        Territory { sites: 1, own: 0..1, lock_columns: Vec::new() }
    }
}

/// What is known of a table or an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Known {
    /// Routing keys; 0 if every instance holds a copy.
    domain: u64,
    /// Bytes of the key that a lock stands for.
    locked: usize,
    /// The table itself, or the one that an index is of.
    table: TableId,
    /// Whether its keys begin with the routing column, so that entries lie with the owner of their rows.
    routed: bool,
    /// Whether its keys begin with the columns that locks stand for, so that its entries are protected like the rows.
    aligned: bool,
}

/// The map.
#[derive(Clone, Debug)]
pub struct Owners {
    tables: Vec<Option<Known>>,
    sites: u32,
    first: u32,
    ranges: Ranges,
}

/// Bytes of an integer column in a key.
const INTEGER: usize = 8;

impl Owners {
    /// Divides the instance's sites equally over its workers. With fewer sites than workers some own nothing: they run
    /// procedures and send the steps.
    ///
    /// # Errors
    /// [`RangeError`] if the instance has no site.
    pub fn even(schema: &Schema, territory: &Territory, workers: usize) -> Result<Owners, RangeError> {
        let sites = u64::from(territory.own.end - territory.own.start);
        let owners: Vec<WorkerId> = (0..workers).map(|w| WorkerId(w as u16)).collect();
        let parts = workers.min(sites as usize).max(1);
        let ranges = Ranges::equal(TableId(0), sites, parts, &owners[..parts])?;
        let mut tables = Vec::new();
        for def in &schema.tables {
            let columns = territory.lock_columns.iter().find(|(id, _)| *id == def.id).map_or(1, |(_, n)| *n);
            let columns = usize::from(columns).min(def.key.len());
            let known = Known {
                domain: def.domain,
                locked: columns * INTEGER,
                table: def.id,
                routed: true,
                aligned: true,
            };
            enter(&mut tables, def.id, known);
            for index in &def.indexes {
                let aligned = columns > 0 && index.columns.get(..columns) == def.key.get(..columns);
                let routed = index.columns.first() == def.key.first();
                enter(&mut tables, index.id, Known { routed, aligned, ..known });
            }
        }
        Ok(Owners { tables, sites: territory.sites, first: territory.own.start, ranges })
    }

    /// Everything to one worker.
    pub fn whole(schema: &Schema) -> Owners {
        Owners::even(schema, &Territory::whole(), 1).expect("one worker for one site")
    }

    /// The worker that runs the steps routed there; `None` for a copy that anybody here may read, and for what is no table.
    #[inline]
    pub fn owner(&self, route: Route) -> Option<usize> {
        let known = self.known(route.table).filter(|known| known.domain > 0)?;
        let product = u128::from(route.key) * u128::from(self.sites);
        let site = match u64::try_from(product) {
            Ok(product) => product / known.domain,
            Err(_) => (product / u128::from(known.domain)) as u64,
        };
        Some(usize::from(self.ranges.find(site.saturating_sub(u64::from(self.first))).owner.0))
    }

    /// The owner of the row or entry with this key; `None` as for [`Owners::owner`], or without a leading integer.
    pub fn owner_of(&self, table: TableId, key: &[u8]) -> Option<usize> {
        let key = KeyReader::new(key).i64()?.max(0) as u64;
        self.owner(Route { table, key })
    }

    /// The sites that a worker owns: one run, if nothing was moved.
    pub fn sites_of(&self, worker: usize) -> Range<u32> {
        let mut owned = self.ranges.partitions().filter(|p| usize::from(p.owner.0) == worker);
        let keys = owned.next().map_or(0..0, |p| p.keys);
        self.first + keys.start as u32..self.first + keys.end as u32
    }

    /// Where each owner's keys of a table begin, in order: the first one with the empty key. Nothing for a copy, and for what is no table.
    pub fn borders(&self, table: TableId) -> Vec<(Key, usize)> {
        let Some(known) = self.known(table).filter(|known| known.domain > 0) else { return Vec::new() };
        let mut borders: Vec<(Key, usize)> = Vec::new();
        for Partition { keys, owner } in self.ranges.partitions() {
            let site = u128::from(self.first) + u128::from(keys.start);
            let first = (site * u128::from(known.domain)).div_ceil(u128::from(self.sites)) as i64;
            let start = if keys.start == 0 { Key::new() } else { Key::new().i64(first) };
            // Sites between two keys have none.
            if borders.last().is_some_and(|(before, _)| *before == start) {
                borders.pop();
            }
            borders.push((start, usize::from(owner.0)));
        }
        borders
    }

    /// The part of a row's key that its lock stands for.
    #[inline]
    pub fn locked<'k>(&self, table: TableId, key: &'k [u8]) -> &'k [u8] {
        let locked = self.known(table).map_or(INTEGER, |known| known.locked);
        &key[..locked.min(key.len())]
    }

    /// The lock that protects a range of a table, or of an index whose entries are protected like the rows: the table, and what
    /// all keys of the range have in common. `None` if that is less than a lock stands for.
    pub fn covering<'k>(
        &self,
        index: TableId,
        low: Option<&'k [u8]>,
        high: Option<&[u8]>,
    ) -> Option<(TableId, &'k [u8])> {
        let known = self.known(index).filter(|known| known.aligned && known.locked > 0)?;
        let prefix = low?.get(..known.locked)?;
        let high = high?;
        let inside = match high.get(..known.locked) {
            Some(end) if end == prefix => true,
            // Up to the first key behind the prefix.
            _ => base::Key::from_bytes(prefix).prefix_end().as_deref() == Some(high),
        };
        inside.then_some((known.table, prefix))
    }

    /// Whether the rows of a table, or the entries of an index, have several owners.
    pub fn divide(&self, index: TableId) -> bool {
        self.ranges.len() > 1 && self.known(index).is_some_and(|known| known.domain > 0)
    }

    /// Whether a worker owns the entries of its own rows in `index`, and no others: all of them where there is one owner.
    pub fn holds_entries(&self, index: TableId) -> bool {
        self.ranges.len() == 1 || self.known(index).is_none_or(|known| known.routed)
    }

    pub fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    #[inline]
    fn known(&self, table: TableId) -> Option<Known> {
        self.tables.get(usize::from(table.0)).copied().flatten()
    }
}

fn enter(tables: &mut Vec<Option<Known>>, id: TableId, known: Known) {
    let at = usize::from(id.0);
    if tables.len() <= at {
        tables.resize(at + 1, None);
    }
    tables[at] = Some(known);
}

#[cfg(test)]
mod tests {
    use super::*;
    use txn::{Column, IndexDef, TableDef, TableKind, Type};

    const T: TableId = TableId(3);
    const ALIGNED: TableId = TableId(4);
    const OTHER: TableId = TableId(5);

    fn schema() -> Schema {
        let int = |name| Column::new(name, Type::I64);
        let index = |id, columns: &[u16]| IndexDef { id, name: format!("i{id}"), columns: columns.to_vec() };
        Schema {
            tables: vec![
                TableDef {
                    id: T,
                    name: "t".into(),
                    columns: vec![int("w"), int("d"), int("c")],
                    key: vec![0, 1, 2],
                    indexes: vec![index(ALIGNED, &[0, 1, 2]), index(OTHER, &[2])],
                    domain: 80,
                    kind: TableKind::Heap,
                },
                TableDef {
                    id: TableId(1),
                    name: "copied".into(),
                    columns: vec![int("i")],
                    key: vec![0],
                    indexes: vec![],
                    domain: 0,
                    kind: TableKind::Heap,
                },
            ],
        }
    }

    fn owners(workers: usize) -> Owners {
        let territory = Territory { sites: 8, own: 2..6, lock_columns: vec![(T, 2)] };
        Owners::even(&schema(), &territory, workers).unwrap()
    }

    #[test]
    fn every_site_has_one_owner_and_neighbours_stay_together() {
        for workers in 1..=6 {
            let owners = owners(workers);
            let of: Vec<usize> = (20..60).map(|key| owners.owner(Route { table: T, key }).unwrap()).collect();
            assert!(of.is_sorted() && of[0] == 0 && of[39] == workers.min(4) - 1, "{workers}: {of:?}");
            assert!(of.chunks(10).all(|site| site.iter().all(|w| *w == site[0])), "a site is never cut");
            for worker in 0..workers {
                let sites = owners.sites_of(worker);
                assert!(sites.clone().all(|site| of[(site as usize - 2) * 10] == worker));
                assert_eq!(sites.is_empty(), worker >= 4);
            }
        }
        assert_eq!(owners(2).owner(Route { table: TableId(1), key: 5 }), None);
        assert_eq!(owners(2).owner(Route { table: TableId(77), key: 5 }), None);
        assert_eq!(owners(2).owner_of(OTHER, &Key::new().i64(59)), Some(1));
    }

    #[test]
    fn borders_are_where_the_owner_changes() {
        for workers in 1..=6 {
            let owners = owners(workers);
            let borders = owners.borders(T);
            assert_eq!((borders.len(), borders[0].0.len()), (workers.min(4), 0));
            for key in 0..80 {
                let behind = borders.partition_point(|(start, _)| *start <= Key::new().i64(key));
                assert_eq!(Some(borders[behind - 1].1), owners.owner(Route { table: T, key: key as u64 }));
            }
            assert!(owners.borders(TableId(1)).is_empty() && owners.borders(TableId(77)).is_empty());
        }
    }

    #[test]
    fn a_range_is_covered_by_the_lock_of_its_prefix_or_by_none() {
        let owners = owners(2);
        let at = |columns: &[i64]| columns.iter().fold(Key::new(), |key, c| key.i64(*c));
        let (low, prefix) = (at(&[1, 2, 5]), at(&[1, 2]));
        let covering = |index, low: &Key, high: &Key| {
            owners.covering(index, Some(low), Some(high)).map(|(table, prefix)| (table, prefix.to_vec()))
        };
        let lock = Some((T, prefix.as_slice().to_vec()));
        assert_eq!(covering(T, &low, &at(&[1, 2, 9])), lock);
        assert_eq!(covering(ALIGNED, &low, &at(&[1, 2, 9])), lock);
        assert_eq!(covering(T, &prefix, &prefix.prefix_end().unwrap()), lock);
        assert_eq!(covering(OTHER, &low, &at(&[1, 2, 9])), None);
        assert_eq!(covering(T, &low, &at(&[1, 3])), lock, "the end is not in the range");
        assert_eq!(covering(T, &low, &at(&[1, 3, 0])), None);
        assert_eq!(covering(T, &at(&[1]), &at(&[2])), None);
        assert_eq!(owners.covering(T, Some(&low), None), None);
        assert_eq!(owners.locked(T, &low), prefix.as_slice());
    }
}
