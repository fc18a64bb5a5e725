//! Distinct types for distinct numbers: a page is never mistaken for a table, an instance never for a worker.

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
    /// A page of an instance's data file; the page lies at byte `id * 8192` of it. Page 0 is never handed out.
    PageId(u32), "page "
);
id!(
    /// A byte position in an instance's log. Grows for ever; 0 means "none".
    Lsn(u64), "lsn "
);
id!(
    /// A transaction (or an instance's part of one), unique within one instance for its whole life.
    TxnId(u64), "txn "
);
id!(
    /// A table or an index: both are numbered in one space within a schema.
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
    /// A logical site: one of equally many routing keys; an instance owns a run of adjacent sites.
    SiteId(u32), "site "
);

/// Where a record lies: a heap page and a slot in it.
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

/// A distributed transaction's name, unique over the life of a deployment: the home instance, which of its
/// lives (counted up at every restart), and a number within that life.
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
