//! The worker that owns each key of an instance.
//!
//! ```text
//!   deployment's sites   0 ........... 7 | 8 ................ 15 | ...
//!   this instance                          8   9  10  11 | 12 ... 15
//!   its owners                             worker 0        worker 1     a run of sites each
//! ```
//!
//! **The unit is the site, not the table.** A step here does all the work of a transaction in one
//! site (TPC-B's deposit touches four tables of a branch). Every table is cut at the same sites, so
//! one map for all tables keeps a step's rows with one owner and a transaction at one worker. The
//! thesis' prototype does otherwise: each table has workers of its own, and a transaction becomes
//! an action for each table. Even a transaction that stays in its branch then passes messages
//! (TPC-B four each way). The parallelism inside a transaction that this buys is worth having only
//! where cores idle. A deployment with more sites than workers has as many borders to balance with
//! as it has sites.
//!
//! - `owner_map`: the owner map, and how it changes while transactions run.
//! - `mailboxes`: messages between workers.
//! - `waits_for`: deadlocks over several owners.
//!
//! Access rules: the facts about tables never change. The owner of a site may change while
//! transactions run: every worker reads it in the owner map (`owner_map`), which one owner at a
//! time writes when it gives keys away. The borders between partitions are finer, since a worker
//! may own several partitions. Threads that change them read and write them under a mutex.

pub(crate) mod mailboxes;
pub(crate) mod owner_map;
#[cfg(test)]
mod owner_map_tests;
pub(crate) mod waits_for;

use crate::sync;
use base::{Key, KeyReader, TableId, WorkerId};
use owner_map::{MapVersion, OwnerMap};
use partition::{Partition, RangeChange, RangeError, Ranges};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use txn::{Abort, Route, Schema};

/// The site range of an engine: the part of the deployment's data that it holds, and how finely its
/// owners lock it.
#[derive(Clone, Debug)]
pub struct SiteRange {
    /// Sites of the deployment.
    pub sites: u32,
    /// The sites of this instance.
    pub own: Range<u32>,
    /// For each table, the number of leading columns of its key (all of them integers) that one
    /// lock covers.
    pub lock_columns: Vec<(TableId, u8)>,
}

impl SiteRange {
    /// One site, and one lock for each value of a key's first column.
    pub fn whole() -> SiteRange {
        SiteRange { sites: 1, own: 0..1, lock_columns: Vec::new() }
    }
}

/// The facts about a table or an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Known {
    /// The number of routing keys; 0 if every instance holds a copy.
    domain: u64,
    scale: Option<Scale>,
    /// Bytes of the key that a lock stands for.
    locked: usize,
    /// The table itself, or the table of the index.
    table: TableId,
    /// Whether its keys begin with the routing column, so that the owner of a row has its entries,
    /// too.
    routed: bool,
    /// Whether its keys begin with the columns that a lock covers, so that the rows' locks protect
    /// its entries.
    aligned: bool,
}

/// The worker and the site where a step belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SiteOwner {
    pub worker: usize,
    /// Counted from the instance's first.
    pub site: u32,
}

/// Sites that one worker gives to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Gift {
    pub sites: Range<u64>,
    pub from: usize,
    pub to: usize,
}

/// The owners of an instance's keys.
#[derive(Debug)]
pub struct Owners {
    tables: Vec<Option<Known>>,
    sites: u32,
    first: u32,
    /// There is one worker, or one site: one worker owns everything.
    alone: bool,
    map: OwnerMap,
    ranges: Mutex<Ranges>,
}

/// Bytes of an integer column in a key.
const INTEGER: usize = 8;

/// The table id in the ranges: one map serves all tables.
pub(crate) const SITES: TableId = TableId(0);

impl Owners {
    /// Divides the instance's sites equally over its workers. With fewer sites than workers some
    /// workers own nothing: they run procedures and send the steps.
    ///
    /// # Errors
    /// [`RangeError`] if the instance has no site.
    pub fn even(schema: &Schema, site_range: &SiteRange, workers: usize) -> Result<Owners, RangeError> {
        let sites = site_range.own.end - site_range.own.start;
        Owners::divided(schema, site_range, workers, workers.min(sites as usize).max(1))
    }

