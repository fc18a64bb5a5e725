//! The text of `CREATE PROCEDURE`, `CREATE FUNCTION`, `DROP` of both, and `CALL`.

use crate::error::syntax;
use crate::reading::{Places, is_space, parser, told};
use crate::words::{Words, near};
use sql::catalog::ParamMode;
use sql::{SqlError, SqlState};
use sqlparser::ast::{self, Expr, FunctionArg, FunctionArguments};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Whether a statement is about a procedure or a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Routine {
    Procedure,
    Function,
    /// Either.
    Any,
}

impl Routine {
    pub fn word(self) -> &'static str {
        match self {
            Routine::Procedure => "procedure",
            Routine::Function => "function",
            Routine::Any => "routine",
        }
    }
}

/// `CREATE PROCEDURE` and `CREATE FUNCTION`.
#[derive(Debug)]
pub struct CreateRoutine {
    pub routine: Routine,
    pub replaces: bool,
    pub name: String,
    pub params: Vec<ParamText>,
    /// `None` without `RETURNS`.
    pub returns: Option<Returns>,
    pub body: String,
}

#[derive(Debug)]
pub struct ParamText {
    pub mode: ParamMode,
    pub name: String,
    pub ty: ast::DataType,
    pub default: Option<Expr>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Returns {
    Void,
    /// A row of the output parameters.
    Record,
    Value(ast::DataType),
}

/// `DROP PROCEDURE`, `DROP FUNCTION`, `DROP ROUTINE`.
#[derive(Debug)]
pub struct DropRoutine {
    pub routine: Routine,
    pub if_exists: bool,
    pub names: Vec<String>,
}

/// An argument, with the name of its parameter if that is written.
#[derive(Clone, Debug)]
pub struct Argument {
    pub name: Option<String>,
    pub value: Expr,
}

fn routine(words: &mut Words<'_>) -> Option<Routine> {
    Some(match words.take_any(&["PROCEDURE", "FUNCTION", "ROUTINE"])? {
        "PROCEDURE" => Routine::Procedure,
        "FUNCTION" => Routine::Function,
        _ => Routine::Any,
    })
}

/// `CREATE PROCEDURE` or `CREATE FUNCTION`; `None` for another statement. `text` is all of the
/// statement.
///
/// # Errors
/// `42601`, `0A000` for languages and options that Atoll does not have.
pub fn create(tokens: &[TokenWithSpan], text: &str) -> Result<Option<CreateRoutine>, SqlError> {
    let words = &mut Words::new(tokens);
    if !words.take("CREATE") {
        return Ok(None);
    }
    let replaces = words.is("OR") && words.second_is("REPLACE");
    if replaces {
        words.step();
        words.step();
    }
    let Some(routine) = routine(words).filter(|routine| *routine != Routine::Any) else { return Ok(None) };
    let name = words.table()?;
    let list = words.parenthesised()?.ok_or_else(|| words.error())?;
    let params = split(list, &Token::Comma).into_iter().map(param).collect::<Result<_, _>>()?;
    let mut create = CreateRoutine { routine, replaces, name, params, returns: None, body: String::new() };
    let mut language = None;
    let mut body = None;
    while words.token().is_some() {
        if words.take("LANGUAGE") {
            language = Some(word_or_text(words)?);
        } else if words.take("RETURNS") {
            returns(words, &mut create)?;
        } else if words.take("AS") {
            body = Some(word_or_text(words)?);
        } else if words.is("BEGIN") && words.second_is("ATOMIC") {
            words.step();
            words.step();
            body = Some(atomic(words, (tokens, text))?);
        } else if words.take("RETURN") {
            let start = words.rest();
            body = Some(format!("SELECT {}", slice(start, (tokens, text))));
            break;
        } else {
            option(words)?;
        }
    }
    match language.as_deref() {
        None | Some("sql") => {}
        Some(other) => {
            let hint = "Write the body as a list of SQL statements: LANGUAGE SQL.";
            return Err(SqlError::unsupported(&format!("LANGUAGE {other}"), Some(hint)));
        }
    }
    let missing = || SqlError::new(SqlState(*b"42P13"), "no function body specified");
    create.body = body.ok_or_else(missing)?;
    Ok(Some(create))
}

/// A parameter: mode, name, type, default.
fn param(tokens: &[TokenWithSpan]) -> Result<ParamText, SqlError> {
    let words = &mut Words::new(tokens);
    let mode = match words.take_any(&["INOUT", "IN", "OUT", "VARIADIC"]) {
        Some("IN") if words.take("OUT") => ParamMode::InOut,
        None | Some("IN") => ParamMode::In,
        Some("OUT") => ParamMode::Out,
        Some("INOUT") => ParamMode::InOut,
        Some(_) => return Err(SqlError::unsupported("VARIADIC", Some("Name each parameter."))),
    };
    let rest = words.rest();
    let is_default = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default"),
        Token::Eq | Token::Assignment => true,
        _ => false,
    };
    let at = rest.iter().position(is_default);
    let (declared, default) = match at {
        Some(at) => (&rest[..at], Some(expression(&rest[at + 1..])?)),
        None => (rest, None),
    };
    let (name, ty) = match data_type(declared) {
        Ok((ty, [])) => (String::new(), ty),
        _ => {
            let mut words = Words::new(declared);
            let name = words.name()?;
            match data_type(words.rest())? {
                (ty, []) => (name, ty),
                (_, rest) => return Err(near(&rest[0])),
            }
        }
    };
    Ok(ParamText { mode, name, ty, default })
}

