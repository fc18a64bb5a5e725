//! The rows of `information_schema`.

use super::{Constraint, ConstraintKind, Rows, World, constraints, indexes, number_of, types};
use crate::system;
use crate::value::Value;
use sql::catalog::Reaction;
use sql::{Element, SqlType};

fn text(v: &str) -> Value {
    Value::text(v)
}

pub fn fill(world: &World<'_>, rows: &mut Rows<'_>) {
    match rows.relation.name {
        "schemata" => {
            for name in ["pg_catalog", "public", "information_schema"] {
                rows.add(&[
                    ("catalog_name", text(&world.facts.database)),
                    ("schema_name", text(name)),
                    ("schema_owner", text(&world.facts.user)),
                ]);
            }
        }
        "tables" => tables(world, rows),
        "columns" => columns(world, rows),
        "table_constraints" => table_constraints(world, rows),
        "key_column_usage" => key_columns(world, rows),
        "constraint_column_usage" => constraint_columns(world, rows),
        "referential_constraints" => references(world, rows),
        "check_constraints" => {
            for constraint in constraints(world.catalog) {
                if let ConstraintKind::Check(condition) = constraint.kind {
                    let mut values = named(world, "constraint", "constraint_name", constraint.name);
                    values.push(("check_clause", text(condition)));
                    rows.add(&values);
                }
            }
        }
        "views" => {
            for view in world.catalog.views() {
                let mut values = named(world, "table", "table_name", &view.name);
                values.extend([
                    ("view_definition", Value::Text(format!("{};", view.body))),
                    ("check_option", text("NONE")),
                    ("is_updatable", text("NO")),
                    ("is_insertable_into", text("NO")),
                ]);
                rows.add(&values);
            }
        }
        "sequences" => sequences(world, rows),
        "information_schema_catalog_name" => rows.add(&[("catalog_name", text(&world.facts.database))]),
        "enabled_roles" => rows.add(&[("role_name", text(&world.facts.user))]),
        _ => {}
    }
}

