//! The drain of the redo that restart has left: workers read the waiting pages between
//! transactions, and a checkpoint reads all of them.

use crate::StoreFault;
use crate::state::store::Store;
use base::PageId;
use latch::Coupled;
use pages::{Renew, Stop};

/// Maximum number of page reads under way for a thread that waits for all of them.
const DEPTH: usize = 512;
/// Maximum number of page reads under way between transactions: enough to keep a device busy, few
/// enough that a transaction's own read does not queue for long.
const BESIDE: usize = 16;

impl Store {
    /// The number of pages that restart has left for redo on first read. Until it is 0 no
    /// checkpoint can be taken, and after a crash the next restart begins where this one began.
    #[inline]
    pub fn redo_left(&self) -> usize {
        self.redo.left()
    }

    /// Starts reads of pages that wait for redo and that no transaction has asked for, in the order
    /// of the file, unless enough reads are under way. Never waits. Returns `true` if a read has
    /// begun. For workers between transactions, which also call [`pages::Pool::turn`]. Costs one
    /// load once nothing is left.
    #[inline]
    pub fn redo_some(&self) -> bool {
        self.redo.left() > 0 && self.redo_beside()
    }

    #[cold]
    fn redo_beside(&self) -> bool {
        let most = BESIDE.saturating_sub(self.pool.reading());
        // If no frame is free, the page is skipped. The checkpoint waits for frames and reads it
        // later.
        self.pool.prefetch_all(&self.redo.next(most)) > 0
    }

    /// Brings every page up to date. Blocks while transactions go on. If pages have an owner, only
    /// the owner may call this. A checkpoint calls it first.
    ///
    /// # Errors
    /// A page that cannot be read or does not fit its records. The store is then poisoned.
    pub fn finish_redo(&self) -> Result<(), StoreFault> {
        let depth = DEPTH.min(self.pool.frames() / 8).max(1);
        let (mut now, mut ahead) = (Vec::new(), self.redo.next(depth));
        while !(now.is_empty() && ahead.is_empty()) {
            self.pool.prefetch_all(&ahead);
            now.drain(..).try_for_each(|page| self.repeat_now(page))?;
            now = std::mem::replace(&mut ahead, self.redo.next(depth));
        }
        // Other threads may be reading some pages, or may have met a fault.
        while self.redo.left() > 0 {
            self.redo.rest().into_iter().try_for_each(|page| self.repeat_now(page))?;
        }
        Ok(())
    }

    /// Reads page `id`. If the page was in memory before its records were known, which happens with
    /// a log too long for one portion, brings it up to date in place.
    fn repeat_now(&self, id: PageId) -> Result<(), StoreFault> {
        while self.redo.waits(id) {
            self.load_page(id)?;
            match self.pool.exclusive::<Coupled>(id) {
                Ok(mut page) => {
                    self.redo.renew(id, &mut page).map_err(|why| self.unreadable(why))?;
                    self.redo.renewed(id);
                }
                Err(Stop::Fault(why)) => return Err(self.unreadable((*why).clone())),
                Err(_) => std::thread::yield_now(),
            }
        }
        Ok(())
    }
}
