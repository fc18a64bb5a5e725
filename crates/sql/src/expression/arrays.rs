//! Functions of arrays.

use super::Function;
use super::context::mistyped;
use crate::compare::compare;
use crate::text::{array_of, to_string, values_of};
use crate::{Datum, Element, SqlError, SqlState, SqlType, array, text};
use std::borrow::Cow;

type Args<'a> = [Cow<'a, Datum>];

/// The value of a function of arrays; `None` for other functions. `ty` is the type of the result,
/// or that of the array where the result is a number or a boolean.
pub(super) fn call(function: Function, args: &Args<'_>, ty: SqlType) -> Result<Option<Datum>, SqlError> {
    Ok(Some(match function {
        Function::Array => match ty {
            SqlType::Array(element) => array_of(element, args.iter().map(|arg| &**arg)),
            _ => return Err(mistyped()),
        },
        Function::ArrayToString => joined(args)?,
        Function::StringToArray => separated(args)?,
        Function::ArrayConcat => concatenated(args)?,
        Function::ArrayAppend | Function::ArrayPrepend => match (function, args) {
            (Function::ArrayAppend, [array, value]) => extended(array, value, At::End, ty)?,
            (_, [value, array]) => extended(array, value, At::Begin, ty)?,
            _ => return Err(mistyped()),
        },
        Function::ArrayRemove | Function::ArrayReplace => replaced(args, ty)?,
        Function::ArrayPosition | Function::ArrayPositions => positions(function, args, ty)?,
        _ if !is_strict(function) => return Ok(None),
        _ if args.iter().any(|arg| arg.is_null()) => Datum::Null,
        function => strict(function, args, ty)?,
    }))
}

/// Whether it is a function of arrays that gives null for a null.
fn is_strict(function: Function) -> bool {
    use Function as F;
    matches!(
        function,
        F::ArrayElement
            | F::ArraySlice
            | F::ArrayCount
            | F::ArrayLength
            | F::ArrayLower
            | F::ArrayDimensions
            | F::IsAny
            | F::ArrayContains
            | F::ArrayOverlaps
    )
}

fn strict(function: Function, args: &Args<'_>, ty: SqlType) -> Result<Datum, SqlError> {
    let is_first = || matches!(args.get(1).map(|arg| &**arg), Some(Datum::Int(1)));
    let count = || elements(args.first()).map(|all| all.len() as i64);
    Ok(match function {
        Function::ArrayElement => element(args, ty)?,
        Function::ArraySlice => slice(args)?,
        Function::ArrayCount => Datum::Int(count()?),
        Function::ArrayLength if is_first() && count()? > 0 => Datum::Int(count()?),
        Function::ArrayLower if is_first() && count()? > 0 => Datum::Int(1),
        Function::ArrayLength | Function::ArrayLower => Datum::Null,
        Function::ArrayDimensions => match count()? {
            0 => Datum::Null,
            _ if ty == SqlType::Int4 => Datum::Int(1),
            count => Datum::Text(format!("[1:{count}]")),
        },
        Function::IsAny => is_any(args, ty)?,
        Function::ArrayContains => contains(args, ty, true)?,
        Function::ArrayOverlaps => contains(args, ty, false)?,
        _ => return Err(mistyped()),
    })
}

fn elements(arg: Option<&Cow<'_, Datum>>) -> Result<array::Elements, SqlError> {
    match arg.map(|arg| &**arg) {
        Some(Datum::Text(text)) => array::elements(text),
        _ => Err(mistyped()),
    }
}

fn values(arg: &Datum, ty: SqlType) -> Result<Vec<Datum>, SqlError> {
    match (arg, ty) {
        (Datum::Text(text), SqlType::Array(element)) => values_of(element, text),
        _ => Err(mistyped()),
    }
}

fn element(args: &Args<'_>, ty: SqlType) -> Result<Datum, SqlError> {
    let Some(Datum::Int(at)) = args.get(1).map(|arg| &**arg) else { return Err(mistyped()) };
    let at = usize::try_from(*at).ok().and_then(|at| at.checked_sub(1));
    let found = at.and_then(|at| elements(args.first()).map(|all| all.into_iter().nth(at)).transpose());
    match found.transpose()?.flatten() {
        Some(found) => text::read(ty, &found),
        None => Ok(Datum::Null),
    }
}

/// The elements from one number to another.
fn slice(args: &Args<'_>) -> Result<Datum, SqlError> {
    let [_, from, to] = args else { return Err(mistyped()) };
    let (Datum::Int(from), Datum::Int(to)) = (&**from, &**to) else { return Err(mistyped()) };
    let all = elements(args.first())?;
    let from = usize::try_from((*from).max(1) - 1).unwrap_or(usize::MAX).min(all.len());
    let to = usize::try_from((*to).max(0)).unwrap_or(usize::MAX).min(all.len());
    Ok(Datum::Text(array::written(all[from..to.max(from)].iter().map(Option::as_deref))))
}

