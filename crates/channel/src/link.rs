//! [`Link`]: one end of a duplex, ordered, message-framed connection over any channel.

use crate::MOST_MESSAGE_BYTES;
use crate::error::{ChannelError, Closed, SendError};
use crate::fabric::Lane;
use crate::fabric_link::FabricLink;
use crate::guard::Role;
use crate::parker::Parker;
use crate::ring_link::RingLink;
use crate::stream::{Pipe, Plain, Sealed};
use crate::stream_link::StreamLink;
use std::ops::Range;
use std::sync::Arc;

pub(crate) enum Carrier {
    Ring(Box<RingLink>),
    Stream(Box<StreamLink<Plain>>),
    Sealed(Box<StreamLink<Sealed>>),
    Fabric(Box<FabricLink>),
}

/// Messages and payload bytes that a link has taken and delivered since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    pub messages_sent: u64,
    pub bytes_sent: u64,
    pub messages_received: u64,
    pub bytes_received: u64,
}

/// One end of a connection, owned by exactly one thread (it may be moved to another). No method
/// blocks.
///
/// The loop of a worker: `receive` until it returns `None`, process the messages, `send` replies,
/// `flush` once, and [`Parker::park`] when there is nothing to do.
pub struct Link {
    carrier: Carrier,
    counts: Counts,
    end: Option<Closed>,
    /// What the peer has proved about itself.
    role: Option<Role>,
}

/// Calls the same method on any carrier.
macro_rules! carried {
    ($self:ident, $link:ident => $call:expr) => {
        match &mut $self.carrier {
            Carrier::Ring($link) => $call,
            Carrier::Stream($link) => $call,
            Carrier::Sealed($link) => $call,
            Carrier::Fabric($link) => $call,
        }
    };
    (ref $self:ident, $link:ident => $call:expr) => {
        match &$self.carrier {
            Carrier::Ring($link) => $call,
            Carrier::Stream($link) => $call,
            Carrier::Sealed($link) => $call,
            Carrier::Fabric($link) => $call,
        }
    };
}

impl Link {
    pub(crate) fn new(carrier: Carrier) -> Link {
        Link { carrier, counts: Counts::default(), end: None, role: None }
    }

    /// A link over the socket of a handshake that has ended.
    pub(crate) fn over(pipe: Pipe) -> Link {
        let (socket, sealed) = pipe.into_parts();
        match sealed {
            None => Link::new(Carrier::Stream(Box::new(StreamLink::new(socket, Plain)))),
            Some(sealed) => {
                let role = sealed.peer();
                let carrier = Carrier::Sealed(Box::new(StreamLink::new(socket, *sealed)));
                Link { role, ..Link::new(carrier) }
            }
        }
    }

    /// A link through a lane, with the connection of the handshake that has ended.
    pub(crate) fn through(pipe: Pipe, lane: Arc<dyn Lane>) -> Link {
        let (socket, _) = pipe.into_parts();
        Link::new(Carrier::Fabric(Box::new(FabricLink::new(socket, lane))))
    }

    /// The role that the peer has proved by its certificate; `None` for a link that is not sealed.
    pub fn role(&self) -> Option<Role> {
        self.role
    }

    /// Takes one message, the concatenation of `parts`, and copies it. Messages arrive whole and in
    /// order; an empty one is a message too. A peer that is awake may receive it at once; a
    /// sleeping peer is woken only by [`flush`](Link::flush).
    ///
    /// # Errors
    /// [`SendError::TooLong`] over [`MOST_MESSAGE_BYTES`]. [`SendError::Full`] when
    /// [`MOST_HELD_BYTES`](crate::MOST_HELD_BYTES) wait already for a peer that does not read.
    /// [`SendError::Closed`] once the link has ended. In each case no part of the message is sent.
    #[inline]
    pub fn send(&mut self, parts: &[&[u8]]) -> Result<(), SendError> {
        if let Some(end) = &self.end {
            return Err(end.clone().into());
        }
        let bytes = parts.iter().map(|part| part.len()).sum();
        if bytes > MOST_MESSAGE_BYTES {
            return Err(SendError::TooLong { length: bytes, most: MOST_MESSAGE_BYTES });
        }
        match carried!(self, link => link.send(parts, bytes)) {
            Ok(()) => {
                self.counts.messages_sent += 1;
                self.counts.bytes_sent += bytes as u64;
                Ok(())
            }
            Err(SendError::Closed(end)) => Err(self.finish_output(end).into()),
            Err(other) => Err(other),
        }
    }

