//! `format`, quoting, and bytes as texts.

use super::strings::too_long;
use crate::{Datum, SqlError, SqlState, text};
use std::borrow::Cow;

/// Words of PostgreSQL that are no names unless they are quoted.
const RESERVED: &str = " all analyse analyze and any array as asc asymmetric both case cast check collate column \
constraint create current_catalog current_date current_role current_time current_timestamp current_user default \
deferrable desc distinct do else end except false fetch for foreign from grant group having in initially intersect \
into lateral leading limit localtime localtimestamp not null offset on only or order placing primary references \
returning select session_user some symmetric table then to trailing true union unique user using variadic when where \
window with authorization binary collation concurrently cross current_schema freeze full ilike inner is isnull join \
left like natural notnull outer overlaps right similar tablesample verbose between bigint bit boolean char character \
coalesce dec decimal exists extract float greatest grouping inout int integer interval least national nchar none \
normalize nullif numeric out overlay position precision real row setof smallint substring time timestamp treat trim \
values varchar xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot \
xmlserialize xmltable ";

pub(super) fn identifier(name: &str) -> String {
    let is_letter = |c: char| c.is_ascii_lowercase() || c == '_';
    let is_plain = name.starts_with(is_letter)
        && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
        && !RESERVED.contains(&format!(" {name} "));
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

pub(super) fn literal(value: &str) -> String {
    let quoted = value.replace('\'', "''");
    if quoted.contains('\\') { format!("E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

fn shown(value: &Datum) -> String {
    let mut out = String::new();
    if !value.is_null() {
        text::write(&mut out, crate::SqlType::Text, value);
    }
    out
}

fn wrong(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER, message)
}

/// # Errors
/// `22023` for a format that PostgreSQL refuses, `22004` for a null as a name.
pub(super) fn format(values: &[Cow<'_, Datum>]) -> Result<Datum, SqlError> {
    let Some((Datum::Text(pattern), args)) = values.split_first().map(|(first, rest)| (&**first, rest))
    else {
        return Ok(Datum::Null);
    };
    let (mut out, mut next, mut rest) = (String::new(), 0, pattern.as_str());
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('%') {
            out.push('%');
            rest = behind;
            continue;
        }
        let (position, behind) = number(rest);
        let mut is_left = false;
        let mut width = None;
        match (position, behind.strip_prefix('$')) {
            (Some(0), Some(_)) => {
                return Err(wrong("format specifies argument 0, but arguments are numbered from 1"));
            }
            (Some(position), Some(behind)) => (next, rest) = (position - 1, behind),
            (Some(_), None) if !rest.starts_with('0') => (width, rest) = (position, behind),
            _ => {}
        }
        while let Some(behind) = rest.strip_prefix('-') {
            (is_left, rest) = (true, behind);
        }
        if width.is_none() {
            (width, rest) = number(rest);
        }
        let Some(kind) = rest.chars().next() else {
            return Err(
                wrong("unterminated format() type specifier").with_hint("For a single \"%\" use \"%%\".")
            );
        };
        rest = &rest[kind.len_utf8()..];
        if !matches!(kind, 's' | 'I' | 'L') {
            return Err(wrong(format!("unrecognized format() type specifier \"{kind}\""))
                .with_hint("For a single \"%\" use \"%%\"."));
        }
        let value = args.get(next).ok_or_else(|| wrong("too few arguments for format()"))?;
        next += 1;
        let text = one(kind, value)?;
        let blanks = width.unwrap_or(0).saturating_sub(text.chars().count());
        if out.len().saturating_add(text.len()).saturating_add(blanks) > super::strings::MAX_BYTES {
            return Err(too_long());
        }
        let blanks = " ".repeat(blanks);
        out.extend(if is_left { [text, blanks] } else { [blanks, text] });
    }
    out.push_str(rest);
    Ok(Datum::Text(out))
}

fn one(kind: char, value: &Datum) -> Result<String, SqlError> {
    match kind {
        'I' if value.is_null() => {
            let message = "null values cannot be formatted as an SQL identifier";
            Err(SqlError::new(SqlState(*b"22004"), message))
        }
        'I' => Ok(identifier(&shown(value))),
        'L' if value.is_null() => Ok("NULL".into()),
        'L' => Ok(literal(&shown(value))),
        _ => Ok(shown(value)),
    }
}

/// The digits at the begin, and what is behind them.
fn number(text: &str) -> (Option<usize>, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    (text[..end].parse().ok(), &text[end..])
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn unknown(name: &str) -> SqlError {
    wrong(format!("unrecognized encoding: \"{name}\""))
}

/// # Errors
/// `22023` for another format than `hex`, `base64` and `escape`.
pub(super) fn encode(bytes: &[u8], name: &str) -> Result<String, SqlError> {
    let mut out = String::with_capacity(bytes.len() * 2);
    match name.to_ascii_lowercase().as_str() {
        "hex" => bytes.iter().for_each(|byte| out.push_str(&format!("{byte:02x}"))),
        "base64" => {
            for (at, three) in bytes.chunks(3).enumerate() {
                if at > 0 && at.is_multiple_of(19) {
                    out.push('\n');
                }
                let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
                let bits = bits << (8 * (3 - three.len()));
                for place in 0..4 {
                    let digit = ALPHABET[(bits >> (18 - 6 * place) & 63) as usize];
                    out.push(if place > three.len() { '=' } else { char::from(digit) });
                }
            }
        }
        "escape" => {
            for byte in bytes {
                match byte {
                    b'\\' => out.push_str("\\\\"),
                    0 | 0x80.. => out.push_str(&format!("\\{byte:03o}")),
                    byte => out.push(char::from(*byte)),
                }
            }
        }
        _ => return Err(unknown(name)),
    }
    Ok(out)
}

/// # Errors
/// `22023` for another format, or for a text that is not of it.
pub(super) fn decode(text: &str, name: &str) -> Result<Vec<u8>, SqlError> {
    match name.to_ascii_lowercase().as_str() {
        "hex" => hexadecimal(text),
        "base64" => base64(text),
        "escape" => escaped(text),
        _ => Err(unknown(name)),
    }
}

fn hexadecimal(text: &str) -> Result<Vec<u8>, SqlError> {
    let mut digits = Vec::with_capacity(text.len());
    for c in text.chars().filter(|c| !c.is_ascii_whitespace()) {
        let digit = c.to_digit(16).ok_or_else(|| wrong(format!("invalid hexadecimal digit: \"{c}\"")))?;
        digits.push(digit as u8);
    }
    if digits.len() % 2 == 1 {
        return Err(wrong("invalid hexadecimal data: odd number of digits"));
    }
    Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn base64(text: &str) -> Result<Vec<u8>, SqlError> {
    let (mut out, mut bits, mut count, mut ends) = (Vec::new(), 0_u32, 0, 0);
    for c in text.chars().filter(|c| !c.is_ascii_whitespace()) {
        if c == '=' {
            ends += 1;
            continue;
        }
        let digit = u8::try_from(c).ok().and_then(|byte| ALPHABET.iter().position(|known| *known == byte));
        let digit = digit.filter(|_| ends == 0);
        let digit = digit
            .ok_or_else(|| wrong(format!("invalid symbol \"{c}\" found while decoding base64 sequence")))?;
        bits = bits << 6 | digit as u32;
        count += 1;
        if count % 4 != 1 {
            out.push((bits >> (6 - 2 * ((count - 1) % 4)) & 255) as u8);
        }
    }
    if (count + ends) % 4 != 0 {
        return Err(wrong("invalid base64 end sequence")
            .with_hint("Input data is missing padding, is truncated, or is otherwise corrupted."));
    }
    Ok(out)
}

fn escaped(text: &str) -> Result<Vec<u8>, SqlError> {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    let invalid = || SqlError::new(SqlState::INVALID_TEXT, "invalid input syntax for type bytea");
    while let Some(&byte) = bytes.get(at) {
        let octal = || {
            let digits = bytes.get(at + 1..at + 4).filter(|all| all.iter().all(u8::is_ascii_digit))?;
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        };
        let (value, length) = match (byte, bytes.get(at + 1)) {
            (b'\\', Some(b'\\')) => (b'\\', 2),
            (b'\\', _) => (octal().ok_or_else(invalid)?, 4),
            _ => (byte, 1),
        };
        out.push(value);
        at += length;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_octal_number_has_no_sign() {
        assert_eq!(escaped("\\012a").unwrap(), b"\na");
        for text in ["\\+12", "\\-12", "\\ 12", "\\400", "\\12"] {
            assert!(escaped(text).is_err(), "{text}");
        }
    }

    /// A width of any size is refused, also one with which the length of the text overflows.
    #[test]
    fn a_width_beyond_all_texts_is_an_error() {
        for width in [usize::MAX, usize::MAX - 1, 1 << 40] {
            let values = [Datum::Text(std::format!("ab%{width}s")), Datum::Text("x".into())];
            assert!(super::format(&values.each_ref().map(Cow::Borrowed)).is_err(), "{width}");
        }
        let values = [Datum::Text("ab%3s".into()), Datum::Text("x".into())];
        assert_eq!(super::format(&values.each_ref().map(Cow::Borrowed)), Ok(Datum::Text("ab  x".into())));
    }
}