    /// Divides the instance's sites into `parts` partitions of equal length, and gives each worker
    /// a run of these.
    ///
    /// # Errors
    /// [`RangeError`] if the instance has fewer sites.
    pub fn divided(
        schema: &Schema,
        site_range: &SiteRange,
        workers: usize,
        parts: usize,
    ) -> Result<Owners, RangeError> {
        let sites = u64::from(site_range.own.end - site_range.own.start);
        let owners: Vec<WorkerId> = (0..workers.min(parts).max(1)).map(|w| WorkerId(w as u16)).collect();
        let ranges = Ranges::equal(SITES, sites, parts, &owners)?;
        let mut tables = Vec::new();
        for def in &schema.tables {
            let columns = site_range.lock_columns.iter().find(|(id, _)| *id == def.id).map_or(1, |(_, n)| *n);
            let columns = usize::from(columns).min(def.key.len());
            let known = Known {
                domain: def.domain,
                scale: Scale::new(site_range.sites, def.domain),
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
        let map =
            OwnerMap::new(ranges.partitions().flat_map(|p| p.keys.map(move |_| usize::from(p.owner.0))));
        let alone = workers == 1 || sites == 1;
        let (sites, first) = (site_range.sites, site_range.own.start);
        Ok(Owners { tables, sites, first, alone, map, ranges: Mutex::new(ranges) })
    }

    /// One worker owns everything.
    pub fn whole(schema: &Schema) -> Owners {
        Owners::even(schema, &SiteRange::whole(), 1).expect("one worker for one site")
    }

    /// The worker and site for steps with this route. `None` for a copy, which any worker here may
    /// read, and for an unknown table.
    #[inline]
    pub fn site_owner(&self, route: Route) -> Option<SiteOwner> {
        let known = self.known(route.table).filter(|known| known.domain > 0)?;
        let site = match known.scale {
            Some(scale) if route.key < known.domain => scale.site(route.key),
            _ => (u128::from(route.key) * u128::from(self.sites) / u128::from(known.domain)) as u64,
        };
        let last = self.map.sites() as u64 - 1;
        let site = site.saturating_sub(u64::from(self.first)).min(last) as u32;
        Some(SiteOwner { worker: self.map.owner(site as usize), site })
    }

    /// The worker that runs the steps routed there; `None` as for [`Owners::site_owner`].
    #[inline]
    pub fn owner(&self, route: Route) -> Option<usize> {
        Some(self.site_owner(route)?.worker)
    }

    /// To be taken before the steps of a message are routed.
    #[inline]
    pub fn map_version(&self) -> MapVersion {
        self.map.map_version()
    }

    /// Whether `worker`, the calling one, may run the steps of a message with this map version.
    #[inline]
    pub(crate) fn holds(&self, worker: usize, map_version: &MapVersion) -> bool {
        self.map.holds(worker, map_version)
    }

    /// The map version, incremented whenever keys change hands.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.map.version()
    }

    /// Sites of the instance.
    pub fn sites(&self) -> usize {
        self.map.sites()
    }

    /// The owner of the row or entry with this key; `None` as for [`Owners::owner`], and for a key
    /// without a leading integer.
    pub fn owner_of(&self, table: TableId, key: &[u8]) -> Option<usize> {
        let key = KeyReader::new(key).i64()?.max(0) as u64;
        self.owner(Route { table, key })
    }

    /// The sites that a worker owns, as one run. If any worker owns more than one run, the result
    /// is empty for all workers: a caller that wants to divide all sites among the workers has to
    /// do so otherwise.
    pub fn sites_of(&self, worker: usize) -> Range<u32> {
        let mut runs: Vec<(usize, Range<u32>)> = Vec::new();
        for site in 0..self.map.sites() as u32 {
            let owner = self.map.owner(site as usize);
            match runs.last_mut() {
                Some((last, run)) if *last == owner => run.end = site + 1,
                _ => runs.push((owner, site..site + 1)),
            }
        }
        let mut owners: Vec<usize> = runs.iter().map(|(owner, _)| *owner).collect();
        owners.sort_unstable();
        let is_split = owners.windows(2).any(|pair| pair[0] == pair[1]);
        let run = runs.into_iter().find(|(owner, _)| *owner == worker && !is_split);
        let run = run.map_or(0..0, |(_, run)| run);
        self.first + run.start..self.first + run.end
    }

    /// The first key of each partition of a table, and its owner, in order of the keys; the first
    /// key of the first partition is empty. No entries for a copy and for an unknown table.
    pub fn borders(&self, table: TableId) -> Vec<(Key, usize)> {
        self.borders_in(table, &self.locked_ranges())
    }

    /// As [`Owners::borders`], under the partitions `ranges`.
    pub(crate) fn borders_in(&self, table: TableId, ranges: &Ranges) -> Vec<(Key, usize)> {
        let mut borders: Vec<(Key, usize)> = Vec::new();
        for Partition { keys, owner } in ranges.partitions() {
            let Some(start) = self.border(table, keys.start) else { return Vec::new() };
            // A partition that lies between two adjacent keys holds no key.
            if borders.last().is_some_and(|(before, _)| *before == start) {
                borders.pop();
            }
            borders.push((start, usize::from(owner.0)));
        }
        borders
    }

    /// The first key of a table in a site of the instance, the empty one for the first site; `None`
    /// for a copy.
    pub(crate) fn border(&self, table: TableId, site: u64) -> Option<Key> {
        let known = self.known(table).filter(|known| known.domain > 0)?;
        if site == 0 {
            return Some(Key::new());
        }
        let site = u128::from(self.first) + u128::from(site);
        let first = (site * u128::from(known.domain)).div_ceil(u128::from(self.sites)) as i64;
        Some(Key::new().i64(first))
    }

    /// The keys of a table in a run of the deployment's sites, all of them this instance's: from
    /// the first key to before the second, or to the end if there is none. `None` for a copy.
    pub(crate) fn keys_of(&self, table: TableId, sites: &Range<u32>) -> Option<(Key, Option<Key>)> {
        let [start, end] = [sites.start, sites.end].map(|site| u64::from(site.saturating_sub(self.first)));
        let from = self.border(table, start)?;
        let to = if end >= self.map.sites() as u64 { None } else { self.border(table, end) };
        Some((from, to))
    }

    /// Asks whether `worker`, the calling one, owns all of some sites of the deployment.
    ///
    /// # Errors
    /// [`Abort::Conflict`] if another worker owns some of them, [`Abort::BadRequest`] if they are
    /// not all this instance's.
    pub(crate) fn all_of(&self, worker: usize, sites: &Range<u32>) -> Result<(), Abort> {
        let last = self.first + self.map.sites() as u32;
        if sites.is_empty() || sites.start < self.first || sites.end > last {
            return Err(Abort::BadRequest);
        }
        let is_own = |site: u32| self.map.owner((site - self.first) as usize) == worker;
        if sites.clone().all(is_own) { Ok(()) } else { Err(Abort::Conflict) }
    }

    fn locked_ranges(&self) -> MutexGuard<'_, Ranges> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current partitions. The keys are sites, counted from the instance's first.
    pub fn ranges(&self) -> Ranges {
        self.locked_ranges().clone()
    }

    /// Replaces the partitions by `next`. The `gifts` are the sites that change hands thereby. All
    /// of them belong to the calling worker, and no transaction of it is at work there.
    ///
    /// # Errors
    /// [`RangeError::Stale`] when another thread has changed the partitions meanwhile; nothing is
    /// changed then.
    pub(crate) fn publish(&self, next: Ranges, gifts: &[Gift]) -> Result<(), RangeError> {
        let mut now = self.locked_ranges();
        if now.version() + 1 != next.version() {
            let (expected, found) = (next.version() - 1, now.version());
            return Err(RangeError::Stale { table: SITES, expected, found });
        }
        for Gift { sites, to, .. } in gifts {
            self.map.give(sites.start as usize..sites.end as usize, *to);
        }
        *now = next;
        Ok(())
    }

    /// The part of a row's key that its lock covers.
    #[inline]
    pub fn locked<'k>(&self, table: TableId, key: &'k [u8]) -> &'k [u8] {
        let locked = self.known(table).map_or(INTEGER, |known| known.locked);
        &key[..locked.min(key.len())]
    }

    /// The lock that covers a range of a table, or of an index with entries that the rows' locks
    /// protect: the table, and the prefix that all keys of the range share. `None` if that prefix
    /// is shorter than the part that a lock covers.
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
            // The range reaches up to the first key behind the prefix.
            _ => base::Key::from_bytes(prefix).prefix_end().as_deref() == Some(high),
        };
        inside.then_some((known.table, prefix))
    }

    /// Whether the rows of a table, or the entries of an index, have several owners.
    pub fn divide(&self, index: TableId) -> bool {
        !self.alone && self.known(index).is_some_and(|known| known.domain > 0)
    }

    /// Whether a worker owns the entries of its own rows in `index` and no others. Where there is
    /// one owner, it owns all.
    pub fn holds_entries(&self, index: TableId) -> bool {
        self.alone || self.is_routed(index)
    }

    /// Whether the entries of `index` are in the order of their rows' sites. The rows of a copy have
    /// no site: every worker may scan all of them.
    pub(crate) fn is_routed(&self, index: TableId) -> bool {
        self.known(index).is_none_or(|known| known.routed || known.domain == 0)
    }

    #[inline]
    fn known(&self, table: TableId) -> Option<Known> {
        self.tables.get(usize::from(table.0)).copied().flatten()
    }
}

