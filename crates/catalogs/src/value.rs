//! Values and types of the catalogs' queries.
//!
//! The catalogs have arrays and types of their own (`regclass`, `"char"`), which tables of users do
//! not. So their queries have values of their own. A type is PostgreSQL's number of it.

use sql::{Datum, Element, SqlError, SqlType};
use std::cmp::Ordering;

#[derive(Clone, PartialEq, Debug, Default)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Array(Vec<Value>),
    /// A row of named values.
    Record(Vec<(String, Value)>),
}

/// PostgreSQL's number of a type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Type(pub u32);

impl Type {
    pub const BOOL: Type = Type(16);
    pub const CHAR: Type = Type(18);
    pub const NAME: Type = Type(19);
    pub const INT8: Type = Type(20);
    pub const INT2: Type = Type(21);
    pub const INT2_VECTOR: Type = Type(22);
    pub const INT4: Type = Type(23);
    pub const REGPROC: Type = Type(24);
    pub const TEXT: Type = Type(25);
    pub const OID: Type = Type(26);
    pub const OID_VECTOR: Type = Type(30);
    pub const NODE_TREE: Type = Type(194);
    pub const FLOAT4: Type = Type(700);
    pub const FLOAT8: Type = Type(701);
    pub const UNKNOWN: Type = Type(705);
    pub const VARCHAR: Type = Type(1043);
    pub const TIMESTAMPTZ: Type = Type(1184);
    pub const REGCLASS: Type = Type(2205);
    pub const REGTYPE: Type = Type(2206);
    pub const RECORD: Type = Type(2249);
    pub const REGNAMESPACE: Type = Type(4089);
    pub const REGROLE: Type = Type(4096);

    /// The type of the elements of an array; `None` for other types.
    pub fn element(self) -> Option<Type> {
        ARRAYS.iter().find(|(array, _)| *array == self.0).map(|(_, element)| Type(*element))
    }

    /// The type of an array of these.
    pub fn array(self) -> Type {
        let known = ARRAYS.iter().find(|(array, element)| *element == self.0 && !matches!(array, 22 | 30));
        known.map_or(Type(1009), |(array, _)| Type(*array))
    }

    pub fn is_integer(self) -> bool {
        matches!(self, Type::INT2 | Type::INT4 | Type::INT8)
    }

    pub fn is_text(self) -> bool {
        matches!(
            self,
            Type::TEXT
                | Type::NAME
                | Type::VARCHAR
                | Type::UNKNOWN
                | Type::CHAR
                | Type::NODE_TREE
                | Type(1042)
        )
    }

    /// Types of which the values are numbers of objects, and are written as their names.
    pub fn is_name_of_object(self) -> bool {
        matches!(self, Type::REGCLASS | Type::REGTYPE | Type::REGPROC | Type::REGNAMESPACE | Type::REGROLE)
    }

    /// How a client gets values of the type, and the number that it is told if that differs.
    pub fn sql(self) -> (SqlType, Option<u32>) {
        let ty = match self {
            Type::BOOL => SqlType::Bool,
            Type::INT2 => SqlType::Int2,
            Type::INT4 => SqlType::Int4,
            Type::INT8 => SqlType::Int8,
            Type::OID => SqlType::Oid,
            Type::FLOAT4 => SqlType::Float4,
            Type::FLOAT8 => SqlType::Float8,
            Type::NAME => SqlType::Name,
            Type::TEXT | Type::UNKNOWN => SqlType::Text,
            Type::VARCHAR => SqlType::Varchar(None),
            other => match Element::of_array_number(other.0) {
                Some(element) => SqlType::Array(element),
                None => return (SqlType::Text, Some(other.0)),
            },
        };
        (ty, None)
    }
}

/// Arrays, and the types of their elements.
const ARRAYS: [(u32, u32); 22] = [
    (22, 21),
    (30, 26),
    (1000, 16),
    (1002, 18),
    (1003, 19),
    (1005, 21),
    (1007, 23),
    (1008, 24),
    (1009, 25),
    (1015, 1043),
    (1016, 20),
    (1021, 700),
    (1022, 701),
    (1028, 26),
    (1034, 1033),
    (1185, 1184),
    (1231, 1700),
    (2210, 2205),
    (2211, 2206),
    (2287, 2249),
    (199, 114),
    (3807, 3802),
];

