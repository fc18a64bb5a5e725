//! Finds the rows of a source, for each row of the sources before it.

use super::{Carrier, PHASE, Stop, Work};
use crate::bound::Bound;
use crate::catalog::Slots;
use crate::measured::Did;
use crate::place::{self, Placed};
use crate::program::{KeyRange, Order, Path, RowLock, Source, Stored};
use crate::step::{Fetch, FetchAll, Hit, Outer, Test, Wanted};
use crate::{Datum, Expr, SqlError, SqlState};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

/// A row as it is stored, and its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub place: Placed,
    pub row: Vec<u8>,
}

/// The steps for one outer row.
#[derive(Default)]
struct Search {
    fetches: Vec<Fetch>,
    /// Whether rows may be found twice.
    overlaps: bool,
}

impl<T: Carrier + ?Sized> Work<'_, T> {
    /// The rows of `source` for each of `outers`, at most `limit` for each.
    pub(super) async fn find(
        &mut self,
        source: &Source,
        bound: &Arc<Bound>,
        outers: &[Outer],
        limit: Option<u64>,
    ) -> Result<Vec<Vec<Found>>, Stop> {
        if let (Path::Keys(keys), [outer]) = (&source.path, outers)
            && let [key] = keys.as_slice()
        {
            return Ok(vec![pin!(self.one(source, key, bound, outer)).await?]);
        }
        let condition = &source.filter;
        let mut found = Vec::with_capacity(outers.len());
        // Outer rows of which the steps fit into one phase are searched together.
        let mut waiting: Vec<Search> = Vec::new();
        for outer in outers {
            let test = condition.clone().map(|condition| Test { condition, outer: Arc::clone(outer) });
            if let Path::Values(_) | Path::Series { .. } = source.path {
                found.push(computed(source, bound, outer, test.as_ref(), limit)?);
                continue;
            }
            if let Path::All = source.path {
                let hits = self.find_all(source, bound, test, limit).await?;
                found.push(hits.into_iter().filter_map(row_of).collect());
                continue;
            }
            if let Path::Part(from) = &source.path {
                found.push(self.part(source, bound, (from, outer), test).await?);
                continue;
            }
            waiting.push(self.search(source, bound, (outer, test), limit)?);
            if waiting.iter().map(|search| search.fetches.len()).sum::<usize>() >= PHASE {
                self.carry_out(source, std::mem::take(&mut waiting), limit, &mut found).await?;
            }
        }
        self.carry_out(source, waiting, limit, &mut found).await?;
        Ok(found)
    }

    /// The row with one key, for one outer row.
    async fn one(
        &mut self,
        source: &Source,
        key: &[Expr],
        bound: &Arc<Bound>,
        outer: &Outer,
    ) -> Result<Vec<Found>, Stop> {
        let values = evaluated(key, bound, outer)?;
        if values.iter().any(Datum::is_null) {
            return Ok(Vec::new());
        }
        let fetch = self.fetch_of(source, &values, bound, Some(outer));
        self.phases.add(did(source.lock), || std::iter::once(fetch.slot));
        let hits = pin!(self.txn.fetch_one(fetch, source.lock)).await??;
        self.phases.found(hits.len());
        Ok(hits.into_iter().filter_map(row_of).collect())
    }

    /// The step that reads the row with this key; `outer` is the row of the sources before it.
    pub(super) fn fetch_of(
        &self,
        source: &Source,
        key: &[Datum],
        bound: &Arc<Bound>,
        outer: Option<&Outer>,
    ) -> Fetch {
        let Placed { slot, key } = source.table.place(key, self.sites);
        let condition = source.filter.clone();
        let test = condition.map(|condition| Test { condition, outer: outer.cloned().unwrap_or_default() });
        let (table, bound) = (Arc::clone(&source.table), Arc::clone(bound));
        Fetch { table, bound, test, slot, what: Wanted::Keys(vec![key]) }
    }

    /// All rows of a table.
    pub(crate) async fn all_rows(&mut self, table: &Arc<Stored>) -> Result<Vec<Found>, Stop> {
        self.some_rows(table, None).await
    }

    /// Rows of a table, at most `most` of each owner.
    pub(crate) async fn some_rows(
        &mut self,
        table: &Arc<Stored>,
        most: Option<u64>,
    ) -> Result<Vec<Found>, Stop> {
        let (table, path) = (Arc::clone(table), Path::All);
        let source = Source { table, path, filter: None, lock: RowLock::Update };
        let hits = self.find_all(&source, &Arc::default(), None, most).await?;
        Ok(hits.into_iter().filter_map(row_of).collect())
    }

    async fn find_all(
        &mut self,
        source: &Source,
        bound: &Arc<Bound>,
        test: Option<Test>,
        limit: Option<u64>,
    ) -> Result<Vec<Hit>, Stop> {
        let (table, bound) = (Arc::clone(&source.table), Arc::clone(bound));
        let fetch = Fetch { table, bound, test, slot: 0, what: Wanted::All { limit } };
        self.phases.add(did(source.lock), std::iter::empty);
        let hits = self.txn.fetch_all(FetchAll { fetch, sites: self.sites, lock: source.lock }).await??;
        self.phases.found(hits.len());
        Ok(hits)
    }

    /// Rows from a place on, in the order of slots and keys, until they are many bytes. Slots are
    /// read together until one has more rows than were asked for.
    async fn part(
        &mut self,
        source: &Source,
        bound: &Arc<Bound>,
        (from, outer): (&Expr, &Outer),
        test: Option<Test>,
    ) -> Result<Vec<Found>, Stop> {
        let Datum::Bytes(from) = from.eval(&bound.context(), &**outer)? else {
            return Err(wrong_place().into());
        };
        let (mut slot, mut after) = begin_of_part(&from)?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        let mut is_large = after.is_some();
        while slot < self.sites && bytes < PART {
            let slots = if is_large { 1 } else { SLOTS_AT_ONCE.min(self.sites - slot) };
            let most = rows_at_once(bytes, found.len(), slots as usize);
            let fetches = (slot..slot + slots).map(|at| Fetch {
                table: Arc::clone(&source.table),
                bound: Arc::clone(bound),
                test: test.clone(),
                slot: at,
                what: rows_after(at, after.as_deref().filter(|_| at == slot), most),
            });
            for hits in self.fetch(source.lock, fetches.collect()).await? {
                let size = |hit: &Hit| hit.row.as_ref().map_or(0, Vec::len) + hit.key.len();
                bytes += hits.iter().map(size).sum::<usize>();
                let is_whole = hits.len() < most;
                after = hits.last().map(|hit| hit.key.clone()).filter(|_| !is_whole);
                found.extend(hits.into_iter().filter_map(row_of));
                if !is_whole {
                    // What the slots after it gave is read again in its turn.
                    is_large = true;
                    break;
                }
                slot += 1;
            }
        }
        self.rest = (slot < self.sites).then(|| end_of_part(slot, after.as_deref()));
        Ok(found)
    }

    /// The steps that find the rows for one outer row.
    fn search(
        &self,
        source: &Source,
        bound: &Arc<Bound>,
        (outer, test): (&Outer, Option<Test>),
        limit: Option<u64>,
    ) -> Result<Search, SqlError> {
        let table = &source.table;
        let fetch = |slot, what| Fetch {
            table: Arc::clone(table),
            bound: Arc::clone(bound),
            test: test.clone(),
            slot,
            what,
        };
        match &source.path {
            Path::All | Path::Part(_) | Path::Values(_) | Path::Series { .. } => Ok(Search::default()),
            Path::Keys(keys) => {
                let mut by_slot: BTreeMap<u32, Vec<Vec<u8>>> = BTreeMap::new();
                for key in keys {
                    let values = evaluated(key, bound, outer)?;
                    if values.iter().any(Datum::is_null) {
                        continue;
                    }
                    let Placed { slot, key } = table.place(&values, self.sites);
                    let keys = by_slot.entry(slot).or_default();
                    if !keys.contains(&key) {
                        keys.push(key);
                    }
                }
                let fetches = by_slot.into_iter().map(|(slot, keys)| fetch(slot, Wanted::Keys(keys)));
                Ok(Search { fetches: fetches.collect(), overlaps: false })
            }
            Path::Ranges { index, ranges, direction } => {
                let stored = index.map(|index| &table.indexes[usize::from(index)]);
                let slots = stored.map_or(&table.slots, |index| &index.slots);
                // Rows of other slots are tested later, so the limit is not the entries'.
                let limit = limit.filter(|_| stored.is_none() || source.filter.is_none());
                let order = direction.unwrap_or(Order::Forward);
                let mut fetches = Vec::new();
                for range in ranges {
                    for (slot, low, high) in physical_ranges(slots, range, (bound, outer), self.sites)? {
                        let index = stored.map(|index| index.store);
                        fetches.push(fetch(slot, Wanted::Range { index, low, high, order, limit }));
                    }
                }
                Ok(Search { fetches, overlaps: ranges.len() > 1 })
            }
        }
    }

    /// Runs the steps of some searches as one phase, and follows index entries to their rows.
    async fn carry_out(
        &mut self,
        source: &Source,
        searches: Vec<Search>,
        limit: Option<u64>,
        found: &mut Vec<Vec<Found>>,
    ) -> Result<(), Stop> {
        let order = match &source.path {
            Path::Ranges { direction, .. } => *direction,
            _ => None,
        };
        // Rows that are read after their entries are tested against the same outer row.
        let by_index = matches!(&source.path, Path::Ranges { index: Some(_), .. });
        let model = |search: &Search| search.fetches.first().filter(|_| by_index).cloned();
        let shapes: Vec<(usize, bool, Option<Fetch>)> =
            searches.iter().map(|s| (s.fetches.len(), s.overlaps, model(s))).collect();
        let fetches: Vec<Fetch> = searches.into_iter().flat_map(|search| search.fetches).collect();
        let mut hits = self.fetch(source.lock, fetches).await?.into_iter();
        for (steps, overlaps, model) in shapes {
            let mut of_one: Vec<Hit> = Vec::new();
            for _ in 0..steps {
                of_one.extend(hits.next().expect("an output for each step"));
            }
            if steps > 1 && (overlaps || order.is_some()) {
                of_one.sort_by(|a, b| a.order().cmp(b.order()));
                of_one.dedup_by(|a, b| a.key == b.key && a.slot == b.slot);
                if order == Some(Order::Backward) {
                    of_one.reverse();
                }
            }
            if let Some(model) = model.as_ref().filter(|_| of_one.iter().any(|hit| hit.row.is_none())) {
                of_one = self.follow(source.lock, model, of_one).await?;
            }
            let rows = of_one.into_iter().filter_map(row_of);
            found.push(rows.take(limit.unwrap_or(u64::MAX) as usize).collect());
        }
        Ok(())
    }

    /// Reads the rows of index entries of which the rows have other slots.
    async fn follow(&mut self, lock: RowLock, model: &Fetch, mut hits: Vec<Hit>) -> Result<Vec<Hit>, Stop> {
        let far: Vec<usize> = (0..hits.len()).filter(|&i| hits[i].row.is_none()).collect();
        for far in far.chunks(PHASE) {
            let fetches = far.iter().map(|&i| Fetch {
                slot: hits[i].slot,
                what: Wanted::Keys(vec![hits[i].key.clone()]),
                ..model.clone()
            });
            let rows = self.fetch(lock, fetches.collect()).await?;
            for (&i, row) in far.iter().zip(rows) {
                hits[i].row = row.into_iter().next().and_then(|hit| hit.row);
            }
        }
        Ok(hits)
    }

    pub(super) async fn fetch(&mut self, lock: RowLock, fetches: Vec<Fetch>) -> Result<Vec<Vec<Hit>>, Stop> {
        if fetches.is_empty() {
            return Ok(Vec::new());
        }
        self.phases.add(did(lock), || fetches.iter().map(|fetch| fetch.slot));
        let outputs = self.txn.fetch(fetches.into(), lock).await?;
        let hits = outputs.into_iter().collect::<Result<Vec<Vec<Hit>>, SqlError>>()?;
        self.phases.found(hits.iter().map(Vec::len).sum());
        Ok(hits)
    }
}

