//! Pages, and the buffer pool that keeps some of them in memory.
//!
//! The pool is one large reserved range of addresses. The bytes of page P have a fixed place in it,
//! whether the page is in memory or not. The latch and state of P are one word in an array beside
//! it. So reaching a page is arithmetic, and freeing its memory is one `madvise` (the idea is
//! vmcache's: Leis et al., SIGMOD 2023).
//!
//! **How a request enters.** By [`Pool::view`] (read without a latch, validate afterwards),
//! [`Pool::shared`], [`Pool::exclusive`] or [`Pool::fresh`], all generic over the latch policy.
//! None of them waits for I/O to read a page: for an absent page they return
//! `Err(Stop::Page(pid))`. The caller undoes nothing, because nothing was changed, waits for the
//! page ([`Pool::wait_for`], a future; [`Pool::load`] blocks), and calls again. A thread that polls
//! such futures must call [`Pool::turn`] regularly, which takes completed reads.
//!
//! **Eviction and writing.** Loading a page may evict unused pages. Dirty pages are written before
//! they are evicted, never ahead of the log, and through the doublewrite area, so that a write torn
//! by a crash can be repaired.
//!
//! The pool lists dirty pages and copies them for writing ([`Pool::dirty_pages`], [`Pool::clean`]);
//! the design chooses the thread that cleans. Writing has two parts, because pages may have an
//! owner. A thread that may touch the pages copies them into a batch, and later marks them as
//! written ([`Pool::tend`], [`Pool::step_write_back`]). Between the two, any thread writes the
//! batch and waits for the device ([`Pool::serve`], [`Pool::write_out`]). Pages may also have
//! several owners ([`Pool::own`]): each owner handles requests for its own pages when it calls
//! [`Pool::turn`].
//!
//! **Restart.** Redo of a page happens when the page is read, by a callback from the layer above
//! ([`Pool::renew_by`]). [`Pool::prefetch`] reads a page that no thread waits for yet;
//! [`Pool::prefetch_all`] reads neighbouring pages together.
//!
//! The pool does not know the contents of a page after its header, the contents of log records, or
//! transactions.

mod allocator;
mod batch;
mod data_file;
mod doublewrite;
mod fault;
mod page;
mod pool;
mod region;
mod renew;
mod replacement;
mod scan;
mod slots;
mod view;

pub use allocator::AllocatorState;
pub use fault::{PageFault, Stop};
pub use latch::{ByPage, Coupled, LatchPolicy, Optimistic, Owned, Policies};
pub use page::{PAGE_HEADER, PAGE_SIZE, Page};
pub use pool::evict::Tending;
pub use pool::guard::{PageMut, PageRef};
pub use pool::load::PageWait;
pub use pool::seats::{Seat, SeatWait};
pub use pool::write::{Progress, WriteBack};
pub use pool::{Latching, Pool, PoolMeans, PoolOptions, PoolStats};
pub use renew::{Renew, Renewed};
pub use scan::{Found, scan};
pub use view::{PageView, Racing};

#[cfg(test)]
mod owner_tests;
#[cfg(test)]
mod small_pool_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod waiting_tests;
