//! The listener's part of a handshake, as a machine that never waits: it goes on whenever its
//! socket has news.
//!
//! ```text
//!   Head --16 bytes--> Hello --as many as promised--> Welcome --sent--> a link
//!     |                  |                               |
//!     +-- left, cut, another version, kind or user ------+--> refused; the deadline is the lobby's to watch
//! ```

use crate::Hello;
use crate::error::{ChannelError, Doing};
use crate::handshake::{CUT, Deadline, HEAD_BYTES, Head, Kind, Status, VERSION, check_user};
use crate::link::{Carrier, Link};
use crate::parker::new_bell;
use crate::region::{RING_BYTES, Region, Which};
use crate::ring_link::{BellPair, Life, RingLink};
use crate::stream_link::StreamLink;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, send, sendmsg};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// One connector that has not been let in yet.
pub(crate) struct Answering {
    socket: OwnedFd,
    kind: Kind,
    pub deadline: Deadline,
    stage: Stage,
}

enum Stage {
    Head(Piece<[u8; HEAD_BYTES]>),
    Hello(Piece<Vec<u8>>),
    /// The hello is there, and the welcome is made as soon as there are descriptors for it.
    Making(Hello),
    Welcome(Hello, Welcome),
}

/// Bytes of which some are still to come.
struct Piece<B> {
    bytes: B,
    filled: usize,
}

enum Welcome {
    /// So many bytes of it have been sent.
    Stream(usize),
    Rings(Box<Rings>),
}

/// What the connector is handed with the welcome, and what the listener keeps.
struct Rings {
    region: Arc<Region>,
    memory: OwnedFd,
    mine: OwnedFd,
    theirs: OwnedFd,
}

/// How one step of a handshake ended without a fault.
pub(crate) enum Answered {
    Linked(Link, Hello),
    /// The connector left before it said anything: it only looked whether a listener is there.
    Left,
    /// It goes on when the socket is ready for [`Answering::waits_for`].
    Waits(Answering),
    /// It goes on when there are descriptors.
    Starved(Answering, ChannelError),
}

/// What a read or a write has come to.
enum Got {
    All,
    /// The socket is not ready.
    Some,
    /// The connector has closed it.
    End,
}

