//! Types: their numbers, names and rows in `pg_type`.

use super::{COLLATION, OWNER, PG_CATALOG, PUBLIC, Rows, World, quoted};
use crate::value::{Type, Value};
use sql::catalog::{Catalog, Oid};
use sql::{Element, SqlType};

/// Number, name, the name that statements have, length, category, and the number of the array type.
pub const TYPES: [(u32, &str, &str, i64, char, u32); 41] = [
    (16, "bool", "boolean", 1, 'B', 1000),
    (17, "bytea", "bytea", -1, 'U', 1001),
    (18, "char", "\"char\"", 1, 'Z', 1002),
    (19, "name", "name", 64, 'S', 1003),
    (20, "int8", "bigint", 8, 'N', 1016),
    (21, "int2", "smallint", 2, 'N', 1005),
    (22, "int2vector", "int2vector", -1, 'A', 1006),
    (23, "int4", "integer", 4, 'N', 1007),
    (24, "regproc", "regproc", 4, 'N', 1008),
    (25, "text", "text", -1, 'S', 1009),
    (26, "oid", "oid", 4, 'N', 1028),
    (28, "xid", "xid", 4, 'U', 1011),
    (30, "oidvector", "oidvector", -1, 'A', 1013),
    (114, "json", "json", -1, 'U', 199),
    (194, "pg_node_tree", "pg_node_tree", -1, 'Z', 0),
    (700, "float4", "real", 4, 'N', 1021),
    (701, "float8", "double precision", 8, 'N', 1022),
    (705, "unknown", "unknown", -2, 'X', 0),
    (1042, "bpchar", "character", -1, 'S', 1014),
    (1043, "varchar", "character varying", -1, 'S', 1015),
    (1082, "date", "date", 4, 'D', 1182),
    (1083, "time", "time without time zone", 8, 'D', 1183),
    (1114, "timestamp", "timestamp without time zone", 8, 'D', 1115),
    (1184, "timestamptz", "timestamp with time zone", 8, 'D', 1185),
    (1186, "interval", "interval", 16, 'T', 1187),
    (1700, "numeric", "numeric", -1, 'N', 1231),
    (2205, "regclass", "regclass", 4, 'N', 2210),
    (2206, "regtype", "regtype", 4, 'N', 2211),
    (2249, "record", "record", -1, 'P', 2287),
    (2276, "any", "\"any\"", 4, 'P', 0),
    (2278, "void", "void", 4, 'P', 0),
    (2279, "trigger", "trigger", 4, 'P', 0),
    (2950, "uuid", "uuid", 16, 'U', 2951),
    (3802, "jsonb", "jsonb", -1, 'U', 3807),
    (4089, "regnamespace", "regnamespace", 4, 'N', 4090),
    (4096, "regrole", "regrole", 4, 'N', 4097),
    (2202, "regprocedure", "regprocedure", 4, 'N', 2207),
    (2275, "cstring", "cstring", -2, 'P', 1263),
    (1033, "aclitem", "aclitem", 12, 'U', 1034),
    (3904, "int4range", "int4range", -1, 'R', 3905),
    (2281, "internal", "internal", 8, 'P', 0),
];

/// The number of a column's type, and its modifier.
pub fn number_of(ty: SqlType) -> (u32, i64) {
    let number = match ty {
        SqlType::Bool => 16,
        SqlType::Bytea => 17,
        SqlType::Name => 19,
        SqlType::Int8 => 20,
        SqlType::Int2 => 21,
        SqlType::Int4 => 23,
        SqlType::Text | SqlType::Unknown => 25,
        SqlType::Oid => 26,
        SqlType::Json => 114,
        SqlType::Float4 => 700,
        SqlType::Float8 => 701,
        SqlType::Char(_) => 1042,
        SqlType::Varchar(_) => 1043,
        SqlType::Date => 1082,
        SqlType::Time => 1083,
        SqlType::Timestamp => 1114,
        SqlType::TimestampTz => 1184,
        SqlType::Interval => 1186,
        SqlType::Numeric(_) => 1700,
        SqlType::Uuid => 2950,
        SqlType::Jsonb => 3802,
        SqlType::Array(element) => element.array_number(),
        SqlType::Enum(labels) => labels.oid.0,
    };
    let modifier = match ty {
        SqlType::Char(length) if length > 0 => i64::from(length) + 4,
        SqlType::Varchar(Some(length)) => i64::from(length) + 4,
        SqlType::Numeric(Some((precision, scale))) => ((i64::from(precision) << 16) | i64::from(scale)) + 4,
        _ => -1,
    };
    (number, modifier)
}

