//! A document taken apart as a whole.

use super::{DEPTH, string, type_of, write_string};
use crate::value::Numeric;
use crate::{Datum, SqlError, SqlState};
use std::cmp::Ordering;

/// The longest text that `jsonb_pretty` gives, in bytes.
const LONGEST: usize = 16 << 20;

/// A document. Its scalars are parts of the text that it was read from.
#[derive(Clone, PartialEq, Debug)]
pub enum Tree<'a> {
    /// A number, a truth value, null, or a string with its quotes.
    Scalar(&'a str),
    Array(Vec<Tree<'a>>),
    /// In the order of the text; equal keys too.
    Object(Vec<(String, Tree<'a>)>),
}

impl<'a> Tree<'a> {
    /// Reads a text that is known to be a document.
    ///
    /// # Errors
    /// `54001` for one that is nested too deeply, `22P05` for a key with the character 0.
    pub fn of(text: &'a str) -> Result<Tree<'a>, SqlError> {
        let mut reader = Reader { text, at: 0 };
        reader.value(DEPTH + 1)
    }

    pub fn is_scalar(&self) -> bool {
        matches!(self, Tree::Scalar(_))
    }

    /// The text as a `jsonb` has it, of a tree that was read from one.
    pub fn text(&self) -> Result<String, SqlError> {
        let mut out = String::new();
        self.write(&mut out, ": ", ", ")?;
        Ok(out)
    }

    /// Appends the text with these words between a key and its value, and between members.
    pub fn write(&self, out: &mut String, colon: &str, comma: &str) -> Result<(), SqlError> {
        match self {
            // A `json` may have escapes that are not needed.
            Tree::Scalar(text) if text.contains('\\') => write_string(out, &string(text)?)?,
            Tree::Scalar(text) => out.push_str(text),
            Tree::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { comma });
                    item.write(out, colon, comma)?;
                }
                out.push(']');
            }
            Tree::Object(members) => {
                out.push('{');
                for (i, (key, value)) in members.iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { comma });
                    write_string(out, key)?;
                    out.push_str(colon);
                    value.write(out, colon, comma)?;
                }
                out.push('}');
            }
        }
        Ok(())
    }

    /// Appends the text with a member on each line, as `jsonb_pretty` gives it.
    ///
    /// # Errors
    /// `54000` if it becomes too long.
    pub fn write_pretty(&self, out: &mut String, level: usize) -> Result<(), SqlError> {
        if out.len() > LONGEST {
            let message = format!("a text has at most {LONGEST} bytes");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT, message));
        }
        let line = |out: &mut String, level: usize| {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', 4 * level));
        };
        match self {
            Tree::Scalar(text) => out.push_str(text),
            Tree::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { "," });
                    line(out, level + 1);
                    item.write_pretty(out, level + 1)?;
                }
                line(out, level);
                out.push(']');
            }
            Tree::Object(members) => {
                out.push('{');
                for (i, (key, value)) in members.iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { "," });
                    line(out, level + 1);
                    write_string(out, key)?;
                    out.push_str(": ");
                    value.write_pretty(out, level + 1)?;
                }
                line(out, level);
                out.push('}');
            }
        }
        Ok(())
    }

    /// Takes members out of which the value is null, everywhere.
    pub fn strip_nulls(&mut self) {
        match self {
            Tree::Scalar(_) => {}
            Tree::Array(items) => items.iter_mut().for_each(Tree::strip_nulls),
            Tree::Object(members) => {
                members.retain(|(_, value)| *value != Tree::Scalar("null"));
                members.iter_mut().for_each(|(_, value)| value.strip_nulls());
            }
        }
    }

    /// The member of this name.
    pub fn member(&self, name: &str) -> Option<&Tree<'a>> {
        let Tree::Object(members) = self else { return None };
        members.iter().rfind(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// `self @> other`: whether all that is in the other one is in this one. A document that is a
    /// scalar counts as an array of it.
    pub fn contains(&self, other: &Tree<'_>) -> bool {
        match (self, other) {
            (Tree::Array(items), Tree::Scalar(_)) => items.iter().any(|item| item.equals(other)),
            _ => self.holds(other),
        }
    }

    fn holds(&self, other: &Tree<'_>) -> bool {
        match (self, other) {
            (Tree::Scalar(_), Tree::Scalar(_)) => self.equals(other),
            (Tree::Object(_), Tree::Object(wanted)) => {
                wanted.iter().all(|(key, value)| self.member(key).is_some_and(|own| own.holds(value)))
            }
            (Tree::Array(items), Tree::Array(wanted)) => {
                wanted.iter().all(|wanted| items.iter().any(|item| item.holds(wanted)))
            }
            _ => false,
        }
    }

    /// Whether two scalars are the same value.
    fn equals(&self, other: &Tree<'_>) -> bool {
        let (Tree::Scalar(a), Tree::Scalar(b)) = (self, other) else { return false };
        if a == b {
            return true;
        }
        // Numbers may differ in zeros behind the point.
        type_of(a) == "number"
            && type_of(b) == "number"
            && matches!((Numeric::parse(a), Numeric::parse(b)), (Ok(a), Ok(b)) if same_number(&a, &b))
    }

    /// `self ? name`: whether it is a member's name, or a string of the array.
    pub fn has_key(&self, name: &str) -> bool {
        let is_it = |text: &str| text.starts_with('"') && string(text).is_ok_and(|text| text == name);
        match self {
            Tree::Object(_) => self.member(name).is_some(),
            Tree::Array(items) => items.iter().any(|item| matches!(item, Tree::Scalar(text) if is_it(text))),
            Tree::Scalar(text) => is_it(text),
        }
    }

    /// Gives a member of a `jsonb` a value, at the place that its name has.
    pub fn put(members: &mut Vec<(String, Tree<'a>)>, name: &str, value: Tree<'a>) {
        match members.binary_search_by(|(key, _)| order(key, name)) {
            Ok(at) => members[at].1 = value,
            Err(at) => members.insert(at, (name.to_owned(), value)),
        }
    }
}

fn same_number(a: &Numeric, b: &Numeric) -> bool {
    crate::compare::compare(&Datum::Numeric(a.clone()), &Datum::Numeric(b.clone())).is_eq()
}

/// The order of the members of a `jsonb`.
fn order(a: &str, b: &str) -> Ordering {
    (a.len(), a).cmp(&(b.len(), b))
}

/// Reads a document from the front to the end, once.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&mut self) -> u8 {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
        bytes.get(self.at).copied().unwrap_or_default()
    }

    /// Whether the next character is this one; it is passed.
    fn take(&mut self, wanted: u8) -> bool {
        let found = self.peek() == wanted;
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Result<Tree<'a>, SqlError> {
        if depth == 0 {
            let message = format!("a document is nested more than {DEPTH} levels deep");
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
        }
        match self.peek() {
            b'[' => self.array(depth),
            b'{' => self.object(depth),
            b'"' => Ok(Tree::Scalar(self.quoted())),
            _ => {
                let rest = &self.text[self.at..];
                let end = rest.find(|c: char| ",]}".contains(c) || c.is_whitespace()).unwrap_or(rest.len());
                self.at += end;
                if end == 0 { Err(malformed()) } else { Ok(Tree::Scalar(&rest[..end])) }
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Tree<'a>, SqlError> {
        self.take(b'[');
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Tree::Array(items));
        }
        loop {
            items.push(self.value(depth - 1)?);
            if self.take(b']') {
                return Ok(Tree::Array(items));
            }
            if !self.take(b',') {
                return Err(malformed());
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Tree<'a>, SqlError> {
        self.take(b'{');
        let mut members = Vec::new();
        if self.take(b'}') {
            return Ok(Tree::Object(members));
        }
        loop {
            if self.peek() != b'"' {
                return Err(malformed());
            }
            let key = string(self.quoted())?;
            if !self.take(b':') {
                return Err(malformed());
            }
            members.push((key, self.value(depth - 1)?));
            if self.take(b'}') {
                return Ok(Tree::Object(members));
            }
            if !self.take(b',') {
                return Err(malformed());
            }
        }
    }

    /// A string with its quotes.
    fn quoted(&mut self) -> &'a str {
        let bytes = self.text.as_bytes();
        let start = self.at;
        self.at += 1;
        while let Some(byte) = bytes.get(self.at) {
            self.at += if *byte == b'\\' { 2 } else { 1 };
            if *byte == b'"' {
                break;
            }
        }
        self.at = self.at.min(bytes.len());
        &self.text[start..self.at]
    }
}

