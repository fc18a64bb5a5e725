//! Selects: joins, groups, sorts and cuts.

use super::find::Found;
use super::{Carrier, PHASE, Rows, Stop, Work};
use crate::bound::Bound;
use crate::compare;
use crate::group::Groups;
use crate::measured::Did;
use crate::place::Placed;
use crate::program::{Grouping, Joined, Outcome, Output, Path, RowLock, Select, SortKey, Source};
use crate::row::{Columns, Pair};
use crate::step::{Fetch, Gather, Hits, Outer, Test, Wanted};
use crate::{Datum, Expr, SqlError, SqlState};
use std::cmp::Ordering;
use std::pin::pin;
use std::sync::Arc;

/// How many times as many rows `SKIP LOCKED` looks at as it wants, at first.
const LOOKED: u64 = 8;

/// A joined row: the values of the sources before the last one, and the last one's stored row.
struct JoinedRow {
    outer: Outer,
    last: Option<Found>,
}

impl<T: Carrier + ?Sized> Work<'_, T> {
    pub(super) async fn select(&mut self, select: &Select, bound: &Arc<Bound>) -> Result<Outcome, Stop> {
        let rows = pin!(self.selected(select, bound)).await?;
        Ok(Outcome { count: rows.len() as u64, rows, rest: self.rest.take() })
    }

    /// The rows of a query.
    pub(super) async fn selected(&mut self, select: &Select, bound: &Arc<Bound>) -> Result<Rows, Stop> {
        let (offset, limit) = (number(&select.offset, bound)?.unwrap_or(0), number(&select.limit, bound)?);
        let reach = limit.map(|limit| limit.saturating_add(offset));
        let cuts_early = select.grouping.is_none()
            && !select.distinct
            && select.having.is_none()
            && (select.order.is_empty() || select.is_ordered);
        let early = reach.filter(|_| cuts_early);
        let sources = &select.sources;
        let mut rows = Vec::new();
        let cx = bound.context();
        if let [Joined { source, .. }] = sources.as_slice()
            && source.lock == RowLock::Skip
        {
            rows = Box::pin(self.skipping(select, source, bound, reach)).await?;
        } else if let Some(grouping) = &select.grouping {
            let groups = match Box::pin(self.gathered(select, grouping, bound)).await? {
                Some(groups) => groups,
                None => {
                    let joined = Box::pin(self.join(sources, bound, vec![Outer::default()], None)).await?;
                    groups(grouping, sources, &joined, bound)?
                }
            };
            for group in groups {
                let passes =
                    |having: &Expr| Ok::<_, SqlError>(having.eval(&cx, &group)? == Datum::Bool(true));
                if select.having.as_ref().map_or(Ok(true), passes)? {
                    rows.push(projected(&select.output, bound, &group)?);
                }
            }
        } else {
            let joined = pin!(self.join(sources, bound, vec![Outer::default()], early)).await?;
            for row in &joined {
                if early.is_some_and(|most| rows.len() as u64 >= most) {
                    break;
                }
                // What must hold after an outer join.
                let passes = |columns: &dyn Columns| match &select.having {
                    Some(having) => Ok::<_, SqlError>(having.eval(&cx, columns)? == Datum::Bool(true)),
                    None => Ok(true),
                };
                let output = with_columns(sources, row, |columns| match passes(columns)? {
                    true => projected(&select.output, bound, columns).map(Some),
                    false => Ok(None),
                })?;
                rows.extend(output);
            }
        }
        if select.distinct {
            distinct(&mut rows, select.output.len() - usize::from(select.hidden));
        }
        let is_skipping = sources.iter().any(|joined| joined.source.lock == RowLock::Skip);
        if !select.is_ordered && !select.order.is_empty() && !is_skipping {
            rows.sort_by(|a, b| by_keys(&select.order, a, b));
        }
        let mut rows: Rows =
            rows.into_iter().skip(offset as usize).take(limit.unwrap_or(u64::MAX) as usize).collect();
        let shown = select.output.len() - usize::from(select.hidden);
        rows.iter_mut().for_each(|row| row.truncate(shown));
        Ok(rows)
    }

    /// `SKIP LOCKED`: rows are looked at without locks and put into their order. Then they are
    /// locked one after the other, until there are as many as are wanted; one that another
    /// transaction has locked is left out.
    async fn skipping(
        &mut self,
        select: &Select,
        source: &Source,
        bound: &Arc<Bound>,
        wanted: Option<u64>,
    ) -> Result<Rows, Stop> {
        let (looked, cx) = (Source { lock: RowLock::Look, ..source.clone() }, bound.context());
        let wanted = wanted.unwrap_or(u64::MAX);
        let is_in_order = select.is_ordered || select.order.is_empty();
        let by_index = matches!(source.path, Path::Ranges { index: Some(_), .. });
        let mut most = is_in_order.then_some(wanted).filter(|wanted| *wanted < u64::MAX / LOOKED);
        loop {
            most = most.and_then(|most| most.checked_mul(LOOKED));
            let found = self.find(&looked, bound, &[Outer::default()], most).await?.pop().unwrap_or_default();
            // The rows of index entries that lie elsewhere are tested after the entries are
            // counted.
            let is_short = most.is_some_and(|most| (found.len() as u64) < most);
            let is_all = most.is_none() || is_short && !by_index;
            let mut candidates = Vec::with_capacity(found.len());
            for Found { place, row } in found {
                candidates
                    .push((projected(&select.output, bound, &source.table.layout().read(&row)?)?, place));
            }
            if !is_in_order {
                candidates.sort_by(|(a, _), (b, _)| by_keys(&select.order, a, b));
            }
            let mut places = candidates.into_iter().map(|(_, place)| place);
            let mut rows = Rows::new();
            loop {
                let more = (wanted - rows.len() as u64).min(PHASE as u64) as usize;
                let some: Vec<Placed> = places.by_ref().take(more).collect();
                if some.is_empty() {
                    break;
                }
                for row in self.locked(source, bound, some).await? {
                    let row = source.table.layout().read(&row)?;
                    // What the path has found may have changed before the lock.
                    let passes =
                        |having: &Expr| Ok::<_, SqlError>(having.eval(&cx, &row)? == Datum::Bool(true));
                    if select.having.as_ref().map_or(Ok(true), passes)? {
                        rows.push(projected(&select.output, bound, &row)?);
                    }
                }
            }
            if is_all || rows.len() as u64 >= wanted {
                return Ok(rows);
            }
            most = most.filter(|_| !is_short);
        }
    }

    /// Those of the rows that this transaction can lock at once and that still pass the source's
    /// filter, as they are under the lock.
    async fn locked(
        &mut self,
        source: &Source,
        bound: &Arc<Bound>,
        places: Vec<Placed>,
    ) -> Result<Vec<Vec<u8>>, Stop> {
        let test = source.filter.clone().map(|condition| Test { condition, outer: Outer::default() });
        let fetches = places.into_iter().map(|Placed { slot, key }| Fetch {
            table: Arc::clone(&source.table),
            bound: Arc::clone(bound),
            test: test.clone(),
            slot,
            what: Wanted::Keys(vec![key]),
        });
        let hits = self.fetch(RowLock::Skip, fetches.collect()).await?;
        Ok(hits.into_iter().flatten().filter_map(|hit| hit.row).collect())
    }

    /// The groups of all rows of one table, made where the rows are.
    async fn gathered(
        &mut self,
        select: &Select,
        grouping: &Grouping,
        bound: &Arc<Bound>,
    ) -> Result<Option<Rows>, Stop> {
        let [Joined { source, .. }] = select.sources.as_slice() else { return Ok(None) };
        if source.path != Path::All || source.lock != RowLock::None {
            return Ok(None);
        }
        let test = source.filter.clone().map(|condition| Test { condition, outer: Outer::default() });
        let (table, bound) = (Arc::clone(&source.table), Arc::clone(bound));
        let fetch = Fetch { table, bound, test, slot: 0, what: Wanted::All { limit: None } };
        let gather = Gather { fetch, grouping: Arc::new(grouping.clone()), sites: self.sites };
        let mut groups = Groups::new(grouping);
        self.phases.add(Did::Read, std::iter::empty);
        let parts = self.txn.gather(gather).await??;
        self.phases.found(parts.len());
        groups.merge(parts)?;
        Ok(Some(groups.finish()?))
    }

    /// Joins sources from left to right. `limit` holds for the joined rows.
    async fn join(
        &mut self,
        sources: &[Joined],
        bound: &Arc<Bound>,
        mut outers: Vec<Outer>,
        limit: Option<u64>,
    ) -> Result<Vec<JoinedRow>, Stop> {
        let Some((last, before)) = sources.split_last() else {
            return Ok(outers.into_iter().map(|outer| JoinedRow { outer, last: None }).collect());
        };
        for joined in before {
            outers = self.widen(joined, bound, outers).await?;
        }
        // A source that drops rows must be asked for more than the limit by those before it, so
        // only a single source takes the limit.
        let limit = limit.filter(|_| before.is_empty());
        let found = self.find(&last.source, bound, &outers, limit).await?;
        let mut rows = Vec::new();
        for (outer, found) in outers.into_iter().zip(found) {
            if found.is_empty() && last.is_outer {
                rows.push(JoinedRow { outer, last: None });
                continue;
            }
            rows.extend(
                found.into_iter().map(|row| JoinedRow { outer: Arc::clone(&outer), last: Some(row) }),
            );
        }
        Ok(rows)
    }

    /// Adds the columns of a source to each outer row.
    pub(super) async fn widen(
        &mut self,
        joined: &Joined,
        bound: &Arc<Bound>,
        outers: Vec<Outer>,
    ) -> Result<Vec<Outer>, Stop> {
        let table = &joined.source.table;
        let found = self.find(&joined.source, bound, &outers, None).await?;
        let mut wider = Vec::new();
        for (outer, found) in outers.into_iter().zip(found) {
            if found.is_empty() && joined.is_outer {
                let nulls = vec![Datum::Null; table.columns.len()];
                wider.push(Arc::new([&outer[..], &nulls[..]].concat()));
            }
            for row in found {
                wider.push(Arc::new([&outer[..], &table.values(&row.row)?[..]].concat()));
            }
        }
        Ok(wider)
    }
}

