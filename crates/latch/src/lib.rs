//! Latches: short physical protection of memory, as opposed to locks, which isolate transactions.
//!
//! - [`PageLatch`] is one 64-bit word per page: version, exclusive and shared latch, owner and
//!   state.
//! - [`LatchPolicy`] is the way in which a design protects pages. [`Coupled`] latches them.
//!   [`Optimistic`] lets readers read without a latch and validate a version. [`Owned`] relies on
//!   one thread that owns all pages, and needs no atomic read-modify-write. [`ByPage`] chooses
//!   between the last two for each page. [`Policies`] names one policy for each kind of page.
//! - [`OwnerId`] is one of several owners among which pages are divided. A thread declares for
//!   which one it acts ([`act_for`]).
//! - [`SpinMutex`] protects small structures for tens of nanoseconds. [`RawMutex`] is mutual
//!   exclusion as a type parameter: [`SpinRaw`], [`ThreadBound`] or [`NoMutex`].
//! - [`Rank`] is the order in which a thread may take latches, which debug builds check
//!   ([`RankedMutex`], [`Held`]).
//! - [`ring`] is a queue from one thread to one other. [`Mesh`] is such queues between each two of
//!   several threads.
//! - [`Waiters`] are the tasks and threads that wait for progress of another thread. [`Pace`]
//!   decides when to begin work that serves many of them at once. The two are the halves of a group
//!   commit.
//! - [`prefetch`] fetches memory before it is needed. [`CachePadded`] keeps two hot words off one
//!   cache line.
//!
//! This crate does not know the contents of pages, or transactions. A thread that waits for a latch
//! spins, then yields, then sleeps shortly. A latch is held for less than a microsecond, so a queue
//! of waiters would cost more than it saves.

mod acting;
mod backoff;
mod construct;
mod mesh;
mod owner;
mod owner_id;
mod pace;
mod padded;
mod page_latch;
mod policy;
mod prefetch;
mod rank;
mod ring;
mod spin;
mod sync;
mod waiters;

pub use acting::{Claiming, act_for, acting_for, claim, is_claiming};
pub use backoff::{Backoff, GaveUp};
pub use mesh::{Ends, Mesh, Outgoing};
pub use owner::Owner;
pub use owner_id::OwnerId;
pub use pace::Pace;
pub use padded::CachePadded;
pub use page_latch::{Glimpse, PageChange, PageLatch, Refused, Seen};
pub use policy::{ByPage, Coupled, LatchPolicy, Optimistic, Owned, Policies};
pub use prefetch::{LINE, prefetch};
pub use rank::{Held, Rank, RankTag, RankedGuard, RankedMutex, TreePlace, assert_none_held};
pub use ring::{Consumer, Producer, ring};
pub use spin::{NoMutex, RawMutex, SpinGuard, SpinMutex, SpinRaw, ThreadBound};
pub use waiters::Waiters;

#[cfg(test)]
mod models;
#[cfg(test)]
mod stress;
