//! `enum_first`, `enum_last`, `enum_range`: their argument says the type, so they are constants.

use crate::Stop;
use crate::coerce::Typed;
use sql::{Datum, Element, Enum, Expr, SqlError, SqlState, SqlType};

/// A function of an enumeration; `None` if it is another one.
pub fn call(name: &str, args: &[Typed]) -> Result<Option<Typed>, Stop> {
    let of = |arg: &Typed| match arg.ty {
        SqlType::Enum(labels) => Some(labels),
        _ => None,
    };
    let Some(labels) = args.iter().find_map(of) else { return Ok(None) };
    let end = |code: Option<i64>| {
        let empty = || SqlError::new(SqlState(*b"55000"), format!("enum {} contains no values", labels.name));
        let code = Expr::Const(Datum::Int(code.ok_or_else(empty)?));
        Ok(Some(Typed::new(code, SqlType::Enum(labels))))
    };
    match (name, args) {
        ("enum_first", [_]) => end(labels.labels.first().map(|label| label.code)),
        ("enum_last", [_]) => end(labels.labels.last().map(|label| label.code)),
        ("enum_range", [_]) => Ok(Some(range(labels, None, None))),
        ("enum_range", [from, to]) => {
            let bound = |arg: &Typed| match arg.expr {
                Expr::Const(Datum::Int(code)) => Ok(Some(code)),
                Expr::Const(Datum::Null) => Ok(None),
                _ => {
                    Err(Stop::Error(SqlError::unsupported("enum_range of expressions", Some("Use labels."))))
                }
            };
            Ok(Some(range(labels, bound(from)?, bound(to)?)))
        }
        _ => Ok(None),
    }
}

fn range(labels: Enum, from: Option<i64>, to: Option<i64>) -> Typed {
    let is_inside = |code: i64| from.is_none_or(|from| from <= code) && to.is_none_or(|to| code <= to);
    let texts = labels.labels.iter().filter(|label| is_inside(label.code)).map(|label| label.text.clone());
    let array = Datum::Text(sql::array::written(texts.map(Some)));
    Typed::new(Expr::Const(array), SqlType::Array(Element::Enum(labels)))
}
