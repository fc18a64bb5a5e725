//! The settings of a session: `SET`, `SHOW`, `RESET`, and the reports that clients get.
//!
//! A setting that Atoll does not act on keeps the value that a client gave it; one that would
//! change the meaning of values (an encoding) takes only the values that Atoll has.

use sql::datetime::zone::Zone;
use sql::{SqlError, SqlState};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

/// The version that clients see: of PostgreSQL: Atoll speaks its dialect and protocol.
pub const SERVER_VERSION: &str = "15.0";

/// Which values a setting takes.
#[derive(Clone, Copy)]
enum Takes {
    Any,
    /// Only the server sets it.
    Fixed,
    Bool,
    /// `on`, or another word for it.
    On,
    Integer,
    /// Milliseconds as PostgreSQL writes them: `500`, `'5s'`, `'2min'`; 0 for no limit.
    Millis,
    OneOf(&'static [&'static str]),
    /// UTF-8 under each of its names.
    Encoding,
    /// Any order of day and month, in the ISO style.
    DateStyle,
    /// A name in IANA's database, hours east of Greenwich, or a rule of POSIX.
    TimeZone,
}

struct Known {
    name: &'static str,
    default: &'static str,
    takes: Takes,
    /// Whether clients are told its value at the start and after each change.
    is_reported: bool,
}

const fn known(name: &'static str, default: &'static str, takes: Takes) -> Known {
    Known { name, default, takes, is_reported: false }
}

const fn reported(name: &'static str, default: &'static str, takes: Takes) -> Known {
    Known { name, default, takes, is_reported: true }
}

const LEVELS: Takes =
    Takes::OneOf(&["serializable", "repeatable read", "read committed", "read uncommitted"]);

/// In alphabetical order, as `SHOW ALL` prints them.
const KNOWN: &[Known] = &[
    reported("application_name", "", Takes::Any),
    known("bytea_output", "hex", Takes::OneOf(&["hex"])),
    known("check_function_bodies", "on", Takes::Bool),
    reported("client_encoding", "UTF8", Takes::Encoding),
    known("client_min_messages", "notice", Takes::Any),
    reported("DateStyle", "ISO, MDY", Takes::DateStyle),
    known("default_table_access_method", "heap", Takes::Any),
    known("default_tablespace", "", Takes::Any),
    known("default_transaction_deferrable", "off", Takes::Bool),
    known("default_transaction_isolation", "serializable", LEVELS),
    reported("default_transaction_read_only", "off", Takes::Bool),
    known("extra_float_digits", "1", Takes::Integer),
    known("idle_in_transaction_session_timeout", "0", Takes::Millis),
    known("idle_session_timeout", "0", Takes::Millis),
    reported("in_hot_standby", "off", Takes::Fixed),
    reported("integer_datetimes", "on", Takes::Fixed),
    reported("IntervalStyle", "postgres", Takes::OneOf(&["postgres"])),
    reported("is_superuser", "on", Takes::Fixed),
    known("lc_collate", "C", Takes::Fixed),
    known("lc_ctype", "C", Takes::Fixed),
    known("lc_messages", "C", Takes::Any),
    known("lc_monetary", "C", Takes::Any),
    known("lc_numeric", "C", Takes::Any),
    known("lc_time", "C", Takes::Any),
    known("lock_timeout", "10000", Takes::Millis),
    known("maintenance_work_mem", "64MB", Takes::Any),
    known("max_identifier_length", "63", Takes::Fixed),
    known("password_encryption", "scram-sha-256", Takes::OneOf(&["scram-sha-256"])),
    known("row_security", "on", Takes::Bool),
    known("search_path", "\"$user\", public", Takes::Any),
    reported("server_encoding", "UTF8", Takes::Fixed),
    reported("server_version", SERVER_VERSION, Takes::Fixed),
    known("server_version_num", "150000", Takes::Fixed),
    reported("session_authorization", "atoll", Takes::Any),
    reported("standard_conforming_strings", "on", Takes::On),
    known("statement_timeout", "0", Takes::Millis),
    known("synchronize_seqscans", "on", Takes::Bool),
    known("synchronous_commit", "on", Takes::Any),
    reported("TimeZone", "UTC", Takes::TimeZone),
    known("transaction_deferrable", "off", Takes::Bool),
    known("transaction_isolation", "serializable", LEVELS),
    known("transaction_read_only", "off", Takes::Bool),
    known("work_mem", "4MB", Takes::Any),
    known("xmloption", "content", Takes::Any),
];

