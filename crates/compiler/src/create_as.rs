//! `CREATE TABLE ... AS` and `SELECT ... INTO`: a new table with the rows of a query.
//!
//! ```text
//!   CREATE TABLE t (a) WITH (...) AS SELECT x, y FROM s WITH NO DATA
//!     define   CREATE TABLE t ("a" integer, "y" text) WITH (...)    by the columns of the query
//!     insert   INSERT INTO t SELECT x, y FROM s                     unless without data
//! ```

use crate::compiled::{Compiled, Field};
use crate::ddl::Definition;
use crate::error::syntax;
use crate::parse::{Parsed, parse};
use crate::words::Words;
use crate::{Stop, any, plainly};
use sql::SqlError;
use sql::catalog::Catalog;
use sqlparser::ast::Statement;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// What stands around the query.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CreateAs {
    /// Words before `TABLE`.
    kind: String,
    if_not_exists: bool,
    /// With its schema.
    name: String,
    columns: Vec<String>,
    /// `WITH (...)` as it was written.
    options: String,
    with_data: bool,
}

/// A table of a query, ready to be made.
#[derive(Clone, PartialEq, Debug)]
pub struct TableOfRows {
    pub create: Definition,
    /// The statement that stores the rows; `None` without data.
    pub insert: Option<Parsed>,
}

/// A name as SQL text.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn name(words: &mut Words<'_>) -> Result<String, SqlError> {
    let parts = words.dotted()?;
    Ok(parts.iter().map(|part| quoted(part)).collect::<Vec<_>>().join("."))
}

/// `CREATE TABLE ... AS`: its parts, and the tokens of the query. `None` for other statements.
///
/// # Errors
/// `42601`.
pub fn create_as(tokens: &[TokenWithSpan]) -> Result<Option<(CreateAs, &[TokenWithSpan])>, SqlError> {
    let mut words = Words::new(tokens);
    let mut create = CreateAs { with_data: true, ..CreateAs::default() };
    if !words.take("CREATE") {
        return Ok(None);
    }
    while let Some(kind) = words.take_any(&["TEMPORARY", "TEMP", "UNLOGGED"]) {
        create.kind = format!("{kind} ");
    }
    if !words.take("TABLE") {
        return Ok(None);
    }
    if words.take("IF") {
        words.expect("NOT")?;
        words.expect("EXISTS")?;
        create.if_not_exists = true;
    }
    create.name = name(&mut words)?;
    if let Some(inner) = words.parenthesised()? {
        let Some(columns) = names(inner) else { return Ok(None) };
        create.columns = columns;
    }
    if words.take("WITH") {
        let Some(options) = words.parenthesised()? else { return Ok(None) };
        let options: String = options.iter().map(|token| token.token.to_string()).collect();
        create.options = format!(" WITH ({options})");
    }
    if !words.take("AS") {
        return Ok(None);
    }
    if words.is("EXECUTE") {
        let hint = Some("Write the query of the prepared statement.");
        return Err(SqlError::unsupported("CREATE TABLE AS EXECUTE", hint));
    }
    let query = words.rest();
    let (query, with_data) = without_data(query);
    create.with_data = with_data;
    Ok(Some((create, query)))
}

/// A list of names and nothing else.
fn names(tokens: &[TokenWithSpan]) -> Option<Vec<String>> {
    let mut words = Words::new(tokens);
    let mut names = Vec::new();
    loop {
        names.push(words.name().ok()?);
        if words.token().is_none() {
            return Some(names);
        }
        words.take_token(&Token::Comma).then_some(())?;
    }
}

/// The query without `WITH [NO] DATA` at its end, and whether there is to be data.
fn without_data(query: &[TokenWithSpan]) -> (&[TokenWithSpan], bool) {
    let words: Vec<usize> =
        (0..query.len()).filter(|at| !crate::reading::is_space(&query[*at].token)).collect();
    let is = |at: usize, word: &str| Words::new(&query[at..=at]).is(word);
    match words[..] {
        [.., with, no, data] if is(with, "WITH") && is(no, "NO") && is(data, "DATA") => {
            (&query[..with], false)
        }
        [.., with, data] if is(with, "WITH") && is(data, "DATA") => (&query[..with], true),
        _ => (query, true),
    }
}

/// `SELECT ... INTO t ...`: the table, and where `INTO t` stands among the tokens. `None` for other
/// statements.
///
/// # Errors
/// `42601`.
pub fn select_into(tokens: &[TokenWithSpan]) -> Result<Option<(CreateAs, std::ops::Range<usize>)>, SqlError> {
    let words = Words::new(tokens);
    if !words.is("SELECT") && !words.is("WITH") {
        return Ok(None);
    }
    let mut depth = 0_i32;
    let mut before = "";
    for (at, token) in tokens.iter().enumerate() {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::Word(word) if depth == 0 && word.quote_style.is_none() => {
                let mut words = Words::new(&tokens[at..]);
                if before == "SELECT" && words.take("INTO") {
                    let mut create = CreateAs { with_data: true, ..CreateAs::default() };
                    if let Some(kind) = words.take_any(&["TEMPORARY", "TEMP", "UNLOGGED"]) {
                        create.kind = format!("{kind} ");
                    }
                    words.take("TABLE");
                    create.name = name(&mut words)?;
                    return Ok(Some((create, at..tokens.len() - words.rest().len())));
                }
                // `INTO` of an INSERT is no clause of a select.
                let known = ["SELECT", "INSERT", "MERGE", "FROM"].into_iter();
                before = known.into_iter().find(|known| words.is(known)).unwrap_or(before);
            }
            _ => {}
        }
    }
    Ok(None)
}

/// The statements that make the table.
///
/// # Errors
/// Those of the query; `42601` for more names than columns.
pub(crate) fn compiled(catalog: &Catalog, create: &CreateAs, query: &Parsed) -> Result<TableOfRows, Stop> {
    let fields = fields(catalog, query)?;
    if create.columns.len() > fields.len() {
        return Err(syntax("too many column names were specified").into());
    }
    let column = |(at, field): (usize, &Field)| {
        let name = create.columns.get(at).unwrap_or(&field.name);
        format!("{} {}", quoted(name), crate::types::full_name_of(field.ty))
    };
    let columns: Vec<String> = fields.iter().enumerate().map(column).collect();
    let CreateAs { kind, name, options, .. } = create;
    let condition = if create.if_not_exists { "IF NOT EXISTS " } else { "" };
    let text = format!("CREATE {kind}TABLE {condition}{name} ({}){options}", columns.join(", "));
    let insert = format!("INSERT INTO {name} {}", query.text());
    let one = |text: &str| parse(text)?.pop().ok_or_else(|| syntax("syntax error at end of input"));
    let insert = if create.with_data { Some(one(&insert)?) } else { None };
    Ok(TableOfRows { create: Definition::new(&one(&text)?), insert })
}

fn fields(catalog: &Catalog, query: &Parsed) -> Result<Vec<Field>, Stop> {
    let is_query = matches!(query.tree(), Some(Statement::Query(_))) && !query.is_staged();
    if !is_query || query.params() > 0 {
        let hint = Some("Create the table, then INSERT ... SELECT.");
        return Err(SqlError::unsupported("CREATE TABLE AS of a query of this kind", hint).into());
    }
    match any(catalog, query, &[]) {
        Ok(Compiled::Query(query)) => Ok(query.output),
        Ok(_) => Err(plainly(Stop::General("CREATE TABLE AS of a statement of this kind")).into()),
        Err(Stop::General(_)) => Ok(crate::tree::tree(catalog, query, &[])?.fields),
        Err(error) => Err(error),
    }
}
