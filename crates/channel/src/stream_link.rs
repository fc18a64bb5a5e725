//! A link over a stream socket, unix or TCP. A frame is a 4-byte little-endian length and that many
//! bytes.
//!
//! `send` only appends to a buffer; `flush` passes the buffer to the system in one write. So a
//! worker's loop pays one system call for all the messages of a turn. A length is checked before
//! memory is allocated for it, and the input buffer grows with the bytes that have arrived, never
//! with the promised length.
//!
//! The link is generic over the way in which bytes pass the socket ([`Stream`]): as they are, or
//! sealed.

use crate::error::{ChannelError, Closed, SendError};
use crate::parker::{PLAIN, Parker, ParkerShared, WatchedLink};
use crate::stream::{Pulled, Stream};
use crate::{MOST_HELD_BYTES, MOST_MESSAGE_BYTES};
use rustix::event::epoll::EventFlags;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Bytes of a frame's length.
const PREFIX: usize = 4;
/// When this much output is held, `send` itself pushes it out, so that a long turn does not
/// accumulate more.
const PUSH_OUT_BYTES: usize = 256 * 1024;
/// First size of the input buffer: some hundred requests per system call.
const INPUT_BYTES: usize = 64 * 1024;

pub(crate) struct StreamLink<S: Stream> {
    stream: S,
    watch: Arc<StreamWatch>,
    parker: Option<Arc<ParkerShared>>,
    output: Vec<u8>,
    written: usize,
    input: Vec<u8>,
    /// The bytes of `input` that arrived and were not delivered.
    unread: Range<usize>,
    /// The last read did not fill the buffer, so no more bytes were there; the next receive without
    /// a whole message skips the system call.
    read_dry: bool,
}

/// The state that the parker reads. The link and the parker write it on the worker's thread, so
/// relaxed accesses suffice.
struct StreamWatch {
    socket: OwnedFd,
    /// A whole message lies in the input buffer, where the kernel cannot see it.
    buffered: AtomicBool,
    /// The socket had no room for all of the output.
    stuck: AtomicBool,
    /// The owner does not read for now: a message is no reason to stay awake.
    held_back: AtomicBool,
    /// The events that the epoll set waits for, as [`StreamWatch::wanted`] returned them last.
    waits_for: AtomicU32,
    left: AtomicBool,
}

impl StreamWatch {
    fn wanted(&self) -> EventFlags {
        let when = |condition: bool, flags| if condition { flags } else { EventFlags::empty() };
        when(!self.held_back.load(Ordering::Relaxed), EventFlags::IN)
            | when(self.stuck.load(Ordering::Relaxed), EventFlags::OUT)
    }
}

impl WatchedLink for StreamWatch {
    fn announce_sleep(&self, parker: &ParkerShared) {
        let wanted = self.wanted();
        if wanted.bits() != self.waits_for.swap(wanted.bits(), Ordering::Relaxed) {
            parker.modify(&self.socket, PLAIN, wanted);
        }
    }
    fn ready(&self) -> bool {
        self.buffered.load(Ordering::Relaxed) && !self.held_back.load(Ordering::Relaxed)
    }
    fn announce_awake(&self) {}
    fn gone(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }
}

impl<S: Stream> StreamLink<S> {
    /// `socket` is connected and non-blocking.
    pub(crate) fn new(socket: OwnedFd, stream: S) -> StreamLink<S> {
        let no = || AtomicBool::new(false);
        let waits_for = AtomicU32::new(EventFlags::IN.bits());
        let watch =
            StreamWatch { socket, buffered: no(), stuck: no(), held_back: no(), waits_for, left: no() };
        StreamLink {
            stream,
            watch: Arc::new(watch),
            parker: None,
            output: Vec::new(),
            written: 0,
            input: vec![0; INPUT_BYTES],
            unread: 0..0,
            read_dry: false,
        }
    }

