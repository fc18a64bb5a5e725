//! A heap page: rows that stay where their [`Rid`](base::Rid) points.
//!
//! ```text
//! 0        pages' own header                                                 HEADER
//! +0       slots u16 | heap u16 | dead u16 | free slots u16 | ordinal u32 | ghosts u16 | 0 u16
//! SLOTS    slot 0 | slot 1 | ...            |      free      | rows, growing down     PAGE_SIZE
//! special  1 u8 | rid                        forward: the row lies there
//!          2 u8 | rid | row                  moved: the row with the address rid
//!          3 u8 | root page u32 | length u32 large: the row lies in overflow pages
//! ```
//!
//! A row has a *room*, the bytes reserved for it ([`Slot`]). A row that shrinks keeps its room,
//! so an undo of the change always fits. A deleted row stays as a *ghost*, with slot and bytes,
//! until it is purged after the commit. No room is smaller than [`LEAST_ROOM`], so every row can
//! become a forward or a stub in place. Free slots at the end are dropped; other free slots are
//! used by later inserts.
//!
//! As for the tree's nodes, each change is deterministic in the bytes that it finds, and readers
//! accept any bytes.

use super::slot::{FLAGS, Form, GHOST, LEAST_ROOM, LENGTH_BITS, MANY, SLOT, SPECIAL, Slot};
use crate::bytes::{Bytes, Cursor, Garbled, Source, put_u16, put_u32, u16_at, u32_at};
use base::{PageId, Rid, copy_short};
use pages::{PAGE_HEADER as HEADER, PAGE_SIZE};

const COUNT: usize = HEADER;
const HEAP: usize = HEADER + 2;
const DEAD: usize = HEADER + 4;
const FREE_SLOTS: usize = HEADER + 6;
const ORDINAL: usize = HEADER + 8;
const _: () = assert!(COUNT.is_multiple_of(8), "the count is the low end of a word");
const GHOSTS: usize = HEADER + 12;
const SLOTS: usize = HEADER + 16;

/// The longest content of a slot: it fills a page alone.
pub(super) const INLINE: usize = PAGE_SIZE - SLOTS - SLOT;
const _: () = assert!(INLINE < 1 << LENGTH_BITS);
/// The bytes in front of a moved row: tag and address.
pub(super) const MOVED: usize = 1 + Rid::BYTES;

const TAG_FORWARD: u8 = 1;
const TAG_MOVED: u8 = 2;
const TAG_LARGE: u8 = 3;

/// A large row: its bytes lie in pages of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Large {
    pub root: PageId,
    /// In bytes.
    pub length: u32,
}

/// The content of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cell<'a> {
    Row(&'a [u8]),
    /// The row lies at this place, in a [`Cell::Moved`].
    Forward(Rid),
    /// The row with the address `home`, where a [`Cell::Forward`] leads here.
    Moved {
        home: Rid,
        row: &'a [u8],
    },
    Large(Large),
}

impl<'a> Cell<'a> {
    pub(crate) fn decode(form: Form, content: &'a [u8]) -> Result<Cell<'a>, Garbled> {
        if form == Form::Plain {
            return Ok(Cell::Row(content));
        }
        let mut from = Cursor(content);
        match from.u8()? {
            TAG_FORWARD => Ok(Cell::Forward(Rid::decode(from.rest()).ok_or(Garbled)?)),
            TAG_MOVED => {
                let home = Rid::decode(from.take(Rid::BYTES)?).ok_or(Garbled)?;
                Ok(Cell::Moved { home, row: from.rest() })
            }
            TAG_LARGE => {
                let large = Large { root: PageId(from.u32()?), length: from.u32()? };
                if from.is_empty() { Ok(Cell::Large(large)) } else { Err(Garbled) }
            }
            _ => Err(Garbled),
        }
    }

    pub(crate) fn form(self) -> Form {
        if matches!(self, Cell::Row(_)) { Form::Plain } else { Form::Special }
    }

    /// The slot's content, in two parts.
    #[inline]
    pub(crate) fn parts(self) -> (Front, &'a [u8]) {
        match self {
            Cell::Row(row) => (Front::EMPTY, row),
            Cell::Forward(to) => (Front::tagged(TAG_FORWARD, &to.encode()), &[]),
            Cell::Moved { home, row } => (Front::tagged(TAG_MOVED, &home.encode()), row),
            Cell::Large(Large { root, length }) => {
                let number = u64::from(length) << 32 | u64::from(root.0);
                (Front::tagged(TAG_LARGE, &number.to_le_bytes()), &[])
            }
        }
    }
}

/// The tag and its fields, up to the row's bytes.
#[derive(Clone, Copy)]
pub(crate) struct Front {
    bytes: [u8; LEAST_ROOM],
    length: usize,
}

impl Front {
    const EMPTY: Front = Front { bytes: [0; LEAST_ROOM], length: 0 };

