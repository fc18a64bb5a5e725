//! A link over a pair of rings: to another process through shared memory, or to another thread of
//! this one.
//!
//! A message longer than a frame travels in several frames and is reassembled at the other end. A
//! message for which the ring has no room waits in this process' memory, in order, until `flush`
//! finds room. Each end owns a bell (an eventfd), which the other end rings for either reason: a
//! message has come, or room has come.
//!
//! **The peer's end.** Between processes the handshake's socket stays open and silent. It reads as
//! ended when the peer closes the link or dies, for any reason. A sleeping worker learns this from
//! its parker. A worker that is awake checks the socket after [`POLLS_PER_LOOK`] empty polls (a
//! busy worker rarely gets there), or when it asks for the check. Between threads a flag tells. In
//! both cases the messages that the peer had published before are delivered first.

use crate::error::{ChannelError, Closed, SendError};
use crate::parker::{PLAIN, Parker, ParkerShared, WatchedLink, ring_bell};
use crate::region::RingMemory;
use crate::ring::{Bells, Consumer, Producer};
use crate::{MOST_HELD_BYTES, MOST_MESSAGE_BYTES};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Empty polls between two looks at the handshake's socket: a look costs a system call (0.3 us), a
/// poll a few ns.
pub(crate) const POLLS_PER_LOOK: u32 = 4096;

/// How an end learns that the other end is gone.
pub(crate) enum Life {
    /// The handshake's socket.
    Socket(OwnedFd),
    /// One flag per end, set by its drop; `mine` is this end's index.
    Threads { gone: Arc<[AtomicBool; 2]>, mine: usize },
}

/// The two bells of a link, as one end holds them.
pub(crate) struct BellPair {
    pub mine: Arc<OwnedFd>,
    pub peers: Arc<OwnedFd>,
}

/// A message that waits for room, from byte `sent` on.
struct Waiting {
    padded: Vec<u8>,
    bytes: usize,
    sent: usize,
}

pub(crate) struct RingLink {
    producer: Producer<RingMemory>,
    consumer: Consumer<RingMemory>,
    bells: BellPair,
    life: Life,
    watch: Arc<RingWatch>,
    parker: Option<Arc<ParkerShared>>,
    overflow: VecDeque<Waiting>,
    held: usize,
    /// Set by a publication, cleared by a flush: the receiver's announcement has not been checked
    /// since.
    owes_wake: bool,
    staging: Vec<u8>,
    inbox: Vec<u8>,
    /// Bytes of an unfinished message in `inbox`.
    assembled: usize,
    empty_polls: u32,
}

/// Copies of the link's positions for the parker's second look. The link writes them and the parker
/// reads them, both on the worker's thread (or handed over with the link); so relaxed accesses
/// suffice.
struct RingWatch {
    incoming: Bells<RingMemory>,
    outgoing: Bells<RingMemory>,
    head: AtomicU64,
    tail: AtomicU64,
    /// Words of the next frame that waits for room; 0 if no frame waits.
    wanted: AtomicU64,
    /// The handshake's socket has an event that the link has not looked at.
    socket_news: AtomicBool,
    peer_gone: Option<(Arc<[AtomicBool; 2]>, usize)>,
    /// The owner does not read for now: a message is no reason to stay awake.
    held_back: AtomicBool,
    left: AtomicBool,
}

impl WatchedLink for RingWatch {
    fn announce_sleep(&self, _: &ParkerShared) {
        if !self.held_back.load(Ordering::Relaxed) {
            self.incoming.receiver_may_sleep();
        }
        if self.wanted.load(Ordering::Relaxed) != 0 {
            self.outgoing.sender_may_sleep();
        }
    }

    fn ready(&self) -> bool {
        let wanted = self.wanted.load(Ordering::Relaxed);
        let reads = !self.held_back.load(Ordering::Relaxed);
        (reads && self.incoming.anything_for(self.head.load(Ordering::Relaxed)))
            || (wanted != 0 && self.outgoing.room_for(self.tail.load(Ordering::Relaxed), wanted))
            || self.socket_news.load(Ordering::Relaxed)
            || self.peer_gone.as_ref().is_some_and(|(gone, peer)| gone[*peer].load(Ordering::Acquire))
    }

