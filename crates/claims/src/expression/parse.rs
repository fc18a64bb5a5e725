//! Parses expressions and conditions: recursive descent over bytes, one function for each rule of
//! the grammar in [`crate::expression`].

use crate::expression::{Comparison, Condition, Filter, Function, Node, Operator, Sense, Wanted};

/// The error in an expression, with its place.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text:?}, at column {column}: expected {expected}")]
pub struct ParseError {
    pub text: String,
    pub column: usize,
    pub expected: String,
}

pub(crate) fn expression(text: &str) -> Result<Node, ParseError> {
    let mut parser = Parser { text, at: 0, left: MOST_NODES };
    let node = parser.sum()?;
    parser.end("an operator or the end")?;
    Ok(node)
}

pub(crate) fn condition(text: &str) -> Result<Condition, ParseError> {
    let mut parser = Parser { text, at: 0, left: MOST_NODES };
    let first = parser.sum()?;
    let mut rest = Vec::new();
    while let Some(comparison) = parser.comparison() {
        rest.push((comparison, parser.sum()?));
    }
    if rest.is_empty() {
        return Err(parser.expected("one of < <= > >= ="));
    }
    parser.end("a comparison or the end")?;
    Ok(Condition { first, rest })
}

/// The most operators, signs, brackets and functions in one text: each may add a level of nesting,
/// and all functions on expressions are recursive.
const MOST_NODES: usize = 200;

/// Longer signs come before their prefixes.
const COMPARISONS: [(&str, Comparison); 5] = [
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("<", Comparison::Less),
    (">", Comparison::More),
    ("=", Comparison::Same),
];

struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// The remaining part of [`MOST_NODES`].
    left: usize,
}

impl<'a> Parser<'a> {
    fn expected(&self, what: impl Into<String>) -> ParseError {
        ParseError { text: self.text.into(), column: self.at + 1, expected: what.into() }
    }

    fn rest(&mut self) -> &'a str {
        let text = self.text;
        let rest = &text[self.at..];
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = self.rest().starts_with(sign);
        self.at += if found { sign.len() } else { 0 };
        found
    }

    fn need(&mut self, sign: &str) -> Result<(), ParseError> {
        if self.take(sign) { Ok(()) } else { Err(self.expected(format!("{sign:?}"))) }
    }

    fn end(&mut self, expected: &str) -> Result<(), ParseError> {
        if self.rest().is_empty() { Ok(()) } else { Err(self.expected(expected)) }
    }

    /// The longest run of bytes from here on for which `fits` holds.
    fn run(&mut self, fits: impl Fn(u8) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.bytes().position(|b| !fits(b)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    fn one_more(&mut self) -> Result<(), ParseError> {
        let more =
            || self.expected(format!("no more than {MOST_NODES} numbers, fields, functions and brackets"));
        self.left = self.left.checked_sub(1).ok_or_else(more)?;
        Ok(())
    }

    fn comparison(&mut self) -> Option<Comparison> {
        COMPARISONS.into_iter().find(|(sign, _)| self.take(sign)).map(|(_, c)| c)
    }

    fn sum(&mut self) -> Result<Node, ParseError> {
        let mut left = self.product()?;
        loop {
            let operator = match () {
                () if self.take("+") => Operator::Plus,
                () if self.take("-") => Operator::Minus,
                () => return Ok(left),
            };
            left = Node::Pair(operator, Box::new(left), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Node, ParseError> {
        let mut left = self.factor()?;
        loop {
            let operator = match () {
                () if self.take("*") => Operator::Times,
                () if self.take("/") => Operator::Over,
                () => return Ok(left),
            };
            left = Node::Pair(operator, Box::new(left), Box::new(self.factor()?));
        }
    }

    fn factor(&mut self) -> Result<Node, ParseError> {
        self.one_more()?;
        if self.take("-") {
            return Ok(Node::Negative(Box::new(self.factor()?)));
        }
        let mut node = self.atom()?;
        while self.take("[") {
            self.one_more()?;
            let mut filters = vec![self.filter()?];
            while self.take(",") {
                filters.push(self.filter()?);
            }
            self.need("]")?;
            node = Node::Select(Box::new(node), filters);
        }
        Ok(node)
    }

    fn atom(&mut self) -> Result<Node, ParseError> {
        if self.take("(") {
            let node = self.sum()?;
            self.need(")")?;
            return Ok(node);
        }
        if self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            return self.number().map(Node::Number);
        }
        let start = self.at;
        let name = self.field()?;
        if !self.take("(") {
            return Ok(Node::Field(name));
        }
        let Some(&function) = Function::ALL.iter().find(|f| f.name() == name) else {
            self.at = start;
            let all: Vec<_> = Function::ALL.iter().map(|f| f.name()).collect();
            return Err(self.expected(format!("a function: one of {}", all.join(", "))));
        };
        let mut args = vec![self.sum()?];
        while self.take(",") {
            args.push(self.sum()?);
        }
        if args.len() != function.arity() {
            return Err(self.expected(format!("{} arguments of {name}", function.arity())));
        }
        self.need(")")?;
        Ok(Node::Call(function, args))
    }

    fn number(&mut self) -> Result<f64, ParseError> {
        let digits = self.run(|b| b.is_ascii_digit() || b == b'.');
        digits.parse().map_err(|_| self.expected("a number"))
    }

    fn field(&mut self) -> Result<String, ParseError> {
        let name = self.run(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.');
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic()) && !name.ends_with('.');
        if is_name { Ok(name.into()) } else { Err(self.expected("a number, a field, a function or '('")) }
    }

    fn filter(&mut self) -> Result<Filter, ParseError> {
        let field = self.field()?;
        let is = match () {
            () if self.take("!=") => Sense::NoneOf,
            () if self.take("=") => Sense::OneOf,
            () => return Err(self.expected("'=' or '!='")),
        };
        let mut values = vec![self.wanted()?];
        while self.take("|") {
            values.push(self.wanted()?);
        }
        Ok(Filter { field, is, values })
    }

    fn wanted(&mut self) -> Result<Wanted, ParseError> {
        if self.take("'") {
            let word = self.run(|b| b != b'\'');
            self.need("'")?;
            return Ok(Wanted::Word(word.into()));
        }
        let word = self.run(|b| b.is_ascii_alphanumeric() || b"_-.:".contains(&b));
        match word {
            "" => Err(self.expected("a value: a number, a word, 'words', max or min")),
            "max" => Ok(Wanted::Largest),
            "min" => Ok(Wanted::Smallest),
            word => Ok(word.parse().map_or_else(|_| Wanted::Word(word.into()), Wanted::Number)),
        }
    }
}
