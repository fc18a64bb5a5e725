//! Functions: their names, the types of their results, and those that need no catalog.

use crate::value::{Type, Value, compare_nulls_last};
use sql::{SqlError, SqlState};

/// A function, by its name in [`FUNCTIONS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function(pub &'static str);

/// Names, and what they give: `=` is the type of the first argument that has one.
const FUNCTIONS: &[(&str, &str)] = &[
    ("acldefault", "text[]"),
    ("array_length", "int4"),
    ("array_lower", "int4"),
    ("array_ndims", "int4"),
    ("array_position", "int4"),
    ("array_remove", "="),
    ("array_to_string", "text"),
    ("array_upper", "int4"),
    ("btrim", "text"),
    ("cardinality", "int4"),
    ("char_length", "int4"),
    ("coalesce", "="),
    ("col_description", "text"),
    ("concat", "text"),
    ("concat_ws", "text"),
    ("current_database", "name"),
    ("current_schema", "name"),
    ("current_schemas", "name[]"),
    ("current_setting", "text"),
    ("current_user", "name"),
    ("format", "text"),
    ("format_type", "text"),
    ("generate_series", "int4"),
    ("generate_subscripts", "int4"),
    ("greatest", "="),
    ("has_any_column_privilege", "bool"),
    ("has_column_privilege", "bool"),
    ("has_database_privilege", "bool"),
    ("has_function_privilege", "bool"),
    ("has_schema_privilege", "bool"),
    ("has_sequence_privilege", "bool"),
    ("has_table_privilege", "bool"),
    ("json_build_object", "json"),
    ("least", "="),
    ("left", "text"),
    ("length", "int4"),
    ("lower", "text"),
    ("nullif", "="),
    ("obj_description", "text"),
    ("oidvectortypes", "text"),
    ("pg_backend_pid", "int4"),
    ("pg_char_to_encoding", "int4"),
    ("pg_client_encoding", "name"),
    ("pg_collation_is_visible", "bool"),
    ("pg_conversion_is_visible", "bool"),
    ("pg_database_size", "int8"),
    ("pg_encoding_to_char", "name"),
    ("pg_function_is_visible", "bool"),
    ("pg_get_constraintdef", "text"),
    ("pg_get_expr", "text"),
    ("pg_get_function_arguments", "text"),
    ("pg_get_function_identity_arguments", "text"),
    ("pg_get_function_result", "text"),
    ("pg_get_function_sqlbody", "text"),
    ("pg_get_functiondef", "text"),
    ("pg_get_indexdef", "text"),
    ("pg_get_partition_constraintdef", "text"),
    ("pg_get_partkeydef", "text"),
    ("pg_get_ruledef", "text"),
    ("pg_get_serial_sequence", "text"),
    ("pg_get_statisticsobjdef_columns", "text"),
    ("pg_get_triggerdef", "text"),
    ("pg_get_userbyid", "name"),
    ("pg_get_viewdef", "text"),
    ("pg_has_role", "bool"),
    ("pg_index_column_has_property", "bool"),
    ("pg_indexes_size", "int8"),
    ("pg_is_in_recovery", "bool"),
    ("pg_is_other_temp_schema", "bool"),
    ("pg_my_temp_schema", "oid"),
    ("pg_opclass_is_visible", "bool"),
    ("pg_options_to_table", "record"),
    ("pg_operator_is_visible", "bool"),
    ("pg_partition_ancestors", "regclass"),
    ("pg_postmaster_start_time", "timestamptz"),
    ("pg_relation_filenode", "oid"),
    ("pg_relation_is_publishable", "bool"),
    ("pg_relation_size", "int8"),
    ("pg_size_pretty", "text"),
    ("pg_stat_get_numscans", "int8"),
    ("pg_table_is_visible", "bool"),
    ("pg_table_size", "int8"),
    ("pg_tablespace_location", "text"),
    ("pg_tablespace_size", "int8"),
    ("pg_total_relation_size", "int8"),
    ("pg_type_is_visible", "bool"),
    ("pg_ts_config_is_visible", "bool"),
    ("pg_typeof", "regtype"),
    ("position", "int4"),
    ("quote_ident", "text"),
    ("quote_literal", "text"),
    ("regexp_replace", "text"),
    ("replace", "text"),
    ("right", "text"),
    ("round", "="),
    ("row_to_json", "json"),
    ("set_config", "text"),
    ("shobj_description", "text"),
    ("split_part", "text"),
    ("string_to_array", "text[]"),
    ("strpos", "int4"),
    ("substr", "text"),
    ("substring", "text"),
    ("to_char", "text"),
    ("to_regclass", "regclass"),
    ("to_regnamespace", "regnamespace"),
    ("to_regtype", "regtype"),
    ("translate", "text"),
    ("txid_current", "int8"),
    ("unnest", "text"),
    ("upper", "text"),
    ("version", "text"),
    ("_pg_expandarray", "record"),
];

