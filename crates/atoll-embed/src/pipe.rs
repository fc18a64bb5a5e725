//! The client's end of a session.
//!
//! A connection is a session of the server over a socket pair, so SQL means the same to this
//! process and to clients over the network. The messages are those of PostgreSQL's protocol,
//! version 3 (its documentation, chapter "Message Formats"); values travel in binary form.

use crate::Error;
use server::pgtype;
use sql::catalog::Catalog;
use sql::expression::cast_to;
use sql::{Datum, SqlError, SqlState, SqlType, binary};
use std::collections::HashMap;
use std::io::{BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Statements that a session keeps prepared at most.
const MOST_STATEMENTS: usize = 256;

/// A column of a result.
///
/// ```
/// # fn main() -> Result<(), atoll::Error> {
/// let db = atoll::Database::in_memory()?;
/// let row = db.query_one("SELECT 1::int2 AS one", ())?;
/// assert_eq!((row.columns()[0].name.as_str(), row.columns()[0].ty), ("one", atoll::Type::Int2));
/// # db.close()
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    pub name: String,
    pub ty: SqlType,
}

/// The whole result of a statement: see [`Connection::run`](crate::Connection::run).
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Rows that were selected or changed.
    pub count: u64,
    /// The columns of the rows; none if the statement has no rows.
    pub columns: Arc<[Column]>,
    /// The values of each row, in the order of the columns.
    pub rows: Vec<Vec<Datum>>,
}

struct Prepared {
    name: String,
    params: Vec<SqlType>,
    columns: Arc<[Column]>,
}

pub(crate) struct Pipe {
    stream: BufReader<UnixStream>,
    out: Vec<u8>,
    prepared: HashMap<String, Arc<Prepared>>,
    next: u64,
    /// `I` outside of a transaction, `T` in one, `E` in one that has failed.
    status: u8,
}

/// A message of the server.
struct Message {
    tag: u8,
    body: Vec<u8>,
}

impl Pipe {
    /// Begins a session at the other end of the socket.
    pub fn begin(stream: UnixStream) -> Result<Pipe, Error> {
        let (out, prepared) = (Vec::new(), HashMap::new());
        let mut pipe = Pipe { stream: BufReader::new(stream), out, prepared, next: 0, status: b'I' };
        let mut body = (3u32 << 16).to_be_bytes().to_vec();
        for text in ["user", server::access::USER, "database", "atoll"] {
            put_text(&mut body, text);
        }
        body.push(0);
        pipe.out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        pipe.out.extend_from_slice(&body);
        pipe.flush()?;
        pipe.until_ready(|_| Ok(()))?;
        Ok(pipe)
    }

    /// Whether a transaction is open, also one that has failed.
    pub fn is_in_transaction(&self) -> bool {
        self.status != b'I'
    }

    pub fn has_failed(&self) -> bool {
        self.status == b'E'
    }

    /// Runs several statements without parameters, as one transaction unless they say otherwise.
    pub fn batch(&mut self, text: &str) -> Result<(), Error> {
        refuse_zero(text)?;
        self.message(b'Q', |body| put_text(body, text));
        self.flush()?;
        self.until_ready(|_| Ok(()))
    }

    /// Runs one statement.
    pub fn run(&mut self, text: &str, params: &[Datum]) -> Result<Outcome, Error> {
        let is_known = self.prepared.contains_key(text);
        match self.run_prepared(text, params) {
            // A definition has changed since it was prepared.
            Err(error) if is_known && !self.is_in_transaction() && error.sqlstate() == Some("0A000") => {
                self.forget(text)?;
                self.run_prepared(text, params)
            }
            outcome => outcome,
        }
    }

