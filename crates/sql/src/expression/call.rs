//! Functions of one row.

use super::arithmetic::{self, integer};
use super::context::{Context, mistyped};
use super::formats;
use super::strings::{self, End};
use super::{BinaryOp, Expr, Function};
use crate::compare::{compare, hash};
use crate::datetime::zone::Zone;
use crate::datetime::{self, Civil, parts};
use crate::numeric::division_by_zero;
use crate::row::Columns;
use crate::value::Numeric;
use crate::{Datum, SqlError, SqlState, SqlType, from_char, json, number_format, power, text, to_char};
use md5::{Digest, Md5};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cmp::Ordering;

/// The value of a function. But for those that choose among their arguments or join them, a null
/// argument gives null.
pub(super) fn call(
    function: Function,
    args: &[Expr],
    ty: SqlType,
    cx: &Context<'_>,
    row: &dyn Columns,
) -> Result<Datum, SqlError> {
    match function {
        Function::Coalesce => {
            for arg in args {
                let value = arg.eval(cx, row)?;
                if !value.is_null() {
                    return Ok(value);
                }
            }
            return Ok(Datum::Null);
        }
        Function::NullIf => {
            let [value, other] = args else { return Err(mistyped()) };
            let (value, other) = (value.eval(cx, row)?, other.operand(cx, row)?);
            let is_same = !value.is_null() && compare(&value, &other) == Ordering::Equal;
            return Ok(if is_same { Datum::Null } else { value });
        }
        Function::Greatest => return extreme(args, Ordering::Greater, cx, row),
        Function::Least => return extreme(args, Ordering::Less, cx, row),
        Function::Overlaps => return overlaps(args, cx, row),
        // 53 random bits, as many as a float has.
        Function::Random => return Ok(Datum::Float(((cx.random)() >> 11) as f64 / (1_u64 << 53) as f64)),
        Function::GenRandomUuid => return Ok(Datum::Uuid(random_uuid(cx))),
        _ => {}
    }
    let values = args.iter().map(|arg| arg.operand(cx, row)).collect::<Result<SmallVec<[_; 4]>, _>>()?;
    match function {
        Function::JsonKey => return json_key(&values),
        Function::Format => return formats::format(&values),
        Function::QuoteNullable if values.iter().all(|value| value.is_null()) => {
            return Ok(Datum::Text("NULL".into()));
        }
        Function::Concat => return Ok(Datum::Text(joined("", &values))),
        Function::ConcatWs => {
            return Ok(match values.split_first().map(|(first, rest)| (&**first, rest)) {
                Some((Datum::Text(separator), rest)) => Datum::Text(joined(separator, rest)),
                _ => Datum::Null,
            });
        }
        _ => {}
    }
    if let Some(value) = super::arrays::call(function, &values, ty)? {
        return Ok(value);
    }
    if values.iter().any(|value| value.is_null()) {
        return Ok(Datum::Null);
    }
    let values: SmallVec<[&Datum; 4]> = values.iter().map(|value| &**value).collect();
    if let Some(value) = super::regex::call(function, &values)? {
        return Ok(value);
    }
    if let Some(value) = super::json::call(function, &values, ty)? {
        return Ok(value);
    }
    strict(function, &values, (ty, cx.zone))
}

/// The greatest or the least argument that is not null.
fn extreme(args: &[Expr], wanted: Ordering, cx: &Context<'_>, row: &dyn Columns) -> Result<Datum, SqlError> {
    let mut best = Datum::Null;
    for arg in args {
        let value = arg.eval(cx, row)?;
        if !value.is_null() && (best.is_null() || compare(&value, &best) == wanted) {
            best = value;
        }
    }
    Ok(best)
}

