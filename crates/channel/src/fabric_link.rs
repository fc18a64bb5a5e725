//! A link over a lane of a [fabric](crate::fabric), in [`frames`](crate::frames).
//!
//! As with sockets, `send` appends to a buffer and `flush` passes it on. As with rings, a look for
//! a message costs no system call, and the handshake's socket stays open and silent: it reads as
//! ended when the peer closes the link or dies. A sleeping worker learns this from its parker. A
//! worker that is awake checks the socket after [`POLLS_PER_LOOK`] empty polls, or when it asks for
//! the check. The bytes that had arrived before are delivered first.

use crate::error::{ChannelError, Closed, SendError};
use crate::fabric::Lane;
use crate::frames::{Inbox, Outbox};
use crate::parker::{PLAIN, Parker, ParkerShared, WatchedLink};
use crate::ring_link::{POLLS_PER_LOOK, look_at};
use rustix::event::epoll::EventFlags;
use rustix::net::{Shutdown, shutdown};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) struct FabricLink {
    watch: Arc<FabricWatch>,
    parker: Option<Arc<ParkerShared>>,
    outbox: Outbox,
    inbox: Inbox,
    empty_polls: u32,
    /// The handshake's socket has ended.
    peer_ended: bool,
}

/// The state that the parker reads. The link and the parker write it on the worker's thread, so
/// relaxed accesses suffice.
struct FabricWatch {
    lane: Arc<dyn Lane>,
    /// The handshake's.
    socket: OwnedFd,
    /// A whole message lies in the input buffer.
    buffered: AtomicBool,
    /// The lane had no room for all of the output.
    stuck: AtomicBool,
    /// The owner does not read for now: a message is no reason to stay awake.
    held_back: AtomicBool,
    /// The handshake's socket has an event that the link has not looked at.
    socket_news: AtomicBool,
    left: AtomicBool,
}

impl WatchedLink for FabricWatch {
    fn announce_sleep(&self, _: &ParkerShared) {
        self.lane.arm();
    }

    /// Bytes that came since the lane was armed are a reason in any case: no event may follow it.
    fn ready(&self) -> bool {
        let reads = !self.held_back.load(Ordering::Relaxed);
        self.lane.stirred()
            || (reads && (self.buffered.load(Ordering::Relaxed) || self.lane.has_bytes()))
            || (self.stuck.load(Ordering::Relaxed) && self.lane.has_room())
            || self.socket_news.load(Ordering::Relaxed)
    }

    fn announce_awake(&self) {}

    fn socket_event(&self) {
        self.socket_news.store(true, Ordering::Relaxed);
    }

    fn gone(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }
}

impl FabricLink {
    /// `socket` is that of the handshake: connected and non-blocking.
    pub(crate) fn new(socket: OwnedFd, lane: Arc<dyn Lane>) -> FabricLink {
        let no = || AtomicBool::new(false);
        let watch = FabricWatch {
            lane,
            socket,
            buffered: no(),
            stuck: no(),
            held_back: no(),
            socket_news: no(),
            left: no(),
        };
        FabricLink {
            watch: Arc::new(watch),
            parker: None,
            outbox: Outbox::default(),
            inbox: Inbox::default(),
            empty_polls: 0,
            peer_ended: false,
        }
    }

    pub(crate) fn send(&mut self, parts: &[&[u8]], bytes: usize) -> Result<(), SendError> {
        if self.outbox.take(parts, bytes, 0)? && !self.watch.stuck.load(Ordering::Relaxed) {
            self.flush()?;
        }
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<(), Closed> {
        let lane = &self.watch.lane;
        match self.outbox.write(|rest| lane.push(rest)) {
            Ok(all) => self.watch.stuck.store(!all, Ordering::Relaxed),
            Err(why) => return Err(self.ended(why)),
        }
        Ok(())
    }

    pub(crate) fn held(&self) -> usize {
        self.outbox.held()
    }

    /// The next whole message, as a range of [`FabricLink::inbox`].
    pub(crate) fn receive(&mut self) -> Result<Option<Range<usize>>, Closed> {
        loop {
            if let Some(message) = self.inbox.next()? {
                self.watch.buffered.store(self.inbox.has_next(), Ordering::Relaxed);
                return Ok(Some(message));
            }
            match self.watch.lane.pull(self.inbox.space()) {
                Ok(0) if self.peer_ended => return Err(self.peers_end()),
                // The next pull finds the bytes that had come before the end.
                Ok(0) if self.peer_has_ended()? => self.peer_ended = true,
                Ok(0) => return Ok(None),
                Ok(count) => self.inbox.filled(count),
                Err(why) => return Err(self.ended(why)),
            }
        }
    }

    fn peers_end(&self) -> Closed {
        if self.inbox.is_empty() { Closed::ByPeer } else { Closed::Cut }
    }

    /// The reason for the end of the lane: sends to a peer that is gone fail.
    #[cold]
    fn ended(&self, why: String) -> Closed {
        match self.peer_ended || look_at(&self.watch.socket).unwrap_or(true) {
            true => self.peers_end(),
            false => Closed::Io(Arc::new(io::Error::other(why))),
        }
    }

    fn peer_has_ended(&mut self) -> Result<bool, Closed> {
        self.empty_polls += 1;
        if self.empty_polls < POLLS_PER_LOOK && !self.watch.socket_news.load(Ordering::Relaxed) {
            return Ok(false);
        }
        self.empty_polls = 0;
        self.watch.socket_news.store(false, Ordering::Relaxed);
        look_at(&self.watch.socket)
    }

    pub(crate) fn inbox(&self) -> &[u8] {
        self.inbox.bytes()
    }

    pub(crate) fn poll(&self) -> bool {
        self.watch.buffered.load(Ordering::Relaxed) || self.watch.lane.has_bytes()
    }

    pub(crate) fn look_at_end(&mut self) {
        self.empty_polls = POLLS_PER_LOOK;
    }

    pub(crate) fn hold_back(&self, held_back: bool) {
        self.watch.held_back.store(held_back, Ordering::Relaxed);
    }

    /// Whether the peer has ended, even if unread messages are left.
    pub(crate) fn peer_left(&self) -> bool {
        look_at(&self.watch.socket).unwrap_or(true)
    }

    pub(crate) fn register(&mut self, parker: &Parker) -> Result<(), ChannelError> {
        let shared = parker.shared().clone();
        let token = parker.new_token();
        shared.add(self.watch.lane.descriptor(), PLAIN, EventFlags::IN | EventFlags::ET)?;
        shared.add(&self.watch.socket, token, EventFlags::IN | EventFlags::RDHUP | EventFlags::ET)?;
        parker.watch(token, self.watch.clone());
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
            parker.remove(self.watch.lane.descriptor());
            parker.remove(&self.watch.socket);
        }
    }
}

impl Drop for FabricLink {
    fn drop(&mut self) {
        // A last attempt to send the held bytes; those for which the lane has no room are lost with
        // the link.
        let _ = self.flush();
        if !self.peer_left() {
            self.watch.lane.close();
        }
        self.leave();
        // The parker may hold the socket a little longer, but the peer must learn of the end at
        // once.
        let _ = shutdown(&self.watch.socket, Shutdown::Both);
    }
}

#[cfg(test)]
#[path = "fabric_tests.rs"]
mod tests;
