//! The cost of splitting or merging a partition in six systems (thesis section 4.3, table 4.1), and
//! the counted cost beside it.
//!
//! The sub-tree has `height` levels (level 1 is the leaves) with `fanout` entries on a full page.
//! On the path to the first key of the new partition, `moved[k - 1]` entries of level k lie at or
//! right of it: they move to a new page. The model is the worst case, where that key is found in a
//! leaf. If it is found in a page of a higher level, no entry on the levels below moves, and they
//! have 0 in `moved`.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CostError {
    #[error(
        "a tree of height {height} needs as many numbers of moved entries, one for each level; found {found}"
    )]
    Levels { height: usize, found: usize },
    #[error("level {level} of the tree moves {moved} entries, but its pages hold {fanout}")]
    Fanout { level: usize, moved: u64, fanout: u64 },
    #[error(
        "level {level} moves nothing although a level below it does: a split goes from the key's page to the root"
    )]
    Hole { level: usize },
    #[error(
        "a tree of {height} levels of {fanout} entries has more records than fit 64 bits: use a smaller tree"
    )]
    TooLarge { height: usize, fanout: u64 },
}

/// The rows of table 4.1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    PlpRegular,
    PlpLeaf,
    PlpPartition,
    SharedNothing,
    PlpClustered,
    SharedNothingClustered,
}

impl System {
    pub const ALL: [System; 6] = [
        System::PlpRegular,
        System::PlpLeaf,
        System::PlpPartition,
        System::SharedNothing,
        System::PlpClustered,
        System::SharedNothingClustered,
    ];
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            System::PlpRegular => "PLP-Regular",
            System::PlpLeaf => "PLP-Leaf",
            System::PlpPartition => "PLP-Partition",
            System::SharedNothing => "Shared-Nothing",
            System::PlpClustered => "PLP (Clustered)",
            System::SharedNothingClustered => "Shared-Nothing (Clustered)",
        })
    }
}

/// Changes of an index's entries.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Changes {
    pub updates: u64,
    pub inserts: u64,
    pub deletes: u64,
}

impl Changes {
    fn updates(updates: u64) -> Changes {
        Changes { updates, ..Changes::default() }
    }
    fn replaced(records: u64) -> Changes {
        Changes { updates: 0, inserts: records, deletes: records }
    }
}

/// The columns of table 4.1, as counts. The model and a counted split have the same shape.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Cost {
    pub records_moved: u64,
    /// Entries of the primary index that changed pages.
    pub entries_moved: u64,
    /// Entries read to find the records.
    pub reads: u64,
    /// Leaf pages read to find the records.
    pub pages_read: u64,
    /// Sibling pointers and the routing page's entry.
    pub pointer_updates: u64,
    pub primary: Changes,
    /// Of each secondary index.
    pub secondary: Changes,
}

/// The tree and the point of the cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Split {
    pub height: usize,
    pub fanout: u64,
    /// Entries to move on each level, leaves first: the thesis' m_1 .. m_h.
    pub moved: Vec<u64>,
}

impl Split {
    /// The cost by table 4.1. `PlpClustered` and `SharedNothingClustered` have records in the
    /// leaves, the other four beside the tree.
    pub fn cost(&self, system: System) -> Result<Cost, CostError> {
        self.check()?;
        let m1 = self.moved[0];
        let right = self.records_right()?;
        let entries: u64 = self.moved.iter().sum();
        let pointer_updates = 2 * self.height as u64 + 1;
        let plp = Cost { entries_moved: entries, pointer_updates, ..Cost::default() };
        let moving = |records: u64| Cost {
            records_moved: records,
            reads: records,
            primary: Changes::updates(records),
            secondary: Changes::updates(records),
            ..plp
        };
        let pages = 1 + right.saturating_sub(m1) / self.fanout;
        let emptied = Cost {
            records_moved: right,
            primary: Changes::replaced(right),
            secondary: Changes::replaced(right),
            ..Cost::default()
        };
        Ok(match system {
            System::PlpRegular => plp,
            System::PlpLeaf => Cost { pages_read: u64::from(m1 > 0), ..moving(m1) },
            System::PlpPartition => Cost { pages_read: pages, ..moving(right) },
            System::SharedNothing => Cost { reads: right, pages_read: pages, ..emptied },
            System::PlpClustered => Cost {
                records_moved: m1,
                entries_moved: entries - m1,
                secondary: Changes::updates(m1),
                ..plp
            },
            System::SharedNothingClustered => emptied,
        })
    }

    fn check(&self) -> Result<(), CostError> {
        let Split { height, fanout, moved } = self;
        if moved.len() != *height || *height == 0 {
            return Err(CostError::Levels { height: *height, found: moved.len() });
        }
        if let Some(i) = moved.iter().position(|m| m > fanout) {
            return Err(CostError::Fanout { level: i + 1, moved: moved[i], fanout: *fanout });
        }
        let lowest = moved.iter().position(|&m| m > 0).unwrap_or(moved.len() - 1);
        match moved[lowest..].iter().position(|&m| m == 0) {
            Some(i) => Err(CostError::Hole { level: lowest + i + 1 }),
            None => Ok(()),
        }
    }