/// The elements with a separator between them; nulls as the third argument, or not at all.
fn joined(args: &Args<'_>) -> Result<Datum, SqlError> {
    let text = |at: usize| match args.get(at).map(|arg| &**arg) {
        Some(Datum::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    let (Some(_), Some(separator)) = (text(0), text(1)) else { return Ok(Datum::Null) };
    let all = elements(args.first())?;
    let shown = all.iter().filter_map(|element| element.as_deref().or(text(2)));
    Ok(Datum::Text(shown.collect::<Vec<_>>().join(separator)))
}

/// `string_to_array`: the parts between separators, or all characters without one. Parts that are
/// the third argument become nulls.
fn separated(args: &Args<'_>) -> Result<Datum, SqlError> {
    let text = |at: usize| match args.get(at).map(|arg| &**arg) {
        Some(Datum::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    let Some(whole) = text(0) else { return Ok(Datum::Null) };
    let parts: Vec<&str> = match text(1) {
        _ if whole.is_empty() => Vec::new(),
        Some("") => vec![whole],
        Some(separator) => whole.split(separator).collect(),
        None => whole.split("").filter(|part| !part.is_empty()).collect(),
    };
    let null = text(2);
    Ok(Datum::Text(array::written(parts.into_iter().map(|part| (Some(part) != null).then_some(part)))))
}

/// `||` of two arrays. A null array is one of no elements.
fn concatenated(args: &Args<'_>) -> Result<Datum, SqlError> {
    let [left, right] = args else { return Err(mistyped()) };
    match (left.is_null(), right.is_null()) {
        (true, _) => Ok(right.clone().into_owned()),
        (_, true) => Ok(left.clone().into_owned()),
        _ => {
            let (mut all, more) = (elements(Some(left))?, elements(Some(right))?);
            all.extend(more);
            Ok(Datum::Text(array::written(all)))
        }
    }
}

/// An array with one more element at its end, or at its begin.
fn extended(array: &Datum, value: &Datum, at: At, ty: SqlType) -> Result<Datum, SqlError> {
    let SqlType::Array(element) = ty else { return Err(mistyped()) };
    let mut all = match array {
        Datum::Null => Vec::new(),
        Datum::Text(text) => array::elements(text)?,
        _ => return Err(mistyped()),
    };
    let text = (!value.is_null()).then(|| to_string(element.ty(), value));
    match at {
        At::End => all.push(text),
        At::Begin => all.insert(0, text),
    }
    Ok(Datum::Text(array::written(all)))
}

enum At {
    Begin,
    End,
}

/// Nulls are the same here.
fn is_same(a: &Datum, b: &Datum) -> bool {
    compare(a, b).is_eq()
}

/// `array_remove(array, value)`, `array_replace(array, value, other)`.
fn replaced(args: &Args<'_>, ty: SqlType) -> Result<Datum, SqlError> {
    let ([array, value, ..], SqlType::Array(element)) = (args, ty) else { return Err(mistyped()) };
    if array.is_null() {
        return Ok(Datum::Null);
    }
    let mut all = values(array, ty)?;
    match args.get(2) {
        None => all.retain(|one| !is_same(one, value)),
        Some(other) => {
            all.iter_mut().filter(|one| is_same(one, value)).for_each(|one| *one = (**other).clone())
        }
    }
    Ok(array_of(element, &all))
}

/// `array_position(array, value[, start])`, `array_positions(array, value)`.
fn positions(function: Function, args: &Args<'_>, ty: SqlType) -> Result<Datum, SqlError> {
    let [array, value, ..] = args else { return Err(mistyped()) };
    if array.is_null() {
        return Ok(Datum::Null);
    }
    let start = match args.get(2).map(|start| &**start) {
        None => 1,
        Some(Datum::Int(start)) => *start,
        Some(_) => {
            return Err(SqlError::new(SqlState(*b"22004"), "initial position must not be null"));
        }
    };
    let all = values(array, ty)?;
    let mut found =
        all.iter().zip(1_i64..).filter(|(one, at)| *at >= start && is_same(one, value)).map(|(_, at)| at);
    Ok(match function {
        Function::ArrayPosition => found.next().map_or(Datum::Null, Datum::Int),
        _ => array_of(Element::Int4, &found.map(Datum::Int).collect::<Vec<_>>()),
    })
}

/// Whether all elements of the second array are in the first one, or one of them is. A null is in
/// no array.
fn contains(args: &Args<'_>, ty: SqlType, all: bool) -> Result<Datum, SqlError> {
    let [whole, parts] = args else { return Err(mistyped()) };
    let (whole, parts) = (values(whole, ty)?, values(parts, ty)?);
    let is_in = |part: &Datum| !part.is_null() && whole.iter().any(|one| is_same(one, part));
    Ok(Datum::Bool(if all { parts.iter().all(is_in) } else { parts.iter().any(is_in) }))
}

fn is_any(args: &Args<'_>, ty: SqlType) -> Result<Datum, SqlError> {
    let [value, array] = args else { return Err(mistyped()) };
    let mut result = Datum::Bool(false);
    for element in values(array, ty)? {
        match element {
            Datum::Null => result = Datum::Null,
            element if is_same(value, &element) => return Ok(Datum::Bool(true)),
            _ => {}
        }
    }
    Ok(result)
}
