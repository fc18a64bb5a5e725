//! Columns and their defaults.

use super::{Rows, World, indexes, number_of, types};
use crate::system;
use crate::value::{Type, Value};
use sql::SqlType;
use sql::catalog::{Column, Table};

fn number(v: impl Into<i64>) -> Value {
    Value::Int(v.into())
}

/// A column of any class: its class, name, position from 1, type and modifier.
struct Attribute<'a> {
    class: i64,
    name: &'a str,
    at: i64,
    ty: (u32, i64),
    not_null: bool,
    has_default: bool,
    dropped: bool,
}

pub fn attributes(world: &World<'_>, rows: &mut Rows<'_>) {
    for table in world.catalog.tables.values() {
        for (column, at) in table.columns.iter().zip(1..) {
            let dropped_name = format!("........pg.dropped.{at}........");
            add(
                (world, rows),
                Attribute {
                    class: table.oid.0.into(),
                    name: if column.dropped { &dropped_name } else { &column.name },
                    at,
                    ty: if column.dropped { (0, -1) } else { number_of(column.ty) },
                    not_null: !column.nullable && !column.dropped,
                    has_default: column.default.is_some() && !column.dropped,
                    dropped: column.dropped,
                },
            );
        }
    }
    for view in world.catalog.views() {
        for (column, at) in view.params.iter().zip(1..) {
            let (class, ty) = (view.oid.0.into(), number_of(column.ty));
            let name = &column.name;
            add(
                (world, rows),
                Attribute { class, name, at, ty, not_null: false, has_default: false, dropped: false },
            );
        }
    }
    for index in indexes(world.catalog) {
        for (position, at) in index.columns.iter().zip(1..) {
            let Some(column) = index.table.columns.get(usize::from(*position)) else { continue };
            let ty = number_of(column.ty);
            let (class, name) = (index.number, column.name.as_str());
            add(
                (world, rows),
                Attribute { class, name, at, ty, not_null: false, has_default: false, dropped: false },
            );
        }
    }
    for sequence in world.catalog.sequences.values() {
        for (name, at, ty) in
            [("last_value", 1, Type::INT8), ("log_cnt", 2, Type::INT8), ("is_called", 3, Type::BOOL)]
        {
            let (class, ty) = (sequence.oid.0.into(), (ty.0, -1));
            add(
                (world, rows),
                Attribute { class, name, at, ty, not_null: true, has_default: false, dropped: false },
            );
        }
    }
    for relation in world.relations.iter() {
        // The last one is `tableoid`.
        let columns = &relation.columns[..relation.columns.len() - 1];
        for ((name, ty), at) in columns.iter().zip(1..) {
            let (class, ty) = (relation.number, (ty.0, -1));
            add(
                (world, rows),
                Attribute { class, name, at, ty, not_null: false, has_default: false, dropped: false },
            );
        }
    }
}

fn add((world, rows): (&World<'_>, &mut Rows<'_>), of: Attribute<'_>) {
    let (length, align, storage, collation) = types::layout_of(world.catalog, of.ty.0);
    let own = || matches!(world.catalog.type_of(of.ty.0), Some(SqlType::Array(_)));
    let is_array = sql::Element::of_array_number(of.ty.0).is_some() || own();
    rows.add(&[
        ("attrelid", number(of.class)),
        ("attname", Value::text(of.name)),
        ("atttypid", number(of.ty.0)),
        ("attstattarget", number(-1)),
        ("attlen", number(length)),
        ("attnum", number(of.at)),
        ("attndims", number(i32::from(is_array))),
        ("attcacheoff", number(-1)),
        ("atttypmod", number(of.ty.1)),
        ("attalign", Value::text(align)),
        ("attstorage", Value::text(storage)),
        ("attnotnull", Value::Bool(of.not_null)),
        ("atthasdef", Value::Bool(of.has_default)),
        ("attisdropped", Value::Bool(of.dropped)),
        ("attislocal", Value::Bool(true)),
        ("attcollation", number(collation)),
    ]);
}

/// A column's default: its number, table, position from 1, column and text.
pub type Default<'a> = (i64, &'a Table, i64, &'a Column, String);

pub fn all_defaults<'a>(world: &'a World<'_>) -> impl Iterator<Item = Default<'a>> {
    let of_table = move |table: &'a Table| {
        let columns = table.columns.iter().zip(1..).filter(|(column, _)| !column.dropped);
        columns.filter_map(move |(column, at)| {
            let text = system::default_text(world, column)?;
            Some((table, at, column, text))
        })
    };
    let all = world.catalog.tables.values().flat_map(of_table);
    all.zip(FIRST_DEFAULT..).map(|((table, at, column, text), number)| (number, table, at, column, text))
}

pub fn defaults(world: &World<'_>, rows: &mut Rows<'_>) {
    for (oid, table, at, _, text) in all_defaults(world) {
        rows.add(&[
            ("oid", number(oid)),
            ("adrelid", number(table.oid.0)),
            ("adnum", number(at)),
            ("adbin", Value::Text(text)),
        ]);
    }
}

/// Numbers of defaults: above those of all other objects but the indexes of keys.
const FIRST_DEFAULT: i64 = 1_000_000_000;
