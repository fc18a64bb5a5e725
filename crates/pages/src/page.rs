//! A page's bytes and the header every kind of page shares.
//!
//! ```text
//!  0 checksum u32   4 format u8   5 kind u8   6 flags u16   8 lsn u64   16 page id u32   20 owner u32   24 ...
//! ```
//!
//! The checksum (CRC-32C of the rest) is set when the page is written out and verified when it is read in; in
//! memory it is stale. Bytes 4 to 24 but the lsn and the page id belong to the access methods. Little-endian.

use base::{Lsn, PageId, crc32c};

/// Bytes in a page, in memory and in the data file.
pub const PAGE_SIZE: usize = 8192;
/// Bytes of the header described above; the rest is the access methods'.
pub const PAGE_HEADER: usize = 24;

/// One page, aligned as devices want it that are read past the system's cache.
#[repr(C, align(4096))]
pub struct Page {
    bytes: [u8; PAGE_SIZE],
}

const _: () = assert!(size_of::<Page>() == PAGE_SIZE);

/// Where a page says what it is.
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

    /// Version of the page's layout, as the access methods number it.
    #[inline]
    pub fn format(&self) -> u8 {
        self.bytes[4]
    }
    pub fn set_format(&mut self, format: u8) {
        self.bytes[4] = format;
    }

    /// What the page is, as the access methods number it; 0 is a page never used.
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

    /// The log record of the last change; that record and all before it are in the page.
    #[inline]
    pub fn lsn(&self) -> Lsn {
        Lsn(u64::from_le_bytes(self.get(8)))
    }
    #[inline]
    pub fn set_lsn(&mut self, lsn: Lsn) {
        self.set(8, lsn.0.to_le_bytes());
    }

    /// The page's own number as written in it (0 in a page never written out).
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

    /// Makes the page ready to be written out as page `id`.
    pub(crate) fn seal(&mut self, id: PageId) {
        self.set_id(id);
        let sum = crc32c(&self.bytes[4..]);
        self.set(0, sum.to_le_bytes());
    }

    /// Whether these are the bytes of page `id` as they were written out, or of a page never written.
    pub(crate) fn intact(&self, id: PageId) -> bool {
        if self.get::<4>(0) == [0; 4] && self.bytes.iter().all(|&b| b == 0) {
            return true;
        }
        self.id() == id && u32::from_le_bytes(self.get(0)) == crc32c(&self.bytes[4..])
    }
}