/// `sites / domain`, rounded up, with 63 binary places. Multiplied by a routing key of the domain
/// it gives the key's site as exactly as a division by the domain does, and faster. Rounding up
/// adds less than `key / 2^63` to the site. The exact quotient lies at least `1 / domain` below the
/// next site, so for domains below 2^31 the error never reaches it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Scale(u64);

impl Scale {
    const PLACES: u32 = 63;

    /// `None` for larger domains, and with more sites than keys.
    fn new(sites: u32, domain: u64) -> Option<Scale> {
        let fits = domain < 1 << 31 && (1..=domain).contains(&u64::from(sites));
        fits.then(|| Scale((u128::from(sites) << Scale::PLACES).div_ceil(u128::from(domain)) as u64))
    }

    #[inline]
    fn site(self, key: u64) -> u64 {
        ((u128::from(key) * u128::from(self.0)) >> Scale::PLACES) as u64
    }
}

/// The sites that change hands from one version of the partitions to the next, in runs.
pub(crate) fn gifts(before: &Ranges, after: &Ranges) -> Vec<Gift> {
    let mut starts: Vec<u64> = before.starts().iter().chain(after.starts()).copied().collect();
    starts.sort_unstable();
    starts.dedup();
    let ends = starts.iter().skip(1).copied().chain([before.domain()]).collect::<Vec<_>>();
    let mut gifts: Vec<Gift> = Vec::new();
    for (start, end) in starts.into_iter().zip(ends) {
        let [from, to] = [before, after].map(|ranges| usize::from(ranges.find(start).owner.0));
        match gifts.last_mut() {
            _ if from == to => {}
            Some(last) if (last.sites.end, last.from, last.to) == (start, from, to) => last.sites.end = end,
            _ => gifts.push(Gift { sites: start..end, from, to }),
        }
    }
    gifts
}

