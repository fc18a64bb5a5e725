//! The data file: page P lies at byte P * 8192. Page 0 identifies the file.
//!
//! ```text
//!  0 "ATOLLDAT"   8 format u32   12 page size u32   16 crc32c u32 (of bytes 0..16)   zeros to 8192
//! ```

use crate::fault::PageFault;
use crate::page::{PAGE_SIZE, Page};
use base::{Lsn, PageId, crc32c};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use world::{Caching, File, Files, Open};

const MAGIC: &[u8; 8] = b"ATOLLDAT";
const FORMAT: u32 = 1;

/// Whether the file must outlive the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    Durable,
    /// A place for evicted pages only. The file has no name once it is open.
    Process,
}

pub(crate) struct DataFile {
    pub file: Arc<dyn File>,
    pub caching: Caching,
    path: PathBuf,
}

impl DataFile {
    pub fn open(files: &dyn Files, path: &Path, lifetime: Lifetime) -> Result<DataFile, PageFault> {
        match lifetime {
            Lifetime::Durable => Self::durable(files, path),
            Lifetime::Process => {
                // A separate file: if a database is opened in memory mode by mistake, its durable
                // file is unharmed.
                let path = path.with_extension("swap");
                let (file, caching) = files.open_direct(&path, Open::Create)?;
                file.set_len(0)?;
                files.remove(&path)?;
                Ok(DataFile { file, caching, path })
            }
        }
    }

    fn durable(files: &dyn Files, path: &Path) -> Result<DataFile, PageFault> {
        let (file, caching) = files.open_direct(path, Open::Create)?;
        let data = DataFile { file, caching, path: path.to_owned() };
        if data.is_unmade()? {
            data.file.write_all_at(first_page().bytes(), 0)?;
            data.file.sync()?;
            files.sync_dir(path.parent().unwrap_or(Path::new(".")))?;
        }
        data.check()?;
        Ok(data)
    }

    /// Whether a crash interrupted the creation of this file. Then it is shorter than its first
    /// page, or as long as its first page and all zeros: the length may become durable before the
    /// bytes. The non-zero bytes of a complete first page lie in one sector, so they are either all
    /// there or not.
    fn is_unmade(&self) -> Result<bool, PageFault> {
        let bytes = self.file.len()?;
        if bytes != PAGE_SIZE as u64 {
            return Ok(bytes < PAGE_SIZE as u64);
        }
        let mut page = Page::zeroed();
        self.file.read_at(page.bytes_mut(), 0)?;
        Ok(page.bytes().iter().all(|byte| *byte == 0))
    }

    fn check(&self) -> Result<(), PageFault> {
        let mut head = Page::zeroed();
        self.file.read_at(head.bytes_mut(), 0)?;
        let head = head.bytes();
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let wrong = |what: String| Err(PageFault::File { file: self.path.clone(), what });
        if &head[..8] != MAGIC {
            return wrong("this is not a data file of Atoll; choose another folder".into());
        }
        if word(8) != FORMAT {
            let found = word(8);
            return wrong(format!(
                "a data file of format {found}, expected {FORMAT}; use the version of Atoll that wrote it"
            ));
        }
        if word(16) != crc32c(&head[..16]) {
            return wrong("the file's header at byte 0 fails its checksum; restore from a backup".into());
        }
        if word(12) as usize != PAGE_SIZE {
            let found = word(12);
            return wrong(format!(
                "pages of {found} bytes, expected {PAGE_SIZE}; use the build that wrote it"
            ));
        }
        Ok(())
    }

    /// Reads page `id` into `bytes`, which the caller has zeroed. Bytes beyond the end of the file
    /// stay zero.
    pub fn read(&self, id: PageId, bytes: &mut [u8; PAGE_SIZE]) -> Result<(), PageFault> {
        self.file.read_at(bytes, offset(id))?;
        Ok(())
    }

    pub fn write(&self, id: PageId, page: &Page) -> Result<(), PageFault> {
        self.file.write_all_at(page.bytes(), offset(id))?;
        Ok(())
    }

    pub fn sync(&self) -> std::io::Result<()> {
        self.file.sync()
    }

    pub fn bytes(&self) -> std::io::Result<u64> {
        self.file.len()
    }

    /// The number of pages that the file has space for at present.
    pub fn pages(&self) -> std::io::Result<u64> {
        Ok(self.file.len()? / PAGE_SIZE as u64)
    }

    pub fn corrupt(&self, page: PageId) -> PageFault {
        PageFault::Corrupt { page, file: self.path.clone(), offset: offset(page) }
    }

    pub fn newer(&self, page: PageId, lsn: Lsn, end: Lsn) -> PageFault {
        PageFault::Newer { page, file: self.path.clone(), offset: offset(page), lsn, end }
    }
}

pub(crate) fn offset(id: PageId) -> u64 {
    u64::from(id.0) * PAGE_SIZE as u64
}

fn first_page() -> Box<Page> {
    let mut first = Page::zeroed();
    let page = first.bytes_mut();
    page[..8].copy_from_slice(MAGIC);
    page[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    page[12..16].copy_from_slice(&(PAGE_SIZE as u32).to_le_bytes());
    let sum = crc32c(&page[..16]);
    page[16..20].copy_from_slice(&sum.to_le_bytes());
    first
}
