//! PostgreSQL's advanced regular expressions in the syntax of the crate `regex-lite`, which takes
//! time that grows linearly with the text. Letters are those of ASCII, as with the collation `C`.
//!
//! Of several matches at one place, PostgreSQL takes the longest one, and the crate the one that
//! the pattern prefers. Where only the question is whether there is a match, both are the same. In
//! other places patterns are refused that mix greedy quantifiers with others, and alternatives of
//! which more than one may begin with the same character. Back references and conditions on the
//! text around a match are refused everywhere.

use crate::{SqlError, SqlState};
use regex_lite::{Regex, RegexBuilder};
use std::iter::Peekable;
use std::str::Chars;

/// What a function asks of a pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Whether there is a match.
    Test,
    /// Where it is.
    Search,
}

/// The letters of a function's flags, or of `(?...)` at the begin of a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    pub global: bool,
    ignores_case: bool,
    /// `.` and `[^...]` do not stand for the end of a line.
    ends_at_lines: bool,
    /// `^` and `$` stand for begin and end of each line.
    anchors_at_lines: bool,
    is_expanded: bool,
    is_literal: bool,
}

impl Options {
    /// # Errors
    /// `22023` for other letters; `0A000` for the older kinds of regular expressions.
    pub fn read(flags: &str) -> Result<Options, SqlError> {
        let mut options = Options::default();
        for flag in flags.chars() {
            match flag {
                'g' => options.global = true,
                flag => options.set(flag)?,
            }
        }
        Ok(options)
    }

    /// Those of the pattern alone.
    pub fn of_pattern(self) -> Options {
        Options { global: false, ..self }
    }

    fn set(&mut self, flag: char) -> Result<(), SqlError> {
        match flag {
            'i' => self.ignores_case = true,
            'c' => self.ignores_case = false,
            'n' | 'm' => (self.ends_at_lines, self.anchors_at_lines) = (true, true),
            's' => (self.ends_at_lines, self.anchors_at_lines) = (false, false),
            'p' => (self.ends_at_lines, self.anchors_at_lines) = (true, false),
            'w' => (self.ends_at_lines, self.anchors_at_lines) = (false, true),
            'x' => self.is_expanded = true,
            't' => self.is_expanded = false,
            'q' => self.is_literal = true,
            'b' | 'e' => return Err(refused("a basic or extended regular expression")),
            other => {
                let message = format!("invalid regular expression option: \"{other}\"");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER, message));
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
pub struct Pattern<'p> {
    pub text: &'p str,
    pub options: Options,
}

fn refused(what: &str) -> SqlError {
    SqlError::unsupported(what, Some("Compute it in the client, or write the pattern in another way."))
}

fn invalid(why: &str) -> SqlError {
    SqlError::new(SqlState(*b"2201B"), format!("invalid regular expression: {why}"))
}

/// The most bytes of a compiled pattern. A search takes time for each of its parts at each
/// character.
const LARGEST: usize = 256 << 10;

const BRACKETS: &str = "brackets [] not balanced";
const PARENTHESES: &str = "parentheses () not balanced";
const ESCAPE: &str = "invalid escape \\ sequence";
const OPERAND: &str = "quantifier operand invalid";
const COUNT: &str = "invalid repetition count(s)";

/// # Errors
/// `2201B` for what is no regular expression; `0A000` for one that is not carried out.
pub fn compiled(pattern: &Pattern<'_>, usage: Use) -> Result<Regex, SqlError> {
    let (mut text, mut options) = (pattern.text, pattern.options);
    if let Some(rest) = text.strip_prefix("***=") {
        (text, options.is_literal) = (rest, true);
    } else {
        text = text.strip_prefix("***:").unwrap_or(text);
        if let Some((flags, rest)) = text.strip_prefix("(?").and_then(|rest| rest.split_once(')'))
            && !flags.is_empty()
            && flags.bytes().all(|b| b.is_ascii_lowercase())
        {
            flags.chars().try_for_each(|flag| options.set(flag)).map_err(|error| match error.state {
                SqlState::INVALID_PARAMETER => invalid("invalid embedded option"),
                _ => error,
            })?;
            text = rest;
        }
    }
    let source = if options.is_literal {
        let mut out = String::new();
        text.chars().for_each(|c| put(&mut out, c));
        out
    } else {
        let mut reading = Reading::new(text, options);
        reading.run()?;
        reading.checked(usage)?;
        reading.out
    };
    let mut builder = RegexBuilder::new(&source);
    let built = builder.case_insensitive(options.ignores_case).size_limit(LARGEST).build();
    // Its syntax is right: it is too large, or too deep.
    built.map_err(|_| invalid("regular expression is too complex"))
}

/// The characters of ASCII that a part takes, a bit each. The last one stands for all others.
fn first(part: &str, ignores_case: bool) -> u128 {
    let built = RegexBuilder::new(&format!("^{part}$")).case_insensitive(ignores_case).build();
    let Ok(regex) = built else { return u128::MAX };
    let takes = |code: u8| regex.is_match(char::from(code).encode_utf8(&mut [0; 4]));
    let ascii = (0..127).filter(|code| takes(*code)).fold(0, |set, code| set | 1 << code);
    let others = !part.is_ascii() || regex.is_match("é");
    ascii | u128::from(others) << 127
}

/// A character as itself.
fn put(out: &mut String, c: char) {
    if c.is_ascii_alphanumeric() || !c.is_ascii() {
        out.push(c);
    } else {
        out.push_str(&format!("\\x{{{:x}}}", u32::from(c)));
    }
}

/// One level of parentheses.
#[derive(Default)]
struct Level {
    /// The first part of each of its branches so far; `None` for one that is not looked at.
    begins: Vec<Option<String>>,
    /// The first part of the present one.
    begin: Option<String>,
    /// The number of its parts.
    parts: u32,
}

struct Reading<'p> {
    chars: Peekable<Chars<'p>>,
    options: Options,
    out: String,
    levels: Vec<Level>,
    /// Whether a quantifier may follow.
    has_operand: bool,
    is_greedy: bool,
    is_lazy: bool,
    has_branches: bool,
    /// Whether branches of one level may begin alike.
    is_ambiguous: bool,
}

