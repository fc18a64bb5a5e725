//! A worker's links: those that it opened to its peers, and those that peers and clients opened to
//! it.
//!
//! A request leaves on the worker's own link to the peer; its answer comes back on the same link. A
//! link's id carries a generation, so that the id of a broken link does not match a later link in
//! the same slot.

use base::InstanceId;
use channel::{Link, SendError};
use probe::Section;
use std::cell::{Cell, RefCell};
use txn::Abort;

/// The longest payload of a frame (steps, their results, a request, its reply), in bytes. The frame
/// adds some 40 bytes.
pub(crate) const MOST_PAYLOAD: usize = channel::MOST_MESSAGE_BYTES - 64;

/// A link that holds this many bytes for a peer that does not read accepts no more steps, results,
/// requests or replies. The rest of [`channel::MOST_HELD_BYTES`] is for the commit protocol: its
/// messages are small, and are resent only after some time.
const MOST_HELD: usize = channel::MOST_HELD_BYTES / 4 * 3;

/// One client's link may use one in this many of the requests that a worker takes from clients.
const PART_OF_LINK: usize = 4;

/// Names a link of this worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) struct LinkId {
    slot: u32,
    generation: u32,
}

#[cfg(test)]
impl LinkId {
    pub(crate) fn for_tests(slot: u32) -> LinkId {
        LinkId { slot, generation: 1 }
    }
}

/// The other end of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Peer {
    /// This worker opened the link.
    Callee(InstanceId),
    /// That instance opened it, in this life.
    Caller(InstanceId, u32),
    Client,
}

/// A link that stands.
struct Slot {
    link: Link,
    peer: Peer,
    generation: u32,
    /// The life of the instance at the other end; 0 while it is not known.
    life: u32,
    /// Whether polling for a message costs a system call.
    socket: bool,
    /// For a client: requests that came on this link and are not answered.
    asked: usize,
    /// It is not read for now.
    held_back: bool,
}

/// Why a frame was not sent; no part of it reached the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unsent {
    /// The link has ended.
    Gone,
    /// The peer has not read for so long that nothing more is held for it.
    Full,
    TooLong,
}

impl From<Unsent> for Abort {
    fn from(unsent: Unsent) -> Abort {
        match unsent {
            Unsent::Gone => Abort::InstanceDown,
            Unsent::Full => Abort::Overloaded,
            Unsent::TooLong => Abort::TooLong,
        }
    }
}

/// How a link of which the peer does not read treats a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// A message of the commit protocol.
    Protocol,
    Other,
}

/// The kind of a received message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A request, to be answered ([`Links::answered`]).
    Request,
    Other,
}

/// Which links to poll.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Rings,
    All,
}

/// A link that broke.
pub(crate) struct Broken {
    pub id: LinkId,
    pub peer: Peer,
}

impl Slot {
    /// Whether `bytes` more would exceed the bytes that may be held for the peer.
    fn is_full(&self, bytes: usize) -> bool {
        self.link.held() + bytes > MOST_HELD
    }
}

/// All links of one worker.
#[derive(Default)]
pub(crate) struct Links {
    slots: RefCell<Vec<Option<Slot>>>,
    /// The link to each instance, as opened by this worker.
    callees: RefCell<Vec<Option<LinkId>>>,
    generation: Cell<u32>,
    /// Requests that a worker takes from clients before it has answered earlier ones. Further
    /// requests wait in the channels, and then at the clients. No other message is held back, so
    /// that running transactions can finish.
    most_asked: usize,
    /// Requests of clients that are not answered.
    asked: Cell<usize>,
    /// The link that is polled first. It rotates, so that clients share the remaining requests.
    first: Cell<usize>,
    pub messages: Cell<u64>,
    pub bytes: Cell<u64>,
}

impl Links {
    /// No links; see `most_asked`.
    pub fn new(most_asked: usize) -> Links {
        Links { most_asked, ..Links::default() }
    }

