//! Statements about the session and its transaction.

use crate::cursor::Fetch;
use crate::reading::is_space;
use crate::words::Words;
use sql::SqlError;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// A statement about the session and its transaction.
#[derive(Clone, PartialEq, Debug)]
pub enum Session {
    Begin(Modes),
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    Savepoint(String),
    RollbackTo(String),
    Release(String),
    /// `SET TRANSACTION`.
    SetTransaction(Modes),
    /// `SET SESSION CHARACTERISTICS AS TRANSACTION`.
    SetCharacteristics(Modes),
    /// `None` for the default.
    Set {
        name: String,
        value: Option<String>,
        local: bool,
    },
    /// `SELECT set_config(...)`, of literals.
    SetConfig {
        name: String,
        value: String,
        local: bool,
    },
    Show(String),
    ShowAll,
    Reset(String),
    ResetAll,
    /// `None` for all.
    Deallocate(Option<String>),
    Discard(Discard),
    /// Tables of which the numbers of dead rows or statistics are meant: nothing to do.
    Vacuum(Vec<String>),
    Analyze(Vec<String>),
    Lock {
        tables: Vec<String>,
        mode: String,
    },
    CreateDatabase {
        name: String,
        if_not_exists: bool,
    },
    DropDatabase {
        name: String,
        if_exists: bool,
    },
    Fetch(Fetch),
    /// A cursor; `None` for all.
    Close(Option<String>),
    /// Nothing to do; the word is the statement's tag.
    Nothing(&'static str),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Discard {
    All,
    Plans,
    Sequences,
    Temporary,
}

/// The modes of a transaction that the statement names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Modes {
    pub isolation: Option<Isolation>,
    pub read_only: Option<bool>,
    pub deferrable: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isolation {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Words<'_> {
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
    if let Some(set) = set_config(&mut Words::new(tokens)) {
        return Ok(Some(set));
    }
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
        let name = "timezone".into();
        if words.take("INTERVAL") {
            return Ok(Session::Set { name, value: Some(zone_of_interval(words)?), local });
        }
        let value = values(words)?.filter(|value| !value.eq_ignore_ascii_case("local"));
        return Ok(Session::Set { name, value, local });
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

/// `SELECT set_config('name', 'value', local)`; `None` for any other statement.
fn set_config(words: &mut Words<'_>) -> Option<Session> {
    if !words.take("SELECT") || words.dotted().ok()?.last().is_none_or(|name| name != "set_config") {
        return None;
    }
    let text = |words: &mut Words<'_>| match words.token() {
        Some(Token::SingleQuotedString(text)) => {
            let text = text.clone();
            words.step();
            Some(text)
        }
        _ => None,
    };
    words.take_token(&Token::LParen).then_some(())?;
    let name = text(words)?;
    words.take_token(&Token::Comma).then_some(())?;
    let value = text(words)?;
    words.take_token(&Token::Comma).then_some(())?;
    let local = words.take_any(&["TRUE", "FALSE"])? == "TRUE";
    words.take_token(&Token::RParen).then_some(())?;
    words.end().ok()?;
    Some(Session::SetConfig { name: name.to_lowercase(), value, local })
}

/// The hours of `INTERVAL '+02:00' HOUR TO MINUTE`.
fn zone_of_interval(words: &mut Words<'_>) -> Result<String, SqlError> {
    let Some(Token::SingleQuotedString(text)) = words.token() else { return Err(words.error()) };
    let interval = sql::datetime::interval_text::read(text)?;
    words.step();
    while words.take_any(&["HOUR", "TO", "MINUTE"]).is_some() {}
    let zone = sql::datetime::zone::Zone::of_interval(&interval)?;
    Ok(zone.name().to_owned())
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
    if words.take("CLOSE") {
        let all = words.take("ALL");
        let close = Session::Close(if all { None } else { Some(words.name()?) });
        words.end()?;
        return Ok(Some(close));
    }
    if let Some(fetch) = crate::cursor::fetch(words)? {
        return Ok(Some(Session::Fetch(fetch)));
    }
    if words.take("UNLISTEN") {
        return Ok(Some(Session::Nothing("UNLISTEN")));
    }
    if words.take_any(&["LISTEN", "NOTIFY"]).is_some() {
        return Err(SqlError::unsupported("LISTEN or NOTIFY", None));
    }
    if words.take("DO") {
        return Err(SqlError::unsupported("DO", Some("Send the statements one by one.")));
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
        None => match owner(words) {
            Some(tag) => return Ok(Some(Session::Nothing(tag))),
            None => return database(words),
        },
    };
    words.end()?;
    Ok(Some(session))
}

/// `ALTER ... OWNER TO ...` of what has no owner of its own: there is one user.
fn owner(words: &Words<'_>) -> Option<&'static str> {
    const OWNED: [(&str, &str); 7] = [
        ("DATABASE", "ALTER DATABASE"),
        ("FUNCTION", "ALTER FUNCTION"),
        ("PROCEDURE", "ALTER PROCEDURE"),
        ("ROUTINE", "ALTER ROUTINE"),
        ("SCHEMA", "ALTER SCHEMA"),
        ("SEQUENCE", "ALTER SEQUENCE"),
        ("TYPE", "ALTER TYPE"),
    ];
    let (_, tag) = OWNED.into_iter().find(|(word, _)| words.is("ALTER") && words.second_is(word))?;
    let rest = words.rest().iter().filter(|token| !is_space(&token.token));
    let rest: Vec<String> = rest.map(|token| token.token.to_string().to_uppercase()).collect();
    matches!(rest.as_slice(), [.., owner, to, _] if owner == "OWNER" && to == "TO").then_some(tag)
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
