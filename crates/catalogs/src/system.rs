//! Functions that look things up in the catalog, and the text of definitions.

use crate::relations::{
    AnyIndex, ConstraintKind, OWNER, World, class_name, class_number, constraints, index, quoted, routines,
    shown_type, table, type_number, type_text,
};
use crate::value::{Type, Value};
use compiler::general::Facts;
use sql::catalog::{Catalog, Column, ColumnDefault, Oid, Procedure, Reaction};
use sql::{SqlError, SqlState};

/// The text of a column's default.
pub fn default_text(world: &World<'_>, column: &Column) -> Option<String> {
    match column.default.as_ref()? {
        ColumnDefault::Expr(_, text) => Some(literal_with_type(text, column)),
        ColumnDefault::Next(sequence) => {
            let name = world.shown(&world.catalog.sequences.get(sequence)?.name);
            Some(format!("nextval('{name}'::regclass)"))
        }
    }
}

/// PostgreSQL says the type of a literal.
fn literal_with_type(text: &str, column: &Column) -> String {
    if let (true, Some(end)) = (text.starts_with('\''), text.rfind("'::")) {
        let ty = &text[end + 1..];
        let ty = if ty.contains('"') { ty.to_owned() } else { ty.to_lowercase() };
        return format!("{}{ty}", &text[..=end]);
    }
    let is_literal = text.starts_with('\'') && text.ends_with('\'') && text.len() >= 2;
    if !is_literal {
        return text.to_owned();
    }
    let number = crate::relations::number_of(column.ty).0;
    let name = type_text(column.ty);
    let name = if number == 1042 { "bpchar".to_owned() } else { name };
    format!("{text}::{name}")
}

/// `CREATE INDEX` as PostgreSQL writes it.
pub fn index_definition(index: &AnyIndex<'_>) -> String {
    let unique = if index.unique { "UNIQUE " } else { "" };
    format!(
        "CREATE {unique}INDEX {} ON public.{} USING btree ({})",
        quoted(index.name),
        quoted(&index.table.name),
        names(index.table, index.columns)
    )
}

fn names(table: &sql::catalog::Table, columns: &[u16]) -> String {
    let name = |column: &u16| table.columns.get(usize::from(*column)).map(|column| quoted(&column.name));
    columns.iter().filter_map(name).collect::<Vec<_>>().join(", ")
}

fn constraint_definition(world: &World<'_>, number: i64) -> Option<String> {
    let catalog: &Catalog = world.catalog;
    let all = constraints(catalog);
    let constraint = all.iter().find(|constraint| constraint.number == number)?;
    let columns = names(constraint.table, &constraint.columns);
    Some(match constraint.kind {
        ConstraintKind::Primary => format!("PRIMARY KEY ({columns})"),
        ConstraintKind::Unique => format!("UNIQUE ({columns})"),
        ConstraintKind::Check(text) => format!("CHECK (({}))", without_parentheses(text)),
        ConstraintKind::Foreign(key) => {
            let to = catalog.tables.get(&key.to)?;
            let reaction = |event: &str, reaction| match reaction {
                Reaction::Restrict => String::new(),
                Reaction::Cascade => format!(" ON {event} CASCADE"),
                Reaction::SetNull => format!(" ON {event} SET NULL"),
            };
            format!(
                "FOREIGN KEY ({columns}) REFERENCES {}({}){}{}",
                world.shown(&to.name),
                names(to, &key.to_columns),
                reaction("UPDATE", key.on_update),
                reaction("DELETE", key.on_delete)
            )
        }
    })
}

/// A condition without parentheses around all of it.
fn without_parentheses(text: &str) -> &str {
    let Some(inner) = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) else { return text };
    let (mut open, mut is_quoted) = (0_i32, false);
    for c in inner.chars() {
        match c {
            '\'' | '"' => is_quoted = !is_quoted,
            '(' if !is_quoted => open += 1,
            ')' if !is_quoted => open -= 1,
            _ => {}
        }
        if open < 0 {
            return text;
        }
    }
    without_parentheses(inner)
}

