//! The two ways in which a [`StreamLink`](crate::stream_link::StreamLink) moves bytes through its
//! socket: as they are, or sealed by a [`Session`]. The link is compiled once for each.

use crate::error::{ChannelError, Closed};
use crate::guard::{Role, Session};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The result of a read.
pub(crate) enum Pulled {
    /// This many bytes, at least one.
    Some(usize),
    /// No byte is there.
    Nothing,
    /// The peer has ended.
    End,
}

/// Moves bytes through a non-blocking socket.
pub(crate) trait Stream {
    /// Passes bytes on; returns how many it took.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] when the socket has no room.
    fn push(&mut self, socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Closed>;

    /// Whether the socket has taken everything that was pushed.
    fn finish(&mut self, socket: &OwnedFd) -> Result<bool, Closed>;

    /// Bytes that were pushed and that the socket has not taken.
    fn held(&self) -> usize;

    /// Reads into `space`. Fewer bytes than `space` means that no more were there.
    fn pull(&mut self, socket: &OwnedFd, space: &mut [u8]) -> Result<Pulled, Closed>;

    /// Whether bytes have left the socket and have not been pulled.
    fn has_more(&self) -> bool;
}

/// Bytes as they are.
pub(crate) struct Plain;

impl Stream for Plain {
    #[inline]
    fn push(&mut self, socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Closed> {
        give(socket, bytes)
    }

    #[inline]
    fn finish(&mut self, _: &OwnedFd) -> Result<bool, Closed> {
        Ok(true)
    }

    #[inline]
    fn held(&self) -> usize {
        0
    }

    #[inline]
    fn pull(&mut self, socket: &OwnedFd, space: &mut [u8]) -> Result<Pulled, Closed> {
        match recv(socket, space, RecvFlags::DONTWAIT) {
            Ok((0, _)) | Err(Errno::CONNRESET) => Ok(Pulled::End),
            Ok((count, _)) => Ok(Pulled::Some(count)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Pulled::Nothing),
            Err(other) => Err(other.into()),
        }
    }

    #[inline]
    fn has_more(&self) -> bool {
        false
    }
}

/// Sends without waiting; 0 when the socket has no room.
#[inline]
fn give(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Closed> {
    loop {
        match send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(count) => return Ok(count),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(0),
            Err(other) => return Err(other.into()),
        }
    }
}

/// The most plain bytes that are sealed before the socket has taken them.
const SEALED_AT_ONCE: usize = 64 * 1024;

/// Bytes through a session.
pub(crate) struct Sealed {
    session: Box<dyn Session>,
    /// Sealed bytes for the peer; the first `sent` have left.
    out: Vec<u8>,
    sent: usize,
    /// Space for sealed bytes that arrive.
    incoming: Box<[u8]>,
    /// Why the session has ended.
    ended: Option<Arc<io::Error>>,
}

impl Sealed {
    pub(crate) fn new(session: Box<dyn Session>) -> Sealed {
        let incoming = vec![0; SEALED_AT_ONCE].into_boxed_slice();
        Sealed { session, out: Vec::new(), sent: 0, incoming, ended: None }
    }

    pub(crate) fn peer(&self) -> Option<Role> {
        self.session.peer()
    }

    fn end(&mut self, why: String) -> Closed {
        let error = Arc::new(io::Error::other(why));
        self.ended = Some(error.clone());
        Closed::Io(error)
    }