/// A function by its name, and the type of its result for these arguments.
pub fn find(name: &str, types: &[Type]) -> Option<(Function, Type)> {
    let at = FUNCTIONS.iter().position(|(known, _)| *known == name)?;
    let (name, result) = FUNCTIONS[at];
    let ty = match result {
        "=" => types.iter().copied().find(|ty| *ty != Type::UNKNOWN).unwrap_or(Type::UNKNOWN),
        "record" => Type::RECORD,
        result => crate::bind::type_named(result).ok()?,
    };
    Some((Function(name), ty))
}

/// Whether it is one that only the catalogs' queries have.
pub fn is_of_catalogs(name: &str) -> bool {
    let is_known = FUNCTIONS.iter().any(|(known, _)| *known == name);
    is_known
        && (name.starts_with("pg_")
            || name.starts_with("has_")
            || name.starts_with("to_reg")
            || name.starts_with("array_")
            || matches!(
                name,
                "acldefault"
                    | "current_schemas"
                    | "format_type"
                    | "obj_description"
                    | "col_description"
                    | "shobj_description"
                    | "set_config"
                    | "current_setting"
                    | "quote_ident"
            ))
}

/// A function of the list.
pub fn named(name: &str) -> Function {
    find(name, &[]).map_or(Function(""), |(function, _)| function)
}

/// Whether names of objects are given to it as text.
pub fn takes_text(name: &str) -> bool {
    matches!(
        name,
        "concat"
            | "concat_ws"
            | "length"
            | "lower"
            | "upper"
            | "quote_ident"
            | "quote_literal"
            | "replace"
            | "substring"
            | "strpos"
            | "split_part"
            | "format"
    )
}

pub fn missing(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {name} does not exist in a catalog query"))
}

fn int(v: usize) -> Value {
    Value::Int(i64::try_from(v).unwrap_or(i64::MAX))
}

/// Functions of their arguments alone; `None` for those that need more.
pub fn call(name: &str, args: &[Value]) -> Option<Value> {
    Some(match (name, args) {
        ("coalesce", args) => args.iter().find(|arg| !arg.is_null()).cloned().unwrap_or_default(),
        ("nullif", [a, b]) => {
            if compare_nulls_last(a, b).is_eq() {
                Value::Null
            } else {
                a.clone()
            }
        }
        ("greatest", args) => args
            .iter()
            .filter(|arg| !arg.is_null())
            .max_by(|a, b| compare_nulls_last(a, b))
            .cloned()
            .unwrap_or_default(),
        ("least", args) => args
            .iter()
            .filter(|arg| !arg.is_null())
            .min_by(|a, b| compare_nulls_last(a, b))
            .cloned()
            .unwrap_or_default(),
        ("concat", args) => Value::Text(args.iter().map(Value::to_text).collect()),
        ("concat_ws", [separator, args @ ..]) => {
            let parts: Vec<String> = args.iter().filter(|arg| !arg.is_null()).map(Value::to_text).collect();
            Value::Text(parts.join(&separator.to_text()))
        }
        ("json_build_object", args) => json_object(args),
        ("array_to_string", [Value::Array(items), separator, rest @ ..]) => {
            let null = rest.first().map(Value::to_text);
            let parts = items
                .iter()
                .filter_map(|item| if item.is_null() { null.clone() } else { Some(item.to_text()) });
            Value::Text(parts.collect::<Vec<_>>().join(&separator.to_text()))
        }
        ("array_position", [Value::Array(items), wanted]) => items
            .iter()
            .position(|item| compare_nulls_last(item, wanted).is_eq())
            .map_or(Value::Null, |at| int(at + 1)),
        ("array_remove", [Value::Array(items), unwanted]) => Value::Array(
            items.iter().filter(|item| compare_nulls_last(item, unwanted).is_ne()).cloned().collect(),
        ),
        // All others have nothing to say of nothing.
        (_, args) if args.iter().any(Value::is_null) && is_strict(name) => Value::Null,
        ("array_length" | "array_upper", [Value::Array(items), ..]) if !items.is_empty() => int(items.len()),
        ("array_lower" | "array_ndims", [Value::Array(items), ..]) if !items.is_empty() => int(1),
        ("array_length" | "array_upper" | "array_lower" | "array_ndims", _) => Value::Null,
        ("cardinality", [Value::Array(items)]) => int(items.len()),
        ("string_to_array", [text, separator]) => {
            let (text, separator) = (text.to_text(), separator.to_text());
            Value::Array(text.split(separator.as_str()).map(Value::text).collect())
        }
        (name, args) => return text_function(name, args),
    })
}

fn is_strict(name: &str) -> bool {
    !matches!(
        name,
        "format_type" | "version" | "current_setting" | "pg_get_constraintdef" | "row_to_json" | "format"
    )
}

