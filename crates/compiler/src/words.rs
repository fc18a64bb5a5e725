//! Statements read word by word.

use crate::error::syntax;
use sql::SqlError;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The tokens of a statement, without white space and comments.
pub struct Words<'a> {
    all: &'a [TokenWithSpan],
    at: usize,
}

impl<'a> Words<'a> {
    pub fn new(tokens: &'a [TokenWithSpan]) -> Words<'a> {
        let mut words = Words { all: tokens, at: 0 };
        words.skip();
        words
    }

    pub fn skip(&mut self) {
        while self.all.get(self.at).is_some_and(|t| matches!(t.token, Token::Whitespace(_) | Token::EOF)) {
            self.at += 1;
        }
    }

    pub fn step(&mut self) {
        self.at += 1;
        self.skip();
    }

    pub fn token(&self) -> Option<&'a Token> {
        self.all.get(self.at).map(|token| &token.token)
    }

    pub fn rest(&self) -> &'a [TokenWithSpan] {
        &self.all[self.at.min(self.all.len())..]
    }

    pub fn is(&self, word: &str) -> bool {
        matches!(self.token(), Some(Token::Word(w)) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
    }

    pub fn second_is(&self, word: &str) -> bool {
        let mut next = Words { all: self.all, at: self.at };
        next.step();
        next.is(word)
    }

    pub fn take(&mut self, word: &str) -> bool {
        let found = self.is(word);
        if found {
            self.step();
        }
        found
    }

    /// The first of `words` that comes next.
    pub fn take_any(&mut self, words: &[&'static str]) -> Option<&'static str> {
        words.iter().find(|word| self.take(word)).copied()
    }

    pub fn take_token(&mut self, token: &Token) -> bool {
        let found = self.token() == Some(token);
        if found {
            self.step();
        }
        found
    }

    pub fn expect(&mut self, word: &str) -> Result<(), SqlError> {
        if self.take(word) { Ok(()) } else { Err(self.error()) }
    }

    pub fn error(&self) -> SqlError {
        match self.all.get(self.at) {
            Some(token) => near(token),
            None => syntax("syntax error at end of input"),
        }
    }

    pub fn end(&self) -> Result<(), SqlError> {
        if self.token().is_none() { Ok(()) } else { Err(self.error()) }
    }

    /// An identifier, in lower case if it is not quoted.
    pub fn name(&mut self) -> Result<String, SqlError> {
        let Some(Token::Word(word)) = self.token() else { return Err(self.error()) };
        let name = match word.quote_style {
            None => word.value.to_lowercase(),
            Some(_) => word.value.clone(),
        };
        self.step();
        Ok(name)
    }

    /// A name with points: the last part, and for settings the whole.
    pub fn dotted(&mut self) -> Result<Vec<String>, SqlError> {
        let mut parts = vec![self.name()?];
        while self.take_token(&Token::Period) {
            parts.push(self.name()?);
        }
        Ok(parts)
    }

    pub fn table(&mut self) -> Result<String, SqlError> {
        Ok(self.dotted()?.pop().unwrap_or_default())
    }

    pub fn tables(&mut self) -> Result<Vec<String>, SqlError> {
        let mut tables = Vec::new();
        while self.token().is_some() && !self.is("IN") && !self.is("NOWAIT") {
            self.take("ONLY");
            tables.push(self.table()?);
            self.take_token(&Token::Mul);
            self.parenthesised()?;
            if !self.take_token(&Token::Comma) {
                break;
            }
        }
        Ok(tables)
    }

    /// The tokens in the parentheses that come next, if they do.
    pub fn parenthesised(&mut self) -> Result<Option<&'a [TokenWithSpan]>, SqlError> {
        if self.token() != Some(&Token::LParen) {
            return Ok(None);
        }
        self.step();
        let (start, mut depth) = (self.at, 1);
        while let Some(token) = self.token() {
            depth += i32::from(*token == Token::LParen) - i32::from(*token == Token::RParen);
            let end = self.at;
            self.step();
            if depth == 0 {
                return Ok(Some(&self.all[start..end]));
            }
        }
        Err(self.error())
    }

    /// Whether `ANALYZE` is among the options of `EXPLAIN`.
    pub fn explain_options(&mut self) -> Result<bool, SqlError> {
        let mut analyze = false;
        if let Some(options) = self.parenthesised()? {
            let mut options = Words::new(options);
            while options.token().is_some() {
                if options.take("FORMAT") && !options.is("TEXT") {
                    let hint = Some("Leave FORMAT out: the answer is text.");
                    return Err(SqlError::unsupported("EXPLAIN in this FORMAT", hint));
                }
                let is_analyze = options.take("ANALYZE");
                let off = options.take("FALSE") || options.take("OFF");
                analyze |= is_analyze && !off;
                options.step();
            }
        }
        loop {
            if self.take("ANALYZE") {
                analyze = true;
            } else if !self.take("VERBOSE") {
                return Ok(analyze);
            }
        }
    }

    pub fn integer(&mut self) -> Result<i64, SqlError> {
        let negative = self.take_token(&Token::Minus);
        if !negative {
            self.take_token(&Token::Plus);
        }
        let Some(Token::Number(digits, _)) = self.token() else { return Err(self.error()) };
        let sign = if negative { "-" } else { "" };
        let Ok(number) = format!("{sign}{digits}").parse() else { return Err(self.error()) };
        self.step();
        Ok(number)
    }
}

/// A syntax error at a token, with its place in words.
pub fn near(token: &TokenWithSpan) -> SqlError {
    let mut error = match &token.token {
        Token::EOF => return syntax("syntax error at end of input"),
        token => syntax(format!("syntax error at or near \"{token}\"")),
    };
    let at = token.span.start;
    error.detail = Some(format!("at Line: {}, Column: {}", at.line, at.column));
    error
}
