//! Results as Arrow batches.
//!
//! | SQL | Arrow |
//! |---|---|
//! | bool, float4, float8 | bool, float32, float64 |
//! | int2, int4, int8, oid | int16, int32, int64, int64 |
//! | numeric(p, s) | decimal128(p, s) if p is at most 38 |
//! | other numeric | float64: Arrow has no number without a limit |
//! | bytea, date, time | binary, date32, time64 in µs |
//! | timestamp, timestamptz | timestamp in µs, without a zone, in UTC; null for infinity |
//! | all others | utf8 |

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Decimal128Type, Float32Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, PrimitiveArray,
    RecordBatch, RecordBatchIterator, RecordBatchOptions, StringArray, Time64MicrosecondArray,
    TimestampMicrosecondArray,
};
use arrow_schema::{ArrowError, Field, Schema};
use atoll::{Column, Outcome, Type, Value};
use std::sync::Arc;

/// Days, and microseconds, from 1970-01-01 to 2000-01-01.
const DAYS: i32 = 10_957;
const MICROS: i64 = 946_684_800_000_000;
/// The most digits of a decimal of 128 bits.
const MOST_DIGITS: u16 = 38;

/// The result as a stream of one batch.
///
/// # Errors
/// When a value does not fit its column's Arrow type.
pub fn stream(outcome: &Outcome) -> Result<FFI_ArrowArrayStream, ArrowError> {
    let columns = outcome.columns.iter().enumerate();
    let arrays: Vec<ArrayRef> = columns
        .map(|(i, column)| array(column, outcome.rows.iter().map(|row| &row[i])))
        .collect::<Result<_, _>>()?;
    let fields = outcome.columns.iter().zip(&arrays);
    let fields: Vec<Field> =
        fields.map(|(column, array)| Field::new(&column.name, array.data_type().clone(), true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let options = RecordBatchOptions::new().with_row_count(Some(outcome.rows.len()));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), arrays, &options)?;
    Ok(FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new([Ok(batch)], schema))))
}

fn array<'a>(column: &Column, values: impl Iterator<Item = &'a Value>) -> Result<ArrayRef, ArrowError> {
    Ok(match column.ty {
        Type::Bool => Arc::new(values.map(bool_of).collect::<BooleanArray>()),
        Type::Int2 => {
            Arc::new(values.map(|v| int(v).map(|v| v as i16)).collect::<PrimitiveArray<Int16Type>>())
        }
        Type::Int4 => {
            Arc::new(values.map(|v| int(v).map(|v| v as i32)).collect::<PrimitiveArray<Int32Type>>())
        }
        Type::Int8 | Type::Oid => Arc::new(values.map(int).collect::<PrimitiveArray<Int64Type>>()),
        Type::Float4 => {
            Arc::new(values.map(|v| float(v).map(|v| v as f32)).collect::<PrimitiveArray<Float32Type>>())
        }
        Type::Float8 => Arc::new(values.map(float).collect::<Float64Array>()),
        Type::Numeric(Some((precision, scale))) if precision <= MOST_DIGITS => {
            let values =
                values.map(|value| decimal(value, scale)).collect::<PrimitiveArray<Decimal128Type>>();
            Arc::new(Decimal128Array::with_precision_and_scale(values, precision as u8, scale as i8)?)
        }
        Type::Numeric(_) => Arc::new(values.map(float).collect::<Float64Array>()),
        Type::Bytea => Arc::new(values.map(bytes).collect::<BinaryArray>()),
        Type::Date => Arc::new(values.map(date).collect::<Date32Array>()),
        Type::Time => Arc::new(values.map(int).collect::<Time64MicrosecondArray>()),
        Type::Timestamp => Arc::new(values.map(timestamp).collect::<TimestampMicrosecondArray>()),
        Type::TimestampTz => {
            Arc::new(values.map(timestamp).collect::<TimestampMicrosecondArray>().with_timezone("UTC"))
        }
        ty => Arc::new(
            values
                .map(|value| (!matches!(value, Value::Null)).then(|| atoll::to_text(ty, value)))
                .collect::<StringArray>(),
        ),
    })
}

fn bool_of(value: &Value) -> Option<bool> {
    if let Value::Bool(value) = value { Some(*value) } else { None }
}

fn int(value: &Value) -> Option<i64> {
    if let Value::Int(value) | Value::Time(value) = value { Some(*value) } else { None }
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Float(value) => Some(*value),
        Value::Numeric(value) => Some(value.to_f64()),
        _ => None,
    }
}

fn bytes(value: &Value) -> Option<&[u8]> {
    if let Value::Bytes(value) = value { Some(value) } else { None }
}

fn date(value: &Value) -> Option<i32> {
    if let Value::Date(days) = value { days.checked_add(DAYS) } else { None }
}

fn timestamp(value: &Value) -> Option<i64> {
    match value {
        Value::Timestamp(i64::MIN | i64::MAX) => None,
        Value::Timestamp(micros) => micros.checked_add(MICROS),
        _ => None,
    }
}

/// The digits of a number with this scale; a null for NaN, too.
fn decimal(value: &Value, scale: u16) -> Option<i128> {
    if value.is_null() {
        return None;
    }
    let text = atoll::to_text(Type::Numeric(None), value);
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let missing = usize::from(scale).checked_sub(fraction.len())?;
    format!("{whole}{fraction}{}", "0".repeat(missing)).parse().ok()
}