    fn run_prepared(&mut self, text: &str, params: &[Datum]) -> Result<Outcome, Error> {
        let prepared = self.prepare(text)?;
        if params.len() != prepared.params.len() {
            let message = format!(
                "the statement has {} parameters, and {} were given",
                prepared.params.len(),
                params.len()
            );
            return Err(SqlError::new(SqlState(*b"08P01"), message).into());
        }
        let values = params.iter().zip(&prepared.params).map(|(value, ty)| encoded(value, *ty));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        self.message(b'B', |body| {
            put_text(body, "");
            put_text(body, &prepared.name);
            body.extend_from_slice(&[0, 1, 0, 1]);
            body.extend_from_slice(&(values.len() as u16).to_be_bytes());
            for value in &values {
                match value {
                    None => body.extend_from_slice(&(-1i32).to_be_bytes()),
                    Some(bytes) => {
                        body.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
                        body.extend_from_slice(bytes);
                    }
                }
            }
            body.extend_from_slice(&[0, 1, 0, 1]);
        });
        self.message(b'E', |body| {
            put_text(body, "");
            body.extend_from_slice(&[0; 4]);
        });
        self.message(b'S', |_| {});
        self.flush()?;
        let mut outcome = Outcome { columns: Arc::clone(&prepared.columns), ..Outcome::default() };
        self.until_ready(|message| {
            match message.tag {
                b'D' => outcome.rows.push(row(&message.body, &prepared.columns)?),
                b'C' => outcome.count = count(&message.body),
                b'G' | b'H' | b'W' => {
                    let instead = Some("Use INSERT and SELECT, or COPY over Database::listen.");
                    return Err(SqlError::unsupported("COPY through an embedded connection", instead).into());
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(outcome)
    }

    fn prepare(&mut self, text: &str) -> Result<Arc<Prepared>, Error> {
        if let Some(prepared) = self.prepared.get(text) {
            return Ok(Arc::clone(prepared));
        }
        refuse_zero(text)?;
        if self.prepared.len() >= MOST_STATEMENTS {
            let all: Vec<String> = self.prepared.keys().cloned().collect();
            all.iter().try_for_each(|text| self.forget(text))?;
        }
        self.next += 1;
        let name = format!("s{}", self.next);
        self.message(b'P', |body| {
            put_text(body, &name);
            put_text(body, text);
            body.extend_from_slice(&[0, 0]);
        });
        self.message(b'D', |body| {
            body.push(b'S');
            put_text(body, &name);
        });
        self.message(b'S', |_| {});
        self.flush()?;
        let (mut params, mut columns) = (Vec::new(), Vec::new());
        self.until_ready(|message| {
            match message.tag {
                b't' => params = parameter_types(&message.body)?,
                b'T' => columns = columns_of(&message.body)?,
                _ => {}
            }
            Ok(())
        })?;
        let prepared = Arc::new(Prepared { name, params, columns: columns.into() });
        self.prepared.insert(text.to_owned(), Arc::clone(&prepared));
        Ok(prepared)
    }

    fn forget(&mut self, text: &str) -> Result<(), Error> {
        let Some(prepared) = self.prepared.remove(text) else { return Ok(()) };
        self.message(b'C', |body| {
            body.push(b'S');
            put_text(body, &prepared.name);
        });
        self.message(b'S', |_| {});
        self.flush()?;
        self.until_ready(|_| Ok(()))
    }

    fn message(&mut self, tag: u8, fill: impl FnOnce(&mut Vec<u8>)) {
        let start = self.out.len();
        self.out.extend_from_slice(&[tag, 0, 0, 0, 0]);
        fill(&mut self.out);
        let length = (self.out.len() - start - 1) as u32;
        self.out[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
    }

    fn flush(&mut self) -> Result<(), Error> {
        let sent = self.stream.get_mut().write_all(&self.out);
        self.out.clear();
        sent.map_err(|_| Error::Closed)
    }

    /// Gives each message to `take` until the server is ready for the next request. The first error
    /// of the server or of `take` is returned then.
    fn until_ready(&mut self, mut take: impl FnMut(&Message) -> Result<(), Error>) -> Result<(), Error> {
        let mut outcome = Ok(());
        loop {
            let message = self.receive()?;
            match message.tag {
                b'Z' => {
                    self.status = message.body.first().copied().unwrap_or(b'I');
                    return outcome;
                }
                b'E' => outcome = outcome.and(Err(error(&message.body))),
                tag => {
                    outcome = outcome.and_then(|()| take(&message));
                    if matches!(tag, b'G' | b'W') {
                        self.message(b'f', |body| put_text(body, "not supported"));
                        self.message(b'S', |_| {});
                        self.flush()?;
                    }
                }
            }
        }
    }

    fn receive(&mut self) -> Result<Message, Error> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).map_err(|_| Error::Closed)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length.saturating_sub(4)];
        self.stream.read_exact(&mut body).map_err(|_| Error::Closed)?;
        Ok(Message { tag: head[0], body })
    }
}

fn put_text(body: &mut Vec<u8>, text: &str) {
    body.extend_from_slice(text.as_bytes());
    body.push(0);
}

/// A text with the character 0 would end there.
fn refuse_zero(text: &str) -> Result<(), SqlError> {
    match text.contains('\0') {
        true => Err(SqlError::new(SqlState::INVALID_CHARACTER, "the statement has the character 0")),
        false => Ok(()),
    }
}

/// A parameter's bytes; `None` for a null.
fn encoded(value: &Datum, ty: SqlType) -> Result<Option<Vec<u8>>, SqlError> {
    if value.is_null() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    binary::write(&mut bytes, ty, &cast_to(value.clone(), ty)?);
    Ok(Some(bytes))
}

/// Reads a message's parts from its front.
struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (front, rest) = self.0.split_at_checked(count).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(front)
    }