/// Length, alignment, storage and collation of a type's values.
pub fn layout_of(catalog: &Catalog, number: u32) -> (i64, &'static str, &'static str, i64) {
    if catalog.types.contains_key(&Oid(number)) {
        return (4, "i", "p", 0);
    }
    let length = TYPES.iter().find(|ty| ty.0 == number).map_or(-1, |ty| ty.3);
    let align = match length {
        1 => "c",
        2 => "s",
        8 | 16 => "d",
        _ => "i",
    };
    let storage = match number {
        1700 => "m",
        _ if length < 0 => "x",
        _ => "p",
    };
    let collation = match number {
        25 | 1042 | 1043 => COLLATION,
        // "C"
        19 => 950,
        _ => 0,
    };
    (length, align, storage, collation)
}

/// A type as a statement would have it, with a modifier.
pub fn format_type(number: i64, modifier: Option<i64>) -> String {
    let array = TYPES.iter().find(|ty| ty.5 != 0 && i64::from(ty.5) == number);
    if let Some(array) = array {
        return format!("{}[]", format_type(array.0.into(), modifier));
    }
    let Some(known) = TYPES.iter().find(|ty| i64::from(ty.0) == number) else {
        return if number == 0 { "-".into() } else { "???".into() };
    };
    match (known.0, modifier.filter(|modifier| *modifier >= 4)) {
        (1042, None) if modifier.is_some() => "bpchar".into(),
        (1042 | 1043, Some(modifier)) => format!("{}({})", known.2, modifier - 4),
        (1700, Some(modifier)) => {
            format!("numeric({},{})", ((modifier - 4) >> 16) & 0xffff, (modifier - 4) & 0xffff)
        }
        _ => known.2.into(),
    }
}

/// As [`format_type`], with the types of the catalog.
pub fn shown_type(world: &World<'_>, number: i64, modifier: Option<i64>) -> String {
    let own = u32::try_from(number).ok().and_then(|number| world.catalog.type_of(number));
    own.map_or_else(|| format_type(number, modifier), |ty| own_name(ty, &|name| world.shown(name)))
}

/// A type of a column or a parameter, without its modifier.
pub fn type_text(ty: SqlType) -> String {
    match ty {
        SqlType::Enum(_) | SqlType::Array(Element::Enum(_)) => own_name(ty, &quoted),
        ty => format_type(number_of(ty).0.into(), None),
    }
}

fn own_name(ty: SqlType, shown: &dyn Fn(&str) -> String) -> String {
    match ty {
        SqlType::Enum(labels) => shown(&labels.name),
        SqlType::Array(Element::Enum(labels)) => format!("{}[]", shown(&labels.name)),
        _ => String::new(),
    }
}

/// The rows of `pg_enum`.
pub fn labels(world: &World<'_>, rows: &mut Rows<'_>) {
    let all = world.catalog.types.values().flat_map(|ty| (1..).zip(&ty.labels).map(move |label| (ty, label)));
    for ((ty, (at, label)), oid) in all.zip(FIRST_LABEL..) {
        rows.add(&[
            ("oid", Value::Int(oid)),
            ("enumtypid", Value::Int(ty.oid.0.into())),
            ("enumsortorder", Value::Float(f64::from(at))),
            ("enumlabel", Value::text(&label.text)),
        ]);
    }
}

/// Numbers of labels: above those of all other objects.
const FIRST_LABEL: i64 = 2_000_000_000;

