//! How much a query text may hold. Its memory is that of its tokens and of the trees of its
//! statements, far more than its bytes.
//!
//! A token has 88 bytes, and its statement is read from a copy of it. The tree of a list adds 200
//! to 500 bytes for each token in it. A statement, and a query in it, have 10,000 to 15,000 bytes
//! however short they are. So tokens are counted, and a statement or a query counts as several.

use crate::error::TOO_COMPLEX;
use sql::{SqlError, SqlState};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Bytes of a query text.
pub const MAX_TEXT: usize = 16 << 20;
/// Tokens of a query text: a gibibyte of memory, and enough for `MAX_TEXT` of rows of which the
/// texts are some tens of bytes long.
const MAX_TOKENS: usize = 2_000_000;
/// The tokens that a statement, and a word that begins a query, count as besides.
const QUERY: usize = 16;

/// Refuses a text that is too long, before it becomes tokens.
///
/// # Errors
/// `54000` for too many bytes, `54001` for so many tokens that a rough count suffices.
pub fn check_text(text: &str) -> Result<(), SqlError> {
    if text.len() > MAX_TEXT {
        let hint = "Send several statements, or use COPY.";
        let message = format!("a query text has at most {MAX_TEXT} bytes; this one has {}", text.len());
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT, message).with_hint(hint));
    }
    // The rough count has up to three for one, in `>=` and `1.5`.
    match text.len() > MAX_TOKENS && rough_count(text.as_bytes()) > 3 * MAX_TOKENS {
        true => Err(too_many()),
        false => Ok(()),
    }
}

/// Refuses a text of too many tokens, before they become trees.
///
/// # Errors
/// `54001`.
pub fn check_tokens(tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    let weight = |token: &TokenWithSpan| match &token.token {
        Token::SemiColon => 1 + QUERY,
        Token::Word(word) if word.quote_style.is_none() && begins_query(&word.value) => 1 + QUERY,
        _ => 1,
    };
    // Few tokens are no more than this even if each counts most.
    if tokens.len() > MAX_TOKENS / (1 + QUERY) && tokens.iter().map(weight).sum::<usize>() > MAX_TOKENS {
        return Err(too_many());
    }
    Ok(())
}

fn begins_query(word: &str) -> bool {
    ["SELECT", "VALUES", "TABLE", "WITH"].iter().any(|known| word.eq_ignore_ascii_case(known))
}

fn too_many() -> SqlError {
    let message = format!(
        "a query text has at most {MAX_TOKENS} words, values, signs and spaces; a statement and a query in it count \
         as {QUERY} more"
    );
    SqlError::new(TOO_COMPLEX, message).with_hint("Send several texts with fewer rows each, or use COPY.")
}

/// About as many as there are tokens, or more: each sign outside of quotes and comments is one, and
/// each run of letters and digits.
fn rough_count(text: &[u8]) -> usize {
    let (mut at, mut count) = (0, 0);
    while at < text.len() {
        let rest = &text[at..];
        count += 1;
        at += match rest[0] {
            b'\'' => {
                let word = text[..at].iter().rev().take_while(|byte| is_of_word(**byte)).count();
                quoted(rest, b'\'', word == 1 && text[at - 1].eq_ignore_ascii_case(&b'e'))
            }
            b'"' => quoted(rest, b'"', false),
            b'$' => dollar_quoted(rest),
            b'-' if rest.starts_with(b"--") => to(rest, b"\n"),
            b'/' if rest.starts_with(b"/*") => to(rest, b"*/"),
            byte if is_of_word(byte) => rest.iter().take_while(|byte| is_of_word(**byte)).count(),
            _ => 1,
        };
    }
    count
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// The length up to the end of the first of these bytes after the first place, or to the end.
fn to(rest: &[u8], end: &[u8]) -> usize {
    let found = rest[1..].windows(end.len()).position(|bytes| bytes == end);
    found.map_or(rest.len(), |found| 1 + found + end.len())
}

/// The length of a text in quotes. Two quotes in it are as two texts.
fn quoted(rest: &[u8], quote: u8, has_escapes: bool) -> usize {
    let mut is_escaped = false;
    for (at, byte) in rest.iter().enumerate().skip(1) {
        match *byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = has_escapes,
            byte if byte == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The length of `$tag$...$tag$`, or of the sign alone.
fn dollar_quoted(rest: &[u8]) -> usize {
    let word = rest[1..].iter().take_while(|byte| is_of_word(**byte)).count();
    match rest.get(1 + word) {
        Some(b'$') => word + 1 + to(&rest[word + 1..], &rest[..word + 2]),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rough_count_leaves_out_what_is_quoted() {
        for (text, count) in [
            ("", 0),
            ("SELECT a1, 'b, c' ,$1", 10),
            ("'it''s' \"a,\"\"b\" 'é,'", 7),
            (r"E'a\',b' 'a\' ,", 6),
            ("name'\\',''", 4),
            ("$$a,b$$ $t$a $ $$ ,$t$;", 4),
            ("1 -- a, b\n2 /* c, */ 3", 8),
            ("'open, ", 1),
            ("$a$open $a, ", 1),
            ("-- open ,", 1),
        ] {
            assert_eq!(rough_count(text.as_bytes()), count, "{text}");
        }
    }

    #[test]
    fn a_text_has_a_limit_of_tokens_and_long_texts_pass() {
        let state = |text: &str| crate::parse(text).err().map(|error| error.state.as_str().to_owned());
        let repeated =
            |head: &str, item: &str, bytes: usize| format!("{head}{}", item.repeat(bytes / item.len()));
        let too_complex = Some("54001".to_owned());
        assert_eq!(state(&repeated("VALUES (1)", ",(1)", 3 << 20)), too_complex);
        assert_eq!(state(&repeated("", "SELECT 1;", 1 << 20)), too_complex);
        assert_eq!(state(&repeated("SELECT 1", ",(SELECT 1)", 2 << 20)), too_complex);
        for signs in [" ", ";", "- ", "1 "] {
            assert_eq!(state(&repeated("", signs, MAX_TEXT)), too_complex, "{signs}");
        }
        assert_eq!(state(&repeated("VALUES (1)", ",(1)", 1 << 20)), None);
        assert_eq!(state(&repeated("", "INSERT INTO t VALUES (1, 'one');\n", 1 << 20)), None);
        let row = format!(", (1234567, '{}')", "a, 'b; ".replace('\'', "''").repeat(12));
        assert_eq!(state(&repeated("INSERT INTO t VALUES (1, '')", &row, MAX_TEXT - 30)), None);
    }
}
