//! JSON documents. A `json` is kept as it was written; a `jsonb` is written anew: its keys sorted
//! by length and then by bytes, the last of equal keys, one blank behind `:` and `,`, numbers as
//! decimal numbers are written. So the parts of a `jsonb` are found by the same search as those of
//! a `json`.

pub mod change;
pub mod parts;
pub mod tree;

use crate::value::Numeric;
use crate::{Datum, SqlError, SqlState, SqlType, array};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;
use std::fmt::Write as _;

/// The most levels of a `jsonb`.
const DEPTH: usize = 1000;

/// # Errors
/// `22P02` if the text is no document.
pub fn check(text: &str) -> Result<(), SqlError> {
    raw(text).map(|_| ())
}

/// The text as a `jsonb`.
///
/// # Errors
/// `22P02` if the text is no document, `22P05` if a string has the character 0, `54001` if it is
/// nested too deeply.
pub fn normalize(text: &str) -> Result<String, SqlError> {
    let mut out = String::with_capacity(text.len());
    write_normal(&mut out, raw(text)?, DEPTH)?;
    Ok(out)
}

/// `document -> step`: an element by its name or its position; null if there is none.
///
/// # Errors
/// `22P02` if the document is none.
pub fn get(document: &str, step: &Datum) -> Result<Datum, SqlError> {
    Ok(element(document, step)?.map_or(Datum::Null, |element| Datum::Text(element.into())))
}

/// `document ->> step`: the element as text: a string without its quotes, null for a null.
///
/// # Errors
/// Those of [`get`], and `22P05` if a string has the character 0.
pub fn get_text(document: &str, step: &Datum) -> Result<Datum, SqlError> {
    match element(document, step)? {
        None | Some("null") => Ok(Datum::Null),
        Some(text) if text.starts_with('"') => string(text).map(Datum::Text),
        Some(text) => Ok(Datum::Text(text.into())),
    }
}

/// `json_typeof`.
pub fn type_of(document: &str) -> &'static str {
    match document.trim_start().as_bytes().first() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    }
}

/// # Errors
/// `22023` if the document is no array.
pub fn array_length(document: &str) -> Result<i64, SqlError> {
    match type_of(document) {
        "array" => Ok(parse::<Vec<&RawValue>>(document)?.len() as i64),
        "object" => Err(SqlError::new(SqlState::INVALID_PARAMETER, "cannot get array length of a non-array")),
        _ => Err(SqlError::new(SqlState::INVALID_PARAMETER, "cannot get array length of a scalar")),
    }
}

/// `a || b` of two `jsonb`: objects are merged, and arrays are joined; anything else counts as an
/// array of it.
///
/// # Errors
/// Those of [`normalize`].
pub fn concat(a: &str, b: &str) -> Result<String, SqlError> {
    let inside = |text: &str| text[1..text.len() - 1].to_owned();
    let joined = |a: String, b: String| if a.is_empty() || b.is_empty() { a + &b } else { a + ", " + &b };
    let items = |text: &str| if type_of(text) == "array" { inside(text) } else { text.to_owned() };
    match (type_of(a), type_of(b)) {
        ("object", "object") => normalize(&format!("{{{}}}", joined(inside(a), inside(b)))),
        _ => Ok(format!("[{}]", joined(items(a), items(b)))),
    }
}

/// The form that a value has in a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A number or a truth value: as it is, but for those that JSON does not have.
    Plain,
    /// A document.
    Json,
    /// A time: in ISO 8601.
    Time,
    /// A string.
    Text,
}

const KINDS: [(Kind, &str); 4] =
    [(Kind::Plain, "plain"), (Kind::Json, "json"), (Kind::Time, "time"), (Kind::Text, "text")];
/// Before the name of a kind: an array of it.
const ARRAY_OF: &str = "array of ";

impl Kind {
    /// The kind of values of this type.
    pub fn of(ty: SqlType) -> Kind {
        use SqlType::{Bool, Float4, Float8, Int2, Int4, Int8, Json, Jsonb, Numeric, Timestamp, TimestampTz};
        match ty {
            Bool | Int2 | Int4 | Int8 | Float4 | Float8 | Numeric(_) => Kind::Plain,
            Json | Jsonb => Kind::Json,
            Timestamp | TimestampTz => Kind::Time,
            _ => Kind::Text,
        }
    }

    /// The name of the form of a type's values, for [`Kind::named`].
    pub fn name_of(ty: SqlType) -> String {
        let (before, ty) = match ty {
            SqlType::Array(element) => (ARRAY_OF, element.ty()),
            ty => ("", ty),
        };
        let kind = Kind::of(ty);
        let name = KINDS.iter().find(|known| known.0 == kind).map_or("", |known| known.1);
        format!("{before}{name}")
    }

    /// The kind of this name, and whether it is one of an array's elements.
    pub fn named(name: &str) -> (Kind, bool) {
        let (name, is_array) = name.strip_prefix(ARRAY_OF).map_or((name, false), |name| (name, true));
        let kind = KINDS.iter().find(|known| known.1 == name).map_or(Kind::Text, |known| known.0);
        (kind, is_array)
    }
}