/// The user's types and their arrays.
fn own_types(world: &World<'_>, rows: &mut Rows<'_>) {
    for ty in world.catalog.types.values() {
        let (number, array) = (i64::from(ty.oid.0), i64::from(ty.array.0));
        let common = [
            ("typnamespace", Value::Int(PUBLIC)),
            ("typowner", Value::Int(OWNER)),
            ("typisdefined", Value::Bool(true)),
            ("typdelim", Value::text(",")),
            ("typalign", Value::text("i")),
            ("typtypmod", Value::Int(-1)),
        ];
        let own = [
            ("oid", Value::Int(number)),
            ("typname", Value::text(&ty.name)),
            ("typlen", Value::Int(4)),
            ("typbyval", Value::Bool(true)),
            ("typtype", Value::text("e")),
            ("typcategory", Value::text("E")),
            ("typarray", Value::Int(array)),
            ("typstorage", Value::text("p")),
        ];
        let of_array = [
            ("oid", Value::Int(array)),
            ("typname", Value::text(format!("_{}", ty.name))),
            ("typlen", Value::Int(-1)),
            ("typtype", Value::text("b")),
            ("typcategory", Value::text("A")),
            ("typelem", Value::Int(number)),
            ("typstorage", Value::text("x")),
        ];
        rows.add(&[&own[..], &common].concat());
        rows.add(&[&of_array[..], &common].concat());
    }
}

/// The rows of `pg_type`: the types and their arrays.
pub fn types(world: &World<'_>, rows: &mut Rows<'_>) {
    own_types(world, rows);
    for (number, name, _, length, category, array) in TYPES {
        let (_, align, storage, collation) = layout_of(world.catalog, number);
        let is_vector = matches!(number, 22 | 30);
        let element = Type(number).element().filter(|_| is_vector).map_or(0, |element| element.0);
        let kind = match category {
            'P' | 'X' => "p",
            'R' => "r",
            _ => "b",
        };
        rows.add(&[
            ("oid", Value::Int(number.into())),
            ("typname", Value::text(name)),
            ("typnamespace", Value::Int(PG_CATALOG)),
            ("typowner", Value::Int(OWNER)),
            ("typlen", Value::Int(length)),
            ("typbyval", Value::Bool(matches!(length, 1 | 2 | 4 | 8))),
            ("typtype", Value::text(kind)),
            ("typcategory", Value::text(category)),
            ("typispreferred", Value::Bool(matches!(number, 16 | 25 | 26 | 701 | 1184 | 1186))),
            ("typisdefined", Value::Bool(true)),
            ("typdelim", Value::text(",")),
            ("typelem", Value::Int(element.into())),
            ("typarray", Value::Int(array.into())),
            ("typalign", Value::text(align)),
            ("typstorage", Value::text(storage)),
            ("typtypmod", Value::Int(-1)),
            ("typcollation", Value::Int(collation)),
        ]);
        if array == 0 {
            continue;
        }
        rows.add(&[
            ("oid", Value::Int(array.into())),
            ("typname", Value::text(format!("_{name}"))),
            ("typnamespace", Value::Int(PG_CATALOG)),
            ("typowner", Value::Int(OWNER)),
            ("typlen", Value::Int(-1)),
            ("typtype", Value::text("b")),
            ("typcategory", Value::text("A")),
            ("typisdefined", Value::Bool(true)),
            ("typdelim", Value::text(",")),
            ("typelem", Value::Int(number.into())),
            ("typalign", Value::text(if align == "d" { "d" } else { "i" })),
            ("typstorage", Value::text("x")),
            ("typtypmod", Value::Int(-1)),
            ("typcollation", Value::Int(collation)),
        ]);
    }
}

/// The number of a type by the name that a statement has for it.
pub fn named(world: &World<'_>, name: &str) -> Option<i64> {
    of_system(name).or_else(|| {
        let ty = compiler::typed::named_type(world.catalog, name).ok()?;
        matches!(ty, SqlType::Enum(_) | SqlType::Array(Element::Enum(_))).then(|| number_of(ty).0.into())
    })
}

fn of_system(name: &str) -> Option<i64> {
    let name = name.trim();
    let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
    if let Some(element) = name.strip_suffix("[]") {
        let element = of_system(element)?;
        return TYPES.iter().find(|ty| i64::from(ty.0) == element).map(|ty| ty.5.into());
    }
    let bare = name.split('(').next().unwrap_or(name).trim();
    let known = TYPES.iter().find(|ty| ty.1 == bare || ty.2 == bare);
    let by_synonym = || match bare {
        "int" => Some(23),
        "decimal" => Some(1700),
        "char" => Some(1042),
        _ => TYPES.iter().find(|ty| bare.strip_prefix('_') == Some(ty.1)).map(|ty| ty.5.into()),
    };
    known.map(|ty| ty.0.into()).or_else(by_synonym)
}
