//! Statements on sequences as text, and other statements that `sqlparser` refuses as they are.

use crate::reading::MAX_NESTED;
use crate::words::Words;
use sql::SqlError;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The tokens of a statement as `sqlparser` takes them: in `COPY`, `ON` and `OFF` are booleans;
/// options of sequences have an order; `TABLE t` is a select.
pub fn readable(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut tokens = with_symmetry(with_selects(tokens));
    let words = Words::new(&tokens);
    if words.is("CREATE") || words.is("ALTER") {
        drop_names(&mut tokens);
        order_options(&mut tokens);
        return tokens;
    }
    if !words.is("COPY") {
        return tokens;
    }
    let mut after_option = false;
    for token in &mut tokens {
        let Token::Word(word) = &token.token else { continue };
        let value = match word.value.to_ascii_uppercase().as_str() {
            "ON" | "1" if after_option => "TRUE",
            "OFF" | "0" if after_option => "FALSE",
            value => {
                after_option = matches!(value, "FREEZE" | "HEADER");
                continue;
            }
        };
        token.token = Token::make_keyword(value);
        after_option = false;
    }
    tokens
}

/// `BETWEEN symmetric(a) AND b` in place of `BETWEEN SYMMETRIC a AND b`; nothing in place of
/// `ASYMMETRIC`.
fn with_symmetry(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is = |token: &TokenWithSpan, word: &str| matches!(&token.token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word));
    if !tokens.iter().any(|token| is(token, "SYMMETRIC") || is(token, "ASYMMETRIC")) {
        return tokens;
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 2);
    // For each bound that is open: the parentheses and CASEs inside of it.
    let mut open: Vec<usize> = Vec::new();
    let mut after_between = false;
    for token in tokens {
        let (symmetric, asymmetric) = (is(&token, "SYMMETRIC"), is(&token, "ASYMMETRIC"));
        if after_between && asymmetric {
            after_between = false;
            continue;
        }
        // More of them are more than the parser takes.
        let begins = after_between && symmetric && open.len() < MAX_NESTED;
        match &token.token {
            Token::LParen | Token::LBracket => open.iter_mut().for_each(|depth| *depth += 1),
            Token::RParen | Token::RBracket => {
                open.iter_mut().for_each(|depth| *depth = depth.saturating_sub(1))
            }
            Token::Word(_) if is(&token, "CASE") => open.iter_mut().for_each(|depth| *depth += 1),
            Token::Word(_) if is(&token, "END") => {
                open.iter_mut().for_each(|depth| *depth = depth.saturating_sub(1))
            }
            Token::Word(_) if is(&token, "AND") && open.last() == Some(&0) => {
                open.pop();
                out.push(TokenWithSpan::new(Token::RParen, token.span));
            }
            _ => {}
        }
        if !matches!(token.token, Token::Whitespace(_)) {
            after_between = is(&token, "BETWEEN");
        }
        let span = token.span;
        out.push(token);
        if begins {
            out.push(TokenWithSpan::new(Token::LParen, span));
            open.push(0);
        }
    }
    out
}

/// `SELECT * FROM t` in place of `TABLE t`, where that is a query.
fn with_selects(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    const BEFORE: [&str; 5] = ["UNION", "EXCEPT", "INTERSECT", "ALL", "DISTINCT"];
    // Elsewhere `AS table` is a name.
    let (creates, inserts) = (Words::new(tokens).is("CREATE"), Words::new(tokens).is("INSERT"));
    let mut out = Vec::with_capacity(tokens.len());
    let mut may_begin = true;
    for token in tokens {
        let word = match &token.token {
            Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
            Token::LParen => "(".to_owned(),
            Token::Whitespace(_) => {
                out.push(token.clone());
                continue;
            }
            _ => String::new(),
        };
        if may_begin && word == "TABLE" {
            let words = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
            out.extend(words.map(|word| TokenWithSpan::new(word, token.span)));
        } else {
            out.push(token.clone());
        }
        may_begin = word == "(" || BEFORE.contains(&word.as_str()) || creates && word == "AS";
        may_begin |= inserts && word != "INTO" && matches!(token.token, Token::Word(_) | Token::RParen);
    }
    out
}

/// Takes `SEQUENCE NAME s` out of the options of an identity, which `pg_dump` writes: the sequence
/// has the name that PostgreSQL gives by itself.
fn drop_names(tokens: &mut Vec<TokenWithSpan>) {
    let is = |token: &TokenWithSpan, word: &str| matches!(&token.token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word));
    let words = |from: usize, tokens: &[TokenWithSpan]| {
        (from..tokens.len())
            .filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_)))
            .take(2)
            .collect::<Vec<_>>()
    };
    let Some(identity) = tokens.iter().position(|token| is(token, "IDENTITY")) else { return };
    for at in identity..tokens.len() {
        if !is(&tokens[at], "SEQUENCE") {
            continue;
        }
        let [first, second] = words(at, tokens)[..] else { return };
        if !is(&tokens[second], "NAME") {
            continue;
        }
        let mut end = second + 1;
        while matches!(tokens.get(end).map(|token| &token.token), Some(Token::Whitespace(_))) {
            end += 1;
        }
        while matches!(tokens.get(end).map(|token| &token.token), Some(Token::Word(_) | Token::Period)) {
            end += 1;
        }
        tokens.drain(first..end);
        return;
    }
}

