//! Window functions: for each row, a value over the rows of its partition.

use crate::query::ordered;
use crate::row::internal;
use crate::run::Run;
use crate::select::{At, Candidate};
use compiler::tree::{Bound, FrameBy, OrderBy, Window, WindowFunction};
use sql::aggregate::Accumulator;
use sql::compare::compare;
use sql::expression::BinaryOp;
use sql::memory::size;
use sql::place::encode_key;
use sql::{Datum, Expr, SqlError, SqlState};
use std::cmp::Ordering;
use std::collections::HashMap;

/// The rows of one partition in their order.
struct Partition<'w> {
    window: &'w Window,
    /// The number of each row among all.
    rows: Vec<usize>,
    /// For each row, the first row that is equal to it by the order, and the first one after those.
    peers: Vec<(usize, usize)>,
    /// The arguments of each row, and whether its filter lets it count.
    args: Vec<(Vec<Datum>, bool)>,
    /// The offsets of the frame.
    offsets: (usize, usize),
    /// With offsets of `RANGE`: for each row its key, and the keys at which its frame begins and
    /// ends.
    ranges: Vec<Range>,
}

struct Range {
    key: Datum,
    start: Option<Datum>,
    end: Option<Datum>,
}

impl<'r> Run<'r> {
    /// The values of all windows, for each row.
    pub fn windows(
        &self,
        windows: &'r [Window],
        rows: &[Candidate],
        at: &At<'_, 'r>,
    ) -> Result<Vec<Vec<Datum>>, SqlError> {
        if windows.is_empty() {
            return Ok(Vec::new());
        }
        let mut values: Vec<Vec<Datum>> = vec![Vec::with_capacity(windows.len()); rows.len()];
        for window in windows {
            self.takes(64 * rows.len())?;
            for partition in self.partitions(window, rows, at)? {
                for (place, value) in self.over(&partition)?.into_iter().enumerate() {
                    values[partition.rows[place]].push(value);
                }
            }
        }
        Ok(values)
    }

