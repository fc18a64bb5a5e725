//! Operations that fail on purpose.

use std::io::{Error, ErrorKind};
use std::path::Path;

/// What a program asks a disk for. Each is counted and can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Open,
    Read,
    Write,
    /// Of a file's bytes.
    Sync,
    /// Asking for the length, setting it, reserving room.
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
    /// The device reports an error (EIO). A write has then changed nothing, half of its bytes or all, and what a sync
    /// was to bring to the device is there in part and never will be in full, though it still reads as written.
    Error,
    /// No space is left (ENOSPC) for whatever makes a file or makes one longer. Everything else goes on.
    Full,
    /// A read gives half of what it should, without an error. Everything else goes on.
    Short,
}

/// How long it fails.
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
    /// The number of the first operation that fails, counted from 1 as [`super::Disk::operations`] does.
    pub at: u64,
    /// Only operations of this kind; the first of them from `at` on is the first that fails.
    pub only: Option<Operation>,
}

impl Plan {
    /// The trouble for operation number `n`, if any; a plan for one operation is used up by it.
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
