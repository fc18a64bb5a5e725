//! SQL values as Arrow arrays, and back.
//!
//! ```text
//!   bool, integers, floats, text      as Arrow has them; characters without padding
//!   date, time, timestamp             days since 1970, microseconds of the day, microseconds since
//!                                     1970, with the zone UTC for `timestamptz`
//!   numeric                           large binary: the order-preserving key, then the scale
//!   interval                          32 bytes: its length, then months, days and microseconds
//!   uuid                              16 bytes
//!   bytea                             binary
//! ```
//!
//! So `numeric` and `interval` are exact and are sorted as PostgreSQL sorts them. Equal numbers of
//! different scale have different bytes: where they are compared, the key alone is.
//!
//! A field's metadata has the SQL type where the array's type does not tell it.

use crate::error::{internal, told};
use datafusion::arrow::array::{
    Array, ArrayRef, BinaryArray, BinaryBuilder, BooleanArray, Date32Array, FixedSizeBinaryArray,
    FixedSizeBinaryBuilder, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, LargeBinaryArray,
    LargeBinaryBuilder, StringArray, StringBuilder, Time64MicrosecondArray, TimestampMicrosecondArray,
};
use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::{Result, ScalarValue};
use sql::value::{Interval, Numeric};
use sql::{Datum, SqlType, key};
use std::sync::Arc;

/// The key of a field's metadata under which the SQL type is.
const TYPE: &str = "sql";
const INTERVAL_BYTES: i32 = 32;
const UUID_BYTES: i32 = 16;
/// Days from 1970-01-01 to 2000-01-01, and the microseconds in them.
const EPOCH_DAYS: i32 = 10_957;
const EPOCH_MICROS: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

/// The type of the array that holds values of an SQL type.
pub fn data_type(ty: SqlType) -> DataType {
    match ty {
        SqlType::Bool => DataType::Boolean,
        SqlType::Int2 => DataType::Int16,
        SqlType::Int4 => DataType::Int32,
        SqlType::Int8 | SqlType::Oid => DataType::Int64,
        SqlType::Float4 => DataType::Float32,
        SqlType::Float8 => DataType::Float64,
        SqlType::Numeric(_) => DataType::LargeBinary,
        SqlType::Char(_)
        | SqlType::Varchar(_)
        | SqlType::Text
        | SqlType::Name
        | SqlType::Json
        | SqlType::Jsonb
        | SqlType::Unknown => DataType::Utf8,
        SqlType::Bytea => DataType::Binary,
        SqlType::Date => DataType::Date32,
        SqlType::Time => DataType::Time64(TimeUnit::Microsecond),
        SqlType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        SqlType::TimestampTz => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        SqlType::Interval => DataType::FixedSizeBinary(INTERVAL_BYTES),
        SqlType::Uuid => DataType::FixedSizeBinary(UUID_BYTES),
    }
}

/// A field of an SQL type.
pub fn field(name: &str, ty: SqlType) -> Field {
    let field = Field::new(name, data_type(ty), true);
    if plain(field.data_type()) == Some(ty) {
        return field;
    }
    let text = serde_json::to_string(&ty).unwrap_or_default();
    field.with_metadata([(TYPE.to_owned(), text)].into())
}

/// The SQL type of a field; `None` for arrays that SQL values do not have.
pub fn sql_type(field: &Field) -> Option<SqlType> {
    let known = field.metadata().get(TYPE).and_then(|text| serde_json::from_str::<SqlType>(text).ok());
    known.filter(|ty| data_type(*ty) == *field.data_type()).or_else(|| plain(field.data_type()))
}

/// The SQL type of an array without further knowledge.
fn plain(data_type: &DataType) -> Option<SqlType> {
    Some(match data_type {
        DataType::Null => SqlType::Unknown,
        DataType::Boolean => SqlType::Bool,
        DataType::Int8 | DataType::Int16 => SqlType::Int2,
        DataType::Int32 => SqlType::Int4,
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => SqlType::Int8,
        DataType::Float32 => SqlType::Float4,
        DataType::Float64 => SqlType::Float8,
        DataType::LargeBinary => SqlType::Numeric(None),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => SqlType::Text,
        DataType::Binary => SqlType::Bytea,
        DataType::Date32 => SqlType::Date,
        DataType::Time64(TimeUnit::Microsecond) => SqlType::Time,
        DataType::Timestamp(TimeUnit::Microsecond, None) => SqlType::Timestamp,
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => SqlType::TimestampTz,
        DataType::FixedSizeBinary(INTERVAL_BYTES) => SqlType::Interval,
        DataType::FixedSizeBinary(UUID_BYTES) => SqlType::Uuid,
        _ => return None,
    })
}

