//! A whole tree coming to one owner of pages, or back to nobody.
//!
//! Who takes a tree over or gives it up sees to it that nobody else is at work on it. What the tree grows by meanwhile is its
//! owner's by itself: a page that is split off an owned one is owned, one that is freed is nobody's.

use super::BTree;
use crate::removal::{Below, pages_below};
use base::PageId;
use latch::ByPage;
use pages::{PageFault, Stop};

impl BTree<'_> {
    /// Every page becomes the property of the owner for whom the calling thread acts; gives their number. Reads inner nodes only.
    /// May be called again after an error.
    ///
    /// # Errors
    /// [`Stop`]: some pages are owned already.
    pub fn own_pages(&self) -> Result<usize, Stop> {
        self.pool.own(self.root)?;
        let pages = self.all_pages(|page| self.pool.own(page))?;
        Ok(pages.len())
    }

    /// Every page becomes nobody's; gives their number. The calling thread acts for the tree's owner. May be called again
    /// after an error.
    ///
    /// # Errors
    /// [`Stop`]: nothing or everything above some pages is as it was.
    pub fn disown_pages(&self) -> Result<usize, Stop> {
        let pages = self.all_pages(|_| Ok(()))?;
        // The lowest first, so that what is left after an error still leads to all that is owned.
        pages.iter().rev().try_for_each(|&page| self.pool.disown(page))?;
        Ok(pages.len())
    }

    /// The tree's pages, each behind the one that leads to it; `met` sees each before it is read, and leaves are not.
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
