//! A set-associative cache with least-recently-used replacement. A set is an array of words, the
//! line used last in front.

/// An invalid way: the word of a line that no trace has.
const EMPTY: u64 = u64::MAX;
/// Where the note of a line lies in its word.
const NOTE_SHIFT: u32 = 56;
const LINE: u64 = (1 << NOTE_SHIFT) - 1;

/// The note in a word.
#[inline]
fn note_of(word: u64) -> u8 {
    (word >> NOTE_SHIFT) as u8
}

/// A line and its note; `None` for an invalid way.
#[inline]
fn parts(word: u64) -> Option<(u64, u8)> {
    (word != EMPTY).then_some((word & LINE, note_of(word)))
}

/// What an access found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// The line was there, with this note.
    Hit(u8),
    /// The line was filled in; this one, with its note, had to leave.
    Miss(Option<(u64, u8)>),
}

impl Access {
    pub fn is_hit(self) -> bool {
        matches!(self, Access::Hit(_))
    }
}

/// A cache of lines below 2^56 - 1. Each line may carry a note of eight bits.
#[derive(Clone, Debug)]
pub struct SetCache {
    words: Vec<u64>,
    ways: usize,
    sets: u64,
    /// Whether the lowest bits of a line are its set.
    by_bits: bool,
}

impl SetCache {
    /// # Panics
    /// Without sets or ways.
    pub fn new(sets: usize, ways: usize) -> SetCache {
        assert!(sets > 0 && ways > 0, "a cache has sets and ways");
        let by_bits = sets.is_power_of_two();
        SetCache { words: vec![EMPTY; sets * ways], ways, sets: sets as u64, by_bits }
    }

    pub fn lines(&self) -> usize {
        self.words.len()
    }

    /// The set of a line.
    #[inline]
    pub fn set_of(&self, line: u64) -> usize {
        let set = if self.by_bits { line & (self.sets - 1) } else { line % self.sets };
        set as usize
    }

    #[inline]
    fn ways_of(&self, line: u64) -> &[u64] {
        let start = self.set_of(line) * self.ways;
        &self.words[start..start + self.ways]
    }

    #[inline]
    fn ways_of_mut(&mut self, line: u64) -> &mut [u64] {
        let start = self.set_of(line) * self.ways;
        &mut self.words[start..start + self.ways]
    }

    /// Uses a line, and fills it in with the note `fresh` where it is not there.
    #[inline]
    pub fn access(&mut self, line: u64, fresh: u8) -> Access {
        let ways = self.ways_of_mut(line);
        let front = ways[0];
        if front & LINE == line {
            return Access::Hit(note_of(front));
        }
        // Each word moves back by one place, as far as the line's own.
        let mut carried = front;
        for at in 1..ways.len() {
            let word = ways[at];
            ways[at] = carried;
            if word & LINE == line {
                ways[0] = word;
                return Access::Hit(note_of(word));
            }
            carried = word;
        }
        ways[0] = line | u64::from(fresh) << NOTE_SHIFT;
        Access::Miss(parts(carried))
    }

    /// Whether a line was the last one used in its set: then an access changes nothing.
    #[inline]
    pub fn is_front(&self, line: u64) -> bool {
        self.words[self.set_of(line) * self.ways] & LINE == line
    }

    /// Whether a line is there; changes nothing.
    #[inline]
    pub fn holds(&self, line: u64) -> bool {
        self.note(line).is_some()
    }

    #[inline]
    pub fn note(&self, line: u64) -> Option<u8> {
        self.ways_of(line).iter().find(|&&word| word & LINE == line).map(|&word| note_of(word))
    }

    /// Sets the note of a line that is there.
    #[inline]
    pub fn set_note(&mut self, line: u64, note: u8) {
        if let Some(word) = self.ways_of_mut(line).iter_mut().find(|word| **word & LINE == line) {
            *word = line | u64::from(note) << NOTE_SHIFT;
        }
    }

    /// The line, with its note, that an access to `line` would drive out.
    #[inline]
    pub fn would_drive_out(&self, line: u64) -> Option<(u64, u8)> {
        let ways = self.ways_of(line);
        let missing = ways.iter().all(|&word| word & LINE != line);
        missing.then(|| parts(ways[ways.len() - 1])).flatten()
    }

    /// The lines of the set of `line`.
    pub fn in_set(&self, line: u64) -> impl Iterator<Item = u64> {
        self.ways_of(line).iter().filter(|&&word| word != EMPTY).map(|word| word & LINE)
    }

    /// Takes a line out; its note if it was there.
    #[inline]
    pub fn remove(&mut self, line: u64) -> Option<u8> {
        let ways = self.ways_of_mut(line);
        let at = ways.iter().position(|&word| word & LINE == line)?;
        let note = note_of(ways[at]);
        ways.copy_within(at + 1.., at);
        ways[ways.len() - 1] = EMPTY;
        Some(note)
    }

    pub fn clear(&mut self) {
        self.words.fill(EMPTY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_used_longest_ago_leaves() {
        let mut cache = SetCache::new(1, 3);
        for line in [1, 2, 3] {
            assert_eq!(cache.access(line, line as u8), Access::Miss(None));
        }
        assert_eq!(cache.access(1, 0), Access::Hit(1));
        assert_eq!((cache.would_drive_out(9), cache.would_drive_out(3)), (Some((2, 2)), None));
        assert_eq!(cache.access(4, 0), Access::Miss(Some((2, 2))));
        assert_eq!(cache.remove(3), Some(3));
        assert_eq!(cache.access(5, 0), Access::Miss(None));
        assert!(cache.holds(1) && !cache.holds(3));
    }

    /// A loop over n lines hits always if they fit, and never if one set gets one line too many.
    #[test]
    fn loops_as_the_formula_says() {
        for (sets, ways) in [(64usize, 8usize), (1, 16), (4, 2), (3, 5)] {
            let misses = |lines: usize, rounds: usize| {
                let mut cache = SetCache::new(sets, ways);
                let runs = (0..rounds).flat_map(|_| 0..lines as u64);
                runs.filter(|&line| !cache.access(line, 0).is_hit()).count()
            };
            let size = sets * ways;
            assert_eq!(misses(size, 5), size);
            // Each set with a line too many misses in each round; the others keep theirs.
            let over = 1;
            let missing = over * (ways + 1);
            assert_eq!(misses(size + over, 5), size + over + 4 * missing);
        }
    }
}