    /// Why the session has refused the peer, or the peer this end. The last words to the peer are
    /// sent, if the socket takes them.
    pub(crate) fn refusal(&mut self, socket: &OwnedFd) -> Option<ChannelError> {
        let why = self.ended.clone()?.to_string();
        let _ = self.finish(socket); // the peer may be gone
        Some(ChannelError::Refused { why })
    }
}

impl Stream for Sealed {
    fn push(&mut self, socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Closed> {
        if !self.finish(socket)? {
            return Ok(0);
        }
        let taken = &bytes[..bytes.len().min(SEALED_AT_ONCE)];
        self.session.seal(taken).map_err(|why| self.end(why))?;
        self.finish(socket)?;
        Ok(taken.len())
    }

    fn finish(&mut self, socket: &OwnedFd) -> Result<bool, Closed> {
        self.session.give(&mut self.out);
        while self.sent < self.out.len() {
            match give(socket, &self.out[self.sent..])? {
                0 => return Ok(false),
                count => self.sent += count,
            }
        }
        self.out.clear();
        self.out.shrink_to(4 * SEALED_AT_ONCE);
        self.sent = 0;
        Ok(true)
    }

    fn held(&self) -> usize {
        self.out.len() - self.sent
    }

    fn pull(&mut self, socket: &OwnedFd, space: &mut [u8]) -> Result<Pulled, Closed> {
        let mut pulled = self.session.open(space);
        while pulled < space.len() {
            let arrived = match Plain.pull(socket, &mut self.incoming)? {
                Pulled::Some(count) => count,
                Pulled::Nothing | Pulled::End if pulled > 0 => break,
                other => return Ok(other),
            };
            let taken = self.session.take(&self.incoming[..arrived]);
            taken.map_err(|why| self.end(why))?;
            self.finish(socket)?;
            pulled += self.session.open(&mut space[pulled..]);
        }
        Ok(if pulled == 0 { Pulled::Nothing } else { Pulled::Some(pulled) })
    }

    fn has_more(&self) -> bool {
        self.session.has_opened()
    }
}

/// The socket of a handshake, plain or sealed.
pub(crate) struct Pipe {
    pub socket: OwnedFd,
    sealed: Option<Box<Sealed>>,
}

impl Pipe {
    pub(crate) fn new(socket: OwnedFd, session: Option<Box<dyn Session>>) -> Pipe {
        Pipe { socket, sealed: session.map(|session| Box::new(Sealed::new(session))) }
    }

    /// Whether bytes wait for room in the socket.
    pub(crate) fn is_stuck(&self) -> bool {
        self.sealed.as_ref().is_some_and(|sealed| sealed.held() > 0)
    }

    /// As [`Stream::pull`].
    ///
    /// # Errors
    /// [`ChannelError::Refused`]; I/O.
    pub(crate) fn pull(&mut self, space: &mut [u8]) -> Result<Pulled, ChannelError> {
        let pulled = match &mut self.sealed {
            None => Plain.pull(&self.socket, space),
            Some(sealed) => sealed.pull(&self.socket, space),
        };
        pulled.map_err(|closed| self.fault(closed, "reading a handshake"))
    }

    /// As [`Stream::push`], and as [`Stream::finish`] when `bytes` is empty: returns 0 while the
    /// socket has no room.
    ///
    /// # Errors
    /// [`ChannelError::Refused`]; I/O.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<usize, ChannelError> {
        let pushed = match &mut self.sealed {
            None => Plain.push(&self.socket, bytes),
            Some(sealed) => sealed.push(&self.socket, bytes),
        };
        pushed.map_err(|closed| self.fault(closed, "writing a handshake"))
    }

    /// # Errors
    /// As [`Pipe::push`].
    pub(crate) fn finish(&mut self) -> Result<bool, ChannelError> {
        let Some(sealed) = &mut self.sealed else { return Ok(true) };
        let finished = sealed.finish(&self.socket);
        finished.map_err(|closed| self.fault(closed, "writing a handshake"))
    }

    fn fault(&mut self, closed: Closed, doing: &'static str) -> ChannelError {
        let refusal = self.sealed.as_mut().and_then(|sealed| sealed.refusal(&self.socket));
        refusal.unwrap_or_else(|| match closed {
            Closed::Io(source) => {
                ChannelError::Io { doing, source: io::Error::new(source.kind(), source.to_string()) }
            }
            _ => crate::error::CUT,
        })
    }

    /// The parts for the link.
    pub(crate) fn into_parts(self) -> (OwnedFd, Option<Box<Sealed>>) {
        (self.socket, self.sealed)
    }
}
