//! The two byte streams of a connection: whole messages in, whole messages out.
//!
//! What is kept of either stream is bounded: a message longer than its limit is skipped and
//! reported as [`Frame::TooLong`], and a session that writes waits for the client, at most
//! [`Transport`]'s `write_patience`.

use crate::inbox::{Body, HEAD, Inbox};
use crate::incoming::{First, MOST_STARTUP_BYTES, may_be_long, violation};
use crate::outgoing::Outgoing;
use sql::SqlError;
use std::cell::RefCell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

/// The longest message that carries a statement or its data, in bytes.
pub const MOST_MESSAGE_BYTES: usize = 100 << 20;
/// The longest of all other messages: names of 63 bytes, passwords, notes of clients.
pub const MOST_SHORT_BYTES: usize = 64 << 10;
/// Bytes for the client from which on the session writes them out.
const WRITE_FROM: usize = 64 << 10;
/// The most bytes of one read.
const READ_BYTES: usize = 16 << 10;
/// Bytes for the client for which a session keeps memory while it waits.
const KEPT_BYTES: usize = 1 << 10;

thread_local! {
    /// Where bytes are read to. It holds nothing between two polls.
    static READ: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// Why a connection is over.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    #[error("the client left")]
    Gone,
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("the client has not read for {0:?}")]
    Stalled(Duration),
    /// The client gets to know this, and the connection ends.
    #[error("{0}")]
    Refused(SqlError),
}

/// A message as it arrived.
#[derive(Debug)]
pub enum Frame {
    Message {
        tag: u8,
        body: Body,
    },
    /// It was skipped.
    TooLong {
        tag: u8,
        bytes: usize,
    },
}