    pub(crate) fn send(&mut self, parts: &[&[u8]], bytes: usize) -> Result<(), SendError> {
        if self.held() + bytes > MOST_HELD_BYTES {
            return Err(SendError::Full { held: self.held(), most: MOST_HELD_BYTES });
        }
        self.output.extend_from_slice(&(bytes as u32).to_le_bytes());
        parts.iter().for_each(|part| self.output.extend_from_slice(part));
        if self.held() >= PUSH_OUT_BYTES && !self.watch.stuck.load(Ordering::Relaxed) {
            self.flush()?;
        }
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<(), Closed> {
        while self.written < self.output.len() {
            match self.stream.push(&self.watch.socket, &self.output[self.written..])? {
                0 => {
                    self.watch.stuck.store(true, Ordering::Relaxed);
                    self.forget_written();
                    return Ok(());
                }
                count => self.written += count,
            }
        }
        self.output.clear();
        self.output.shrink_to(2 * PUSH_OUT_BYTES);
        self.written = 0;
        let finished = self.stream.finish(&self.watch.socket)?;
        self.watch.stuck.store(!finished, Ordering::Relaxed);
        Ok(())
    }

    /// Moves the rest to the front once more than half of the buffer has been written.
    fn forget_written(&mut self) {
        if self.written > self.output.len() / 2 {
            self.output.drain(..self.written);
            self.written = 0;
        }
    }

    pub(crate) fn held(&self) -> usize {
        self.output.len() - self.written + self.stream.held()
    }

    /// The next whole message, as a range of [`StreamLink::inbox`].
    pub(crate) fn receive(&mut self) -> Result<Option<Range<usize>>, Closed> {
        loop {
            if let Some(end) = self.whole_message()? {
                let message = self.unread.start + PREFIX..end;
                self.unread.start = end;
                let more = self.stream.has_more() || self.whole_message().map_or(true, |next| next.is_some());
                self.watch.buffered.store(more, Ordering::Relaxed);
                return Ok(Some(message));
            }
            if std::mem::take(&mut self.read_dry) || !self.read()? {
                return Ok(None);
            }
        }
    }

    /// The end of the first unread message, if all of it has arrived.
    fn whole_message(&self) -> Result<Option<usize>, Closed> {
        let Some(bytes) = self.promised()? else { return Ok(None) };
        let end = self.unread.start + PREFIX + bytes;
        Ok((end <= self.unread.end).then_some(end))
    }

    /// The length of the first unread message, once its prefix has arrived.
    fn promised(&self) -> Result<Option<usize>, Closed> {
        let Some(prefix) = self.input[self.unread.clone()].first_chunk::<PREFIX>() else { return Ok(None) };
        let bytes = u32::from_le_bytes(*prefix) as usize;
        if bytes > MOST_MESSAGE_BYTES {
            return Err(Closed::Corrupt("a message is longer than any may be"));
        }
        Ok(Some(bytes))
    }

    /// Reads once; `false` when no byte is there.
    fn read(&mut self) -> Result<bool, Closed> {
        self.make_room();
        let space = &mut self.input[self.unread.end..];
        let asked = space.len();
        match self.stream.pull(&self.watch.socket, space)? {
            Pulled::End if self.unread.is_empty() => Err(Closed::ByPeer),
            Pulled::End => Err(Closed::Cut),
            Pulled::Some(count) => {
                self.unread.end += count;
                self.read_dry = count < asked;
                Ok(true)
            }
            Pulled::Nothing => Ok(false),
        }
    }

    /// Makes free space after the unread bytes: by starting over, by moving them, or by doubling a
    /// full buffer.
    fn make_room(&mut self) {
        if self.unread.is_empty() {
            self.unread = 0..0;
            if self.input.len() > 4 * INPUT_BYTES {
                self.input.truncate(INPUT_BYTES);
                self.input.shrink_to_fit();
            }
        } else if self.unread.end == self.input.len() {
            self.input.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
            if self.unread.end > self.input.len() / 2 {
                self.input.resize(2 * self.input.len(), 0);
            }
        }
    }

    pub(crate) fn inbox(&self) -> &[u8] {
        &self.input
    }

    pub(crate) fn hold_back(&self, held_back: bool) {
        self.watch.held_back.store(held_back, Ordering::Relaxed);
    }

    /// Whether the peer has ended, even if unread messages are left.
    pub(crate) fn peer_left(&self) -> bool {
        let mut fds = [PollFd::new(&self.watch.socket, PollFlags::RDHUP)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }

    pub(crate) fn register(&mut self, parker: &Parker) -> Result<(), ChannelError> {
        let shared = parker.shared().clone();
        let wanted = self.watch.wanted();
        self.watch.waits_for.store(wanted.bits(), Ordering::Relaxed);
        shared.add(&self.watch.socket, PLAIN, wanted)?;
        parker.watch(parker.new_token(), self.watch.clone());
        self.parker = Some(shared);
        Ok(())
    }

    pub(crate) fn is_registered(&self) -> bool {
        self.parker.is_some()
    }

    /// Leaves the parker for good.
    pub(crate) fn leave(&mut self) {
        self.watch.left.store(true, Ordering::Release);
        if let Some(parker) = self.parker.take() {
            parker.remove(&self.watch.socket);
        }
    }
}

impl<S: Stream> Drop for StreamLink<S> {
    fn drop(&mut self) {
        // A last attempt to send the held bytes; those that the system does not take are lost with
        // the link.
        let _ = self.flush();
        self.leave();
        // The parker may hold the socket a little longer, but the peer must learn of the end at
        // once.
        let _ = shutdown(&self.watch.socket, Shutdown::Both);
    }
}
