//! How a design protects its pages. The access methods are generic over this policy, so each is
//! written once.

use crate::{Owner, PageChange, PageLatch, Refused};

/// The protection of a page while it is read or changed.
///
/// `shared` and `exclusive` return the page's version and must be paired with their unlock, on the
/// same policy. Unless a policy says otherwise, they take the page's latch, by one atomic
/// read-modify-write each.
pub trait LatchPolicy: Copy + Send + Sync + 'static {
    /// The name used in reports.
    const NAME: &'static str;
    /// Whether other threads may touch the same pages.
    const LATCHED: bool;
    /// Whether a reader may look at pages that it does not hold. With `LATCHED` it validates the
    /// version afterwards; without, it is the only thread that uses the pages.
    const VIEWS: bool;

    /// # Errors
    /// See [`Refused`].
    #[inline]
    fn shared(latch: &PageLatch, _owner: &Owner) -> Result<u64, Refused> {
        latch.shared()
    }
    #[inline]
    fn unlock_shared(latch: &PageLatch) {
        latch.unlock_shared();
    }
    /// # Errors
    /// See [`Refused`].
    #[inline]
    fn exclusive(latch: &PageLatch, _owner: &Owner) -> Result<u64, Refused> {
        latch.exclusive()
    }
    #[inline]
    fn unlock_exclusive(latch: &PageLatch, change: PageChange) {
        latch.unlock_exclusive(change);
    }
    /// Whether this page, which is held or about to be, counts as latched in statistics.
    #[inline(always)]
    fn latches(_latch: &PageLatch) -> bool {
        Self::LATCHED
    }
}

/// The protection of each kind of a table's pages. A single policy is one for all kinds.
pub trait Policies: Copy + Send + Sync + 'static {
    /// The primary tree.
    type Index: LatchPolicy;
    /// Secondary trees.
    type Secondary: LatchPolicy;
    /// Rows, and the catalog.
    type Heap: LatchPolicy;
}

impl<L: LatchPolicy> Policies for L {
    type Index = L;
    type Secondary = L;
    type Heap = L;
}

/// Shared and exclusive latches, for readers too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coupled;

impl LatchPolicy for Coupled {
    const NAME: &'static str = "coupled";
    const LATCHED: bool = true;
    const VIEWS: bool = false;
}

/// Readers take no latch where they can. They read, and compare the version before and after, so
/// reading writes to no shared memory. A thread that changes a page, or must keep it from changing,
/// latches it as under [`Coupled`]; the two policies may be mixed on the same pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Optimistic;

impl LatchPolicy for Optimistic {
    const NAME: &'static str = "optimistic";
    const LATCHED: bool = true;
    const VIEWS: bool = true;
}

/// Only one thread uses the pages, so none is latched. Holds are still counted, by plain stores,
/// because that thread may have to evict a page while it reads another one: the hold protects the
/// page it reads.
///
/// The design guarantees that there is only one thread (its serial worker claims the [`Owner`]).
/// Debug builds check it at every latch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owned;

impl LatchPolicy for Owned {
    const NAME: &'static str = "owned";
    const LATCHED: bool = false;
    const VIEWS: bool = true;

    #[inline]
    fn shared(latch: &PageLatch, owner: &Owner) -> Result<u64, Refused> {
        owner.check();
        latch.owned_shared()
    }
    #[inline]
    fn unlock_shared(latch: &PageLatch) {
        latch.owned_unlock_shared();
    }
    #[inline]
    fn exclusive(latch: &PageLatch, owner: &Owner) -> Result<u64, Refused> {
        owner.check();
        latch.owned_exclusive()
    }
    #[inline]
    fn unlock_exclusive(latch: &PageLatch, change: PageChange) {
        latch.owned_unlock_exclusive(change);
    }
}

/// Each page's word decides. A page without an owner is protected as under [`Optimistic`]. A page
/// of the calling thread's owner ([`act_for`](crate::act_for)) is not latched, as under [`Owned`].
/// A page of another owner is refused. So one compiled copy of the access methods serves all
/// designs that divide pages among owners, however they divide them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByPage;

impl LatchPolicy for ByPage {
    const NAME: &'static str = "by-page";
    const LATCHED: bool = true;
    const VIEWS: bool = true;

    #[inline]
    fn shared(latch: &PageLatch, _owner: &Owner) -> Result<u64, Refused> {
        latch.by_page_shared()
    }
    #[inline]
    fn unlock_shared(latch: &PageLatch) {
        latch.by_page_unlock_shared();
    }
    #[inline]
    fn exclusive(latch: &PageLatch, _owner: &Owner) -> Result<u64, Refused> {
        latch.by_page_exclusive()
    }
    #[inline]
    fn unlock_exclusive(latch: &PageLatch, change: PageChange) {
        latch.by_page_unlock_exclusive(change);
    }
    #[inline(always)]
    fn latches(latch: &PageLatch) -> bool {
        !latch.is_mine()
    }
}
