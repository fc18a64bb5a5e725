//! The position of a scan, and the rows that it copies out of one leaf.

use super::Purpose;
use super::owned::Own;
use base::{Key, TableId};
use std::ops::Bound;
use store::ChunkEnd;
use txn::{Direction, Range};

/// The position of a scan.
pub(super) struct Cursor<'o> {
    pub(super) purpose: Purpose,
    pub(super) index: TableId,
    pub(super) from: Bound<Key>,
    pub(super) until: Option<Key>,
    pub(super) direction: Direction,
    /// The rows to visit, if not all of the range.
    pub(super) own: Option<&'o Own>,
}

impl<'o> Cursor<'o> {
    pub(super) fn start(
        purpose: Purpose,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        own: Option<&'o Own>,
    ) -> Cursor<'o> {
        let low = range.low.map(Key::from_bytes);
        let high = range.high.map(Key::from_bytes);
        let (from, until) = match direction {
            Direction::Forward => (low.map_or(Bound::Unbounded, Bound::Included), high),
            Direction::Backward => (high.map_or(Bound::Unbounded, Bound::Excluded), low),
        };
        Cursor { purpose, index, from, until, direction, own }
    }

    /// Whether the row is missing from an entry, though the scan reads rows.
    pub(super) fn lacks(&self, row: &[u8]) -> bool {
        row.is_empty() && !self.purpose.is_of_keys()
    }

    pub(super) fn from(&self) -> Bound<&[u8]> {
        self.from.as_ref().map(Key::as_slice)
    }

    pub(super) fn until(&self) -> Option<&[u8]> {
        self.until.as_deref()
    }

    /// Whether no key from `onwards` on is in the range.
    pub(super) fn ends_before(&self, onwards: &Bound<Key>) -> bool {
        let Some(until) = &self.until else { return false };
        match (self.direction, onwards) {
            (Direction::Forward, Bound::Included(key) | Bound::Excluded(key)) => key >= until,
            (Direction::Backward, Bound::Included(key)) => key < until,
            (Direction::Backward, Bound::Excluded(key)) => key <= until,
            (_, Bound::Unbounded) => false,
        }
    }

    /// Moves past a chunk; `false` when it was the last.
    pub(super) fn advance(&mut self, end: ChunkEnd) -> bool {
        match end {
            ChunkEnd::Done(_) => false,
            ChunkEnd::More(from) => {
                self.from = from;
                true
            }
        }
    }
}

/// Rows copied out of one leaf, so that their locks can be waited for without a latch.
#[derive(Default)]
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    /// The end of the key and of the row of each.
    pub(super) ends: Vec<(u32, u32)>,
    pub(super) end: ChunkEnd,
}

impl Chunk {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(super) fn push(&mut self, key: &[u8], row: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len() as u32;
        self.bytes.extend_from_slice(row);
        self.ends.push((key_end, self.bytes.len() as u32));
    }

    pub(super) fn same_keys(&self, other: &Chunk) -> bool {
        self.end == other.end && self.rows().map(|(key, _)| key).eq(other.rows().map(|(key, _)| key))
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(key_end, row_end)| {
            let row = (&self.bytes[start..key_end as usize], &self.bytes[key_end as usize..row_end as usize]);
            start = row_end as usize;
            row
        })
    }
}