impl<'p> Reading<'p> {
    fn new(text: &'p str, options: Options) -> Reading<'p> {
        Reading {
            chars: text.chars().peekable(),
            options,
            out: String::with_capacity(text.len() + 8),
            levels: vec![Level::default()],
            has_operand: false,
            is_greedy: false,
            is_lazy: false,
            has_branches: false,
            is_ambiguous: false,
        }
    }

    fn run(&mut self) -> Result<(), SqlError> {
        while let Some(c) = self.chars.next() {
            match c {
                c if self.options.is_expanded && c.is_ascii_whitespace() => {}
                '#' if self.options.is_expanded => while self.chars.next_if(|c| *c != '\n').is_some() {},
                '(' => self.open()?,
                ')' if self.levels.len() > 1 => self.close(),
                ')' => return Err(invalid(PARENTHESES)),
                '|' => self.branch(),
                '*' | '+' | '?' => self.quantified(c.to_string())?,
                '{' if self.chars.peek().is_some_and(char::is_ascii_digit) => {
                    let bound = self.bound()?;
                    self.quantified(bound)?;
                }
                '[' => self.bracket()?,
                '\\' => self.escape()?,
                '^' => self.constraint(if self.options.anchors_at_lines { "(?m:^)" } else { "^" }),
                '$' => self.constraint(if self.options.anchors_at_lines { "(?m:$)" } else { "$" }),
                '.' => self.part(if self.options.ends_at_lines { "[^\\n]" } else { "(?s:.)" }),
                c => self.literal(c),
            }
        }
        if self.levels.len() > 1 { Err(invalid(PARENTHESES)) } else { Ok(()) }
    }

    /// Whether a search gives what PostgreSQL does.
    fn checked(&mut self, usage: Use) -> Result<(), SqlError> {
        self.end_level();
        if usage == Use::Test {
            return Ok(());
        }
        if self.is_lazy && (self.is_greedy || self.has_branches) {
            return Err(refused("a regular expression with quantifiers of both kinds"));
        }
        if self.is_ambiguous {
            let hint = "Write the common begin once, as in a(b)? instead of a|ab.";
            let what = "a search for alternatives of which several may begin alike";
            return Err(SqlError::unsupported(what, Some(hint)));
        }
        Ok(())
    }

    /// A part that takes one character.
    fn part(&mut self, text: &str) {
        self.note(Some(text));
        self.out.push_str(text);
        self.has_operand = true;
    }

    fn note(&mut self, text: Option<&str>) {
        let Some(level) = self.levels.last_mut() else { return };
        if level.parts == 0 {
            level.begin = text.map(str::to_owned);
        }
        level.parts += 1;
    }

    fn literal(&mut self, c: char) {
        let mut text = String::new();
        put(&mut text, c);
        self.part(&text);
    }

    /// What stands for a place between characters takes no quantifier.
    fn constraint(&mut self, text: &str) {
        self.out.push_str(text);
        self.has_operand = false;
    }

    fn open(&mut self) -> Result<(), SqlError> {
        if self.chars.next_if_eq(&'?').is_some() {
            match self.chars.next() {
                Some(':') => self.out.push_str("(?:"),
                Some('=' | '!' | '<') => return Err(refused("a condition on what is around a match")),
                _ => return Err(invalid(OPERAND)),
            }
        } else {
            self.out.push('(');
        }
        self.note(None);
        self.levels.push(Level::default());
        self.has_operand = false;
        Ok(())
    }

    fn close(&mut self) {
        self.end_level();
        self.out.push(')');
        self.has_operand = true;
    }

    fn end_level(&mut self) {
        let Some(mut level) = self.levels.pop() else { return };
        level.begins.push(level.begin);
        if level.begins.len() == 1 {
            return;
        }
        self.has_branches = true;
        let mut known = 0;
        for begin in &level.begins {
            let set = begin.as_ref().map_or(u128::MAX, |begin| first(begin, self.options.ignores_case));
            self.is_ambiguous |= known & set != 0;
            known |= set;
        }
    }

    fn branch(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.begins.push(level.begin.take());
            level.parts = 0;
        }
        self.out.push('|');
        self.has_operand = false;
    }

