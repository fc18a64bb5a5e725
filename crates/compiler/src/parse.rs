//! Text into statements: the limits, the split at semicolons, and the choice of the parser.
//!
//! ```text
//!   text --> tokens --> statements at ';' --> words of the session        session, sequence_text
//!                                         --> everything else             sqlparser
//! ```
//!
//! `sqlparser` builds a chain of operators as a tree as deep as the chain is long. Its drop would
//! then need as much stack. So a path of the tree has at most `MAX_CHAIN` operators, and a tree
//! with more than `SHORT_CHAIN` is parsed and dropped on a stack of its own. What copies parts of
//! trees is there too ([`on_its_stack`]).

use crate::arrays::{Elements, Template};
use crate::create_as::{CreateAs, create_as, select_into};
use crate::cursor::{self, Declared};
use crate::error::{syntax, too_complex};
use crate::limits::{check_text, check_tokens};
use crate::procedure_text::{self, Argument, CreateRoutine, DropRoutine};
use crate::reading::{MAX_NESTED, Places, is_space, parser, sql_statement, told};
use crate::sequence_text::{SequenceChange, alter_sequence, readable};
use crate::session::{Session, session};
use crate::words::{Words, near};
use sql::catalog::Catalog;
use sql::{SqlError, SqlState, SqlType};
use sqlparser::ast::{DataType, Expr, SetExpr, Statement};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use std::sync::Arc;

/// Words, signs and parentheses on one path of a statement's tree.
const MAX_CHAIN: usize = 24_000;
const SHORT_CHAIN: usize = 200;
/// Bytes of a text of which the tree is too flat for any stack to be too short.
const SHORT_TEXT: usize = 1000;
/// Stack for a tree of `MAX_CHAIN`, in bytes.
const LONG_STACK: usize = 128 << 20;

/// One statement of a query text.
#[derive(Clone, Debug)]
pub struct Parsed(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    text: String,
    /// Taken by the drop only.
    kind: Option<Kind>,
    is_long: bool,
    /// The greatest number of a parameter.
    params: usize,
    /// If some of them are arrays.
    arrays: Option<Template>,
    /// The place of the text's first character in the client's text, and the characters before it.
    start: Location,
    before: usize,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Sql(Box<Statement>),
    Session(Session),
    Explain {
        analyze: bool,
        inner: Parsed,
    },
    /// A type that is unknown is that of the first use.
    Prepare {
        name: String,
        types: Vec<Option<DataType>>,
        inner: Parsed,
    },
    Execute {
        name: String,
        args: Vec<Expr>,
    },
    AlterSequence(SequenceChange),
    CreateRoutine(Box<CreateRoutine>),
    DropRoutine(DropRoutine),
    Call {
        name: String,
        args: Vec<Argument>,
    },
    Declare {
        declared: Declared,
        inner: Parsed,
    },
    CreateAs {
        create: Box<CreateAs>,
        inner: Parsed,
    },
}

/// Does some work on the tree of a statement. Its parts are copied and dropped, and so are those of
/// the views and bodies that it may name: if one of the trees may be deep, that is done on a stack
/// of its own. The outcome has no part of a tree.
pub fn on_its_stack<R>(catalog: &Catalog, parsed: &Parsed, work: impl FnOnce() -> R) -> R {
    let is_short = |text: &str| text.len() <= SHORT_TEXT;
    match is_short(parsed.text()) && catalog.procedures.values().all(|routine| is_short(&routine.body)) {
        true => work(),
        false => stacker::grow(LONG_STACK, work),
    }
}

impl PartialEq for Parsed {
    fn eq(&self, other: &Parsed) -> bool {
        self.0.text == other.0.text
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.is_long {
            let kind = self.kind.take();
            stacker::grow(LONG_STACK, || drop(kind));
        }
    }
}

