//! From an encoded primary key to the number by which its table is divided, and back to a border
//! between sub-trees.
//!
//! One routing column is rarely enough: two warehouses make two partitions, for any number of
//! cores. So the routing key is a number in mixed radix over the leading columns of the primary
//! key. With `w_id` in 1..=2 and `d_id` in 1..=10, (2, 3) is 1 * 10 + 2 = 12 of 20. Since the
//! columns lead the key, routing keys are ordered like keys, and a range of routing keys is a range
//! of keys.

use base::{Key, KeyReader, TableId};
use std::ops::RangeInclusive;
use txn::schema::TableDef;

/// Routing keys are below this, so that arithmetic on them cannot overflow and sub-buckets keep
/// their width.
pub const MAX_DOMAIN: u64 = 1 << 56;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    #[error(
        "table '{table}' cannot be routed by '{column}': it is not in the primary key ({key}); name columns of the key"
    )]
    NotInKey { table: String, column: String, key: String },
    #[error(
        "table '{table}' is routed by its key's leading columns in order ({key}); found '{found}' where '{expected}' \
         belongs: other columns would scatter a range of keys over partitions"
    )]
    NotLeading { table: String, key: String, found: String, expected: String },
    #[error("column '{column}' of table '{table}' is no integer: only integers can be divided evenly")]
    NotInteger { table: String, column: String },
    #[error(
        "table '{table}' needs at least one routing column, with at least one value: name a leading key column"
    )]
    Nothing { table: String },
    #[error("table '{table}' would have more than 2^56 routing keys: use fewer columns or narrower extents")]
    TooMany { table: String },
    #[error(
        "a key of {found} bytes for table {table} lacks routing column {column}: expected {expected} bytes or more"
    )]
    ShortKey { table: TableId, column: usize, found: usize, expected: usize },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Digit {
    first: i64,
    count: u64,
}

/// The function from a table's keys to routing keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routing {
    table: TableId,
    digits: Vec<Digit>,
    domain: u64,
}

impl Routing {
    /// `columns` are the table's leading key columns with the range of values they usually take. A
    /// value outside counts as the nearest inside, so that every key has a routing key.
    pub fn new(def: &TableDef, columns: &[(&str, RangeInclusive<i64>)]) -> Result<Routing, RoutingError> {
        let key: Vec<&str> = def.key.iter().map(|&c| def.columns[c as usize].name.as_str()).collect();
        let mut digits = Vec::new();
        let mut domain = 1u64;
        for (i, (column, extent)) in columns.iter().enumerate() {
            let place = leads(def, &key, i, column)?;
            if !def.columns[place as usize].ty.is_number() {
                return Err(RoutingError::NotInteger {
                    table: def.name.clone(),
                    column: (*column).to_owned(),
                });
            }
            let digit = Digit { first: *extent.start(), count: values(extent) };
            domain = times(domain, digit.count)
                .ok_or_else(|| RoutingError::TooMany { table: def.name.clone() })?;
            digits.push(digit);
        }
        if digits.is_empty() || domain == 0 {
            return Err(RoutingError::Nothing { table: def.name.clone() });
        }
        Ok(Routing { table: def.id, digits, domain })
    }

    /// Number of routing keys.
    pub fn domain(&self) -> u64 {
        self.domain
    }

    /// The routing key of an encoded primary key, or of a prefix with all routing columns.
    pub fn route(&self, key: &[u8]) -> Result<u64, RoutingError> {
        let mut reader = KeyReader::new(key);
        let mut route = 0;
        for (column, digit) in self.digits.iter().enumerate() {
            let value = reader.i64().ok_or(RoutingError::ShortKey {
                table: self.table,
                column,
                found: key.len(),
                expected: 8 * self.digits.len(),
            })?;
            let rest: u64 = self.digits[column + 1..].iter().map(|d| d.count).product();
            let offset = i128::from(value) - i128::from(digit.first);
            if offset < 0 {
                return Ok(route);
            }
            if offset >= i128::from(digit.count) {
                return Ok(route + digit.count * rest - 1);
            }
            route += offset as u64 * rest;
        }
        Ok(route)
    }

    /// The smallest encoded key with routing key `route`: the first key of a sub-tree. Routing key
    /// 0 begins with the empty key, since it includes keys below all ranges of values.
    pub fn border(&self, route: u64) -> Key {
        if route == 0 {
            return Key::new();
        }
        let mut rest = self.domain;
        let mut left = route.min(self.domain - 1);
        let mut key = Key::new();
        for digit in &self.digits {
            rest /= digit.count;
            key = key.i64(digit.first.wrapping_add_unsigned(left / rest));
            left %= rest;
        }
        key
    }
}

