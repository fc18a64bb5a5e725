//! Finds the arrays in the tokens of a statement.

use super::site::{Of, Site, Source, What};
use crate::reading::is_space;
use sql::SqlError;
use sql::array::elements;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Reads a statement from the left to the right.
pub struct Finder<'t> {
    pub tokens: &'t [TokenWithSpan],
    pub at: usize,
}

/// Expressions as tokens, and the position behind them; `None` where there is no list.
type Listed = Option<(Vec<Vec<Token>>, usize)>;

impl Finder<'_> {
    pub fn sites(mut self) -> Result<Vec<Site>, SqlError> {
        let mut sites: Vec<Site> = Vec::new();
        // The last clause that began in each of the parentheses.
        let mut clauses = vec!["".to_owned()];
        let inserts = self.word(0).is_some_and(|word| word == "INSERT");
        while self.at < self.tokens.len() {
            let found = match &self.tokens[self.at].token {
                Token::LParen => {
                    clauses.push(String::new());
                    None
                }
                Token::RParen => {
                    if clauses.len() > 1 {
                        clauses.pop();
                    }
                    None
                }
                Token::Word(_) => {
                    let word = self.word(self.at).unwrap_or_default();
                    let found = match word.as_str() {
                        "ANY" | "SOME" | "ALL" => self.quantified(word != "ALL")?,
                        "SELECT" => self.select(inserts && clauses.len() == 1)?,
                        "UNNEST" if clauses.last().is_some_and(|clause| clause == "FROM") => {
                            self.relation()?
                        }
                        _ => None,
                    };
                    if ["SELECT", "FROM", "WHERE", "GROUP", "ORDER", "SET", "RETURNING"]
                        .contains(&word.as_str())
                        && let Some(last) = clauses.last_mut()
                    {
                        *last = word;
                    }
                    found
                }
                _ => None,
            };
            match found {
                Some(site) => {
                    self.at = site.at.end;
                    sites.push(site);
                }
                None => self.at += 1,
            }
        }
        Ok(sites)
    }

    /// The word at a place, in capitals, if it has no quotes.
    fn word(&self, at: usize) -> Option<String> {
        match &self.tokens.get(at)?.token {
            Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_ascii_uppercase()),
            _ => None,
        }
    }

    /// The next place from `at` on that is no space.
    fn solid(&self, mut at: usize) -> usize {
        while self.tokens.get(at).is_some_and(|token| is_space(&token.token)) {
            at += 1;
        }
        at
    }

    fn is(&self, at: usize, token: &Token) -> bool {
        self.tokens.get(at).is_some_and(|known| known.token == *token)
    }

    /// `op ANY (array)`.
    fn quantified(&self, any: bool) -> Result<Option<Site>, SqlError> {
        let before = (0..self.at).rev().find(|at| !is_space(&self.tokens[*at].token));
        let open = self.solid(self.at + 1);
        let (Some(before), true) = (before, self.is(open, &Token::LParen)) else { return Ok(None) };
        let operator = &self.tokens[before].token;
        let is_operator = matches!(
            operator,
            Token::Eq | Token::DoubleEq | Token::Neq | Token::Lt | Token::Gt | Token::LtEq | Token::GtEq
        );
        let Some((source, close)) = (if is_operator { self.source(open + 1)? } else { None }) else {
            return Ok(None);
        };
        let close = self.solid(close);
        if !self.is(close, &Token::RParen) {
            return Ok(None);
        }
        let is_list = matches!((operator, any), (Token::Eq | Token::DoubleEq, true) | (Token::Neq, false));
        let what = if is_list { What::List { negated: !any } } else { What::Operand };
        let start = if is_list { before } else { open };
        Ok(Some(Site { at: start..close + 1, sources: vec![source], what }))
    }

    /// `SELECT unnest(..) [AS a], ...` without more; of an `INSERT` also `SELECT * FROM
    /// unnest(..)`.
    fn select(&self, inserts: bool) -> Result<Option<Site>, SqlError> {
        let mut at = self.solid(self.at + 1);
        if inserts && self.is(at, &Token::Mul) {
            let from = self.solid(at + 1);
            let unnest = self.solid(from + 1);
            if self.word(from).as_deref() != Some("FROM") || self.word(unnest).as_deref() != Some("UNNEST") {
                return Ok(None);
            }
            let Some((sources, end)) = self.arguments(unnest)? else { return Ok(None) };
            let is_end = matches!(self.word(self.solid(end)).as_deref(), Some("RETURNING" | "ON"));
            if !is_end && self.solid(end) < self.tokens.len() {
                return Ok(None);
            }
            return Ok(Some(Site { at: self.at..end, sources, what: What::Values }));
        }
        let (mut sources, mut names) = (Vec::new(), Vec::new());
        loop {
            if self.word(at).as_deref() != Some("UNNEST") {
                return Ok(None);
            }
            let Some((mut one, end)) = self.arguments(at)? else { return Ok(None) };
            if one.len() > 1 {
                return Ok(None);
            }
            sources.append(&mut one);
            let (alias, end) = self.alias(end);
            names.push(alias.unwrap_or_else(|| "unnest".into()));
            at = self.solid(end);
            if !self.is(at, &Token::Comma) {
                let is_end = at >= self.tokens.len() || self.is(at, &Token::RParen);
                return Ok(is_end.then_some(Site {
                    at: self.at..end,
                    sources,
                    what: What::Select { names },
                }));
            }
            at = self.solid(at + 1);
        }
    }

    /// `unnest(..) [WITH ORDINALITY] [[AS] alias [(columns)]]`, where a relation stands.
    fn relation(&self) -> Result<Option<Site>, SqlError> {
        let Some((sources, mut end)) = self.arguments(self.at)? else { return Ok(None) };
        let with = self.solid(end);
        let number = self.solid(with + 1);
        let ordinality =
            self.word(with).as_deref() == Some("WITH") && self.word(number).as_deref() == Some("ORDINALITY");
        if ordinality {
            end = number + 1;
        }
        let (alias, after) = self.alias(end);
        end = after;
        let mut columns: Vec<String> = Vec::new();
        let open = self.solid(end);
        if alias.is_some() && self.is(open, &Token::LParen) {
            let close = (open..self.tokens.len()).find(|at| self.is(*at, &Token::RParen));
            let Some(close) = close else { return Ok(None) };
            let names = self.tokens[open + 1..close].iter().filter_map(|token| match &token.token {
                Token::Word(word) => Some(folded(word)),
                _ => None,
            });
            columns = names.collect();
            end = close + 1;
        }
        // The one column of a function has the relation's name.
        let first = alias.clone().filter(|_| sources.len() == 1).unwrap_or_else(|| "unnest".into());
        for at in columns.len()..sources.len() {
            columns.push(if at == 0 { first.clone() } else { format!("unnest_{}", at + 1) });
        }
        if ordinality && columns.len() == sources.len() {
            columns.push("ordinality".into());
        }
        let alias = alias.unwrap_or_else(|| "unnest".into());
        Ok(Some(Site { at: self.at..end, sources, what: What::Relation { alias, columns, ordinality } }))
    }

    /// `[AS] name`, and the place after it.
    fn alias(&self, from: usize) -> (Option<String>, usize) {
        let mut at = self.solid(from);
        let says = self.word(at).as_deref() == Some("AS");
        if says {
            at = self.solid(at + 1);
        }
        match self.tokens.get(at).map(|token| &token.token) {
            Some(Token::Word(word))
                if says || word.quote_style.is_some() || !ends_a_relation(&word.value) =>
            {
                (Some(folded(word)), at + 1)
            }
            _ => (None, from),
        }
    }

    /// The arrays in the parentheses after a word, and the place after them.
    fn arguments(&self, word: usize) -> Result<Option<(Vec<Source>, usize)>, SqlError> {
        let mut at = self.solid(word + 1);
        if !self.is(at, &Token::LParen) {
            return Ok(None);
        }
        let mut sources = Vec::new();
        loop {
            let Some((source, end)) = self.source(at + 1)? else { return Ok(None) };
            // What the elements of a literal are is not known without a type.
            if source.ty.is_none() && matches!(source.of, Of::Literal(_)) {
                return Ok(None);
            }
            sources.push(source);
            at = self.solid(end);
            if self.is(at, &Token::RParen) {
                return Ok(Some((sources, at + 1)));
            }
            if !self.is(at, &Token::Comma) {
                return Ok(None);
            }
        }
    }

    /// An array, with casts, and the place after it.
    fn source(&self, from: usize) -> Result<Option<(Source, usize)>, SqlError> {
        let at = self.solid(from);
        let Some(token) = self.tokens.get(at) else { return Ok(None) };
        let (mut source, mut end) = match &token.token {
            Token::LParen => {
                let Some((source, close)) = self.source(at + 1)? else { return Ok(None) };
                let close = self.solid(close);
                if !self.is(close, &Token::RParen) {
                    return Ok(None);
                }
                (source, close + 1)
            }
            Token::Placeholder(text) => {
                let number = text.strip_prefix('$').and_then(|number| number.parse::<u16>().ok());
                let Some(number) = number.filter(|number| *number > 0) else { return Ok(None) };
                (Source { of: Of::Param(usize::from(number) - 1), ty: None }, at + 1)
            }
            Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => {
                (Source { of: Of::Literal(elements(text)?), ty: None }, at + 1)
            }
            Token::Word(_) if self.word(at).as_deref() == Some("ARRAY") => match self.expressions(at)? {
                Some((expressions, end)) => (Source { of: Of::Expressions(expressions), ty: None }, end),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        while self.is(self.solid(end), &Token::DoubleColon) {
            let Some((ty, after)) = self.array_type(self.solid(end) + 1) else { return Ok(None) };
            (source.ty, end) = (Some(ty), after);
        }
        Ok(Some((source, end)))
    }

    /// `ARRAY[a, b]`.
    fn expressions(&self, at: usize) -> Result<Listed, SqlError> {
        let open = self.solid(at + 1);
        if !self.is(open, &Token::LBracket) {
            return Ok(None);
        }
        let (mut all, mut one, mut depth) = (Vec::new(), Vec::new(), 0_u32);
        for (at, token) in self.tokens.iter().enumerate().skip(open + 1) {
            match &token.token {
                Token::RBracket if depth == 0 => {
                    if !one.is_empty() {
                        all.push(one);
                    }
                    return Ok(Some((all, at + 1)));
                }
                Token::Comma if depth == 0 => {
                    all.push(std::mem::take(&mut one));
                    continue;
                }
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
                _ => {}
            }
            if !is_space(&token.token) {
                one.push(token.token.clone());
            }
        }
        Ok(None)
    }

    /// `type[]`: the type of the elements, and the place after it.
    fn array_type(&self, from: usize) -> Option<(Vec<Token>, usize)> {
        let mut at = self.solid(from);
        let mut ty = Vec::new();
        while let Some(token) = self.tokens.get(at) {
            match &token.token {
                Token::LBracket if !ty.is_empty() => {
                    let close = self.solid(at + 1);
                    return self.is(close, &Token::RBracket).then_some((ty, close + 1));
                }
                Token::Word(_)
                | Token::LParen
                | Token::RParen
                | Token::Number(..)
                | Token::Comma
                | Token::Period => {
                    ty.push(token.token.clone());
                }
                token if is_space(token) => {}
                _ => return None,
            }
            at += 1;
        }
        None
    }
}

fn folded(word: &sqlparser::tokenizer::Word) -> String {
    if word.quote_style.is_some() { word.value.clone() } else { word.value.to_lowercase() }
}

/// Words after a relation that are no names for it.
fn ends_a_relation(word: &str) -> bool {
    const WORDS: [&str; 22] = [
        "CROSS",
        "EXCEPT",
        "FETCH",
        "FOR",
        "FROM",
        "FULL",
        "GROUP",
        "HAVING",
        "INNER",
        "INTERSECT",
        "JOIN",
        "LEFT",
        "LIMIT",
        "NATURAL",
        "OFFSET",
        "ON",
        "ORDER",
        "RETURNING",
        "RIGHT",
        "UNION",
        "WHERE",
        "WITH",
    ];
    WORDS.iter().any(|known| word.eq_ignore_ascii_case(known))
}
