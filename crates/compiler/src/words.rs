//! Statements read word by word: those about the session, and those that `sqlparser` refuses.

use crate::compiled::{Discard, Isolation, Modes, Session};
use crate::error::syntax;
use crate::parse::near;
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

    fn skip(&mut self) {
        while self.all.get(self.at).is_some_and(|t| matches!(t.token, Token::Whitespace(_) | Token::EOF)) {
            self.at += 1;
        }
    }

    fn step(&mut self) {
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
    fn take_any(&mut self, words: &[&'static str]) -> Option<&'static str> {
        words.iter().find(|word| self.take(word)).copied()
    }

    fn take_token(&mut self, token: &Token) -> bool {
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

    fn end(&self) -> Result<(), SqlError> {
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
    fn dotted(&mut self) -> Result<Vec<String>, SqlError> {
        let mut parts = vec![self.name()?];
        while self.take_token(&Token::Period) {
            parts.push(self.name()?);
        }
        Ok(parts)
    }

    fn table(&mut self) -> Result<String, SqlError> {
        Ok(self.dotted()?.pop().unwrap_or_default())
    }

    fn tables(&mut self) -> Result<Vec<String>, SqlError> {
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

    fn integer(&mut self) -> Result<i64, SqlError> {
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

    fn modes(&mut self) -> Result<Modes, SqlError> {
        let mut modes = Modes::default();
        while self.token().is_some() {
            if self.take("ISOLATION") {
                self.expect("LEVEL")?;
                modes.isolation = Some(self.isolation()?);
            } else if self.take("READ") {
                modes.read_only = Some(self.is("ONLY"));
                self.take_any(&["ONLY", "WRITE"]).ok_or_else(|| self.error())?;
            } else if self.take("NOT") {
                self.expect("DEFERRABLE")?;
                modes.deferrable = Some(false);
            } else if self.take("DEFERRABLE") {
                modes.deferrable = Some(true);
            } else if !self.take_token(&Token::Comma) {
                return Err(self.error());
            }
        }
        Ok(modes)
    }

    fn isolation(&mut self) -> Result<Isolation, SqlError> {
        match self.take_any(&["SERIALIZABLE", "REPEATABLE", "READ"]) {
            Some("SERIALIZABLE") => Ok(Isolation::Serializable),
            Some("REPEATABLE") => self.expect("READ").map(|()| Isolation::RepeatableRead),
            Some(_) if self.take("COMMITTED") => Ok(Isolation::ReadCommitted),
            Some(_) if self.take("UNCOMMITTED") => Ok(Isolation::ReadUncommitted),
            _ => Err(self.error()),
        }
    }
}

/// A statement about the session; `None` if it is none.
///
/// # Errors
/// `42601`, and `0A000` for statements that Atoll does not have.
pub fn session(tokens: &[TokenWithSpan]) -> Result<Option<Session>, SqlError> {
    let words = &mut Words::new(tokens);
    let session = match words.take_any(&[
        "BEGIN",
        "START",
        "COMMIT",
        "END",
        "ROLLBACK",
        "ABORT",
        "SAVEPOINT",
        "RELEASE",
        "SET",
        "SHOW",
        "RESET",
    ]) {
        Some("BEGIN") => {
            words.take_any(&["WORK", "TRANSACTION"]);
            Session::Begin(words.modes()?)
        }
        Some("START") => {
            words.expect("TRANSACTION")?;
            Session::Begin(words.modes()?)
        }
        Some("COMMIT" | "END") => {
            refuse_prepared(words)?;
            Session::Commit { chain: chain(words)? }
        }
        Some("ROLLBACK" | "ABORT") => rollback(words)?,
        Some("SAVEPOINT") => Session::Savepoint(words.name()?),
        Some("RELEASE") => {
            words.take("SAVEPOINT");
            Session::Release(words.name()?)
        }
        Some("SET") => set(words)?,
        Some("SHOW") => show(words)?,
        Some("RESET") => reset(words)?,
        _ => return upkeep(words),
    };
    words.end()?;
    Ok(Some(session))
}

fn refuse_prepared(words: &Words<'_>) -> Result<(), SqlError> {
    if words.is("PREPARED") {
        return Err(SqlError::unsupported("two-phase commit by the client", Some("Use COMMIT.")));
    }
    Ok(())
}

fn chain(words: &mut Words<'_>) -> Result<bool, SqlError> {
    words.take_any(&["WORK", "TRANSACTION"]);
    if !words.take("AND") {
        return Ok(false);
    }
    let no = words.take("NO");
    words.expect("CHAIN")?;
    Ok(!no)
}

fn rollback(words: &mut Words<'_>) -> Result<Session, SqlError> {
    refuse_prepared(words)?;
    words.take_any(&["WORK", "TRANSACTION"]);
    if words.take("TO") {
        words.take("SAVEPOINT");
        return Ok(Session::RollbackTo(words.name()?));
    }
    Ok(Session::Rollback { chain: chain(words)? })
}

fn set(words: &mut Words<'_>) -> Result<Session, SqlError> {
    let local = words.is("LOCAL");
    if words.take_any(&["SESSION", "LOCAL"]) == Some("SESSION") && words.take("CHARACTERISTICS") {
        words.expect("AS")?;
        words.expect("TRANSACTION")?;
        return Ok(Session::SetCharacteristics(words.modes()?));
    }
    if words.take("TRANSACTION") {
        return Ok(Session::SetTransaction(words.modes()?));
    }
    if words.take("TIME") {
        words.expect("ZONE")?;
        let value = values(words)?.filter(|value| !value.eq_ignore_ascii_case("local"));
        return Ok(Session::Set { name: "timezone".into(), value, local });
    }
    if words.take("NAMES") {
        return Ok(Session::Set { name: "client_encoding".into(), value: values(words)?, local });
    }
    let name = words.dotted()?.join(".").to_lowercase();
    if !words.take("TO") && !words.take_token(&Token::Eq) && name != "role" && name != "authorization" {
        return Err(words.error());
    }
    Ok(Session::Set { name, value: values(words)?, local })
}

/// The values of a setting, separated by commas as one text; `None` for the default.
fn values(words: &mut Words<'_>) -> Result<Option<String>, SqlError> {
    if words.take("DEFAULT") {
        return Ok(None);
    }
    let mut values: Vec<String> = Vec::new();
    loop {
        let minus = if words.take_token(&Token::Minus) { "-" } else { "" };
        let value = match words.token() {
            Some(Token::Word(word)) => word.value.clone(),
            Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => text.clone(),
            Some(Token::Number(number, _)) => format!("{minus}{number}"),
            _ => return Err(words.error()),
        };
        words.step();
        values.push(value);
        if !words.take_token(&Token::Comma) {
            return Ok(Some(values.join(", ")));
        }
    }
}

fn show(words: &mut Words<'_>) -> Result<Session, SqlError> {
    if words.take("ALL") {
        return Ok(Session::ShowAll);
    }
    if words.take("TRANSACTION") {
        words.expect("ISOLATION")?;
        words.expect("LEVEL")?;
        return Ok(Session::Show("transaction_isolation".into()));
    }
    if words.take("TIME") {
        words.expect("ZONE")?;
        return Ok(Session::Show("timezone".into()));
    }
    Ok(Session::Show(words.dotted()?.join(".").to_lowercase()))
}

fn reset(words: &mut Words<'_>) -> Result<Session, SqlError> {
    if words.take("ALL") {
        return Ok(Session::ResetAll);
    }
    Ok(match show(words)? {
        Session::Show(name) => Session::Reset(name),
        other => other,
    })
}

/// Statements of upkeep; `None` for statements of other kinds.
fn upkeep(words: &mut Words<'_>) -> Result<Option<Session>, SqlError> {
    const CURSORS: [&str; 4] = ["DECLARE", "FETCH", "MOVE", "CLOSE"];
    if words.take_any(&CURSORS).is_some() {
        return Err(SqlError::unsupported("a cursor", Some("Run the query itself, with LIMIT if need be.")));
    }
    if words.take_any(&["LISTEN", "UNLISTEN", "NOTIFY"]).is_some() {
        return Err(SqlError::unsupported("LISTEN and NOTIFY", None));
    }
    if words.is("PREPARE") && words.second_is("TRANSACTION") {
        return Err(SqlError::unsupported("two-phase commit by the client", Some("Use COMMIT.")));
    }
    let session = match words.take_any(&[
        "VACUUM",
        "ANALYZE",
        "DISCARD",
        "DEALLOCATE",
        "CHECKPOINT",
        "REINDEX",
        "CLUSTER",
        "LOCK",
        "COMMENT",
    ]) {
        Some("VACUUM") => {
            words.parenthesised()?;
            while words.take_any(&["FULL", "FREEZE", "VERBOSE", "ANALYZE"]).is_some() {}
            Session::Vacuum(words.tables()?)
        }
        Some("ANALYZE") => {
            words.parenthesised()?;
            words.take("VERBOSE");
            Session::Analyze(words.tables()?)
        }
        Some("DISCARD") => Session::Discard(discard(words)?),
        Some("DEALLOCATE") => {
            words.take("PREPARE");
            let all = words.take("ALL");
            Session::Deallocate(if all { None } else { Some(words.name()?) })
        }
        Some("LOCK") => {
            words.take("TABLE");
            let tables = words.tables()?;
            let mode = if words.take("IN") { lock_mode(words)? } else { "ACCESS EXCLUSIVE".into() };
            words.take("NOWAIT");
            Session::Lock { tables, mode }
        }
        Some("COMMENT") => return Ok(Some(Session::Nothing("COMMENT"))),
        Some(word) => return Ok(Some(Session::Nothing(word))),
        None => return database(words),
    };
    words.end()?;
    Ok(Some(session))
}

fn discard(words: &mut Words<'_>) -> Result<Discard, SqlError> {
    match words.take_any(&["ALL", "PLANS", "SEQUENCES", "TEMP", "TEMPORARY"]) {
        Some("ALL") => Ok(Discard::All),
        Some("PLANS") => Ok(Discard::Plans),
        Some("SEQUENCES") => Ok(Discard::Sequences),
        Some(_) => Ok(Discard::Temporary),
        None => Err(words.error()),
    }
}

fn lock_mode(words: &mut Words<'_>) -> Result<String, SqlError> {
    let mut mode: Vec<&str> = Vec::new();
    while let Some(word) = words.take_any(&["ACCESS", "ROW", "SHARE", "UPDATE", "EXCLUSIVE"]) {
        mode.push(word);
    }
    words.expect("MODE")?;
    Ok(mode.join(" "))
}

/// Databases, schemas and extensions.
fn database(words: &mut Words<'_>) -> Result<Option<Session>, SqlError> {
    let creates = words.is("CREATE");
    if !creates && !words.is("DROP") {
        return Ok(None);
    }
    let object = ["DATABASE", "SCHEMA", "EXTENSION"].into_iter().find(|object| words.second_is(object));
    let Some(object) = object else { return Ok(None) };
    words.step();
    words.step();
    let condition = words.take("IF");
    if condition {
        words.take("NOT");
        words.expect("EXISTS")?;
    }
    let name = words.name()?;
    match (object, creates) {
        ("DATABASE", true) => Ok(Some(Session::CreateDatabase { name, if_not_exists: condition })),
        ("DATABASE", false) => Ok(Some(Session::DropDatabase { name, if_exists: condition })),
        ("SCHEMA", true) if name == "public" && condition => Ok(Some(Session::Nothing("CREATE SCHEMA"))),
        ("EXTENSION", true) if condition || name == "plpgsql" => {
            Ok(Some(Session::Nothing("CREATE EXTENSION")))
        }
        ("EXTENSION", false) if condition => Ok(Some(Session::Nothing("DROP EXTENSION"))),
        ("SCHEMA", _) => Err(SqlError::unsupported("a schema beside public", Some("Leave the schema out."))),
        _ => Err(SqlError::unsupported("an extension", None)),
    }
}

/// The tokens of a statement as `sqlparser` takes them: in `COPY`, `ON` and `OFF` are booleans.
pub fn readable(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut tokens = tokens.to_vec();
    let words = Words::new(&tokens);
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
