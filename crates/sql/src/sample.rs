//! Values for property tests, from a fixed seed.

use crate::value::{Interval, Numeric};
use crate::{Datum, SqlType};
use fastrand::Rng;

/// The types of which values differ in form.
pub const TYPES: &[SqlType] = &[
    SqlType::Bool,
    SqlType::Int2,
    SqlType::Int4,
    SqlType::Int8,
    SqlType::Oid,
    SqlType::Float4,
    SqlType::Float8,
    SqlType::Numeric(None),
    SqlType::Char(10),
    SqlType::Varchar(None),
    SqlType::Text,
    SqlType::Bytea,
    SqlType::Date,
    SqlType::Time,
    SqlType::Timestamp,
    SqlType::TimestampTz,
    SqlType::Interval,
    SqlType::Uuid,
];

/// A value of the type, often one at an edge or close to others; null at times.
pub fn datum(rng: &mut Rng, ty: SqlType) -> Datum {
    if rng.u8(..16) == 0 {
        return Datum::Null;
    }
    match ty {
        SqlType::Bool => Datum::Bool(rng.bool()),
        SqlType::Int2 => Datum::Int(int(rng, 16)),
        SqlType::Int4 => Datum::Int(int(rng, 32)),
        SqlType::Int8 => Datum::Int(int(rng, 64)),
        SqlType::Oid => Datum::Int(int(rng, 33).max(0)),
        SqlType::Float4 => Datum::Float(f64::from(float(rng) as f32)),
        SqlType::Float8 => Datum::Float(float(rng)),
        SqlType::Numeric(_) => Datum::Numeric(numeric(rng)),
        SqlType::Bytea => {
            Datum::Bytes((0..rng.usize(..6)).map(|_| *rng.choice(&[0, 1, 97, 255]).unwrap()).collect())
        }
        SqlType::Date => Datum::Date(int(rng, 22) as i32),
        SqlType::Time => Datum::Time(rng.i64(0..86_400_000_000)),
        SqlType::Timestamp | SqlType::TimestampTz => Datum::Timestamp(int(rng, 58)),
        SqlType::Interval => Datum::Interval(Interval {
            months: int(rng, 8) as i32,
            days: int(rng, 10) as i32,
            micros: *rng.choice(&[0, 1, -1, 86_400_000_000, 30 * 86_400_000_000, -5_000_000]).unwrap(),
        }),
        SqlType::Uuid => Datum::Uuid(rng.u128(..).to_be_bytes()),
        _ => Datum::Text(
            (0..rng.usize(..6)).map(|_| *rng.choice(&['\u{1}', 'a', 'b', 'é', '鮪']).unwrap()).collect(),
        ),
    }
}

/// A number of at most `bits` bits with its sign, of any magnitude equally often.
fn int(rng: &mut Rng, bits: u32) -> i64 {
    let width = rng.u32(1..=bits);
    rng.i64(..) >> (64 - width)
}

fn float(rng: &mut Rng) -> f64 {
    let edges =
        [0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, 1e-320, 1.0];
    match rng.u8(..3) {
        0 => *rng.choice(&edges).unwrap(),
        1 => int(rng, 20) as f64 / 8.0,
        _ => f64::from_bits(rng.u64(..)),
    }
}

fn numeric(rng: &mut Rng) -> Numeric {
    if rng.u8(..20) == 0 {
        return Numeric::NaN;
    }
    let digits: String = (0..rng.usize(1..=rng.clone().usize(1..30))).map(|_| rng.char('0'..='9')).collect();
    let zeros = "0".repeat(rng.usize(..6));
    let scale = rng.i64(-3..12);
    let digits = format!("{}{digits}{zeros}", if rng.bool() { "-" } else { "" });
    Numeric::new(digits.parse().unwrap(), scale)
}