/// Calls `f` with the columns of a joined row.
fn with_columns<R>(
    sources: &[Joined],
    row: &JoinedRow,
    f: impl FnOnce(&dyn Columns) -> Result<R, SqlError>,
) -> Result<R, SqlError> {
    let (Some(last), Some(found)) = (sources.last(), &row.last) else {
        // The last source has no row here: nulls.
        let nulls = sources.last().map_or(0, |last| last.source.table.columns.len());
        return f(&[&row.outer[..], &vec![Datum::Null; nulls][..]].concat());
    };
    let stored = last.source.table.layout().read(&found.row)?;
    f(&Pair { first: &*row.outer, second: &stored, split: row.outer.len() as u16 })
}

pub(super) fn projected(
    output: &[Output],
    bound: &Bound,
    columns: &dyn Columns,
) -> Result<Vec<Datum>, SqlError> {
    let (cx, mut values) = (bound.context(), Vec::with_capacity(output.len()));
    for output in output {
        values.push(output.expr.eval(&cx, columns)?);
    }
    Ok(values)
}

/// The outcome of a query of one source, without groups, order or limit, from what its steps have
/// found.
pub(super) fn of_one_source(
    select: &Select,
    bound: &Bound,
    found: impl Iterator<Item = Hits>,
) -> Result<Outcome, SqlError> {
    let shown = select.output.len() - usize::from(select.hidden);
    let mut rows = Rows::new();
    for hits in found {
        for stored in hits?.into_iter().filter_map(|hit| hit.row) {
            let layout = select.sources[0].source.table.layout();
            let mut row = projected(&select.output, bound, &layout.read(&stored)?)?;
            row.truncate(shown);
            rows.push(row);
        }
    }
    Ok(Outcome { count: rows.len() as u64, rows, rest: None })
}