impl Parsed {
    /// The statement's own text, without the semicolon.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    pub(crate) fn kind(&self) -> &Kind {
        // Only the drop takes it.
        self.0.kind.as_ref().unwrap_or(&Kind::Session(Session::Nothing("")))
    }

    /// The position of a place, in characters of the client's text from 1.
    pub(crate) fn position(&self, place: Location) -> Option<u32> {
        let mut places = Places::from(&self.0.text, self.0.start);
        places.byte(place);
        u32::try_from(self.0.before + places.passed + 1).ok()
    }

    /// The statement's tree, if it is one that `sqlparser` reads.
    pub fn tree(&self) -> Option<&Statement> {
        match self.kind() {
            Kind::Sql(statement) => Some(statement),
            _ => None,
        }
    }

    /// Whether it inserts, changes or deletes rows.
    pub fn is_change(&self) -> bool {
        matches!(self.tree(), Some(Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_)))
    }

    /// Whether it is `WITH` of which a part writes.
    pub fn is_staged(&self) -> bool {
        let Some(Statement::Query(query)) = self.tree() else { return false };
        query.with.as_ref().is_some_and(|with| {
            writes(&query.body) || with.cte_tables.iter().any(|table| writes(&table.query.body))
        })
    }

    /// What `EXPLAIN` explains, and whether it is to be carried out.
    pub fn explained(&self) -> Option<(bool, &Parsed)> {
        match self.kind() {
            Kind::Explain { analyze, inner } => Some((*analyze, inner)),
            _ => None,
        }
    }

    /// The parameters that are arrays, from 0. Until they are known ([`Parsed::with_arrays`]), the
    /// statement is as if each were one of its elements.
    pub fn arrays(&self) -> &[usize] {
        self.0.arrays.as_ref().map_or(&[], |template| &template.params)
    }

    /// The statement with these arrays: for each parameter its elements, and the type that the
    /// parameter has.
    ///
    /// # Errors
    /// As [`parse`].
    pub fn with_arrays(&self, of: &dyn Fn(usize) -> (Option<Elements>, SqlType)) -> Result<Parsed, SqlError> {
        let Some(template) = &self.0.arrays else { return Ok(self.clone()) };
        let tokens = template.filled(&|number| {
            let (elements, ty) = of(number);
            (elements, crate::types::full_name_of(ty))
        });
        let parsed = parsed_of(&tokens, self.0.text.clone(), (self.0.start, self.0.before), None)?;
        Ok(parsed.with_params(self.0.params))
    }

    fn with_params(mut self, params: usize) -> Parsed {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.params = params;
        }
        self
    }

    /// The greatest number of a parameter in the text.
    pub fn params(&self) -> usize {
        self.0.params
    }
}

/// The statements of a query text; none for an empty text or comments.
///
/// # Errors
/// `42601` with a position, `54000` and `54001` past the limits, `0A000` for statements that Atoll
/// does not have.
pub fn parse(text: &str) -> Result<Vec<Parsed>, SqlError> {
    check_text(text)?;
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location();
    let tokens = tokens.map_err(|error| placed(syntax(error.message), text, error.location))?;
    check_tokens(&tokens)?;
    let mut parsed = Vec::new();
    let mut places = Places::new(text);
    for statement in procedure_text::statements(&tokens) {
        let Some(first) = statement.iter().position(|token| !is_space(&token.token)) else { continue };
        let last = statement.iter().rposition(|token| !is_space(&token.token)).unwrap_or(first);
        let statement = &statement[first..=last];
        let start = places.byte(statement[0].span.start);
        let before = places.passed;
        let end = places.byte(statement[statement.len() - 1].span.end);
        let own = text.get(start..end).unwrap_or_default().to_owned();
        parsed.push(one(statement, own, before).map_err(|error| at_place(error, text))?);
    }
    Ok(parsed)
}

/// A statement of which `before` characters stand before it in the client's text.
fn one(tokens: &[TokenWithSpan], text: String, before: usize) -> Result<Parsed, SqlError> {
    let start = tokens.first().map_or(Location { line: 1, column: 1 }, |first| first.span.start);
    match Template::find(tokens)? {
        None => parsed_of(tokens, text, (start, before), None),
        Some(template) => {
            let sample = template.sample();
            let arrays = Some(template).filter(|template| !template.params.is_empty());
            parsed_of(&sample, text, (start, before), arrays)
        }
    }
}

fn parsed_of(
    tokens: &[TokenWithSpan],
    text: String,
    (start, before): (Location, usize),
    arrays: Option<Template>,
) -> Result<Parsed, SqlError> {
    let (kind, is_long) = guarded(tokens, || kind(tokens, (&text, before)))?;
    Ok(Parsed(Arc::new(Inner { text, kind, is_long, params: greatest(tokens)?, arrays, start, before })))
}

/// The statements of the tokens, on a stack of their own if a tree is deep, and whether one is.
fn guarded(
    tokens: &[TokenWithSpan],
    kind: impl FnOnce() -> Result<Kind, SqlError>,
) -> Result<(Option<Kind>, bool), SqlError> {
    let is_long = longest_chain(tokens)? > SHORT_CHAIN;
    let kind = if is_long { stacker::grow(LONG_STACK, kind) } else { kind() }?;
    Ok((Some(kind), is_long))
}

