//! Values as text, as PostgreSQL's clients send and expect them, with its errors for bad input.

use crate::array;
use crate::datetime::zone::{Zone, offset_text};
use crate::datetime::{self, interval_text, read as times, write as written};
use crate::numeric::is_blank;
use crate::value::Numeric;
use crate::{Datum, Element, SqlError, SqlState, SqlType, json};
use std::fmt::{Display, Write as _};

/// The most bytes of a name.
const NAME: usize = 63;

/// Appends a value's text, a time in universal time. Null has none: the caller writes it in its own
/// way.
pub fn write(out: &mut String, ty: SqlType, datum: &Datum) {
    write_in(out, ty, datum, &Zone::UTC);
}

/// Appends a value's text, an instant as the time in a zone.
pub fn write_in(out: &mut String, ty: SqlType, datum: &Datum, zone: &Zone) {
    match datum {
        Datum::Null => {}
        Datum::Bool(v) => out.push(if *v { 't' } else { 'f' }),
        Datum::Int(code) if let SqlType::Enum(labels) = ty => {
            out.push_str(labels.text(*code).unwrap_or("?"));
        }
        Datum::Int(v) => put(out, v),
        Datum::Float(v) if ty == SqlType::Float4 => {
            let narrow = *v as f32;
            let around = [narrow.next_down(), narrow, narrow.next_up()].map(f64::from);
            let shortest = inside(format!("{narrow:e}"), around, |digits| format!("{narrow:.digits$e}"));
            write_float(out, *v, &shortest, 6);
        }
        Datum::Float(v) => {
            let around = [v.next_down(), *v, v.next_up()];
            let shortest = inside(format!("{v:e}"), around, |digits| format!("{v:.digits$e}"));
            write_float(out, *v, &shortest, 15);
        }
        Datum::Numeric(v) => put(out, v),
        Datum::Text(v) if ty == SqlType::Array(Element::TimestampTz) && *zone != Zone::UTC => {
            // The elements are in universal time, so they are read without an error.
            let shown = read_array(Element::TimestampTz, v, &Zone::UTC, zone);
            out.push_str(shown.as_deref().unwrap_or(v));
        }
        Datum::Text(v) => {
            out.push_str(v);
            if let SqlType::Char(length) = ty {
                let missing = (length as usize).saturating_sub(v.chars().count());
                out.extend(std::iter::repeat_n(' ', missing));
            }
        }
        Datum::Bytes(bytes) => {
            out.push_str("\\x");
            bytes.iter().for_each(|byte| put(out, format_args!("{byte:02x}")));
        }
        Datum::Date(v) => written::date(out, *v),
        Datum::Time(v) => written::time(out, *v),
        Datum::Timestamp(v @ (datetime::BEGIN | datetime::END)) => written::timestamp(out, *v, ""),
        Datum::Timestamp(v) if ty == SqlType::TimestampTz => {
            let offset = zone.offset_at(*v);
            written::timestamp(out, v + offset, &offset_text(offset));
        }
        Datum::Timestamp(v) => written::timestamp(out, *v, ""),
        Datum::Interval(v) => interval_text::write(out, v),
        Datum::Uuid(bytes) => {
            for (i, byte) in bytes.iter().enumerate() {
                let dash = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
                put(out, format_args!("{dash}{byte:02x}"));
            }
        }
    }
}

/// A value's text, as [`write()`] gives it.
pub fn to_string(ty: SqlType, datum: &Datum) -> String {
    to_string_in(ty, datum, &Zone::UTC)
}

/// A value's text, as [`write_in`] gives it.
pub fn to_string_in(ty: SqlType, datum: &Datum, zone: &Zone) -> String {
    let mut out = String::new();
    write_in(&mut out, ty, datum, zone);
    out
}

fn put(out: &mut String, value: impl Display) {
    // Writing to a string cannot fail.
    let _ = write!(out, "{value}");
}

