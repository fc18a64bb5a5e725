//! The faults of a store: it does not open, or it must not continue.

use base::{Lsn, PageId, TableId};
use pages::PageFault;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use wal::LogFault;

/// Opening failed, or the store is poisoned: nothing commits until it is opened again.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreFault {
    #[error(transparent)]
    Log(#[from] LogFault),
    #[error(transparent)]
    Page(#[from] Arc<PageFault>),
    /// The file system returned an error; the message names the file.
    #[error("{0}")]
    Io(Arc<io::Error>),
    /// Another process, or another store of this one, has the folder open.
    #[error("{}: this data folder is in use ({why}); stop what uses it, or choose another folder", dir.display())]
    InUse { dir: PathBuf, why: Arc<io::Error> },
    /// The folder is not a database, or has lost its control files.
    #[error("{}: {what}", dir.display())]
    NotADatabase { dir: PathBuf, what: &'static str },
    #[error(
        "{}: a database of format {found}, expected format {expected}; open it with the version of Atoll that wrote it",
        file.display()
    )]
    Version { file: PathBuf, found: u32, expected: u32 },
    /// Neither control file can be read.
    #[error("{}: the control files are corrupt ({what}); restore the database from a backup", dir.display())]
    Control { dir: PathBuf, what: String },
    /// The last run here had durability `memory`, and its data is gone.
    #[error(
        "{}: the last run here had durability memory and did not end cleanly, so its data is gone; \
         remove the folder, or choose another",
        dir.display()
    )]
    Gone { dir: PathBuf },
    /// The database has a log, but was to be opened with durability `memory`.
    #[error(
        "{}: this database has a log, durability memory would ignore it; use sync or async, or an empty folder",
        dir.display()
    )]
    HasLog { dir: PathBuf },
    /// A file that the last checkpoint relies on is gone.
    #[error(
        "{}: this file is missing, and the last checkpoint relies on it; put it back, or restore the database from a \
         backup",
        file.display()
    )]
    Missing { file: PathBuf },
    /// The data file is shorter than the last checkpoint left it.
    #[error(
        "{}: the file ends at byte {found}, the last checkpoint left {expected} bytes in it; restore the database from a \
         backup",
        file.display()
    )]
    Short { file: PathBuf, found: u64, expected: u64 },
    /// Opening met a page with unexpected contents, or of another version.
    #[error(
        "{}: the page at byte {offset} is not what it should be here, or of an unknown version; `atoll check` says which \
         and what else is wrong; open it with the version of Atoll that wrote it, or restore the database from a backup",
        file.display()
    )]
    Unfit { file: PathBuf, offset: u64 },
    /// The log ends before the point that the last checkpoint relies on.
    #[error(
        "{}: the log ends at {}, but the checkpoint needs it from {}; put the missing segments back, \
         or restore the database from a backup",
        dir.display(), found.0, expected.0
    )]
    LogBehind { dir: PathBuf, found: Lsn, expected: Lsn },
    /// A record is malformed although its checksum is right.
    #[error("the log record at {} is malformed ({what}); restore the database from a backup", lsn.0)]
    Record { lsn: Lsn, what: &'static str },
    /// The note of a record is malformed although the record's checksum is right.
    #[error("the log record that ends at {} is malformed ({what}); restore the database from a backup", end.0)]
    Note { end: Lsn, what: &'static str },
    /// A schema that contradicts itself or the existing tables, or that there is no space for.
    #[error("{0}")]
    Schema(String),
    /// A rollback could not continue.
    #[error(
        "a transaction could not be undone ({why}); nothing that was committed is lost: make room for what is missing, and \
         start again to have the rest undone"
    )]
    NotUndone { why: String },
    /// An index and the rows of its table disagree.
    #[error("{table:?}: {what}; restore the database from a backup")]
    Broken { table: TableId, what: String },
}

impl StoreFault {
    /// Whether the only reason was lack of space, in memory or on the device. A log that met it
    /// while writing is poisoned nevertheless ([`wal::Log::poisoned`]).
    pub fn is_want_of_room(&self) -> bool {
        match self {
            StoreFault::Page(fault) => fault.is_want_of_room(),
            StoreFault::Io(e) => world::is_want_of_room(e),
            StoreFault::Log(fault) => fault.is_want_of_room(),
            _ => false,
        }
    }
}

impl From<io::Error> for StoreFault {
    fn from(e: io::Error) -> Self {
        StoreFault::Io(Arc::new(e))
    }
}

impl From<PageFault> for StoreFault {
    fn from(fault: PageFault) -> Self {
        StoreFault::Page(Arc::new(fault))
    }
}

/// The position of a page in the data file, in bytes.
pub(crate) fn offset_of(page: PageId) -> u64 {
    u64::from(page.0) * pages::PAGE_SIZE as u64
}
