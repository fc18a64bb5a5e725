//! What a program has done, for `EXPLAIN ANALYZE`.

use serde::{Deserialize, Serialize};

/// What the steps of a phase do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Did {
    /// They read rows.
    Read,
    /// They read rows and lock them as for a change.
    Lock,
    /// They change rows.
    Change,
    /// They put index entries and whole rows.
    Put,
}

/// Steps that were sent at once, and awaited together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Phase {
    pub did: Did,
    pub steps: u32,
    /// The slots that they went to, each once; empty if each owner of slots was asked.
    pub slots: Vec<u32>,
    /// Rows and entries that they found or changed.
    pub rows: u64,
}

/// The phases of a program, if they are asked for.
#[derive(Debug, Default)]
pub struct Phases(Option<Vec<Phase>>);

impl Phases {
    /// From here on phases are noted.
    pub fn begin(&mut self) {
        self.0 = Some(Vec::new());
    }

    /// Whether phases are noted.
    pub(crate) fn are_noted(&self) -> bool {
        self.0.is_some()
    }

    /// The phases so far; no more are noted.
    pub fn end(&mut self) -> Vec<Phase> {
        self.0.take().unwrap_or_default()
    }

    #[inline]
    pub(crate) fn add<I: Iterator<Item = u32>>(&mut self, did: Did, slots: impl FnOnce() -> I) {
        if let Some(phases) = &mut self.0 {
            let mut slots: Vec<u32> = slots().collect();
            let steps = u32::try_from(slots.len()).unwrap_or(u32::MAX);
            slots.sort_unstable();
            slots.dedup();
            phases.push(Phase { did, steps, slots, rows: 0 });
        }
    }

    /// The last phase has found or changed so many rows.
    #[inline]
    pub(crate) fn found(&mut self, rows: usize) {
        if let Some(last) = self.0.as_mut().and_then(|phases| phases.last_mut()) {
            last.rows = rows as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_noted_only_when_asked_for() {
        let mut phases = Phases::default();
        phases.add(Did::Read, || [1].into_iter());
        assert_eq!(phases.end(), []);
        phases.begin();
        phases.add(Did::Lock, || [3, 1, 3].into_iter());
        phases.found(2);
        assert_eq!(phases.end(), [Phase { did: Did::Lock, steps: 3, slots: vec![1, 3], rows: 2 }]);
        phases.add(Did::Put, || [1].into_iter());
        assert_eq!(phases.end(), []);
    }
}