/// Puts the options of each sequence in the order that `sqlparser` has: those in parentheses after
/// `IDENTITY`, and those of `CREATE SEQUENCE`.
fn order_options(tokens: &mut [TokenWithSpan]) {
    let is = |token: &TokenWithSpan, word: &str| matches!(&token.token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word));
    let mut start = 0;
    while let Some(at) =
        tokens[start..].iter().position(|token| is(token, "IDENTITY") || is(token, "SEQUENCE"))
    {
        let from = start + at + 1;
        let ends =
            |token: &TokenWithSpan| matches!(token.token, Token::RParen | Token::Comma) || is(token, "OWNED");
        let end = tokens[from..].iter().position(ends).map_or(tokens.len(), |end| from + end);
        let first = tokens[from..end].iter().position(|token| option_rank(token).is_some());
        if let Some(first) = first {
            let mut chunks: Vec<(u8, Vec<TokenWithSpan>)> = Vec::new();
            for token in &tokens[from + first..end] {
                match (option_rank(token), chunks.last_mut()) {
                    // The word after `NO` decides the rank.
                    (Some(rank), Some((u8::MAX, chunk))) => {
                        chunk.push(token.clone());
                        if let Some(last) = chunks.last_mut() {
                            last.0 = rank;
                        }
                    }
                    (Some(rank), _) => chunks.push((rank, vec![token.clone()])),
                    (None, Some((_, chunk))) => chunk.push(token.clone()),
                    (None, None) => {}
                }
            }
            chunks.sort_by_key(|(rank, _)| *rank);
            let space = TokenWithSpan::wrap(Token::Whitespace(sqlparser::tokenizer::Whitespace::Space));
            let ordered = chunks.into_iter().flat_map(|(_, chunk)| chunk);
            tokens[from + first..end]
                .iter_mut()
                .zip(ordered.chain(std::iter::repeat(space)))
                .for_each(|(old, new)| *old = new);
        }
        start = end;
    }
}

/// The place of an option of a sequence; the last for `NO`.
fn option_rank(token: &TokenWithSpan) -> Option<u8> {
    let Token::Word(word) = &token.token else { return None };
    Some(match word.value.to_ascii_uppercase().as_str() {
        "INCREMENT" => 0,
        "MINVALUE" => 1,
        "MAXVALUE" => 2,
        "START" => 3,
        "CACHE" => 4,
        "CYCLE" => 5,
        "NO" => u8::MAX,
        _ => return None,
    })
}

/// A change of a sequence: the options that the statement names.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SequenceChange {
    pub name: String,
    pub if_exists: bool,
    pub restart: Option<Option<i64>>,
    pub start: Option<i64>,
    pub increment: Option<i64>,
    /// `Some(None)` for `NO MINVALUE`.
    pub min: Option<Option<i64>>,
    pub max: Option<Option<i64>>,
    pub cycle: Option<bool>,
    pub rename: Option<String>,
    /// `Some(None)` for `OWNED BY NONE`.
    pub owned_by: Option<Option<(String, String)>>,
}

/// `ALTER SEQUENCE`, which `sqlparser` does not have.
///
/// # Errors
/// `42601`.
pub fn alter_sequence(tokens: &[TokenWithSpan]) -> Result<Option<SequenceChange>, SqlError> {
    let words = &mut Words::new(tokens);
    if !words.is("ALTER") || !words.second_is("SEQUENCE") {
        return Ok(None);
    }
    words.step();
    words.step();
    let if_exists = words.take("IF");
    if if_exists {
        words.expect("EXISTS")?;
    }
    let mut change = SequenceChange { name: words.table()?, if_exists, ..SequenceChange::default() };
    while words.token().is_some() {
        sequence_option(words, &mut change)?;
    }
    Ok(Some(change))
}

fn sequence_option(words: &mut Words<'_>, change: &mut SequenceChange) -> Result<(), SqlError> {
    const OPTIONS: [&str; 10] =
        ["RESTART", "START", "INCREMENT", "MINVALUE", "MAXVALUE", "NO", "CYCLE", "CACHE", "RENAME", "OWNED"];
    let is_number = |words: &Words<'_>| matches!(words.token(), Some(Token::Number(..) | Token::Minus));
    match words.take_any(&OPTIONS) {
        Some("RESTART") => {
            let with = words.take("WITH") || is_number(words);
            change.restart = Some(if with { Some(words.integer()?) } else { None });
        }
        Some("START") => {
            words.take("WITH");
            change.start = Some(words.integer()?);
        }
        Some("INCREMENT") => {
            words.take("BY");
            change.increment = Some(words.integer()?);
        }
        Some("MINVALUE") => change.min = Some(Some(words.integer()?)),
        Some("MAXVALUE") => change.max = Some(Some(words.integer()?)),
        Some("NO") => match words.take_any(&["MINVALUE", "MAXVALUE", "CYCLE"]) {
            Some("MINVALUE") => change.min = Some(None),
            Some("MAXVALUE") => change.max = Some(None),
            Some(_) => change.cycle = Some(false),
            None => return Err(words.error()),
        },
        Some("CYCLE") => change.cycle = Some(true),
        Some("CACHE") => drop(words.integer()?),
        Some("RENAME") => {
            words.expect("TO")?;
            change.rename = Some(words.name()?);
        }
        Some("OWNED") => {
            words.expect("BY")?;
            let mut owner = words.dotted()?;
            let column = owner.pop().unwrap_or_default();
            change.owned_by = Some(owner.pop().map(|table| (table, column)));
        }
        _ => return Err(words.error()),
    }
    Ok(())
}
