//! The listener's part of a handshake, as a state machine that never waits: it takes a step
//! whenever its socket is ready.
//!
//! ```text
//!   Head --16 bytes--> Hello --promised bytes--> Welcome --sent--> a link
//!     |                  |                         |
//!     +------------------+-------------------------+--> refused: the peer left, the connection was
//!                                                       cut, or version, kind or user differ
//! ```
//!
//! The lobby watches the deadline.

use crate::Hello;
use crate::error::{CUT, ChannelError, Doing};
use crate::fabric::{self, CARD_BYTES, Card, Lane, Side};
use crate::handshake::{Deadline, HEAD_BYTES, Head, Kind, Status, VERSION, check_user};
use crate::link::{Carrier, Link};
use crate::parker::new_bell;
use crate::region::{RING_BYTES, Region, Which};
use crate::ring_link::{BellPair, Life, RingLink};
use crate::stream::{Pipe, Pulled};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A connector of which the handshake is not over.
pub(crate) struct Answering {
    pipe: Pipe,
    kind: Kind,
    pub deadline: Deadline,
    stage: Stage,
}

enum Stage {
    Head(Piece<[u8; HEAD_BYTES]>),
    Hello(Piece<Vec<u8>>),
    /// The hello has arrived; the welcome is made as soon as there are descriptors for it.
    Making(Hello),
    Welcome(Hello, Welcome),
}

/// A piece of the handshake of which some bytes have not arrived.
struct Piece<B> {
    bytes: B,
    filled: usize,
}

enum Welcome {
    /// The number of its bytes that have been sent.
    Stream(usize),
    Rings(Box<Rings>),
    /// The same number, and the bytes after the head.
    Lane(usize, Box<Tied>),
}

/// This end of a lane, tied to the connector's.
struct Tied {
    card: Card,
    lane: Arc<dyn Lane>,
}

/// The descriptors that the connector gets with the welcome, and the parts that the listener keeps.
struct Rings {
    region: Arc<Region>,
    memory: OwnedFd,
    mine: OwnedFd,
    theirs: OwnedFd,
}

/// The result of one step of a handshake without a fault.
pub(crate) enum Answered {
    Linked(Link, Hello),
    /// The connector left before it sent anything: it only probed for a listener.
    Left,
    /// The handshake continues when the socket is ready for [`Answering::waits_for`].
    Waits(Answering),
    /// The handshake continues when there are descriptors.
    Starved(Answering, ChannelError),
}

/// The result of a read or a write.
enum Got {
    All,
    /// The socket is not ready.
    Some,
    /// The connector has closed it.
    End,
}

impl Answering {
    /// The socket of `pipe` is connected and non-blocking.
    ///
    /// # Errors
    /// [`ChannelError::WrongUser`]; the connector is told.
    pub(crate) fn new(mut pipe: Pipe, kind: Kind, deadline: Deadline) -> Result<Answering, ChannelError> {
        if let Err(error) = check_user(&pipe.socket, kind) {
            refuse(&mut pipe, Status::OtherUser);
            return Err(error);
        }
        let stage = Stage::Head(Piece { bytes: [0; HEAD_BYTES], filled: 0 });
        Ok(Answering { pipe, kind, deadline, stage })
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.pipe.socket.as_fd()
    }

    /// The socket event that the handshake waits for; empty if it waits for descriptors.
    pub(crate) fn waits_for(&self) -> PollFlags {
        match self.stage {
            Stage::Head(_) | Stage::Hello(_) if self.pipe.is_stuck() => PollFlags::IN | PollFlags::OUT,
            Stage::Head(_) | Stage::Hello(_) => PollFlags::IN,
            Stage::Making(_) => PollFlags::empty(),
            Stage::Welcome(..) => PollFlags::OUT,
        }
    }

