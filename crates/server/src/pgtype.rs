//! The numbers of types in PostgreSQL's catalog, by which clients know them.

use crate::outgoing::Field;
use sql::catalog::Catalog;
use sql::{Element, SqlType};

/// The type that a client means by this number: `Ok(None)` if it leaves the choice to the server,
/// `Err` for a type that Atoll does not have.
pub fn of_number(catalog: &Catalog, number: u32) -> Result<Option<SqlType>, u32> {
    Ok(Some(match number {
        0 | 705 => return Ok(None),
        16 => SqlType::Bool,
        17 => SqlType::Bytea,
        19 => SqlType::Name,
        20 => SqlType::Int8,
        21 => SqlType::Int2,
        23 => SqlType::Int4,
        25 => SqlType::Text,
        26 => SqlType::Oid,
        114 => SqlType::Json,
        700 => SqlType::Float4,
        701 => SqlType::Float8,
        1042 => SqlType::Char(0),
        1043 => SqlType::Varchar(None),
        1082 => SqlType::Date,
        1083 => SqlType::Time,
        1114 => SqlType::Timestamp,
        1184 => SqlType::TimestampTz,
        1186 => SqlType::Interval,
        1700 => SqlType::Numeric(None),
        2950 => SqlType::Uuid,
        3802 => SqlType::Jsonb,
        other => match Element::of_array_number(other) {
            Some(element) => SqlType::Array(element),
            None => catalog.type_of(other).ok_or(other)?,
        },
    }))
}

/// The number of a type, and the size of its values in bytes (-1 if it varies).
pub fn number_and_size(ty: SqlType) -> (u32, i16) {
    match ty {
        SqlType::Bool => (16, 1),
        SqlType::Bytea => (17, -1),
        SqlType::Name => (19, 64),
        SqlType::Int8 => (20, 8),
        SqlType::Int2 => (21, 2),
        SqlType::Int4 => (23, 4),
        SqlType::Text | SqlType::Unknown => (25, -1),
        SqlType::Oid => (26, 4),
        SqlType::Json => (114, -1),
        SqlType::Float4 => (700, 4),
        SqlType::Float8 => (701, 8),
        SqlType::Char(_) => (1042, -1),
        SqlType::Varchar(_) => (1043, -1),
        SqlType::Date => (1082, 4),
        SqlType::Time => (1083, 8),
        SqlType::Timestamp => (1114, 8),
        SqlType::TimestampTz => (1184, 8),
        SqlType::Interval => (1186, 16),
        SqlType::Numeric(_) => (1700, -1),
        SqlType::Uuid => (2950, 16),
        SqlType::Jsonb => (3802, -1),
        SqlType::Array(element) => (element.array_number(), -1),
        SqlType::Enum(labels) => (labels.oid.0, 4),
    }
}

/// The type of the elements, if this is the number of an array's type.
pub fn of_elements(catalog: &Catalog, number: u32) -> Option<SqlType> {
    match of_number(catalog, number) {
        Ok(Some(SqlType::Array(element))) => Some(element.ty()),
        _ => None,
    }
}

/// The number of the type of arrays of a type.
pub fn array_number(ty: SqlType) -> u32 {
    Element::of(compiler::typed::without_length(ty)).unwrap_or(Element::Text).array_number()
}

pub fn number(ty: SqlType) -> u32 {
    number_and_size(ty).0
}

/// The type's modifier: length or precision and scale, 4 more than they are, as PostgreSQL stores
/// them; -1 for none.
fn modifier(ty: SqlType) -> i32 {
    match ty {
        SqlType::Char(length) if length > 0 => length as i32 + 4,
        SqlType::Varchar(Some(length)) => length as i32 + 4,
        SqlType::Numeric(Some((precision, scale))) => ((i32::from(precision) << 16) | i32::from(scale)) + 4,
        _ => -1,
    }
}

/// A column of a result.
pub fn field(name: &str, ty: SqlType, column: Option<(sql::catalog::Oid, u16)>) -> Field {
    let ((number, size), (table, column)) =
        (number_and_size(ty), column.map_or((0, 0), |(table, column)| (table.0, column)));
    Field { name: name.to_owned(), table, column, ty: number, size, modifier: modifier(ty) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_means_the_type_that_has_it() {
        for number in 0..5000 {
            if let Ok(Some(ty)) = of_number(&Catalog::default(), number) {
                assert_eq!(number_and_size(ty).0, number);
            }
        }
        for (element, array) in [(23, 1007), (1043, 1015), (1700, 1231)] {
            let ty = of_elements(&Catalog::default(), array).expect("a type of elements");
            assert_eq!((number(ty), array_number(ty)), (element, array));
        }
        assert_eq!(field("n", SqlType::Numeric(Some((12, 2))), None).modifier, (12 << 16 | 2) + 4);
    }
}