/// The parts of a name in a text: `schema.name`, with quotes or without.
pub fn parts_of(text: &str) -> (Option<String>, String) {
    let mut parts = vec![String::new()];
    let mut is_quoted = false;
    for c in text.trim().chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            '.' if !is_quoted => parts.push(String::new()),
            c => {
                let c = if is_quoted { c } else { c.to_ascii_lowercase() };
                if let Some(last) = parts.last_mut() {
                    last.push(c);
                }
            }
        }
    }
    let name = parts.pop().unwrap_or_default();
    (parts.pop(), name)
}

/// A value as one of another type.
///
/// # Errors
/// `42P01`, `42704` for a name of nothing, `22P02` for a text that is no value.
pub fn cast(world: &World<'_>, value: Value, from: Type, to: Type) -> Result<Value, SqlError> {
    if value.is_null() {
        return Ok(value);
    }
    if let (Some(element), Value::Array(items)) = (to.element(), &value) {
        let from = from.element().unwrap_or(Type::UNKNOWN);
        let items = items.iter().map(|item| cast(world, item.clone(), from, element));
        return Ok(Value::Array(items.collect::<Result<_, _>>()?));
    }
    if let (Some(element), Value::Text(text)) = (to.element(), &value) {
        let items = match to {
            Type::INT2_VECTOR | Type::OID_VECTOR => text.split_whitespace().map(Value::text).collect(),
            _ => crate::value::read_array(text)?,
        };
        let items = items.into_iter().map(|item| cast(world, item, Type::UNKNOWN, element));
        return Ok(Value::Array(items.collect::<Result<_, _>>()?));
    }
    if from.is_name_of_object() && to.is_text() {
        return Ok(Value::Text(object_name(world, &value, from)));
    }
    if to.is_name_of_object() {
        return match &value {
            Value::Text(text) => object_number(world, text, to).map(Value::Int),
            _ => Ok(value),
        };
    }
    let wrong = |name: &str| {
        let message = format!("invalid input syntax for type {name}: \"{}\"", value.to_text());
        SqlError::new(SqlState::INVALID_TEXT, message)
    };
    Ok(match to {
        Type::BOOL => match &value {
            Value::Text(text) => match text.as_str() {
                "t" | "true" | "on" | "yes" | "1" => Value::Bool(true),
                "f" | "false" | "off" | "no" | "0" => Value::Bool(false),
                _ => return Err(wrong("boolean")),
            },
            Value::Int(v) => Value::Bool(*v != 0),
            _ => value,
        },
        ty if ty.is_integer() || ty == Type::OID => match &value {
            Value::Bool(v) => Value::Int(i64::from(*v)),
            other => Value::Int(other.as_int().ok_or_else(|| wrong("integer"))?),
        },
        Type::FLOAT4 | Type::FLOAT8 => match &value {
            Value::Int(v) => Value::Float(*v as f64),
            Value::Float(v) => Value::Float(*v),
            other => Value::Float(other.to_text().parse().map_err(|_| wrong("double precision"))?),
        },
        Type::TEXT if matches!(value, Value::Bool(_)) => {
            Value::text(if value.is_true() { "true" } else { "false" })
        }
        ty if ty.is_text() => Value::Text(value.to_text()),
        _ => value,
    })
}

/// The name of an object, for its number.
pub fn object_name(world: &World<'_>, value: &Value, ty: Type) -> String {
    let number = value.as_int().unwrap_or(0);
    let name = match ty {
        _ if number == 0 => Some("-".into()),
        Type::REGCLASS => class_name(world, number),
        Type::REGTYPE => Some(shown_type(world, number, None)),
        Type::REGNAMESPACE => schema_name(number).map(str::to_owned),
        Type::REGROLE if number == OWNER => Some(world.facts.user.clone()),
        _ => None,
    };
    name.unwrap_or_else(|| number.to_string())
}

