//! Constraints: keys, uniqueness, checks, foreign keys.

use super::{PUBLIC, Rows, World, indexes, indexes_of};
use crate::value::Value;
use sql::catalog::{Catalog, ForeignKey, Reaction, Table};

#[derive(Clone, Copy)]
pub enum Kind<'a> {
    Primary,
    Unique,
    Check(&'a str),
    Foreign(&'a ForeignKey),
}

/// A constraint of a table.
pub struct Constraint<'a> {
    pub number: i64,
    pub name: &'a str,
    pub table: &'a Table,
    pub kind: Kind<'a>,
    pub columns: Vec<u16>,
    /// Of the index that enforces it, or to which it refers.
    pub index: i64,
}

/// Numbers of constraints: above those of other objects.
const FIRST: i64 = 1_500_000_000;

pub fn constraints(catalog: &Catalog) -> Vec<Constraint<'_>> {
    let mut all = Vec::new();
    for table in catalog.tables.values() {
        let mut add = |name, kind, columns: &[u16], index| {
            all.push(Constraint { number: 0, name, table, kind, columns: columns.to_vec(), index });
        };
        for index in indexes_of(table).into_iter().filter(|index| index.is_constraint) {
            let kind = if index.is_key { Kind::Primary } else { Kind::Unique };
            add(index.name, kind, index.columns, index.number);
        }
        for check in &table.checks {
            add(&check.name, Kind::Check(&check.text), &compiler::typed::columns(&check.condition), 0);
        }
        for key in &table.foreign_keys {
            let to = indexes(catalog).find(|index| {
                let same = |columns: &[u16]| columns.iter().all(|column| key.to_columns.contains(column));
                index.table.oid == key.to
                    && index.unique
                    && index.columns.len() == key.to_columns.len()
                    && same(index.columns)
            });
            add(&key.name, Kind::Foreign(key), &key.columns, to.map_or(0, |index| index.number));
        }
    }
    for (constraint, number) in all.iter_mut().zip(FIRST..) {
        constraint.number = number;
    }
    all
}

pub fn letter(reaction: Reaction) -> &'static str {
    match reaction {
        Reaction::Restrict => "a",
        Reaction::Cascade => "c",
        Reaction::SetNull => "n",
    }
}

pub fn fill(world: &World<'_>, rows: &mut Rows<'_>) {
    let positions =
        |columns: &[u16]| Value::Array(columns.iter().map(|c| Value::Int(i64::from(*c) + 1)).collect());
    for constraint in constraints(world.catalog) {
        let kind = match constraint.kind {
            Kind::Primary => "p",
            Kind::Unique => "u",
            Kind::Check(_) => "c",
            Kind::Foreign(_) => "f",
        };
        let mut values = vec![
            ("oid", Value::Int(constraint.number)),
            ("conname", Value::text(constraint.name)),
            ("connamespace", Value::Int(PUBLIC)),
            ("contype", Value::text(kind)),
            ("convalidated", Value::Bool(true)),
            ("conrelid", Value::Int(constraint.table.oid.0.into())),
            ("conindid", Value::Int(constraint.index)),
            ("confupdtype", Value::text(" ")),
            ("confdeltype", Value::text(" ")),
            ("confmatchtype", Value::text(" ")),
            ("conislocal", Value::Bool(true)),
            ("connoinherit", Value::Bool(kind != "c")),
            ("conkey", positions(&constraint.columns)),
        ];
        match constraint.kind {
            Kind::Foreign(key) => {
                values.push(("confrelid", Value::Int(key.to.0.into())));
                values.push(("confkey", positions(&key.to_columns)));
                values.push(("confmatchtype", Value::text("s")));
                values.push(("confupdtype", Value::text(letter(key.on_update))));
                values.push(("confdeltype", Value::text(letter(key.on_delete))));
            }
            Kind::Check(text) => values.push(("conbin", Value::text(text))),
            _ => {}
        }
        rows.add(&values);
    }
}