    fn partitions<'w>(
        &self,
        window: &'w Window,
        rows: &[Candidate],
        at: &At<'_, 'r>,
    ) -> Result<Vec<Partition<'w>>, SqlError> {
        let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut parts: Vec<Vec<(Vec<Datum>, usize)>> = Vec::new();
        let mut args = Vec::with_capacity(rows.len());
        let by_range = window.frame.by == FrameBy::Range;
        let mut offsets = (0, 0);
        let mut ranges = (None, None);
        for (number, row) in rows.iter().enumerate() {
            self.step()?;
            let frame = at.candidate(self, row);
            if number == 0 {
                let value = |bound: &Bound| match bound {
                    Bound::Before(expr) | Bound::After(expr) => self.eval(expr, &frame).map(Some),
                    _ => Ok(None),
                };
                let both = (value(&window.frame.start)?, value(&window.frame.end)?);
                if by_range {
                    ranges = (both.0.map(span).transpose()?, both.1.map(span).transpose()?);
                } else {
                    let count = |value: Option<Datum>| value.map_or(Ok(0), offset);
                    offsets = (count(both.0)?, count(both.1)?);
                }
            }
            let key = encode_key(&self.all(&window.partition, &frame)?);
            let order = window.order.iter().map(|by| self.eval(&by.expr, &frame));
            let order = order.collect::<Result<Vec<_>, _>>()?;
            args.push((self.all(&window.args, &frame)?, self.hold(&window.filter, &frame)?));
            let place = *places.entry(key).or_insert_with(|| {
                parts.push(Vec::new());
                parts.len() - 1
            });
            parts[place].push((order, number));
        }
        let mut partition = |mut part: Vec<(Vec<Datum>, usize)>| {
            part.sort_by(|(a, _), (b, _)| by_order(a, b, &window.order));
            let keys: Vec<&Vec<Datum>> = part.iter().map(|(key, _)| key).collect();
            let peers = peers(&keys, &window.order);
            let rows: Vec<usize> = part.iter().map(|(_, number)| *number).collect();
            let args = rows.iter().map(|number| std::mem::take(&mut args[*number])).collect();
            let keys = part.iter().filter_map(|(key, _)| key.first());
            let range = |key: &Datum| {
                let at = |bound: &Bound, by: &Option<Datum>| match by {
                    Some(by) if !key.is_null() => self.moved(window, key, (bound, by)).map(Some),
                    _ => Ok(None),
                };
                let (start, end) = (at(&window.frame.start, &ranges.0)?, at(&window.frame.end, &ranges.1)?);
                Ok(Range { key: key.clone(), start, end })
            };
            let has_ranges = ranges.0.is_some() || ranges.1.is_some();
            let ranges = keys.filter(|_| has_ranges).map(range).collect::<Result<_, SqlError>>()?;
            Ok(Partition { window, rows, peers, args, offsets, ranges })
        };
        parts.into_iter().map(&mut partition).collect()
    }

    /// The key that is so far from another one, in the window's order.
    fn moved(&self, window: &Window, key: &Datum, (bound, by): (&Bound, &Datum)) -> Result<Datum, SqlError> {
        let order = window.order.first().ok_or_else(|| internal("a range without an order"))?;
        let adds = matches!(bound, Bound::After(_)) != order.descending;
        if let (Datum::Int(key), Datum::Int(by)) = (key, by) {
            // Behind the last number there is none.
            return Ok(Datum::Int(if adds { key.saturating_add(*by) } else { key.saturating_sub(*by) }));
        }
        let op = if adds { BinaryOp::Add } else { BinaryOp::Subtract };
        let (left, right) = (Expr::Const(key.clone()).into(), Expr::Const(by.clone()).into());
        Expr::Binary { op, left, right, ty: order.ty }.eval(&self.context(), &Vec::<Datum>::new())
    }

    /// The value of each row of a partition.
    fn over(&self, partition: &Partition<'_>) -> Result<Vec<Datum>, SqlError> {
        use WindowFunction as W;
        let count = partition.rows.len();
        match partition.window.function {
            W::Aggregate(_) => return self.aggregated(partition),
            W::Ntile => return ntile(partition),
            _ => {}
        }
        let mut dense = 0;
        let mut values = Vec::with_capacity(count);
        for place in 0..count {
            self.step()?;
            let (first, after) = partition.peers[place];
            dense += i64::from(first == place);
            values.push(match partition.window.function {
                W::RowNumber => Datum::Int(place as i64 + 1),
                W::Rank => Datum::Int(first as i64 + 1),
                W::DenseRank => Datum::Int(dense),
                W::PercentRank if count == 1 => Datum::Float(0.0),
                W::PercentRank => Datum::Float(first as f64 / (count - 1) as f64),
                W::CumeDist => Datum::Float(after as f64 / count as f64),
                W::Lag | W::Lead => shifted(partition, place)?,
                _ => of_frame(partition, place)?,
            });
        }
        Ok(values)
    }

    fn aggregated(&self, partition: &Partition<'_>) -> Result<Vec<Datum>, SqlError> {
        let WindowFunction::Aggregate(function) = partition.window.function else {
            return Err(internal("a window without an aggregate"));
        };
        let new = || Accumulator::new(function, false, partition.window.ty);
        let mut values: Vec<Datum> = Vec::with_capacity(partition.rows.len());
        // Frames that begin where the one before began only grow.
        let (mut accumulator, mut known) = (new(), 0..0);
        for place in 0..partition.rows.len() {
            self.step()?;
            let frame = partition.frame(place);
            if place > 0 && frame == known {
                self.takes(size(&values[place - 1..place]))?;
                values.push(values[place - 1].clone());
                continue;
            }
            if frame.start != known.start || frame.end < known.end {
                (accumulator, known) = (new(), frame.start..frame.start);
            }
            for (args, counts) in &partition.args[known.end.min(frame.end)..frame.end] {
                self.step()?;
                if *counts {
                    accumulator.add(args)?;
                }
            }
            known = frame;
            values.push(accumulator.clone().finish()?);
            self.takes(size(&values[place..]))?;
        }
        Ok(values)
    }
}