/// PostgreSQL takes more digits where the least number of digits lies halfway to the next float
/// and is read right only because ties go to even digits. That happens to whole numbers only.
fn inside(shortest: String, around: [f64; 3], longer: impl Fn(usize) -> String) -> String {
    // Floats closer together than 2 have no such number of digits, and greater ones do not fit.
    let [a, v, b] = around.map(f64::abs);
    let is_whole = (a - b).abs() >= 4.0 && a.max(b) < 1e38;
    if !is_whole {
        return shortest;
    }
    let halfway = [a, b].map(|next| (next as u128 + v as u128) / 2);
    let [low, high] = [halfway[0].min(halfway[1]), halfway[0].max(halfway[1])];
    let is_inside = |text: &String| {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = [whole.trim_start_matches('-'), fraction].concat();
        let zeros = exponent.parse::<usize>().unwrap_or(0).checked_sub(fraction.len());
        let number = zeros.and_then(|zeros| format!("{digits}{}", "0".repeat(zeros)).parse::<u128>().ok());
        number.is_none_or(|number| low < number && number < high)
    };
    if is_inside(&shortest) {
        return shortest;
    }
    (1..17).map(longer).find(is_inside).unwrap_or(shortest)
}

/// `shortest` is the least number of digits that are read as the same float, in scientific form; it
/// stays in that form if the point would be far from the digits.
fn write_float(out: &mut String, v: f64, shortest: &str, digits: i32) {
    if !v.is_finite() {
        return out.push_str(match v {
            v if v.is_nan() => "NaN",
            v if v > 0.0 => "Infinity",
            _ => "-Infinity",
        });
    }
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..digits).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return put(out, format_args!("{mantissa}e{sign}{:02}", exponent.abs()));
    }
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits = mantissa.replace('.', "");
    out.push_str(sign);
    if exponent < 0 {
        put(out, format_args!("0.{}{digits}", "0".repeat((-exponent - 1) as usize)));
    } else if digits.len() <= exponent as usize + 1 {
        put(out, format_args!("{digits:0<width$}", width = exponent as usize + 1));
    } else {
        let (whole, fraction) = digits.split_at(exponent as usize + 1);
        put(out, format_args!("{whole}.{fraction}"));
    }
}

/// The value of a text. Strings longer than the type allows are an error unless only blanks are too
/// much. A time without a zone is universal time.
///
/// # Errors
/// `22P02` and others, with PostgreSQL's messages.
pub fn read(ty: SqlType, text: &str) -> Result<Datum, SqlError> {
    read_in(ty, text, &Zone::UTC)
}

/// As [`read`], but an instant without a zone of its own is a time in this one.
///
/// # Errors
/// As [`read`].
pub fn read_in(ty: SqlType, text: &str, zone: &Zone) -> Result<Datum, SqlError> {
    match ty {
        SqlType::Bool => read_bool(text).map(Datum::Bool),
        SqlType::Int2 => read_int(text, "smallint", i16::MIN.into(), i16::MAX.into()),
        SqlType::Int4 => read_int(text, "integer", i32::MIN.into(), i32::MAX.into()),
        SqlType::Int8 => read_int(text, "bigint", i64::MIN, i64::MAX),
        SqlType::Oid => read_int(text, "oid", i32::MIN.into(), u32::MAX.into()).map(|datum| match datum {
            // As in C, a negative number stands for the one that is 2^32 greater.
            Datum::Int(v) => Datum::Int(v & i64::from(u32::MAX)),
            other => other,
        }),
        SqlType::Float4 => read_float(text, "real", |text| text.parse::<f32>().ok().map(f64::from)),
        SqlType::Float8 => read_float(text, "double precision", |text| text.parse().ok()),
        SqlType::Numeric(limits) => {
            let number = Numeric::parse(text)?;
            let number = limits.map_or(Ok(number.clone()), |(precision, scale)| number.fit(precision, scale));
            number.map(Datum::Numeric)
        }
        SqlType::Char(_) | SqlType::Varchar(_) | SqlType::Text | SqlType::Name | SqlType::Unknown => {
            fit(ty, text.to_owned(), Excess::Refused).map(Datum::Text)
        }
        SqlType::Bytea => read_bytes(text).map(Datum::Bytes),
        SqlType::Date => times::date(text).map(Datum::Date),
        SqlType::Time => times::time(text).map(Datum::Time),
        SqlType::Timestamp => times::timestamp(text, None).map(Datum::Timestamp),
        SqlType::TimestampTz => times::timestamp(text, Some(zone)).map(Datum::Timestamp),
        SqlType::Interval => interval_text::read(text).map(Datum::Interval),
        SqlType::Uuid => read_uuid(text).map(Datum::Uuid),
        SqlType::Json => json::check(text).map(|()| Datum::Text(text.to_owned())),
        SqlType::Jsonb => json::normalize(text).map(Datum::Text),
        SqlType::Array(element) => read_array(element, text, zone, &Zone::UTC).map(Datum::Text),
        SqlType::Enum(labels) => labels.read(text).map(Datum::Int),
    }
}