    fn announce_awake(&self) {
        self.incoming.receiver_awake();
        self.outgoing.sender_awake();
    }

    fn socket_event(&self) {
        self.socket_news.store(true, Ordering::Relaxed);
    }

    fn gone(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }
}

impl RingLink {
    pub(crate) fn new(outgoing: RingMemory, incoming: RingMemory, bells: BellPair, life: Life) -> RingLink {
        let peer_gone = match &life {
            Life::Threads { gone, mine } => Some((gone.clone(), 1 - mine)),
            Life::Socket(_) => None,
        };
        let watch = RingWatch {
            incoming: Bells(incoming.clone()),
            outgoing: Bells(outgoing.clone()),
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            socket_news: AtomicBool::new(false),
            peer_gone,
            held_back: AtomicBool::new(false),
            left: AtomicBool::new(false),
        };
        RingLink {
            producer: Producer::new(outgoing),
            consumer: Consumer::new(incoming),
            bells,
            life,
            watch: Arc::new(watch),
            parker: None,
            overflow: VecDeque::new(),
            held: 0,
            owes_wake: false,
            staging: Vec::new(),
            inbox: Vec::new(),
            assembled: 0,
            empty_polls: 0,
        }
    }

    #[inline]
    pub(crate) fn send(&mut self, parts: &[&[u8]], bytes: usize) -> Result<(), SendError> {
        self.staging.clear();
        if self.overflow.is_empty() && bytes <= self.producer.frame_bytes() {
            gather(&mut self.staging, parts, bytes);
            if self.producer.push(&self.staging, bytes, false).map_err(Closed::Corrupt)? {
                self.owes_wake = true;
                return Ok(());
            }
        }
        self.keep(parts, bytes)
    }

    #[cold]
    fn keep(&mut self, parts: &[&[u8]], bytes: usize) -> Result<(), SendError> {
        if self.held + bytes > MOST_HELD_BYTES {
            return Err(SendError::Full { held: self.held, most: MOST_HELD_BYTES });
        }
        let mut padded = Vec::new();
        gather(&mut padded, parts, bytes);
        self.held += bytes;
        self.overflow.push_back(Waiting { padded, bytes, sent: 0 });
        Ok(self.drain()?)
    }

    /// Moves the waiting messages into the ring, as far as there is room.
    fn drain(&mut self) -> Result<(), Closed> {
        let frame_bytes = self.producer.frame_bytes();
        let mut wanted = 0;
        while let Some(front) = self.overflow.front_mut() {
            let bytes = (front.bytes - front.sent).min(frame_bytes);
            let until = front.sent + bytes;
            let padded = &front.padded[front.sent..until.next_multiple_of(8)];
            if !self.producer.push(padded, bytes, until < front.bytes).map_err(Closed::Corrupt)? {
                wanted = Producer::<RingMemory>::words_of(bytes);
                break;
            }
            self.owes_wake = true;
            front.sent = until;
            if until == front.bytes {
                self.held -= front.bytes;
                self.overflow.pop_front();
            }
        }
        self.watch.tail.store(self.producer.tail(), Ordering::Relaxed);
        self.watch.wanted.store(wanted, Ordering::Relaxed);
        Ok(())
    }

    #[inline]
    pub(crate) fn flush(&mut self) -> Result<(), Closed> {
        if !self.overflow.is_empty() {
            self.drain()?;
        }
        if self.owes_wake {
            self.owes_wake = false;
            if self.producer.must_wake_receiver() {
                ring_bell(&self.bells.peers);
            }
        }
        Ok(())
    }

