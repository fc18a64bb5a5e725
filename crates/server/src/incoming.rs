//! The messages of a client, as bytes.
//!
//! ```text
//! first packets   [length i32][code i32][parameters]        SSLRequest, CancelRequest, start-up
//! all others      [tag u8][length i32][body]                the length counts itself
//! ```
//!
//! Source: PostgreSQL's documentation, chapter "Frontend/Backend Protocol", "Message Formats". The
//! readers accept any bytes: a count or a length that the body does not have is an error, and
//! nothing is allocated for more elements than the body can hold.

use smallvec::SmallVec;
use sql::{SqlError, SqlState};

/// The longest start-up packet, in bytes; PostgreSQL's limit.
pub const MOST_STARTUP_BYTES: usize = 10_000;

/// A violation of the protocol.
pub(crate) fn violation(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState(*b"08P01"), message)
}

/// The first packet of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum First {
    /// The client asks for TLS; the answer is one byte, `S` or `N`.
    Tls,
    /// The client asks for encryption by GSSAPI; the answer is `N`.
    Gss,
    /// Cancel what the session of this number runs, if the key is its.
    Cancel {
        session: i32,
        key: Vec<u8>,
    },
    Startup(Startup),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Startup {
    /// The minor version of protocol 3 that the client speaks.
    pub minor: u16,
    /// Names and values, in their order.
    pub parameters: Vec<(String, String)>,
}