type Values = Vec<(&'static str, Value)>;

/// The catalog, schema and name of an object, in the columns of their kind.
fn named(world: &World<'_>, kind: &str, column: &'static str, name: &str) -> Values {
    let (catalog, schema) = match kind {
        "table" => ("table_catalog", "table_schema"),
        "sequence" => ("sequence_catalog", "sequence_schema"),
        _ => ("constraint_catalog", "constraint_schema"),
    };
    vec![(catalog, text(&world.facts.database)), (schema, text("public")), (column, text(name))]
}

fn tables(world: &World<'_>, rows: &mut Rows<'_>) {
    for table in world.catalog.tables.values() {
        let mut values = named(world, "table", "table_name", &table.name);
        values.extend([
            ("table_type", text("BASE TABLE")),
            ("is_insertable_into", text("YES")),
            ("is_typed", text("NO")),
        ]);
        rows.add(&values);
    }
    for view in world.catalog.views() {
        let mut values = named(world, "table", "table_name", &view.name);
        values.extend([
            ("table_type", text("VIEW")),
            ("is_insertable_into", text("NO")),
            ("is_typed", text("NO")),
        ]);
        rows.add(&values);
    }
    for relation in world.relations.iter() {
        let kind = if relation.number < 12_000 { "BASE TABLE" } else { "VIEW" };
        rows.add(&[
            ("table_catalog", text(&world.facts.database)),
            ("table_schema", text(relation.schema)),
            ("table_name", text(relation.name)),
            ("table_type", text(kind)),
            ("is_insertable_into", text("NO")),
            ("is_typed", text("NO")),
        ]);
    }
}

fn columns(world: &World<'_>, rows: &mut Rows<'_>) {
    for table in world.catalog.tables.values() {
        for (at, column) in table.visible() {
            let mut values = of_column(world, &table.name, (&column.name, i64::from(at) + 1), column.ty);
            let default = system::default_text(world, column);
            values.extend([
                ("column_default", default.map_or(Value::Null, Value::Text)),
                ("is_nullable", text(if column.nullable { "YES" } else { "NO" })),
                ("is_updatable", text("YES")),
            ]);
            rows.add(&values);
        }
    }
    for view in world.catalog.views() {
        for (column, at) in view.params.iter().zip(1..) {
            let mut values = of_column(world, &view.name, (&column.name, at), column.ty);
            values.extend([("is_nullable", text("YES")), ("is_updatable", text("NO"))]);
            rows.add(&values);
        }
    }
}

/// What the columns of tables and of views have alike; the position is from 1.
fn of_column(world: &World<'_>, relation: &str, (name, at): (&str, i64), ty: SqlType) -> Values {
    let mut values = named(world, "table", "table_name", relation);
    values.extend([
        ("column_name", text(name)),
        ("ordinal_position", Value::Int(at)),
        ("is_self_referencing", text("NO")),
        ("is_identity", text("NO")),
        ("identity_cycle", text("NO")),
        ("is_generated", text("NEVER")),
    ]);
    values.extend(of_type(world, ty));
    values
}

fn of_type(world: &World<'_>, ty: SqlType) -> Values {
    let number = i64::from(number_of(ty).0);
    let named = |number: i64| types::TYPES.iter().find(|known| i64::from(known.0) == number);
    let name_of = |number: i64| named(number).map_or("", |known| known.1);
    let (short, data_type) = match ty {
        SqlType::Array(Element::Enum(labels)) => (format!("_{}", labels.name), "ARRAY".into()),
        SqlType::Enum(labels) => (labels.name.clone(), "USER-DEFINED".into()),
        SqlType::Array(element) => (format!("_{}", name_of(element.number().into())), "ARRAY".into()),
        _ => (name_of(number).to_owned(), types::type_text(ty)),
    };
    let (precision, radix, scale) = match ty {
        SqlType::Int2 => (Some(16), Some(2), Some(0)),
        SqlType::Int4 => (Some(32), Some(2), Some(0)),
        SqlType::Int8 => (Some(64), Some(2), Some(0)),
        SqlType::Float4 => (Some(24), Some(2), None),
        SqlType::Float8 => (Some(53), Some(2), None),
        SqlType::Numeric(Some((precision, scale))) => {
            (Some(i64::from(precision)), Some(10), Some(i64::from(scale)))
        }
        SqlType::Numeric(None) => (None, Some(10), None),
        _ => (None, None, None),
    };
    let length = match ty {
        SqlType::Char(length) => Some(i64::from(length)),
        SqlType::Varchar(length) => length.map(i64::from),
        _ => None,
    };
    let octets = match ty {
        SqlType::Char(_) | SqlType::Varchar(_) => Some(length.map_or(1 << 30, |length| length * 4)),
        SqlType::Text => Some(1 << 30),
        _ => None,
    };
    let is_own = matches!(ty, SqlType::Enum(_) | SqlType::Array(Element::Enum(_)));
    let is_time = matches!(ty, SqlType::Time | SqlType::Timestamp | SqlType::TimestampTz | SqlType::Interval);
    let times = if is_time { Some(6) } else { (ty == SqlType::Date).then_some(0) };
    let int = |v: Option<i64>| v.map_or(Value::Null, Value::Int);
    vec![
        ("data_type", Value::Text(data_type)),
        ("character_maximum_length", int(length)),
        ("character_octet_length", int(octets)),
        ("numeric_precision", int(precision)),
        ("numeric_precision_radix", int(radix)),
        ("numeric_scale", int(scale)),
        ("datetime_precision", int(times)),
        ("udt_catalog", text(&world.facts.database)),
        ("udt_schema", text(if is_own { "public" } else { "pg_catalog" })),
        ("udt_name", text(&short)),
    ]
}

fn of_constraint(world: &World<'_>, constraint: &Constraint<'_>) -> Values {
    let mut values = named(world, "constraint", "constraint_name", constraint.name);
    values.extend(named(world, "table", "table_name", &constraint.table.name));
    values
}

fn table_constraints(world: &World<'_>, rows: &mut Rows<'_>) {
    for constraint in constraints(world.catalog) {
        let kind = match constraint.kind {
            ConstraintKind::Primary => "PRIMARY KEY",
            ConstraintKind::Unique => "UNIQUE",
            ConstraintKind::Check(_) => "CHECK",
            ConstraintKind::Foreign(_) => "FOREIGN KEY",
        };
        let mut values = of_constraint(world, &constraint);
        values.extend([
            ("constraint_type", text(kind)),
            ("is_deferrable", text("NO")),
            ("initially_deferred", text("NO")),
            ("enforced", text("YES")),
        ]);
        rows.add(&values);
    }
}

fn key_columns(world: &World<'_>, rows: &mut Rows<'_>) {
    for constraint in constraints(world.catalog) {
        if let ConstraintKind::Check(_) = constraint.kind {
            continue;
        }
        for (column, at) in constraint.columns.iter().zip(1..) {
            let Some(known) = constraint.table.columns.get(usize::from(*column)) else { continue };
            let mut values = of_constraint(world, &constraint);
            let unique = match constraint.kind {
                ConstraintKind::Foreign(_) => Value::Int(at),
                _ => Value::Null,
            };
            values.extend([
                ("column_name", text(&known.name)),
                ("ordinal_position", Value::Int(at)),
                ("position_in_unique_constraint", unique),
            ]);
            rows.add(&values);
        }
    }
}

fn constraint_columns(world: &World<'_>, rows: &mut Rows<'_>) {
    for constraint in constraints(world.catalog) {
        let (table, columns) = match constraint.kind {
            ConstraintKind::Foreign(key) => (world.catalog.tables.get(&key.to), &key.to_columns),
            _ => (Some(constraint.table), &constraint.columns),
        };
        let Some(table) = table else { continue };
        for column in columns.iter().filter_map(|column| table.columns.get(usize::from(*column))) {
            let mut values = named(world, "constraint", "constraint_name", constraint.name);
            values.extend(named(world, "table", "table_name", &table.name));
            values.push(("column_name", text(&column.name)));
            rows.add(&values);
        }
    }
}

fn references(world: &World<'_>, rows: &mut Rows<'_>) {
    let rule = |reaction| match reaction {
        Reaction::Restrict => "NO ACTION",
        Reaction::Cascade => "CASCADE",
        Reaction::SetNull => "SET NULL",
    };
    for constraint in constraints(world.catalog) {
        let ConstraintKind::Foreign(key) = constraint.kind else { continue };
        let unique = indexes(world.catalog).find(|index| index.number == constraint.index);
        let mut values = named(world, "constraint", "constraint_name", constraint.name);
        values.extend([
            ("unique_constraint_catalog", text(&world.facts.database)),
            ("unique_constraint_schema", text("public")),
            ("unique_constraint_name", unique.map_or(Value::Null, |index| text(index.name))),
            ("match_option", text("NONE")),
            ("update_rule", text(rule(key.on_update))),
            ("delete_rule", text(rule(key.on_delete))),
        ]);
        rows.add(&values);
    }
}

fn sequences(world: &World<'_>, rows: &mut Rows<'_>) {
    for sequence in world.catalog.sequences.values() {
        let mut values = named(world, "sequence", "sequence_name", &sequence.name);
        let number = |v: i64| Value::Text(v.to_string());
        values.extend([
            ("data_type", Value::Text(types::type_text(sequence.ty))),
            ("start_value", number(sequence.start)),
            ("minimum_value", number(sequence.min)),
            ("maximum_value", number(sequence.max)),
            ("increment", number(sequence.increment)),
            ("cycle_option", text(if sequence.cycle { "YES" } else { "NO" })),
        ]);
        rows.add(&values);
    }
}
