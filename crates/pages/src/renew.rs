//! Bringing a page up to date when it is read in, so that a restart can postpone redo of a page
//! until a transaction needs the page.
//!
//! The layer above gives the pool a callback once ([`Renew`]). The thread that reads a page has
//! exclusive use of it from before the read until after the callback, so no other thread sees the
//! old contents. A page that was changed enters memory dirty. Only then is the layer above told
//! that the page is done ([`Renew::renewed`]). So when a checkpoint finds no page left to renew,
//! all renewed pages are among the dirty ones.

use crate::fault::PageFault;
use crate::page::Page;
use base::PageId;

/// The result of bringing a page up to date.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Renewed {
    AsItWas,
    /// It must be written, even if its bytes are the same as before.
    Changed,
}

/// The work to be done on pages as they are read into memory.
///
/// Called by any thread that takes completed reads: for different pages by several threads at once,
/// for one page by one thread at a time. Neither method may use the pool.
pub trait Renew: Send + Sync {
    /// Brings page `id`, which was just read, up to date. May be called again for the same page.
    ///
    /// # Errors
    /// The page cannot be brought up to date. It stays absent, and all waiters get the error.
    fn renew(&self, id: PageId, page: &mut Page) -> Result<Renewed, PageFault>;

    /// Page `id` is in memory as [`Renew::renew`] left it, or was given out as a new page. No work
    /// is left for it.
    fn renewed(&self, id: PageId);
}
