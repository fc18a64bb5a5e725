//! Sums of powers and products of a group's values, of which variances, correlations and
//! regression lines follow. Formulas and roundings are those of PostgreSQL: decimal numbers are
//! summed exactly, floats by the method of Youngs and Cramer.

use crate::expression::Aggregate;
use crate::value::Numeric;
use crate::{Datum, SqlError, power};
use serde::{Deserialize, Serialize};

/// What has been seen of a group.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Moments {
    /// Of decimal numbers: how many, their sum, the sum of their squares.
    Exact { count: u64, sum: Numeric, squares: Numeric },
    /// Of floats: how many, their sum, the sum of their squared distances from the mean.
    Floats { count: f64, sum: f64, squares: f64 },
    /// Of pairs of floats.
    Pairs(Pairs),
}

/// As of [`Moments::Floats`] for each value of the pair, and the sum of the products of both
/// distances.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Pairs {
    count: f64,
    x: f64,
    xx: f64,
    y: f64,
    yy: f64,
    xy: f64,
}

impl Moments {
    /// Of one row; `None` for arguments of other types.
    ///
    /// # Errors
    /// `22003` if a square is out of range.
    pub fn of(args: &[Datum]) -> Result<Option<Moments>, SqlError> {
        let exact = |value: Numeric| {
            let squares = value.multiply(&value)?;
            Ok(Some(Moments::Exact { count: 1, sum: value, squares }))
        };
        let distance = |value: f64| if value.is_finite() { 0.0 } else { f64::NAN };
        match args {
            [Datum::Int(value)] => exact(Numeric::from(*value)),
            [Datum::Numeric(value)] => exact(value.clone()),
            [Datum::Float(value)] => {
                Ok(Some(Moments::Floats { count: 1.0, sum: *value, squares: distance(*value) }))
            }
            [Datum::Float(y), Datum::Float(x)] => {
                let (xx, yy) = (distance(*x), distance(*y));
                Ok(Some(Moments::Pairs(Pairs { count: 1.0, x: *x, xx, y: *y, yy, xy: xx + yy })))
            }
            _ => Ok(None),
        }
    }

    /// Adds one row. Of floats, many rows give another rounding one by one than together.
    ///
    /// # Errors
    /// `22003` if a sum is out of range.
    pub fn with(self, row: Moments) -> Result<Moments, SqlError> {
        match (self, row) {
            (Moments::Floats { count: before, sum, squares }, Moments::Floats { sum: value, .. }) => {
                let (count, sum) = (before + 1.0, sum + value);
                let distance = value * count - sum;
                let squares = squares + distance * distance / (count * before);
                Moments::Floats { count, sum, squares }
            }
            (Moments::Pairs(seen), Moments::Pairs(row)) => {
                let (count, x, y) = (seen.count + 1.0, seen.x + row.x, seen.y + row.y);
                let (of_x, of_y) = (row.x * count - x, row.y * count - y);
                let scale = 1.0 / (count * seen.count);
                let xx = seen.xx + of_x * of_x * scale;
                let yy = seen.yy + of_y * of_y * scale;
                Moments::Pairs(Pairs { count, x, xx, y, yy, xy: seen.xy + of_x * of_y * scale })
            }
            (seen, row) => return seen.and(row),
        }
        .checked()
    }

    /// Of the rows of both.
    ///
    /// # Errors
    /// As [`Moments::with`].
    pub fn and(self, other: Moments) -> Result<Moments, SqlError> {
        match (self, other) {
            (
                Moments::Exact { count, sum, squares },
                Moments::Exact { count: more, sum: other, squares: of_other },
            ) => {
                let (sum, squares) = (sum.add(&other)?, squares.add(&of_other)?);
                Ok(Moments::Exact { count: count + more, sum, squares })
            }
            (
                Moments::Floats { count: n, sum: a, squares },
                Moments::Floats { count: m, sum: b, squares: of_other },
            ) => {
                let distance = a / n - b / m;
                let squares = squares + of_other + n * m * distance * distance / (n + m);
                Moments::Floats { count: n + m, sum: a + b, squares }.checked()
            }
            (Moments::Pairs(a), Moments::Pairs(b)) => Moments::Pairs(a.and(&b)).checked(),
            (seen, _) => Ok(seen),
        }
    }