impl Startup {
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

const CANCEL: u32 = 1234 << 16 | 5678;
const TLS: u32 = 1234 << 16 | 5679;
const GSS: u32 = 1234 << 16 | 5680;

impl First {
    /// Reads the packet without its length.
    ///
    /// # Errors
    /// When the bytes are no such packet, or ask for another major version than 3.
    pub fn read(body: &[u8]) -> Result<First, SqlError> {
        let mut body = Body(body);
        let code = body.u32()?;
        match code {
            TLS => body.end().map(|()| First::Tls),
            GSS => body.end().map(|()| First::Gss),
            CANCEL => {
                let session = body.u32()? as i32;
                match body.0 {
                    key @ &[_, _, _, _, ..] if key.len() <= 256 => {
                        Ok(First::Cancel { session, key: key.to_vec() })
                    }
                    _ => Err(violation("a cancel request has a key of 4 to 256 bytes")),
                }
            }
            _ if code >> 16 == 3 => {
                Ok(First::Startup(Startup { minor: code as u16, parameters: pairs(body)? }))
            }
            _ => Err(SqlError::new(
                SqlState(*b"0A000"),
                format!(
                    "unsupported frontend protocol {}.{}: server supports 3.0 to 3.2",
                    code >> 16,
                    code & 0xffff
                ),
            )),
        }
    }
}

fn pairs(mut body: Body<'_>) -> Result<Vec<(String, String)>, SqlError> {
    let mut parameters = Vec::new();
    loop {
        match body.text()? {
            "" => break,
            name => parameters.push((name.to_owned(), body.text()?.to_owned())),
        }
    }
    body.end()?;
    Ok(parameters)
}

/// A message after the start-up. It borrows from the buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    Query(&'a str),
    Parse {
        statement: &'a str,
        text: &'a str,
        types: Vec<u32>,
    },
    Bind(Bind<'a>),
    Describe(Target, &'a str),
    Close(Target, &'a str),
    /// `most` rows at most; 0 stands for all.
    Execute {
        portal: &'a str,
        most: u32,
    },
    Flush,
    Sync,
    CopyData(&'a [u8]),
    CopyDone,
    CopyFail(&'a str),
    /// A password, or a message of SCRAM.
    Password(&'a [u8]),
    Terminate,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    Statement,
    Portal,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bind<'a> {
    pub portal: &'a str,
    pub statement: &'a str,
    /// None: all text; one: it is for all; else one for each parameter.
    pub formats: Formats,
    /// `None` is null.
    pub values: Vec<Option<&'a [u8]>>,
    /// As `formats`, for the columns of the result.
    pub results: Formats,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    #[default]
    Text,
    Binary,
}

/// Formats of several values, mostly few.
pub type Formats = SmallVec<[Format; 16]>;

impl Format {
    /// The format of element `i` where `formats` were given.
    pub fn of(formats: &[Format], i: usize) -> Format {
        match formats {
            [] => Format::Text,
            [one] => *one,
            many => many.get(i).copied().unwrap_or_default(),
        }
    }
}

/// Whether a message with this tag may be as long as a statement or its data.
pub(crate) fn may_be_long(tag: u8) -> bool {
    matches!(tag, b'Q' | b'P' | b'B' | b'd')
}

/// Whether a message belongs to the extended protocol: after an error in it the server skips
/// messages until a Sync.
pub(crate) fn is_extended(tag: u8) -> bool {
    matches!(tag, b'P' | b'B' | b'D' | b'E' | b'C' | b'H')
}

impl<'a> Message<'a> {
    /// # Errors
    /// When there is no message with this tag, or the body does not fit it.
    pub fn read(tag: u8, body: &'a [u8]) -> Result<Message<'a>, SqlError> {
        let mut body = Body(body);
        let message = match tag {
            b'Q' => Message::Query(body.text()?),
            b'P' => {
                let (statement, text) = (body.text()?, body.text()?);
                Message::Parse { statement, text, types: body.list(4, Body::u32)? }
            }
            b'B' => Message::Bind(bind(&mut body)?),
            b'D' => Message::Describe(target(&mut body)?, body.text()?),
            b'C' => Message::Close(target(&mut body)?, body.text()?),
            b'E' => Message::Execute {
                portal: body.text()?,
                // Negative numbers mean all rows too, as in PostgreSQL.
                most: u32::try_from(body.u32()? as i32).unwrap_or(0),
            },
            b'H' => Message::Flush,
            b'S' => Message::Sync,
            b'd' => return Ok(Message::CopyData(body.0)),
            b'c' => Message::CopyDone,
            b'f' => Message::CopyFail(body.text()?),
            b'p' => return Ok(Message::Password(body.0)),
            b'X' => Message::Terminate,
            _ => return Err(violation(format!("invalid frontend message type {tag}"))),
        };
        body.end()?;
        Ok(message)
    }
}

fn target(body: &mut Body<'_>) -> Result<Target, SqlError> {
    match body.u8()? {
        b'S' => Ok(Target::Statement),
        b'P' => Ok(Target::Portal),
        other => Err(violation(format!("invalid subtype {other}; expected a statement (S) or a portal (P)"))),
    }
}

fn bind<'a>(body: &mut Body<'a>) -> Result<Bind<'a>, SqlError> {
    let (portal, statement) = (body.text()?, body.text()?);
    let formats = body.formats()?;
    let values = body.list(4, Body::value)?;
    if formats.len() > 1 && formats.len() != values.len() {
        return Err(violation(format!(
            "bind message has {} parameter formats but {} parameters",
            formats.len(),
            values.len()
        )));
    }
    Ok(Bind { portal, statement, formats, values, results: body.formats()? })
}

/// What is left of a message.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], SqlError> {
        let (taken, rest) =
            self.0.split_at_checked(count).ok_or_else(|| violation("insufficient data left in message"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8, SqlError> {
        Ok(self.take(1)?[0])
    }

    fn u16(&mut self) -> Result<u16, SqlError> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn u32(&mut self) -> Result<u32, SqlError> {
        let bytes = self.take(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// A text that ends with a zero byte.
    fn text(&mut self) -> Result<&'a str, SqlError> {
        // Most names are empty.
        if let [0, rest @ ..] = self.0 {
            self.0 = rest;
            return Ok("");
        }
        let end = self
            .0
            .iter()
            .position(|byte| *byte == 0)
            .ok_or_else(|| violation("invalid string in message"))?;
        let text = self.take(end)?;
        self.0 = &self.0[1..];
        utf8(text)
    }

    fn format(&mut self) -> Result<Format, SqlError> {
        match self.u16()? {
            0 => Ok(Format::Text),
            1 => Ok(Format::Binary),
            other => Err(SqlError::new(
                SqlState::INVALID_PARAMETER,
                format!("unsupported format code: {}", other as i16),
            )),
        }
    }

    fn formats(&mut self) -> Result<Formats, SqlError> {
        let count = usize::from(self.u16()?);
        (0..count).map(|_| self.format()).collect()
    }

    fn value(&mut self) -> Result<Option<&'a [u8]>, SqlError> {
        match self.u32()? {
            u32::MAX => Ok(None),
            length => self.take(length as usize).map(Some),
        }
    }

    /// Elements of at least `least` bytes each, preceded by their number.
    fn list<T>(
        &mut self,
        least: usize,
        read: impl Fn(&mut Self) -> Result<T, SqlError>,
    ) -> Result<Vec<T>, SqlError> {
        let count = usize::from(self.u16()?);
        if count * least > self.0.len() {
            return Err(violation("insufficient data left in message"));
        }
        let mut list = Vec::with_capacity(count);
        for _ in 0..count {
            list.push(read(self)?);
        }
        Ok(list)
    }

    fn end(&self) -> Result<(), SqlError> {
        if self.0.is_empty() { Ok(()) } else { Err(violation("invalid message format")) }
    }
}

pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, SqlError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        SqlError::new(
            SqlState(*b"22021"),
            format!("invalid byte sequence for encoding \"UTF8\": 0x{:02x} at byte {at}", bytes[at]),
        )
    })
}
