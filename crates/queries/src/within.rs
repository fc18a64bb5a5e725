//! Aggregates `WITHIN GROUP (ORDER BY ...)`: one of the values in their order, or one between two.

use sql::compare::compare;
use sql::expression::{Aggregate, BinaryOp};
use sql::program::AggregateCall;
use sql::{Context, Datum, Expr, SqlError, SqlState, SqlType};

pub fn is_of_order(function: Aggregate) -> bool {
    matches!(function, Aggregate::PercentileCont | Aggregate::PercentileDisc | Aggregate::Mode)
}

/// The value of the aggregate. Each row has the value that is ordered, and the fraction.
pub fn value(
    context: &Context<'_>,
    call: &AggregateCall,
    rows: Vec<(Vec<Datum>, Vec<Datum>)>,
) -> Result<Datum, SqlError> {
    let fraction = rows.first().and_then(|(_, args)| args.first()).cloned().unwrap_or(Datum::Null);
    let values = rows.into_iter().filter_map(|(keys, _)| keys.into_iter().next());
    let values: Vec<Datum> = values.filter(|value| !value.is_null()).collect();
    if values.is_empty() {
        return Ok(Datum::Null);
    }
    let at = |fraction: f64| match call.function {
        Aggregate::PercentileDisc => Ok(discrete(&values, fraction)),
        _ => continuous(context, &values, fraction),
    };
    match (call.function, fraction, call.ty) {
        (Aggregate::Mode, ..) => Ok(mode(values)),
        (_, Datum::Float(fraction), _) => at(checked(fraction)?),
        // Several fractions give an array of values.
        (_, Datum::Text(fractions), SqlType::Array(element)) => {
            let mut found = Vec::new();
            for fraction in sql::text::values_of(sql::Element::Float8, &fractions)? {
                found.push(match fraction {
                    Datum::Float(fraction) => at(checked(fraction)?)?,
                    _ => Datum::Null,
                });
            }
            Ok(sql::text::array_of(element, &found))
        }
        _ => Ok(Datum::Null),
    }
}

fn checked(fraction: f64) -> Result<f64, SqlError> {
    if (0.0..=1.0).contains(&fraction) {
        return Ok(fraction);
    }
    let message = format!("percentile value {fraction} is not between 0 and 1");
    Err(SqlError::new(SqlState::NUMERIC_OUT_OF_RANGE, message))
}

/// The first value at or behind the fraction.
fn discrete(values: &[Datum], fraction: f64) -> Datum {
    let number = (fraction * values.len() as f64).ceil().max(1.0) as usize;
    values[number.min(values.len()) - 1].clone()
}

/// The value at the fraction of the way from the first value to the last one.
fn continuous(context: &Context<'_>, values: &[Datum], fraction: f64) -> Result<Datum, SqlError> {
    let place = fraction * (values.len() - 1) as f64;
    let (low, high) = (&values[place.floor() as usize], &values[place.ceil() as usize]);
    if place.floor() == place.ceil() {
        return Ok(low.clone());
    }
    let part = Datum::Float(place - place.floor());
    let ty = if matches!(low, Datum::Interval(_)) { SqlType::Interval } else { SqlType::Float8 };
    let both = |op, left: Expr, right: Expr| Expr::Binary { op, left: left.into(), right: right.into(), ty };
    let of = |value: &Datum| Expr::Const(value.clone());
    let distance = both(BinaryOp::Subtract, of(high), of(low));
    let step = both(BinaryOp::Multiply, distance, of(&part));
    both(BinaryOp::Add, of(low), step).eval(context, &Vec::<Datum>::new())
}

/// The value that is there most often; of several, the first one.
fn mode(values: Vec<Datum>) -> Datum {
    let (mut best, mut most, mut from) = (0, 0, 0);
    for at in 0..values.len() {
        if compare(&values[at], &values[from]).is_ne() {
            from = at;
        }
        if at + 1 - from > most {
            (best, most) = (from, at + 1 - from);
        }
    }
    values.into_iter().nth(best).unwrap_or(Datum::Null)
}