    fn quantified(&mut self, quantifier: String) -> Result<(), SqlError> {
        if !self.has_operand {
            return Err(invalid(OPERAND));
        }
        self.has_operand = false;
        // A part that may be absent does not say how its branch begins.
        if let Some(level) = self.levels.last_mut().filter(|level| level.parts == 1)
            && (["*", "?"].contains(&quantifier.as_str()) || quantifier.starts_with("{0"))
        {
            level.begin = None;
        }
        let is_fixed = quantifier.starts_with('{') && !quantifier.contains(',');
        self.out.push_str(&quantifier);
        if self.chars.next_if_eq(&'?').is_some() {
            self.out.push('?');
            self.is_lazy |= !is_fixed;
        } else {
            self.is_greedy |= !is_fixed;
        }
        Ok(())
    }

    /// `{m}`, `{m,}`, `{m,n}`, of which the opening brace is read.
    fn bound(&mut self) -> Result<String, SqlError> {
        let mut text = String::new();
        loop {
            match self.chars.next() {
                Some('}') => break,
                Some(c) if c.is_ascii_digit() || c == ',' => text.push(c),
                Some(_) => return Err(invalid(COUNT)),
                None => return Err(invalid("braces {} not balanced")),
            }
        }
        let (low, high) = text.split_once(',').unwrap_or((&text, &text));
        let count = |text: &str| text.parse::<u16>().ok().filter(|count| *count <= 255);
        let low = count(low).ok_or_else(|| invalid(COUNT))?;
        let is_right = high.is_empty() || count(high).is_some_and(|high| low <= high);
        if is_right { Ok(format!("{{{text}}}")) } else { Err(invalid(COUNT)) }
    }

    fn escape(&mut self) -> Result<(), SqlError> {
        let Some(c) = self.chars.next() else { return Err(invalid(ESCAPE)) };
        match c {
            'd' | 's' | 'w' | 'D' | 'S' | 'W' => self.part(&format!("\\{c}")),
            'A' => self.constraint("\\A"),
            'Z' => self.constraint("\\z"),
            'm' => self.constraint("\\b{start}"),
            'M' => self.constraint("\\b{end}"),
            'y' => self.constraint("\\b"),
            'Y' => self.constraint("\\B"),
            '1'..='9' => return Err(refused("a back reference in a regular expression")),
            c => {
                let c = self.character(c)?;
                self.literal(c);
            }
        }
        Ok(())
    }