    /// Records of the new partition: M. These are all records below the moved entries, each of
    /// which leads to full pages. Above the level where the key was found, one moved entry of each
    /// page leads back to the path.
    fn records_right(&self) -> Result<u64, CostError> {
        let too_large = || CostError::TooLarge { height: self.height, fanout: self.fanout };
        let found = self.moved.iter().position(|&m| m > 0).unwrap_or(0);
        let mut sum = 0u64;
        for (level, &entries) in self.moved.iter().enumerate().skip(found) {
            let whole = if level == found { entries } else { entries - 1 };
            let below = self.fanout.checked_pow(level as u32).ok_or_else(too_large)?;
            sum = below
                .checked_mul(whole)
                .and_then(|records| sum.checked_add(records))
                .ok_or_else(too_large)?;
        }
        Ok(sum)
    }
}

/// Cost of a merge (section 4.3.5).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MergeCost {
    pub records_moved: u64,
    pub entries_moved: u64,
    /// Pages on the way down to the place where the lower tree is attached.
    pub pages_visited: u64,
    pub entries_inserted: u64,
}

/// Two sub-trees to be merged; `low` has the smaller keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Merge {
    pub low_height: usize,
    pub high_height: usize,
    /// Entries in the root of the tree with the larger keys.
    pub high_root_entries: u64,
    /// Records of the partition that is given up: a shared-nothing system moves these.
    pub records: u64,
}

impl Merge {
    /// The cost in every form of PLP. With equal heights one root is appended to the other;
    /// otherwise the lower tree becomes an entry on the edge of the higher, one level above its own
    /// root.
    pub fn plp(&self) -> MergeCost {
        match self.low_height.abs_diff(self.high_height) {
            0 => MergeCost { entries_moved: self.high_root_entries, ..MergeCost::default() },
            levels => MergeCost { pages_visited: levels as u64, entries_inserted: 1, ..MergeCost::default() },
        }
    }

    pub fn shared_nothing(&self) -> MergeCost {
        MergeCost { records_moved: self.records, entries_inserted: self.records, ..MergeCost::default() }
    }
}

/// The model's row and the counted one, side by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beside {
    pub model: Cost,
    pub counted: Cost,
}

