//! What all readers of statements share: places in a text, the parser, and its errors.

use crate::error::{syntax, too_complex};
use crate::words::near;
use sql::SqlError;
use sqlparser::ast::{Expr, Statement};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

/// Parentheses in parentheses.
pub const MAX_NESTED: usize = 200;

/// A statement of rows or of definitions, and nothing after it.
///
/// # Errors
/// `42601`, `54001`.
pub fn sql_statement(tokens: Vec<TokenWithSpan>) -> Result<Statement, SqlError> {
    let dialect = PostgreSqlDialect {};
    let mut parser = parser(&dialect, tokens);
    let statement = parser.parse_statement().map_err(told)?;
    let rest = parser.peek_token();
    if rest.token != Token::EOF {
        return Err(near(&rest));
    }
    Ok(statement)
}

/// An expression that Atoll has written.
///
/// # Errors
/// `42601`.
pub fn expression(text: &str) -> Result<Expr, SqlError> {
    let dialect = PostgreSqlDialect {};
    let tokens = Tokenizer::new(&dialect, text).tokenize_with_location();
    let tokens = tokens.map_err(|error| syntax(error.message))?;
    parser(&dialect, tokens).parse_expr().map_err(told)
}

pub fn parser(dialect: &PostgreSqlDialect, tokens: Vec<TokenWithSpan>) -> Parser<'_> {
    Parser::new(dialect).with_recursion_limit(MAX_NESTED * 2).with_tokens_with_locations(tokens)
}

pub fn is_space(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_) | Token::EOF)
}

/// The parser's error; its place stands in the detail until it becomes a position.
pub fn told(error: ParserError) -> SqlError {
    match error {
        ParserError::RecursionLimitExceeded => too_complex(),
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => {
            let (words, place) = match message.rfind(" at Line: ") {
                Some(at) => message.split_at(at),
                None => (message.as_str(), ""),
            };
            let mut error = match found(words) {
                Some((expected, "EOF")) => {
                    syntax("syntax error at end of input").with_hint(format!("Expected: {expected}."))
                }
                Some((expected, found)) => syntax(format!("syntax error at or near \"{found}\""))
                    .with_hint(format!("Expected: {expected}.")),
                None => syntax(format!("syntax error: {words}")),
            };
            error.detail = (!place.is_empty()).then(|| place.trim().to_owned());
            error
        }
    }
}

/// The words that the parser expected, and those that it found.
fn found(words: &str) -> Option<(&str, &str)> {
    words.strip_prefix("Expected: ")?.rsplit_once(", found: ")
}

/// Byte positions of places, asked for in ascending order.
pub struct Places<'a> {
    chars: std::iter::Peekable<std::str::CharIndices<'a>>,
    len: usize,
    at: Location,
    /// Characters so far.
    pub passed: usize,
}

impl<'a> Places<'a> {
    pub fn new(text: &'a str) -> Places<'a> {
        Places::from(text, Location { line: 1, column: 1 })
    }

    /// Positions in a text that begins at a place of a longer one.
    pub fn from(text: &'a str, at: Location) -> Places<'a> {
        Places { chars: text.char_indices().peekable(), len: text.len(), at, passed: 0 }
    }

    pub fn byte(&mut self, place: Location) -> usize {
        while (self.at.line, self.at.column) < (place.line, place.column) {
            match self.chars.next() {
                Some((_, '\n')) => self.at = Location { line: self.at.line + 1, column: 1 },
                Some(_) => self.at.column += 1,
                None => return self.len,
            }
            self.passed += 1;
        }
        self.chars.peek().map_or(self.len, |(byte, _)| *byte)
    }
}