    /// The next whole message, as a range of [`RingLink::inbox`].
    #[inline]
    pub(crate) fn receive(&mut self) -> Result<Option<Range<usize>>, Closed> {
        loop {
            match self.consumer.pop(&mut self.inbox, self.assembled).map_err(Closed::Corrupt)? {
                Some(piece) => {
                    self.watch.head.store(self.consumer.head(), Ordering::Relaxed);
                    if self.consumer.give_back() {
                        ring_bell(&self.bells.peers);
                    }
                    let bytes = self.assembled + piece.bytes;
                    if bytes > MOST_MESSAGE_BYTES {
                        return Err(Closed::Corrupt("a message is longer than any may be"));
                    }
                    self.assembled = if piece.continues { bytes } else { 0 };
                    if !piece.continues {
                        return Ok(Some(0..bytes));
                    }
                }
                None if self.peer_has_ended()? => {
                    if !self.consumer.poll() {
                        return Err(if self.assembled > 0 { Closed::Cut } else { Closed::ByPeer });
                    }
                }
                None => return Ok(None),
            }
        }
    }

    pub(crate) fn inbox(&self) -> &[u8] {
        &self.inbox
    }

    pub(crate) fn poll(&self) -> bool {
        self.consumer.poll()
    }

    pub(crate) fn look_at_end(&mut self) {
        self.empty_polls = POLLS_PER_LOOK;
    }

    pub(crate) fn held(&self) -> usize {
        self.held
    }

    pub(crate) fn hold_back(&self, held_back: bool) {
        self.watch.held_back.store(held_back, Ordering::Relaxed);
    }

    /// Whether the peer has ended, even if unread messages are left.
    pub(crate) fn peer_left(&self) -> bool {
        match &self.life {
            Life::Threads { gone, mine } => gone[1 - mine].load(Ordering::Acquire),
            Life::Socket(socket) => look_at(socket).unwrap_or(true),
        }
    }

    #[inline]
    fn peer_has_ended(&mut self) -> Result<bool, Closed> {
        match &self.life {
            Life::Threads { gone, mine } => Ok(gone[1 - mine].load(Ordering::Acquire)),
            Life::Socket(socket) => {
                self.empty_polls += 1;
                if self.empty_polls < POLLS_PER_LOOK && !self.watch.socket_news.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                self.empty_polls = 0;
                self.watch.socket_news.store(false, Ordering::Relaxed);
                look_at(socket)
            }
        }
    }

    pub(crate) fn register(&mut self, parker: &Parker) -> Result<(), ChannelError> {
        let shared = parker.shared().clone();
        let token = parker.new_token();
        shared.add(&self.bells.mine, PLAIN, EventFlags::IN | EventFlags::ET)?;
        if let Life::Socket(socket) = &self.life {
            shared.add(socket, token, EventFlags::IN | EventFlags::RDHUP | EventFlags::ET)?;
        }
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
            parker.remove(&self.bells.mine);
            if let Life::Socket(socket) = &self.life {
                parker.remove(socket);
            }
        }
    }
}

impl Drop for RingLink {
    fn drop(&mut self) {
        // A last attempt to send the held messages; those for which the ring has no room are lost
        // with the link.
        let _ = self.flush();
        self.leave();
        if let Life::Threads { gone, mine } = &self.life {
            gone[*mine].store(true, Ordering::Release);
            ring_bell(&self.bells.peers);
        }
    }
}

/// Concatenates the parts and pads them with zeros to a whole word.
#[inline]
fn gather(into: &mut Vec<u8>, parts: &[&[u8]], bytes: usize) {
    into.reserve(bytes.next_multiple_of(8));
    parts.iter().for_each(|part| into.extend_from_slice(part));
    into.resize(bytes.next_multiple_of(8), 0);
}

/// Whether the handshake's socket has ended. After the handshake a correct peer never writes to it.
#[cold]
pub(crate) fn look_at(socket: &OwnedFd) -> Result<bool, Closed> {
    match recv(socket, &mut [0u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((0, _)) | Err(Errno::CONNRESET) => Ok(true),
        Ok(_) => Err(Closed::Corrupt("bytes on the handshake's socket")),
        Err(Errno::AGAIN | Errno::INTR) => Ok(false),
        Err(other) => Err(other.into()),
    }
}
