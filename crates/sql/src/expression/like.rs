//! `LIKE` and `ILIKE`: `%` stands for any characters, `_` for one, and the escape character takes the
//! meaning from the character after it.

use super::eval::mistyped;
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
            let pattern = parts(&pattern.to_lowercase(), escape)?;
            Ok(Some(matches(&text.to_lowercase(), &pattern)))
        }
        (Datum::Text(text), Datum::Text(pattern)) => Ok(Some(matches(text, &parts(pattern, escape)?))),
        _ => Err(mistyped()),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Any,
    One,
    Char(char),
}

fn parts(pattern: &str, escape: Option<char>) -> Result<Vec<Part>, SqlError> {
    let mut parts = Vec::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        parts.push(match c {
            c if Some(c) == escape => Part::Char(chars.next().ok_or_else(|| {
                let message = "LIKE pattern must not end with escape character";
                SqlError::new(SqlState::INVALID_ESCAPE, message)
            })?),
            '%' => Part::Any,
            '_' => Part::One,
            c => Part::Char(c),
        });
    }
    Ok(parts)
}

/// Greedy: after a mismatch, only the last `%` takes one more character, as an earlier one could
/// not help.
fn matches(text: &str, pattern: &[Part]) -> bool {
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
                Some(_) => {}
                // The text is over, and the pattern is not.
                None => return false,
            },
            None if rest.as_str().is_empty() => return true,
            None => {}
        }
        let Some((mut from, after)) = retry.take() else { return false };
        if from.next().is_none() {
            return false;
        }
        (rest, at) = (from.clone(), after);
        retry = Some((from, after));
    }
}
