//! Bringing a page up to date when it is read in: what a restart has to repeat on a page can wait until somebody wants
//! the page.
//!
//! The layer above gives the pool its decision once, as a value ([`Renew`]). Who reads a page has it to itself from
//! before the read to after the renewal, so nobody ever sees it as it was. A page that was changed enters memory dirty,
//! and only then is the layer above told that it is done ([`Renew::renewed`]): a checkpoint that finds nothing left to
//! renew finds the pages among the dirty ones.

use crate::fault::PageFault;
use crate::page::Page;
use base::PageId;

/// What became of a page that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Renewed {
    AsItWas,
    /// It is to be written, even if its bytes are what they were.
    Changed,
}

/// What has to be done to pages as they are read into memory.
///
/// Called by whatever thread takes a read's end, for several pages at once by several threads, for one page by one.
/// Neither method may touch the pool.
pub trait Renew: Send + Sync {
    /// Brings page `id` up to date, whose bytes were just read. May be called again for the same page.
    ///
    /// # Errors
    /// The page cannot be brought up to date; it stays absent, and whoever waits for it is told.
    fn renew(&self, id: PageId, page: &mut Page) -> Result<Renewed, PageFault>;

    /// Page `id` is in memory as [`Renew::renew`] left it, or was given out as a new page: nothing is to be done to it any more.
    fn renewed(&self, id: PageId);
}
