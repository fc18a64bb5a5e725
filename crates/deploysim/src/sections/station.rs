//! Sections of which an entry may meet another one: a latch, a lock's head, a queue, a tree, the
//! log's buffer.

use std::collections::HashMap;

/// The name of a section.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Name {
    /// The root of a table's index, or of the sub-tree of a partition.
    Root {
        table: u16,
        partition: u32,
    },
    /// A heap page.
    Page {
        table: u16,
        page: u32,
    },
    /// The head of a row's lock.
    Head {
        row: u32,
    },
    /// The queue of an owner.
    Queue {
        context: u16,
    },
    Log,
}

/// A section that serves its entries one after the other, or, if it is cooperative, in groups.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Section {
    /// The context that was inside last: its cache has the lines.
    pub owner: Option<usize>,
    free_at: f64,
    /// Of a cooperative section: the end of the group that forms.
    group_ends: f64,
}

impl Section {
    /// An entry at `now` of `ns`: the times at which it is inside, and out.
    pub fn enter(&mut self, now: f64, context: usize, ns: f64) -> (f64, f64) {
        let start = now.max(self.free_at);
        self.owner = Some(context);
        self.free_at = start + ns;
        (start, self.free_at)
    }

    /// As [`Section::enter`], together with all that wait at this moment: one of them does the work
    /// for the group.
    pub fn join(&mut self, now: f64, context: usize, ns: f64) -> (f64, f64) {
        if now < self.free_at && self.group_ends > self.free_at {
            return (self.free_at, self.group_ends);
        }
        if self.group_ends > now && self.group_ends > self.free_at {
            // The group that formed is inside.
            self.free_at = self.group_ends;
        }
        let start = now.max(self.free_at);
        self.owner = Some(context);
        self.group_ends = start + ns;
        if start == now {
            self.free_at = self.group_ends;
        }
        (start, self.group_ends)
    }
}

/// All sections that were entered.
#[derive(Default)]
pub(super) struct Sections(HashMap<Name, Section>);

impl Sections {
    pub fn of(&mut self, name: Name) -> &mut Section {
        self.0.entry(name).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_follow_each_other() {
        let mut section = Section::default();
        assert_eq!(section.enter(10.0, 0, 5.0), (10.0, 15.0));
        assert_eq!(section.enter(11.0, 1, 5.0), (15.0, 20.0));
        assert_eq!(section.enter(40.0, 0, 5.0), (40.0, 45.0));
    }

    #[test]
    fn all_that_wait_for_a_cooperative_section_share_one_turn() {
        let mut log = Section::default();
        assert_eq!(log.join(0.0, 0, 10.0), (0.0, 10.0));
        assert_eq!(log.join(1.0, 1, 10.0), (10.0, 20.0));
        assert_eq!(log.join(9.0, 2, 10.0), (10.0, 20.0));
        // The group of the second is inside: the next group forms.
        assert_eq!(log.join(12.0, 3, 10.0), (20.0, 30.0));
        assert_eq!(log.join(13.0, 4, 10.0), (20.0, 30.0));
        assert_eq!(log.join(90.0, 0, 10.0), (90.0, 100.0));
    }
}
