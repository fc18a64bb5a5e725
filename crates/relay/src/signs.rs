//! Signs in a log of how far the folder of its owner is, which its readers do not see.
//!
//! ```text
//!   seal 1  rename 2  rename 3  seal 4       the folder has the log ..
//!        '-- 1 counts: up to the seal
//!                     '-- 3 counts: up to the rename 2     rename 3, seal 4: not known yet
//! ```
//! An owner has read the log up to its seal, and noted that in its folder, before its first entry.
//! It notes each rename or removal before the next one. So what comes next confirms the last one,
//! and it may come many readings later: a reader keeps its signs for the next reading.

/// The numbers are positions right behind an entry, 0 for none. They are facts about the log, of
/// use to each reader of it, whichever part it reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    /// The folder has the log up to here at least.
    pub floor: u64,
    /// Of the last rename or removal that counts.
    pub renamed: u64,
    /// Of the last seal that counts.
    pub sealed: u64,
}

impl Signs {
    /// The facts of both.
    #[must_use]
    pub fn with(self, other: Signs) -> Signs {
        Signs {
            floor: self.floor.max(other.floor),
            renamed: self.renamed.max(other.renamed),
            sealed: self.sealed.max(other.sealed),
        }
    }

    pub(crate) fn seal(&mut self, position: u64) {
        self.sealed = self.sealed.max(position + 1);
    }

    /// An entry counts at this position.
    pub(crate) fn entry(&mut self, position: u64) {
        if self.sealed <= position {
            self.floor = self.floor.max(self.sealed);
        }
    }

    /// An entry with a rename or removal counts at this position.
    pub(crate) fn rename(&mut self, position: u64) {
        if self.renamed <= position {
            self.floor = self.floor.max(self.renamed);
            self.renamed = position + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The log of the drawing: an entry counts at 2, renames at 3 and 5, seals lie at 1 and 6.
    fn read(signs: &mut Signs, positions: std::ops::Range<u64>) {
        for position in positions {
            match position {
                1 | 6 => signs.seal(position),
                3 | 5 => {
                    signs.entry(position);
                    signs.rename(position);
                }
                _ => signs.entry(position),
            }
        }
    }

    #[test]
    fn each_seal_and_rename_is_confirmed_by_what_comes_next() {
        let floors = [0, 0, 2, 2, 2, 4, 4, 7, 7];
        for (end, floor) in (1..).zip(floors) {
            let mut signs = Signs::default();
            read(&mut signs, 1..end);
            assert_eq!(signs.floor, floor, "before position {end}");
        }
    }

    #[test]
    fn what_another_reader_knows_of_later_positions_is_not_confirmed_by_earlier_ones() {
        let ahead = Signs { floor: 0, renamed: 6, sealed: 7 };
        let mut signs = ahead;
        read(&mut signs, 2..6);
        assert_eq!(signs, ahead);
        read(&mut signs, 6..9);
        assert_eq!(signs, Signs { floor: 7, ..ahead });
    }
}
