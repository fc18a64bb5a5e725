//! The designs of one instance, by what each of them protects in which way.

use crate::error::ModelError;

/// The parties that may touch a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Any thread, after a lock of the central lock manager.
    Anyone,
    /// The row's owner. Threads hand actions to it; its locks are its own.
    Owner,
}

/// The index of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Index {
    /// One tree. A descent latches each of its pages.
    OneRoot,
    /// A sub-tree for each partition. A descent latches its pages, and begins below the root.
    ManyRoots,
    /// A sub-tree for each partition, which its owner visits without latches.
    Owned,
}

/// Heap pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heap {
    /// A page has rows of any partition: a visit latches it.
    Latched,
    /// A page has rows of one partition or leaf: no latch, and rows of two partitions never share.
    Owned,
}

/// One of [`DESIGNS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Design {
    pub name: &'static str,
    pub access: Access,
    pub index: Index,
    pub heap: Heap,
}

const fn design(name: &'static str, access: Access, index: Index, heap: Heap) -> Design {
    Design { name, access, index, heap }
}

/// The five designs of the thesis (s3.4.1), and the first two with multi-rooted indexes (s3.4.5).
/// Partition and Leaf differ by space and by the cost of repartitioning alone.
pub const DESIGNS: [Design; 7] = [
    design("conventional", Access::Anyone, Index::OneRoot, Heap::Latched),
    design("conventional-mrbt", Access::Anyone, Index::ManyRoots, Heap::Latched),
    design("logical", Access::Owner, Index::OneRoot, Heap::Latched),
    design("logical-mrbt", Access::Owner, Index::ManyRoots, Heap::Latched),
    design("plp-regular", Access::Owner, Index::Owned, Heap::Latched),
    design("plp-partition", Access::Owner, Index::Owned, Heap::Owned),
    design("plp-leaf", Access::Owner, Index::Owned, Heap::Owned),
];

impl Design {
    /// # Errors
    /// A name that is none of [`DESIGNS`].
    pub fn named(name: &str) -> Result<Design, ModelError> {
        let known = || DESIGNS.map(|design| design.name).join(", ");
        DESIGNS.into_iter().find(|design| design.name == name).ok_or_else(|| ModelError::Value {
            what: format!("the design (one of {})", known()),
            value: name.to_owned(),
            expected: "one of these",
        })
    }

    pub(super) fn has_owners(&self) -> bool {
        self.access == Access::Owner
    }
}