/// A type, and the tokens after it.
fn data_type(tokens: &[TokenWithSpan]) -> Result<(ast::DataType, &[TokenWithSpan]), SqlError> {
    let dialect = PostgreSqlDialect {};
    let mut parser = parser(&dialect, tokens.to_vec());
    let ty = parser.parse_data_type().map_err(told)?;
    let left = parser.peek_token();
    if left.token == Token::EOF {
        return Ok((ty, &[]));
    }
    let at = tokens.iter().position(|token| token.span == left.span && token.token == left.token);
    Ok((ty, &tokens[at.unwrap_or(tokens.len())..]))
}

fn expression(tokens: &[TokenWithSpan]) -> Result<Expr, SqlError> {
    let dialect = PostgreSqlDialect {};
    let mut parser = parser(&dialect, tokens.to_vec());
    let expr = parser.parse_expr().map_err(told)?;
    let rest = parser.peek_token();
    if rest.token == Token::EOF { Ok(expr) } else { Err(near(&rest)) }
}

fn returns(words: &mut Words<'_>, create: &mut CreateRoutine) -> Result<(), SqlError> {
    if words.take("NULL") {
        return Err(strict());
    }
    if words.is("TABLE") || words.is("SETOF") {
        let hint = "Return one value, or one row by OUT parameters; send a query of many rows by itself.";
        return Err(SqlError::unsupported("a function that returns many rows", Some(hint)));
    }
    create.returns = Some(if words.take("VOID") {
        Returns::Void
    } else if words.take("RECORD") {
        Returns::Record
    } else {
        let (ty, rest) = data_type(words.rest())?;
        let left = rest.len();
        while words.rest().len() > left {
            words.step();
        }
        Returns::Value(ty)
    });
    Ok(())
}

fn strict() -> SqlError {
    SqlError::unsupported("STRICT", Some("Let the body say what a null means, by CASE or WHERE."))
}

/// Words that change nothing here, or are refused.
fn option(words: &mut Words<'_>) -> Result<(), SqlError> {
    let plain = ["IMMUTABLE", "STABLE", "VOLATILE", "LEAKPROOF", "NOT", "EXTERNAL"];
    if words.take_any(&plain).is_some() {
        return Ok(());
    }
    if words.take_any(&["SECURITY", "PARALLEL", "COST", "ROWS"]).is_some() {
        words.step();
        return Ok(());
    }
    if words.take("CALLED") {
        return ["ON", "NULL", "INPUT"].iter().try_for_each(|word| words.expect(word));
    }
    match words.take_any(&["STRICT", "SET", "WINDOW", "SUPPORT", "TRANSFORM"]) {
        Some("STRICT") => Err(strict()),
        Some(word) => Err(SqlError::unsupported(&format!("{word} of a function"), None)),
        None => Err(words.error()),
    }
}

fn word_or_text(words: &mut Words<'_>) -> Result<String, SqlError> {
    let text = match words.token() {
        Some(Token::Word(word)) => word.value.to_lowercase(),
        Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => text.clone(),
        Some(Token::DollarQuotedString(text)) => text.value.clone(),
        _ => return Err(words.error()),
    };
    words.step();
    Ok(text)
}

/// The statements between `BEGIN ATOMIC` and its `END`.
fn atomic(words: &mut Words<'_>, whole: (&[TokenWithSpan], &str)) -> Result<String, SqlError> {
    let start = words.rest();
    let mut depth = 1;
    while words.token().is_some() {
        if words.is("CASE") {
            depth += 1;
        } else if words.is("END") {
            depth -= 1;
        }
        if depth == 0 {
            let inner = &start[..start.len() - words.rest().len()];
            words.step();
            return Ok(slice(inner, whole));
        }
        words.step();
    }
    Err(syntax("syntax error at end of input"))
}