impl Value {
    pub fn text(text: impl Into<String>) -> Value {
        Value::Text(text.into())
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    pub fn is_true(&self) -> bool {
        matches!(self, Value::Bool(true))
    }

    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(v) => Some(*v),
            Value::Float(v) => Some(*v as i64),
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// As text, as PostgreSQL writes it.
    pub fn to_text(&self) -> String {
        match self {
            Value::Null => String::new(),
            Value::Bool(v) => if *v { "t" } else { "f" }.into(),
            Value::Int(v) => v.to_string(),
            Value::Float(v) => v.to_string(),
            Value::Text(text) => text.clone(),
            Value::Array(items) => array_text(items),
            Value::Record(fields) => {
                let parts: Vec<String> = fields.iter().map(|(_, value)| value.to_text()).collect();
                format!("({})", parts.join(","))
            }
        }
    }

    /// The value as a client gets it.
    pub fn datum(&self, ty: Type) -> Datum {
        match (self, ty.sql().0) {
            (Value::Null, _) => Datum::Null,
            (Value::Bool(v), SqlType::Bool) => Datum::Bool(*v),
            (Value::Int(v), SqlType::Int2 | SqlType::Int4 | SqlType::Int8 | SqlType::Oid) => Datum::Int(*v),
            (Value::Int(v), SqlType::Float4 | SqlType::Float8) => Datum::Float(*v as f64),
            (Value::Float(v), SqlType::Float4 | SqlType::Float8) => Datum::Float(*v),
            (Value::Array(items), _) if matches!(ty, Type::INT2_VECTOR | Type::OID_VECTOR) => {
                let parts: Vec<String> = items.iter().map(Value::to_text).collect();
                Datum::Text(parts.join(" "))
            }
            (value, _) => Datum::Text(value.to_text()),
        }
    }

    /// A parameter that a client has given.
    pub fn of_datum(datum: &Datum, ty: SqlType) -> Value {
        match datum {
            Datum::Null => Value::Null,
            Datum::Bool(v) => Value::Bool(*v),
            Datum::Int(v) => Value::Int(*v),
            Datum::Float(v) => Value::Float(*v),
            Datum::Text(text) if matches!(ty, SqlType::Array(_)) => {
                read_array(text).map_or_else(|_| Value::Text(text.clone()), Value::Array)
            }
            Datum::Text(text) => Value::Text(text.clone()),
            other => Value::Text(sql::text::to_string(ty, other)),
        }
    }
}

fn array_text(items: &[Value]) -> String {
    let one = |item: &Value| match item {
        Value::Null => "NULL".to_owned(),
        Value::Array(inner) => array_text(inner),
        other => {
            let text = other.to_text();
            let is_plain = !text.is_empty()
                && !text.eq_ignore_ascii_case("null")
                && !text.contains(|c: char| "{},\"\\".contains(c) || c.is_whitespace());
            if is_plain { text } else { format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")) }
        }
    };
    let parts: Vec<String> = items.iter().map(one).collect();
    format!("{{{}}}", parts.join(","))
}

/// The elements of an array in text form.
///
/// # Errors
/// `22P02`.
pub fn read_array(text: &str) -> Result<Vec<Value>, SqlError> {
    let elements = compiler::arrays::elements(text)?;
    Ok(elements.into_iter().map(|element| element.map_or(Value::Null, Value::Text)).collect())
}

/// The order of two values that are not null.
pub fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let pairs = a.iter().zip(b).map(|(a, b)| compare_nulls_last(a, b));
            pairs.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Record(a), Value::Record(b)) => {
            let pairs = a.iter().zip(b).map(|((_, a), (_, b))| compare_nulls_last(a, b));
            pairs.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
            let number = |value: &Value| match value {
                Value::Int(v) => *v as f64,
                Value::Float(v) => *v,
                _ => 0.0,
            };
            number(a).total_cmp(&number(b))
        }
        // A literal beside a number or a truth value.
        (Value::Int(_), Value::Text(text)) => match text.trim().parse() {
            Ok(number) => compare(a, &Value::Int(number)),
            Err(_) => a.to_text().cmp(text),
        },
        (Value::Text(_), Value::Int(_)) => compare(b, a).reverse(),
        (Value::Bool(a), Value::Text(text)) => a.cmp(&matches!(text.as_str(), "t" | "true" | "on" | "1")),
        (Value::Text(_), Value::Bool(_)) => compare(b, a).reverse(),
        (a, b) => a.to_text().cmp(&b.to_text()),
    }
}

/// As [`compare`], with nulls equal to each other and after all others.
pub fn compare_nulls_last(a: &Value, b: &Value) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => compare(a, b),
    }
}

/// The bytes by which values are found again: equal for equal values.
pub fn key(value: &Value) -> String {
    match value {
        Value::Null => "n".into(),
        Value::Bool(v) => if *v { "bt" } else { "bf" }.into(),
        value => format!("v{}", value.to_text()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_written_and_read_as_postgresql_does() {
        let items = vec![Value::text("a"), Value::Null, Value::text("b \"c\""), Value::text("")];
        let text = Value::Array(items.clone()).to_text();
        assert_eq!(text, r#"{a,NULL,"b \"c\"",""}"#);
        assert_eq!(read_array(&text).unwrap(), items);
        assert!(read_array("a,b").is_err());
    }
}
