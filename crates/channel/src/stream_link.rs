//! A link over a stream socket, unix or TCP, in [`frames`](crate::frames).
//!
//! `send` only appends to a buffer; `flush` passes the buffer to the system in one write. So a
//! worker's loop pays one system call for all the messages of a turn.
//!
//! The link is generic over the way in which bytes pass the socket ([`Stream`]): as they are, or
//! sealed.

use crate::error::{ChannelError, Closed, SendError};
use crate::frames::{Inbox, Outbox};
use crate::parker::{PLAIN, Parker, ParkerShared, WatchedLink};
use crate::stream::{Pulled, Stream};
use rustix::event::epoll::EventFlags;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

pub(crate) struct StreamLink<S: Stream> {
    stream: S,
    watch: Arc<StreamWatch>,
    parker: Option<Arc<ParkerShared>>,
    outbox: Outbox,
    inbox: Inbox,
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
            outbox: Outbox::default(),
            inbox: Inbox::default(),
            read_dry: false,
        }
    }

    pub(crate) fn send(&mut self, parts: &[&[u8]], bytes: usize) -> Result<(), SendError> {
        let is_much = self.outbox.take(parts, bytes, self.stream.held())?;
        if is_much && !self.watch.stuck.load(Ordering::Relaxed) {
            self.flush()?;
        }
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<(), Closed> {
        let (stream, socket) = (&mut self.stream, &self.watch.socket);
        let finished = self.outbox.write(|rest| stream.push(socket, rest))? && stream.finish(socket)?;
        self.watch.stuck.store(!finished, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn held(&self) -> usize {
        self.outbox.held() + self.stream.held()
    }

    /// The next whole message, as a range of [`StreamLink::inbox`].
    pub(crate) fn receive(&mut self) -> Result<Option<Range<usize>>, Closed> {
        loop {
            if let Some(message) = self.inbox.next()? {
                let more = self.stream.has_more() || self.inbox.has_next();
                self.watch.buffered.store(more, Ordering::Relaxed);
                return Ok(Some(message));
            }
            if std::mem::take(&mut self.read_dry) || !self.read()? {
                return Ok(None);
            }
        }
    }

    /// Reads once; `false` when no byte is there.
    fn read(&mut self) -> Result<bool, Closed> {
        let space = self.inbox.space();
        let asked = space.len();
        match self.stream.pull(&self.watch.socket, space)? {
            Pulled::End if self.inbox.is_empty() => Err(Closed::ByPeer),
            Pulled::End => Err(Closed::Cut),
            Pulled::Some(count) => {
                self.inbox.filled(count);
                self.read_dry = count < asked;
                Ok(true)
            }
            Pulled::Nothing => Ok(false),
        }
    }

    pub(crate) fn inbox(&self) -> &[u8] {
        self.inbox.bytes()
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