/// Whether two spans have a moment in common, by SQL's rules: the ends of a span may stand in any
/// order, a span without length is a moment, and one of which an end is null may begin or end at
/// the other.
fn overlaps(args: &[Expr], cx: &Context<'_>, row: &dyn Columns) -> Result<Datum, SqlError> {
    let [a, b, c, d] = args else { return Err(mistyped()) };
    let values = [a, b, c, d].map(|arg| arg.eval(cx, row));
    let [a, b, c, d] = values;
    let (Some(first), Some(second)) = (in_order(a?, b?), in_order(c?, d?)) else { return Ok(Datum::Null) };
    // The one that begins earlier, and the one that begins later.
    let (early, late) = match compare(&first.0, &second.0) {
        Ordering::Less => (first, second),
        Ordering::Greater => (second, first),
        Ordering::Equal if first.1.is_null() || second.1.is_null() => return Ok(Datum::Null),
        Ordering::Equal => return Ok(Datum::Bool(true)),
    };
    if early.1.is_null() {
        return Ok(Datum::Null);
    }
    match compare(&late.0, &early.1) {
        Ordering::Less => Ok(Datum::Bool(true)),
        _ if late.1.is_null() => Ok(Datum::Null),
        _ => Ok(Datum::Bool(false)),
    }
}

/// The ends of a span, of which only the later one may be null.
fn in_order(from: Datum, to: Datum) -> Option<(Datum, Datum)> {
    match (from.is_null(), to.is_null()) {
        (true, true) => None,
        (true, false) => Some((to, Datum::Null)),
        (false, true) => Some((from, Datum::Null)),
        _ if compare(&from, &to) == Ordering::Greater => Some((to, from)),
        _ => Some((from, to)),
    }
}