    /// Adds a link. Of several links that this worker opened to one instance, the last one is used.
    pub fn add(&self, link: Link, peer: Peer) -> LinkId {
        let generation = self.generation.get() + 1;
        self.generation.set(generation);
        let mut slots = self.slots.borrow_mut();
        let slot = slots.iter().position(Option::is_none).unwrap_or_else(|| {
            slots.push(None);
            slots.len() - 1
        });
        let socket = link.is_socket();
        let life = if let Peer::Caller(_, life) = peer { life } else { 0 };
        slots[slot] = Some(Slot { link, peer, generation, life, socket, asked: 0, held_back: false });
        let id = LinkId { slot: slot as u32, generation };
        if let Peer::Callee(instance) = peer {
            let mut callees = self.callees.borrow_mut();
            let at = instance.0 as usize;
            if callees.len() <= at {
                callees.resize(at + 1, None);
            }
            callees[at] = Some(id);
        }
        id
    }

    /// The link that this worker opened to `instance`, if it stands.
    pub fn to(&self, instance: InstanceId) -> Option<LinkId> {
        self.callees.borrow().get(instance.0 as usize).copied().flatten()
    }

    /// Whether this worker has no link.
    pub fn is_empty(&self) -> bool {
        self.slots.borrow().iter().all(Option::is_none)
    }

    /// The other end of a link, if the link stands.
    pub fn peer(&self, id: LinkId) -> Option<Peer> {
        let slots = self.slots.borrow();
        slots[id.slot as usize].as_ref().filter(|s| s.generation == id.generation).map(|s| s.peer)
    }

    /// Sends one frame.
    pub fn send(&self, id: LinkId, frame: &[u8], class: Class) -> Result<(), Unsent> {
        let mut slots = self.slots.borrow_mut();
        let slot = slots[id.slot as usize].as_mut().filter(|s| s.generation == id.generation);
        let slot = slot.ok_or(Unsent::Gone)?;
        if class == Class::Other && slot.is_full(frame.len()) {
            return Err(Unsent::Full);
        }
        probe::enter(Section::Link);
        slot.link.send(&[frame]).map_err(|error| match error {
            SendError::Full { .. } => Unsent::Full,
            SendError::TooLong { .. } => Unsent::TooLong,
            SendError::Closed(_) => Unsent::Gone,
        })?;
        self.messages.set(self.messages.get() + 1);
        self.bytes.set(self.bytes.get() + frame.len() as u64);
        Ok(())
    }

    /// Whether `bytes` more would find no room on a link of which the peer is still there. Finding
    /// no room costs a system call.
    pub fn must_wait(&self, id: LinkId, bytes: usize) -> bool {
        let slots = self.slots.borrow();
        let slot = slots[id.slot as usize].as_ref().filter(|s| s.generation == id.generation);
        slot.is_some_and(|slot| slot.is_full(bytes) && !slot.link.peer_left())
    }

    /// A request of a client was answered, or cannot be.
    pub fn answered(&self, id: LinkId) {
        self.asked.set(self.asked.get() - 1);
        let mut slots = self.slots.borrow_mut();
        if let Some(slot) = slots[id.slot as usize].as_mut().filter(|s| s.generation == id.generation) {
            slot.asked -= 1;
        }
    }

    /// Whether a link is to be read now.
    fn reads(&self, slot: &mut Slot) -> bool {
        let of_link = (self.most_asked / PART_OF_LINK).max(1);
        let waits =
            slot.peer == Peer::Client && (self.asked.get() >= self.most_asked || slot.asked >= of_link);
        if waits != slot.held_back {
            slot.held_back = waits;
            slot.link.hold_back(waits);
        }
        !waits
    }

