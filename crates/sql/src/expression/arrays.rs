//! Functions of arrays.

use super::Function;
use super::context::mistyped;
use crate::compare::compare;
use crate::text::{array_of, values_of};
use crate::{Datum, SqlError, SqlType, array, text};
use std::borrow::Cow;

/// The value of a function of arrays; `None` for other functions.
pub(super) fn call(
    function: Function,
    args: &[Cow<'_, Datum>],
    ty: SqlType,
) -> Result<Option<Datum>, SqlError> {
    let is_null = || args.iter().any(|arg| arg.is_null());
    Ok(Some(match function {
        Function::Array => match ty {
            SqlType::Array(element) => array_of(element, args.iter().map(|arg| &**arg)),
            _ => return Err(mistyped()),
        },
        Function::ArrayToString => to_string(args)?,
        Function::ArrayElement | Function::ArrayCount | Function::ArrayLength | Function::IsAny
            if is_null() =>
        {
            Datum::Null
        }
        Function::ArrayElement => element(args, ty)?,
        Function::ArrayCount => Datum::Int(elements(args.first())?.len() as i64),
        Function::ArrayLength => {
            let count = elements(args.first())?.len() as i64;
            let is_first = matches!(args.get(1).map(|arg| &**arg), Some(Datum::Int(1)));
            if is_first && count > 0 { Datum::Int(count) } else { Datum::Null }
        }
        Function::IsAny => is_any(args, ty)?,
        _ => return Ok(None),
    }))
}

fn elements(arg: Option<&Cow<'_, Datum>>) -> Result<array::Elements, SqlError> {
    match arg.map(|arg| &**arg) {
        Some(Datum::Text(text)) => array::elements(text),
        _ => Err(mistyped()),
    }
}

fn element(args: &[Cow<'_, Datum>], ty: SqlType) -> Result<Datum, SqlError> {
    let Some(Datum::Int(at)) = args.get(1).map(|arg| &**arg) else { return Err(mistyped()) };
    let at = usize::try_from(*at).ok().and_then(|at| at.checked_sub(1));
    let found = at.and_then(|at| elements(args.first()).map(|all| all.into_iter().nth(at)).transpose());
    match found.transpose()?.flatten() {
        Some(found) => text::read(ty, &found),
        None => Ok(Datum::Null),
    }
}

/// The elements with a separator between them; nulls as the third argument, or not at all.
fn to_string(args: &[Cow<'_, Datum>]) -> Result<Datum, SqlError> {
    let text = |at: usize| match args.get(at).map(|arg| &**arg) {
        Some(Datum::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    let (Some(_), Some(separator)) = (text(0), text(1)) else { return Ok(Datum::Null) };
    let all = elements(args.first())?;
    let shown = all.iter().filter_map(|element| element.as_deref().or(text(2)));
    Ok(Datum::Text(shown.collect::<Vec<_>>().join(separator)))
}

fn is_any(args: &[Cow<'_, Datum>], ty: SqlType) -> Result<Datum, SqlError> {
    let ([value, array], SqlType::Array(element)) = (args, ty) else { return Err(mistyped()) };
    let Datum::Text(array) = &**array else { return Err(mistyped()) };
    let mut result = Datum::Bool(false);
    for element in values_of(element, array)? {
        match element {
            Datum::Null => result = Datum::Null,
            element if compare(value, &element).is_eq() => return Ok(Datum::Bool(true)),
            _ => {}
        }
    }
    Ok(result)
}
