//! The connectors of which the handshakes are under way: many at once, none of which holds up
//! another.
//!
//! A silent connector costs a descriptor until its time is over. There are at most [`MOST`] of
//! them: when there are more, the oldest is given up for the newcomer. This hurts no correct
//! connector, because it sends its whole part at once.
//!
//! When the system has no descriptor left, no connector is accepted for [`PAUSE`], again and again
//! until there is a descriptor; meanwhile connectors wait in the listener's queue. The shortage is
//! reported once each time it begins.

use crate::Hello;
use crate::answer::{Answered, Answering};
use crate::error::{ChannelError, Doing};
use crate::guard::Guarding;
use crate::handshake::{Deadline, Kind};
use crate::link::Link;
use crate::stream::Pipe;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Handshakes under way at once.
const MOST: usize = 64;
/// The time limit of a connector's handshake.
pub(crate) const HANDSHAKE_TIME: Duration = Duration::from_secs(2);
/// How long no connector is accepted after the system had no descriptor.
const PAUSE: Duration = Duration::from_millis(50);

type Outcome = Result<(Link, Hello), ChannelError>;

#[derive(Default)]
pub(crate) struct Lobby {
    /// Seals the connections, if they are to be sealed.
    guard: Guarding,
    /// Handshakes under way, the oldest first.
    answering: VecDeque<Answering>,
    /// Results of ended handshakes, to be returned one by one.
    ended: VecDeque<Outcome>,
    /// No connector is accepted before this time.
    shut_until: Option<Instant>,
    /// The shortage of descriptors has been reported.
    starved: bool,
}

/// The events that `poll` has found.
struct News {
    stopped: bool,
    connector: bool,
    /// One flag for each handshake under way.
    ready: Vec<bool>,
}

impl Lobby {
    pub(crate) fn guarded(guard: Guarding) -> Lobby {
        Lobby { guard, ..Lobby::default() }
    }

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

    /// Waits for an event; returns at once if a result is to be returned.
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

    /// Steps every handshake that has an event, and gives up those that are late.
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
        if kind.crosses_machines() {
            // A link also works without this option, but with more delay.
            let _ = rustix::net::sockopt::set_tcp_nodelay(&peer, true);
        }
        if self.answering.len() >= MOST
            && let Some(oldest) = self.answering.pop_front()
        {
            self.give_up(&oldest);
        }
        let session = self.guard.0.as_ref().map(|guard| guard.answer()).transpose();
        let begun = session.map_err(|why| ChannelError::Refused { why }).and_then(|session| {
            Answering::new(Pipe::new(peer, session), kind, Deadline::after(HANDSHAKE_TIME))
        });
        match begun {
            Ok(answering) => self.step(answering),
            Err(error) => self.ended.push_back(Err(error)),
        }
    }

    /// Accepts no connector for a while, and reports the reason if the shortage is new.
    fn shut(&mut self, error: ChannelError) {
        self.shut_until = Some(Instant::now() + PAUSE);
        if !std::mem::replace(&mut self.starved, true) {
            self.ended.push_back(Err(ChannelError::Starved { why: error.to_string() }));
        }
    }
}