/// An array's text with each element as its type writes it: read as in one zone, written as in
/// another.
fn read_array(element: Element, text: &str, zone: &Zone, to: &Zone) -> Result<String, SqlError> {
    let ty = element.ty();
    let one = |text: String| read_in(ty, &text, zone).map(|value| to_string_in(ty, &value, to));
    let all = array::elements(text)?.into_iter().map(|element| element.map(one).transpose());
    Ok(array::written(all.collect::<Result<Vec<_>, _>>()?))
}

/// The array of these values.
pub fn array_of<'a>(element: Element, values: impl IntoIterator<Item = &'a Datum>) -> Datum {
    let text = |value: &Datum| (!value.is_null()).then(|| to_string(element.ty(), value));
    Datum::Text(array::written(values.into_iter().map(text)))
}

/// The values in an array.
///
/// # Errors
/// `22P02` if it is none.
pub fn values_of(element: Element, text: &str) -> Result<Vec<Datum>, SqlError> {
    let one = |text: Option<String>| text.map_or(Ok(Datum::Null), |text| read(element.ty(), &text));
    array::elements(text)?.into_iter().map(one).collect()
}

/// What becomes of the characters that a string has too many for its type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Excess {
    Refused,
    Cut,
}

/// A string as the type has it: cut, or refused, if too long; without trailing blanks if `Char`.
///
/// # Errors
/// `22001` if it is too long, `22021` if it has the character 0.
pub fn fit(ty: SqlType, mut text: String, excess: Excess) -> Result<String, SqlError> {
    if text.contains('\0') {
        let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
        return Err(SqlError::new(SqlState::INVALID_CHARACTER, message));
    }
    let (length, name) = match ty {
        // Of a parameter: the column to which it goes has the length.
        SqlType::Char(0) => (u32::MAX, "character"),
        SqlType::Char(length) => (length, "character"),
        SqlType::Varchar(Some(length)) => (length, "character varying"),
        SqlType::Name => {
            text.truncate(text.floor_char_boundary(NAME));
            return Ok(text);
        }
        _ => return Ok(text),
    };
    if text.len() > length as usize
        && let Some((end, _)) = text.char_indices().nth(length as usize)
    {
        if excess == Excess::Refused && text[end..].contains(|c| c != ' ') {
            let message = format!("value too long for type {name}({length})");
            return Err(SqlError::new(SqlState::STRING_TOO_LONG, message));
        }
        text.truncate(end);
    }
    if matches!(ty, SqlType::Char(_)) {
        text.truncate(text.trim_end_matches(' ').len());
    }
    Ok(text)
}

fn invalid(name: &str, text: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT, format!("invalid input syntax for type {name}: \"{text}\""))
}

fn read_bool(text: &str) -> Result<bool, SqlError> {
    let word = text.trim_matches(is_blank).to_ascii_lowercase();
    let is_one_of = |names: [&str; 3]| names.iter().any(|name| !word.is_empty() && name.starts_with(&word));
    match word.as_str() {
        "on" | "1" => Ok(true),
        "off" | "of" | "0" => Ok(false),
        _ if is_one_of(["true", "yes", "true"]) => Ok(true),
        _ if is_one_of(["false", "no", "false"]) => Ok(false),
        _ => Err(invalid("boolean", text)),
    }
}

fn read_int(text: &str, name: &str, least: i64, greatest: i64) -> Result<Datum, SqlError> {
    // Digits alone, too few to overflow, are the commonest.
    if (1..=18).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let value = text.bytes().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
        if (least..=greatest).contains(&value) {
            return Ok(Datum::Int(value));
        }
    }
    let trimmed = text.trim_matches(is_blank);
    let digits = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(invalid(name, text));
    }
    let value = trimmed.parse().ok().filter(|v| (least..=greatest).contains(v));
    value.map(Datum::Int).ok_or_else(|| {
        let message = format!("value \"{text}\" is out of range for type {name}");
        SqlError::new(SqlState::NUMERIC_OUT_OF_RANGE, message)
    })
}

