//! The kinds of log records that this crate writes. Kinds up to [`access::Kind::LAST`] belong to
//! the access methods.
//!
//! | kind | transaction | body |
//! |---|---|---|
//! | commit | its last record | empty |
//! | noted commit | its last record | the note, live until it is forgotten |
//! | end | the last record of a rollback | empty |
//! | prepare | from here on only a decision ends it | the note |
//! | note | none | the note |
//! | forget | none | u64: the LSN of the end of the note's record, which is its name |
//! | joint commit | the last record of several; one of them in the header | [`Joint`] |
//! | noted joint commit | the same | [`Joint`], then the note |
//! | joint prepare | of several | [`Joint`], then the note |
//!
//! 37 is not used.

use base::{TableId, TxnId};

pub(crate) const COMMIT: u8 = 32;
pub(crate) const END: u8 = 33;
pub(crate) const PREPARE: u8 = 34;
pub(crate) const NOTE: u8 = 35;
pub(crate) const FORGET: u8 = 36;
pub(crate) const NOTED_COMMIT: u8 = 38;
pub(crate) const JOINT_COMMIT: u8 = 39;
pub(crate) const JOINT_PREPARE: u8 = 40;
pub(crate) const NOTED_JOINT_COMMIT: u8 = 41;

/// The table id in the pages and records of the catalog's heap.
pub(crate) const CATALOG: TableId = TableId(u16::MAX);

const _: () = assert!(COMMIT > access::Kind::LAST);

/// The branches that one record names: a u16 count, then a u64 for each. The branch in the record's
/// header is among them.
pub(crate) struct Joint<'a>(&'a [[u8; 8]]);

impl Joint<'_> {
    /// Appends the list to `out`.
    ///
    /// # Panics
    /// With more than 65,535 branches. There is at most one per worker.
    pub fn encode(ids: impl ExactSizeIterator<Item = TxnId>, out: &mut Vec<u8>) {
        let count = u16::try_from(ids.len()).expect("no more branches than workers");
        out.extend(count.to_le_bytes());
        ids.for_each(|id| out.extend(id.0.to_le_bytes()));
    }

    /// The list, and the bytes that follow it.
    pub fn decode(body: &[u8]) -> Option<(Joint<'_>, &[u8])> {
        let (count, rest) = body.split_first_chunk::<2>()?;
        let (ids, note) = rest.split_at_checked(usize::from(u16::from_le_bytes(*count)) * 8)?;
        Some((Joint(ids.as_chunks().0), note))
    }

    pub fn ids(&self) -> impl Iterator<Item = TxnId> {
        self.0.iter().map(|id| TxnId(u64::from_le_bytes(*id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_branches_comes_back_and_half_of_one_does_not() {
        let (ids, mut body) = ([TxnId(7), TxnId(1 << 40)], Vec::new());
        Joint::encode(ids.into_iter(), &mut body);
        body.extend(b"note");
        let (joint, note) = Joint::decode(&body).unwrap();
        assert_eq!((joint.ids().collect::<Vec<_>>(), note), (ids.to_vec(), &b"note"[..]));
        for short in 0..18 {
            assert!(Joint::decode(&body[..short]).is_none(), "{short} bytes");
        }
    }
}
