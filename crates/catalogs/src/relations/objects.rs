//! Classes, indexes, sequences, and the relations with the same rows in each database.

use super::columns::all_defaults;
use super::{
    BTREE, COLLATION, HEAP, INFORMATION_SCHEMA, OWNER, PG_CATALOG, PUBLIC, Rows, World, indexes, indexes_of,
};
use crate::system;
use crate::value::Value;
use sql::catalog::ColumnDefault;

fn number(v: impl Into<i64>) -> Value {
    Value::Int(v.into())
}

fn text(v: &str) -> Value {
    Value::text(v)
}

pub fn classes(world: &World<'_>, rows: &mut Rows<'_>) {
    let class = |oid: i64, name: &str, kind: &str, namespace: i64, columns: usize, access: i64| {
        vec![
            ("oid", number(oid)),
            ("relname", text(name)),
            ("relnamespace", number(namespace)),
            ("relowner", number(OWNER)),
            ("relam", number(access)),
            ("relfilenode", number(oid)),
            ("reltuples", Value::Float(-1.0)),
            ("relpersistence", text("p")),
            ("relkind", text(kind)),
            ("relnatts", number(columns as i64)),
            ("relispopulated", Value::Bool(true)),
            ("relreplident", text(if kind == "r" { "d" } else { "n" })),
        ]
    };
    for table in world.catalog.tables.values() {
        let mut values = class(table.oid.0.into(), &table.name, "r", PUBLIC, table.columns.len(), HEAP);
        values.push(("relhasindex", Value::Bool(!indexes_of(table).is_empty())));
        values.push(("relchecks", number(table.checks.len() as i64)));
        let refers = |other: &sql::catalog::Table| other.foreign_keys.iter().any(|key| key.to == table.oid);
        let is_referred = world.catalog.tables.values().any(refers);
        values.push(("reloptions", super::placement::options(table)));
        values.push(("relhastriggers", Value::Bool(is_referred || !table.foreign_keys.is_empty())));
        rows.add(&values);
    }
    for index in indexes(world.catalog) {
        rows.add(&class(index.number, index.name, "i", PUBLIC, index.columns.len(), BTREE));
    }
    for sequence in world.catalog.sequences.values() {
        rows.add(&class(sequence.oid.0.into(), &sequence.name, "S", PUBLIC, 3, 0));
    }
    for view in world.catalog.views() {
        rows.add(&class(view.oid.0.into(), &view.name, "v", PUBLIC, view.params.len(), 0));
    }
    for relation in world.relations.iter() {
        let (namespace, kind) = match relation.schema {
            "pg_catalog" if relation.number < 12_000 => (PG_CATALOG, "r"),
            "pg_catalog" => (PG_CATALOG, "v"),
            _ => (INFORMATION_SCHEMA, "v"),
        };
        let access = if kind == "r" { HEAP } else { 0 };
        rows.add(&class(relation.number, relation.name, kind, namespace, relation.columns.len() - 1, access));
    }
}

pub fn positions(columns: &[u16]) -> Vec<Value> {
    columns.iter().map(|column| number(*column + 1)).collect()
}

/// `pg_index`.
pub fn pg_index(world: &World<'_>, rows: &mut Rows<'_>) {
    for index in indexes(world.catalog) {
        let types = index.columns.iter().map(|at| {
            let ty = index.table.columns.get(usize::from(*at)).map(|column| column.ty);
            i64::from(ty.map_or(0, |ty| super::number_of(ty).0))
        });
        let types: Vec<i64> = types.collect();
        let collation = |ty: &i64| number(if matches!(ty, 25 | 1042 | 1043) { COLLATION } else { 0 });
        let count = number(index.columns.len() as i64);
        rows.add(&[
            ("indexrelid", number(index.number)),
            ("indrelid", number(index.table.oid.0)),
            ("indnatts", count.clone()),
            ("indnkeyatts", count),
            ("indisunique", Value::Bool(index.unique)),
            ("indisprimary", Value::Bool(index.is_key)),
            ("indimmediate", Value::Bool(true)),
            ("indisvalid", Value::Bool(true)),
            ("indisready", Value::Bool(true)),
            ("indislive", Value::Bool(true)),
            ("indkey", Value::Array(positions(index.columns))),
            ("indcollation", Value::Array(types.iter().map(collation).collect())),
            ("indclass", Value::Array(types.iter().map(|ty| number(CLASSES + ty)).collect())),
            ("indoption", Value::Array(types.iter().map(|_| number(0)).collect())),
        ]);
    }
}