/// The worker that carries out a change, and whether it gives keys away by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Actor {
    pub worker: usize,
    pub gives: bool,
}

/// The worker that carries out a change from one version of the partitions to the next: the giver,
/// or the owner of the changed partition. `None` if two workers would have to give.
pub fn actor(before: &Ranges, after: &Ranges, change: RangeChange) -> Option<Actor> {
    let gifts = gifts(before, after);
    match gifts.first() {
        Some(first) if gifts.iter().any(|gift| gift.from != first.from) => None,
        Some(first) => Some(Actor { worker: first.from, gives: true }),
        None => {
            let (RangeChange::Split { at, .. }
            | RangeChange::Merge { at, .. }
            | RangeChange::Move { start: at, .. }) = change;
            Some(Actor { worker: usize::from(after.find(at).owner.0), gives: false })
        }
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
    const COPIED_OF: TableId = TableId(6);

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
                    columns: vec![int("i"), int("of")],
                    key: vec![0],
                    indexes: vec![index(COPIED_OF, &[1])],
                    domain: 0,
                    kind: TableKind::Heap,
                },
            ],
        }
    }

    fn owners(workers: usize) -> Owners {
        let site_range = SiteRange { sites: 8, own: 2..6, lock_columns: vec![(T, 2)] };
        Owners::even(&schema(), &site_range, workers).unwrap()
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
    fn a_scale_gives_the_site_that_the_division_gives() {
        let domains = [1, 2, 3, 7, 80, 99, 1 << 16, 20_000, 999_983, (1 << 31) - 1];
        for domain in domains {
            for sites in
                [1, 2, 3, 5, 64, 100, 4096, domain as u32].into_iter().filter(|s| u64::from(*s) <= domain)
            {
                let scale = Scale::new(sites, domain).unwrap();
                let exact = |key: u64| key * u64::from(sites) / domain;
                // Each key near the beginning of a site, where a rounding error would show.
                let first = |site: u64| (site * domain).div_ceil(u64::from(sites));
                let step = (u64::from(sites) / 5_000).max(1);
                let begins =
                    (0..=u64::from(sites)).step_by(step as usize).chain([u64::from(sites)]).map(first);
                for key in begins.flat_map(|at| at.saturating_sub(2)..at + 2).filter(|key| *key < domain) {
                    assert_eq!(scale.site(key), exact(key), "key {key} of {domain} in {sites} sites");
                }
            }
        }
        assert_eq!(Scale::new(9, 8), None, "more sites than keys");
        assert_eq!(Scale::new(9, 1 << 31), None, "too many keys to be exact");
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

    /// A copy's rows have no owner: any worker may scan them through any index.
    #[test]
    fn entries_of_a_copy_are_held_by_every_worker() {
        let owners = owners(2);
        assert!(owners.holds_entries(COPIED_OF) && !owners.divide(COPIED_OF));
        assert!(owners.holds_entries(ALIGNED) && !owners.holds_entries(OTHER));
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