fn numeric_bytes(number: &Numeric) -> Vec<u8> {
    let mut bytes = Vec::new();
    key::append(&mut bytes, &Datum::Numeric(number.clone()));
    bytes.extend_from_slice(&(number.scale().clamp(0, u16::MAX.into()) as u16).to_be_bytes());
    bytes
}

/// The part of a number's bytes that equal numbers have in common.
pub fn numeric_key(bytes: &[u8]) -> &[u8] {
    bytes.get(..bytes.len().saturating_sub(2)).unwrap_or_default()
}

fn numeric_of(bytes: &[u8]) -> Result<Numeric> {
    let (mut front, scale) =
        bytes.split_at_checked(bytes.len().saturating_sub(2)).ok_or_else(|| internal("a number's bytes"))?;
    let read = key::decode(SqlType::Numeric(None), &mut front).map_err(told)?;
    let scale = scale.try_into().map(u16::from_be_bytes).unwrap_or(0);
    match read {
        Datum::Numeric(number @ Numeric::Number(_)) => Ok(number.round(scale.into())),
        Datum::Numeric(number) => Ok(number),
        _ => Err(internal("a number's bytes")),
    }
}

fn interval_bytes(interval: &Interval) -> [u8; INTERVAL_BYTES as usize] {
    let mut bytes = [0; INTERVAL_BYTES as usize];
    bytes[..16].copy_from_slice(&(interval.length() ^ i128::MIN).to_be_bytes());
    bytes[16..20].copy_from_slice(&interval.months.to_be_bytes());
    bytes[20..24].copy_from_slice(&interval.days.to_be_bytes());
    bytes[24..].copy_from_slice(&interval.micros.to_be_bytes());
    bytes
}

fn interval_of(bytes: &[u8]) -> Result<Interval> {
    let part = |at: std::ops::Range<usize>| bytes.get(at).ok_or_else(|| internal("an interval's bytes"));
    let int = |at| {
        Ok::<_, datafusion::error::DataFusionError>(i32::from_be_bytes(
            part(at)?.try_into().unwrap_or_default(),
        ))
    };
    Ok(Interval {
        months: int(16..20)?,
        days: int(20..24)?,
        micros: i64::from_be_bytes(part(24..32)?.try_into().unwrap_or_default()),
    })
}

/// Microseconds since 2000 as those since 1970. The infinities stay what they are.
fn to_1970(micros: i64) -> i64 {
    match micros {
        i64::MIN | i64::MAX => micros,
        _ => micros.saturating_add(EPOCH_MICROS),
    }
}

fn to_2000(micros: i64) -> i64 {
    match micros {
        i64::MIN | i64::MAX => micros,
        _ => micros.saturating_sub(EPOCH_MICROS),
    }
}

