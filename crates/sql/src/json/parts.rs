//! Parts of a document: the one at a path, and all of an object or an array.

use super::change::{Path, integer};
use super::{Entries, parse, string, type_of};
use crate::{SqlError, SqlState, array};
use serde_json::value::RawValue;

/// `document #> path`: the part at the end of a path; `None` if there is none.
///
/// # Errors
/// Those of a text that is no document.
pub fn at_path<'a>(document: &'a str, path: Path<'_>) -> Result<Option<&'a str>, SqlError> {
    let mut part = document.trim();
    for step in path {
        let Some(step) = step else { return Ok(None) };
        let found = match type_of(part) {
            "object" => {
                let Entries(entries) = parse(part)?;
                entries.into_iter().rev().find(|(key, _)| key == step).map(|(_, value)| value.get())
            }
            "array" => {
                let items: Vec<&RawValue> = parse(part)?;
                let at = integer(step).map(|at| if at < 0 { at + items.len() as i64 } else { at });
                let at = at.and_then(|at| usize::try_from(at).ok());
                at.and_then(|at| items.get(at)).map(|item| item.get())
            }
            _ => None,
        };
        let Some(found) = found else { return Ok(None) };
        part = found;
    }
    Ok(Some(part))
}

/// A part as text: a string without its quotes, `None` for a null.
///
/// # Errors
/// `22P05` if a string has the character 0.
pub fn text_of(part: &str) -> Result<Option<String>, SqlError> {
    match part {
        "null" => Ok(None),
        part if part.starts_with('"') => string(part).map(Some),
        part => Ok(Some(part.to_owned())),
    }
}

/// What is taken of each member or element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Take {
    Keys,
    Values,
    Texts,
    /// Of an array.
    Elements,
    ElementTexts,
}

/// Whether a function gives the parts of a document as rows.
pub fn gives_parts(name: &str) -> bool {
    name.starts_with("json") && take_of(name).is_some() && !name.ends_with(" keys")
}

/// What the rows of a function take, by its name in an array; the second part of `each` has a word
/// of its own.
pub fn take_of(function: &str) -> Option<Take> {
    let (_, what) = function.split_once('_')?;
    Some(match what {
        "object_keys" | "each keys" | "each_text keys" => Take::Keys,
        "each" => Take::Values,
        "each_text" => Take::Texts,
        "array_elements" => Take::Elements,
        "array_elements_text" => Take::ElementTexts,
        _ => return None,
    })
}

/// The members of an object or the elements of an array, as an array of texts.
///
/// # Errors
/// `22023` for a document of another kind, with the words that PostgreSQL has for the function.
pub fn all(document: &str, function: &str) -> Result<String, SqlError> {
    let document = document.trim();
    let wrong = || SqlError::new(SqlState::INVALID_PARAMETER, refusal(function, type_of(document)));
    let take = take_of(function).ok_or_else(wrong)?;
    let one = |value: &RawValue| match take {
        Take::Texts | Take::ElementTexts => text_of(value.get()),
        _ => Ok(Some(value.get().to_owned())),
    };
    let parts: Vec<Option<String>> = match (take, type_of(document)) {
        (Take::Elements | Take::ElementTexts, "array") => {
            parse::<Vec<&RawValue>>(document)?.into_iter().map(one).collect::<Result<_, _>>()?
        }
        (Take::Keys, "object") => {
            let Entries(entries) = parse(document)?;
            entries.into_iter().map(|(key, _)| Some(key)).collect()
        }
        (Take::Values | Take::Texts, "object") => {
            let Entries(entries) = parse(document)?;
            entries.into_iter().map(|(_, value)| one(value)).collect::<Result<_, _>>()?
        }
        _ => return Err(wrong()),
    };
    Ok(array::written(parts))
}

fn refusal(function: &str, kind: &str) -> String {
    let name = function.trim_end_matches(" keys");
    let is_plain = name.starts_with("json_");
    let kind = if matches!(kind, "object" | "array") { kind } else { "scalar" };
    let article = if kind == "scalar" { "a" } else { "an" };
    match (name.split_once('_').map_or("", |(_, what)| what), is_plain) {
        ("object_keys", _) => format!("cannot call {name} on {article} {kind}"),
        ("each" | "each_text", true) if kind == "array" => "cannot deconstruct an array as an object".into(),
        ("each" | "each_text", true) => "cannot deconstruct a scalar".into(),
        ("each" | "each_text", false) => format!("cannot call {name} on a non-object"),
        (_, true) if kind == "object" => format!("cannot call {name} on a non-array"),
        (_, true) => format!("cannot call {name} on a scalar"),
        (_, false) => format!("cannot extract elements from {article} {kind}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_through_objects_and_arrays() {
        let document = " {\"a\": [1, {\"b\": \"x\"}, null], \"c\": 2} ";
        let at = |path: &str| at_path(document, &array::elements(path).unwrap()).unwrap();
        assert_eq!(at("{a,1,b}"), Some("\"x\""));
        assert_eq!(at("{a,-1}"), Some("null"));
        assert_eq!((at("{a,x}"), at("{a,9}"), at("{c,d}"), at("{NULL}")), (None, None, None, None));
        assert_eq!(at("{}"), Some(document.trim()));
        assert_eq!(text_of("\"x\\n\"").unwrap(), Some("x\n".into()));
        assert_eq!(text_of("null").unwrap(), None);
    }

    #[test]
    fn parts_are_listed_and_other_documents_refused() {
        let document = "{\"a\": 1, \"b\": \"x y\", \"c\": null}";
        assert_eq!(all(document, "jsonb_object_keys").unwrap(), "{a,b,c}");
        assert_eq!(all(document, "jsonb_each_text").unwrap(), "{1,\"x y\",NULL}");
        assert_eq!(all(document, "json_each").unwrap(), "{1,\"\\\"x y\\\"\",\"null\"}");
        assert_eq!(all("[1, \"x\", null]", "jsonb_array_elements_text").unwrap(), "{1,x,NULL}");
        for (document, function, words) in [
            ("[1]", "jsonb_object_keys", "cannot call jsonb_object_keys on an array"),
            ("1", "json_object_keys", "cannot call json_object_keys on a scalar"),
            ("1", "jsonb_each_text keys", "cannot call jsonb_each_text on a non-object"),
            ("[]", "json_each", "cannot deconstruct an array as an object"),
            ("{}", "jsonb_array_elements", "cannot extract elements from an object"),
            ("1", "jsonb_array_elements_text", "cannot extract elements from a scalar"),
            ("{}", "json_array_elements_text", "cannot call json_array_elements_text on a non-array"),
            ("1", "json_array_elements", "cannot call json_array_elements on a scalar"),
        ] {
            assert_eq!(all(document, function).unwrap_err().message, words);
        }
    }
}