/// A hexadecimal number as C's `strtod` reads it, rounded once: `0x1.8p3`.
fn hexadecimal(text: &str) -> Option<f64> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X"))?;
    let (mantissa, exponent) = match digits.split_once(['p', 'P']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (digits, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    // Thirteen digits fit into the bits of a mantissa, and the scaling by two is exact.
    if all.is_empty() || all.trim_start_matches('0').len() > 13 {
        return None;
    }
    let number = u64::from_str_radix(&all, 16).ok()?;
    let shift = exponent.checked_sub(4 * i32::try_from(fraction.len()).ok()?)?;
    Some(sign * number as f64 * 2_f64.powi(shift))
}

fn read_float(text: &str, name: &str, parse: impl Fn(&str) -> Option<f64>) -> Result<Datum, SqlError> {
    let trimmed = text.trim_matches(is_blank);
    if let Some(value) = hexadecimal(trimmed).filter(|value| value.is_finite()) {
        return Ok(Datum::Float(if name == "real" { f64::from(value as f32) } else { value }));
    }
    let value = parse(trimmed).ok_or_else(|| invalid(name, text))?;
    let has_digit = trimmed.contains(|c: char| ('1'..='9').contains(&c));
    let mantissa = trimmed.split(['e', 'E']).next().unwrap_or("");
    let is_lost = value == 0.0 && mantissa.contains(|c: char| ('1'..='9').contains(&c));
    if (value.is_infinite() && has_digit) || is_lost {
        let message = format!("\"{trimmed}\" is out of range for type {name}");
        return Err(SqlError::new(SqlState::NUMERIC_OUT_OF_RANGE, message));
    }
    Ok(Datum::Float(value))
}

/// `\x` and hexadecimal digits, or characters with `\\` and `\ooo` for others.
fn read_bytes(text: &str) -> Result<Vec<u8>, SqlError> {
    let Some(digits) = text.strip_prefix("\\x") else { return read_escaped(text) };
    let parameter = |message: String| SqlError::new(SqlState::INVALID_PARAMETER, message);
    let mut out = Vec::with_capacity(digits.len() / 2);
    let mut high = None;
    for c in digits.chars().filter(|c| high_or_blank(*c)) {
        let digit =
            c.to_digit(16).ok_or_else(|| parameter(format!("invalid hexadecimal digit: \"{c}\"")))? as u8;
        match high.take() {
            Some(high) => out.push(high << 4 | digit),
            None => high = Some(digit),
        }
    }
    match high {
        None => Ok(out),
        Some(_) => Err(parameter("invalid hexadecimal data: odd number of digits".into())),
    }
}

/// Blanks between bytes are skipped.
fn high_or_blank(c: char) -> bool {
    !matches!(c, ' ' | '\n' | '\t' | '\r')
}

fn read_escaped(text: &str) -> Result<Vec<u8>, SqlError> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = match (first, behind) {
            (b'\\', [b'\\', behind @ ..]) => {
                out.push(b'\\');
                behind
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', behind @ ..]) => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                behind
            }
            (b'\\', _) => {
                return Err(SqlError::new(SqlState::INVALID_TEXT, "invalid input syntax for type bytea"));
            }
            (byte, behind) => {
                out.push(*byte);
                behind
            }
        };
    }
    Ok(out)
}

/// 32 hexadecimal digits, with a dash allowed behind each fourth, perhaps in braces.
fn read_uuid(text: &str) -> Result<[u8; 16], SqlError> {
    let inner = text.strip_prefix('{').map_or(Some(text), |rest| rest.strip_suffix('}'));
    let parse = || {
        let mut rest = inner?;
        let mut out = [0; 16];
        for (i, byte) in out.iter_mut().enumerate() {
            let digits = rest.get(..2).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
            *byte = u8::from_str_radix(digits, 16).ok()?;
            rest = &rest[2..];
            if i % 2 == 1 && i < 15 {
                rest = rest.strip_prefix('-').unwrap_or(rest);
            }
        }
        rest.is_empty().then_some(out)
    };
    parse().ok_or_else(|| invalid("uuid", text))
}