/// An array of values of one type.
///
/// # Errors
/// When a value is not of the type.
pub fn array<'a>(ty: SqlType, values: impl Iterator<Item = &'a Datum>) -> Result<ArrayRef> {
    let wrong = || internal("a value of another type than its column's");
    macro_rules! plain {
        ($array:ty, $($pattern:pat => $value:expr),+) => {{
            let items = values.map(|value| match value {
                Datum::Null => Ok(None),
                $($pattern => Ok(Some($value)),)+
                _ => Err(wrong()),
            });
            Arc::new(items.collect::<Result<$array>>()?) as ArrayRef
        }};
    }
    macro_rules! built {
        ($builder:expr, $($pattern:pat => $value:expr),+) => {{
            let mut builder = $builder;
            for value in values {
                match value {
                    Datum::Null => builder.append_null(),
                    $($pattern => { let _ = builder.append_value($value); })+
                    _ => return Err(wrong()),
                }
            }
            Arc::new(builder.finish()) as ArrayRef
        }};
    }
    Ok(match ty {
        SqlType::Bool => plain!(BooleanArray, Datum::Bool(v) => *v),
        SqlType::Int2 => plain!(Int16Array, Datum::Int(v) => *v as i16),
        SqlType::Int4 => plain!(Int32Array, Datum::Int(v) => *v as i32),
        SqlType::Int8 | SqlType::Oid => plain!(Int64Array, Datum::Int(v) => *v),
        SqlType::Float4 => plain!(Float32Array, Datum::Float(v) => *v as f32),
        SqlType::Float8 => plain!(Float64Array, Datum::Float(v) => *v),
        SqlType::Date => plain!(Date32Array, Datum::Date(v) => v.saturating_add(EPOCH_DAYS)),
        SqlType::Time => plain!(Time64MicrosecondArray, Datum::Time(v) => *v),
        SqlType::Timestamp => plain!(TimestampMicrosecondArray, Datum::Timestamp(v) => to_1970(*v)),
        SqlType::TimestampTz => {
            let array = plain!(TimestampMicrosecondArray, Datum::Timestamp(v) => to_1970(*v));
            let array = array.as_any().downcast_ref::<TimestampMicrosecondArray>().cloned();
            Arc::new(array.ok_or_else(wrong)?.with_timezone("UTC"))
        }
        SqlType::Numeric(_) => {
            built!(LargeBinaryBuilder::new(), Datum::Numeric(v) => numeric_bytes(v))
        }
        SqlType::Bytea => built!(BinaryBuilder::new(), Datum::Bytes(v) => v),
        SqlType::Uuid => {
            built!(FixedSizeBinaryBuilder::new(UUID_BYTES), Datum::Uuid(v) => v)
        }
        SqlType::Interval => {
            built!(FixedSizeBinaryBuilder::new(INTERVAL_BYTES), Datum::Interval(v) => interval_bytes(v))
        }
        _ => built!(StringBuilder::new(), Datum::Text(v) => v),
    })
}

/// The value of a row of an array.
///
/// # Errors
/// When the array is of a type that SQL values do not have.
pub fn datum(array: &dyn Array, row: usize) -> Result<Datum> {
    if array.is_null(row) || array.data_type() == &DataType::Null {
        return Ok(Datum::Null);
    }
    macro_rules! of {
        ($array:ty, $value:ident => $datum:expr) => {
            if let Some(array) = array.as_any().downcast_ref::<$array>() {
                let $value = array.value(row);
                return Ok($datum);
            }
        };
    }
    of!(Int32Array, v => Datum::Int(v.into()));
    of!(Int64Array, v => Datum::Int(v));
    of!(StringArray, v => Datum::Text(v.to_owned()));
    of!(LargeBinaryArray, v => Datum::Numeric(numeric_of(v)?));
    of!(BooleanArray, v => Datum::Bool(v));
    of!(Int16Array, v => Datum::Int(v.into()));
    of!(Float64Array, v => Datum::Float(v));
    of!(Float32Array, v => Datum::Float(v.into()));
    of!(Date32Array, v => Datum::Date(v.saturating_sub(EPOCH_DAYS)));
    of!(Time64MicrosecondArray, v => Datum::Time(v));
    of!(TimestampMicrosecondArray, v => Datum::Timestamp(to_2000(v)));
    of!(BinaryArray, v => Datum::Bytes(v.to_vec()));
    of!(datafusion::arrow::array::UInt64Array, v => Datum::Int(i64::try_from(v).unwrap_or(i64::MAX)));
    of!(datafusion::arrow::array::UInt32Array, v => Datum::Int(v.into()));
    of!(datafusion::arrow::array::StringViewArray, v => Datum::Text(v.to_owned()));
    of!(datafusion::arrow::array::LargeStringArray, v => Datum::Text(v.to_owned()));
    if let Some(array) = array.as_any().downcast_ref::<FixedSizeBinaryArray>() {
        let bytes = array.value(row);
        return match <[u8; UUID_BYTES as usize]>::try_from(bytes) {
            Ok(uuid) => Ok(Datum::Uuid(uuid)),
            Err(_) => Ok(Datum::Interval(interval_of(bytes)?)),
        };
    }
    Err(told(sql::SqlError::unsupported(&format!("a value of the type {}", array.data_type()), None)))
}

/// One value, of a type.
///
/// # Errors
/// As [`array`].
pub fn scalar(ty: SqlType, value: &Datum) -> Result<ScalarValue> {
    ScalarValue::try_from_array(&array(ty, std::iter::once(value))?, 0)
}

/// # Errors
/// As [`datum`].
pub fn of_scalar(value: &ScalarValue) -> Result<Datum> {
    datum(&value.to_array()?, 0)
}