fn schema_name(number: i64) -> Option<&'static str> {
    match number {
        crate::relations::PG_CATALOG => Some("pg_catalog"),
        crate::relations::PUBLIC => Some("public"),
        crate::relations::INFORMATION_SCHEMA => Some("information_schema"),
        _ => None,
    }
}

fn schema_number(name: &str) -> Option<i64> {
    match name {
        "pg_catalog" => Some(crate::relations::PG_CATALOG),
        "public" => Some(crate::relations::PUBLIC),
        "information_schema" => Some(crate::relations::INFORMATION_SCHEMA),
        _ => None,
    }
}

/// The number of an object, for its name or its number as text.
pub fn object_number(world: &World<'_>, text: &str, ty: Type) -> Result<i64, SqlError> {
    if let Ok(number) = text.trim().parse() {
        return Ok(number);
    }
    let (schema, name) = parts_of(text);
    let (found, kind, state) = match ty {
        Type::REGCLASS => {
            (class_number(world, schema.as_deref(), &name), "relation", SqlState::UNDEFINED_TABLE)
        }
        Type::REGTYPE => (type_number(world, text), "type", SqlState::UNDEFINED_OBJECT),
        Type::REGNAMESPACE => (schema_number(&name), "schema", SqlState(*b"3F000")),
        Type::REGROLE => ((name == world.facts.user).then_some(OWNER), "role", SqlState::UNDEFINED_OBJECT),
        _ => (Some(0), "function", SqlState::UNDEFINED_FUNCTION),
    };
    found.ok_or_else(|| SqlError::new(state, format!("{kind} \"{text}\" does not exist")))
}

/// Functions of the catalog and the session.
///
/// # Errors
/// `42704` for a setting that there is not.
pub fn call(world: &World<'_>, name: &str, args: &[Value]) -> Result<Value, SqlError> {
    let number = |at: usize| args.get(at).and_then(Value::as_int);
    let text = |text: Option<String>| text.map_or(Value::Null, Value::Text);
    let facts: &Facts = world.facts;
    Ok(match name {
        "format_type" => match number(0) {
            Some(ty) => Value::Text(shown_type(world, ty, number(1))),
            None => Value::Null,
        },
        "pg_get_expr" => args.first().cloned().unwrap_or_default(),
        "pg_get_indexdef" => {
            let index = number(0).and_then(|number| index(world.catalog, number));
            text(index.map(|index| match number(1).filter(|at| *at > 0) {
                None => index_definition(&index),
                Some(at) => {
                    let column = index.columns.get(at as usize - 1).copied();
                    names(index.table, &column.into_iter().collect::<Vec<_>>())
                }
            }))
        }
        "pg_get_constraintdef" => text(number(0).and_then(|number| constraint_definition(world, number))),
        "pg_get_viewdef" => text(number(0).and_then(|number| view_definition(world, number))),
        name if name.starts_with("pg_get_function") => {
            text(routine(world, number(0)).and_then(|routine| of_routine(name, routine)))
        }
        "pg_get_userbyid" if number(0) == Some(OWNER) => Value::text(&facts.user),
        "pg_get_userbyid" => Value::text("unknown"),
        "pg_get_serial_sequence" => text(serial(world, args)),
        "current_database" => Value::text(&facts.database),
        "current_user" => Value::text(&facts.user),
        "current_schema" => Value::text("public"),
        "current_schemas" => {
            let implicit = args.first().is_some_and(Value::is_true).then(|| Value::text("pg_catalog"));
            let public = world.has_public_in_reach().then(|| Value::text("public"));
            Value::Array(implicit.into_iter().chain(public).collect())
        }
        "version" => Value::text(concat!("PostgreSQL 15.0 (Atoll ", env!("CARGO_PKG_VERSION"), ")")),
        "current_setting" => return current_setting(facts, args),
        "set_config" => return Err(SqlError::unsupported("set_config", Some("Use SET."))),
        "pg_backend_pid" => Value::Int(facts.backend.into()),
        "to_regclass" | "to_regtype" | "to_regnamespace" => {
            let ty = match name {
                "to_regclass" => Type::REGCLASS,
                "to_regtype" => Type::REGTYPE,
                _ => Type::REGNAMESPACE,
            };
            let name = args.first().map(Value::to_text).unwrap_or_default();
            object_number(world, &name, ty).map_or(Value::Null, Value::Int)
        }
        "pg_encoding_to_char" => Value::text(if number(0) == Some(6) { "UTF8" } else { "" }),
        "pg_client_encoding" => Value::text("UTF8"),
        "pg_char_to_encoding" => Value::Int(6),
        "pg_size_pretty" => Value::Text(format!("{} bytes", number(0).unwrap_or(0))),
        "pg_my_temp_schema" => Value::Int(0),
        "pg_relation_filenode" => Value::Int(number(0).unwrap_or(0)),
        "txid_current" => Value::Int(facts.now),
        "oidvectortypes" => Value::text(""),
        "pg_is_in_recovery" | "pg_is_other_temp_schema" | "pg_relation_is_publishable" => Value::Bool(false),
        name if name.ends_with("_is_visible") => {
            // Objects of `information_schema` are out of reach without its name.
            let is_hidden = number(0).is_some_and(|number| {
                world.relations.iter().any(|r| r.number == number && r.schema == "information_schema")
            });
            Value::Bool(!is_hidden)
        }
        name if name.starts_with("has_") || name == "pg_has_role" => Value::Bool(true),
        name if name.ends_with("_size") => Value::Int(0),
        _ => Value::Null,
    })
}

