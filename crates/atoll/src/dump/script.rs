//! A script of statements, as `pg_dump` and `atoll dump` write it and `psql` runs it.
//!
//! Statements end at a semicolon that stands in no quotes, no comment and no parentheses of
//! `$tag$`. The rows of `COPY ... FROM stdin` follow their statement, up to a line `\.`. Of psql's
//! own commands the script may have `\copy ... from 'FILE'`, and `\restrict`, which is passed over.

use crate::failure::Failure;
use std::io::BufRead;

/// The next part of a script, with the line at which it begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    Statement {
        text: String,
        line: u64,
    },
    /// The rows follow: see [`Script::row`].
    Rows {
        statement: String,
        line: u64,
    },
    /// The rows are in a file.
    File {
        statement: String,
        file: String,
        line: u64,
    },
}

pub struct Script<R> {
    input: R,
    /// The number of the last line that was read.
    line: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// The rest of that line, after a semicolon.
    rest: String,
}

/// What the end of the text so far stands in.
#[derive(Clone, PartialEq, Eq)]
enum Within {
    Nothing,
    Quotes { has_escapes: bool },
    Name,
    Dollars(String),
    Comment(u32),
}

impl<R: BufRead> Script<R> {
    pub fn new(input: R) -> Script<R> {
        Script { input, line: 0, bytes: 0, rest: String::new() }
    }

    /// The next part; `None` at the end.
    ///
    /// # Errors
    /// A text that ends within a statement, and commands of psql that are none of those above.
    pub fn next_piece(&mut self) -> Result<Option<Piece>, Failure> {
        let (mut text, mut begun, mut within) = (String::new(), 0, Within::Nothing);
        loop {
            let part = match std::mem::take(&mut self.rest) {
                rest if !rest.trim().is_empty() => rest,
                _ => match self.read_line()? {
                    Some(line) => line,
                    None if text.trim().is_empty() => return Ok(None),
                    None => {
                        let why = format!("the statement at line {begun} has no end; expected a semicolon");
                        return Err(Failure::Run(why));
                    }
                },
            };
            let is_first = text.is_empty();
            if is_first {
                let trimmed = part.trim();
                if trimmed.is_empty() || trimmed.starts_with("--") {
                    continue;
                }
                if let Some(command) = trimmed.strip_prefix('\\') {
                    match self.command(command)? {
                        Some(piece) => return Ok(Some(piece)),
                        None => continue,
                    }
                }
                begun = self.line;
            }
            match end_of_statement(&part, &mut within) {
                None => text.push_str(&part),
                Some(end) => {
                    text.push_str(&part[..end]);
                    self.rest = part[end + 1..].to_owned();
                    if text.trim().is_empty() {
                        text.clear();
                        continue;
                    }
                    return Ok(Some(piece(text, begun)));
                }
            }
        }
    }

    /// The next row of a `COPY`, with its line end; `None` after the last one.
    ///
    /// # Errors
    /// The text ends before the line `\.`.
    pub fn row(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        self.rest.clear();
        let mut row = Vec::new();
        let read = self.input.read_until(b'\n', &mut row).map_err(Failure::run)?;
        if read == 0 {
            return Err(Failure::Run("the rows of a COPY have no end; expected a line \\.".into()));
        }
        (self.line, self.bytes) = (self.line + 1, self.bytes + read as u64);
        let is_end = matches!(row.as_slice(), b"\\.\n" | b"\\.\r\n" | b"\\.");
        Ok(Some(row).filter(|_| !is_end))
    }

    fn read_line(&mut self) -> Result<Option<String>, Failure> {
        let mut line = Vec::new();
        let read = self.input.read_until(b'\n', &mut line).map_err(Failure::run)?;
        (self.line, self.bytes) = (self.line + u64::from(read > 0), self.bytes + read as u64);
        let text = String::from_utf8(line)
            .map_err(|_| Failure::Run(format!("line {}: the text is not in UTF-8", self.line)))?;
        Ok(Some(text).filter(|_| read > 0))
    }

    fn command(&self, command: &str) -> Result<Option<Piece>, Failure> {
        let refuse = |why: &str| Err(Failure::Run(format!("line {}: {why}", self.line)));
        let (word, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        match word {
            "restrict" | "unrestrict" => Ok(None),
            "copy" => match of_file(rest) {
                Some((statement, file)) => Ok(Some(Piece::File { statement, file, line: self.line })),
                None => refuse("expected \\copy TABLE (COLUMNS) from 'FILE' ..."),
            },
            word => refuse(&format!("\\{word} is a command of psql; run the script with psql")),
        }
    }
}

fn piece(text: String, line: u64) -> Piece {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let copies = words.first().is_some_and(|word| word == "copy")
        && words.windows(2).any(|pair| pair[0] == "from" && pair[1].starts_with("stdin"));
    if copies { Piece::Rows { statement: text, line } } else { Piece::Statement { text, line } }
}

/// `TABLE (COLUMNS) from 'FILE' OPTIONS` as a statement that reads the rows of its client, and the
/// file.
fn of_file(text: &str) -> Option<(String, String)> {
    let at = text.to_lowercase().find(" from '")?;
    let (what, rest) = (text.get(..at)?, text.get(at + " from '".len()..)?);
    let mut file = String::new();
    let mut chars = rest.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c != '\'' {
            file.push(c);
        } else if chars.next_if(|(_, c)| *c == '\'').is_some() {
            file.push('\'');
        } else {
            let options = &rest[at + 1..];
            return Some((format!("COPY {what} FROM STDIN{options}"), file));
        }
    }
    None
}