fn malformed() -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT, "invalid input syntax for type json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    const DOCUMENTS: [&str; 8] = [
        "{\"a\": [1, 2.50, {\"b\": null}], \"b\": \"x\\\"y\\\\\", \"cc\": {}}",
        "[]",
        "[[], [{}], \"[\", \"\\u0007\", -1.5, true, false, null]",
        "\"é\\n\"",
        "0",
        "null",
        "{\"\": {\"\": []}}",
        "{\"a,]}\": \"}\"}",
    ];

    #[test]
    fn a_document_is_written_as_it_was_read() {
        for document in DOCUMENTS {
            assert_eq!(json::normalize(document).unwrap(), document);
            assert_eq!(Tree::of(document).unwrap().text().unwrap(), document);
        }
    }

    #[test]
    fn cut_and_deep_texts_are_errors_and_no_panic() {
        for document in DOCUMENTS {
            for cut in (0..document.len()).filter(|cut| document.is_char_boundary(*cut)) {
                let _ = Tree::of(&document[..cut]).map(|tree| tree.text());
            }
        }
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(Tree::of(&nested(DEPTH)).is_ok());
        let error = Tree::of(&nested(100_000)).unwrap_err();
        assert_eq!(error.state, SqlState::STATEMENT_TOO_COMPLEX);
    }

    #[test]
    fn containment_is_that_of_postgres() {
        for (a, b, contains) in [
            ("{\"a\": 1, \"b\": 2}", "{\"a\": 1.0}", true),
            ("{\"a\": {\"b\": [1, 2, 3]}}", "{\"a\": {\"b\": [3, 1]}}", true),
            ("{\"a\": {\"b\": 1}}", "{\"b\": 1}", false),
            ("[1, 2]", "1", true),
            ("1", "[1]", false),
            ("1", "1", true),
            ("[[1]]", "[1]", false),
            ("[1, [2, 3]]", "[[3]]", true),
            ("{}", "{}", true),
            ("[]", "{}", false),
            ("[\"a\"]", "\"a\"", true),
            ("{\"a\": [1]}", "{\"a\": 1}", false),
        ] {
            assert_eq!(Tree::of(a).unwrap().contains(&Tree::of(b).unwrap()), contains, "{a} @> {b}");
        }
    }
}
