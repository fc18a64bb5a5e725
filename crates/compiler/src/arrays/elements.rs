//! Arrays as texts.

use sql::{SqlError, SqlState};

/// The elements of an array as texts; `None` for null.
pub type Elements = Vec<Option<String>>;

/// The elements of an array in text form.
///
/// # Errors
/// `22P02`, `0A000` for an array of arrays.
pub fn elements(text: &str) -> Result<Elements, SqlError> {
    let malformed = || SqlError::new(SqlState::INVALID_TEXT, format!("malformed array literal: \"{text}\""));
    let inner =
        text.trim().strip_prefix('{').and_then(|text| text.strip_suffix('}')).ok_or_else(malformed)?;
    let (mut all, mut chars) = (Vec::new(), inner.chars().peekable());
    if inner.trim().is_empty() {
        return Ok(all);
    }
    loop {
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

#[cfg(test)]
mod tests {
    use super::*;

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
