//! The doublewrite area: a batch of pages is written here before it is written in place. If a crash
//! tears a write in place, a whole copy of the page is here.
//!
//! ```text
//!  0 "ATOLLDBW"   8 format u32   12 crc32c u32 (of bytes 16..4096)   16 count u32
//! 20 page ids u32 ...
//!  4096 pages, as they are in the data file
//! ```
//!
//! A batch is synced here before its first write in place, and its writes in place are synced
//! before the next batch is written here. So a page that is torn in the data file is whole here;
//! and if a batch is torn here, its writes in place have not begun.

use crate::batch::{Aligned, BATCH, Batch, HEADER};
use crate::data_file::DataFile;
use crate::fault::PageFault;
use crate::page::{PAGE_SIZE, Page};
use base::{PageId, crc32c};
use std::path::Path;
use std::sync::Arc;
use world::{File, Files, Open};

const MAGIC: &[u8; 8] = b"ATOLLDBW";
/// Format 2 has batches of more than 64 pages. Format 1 has the same layout.
const FORMATS: std::ops::RangeInclusive<u32> = 1..=2;

const _: () = assert!(20 + 4 * BATCH <= HEADER, "the header has room for every page's number");

pub(crate) struct Doublewrite {
    file: Arc<dyn File>,
}

impl Doublewrite {
    pub fn open(files: &dyn Files, path: &Path) -> Result<Doublewrite, PageFault> {
        let (file, _) = files.open_direct(path, Open::Create)?;
        let mut head = Aligned::new(HEADER);
        let read = file.read_at(head.bytes_mut(), 0)?;
        let found = u32::from_le_bytes(head.bytes()[8..12].try_into().expect("four bytes"));
        if read == HEADER && head.bytes()[..8] == *MAGIC && !FORMATS.contains(&found) {
            return Err(PageFault::File {
                file: path.to_owned(),
                what: format!(
                    "a doublewrite area of format {found}, expected {} to {}; use the version of Atoll that wrote it",
                    FORMATS.start(),
                    FORMATS.end()
                ),
            });
        }
        // Space for a whole batch is allocated at the start, so that a full disk affects the data
        // file and not this one.
        file.allocate((HEADER + BATCH * PAGE_SIZE) as u64)?;
        Ok(Doublewrite { file })
    }

    /// Writes a batch; [`Doublewrite::sync`] waits for the device.
    pub fn write(&self, batch: &mut Batch) -> Result<(), PageFault> {
        let ids = std::mem::take(&mut batch.ids);
        let header = batch.header_mut();
        header.fill(0);
        header[..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&FORMATS.end().to_le_bytes());
        header[16..20].copy_from_slice(&(ids.len() as u32).to_le_bytes());
        for (id, at) in ids.iter().zip(header[20..].chunks_exact_mut(4)) {
            at.copy_from_slice(&id.0.to_le_bytes());
        }
        let sum = crc32c(&header[16..]);
        header[12..16].copy_from_slice(&sum.to_le_bytes());
        batch.ids = ids;
        Ok(self.file.write_all_at(batch.bytes(), 0)?)
    }

    pub fn sync(&self) -> std::io::Result<()> {
        self.file.sync()
    }

    /// The pages of the last batch; none if its header is torn.
    fn ids(&self) -> Result<Vec<PageId>, PageFault> {
        let mut header = Aligned::new(HEADER);
        let word = |h: &[u8], at: usize| u32::from_le_bytes(h[at..at + 4].try_into().expect("four bytes"));
        let read = self.file.read_at(header.bytes_mut(), 0)?;
        let header = header.bytes();
        let good = read == HEADER
            && &header[..8] == MAGIC
            && FORMATS.contains(&word(header, 8))
            && word(header, 12) == crc32c(&header[16..]);
        let count = if good { word(header, 16) as usize } else { 0 };
        Ok(header[20..].chunks_exact(4).take(count.min(BATCH)).map(|b| PageId(word(b, 0))).collect())
    }

    /// The whole copy of page `id`, if the last batch has one.
    pub fn copy_of(&self, id: PageId) -> Result<Option<Box<Page>>, PageFault> {
        let Some(n) = self.ids()?.iter().position(|&p| p == id) else { return Ok(None) };
        let mut page = Page::zeroed();
        self.file.read_at(page.bytes_mut(), (HEADER + n * PAGE_SIZE) as u64)?;
        // A copy of zeros is not valid: every page that is written contains its number.
        Ok(Some(page).filter(|p| p.id() == id && p.intact(id)))
    }

    /// Repairs the pages that a crash tore in `data`. Returns the number of pages repaired.
    pub fn repair(&self, data: &DataFile) -> Result<usize, PageFault> {
        let mut repaired = 0;
        for id in self.ids()? {
            let Some(copy) = self.copy_of(id)? else { continue };
            let mut found = Page::zeroed();
            data.read(id, found.bytes_mut())?;
            if !found.intact(id) {
                data.write(id, &copy)?;
                repaired += 1;
            }
        }
        if repaired > 0 {
            data.sync()?;
        }
        Ok(repaired)
    }
}
