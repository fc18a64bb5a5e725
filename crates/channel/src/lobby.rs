//! Where connectors wait until their handshakes are over: many at once, none of which holds up
//! another.
//!
//! A silent connector costs a descriptor until its time is over. There are [`MOST`] of them at
//! most: the one that has been there for longest leaves for a newcomer, since a connector of ours
//! says all it has to say at once.
//!
//! Where the system has no descriptor left no connector is let in for [`PAUSE`], again and again
//! until there is one; connectors wait in the listener's queue meanwhile. It is said once each time
//! this begins.

use crate::Hello;
use crate::answer::{Answered, Answering};
use crate::error::{ChannelError, Doing};
use crate::handshake::{Deadline, Kind};
use crate::link::Link;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Handshakes under way at once.
const MOST: usize = 64;
/// How long a connector may take over its handshake.
pub(crate) const HANDSHAKE_TIME: Duration = Duration::from_secs(2);
/// How long no connector is let in after the system had no descriptor.
const PAUSE: Duration = Duration::from_millis(50);

type Outcome = Result<(Link, Hello), ChannelError>;

#[derive(Default)]
pub(crate) struct Lobby {
    /// The one that has been here for longest first.
    answering: VecDeque<Answering>,
    /// Handshakes that are over, to be told one by one.
    ended: VecDeque<Outcome>,
    /// No connector is let in before this.
    shut_until: Option<Instant>,
    /// It has been said that there are no descriptors.
    starved: bool,
}

/// What `poll` has found.
struct News {
    stopped: bool,
    connector: bool,
    /// Of each handshake under way.
    ready: Vec<bool>,
}

impl Lobby {
    /// Waits for the end of the next handshake.
    ///
    /// # Errors
    /// As [`Listener::accept`](crate::Listener::accept).
    pub(crate) fn next(&mut self, socket: &OwnedFd, kind: Kind, stop: &OwnedFd) -> Outcome {
        loop {
            let news = self.wait(socket, stop)?;
            if news.stopped {
                return Err(ChannelError::Stopped);
            }
            if let Some(ended) = self.ended.pop_front() {
                return ended;
            }
            if self.shut_until.is_some_and(|until| Instant::now() >= until) {
                self.shut_until = None;
            }
            self.go_on(&news.ready);
            if news.connector && self.shut_until.is_none() {
                self.let_in(socket, kind);
            }
        }
    }

    /// Waits for anything to do, not at all if something is to be told.
    fn wait(&self, socket: &OwnedFd, stop: &OwnedFd) -> Result<News, ChannelError> {
        let now = Instant::now();
        let until_open = self.shut_until.map(|until| until.saturating_duration_since(now));
        let until_late = self.answering.iter().map(|a| a.deadline.left().unwrap_or_default()).min();
        let told = (!self.ended.is_empty()).then_some(Duration::ZERO);
        let timeout = [until_open, until_late, told].into_iter().flatten().min();
        let timeout = timeout.and_then(|left| Timespec::try_from(left).ok());
        let connectors = if self.shut_until.is_some() { PollFlags::empty() } else { PollFlags::IN };
        let mut fds = vec![PollFd::new(stop, PollFlags::IN), PollFd::new(socket, connectors)];
        fds.extend(self.answering.iter().map(|a| PollFd::from_borrowed_fd(a.socket(), a.waits_for())));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(other) => return Err(other).doing("waiting for a connection"),
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        Ok(News {
            stopped: is_ready(&fds[0]),
            connector: is_ready(&fds[1]),
            ready: fds[2..].iter().map(is_ready).collect(),
        })
    }

    /// Takes every handshake with news a step further, and gives up those that are late.
    fn go_on(&mut self, ready: &[bool]) {
        for (answering, &ready) in std::mem::take(&mut self.answering).into_iter().zip(ready) {
            if answering.deadline.left().is_none() {
                self.give_up(&answering);
            } else if ready || (answering.waits_for().is_empty() && self.shut_until.is_none()) {
                self.step(answering);
            } else {
                self.answering.push_back(answering);
            }
        }
    }

    fn step(&mut self, answering: Answering) {
        match answering.step() {
            Ok(Answered::Linked(link, hello)) => {
                self.starved = false;
                self.ended.push_back(Ok((link, hello)));
            }
            Ok(Answered::Waits(answering)) => self.answering.push_back(answering),
            Ok(Answered::Starved(answering, error)) => {
                self.answering.push_back(answering);
                self.shut(error);
            }
            Ok(Answered::Left) => {}
            Err(error) => self.ended.push_back(Err(error)),
        }
    }

    fn give_up(&mut self, answering: &Answering) {
        self.ended.push_back(Err(answering.deadline.missed("a peer in its handshake")));
    }

    /// Takes the next connector from the listener's queue and begins its handshake.
    fn let_in(&mut self, socket: &OwnedFd, kind: Kind) {
        let peer = match accept_with(socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(peer) => peer,
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return,
            Err(other) => {
                return self.shut(ChannelError::Io { doing: "accepting a connection", source: other.into() });
            }
        };
        if kind == Kind::Tcp {
            // A link works without it, only later.
            let _ = rustix::net::sockopt::set_tcp_nodelay(&peer, true);
        }
        if self.answering.len() >= MOST
            && let Some(oldest) = self.answering.pop_front()
        {
            self.give_up(&oldest);
        }
        match Answering::new(peer, kind, Deadline::after(HANDSHAKE_TIME)) {
            Ok(answering) => self.step(answering),
            Err(error) => self.ended.push_back(Err(error)),
        }
    }

    /// Lets no connector in for a while, and says why if that is new.
    fn shut(&mut self, error: ChannelError) {
        self.shut_until = Some(Instant::now() + PAUSE);
        if !std::mem::replace(&mut self.starved, true) {
            self.ended.push_back(Err(ChannelError::Starved { why: error.to_string() }));
        }
    }
}
