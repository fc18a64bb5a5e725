//! RDMA for `channel`: a reliable connection of queue pairs as a stream of bytes.
//!
//! ```text
//!   Verbs (the fabric) --end(address)--> Loose: a queue pair with its buffers posted, and a Card
//!        the cards change places over TCP
//!   Loose --tie(card)--> Tied (the lane): push, pull, arm
//! ```
//!
//! Each end posts [`BUFFERS`](credits::BUFFERS) receive buffers for data. A push copies bytes into
//! a free send buffer and posts a send; a pull copies out of the receive buffers that are full, and
//! posts them again. [`Credits`] keeps a sender from sending more than the other end has posted
//! buffers for, so no queue runs empty, and nothing is refused and sent again.
//!
//! **Why sends, and not writes into a ring in the peer's memory?** A peer that may write needs a
//! key to memory of this process, and the reader would rest on the order in which words of a write
//! land. The way in which a ring's reader says that it sleeps is a fence of both processors, which
//! no write over a network takes part in. A send arrives in a buffer that was posted for it, with
//! its length, and wakes a sleeper. An empty look costs no system call in either way.
//!
//! **Does not know** messages: `channel` makes them from bytes.
//!
//! The feature `verbs` has the part with devices. Without it the crate depends on no C library.

pub mod card;
pub mod credits;

#[cfg(feature = "verbs")]
mod device;
#[cfg(feature = "verbs")]
mod end;
#[cfg(feature = "verbs")]
mod lane;
#[cfg(feature = "verbs")]
mod loose;
#[cfg(feature = "verbs")]
mod pages;
#[cfg(feature = "verbs")]
mod port;

pub use card::{Card, CardError};
pub use credits::Credits;

/// From now on `channel` has RDMA in this process. Devices are looked for when an address needs
/// one.
#[cfg(feature = "verbs")]
pub fn provide() {
    channel::fabric::provide(Box::new(device::Verbs::default()));
}
