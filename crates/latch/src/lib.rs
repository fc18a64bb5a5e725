//! Latches: short physical protection of memory, as opposed to locks, which isolate transactions.
//!
//! - [`PageLatch`] is one 64-bit word per page: version, exclusive and shared latch, and where the page is.
//! - [`LatchPolicy`] is how a design touches pages: [`Coupled`] latches them, [`Optimistic`] lets readers read without
//!   a latch and validate a version, [`Owned`] relies on one thread owning them all and pays no atomic
//!   read-modify-write, [`ByPage`] does the one or the other as the page says. [`Policies`] names one for each kind of page.
//! - [`OwnerId`] is one of several among whom pages are divided; a thread says for whom it acts ([`act_for`]).
//! - [`SpinMutex`] protects small structures for tens of nanoseconds; [`RawMutex`] is the same choice as a type
//!   parameter, [`SpinRaw`] or [`NoMutex`].
//! - [`ring`] is a queue from one thread to one other.
//! - [`Waiters`] are the tasks and threads that wait for somebody's progress, and [`Pace`] says when what serves many of them
//!   at once is to begin: a group commit's two halves.
//! - [`prefetch`] asks for memory before it is needed. [`CachePadded`] keeps two hot words off one cache line.
//!
//! Nothing here knows what a page holds or who transacts. Waiting for a latch is spinning, then yielding, then short sleeps:
//! it is held for less than a microsecond, so a queue of waiters would cost more than it saves.

mod acting;
mod backoff;
mod construct;
mod owner;
mod pace;
mod padded;
mod page_latch;
mod policy;
mod prefetch;
mod ring;
mod spin;
mod sync;
mod waiters;

pub use acting::{OwnerId, act_for, acting_for};
pub use backoff::{Backoff, GaveUp};
pub use owner::Owner;
pub use pace::Pace;
pub use padded::CachePadded;
pub use page_latch::{Change, Glimpse, PageLatch, Refused, Seen};
pub use policy::{ByPage, Coupled, LatchPolicy, Optimistic, Owned, Policies};
pub use prefetch::{LINE, prefetch};
pub use ring::{Consumer, Producer, ring};
pub use spin::{NoMutex, RawMutex, SpinGuard, SpinMutex, SpinRaw, ThreadBound};
pub use waiters::Waiters;

#[cfg(test)]
mod models;
#[cfg(test)]
mod stress;