    /// A sum of numbers that are not too large must not be.
    fn checked(self) -> Result<Moments, SqlError> {
        let overflows = match &self {
            Moments::Exact { .. } => false,
            Moments::Floats { sum, squares, .. } => sum.is_finite() && squares.is_infinite(),
            Moments::Pairs(pairs) => {
                let sums = [pairs.xx, pairs.yy, pairs.xy];
                pairs.x.is_finite() && pairs.y.is_finite() && sums.iter().any(|sum| sum.is_infinite())
            }
        };
        if overflows { Err(power::float_overflow()) } else { Ok(self) }
    }

    /// The aggregate of the rows; null for too few.
    ///
    /// # Errors
    /// `22003` if it is out of range.
    pub fn finish(&self, function: Aggregate) -> Result<Datum, SqlError> {
        use Aggregate::{StddevPop, StddevSamp, VarSamp};
        let is_sample = matches!(function, VarSamp | StddevSamp);
        let is_root = matches!(function, StddevPop | StddevSamp);
        match self {
            Moments::Exact { count, .. } if *count < 2 && is_sample => Ok(Datum::Null),
            Moments::Exact { count, sum, squares } => {
                let count = i128::from(*count);
                let sum = sum.multiply(sum)?;
                let above = Numeric::from(count).multiply(squares)?.subtract(&sum)?;
                if above.is_zero() || above.is_negative() {
                    return Ok(Datum::Numeric(Numeric::zero()));
                }
                let below = count * if is_sample { count - 1 } else { count };
                let variance = above.divide(&Numeric::from(below))?;
                Ok(Datum::Numeric(match is_root {
                    true => power::numeric_sqrt(&variance)?.round(variance.scale()),
                    false => variance,
                }))
            }
            Moments::Floats { count, .. } if *count < 2.0 && is_sample => Ok(Datum::Null),
            Moments::Floats { count, squares, .. } => {
                let variance = squares / if is_sample { count - 1.0 } else { *count };
                Ok(Datum::Float(if is_root { variance.sqrt() } else { variance }))
            }
            Moments::Pairs(pairs) => Ok(pairs.finish(function).map_or(Datum::Null, Datum::Float)),
        }
    }
}

impl Pairs {
    fn and(&self, other: &Pairs) -> Pairs {
        let (n, m) = (self.count, other.count);
        let (of_x, of_y) = (self.x / n - other.x / m, self.y / n - other.y / m);
        let count = n + m;
        Pairs {
            count,
            x: self.x + other.x,
            xx: self.xx + other.xx + n * m * of_x * of_x / count,
            y: self.y + other.y,
            yy: self.yy + other.yy + n * m * of_y * of_y / count,
            xy: self.xy + other.xy + n * m * of_x * of_y / count,
        }
    }

    fn finish(&self, function: Aggregate) -> Option<f64> {
        let Pairs { count, x, xx, y, yy, xy } = *self;
        match function {
            Aggregate::CovarPop => Some(xy / count),
            Aggregate::CovarSamp => (count >= 2.0).then(|| xy / (count - 1.0)),
            Aggregate::Corr => (xx != 0.0 && yy != 0.0).then(|| xy / (xx * yy).sqrt()),
            Aggregate::RegrSlope => (xx != 0.0).then(|| xy / xx),
            Aggregate::RegrIntercept => (xx != 0.0).then(|| (y - x * xy / xx) / count),
            Aggregate::RegrR2 if xx == 0.0 => None,
            Aggregate::RegrR2 if yy == 0.0 => Some(1.0),
            Aggregate::RegrR2 => Some(xy * xy / (xx * yy)),
            _ => None,
        }
    }
}
