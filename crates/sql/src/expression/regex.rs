//! Functions of regular expressions. A pattern is compiled when it is first used on a thread.

mod pattern;

use super::Function;
use super::context::mistyped;
use super::strings::{MAX_BYTES, too_long};
use crate::{Datum, SqlError, SqlState, array};
use pattern::{Options, Pattern, Use, compiled};
use regex_lite::Regex;
use std::cell::RefCell;
use std::rc::Rc;

/// Patterns that a thread keeps.
const KEPT: usize = 16;

type Kept = (String, Options, Use, Rc<Regex>);

thread_local! {
    /// The last one used is the last.
    static PATTERNS: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
}

/// The value of a function of a regular expression; `None` for other functions. No argument is
/// null.
pub(super) fn call(function: Function, args: &[&Datum]) -> Result<Option<Datum>, SqlError> {
    let text = |at: usize| match args.get(at) {
        Some(Datum::Text(text)) => Ok(text.as_str()),
        None => Ok(""),
        Some(_) => Err(mistyped()),
    };
    Ok(Some(match function {
        Function::RegexLike => {
            let regex = regex(text(1)?, &one("regexp_like()", text(2)?)?, Use::Test)?;
            Datum::Bool(regex.is_match(text(0)?))
        }
        Function::SimilarTo => {
            let pattern = pattern::of_similar(text(1)?, text(2)?)?;
            let regex = regex(&pattern, &Options::default(), Use::Test)?;
            Datum::Bool(regex.is_match(text(0)?))
        }
        Function::RegexMatch => {
            let regex = regex(text(1)?, &one_match(text(2)?)?, Use::Search)?;
            let found = matches(&regex, text(0)?, 0, false).pop();
            found.map_or(Datum::Null, |found| Datum::Text(groups(&regex, text(0).unwrap_or_default(), found)))
        }
        Function::RegexMatches => {
            let options = Options::read(text(2)?)?;
            let regex = regex(text(1)?, &options, Use::Search)?;
            let subject = text(0)?;
            let all = matches(&regex, subject, 0, options.global).into_iter();
            Datum::Text(array::written(all.map(|found| Some(groups(&regex, subject, found)))))
        }
        Function::RegexSubstring => {
            let regex = regex(text(1)?, &Options::default(), Use::Search)?;
            let subject = text(0)?;
            let found = regex.captures(subject);
            let part =
                found.and_then(|found| found.get(usize::from(found.len() > 1)).map(|part| part.as_str()));
            part.map_or(Datum::Null, |part| Datum::Text(part.to_owned()))
        }
        Function::RegexCount => {
            let regex = regex(text(1)?, &one("regexp_count()", text(3)?)?, Use::Search)?;
            let subject = text(0)?;
            let start = start(subject, args.get(2))?;
            let count = start.map_or(0, |start| matches(&regex, subject, start, true).len());
            Datum::Int(count as i64)
        }
        Function::RegexReplace => replace(args, (text(0)?, text(1)?, text(2)?))?,
        Function::RegexSplit => {
            let regex = regex(text(1)?, &one("regexp_split_to_array()", text(2)?)?, Use::Search)?;
            Datum::Text(array::written(split(&regex, text(0)?).into_iter().map(Some)))
        }
        _ => return Ok(None),
    }))
}

fn regex(pattern: &str, options: &Options, usage: Use) -> Result<Rc<Regex>, SqlError> {
    let key = options.of_pattern();
    PATTERNS.with_borrow_mut(|kept| {
        let known =
            kept.iter().rposition(|(text, known, of, _)| text == pattern && *known == key && *of == usage);
        let found = match known {
            Some(at) => kept.remove(at),
            None => (
                pattern.to_owned(),
                key,
                usage,
                Rc::new(compiled(&Pattern { text: pattern, options: key }, usage)?),
            ),
        };
        let regex = Rc::clone(&found.3);
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push(found);
        Ok(regex)
    })
}

/// The options of a function that takes no `g`.
fn one(function: &str, flags: &str) -> Result<Options, SqlError> {
    let options = Options::read(flags)?;
    if options.global {
        let message = format!("{function} does not support the \"global\" option");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER, message));
    }
    Ok(options)
}

fn one_match(flags: &str) -> Result<Options, SqlError> {
    one("regexp_match()", flags).map_err(|error| match error.message.contains("global") {
        true => error.with_hint("Use the regexp_matches function instead."),
        false => error,
    })
}