fn text_function(name: &str, args: &[Value]) -> Option<Value> {
    let texts: Vec<String> = args.iter().map(Value::to_text).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    Some(match (name, texts.as_slice()) {
        ("lower", [text]) => Value::Text(text.to_lowercase()),
        ("upper", [text]) => Value::Text(text.to_uppercase()),
        ("length" | "char_length", [text]) => int(text.chars().count()),
        ("btrim", [text]) => Value::text(text.trim_matches(' ')),
        ("btrim", [text, set]) => Value::text(text.trim_matches(|c| set.contains(c))),
        ("replace", [text, from, to]) => Value::Text(text.replace(from, to)),
        ("translate", [text, from, to]) => {
            let to: Vec<char> = to.chars().collect();
            let one = |c: char| match from.chars().position(|known| known == c) {
                Some(at) => to.get(at).copied(),
                None => Some(c),
            };
            Value::Text(text.chars().filter_map(one).collect())
        }
        ("strpos" | "position", [text, part]) => {
            text.find(part).map_or(Value::Int(0), |at| int(text[..at].chars().count() + 1))
        }
        ("left", [text, _]) => {
            let count = args[1].as_int().unwrap_or(0).max(0) as usize;
            Value::Text(text.chars().take(count).collect())
        }
        ("right", [text, _]) => {
            let count = args[1].as_int().unwrap_or(0).max(0) as usize;
            let length = text.chars().count();
            Value::Text(text.chars().skip(length.saturating_sub(count)).collect())
        }
        ("split_part", [text, separator, _]) => {
            let at = args[2].as_int().unwrap_or(1).max(1) as usize;
            Value::text(text.split(separator).nth(at - 1).unwrap_or(""))
        }
        ("substring" | "substr", [text, from, rest @ ..]) => substring(text, (from, args[1].as_int()), rest)?,
        ("regexp_replace", [text, pattern, to, ..]) => {
            let regex = regex_lite::Regex::new(pattern).ok()?;
            let to = to.replace('$', "$$").replace("\\1", "${1}");
            Value::Text(match texts.get(3) {
                Some(flags) if flags.contains('g') => regex.replace_all(text, to.as_str()).into_owned(),
                _ => regex.replace(text, to.as_str()).into_owned(),
            })
        }
        ("quote_ident", [text]) => Value::Text(crate::relations::quoted(text)),
        ("quote_literal", [text]) => Value::Text(format!("'{}'", text.replace('\'', "''"))),
        ("round" | "to_char", [_, ..]) => args[0].clone(),
        ("format", [pattern, values @ ..]) => Value::Text(formatted(pattern, values)),
        _ => return None,
    })
}

/// From a position, or what a pattern matches.
fn substring(text: &str, (from, start): (&str, Option<i64>), rest: &[&str]) -> Option<Value> {
    let Some(start) = start else {
        let found = regex_lite::Regex::new(from).ok()?.captures(text);
        let part = found.and_then(|found| found.get(1).or_else(|| found.get(0)));
        return Some(part.map_or(Value::Null, |part| Value::text(part.as_str())));
    };
    let length = rest.first().and_then(|length| length.parse::<i64>().ok());
    let end = length.map_or(i64::MAX, |length| start.saturating_add(length));
    let kept = text.chars().zip(1_i64..).filter(|(_, at)| *at >= start && *at < end);
    Some(Value::Text(kept.map(|(c, _)| c).collect()))
}

/// `%I`, `%s` and `%L` in the pattern are the values in turn: as a name, as text, as a literal.
fn formatted(pattern: &str, values: &[&str]) -> String {
    let mut values = values.iter();
    let mut parts = pattern.split('%');
    let mut out = parts.next().unwrap_or("").to_owned();
    for part in parts {
        let mut chars = part.chars();
        match chars.next() {
            Some('I') => out.push_str(&crate::relations::quoted(values.next().unwrap_or(&""))),
            Some('s') => out.push_str(values.next().unwrap_or(&"")),
            Some('L') => out.push_str(&format!("'{}'", values.next().unwrap_or(&"").replace('\'', "''"))),
            _ => out.push('%'),
        }
        out.push_str(chars.as_str());
    }
    out
}

fn json_object(args: &[Value]) -> Value {
    let one = |value: &Value| match value {
        Value::Null => "null".to_owned(),
        Value::Bool(v) => v.to_string(),
        Value::Int(v) => v.to_string(),
        other => json_text(&other.to_text()),
    };
    let pairs: Vec<String> = args
        .chunks(2)
        .map(|pair| format!("{} : {}", json_text(&pair[0].to_text()), pair.get(1).map_or("null".into(), one)))
        .collect();
    Value::Text(format!("{{{}}}", pairs.join(", ")))
}

fn json_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