fn did(lock: RowLock) -> Did {
    if lock.locks() { Did::Lock } else { Did::Read }
}

/// Slots of a part that are read together, and rows that one step reads.
const SLOTS_AT_ONCE: u32 = 16;
const MOST_ROWS: usize = 4096;

/// The most rows of a series in a program, which holds them all.
const LONGEST_SERIES: u32 = 10_000_000;
/// Bytes of rows after which a part ends.
const PART: usize = 4 << 20;
/// Rows that are asked for before any is known: of these, even the longest fit into a message.
const FIRST_ROWS: usize = 12;

/// Rows to ask each of some slots for, so that rows as long as those so far are no more than a part
/// altogether.
fn rows_at_once(bytes: usize, rows: usize, slots: usize) -> usize {
    match rows {
        0 => FIRST_ROWS.div_ceil(slots),
        rows => (PART / slots / (bytes / rows).max(1)).clamp(1, MOST_ROWS),
    }
}

/// The rows of a slot behind a key.
fn rows_after(slot: u32, after: Option<&[u8]>, most: usize) -> Wanted {
    let whole = place::physical_prefix(slot, &[]);
    let low = match after {
        None => whole.to_vec(),
        Some(key) => [&place::physical_key(slot, key)[..], &[0]].concat(),
    };
    let high = whole.prefix_end().map_or_else(Vec::new, |end| end.to_vec());
    Wanted::Range { index: None, low, high, order: Order::Forward, limit: Some(most as u64) }
}

