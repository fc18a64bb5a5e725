//! Arrays as texts: `{1,NULL,"a b"}`. A value is such a text in one form, with each element as its
//! type writes it, times in universal time. So equal arrays have equal texts, but for numbers that
//! differ in zeros behind the point.

use crate::{SqlError, SqlState};

/// The most elements of an array that a client sends. Each takes some hundred bytes until it is in
/// its place in a statement.
pub const MOST_ELEMENTS: usize = 1_000_000;

/// # Errors
/// `54000` for more than [`MOST_ELEMENTS`].
pub fn check_count(elements: usize) -> Result<(), SqlError> {
    if elements <= MOST_ELEMENTS {
        return Ok(());
    }
    let message = format!("an array has more than {MOST_ELEMENTS} elements");
    Err(SqlError::new(SqlState::PROGRAM_LIMIT, message).with_hint("Send it in several parts."))
}

/// The elements of an array as texts; `None` for null.
pub type Elements = Vec<Option<String>>;

/// The elements of an array in text form.
///
/// # Errors
/// `22P02`, `0A000` for an array of arrays, `54000` for one of too many elements.
pub fn elements(text: &str) -> Result<Elements, SqlError> {
    let malformed = || SqlError::new(SqlState::INVALID_TEXT, format!("malformed array literal: \"{text}\""));
    let inner =
        text.trim().strip_prefix('{').and_then(|text| text.strip_suffix('}')).ok_or_else(malformed)?;
    let (mut all, mut chars) = (Vec::new(), inner.chars().peekable());
    if inner.trim().is_empty() {
        return Ok(all);
    }
    loop {
        check_count(all.len() + 1)?;
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        let is_quoted = chars.next_if_eq(&'"').is_some();
        let (mut element, mut has_ended) = (String::new(), !is_quoted);
        // Quotes are taken off, and what a backslash stands before is taken as it is.
        while let Some(c) = chars.next_if(|c| !has_ended || *c != ',') {
            match c {
                '"' if !has_ended => {
                    has_ended = true;
                    while chars.next_if(|c| c.is_whitespace()).is_some() {}
                    if chars.peek().is_some_and(|c| *c != ',') {
                        return Err(malformed());
                    }
                }
                '\\' => element.push(chars.next().ok_or_else(malformed)?),
                '{' | '}' if has_ended => {
                    return Err(SqlError::unsupported("an array of arrays", Some("Use a table of its own.")));
                }
                '"' => return Err(malformed()),
                c => element.push(c),
            }
        }
        if is_quoted {
            if !has_ended {
                return Err(malformed());
            }
            all.push(Some(element));
        } else {
            let element = element.trim_end();
            if element.is_empty() {
                return Err(malformed());
            }
            all.push((!element.eq_ignore_ascii_case("null")).then(|| element.to_owned()));
        }
        if chars.next().is_none() {
            return Ok(all);
        }
        if chars.peek().is_none() {
            return Err(malformed());
        }
    }
}

/// The text of an array of these elements.
pub fn written<T: AsRef<str>>(elements: impl IntoIterator<Item = Option<T>>) -> String {
    let mut out = String::from("{");
    for element in elements {
        if out.len() > 1 {
            out.push(',');
        }
        let Some(text) = &element else {
            out.push_str("NULL");
            continue;
        };
        let text = text.as_ref();
        let is_plain = !text.is_empty()
            && !text.eq_ignore_ascii_case("null")
            && !text.contains(|c: char| "{},\"\\".contains(c) || c.is_whitespace());
        if is_plain {
            out.push_str(text);
            continue;
        }
        out.push('"');
        for c in text.chars() {
            if matches!(c, '"' | '\\') {
                out.push('\\');
            }
            out.push(c);
        }
        out.push('"');
    }
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let all = [Some("a"), None, Some(""), Some("null"), Some("b \"c\\"), Some("{d}"), Some("é,")];
        let text = written(all);
        assert_eq!(text, r#"{a,NULL,"","null","b \"c\\","{d}","é,"}"#);
        let read = elements(&text).unwrap();
        assert_eq!(read.iter().map(Option::as_deref).collect::<Vec<_>>(), all);
        assert_eq!(written(Vec::<Option<String>>::new()), "{}");
    }

    #[test]
    fn elements_are_read_as_postgresql_does() {
        let read = |text: &str| {
            elements(text).map(|all| all.into_iter().map(|e| e.unwrap_or("-".into())).collect::<Vec<_>>())
        };
        assert_eq!(read("{}").unwrap(), Vec::<String>::new());
        assert_eq!(
            read(r#"{a, "b c",null,"null","","x\"y\\", d e }"#).unwrap(),
            ["a", "b c", "-", "null", "", "x\"y\\", "d e"]
        );
        for wrong in ["", "1", "{1", "{1,}", "{,1}", r#"{"a"b}"#, r#"{"a}"#, r"{a\"] {
            assert_eq!(read(wrong).unwrap_err().state, SqlState::INVALID_TEXT, "{wrong}");
        }
        assert_eq!(read("{{1},{2}}").unwrap_err().state, SqlState::FEATURE_NOT_SUPPORTED);
    }
}
