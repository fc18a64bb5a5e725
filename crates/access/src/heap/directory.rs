//! The pages of a heap, in order, with the free-space class of each.
//!
//! ```text
//! root        HEADER | directories u32 | page id of directory 0 u32 | 1 | ...
//! directory   HEADER | pages u16 | 0 u16 | class u8 of its page 0 | 1 | ...
//!                    | page id u32 of its page 0 | 1 | ...
//! ```
//!
//! Page number `n` of a heap (its *ordinal*) is entry `n % PER_DIRECTORY` of directory
//! `n / PER_DIRECTORY`. A class is a lower bound of the page's free bytes, but it may be out of
//! date: the thread that goes to the page checks again. Classes lie together, so a search for room
//! reads one or two kilobytes in sequence.

use super::rows::EMPTY;
use crate::bytes::{Bytes, Garbled, put_u16, put_u32, u16_at, u32_at};
use base::PageId;
use pages::{PAGE_HEADER as HEADER, PAGE_SIZE};

/// Heap pages in one directory: five bytes for each. Few in tests, so that heaps have several
/// directories.
pub(super) const PER_DIRECTORY: usize = if cfg!(test) { 7 } else { (PAGE_SIZE - CLASSES) / 5 };
/// Directories in a root: with full directories, about 26 GB of rows in one heap.
pub(super) const DIRECTORIES: usize = (PAGE_SIZE - LIST) / 4;

const LIST: usize = HEADER + 4;
const CLASSES: usize = HEADER + 4;
const PAGES: usize = CLASSES + PER_DIRECTORY;

#[derive(Clone, Copy)]
pub(crate) struct Root<'a>(&'a Bytes);

impl<'a> Root<'a> {
    pub(crate) fn new(bytes: &'a Bytes) -> Root<'a> {
        Root(bytes)
    }

    pub(crate) fn directories(self) -> usize {
        u32_at(self.0, HEADER) as usize
    }

    /// `None` after the last one.
    pub(crate) fn directory(self, i: usize) -> Option<PageId> {
        (i < self.directories().min(DIRECTORIES)).then(|| PageId(u32_at(self.0, LIST + 4 * i)))
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Directory<'a>(&'a Bytes);

impl<'a> Directory<'a> {
    pub(crate) fn new(bytes: &'a Bytes) -> Directory<'a> {
        Directory(bytes)
    }

    pub(crate) fn pages(self) -> usize {
        usize::from(u16_at(self.0, HEADER)).min(PER_DIRECTORY)
    }

    /// `None` after the last one.
    pub(crate) fn page(self, i: usize) -> Option<PageId> {
        (i < self.pages()).then(|| PageId(u32_at(self.0, PAGES + 4 * i)))
    }

    pub(super) fn class(self, i: usize) -> Option<u8> {
        (i < self.pages()).then(|| self.0[CLASSES + i])
    }

    /// Indexes of the pages noted with at least this class.
    pub(super) fn with_room(self, class: u8) -> impl Iterator<Item = usize> + 'a {
        let classes = &self.0[CLASSES..CLASSES + self.pages()];
        classes.iter().enumerate().filter(move |(_, c)| **c >= class).map(|(i, _)| i)
    }
}

pub(crate) struct RootMut<'a>(&'a mut Bytes);

impl<'a> RootMut<'a> {
    pub(crate) fn new(bytes: &'a mut Bytes) -> RootMut<'a> {
        RootMut(bytes)
    }

    pub(crate) fn format(&mut self) {
        self.0[HEADER..].fill(0);
    }

    pub(crate) fn add(&mut self, directory: PageId) -> Result<(), Garbled> {
        let n = Root(self.0).directories();
        if n >= DIRECTORIES {
            return Err(Garbled);
        }
        put_u32(self.0, LIST + 4 * n, directory.0);
        put_u32(self.0, HEADER, n as u32 + 1);
        Ok(())
    }
}

pub(crate) struct DirectoryMut<'a>(&'a mut Bytes);

impl<'a> DirectoryMut<'a> {
    pub(crate) fn new(bytes: &'a mut Bytes) -> DirectoryMut<'a> {
        DirectoryMut(bytes)
    }

    pub(crate) fn format(&mut self) {
        self.0[HEADER..].fill(0);
    }

    pub(crate) fn add(&mut self, page: PageId, class: u8) -> Result<(), Garbled> {
        let n = Directory(self.0).pages();
        if n >= PER_DIRECTORY {
            return Err(Garbled);
        }
        put_u32(self.0, PAGES + 4 * n, page.0);
        put_u16(self.0, HEADER, n + 1);
        self.set_class(n, class)
    }

    pub(crate) fn set_class(&mut self, i: usize, class: u8) -> Result<(), Garbled> {
        if i >= Directory(self.0).pages() || class > EMPTY {
            return Err(Garbled);
        }
        self.0[CLASSES + i] = class;
        Ok(())
    }
}