/// The byte of the character with a number from 1; `None` behind the end.
fn start(text: &str, number: Option<&&Datum>) -> Result<Option<usize>, SqlError> {
    let number = match number {
        None => 1,
        Some(Datum::Int(number)) => *number,
        Some(_) => return Err(mistyped()),
    };
    if number < 1 {
        let message = format!("invalid value for parameter \"start\": {number}");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER, message));
    }
    let places = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    Ok(usize::try_from(number - 1).ok().and_then(|number| places.into_iter().nth(number)))
}

/// The places of a match and of its groups, in bytes.
type Found = Vec<Option<(usize, usize)>>;

/// The first match from a place on, or all.
fn matches(regex: &Regex, text: &str, mut from: usize, all: bool) -> Vec<Found> {
    let mut found = Vec::new();
    while let Some(captures) = regex.captures_at(text, from) {
        let places: Found = captures.iter().map(|part| part.map(|part| (part.start(), part.end()))).collect();
        let Some(Some((start, end))) = places.first().copied() else { break };
        found.push(places);
        // After an empty match the search goes on one character further.
        let step = if start == end { text[end..].chars().next().map(char::len_utf8) } else { Some(0) };
        let Some(step) = step.filter(|_| all) else { break };
        from = end + step;
    }
    found
}

/// The array of a match's groups, or of the whole match if the pattern has none.
fn groups(regex: &Regex, text: &str, found: Found) -> String {
    let skipped = usize::from(regex.captures_len() > 1);
    let part = |place: Option<(usize, usize)>| place.map(|(start, end)| &text[start..end]);
    array::written(found.into_iter().skip(skipped).map(part))
}

fn split<'t>(regex: &Regex, text: &'t str) -> Vec<&'t str> {
    let (mut parts, mut from, mut last) = (Vec::new(), 0, 0);
    for found in matches(regex, text, 0, true) {
        let Some(Some((start, end))) = found.first().copied() else { continue };
        // Empty matches at the ends, and right behind another match, are none.
        if start < text.len() && end > last {
            parts.push(&text[from..start]);
            from = end;
        }
        last = end;
    }
    parts.push(&text[from..]);
    parts
}

/// `regexp_replace(text, pattern, replacement, flags)`, or `(text, pattern, replacement, start, n,
/// flags)`, where 0 means each match.
fn replace(args: &[&Datum], (text, pattern, replacement): (&str, &str, &str)) -> Result<Datum, SqlError> {
    let (from, number, options) = match args.get(3..).unwrap_or_default() {
        [] => (Some(0), 1, Options::default()),
        [Datum::Text(flags)] => {
            let options = Options::read(flags)?;
            (Some(0), if options.global { 0 } else { 1 }, options)
        }
        [at, rest @ ..] => {
            let from = start(text, Some(at))?;
            let flags = match rest.get(1) {
                Some(Datum::Text(flags)) => Options::read(flags)?,
                _ => Options::default(),
            };
            let number = match rest.first() {
                Some(Datum::Int(number)) if *number < 0 => {
                    let message = format!("invalid value for parameter \"n\": {number}");
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER, message));
                }
                Some(Datum::Int(number)) => *number,
                _ if flags.global => 0,
                _ => 1,
            };
            (from, number, flags)
        }
    };
    let regex = regex(pattern, &options, Use::Search)?;
    let (mut out, mut done) = (String::with_capacity(text.len()), 0);
    let found = from.map_or_else(Vec::new, |from| matches(&regex, text, from, number != 1));
    for (found, at) in found.into_iter().zip(1_i64..) {
        let Some(Some((start, end))) = found.first().copied() else { continue };
        if number == 0 || number == at {
            out.push_str(&text[done..start]);
            put_replacement(&mut out, replacement, text, &found);
            if out.len() > MAX_BYTES {
                return Err(too_long());
            }
            done = end;
        }
    }
    out.push_str(&text[done..]);
    Ok(Datum::Text(out))
}

/// `\1` to `\9` are groups, `\&` is the match, `\\` a backslash.
fn put_replacement(out: &mut String, replacement: &str, text: &str, found: &Found) {
    let mut chars = replacement.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let group = match chars.clone().next() {
            Some('&') => 0,
            Some(digit @ '1'..='9') => digit as usize - '0' as usize,
            Some('\\') => {
                chars.next();
                out.push('\\');
                continue;
            }
            _ => {
                out.push('\\');
                continue;
            }
        };
        chars.next();
        if let Some(Some((start, end))) = found.get(group) {
            out.push_str(&text[*start..*end]);
        }
    }
}
