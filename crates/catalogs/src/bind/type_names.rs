//! Types by their names, and the type of two operands.

use crate::value::Type;
use sql::{SqlError, SqlState};

/// A type by its name in the statement.
pub fn type_named(text: &str) -> Result<Type, SqlError> {
    let name = text.to_lowercase().replace('"', "\u{1}");
    let name = name.strip_prefix("pg_catalog.").unwrap_or(&name).trim();
    if let Some(element) = name.strip_suffix("[]") {
        return Ok(type_named(&element.replace('\u{1}', "\""))?.array());
    }
    let name = name.split('(').next().unwrap_or(name).trim();
    Ok(match name {
        "\u{1}char\u{1}" => Type::CHAR,
        name => match name.trim_matches('\u{1}') {
            "regclass" => Type::REGCLASS,
            "regtype" => Type::REGTYPE,
            "regproc" | "regprocedure" => Type::REGPROC,
            "regnamespace" => Type::REGNAMESPACE,
            "regrole" => Type::REGROLE,
            "oid" => Type::OID,
            "name" => Type::NAME,
            "text" | "cstring" => Type::TEXT,
            "bool" | "boolean" => Type::BOOL,
            "int2" | "smallint" => Type::INT2,
            "int" | "int4" | "integer" => Type::INT4,
            "int8" | "bigint" => Type::INT8,
            "real" | "float4" => Type::FLOAT4,
            "float8" | "double precision" | "numeric" | "float" => Type::FLOAT8,
            "varchar" | "character varying" => Type::VARCHAR,
            "char" | "character" | "bpchar" => Type(1042),
            "int2vector" => Type::INT2_VECTOR,
            "oidvector" => Type::OID_VECTOR,
            "pg_node_tree" => Type::NODE_TREE,
            "xid" => Type(28),
            "json" => Type(114),
            "jsonb" => Type(3802),
            "timestamptz" | "timestamp with time zone" => Type::TIMESTAMPTZ,
            "character_data" | "sql_identifier" | "yes_or_no" => Type::VARCHAR,
            "cardinal_number" => Type::INT4,
            other => {
                let message = format!("type \"{other}\" does not exist");
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
            }
        },
    })
}

/// The type of which values of both types are.
pub(super) fn common(a: Type, b: Type) -> Type {
    match (a, b) {
        (Type::UNKNOWN, other) | (other, Type::UNKNOWN) => other,
        (a, b) if a == b => a,
        (a, b) if a.is_integer() && b.is_integer() => wider(a, b),
        (a, b) if a.is_text() && b.is_text() => Type::TEXT,
        (a, b) if a.is_text() || b.is_text() => Type::TEXT,
        (a, _) => a,
    }
}

/// The number's type that has room for both.
pub(super) fn wider(a: Type, b: Type) -> Type {
    let rank = |ty: Type| match ty {
        Type::INT2 => 1,
        Type::INT4 => 2,
        Type::FLOAT4 | Type::FLOAT8 => 4,
        Type::UNKNOWN => 0,
        _ => 3,
    };
    let wide = if rank(a) >= rank(b) { a } else { b };
    if wide == Type::OID { Type::INT8 } else { wide }
}
