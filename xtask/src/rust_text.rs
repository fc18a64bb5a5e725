//! Comments apart from code, in the text of a Rust file.
//!
//! A scanner, not a parser: it knows comments (block comments nest), string literals with all their
//! prefixes, raw strings, and the difference between a char literal and a lifetime. Everything else
//! is code.

/// A Rust file in two parts.
pub struct Split {
    /// The file with a space for each byte of comments and literals. Newlines stay, so a byte of
    /// code keeps its place and its line.
    pub code: String,
    /// The comments in the file's order, one entry a line: a block comment of three lines has
    /// three.
    pub comments: Vec<Comment>,
}

#[derive(Debug, PartialEq)]
pub struct Comment {
    /// Counted from 1.
    pub line: usize,
    /// With its marks (`//`, `///`, `/*`), without the code before it.
    pub text: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Piece {
    Comment,
    Literal,
    Code,
}

pub fn split(text: &str) -> Split {
    let mut found = Split { code: String::with_capacity(text.len()), comments: Vec::new() };
    let (mut at, mut line, mut in_word) = (0, 1, false);
    while at < text.len() {
        let (piece, length) = piece(&text[at..], in_word);
        let taken = &text[at..at + length];
        if piece == Piece::Comment {
            let lines = taken.lines().enumerate();
            found.comments.extend(lines.map(|(n, l)| Comment { line: line + n, text: l.to_owned() }));
        }
        if piece == Piece::Code {
            found.code.push_str(taken);
        } else {
            found.code.extend(taken.bytes().map(|b| if b == b'\n' { '\n' } else { ' ' }));
        }
        in_word = piece == Piece::Code && taken.ends_with(is_word);
        line += taken.matches('\n').count();
        at += length;
    }
    found
}

/// The piece that `rest` begins with, and its length in bytes. `in_word`: an identifier or number
/// ends before `rest`, so an `r` or `b` here is no prefix of a literal.
fn piece(rest: &str, in_word: bool) -> (Piece, usize) {
    if rest.starts_with("//") {
        return (Piece::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (Piece::Comment, block(rest));
    }
    let prefix = if in_word { 0 } else { rest.len() - rest.trim_start_matches(['b', 'c', 'r']).len() };
    let (prefix, quoted) = rest.split_at(prefix);
    if prefix.ends_with('r')
        && let Some(length) = raw(quoted)
    {
        return (Piece::Literal, prefix.len() + length);
    }
    if quoted.starts_with('"') {
        return (Piece::Literal, prefix.len() + closed(quoted, '"'));
    }
    if is_char(quoted) {
        return (Piece::Literal, prefix.len() + closed(quoted, '\''));
    }
    (Piece::Code, rest.chars().next().map_or(0, char::len_utf8))
}

/// The length of the block comment at the start of `rest`, comments inside it included.
fn block(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        let step = match rest.as_bytes()[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                2
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                2
            }
            _ => 1,
        };
        at += step;
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// The length of a raw string after its `r`: `##"..."##`. None for a raw identifier and for an `r`
/// of plain code.
fn raw(rest: &str) -> Option<usize> {
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let inside = rest[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", &rest[..hashes]);
    Some(inside.find(&end).map_or(rest.len(), |at| hashes + 1 + at + end.len()))
}

/// The length of the literal that opens and closes with `quote`, which a backslash escapes.
fn closed(rest: &str, quote: char) -> usize {
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == quote {
            return at + quote.len_utf8();
        }
        if c == '\\' {
            chars.next();
        }
    }
    rest.len()
}

/// A char literal and not a lifetime: an escape, or one character and a quote.
fn is_char(rest: &str) -> bool {
    let mut chars = rest.chars();
    chars.next() == Some('\'') && (chars.next() == Some('\\') || chars.next() == Some('\''))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comments(text: &str) -> Vec<(usize, String)> {
        split(text).comments.into_iter().map(|c| (c.line, c.text)).collect()
    }

    #[test]
    fn literals_hold_no_comments() {
        for literal in [
            r#""a // b""#,
            r#""\" // b""#,
            "r\"a // b\\\"",
            "r#\"a \" // b\"#",
            "br##\"\"# // b\"##",
            "b\"/* a\"",
            "c\"// a\"",
            "'\"'",
            "'/'",
            r"'\''",
            r"b'\\'",
            r"'\u{2f}'",
        ] {
            let found = split(&format!("let x = {literal}; // c\n"));
            assert_eq!(found.comments, [Comment { line: 1, text: "// c".to_owned() }], "{literal}");
            assert_eq!(
                found.code.split_whitespace().collect::<Vec<_>>(),
                ["let", "x", "=", ";"],
                "{literal}"
            );
            assert_eq!(found.code.len(), literal.len() + "let x = ; // c\n".len(), "{literal}");
        }
    }

    #[test]
    fn a_lifetime_opens_no_literal() {
        let text =
            "fn f<'a>(x: &'a str) -> char { 'a' } // 'b\nlet r#type: &'static str = \"//\"; bar\"//\"; // c";
        assert_eq!(comments(text), [(1, "// 'b".to_owned()), (2, "// c".to_owned())]);
        assert!(split(text).code.contains("r#type: &'static str"));
    }

    #[test]
    fn block_comments_nest_and_doc_comments_are_comments() {
        let text = "/* a /* b */\nc */ let x = 1; //! d\n/// e // f\nlet y = \"\n\"; // g";
        let expected = [(1, "/* a /* b */"), (2, "c */"), (2, "//! d"), (3, "/// e // f"), (5, "// g")];
        assert_eq!(comments(text), expected.map(|(line, text)| (line, text.to_owned())));
        assert_eq!(comments("/* never closed"), [(1, "/* never closed".to_owned())]);
    }
}