/// The value of `LIMIT` or `OFFSET`.
fn number(expr: &Option<Expr>, bound: &Bound) -> Result<Option<u64>, SqlError> {
    let Some(expr) = expr else { return Ok(None) };
    match expr.eval(&bound.context(), &Vec::new())? {
        Datum::Null => Ok(None),
        Datum::Int(number) if number >= 0 => Ok(Some(number as u64)),
        _ => Err(SqlError::new(SqlState(*b"2201W"), "LIMIT and OFFSET must not be negative")),
    }
}

/// The groups' rows.
fn groups(
    grouping: &Grouping,
    sources: &[Joined],
    rows: &[JoinedRow],
    bound: &Bound,
) -> Result<Rows, SqlError> {
    let mut groups = Groups::new(grouping);
    for row in rows {
        with_columns(sources, row, |columns| groups.add(bound, columns))?;
    }
    groups.finish()
}

/// Keeps the first of rows that are equal in their first `columns`.
fn distinct(rows: &mut Rows, columns: usize) {
    let mut seen = std::collections::HashSet::new();
    rows.retain(|row| seen.insert(crate::place::encode_key(&row[..columns])));
}

fn by_keys(keys: &[SortKey], a: &[Datum], b: &[Datum]) -> Ordering {
    keys.iter()
        .map(|key| {
            let (a, b) = (&a[usize::from(key.column)], &b[usize::from(key.column)]);
            match (a.is_null(), b.is_null()) {
                (true, true) => Ordering::Equal,
                (true, false) => {
                    if key.nulls_first {
                        Ordering::Less
                    } else {
                        Ordering::Greater
                    }
                }
                (false, true) => {
                    if key.nulls_first {
                        Ordering::Greater
                    } else {
                        Ordering::Less
                    }
                }
                (false, false) => {
                    let order = compare::compare(a, b);
                    if key.descending { order.reverse() } else { order }
                }
            }
        })
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}