fn find(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name.eq_ignore_ascii_case(name))
}

fn no_setting(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\""))
}

/// Values by name, those that differ from the default.
type Values = BTreeMap<Cow<'static, str>, String>;

/// The settings of one session.
#[derive(Clone)]
pub struct Settings {
    values: Values,
    /// What the client gave at the start: `RESET` returns to it.
    start: Values,
    in_transaction: Option<Changed>,
    /// What `values` say.
    read: Read,
}

/// A limit of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    IdleInTransaction,
    IdleSession,
    Lock,
    Statement,
}

/// Their settings, in the order of [`Limit`].
const LIMITS: [&str; 4] =
    ["idle_in_transaction_session_timeout", "idle_session_timeout", "lock_timeout", "statement_timeout"];

/// The values that each statement needs, read from their texts when one of these changes.
#[derive(Clone, Default)]
struct Read {
    limits: [Option<Duration>; LIMITS.len()],
    zone: Zone,
}

impl Default for Settings {
    fn default() -> Settings {
        let (values, start) = (Values::new(), Values::new());
        let mut settings = Settings { values, start, in_transaction: None, read: Read::default() };
        settings.read_again();
        settings
    }
}

/// In a transaction that has changed a setting.
#[derive(Clone)]
struct Changed {
    before: Values,
    /// After the commit: without the changes of `SET LOCAL`.
    after: Values,
}

/// The settings in the start-up parameter `options`: words such as `-c name=value` and
/// `--name=value`. Other words are for a server of another kind.
pub fn of_options(options: &str) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    let mut words = words_of(options).into_iter();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("-c") {
            Some("") => words.next(),
            Some(setting) => Some(setting.to_owned()),
            None => word.strip_prefix("--").map(str::to_owned),
        };
        if let Some((name, value)) = setting.as_deref().and_then(|setting| setting.split_once('=')) {
            settings.push((name.replace('-', "_"), value.to_owned()));
        }
    }
    settings
}

/// Words between blanks; a backslash keeps the character after it.
fn words_of(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => words.last_mut().into_iter().for_each(|word| word.extend(characters.next())),
            blank if blank.is_ascii_whitespace() => words.push(String::new()),
            other => words.last_mut().into_iter().for_each(|word| word.push(other)),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// How long a change lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lasts {
    Session,
    Transaction,
}

impl Settings {
    /// Settings that the client names in its first packet. For each one that this server does not
    /// have, or with a value that it does not take, an error: the session starts without them.
    pub fn start(&mut self, parameters: &[(String, String)]) -> Vec<SqlError> {
        let not_settings = ["user", "database", "replication", "options"];
        let mut refused = Vec::new();
        for (name, value) in parameters {
            if not_settings.contains(&name.as_str()) || name.starts_with("_pq_.") {
                continue;
            }
            if let Err(error) = self.set(name, Some(value), Lasts::Session, false) {
                refused.push(error);
            }
        }
        self.start = self.values.clone();
        refused
    }

    /// The value of a setting.
    ///
    /// # Errors
    /// 42704 if there is none of this name.
    pub fn get(&self, name: &str) -> Result<&str, SqlError> {
        match (self.values.get(name), find(name)) {
            (Some(value), _) => Ok(value),
            (None, Some(known)) => Ok(self.values.get(known.name).map_or(known.default, String::as_str)),
            (None, None) => Err(no_setting(name)),
        }
    }

    /// The setting's own spelling.
    pub fn name_of(name: &str) -> &str {
        find(name).map_or(name, |known| known.name)
    }

