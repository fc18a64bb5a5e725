//! A page's bytes, and the header that all kinds of pages share.
//!
//! ```text
//!  0 checksum u32   4 format u8   5 kind u8   6 flags u16   8 lsn u64   16 page id u32
//! 20 owner u32   24 ...
//! ```
//!
//! The checksum (CRC-32C of the rest) is set when the page is written, and verified when it is
//! read. In memory it is out of date. Bytes 4 to 24, except the LSN and the page id, belong to the
//! access methods. Numbers are little-endian.

use base::{Lsn, PageId, crc32c};

/// Bytes in a page, in memory and in the data file.
pub const PAGE_SIZE: usize = 8192;
/// Bytes of the header described above. The rest of the page belongs to the access methods.
pub const PAGE_HEADER: usize = 24;

/// One page, aligned as devices require for reads that bypass the system's page cache.
#[repr(C, align(4096))]
pub struct Page {
    bytes: [u8; PAGE_SIZE],
}

const _: () = assert!(size_of::<Page>() == PAGE_SIZE);

/// The offset of the page's kind.
pub(crate) const KIND_AT: usize = 5;

impl Page {
    /// A page of zeros, for tests and scratch work.
    pub fn zeroed() -> Box<Page> {
        Box::new(Page { bytes: [0; PAGE_SIZE] })
    }

    #[inline]
    pub fn bytes(&self) -> &[u8; PAGE_SIZE] {
        &self.bytes
    }

    /// All bytes, header included.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8; PAGE_SIZE] {
        &mut self.bytes
    }

    /// Zeros the page, header included.
    pub fn clear(&mut self) {
        self.bytes.fill(0);
    }

    #[inline]
    fn get<const N: usize>(&self, at: usize) -> [u8; N] {
        self.bytes[at..at + N].try_into().expect("inside the header")
    }

    #[inline]
    fn set<const N: usize>(&mut self, at: usize, v: [u8; N]) {
        self.bytes[at..at + N].copy_from_slice(&v);
    }

    /// The version of the page's layout, as numbered by the access methods.
    #[inline]
    pub fn format(&self) -> u8 {
        self.bytes[4]
    }
    pub fn set_format(&mut self, format: u8) {
        self.bytes[4] = format;
    }

    /// The kind of the page, as numbered by the access methods; 0 for a page never used.
    #[inline]
    pub fn kind(&self) -> u8 {
        self.bytes[KIND_AT]
    }
    pub fn set_kind(&mut self, kind: u8) {
        self.bytes[KIND_AT] = kind;
    }

    #[inline]
    pub fn flags(&self) -> u16 {
        u16::from_le_bytes(self.get(6))
    }
    pub fn set_flags(&mut self, flags: u16) {
        self.set(6, flags.to_le_bytes());
    }

    /// The LSN of the last change. The page contains the changes of that record and of all its
    /// earlier records.
    #[inline]
    pub fn lsn(&self) -> Lsn {
        Lsn(u64::from_le_bytes(self.get(8)))
    }
    #[inline]
    pub fn set_lsn(&mut self, lsn: Lsn) {
        self.set(8, lsn.0.to_le_bytes());
    }

    /// The page's own number, as written in it; 0 in a page never written.
    pub fn id(&self) -> PageId {
        PageId(u32::from_le_bytes(self.get(16)))
    }
    pub(crate) fn set_id(&mut self, id: PageId) {
        self.set(16, id.0.to_le_bytes());
    }

    /// The table or index the page belongs to.
    #[inline]
    pub fn owner(&self) -> u32 {
        u32::from_le_bytes(self.get(20))
    }
    pub fn set_owner(&mut self, owner: u32) {
        self.set(20, owner.to_le_bytes());
    }

    /// Sets number and checksum, so that the page can be written as page `id`.
    pub(crate) fn seal(&mut self, id: PageId) {
        self.set_id(id);
        let sum = crc32c(&self.bytes[4..]);
        self.set(0, sum.to_le_bytes());
    }

    /// Whether these are the bytes of page `id` as they were written, or those of a page never
    /// written.
    pub(crate) fn intact(&self, id: PageId) -> bool {
        if self.get::<4>(0) == [0; 4] && self.bytes.iter().all(|&b| b == 0) {
            return true;
        }
        self.id() == id && u32::from_le_bytes(self.get(0)) == crc32c(&self.bytes[4..])
    }
}
