//! Page ownership of a whole tree: an owner takes all its pages, or gives them up.
//!
//! The caller makes sure that no other thread uses the tree during the call. Later changes keep the
//! ownership up to date: a page that is split off an owned page is owned, and a freed page has no
//! owner.

use super::BTree;
use crate::removal::{Below, pages_below};
use base::PageId;
use latch::ByPage;
use pages::{PageFault, Stop};

impl BTree<'_> {
    /// Gives every page to the owner that the calling thread acts for; returns the number of pages.
    /// Reads inner nodes only. May be called again after an error.
    ///
    /// # Errors
    /// [`Stop`]: some pages are owned already.
    pub fn own_pages(&self) -> Result<usize, Stop> {
        self.pool.own(self.root)?;
        let pages = self.all_pages(|page| self.pool.own(page))?;
        Ok(pages.len())
    }

    /// Takes the owner from every page; returns the number of pages. The calling thread acts for
    /// the tree's owner. May be called again after an error.
    ///
    /// # Errors
    /// [`Stop`]: some pages may have lost their owner; then all pages below them have lost it too.
    pub fn disown_pages(&self) -> Result<usize, Stop> {
        let pages = self.all_pages(|_| Ok(()))?;
        // The lowest pages first: after an error, the pages that are still owned lead to all others
        // that are.
        pages.iter().rev().try_for_each(|&page| self.pool.disown(page))?;
        Ok(pages.len())
    }

    /// The pages of the tree, each after the page that leads to it. `met` is called for each page
    /// before the page is read; leaves are not read.
    fn all_pages(&self, met: impl Fn(PageId) -> Result<(), Stop>) -> Result<Vec<PageId>, Stop> {
        let (mut all, mut level) = (vec![self.root], vec![self.root]);
        while !level.is_empty() {
            let (mut nodes, mut leaves) = (Vec::new(), Vec::new());
            for page in level {
                match pages_below::<ByPage>(self.pool, self.id, page)? {
                    Below::More(below) => nodes.extend(below),
                    Below::Last(below) => leaves.extend(below),
                    Below::Rows(_) | Below::Foreign => {
                        return Err(Stop::Fault(PageFault::Malformed { page }.into()));
                    }
                }
            }
            nodes.iter().chain(&leaves).try_for_each(|&page| met(page))?;
            all.extend(nodes.iter().chain(&leaves));
            level = nodes;
        }
        Ok(all)
    }
}
