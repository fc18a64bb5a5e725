//! The types of SQL values.

use crate::Enum;
use serde::{Deserialize, Serialize};

/// A type as a column or a parameter has it. Names and limits are PostgreSQL's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum SqlType {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    /// Precision and scale, in decimal digits; `None` for any.
    Numeric(Option<(u16, u16)>),
    /// Blank-padded to this many characters; 0 for any number, without blanks (the type of a
    /// parameter that is compared with a padded column).
    Char(u32),
    /// At most this many characters; `None` for any.
    Varchar(Option<u32>),
    Text,
    Bytea,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    Interval,
    Uuid,
    Json,
    Jsonb,
    /// Names of catalog objects, at most 63 bytes.
    Name,
    /// Numbers of catalog objects.
    Oid,
    /// A literal or parameter of which the type is not known yet; text in form.
    Unknown,
    /// An array of one dimension. Its values are texts ([`crate::array`]).
    Array(Element),
    /// Labels in an order. Its values are integers ([`crate::enumeration`]).
    Enum(Enum),
}

/// The type of an array's elements: one without a length or precision.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Element {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Numeric,
    Char,
    Varchar,
    Text,
    Bytea,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    Interval,
    Uuid,
    Json,
    Jsonb,
    Name,
    Oid,
    Enum(Enum),
}

/// Each element but the enumerations, with its type, PostgreSQL's number of that, and of its
/// arrays.
const ELEMENTS: [(Element, SqlType, u32, u32); 21] = [
    (Element::Bool, SqlType::Bool, 16, 1000),
    (Element::Int2, SqlType::Int2, 21, 1005),
    (Element::Int4, SqlType::Int4, 23, 1007),
    (Element::Int8, SqlType::Int8, 20, 1016),
    (Element::Float4, SqlType::Float4, 700, 1021),
    (Element::Float8, SqlType::Float8, 701, 1022),
    (Element::Numeric, SqlType::Numeric(None), 1700, 1231),
    (Element::Char, SqlType::Char(0), 1042, 1014),
    (Element::Varchar, SqlType::Varchar(None), 1043, 1015),
    (Element::Text, SqlType::Text, 25, 1009),
    (Element::Bytea, SqlType::Bytea, 17, 1001),
    (Element::Date, SqlType::Date, 1082, 1182),
    (Element::Time, SqlType::Time, 1083, 1183),
    (Element::Timestamp, SqlType::Timestamp, 1114, 1115),
    (Element::TimestampTz, SqlType::TimestampTz, 1184, 1185),
    (Element::Interval, SqlType::Interval, 1186, 1187),
    (Element::Uuid, SqlType::Uuid, 2950, 2951),
    (Element::Json, SqlType::Json, 114, 199),
    (Element::Jsonb, SqlType::Jsonb, 3802, 3807),
    (Element::Name, SqlType::Name, 19, 1003),
    (Element::Oid, SqlType::Oid, 26, 1028),
];

impl Element {
    /// The element of this type; `None` for arrays, unknown types, and types with a length.
    pub fn of(ty: SqlType) -> Option<Element> {
        match ty {
            SqlType::Enum(labels) => Some(Element::Enum(labels)),
            ty => ELEMENTS.iter().find(|known| known.1 == ty).map(|known| known.0),
        }
    }

    /// The element of the arrays of this number, enumerations aside.
    pub fn of_array_number(number: u32) -> Option<Element> {
        ELEMENTS.iter().find(|known| known.3 == number).map(|known| known.0)
    }

    pub fn ty(self) -> SqlType {
        self.known().0
    }

    /// PostgreSQL's number of the element's type.
    pub fn number(self) -> u32 {
        self.known().1
    }

    /// PostgreSQL's number of the type of its arrays.
    pub fn array_number(self) -> u32 {
        self.known().2
    }

    fn known(self) -> (SqlType, u32, u32) {
        if let Element::Enum(labels) = self {
            return (SqlType::Enum(labels), labels.oid.0, labels.array.0);
        }
        let known = ELEMENTS.iter().find(|known| known.0 == self);
        known.map_or((SqlType::Unknown, 0, 0), |known| (known.1, known.2, known.3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_element_has_its_type_and_numbers() {
        for (element, ty, number, array) in ELEMENTS {
            assert_eq!((element.ty(), Element::of(ty)), (ty, Some(element)));
            assert_eq!((element.number(), Element::of_array_number(array)), (number, Some(element)));
        }
    }
}
