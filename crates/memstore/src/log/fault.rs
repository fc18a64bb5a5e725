//! Errors of the store's files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The store's files cannot be read or written. After a fault while writing, nothing more is ever
/// reported as durable, and no transaction with writes commits.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LogFault {
    /// The file system refused; the message names the file.
    #[error("the store's log failed: {0}")]
    Io(Arc<io::Error>),
    /// The device has no room for more of the log, or the caller's quota is used up. The log is not
    /// broken.
    #[error("the store's log cannot grow: {0}")]
    NoRoom(Arc<io::Error>),
    /// Bytes that were durable once are not those that were written.
    #[error("{}: corrupt at byte {offset}: {what}; restore the file from a copy, or the database from a backup", file.display())]
    Corrupt { file: PathBuf, offset: u64, what: String },
    /// Written by another version of Atoll.
    #[error("{}: format {found}, expected format {expected}; open it with the version of Atoll that wrote it", file.display())]
    Version { file: PathBuf, found: u32, expected: u32 },
    /// A file that must exist does not.
    #[error("{}: this file is missing ({why}); put it back, or restore from a backup", file.display())]
    Missing { file: PathBuf, why: String },
    /// A file of another store.
    #[error("{}: this file belongs to another store ({why}); put the right one back, or restore from a backup", file.display())]
    Foreign { file: PathBuf, why: String },
    #[error("{}: another process has this store open: {why}", dir.display())]
    InUse { dir: PathBuf, why: Arc<io::Error> },
    /// Options that cannot work.
    #[error("{0}")]
    Options(String),
}

impl From<io::Error> for LogFault {
    fn from(e: io::Error) -> Self {
        LogFault::Io(Arc::new(e))
    }
}

impl LogFault {
    /// Whether only room on the device, or within a quota, was wanting.
    pub fn is_want_of_room(&self) -> bool {
        match self {
            LogFault::NoRoom(_) => true,
            LogFault::Io(error) => world::is_want_of_room(error),
            _ => false,
        }
    }

    pub(crate) fn corrupt(file: &Path, offset: u64, what: impl Into<String>) -> LogFault {
        LogFault::Corrupt { file: file.to_owned(), offset, what: what.into() }
    }

    pub(crate) fn foreign(file: &Path, why: impl Into<String>) -> LogFault {
        LogFault::Foreign { file: file.to_owned(), why: why.into() }
    }
}
