//! Reading neighbouring pages with one read, so that the kernel's cost of a read is paid once for a
//! run of pages.
//!
//! Neighbours in the file are neighbours in memory, so a run is one range in both. Each page of a
//! run has its own entry in the table of reads: it is joined, checked, brought up to date and
//! published separately. A run that cannot be read is read again page by page, so that a failure is
//! reported for the bad page only.

use crate::data_file::offset;
use crate::page::PAGE_SIZE;
use crate::pool::Pool;
use crate::pool::load::{Entry, Load, token};
use base::PageId;
use std::ops::Range;
use std::sync::Arc;

/// Pages of the longest run, 256 KiB. Longer runs cost hardly less per page, and a transaction that
/// needs one of the pages would wait longer.
const LONGEST: u32 = 32;

impl Pool {
    /// Begins to read the absent ones of `pages`, which are in ascending order, neighbours
    /// together, for a caller that will need them soon. Returns the number of pages of which a read
    /// began: none if no frame is free.
    pub fn prefetch_all(&self, pages: &[PageId]) -> usize {
        let (mut begun, mut run) = (0, 0..0u32);
        for &id in pages {
            let joins = id.0 == run.end && run.len() < LONGEST as usize;
            if !joins {
                self.read_run(std::mem::replace(&mut run, id.0..id.0));
            }
            if self.check(id).is_ok() && self.enter(id) {
                run.end = id.0 + 1;
                begun += 1;
            } else {
                self.read_run(std::mem::replace(&mut run, 0..0));
            }
        }
        self.read_run(run);
        begun
    }

    /// Enters page `id` into the table of reads if it is absent and a frame is free. The caller
    /// must begin the read.
    fn enter(&self, id: PageId) -> bool {
        let mut table = self.loads.table.lock();
        if self.latch(id).look().resident() || table.contains_key(&id.0) {
            return false;
        }
        let Some(slot) = self.slots.take() else { return false };
        if !self.latch(id).begin_load() {
            self.slots.give(slot);
            return false;
        }
        if self.slots.free() < self.reserve_frames() {
            self.writer.frames_are_short();
        }
        table.insert(id.0, Entry { load: Arc::<Load>::default(), slot, waiters: Vec::new() });
        true
    }

    /// Begins to read pages that were entered.
    pub(crate) fn read_run(&self, pages: Range<u32>) {
        if pages.is_empty() {
            return;
        }
        let (first, bytes) = (PageId(pages.start), pages.len() * PAGE_SIZE);
        let start = self.page(first).as_ptr().cast::<u8>();
        let token = token(&pages);
        // SAFETY: the pages lie side by side in the pool's range. Each belongs to its entry alone
        // (the entry won its load) until `ended` takes the completed read. The pool waits for the
        // queue before it frees its memory. Pages are aligned as devices require.
        unsafe { self.loads.queue.read(&self.writer.data.file, start, bytes, offset(first), token) };
    }
}

#[cfg(test)]
mod tests {
    use crate::Coupled;
    use crate::tests::{DATA, FRAMES, fill, get, log, open};
    use crate::{PAGE_SIZE, Pool, PoolOptions};
    use base::PageId;
    use std::io::ErrorKind;
    use std::path::Path;
    use std::sync::{Arc, Mutex};
    use wal::Durability;
    use world::{Deed, Files, Intervention, memory, watched};

    /// A database of which no page is in memory, and the lengths of its reads in pages. `verdict`
    /// decides the result of each read.
    fn reopened(
        verdict: impl Fn(u64, usize) -> Intervention + Send + Sync + 'static,
    ) -> (Pool, Arc<Mutex<Vec<usize>>>) {
        let (reads, files) = (Arc::<Mutex<Vec<usize>>>::default(), memory());
        let first = open(&files, Durability::Sync);
        fill(&first);
        first.write_back().unwrap();
        drop(first);
        let seen = reads.clone();
        let files: Arc<dyn Files> = watched(files, move |path, deed| match deed {
            Deed::Read { offset, bytes } if path == Path::new(DATA) && offset > 0 => {
                seen.lock().unwrap().push(bytes / PAGE_SIZE);
                verdict(offset, bytes)
            }
            _ => Intervention::Do,
        });
        let options = PoolOptions { max_pages: 1000, ..PoolOptions::new(FRAMES) };
        let pool =
            Pool::open(files.clone(), Path::new(DATA), options, log(&files, Durability::Sync)).unwrap();
        reads.lock().unwrap().clear();
        (pool, reads)
    }

    fn arrive(pool: &Pool) {
        while pool.reading() > 0 {
            pool.turn();
            std::thread::yield_now();
        }
    }

    #[test]
    fn neighbours_are_read_together() {
        let (pool, reads) = reopened(|_, _| Intervention::Do);
        pool.load(PageId(4)).unwrap();
        let pages = [1, 2, 3, 4, 5, 6, 9].map(PageId);
        assert_eq!(pool.prefetch_all(&pages), 6, "all but the one that is there");
        assert_eq!(pool.prefetch_all(&pages), 0, "they are being read, or there");
        arrive(&pool);
        let mut lengths = std::mem::take(&mut *reads.lock().unwrap());
        lengths.sort_unstable();
        assert_eq!(lengths, [1, 1, 2, 3]);
        assert!(pages.iter().all(|&id| pool.latch(id).look().resident()));
        pages.iter().for_each(|&id| assert_eq!(get::<Coupled>(&pool, id), id.0 as u8));
        assert!(reads.lock().unwrap().is_empty(), "nothing is read twice");
        assert_eq!(pool.prefetch_all(&[PageId(0), PageId(2000)]), 0, "pages that cannot be");
    }

    /// A run that fails is read again page by page, so its good pages arrive.
    #[test]
    fn a_failure_is_told_of_the_page_that_has_it() {
        let bad = 3 * PAGE_SIZE as u64;
        let covers = move |offset: u64, bytes: usize| (offset..offset + bytes as u64).contains(&bad);
        let (pool, reads) = reopened(move |offset, bytes| match covers(offset, bytes) {
            true => Intervention::Fail(ErrorKind::Other),
            false => Intervention::Do,
        });
        assert_eq!(pool.prefetch_all(&[1, 2, 3, 4].map(PageId)), 4);
        arrive(&pool);
        assert_eq!(*reads.lock().unwrap(), [4, 1, 1, 1, 1]);
        for id in [1, 2, 4] {
            assert_eq!(get::<Coupled>(&pool, PageId(id)), id as u8);
        }
        assert!(pool.load(PageId(3)).is_err());
    }

    #[test]
    fn who_wants_a_page_of_a_run_waits_for_the_run_and_frames_bound_it() {
        let (pool, _) = reopened(|_, _| Intervention::Do);
        let pages: Vec<PageId> = (1..=FRAMES as u32 * 2).map(PageId).collect();
        let begun = pool.prefetch_all(&pages);
        assert!((1..=FRAMES).contains(&begun), "{begun} pages in {FRAMES} frames");
        pool.load(PageId(begun as u32)).unwrap();
        assert_eq!(get::<Coupled>(&pool, PageId(begun as u32)), begun as u8);
        arrive(&pool);
    }
}
