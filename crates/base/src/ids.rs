//! Distinct types for distinct numbers: a page is never mistaken for a table, or an instance for a
//! worker.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($repr:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[repr(transparent)]
        pub struct $name(pub $repr);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id!(
    /// A page of an instance's data file; the page starts at byte `id * 8192` of it. Page 0 is
    /// never allocated.
    PageId(u32), "page "
);
id!(
    /// A byte position in an instance's log (log sequence number). Grows for ever; 0 means "none".
    Lsn(u64), "lsn "
);
id!(
    /// A transaction (or the local transaction of a distributed one), unique within one instance
    /// for its whole life.
    TxnId(u64), "txn "
);
id!(
    /// A table or an index: the two share one sequence of numbers within a schema.
    TableId(u16), "table "
);
id!(
    /// One island: one storage engine with its own log, workers and inbox.
    InstanceId(u16), "instance "
);
id!(
    /// A worker thread, numbered within its instance.
    WorkerId(u16), "worker "
);
id!(
    /// A logical site. Sites have equally many routing keys; an instance owns a run of adjacent
    /// sites.
    SiteId(u32), "site "
);

/// The address of a record: a heap page and a slot in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rid {
    pub page: PageId,
    pub slot: u16,
}

impl Rid {
    /// Size of the encoded form, the value of an index entry.
    pub const BYTES: usize = 6;

    pub fn encode(self) -> [u8; Self::BYTES] {
        let [a, b, c, d] = self.page.0.to_le_bytes();
        let [e, f] = self.slot.to_le_bytes();
        [a, b, c, d, e, f]
    }

    /// `None` unless `bytes` has exactly [`Rid::BYTES`] bytes.
    pub fn decode(bytes: &[u8]) -> Option<Rid> {
        let &[a, b, c, d, e, f] = <&[u8; Self::BYTES]>::try_from(bytes).ok()?;
        Some(Rid { page: PageId(u32::from_le_bytes([a, b, c, d])), slot: u16::from_le_bytes([e, f]) })
    }
}

/// A distributed transaction's name, unique over the life of a deployment: the home instance, the
/// number of that instance's lives so far (incremented at every restart), and a number within that
/// life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Gtid {
    pub home: InstanceId,
    pub life: u32,
    pub number: u64,
}

impl fmt::Debug for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.home.0, self.life, self.number)
    }
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
