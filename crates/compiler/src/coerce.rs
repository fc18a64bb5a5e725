//! Literals, and values of one type as values of another.

use crate::error::{AMBIGUOUS_PARAMETER, CANNOT_COERCE, mismatch};
use crate::types::{self, name_of};
use bigdecimal::BigDecimal;
use sql::datetime::zone::Zone;
use sql::expression::Context;
use sql::value::Numeric;
use sql::{Datum, Element, Expr, SqlError, SqlState, SqlType};
use sqlparser::ast::Value;
use std::str::FromStr;

/// The most decimal digits before the point, and after it.
const MAX_EXPONENT: i64 = 131_072;

/// An expression with its type. The type is `Unknown` only for literals, parameters and `NULL`.
#[derive(Clone, PartialEq, Debug)]
pub struct Typed {
    pub expr: Expr,
    pub ty: SqlType,
}

impl Typed {
    pub fn new(expr: Expr, ty: SqlType) -> Typed {
        Typed { expr, ty }
    }

    pub fn bool(expr: Expr) -> Typed {
        Typed { expr, ty: SqlType::Bool }
    }
}

/// How a value becomes one of another type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// An operand.
    Implicit,
    /// Stored in a column.
    Assigned,
    /// By `CAST`.
    Explicit,
}

/// The parameters of a statement. Their types are given, or decided by the first use.
#[derive(Default)]
pub struct Params {
    types: Vec<SqlType>,
}

impl Params {
    pub fn new(count: usize, given: &[Option<SqlType>]) -> Params {
        let mut types = vec![SqlType::Unknown; count.max(given.len())];
        for (ty, given) in types.iter_mut().zip(given) {
            *ty = given.unwrap_or(SqlType::Unknown);
        }
        Params { types }
    }

    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// `$1` is number 1.
    ///
    /// # Errors
    /// `42P02`.
    pub fn get(&self, text: &str) -> Result<Typed, SqlError> {
        let number = text.strip_prefix('$').and_then(|number| number.parse::<u16>().ok());
        let position = number.and_then(|number| number.checked_sub(1));
        let found =
            position.and_then(|at| Some(Typed::new(Expr::Param(at), *self.types.get(usize::from(at))?)));
        found.ok_or_else(|| SqlError::new(SqlState(*b"42P02"), format!("there is no parameter {text}")))
    }

    fn decide(&mut self, position: u16, ty: SqlType) -> Result<(), SqlError> {
        let Some(known) = self.types.get_mut(usize::from(position)) else { return Ok(()) };
        if *known == SqlType::Unknown {
            *known = ty;
        } else if *known != ty {
            let message = format!("inconsistent types deduced for parameter ${}", position + 1);
            let detail = format!("{} versus {}", name_of(*known), name_of(ty));
            return Err(SqlError::new(AMBIGUOUS_PARAMETER, message).with_detail(detail));
        }
        Ok(())
    }

    /// The types of all parameters.
    ///
    /// # Errors
    /// `42P18` if one is not decided.
    pub fn finish(&self) -> Result<Vec<SqlType>, SqlError> {
        let unknown = self.types.iter().position(|ty| *ty == SqlType::Unknown);
        match unknown {
            None => Ok(self.types.clone()),
            Some(at) => {
                let message = format!("could not determine data type of parameter ${}", at + 1);
                Err(SqlError::new(SqlState::INDETERMINATE_DATATYPE, message))
            }
        }
    }

    /// The value as one of type `to`.
    ///
    /// # Errors
    /// `42804` and `42846` if the type cannot become the other, errors of the literal otherwise.
    pub fn coerce(&mut self, value: Typed, to: SqlType, how: How) -> Result<Expr, SqlError> {
        let Typed { expr, ty: from } = value;
        match expr {
            Expr::Const(Datum::Null) => return Ok(expr),
            Expr::Param(position) if from == SqlType::Unknown => {
                let any = types::without_length(to);
                self.decide(position, any)?;
                return cast(expr, any, to, how);
            }
            Expr::Const(Datum::Text(ref text)) if from == SqlType::Unknown => {
                return match read(text, to)? {
                    Some(value) => cast(Expr::Const(value), types::without_length(to), to, how),
                    None => {
                        folded(Expr::Cast { expr: expr.into(), from, to, explicit: how == How::Explicit })
                    }
                };
            }
            _ => {}
        }
        let allowed = match how {
            How::Implicit => types::is_implicit(from, to),
            How::Assigned => types::is_assignable(from, to),
            How::Explicit => types::is_castable(from, to),
        };
        if allowed {
            return cast(expr, from, to, how);
        }
        let (from, to) = (name_of(from), name_of(to));
        Err(match how {
            How::Explicit => SqlError::new(CANNOT_COERCE, format!("cannot cast type {from} to {to}")),
            _ => mismatch(format!("expression is of type {from}, but {to} is expected"))
                .with_hint("You will need to rewrite or cast the expression."),
        })
    }

