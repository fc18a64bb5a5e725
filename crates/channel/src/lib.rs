//! Links between workers, over the channel that fits the distance of their islands.
//!
//! A *link* is a duplex, ordered, message-framed connection. Exactly one worker thread owns each
//! end, and no call on a link blocks. Five channels can carry it, and the deployment chooses: rings
//! in sealed shared memory between processes (`shm`), unix sockets (`uds`), TCP (`tcp`), RDMA
//! (`rdma`), and rings between threads of one process (`ring`). Between machines, TCP may be sealed
//! (`tls`): the encryption is passed in as a [`Guard`]. The verbs of RDMA are passed in as a
//! [`fabric`].
//!
//! **In and out.** An instance binds a [`Listener`] and accepts links, each with the [`Hello`] in
//! which the caller named itself; another instance calls [`connect`]. The worker that owns a link
//! receives messages from it, sends replies, flushes once per turn of its loop, and sleeps in its
//! [`Parker`] when there is nothing to do. Another thread that puts work into the worker's mailbox
//! wakes the worker with its [`Unparker`].
//!
//! **Does not know** the meaning of a message, the identity of the peers, or which worker runs
//! where. A link that ends reports its end; whether to connect again is the owner's decision.
//!
//! **Trust.** Unix sockets and shared memory are private to the user, and the peer's user is
//! checked. All data from a peer, in a frame or in the shared memory itself, is checked before it
//! is used; the worst outcome is [`Closed::Corrupt`].

mod address;
mod error;
mod guard;

mod answer;
mod handshake;
mod hello;
mod listener;
mod lobby;
mod registry;

mod link;
mod ring_link;
mod stream;
mod stream_link;

pub mod fabric;
mod fabric_link;
mod frames;

mod region;
mod ring;

mod parker;

pub mod lodging;

pub mod ipc;

pub use address::Address;
pub use error::{ChannelError, Closed, SendError};
pub use guard::{Guard, Guarding, Role, Session};
pub use hello::Hello;
pub use link::{Counts, Link};
pub use listener::{Listener, Stopper, connect, connect_guarded};
pub use parker::{Doze, Parked, Parker, Unparker};
pub use registry::pair;

/// The longest message on any channel, in bytes.
pub const MOST_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// The most bytes that a link keeps in this process' memory for a peer that does not read.
pub const MOST_HELD_BYTES: usize = 64 * 1024 * 1024;