    /// Goes as far as possible without waiting.
    ///
    /// # Errors
    /// The reason why the connector is refused; a connector that speaks this protocol has been
    /// told.
    pub(crate) fn step(self) -> Result<Answered, ChannelError> {
        let Answering { mut pipe, kind, deadline, mut stage } = self;
        let waits = |pipe, stage| Ok(Answered::Waits(Answering { pipe, kind, deadline, stage }));
        pipe.finish()?;
        loop {
            stage = match stage {
                Stage::Head(mut head) => match head.read(&mut pipe)? {
                    Got::All => Stage::Hello(promised(&mut pipe, &head.bytes, kind)?),
                    Got::Some => return waits(pipe, Stage::Head(head)),
                    Got::End if head.filled == 0 => return Ok(Answered::Left),
                    Got::End => return Err(CUT),
                },
                Stage::Hello(mut hello) => match hello.read(&mut pipe)? {
                    Got::All if kind == Kind::Rdma => {
                        let (tied, hello) = tie(&mut pipe, &hello.bytes)?;
                        Stage::Welcome(hello, Welcome::Lane(0, Box::new(tied)))
                    }
                    Got::All => Stage::Making(Hello(hello.bytes)),
                    Got::Some => return waits(pipe, Stage::Hello(hello)),
                    Got::End => return Err(CUT),
                },
                Stage::Making(hello) => match Welcome::new(kind) {
                    Ok(welcome) => Stage::Welcome(hello, welcome),
                    Err(error) => {
                        let stage = Stage::Making(hello);
                        let answering = Answering { pipe, kind, deadline, stage };
                        return Ok(Answered::Starved(answering, error));
                    }
                },
                Stage::Welcome(hello, mut welcome) => match welcome.send(&mut pipe)? {
                    Got::All => return Ok(Answered::Linked(welcome.link(pipe), hello)),
                    Got::Some => return waits(pipe, Stage::Welcome(hello, welcome)),
                    Got::End => return Err(CUT),
                },
            };
        }
    }
}

/// Checks the connector's head; returns a buffer for the hello that it promises.
fn promised(pipe: &mut Pipe, head: &[u8; HEAD_BYTES], kind: Kind) -> Result<Piece<Vec<u8>>, ChannelError> {
    match check_connector(&Head::decode(head)?, kind) {
        Ok(length) => {
            let card = if kind == Kind::Rdma { CARD_BYTES } else { 0 };
            Ok(Piece { bytes: vec![0; card + length], filled: 0 })
        }
        Err((status, error)) => {
            refuse(pipe, status);
            Err(error)
        }
    }
}

fn check_connector(head: &Head, kind: Kind) -> Result<usize, (Status, ChannelError)> {
    if head.version != VERSION {
        let error = ChannelError::Version { ours: VERSION, theirs: head.version };
        return Err((Status::OtherVersion, error));
    }
    if head.what != kind as u8 {
        return Err((Status::OtherKind, ChannelError::Kind { ours: kind.name(), theirs: head.what }));
    }
    let length = head.bytes as usize;
    if length > Hello::MOST_BYTES {
        return Err((Status::BadHello, ChannelError::HelloTooLong { length, most: Hello::MOST_BYTES }));
    }
    Ok(length)
}

/// Makes an end and ties it to the connector's, of which the card comes before the hello.
fn tie(pipe: &mut Pipe, bytes: &[u8]) -> Result<(Tied, Hello), ChannelError> {
    let Some((theirs, hello)) = bytes.split_first_chunk::<CARD_BYTES>() else { return Err(CUT) };
    let tied = fabric::loose(&pipe.socket).and_then(|loose| {
        let card = loose.card();
        let lane = loose.tie(theirs, Side::Listener).map_err(|why| ChannelError::Fabric { why })?;
        Ok(Tied { card, lane })
    });
    match tied {
        Ok(tied) => Ok((tied, Hello(hello.to_vec()))),
        Err(error) => {
            refuse(pipe, Status::NoFabric);
            Err(error)
        }
    }
}

