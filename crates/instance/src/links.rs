//! A worker's links: those it opened to its peers, and those that peers and clients opened to it.
//!
//! A request goes out on the worker's own link to the peer; its answer comes back on the same link. A link that breaks
//! keeps its id from being reused by chance: an id carries a generation.

use base::InstanceId;
use channel::Link;
use probe::Section;
use std::cell::{Cell, RefCell};

/// Names a link of this worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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

/// Who is at the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Peer {
    /// This worker opened the link.
    Callee(InstanceId),
    /// That instance opened it.
    Caller(InstanceId),
    Client,
}

struct Slot {
    link: Link,
    peer: Peer,
    generation: u32,
    /// Whether looking for a message costs a system call.
    socket: bool,
}

/// Which links to look at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Rings,
    All,
}

/// What became of a link.
pub(crate) struct Broken {
    pub id: LinkId,
    pub peer: Peer,
}

#[derive(Default)]
pub(crate) struct Links {
    slots: RefCell<Vec<Option<Slot>>>,
    /// Link to each instance, as opened by this worker.
    callees: RefCell<Vec<Option<LinkId>>>,
    generation: Cell<u32>,
    pub messages: Cell<u64>,
    pub bytes: Cell<u64>,
}

impl Links {
    pub fn add(&self, link: Link, peer: Peer) -> LinkId {
        let generation = self.generation.get() + 1;
        self.generation.set(generation);
        let mut slots = self.slots.borrow_mut();
        let slot = slots.iter().position(Option::is_none).unwrap_or_else(|| {
            slots.push(None);
            slots.len() - 1
        });
        let socket = link.is_socket();
        slots[slot] = Some(Slot { link, peer, generation, socket });
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

    /// The link this worker opened to `instance`, if it stands.
    pub fn to(&self, instance: InstanceId) -> Option<LinkId> {
        self.callees.borrow().get(instance.0 as usize).copied().flatten()
    }

    /// Whether nobody is linked to this worker.
    pub fn is_empty(&self) -> bool {
        self.slots.borrow().iter().all(Option::is_none)
    }

    /// Who is at the other end of a link that stands.
    pub fn peer(&self, id: LinkId) -> Option<Peer> {
        let slots = self.slots.borrow();
        slots[id.slot as usize].as_ref().filter(|s| s.generation == id.generation).map(|s| s.peer)
    }

    /// Sends one frame; `false` when the link is gone.
    pub fn send(&self, id: LinkId, frame: &[u8]) -> bool {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots[id.slot as usize].as_mut().filter(|s| s.generation == id.generation) else {
            return false;
        };
        probe::enter(Section::Link);
        if slot.link.send(&[frame]).is_err() {
            return false;
        }
        self.messages.set(self.messages.get() + 1);
        self.bytes.set(self.bytes.get() + frame.len() as u64);
        true
    }

    /// Hands every message that has arrived to `take` (at most `budget` per link) and reports links found broken.
    /// `take` must not send on a link.
    pub fn poll(
        &self,
        ask: Ask,
        budget: usize,
        mut take: impl FnMut(LinkId, Peer, &[u8]),
        broken: &mut Vec<Broken>,
    ) -> bool {
        let mut any = false;
        let mut slots = self.slots.borrow_mut();
        for (index, entry) in slots.iter_mut().enumerate() {
            let Some(slot) = entry else { continue };
            let id = LinkId { slot: index as u32, generation: slot.generation };
            let peer = slot.peer;
            // A ring's end is found by `receive` alone: it too is asked whenever the sockets are.
            if ask == Ask::Rings && (slot.socket || !slot.link.poll()) {
                continue;
            }
            let mut gone = false;
            for _ in 0..budget {
                match slot.link.receive() {
                    Ok(Some(message)) => {
                        any = true;
                        probe::enter(Section::Link);
                        take(id, peer, message);
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

    /// Breaks a link from this side (a peer that talks nonsense).
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
        self.slots.borrow().iter().flatten().any(|s| !s.socket && s.link.poll())
    }

    pub fn flush(&self) {
        for slot in self.slots.borrow_mut().iter_mut().flatten() {
            // A failure shows at the next receive, which reports the link as broken.
            let _ = slot.link.flush();
        }
    }

    pub fn clear(&self) {
        self.slots.borrow_mut().clear();
        self.callees.borrow_mut().clear();
    }
}