/// The place of the semicolon that ends the statement, if it is in this part.
fn end_of_statement(part: &str, within: &mut Within) -> Option<usize> {
    let bytes = part.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let rest = &part[at..];
        let step = match within {
            Within::Nothing if *byte == b';' => return Some(at),
            Within::Nothing if rest.starts_with("--") => return None,
            Within::Nothing => begin(part, at, within),
            Within::Quotes { has_escapes: true } if *byte == b'\\' => 2,
            Within::Quotes { .. } if rest.starts_with("''") => 2,
            Within::Quotes { .. } if *byte == b'\'' => leave(within, 1),
            Within::Name if *byte == b'"' => leave(within, 1),
            Within::Dollars(tag) if rest.starts_with(tag.as_str()) => {
                let length = tag.len();
                leave(within, length)
            }
            Within::Comment(depth) if rest.starts_with("*/") => {
                *depth -= 1;
                if *depth == 0 { leave(within, 2) } else { 2 }
            }
            Within::Comment(depth) if rest.starts_with("/*") => {
                *depth += 1;
                2
            }
            _ => 1,
        };
        at += step;
        // A step ends at a whole character.
        while at < part.len() && !part.is_char_boundary(at) {
            at += 1;
        }
    }
    None
}

fn leave(within: &mut Within, step: usize) -> usize {
    *within = Within::Nothing;
    step
}

/// What begins at a place outside of everything, and how long its beginning is.
fn begin(part: &str, at: usize, within: &mut Within) -> usize {
    let rest = &part[at..];
    let before = part[..at].chars().next_back();
    let (begun, step) = match rest.as_bytes()[0] {
        b'\'' => (Within::Quotes { has_escapes: matches!(before, Some('e' | 'E')) }, 1),
        b'"' => (Within::Name, 1),
        b'/' if rest.starts_with("/*") => (Within::Comment(1), 2),
        b'$' if !before.is_some_and(|c| c.is_alphanumeric() || c == '_') => match tag(rest) {
            Some(tag) => (Within::Dollars(tag.to_owned()), tag.len()),
            None => return 1,
        },
        _ => return 1,
    };
    *within = begun;
    step
}

/// `$$` or `$word$` at the beginning of a text.
fn tag(rest: &str) -> Option<&str> {
    let end = rest[1..].find('$')? + 1;
    let word = &rest[1..end];
    let is_tag = word.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !word.starts_with(|c: char| c.is_ascii_digit());
    is_tag.then(|| &rest[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<Piece> {
        let mut script = Script::new(text.as_bytes());
        let mut all = Vec::new();
        while let Some(piece) = script.next_piece().unwrap() {
            all.push(piece);
        }
        all
    }

    fn texts(script: &str) -> Vec<String> {
        let text = |piece| match piece {
            Piece::Statement { text, .. } => text.trim().to_owned(),
            other => format!("{other:?}"),
        };
        pieces(script).into_iter().map(text).collect()
    }

    #[test]
    fn statements_end_at_semicolons_outside_of_everything() {
        assert_eq!(
            texts("SELECT 1; SELECT 2;\n-- no ; here\nSELECT\n 3;"),
            ["SELECT 1", "SELECT 2", "SELECT\n 3"]
        );
        for whole in [
            "SELECT 'a;b''c;'",
            "SELECT E'a\\';b'",
            "SELECT \"a;b\"",
            "SELECT $$ ; $$",
            "AS $f$ SELECT $$;$$; $f$",
            "SELECT 1 /* ; /* ; */ ; */ + 1",
            "SELECT a$1 -- ;\n + 1",
            "SELECT 'ä;ö'",
        ] {
            assert_eq!(texts(&format!("{whole};\n")), [whole]);
        }
        assert!(Script::new("SELECT 1".as_bytes()).next_piece().is_err());
        assert!(Script::new(&b"SELECT '\xff';"[..]).next_piece().is_err());
    }

    #[test]
    fn rows_follow_their_statement() {
        let mut script =
            Script::new("\\restrict x\nCOPY t (a) FROM stdin;\n1;\t'\n\\.\nSELECT 1;".as_bytes());
        assert!(matches!(script.next_piece(), Ok(Some(Piece::Rows { line: 2, .. }))));
        assert_eq!(script.row().unwrap(), Some(b"1;\t'\n".to_vec()));
        assert_eq!(script.row().unwrap(), None);
        assert!(matches!(script.next_piece(), Ok(Some(Piece::Statement { line: 5, .. }))));
        assert_eq!(script.next_piece().unwrap(), None);
        let mut cut = Script::new("COPY t FROM stdin;\n1\n".as_bytes());
        assert!(cut.next_piece().is_ok() && cut.row().is_ok() && cut.row().is_err());
    }

    #[test]
    fn of_psqls_commands_copy_is_known() {
        let copy = "\\copy public.t (a) from 'it''s.csv' with (format csv)\n";
        let [Piece::File { statement, file, line: 1 }] = &pieces(copy)[..] else { panic!("{copy}") };
        assert_eq!(
            (statement.as_str(), file.as_str()),
            ("COPY public.t (a) FROM STDIN with (format csv)", "it's.csv")
        );
        let refused = Script::new("\\connect other\n".as_bytes()).next_piece();
        assert!(matches!(refused, Err(Failure::Run(why)) if why.contains("line 1") && why.contains("psql")));
    }
}