/// Tells the connector the reason, once and without waiting: it may be a foreign program.
fn refuse(pipe: &mut Pipe, status: Status) {
    let head = Head { version: VERSION, what: status as u8, bytes: 0 }.encode();
    let _ = pipe.push(&head);
}

impl<B: AsMut<[u8]>> Piece<B> {
    fn read(&mut self, pipe: &mut Pipe) -> Result<Got, ChannelError> {
        loop {
            let rest = &mut self.bytes.as_mut()[self.filled..];
            if rest.is_empty() {
                return Ok(Got::All);
            }
            match pipe.pull(rest)? {
                Pulled::End => return Ok(Got::End),
                Pulled::Some(count) => self.filled += count,
                Pulled::Nothing => return Ok(Got::Some),
            }
        }
    }
}

impl Welcome {
    fn new(kind: Kind) -> Result<Welcome, ChannelError> {
        if kind != Kind::Shm {
            return Ok(Welcome::Stream(0));
        }
        let (region, memory) = Region::shared(RING_BYTES)?;
        let (mine, theirs) = (new_bell()?, new_bell()?);
        Ok(Welcome::Rings(Box::new(Rings { region, memory, mine, theirs })))
    }

    fn send(&mut self, pipe: &mut Pipe) -> Result<Got, ChannelError> {
        match self {
            Welcome::Stream(sent) => send_welcome(pipe, &[], sent),
            Welcome::Lane(sent, tied) => send_welcome(pipe, &tied.card, sent),
            Welcome::Rings(rings) => loop {
                return match rings.hand_over(&pipe.socket) {
                    Ok(HEAD_BYTES) => Ok(Got::All),
                    Err(Errno::AGAIN) => Ok(Got::Some),
                    Err(Errno::INTR) => continue,
                    // The few bytes that go with descriptors are sent as a whole or not at all.
                    Ok(_) | Err(Errno::PIPE | Errno::CONNRESET) => Ok(Got::End),
                    Err(other) => Err(other).doing("writing a handshake"),
                };
            },
        }
    }

    fn link(self, pipe: Pipe) -> Link {
        let rings = match self {
            Welcome::Stream(_) => return Link::over(pipe),
            Welcome::Lane(_, tied) => return Link::through(pipe, tied.lane),
            Welcome::Rings(rings) => rings,
        };
        let Rings { region, mine, theirs, .. } = *rings;
        let bells = BellPair { mine: Arc::new(mine), peers: Arc::new(theirs) };
        let (outgoing, incoming) = (region.ring(Which::First), region.ring(Which::Second));
        let link = RingLink::new(outgoing, incoming, bells, Life::Socket(pipe.socket));
        Link::new(Carrier::Ring(Box::new(link)))
    }
}

/// `sent`: the bytes of the welcome, the head and `more`, that the pipe has taken.
fn send_welcome(pipe: &mut Pipe, more: &[u8], sent: &mut usize) -> Result<Got, ChannelError> {
    let mut welcome = Head { version: VERSION, what: Status::Welcome as u8, bytes: 0 }.encode().to_vec();
    welcome.extend_from_slice(more);
    while *sent < welcome.len() {
        match pipe.push(&welcome[*sent..])? {
            0 => return Ok(Got::Some),
            count => *sent += count,
        }
    }
    Ok(if pipe.finish()? { Got::All } else { Got::Some })
}

impl Rings {
    /// Sends the rings and both bells, which the listener has made, with its welcome.
    fn hand_over(&self, socket: &OwnedFd) -> Result<usize, Errno> {
        let head = Head { version: VERSION, what: Status::Welcome as u8, bytes: RING_BYTES as u32 }.encode();
        let fds = [self.memory.as_fd(), self.mine.as_fd(), self.theirs.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let room = control.push(SendAncillaryMessage::ScmRights(&fds));
        assert!(room, "the buffer is sized for three descriptors");
        sendmsg(socket, &[IoSlice::new(&head)], &mut control, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
    }
}