    /// The value with a type that a client can get: an unknown one becomes text.
    ///
    /// # Errors
    /// Those of a parameter with another type.
    pub fn settle(&mut self, value: Typed) -> Result<Typed, SqlError> {
        if value.ty != SqlType::Unknown {
            return Ok(value);
        }
        Ok(Typed::new(self.coerce(value, SqlType::Text, How::Implicit)?, SqlType::Text))
    }
}

/// The parameters of a body, by name.
pub struct Frame {
    pub procedure: String,
    pub params: Vec<(String, Typed)>,
}

impl Frame {
    pub fn get(&self, name: &str) -> Option<&Typed> {
        self.params.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

/// A cast; of a constant, its result.
fn cast(expr: Expr, from: SqlType, to: SqlType, how: How) -> Result<Expr, SqlError> {
    if types::is_same_value(from, to) {
        return Ok(expr);
    }
    folded(Expr::Cast { expr: expr.into(), from, to, explicit: how == How::Explicit })
}

/// A cast of a constant is done once, here, unless its result depends on the session's zone.
fn folded(cast: Expr) -> Result<Expr, SqlError> {
    let Expr::Cast { expr, from, to, .. } = &cast else { return Ok(cast) };
    if !matches!(expr.as_ref(), Expr::Const(_)) {
        return Ok(cast);
    }
    let value = |zone: &Zone| {
        let context = Context { params: &[], now: 0, zone, random: &|| 0 };
        cast.eval(&context, &Vec::<Datum>::new())
    };
    let result = value(&Zone::UTC)?;
    // A later clock never shows an earlier date, so what both ends agree on is the same everywhere.
    let ends = || ["-25", "25"].into_iter().filter_map(Zone::named);
    let is_of_zone = [*from, *to]
        .iter()
        .any(|ty| matches!(ty, SqlType::TimestampTz | SqlType::Array(Element::TimestampTz)));
    let depends = is_of_zone && ends().any(|zone| value(&zone).as_ref() != Ok(&result));
    Ok(if depends { cast } else { Expr::Const(result) })
}

/// Whether an integer is one of type `ty`.
fn fits(number: i64, ty: SqlType) -> bool {
    match ty {
        SqlType::Int2 => i16::try_from(number).is_ok(),
        SqlType::Int4 => i32::try_from(number).is_ok(),
        SqlType::Oid => u32::try_from(number).is_ok(),
        _ => true,
    }
}

/// A literal's text as a value of the type, lengths and precisions aside; `None` if only the
/// evaluation of a cast reads it.
fn read(text: &str, to: SqlType) -> Result<Option<Datum>, SqlError> {
    let trimmed = text.trim();
    let invalid = || {
        let message = format!("invalid input syntax for type {}: \"{text}\"", name_of(to));
        SqlError::new(SqlState::INVALID_TEXT, message)
    };
    Ok(Some(match to {
        SqlType::Text | SqlType::Varchar(_) | SqlType::Name | SqlType::Unknown => Datum::Text(text.into()),
        SqlType::Char(0) => Datum::Text(text.trim_end_matches(' ').into()),
        SqlType::Char(_) => Datum::Text(text.into()),
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 | SqlType::Oid => {
            let number: i128 = trimmed.parse().map_err(|_| invalid())?;
            let number = i64::try_from(number).ok().filter(|number| fits(*number, to));
            Datum::Int(number.ok_or_else(|| {
                let message = format!("value \"{text}\" is out of range for type {}", name_of(to));
                SqlError::new(SqlState::NUMERIC_OUT_OF_RANGE, message)
            })?)
        }
        SqlType::Numeric(_) if trimmed.eq_ignore_ascii_case("nan") => Datum::Numeric(Numeric::NaN),
        SqlType::Numeric(_) => {
            Datum::Numeric(Numeric::Number(decimal(trimmed).map_err(|error| error.unwrap_or_else(invalid))?))
        }
        SqlType::Bool => Datum::Bool(boolean(&trimmed.to_ascii_lowercase()).ok_or_else(invalid)?),
        _ => return Ok(None),
    }))
}

fn boolean(text: &str) -> Option<bool> {
    let is = |word: &str| !text.is_empty() && word.starts_with(text);
    match text {
        "1" | "on" => Some(true),
        "0" | "of" | "off" => Some(false),
        "o" => None,
        _ if is("true") || is("yes") => Some(true),
        _ if is("false") || is("no") => Some(false),
        _ => None,
    }
}

/// `Err(None)` if the text is no number.
fn decimal(text: &str) -> Result<BigDecimal, Option<SqlError>> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    let number = BigDecimal::from_str(text).ok().filter(|_| plain).ok_or(None)?;
    let (digits, scale) = (number.digits(), number.fractional_digit_count());
    let before = i64::try_from(digits).unwrap_or(i64::MAX).saturating_sub(scale);
    if before > MAX_EXPONENT || scale > MAX_EXPONENT {
        return Err(Some(SqlError::new(SqlState::NUMERIC_OUT_OF_RANGE, "value overflows numeric format")));
    }
    // `1e3` is stored with all its digits, as PostgreSQL does.
    Ok(if scale < 0 { number.with_scale(0) } else { number })
}

/// A literal.
///
/// # Errors
/// `0A000` for kinds of literals that Atoll does not have, `22003` for numbers out of range.
pub fn literal(value: &Value) -> Result<Typed, SqlError> {
    Ok(match value {
        Value::Number(digits, _) => number(digits)?,
        Value::SingleQuotedString(text)
        | Value::EscapedStringLiteral(text)
        | Value::UnicodeStringLiteral(text)
        | Value::NationalStringLiteral(text) => {
            Typed::new(Expr::Const(Datum::Text(text.clone())), SqlType::Unknown)
        }
        Value::DollarQuotedString(text) => {
            Typed::new(Expr::Const(Datum::Text(text.value.clone())), SqlType::Unknown)
        }
        Value::Boolean(value) => Typed::bool(Expr::Const(Datum::Bool(*value))),
        Value::Null => Typed::new(Expr::Const(Datum::Null), SqlType::Unknown),
        other => return Err(SqlError::unsupported(&format!("the literal {other}"), None)),
    })
}

fn number(digits: &str) -> Result<Typed, SqlError> {
    if let Ok(number) = digits.parse::<i64>() {
        let ty = if fits(number, SqlType::Int4) { SqlType::Int4 } else { SqlType::Int8 };
        return Ok(Typed::new(Expr::Const(Datum::Int(number)), ty));
    }
    let invalid = || SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{digits}\""));
    let number = decimal(digits).map_err(|error| error.unwrap_or_else(invalid))?;
    Ok(Typed::new(Expr::Const(Datum::Numeric(Numeric::Number(number))), SqlType::Numeric(None)))
}

/// The negative of a number; a literal stays one.
///
/// # Errors
/// `42883` for a type without a negative.
pub fn negated(value: Typed) -> Result<Typed, SqlError> {
    let Typed { expr, ty } = value;
    let expr = match expr {
        Expr::Const(Datum::Int(number)) if number != i64::MIN => {
            let ty = if ty == SqlType::Int8 && fits(-number, SqlType::Int4) { SqlType::Int4 } else { ty };
            return Ok(Typed::new(Expr::Const(Datum::Int(-number)), ty));
        }
        Expr::Const(Datum::Numeric(Numeric::Number(number))) => {
            // The least bigint is written as the negative of a number that is no bigint.
            if number == 1_u64 << 63 && number.fractional_digit_count() == 0 {
                return Ok(Typed::new(Expr::Const(Datum::Int(i64::MIN)), SqlType::Int8));
            }
            Expr::Const(Datum::Numeric(Numeric::Number(-number)))
        }
        expr if types::is_number(ty) || ty == SqlType::Interval => Expr::Negate(expr.into(), ty),
        _ => {
            let message = format!("operator does not exist: - {}", name_of(ty));
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
        }
    };
    Ok(Typed::new(expr, ty))
}