/// Where a part begins: a slot, and the key of the row before it.
fn begin_of_part(place: &[u8]) -> Result<(u32, Option<Vec<u8>>), SqlError> {
    match place {
        [] => Ok((0, None)),
        [a, b, c, d, key @ ..] => {
            Ok((u32::from_be_bytes([*a, *b, *c, *d]), (!key.is_empty()).then(|| key.to_vec())))
        }
        _ => Err(wrong_place()),
    }
}

fn end_of_part(slot: u32, after: Option<&[u8]>) -> Vec<u8> {
    [&slot.to_be_bytes(), after.unwrap_or_default()].concat()
}

fn wrong_place() -> SqlError {
    SqlError::new(SqlState::INTERNAL, "rows are asked for from a place that no outcome gave")
}

/// Rows that are computed, not stored.
fn computed(
    source: &Source,
    bound: &Bound,
    outer: &Outer,
    test: Option<&Test>,
    limit: Option<u64>,
) -> Result<Vec<Found>, SqlError> {
    let layout = source.table.layout();
    let most = limit.unwrap_or(u64::MAX) as usize;
    let mut found = Vec::new();
    let mut take = |values: Vec<Datum>| {
        let row = layout.encode(&values)?;
        if test.map_or(Ok(true), |test| test.passes(bound, &values))? {
            found.push(Found { place: Placed { slot: 0, key: Vec::new() }, row });
        }
        Ok::<_, SqlError>(found.len() < most)
    };
    match &source.path {
        Path::Values(rows) => {
            for row in rows {
                if !take(evaluated(row, bound, outer)?)? {
                    break;
                }
            }
        }
        Path::Series { from, to, step } => {
            let value = |expr: &Expr| expr.eval(&bound.context(), &**outer);
            let (Datum::Int(from), Datum::Int(to), Datum::Int(step)) =
                (value(from)?, value(to)?, value(step)?)
            else {
                return Ok(found);
            };
            if step == 0 {
                let message = "step size cannot equal zero";
                return Err(SqlError::new(SqlState::INVALID_PARAMETER, message));
            }
            let mut next = Some(from);
            let mut left = LONGEST_SERIES;
            while let Some(value) = next.filter(|value| if step > 0 { *value <= to } else { *value >= to }) {
                if !take(vec![Datum::Int(value)])? {
                    break;
                }
                left -= 1;
                if left == 0 {
                    let message =
                        format!("generate_series gives more than {LONGEST_SERIES} rows in this statement");
                    return Err(SqlError::new(SqlState::PROGRAM_LIMIT, message)
                        .with_hint("Use several statements with parts of the series."));
                }
                next = value.checked_add(step);
            }
        }
        _ => {}
    }
    Ok(found)
}

