//! RDMA: the traits of the verbs, which this crate does not know.
//!
//! A [`Fabric`] makes one [`LooseEnd`] for each connection at an address [`Address::Rdma`]. The two
//! ends exchange cards over the TCP connection of the handshake; each ties itself to the other's
//! card and becomes a [`Lane`]. The lane carries the bytes. The TCP connection stays open and
//! silent: its end tells that the peer is gone.
//!
//! The fabric is one for the process: its devices are. A program that was built with one
//! [provides](provide) it before it binds or connects.
//!
//! [`Address::Rdma`]: crate::Address::Rdma

use crate::error::{ChannelError, Doing};
use rustix::net::getsockname;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

/// The length of a [card](LooseEnd::card).
pub const CARD_BYTES: usize = 40;

/// The sizes of a card and of its check belong to the fabric; this crate only passes cards on.
pub type Card = [u8; CARD_BYTES];

/// Makes the ends of connections. Any thread may use it.
pub trait Fabric: Send + Sync {
    /// Whether connections can be made at this address of the machine.
    ///
    /// # Errors
    /// There is no device for it; the expectation, and the way out.
    fn check(&self, at: IpAddr) -> Result<(), String>;

    /// A new end at this address, ready to receive as soon as the peer knows its card.
    ///
    /// # Errors
    /// There is no device for the address, or the system refuses a resource.
    fn end(&self, at: IpAddr) -> Result<Box<dyn LooseEnd>, String>;
}

/// Which end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Ties itself last, and sends first.
    Caller,
    /// Ties itself first. It sends nothing before it has heard of the caller: the caller may not be
    /// tied yet.
    Listener,
}

/// One end that does not know its peer.
pub trait LooseEnd: Send {
    /// The facts of this end that the peer needs.
    fn card(&self) -> Card;

    /// # Errors
    /// The peer's card makes no sense, or the device refuses it.
    fn tie(self: Box<Self>, peer: &Card, side: Side) -> Result<Arc<dyn Lane>, String>;
}

/// One end of a connection: a stream of bytes each way. One thread at a time uses it. No method but
/// [`Lane::close`] blocks.
pub trait Lane: Send + Sync {
    /// Passes bytes on; returns how many it took, 0 without room.
    ///
    /// # Errors
    /// Why the connection has ended.
    fn push(&self, bytes: &[u8]) -> Result<usize, String>;

    /// Moves bytes that have arrived into `space`; returns how many.
    ///
    /// # Errors
    /// Why the connection has ended, after all bytes that had arrived before.
    fn pull(&self, space: &mut [u8]) -> Result<usize, String>;

    /// Whether [`Lane::pull`] has bytes or an end to report.
    fn has_bytes(&self) -> bool;

    /// Whether [`Lane::push`] has room or an end to report.
    fn has_room(&self) -> bool;

    /// Makes the next event readable at the descriptor. Bytes that came before must be looked for
    /// with [`Lane::stirred`].
    fn arm(&self);

    /// Whether anything has come since [`Lane::arm`]. After `true` no event may follow.
    fn stirred(&self) -> bool;

    /// For an epoll set that is edge-triggered.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Waits a short time until the peer's device has the bytes that were pushed.
    fn close(&self);
}

static FABRIC: OnceLock<Box<dyn Fabric>> = OnceLock::new();

/// From now on this process has RDMA. A second fabric is ignored.
pub fn provide(fabric: Box<dyn Fabric>) {
    let _ = FABRIC.set(fabric);
}

/// Whether this process can listen by RDMA at an address.
///
/// # Errors
/// [`ChannelError::NoFabric`] in a build without RDMA; [`ChannelError::Fabric`] without a device.
pub fn check(at: IpAddr) -> Result<(), ChannelError> {
    provided()?.check(at).map_err(|why| ChannelError::Fabric { why })
}

fn provided() -> Result<&'static dyn Fabric, ChannelError> {
    FABRIC.get().map(|fabric| &**fabric).ok_or(ChannelError::NoFabric)
}

/// A new end at this end's address of a connected TCP socket.
pub(crate) fn loose(socket: &OwnedFd) -> Result<Box<dyn LooseEnd>, ChannelError> {
    let fabric = provided()?;
    let here = getsockname(socket).doing("asking for this end's TCP address")?;
    let here = SocketAddr::try_from(here).doing("asking for this end's TCP address")?;
    fabric.end(here.ip()).map_err(|why| ChannelError::Fabric { why })
}