    fn tagged(tag: u8, rest: &[u8]) -> Front {
        let mut front = Front { length: 1 + rest.len(), ..Front::EMPTY };
        front.bytes[0] = tag;
        front.bytes[1..=rest.len()].copy_from_slice(rest);
        front
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The room that a content of `len` bytes takes.
fn room_for(len: usize) -> usize {
    len.max(LEAST_ROOM)
}

/// Free-space classes: class `c` promises `c` KiB; [`EMPTY`] is a page without rows.
const CLASS_BYTES: usize = 1024;
pub(super) const EMPTY: u8 = 8;

/// The class that guarantees that a page takes a content of `len` bytes.
pub(super) fn class_needed(len: usize) -> u8 {
    match (room_for(len) + SLOT).div_ceil(CLASS_BYTES) {
        class @ 0..8 => class as u8,
        _ => EMPTY,
    }
}

/// The class of a new page.
pub(super) const CLASS_OF_NEW: u8 = EMPTY;

/// A heap page, for reading.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a>(&'a Bytes);

impl<'a> Rows<'a> {
    pub(crate) fn new(bytes: &'a Bytes) -> Rows<'a> {
        Rows(bytes)
    }

    /// The number of slots, free ones included.
    #[inline]
    pub(crate) fn slots(self) -> u16 {
        u16_at(self.0, COUNT)
    }

    fn heap(self) -> usize {
        usize::from(u16_at(self.0, HEAP))
    }

    pub(super) fn dead(self) -> usize {
        usize::from(u16_at(self.0, DEAD))
    }

    pub(super) fn free_slots(self) -> u16 {
        u16_at(self.0, FREE_SLOTS)
    }

    pub(super) fn ghosts(self) -> u16 {
        u16_at(self.0, GHOSTS)
    }

    /// The page's number in its heap.
    pub(super) fn ordinal(self) -> u32 {
        u32_at(self.0, ORDINAL)
    }

    /// Bytes of content, live or dead.
    pub(super) fn content(self) -> usize {
        PAGE_SIZE.saturating_sub(self.heap())
    }

    /// The offset of the first byte after the slots.
    pub(super) fn slots_end(self) -> usize {
        SLOTS + SLOT * usize::from(self.slots())
    }

    /// `Slot::FREE` after the last slot.
    #[inline]
    pub(super) fn slot(self, i: u16) -> Result<Slot, Garbled> {
        if i >= self.slots() {
            return Ok(Slot::FREE);
        }
        let slot = Slot::unpack(self.packed(i)?);
        if slot.spare() < MANY { Ok(slot) } else { slot.with_many(self.0) }
    }

    #[inline]
    fn packed(self, i: u16) -> Result<u32, Garbled> {
        let bytes = self.0.get(slot_at(i)..).and_then(<[u8]>::first_chunk).ok_or(Garbled)?;
        Ok(u32::from_le_bytes(*bytes))
    }

    #[inline]
    fn bytes_of(self, slot: Slot) -> Result<&'a [u8], Garbled> {
        self.0.get(slot.at()..slot.at() + usize::from(slot.length)).ok_or(Garbled)
    }

    /// The row in slot `i` if it is a plain row; see [`Rows::cell`] for the other cases.
    #[inline]
    pub(super) fn plain(self, i: u16) -> Result<Option<&'a [u8]>, Garbled> {
        let slot = self.slot(i)?;
        if slot.is_plain() { self.bytes_of(slot).map(Some) } else { Ok(None) }
    }

    /// The content of slot `i`; `None` if it is free or a ghost.
    #[inline]
    pub(super) fn cell(self, i: u16) -> Result<Option<Cell<'a>>, Garbled> {
        let slot = self.slot(i)?;
        if slot.is_plain() {
            return self.bytes_of(slot).map(|row| Some(Cell::Row(row)));
        }
        if slot.is_free() || slot.is_ghost() { Ok(None) } else { self.any_cell(i) }
    }