    /// Passes every message that has arrived to `take` (at most `budget` per link) and reports
    /// links found broken. A client's link is not read while too many of its requests are
    /// unanswered. `take` must not send on a link.
    pub fn poll(
        &self,
        ask: Ask,
        budget: usize,
        mut take: impl FnMut(LinkId, Peer, &[u8]) -> Taken,
        broken: &mut Vec<Broken>,
    ) -> bool {
        let mut any = false;
        let mut slots = self.slots.borrow_mut();
        let first = self.first.get() % slots.len().max(1);
        self.first.set(first + 1);
        for index in (first..slots.len()).chain(0..first) {
            let entry = &mut slots[index];
            let Some(slot) = entry else { continue };
            let id = LinkId { slot: index as u32, generation: slot.generation };
            let peer = slot.peer;
            // Only `receive` detects the end of a ring, so rings are also polled whenever the
            // sockets are.
            if ask == Ask::Rings && (slot.socket || !slot.link.poll()) {
                continue;
            }
            let mut gone = false;
            for _ in 0..budget {
                if !self.reads(slot) {
                    break;
                }
                match slot.link.receive() {
                    Ok(Some(message)) => {
                        any = true;
                        probe::enter(Section::Link);
                        if take(id, peer, message) == Taken::Request && peer == Peer::Client {
                            slot.asked += 1;
                            self.asked.set(self.asked.get() + 1);
                        }
                    }
                    Ok(None) => break,
                    Err(_) => {
                        gone = true;
                        break;
                    }
                }
            }
            if gone {
                *entry = None;
                self.forget(id, peer);
                broken.push(Broken { id, peer });
                any = true;
            }
        }
        any
    }

    /// Sets the life of the instance to which a link was opened, as that instance reported it.
    pub fn learn_life(&self, id: LinkId, life: u32) {
        let mut slots = self.slots.borrow_mut();
        if let Some(slot) = slots[id.slot as usize].as_mut().filter(|s| s.generation == id.generation) {
            slot.life = life;
        }
    }

    /// Breaks the links from and to earlier lives of an instance.
    pub fn drop_earlier(&self, instance: InstanceId, life: u32) -> Vec<Broken> {
        let mut broken = Vec::new();
        for (index, entry) in self.slots.borrow_mut().iter_mut().enumerate() {
            let Some(slot) = entry else { continue };
            let (Peer::Callee(of) | Peer::Caller(of, _)) = slot.peer else { continue };
            if of == instance && slot.life < life {
                let id = LinkId { slot: index as u32, generation: slot.generation };
                broken.push(Broken { id, peer: slot.peer });
                *entry = None;
            }
        }
        broken.iter().for_each(|broken| self.forget(broken.id, broken.peer));
        broken
    }

    /// Makes the next poll of each ring check whether its other end is gone.
    pub fn look_at_ends(&self) {
        self.slots.borrow_mut().iter_mut().flatten().for_each(|slot| slot.link.look_at_end());
    }

    /// Breaks a link from this side, because its peer violates the protocol.
    pub fn drop_link(&self, id: LinkId) -> Option<Peer> {
        let mut slots = self.slots.borrow_mut();
        let entry = &mut slots[id.slot as usize];
        let peer = entry.as_ref().filter(|s| s.generation == id.generation)?.peer;
        *entry = None;
        self.forget(id, peer);
        Some(peer)
    }

    fn forget(&self, id: LinkId, peer: Peer) {
        if let Peer::Callee(instance) = peer {
            let mut callees = self.callees.borrow_mut();
            if callees[instance.0 as usize] == Some(id) {
                callees[instance.0 as usize] = None;
            }
        }
    }

    /// Whether a ring has a message.
    pub fn ring_ready(&self) -> bool {
        self.slots.borrow().iter().flatten().any(|s| !s.socket && !s.held_back && s.link.poll())
    }

    /// Sends the frames that are held back in buffers.
    pub fn flush(&self) {
        for slot in self.slots.borrow_mut().iter_mut().flatten() {
            // A failure shows at the next receive, which reports the link as broken.
            let _ = slot.link.flush();
        }
    }

    /// Closes all links.
    pub fn clear(&self) {
        self.slots.borrow_mut().clear();
        self.callees.borrow_mut().clear();
    }
}