fn view_definition(world: &World<'_>, number: i64) -> Option<String> {
    let view = world.catalog.views().find(|view| i64::from(view.oid.0) == number)?;
    Some(format!("{};", view.body))
}

fn of_routine(name: &str, routine: &Procedure) -> Option<String> {
    match name {
        "pg_get_functiondef" => Some(routines::definition(routine)),
        "pg_get_function_arguments" => Some(routines::arguments(routine)),
        "pg_get_function_identity_arguments" => Some(routines::identity_arguments(routine)),
        "pg_get_function_result" => routines::result(routine),
        _ => None,
    }
}

fn routine<'a>(world: &World<'a>, number: Option<i64>) -> Option<&'a Procedure> {
    world.catalog.procedures.get(&Oid(u32::try_from(number?).ok()?)).filter(|routine| !routine.is_view())
}

fn current_setting(facts: &Facts, args: &[Value]) -> Result<Value, SqlError> {
    let name = args.first().map(Value::to_text).unwrap_or_default();
    let known = facts.settings.iter().find(|(known, _)| known.eq_ignore_ascii_case(&name));
    match known {
        Some((_, value)) => Ok(Value::text(value)),
        None if args.get(1).is_some_and(Value::is_true) => Ok(Value::Null),
        None => {
            let message = format!("unrecognized configuration parameter \"{name}\"");
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
        }
    }
}

/// The sequence of a serial column.
fn serial(world: &World<'_>, args: &[Value]) -> Option<String> {
    let (schema, name) = parts_of(&args.first()?.to_text());
    let number = class_number(world, schema.as_deref(), &name)?;
    let table = table(world.catalog, number)?;
    let (position, _) = table.column(&args.get(1)?.to_text())?;
    let owned = |sequence: &&sql::catalog::Sequence| sequence.owned_by == Some((table.oid, position));
    let sequence = world.catalog.sequences.values().find(owned)?;
    Some(format!("public.{}", quoted(&sequence.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parentheses_around_all_of_a_condition_are_taken_off() {
        for (text, inner) in [
            ("(a > 0)", "a > 0"),
            ("((a > 0))", "a > 0"),
            ("(a > 0) AND (b > 0)", "(a > 0) AND (b > 0)"),
            ("(a = ')')", "a = ')'"),
            ("a > 0", "a > 0"),
        ] {
            assert_eq!(without_parentheses(text), inner);
        }
    }
}
