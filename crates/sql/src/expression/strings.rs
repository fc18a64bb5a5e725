//! Functions of strings. Positions and lengths count characters, from 1.

use crate::{SqlError, SqlState};

/// The most bytes of a string that a function makes.
pub(super) const MAX_BYTES: usize = 0x3fff_ffff;

/// # Errors
/// `22011` for a negative length.
pub(super) fn substring(text: &str, from: i64, length: Option<i64>) -> Result<String, SqlError> {
    let end = match length {
        Some(..0) => {
            return Err(SqlError::new(SqlState::INVALID_SUBSTRING, "negative substring length not allowed"));
        }
        Some(length) => from.saturating_add(length),
        None => i64::MAX,
    };
    // Characters before the first count too.
    let skipped = usize::try_from((from - 1).max(0)).unwrap_or(usize::MAX);
    let taken = usize::try_from(end.saturating_sub(from.max(1)).max(0)).unwrap_or(usize::MAX);
    Ok(text.chars().skip(skipped).take(taken).collect())
}

/// As [`substring`], of bytes.
pub(super) fn subbytes(bytes: &[u8], from: i64, length: Option<i64>) -> Result<Vec<u8>, SqlError> {
    substring("", from, length)?;
    let end = length.map_or(i64::MAX, |length| from.saturating_add(length));
    let index = |position: i64| usize::try_from(position - 1).unwrap_or(0).min(bytes.len());
    Ok(bytes[index(from)..index(end).max(index(from))].to_vec())
}

pub(super) fn position(text: &str, part: &str) -> i64 {
    text.find(part).map_or(0, |at| text[..at].chars().count() as i64 + 1)
}

pub(super) fn left(text: &str, n: i64) -> String {
    text.chars().take(counted(text, n)).collect()
}

pub(super) fn right(text: &str, n: i64) -> String {
    let length = text.chars().count();
    text.chars().skip(length - counted(text, n).min(length)).collect()
}

/// A negative number leaves out so many characters at the other end.
fn counted(text: &str, n: i64) -> usize {
    if n >= 0 { n as usize } else { text.chars().count().saturating_sub(n.unsigned_abs() as usize) }
}

/// # Errors
/// `54000` if the result is too long; the functions below too.
pub(super) fn repeat(text: &str, n: i64) -> Result<String, SqlError> {
    let n = n.max(0) as usize;
    let is_short = text.len().checked_mul(n).is_some_and(|bytes| bytes <= MAX_BYTES);
    if is_short { Ok(text.repeat(n)) } else { Err(too_long()) }
}

pub(super) fn too_long() -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT, "requested length too large")
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Left,
    Right,
}

/// The text with `length` characters: cut at its end, or filled at `end` with `fill` again and
/// again.
pub(super) fn pad(text: &str, length: i64, fill: &str, end: End) -> Result<String, SqlError> {
    let length = usize::try_from(length).unwrap_or(0);
    if length > MAX_BYTES / 4 {
        return Err(too_long());
    }
    let count = text.chars().count();
    if count >= length || fill.is_empty() {
        return Ok(text.chars().take(length).collect());
    }
    let filling: String = fill.chars().cycle().take(length - count).collect();
    Ok(if end == End::Left { filling + text } else { text.to_owned() + &filling })
}

/// # Errors
/// `22023` for the field 0.
pub(super) fn split_part(text: &str, separator: &str, n: i64) -> Result<String, SqlError> {
    if n == 0 {
        return Err(SqlError::new(SqlState::INVALID_PARAMETER, "field position must not be zero"));
    }
    let parts: Vec<&str> = if separator.is_empty() { vec![text] } else { text.split(separator).collect() };
    let index = if n > 0 { n - 1 } else { parts.len() as i64 + n };
    let part = usize::try_from(index).ok().and_then(|index| parts.get(index));
    Ok(part.map_or(String::new(), |part| (*part).to_owned()))
}

pub(super) fn replace(text: &str, from: &str, to: &str) -> String {
    if from.is_empty() { text.to_owned() } else { text.replace(from, to) }
}

/// Each character of `from` becomes that of `to` at the same position, or nothing.
pub(super) fn translate(text: &str, from: &str, to: &str) -> String {
    let new = |c: char| match from.chars().position(|old| old == c) {
        Some(at) => to.chars().nth(at),
        None => Some(c),
    };
    text.chars().filter_map(new).collect()
}

/// The first letter of each word in upper case, all others in lower case.
pub(super) fn capitalized(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_inside = false;
    for c in text.chars() {
        if is_inside {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        is_inside = c.is_alphanumeric();
    }
    out
}

/// # Errors
/// `54000` for a number of no character.
pub(super) fn chr(code: i64) -> Result<String, SqlError> {
    let error = |message: String| SqlError::new(SqlState::PROGRAM_LIMIT, message);
    match code {
        ..0 => Err(SqlError::new(SqlState::INVALID_PARAMETER, "character number must be positive")),
        0 => Err(error("null character not permitted".into())),
        code => match u32::try_from(code).ok().and_then(char::from_u32) {
            Some(c) => Ok(c.into()),
            None if code > 0x10_ffff => {
                Err(error(format!("requested character too large for encoding: {code}")))
            }
            None => Err(error(format!("requested character not valid for encoding: {code}"))),
        },
    }
}
