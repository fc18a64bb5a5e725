//! Reading a data file page by page, without a pool: for checks of a database that is not open.

use crate::data_file::{DataFile, Lifetime};
use crate::doublewrite::Doublewrite;
use crate::fault::PageFault;
use crate::page::{PAGE_SIZE, Page};
use base::PageId;
use std::path::Path;
use world::{Files, Open};

/// The state of a page in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// Never written.
    Blank,
    Intact,
    /// A write that a crash tore. The doublewrite area has the whole page, and opening repairs it.
    Torn,
    /// Its checksum does not match and there is no other copy.
    Corrupt,
}

/// Calls `visit` with every page of the data file at `path`, in order, and the total number of
/// pages. Needs files that may be changed, because opening creates missing files.
///
/// # Errors
/// There is no data file, or one of another version; I/O.
pub fn scan(
    files: &dyn Files,
    path: &Path,
    mut visit: impl FnMut(PageId, u32, Found, &Page),
) -> Result<(), PageFault> {
    let pages = files.open(path, Open::Read)?.len()?.div_ceil(PAGE_SIZE as u64);
    let data = DataFile::open(files, path, Lifetime::Durable)?;
    let doublewrite = Doublewrite::open(files, &path.with_file_name("doublewrite"))?;
    let (pages, mut page) = (u32::try_from(pages).unwrap_or(u32::MAX), Page::zeroed());
    for id in (1..pages).map(PageId) {
        page.clear();
        data.read(id, page.bytes_mut())?;
        let found = match page.intact(id) {
            true if page.bytes().iter().all(|&b| b == 0) => Found::Blank,
            true => Found::Intact,
            false if doublewrite.copy_of(id)?.is_some() => Found::Torn,
            false => Found::Corrupt,
        };
        visit(id, pages, found, &page);
    }
    Ok(())
}