/// A statement on rows in the body of a procedure. Its places are none in a client's text.
pub(crate) fn of_body(tokens: &[TokenWithSpan], text: String) -> Result<Parsed, SqlError> {
    let (kind, is_long) = guarded(tokens, || Ok(Kind::Sql(Box::new(sql_statement(readable(tokens))?))))?;
    let start = Location { line: 1, column: 1 };
    Ok(Parsed(Arc::new(Inner { text, kind, is_long, params: 0, arrays: None, start, before: 0 })))
}

/// The greatest number of a parameter.
fn greatest(tokens: &[TokenWithSpan]) -> Result<usize, SqlError> {
    let mut greatest = 0;
    for token in tokens {
        let Token::Placeholder(name) = &token.token else { continue };
        let number = name.strip_prefix('$').and_then(|number| number.parse::<u16>().ok());
        let number = number.filter(|number| *number > 0);
        let error = || SqlError::new(SqlState(*b"42P02"), format!("there is no parameter {name}"));
        greatest = greatest.max(usize::from(number.ok_or_else(error)?));
    }
    Ok(greatest)
}

fn kind(tokens: &[TokenWithSpan], (text, before): (&str, usize)) -> Result<Kind, SqlError> {
    let outer = (tokens, text, before);
    let mut words = Words::new(tokens);
    if words.take("EXPLAIN") {
        let analyze = words.explain_options()?;
        let inner = nested(words.rest(), outer)?;
        return Ok(Kind::Explain { analyze, inner });
    }
    if words.is("PREPARE") && !words.second_is("TRANSACTION") {
        words.take("PREPARE");
        let name = words.name()?;
        let types = prepare_types(&mut words)?;
        words.expect("AS")?;
        return Ok(Kind::Prepare { name, types, inner: nested(words.rest(), outer)? });
    }
    if words.take("EXECUTE") {
        let name = words.name()?;
        return Ok(Kind::Execute { name, args: arguments(words.rest())? });
    }
    if let Some((declared, query)) = cursor::declare(tokens)? {
        return Ok(Kind::Declare { declared, inner: nested(query, outer)? });
    }
    if let Some(session) = session(tokens)? {
        return Ok(Kind::Session(session));
    }
    if let Some(change) = alter_sequence(tokens)? {
        return Ok(Kind::AlterSequence(change));
    }
    if let Some(create) = procedure_text::create(tokens, text)? {
        return Ok(Kind::CreateRoutine(create.into()));
    }
    if let Some(drop) = procedure_text::drop(tokens)? {
        return Ok(Kind::DropRoutine(drop));
    }
    if let Some((name, args)) = procedure_text::call(tokens)? {
        return Ok(Kind::Call { name, args });
    }
    if let Some((create, query)) = create_as(tokens)? {
        return Ok(Kind::CreateAs { create: create.into(), inner: nested(query, outer)? });
    }
    if let Some((create, into)) = select_into(tokens)? {
        return Ok(Kind::CreateAs { create: create.into(), inner: without(into, outer)? });
    }
    Ok(Kind::Sql(Box::new(sql_statement(readable(tokens))?)))
}

/// The statement without some of its tokens, of which the place stays empty.
fn without(
    gone: std::ops::Range<usize>,
    (all, outer, before): (&[TokenWithSpan], &str, usize),
) -> Result<Parsed, SqlError> {
    let start = all.first().map_or(Location { line: 1, column: 1 }, |first| first.span.start);
    let place = |at: usize| {
        all.get(at).map_or(outer.len(), |token| Places::from(outer, start).byte(token.span.start))
    };
    let (from, to) = (place(gone.start), place(gone.end));
    let blank: String = outer[from..to].chars().map(|c| if c == '\n' { c } else { ' ' }).collect();
    let text = [&outer[..from], &blank, &outer[to..]].concat();
    let kept: Vec<TokenWithSpan> = [&all[..gone.start], &all[gone.end..]].concat();
    one(&kept, text, before)
}