    fn number<const N: usize>(&mut self) -> Result<u64, Error> {
        Ok(self.take(N)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn text(&mut self) -> Result<String, Error> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or_else(malformed)?;
        let text = String::from_utf8_lossy(&self.0[..end]).into_owned();
        self.0 = &self.0[end + 1..];
        Ok(text)
    }
}

fn malformed() -> Error {
    SqlError::new(SqlState(*b"08P01"), "a message of the session cannot be read").into()
}

fn ty(number: u64) -> SqlType {
    // Values of one of the database's own types are texts.
    pgtype::of_number(&Catalog::default(), number as u32).ok().flatten().unwrap_or(SqlType::Text)
}

fn parameter_types(body: &[u8]) -> Result<Vec<SqlType>, Error> {
    let mut parts = Parts(body);
    (0..parts.number::<2>()?).map(|_| parts.number::<4>().map(ty)).collect()
}

fn columns_of(body: &[u8]) -> Result<Vec<Column>, Error> {
    let mut parts = Parts(body);
    let mut columns = Vec::new();
    for _ in 0..parts.number::<2>()? {
        let name = parts.text()?;
        // The table and the column's number in it.
        parts.take(6)?;
        let ty = ty(parts.number::<4>()?);
        // The type's size.
        parts.take(2)?;
        let ty = with_modifier(ty, parts.number::<4>()? as i32 - 4);
        // The format.
        parts.take(2)?;
        columns.push(Column { name, ty });
    }
    Ok(columns)
}

/// A type with its length, or its precision and scale, from the modifier without its offset.
fn with_modifier(ty: SqlType, modifier: i32) -> SqlType {
    match ty {
        SqlType::Numeric(None) if modifier >= 0 => {
            SqlType::Numeric(Some(((modifier >> 16) as u16, modifier as u16)))
        }
        SqlType::Varchar(None) if modifier >= 0 => SqlType::Varchar(Some(modifier as u32)),
        SqlType::Char(0) if modifier >= 0 => SqlType::Char(modifier as u32),
        ty => ty,
    }
}

fn row(body: &[u8], columns: &[Column]) -> Result<Vec<Datum>, Error> {
    let mut parts = Parts(body);
    if parts.number::<2>()? as usize != columns.len() {
        return Err(malformed());
    }
    let value = |column: &Column| {
        let length = parts.number::<4>()? as u32;
        if length == u32::MAX {
            return Ok(Datum::Null);
        }
        Ok(binary::read(column.ty, parts.take(length as usize)?)?)
    };
    columns.iter().map(value).collect()
}

/// The number at the end of a command's tag: the rows that it selected or changed.
fn count(body: &[u8]) -> u64 {
    let tag = String::from_utf8_lossy(body);
    tag.trim_end_matches('\0').rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn error(body: &[u8]) -> Error {
    let mut error = crate::error::Sql {
        state: "XX000".into(),
        message: String::new(),
        detail: None,
        hint: None,
        table: None,
        column: None,
        constraint: None,
    };
    let mut parts = Parts(body);
    while let Ok([kind]) = parts.take(1)
        && *kind != 0
    {
        let Ok(text) = parts.text() else { break };
        match kind {
            b'C' => error.state = text,
            b'M' => error.message = text,
            b'D' => error.detail = Some(text),
            b'H' => error.hint = Some(text),
            b't' => error.table = Some(text),
            b'c' => error.column = Some(text),
            b'n' => error.constraint = Some(text),
            _ => {}
        }
    }
    Error::Sql(Box::new(error))
}