fn row_of(hit: Hit) -> Option<Found> {
    Some(Found { place: Placed { slot: hit.slot, key: hit.key }, row: hit.row? })
}

/// The values of expressions over parameters and the sources before.
fn evaluated(exprs: &[Expr], bound: &Bound, outer: &Outer) -> Result<Vec<Datum>, SqlError> {
    Expr::eval_all(exprs, &bound.context(), &**outer)
}

/// A slot, the first physical key of a range in it, and the first one after the last.
type PhysicalRange = (u32, Vec<u8>, Vec<u8>);

/// The parts of a range in the slots that may have some of it.
fn physical_ranges(
    slots: &Slots,
    range: &KeyRange,
    (bound, outer): (&Bound, &Outer),
    sites: u32,
) -> Result<Vec<PhysicalRange>, SqlError> {
    let equal = evaluated(&range.equal, bound, outer)?;
    let end = |end: &Option<(Expr, bool)>| {
        let Some((expr, included)) = end else { return Ok(None) };
        Ok(Some((expr.eval(&bound.context(), &**outer)?, *included)))
    };
    let (low, high) = (end(&range.low)?, end(&range.high)?);
    let is_null = |end: &Option<(Datum, bool)>| end.as_ref().is_some_and(|(value, _)| value.is_null());
    if equal.iter().any(Datum::is_null) || is_null(&low) || is_null(&high) {
        return Ok(Vec::new());
    }
    let value = |end: &Option<(Datum, bool)>| end.as_ref().map(|(value, _)| value.clone());
    let (least, most) = (value(&low), value(&high));
    let prefix = place::encode_key(&equal);
    let all = place::slots_of_range(slots, &equal, (least.as_ref(), most.as_ref()), sites);
    let with = |slot: u32, value: &Datum| {
        let mut key = prefix.clone();
        crate::key::append(&mut key, value);
        place::physical_prefix(slot, &key)
    };
    let ranges = all.into_iter().map(|slot| {
        let whole = place::physical_prefix(slot, &prefix);
        let after = |key: &base::Key| key.prefix_end().unwrap_or_else(|| key.clone());
        let first = match &low {
            None => whole.clone(),
            Some((value, true)) => with(slot, value),
            Some((value, false)) => after(&with(slot, value)),
        };
        let last = match &high {
            // Nulls come last, and no bound includes them.
            None if low.is_some() => with(slot, &Datum::Null),
            None => after(&whole),
            Some((value, true)) => after(&with(slot, value)),
            Some((value, false)) => with(slot, value),
        };
        // With an upper bound alone, all values below it are meant: nulls are above it.
        (slot, first.to_vec(), last.to_vec())
    });
    Ok(ranges.filter(|(_, first, last)| first < last).collect())
}

impl Stored {
    /// Decodes a row.
    pub(super) fn values(&self, row: &[u8]) -> Result<Vec<Datum>, SqlError> {
        self.layout().decode_all(row)
    }
}
