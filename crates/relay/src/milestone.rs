//! Milestones: entries at which a log may begin.
//!
//! ```text
//!   seal  1  2  3  M  4  5  M' 6 ..          M, M': milestones
//!                  ^ trimmed: M is the first entry that is left, and M' or a later one says so
//! ```
//! The keeper of base copies appends them, at any time and without being the owner: they never
//! count, and have no term, index or chain. A milestone repeats the payload of the log's first
//! seal, so the log is known by it once that seal is gone.
//!
//! A log is trimmed to a milestone only, and only after another milestone has announced it. So a
//! reader tells a log that was trimmed from one that lost its beginning: the former begins with a
//! milestone, or, if the service removed less, before one to which a trim was announced.
//!
//! Payload: `begins u64 | note bytes u16, note | about`, numbers little-endian.

/// The longest note that is written, in bytes.
const NOTE: usize = 2048;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Milestone {
    /// The position before which everything is removed; 0: nothing is.
    pub begins: u64,
    /// For people that meet a log without its beginning: where its base copies are.
    pub note: String,
    /// The payload of the log's first seal.
    pub about: Vec<u8>,
}

impl Milestone {
    pub fn encode(&self) -> Vec<u8> {
        let mut note = self.note.as_str();
        while note.len() > NOTE {
            note = &note[..note.floor_char_boundary(note.len() - 1)];
        }
        let mut out = self.begins.to_le_bytes().to_vec();
        out.extend_from_slice(&(note.len() as u16).to_le_bytes());
        out.extend_from_slice(note.as_bytes());
        out.extend_from_slice(&self.about);
        out
    }

    /// `None` if this is no payload of a milestone.
    pub fn decode(bytes: &[u8]) -> Option<Milestone> {
        let (begins, rest) = bytes.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (note, about) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        let note = std::str::from_utf8(note).ok()?.to_owned();
        Some(Milestone { begins: u64::from_le_bytes(*begins), note, about: about.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_milestone_comes_back_and_a_cut_one_does_not() {
        let milestone = Milestone { begins: 7, note: "where é".into(), about: vec![1, 2] };
        let bytes = milestone.encode();
        assert_eq!(Milestone::decode(&bytes), Some(milestone));
        for cut in 0..bytes.len() - 2 {
            assert_eq!(Milestone::decode(&bytes[..cut]), None, "cut at {cut}");
        }
        let long = Milestone { note: "é".repeat(NOTE), ..Milestone::default() };
        let back = Milestone::decode(&long.encode()).unwrap();
        assert_eq!(back.note.len(), NOTE);
    }
}