    /// The content of slot `i`, also if it is a ghost; `None` if it is free.
    pub(crate) fn any_cell(self, i: u16) -> Result<Option<Cell<'a>>, Garbled> {
        let slot = self.slot(i)?;
        if slot.is_free() {
            return Ok(None);
        }
        Cell::decode(slot.form(), self.bytes_of(slot)?).map(Some)
    }

    /// The bytes in slot `i`, tag included; empty if it is free.
    pub(super) fn content_of(self, i: u16) -> Result<&'a [u8], Garbled> {
        self.bytes_of(self.slot(i)?)
    }

    /// The bytes that a new row and its slot may take.
    fn free(self) -> usize {
        let reuse = if self.free_slots() > 0 { SLOT } else { 0 };
        let taken = SLOTS + SLOT * usize::from(self.slots()) + self.content();
        (PAGE_SIZE + self.dead() + reuse).saturating_sub(taken)
    }

    /// Whether a new content of `len` bytes fits.
    #[inline]
    pub(super) fn fits(self, len: usize) -> bool {
        room_for(len) + SLOT <= self.free()
    }

    /// Whether the content of slot `i` can become `len` bytes long and stay in this page.
    pub(super) fn fits_grown(self, i: u16, len: usize) -> Result<bool, Garbled> {
        let room = usize::from(self.slot(i)?.room);
        let reuse = if self.free_slots() > 0 { SLOT } else { 0 };
        Ok(len <= room || len <= (self.free() + room).saturating_sub(reuse))
    }

    /// The free-space class, for the directory.
    pub(super) fn class(self) -> u8 {
        match self.slots() {
            0 => EMPTY,
            _ => (self.free() / CLASS_BYTES).min(usize::from(EMPTY) - 1) as u8,
        }
    }

    /// The page's bytes as a log image, without the free space: header fields with slots, and the
    /// rows.
    pub(super) fn image(self) -> (&'a [u8], &'a [u8]) {
        (&self.0[HEADER..self.slots_end()], &self.0[PAGE_SIZE - self.content()..])
    }

    /// The slot that the next insert uses.
    pub(super) fn next_slot(self) -> Result<u16, Garbled> {
        if self.free_slots() == 0 {
            return Ok(self.slots());
        }
        for i in 0..self.slots() {
            if self.slot(i)?.is_free() {
                return Ok(i);
            }
        }
        Err(Garbled)
    }
}

/// The offset of slot `i` in its page.
#[inline]
pub(super) fn slot_at(i: u16) -> usize {
    SLOTS + SLOT * usize::from(i)
}

/// As [`Rows::plain`], in a page that may change meanwhile: the offset and length of the row in
/// slot `i`, if it is a plain row.
#[inline]
pub(super) fn plain_at(page: impl Source, i: u16) -> Result<Option<(usize, usize)>, Garbled> {
    if i >= page.word(COUNT / 8) as u16 {
        return Ok(None);
    }
    let slot = Slot::unpack(page.u32(slot_at(i))?);
    let (at, len) = (slot.at(), slot.len());
    if slot.is_plain() && at + len <= PAGE_SIZE { Ok(Some((at, len))) } else { Ok(None) }
}

/// A heap page, for changing.
pub(crate) struct RowsMut<'a>(&'a mut Bytes);

impl<'a> RowsMut<'a> {
    pub(crate) fn new(bytes: &'a mut Bytes) -> RowsMut<'a> {
        RowsMut(bytes)
    }

    pub(super) fn rows(&self) -> Rows<'_> {
        Rows(self.0)
    }

    pub(crate) fn format(&mut self, ordinal: u32) {
        self.0[HEADER..].fill(0);
        put_u16(self.0, HEAP, PAGE_SIZE);
        put_u32(self.0, ORDINAL, ordinal);
    }

