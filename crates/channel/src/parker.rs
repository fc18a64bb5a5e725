//! How a worker sleeps without missing a wake-up: one [`Parker`] per worker, with an eventfd and an
//! epoll set.
//!
//! ```text
//!   worker                                any thread                   a link's peer
//!   announce sleep on its own flag        put work in the mailbox      publish a message
//!     and on every registered link        unpark: fence, read flag     flush: fence, read the
//!   full fence                              if set: clear it, ring       link's flag; if set:
//!   second look: mailbox, links                                          clear it, ring
//!   no work: epoll_wait  <--------------------- bell (eventfd) -----------------+
//!   take the announcements back
//! ```
//!
//! `ring.rs` argues why this loses no wake-up. The bells are registered edge-triggered, so no
//! thread ever has to read them: a ring between the second look and `epoll_wait` ends the wait at
//! once. Sockets are level-triggered: the kernel itself remembers unread bytes.
//!
//! # Access rules
//!
//! - The `Parker` belongs to one thread.
//! - An [`Unparker`] may be cloned and used by any thread.
//! - Links register themselves and leave when they are dropped. Link and parker share the link's
//!   [`WatchedLink`].

use crate::error::{ChannelError, Doing};
use crate::ring::{announce_awake, announce_sleep, must_wake};
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

/// The calls of a parker to a registered link. All come from the parker's thread.
pub(crate) trait WatchedLink: Send + Sync {
    /// Announces that this end may sleep; a full fence follows.
    fn announce_sleep(&self, parker: &ParkerShared);
    /// The second look: whether the worker has work for this link after all.
    fn ready(&self) -> bool;
    fn announce_awake(&self);
    /// The link's socket has an event.
    fn socket_event(&self) {}
    /// The link was dropped: the parker removes it.
    fn gone(&self) -> bool;
}

/// The part of a parker that unparkers and links also hold, so it outlives the parker itself.
pub(crate) struct ParkerShared {
    epoll: OwnedFd,
    bell: OwnedFd,
    dozing: AtomicU64,
}

/// The token of descriptors that need no look-up when they wake the worker.
pub(crate) const PLAIN: u64 = 0;

impl ParkerShared {
    pub(crate) fn add(
        &self,
        fd: impl AsFd,
        token: u64,
        flags: epoll::EventFlags,
    ) -> Result<(), ChannelError> {
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), flags).doing("registering a link")
    }
    pub(crate) fn modify(&self, fd: impl AsFd, token: u64, flags: epoll::EventFlags) {
        // Fails only for a descriptor that was never added or has left; then there is nothing to
        // change.
        let _ = epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(token), flags);
    }
    pub(crate) fn remove(&self, fd: impl AsFd) {
        // As above.
        let _ = epoll::delete(&self.epoll, fd);
    }
}

/// Rings a bell. An eventfd write fails only when 2^64 - 2 wake-ups are pending, and then the
/// sleeper wakes anyway.
pub(crate) fn ring_bell(bell: impl AsFd) {
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

pub(crate) fn new_bell() -> Result<OwnedFd, ChannelError> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).doing("creating an eventfd")
}

/// The place where one worker sleeps. Not shared between threads; may be moved to another thread.
pub struct Parker {
    shared: Arc<ParkerShared>,
    watches: RefCell<Vec<(u64, Arc<dyn WatchedLink>)>>,
    next_token: Cell<u64>,
}

/// Wakes one worker. Costs a fence and one atomic load while that worker is awake.
#[derive(Clone)]
pub struct Unparker {
    shared: Arc<ParkerShared>,
}

/// The result of [`Parker::park`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parked {
    /// There was work already: the worker did not sleep.
    Busy,
    /// Something happened, or (rarely) nothing did: the worker must look at everything.
    Woken,
    /// The timeout has passed.
    TimedOut,
}

/// The result of [`Parker::doze`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doze {
    /// There is work already; nothing is announced.
    Busy,
    MaySleep,
}

impl AsFd for Parker {
    /// Readable when there is something to wake up for.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.epoll.as_fd()
    }
}

