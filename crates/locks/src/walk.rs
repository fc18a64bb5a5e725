//! One walk over the waits-for graph: where it was, and how it came there.

use crate::queue::LockerId;

/// Working memory of the detector.
#[derive(Default)]
pub(crate) struct Walk {
    pub stack: Vec<LockerId>,
    /// All lockers met so far, each with the locker that waits for it.
    seen: Vec<(LockerId, LockerId)>,
    /// One bit per locker: set if it was met.
    marks: Vec<u64>,
}

impl Walk {
    pub fn start(&mut self, from: LockerId) {
        for (id, _) in self.seen.drain(..) {
            self.marks[id as usize / 64] = 0;
        }
        self.stack.clear();
        self.visit(from, from);
    }

    pub fn visit(&mut self, id: LockerId, from: LockerId) {
        let (word, bit) = (id as usize / 64, 1 << (id % 64));
        if self.marks.len() <= word {
            self.marks.resize(word + 1, 0);
        }
        if self.marks[word] & bit == 0 {
            self.marks[word] |= bit;
            self.seen.push((id, from));
            self.stack.push(id);
        }
    }

    /// The members of the cycle that `last` closes by waiting for `start`.
    pub fn members(&self, start: LockerId, last: LockerId) -> Vec<LockerId> {
        let mut members = vec![last];
        let mut at = last;
        while at != start {
            let from = self.seen.iter().find(|s| s.0 == at).map_or(start, |s| s.1);
            members.push(from);
            at = from;
        }
        members
    }
}