impl Beside {
    /// Each column as (name, model, counted).
    pub fn columns(&self) -> [(&'static str, u64, u64); 11] {
        let (m, c) = (&self.model, &self.counted);
        [
            ("records moved", m.records_moved, c.records_moved),
            ("entries moved", m.entries_moved, c.entries_moved),
            ("reads", m.reads, c.reads),
            ("pages read", m.pages_read, c.pages_read),
            ("pointer updates", m.pointer_updates, c.pointer_updates),
            ("primary updates", m.primary.updates, c.primary.updates),
            ("primary inserts", m.primary.inserts, c.primary.inserts),
            ("primary deletes", m.primary.deletes, c.primary.deletes),
            ("secondary updates", m.secondary.updates, c.secondary.updates),
            ("secondary inserts", m.secondary.inserts, c.secondary.inserts),
            ("secondary deletes", m.secondary.deletes, c.secondary.deletes),
        ]
    }

    /// The columns with a count above the model's worst case.
    pub fn above(&self) -> Vec<&'static str> {
        self.columns().into_iter().filter(|(_, model, counted)| counted > model).map(|c| c.0).collect()
    }
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<18} {:>12} {:>12}", "", "model", "counted")?;
        for (name, model, counted) in self.columns() {
            let mark = if counted > model { "  more than the worst case" } else { "" };
            write!(f, "\n{name:<18} {model:>12} {counted:>12}{mark}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 4.3.4: a full tree of height 3 with 170 entries of 32 bytes on a page, cut in half,
    /// records of 100 bytes.
    fn half() -> Split {
        Split { height: 3, fanout: 170, moved: vec![85; 3] }
    }

    /// A number of bytes as the table prints it.
    fn size(bytes: u64) -> String {
        match bytes {
            0 => "-".into(),
            1..1_048_576 => {
                let tenths = (bytes as f64 / 102.4).round() / 10.0;
                format!("{tenths}KB")
            }
            _ => format!("{:.0}MB", bytes as f64 / 1_048_576.0),
        }
    }

    fn changes(c: Changes) -> String {
        let number = |n: u64| if n > 1_000_000 { format!("{:.2}M", n as f64 / 1e6) } else { n.to_string() };
        match c {
            Changes { updates: 0, inserts: 0, deletes: 0 } => "-".into(),
            Changes { updates, inserts: 0, deletes: 0 } => format!("{} U", number(updates)),
            Changes { inserts, deletes, .. } => format!("{} I + {} D", number(inserts), number(deletes)),
        }
    }

    fn printed(system: System) -> String {
        let cost = half().cost(system).unwrap();
        let dash = |n: u64| if n == 0 { "-".into() } else { n.to_string() };
        let columns = [
            size(cost.records_moved * 100),
            size(cost.entries_moved * 32),
            dash(cost.pages_read),
            dash(cost.pointer_updates),
            changes(cost.primary),
            changes(cost.secondary),
        ];
        format!("{system} | {}", columns.join(" | "))
    }

    #[test]
    fn table_4_2_comes_out_as_printed() {
        let expected = [
            "PLP-Regular | - | 8KB | - | 7 | - | -",
            "PLP-Leaf | 8.3KB | 8KB | 1 | 7 | 85 U | 85 U",
            "PLP-Partition | 233MB | 8KB | 14365 | 7 | 2.44M U | 2.44M U",
            "Shared-Nothing | 233MB | - | 14365 | - | 2.44M I + 2.44M D | 2.44M I + 2.44M D",
            "PLP (Clustered) | 8.3KB | 5.3KB | - | 7 | - | 85 U",
            "Shared-Nothing (Clustered) | 233MB | - | - | - | 2.44M I + 2.44M D | 2.44M I + 2.44M D",
        ];
        assert_eq!(System::ALL.map(printed), expected);
        let partition = half().cost(System::PlpPartition).unwrap();
        assert_eq!((partition.records_moved, partition.reads), (2_441_965, 2_441_965));
        assert_eq!(half().cost(System::PlpRegular).unwrap().entries_moved * 32, 8160);
    }

    #[test]
    fn at_height_4_only_regular_and_leaf_stay_cheap() {
        let split = Split { height: 4, fanout: 170, moved: vec![85; 4] };
        let cost = |system| split.cost(system).unwrap();
        let partition = cost(System::PlpPartition);
        assert_eq!((partition.records_moved, partition.pages_read), (415_133_965, 2_441_965));
        let leaf = cost(System::PlpLeaf);
        assert_eq!((leaf.records_moved, leaf.pointer_updates), (85, 9));
    }

    #[test]
    fn a_key_found_above_the_leaves_moves_nothing_below() {
        let split = Split { height: 3, fanout: 170, moved: vec![0, 85, 85] };
        let cost = |system| split.cost(system).unwrap();
        let leaf = cost(System::PlpLeaf);
        assert_eq!((leaf.records_moved, leaf.entries_moved, leaf.pages_read), (0, 170, 0));
        assert_eq!(cost(System::PlpPartition).records_moved, 85 * 170 + 84 * 170 * 170);
    }

    #[test]
    fn trees_that_cannot_be_are_refused() {
        let cost = |height, fanout, moved: &[u64]| {
            let split = Split { height, fanout, moved: moved.to_vec() };
            split.cost(System::PlpPartition).unwrap_err()
        };
        assert_eq!(cost(3, 170, &[1, 1]), CostError::Levels { height: 3, found: 2 });
        assert_eq!(cost(0, 170, &[]), CostError::Levels { height: 0, found: 0 });
        assert_eq!(cost(2, 170, &[1, 171]), CostError::Fanout { level: 2, moved: 171, fanout: 170 });
        assert_eq!(cost(3, 170, &[1, 0, 1]), CostError::Hole { level: 2 });
        assert_eq!(cost(2, 170, &[0, 0]), CostError::Hole { level: 2 });
        assert_eq!(cost(9, 170, &[170; 9]), CostError::TooLarge { height: 9, fanout: 170 });
    }

    #[test]
    fn merging_moves_a_root_or_hangs_a_tree_in() {
        let merge =
            |low_height, high_height| Merge { low_height, high_height, high_root_entries: 12, records: 9000 };
        assert_eq!(merge(3, 3).plp(), MergeCost { entries_moved: 12, ..MergeCost::default() });
        for (low, high) in [(4, 2), (2, 4)] {
            let expected = MergeCost { pages_visited: 2, entries_inserted: 1, ..MergeCost::default() };
            assert_eq!(merge(low, high).plp(), expected);
        }
        assert_eq!(merge(3, 3).shared_nothing().records_moved, 9000);
    }

    #[test]
    fn what_was_counted_stands_beside_the_model() {
        let model = half().cost(System::PlpLeaf).unwrap();
        let counted = Cost { records_moved: 40, pointer_updates: 8, ..model };
        let beside = Beside { model, counted };
        assert_eq!(beside.above(), ["pointer updates"]);
        let told = beside.to_string();
        assert!(told.contains("records moved                85           40\n"), "{told}");
        assert!(told.contains("7            8  more than the worst case"), "{told}");
    }
}
