//! Operations that fail on purpose.

use std::io::{Error, ErrorKind};
use std::path::Path;

/// An operation on a disk. Each is counted and can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Open,
    Read,
    Write,
    /// Of a file's bytes.
    Sync,
    /// Reading the length, setting it, reserving room.
    Length,
    Remove,
    Rename,
    List,
    MakeFolder,
    SyncFolder,
    Lock,
    Share,
}

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The device reports an error (EIO). A failed write has changed none, half or all of its
    /// bytes. Of the changes that a failed sync should have brought to the device, some are there
    /// and the others never will be, although reads still return them.
    Error,
    /// No space is left (ENOSPC), for operations that make a file or make one longer. Other
    /// operations succeed.
    Full,
    /// A read returns half of its bytes, without an error. Other operations succeed.
    Short,
}

/// How long operations fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasts {
    Once,
    /// From then on until [`super::Disk::heal`].
    Forever,
}

/// Which operations fail, and how.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub trouble: Trouble,
    pub lasts: Lasts,
    /// The number of the first operation that fails, counted from 1 as [`super::Disk::operations`]
    /// does.
    pub at: u64,
    /// Only operations of this kind; the first of them from `at` on is the first that fails.
    pub only: Option<Operation>,
}

impl Plan {
    /// The trouble for operation number `n`, if any. A plan for one operation is removed by it.
    pub(crate) fn strikes(
        plan: &mut Option<Plan>,
        n: u64,
        operation: Operation,
        grows: Grows,
    ) -> Option<Trouble> {
        let p = plan.filter(|p| n >= p.at && p.only.is_none_or(|o| o == operation))?;
        let fits = match p.trouble {
            Trouble::Error => true,
            Trouble::Full => grows == Grows::Yes,
            Trouble::Short => operation == Operation::Read,
        };
        if p.lasts == Lasts::Once && (fits || p.only.is_none()) {
            *plan = None;
        }
        fits.then_some(p.trouble)
    }
}

/// Whether an operation needs room on the device that it does not have yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grows {
    Yes,
    No,
}

pub(crate) fn error(trouble: Trouble, doing: &str, path: &Path) -> Error {
    let system = match trouble {
        // As the system's own: EIO has no kind of its own in std.
        Trouble::Error | Trouble::Short => Error::from_raw_os_error(5),
        Trouble::Full => Error::from(ErrorKind::StorageFull),
    };
    Error::new(system.kind(), format!("{}: cannot {doing}: {system} (simulated)", path.display()))
}