    /// The character that an escape stands for.
    fn character(&mut self, c: char) -> Result<char, SqlError> {
        Ok(match c {
            'a' => '\x07',
            'b' => '\x08',
            'B' => '\\',
            'e' => '\x1b',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            '0' => '\0',
            'c' => {
                let letter = self.chars.next().ok_or_else(|| invalid(ESCAPE))?;
                char::from(letter as u8 & 0x1f)
            }
            'u' => self.hexadecimal(4..=4)?,
            'U' => self.hexadecimal(8..=8)?,
            'x' => self.hexadecimal(1..=8)?,
            c if c.is_ascii_alphanumeric() => return Err(invalid(ESCAPE)),
            c => c,
        })
    }

    fn hexadecimal(&mut self, digits: std::ops::RangeInclusive<usize>) -> Result<char, SqlError> {
        let mut text = String::new();
        while text.len() < *digits.end()
            && let Some(digit) = self.chars.next_if(char::is_ascii_hexdigit)
        {
            text.push(digit);
        }
        let number = u32::from_str_radix(&text, 16).ok().filter(|_| digits.contains(&text.len()));
        number.and_then(char::from_u32).ok_or_else(|| invalid(ESCAPE))
    }

    /// A bracket expression, of which the opening bracket is read.
    fn bracket(&mut self) -> Result<(), SqlError> {
        for (word, boundary) in [("[:<:]]", "\\b{start}"), ("[:>:]]", "\\b{end}")] {
            let mut ahead = self.chars.clone();
            if word.chars().all(|c| ahead.next() == Some(c)) {
                self.chars = ahead;
                self.constraint(boundary);
                return Ok(());
            }
        }
        let mut set = String::from("[");
        if self.chars.next_if_eq(&'^').is_some() {
            set.push('^');
            if self.options.ends_at_lines {
                set.push_str("\\n");
            }
        }
        let mut is_first = true;
        loop {
            match self.chars.next().ok_or_else(|| invalid(BRACKETS))? {
                ']' if !is_first => break,
                c => self.member(&mut set, c)?,
            }
            is_first = false;
        }
        set.push(']');
        self.part(&set);
        Ok(())
    }

    /// A character, range or class of a bracket expression.
    fn member(&mut self, set: &mut String, c: char) -> Result<(), SqlError> {
        let from = match c {
            '[' if self.chars.peek() == Some(&':') => return self.class(set),
            '\\' => match self.chars.next().ok_or_else(|| invalid(ESCAPE))? {
                c @ ('d' | 's' | 'w') => {
                    set.push('\\');
                    set.push(c);
                    return Ok(());
                }
                c => self.character(c)?,
            },
            c => self.collating(c)?,
        };
        let mut ahead = self.chars.clone();
        let is_range = ahead.next() == Some('-') && ahead.next().is_some_and(|c| c != ']');
        if !is_range {
            put(set, from);
            return Ok(());
        }
        self.chars.next();
        let to = match self.chars.next().ok_or_else(|| invalid(BRACKETS))? {
            '\\' => {
                let c = self.chars.next().ok_or_else(|| invalid(ESCAPE))?;
                self.character(c)?
            }
            c => self.collating(c)?,
        };
        if from > to {
            return Err(invalid("invalid character range"));
        }
        put(set, from);
        set.push('-');
        put(set, to);
        Ok(())
    }

    /// `[.c.]` and `[=c=]` are the character.
    fn collating(&mut self, c: char) -> Result<char, SqlError> {
        let Some(mark) = self.chars.next_if(|next| c == '[' && matches!(next, '.' | '=')) else {
            return Ok(c);
        };
        let (inner, end, bracket) = (self.chars.next(), self.chars.next(), self.chars.next());
        match inner {
            Some(inner) if end == Some(mark) && bracket == Some(']') => Ok(inner),
            _ => Err(invalid("invalid collating element")),
        }
    }

    /// `[:name:]`, of which the bracket is read.
    fn class(&mut self, set: &mut String) -> Result<(), SqlError> {
        const CLASSES: [&str; 13] = [
            "alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
            "upper", "xdigit", "word",
        ];
        self.chars.next();
        let mut name = String::new();
        while let Some(c) = self.chars.next_if(|c| *c != ':') {
            name.push(c);
        }
        if (self.chars.next(), self.chars.next()) != (Some(':'), Some(']')) {
            return Err(invalid(BRACKETS));
        }
        if !CLASSES.contains(&name.as_str()) {
            return Err(invalid("invalid character class"));
        }
        set.push_str(&format!("[:{name}:]"));
        Ok(())
    }
}

