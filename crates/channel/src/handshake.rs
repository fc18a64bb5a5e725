//! The handshake: the exchange before the first message, on every channel between processes.
//!
//! ```text
//!  connector -> listener   magic[8] version:u16 kind:u8 0 hello_bytes:u32   hello[hello_bytes]
//!  listener -> connector   magic[8] version:u16 status:u8 0 ring_bytes:u32
//!                          and for shm, as SCM_RIGHTS: the sealed memfd, the listener's bell,
//!                          the connector's bell
//! ```
//!
//! For RDMA the card of each end goes along: the connector's before its hello, the listener's after
//! its head.
//!
//! All numbers are little-endian. The listener trusts no byte before magic, version, kind and
//! length are checked. The connector trusts the offered memory only after it has checked the seals
//! and the size. Both ends of a unix socket compare the other's user with their own. The whole
//! exchange has one deadline, so a silent peer cannot hold an end for ever.
//!
//! This file has the parts that both ends share, and the connector's part, which waits. `answer`
//! has the listener's part, which does not wait.

use crate::Hello;
use crate::error::{CUT, ChannelError, Doing};
use crate::fabric::{self, Side};
use crate::link::{Carrier, Link};
use crate::region::{Region, Which};
use crate::ring_link::{BellPair, Life, RingLink};
use crate::stream::{Pipe, Pulled};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MAGIC: [u8; 8] = *b"atollch\n";
/// The first byte of a TLS record of these kinds; the second one is 3.
const TLS_ALERT: u8 = 21;
const TLS_HANDSHAKE: u8 = 22;
/// Changes with the handshake, the frames or the layout of a ring.
pub(crate) const VERSION: u16 = 1;
pub(crate) const HEAD_BYTES: usize = 16;

/// The channel that carries the messages after the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Shm = 1,
    Uds = 2,
    Tcp = 3,
    Tls = 4,
    Rdma = 5,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Shm => "shm",
            Kind::Uds => "uds",
            Kind::Tcp => "tcp",
            Kind::Tls => "tls",
            Kind::Rdma => "rdma",
        }
    }

    /// Whether the handshake runs over TCP.
    pub(crate) fn crosses_machines(self) -> bool {
        matches!(self, Kind::Tcp | Kind::Tls | Kind::Rdma)
    }
}

/// The listener's answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Welcome = 0,
    OtherVersion = 1,
    OtherKind = 2,
    BadHello = 3,
    OtherUser = 4,
    NoFabric = 5,
}

/// The first 16 bytes from either side. The connector sends its kind and the length of its hello,
/// the listener its status and the length of a ring.
pub(crate) struct Head {
    pub version: u16,
    pub what: u8,
    pub bytes: u32,
}

impl Head {
    pub(crate) fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut out = [0; HEAD_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8..10].copy_from_slice(&self.version.to_le_bytes());
        out[10] = self.what;
        out[12..].copy_from_slice(&self.bytes.to_le_bytes());
        out
    }

    pub(crate) fn decode(from: &[u8; HEAD_BYTES]) -> Result<Head, ChannelError> {
        if from[..8] != MAGIC {
            return Err(ChannelError::Protocol {
                what: match from {
                    [TLS_HANDSHAKE, 3, ..] => "it speaks TLS and this end does not; give both ends --tls",
                    [TLS_ALERT, 3, ..] => "it expects TLS and this end sent none; give both ends --tls",
                    _ => "the first bytes are not those of an atoll channel",
                },
            });
        }
        let version = u16::from_le_bytes([from[8], from[9]]);
        Ok(Head {
            version,
            what: from[10],
            bytes: u32::from_le_bytes([from[12], from[13], from[14], from[15]]),
        })
    }
}

/// The time limit of a handshake.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    start: Instant,
    allowed: Duration,
}

impl Deadline {
    pub(crate) fn after(allowed: Duration) -> Deadline {
        Deadline { start: Instant::now(), allowed }
    }

    pub(crate) fn left(&self) -> Option<Duration> {
        self.allowed.checked_sub(self.start.elapsed()).filter(|left| !left.is_zero())
    }

    pub(crate) fn missed(&self, address: &str) -> ChannelError {
        ChannelError::Timeout {
            address: address.to_string(),
            waited_ms: self.start.elapsed().as_millis() as u64,
        }
    }

    /// Waits until the socket is ready for these events.
    fn wait(&self, socket: BorrowedFd<'_>, what: PollFlags) -> Result<(), ChannelError> {
        loop {
            let Some(left) = self.left() else { return Err(self.missed("a peer in its handshake")) };
            let mut fds = [PollFd::from_borrowed_fd(socket, what)];
            match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(other) => return Err(other).doing("waiting for a peer's handshake"),
            }
        }
    }
}