/// What makes the number of an operator class from that of its type.
const CLASSES: i64 = 20_000_000;

pub fn sequences(world: &World<'_>, rows: &mut Rows<'_>) {
    for sequence in world.catalog.sequences.values() {
        rows.add(&[
            ("seqrelid", number(sequence.oid.0)),
            ("seqtypid", number(super::number_of(sequence.ty).0)),
            ("seqstart", number(sequence.start)),
            ("seqincrement", number(sequence.increment)),
            ("seqmax", number(sequence.max)),
            ("seqmin", number(sequence.min)),
            ("seqcache", number(1)),
            ("seqcycle", Value::Bool(sequence.cycle)),
        ]);
    }
}

pub fn sequence_list(world: &World<'_>, rows: &mut Rows<'_>) {
    for sequence in world.catalog.sequences.values() {
        rows.add(&[
            ("schemaname", text("public")),
            ("sequencename", text(&sequence.name)),
            ("sequenceowner", text(&world.facts.user)),
            ("data_type", number(super::number_of(sequence.ty).0)),
            ("start_value", number(sequence.start)),
            ("min_value", number(sequence.min)),
            ("max_value", number(sequence.max)),
            ("increment_by", number(sequence.increment)),
            ("cycle", Value::Bool(sequence.cycle)),
            ("cache_size", number(1)),
            ("last_value", Value::Null),
        ]);
    }
}

/// A sequence of a serial column is dropped with it.
pub fn dependencies(world: &World<'_>, rows: &mut Rows<'_>) {
    for sequence in world.catalog.sequences.values() {
        let Some((table, column)) = sequence.owned_by else { continue };
        rows.add(&[
            ("classid", number(1259)),
            ("objid", number(sequence.oid.0)),
            ("refclassid", number(1259)),
            ("refobjid", number(table.0)),
            ("refobjsubid", number(column + 1)),
            ("deptype", text("a")),
        ]);
    }
    // A default depends on its column, and on the sequence that it takes numbers from.
    for (oid, table, at, column, _) in all_defaults(world) {
        let of = |to: u32, at: i64, kind: &str| {
            [
                ("classid", number(ATTRDEF)),
                ("objid", number(oid)),
                ("refclassid", number(1259)),
                ("refobjid", number(to)),
                ("refobjsubid", number(at)),
                ("deptype", text(kind)),
            ]
        };
        rows.add(&of(table.oid.0, at, "a"));
        if let Some(ColumnDefault::Next(sequence)) = &column.default {
            rows.add(&of(sequence.0, 0, "n"));
        }
    }
}

/// The number of `pg_attrdef`.
const ATTRDEF: i64 = 2604;

pub fn tables(world: &World<'_>, rows: &mut Rows<'_>) {
    for table in world.catalog.tables.values() {
        rows.add(&[
            ("schemaname", text("public")),
            ("tablename", text(&table.name)),
            ("tableowner", text(&world.facts.user)),
            ("hasindexes", Value::Bool(!indexes_of(table).is_empty())),
        ]);
    }
}

/// `pg_views`.
pub fn views(world: &World<'_>, rows: &mut Rows<'_>) {
    for view in world.catalog.views() {
        rows.add(&[
            ("schemaname", text("public")),
            ("viewname", text(&view.name)),
            ("viewowner", text(&world.facts.user)),
            ("definition", Value::Text(format!("{};", view.body))),
        ]);
    }
}

pub fn index_texts(world: &World<'_>, rows: &mut Rows<'_>) {
    for index in indexes(world.catalog) {
        rows.add(&[
            ("schemaname", text("public")),
            ("tablename", text(&index.table.name)),
            ("indexname", text(index.name)),
            ("indexdef", Value::Text(system::index_definition(&index))),
        ]);
    }
}

