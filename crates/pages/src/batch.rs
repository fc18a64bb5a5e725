//! Copies of dirty pages on their way to the device, in the layout of the doublewrite file, so that
//! one write stores the whole batch there.

use crate::page::{PAGE_SIZE, Page};
use base::{Lsn, PageId};

/// Pages in a batch: one MiB, written in about the time of the three syncs that a batch costs.
pub(crate) const BATCH: usize = 128;
/// Bytes before the first page.
pub(crate) const HEADER: usize = 4096;

/// The unit of writes that bypass the system's page cache.
#[repr(C, align(4096))]
#[derive(Clone)]
struct Block([u8; HEADER]);

const _: () = assert!(PAGE_SIZE.is_multiple_of(HEADER) && align_of::<Page>() <= HEADER);

/// A buffer of which address and length are multiples of 4096, initially zero.
pub(crate) struct Aligned(Box<[Block]>);

impl Aligned {
    pub fn new(bytes: usize) -> Aligned {
        Aligned(vec![Block([0; HEADER]); bytes.div_ceil(HEADER)].into_boxed_slice())
    }

    pub fn bytes(&self) -> &[u8] {
        let (start, bytes) = (self.0.as_ptr().cast(), self.0.len() * HEADER);
        // SAFETY: blocks are plain bytes without padding, one after the other, borrowed as long as
        // the result.
        unsafe { std::slice::from_raw_parts(start, bytes) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let (start, bytes) = (self.0.as_mut_ptr().cast(), self.0.len() * HEADER);
        // SAFETY: as above, borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(start, bytes) }
    }
}

/// A page to evict after it is written: its slot and its number.
pub(crate) type Leaving = (usize, PageId);

pub(crate) struct Batch {
    image: Aligned,
    pub ids: Vec<PageId>,
    /// The youngest change in the batch. The log must be durable beyond it before the batch is
    /// written.
    pub youngest: Lsn,
    pub leaving: Vec<Leaving>,
}

impl Batch {
    pub fn new() -> Batch {
        let image = Aligned::new(HEADER + BATCH * PAGE_SIZE);
        Batch { image, ids: Vec::with_capacity(BATCH), youngest: Lsn(0), leaving: Vec::new() }
    }

    pub fn clear(&mut self) {
        self.ids.clear();
        self.leaving.clear();
        self.youngest = Lsn(0);
    }

    pub fn room(&self) -> usize {
        BATCH - self.ids.len()
    }

    /// Copies `from` into the batch as page `id`, with checksum and number set.
    pub fn add(&mut self, id: PageId, from: &Page) {
        let at = HEADER + self.ids.len() * PAGE_SIZE;
        let to = &mut self.image.bytes_mut()[at..at + PAGE_SIZE];
        to.copy_from_slice(from.bytes());
        // SAFETY: `to` is a page's length of bytes at a multiple of 4096, the alignment of `Page`,
        // which is plain bytes.
        unsafe { &mut *to.as_mut_ptr().cast::<Page>() }.seal(id);
        self.ids.push(id);
        self.youngest = self.youngest.max(from.lsn());
    }

    pub fn header_mut(&mut self) -> &mut [u8] {
        &mut self.image.bytes_mut()[..HEADER]
    }

    /// The header and the pages.
    pub fn bytes(&self) -> &[u8] {
        &self.image.bytes()[..HEADER + self.ids.len() * PAGE_SIZE]
    }

    /// The pages in runs: pages that are neighbours in the file form one run, given as its first
    /// page and the bytes.
    ///
    /// Long writes are faster at the end of a file: each write there extends the file under the
    /// file's lock, so short writes queue for that lock.
    pub fn runs(&self) -> impl Iterator<Item = (PageId, &[u8])> {
        let pages = &self.image.bytes()[HEADER..];
        let mut at = 0;
        self.ids.chunk_by(|a, b| a.0 + 1 == b.0).map(move |run| {
            let start = at;
            at += run.len() * PAGE_SIZE;
            (run[0], &pages[start..at])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_run_and_no_page_is_lost() {
        let mut batch = Batch::new();
        for id in [7, 8, 9, 4, 5, 11, 10] {
            batch.add(PageId(id), &Page::zeroed());
        }
        let runs: Vec<_> = batch.runs().map(|(id, bytes)| (id.0, bytes.len() / PAGE_SIZE)).collect();
        assert_eq!(runs, [(7, 3), (4, 2), (11, 1), (10, 1)]);
        for (id, bytes) in batch.runs() {
            for (n, page) in bytes.chunks_exact(PAGE_SIZE).enumerate() {
                let mut copy = Page::zeroed();
                copy.bytes_mut().copy_from_slice(page);
                assert_eq!(copy.id(), PageId(id.0 + n as u32));
            }
        }
    }
}