/// The document of a value that is this text.
///
/// # Errors
/// Those of [`array::elements`] and [`quoted`].
pub fn document(text: &str, (kind, is_array): (Kind, bool)) -> Result<String, SqlError> {
    if !is_array {
        return scalar(text, kind);
    }
    let elements = array::elements(text)?.into_iter();
    let written = elements.map(|element| match element {
        Some(element) => scalar(&element, kind),
        None => Ok("null".to_owned()),
    });
    Ok(format!("[{}]", written.collect::<Result<Vec<_>, _>>()?.join(",")))
}

fn scalar(text: &str, kind: Kind) -> Result<String, SqlError> {
    match kind {
        Kind::Json => Ok(text.to_owned()),
        Kind::Text => quoted(text),
        Kind::Plain => match text {
            // In arrays.
            "t" => Ok("true".to_owned()),
            "f" => Ok("false".to_owned()),
            "NaN" | "Infinity" | "-Infinity" => quoted(text),
            _ => Ok(text.to_owned()),
        },
        Kind::Time => {
            let mut iso = text.replacen(' ', "T", 1);
            // Whole hours from universal time have minutes, too.
            let has_hours = iso.len() > 3 && matches!(iso.as_bytes()[iso.len() - 3], b'+' | b'-');
            if has_hours && iso.contains(':') {
                iso.push_str(":00");
            }
            quoted(&iso)
        }
    }
}

/// The text as a string of a document.
///
/// # Errors
/// `22P05` if it has the character 0.
pub fn quoted(text: &str) -> Result<String, SqlError> {
    let mut out = String::with_capacity(text.len() + 2);
    write_string(&mut out, text)?;
    Ok(out)
}

fn raw(text: &str) -> Result<&str, SqlError> {
    serde_json::from_str::<&RawValue>(text).map(RawValue::get).map_err(|error| {
        SqlError::new(SqlState::INVALID_TEXT, "invalid input syntax for type json")
            .with_detail(format!("{error}."))
    })
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, SqlError> {
    serde_json::from_str(text).map_err(|error| {
        if text.contains("\\u") {
            return SqlError::new(SqlState::INVALID_TEXT, "invalid input syntax for type json")
                .with_detail("Unicode high surrogate must not follow a high surrogate.");
        }
        SqlError::new(SqlState::INVALID_TEXT, "invalid input syntax for type json")
            .with_detail(format!("{error}."))
    })
}

/// The text of a JSON string.
fn string(text: &str) -> Result<String, SqlError> {
    let string: String = parse(text)?;
    if string.contains('\0') {
        return Err(SqlError::new(SqlState::UNTRANSLATABLE_CHARACTER, "unsupported Unicode escape sequence")
            .with_detail("\\u0000 cannot be converted to text."));
    }
    Ok(string)
}

/// The text of an element.
fn element<'a>(document: &'a str, step: &Datum) -> Result<Option<&'a str>, SqlError> {
    match (type_of(document), step) {
        ("object", Datum::Text(name)) => {
            let Entries(entries) = parse(document)?;
            Ok(entries.into_iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.get()))
        }
        ("array", Datum::Int(position)) => {
            let items: Vec<&RawValue> = parse(document)?;
            let position = if *position < 0 { *position + items.len() as i64 } else { *position };
            Ok(usize::try_from(position).ok().and_then(|i| items.get(i)).map(|item| item.get()))
        }
        _ => raw(document).map(|_| None),
    }
}

/// The members of an object in their order, equal keys included.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Entries<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

fn write_normal(out: &mut String, text: &str, depth: usize) -> Result<(), SqlError> {
    if depth == 0 {
        let message = format!("a jsonb document is nested more than {DEPTH} levels deep");
        return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
    }
    match type_of(text) {
        "object" => {
            let Entries(mut entries) = parse(text)?;
            // The sort is stable, so the last of equal keys stays last.
            entries.sort_by(|(a, _), (b, _)| (a.len(), a).cmp(&(b.len(), b)));
            let is_last = |i: usize| entries.get(i + 1).is_none_or(|(next, _)| *next != entries[i].0);
            let mut separator = "{";
            for (key, value) in (0..entries.len()).filter(|i| is_last(*i)).map(|i| &entries[i]) {
                out.push_str(separator);
                write_string(out, key)?;
                out.push_str(": ");
                write_normal(out, value.get(), depth - 1)?;
                separator = ", ";
            }
            out.push_str(if entries.is_empty() { "{}" } else { "}" });
        }
        "array" => {
            let items: Vec<&RawValue> = parse(text)?;
            out.push('[');
            for (i, item) in items.into_iter().enumerate() {
                out.push_str(if i == 0 { "" } else { ", " });
                write_normal(out, item.get(), depth - 1)?;
            }
            out.push(']');
        }
        "string" => write_string(out, &string(text)?)?,
        "number" => out.push_str(&Numeric::parse(text)?.to_string()),
        _ => out.push_str(text),
    }
    Ok(())
}

fn write_string(out: &mut String, text: &str) -> Result<(), SqlError> {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0' => return string("\"\\u0000\"").map(|_| ()),
            c if c < ' ' => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    Ok(())
}