impl Parker {
    /// # Errors
    /// [`ChannelError::Io`] when the process has no descriptors left.
    pub fn new() -> Result<Parker, ChannelError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).doing("creating an epoll set")?;
        let shared = ParkerShared { epoll, bell: new_bell()?, dozing: AtomicU64::new(0) };
        shared.add(&shared.bell, PLAIN, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
        Ok(Parker { shared: Arc::new(shared), watches: RefCell::default(), next_token: Cell::new(PLAIN + 1) })
    }

    /// Wakes this worker whenever `bell` (an eventfd) is rung. Several workers may watch one bell.
    /// A ring wakes at least one of those that sleep, and that worker must then do the work for all
    /// of them.
    ///
    /// # Errors
    /// [`ChannelError::Io`] when the system refuses.
    pub fn watch_bell(&self, bell: impl AsFd) -> Result<(), ChannelError> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET | epoll::EventFlags::EXCLUSIVE;
        self.shared.add(bell, PLAIN, flags)
    }

    /// A handle with which other threads wake this worker.
    pub fn unparker(&self) -> Unparker {
        Unparker { shared: self.shared.clone() }
    }

    /// Sleeps until a registered link has a message, room for its held messages, or its end to
    /// report; until an [`Unparker`] is used; or until `timeout`, rounded up to whole milliseconds
    /// (`None`: for ever).
    ///
    /// `idle` is called once, after this worker has announced on its flag and on all links that it
    /// may sleep. It must look again at everything that other threads announce by
    /// [`Unparker::unpark`] (a mailbox), and return whether there is no work. Flush every link
    /// before parking. The worker may park even if the last `receive` of a link returned a message:
    /// the second look finds further ones.
    pub fn park(&self, timeout: Option<Duration>, idle: impl FnOnce() -> bool) -> Parked {
        if self.doze(idle) == Doze::Busy {
            return Parked::Busy;
        }
        let parked = self.wait(&self.watches.borrow(), timeout);
        self.rise();
        parked
    }

    /// The first half of [`Parker::park`], for a worker that sleeps elsewhere: in a wait that ends
    /// when this parker's descriptor becomes readable. After [`Doze::MaySleep`] the worker is
    /// announced as asleep until [`Parker::rise`].
    pub fn doze(&self, idle: impl FnOnce() -> bool) -> Doze {
        let mut watches = self.watches.borrow_mut();
        watches.retain(|(_, watch)| !watch.gone());
        announce_sleep(&self.shared.dozing);
        watches.iter().for_each(|(_, watch)| watch.announce_sleep(&self.shared));
        fence(Ordering::SeqCst);
        let is_busy = !idle() || watches.iter().any(|(_, watch)| watch.ready());
        drop(watches);
        if is_busy {
            self.rise();
            return Doze::Busy;
        }
        Doze::MaySleep
    }

    /// Takes the announcements of [`Parker::doze`] back, without a system call.
    pub fn rise(&self) {
        announce_awake(&self.shared.dozing);
        self.watches.borrow().iter().for_each(|(_, watch)| watch.announce_awake());
    }

    /// Takes the events that have made the descriptor readable, so that the next one makes it
    /// readable again.
    pub fn take_events(&self) {
        self.wait(&self.watches.borrow(), Some(Duration::ZERO));
    }

    fn wait(&self, watches: &[(u64, Arc<dyn WatchedLink>)], timeout: Option<Duration>) -> Parked {
        let timeout = timeout.and_then(|t| Timespec::try_from(t).ok());
        let mut events = [const {
            epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }
        }; 64];
        let count = match epoll::wait(&self.shared.epoll, &mut events[..], timeout.as_ref()) {
            Ok(0) => return Parked::TimedOut,
            Ok(count) => count,
            // A signal, or another event that ended the wait: the worker looks for itself.
            Err(Errno::INTR) | Err(_) => 0,
        };
        for event in &events[..count] {
            let token = event.data.u64();
            if token != PLAIN
                && let Some((_, watch)) = watches.iter().find(|(t, _)| *t == token)
            {
                watch.socket_event();
            }
        }
        Parked::Woken
    }

    pub(crate) fn shared(&self) -> &Arc<ParkerShared> {
        &self.shared
    }

    pub(crate) fn new_token(&self) -> u64 {
        self.next_token.replace(self.next_token.get() + 1)
    }

    pub(crate) fn watch(&self, token: u64, watch: Arc<dyn WatchedLink>) {
        self.watches.borrow_mut().push((token, watch));
    }
}

impl Unparker {
    /// Wakes the worker if it sleeps or is about to sleep. Call it after the work has been put
    /// where `idle` (see [`Parker::park`]) looks.
    pub fn unpark(&self) {
        if must_wake(&self.shared.dozing) {
            ring_bell(&self.shared.bell);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    /// Whether the descriptor is readable.
    fn has_event(parker: &Parker) -> bool {
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(parker, PollFlags::IN)], Some(&none)).unwrap() == 1
    }

    #[test]
    fn a_worker_that_dozes_is_woken_through_its_descriptor() {
        let parker = Parker::new().unwrap();
        let unparker = parker.unparker();
        // Awake: no bell is rung.
        unparker.unpark();
        assert!(!has_event(&parker));
        assert_eq!(parker.doze(|| false), Doze::Busy);
        unparker.unpark();
        assert!(!has_event(&parker));
        for _ in 0..3 {
            assert_eq!(parker.doze(|| true), Doze::MaySleep);
            assert!(!has_event(&parker));
            std::thread::scope(|scope| drop(scope.spawn(|| unparker.unpark())));
            assert!(has_event(&parker));
            parker.rise();
            parker.take_events();
            assert!(!has_event(&parker));
        }
    }

    #[test]
    fn a_message_on_a_link_makes_the_descriptor_readable() {
        let parker = Parker::new().unwrap();
        let (mut mine, mut theirs) = crate::pair().unwrap();
        mine.register(&parker).unwrap();
        assert_eq!(parker.doze(|| true), Doze::MaySleep);
        theirs.send(&[b"one"]).unwrap();
        assert!(!has_event(&parker), "a sleeper is woken by a flush only");
        theirs.flush().unwrap();
        assert!(has_event(&parker));
        parker.rise();
        parker.take_events();
        assert_eq!(mine.receive().unwrap(), Some(&b"one"[..]));
        // Now it is awake, and no bell is rung for it.
        theirs.send(&[b"two"]).unwrap();
        theirs.flush().unwrap();
        assert!(!has_event(&parker));
        assert_eq!(parker.doze(|| true), Doze::Busy);
    }
}