/// The messages of one connection over the byte stream `S`.
pub struct Transport<S> {
    stream: S,
    pub inbox: Inbox,
    pub out: Outgoing,
    /// The longest wait for a client that does not read.
    pub write_patience: Duration,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Transport<S> {
    pub fn new(stream: S, write_patience: Duration) -> Transport<S> {
        Transport { stream, inbox: Inbox::default(), out: Outgoing::default(), write_patience }
    }

    /// The stream, to go on with TLS. A client that has sent more already, unencrypted, may be an
    /// attacker in between: it is refused.
    pub fn into_stream(self) -> Result<S, Lost> {
        match self.inbox.unread().is_empty() {
            true => Ok(self.stream),
            false => Err(Lost::Refused(violation("received unencrypted data after SSL request"))),
        }
    }

    /// The first packet, or the one after an answered request for encryption.
    pub async fn first(&mut self) -> Result<First, Lost> {
        self.have(4).await?;
        let [a, b, c, d, ..] = *self.inbox.unread() else { return Err(Lost::Gone) };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if !(8..=MOST_STARTUP_BYTES).contains(&length) {
            return Err(Lost::Refused(violation("invalid length of startup packet")));
        }
        self.have(length).await?;
        let first = First::read(&self.inbox.unread()[4..length]).map_err(Lost::Refused);
        self.inbox.take(length);
        first
    }

    /// Whether bytes have arrived that start like a TLS handshake.
    pub async fn starts_like_tls(&mut self) -> Result<bool, Lost> {
        self.have(1).await?;
        Ok(self.inbox.unread().first() == Some(&0x16))
    }

    /// The next message.
    ///
    /// # Errors
    /// [`Lost`], and [`Lost::Refused`] for a length that cannot be: the stream is then out of step.
    pub async fn frame(&mut self) -> Result<Frame, Lost> {
        self.have(HEAD).await?;
        let Some((tag, length)) = self.inbox.head() else { return Err(Lost::Gone) };
        let most = if may_be_long(tag) { MOST_MESSAGE_BYTES } else { MOST_SHORT_BYTES };
        if length < 4 || (length > most && !may_be_long(tag)) || length > i32::MAX as usize {
            return Err(Lost::Refused(violation(format!("invalid message length {length} of type {tag}"))));
        }
        if length > most {
            self.skip(length + 1).await?;
            return Ok(Frame::TooLong { tag, bytes: length });
        }
        self.have(length + 1).await?;
        Ok(Frame::Message { tag, body: self.inbox.take_message(length) })
    }

    /// As [`Transport::frame`]; `None` when the first bytes of a message have come.
    pub async fn frame_or_bytes(&mut self) -> Result<Option<Frame>, Lost> {
        if self.inbox.unread().is_empty() {
            return pin!(self.read()).await.map(|()| None);
        }
        pin!(self.frame()).await.map(Some)
    }

    /// The tag of the next message, which stays where it is.
    pub async fn next_tag(&mut self) -> Result<u8, Lost> {
        self.have(1).await?;
        self.inbox.unread().first().copied().ok_or(Lost::Gone)
    }

    /// Ends when the client has closed the connection, or it is broken. What the client sends
    /// meanwhile is kept, up to a limit.
    pub async fn gone(&mut self) {
        while self.inbox.unread().len() < MOST_SHORT_BYTES {
            if self.read().await.is_err() {
                return;
            }
        }
        std::future::pending().await
    }

    async fn have(&mut self, bytes: usize) -> Result<(), Lost> {
        while self.inbox.unread().len() < bytes {
            self.read().await?;
        }
        Ok(())
    }

    async fn skip(&mut self, mut bytes: usize) -> Result<(), Lost> {
        while bytes > self.inbox.unread().len() {
            bytes -= self.inbox.unread().len();
            self.inbox = Inbox::default();
            self.read().await?;
        }
        self.inbox.take(bytes);
        Ok(())
    }

    /// Reads what has come. While nothing has, an idle connection keeps no buffer: all connections
    /// of a thread read into one.
    async fn read(&mut self) -> Result<(), Lost> {
        self.inbox.trim();
        let (stream, inbox) = (&mut self.stream, &mut self.inbox);
        let count = std::future::poll_fn(|cx| {
            READ.with_borrow_mut(|bytes| {
                let mut buffer = ReadBuf::new(bytes);
                ready!(Pin::new(&mut *stream).poll_read(cx, &mut buffer))?;
                inbox.push(buffer.filled());
                Poll::Ready(std::io::Result::Ok(buffer.filled().len()))
            })
        });
        match count.await? {
            0 => Err(Lost::Gone),
            _ => Ok(()),
        }
    }

    /// The next message, if it is here as a whole, and not too long.
    pub fn frame_here(&mut self) -> Option<Frame> {
        let (tag, body) = self.inbox.message(MOST_SHORT_BYTES)?;
        let length = body.len() + 4;
        Some(Frame::Message { tag, body: self.inbox.take_message(length) })
    }

    /// Whether there are so many bytes for the client that they are to be written out.
    pub fn is_full(&self) -> bool {
        self.out.bytes.len() >= WRITE_FROM
    }

    /// Writes out if there is much to write.
    pub async fn relieve(&mut self) -> Result<(), Lost> {
        if self.is_full() { self.flush().await } else { Ok(()) }
    }

    /// Writes out everything.
    pub async fn flush(&mut self) -> Result<(), Lost> {
        if self.out.bytes.is_empty() {
            return Ok(());
        }
        let write = async {
            self.stream.write_all(&self.out.bytes).await?;
            self.stream.flush().await
        };
        let mut write = pin!(write);
        // Mostly the system takes all bytes at once, and no timer is needed.
        let at_once = std::future::poll_fn(|cx| Poll::Ready(write.as_mut().poll(cx))).await;
        match at_once {
            Poll::Ready(written) => written?,
            Poll::Pending => tokio::time::timeout(self.write_patience, write)
                .await
                .map_err(|_| Lost::Stalled(self.write_patience))??,
        }
        self.out.bytes.clear();
        // A large result must not hold its memory for the rest of the session.
        self.out.bytes.shrink_to(KEPT_BYTES);
        Ok(())
    }

    /// Answers one byte to a request for encryption.
    pub async fn answer_byte(&mut self, byte: u8) -> Result<(), Lost> {
        self.stream.write_all(&[byte]).await?;
        self.stream.flush().await?;
        Ok(())
    }

    /// Ends the connection for the client to see.
    pub async fn shut(&mut self) {
        // The client may have gone already.
        let _ = self.flush().await;
        let _ = tokio::time::timeout(Duration::from_secs(1), self.stream.shutdown()).await;
    }
}
