//! Functions and operators of JSON documents.

use super::Function;
use super::context::mistyped;
use crate::json::change::{Change, changed, without_keys, without_position};
use crate::json::parts::{all, at_path, text_of};
use crate::json::tree::Tree;
use crate::{Datum, SqlError, SqlType, array};

/// The value of a function of documents; `None` for other functions. No argument is null.
pub(super) fn call(function: Function, args: &[&Datum], ty: SqlType) -> Result<Option<Datum>, SqlError> {
    let [Datum::Text(document), rest @ ..] = args else { return Ok(None) };
    let text = |at: usize| match rest.get(at) {
        Some(Datum::Text(text)) => Ok(text.as_str()),
        _ => Err(mistyped()),
    };
    let path = || array::elements(text(0)?);
    let tree = || Tree::of(document);
    Ok(Some(match function {
        Function::JsonContains => Datum::Bool(tree()?.contains(&Tree::of(text(0)?)?)),
        Function::JsonHasKey => Datum::Bool(tree()?.has_key(text(0)?)),
        Function::JsonHasAny => {
            let tree = tree()?;
            Datum::Bool(path()?.iter().flatten().any(|name| tree.has_key(name)))
        }
        Function::JsonHasAll => {
            let tree = tree()?;
            Datum::Bool(path()?.iter().flatten().all(|name| tree.has_key(name)))
        }
        Function::JsonPath => match (at_path(document, &path()?)?, ty) {
            (None, _) => Datum::Null,
            (Some(part), SqlType::Text) => text_of(part)?.map_or(Datum::Null, Datum::Text),
            (Some(part), _) => Datum::Text(part.to_owned()),
        },
        Function::JsonDelete => Datum::Text(match rest {
            [Datum::Text(name)] => without_keys(document, &[Some(name.clone())])?,
            [Datum::Int(position)] => without_position(document, *position)?,
            _ => return Err(mistyped()),
        }),
        Function::JsonDeleteKeys => Datum::Text(without_keys(document, &path()?)?),
        Function::JsonDeletePath => Datum::Text(changed(document, &path()?, None, Change::Delete)?),
        Function::JsonSet | Function::JsonInsert => {
            let Some(Datum::Bool(flag)) = rest.get(2) else { return Err(mistyped()) };
            let change = match (function, flag) {
                (Function::JsonSet, true) => Change::Create,
                (Function::JsonSet, false) => Change::Replace,
                (_, true) => Change::InsertAfter,
                (_, false) => Change::InsertBefore,
            };
            Datum::Text(changed(document, &path()?, Some(text(1)?), change)?)
        }
        Function::JsonStripNulls => {
            let mut tree = tree()?;
            tree.strip_nulls();
            let (mut out, is_plain) = (String::new(), ty == SqlType::Json);
            tree.write(&mut out, if is_plain { ":" } else { ": " }, if is_plain { "," } else { ", " })?;
            Datum::Text(out)
        }
        Function::JsonPretty => {
            let mut out = String::new();
            tree()?.write_pretty(&mut out, 0)?;
            Datum::Text(out)
        }
        Function::JsonParts => Datum::Text(all(document, text(0)?)?),
        _ => return Ok(None),
    }))
}