/// The text of some tokens of a statement.
pub fn slice(part: &[TokenWithSpan], (all, text): (&[TokenWithSpan], &str)) -> String {
    let (Some(first), Some(from), Some(to)) = (all.first(), part.first(), part.last()) else {
        return String::new();
    };
    let mut places = Places::from(text, first.span.start);
    let (start, end) = (places.byte(from.span.start), places.byte(to.span.end));
    text.get(start..end).unwrap_or_default().trim().to_owned()
}

/// `DROP PROCEDURE` and so on; `None` for another statement.
///
/// # Errors
/// `42601`.
pub fn drop(tokens: &[TokenWithSpan]) -> Result<Option<DropRoutine>, SqlError> {
    let words = &mut Words::new(tokens);
    if !words.take("DROP") {
        return Ok(None);
    }
    let Some(routine) = routine(words) else { return Ok(None) };
    let if_exists = words.take("IF");
    if if_exists {
        words.expect("EXISTS")?;
    }
    let mut names = Vec::new();
    loop {
        names.push(words.table()?);
        words.parenthesised()?;
        if !words.take_token(&Token::Comma) {
            break;
        }
    }
    words.take_any(&["CASCADE", "RESTRICT"]);
    words.end()?;
    Ok(Some(DropRoutine { routine, if_exists, names }))
}

/// `CALL`: the name and the arguments; `None` for another statement.
///
/// # Errors
/// `42601`.
pub fn call(tokens: &[TokenWithSpan]) -> Result<Option<(String, Vec<Argument>)>, SqlError> {
    if !Words::new(tokens).is("CALL") {
        return Ok(None);
    }
    let dialect = PostgreSqlDialect {};
    let mut parser = parser(&dialect, tokens.to_vec());
    let statement = parser.parse_statement().map_err(told)?;
    let rest = parser.peek_token();
    let ast::Statement::Call(function) = statement else { return Err(near(&rest)) };
    if rest.token != Token::EOF {
        return Err(near(&rest));
    }
    let name = crate::names::parts(&function.name).pop().unwrap_or_default();
    Ok(Some((name, arguments(&function)?)))
}

/// The arguments of a call.
///
/// # Errors
/// `0A000` for arguments of other kinds.
pub fn arguments(function: &ast::Function) -> Result<Vec<Argument>, SqlError> {
    match &function.args {
        FunctionArguments::None => Ok(Vec::new()),
        FunctionArguments::Subquery(_) => Err(SqlError::unsupported("an argument of this kind", None)),
        FunctionArguments::List(list) => arguments_of(&list.args),
    }
}

/// As [`arguments`], of those in parentheses.
///
/// # Errors
/// As [`arguments`].
pub fn arguments_of(args: &[FunctionArg]) -> Result<Vec<Argument>, SqlError> {
    let one = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value)) => {
            Ok(Argument { name: None, value: value.clone() })
        }
        FunctionArg::Named { name, arg: ast::FunctionArgExpr::Expr(value), .. } => {
            Ok(Argument { name: Some(crate::names::folded(name)), value: value.clone() })
        }
        FunctionArg::ExprNamed {
            name: Expr::Identifier(name),
            arg: ast::FunctionArgExpr::Expr(value),
            ..
        } => Ok(Argument { name: Some(crate::names::folded(name)), value: value.clone() }),
        _ => Err(SqlError::unsupported("an argument of this kind", None)),
    };
    args.iter().map(one).collect()
}

/// The parts between separators that stand outside of parentheses; none of nothing.
pub fn split<'t>(tokens: &'t [TokenWithSpan], separator: &Token) -> Vec<&'t [TokenWithSpan]> {
    let mut depth = 0;
    let mut parts = tokens.split(|token| {
        depth += i32::from(token.token == Token::LParen) - i32::from(token.token == Token::RParen);
        depth == 0 && token.token == *separator
    });
    let parts: Vec<_> = parts.by_ref().collect();
    match parts.as_slice() {
        [one] if one.iter().all(|token| is_space(&token.token)) => Vec::new(),
        _ => parts,
    }
}

/// The statements of a text: those that semicolons separate, outside of `BEGIN ATOMIC ... END`.
pub fn statements(tokens: &[TokenWithSpan]) -> Vec<&[TokenWithSpan]> {
    let is = |token: &Token, word: &str| matches!(token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word));
    let (mut depth, mut begins) = (0_u32, false);
    let within = |token: &TokenWithSpan| {
        let token = &token.token;
        if is_space(token) {
            return false;
        }
        depth = match depth {
            0 => u32::from(begins && is(token, "ATOMIC")),
            depth if is(token, "CASE") => depth + 1,
            depth if is(token, "END") => depth - 1,
            depth => depth,
        };
        begins = is(token, "BEGIN");
        depth == 0 && *token == Token::SemiColon
    };
    tokens.split(within).collect()
}
