//! The rules by which an entry counts: the same for the owner that reads its own tape and for each
//! successor.
//!
//! ```text
//!  position  1       2      3      4      5        6      7      8
//!            seal 1  1.1    1.2    1.4    seal 2   1.5    2.3    2.3
//!                    counts counts gap             stale  counts again
//! ```

use crate::entry::{Chain, Entry, Kind, Term};
use crate::fault::Fault;

/// How far a log counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Of the last seal that counts, with its owner's number; 0 before the first.
    pub term: Term,
    pub owner: u64,
    /// The number of entries that count.
    pub counted: u64,
    /// Over these entries.
    pub chain: Chain,
    /// The position behind the last one that was looked at.
    pub next: u64,
}

/// What an entry is in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is the next one.
    Counts { index: u64 },
    /// It seals the log for its owner.
    Seals,
    /// It does not count and never will: of an older term, or one that is there twice.
    Stale,
    /// It comes before its turn: its owner appends it again.
    Early,
    /// The log may begin here. It is not the owner's, and never counts.
    Milestone,
}

/// Walks along a tape, position by position.
#[derive(Clone, Debug, Default)]
pub struct Walker {
    place: Place,
}

impl Walker {
    pub fn from(place: Place) -> Walker {
        Walker { place }
    }

    pub fn place(&self) -> Place {
        self.place
    }

    /// The entry at `position` is known to be the next one, without a look at it.
    pub(crate) fn count(&mut self, position: u64, bytes: &[u8]) {
        self.place.counted += 1;
        self.place.chain = self.place.chain.with(bytes);
        self.place.next = position + 1;
    }

    /// What lies at `position` is lost or damaged, and the walk goes on behind it.
    pub(crate) fn pass(&mut self, position: u64) {
        self.place.next = position + 1;
    }

    /// Judges what lies at `position`, which is the next one.
    ///
    /// # Errors
    /// [`Fault::Hole`] or [`Fault::Damaged`]; the walker is as before.
    pub fn offer(&mut self, position: u64, bytes: &[u8]) -> Result<Verdict, Fault> {
        let damaged = |what: &str| Fault::Damaged { position, what: what.to_owned() };
        let place = &mut self.place;
        if position != place.next && place.next != 0 {
            let what = format!("position {} is not there", place.next);
            return Err(Fault::Damaged { position, what });
        }
        let entry = Entry::decode(bytes).ok_or_else(|| damaged("this is no intact entry of a log"))?;
        let verdict = match entry.kind {
            Kind::Milestone => Verdict::Milestone,
            Kind::Seal if entry.term > place.term => {
                (place.term, place.owner) = (entry.term, entry.owner);
                Verdict::Seals
            }
            Kind::Seal => Verdict::Stale,
            Kind::Bytes if entry.term > place.term => return Err(damaged("the seal of its term is missing")),
            Kind::Bytes if entry.term < place.term || entry.owner != place.owner => Verdict::Stale,
            Kind::Bytes if entry.counted > place.counted => {
                return Err(Fault::Hole { have: place.counted, counted: entry.counted, position });
            }
            Kind::Bytes if entry.index <= place.counted => Verdict::Stale,
            Kind::Bytes if entry.index > place.counted + 1 => Verdict::Early,
            Kind::Bytes if entry.chain != place.chain => {
                return Err(damaged("the entries before it are not those that its owner wrote"));
            }
            Kind::Bytes => {
                place.counted = entry.index;
                place.chain = place.chain.with(bytes);
                Verdict::Counts { index: entry.index }
            }
        };
        place.next = position + 1;
        Ok(verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An owner's entry with the chain over those before.
    fn bytes(term: u64, index: u64, chain: Chain, counted: u64) -> Vec<u8> {
        let (term, kind) = (Term(term), Kind::Bytes);
        Entry { term, owner: term.0 * 10, index, chain, counted, kind, payload: &[index as u8] }.encode()
    }

    fn seal(term: u64) -> Vec<u8> {
        Entry::seal(Term(term), term * 10, b"").encode()
    }

    #[test]
    fn the_drawing_above() {
        let mut walker = Walker::default();
        let first = bytes(1, 1, Chain(0), 0);
        let second = bytes(1, 2, Chain(0).with(&first), 0);
        let chain = Chain(0).with(&first).with(&second);
        let third = bytes(2, 3, chain, 2);
        let tape = [
            (seal(1), Verdict::Seals),
            (first, Verdict::Counts { index: 1 }),
            (second, Verdict::Counts { index: 2 }),
            (bytes(1, 4, Chain(8), 2), Verdict::Early),
            (seal(2), Verdict::Seals),
            (bytes(1, 5, Chain(9), 2), Verdict::Stale),
            (third.clone(), Verdict::Counts { index: 3 }),
            (third, Verdict::Stale),
            (seal(2), Verdict::Stale),
        ];
        for (position, (entry, verdict)) in (1..).zip(&tape) {
            assert_eq!(walker.offer(position, entry), Ok(*verdict), "position {position}");
        }
    }

    #[test]
    fn what_is_missing_is_told() {
        let mut walker = Walker::default();
        walker.offer(1, &seal(1)).unwrap();
        let lost = bytes(1, 1, Chain(0), 0);
        let next = bytes(1, 2, Chain(0).with(&lost), 1);
        assert_eq!(walker.offer(2, &next), Err(Fault::Hole { have: 0, counted: 1, position: 2 }));
        let other = bytes(1, 1, Chain(7), 0);
        assert!(matches!(walker.offer(2, &other), Err(Fault::Damaged { position: 2, .. })), "chain");
        assert!(matches!(walker.offer(2, b"x"), Err(Fault::Damaged { .. })), "foreign bytes");
        let unsealed = bytes(3, 1, Chain(0), 0);
        assert!(matches!(walker.offer(2, &unsealed), Err(Fault::Damaged { .. })), "no seal");
        assert!(matches!(walker.offer(3, &lost), Err(Fault::Damaged { .. })), "a position is missing");
        assert_eq!(walker.offer(2, &lost), Ok(Verdict::Counts { index: 1 }));
    }

    #[test]
    fn of_two_owners_of_one_term_the_first_seal_counts() {
        let mut walker = Walker::default();
        walker.offer(1, &Entry::seal(Term(1), 5, b"").encode()).unwrap();
        assert_eq!(walker.offer(2, &Entry::seal(Term(1), 6, b"").encode()), Ok(Verdict::Stale));
        let of = |owner| {
            let kind = Kind::Bytes;
            Entry { term: Term(1), owner, index: 1, chain: Chain(0), counted: 0, kind, payload: b"" }.encode()
        };
        assert_eq!(walker.offer(3, &of(6)), Ok(Verdict::Stale));
        assert_eq!(walker.offer(4, &of(5)), Ok(Verdict::Counts { index: 1 }));
    }
}