    /// Fills the page with an image that [`Rows::image`] returned, as page number `ordinal` of its
    /// heap.
    pub(crate) fn fill(&mut self, ordinal: u32, head: &[u8], content: &[u8]) -> Result<(), Garbled> {
        let free = (PAGE_SIZE - HEADER).checked_sub(head.len() + content.len()).ok_or(Garbled)?;
        if head.len() < SLOTS - HEADER {
            return Err(Garbled);
        }
        let (front, back) = (HEADER + head.len(), PAGE_SIZE - content.len());
        self.0[HEADER..front].copy_from_slice(head);
        self.0[front..front + free].fill(0);
        self.0[back..].copy_from_slice(content);
        put_u32(self.0, ORDINAL, ordinal);
        if self.rows().slots_end() == front && self.rows().heap() == back { Ok(()) } else { Err(Garbled) }
    }

    fn put_slot(&mut self, i: u16, slot: Slot) -> Result<(), Garbled> {
        put_u32(self.0, slot_at(i), slot.pack());
        slot.put_many(self.0)
    }

    fn count_up(&mut self, field: usize, by: isize) -> Result<(), Garbled> {
        let now = usize::from(u16_at(self.0, field)).checked_add_signed(by).ok_or(Garbled)?;
        put_u16(self.0, field, now.min(PAGE_SIZE));
        Ok(())
    }

    /// Takes `len` bytes of content space in a page of `slots` slots; compacts the page if the free
    /// bytes are scattered.
    fn reserve(&mut self, len: usize, slots: u16) -> Result<usize, Garbled> {
        let floor = SLOTS + SLOT * usize::from(slots);
        if self.rows().heap() < floor + len || self.rows().heap() > PAGE_SIZE {
            self.compact()?;
        }
        let at = self.rows().heap().checked_sub(len).filter(|at| *at >= floor).ok_or(Garbled)?;
        put_u16(self.0, HEAP, at);
        Ok(at)
    }

    /// Puts a content, given in two parts, into slot `i`, which must be free.
    pub(crate) fn insert(&mut self, i: u16, form: Form, front: &[u8], rest: &[u8]) -> Result<(), Garbled> {
        let (slots, length) = (self.rows().slots(), front.len() + rest.len());
        if i > slots || !self.rows().slot(i)?.is_free() || length > INLINE {
            return Err(Garbled);
        }
        let room = room_for(length);
        let at = self.reserve(room, slots.max(i + 1))?;
        copy_short(&mut self.0[at..at + front.len()], front);
        copy_short(&mut self.0[at + front.len()..at + length], rest);
        if length < room {
            self.0[at + length..at + room].fill(0);
        }
        match i == slots {
            true => put_u16(self.0, COUNT, usize::from(slots) + 1),
            false => self.count_up(FREE_SLOTS, -1)?,
        }
        let flag = if form == Form::Special { SPECIAL } else { 0 };
        self.put_slot(i, Slot { offset: at as u16 | flag, length: length as u16, room: room as u16 })?;
        Ok(())
    }

    /// Replaces the content of slot `i`, which gets the form `form`.
    pub(crate) fn replace(&mut self, i: u16, form: Form, content: &[u8]) -> Result<(), Garbled> {
        let slot = self.taken(i)?;
        let flag = if form == Form::Special { SPECIAL } else { 0 };
        self.resize(i, Slot { offset: slot.offset & !SPECIAL | flag, ..slot }, content)
    }

    /// Frees slot `i`, row or ghost.
    pub(crate) fn remove(&mut self, i: u16) -> Result<(), Garbled> {
        let slot = self.taken(i)?;
        if slot.is_ghost() {
            self.count_up(GHOSTS, -1)?;
        }
        self.put_slot(i, Slot::FREE)?;
        self.count_up(FREE_SLOTS, 1)?;
        let floor = SLOTS + SLOT * usize::from(self.rows().slots());
        if self.rows().heap() < floor + usize::from(slot.room) {
            self.close(slot)?;
        } else {
            self.count_up(DEAD, slot.room as isize)?;
        }
        while let Some(last) = self.rows().slots().checked_sub(1)
            && self.rows().slot(last)?.is_free()
        {
            put_u16(self.0, COUNT, last.into());
            self.count_up(FREE_SLOTS, -1)?;
        }
        Ok(())
    }

    fn taken(&self, i: u16) -> Result<Slot, Garbled> {
        let slot = self.rows().slot(i)?;
        if slot.is_free() { Err(Garbled) } else { Ok(slot) }
    }

    /// Turns a row into a ghost.
    pub(crate) fn bury(&mut self, i: u16) -> Result<(), Garbled> {
        let slot = self.taken(i)?;
        if slot.is_ghost() {
            return Err(Garbled);
        }
        self.count_up(GHOSTS, 1)?;
        self.put_slot(i, Slot { offset: slot.offset | GHOST, ..slot })?;
        Ok(())
    }