/// Version 4 of RFC 9562.
fn random_uuid(cx: &Context<'_>) -> [u8; 16] {
    let bits = u128::from((cx.random)()) << 64 | u128::from((cx.random)());
    let mut bytes = bits.to_be_bytes();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

/// The texts of all values that are not null.
fn joined(separator: &str, values: &[Cow<'_, Datum>]) -> String {
    let mut out = String::new();
    let mut is_first = true;
    for value in values.iter().filter(|value| !value.is_null()) {
        if !is_first {
            out.push_str(separator);
        }
        is_first = false;
        text::write(&mut out, SqlType::Text, value);
    }
    out
}

fn strict(function: Function, args: &[&Datum], (ty, zone): (SqlType, &Zone)) -> Result<Datum, SqlError> {
    match args {
        [Datum::Int(_) | Datum::Float(_) | Datum::Numeric(_), ..] if function != Function::ToChar => {
            numbers(function, args, ty)
        }
        [Datum::Text(_), Datum::Date(_) | Datum::Time(_) | Datum::Timestamp(_) | Datum::Interval(_), ..]
        | [Datum::Date(_) | Datum::Time(_) | Datum::Timestamp(_) | Datum::Interval(_), ..] => {
            times(function, args, (ty, zone))
        }
        [Datum::Text(first), rest @ ..] => texts(function, first, rest),
        [Datum::Bytes(bytes), rest @ ..] => of_bytes(function, bytes, rest),
        _ => others(function, args),
    }
}

fn others(function: Function, args: &[&Datum]) -> Result<Datum, SqlError> {
    match (function, args) {
        (Function::ToChar, [number, Datum::Text(format)]) => {
            number_format::number(number, format).map(Datum::Text)
        }
        (Function::Hash, [value]) => Ok(Datum::Int(hash(value) as i64)),
        _ => Err(mistyped()),
    }
}

fn numbers(function: Function, args: &[&Datum], ty: SqlType) -> Result<Datum, SqlError> {
    match (function, args) {
        (Function::MakeDate, [Datum::Int(year), Datum::Int(month), Datum::Int(day)]) => {
            make_date(*year, *month, *day)
        }
        (Function::MakeTimestamp, [.., Datum::Float(_)]) => make_timestamp(args),
        (Function::Chr, [Datum::Int(code)]) => strings::chr(*code).map(Datum::Text),
        (Function::ToHex, [Datum::Int(v)]) => Ok(Datum::Text(hexadecimal(*v))),
        (Function::Hash, [value]) => Ok(Datum::Int(hash(value) as i64)),
        (Function::ToTimestamp, [Datum::Float(seconds)]) => to_timestamp(*seconds),
        (Function::Mod, [a, b]) => arithmetic::binary(BinaryOp::Modulo, a, b, (ty, &Zone::UTC)),
        (Function::Power, [a, b]) => arithmetic::binary(BinaryOp::Power, a, b, (ty, &Zone::UTC)),
        (_, [Datum::Int(v)]) => of_integer(function, *v, ty),
        (_, [Datum::Float(v), ..]) => of_float(function, *v, args.get(1)).map(Datum::Float),
        (_, [Datum::Numeric(v), ..]) => of_numeric(function, v, args.get(1).copied()).map(Datum::Numeric),
        _ => Err(mistyped()),
    }
}

fn of_integer(function: Function, v: i64, ty: SqlType) -> Result<Datum, SqlError> {
    Ok(Datum::Int(match function {
        Function::Abs => integer(v.checked_abs(), ty)?,
        Function::Sign => v.signum(),
        Function::Ceil | Function::Floor | Function::Round | Function::Trunc => v,
        _ => return Err(mistyped()),
    }))
}

fn of_float(function: Function, v: f64, second: Option<&&Datum>) -> Result<f64, SqlError> {
    let result = match function {
        Function::Sin | Function::Cos | Function::Tan if v.is_infinite() => return Err(out_of_range()),
        Function::Asin | Function::Acos if v.abs() > 1.0 => return Err(out_of_range()),
        Function::Sin => v.sin(),
        Function::Cos => v.cos(),
        Function::Tan => v.tan(),
        Function::Asin => v.asin(),
        Function::Acos => v.acos(),
        Function::Atan => v.atan(),
        Function::Atan2 => match second {
            Some(Datum::Float(x)) => v.atan2(*x),
            _ => return Err(mistyped()),
        },
        Function::Abs => v.abs(),
        Function::Ceil => v.ceil(),
        Function::Floor => v.floor(),
        Function::Round => v.round_ties_even(),
        Function::Trunc => v.trunc(),
        Function::Sign if v == 0.0 => 0.0,
        Function::Sign if v.is_nan() => v,
        Function::Sign => v.signum(),
        Function::Sqrt if v < 0.0 => return Err(power::negative_root()),
        Function::Sqrt => v.sqrt(),
        Function::Cbrt => v.cbrt(),
        Function::Exp => return power::float_exp(v),
        Function::Ln => return power::float_logarithm(v, f64::ln),
        Function::Log => return power::float_logarithm(v, f64::log10),
        _ => return Err(mistyped()),
    };
    Ok(result)
}

fn out_of_range() -> SqlError {
    SqlError::new(SqlState::NUMERIC_OUT_OF_RANGE, "input is out of range")
}

fn of_numeric(function: Function, v: &Numeric, second: Option<&Datum>) -> Result<Numeric, SqlError> {
    // PostgreSQL rounds to at most so many digits.
    let digits = |digits: i64| digits.clamp(-2000, 2000);
    Ok(match (function, second) {
        (Function::Abs, None) => v.abs(),
        (Function::Ceil, None) => v.ceil(),
        (Function::Floor, None) => v.floor(),
        (Function::Round, None) => v.round(0),
        (Function::Trunc, None) => v.truncate(0),
        (Function::Round, Some(Datum::Int(scale))) => v.round(digits(*scale)),
        (Function::Trunc, Some(Datum::Int(scale))) => v.truncate(digits(*scale)),
        (Function::Sign, None) => v.sign(),
        (Function::Sqrt, None) => power::numeric_sqrt(v)?,
        (Function::Exp, None) => power::numeric_exp(v)?,
        (Function::Ln, None) => power::numeric_ln(v)?,
        (Function::Log, None) => power::numeric_log(&Numeric::from(10_i64), v)?,
        (Function::Log, Some(Datum::Numeric(x))) => power::numeric_log(v, x)?,
        (Function::Div, Some(Datum::Numeric(divisor))) => {
            if divisor.is_zero() {
                return Err(division_by_zero());
            }
            v.subtract(&v.modulo(divisor)?)?.divide_to(divisor, 0)
        }
        (Function::TrimScale, None) => v.trim_scale(),
        _ => return Err(mistyped()),
    })
}

fn hexadecimal(v: i64) -> String {
    // A negative integer is shown with 32 bits if it has no more.
    i32::try_from(v).map_or_else(|_| format!("{v:x}"), |v| format!("{v:x}"))
}

fn make_date(year: i64, month: i64, day: i64) -> Result<Datum, SqlError> {
    let astronomical = if year < 0 { year + 1 } else { year };
    let is_valid =
        year != 0 && (1..=12).contains(&month) && (1..=datetime::days_in(astronomical, month)).contains(&day);
    let error = |what: &str| {
        let message = format!("date {what}out of range: {year}-{month:02}-{day:02}");
        SqlError::new(SqlState::DATETIME_OVERFLOW, message)
    };
    if !is_valid {
        return Err(error("field value "));
    }
    let days = Civil { year: astronomical, month, day }.days();
    datetime::date(days).map(Datum::Date).ok_or_else(|| error(""))
}

fn make_timestamp(args: &[&Datum]) -> Result<Datum, SqlError> {
    let [
        Datum::Int(year),
        Datum::Int(month),
        Datum::Int(day),
        Datum::Int(hour),
        Datum::Int(minute),
        Datum::Float(second),
    ] = args
    else {
        return Err(mistyped());
    };
    let Datum::Date(date) = make_date(*year, *month, *day)? else { return Err(mistyped()) };
    let is_valid = (0..24).contains(hour) && (0..60).contains(minute) && (0.0..=60.0).contains(second);
    let is_end = *hour == 24 && *minute == 0 && *second == 0.0;
    if !is_valid && !is_end {
        let message = format!("time field value out of range: {hour}:{minute:02}:{second:02}");
        return Err(SqlError::new(SqlState::DATETIME_OVERFLOW, message));
    }
    let micros = hour * datetime::HOUR + minute * datetime::MINUTE + (second * 1e6).round_ties_even() as i64;
    let time = datetime::timestamp(date.into(), micros);
    time.map(Datum::Timestamp).ok_or_else(datetime::timestamp_out_of_range)
}

fn to_timestamp(seconds: f64) -> Result<Datum, SqlError> {
    if seconds.is_infinite() {
        return Ok(Datum::Timestamp(if seconds > 0.0 { datetime::END } else { datetime::BEGIN }));
    }
    let shifted = seconds + (datetime::UNIX_EPOCH * 86_400) as f64;
    let micros = (shifted * 1e6).round_ties_even();
    let micros = (micros.abs() < 1e19).then_some(micros as i64).and_then(datetime::checked_timestamp);
    micros.map(Datum::Timestamp).ok_or_else(|| {
        SqlError::new(SqlState::DATETIME_OVERFLOW, format!("timestamp out of range: \"{seconds}\""))
    })
}

fn times(function: Function, args: &[&Datum], (ty, zone): (SqlType, &Zone)) -> Result<Datum, SqlError> {
    match (function, args) {
        (Function::DatePart, [Datum::Text(name), value]) => {
            let value = match value {
                // Of `date_part`, not of `extract`: a date counts as its midnight.
                Datum::Date(date) if ty == SqlType::Float8 => &Datum::Timestamp(datetime::midnight(*date)?),
                value => *value,
            };
            as_part(parts::extract(name, value)?, ty)
        }
        (Function::InstantPart, [Datum::Text(name), Datum::Timestamp(instant)]) => {
            as_part(parts::extract_of_instant(name, *instant, zone)?, ty)
        }
        (Function::DateTrunc, [Datum::Text(name), Datum::Timestamp(instant), Datum::Text(zone)]) => {
            parts::truncate_instant(name, *instant, &Zone::of_text(zone)?)
        }
        (Function::DateTrunc, [Datum::Text(name), Datum::Timestamp(instant)])
            if ty == SqlType::TimestampTz =>
        {
            parts::truncate_instant(name, *instant, zone)
        }
        (Function::DateTrunc, [Datum::Text(name), Datum::Date(date)]) => {
            parts::truncate(name, &Datum::Timestamp(datetime::midnight(*date)?))
        }
        (Function::DateTrunc, [Datum::Text(name), value]) => parts::truncate(name, value),
        (Function::AtTimeZone, [Datum::Timestamp(t), zone]) => {
            let zone = match zone {
                Datum::Text(name) => Zone::of_text(name)?,
                Datum::Interval(offset) => Zone::of_interval(offset)?,
                _ => return Err(mistyped()),
            };
            let shifted = if ty == SqlType::TimestampTz { zone.instant(*t)? } else { zone.local(*t) };
            Ok(Datum::Timestamp(shifted))
        }
        (Function::Age, [Datum::Timestamp(to), Datum::Timestamp(from)]) => {
            parts::age(*to, *from).map(Datum::Interval)
        }
        (Function::ToChar, [value, Datum::Text(format)]) => to_char::time(value, format),
        (Function::InstantToChar, [Datum::Timestamp(instant), Datum::Text(format)]) => {
            Ok(to_char::instant(*instant, zone, format))
        }
        (Function::IsFinite, [value]) => Ok(Datum::Bool(match value {
            Datum::Timestamp(t) => !matches!(*t, datetime::BEGIN | datetime::END),
            Datum::Date(d) => !matches!(*d, datetime::BEGIN_DATE | datetime::END_DATE),
            _ => true,
        })),
        (Function::JustifyDays | Function::JustifyHours, [Datum::Interval(span)]) => {
            span.justified(function == Function::JustifyDays).map(Datum::Interval)
        }
        (Function::JustifyInterval, [Datum::Interval(span)]) => {
            span.justified_as_a_whole().map(Datum::Interval)
        }
        (Function::DateBin, [Datum::Interval(width), Datum::Timestamp(time), Datum::Timestamp(origin)]) => {
            parts::bin(width, *time, *origin).map(Datum::Timestamp)
        }
        (Function::Abs, _) => Err(mistyped()),
        _ => others(function, args),
    }
}

/// A part of a time as a number of the type.
fn as_part(part: Datum, ty: SqlType) -> Result<Datum, SqlError> {
    match part {
        Datum::Numeric(number) if ty == SqlType::Float8 => Ok(Datum::Float(number.to_f64())),
        Datum::Float(_) if ty != SqlType::Float8 => {
            Err(SqlError::unsupported("an infinite numeric", Some("Use date_part instead of extract.")))
        }
        part => Ok(part),
    }
}

/// A name of an object, and the message for a null.
fn json_key(values: &[impl AsRef<Datum>]) -> Result<Datum, SqlError> {
    match values.iter().map(AsRef::as_ref).collect::<SmallVec<[&Datum; 2]>>()[..] {
        [Datum::Text(key), _] => json::quoted(key).map(Datum::Text),
        [_, Datum::Text(message)] => {
            let error = SqlError::new(SqlState::INVALID_PARAMETER, message.as_str());
            let is_argument = message.starts_with("argument ");
            Err(if is_argument { error.with_hint("Object keys should be text.") } else { error })
        }
        _ => Err(mistyped()),
    }
}

fn texts(function: Function, first: &str, rest: &[&Datum]) -> Result<Datum, SqlError> {
    let result = match (function, rest) {
        (Function::Lower, []) => first.to_lowercase(),
        (Function::Upper, []) => first.to_uppercase(),
        (Function::InitCap, []) => strings::capitalized(first),
        (Function::Reverse, []) => first.chars().rev().collect(),
        (Function::Substring, [Datum::Int(from)]) => strings::substring(first, *from, None)?,
        (Function::Substring, [Datum::Int(from), Datum::Int(length)]) => {
            strings::substring(first, *from, Some(*length))?
        }
        (Function::Trim, []) => first.trim_matches(' ').to_owned(),
        (Function::LeftTrim, []) => first.trim_start_matches(' ').to_owned(),
        (Function::RightTrim, []) => first.trim_end_matches(' ').to_owned(),
        (Function::Trim, [Datum::Text(set)]) => first.trim_matches(|c| set.contains(c)).to_owned(),
        (Function::LeftTrim, [Datum::Text(set)]) => first.trim_start_matches(|c| set.contains(c)).to_owned(),
        (Function::RightTrim, [Datum::Text(set)]) => first.trim_end_matches(|c| set.contains(c)).to_owned(),
        (Function::Replace, [Datum::Text(from), Datum::Text(to)]) => strings::replace(first, from, to),
        (Function::Translate, [Datum::Text(from), Datum::Text(to)]) => strings::translate(first, from, to),
        (Function::Repeat, [Datum::Int(n)]) => strings::repeat(first, *n)?,
        (Function::Left, [Datum::Int(n)]) => strings::left(first, *n),
        (Function::Right, [Datum::Int(n)]) => strings::right(first, *n),
        (Function::LeftPad, [Datum::Int(n)]) => strings::pad(first, *n, " ", End::Left)?,
        (Function::RightPad, [Datum::Int(n)]) => strings::pad(first, *n, " ", End::Right)?,
        (Function::LeftPad, [Datum::Int(n), Datum::Text(fill)]) => strings::pad(first, *n, fill, End::Left)?,
        (Function::RightPad, [Datum::Int(n), Datum::Text(fill)]) => {
            strings::pad(first, *n, fill, End::Right)?
        }
        (Function::SplitPart, [Datum::Text(separator), Datum::Int(n)]) => {
            strings::split_part(first, separator, *n)?
        }
        (Function::Md5, []) => md5(first.as_bytes()),
        (Function::QuoteIdent, []) => formats::identifier(first),
        (Function::QuoteNullable, []) => formats::literal(first),
        (Function::JsonTypeOf, []) => json::type_of(first).to_owned(),
        (Function::ToJson, [Datum::Text(kind)]) => json::document(first, json::Kind::named(kind))?,
        _ => return measures(function, first, rest),
    };
    Ok(Datum::Text(result))
}

/// Functions of a text of which the result is none.
fn measures(function: Function, first: &str, rest: &[&Datum]) -> Result<Datum, SqlError> {
    Ok(match (function, rest) {
        (Function::Length, []) => Datum::Int(first.chars().count() as i64),
        (Function::OctetLength, []) => Datum::Int(first.len() as i64),
        (Function::Position, [Datum::Text(part)]) => Datum::Int(strings::position(first, part)),
        (Function::Ascii, []) => Datum::Int(first.chars().next().map_or(0, |c| u32::from(c).into())),
        (Function::StartsWith, [Datum::Text(start)]) => Datum::Bool(first.starts_with(start.as_str())),
        (Function::JsonArrayLength, []) => Datum::Int(json::array_length(first)?),
        (Function::Hash, []) => Datum::Int(hash(&Datum::Text(first.to_owned())) as i64),
        (Function::Decode, [Datum::Text(name)]) => Datum::Bytes(formats::decode(first, name)?),
        (Function::ReadTime, [Datum::Text(format)]) => Datum::Timestamp(from_char::timestamp(first, format)?),
        (Function::ToNumber, [Datum::Text(format)]) => number_format::read(first, format)?,
        _ => return Err(mistyped()),
    })
}

fn of_bytes(function: Function, bytes: &[u8], rest: &[&Datum]) -> Result<Datum, SqlError> {
    Ok(match (function, rest) {
        (Function::Length | Function::OctetLength, []) => Datum::Int(bytes.len() as i64),
        (Function::Md5, []) => Datum::Text(md5(bytes)),
        (Function::Encode, [Datum::Text(name)]) => Datum::Text(formats::encode(bytes, name)?),
        (Function::Substring, [Datum::Int(from)]) => Datum::Bytes(strings::subbytes(bytes, *from, None)?),
        (Function::Substring, [Datum::Int(from), Datum::Int(length)]) => {
            Datum::Bytes(strings::subbytes(bytes, *from, Some(*length))?)
        }
        (Function::Hash, []) => Datum::Int(hash(&Datum::Bytes(bytes.to_vec())) as i64),
        _ => return Err(mistyped()),
    })
}

fn md5(bytes: &[u8]) -> String {
    Md5::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
