//! Aggregates: what has been seen of a group's rows. Accumulators of the same group from several
//! instances are merged into one; they travel as plain values.

use crate::compare::compare;
use crate::expression::Aggregate;
use crate::memory::size;
use crate::moments::Moments;
use crate::numeric::division_by_zero;
use crate::value::{Interval, Numeric};
use crate::{Datum, SqlError, SqlState, SqlType, key, power, text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// One aggregate over one group.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Accumulator {
    function: Aggregate,
    ty: SqlType,
    state: State,
    /// With `DISTINCT`: the arguments seen, by their keys, so in their order. They are added in the
    /// end.
    distinct: Option<BTreeMap<Vec<u8>, Vec<Datum>>>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
enum State {
    Empty,
    Count(u64),
    /// Sums with the number of their values.
    Ints(i128, u64),
    Floats(f64, u64),
    Numerics(Numeric, u64),
    Intervals(Interval, u64),
    /// The least or greatest value, or all booleans joined.
    Value(Datum),
    /// The text so far, and the separator that would precede it.
    Joined {
        separator: Vec<u8>,
        bytes: Vec<u8>,
        is_text: bool,
    },
    Array(Vec<Datum>),
    Moments(Moments),
}

impl Accumulator {
    /// `ty` is the type of the result.
    pub fn new(function: Aggregate, distinct: bool, ty: SqlType) -> Accumulator {
        let state = match function {
            Aggregate::CountRows | Aggregate::Count => State::Count(0),
            _ => State::Empty,
        };
        Accumulator { function, ty, state, distinct: distinct.then(BTreeMap::new) }
    }

    /// Adds the arguments of one row. Nulls are left out, but for `count(*)` and `array_agg`. Gives
    /// the bytes of memory that this takes: those of values that are kept one beside the other.
    ///
    /// # Errors
    /// `22003` and `22008` if a sum is out of range.
    pub fn add(&mut self, args: &[Datum]) -> Result<usize, SqlError> {
        let takes_nulls = matches!(self.function, Aggregate::CountRows | Aggregate::ArrayAgg);
        if !takes_nulls && args.first().is_none_or(Datum::is_null) {
            return Ok(0);
        }
        if self.function.is_of_pairs() && args.iter().any(Datum::is_null) {
            return Ok(0);
        }
        if let Some(seen) = &mut self.distinct {
            let mut bytes = Vec::new();
            args.iter().for_each(|arg| key::append(&mut bytes, arg));
            return Ok(match seen.entry(bytes) {
                Entry::Occupied(_) => 0,
                Entry::Vacant(place) => {
                    let bytes = place.key().len() + size(args);
                    place.insert(args.to_vec());
                    bytes
                }
            });
        }
        self.step(args)?;
        let grows = matches!(self.function, Aggregate::StringAgg | Aggregate::ArrayAgg);
        Ok(if grows { size(args) } else { 0 })
    }

    /// The bytes of memory of values that are kept one beside the other.
    pub fn bytes(&self) -> usize {
        let distinct = self.distinct.iter().flatten();
        let seen = match &self.state {
            State::Joined { separator, bytes, .. } => separator.len() + bytes.len(),
            State::Array(values) => size(values),
            _ => 0,
        };
        seen + distinct.map(|(key, args)| key.len() + size(args)).sum::<usize>()
    }

    /// Adds what `other` has seen of the same group, as if its rows came after this one's.
    ///
    /// # Errors
    /// Those of [`Accumulator::add`].
    pub fn merge(&mut self, other: Accumulator) -> Result<(), SqlError> {
        if let (Some(seen), Some(others)) = (&mut self.distinct, other.distinct) {
            for (bytes, args) in others {
                seen.entry(bytes).or_insert(args);
            }
            return Ok(());
        }
        let state = std::mem::replace(&mut self.state, State::Empty);
        self.state = self.both(state, other.state)?;
        Ok(())
    }

    /// The aggregate's value.
    ///
    /// # Errors
    /// Those of [`Accumulator::add`], and `22003` if the value does not fit its type.
    pub fn finish(mut self) -> Result<Datum, SqlError> {
        for args in self.distinct.take().into_iter().flat_map(BTreeMap::into_values) {
            self.step(&args)?;
        }
        let is_average = self.function == Aggregate::Avg;
        match self.state {
            State::Empty => Ok(Datum::Null),
            State::Count(count) => Ok(Datum::Int(count as i64)),
            State::Ints(sum, count) if is_average => average(&Numeric::from(sum), count),
            State::Ints(sum, _) if matches!(self.ty, SqlType::Numeric(_)) => {
                Ok(Datum::Numeric(Numeric::from(sum)))
            }
            State::Ints(sum, _) => i64::try_from(sum)
                .map(Datum::Int)
                .map_err(|_| SqlError::new(SqlState::NUMERIC_OUT_OF_RANGE, "bigint out of range")),
            State::Floats(sum, count) if is_average => Ok(Datum::Float(sum / count as f64)),
            State::Floats(sum, _) => Ok(Datum::Float(sum)),
            State::Numerics(sum, count) if is_average => average(&sum, count),
            State::Numerics(sum, _) => Ok(Datum::Numeric(sum)),
            State::Intervals(sum, count) if is_average => {
                sum.scale(|part| part / count as f64).map(Datum::Interval)
            }
            State::Intervals(sum, _) => Ok(Datum::Interval(sum)),
            State::Value(value) => Ok(value),
            State::Moments(moments) => moments.finish(self.function),
            State::Array(values) => match self.ty {
                SqlType::Array(element) => Ok(text::array_of(element, &values)),
                _ => Err(mistyped()),
            },
            State::Joined { bytes, is_text: false, .. } => Ok(Datum::Bytes(bytes)),
            State::Joined { bytes, .. } => String::from_utf8(bytes).map(Datum::Text).map_err(|_| mistyped()),
        }
    }

    fn step(&mut self, args: &[Datum]) -> Result<(), SqlError> {
        if let State::Count(count) = &mut self.state {
            *count += 1;
            return Ok(());
        }
        if let (State::Array(values), [value]) = (&mut self.state, args) {
            values.push(value.clone());
            return Ok(());
        }
        // The frequent sum goes without the way through one more state.
        if let (State::Ints(sum, count), [Datum::Int(v)]) = (&mut self.state, args) {
            (*sum, *count) = (*sum + i128::from(*v), *count + 1);
            return Ok(());
        }
        let one = self.of_one(args)?;
        let state = std::mem::replace(&mut self.state, State::Empty);
        if let (State::Moments(seen), State::Moments(row)) = (&state, &one) {
            self.state = State::Moments(seen.clone().with(row.clone())?);
            return Ok(());
        }
        self.state = self.both(state, one)?;
        Ok(())
    }

    /// The state after one row.
    fn of_one(&self, args: &[Datum]) -> Result<State, SqlError> {
        Ok(match (self.function, args) {
            (Aggregate::Sum | Aggregate::Avg, [value]) => match value {
                Datum::Int(v) => State::Ints((*v).into(), 1),
                Datum::Float(v) => State::Floats(*v, 1),
                Datum::Numeric(v) => State::Numerics(v.clone(), 1),
                Datum::Interval(v) => State::Intervals(*v, 1),
                // The sum of times of day is the span that they are.
                Datum::Time(v) => State::Intervals(Interval { micros: *v, ..Interval::default() }, 1),
                _ => return Err(mistyped()),
            },
            (Aggregate::Min | Aggregate::Max | Aggregate::BoolAnd | Aggregate::BoolOr, [value]) => {
                State::Value(value.clone())
            }
            (Aggregate::BitAnd | Aggregate::BitOr | Aggregate::BitXor, [value]) => {
                State::Value(value.clone())
            }
            (function, args) if function.is_variance() || function.is_of_pairs() => {
                State::Moments(Moments::of(args)?.ok_or_else(mistyped)?)
            }
            (Aggregate::ArrayAgg, [value]) => State::Array(vec![value.clone()]),
            (Aggregate::StringAgg, [Datum::Text(text), separator]) => {
                let separator = match separator {
                    Datum::Text(separator) => separator.clone().into_bytes(),
                    _ => Vec::new(),
                };
                State::Joined { separator, bytes: text.clone().into_bytes(), is_text: true }
            }
            (Aggregate::StringAgg, [Datum::Bytes(bytes), separator]) => {
                let separator = match separator {
                    Datum::Bytes(separator) => separator.clone(),
                    _ => Vec::new(),
                };
                State::Joined { separator, bytes: bytes.clone(), is_text: false }
            }
            _ => return Err(mistyped()),
        })
    }

    fn both(&self, first: State, second: State) -> Result<State, SqlError> {
        Ok(match (first, second) {
            (State::Empty, state) | (state, State::Empty) => state,
            (State::Count(a), State::Count(b)) => State::Count(a + b),
            (State::Ints(a, n), State::Ints(b, m)) => State::Ints(a + b, n + m),
            (State::Floats(a, n), State::Floats(b, m)) => State::Floats(self.float_sum(a, b)?, n + m),
            (State::Numerics(a, n), State::Numerics(b, m)) => State::Numerics(a.add(&b)?, n + m),
            (State::Intervals(a, n), State::Intervals(b, m)) => State::Intervals(a.add(&b)?, n + m),
            (State::Value(a), State::Value(b)) => State::Value(self.choice(a, b)),
            (State::Moments(a), State::Moments(b)) => State::Moments(a.and(b)?),
            (State::Array(mut a), State::Array(b)) => {
                a.extend(b);
                State::Array(a)
            }
            (
                State::Joined { separator, mut bytes, is_text },
                State::Joined { separator: between, bytes: more, .. },
            ) => {
                bytes.extend_from_slice(&between);
                bytes.extend_from_slice(&more);
                State::Joined { separator, bytes, is_text }
            }
            _ => return Err(mistyped()),
        })
    }

    fn choice(&self, a: Datum, b: Datum) -> Datum {
        match (self.function, &a, &b) {
            (Aggregate::BoolAnd, Datum::Bool(a), Datum::Bool(b)) => Datum::Bool(*a && *b),
            (Aggregate::BoolOr, Datum::Bool(a), Datum::Bool(b)) => Datum::Bool(*a || *b),
            (Aggregate::BitAnd, Datum::Int(a), Datum::Int(b)) => Datum::Int(a & b),
            (Aggregate::BitOr, Datum::Int(a), Datum::Int(b)) => Datum::Int(a | b),
            (Aggregate::BitXor, Datum::Int(a), Datum::Int(b)) => Datum::Int(a ^ b),
            // Of equal values that differ in form, the last one counts, as in PostgreSQL.
            (Aggregate::Max, ..) if compare(&a, &b).is_gt() => a,
            (Aggregate::Min, ..) if compare(&a, &b).is_lt() => a,
            _ => b,
        }
    }

    fn float_sum(&self, a: f64, b: f64) -> Result<f64, SqlError> {
        let sum = if self.ty == SqlType::Float4 { f64::from(a as f32 + b as f32) } else { a + b };
        if sum.is_infinite() && a.is_finite() && b.is_finite() {
            Err(power::float_overflow())
        } else {
            Ok(sum)
        }
    }
}

fn average(sum: &Numeric, count: u64) -> Result<Datum, SqlError> {
    if count == 0 {
        return Err(division_by_zero());
    }
    sum.divide(&Numeric::from(i128::from(count))).map(Datum::Numeric)
}

#[cold]
fn mistyped() -> SqlError {
    SqlError::new(SqlState::INTERNAL, "an aggregate has an argument of a type that it does not take")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(values: &[i64]) -> Vec<Datum> {
        values.iter().copied().map(Datum::Int).collect()
    }

    fn accumulated(function: Aggregate, distinct: bool, ty: SqlType, values: &[Datum]) -> Accumulator {
        let mut accumulator = Accumulator::new(function, distinct, ty);
        values.iter().for_each(|value| assert!(accumulator.add(std::slice::from_ref(value)).is_ok()));
        accumulator
    }

    /// The value over all, which must not depend on how the values are shared among instances.
    fn value(function: Aggregate, distinct: bool, ty: SqlType, values: &[Datum]) -> Datum {
        let whole = accumulated(function, distinct, ty, values).finish().unwrap();
        for cut in 0..=values.len() {
            let mut merged = accumulated(function, distinct, ty, &values[..cut]);
            let other = accumulated(function, distinct, ty, &values[cut..]);
            let bytes = postcard::to_stdvec(&other).unwrap();
            merged.merge(postcard::from_bytes(&bytes).unwrap()).unwrap();
            assert_eq!(merged.finish().unwrap(), whole);
        }
        whole
    }

    #[test]
    fn values_do_not_depend_on_the_shares() {
        let numeric = SqlType::Numeric(None);
        let mut values = ints(&[3, 1, 4, 1, 5]);
        values.insert(2, Datum::Null);
        assert_eq!(value(Aggregate::Count, false, SqlType::Int8, &values), Datum::Int(5));
        assert_eq!(value(Aggregate::CountRows, false, SqlType::Int8, &values), Datum::Int(6));
        assert_eq!(value(Aggregate::Count, true, SqlType::Int8, &values), Datum::Int(4));
        assert_eq!(value(Aggregate::Sum, false, SqlType::Int8, &values), Datum::Int(14));
        assert_eq!(value(Aggregate::Sum, true, SqlType::Int8, &values), Datum::Int(13));
        assert_eq!(value(Aggregate::Min, false, SqlType::Int8, &values), Datum::Int(1));
        assert_eq!(value(Aggregate::Max, false, SqlType::Int8, &values), Datum::Int(5));
        let Datum::Numeric(average) = value(Aggregate::Avg, false, numeric, &values) else { panic!() };
        assert_eq!(average.to_string(), "2.8000000000000000");
        assert_eq!(value(Aggregate::Sum, false, SqlType::Int8, &[Datum::Null]), Datum::Null);
        let most = ints(&[i64::MAX, i64::MAX]);
        let Datum::Numeric(sum) = value(Aggregate::Sum, false, numeric, &most) else { panic!() };
        assert_eq!(sum.to_string(), "18446744073709551614");
        let flags = [Datum::Bool(true), Datum::Null, Datum::Bool(false)];
        assert_eq!(value(Aggregate::BoolAnd, false, SqlType::Bool, &flags), Datum::Bool(false));
        assert_eq!(value(Aggregate::BoolOr, false, SqlType::Bool, &flags), Datum::Bool(true));
    }

    #[test]
    fn a_sum_out_of_range_is_an_error() {
        let most = ints(&[i64::MAX, 1]);
        let error = accumulated(Aggregate::Sum, false, SqlType::Int8, &most).finish().unwrap_err();
        assert_eq!(
            (error.state, error.message.as_str()),
            (SqlState::NUMERIC_OUT_OF_RANGE, "bigint out of range")
        );
    }

    #[test]
    fn joined_texts_have_separators_between_them_only() {
        let rows = [["a", ","], ["b", "-"], ["c", "+"]].map(|row| row.map(|text| Datum::Text(text.into())));
        for cut in 0..=3 {
            let mut parts = [&rows[..cut], &rows[cut..]].map(|rows| {
                let mut accumulator = Accumulator::new(Aggregate::StringAgg, false, SqlType::Text);
                rows.iter().for_each(|row| assert!(accumulator.add(row).is_ok()));
                accumulator
            });
            let second = parts[1].clone();
            parts[0].merge(second).unwrap();
            assert_eq!(parts[0].clone().finish().unwrap(), Datum::Text("a-b+c".into()));
        }
    }
}
