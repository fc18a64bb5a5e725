//! The messages of the server, as bytes.
//!
//! Each method appends one whole message, `[tag u8][length i32][body]`. Names and order of fields:
//! PostgreSQL's documentation, chapter "Frontend/Backend Protocol", "Message Formats".

use crate::incoming::Format;
use sql::SqlError;
use std::fmt::Display;
use std::io::Write;

/// Messages on their way to the client. The session writes them out when it waits for the client,
/// and when there are more bytes than it wants to keep.
#[derive(Debug, Default)]
pub struct Outgoing {
    pub bytes: Vec<u8>,
}

/// The words for a prepared statement of which the result has changed, as PostgreSQL has them:
/// asyncpg and pgx prepare the statement again if they meet them.
pub const RESULT_CHANGED: &str = "cached plan must not change result type";

/// The transaction status in ReadyForQuery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    Idle = b'I' as isize,
    InTransaction = b'T' as isize,
    Failed = b'E' as isize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    Error,
    /// The server ends the connection.
    Fatal,
    Warning,
    Notice,
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
            Severity::Warning => "WARNING",
            Severity::Notice => "NOTICE",
        }
    }
}

/// A column of a result, as the client sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    pub name: String,
    /// The table's number and the column's position in it; zeros for an expression.
    pub table: u32,
    pub column: u16,
    /// The number of the type in PostgreSQL's catalog, its size (negative: it varies), and its
    /// modifier (negative: none).
    pub ty: u32,
    pub size: i16,
    pub modifier: i32,
}

impl Field {
    /// Whether a client that knows `other` can read this one: a table that was made anew has
    /// another number.
    pub fn looks_like(&self, other: &Field) -> bool {
        (&self.name, self.ty, self.modifier) == (&other.name, other.ty, other.modifier)
    }
}

/// Appends a number's digits.
pub fn decimal(number: impl Display, out: &mut Vec<u8>) {
    // A vector takes all bytes.
    let _ = write!(out, "{number}");
}