impl Partition<'_> {
    /// The places of the frame of a row.
    fn frame(&self, place: usize) -> std::ops::Range<usize> {
        let count = self.rows.len();
        let by = self.window.frame.by;
        let (first, after) = self.peers[place];
        // The begin of the group that is so many groups before or after this one.
        let back = |groups: usize| {
            let mut begin = first;
            for _ in 0..groups {
                begin = if begin == 0 { return None } else { self.peers[begin - 1].0 };
            }
            Some(begin)
        };
        let forth = |groups: usize| {
            let mut begin = first;
            for _ in 0..groups {
                begin = if begin < count { self.peers[begin].1 } else { return count };
            }
            begin
        };
        let start = match (&self.window.frame.start, by) {
            (Bound::First, _) => 0,
            (Bound::Before(_) | Bound::After(_), FrameBy::Range) => self.at_range(place).0,
            (Bound::Last, _) => count,
            (Bound::Current, FrameBy::Rows) => place,
            (Bound::Current, _) => first,
            (Bound::Before(_), FrameBy::Groups) => back(self.offsets.0).unwrap_or(0),
            (Bound::After(_), FrameBy::Groups) => forth(self.offsets.0),
            (Bound::Before(_), _) => place.saturating_sub(self.offsets.0),
            (Bound::After(_), _) => place.saturating_add(self.offsets.0),
        };
        let end = match (&self.window.frame.end, by) {
            (Bound::First, _) => 0,
            (Bound::Before(_) | Bound::After(_), FrameBy::Range) => self.at_range(place).1,
            (Bound::Last, _) => count,
            (Bound::Current, FrameBy::Rows) => place + 1,
            (Bound::Current, _) => after,
            (Bound::Before(_), FrameBy::Groups) => {
                back(self.offsets.1).map_or(0, |begin| self.peers[begin].1)
            }
            (Bound::After(_), FrameBy::Groups) => {
                let begin = forth(self.offsets.1);
                if begin < count { self.peers[begin].1 } else { count }
            }
            (Bound::Before(_), _) => (place + 1).saturating_sub(self.offsets.1),
            (Bound::After(_), _) => (place + 1).saturating_add(self.offsets.1),
        };
        let end = end.min(count);
        start.min(end)..end
    }

    /// The first row at or behind the key at which the frame begins, and the first one behind that
    /// at which it ends. The frame of a null is all nulls.
    fn at_range(&self, place: usize) -> (usize, usize) {
        let (first, after) = self.peers[place];
        let (Some(range), Some(order)) = (self.ranges.get(place), self.window.order.first()) else {
            return (first, after);
        };
        let compared =
            |other: &Range, key: &Datum| ordered(&other.key, key, order.descending, order.nulls_first);
        let start = range.start.as_ref();
        let start =
            start.map_or(first, |key| self.ranges.partition_point(|other| compared(other, key).is_lt()));
        let end = range.end.as_ref();
        let end = end.map_or(after, |key| self.ranges.partition_point(|other| compared(other, key).is_le()));
        (start, end)
    }
}

