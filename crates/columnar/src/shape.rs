//! The values of a column of a file: Parquet's logical types, and their older names.

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as Physical};
use parquet::schema::types::ColumnDescriptor;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// A column without a value.
    Null,
    Bool,
    Int {
        is_signed: bool,
    },
    Float,
    Decimal {
        scale: u32,
    },
    /// Days since 1970-01-01.
    Date,
    /// Since midnight.
    Time(Unit),
    /// Since 1970-01-01 00:00.
    Timestamp {
        unit: Unit,
        utc: bool,
    },
    /// A time as older programs wrote it, in no time zone.
    Int96,
    Text,
    Bytes,
    Uuid,
    /// Months, days and milliseconds, each in four bytes.
    Interval,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    Millis,
    Micros,
    Nanos,
}

impl Unit {
    fn of(unit: TimeUnit) -> Unit {
        match unit {
            TimeUnit::MILLIS => Unit::Millis,
            TimeUnit::MICROS => Unit::Micros,
            TimeUnit::NANOS => Unit::Nanos,
        }
    }

    /// The nearest microsecond.
    pub fn micros(self, value: i64) -> Option<i64> {
        match self {
            Unit::Millis => value.checked_mul(1000),
            Unit::Micros => Some(value),
            Unit::Nanos => Some(value.div_euclid(1000) + i64::from(value.rem_euclid(1000) >= 500)),
        }
    }
}

impl Shape {
    /// `None` for values that have no place in a column of SQL.
    pub fn of(column: &ColumnDescriptor) -> Option<Shape> {
        match column.logical_type_ref() {
            Some(logical) => of_logical(logical),
            None => of_converted(column),
        }
    }
}

fn of_logical(logical: &LogicalType) -> Option<Shape> {
    Some(match logical {
        LogicalType::String | LogicalType::Enum | LogicalType::Json => Shape::Text,
        LogicalType::Decimal(decimal) => Shape::Decimal { scale: u32::try_from(decimal.scale).ok()? },
        LogicalType::Date => Shape::Date,
        LogicalType::Time(time) => Shape::Time(Unit::of(time.unit)),
        LogicalType::Timestamp(time) => {
            Shape::Timestamp { unit: Unit::of(time.unit), utc: time.is_adjusted_to_u_t_c }
        }
        LogicalType::Integer(int) => Shape::Int { is_signed: int.is_signed },
        LogicalType::Uuid => Shape::Uuid,
        LogicalType::Unknown => Shape::Null,
        _ => return None,
    })
}

fn of_converted(column: &ColumnDescriptor) -> Option<Shape> {
    let utc = true;
    Some(match column.converted_type() {
        ConvertedType::NONE => of_physical(column.physical_type()),
        ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON => Shape::Text,
        ConvertedType::DECIMAL => Shape::Decimal { scale: u32::try_from(column.type_scale()).ok()? },
        ConvertedType::DATE => Shape::Date,
        ConvertedType::TIME_MILLIS => Shape::Time(Unit::Millis),
        ConvertedType::TIME_MICROS => Shape::Time(Unit::Micros),
        ConvertedType::TIMESTAMP_MILLIS => Shape::Timestamp { unit: Unit::Millis, utc },
        ConvertedType::TIMESTAMP_MICROS => Shape::Timestamp { unit: Unit::Micros, utc },
        ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64 => {
            Shape::Int { is_signed: false }
        }
        ConvertedType::INT_8 | ConvertedType::INT_16 | ConvertedType::INT_32 | ConvertedType::INT_64 => {
            Shape::Int { is_signed: true }
        }
        ConvertedType::INTERVAL => Shape::Interval,
        _ => return None,
    })
}

fn of_physical(physical: Physical) -> Shape {
    match physical {
        Physical::BOOLEAN => Shape::Bool,
        Physical::INT32 | Physical::INT64 => Shape::Int { is_signed: true },
        Physical::INT96 => Shape::Int96,
        Physical::FLOAT | Physical::DOUBLE => Shape::Float,
        Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY => Shape::Bytes,
    }
}

/// The type as an error tells it.
pub fn told(column: &ColumnDescriptor) -> String {
    match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Decimal(of)), _) => format!("DECIMAL({}, {})", of.precision, of.scale),
        (Some(LogicalType::Integer(of)), _) => {
            format!("{}INT{}", if of.is_signed { "" } else { "U" }, of.bit_width)
        }
        (Some(LogicalType::Timestamp(_)), _) => "TIMESTAMP".into(),
        (Some(LogicalType::Time(_)), _) => "TIME".into(),
        (Some(logical), _) => format!("{logical:?}").to_uppercase(),
        (None, ConvertedType::NONE) => column.physical_type().to_string(),
        (None, converted) => converted.to_string(),
    }
}