    /// Sets a value; `None` is the one from the session's start.
    ///
    /// # Errors
    /// 42704 if there is no such setting, 22023 or 0A000 for a value that it does not take, 55P02
    /// if it cannot be set.
    pub fn set(
        &mut self,
        name: &str,
        value: Option<&str>,
        lasts: Lasts,
        in_transaction: bool,
    ) -> Result<(), SqlError> {
        let known = find(name);
        let key: Cow<'static, str> = match known {
            Some(known) => known.name.into(),
            // Names with a dot belong to extensions, which keep values of their own.
            None if name.contains('.') => name.to_lowercase().into(),
            None => return Err(no_setting(name)),
        };
        let value = match (value, known) {
            (Some(value), Some(known)) => Some(accept(known, value)?),
            (Some(value), None) => Some(value.to_owned()),
            (None, _) => self.start.get(&key).cloned(),
        };
        if in_transaction && self.in_transaction.is_none() {
            self.in_transaction = Some(Changed { before: self.values.clone(), after: self.values.clone() });
        }
        if lasts == Lasts::Session
            && let Some(changed) = &mut self.in_transaction
        {
            put(&mut changed.after, key.clone(), value.clone());
        }
        put(&mut self.values, key, value);
        self.read_again();
        Ok(())
    }

    /// To be called after each change of `values`.
    fn read_again(&mut self) {
        let limit = |name| {
            let millis = self.get(name).ok().and_then(millis).unwrap_or(0);
            (millis > 0).then(|| Duration::from_millis(millis))
        };
        let zone = self.values.get("TimeZone").and_then(|name| Zone::named(name)).unwrap_or_default();
        self.read = Read { limits: LIMITS.map(limit), zone };
    }

    pub fn reset_all(&mut self, in_transaction: bool) {
        if in_transaction && self.in_transaction.is_none() {
            self.in_transaction = Some(Changed { before: self.values.clone(), after: self.start.clone() });
        }
        if let Some(changed) = &mut self.in_transaction {
            changed.after = self.start.clone();
        }
        self.values = self.start.clone();
        self.read_again();
    }

    /// Whether the transaction has changed a setting.
    pub fn have_changed(&self) -> bool {
        self.in_transaction.is_some()
    }

    /// The transaction ends: its settings stay if it commits, but for the local ones.
    pub fn end_transaction(&mut self, commits: bool) {
        if let Some(changed) = self.in_transaction.take() {
            self.values = if commits { changed.after } else { changed.before };
        }
        for name in ["transaction_isolation", "transaction_read_only", "transaction_deferrable"] {
            self.values.remove(name);
        }
        self.read_again();
    }

    /// A limit of time; `None` if there is none.
    #[inline]
    pub fn limit(&self, limit: Limit) -> Option<Duration> {
        self.read.limits[limit as usize]
    }

    /// The zone in which the session reads and shows instants.
    #[inline]
    pub fn zone(&self) -> Zone {
        self.read.zone.clone()
    }

    pub fn is_on(&self, name: &'static str) -> bool {
        self.get(name) == Ok("on")
    }

    /// The settings that clients are told about.
    pub fn reported(&self) -> Vec<(&'static str, String)> {
        let value =
            |known: &Known| self.values.get(known.name).map_or(known.default, String::as_str).to_owned();
        KNOWN.iter().filter(|known| known.is_reported).map(|known| (known.name, value(known))).collect()
    }

    /// All settings, by name.
    pub fn all(&self) -> Vec<(String, String)> {
        let value =
            |known: &Known| self.values.get(known.name).map_or(known.default, String::as_str).to_owned();
        KNOWN.iter().map(|known| (known.name.to_owned(), value(known))).collect()
    }
}

fn put(values: &mut Values, key: Cow<'static, str>, value: Option<String>) {
    match value {
        Some(value) => drop(values.insert(key, value)),
        None => drop(values.remove(&key)),
    }
}

/// The value as it is kept.
fn accept(known: &Known, value: &str) -> Result<String, SqlError> {
    let trimmed = value.trim().trim_matches('\'');
    let lower = trimmed.to_lowercase();
    let invalid = || {
        let message = format!("invalid value for parameter \"{}\": \"{value}\"", known.name);
        SqlError::new(SqlState::INVALID_PARAMETER, message)
    };
    let only = |instead: &str| {
        let message = format!("parameter \"{}\" cannot be \"{value}\"", known.name);
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
            .with_hint(format!("Atoll has {instead} only."))
    };
    match known.takes {
        Takes::Any => Ok(value.to_owned()),
        Takes::Fixed => {
            Err(SqlError::new(SqlState(*b"55P02"), format!("parameter \"{}\" cannot be changed", known.name)))
        }
        Takes::Bool => boolean(&lower).map(|on| if on { "on" } else { "off" }.to_owned()).ok_or_else(invalid),
        Takes::On => match boolean(&lower) {
            Some(true) => Ok("on".into()),
            Some(false) => Err(only("\"on\"")),
            None => Err(invalid()),
        },
        Takes::Integer => lower.parse::<i32>().map(|n| n.to_string()).map_err(|_| invalid()),
        Takes::Millis => millis(&lower).map(|n| n.to_string()).ok_or_else(invalid),
        Takes::OneOf(values) if values.contains(&lower.as_str()) => Ok(lower),
        Takes::OneOf([one]) => Err(only(&format!("\"{one}\""))),
        Takes::OneOf(_) => Err(invalid()),
        Takes::Encoding => match lower.replace(['-', '_', '"'], "").as_str() {
            "utf8" | "unicode" => Ok("UTF8".into()),
            _ => Err(only("UTF8")),
        },
        Takes::DateStyle => match lower.starts_with("iso") || ["mdy", "dmy", "ymd"].contains(&lower.as_str())
        {
            true => Ok("ISO, MDY".into()),
            false => Err(only("ISO")),
        },
        Takes::TimeZone if lower == "default" => Ok("UTC".into()),
        Takes::TimeZone => Zone::named(trimmed).map(|zone| zone.name().to_owned()).ok_or_else(invalid),
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "on" | "true" | "yes" | "1" | "t" | "y" => Some(true),
        "off" | "false" | "no" | "0" | "f" | "n" => Some(false),
        _ => None,
    }
}