impl Answering {
    /// `socket` is connected and non-blocking.
    ///
    /// # Errors
    /// [`ChannelError::WrongUser`]; the connector is told.
    pub(crate) fn new(socket: OwnedFd, kind: Kind, deadline: Deadline) -> Result<Answering, ChannelError> {
        if let Err(error) = check_user(&socket, kind) {
            refuse(&socket, Status::OtherUser);
            return Err(error);
        }
        let stage = Stage::Head(Piece { bytes: [0; HEAD_BYTES], filled: 0 });
        Ok(Answering { socket, kind, deadline, stage })
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The news of the socket with which it goes on; none for one that waits for descriptors.
    pub(crate) fn waits_for(&self) -> PollFlags {
        match self.stage {
            Stage::Head(_) | Stage::Hello(_) => PollFlags::IN,
            Stage::Making(_) => PollFlags::empty(),
            Stage::Welcome(..) => PollFlags::OUT,
        }
    }

    /// Goes as far as it can without waiting.
    ///
    /// # Errors
    /// Why the connector is refused; it has been told if it is one of ours.
    pub(crate) fn step(self) -> Result<Answered, ChannelError> {
        let Answering { socket, kind, deadline, mut stage } = self;
        let waits = |socket, stage| Ok(Answered::Waits(Answering { socket, kind, deadline, stage }));
        loop {
            stage = match stage {
                Stage::Head(mut head) => match head.read(&socket)? {
                    Got::All => Stage::Hello(promised(&socket, &head.bytes, kind)?),
                    Got::Some => return waits(socket, Stage::Head(head)),
                    Got::End if head.filled == 0 => return Ok(Answered::Left),
                    Got::End => return Err(CUT),
                },
                Stage::Hello(mut hello) => match hello.read(&socket)? {
                    Got::All => Stage::Making(Hello(hello.bytes)),
                    Got::Some => return waits(socket, Stage::Hello(hello)),
                    Got::End => return Err(CUT),
                },
                Stage::Making(hello) => match Welcome::new(kind) {
                    Ok(welcome) => Stage::Welcome(hello, welcome),
                    Err(error) => {
                        let stage = Stage::Making(hello);
                        let answering = Answering { socket, kind, deadline, stage };
                        return Ok(Answered::Starved(answering, error));
                    }
                },
                Stage::Welcome(hello, mut welcome) => match welcome.send(&socket)? {
                    Got::All => return Ok(Answered::Linked(welcome.link(socket), hello)),
                    Got::Some => return waits(socket, Stage::Welcome(hello, welcome)),
                    Got::End => return Err(CUT),
                },
            };
        }
    }
}

/// Checks the connector's head; gives room for the hello that it promises.
fn promised(socket: &OwnedFd, head: &[u8; HEAD_BYTES], kind: Kind) -> Result<Piece<Vec<u8>>, ChannelError> {
    match check_connector(&Head::decode(head)?, kind) {
        Ok(length) => Ok(Piece { bytes: vec![0; length], filled: 0 }),
        Err((status, error)) => {
            refuse(socket, status);
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

/// Tells the connector why, once and without waiting: it may be no program of ours.
fn refuse(socket: &OwnedFd, status: Status) {
    let head = Head { version: VERSION, what: status as u8, bytes: 0 }.encode();
    let _ = send(socket, &head, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

impl<B: AsMut<[u8]>> Piece<B> {
    fn read(&mut self, socket: &OwnedFd) -> Result<Got, ChannelError> {
        loop {
            let rest = &mut self.bytes.as_mut()[self.filled..];
            if rest.is_empty() {
                return Ok(Got::All);
            }
            match recv(socket, rest, RecvFlags::DONTWAIT) {
                Ok((0, _)) | Err(Errno::CONNRESET) => return Ok(Got::End),
                Ok((count, _)) => self.filled += count,
                Err(Errno::AGAIN) => return Ok(Got::Some),
                Err(Errno::INTR) => {}
                Err(other) => return Err(other).doing("reading a handshake"),
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

    fn send(&mut self, socket: &OwnedFd) -> Result<Got, ChannelError> {
        loop {
            let sent = match self {
                Welcome::Stream(sent) => send_welcome(socket, sent),
                Welcome::Rings(rings) => rings.hand_over(socket),
            };
            return match sent {
                Ok(HEAD_BYTES) => Ok(Got::All),
                Ok(_) if matches!(self, Welcome::Stream(_)) => continue,
                Err(Errno::AGAIN) => Ok(Got::Some),
                Err(Errno::INTR) => continue,
                // A stream takes what comes with descriptors whole or not at all.
                Ok(_) | Err(Errno::PIPE | Errno::CONNRESET) => Ok(Got::End),
                Err(other) => Err(other).doing("writing a handshake"),
            };
        }
    }

    fn link(self, socket: OwnedFd) -> Link {
        let Welcome::Rings(rings) = self else {
            return Link::new(Carrier::Stream(Box::new(StreamLink::new(socket))));
        };
        let Rings { region, mine, theirs, .. } = *rings;
        let bells = BellPair { mine: Arc::new(mine), peers: Arc::new(theirs) };
        let (outgoing, incoming) = (region.ring(Which::First), region.ring(Which::Second));
        let link = RingLink::new(outgoing, incoming, bells, Life::Socket(socket));
        Link::new(Carrier::Ring(Box::new(link)))
    }
}

/// Gives how many bytes have been sent in all.
fn send_welcome(socket: &OwnedFd, sent: &mut usize) -> Result<usize, Errno> {
    let head = Head { version: VERSION, what: Status::Welcome as u8, bytes: 0 }.encode();
    *sent += send(socket, &head[*sent..], SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    Ok(*sent)
}

impl Rings {
    /// The listener makes the rings and both bells and hands them over with its welcome.
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
