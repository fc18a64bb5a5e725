//! Places of a statement in which an array stands, and what stands there instead.

use sql::array::Elements;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Token, Tokenizer};
use std::ops::Range;

/// Tokens that something else stands in place of.
#[derive(Clone, PartialEq, Debug)]
pub struct Site {
    pub at: Range<usize>,
    pub sources: Vec<Source>,
    pub what: What,
}

#[derive(Clone, PartialEq, Debug)]
pub enum What {
    /// `= ANY`, or `<> ALL`.
    List { negated: bool },
    /// The operand of another operator with `ANY` or `ALL`.
    Operand,
    /// The rows of an `INSERT`.
    Values,
    /// A relation with its name and the names of its columns.
    Relation { alias: String, columns: Vec<String>, ordinality: bool },
    /// A query of its columns under these names.
    Select { names: Vec<String> },
}

/// An array as it is written, with the type of its elements if that is written too.
#[derive(Clone, PartialEq, Debug)]
pub struct Source {
    pub of: Of,
    pub ty: Option<Vec<Token>>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Of {
    /// A parameter, from 0.
    Param(usize),
    Literal(Elements),
    /// `ARRAY[a, b]`.
    Expressions(Vec<Vec<Token>>),
}

/// What stands in place of an array: the tokens of each element; `None` for a null array.
pub type Written = Option<Vec<Vec<Token>>>;

pub fn literal(element: Option<String>) -> Vec<Token> {
    vec![element.map_or_else(|| Token::make_keyword("NULL"), Token::SingleQuotedString)]
}

/// The tokens of a text that is known to be right.
pub fn words_of(text: &str) -> Vec<Token> {
    Tokenizer::new(&PostgreSqlDialect {}, text).tokenize().unwrap_or_default()
}

fn name(name: &str) -> Token {
    Token::make_word(name, Some('"'))
}

fn joined(parts: impl IntoIterator<Item = Vec<Token>>) -> Vec<Token> {
    let mut out = Vec::new();
    for part in parts {
        if !out.is_empty() {
            out.push(Token::Comma);
        }
        out.extend(part);
    }
    out
}

fn in_parentheses(inner: Vec<Token>) -> Vec<Token> {
    let mut out = vec![Token::LParen];
    out.extend(inner);
    out.push(Token::RParen);
    out
}

fn typed(mut value: Vec<Token>, ty: Option<&Vec<Token>>) -> Vec<Token> {
    if let Some(ty) = ty {
        if value.len() > 1 {
            value = in_parentheses(value);
        }
        value.push(Token::DoubleColon);
        value.extend(ty.iter().cloned());
    }
    value
}

impl What {
    pub fn written(&self, arrays: &[(Written, Option<Vec<Token>>)]) -> Vec<Token> {
        match self {
            What::List { negated } => in_list(arrays, *negated),
            What::Operand => in_parentheses(rows(arrays, false)),
            What::Values => rows(arrays, false),
            What::Relation { alias, columns, ordinality } => {
                relation(rows(arrays, *ordinality), alias, columns)
            }
            What::Select { names } => {
                let columns: Vec<String> = (1..=names.len()).map(|at| format!("c{at}")).collect();
                let items = names.iter().zip(&columns).map(|(shown, column)| {
                    vec![name("u"), Token::Period, name(column), Token::make_keyword("AS"), name(shown)]
                });
                let mut out = vec![Token::make_keyword("SELECT")];
                out.extend(joined(items));
                out.push(Token::make_keyword("FROM"));
                out.extend(relation(rows(arrays, false), "u", &columns));
                out
            }
        }
    }
}

fn relation(rows: Vec<Token>, alias: &str, columns: &[String]) -> Vec<Token> {
    let mut out = in_parentheses(rows);
    out.extend([Token::make_keyword("AS"), name(alias)]);
    out.extend(in_parentheses(joined(columns.iter().map(|column| vec![name(column)]))));
    out
}

/// `IN (...)`. Nothing is in an empty array, a null neither.
fn in_list(arrays: &[(Written, Option<Vec<Token>>)], negated: bool) -> Vec<Token> {
    let null = || vec![literal(None)];
    let (written, ty) = arrays.first().cloned().unwrap_or((None, None));
    let is_empty = written.as_ref().is_some_and(Vec::is_empty);
    let values = written.filter(|values| !values.is_empty()).unwrap_or_else(null);
    let mut out = Vec::new();
    if negated && !is_empty {
        out.push(Token::make_keyword("NOT"));
    }
    out.push(Token::make_keyword("IN"));
    out.extend(in_parentheses(joined(values.into_iter().map(|value| typed(value, ty.as_ref())))));
    if is_empty {
        let words = if negated { &["IS", "NOT", "TRUE"][..] } else { &["IS", "TRUE"] };
        out.extend(words.iter().map(|word| Token::make_keyword(word)));
    }
    out
}

/// The rows of arrays side by side, the shorter ones filled with nulls; `is_numbered` adds
/// a column with their numbers.
fn rows(arrays: &[(Written, Option<Vec<Token>>)], is_numbered: bool) -> Vec<Token> {
    let count = arrays.iter().map(|(written, _)| written.as_ref().map_or(0, Vec::len)).max().unwrap_or(0);
    let row = |at: usize| {
        let value = |(written, ty): &(Written, Option<Vec<Token>>)| {
            let value = written.as_ref().and_then(|values| values.get(at)).cloned();
            typed(value.unwrap_or_else(|| literal(None)), ty.as_ref())
        };
        let number = || typed(vec![Token::Number((at + 1).to_string(), false)], Some(&words_of("bigint")));
        let number = is_numbered.then(number);
        joined(arrays.iter().map(value).chain(number))
    };
    if count == 0 {
        let mut out = vec![Token::make_keyword("SELECT")];
        out.extend(row(0));
        out.extend([Token::make_keyword("WHERE"), Token::make_keyword("FALSE")]);
        return out;
    }
    let mut out = vec![Token::make_keyword("VALUES")];
    out.extend(joined((0..count).map(|at| in_parentheses(row(at)))));
    out
}