fn by_order(a: &[Datum], b: &[Datum], order: &[OrderBy]) -> Ordering {
    let orders = a.iter().zip(b).zip(order);
    let orders = orders.map(|((a, b), by)| ordered(a, b, by.descending, by.nulls_first));
    orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// For each row, the first one that is equal to it, and the first one after those.
fn peers(keys: &[&Vec<Datum>], order: &[OrderBy]) -> Vec<(usize, usize)> {
    let mut peers = Vec::with_capacity(keys.len());
    let mut first = 0;
    while first < keys.len() {
        let same = keys[first..].iter().take_while(|key| by_order(keys[first], key, order).is_eq());
        let after = first + same.count();
        peers.extend((first..after).map(|_| (first, after)));
        first = after;
    }
    peers
}

/// The offset of a `RANGE`.
fn span(value: Datum) -> Result<Datum, SqlError> {
    let is_negative = match &value {
        Datum::Null => {
            let message = "frame starting or ending offset must not be null";
            return Err(SqlError::new(SqlState(*b"22004"), message));
        }
        Datum::Int(value) => *value < 0,
        Datum::Float(value) => *value < 0.0 || value.is_nan(),
        Datum::Interval(value) => {
            compare(&Datum::Interval(*value), &Datum::Interval(sql::value::Interval::default())).is_lt()
        }
        value => compare(value, &Datum::Numeric(sql::value::Numeric::from(0_i64))).is_lt(),
    };
    if is_negative {
        let message = "invalid preceding or following size in window function";
        return Err(SqlError::new(SqlState(*b"22013"), message));
    }
    Ok(value)
}

fn offset(value: Datum) -> Result<usize, SqlError> {
    match value {
        Datum::Int(offset) if offset >= 0 => Ok(usize::try_from(offset).unwrap_or(usize::MAX)),
        Datum::Int(_) => {
            Err(SqlError::new(SqlState(*b"22013"), "frame starting or ending offset must not be negative"))
        }
        _ => Err(SqlError::new(SqlState(*b"22004"), "frame starting or ending offset must not be null")),
    }
}

/// `lag` and `lead`: the value, how many rows further, what there is instead.
fn shifted(partition: &Partition<'_>, place: usize) -> Result<Datum, SqlError> {
    let [_, by, default] = partition.args[place].0.as_slice() else {
        return Err(internal("lag and lead have three arguments"));
    };
    let Datum::Int(by) = by else { return Ok(Datum::Null) };
    let by = if partition.window.function == WindowFunction::Lag { by.saturating_neg() } else { *by };
    let at = (place as i64).checked_add(by).and_then(|at| usize::try_from(at).ok());
    let other = at.and_then(|at| partition.args.get(at));
    Ok(other.map_or(default, |(args, _)| &args[0]).clone())
}

/// `first_value`, `last_value`, `nth_value`.
fn of_frame(partition: &Partition<'_>, place: usize) -> Result<Datum, SqlError> {
    let frame = partition.frame(place);
    let at = match partition.window.function {
        WindowFunction::FirstValue => frame.start,
        WindowFunction::LastValue => match frame.end.checked_sub(1) {
            Some(last) if last >= frame.start => last,
            _ => return Ok(Datum::Null),
        },
        _ => match partition.args[place].0.get(1) {
            Some(Datum::Int(number)) if *number > 0 => {
                frame.start.saturating_add(usize::try_from(*number - 1).unwrap_or(usize::MAX))
            }
            Some(Datum::Int(_)) => {
                let message = "argument of nth_value must be greater than zero";
                return Err(SqlError::new(SqlState(*b"22016"), message));
            }
            _ => return Ok(Datum::Null),
        },
    };
    if !frame.contains(&at) {
        return Ok(Datum::Null);
    }
    Ok(partition.args[at].0.first().cloned().unwrap_or(Datum::Null))
}

/// Buckets of equal sizes; the first ones have one row more if there is a rest.
fn ntile(partition: &Partition<'_>) -> Result<Vec<Datum>, SqlError> {
    let count = partition.rows.len();
    let buckets = match partition.args.first().and_then(|(args, _)| args.first()) {
        Some(Datum::Int(buckets)) if *buckets > 0 => usize::try_from(*buckets).unwrap_or(usize::MAX),
        Some(Datum::Int(_)) => {
            let message = "argument of ntile must be greater than zero";
            return Err(SqlError::new(SqlState(*b"22014"), message));
        }
        _ => return Ok(vec![Datum::Null; count]),
    };
    let (each, rest) = (count / buckets, count % buckets);
    let bucket = |place: usize| match place.checked_sub(rest * (each + 1)) {
        Some(place) if each > 0 => rest + place / each,
        _ => place / (each + 1),
    };
    Ok((0..count).map(|place| Datum::Int(bucket(place) as i64 + 1)).collect())
}