/// The pattern of `SIMILAR TO` as a regular expression.
///
/// # Errors
/// `22025` for an escape of several characters, or one at the end.
pub fn of_similar(pattern: &str, escape: &str) -> Result<String, SqlError> {
    let mut mark = escape.chars();
    let (mark, more) = (mark.next(), mark.next());
    if more.is_some() {
        return Err(SqlError::new(SqlState::INVALID_ESCAPE, "invalid escape string")
            .with_hint("Escape string must be empty or one character."));
    }
    let (mut out, mut chars, mut in_brackets) = (String::from("^(?:"), pattern.chars(), false);
    while let Some(c) = chars.next() {
        match c {
            c if Some(c) == mark => {
                if let Some(next) = chars.next() {
                    // A letter would be an escape of its own.
                    if next.is_ascii_alphanumeric() { out.push(next) } else { out.extend(['\\', next]) }
                }
            }
            ']' if in_brackets => {
                in_brackets = false;
                out.push(c);
            }
            '\\' => out.push_str("\\\\"),
            c if in_brackets => out.push(c),
            '[' => {
                in_brackets = true;
                out.push(c);
            }
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            '(' => out.push_str("(?:"),
            '.' | '^' | '$' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out.push_str(")$");
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regex(text: &str, usage: Use) -> Result<Regex, SqlError> {
        compiled(&Pattern { text, options: Options::default() }, usage)
    }

    #[test]
    fn patterns_mean_what_postgresql_says() {
        for (pattern, text, expected) in [
            ("a.c", "a\nc", true),
            ("(?n)a.c", "a\nc", false),
            ("(?n)^b$", "a\nb\nc", true),
            ("^b$", "a\nb\nc", false),
            ("[]a]+$", "]a]", true),
            ("^[^]a]$", "]", false),
            ("[[:<:]]b[[:>:]]", "a b c", true),
            (r"\mb\M", "abc", false),
            ("a{,2}", "a{,2}", true),
            ("^[a\\-z&&]+$", "a-z&", true),
            ("^[[.-.]x]+$", "-x-", true),
            ("***=a.c", "abc", false),
            ("***=a.c", "xa.c", true),
            ("(?i)ABC", "xabc", true),
            ("(?x)a b # c", "ab", true),
            (r"\x41\u0042", "AB", true),
            ("^(a|ab)*$", "aab", true),
        ] {
            let regex = regex(pattern, Use::Test).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(regex.is_match(text), expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn what_is_wrong_or_would_differ_is_refused() {
        for (pattern, usage, state) in [
            ("(", Use::Test, "2201B"),
            (")", Use::Test, "2201B"),
            ("[a", Use::Test, "2201B"),
            ("*a", Use::Test, "2201B"),
            ("a**", Use::Test, "2201B"),
            ("a{2,1}", Use::Test, "2201B"),
            ("a{256}", Use::Test, "2201B"),
            ("((a{255}){255}){255}", Use::Test, "2201B"),
            (r"a\", Use::Test, "2201B"),
            (r"(a)\1", Use::Test, "0A000"),
            ("(?=a)", Use::Test, "0A000"),
            ("a|ab", Use::Search, "0A000"),
            ("x(a|[ab])", Use::Search, "0A000"),
            ("a.*?b.*", Use::Search, "0A000"),
        ] {
            let error = regex(pattern, usage).err().unwrap_or_else(|| panic!("{pattern} is taken"));
            assert_eq!(error.state.as_str(), state, "{pattern}");
        }
        for pattern in ["foo|bar", r"(foo|\d)+", r"\s+|,|[;.]", "a.*?b", "a.*b", "(a(b)?)"] {
            assert!(regex(pattern, Use::Search).is_ok(), "{pattern}");
        }
    }

    #[test]
    fn patterns_of_similar_to() {
        for (pattern, escape, expected) in [
            ("a%b_", "\\", "^(?:a.*b.)$"),
            ("a\\%", "\\", "^(?:a\\%)$"),
            ("(a|b).[%]", "", "^(?:(?:a|b)\\.[%])$"),
        ] {
            assert_eq!(of_similar(pattern, escape).unwrap(), expected);
        }
    }
}
