//! A design is two policies: which threads may touch a record, and how it is protected.

use crate::local::Locking;
use latch::{ByPage, LatchPolicy, Optimistic, Owned, Policies, RawMutex, SpinRaw, ThreadBound};
use std::fmt;
use std::str::FromStr;
use store::HeapForm;

/// The policies of one design, fixed at compile time: the access methods are compiled once for
/// each.
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

/// Pages with latches, which readers validate instead of latching, and a central lock table. The
/// transaction's own worker runs every step.
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

/// Page protection where workers own keys. Each page of a primary tree or of rows says whether it
/// has an owner. Entries of secondary indexes have none.
#[derive(Clone, Copy, Debug)]
pub enum PartlyOwned {}

impl Policies for PartlyOwned {
    type Index = ByPage;
    type Secondary = Optimistic;
    type Heap = ByPage;
}

/// Each worker owns a run of the keys, runs the steps on them and locks them in a table of its own
/// (DORA). Under `logical` pages have no owner, so they are latched. Under PLP the owner of the
/// keys owns their pages: those of primary trees (`plp-regular`), and those of rows as well
/// (`plp-partition`, `plp-leaf`).
#[derive(Debug)]
pub enum Partitioned {}

impl Design for Partitioned {
    const LOCKING: Locking = Locking::ByOwner;
    type Latch = PartlyOwned;
    type Mutex = ThreadBound;
}

/// A design by name, as the configuration and the result rows spell it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub enum DesignKind {
    Conventional,
    Logical,
    /// As `logical`, and each worker owns the index pages that lead to its keys: see
    /// [`crate::paged`].
    PlpRegular,
    /// As `plp-regular`, and each worker owns the heap pages with the rows of its keys. A heap page
    /// holds rows of one partition.
    PlpPartition,
    /// As `plp-partition`, but a heap page holds rows of one leaf: where a partition is divided,
    /// the rows of one leaf move.
    PlpLeaf,
    Serial,
    /// Rows in main memory, optimistic concurrency control: see [`crate::memory`].
    Occ,
}

/// The engines, each of which runs one design or several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineKind {
    /// [`PageEngine`](crate::PageEngine) of [`Conventional`].
    Conventional,
    /// [`PageEngine`](crate::PageEngine) of [`Partitioned`].
    Partitioned,
    /// [`PageEngine`](crate::PageEngine) of [`Serial`].
    Serial,
    /// [`MemoryEngine`](crate::MemoryEngine).
    Memory,
}

/// One row of the table of designs ([`DesignKind::properties`]).
struct Properties {
    name: &'static str,
    engine: EngineKind,
    owns_pages: bool,
    heap_form: HeapForm,
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

    /// The one place that tells the designs apart.
    fn properties(self) -> Properties {
        let row = |name, engine, owns_pages, heap_form| Properties { name, engine, owns_pages, heap_form };
        use EngineKind::{Conventional, Memory, Partitioned, Serial};
        use HeapForm::{ByLeaf, ByPartition, Shared};
        match self {
            DesignKind::Conventional => row("conventional", Conventional, false, Shared),
            DesignKind::Logical => row("logical", Partitioned, false, Shared),
            DesignKind::PlpRegular => row("plp-regular", Partitioned, true, Shared),
            DesignKind::PlpPartition => row("plp-partition", Partitioned, true, ByPartition),
            DesignKind::PlpLeaf => row("plp-leaf", Partitioned, true, ByLeaf),
            DesignKind::Serial => row("serial", Serial, false, Shared),
            DesignKind::Occ => row("occ", Memory, false, Shared),
        }
    }

    pub fn name(self) -> &'static str {
        self.properties().name
    }

    /// The engine that runs it.
    pub fn engine(self) -> EngineKind {
        self.properties().engine
    }

    /// Whether keys have owners. They may change while transactions run.
    pub fn owns_keys(self) -> bool {
        self.engine() == EngineKind::Partitioned
    }

    /// Whether pages have owners, so that trees must be multi-rooted.
    pub fn owns_pages(self) -> bool {
        self.properties().owns_pages
    }

    /// How rows are grouped into heap pages, where the design decides that: whether heap pages have
    /// owners as well.
    pub fn heap_form(self) -> HeapForm {
        self.properties().heap_form
    }

    /// Whether an instance has one worker, which nothing keeps apart from another one.
    pub fn is_single_threaded(self) -> bool {
        self.engine() == EngineKind::Serial
    }

    /// Whether rows live in main memory, else in pages. Designs that agree in this share files.
    pub fn is_in_memory(self) -> bool {
        self.engine() == EngineKind::Memory
    }

    /// Whether it has a lock manager. The others validate.
    pub fn has_locks(self) -> bool {
        !self.is_in_memory()
    }

    /// Whether several workers latch pages.
    pub fn has_latches(self) -> bool {
        !self.is_in_memory() && !self.is_single_threaded()
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
            let names = DesignKind::ALL.map(DesignKind::name).join(", ");
            format!("design '{s}' is unknown; expected one of {names}")
        })
    }
}