impl Outgoing {
    fn message(&mut self, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.push(tag);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        body(&mut self.bytes);
        let length = (self.bytes.len() - start) as u32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn empty(&mut self, tag: u8) {
        self.bytes.extend_from_slice(&[tag, 0, 0, 0, 4]);
    }

    pub fn authentication_ok(&mut self) {
        self.message(b'R', |out| out.extend_from_slice(&0u32.to_be_bytes()));
    }

    /// Asks for SCRAM-SHA-256.
    pub fn ask_for_scram(&mut self) {
        self.message(b'R', |out| {
            out.extend_from_slice(&10u32.to_be_bytes());
            out.extend_from_slice(b"SCRAM-SHA-256\0\0");
        });
    }

    /// The server's first message of SCRAM.
    pub fn scram_continue(&mut self, text: &str) {
        self.message(b'R', |out| {
            out.extend_from_slice(&11u32.to_be_bytes());
            out.extend_from_slice(text.as_bytes());
        });
    }

    /// The server's last message of SCRAM.
    pub fn scram_final(&mut self, text: &str) {
        self.message(b'R', |out| {
            out.extend_from_slice(&12u32.to_be_bytes());
            out.extend_from_slice(text.as_bytes());
        });
    }

    /// The newest minor version of the server, and the options of the start-up that it does not
    /// know.
    pub fn negotiate(&mut self, minor: u16, unknown: &[&str]) {
        self.message(b'v', |out| {
            out.extend_from_slice(&(3u32 << 16 | u32::from(minor)).to_be_bytes());
            out.extend_from_slice(&(unknown.len() as u32).to_be_bytes());
            unknown.iter().for_each(|name| text(out, name));
        });
    }

    pub fn parameter_status(&mut self, name: &str, value: &str) {
        self.message(b'S', |out| {
            text(out, name);
            text(out, value);
        });
    }

    pub fn backend_key(&mut self, session: i32, key: &[u8]) {
        self.message(b'K', |out| {
            out.extend_from_slice(&session.to_be_bytes());
            out.extend_from_slice(key);
        });
    }

    pub fn ready(&mut self, status: Status) {
        self.message(b'Z', |out| out.push(status as u8));
    }

    pub fn parse_complete(&mut self) {
        self.empty(b'1');
    }

    pub fn bind_complete(&mut self) {
        self.empty(b'2');
    }

    pub fn close_complete(&mut self) {
        self.empty(b'3');
    }

    pub fn no_data(&mut self) {
        self.empty(b'n');
    }

    pub fn portal_suspended(&mut self) {
        self.empty(b's');
    }

    pub fn empty_query(&mut self) {
        self.empty(b'I');
    }

    pub fn parameter_description(&mut self, types: impl ExactSizeIterator<Item = u32>) {
        self.message(b't', |out| {
            out.extend_from_slice(&(types.len() as u16).to_be_bytes());
            types.for_each(|ty| out.extend_from_slice(&ty.to_be_bytes()));
        });
    }

    /// The columns of a result, in the given formats (see [`Format::of`]).
    pub fn row_description(&mut self, fields: &[Field], formats: &[Format]) {
        self.message(b'T', |out| {
            out.extend_from_slice(&(fields.len() as u16).to_be_bytes());
            for (i, field) in fields.iter().enumerate() {
                text(out, &field.name);
                out.extend_from_slice(&field.table.to_be_bytes());
                out.extend_from_slice(&field.column.to_be_bytes());
                out.extend_from_slice(&field.ty.to_be_bytes());
                out.extend_from_slice(&field.size.to_be_bytes());
                out.extend_from_slice(&field.modifier.to_be_bytes());
                out.extend_from_slice(&code(Format::of(formats, i)).to_be_bytes());
            }
        });
    }

    /// One row: `value` appends the bytes of column `i` and returns true, or returns false for
    /// null.
    pub fn data_row(&mut self, columns: usize, mut value: impl FnMut(usize, &mut Vec<u8>) -> bool) {
        self.message(b'D', |out| {
            out.extend_from_slice(&(columns as u16).to_be_bytes());
            for i in 0..columns {
                let start = out.len();
                out.extend_from_slice(&[0xff; 4]);
                if value(i, out) {
                    let length = (out.len() - start - 4) as u32;
                    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
                }
            }
        });
    }

    pub fn command_complete(&mut self, tag: &str) {
        self.message(b'C', |out| text(out, tag));
    }

    /// As [`Outgoing::command_complete`], with a number behind the word.
    pub fn command_counted(&mut self, word: &str, count: u64) {
        self.message(b'C', |out| {
            out.extend_from_slice(word.as_bytes());
            out.push(b' ');
            decimal(count, out);
            out.push(0);
        });
    }

    /// Asks the client for the data of a COPY: text or binary, with this many columns.
    pub fn copy_in(&mut self, format: Format, columns: usize) {
        self.copy(b'G', format, columns);
    }

    /// Announces the data of a COPY.
    pub fn copy_out(&mut self, format: Format, columns: usize) {
        self.copy(b'H', format, columns);
    }

    fn copy(&mut self, tag: u8, format: Format, columns: usize) {
        self.message(tag, |out| {
            out.push(code(format) as u8);
            out.extend_from_slice(&(columns as u16).to_be_bytes());
            (0..columns).for_each(|_| out.extend_from_slice(&code(format).to_be_bytes()));
        });
    }

    pub fn copy_data(&mut self, body: impl FnOnce(&mut Vec<u8>)) {
        self.message(b'd', body);
    }

    pub fn copy_done(&mut self) {
        self.empty(b'c');
    }

    pub fn error(&mut self, severity: Severity, error: &SqlError) {
        self.message(b'E', |out| fields(out, severity, error));
    }

    pub fn notice(&mut self, severity: Severity, notice: &SqlError) {
        self.message(b'N', |out| fields(out, severity, notice));
    }
}

fn code(format: Format) -> u16 {
    match format {
        Format::Text => 0,
        Format::Binary => 1,
    }
}

/// A text and its zero byte. A zero byte inside would end it early, so it ends there.
fn text(out: &mut Vec<u8>, text: &str) {
    out.extend(text.bytes().take_while(|byte| *byte != 0));
    out.push(0);
}

fn fields(out: &mut Vec<u8>, severity: Severity, error: &SqlError) {
    let mut field = |tag: u8, value: &str| {
        out.push(tag);
        text(out, value);
    };
    field(b'S', severity.name());
    field(b'V', severity.name());
    field(b'C', error.state.as_str());
    field(b'M', &error.message);
    let position = error.position.map(|at| at.to_string());
    let optional = [
        (b'D', &error.detail),
        (b'H', &error.hint),
        (b'P', &position),
        (b't', &error.table),
        (b'c', &error.column),
        (b'n', &error.constraint),
    ];
    for (tag, value) in optional {
        if let Some(value) = value {
            field(tag, value);
        }
    }
    if error.message == RESULT_CHANGED {
        // The function of PostgreSQL by which pgJDBC knows that it has to prepare again.
        field(b'R', "RevalidateCachedQuery");
    }
    out.push(0);
}