    /// Turns a ghost back into a row.
    pub(crate) fn restore(&mut self, i: u16) -> Result<(), Garbled> {
        let slot = self.taken(i)?;
        if !slot.is_ghost() {
            return Err(Garbled);
        }
        self.count_up(GHOSTS, -1)?;
        self.put_slot(i, Slot { offset: slot.offset & !GHOST, ..slot })?;
        Ok(())
    }

    /// Replaces `old` bytes of the content of slot `i` from `at` on by `new`.
    pub(crate) fn splice(&mut self, i: u16, at: usize, old: usize, new: &[u8]) -> Result<(), Garbled> {
        let slot = self.taken(i)?;
        let length = usize::from(slot.length);
        let tail = at.checked_add(old).filter(|end| *end <= length).ok_or(Garbled)?;
        if old == new.len() {
            let from = slot.at() + at;
            self.0.get_mut(from..from + new.len()).ok_or(Garbled)?.copy_from_slice(new);
            return Ok(());
        }
        let row = self.rows().bytes_of(slot)?;
        let row = [&row[..at], new, &row[tail..]].concat();
        self.resize(i, slot, &row)
    }

    fn resize(&mut self, i: u16, slot: Slot, row: &[u8]) -> Result<(), Garbled> {
        if row.len() > INLINE {
            return Err(Garbled);
        }
        let flags = slot.offset & FLAGS;
        let mut next = Slot { length: row.len() as u16, ..slot };
        if row.len() > usize::from(slot.room) {
            if !self.rows().fits_grown(i, row.len())? {
                return Err(Garbled);
            }
            self.count_up(DEAD, slot.room as isize)?;
            self.put_slot(i, Slot { length: 0, room: 0, ..slot })?;
            let room = room_for(row.len());
            let at = self.reserve(room, self.rows().slots())?;
            next = Slot { offset: at as u16 | flags, room: room as u16, ..next };
        }
        let at = next.at();
        self.0.get_mut(at..at + row.len()).ok_or(Garbled)?.copy_from_slice(row);
        self.put_slot(i, next)?;
        Ok(())
    }

    /// Closes the hole of a removed content: moves all content below it up by the hole's size.
    /// Called when little contiguous space is free. Without it, the next insert would
    /// [compact](RowsMut::compact) the whole page, and so would each later insert after a removal.
    fn close(&mut self, gone: Slot) -> Result<(), Garbled> {
        let (heap, std::ops::Range { start, end }) = (self.rows().heap(), gone.extent());
        if heap > start || end > PAGE_SIZE {
            return Err(Garbled);
        }
        let room = end - start;
        self.0.copy_within(heap..start, heap + room);
        self.0[heap..heap + room].fill(0);
        for i in 0..self.rows().slots() {
            // Not `slot`: spare bytes have moved, and their number with them.
            let packed = self.rows().packed(i)?;
            let slot = Slot::unpack(packed);
            if !slot.is_free() && slot.at() < start {
                put_u32(self.0, slot_at(i), packed + room as u32);
            }
        }
        put_u16(self.0, HEAP, heap + room);
        Ok(())
    }

    /// Gathers the free space into one run. Slots keep their numbers.
    fn compact(&mut self) -> Result<(), Garbled> {
        let old = Box::new(*self.0);
        let rows = Rows(&old);
        let floor = SLOTS + SLOT * usize::from(rows.slots());
        let mut heap = PAGE_SIZE;
        self.0.get_mut(floor..).ok_or(Garbled)?.fill(0);
        for i in 0..rows.slots() {
            let slot = rows.slot(i)?;
            if slot.is_free() {
                continue;
            }
            let bytes = old.get(slot.extent()).ok_or(Garbled)?;
            heap = heap.checked_sub(bytes.len()).filter(|at| *at >= floor).ok_or(Garbled)?;
            self.0[heap..heap + bytes.len()].copy_from_slice(bytes);
            self.put_slot(i, Slot { offset: heap as u16 | slot.offset & FLAGS, ..slot })?;
        }
        put_u16(self.0, HEAP, heap);
        put_u16(self.0, DEAD, 0);
        Ok(())
    }
}