/// Relations with few rows, the same in each database.
pub fn fixed(world: &World<'_>, rows: &mut Rows<'_>) {
    match rows.relation.name {
        "pg_namespace" => {
            for (oid, name) in
                [(PG_CATALOG, "pg_catalog"), (PUBLIC, "public"), (INFORMATION_SCHEMA, "information_schema")]
            {
                rows.add(&[("oid", number(oid)), ("nspname", text(name)), ("nspowner", number(OWNER))]);
            }
        }
        "pg_am" => {
            rows.add(&[("oid", number(HEAP)), ("amname", text("heap")), ("amtype", text("t"))]);
            rows.add(&[("oid", number(BTREE)), ("amname", text("btree")), ("amtype", text("i"))]);
        }
        "pg_database" => rows.add(&[
            ("oid", number(5)),
            ("datname", text(&world.facts.database)),
            ("datdba", number(OWNER)),
            ("encoding", number(6)),
            ("datlocprovider", text("c")),
            ("datallowconn", Value::Bool(true)),
            ("datconnlimit", number(-1)),
            ("dattablespace", number(1663)),
            ("datcollate", text("C")),
            ("datctype", text("C")),
        ]),
        "pg_tablespace" => {
            rows.add(&[("oid", number(1663)), ("spcname", text("pg_default")), ("spcowner", number(OWNER))]);
        }
        "pg_collation" => {
            for (oid, name) in [(COLLATION, "default"), (950, "C"), (951, "POSIX")] {
                rows.add(&[
                    ("oid", number(oid)),
                    ("collname", text(name)),
                    ("collnamespace", number(PG_CATALOG)),
                    ("collowner", number(OWNER)),
                    ("collprovider", text(if oid == COLLATION { "d" } else { "c" })),
                    ("collisdeterministic", Value::Bool(true)),
                    ("collencoding", number(-1)),
                ]);
            }
        }
        "pg_language" => {
            let sql = [("oid", number(14)), ("lanname", text("sql")), ("lanpltrusted", Value::Bool(true))];
            rows.add(&sql);
        }
        "pg_opclass" => {
            let own = world.catalog.types.keys().map(|ty| (ty.0, "enum"));
            for (ty, name) in super::types::TYPES.iter().map(|ty| (ty.0, ty.1)).chain(own) {
                rows.add(&[
                    ("oid", number(CLASSES + i64::from(ty))),
                    ("opcmethod", number(BTREE)),
                    ("opcname", Value::Text(format!("{name}_ops"))),
                    ("opcnamespace", number(PG_CATALOG)),
                    ("opcintype", number(ty)),
                    ("opcdefault", Value::Bool(true)),
                ]);
            }
        }
        _ => of_session(world, rows),
    }
}

/// Relations of the session: its user and its settings.
fn of_session(world: &World<'_>, rows: &mut Rows<'_>) {
    match rows.relation.name {
        "pg_roles" | "pg_authid" => rows.add(&[
            ("oid", number(OWNER)),
            ("rolname", text(&world.facts.user)),
            ("rolsuper", Value::Bool(true)),
            ("rolinherit", Value::Bool(true)),
            ("rolcreaterole", Value::Bool(true)),
            ("rolcreatedb", Value::Bool(true)),
            ("rolcanlogin", Value::Bool(true)),
            ("rolconnlimit", number(-1)),
        ]),
        "pg_user" => rows.add(&[
            ("usename", text(&world.facts.user)),
            ("usesysid", number(OWNER)),
            ("usecreatedb", Value::Bool(true)),
            ("usesuper", Value::Bool(true)),
        ]),
        "pg_settings" => {
            for (name, value) in &world.facts.settings {
                rows.add(&[
                    ("name", text(name)),
                    ("setting", text(value)),
                    ("vartype", text("string")),
                    ("context", text("user")),
                    ("source", text("default")),
                ]);
            }
        }
        _ => {}
    }
}
