//! The columns of the relations, as PostgreSQL 15 has them.

use super::Relation;
use crate::bind::type_named;
use crate::value::Type;

/// Name, number, columns: `char` is the type of one byte, a type holds for all names before it.
const PG_CATALOG: &str = include_str!("pg_catalog.txt");
const INFORMATION_SCHEMA: &str = include_str!("information_schema.txt");

pub fn read() -> Vec<Relation> {
    let all = [("pg_catalog", PG_CATALOG), ("information_schema", INFORMATION_SCHEMA)];
    let of = |(schema, text): (&'static str, &'static str)| {
        text.lines().filter(|line| !line.is_empty()).filter_map(move |line| relation(schema, line))
    };
    all.into_iter().flat_map(of).collect()
}

/// `pg_am 2601: oid oid, amname name`
fn relation(schema: &'static str, line: &'static str) -> Option<Relation> {
    let (head, list) = line.split_once(':')?;
    let (name, number) = head.split_once(' ')?;
    let mut columns: Vec<(String, Type)> = Vec::new();
    for part in list.split(',') {
        let (names, ty) = part.trim().rsplit_once(' ')?;
        let ty = match ty {
            "char" => Type::CHAR,
            "char[]" => Type::CHAR.array(),
            ty => type_named(ty).ok()?,
        };
        columns.extend(names.split_whitespace().map(|name| (name.to_owned(), ty)));
    }
    columns.push(("tableoid".into(), Type::OID));
    Some(Relation { schema, name, number: number.trim().parse().ok()?, columns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_relation() {
        let lines = PG_CATALOG.lines().chain(INFORMATION_SCHEMA.lines()).filter(|line| !line.is_empty());
        let all = read();
        assert_eq!(all.len(), lines.count());
        let mut numbers: Vec<i64> = all.iter().map(|relation| relation.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all.len());
    }
}
