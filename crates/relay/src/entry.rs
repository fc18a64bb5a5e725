//! Entries, as the tape has them.
//!
//! ```text
//!  0 "ATRL"   4 crc32c u32 (of bytes 8..)   8 term u64   16 owner u64   24 index u64
//! 32 chain u64   40 counted u64   48 kind u8   49 payload
//! ```
//! All numbers are little-endian. `owner` is drawn at random for each opening. `chain` is a
//! checksum over the entries before (crc-64 of the chain before and the entry before), and
//! `counted` the number of entries that had counted for the owner when it made this one. A seal's
//! index, chain and counted are 0: its owner does not know yet how far the log reaches. So are
//! those of a milestone, and its term.

use base::crc32c;
use std::fmt;

const MAGIC: &[u8; 4] = b"ATRL";
pub(crate) const HEAD: usize = 49;

/// The number of an ownership; it grows with each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term(pub u64);

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A checksum over all entries up to one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chain(pub u64);

impl Chain {
    /// The chain with one more entry.
    pub fn with(self, entry: &[u8]) -> Chain {
        let mut sum = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme);
        sum.update(&self.0.to_le_bytes());
        sum.update(entry);
        Chain(sum.finalize())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From here on entries of earlier terms are ignored.
    Seal,
    /// The owner's bytes.
    Bytes,
    /// The log may begin here: [`crate::Milestone`].
    Milestone,
}

/// One entry, read from or made for a tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    pub term: Term,
    /// Drawn at random for each opening.
    pub owner: u64,
    /// The first entry that is no seal has index 1.
    pub index: u64,
    pub chain: Chain,
    pub counted: u64,
    pub kind: Kind,
    pub payload: &'a [u8],
}

impl<'a> Entry<'a> {
    pub fn seal(term: Term, owner: u64, payload: &'a [u8]) -> Entry<'a> {
        Entry { term, owner, index: 0, chain: Chain(0), counted: 0, kind: Kind::Seal, payload }
    }

    /// `by` is drawn at random for each.
    pub fn milestone(by: u64, payload: &'a [u8]) -> Entry<'a> {
        Entry { kind: Kind::Milestone, ..Entry::seal(Term(0), by, payload) }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD + self.payload.len());
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[0; 4]);
        for number in [self.term.0, self.owner, self.index, self.chain.0, self.counted] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.push(self.kind as u8);
        out.extend_from_slice(self.payload);
        let sum = crc32c(&out[8..]);
        out[4..8].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// `None` if these bytes are no intact entry.
    pub fn decode(bytes: &'a [u8]) -> Option<Entry<'a>> {
        let (head, payload) = bytes.split_at_checked(HEAD)?;
        let sum = u32::from_le_bytes(head[4..8].try_into().ok()?);
        if &head[..4] != MAGIC || sum != crc32c(&bytes[8..]) {
            return None;
        }
        let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        let kind = match head[48] {
            0 => Kind::Seal,
            1 => Kind::Bytes,
            2 => Kind::Milestone,
            _ => return None,
        };
        let (term, owner, index) = (Term(number(8)), number(16), number(24));
        Some(Entry { term, owner, index, chain: Chain(number(32)), counted: number(40), kind, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_comes_back_and_a_changed_one_does_not() {
        let chain = Chain(5).with(b"before");
        let entry = Entry {
            term: Term(3),
            owner: 9,
            index: 7,
            chain,
            counted: 6,
            kind: Kind::Bytes,
            payload: b"abc",
        };
        let bytes = entry.encode();
        assert_eq!(Entry::decode(&bytes), Some(entry));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(Entry::decode(&changed), None, "byte {at}");
            assert_eq!(Entry::decode(&bytes[..at]), None, "cut at {at}");
        }
        assert_ne!(Chain(5).with(b"before"), Chain(6).with(b"before"));
    }
}
