//! The slot of a row in a heap page, in four bytes.
//!
//! ```text
//! offset u16 (0: free; bit 15: ghost; bit 14: special) | length, 13 bits | spare, 3 bits
//! ```
//!
//! The *room* of a row is the number of bytes that are reserved for it: its length and the spare
//! bytes behind it. Few rows have spare bytes. If a row has seven or more, the slot says 7, and the
//! first two of them hold their number.

use crate::bytes::{Bytes, Garbled};
use pages::PAGE_SIZE;

/// The bytes of a forward or of a large row's stub: an existing row may have to become one of these
/// in place.
pub(super) const LEAST_ROOM: usize = 9;
/// Bytes of a slot.
pub(super) const SLOT: usize = 4;
pub(super) const GHOST: u16 = 1 << 15;
pub(super) const SPECIAL: u16 = 1 << 14;
pub(super) const FLAGS: u16 = GHOST | SPECIAL;
/// In the second half of a slot: the bits of the length, then those of the spare bytes.
pub(super) const LENGTH_BITS: u32 = 13;
/// The number in a slot for all numbers of spare bytes from this one on.
pub(super) const MANY: usize = 7;
const _: () = assert!(MANY < 1 << (16 - LENGTH_BITS));
const _: () = assert!(MANY >= 2 && LEAST_ROOM >= 2, "the number of spare bytes fits into them");

/// Whether a slot's content is the row itself, or begins with a tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Plain,
    Special,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot {
    pub offset: u16,
    pub length: u16,
    /// `length` or more.
    pub room: u16,
}

impl Slot {
    pub const FREE: Slot = Slot { offset: 0, length: 0, room: 0 };

    /// The slot in this form in a page. If it has [`MANY`] spare bytes, it may have more.
    #[inline]
    pub fn unpack(packed: u32) -> Slot {
        let (offset, half) = (packed as u16, (packed >> 16) as u16);
        let length = half & ((1 << LENGTH_BITS) - 1);
        Slot { offset, length, room: length + (half >> LENGTH_BITS) }
    }

    pub fn pack(self) -> u32 {
        let spare = self.spare().min(MANY) as u32;
        u32::from(self.offset) | (u32::from(self.length) | spare << LENGTH_BITS) << 16
    }

    pub fn spare(self) -> usize {
        usize::from(self.room) - self.len()
    }

    pub fn is_free(self) -> bool {
        self.offset == 0
    }

    pub fn is_ghost(self) -> bool {
        self.offset & GHOST != 0
    }

    /// A plain row: neither free nor a ghost nor special.
    #[inline]
    pub fn is_plain(self) -> bool {
        self.offset.wrapping_sub(1) < SPECIAL - 1
    }

    pub fn form(self) -> Form {
        if self.offset & SPECIAL == 0 { Form::Plain } else { Form::Special }
    }

    pub fn len(self) -> usize {
        self.length.into()
    }

    pub fn at(self) -> usize {
        usize::from(self.offset & !FLAGS)
    }

    pub fn extent(self) -> std::ops::Range<usize> {
        self.at()..self.at() + usize::from(self.room)
    }

    /// The slot with its number of spare bytes, read from them.
    #[cold]
    pub fn with_many(self, page: &Bytes) -> Result<Slot, Garbled> {
        let bytes = page.get(self.end()..).and_then(<[u8]>::first_chunk).ok_or(Garbled)?;
        let spare = u16::from_le_bytes(*bytes);
        let room = self.length.checked_add(spare).filter(|_| usize::from(spare) >= MANY);
        let room = room.filter(|room| self.at() + usize::from(*room) <= PAGE_SIZE).ok_or(Garbled)?;
        Ok(Slot { room, ..self })
    }

    /// Writes the number of spare bytes into them, if they are many. The content of the slot must
    /// lie where the slot says.
    pub fn put_many(self, page: &mut Bytes) -> Result<(), Garbled> {
        if self.spare() >= MANY {
            let rest = page.get_mut(self.end()..).ok_or(Garbled)?;
            *rest.first_chunk_mut().ok_or(Garbled)? = (self.spare() as u16).to_le_bytes();
        }
        Ok(())
    }

    /// The offset of the first byte behind the content.
    fn end(self) -> usize {
        self.at() + self.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes behind the offset of a slot.
    const MOST: u16 = PAGE_SIZE as u16 - 40;

    #[test]
    fn slots_read_back_with_any_room() {
        let mut page = Box::new([0xa5; PAGE_SIZE]);
        for length in [0, 1, 2, 8, 9, 300, MOST] {
            for spare in [0, 1, MANY as u16 - 1, MANY as u16, MANY as u16 + 1, 200, MOST] {
                let (offset, room) = (40 | GHOST, (length + spare).min(MOST));
                let slot = Slot { offset, length, room };
                slot.put_many(&mut page).unwrap();
                let read = Slot::unpack(slot.pack());
                assert_eq!((read.offset, read.length), (offset, length));
                let read = if read.spare() < MANY { read } else { read.with_many(&page).unwrap() };
                assert_eq!(read, slot);
            }
        }
    }

    #[test]
    fn a_number_of_spare_bytes_that_is_none_is_refused() {
        let mut page = Box::new([0; PAGE_SIZE]);
        let slot = Slot { offset: 100, length: 10, room: 10 + MANY as u16 };
        // Few bytes are in the slot itself; more than a page has are in none.
        for wrong in [0, MANY as u16 - 1, MOST, u16::MAX] {
            page[110..112].copy_from_slice(&wrong.to_le_bytes());
            assert!(slot.with_many(&page).is_err(), "{wrong}");
        }
        let far = Slot { offset: PAGE_SIZE as u16 - 1, length: 0, room: MANY as u16 };
        assert!(far.with_many(&page).is_err() && far.put_many(&mut page).is_err());
    }
}
