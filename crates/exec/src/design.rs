//! A design is two policies: who may touch a record, and what protects it.

use crate::local::Locking;
use latch::{ByPage, LatchPolicy, Optimistic, Owned, Policies, RawMutex, SpinRaw, ThreadBound};
use std::fmt;
use std::str::FromStr;
use store::HeapForm;

/// The policies of one design, fixed at compile time: the access methods are generated once for each.
pub trait Design: Sized + Send + Sync + 'static {
    const LOCKING: Locking;
    /// How pages are protected.
    type Latch: Policies;
    /// How the lock table is protected.
    type Mutex: RawMutex + Send + Sync;
    /// Whether each worker owns keys.
    const OWNERS: bool = matches!(Self::LOCKING, Locking::ByOwner);
    /// Whether more than one thread touches the pages.
    const LATCHED: bool = <<Self::Latch as Policies>::Heap as LatchPolicy>::LATCHED;
}

/// Latched pages, which readers look at without latches, and a central lock table: the transaction's own worker runs
/// every step.
#[derive(Debug)]
pub enum Conventional {}

impl Design for Conventional {
    const LOCKING: Locking = Locking::Always;
    type Latch = Optimistic;
    type Mutex = SpinRaw;
}

/// One worker: no latches, and locks only while distributed transactions exist (H-Store's way).
#[derive(Debug)]
pub enum Serial {}

impl Design for Serial {
    const LOCKING: Locking = Locking::WhileShared;
    type Latch = Owned;
    type Mutex = ThreadBound;
}

/// What protects pages where workers own keys: those of primary trees and of rows say so themselves, for some of them have owners; entries
/// of secondary indexes are anybody's.
#[derive(Clone, Copy, Debug)]
pub enum PartlyOwned {}

impl Policies for PartlyOwned {
    type Index = ByPage;
    type Secondary = Optimistic;
    type Heap = ByPage;
}

/// Each worker owns a run of the keys, runs the steps on them and locks them in a table of its own (DORA). Under `logical` pages are
/// nobody's, so they are latched; under PLP pages are their keys' owner's: those of primary trees (`plp-regular`), and those of rows
/// (`plp-partition`, `plp-leaf`).
#[derive(Debug)]
pub enum Partitioned {}

impl Design for Partitioned {
    const LOCKING: Locking = Locking::ByOwner;
    type Latch = PartlyOwned;
    type Mutex = ThreadBound;
}

/// A design by name, as configuration and result rows spell it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub enum DesignKind {
    Conventional,
    Logical,
    /// As `logical`, and each worker owns the pages that lead to its keys: see [`crate::paged`].
    PlpRegular,
    /// As `plp-regular`, and the heap pages with its keys' rows, each of one partition.
    PlpPartition,
    /// As `plp-partition`, with heap pages each of one leaf: where a partition is divided the rows of one leaf move.
    PlpLeaf,
    Serial,
    /// Rows in main memory, optimistic concurrency control: see [`crate::memory`].
    Occ,
}

impl DesignKind {
    pub const ALL: [DesignKind; 7] = [
        DesignKind::Conventional,
        DesignKind::Logical,
        DesignKind::PlpRegular,
        DesignKind::PlpPartition,
        DesignKind::PlpLeaf,
        DesignKind::Serial,
        DesignKind::Occ,
    ];

    /// Whether keys have owners, which may change while transactions run.
    pub fn owns_keys(self) -> bool {
        self == DesignKind::Logical || self.owns_pages()
    }

    /// Whether pages have owners, so that trees must be multi-rooted.
    pub fn owns_pages(self) -> bool {
        matches!(self, DesignKind::PlpRegular | DesignKind::PlpPartition | DesignKind::PlpLeaf)
    }

    /// Which rows share a heap page, where that is the design's to say: whether heap pages have owners as well.
    pub fn heap_form(self) -> HeapForm {
        match self {
            DesignKind::PlpPartition => HeapForm::ByPartition,
            DesignKind::PlpLeaf => HeapForm::ByLeaf,
            _ => HeapForm::Shared,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            DesignKind::Conventional => "conventional",
            DesignKind::Logical => "logical",
            DesignKind::PlpRegular => "plp-regular",
            DesignKind::PlpPartition => "plp-partition",
            DesignKind::PlpLeaf => "plp-leaf",
            DesignKind::Serial => "serial",
            DesignKind::Occ => "occ",
        }
    }
}

impl fmt::Display for DesignKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DesignKind {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        DesignKind::ALL.into_iter().find(|d| d.name() == s).ok_or_else(|| {
            format!(
                "design '{s}' is unknown; expected one of conventional, logical, plp-regular, plp-partition, \
                 plp-leaf, serial, occ"
            )
        })
    }
}

/// What a transaction of `occ` does on meeting a row that another one has prepared for two-phase commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OccConflict {
    /// Waits for the other's decision.
    #[default]
    Wait,
    /// Aborts, as Silo does.
    Abort,
}

impl OccConflict {
    pub const ALL: [OccConflict; 2] = [OccConflict::Wait, OccConflict::Abort];

    /// As the command line spells it.
    pub fn name(self) -> &'static str {
        match self {
            OccConflict::Wait => "wait",
            OccConflict::Abort => "abort",
        }
    }
}

impl fmt::Display for OccConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for OccConflict {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let known = OccConflict::ALL.into_iter().find(|c| c.name() == s);
        known.ok_or_else(|| format!("what to do on a conflict, '{s}', is unknown; expected wait or abort"))
    }
}

/// How far ahead `occ` asks for rows, so that it waits for memory as seldom as can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OccAhead {
    /// For those that a request names, while others are run before it.
    #[default]
    Requests,
    /// For those that a step is about to ask for.
    Steps,
}

impl OccAhead {
    pub const ALL: [OccAhead; 2] = [OccAhead::Requests, OccAhead::Steps];

    /// As the command line spells it.
    pub fn name(self) -> &'static str {
        match self {
            OccAhead::Requests => "requests",
            OccAhead::Steps => "steps",
        }
    }
}

impl fmt::Display for OccAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for OccAhead {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let known = OccAhead::ALL.into_iter().find(|c| c.name() == s);
        known.ok_or_else(|| format!("how far to look ahead, '{s}', is unknown; expected requests or steps"))
    }
}

/// How a transaction of `occ` reads that is known to write nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OccReads {
    /// As one that writes: the present, and what it has seen is checked at its end.
    #[default]
    Validate,
    /// As everything was when it began: nothing is checked, and nobody is in its way.
    Snapshot,
}

impl OccReads {
    pub const ALL: [OccReads; 2] = [OccReads::Validate, OccReads::Snapshot];

    /// As the command line spells it.
    pub fn name(self) -> &'static str {
        match self {
            OccReads::Validate => "validate",
            OccReads::Snapshot => "snapshot",
        }
    }
}

impl fmt::Display for OccReads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for OccReads {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let known = OccReads::ALL.into_iter().find(|c| c.name() == s);
        known.ok_or_else(|| format!("how to read, '{s}', is unknown; expected validate or snapshot"))
    }
}
