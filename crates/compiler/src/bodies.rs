//! The bodies of procedures: lists of statements. In them, `SELECT a, b INTO x, y FROM ...` and
//! `... RETURNING a INTO x` name output parameters: the words of `INTO` are taken out before the
//! statement is parsed.

use crate::error::syntax;
use crate::limits::{check_text, check_tokens};
use crate::parse::Parsed;
use crate::procedure_text::{slice, split};
use crate::reading::{Places, is_space};
use crate::words::Words;
use sql::{SqlError, SqlState};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

/// Statements of a body. Each is compared with all before it, to find its phase.
const MOST_STATEMENTS: usize = 1000;

/// A statement of a body.
#[derive(Debug)]
pub struct BodyStatement {
    pub parsed: Parsed,
    /// The parameters that take its columns.
    pub into: Vec<String>,
}

/// The statements of a body.
///
/// # Errors
/// `42601`, `0A000` for statements that a body cannot have, `54000` for too many, `54001` for one
/// that is too deep.
pub fn body(text: &str) -> Result<Vec<BodyStatement>, SqlError> {
    check_text(text)?;
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location();
    let tokens = tokens.map_err(|error| syntax(error.message))?;
    check_tokens(&tokens)?;
    let (mut statements, mut places) = (Vec::new(), Places::new(text));
    for part in split(&tokens, &Token::SemiColon) {
        let Some(first) = part.iter().position(|token| !is_space(&token.token)) else { continue };
        if statements.len() == MOST_STATEMENTS {
            let message = format!("the body of a procedure has at most {MOST_STATEMENTS} statements");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT, message));
        }
        let part = &part[first..];
        let words = &mut Words::new(part);
        let own = slice(part, (part, &text[places.byte(part[0].span.start)..]));
        if words.take("RETURN") {
            let select = format!("SELECT {}", slice(words.rest(), (part, &own)));
            statements.extend(body(&select)?);
            continue;
        }
        if words.is("CALL") {
            let hint = "Write the statements of the other procedure here.";
            return Err(SqlError::unsupported("CALL in the body of a procedure", Some(hint)));
        }
        if crate::session::session(part)?.is_some() || words.is("CREATE") || words.is("DROP") {
            let word = part[0].token.to_string().to_uppercase();
            let message = format!("{word} is not allowed in an SQL function");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let (part, into) = without_into(part)?;
        statements.push(BodyStatement { parsed: crate::parse::of_body(&part, own)?, into });
    }
    Ok(statements)
}

/// Takes `INTO a, b` out of a query or of `RETURNING`; that of `INSERT INTO` stays.
fn without_into(tokens: &[TokenWithSpan]) -> Result<(Vec<TokenWithSpan>, Vec<String>), SqlError> {
    let is_word = |token: &TokenWithSpan, word: &str| matches!(&token.token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word));
    let (mut depth, mut before) = (0, None);
    for (at, token) in tokens.iter().enumerate() {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            token if is_space(token) => continue,
            _ => {}
        }
        let follows_insert = before.is_some_and(|token| is_word(token, "INSERT") || is_word(token, "MERGE"));
        before = Some(token);
        if depth != 0 || follows_insert || !is_word(token, "INTO") {
            continue;
        }
        let mut words = Words::new(&tokens[at + 1..]);
        words.take("STRICT");
        let mut names = vec![words.name()?];
        while words.take_token(&Token::Comma) {
            names.push(words.name()?);
        }
        return Ok(([&tokens[..at], words.rest()].concat(), names));
    }
    Ok((tokens.to_vec(), Vec::new()))
}
