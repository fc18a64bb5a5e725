//! Pages and the buffer pool that keeps some of them in memory.
//!
//! The pool is one large reserved region of addresses: page P's bytes lie at a fixed place in it whether they are
//! in memory or not, and P's latch and state are one word in an array beside it. So reaching a page is arithmetic,
//! and giving its memory back is one `madvise` (the idea is vmcache's: Leis et al., SIGMOD 2023).
//!
//! A request enters by [`Pool::view`] (look without holding, validate afterwards), [`Pool::shared`],
//! [`Pool::exclusive`] or [`Pool::fresh`], generic over the latch policy. It
//! never waits for I/O: an absent page is `Err(Stop::Page(pid))`, the caller leaves everything as it was, waits for
//! the page ([`Pool::wait_for`], a future; [`Pool::load`] blocks), and comes again. Whoever runs such futures calls
//! [`Pool::turn`] now and then, which takes the reads that have ended. Loading may evict: unused pages leave, dirty ones
//! are written before, never ahead of the log, and through the doublewrite area, so that a write torn by a crash can be
//! repaired.
//!
//! Dirty pages are offered ([`Pool::dirty_pages`], [`Pool::clean`]); who cleans is the design's choice. Writing is cut in
//! two, because pages may have an owner: who may touch them copies them into a batch and later learns that it was
//! written ([`Pool::tend`], [`Pool::step_write_back`]); any thread does the waiting for the device between
//! ([`Pool::serve`], [`Pool::write_out`]). Pages may also be divided among several owners ([`Pool::own`]): each does what is
//! asked of its pages in its turn.
//!
//! What a restart has to repeat on a page is repeated when the page is read in, by what the layer above has given the
//! pool for that ([`Pool::renew_by`]); [`Pool::prefetch`] has pages read that nobody waits for, [`Pool::prefetch_all`]
//! neighbours together.
//!
//! What it does not know: what is in a page behind its header, what the log's records say, transactions.

mod allocator;
mod batch;
mod data_file;
mod doublewrite;
mod evict;
mod fault;
mod guard;
mod load;
mod offers;
mod page;
mod pool;
mod region;
mod renew;
mod replacement;
mod run;
mod scan;
mod seats;
mod slots;
mod view;
mod write;

pub use allocator::AllocatorState;
pub use evict::Tending;
pub use fault::{PageFault, Stop};
pub use guard::{PageMut, PageRef};
pub use latch::{ByPage, Coupled, LatchPolicy, Optimistic, Owned, Policies};
pub use load::PageWait;
pub use page::{PAGE_HEADER, PAGE_SIZE, Page};
pub use pool::{Latching, Pool, PoolMeans, PoolOptions, PoolStats};
pub use renew::{Renew, Renewed};
pub use scan::{Found, scan};
pub use seats::{Seat, SeatWait};
pub use view::{PageView, Racing};
pub use write::{Progress, WriteBack};

#[cfg(test)]
mod owner_tests;
#[cfg(test)]
mod small_pool_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod waiting_tests;
