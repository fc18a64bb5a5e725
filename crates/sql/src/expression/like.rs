//! `LIKE` and `ILIKE`: `%` stands for any characters, `_` for one, and the escape character takes
//! the meaning from the character after it.

use super::context::mistyped;
use crate::{Datum, SqlError, SqlState};

pub(super) fn like(
    text: &Datum,
    pattern: &Datum,
    escape: Option<char>,
    ignore_case: bool,
) -> Result<Option<bool>, SqlError> {
    match (text, pattern) {
        (Datum::Null, _) | (_, Datum::Null) => Ok(None),
        (Datum::Text(text), Datum::Text(pattern)) if ignore_case => {
            let pattern = parts(&pattern.to_lowercase(), escape);
            matches(&text.to_lowercase(), &pattern).map(Some)
        }
        (Datum::Text(text), Datum::Text(pattern)) => matches(text, &parts(pattern, escape)).map(Some),
        _ => Err(mistyped()),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Any,
    One,
    Char(char),
    /// An escape character at the end: an error, if the text goes on there.
    Dangling,
}

fn parts(pattern: &str, escape: Option<char>) -> Vec<Part> {
    let mut parts = Vec::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        parts.push(match c {
            c if Some(c) == escape => chars.next().map_or(Part::Dangling, Part::Char),
            '%' => Part::Any,
            '_' => Part::One,
            c => Part::Char(c),
        });
    }
    parts
}

/// Greedy: after a mismatch, only the last `%` takes one more character, as an earlier one could
/// not help.
fn matches(text: &str, pattern: &[Part]) -> Result<bool, SqlError> {
    let (mut rest, mut at) = (text.chars(), 0);
    let mut retry = None;
    loop {
        match pattern.get(at) {
            Some(Part::Any) => {
                at += 1;
                retry = Some((rest.clone(), at));
                continue;
            }
            Some(part) => match rest.next() {
                Some(c) if *part == Part::One || *part == Part::Char(c) => {
                    at += 1;
                    continue;
                }
                Some(_) if *part == Part::Dangling => {
                    let message = "LIKE pattern must not end with escape character";
                    return Err(SqlError::new(SqlState::INVALID_ESCAPE, message));
                }
                Some(_) => {}
                // The text is over, and the pattern is not.
                None => return Ok(false),
            },
            None if rest.as_str().is_empty() => return Ok(true),
            None => {}
        }
        let Some((mut from, after)) = retry.take() else { return Ok(false) };
        if from.next().is_none() {
            return Ok(false);
        }
        (rest, at) = (from.clone(), after);
        retry = Some((from, after));
    }
}