/// The position in the row of the `i`-th routing column, which must be the `i`-th column of the
/// key.
fn leads(def: &TableDef, key: &[&str], i: usize, column: &str) -> Result<u16, RoutingError> {
    if !key.contains(&column) {
        return Err(RoutingError::NotInKey {
            table: def.name.clone(),
            column: column.to_owned(),
            key: key.join(", "),
        });
    }
    let expected = key.get(i).copied().unwrap_or("none");
    if expected != column {
        return Err(RoutingError::NotLeading {
            table: def.name.clone(),
            key: key.join(", "),
            found: column.to_owned(),
            expected: expected.to_owned(),
        });
    }
    Ok(def.key[i])
}

fn values(extent: &RangeInclusive<i64>) -> u64 {
    let count = i128::from(*extent.end()) - i128::from(*extent.start()) + 1;
    u64::try_from(count.max(0)).unwrap_or(u64::MAX)
}

fn times(a: u64, b: u64) -> Option<u64> {
    a.checked_mul(b).filter(|&product| product <= MAX_DOMAIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use txn::schema::{Column, TableKind, Type};

    fn district() -> TableDef {
        let int = |name| Column::new(name, Type::I32);
        TableDef {
            id: TableId(3),
            name: "district".into(),
            columns: vec![int("d_id"), int("w_id"), Column::new("d_name", Type::Text(10)), int("tax")],
            key: vec![1, 0, 2],
            indexes: Vec::new(),
            domain: 2,
            kind: TableKind::Heap,
        }
    }

    #[test]
    fn two_columns_make_twenty_routing_keys_in_order() {
        let routing = Routing::new(&district(), &[("w_id", 1..=2), ("d_id", 1..=10)]).unwrap();
        assert_eq!(routing.domain(), 20);
        let mut expected = 0;
        for w in 1..=2 {
            for d in 1..=10 {
                let key = Key::new().i64(w).i64(d).str("name");
                assert_eq!(routing.route(&key), Ok(expected));
                let border = routing.border(expected);
                assert!(border.as_slice() <= key.as_slice());
                assert!(expected == 0 || routing.route(&border) == Ok(expected));
                expected += 1;
            }
        }
    }

    #[test]
    fn what_lies_outside_the_extents_stays_in_order() {
        let routing = Routing::new(&district(), &[("w_id", 1..=2), ("d_id", 1..=10)]).unwrap();
        let of = |w, d| routing.route(&Key::new().i64(w).i64(d)).unwrap();
        let mut last = 0;
        for w in -1..=4 {
            for d in [i64::MIN, -5, 0, 1, 5, 10, 11, i64::MAX] {
                let route = of(w, d);
                assert!(route >= last && route < 20, "({w}, {d})");
                last = route;
            }
        }
        assert_eq!((of(0, 5), of(1, 11), of(2, -3), of(3, 1)), (0, 9, 10, 19));
    }

    #[test]
    fn columns_that_cannot_route_are_named() {
        let new = |columns: &[(&str, RangeInclusive<i64>)]| {
            Routing::new(&district(), columns).unwrap_err().to_string()
        };
        assert!(new(&[("tax", 0..=9)]).contains("'tax': it is not in the primary key (w_id, d_id, d_name)"));
        assert!(new(&[("d_id", 1..=10)]).contains("found 'd_id' where 'w_id'"));
        assert!(new(&[("w_id", 1..=2), ("d_id", 1..=1), ("d_name", 0..=1)]).contains("no integer"));
        #[expect(clippy::reversed_empty_ranges, reason = "an extent without values is what is tested")]
        let empty = new(&[("w_id", 2..=1)]);
        assert!(empty.contains("at least one value") && new(&[]).contains("at least one routing column"));
        assert!(new(&[("w_id", 0..=i64::MAX), ("d_id", 1..=10)]).contains("2^56"));
        let routing = Routing::new(&district(), &[("w_id", 1..=2), ("d_id", 1..=10)]).unwrap();
        let short = routing.route(&Key::new().i64(1)).unwrap_err().to_string();
        assert!(short.contains("8 bytes for table 3 lacks routing column 1"), "{short}");
    }
}
