//! How the values of a type of SQL lie in a file, and which values of files a type takes.

use crate::shape::Shape;
use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::errors::ParquetError;
use parquet::schema::types::{Type, TypePtr};
use sql::SqlType;
use std::sync::Arc;

/// The most digits of a decimal number that other programs read (128 bits).
const DECIMAL_DIGITS: u16 = 38;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Bool,
    /// 16 or 32 bits, in four bytes.
    Int32 {
        bits: i8,
    },
    Int64,
    Float,
    Double,
    Text,
    Json,
    Bytes,
    /// Days since 1970-01-01.
    Date,
    /// Microseconds since midnight.
    Time,
    /// Microseconds since 1970-01-01 00:00, in universal time or in none.
    Timestamp {
        utc: bool,
    },
    /// A whole number of this many decimal digits, of which `scale` stand behind the point.
    Decimal {
        precision: u16,
        scale: u16,
    },
    Uuid,
}

impl Kind {
    /// Intervals, arrays, numbers without a precision, and types that Atoll does not have are
    /// texts.
    pub fn of(ty: Option<SqlType>) -> Kind {
        match ty {
            Some(SqlType::Bool) => Kind::Bool,
            Some(SqlType::Int2) => Kind::Int32 { bits: 16 },
            Some(SqlType::Int4) => Kind::Int32 { bits: 32 },
            Some(SqlType::Int8 | SqlType::Oid) => Kind::Int64,
            Some(SqlType::Float4) => Kind::Float,
            Some(SqlType::Float8) => Kind::Double,
            Some(SqlType::Numeric(Some((precision, scale))))
                if (1..=DECIMAL_DIGITS).contains(&precision) && scale <= precision =>
            {
                Kind::Decimal { precision, scale }
            }
            Some(SqlType::Bytea) => Kind::Bytes,
            Some(SqlType::Date) => Kind::Date,
            Some(SqlType::Time) => Kind::Time,
            Some(SqlType::Timestamp) => Kind::Timestamp { utc: false },
            Some(SqlType::TimestampTz) => Kind::Timestamp { utc: true },
            Some(SqlType::Uuid) => Kind::Uuid,
            Some(SqlType::Json | SqlType::Jsonb) => Kind::Json,
            _ => Kind::Text,
        }
    }

    /// The column of a file.
    ///
    /// # Errors
    /// None but a mistake in this function.
    pub fn column(self, name: &str) -> Result<TypePtr, ParquetError> {
        let (physical, logical) = match self {
            Kind::Bool => (Physical::BOOLEAN, None),
            Kind::Int32 { bits } => (Physical::INT32, Some(LogicalType::integer(bits, true))),
            Kind::Int64 => (Physical::INT64, Some(LogicalType::integer(64, true))),
            Kind::Float => (Physical::FLOAT, None),
            Kind::Double => (Physical::DOUBLE, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Json => (Physical::BYTE_ARRAY, Some(LogicalType::Json)),
            Kind::Bytes => (Physical::BYTE_ARRAY, None),
            Kind::Date => (Physical::INT32, Some(LogicalType::Date)),
            Kind::Time => (Physical::INT64, Some(LogicalType::time(false, TimeUnit::MICROS))),
            Kind::Timestamp { utc } => (Physical::INT64, Some(LogicalType::timestamp(utc, TimeUnit::MICROS))),
            Kind::Decimal { precision, scale } => {
                let logical = LogicalType::decimal(scale.into(), precision.into());
                (Physical::FIXED_LEN_BYTE_ARRAY, Some(logical))
            }
            Kind::Uuid => (Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Uuid)),
        };
        let mut column = Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical);
        match self {
            Kind::Decimal { precision, scale } => {
                column = column.with_length(decimal_bytes(precision) as i32);
                column = column.with_precision(precision.into()).with_scale(scale.into());
            }
            Kind::Uuid => column = column.with_length(16),
            _ => {}
        }
        column.build().map(Arc::new)
    }
}

/// The bytes of a number of this many digits, and its sign.
pub fn decimal_bytes(precision: u16) -> usize {
    let greatest = 10_i128.pow(u32::from(precision.min(DECIMAL_DIGITS))) - 1;
    let bits = i128::BITS - greatest.leading_zeros() + 1;
    bits.div_ceil(8) as usize
}

/// Whether a type takes values of this shape. A value that goes through a text is checked by the
/// server, value by value.
pub fn takes(ty: Option<SqlType>, shape: Shape) -> bool {
    let Some(ty) = ty else { return shape != Shape::Bytes };
    let is_text = matches!(
        ty,
        SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Name | SqlType::Unknown
    );
    let is_number = matches!(
        ty,
        SqlType::Int2
            | SqlType::Int4
            | SqlType::Int8
            | SqlType::Oid
            | SqlType::Float4
            | SqlType::Float8
            | SqlType::Numeric(_)
    );
    is_text
        || match shape {
            Shape::Null => true,
            Shape::Bool => ty == SqlType::Bool,
            Shape::Int { .. } | Shape::Float | Shape::Decimal { .. } => is_number,
            Shape::Date => matches!(ty, SqlType::Date | SqlType::Timestamp | SqlType::TimestampTz),
            Shape::Time(_) => ty == SqlType::Time,
            Shape::Timestamp { .. } | Shape::Int96 => {
                matches!(ty, SqlType::Timestamp | SqlType::TimestampTz)
            }
            // Text for bytes would be read with its escapes.
            Shape::Text => ty != SqlType::Bytea,
            Shape::Bytes => matches!(ty, SqlType::Bytea | SqlType::Uuid | SqlType::Json | SqlType::Jsonb),
            Shape::Uuid => ty == SqlType::Uuid,
            Shape::Interval => ty == SqlType::Interval,
        }
}