/// The connector's part of the handshake.
pub(crate) fn introduce(
    mut pipe: Pipe,
    kind: Kind,
    hello: &Hello,
    deadline: Deadline,
) -> Result<Link, ChannelError> {
    check_user(&pipe.socket, kind)?;
    let mut first =
        Head { version: VERSION, what: kind as u8, bytes: hello.0.len() as u32 }.encode().to_vec();
    let loose = (kind == Kind::Rdma).then(|| fabric::loose(&pipe.socket)).transpose()?;
    if let Some(loose) = &loose {
        first.extend_from_slice(&loose.card());
    }
    first.extend_from_slice(&hello.0);
    write_all(&mut pipe, &first, deadline)?;
    let (reply, fds) = match kind {
        Kind::Shm => read_reply(&pipe.socket, deadline)?,
        Kind::Uds | Kind::Tcp | Kind::Tls | Kind::Rdma => (read_exactly(&mut pipe, deadline)?, Vec::new()),
    };
    let head = Head::decode(&reply)?;
    check_listener(&head, kind)?;
    match loose {
        Some(loose) => {
            let card = read_exactly(&mut pipe, deadline)?;
            let lane = loose.tie(&card, Side::Caller).map_err(|why| ChannelError::Fabric { why })?;
            Ok(Link::through(pipe, lane))
        }
        None if kind == Kind::Shm => take_rings(pipe.socket, head.bytes as usize, fds),
        None => Ok(Link::over(pipe)),
    }
}

fn check_listener(head: &Head, kind: Kind) -> Result<(), ChannelError> {
    if head.version != VERSION || head.what == Status::OtherVersion as u8 {
        return Err(ChannelError::Version { ours: VERSION, theirs: head.version });
    }
    let what = match head.what {
        s if s == Status::Welcome as u8 => return Ok(()),
        s if s == Status::OtherKind as u8 => {
            return Err(ChannelError::Kind { ours: kind.name(), theirs: 0 });
        }
        s if s == Status::OtherUser as u8 => "the listener belongs to another user and refused",
        s if s == Status::BadHello as u8 => "the listener refused the hello",
        s if s == Status::NoFabric as u8 => "the listener could make no end for RDMA; its messages say why",
        _ => "the listener answered with an unknown status",
    };
    Err(ChannelError::Protocol { what })
}

fn take_rings(socket: OwnedFd, ring_bytes: usize, fds: Vec<OwnedFd>) -> Result<Link, ChannelError> {
    let [memory, theirs, mine]: [OwnedFd; 3] = fds.try_into().map_err(|_| ChannelError::Protocol {
        what: "the listener did not hand over the three descriptors",
    })?;
    let region = Region::received(memory, ring_bytes)?;
    let bells = BellPair { mine: Arc::new(mine), peers: Arc::new(theirs) };
    let (outgoing, incoming) = (region.ring(Which::Second), region.ring(Which::First));
    let link = RingLink::new(outgoing, incoming, bells, Life::Socket(socket));
    Ok(Link::new(Carrier::Ring(Box::new(link))))
}

pub(crate) fn check_user(socket: &OwnedFd, kind: Kind) -> Result<(), ChannelError> {
    if kind.crosses_machines() {
        return Ok(());
    }
    let theirs =
        rustix::net::sockopt::socket_peercred(socket).doing("asking for the peer's user")?.uid.as_raw();
    let ours = rustix::process::geteuid().as_raw();
    if ours == theirs { Ok(()) } else { Err(ChannelError::WrongUser { ours, theirs }) }
}

fn write_all(pipe: &mut Pipe, mut bytes: &[u8], deadline: Deadline) -> Result<(), ChannelError> {
    while !bytes.is_empty() {
        match pipe.push(bytes)? {
            0 => deadline.wait(pipe.socket.as_fd(), PollFlags::OUT)?,
            count => bytes = &bytes[count..],
        }
    }
    Ok(())
}

/// Reads so many bytes of the listener, and none beyond them.
fn read_exactly<const N: usize>(pipe: &mut Pipe, deadline: Deadline) -> Result<[u8; N], ChannelError> {
    let (mut reply, mut filled) = ([0; N], 0);
    while filled < N {
        match pipe.pull(&mut reply[filled..])? {
            Pulled::Some(count) => filled += count,
            // An alert of TLS is shorter than a head.
            Pulled::End if reply[0] == TLS_ALERT => return Ok(reply),
            Pulled::End => return Err(CUT),
            Pulled::Nothing => {
                let rest = if pipe.finish()? { PollFlags::empty() } else { PollFlags::OUT };
                deadline.wait(pipe.socket.as_fd(), PollFlags::IN | rest)?;
            }
        }
    }
    Ok(reply)
}

/// Reads the listener's head with the descriptors that come with it. Reads no byte beyond the head:
/// the next bytes may already belong to a message.
fn read_reply(
    socket: &OwnedFd,
    deadline: Deadline,
) -> Result<([u8; HEAD_BYTES], Vec<OwnedFd>), ChannelError> {
    let (mut reply, mut filled, mut fds) = ([0; HEAD_BYTES], 0, Vec::new());
    while filled < HEAD_BYTES {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        match recvmsg(socket, &mut [IoSliceMut::new(&mut reply[filled..])], &mut control, flags) {
            Ok(read) if read.bytes == 0 => return Err(CUT),
            Ok(read) => {
                filled += read.bytes;
                for message in control.drain() {
                    if let RecvAncillaryMessage::ScmRights(received) = message {
                        fds.extend(received);
                    }
                }
            }
            Err(Errno::AGAIN) => deadline.wait(socket.as_fd(), PollFlags::IN)?,
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Err(CUT),
            Err(other) => return Err(other).doing("reading a handshake"),
        }
    }
    Ok((reply, fds))
}