fn millis(text: &str) -> Option<u64> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let factor = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor).filter(|ms| *ms <= i32::MAX as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_ends_with_its_transaction_as_it_was_asked() {
        let mut settings = Settings::default();
        settings.set("application_name", Some("before"), Lasts::Session, false).unwrap();
        settings.set("application_name", Some("in"), Lasts::Session, true).unwrap();
        settings.set("application_name", Some("local"), Lasts::Transaction, true).unwrap();
        assert_eq!(settings.get("Application_Name"), Ok("local"));
        let mut other = settings.clone();
        settings.end_transaction(true);
        other.end_transaction(false);
        assert_eq!(
            (settings.get("application_name"), other.get("application_name")),
            (Ok("in"), Ok("before"))
        );
    }

    #[test]
    fn what_clients_send_at_the_start_is_taken() {
        let mut settings = Settings::default();
        let given = [
            ("client_encoding", "'utf-8'"),
            ("datestyle", "ISO, MDY"),
            ("extra_float_digits", "2"),
            ("TimeZone", "Etc/UTC"),
        ];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(settings.start(&given), []);
        assert_eq!(settings.get("client_encoding"), Ok("UTF8"));
        assert_eq!(settings.start(&[("timezone".into(), "europe/berlin".into())]), []);
        assert_eq!(settings.get("TIMEZONE"), Ok("Europe/Berlin"));
        assert_eq!(settings.start(&[("timezone".into(), "Mars/Olympus".into())]).len(), 1);
        assert_eq!(settings.zone().name(), "Europe/Berlin");
    }

    #[test]
    fn options_of_the_start_are_settings() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            of_options("-c statement_timeout=5s --lock-timeout=10 -cDateStyle=ISO,\\ MDY -x -c"),
            [pair("statement_timeout", "5s"), pair("lock_timeout", "10"), pair("DateStyle", "ISO, MDY")]
        );
        assert_eq!(of_options(" "), []);
    }

    #[test]
    fn times_have_units() {
        let mut settings = Settings::default();
        settings.set("statement_timeout", Some("'5s'"), Lasts::Session, false).unwrap();
        assert_eq!(settings.limit(Limit::Statement), Some(Duration::from_secs(5)));
        let limits = [Limit::IdleInTransaction, Limit::IdleSession, Limit::Lock];
        assert_eq!(limits.map(|limit| settings.limit(limit)), [None, None, Some(Duration::from_secs(10))]);
        settings.set("statement_timeout", Some("7"), Lasts::Transaction, true).unwrap();
        assert_eq!(settings.limit(Limit::Statement), Some(Duration::from_millis(7)));
        settings.end_transaction(true);
        assert_eq!(settings.limit(Limit::Statement), Some(Duration::from_secs(5)));
        settings.set("lock_timeout", Some("0"), Lasts::Session, false).unwrap();
        assert_eq!(settings.limit(Limit::Lock), None);
        settings.reset_all(false);
        assert_eq!(settings.limit(Limit::Statement), None);
        assert!(settings.set("statement_timeout", Some("soon"), Lasts::Session, false).is_err());
        assert!(settings.set("server_version", Some("16"), Lasts::Session, false).is_err());
        assert!(settings.set("no_such", Some("1"), Lasts::Session, false).is_err());
    }
}