    /// Pushes out the messages that were sent, as far as the channel has room, and wakes the peer
    /// if it sleeps. Call it once after a run of sends, and in every turn of the worker's loop
    /// while [`held`](Link::held) is not 0.
    ///
    /// # Errors
    /// [`Closed`] once the link has ended. After [`Closed::ByPeer`] continue to receive: messages
    /// that the peer had sent may still be there.
    #[inline]
    pub fn flush(&mut self) -> Result<(), Closed> {
        if let Some(end) = &self.end {
            return Err(end.clone());
        }
        carried!(self, link => link.flush()).map_err(|end| self.finish_output(end))
    }

    /// The next whole message, if one has arrived. It is valid until the next call.
    ///
    /// # Errors
    /// [`Closed`] once the link has ended and all messages from before the end have been delivered.
    #[inline]
    pub fn receive(&mut self) -> Result<Option<&[u8]>, Closed> {
        if let Some(end) = &self.end {
            return Err(end.clone());
        }
        match carried!(self, link => link.receive()) {
            Ok(None) => Ok(None),
            Ok(Some(message)) => Ok(Some(self.deliver(message))),
            Err(end) => Err(self.finish(end)),
        }
    }

    #[inline]
    fn deliver(&mut self, message: Range<usize>) -> &[u8] {
        self.counts.messages_received += 1;
        self.counts.bytes_received += message.len() as u64;
        carried!(ref self, link => &link.inbox()[message])
    }

    /// Whether a call of `receive` is worth while. For rings this is one load of a cache line that
    /// changes only when a message comes; only `receive` finds the peer's end. So it is for RDMA,
    /// where it is a look at a queue in this process' memory. For sockets it is always true,
    /// because only a system call can tell.
    #[inline]
    pub fn poll(&self) -> bool {
        match &self.carrier {
            Carrier::Ring(link) => self.end.is_some() || link.poll(),
            Carrier::Fabric(link) => self.end.is_some() || link.poll(),
            Carrier::Stream(_) | Carrier::Sealed(_) => true,
        }
    }

    /// Makes the next [`receive`](Link::receive) that finds no message check whether the peer is
    /// gone. The owner of a ring, or of a link by RDMA, calls this as often as it needs to know
    /// while it is awake; a sleeping owner is woken by the peer's end.
    pub fn look_at_end(&mut self) {
        match &mut self.carrier {
            Carrier::Ring(link) => link.look_at_end(),
            Carrier::Fabric(link) => link.look_at_end(),
            Carrier::Stream(_) | Carrier::Sealed(_) => {}
        }
    }

    /// Whether a look for a message costs a system call.
    pub fn is_socket(&self) -> bool {
        matches!(self.carrier, Carrier::Stream(_) | Carrier::Sealed(_))
    }

    /// Lets `parker` wake its owner for this link. A link is registered with at most one parker,
    /// for its whole life.
    ///
    /// # Errors
    /// [`ChannelError::Io`] when the system refuses, or when the link is registered already.
    pub fn register(&mut self, parker: &Parker) -> Result<(), ChannelError> {
        if carried!(ref self, link => link.is_registered()) {
            let source = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
            return Err(ChannelError::Io { doing: "registering a link a second time", source });
        }
        carried!(self, link => link.register(parker))
    }

    /// Bytes of sent messages for which the channel has had no room yet.
    pub fn held(&self) -> usize {
        carried!(ref self, link => link.held())
    }

    /// With `true`, arriving messages neither keep the owner awake nor wake it, because the owner
    /// does not read them for now. It calls this again with `false` before it reads. Meanwhile the
    /// peer may find the channel full.
    pub fn hold_back(&self, held_back: bool) {
        carried!(ref self, link => link.hold_back(held_back));
    }

    /// Whether the peer has closed the link or died, even if unread messages are left. Costs a
    /// system call between processes. It is for an owner that does not read for now; a reading
    /// owner learns the end from [`Link::receive`].
    pub fn peer_left(&self) -> bool {
        self.end.is_some() || carried!(ref self, link => link.peer_left())
    }

    /// Whether the link is known to have ended.
    pub fn closed(&self) -> bool {
        self.end.is_some()
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// A peer that is gone may have left messages. So an end [`Closed::ByPeer`] on output does not
    /// end the link; `receive` ends it after the last message.
    #[cold]
    fn finish_output(&mut self, end: Closed) -> Closed {
        match end {
            Closed::ByPeer => end,
            other => self.finish(other),
        }
    }

    #[cold]
    fn finish(&mut self, end: Closed) -> Closed {
        carried!(self, link => link.leave());
        self.end = Some(end.clone());
        end
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let carrier = match &self.carrier {
            Carrier::Ring(_) => "ring",
            Carrier::Stream(_) => "stream",
            Carrier::Sealed(_) => "sealed stream",
            Carrier::Fabric(_) => "fabric",
        };
        f.debug_struct("Link")
            .field("carrier", &carrier)
            .field("counts", &self.counts)
            .field("end", &self.end)
            .finish()
    }
}