/// The statement inside of another one.
fn nested(
    tokens: &[TokenWithSpan],
    (all, outer, before): (&[TokenWithSpan], &str, usize),
) -> Result<Parsed, SqlError> {
    let (Some(first), Some(start)) = (tokens.first(), all.first()) else {
        return Err(syntax("syntax error at end of input"));
    };
    let words = Words::new(tokens);
    if words.is("EXPLAIN") || words.is("PREPARE") || words.is("DECLARE") {
        return Err(near(first));
    }
    let mut places = Places::from(outer, start.span.start);
    let at = places.byte(first.span.start);
    let passed = places.passed;
    let end = tokens.iter().rev().find(|token| !is_space(&token.token));
    let end = end.map_or(outer.len(), |last| places.byte(last.span.end));
    one(tokens, outer[at..end].to_owned(), before + passed)
}

fn arguments(tokens: &[TokenWithSpan]) -> Result<Vec<Expr>, SqlError> {
    if tokens.is_empty() {
        return Ok(Vec::new());
    }
    let dialect = PostgreSqlDialect {};
    let mut parser = parser(&dialect, tokens.to_vec());
    parser.expect_token(&Token::LParen).map_err(told)?;
    let args = parser.parse_comma_separated(Parser::parse_expr).map_err(told)?;
    parser.expect_token(&Token::RParen).map_err(told)?;
    Ok(args)
}

fn prepare_types(words: &mut Words<'_>) -> Result<Vec<Option<DataType>>, SqlError> {
    let Some(tokens) = words.parenthesised()? else { return Ok(Vec::new()) };
    let dialect = PostgreSqlDialect {};
    let mut parser = parser(&dialect, tokens.to_vec());
    let types = parser.parse_comma_separated(Parser::parse_data_type).map_err(told)?;
    Ok(types.into_iter().map(|ty| Some(ty).filter(|ty| ty.to_string() != "unknown")).collect())
}

/// The open parts of a statement: the statement, and each parenthesis.
#[derive(Default)]
struct Open {
    /// Since the last comma.
    since: usize,
    /// Words that lead on over commas: those of set operations.
    over: usize,
}

/// The most operators on a path of the statement's tree, or more; an error past the limits. Each
/// word, each sign and each pair of parentheses may be an operator.
fn longest_chain(tokens: &[TokenWithSpan]) -> Result<usize, SqlError> {
    let mut open = vec![Open::default()];
    let (mut path, mut longest) = (0_usize, 0);
    for token in tokens {
        match &token.token {
            Token::LParen | Token::LBracket => {
                open.push(Open { since: 1, over: 0 });
                path += 1;
                if open.len() > MAX_NESTED {
                    return Err(too_complex());
                }
            }
            Token::RParen | Token::RBracket if open.len() > 1 => {
                path -= open.pop().map_or(0, |closed| closed.since + closed.over);
                path += 1;
                last(&mut open).since += 1;
            }
            Token::Comma | Token::SemiColon => path -= std::mem::take(&mut last(&mut open).since),
            Token::Whitespace(_) | Token::Number(..) | Token::Placeholder(_) | Token::Period | Token::EOF => {
            }
            Token::SingleQuotedString(_) => {}
            Token::Word(word) if word.quote_style.is_none() && is_set_operation(&word.value) => {
                path += 1;
                last(&mut open).over += 1;
            }
            _ => {
                path += 1;
                last(&mut open).since += 1;
            }
        }
        longest = longest.max(path);
        if longest > MAX_CHAIN {
            return Err(too_complex());
        }
    }
    Ok(longest)
}

fn last(open: &mut [Open]) -> &mut Open {
    // The statement itself is never closed.
    let last = open.len() - 1;
    &mut open[last]
}

fn is_set_operation(word: &str) -> bool {
    ["UNION", "EXCEPT", "INTERSECT", "MINUS"].iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// A place that the parser told in words becomes a position.
fn at_place(mut error: SqlError, text: &str) -> SqlError {
    let place = error.detail.as_deref().and_then(|detail| {
        let (line, column) = detail.strip_prefix("at Line: ")?.split_once(", Column: ")?;
        Some(Location { line: line.parse().ok()?, column: column.parse().ok()? })
    });
    let Some(place) = place else { return error };
    error.detail = None;
    placed(error, text, place)
}

fn placed(mut error: SqlError, text: &str, place: Location) -> SqlError {
    if place.line > 0 {
        let byte = Places::new(text).byte(place);
        let before = text.get(..byte).unwrap_or(text).chars().count();
        error.position = u32::try_from(before + 1).ok();
    }
    error
}

/// Whether a query is a statement that writes.
pub fn writes(body: &SetExpr) -> bool {
    matches!(body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_))
}
