//! The reasons why a page is not available.

use base::{Lsn, PageId};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use wal::LogFault;

/// The error of every operation that touches pages. After each of these errors the operation has
/// changed nothing.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Stop {
    /// The page is not in memory: have [`crate::Pool::load`] read it, and call again.
    #[error("{0:?} is not in memory")]
    Page(PageId),
    /// No page is left to allocate, or every frame is in use.
    #[error("out of pages: raise the pool's size or remove data")]
    NoSpace,
    /// A latch was contended for longer than latches are held: release all latches and call again.
    #[error("a page latch is contended")]
    Again,
    /// I/O or corruption.
    #[error(transparent)]
    Fault(Arc<PageFault>),
}

/// I/O or corruption met by the pool.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PageFault {
    /// The file system returned an error; the message names the file. Pages that were to be written
    /// stay dirty.
    #[error("a page could not be read or written: {0}")]
    Io(Arc<io::Error>),
    /// The page's bytes differ from those that were written, and there is no copy to repair it
    /// from.
    #[error(
        "{}: {page:?} at byte {offset} is corrupt (its checksum does not match); restore the database from a backup",
        file.display()
    )]
    Corrupt { page: PageId, file: PathBuf, offset: u64 },
    /// The LSN of the page's last change lies beyond the end of the log.
    #[error(
        "{}: {page:?} at byte {offset} was last changed at log position {}, and the log ends at {}: data and log are not of \
         one database, or the log has lost its end; restore both from one backup",
        file.display(), lsn.0, end.0
    )]
    Newer { page: PageId, file: PathBuf, offset: u64, lsn: Lsn, end: Lsn },
    /// The file is not a data file of this version.
    #[error("{}: {what}", file.display())]
    File { file: PathBuf, what: String },
    /// The page's checksum is right, but it is not the page that belongs there, or it contradicts
    /// itself.
    #[error(
        "{page:?} is malformed: it is not what the pages that lead to it say; restore the database from a backup"
    )]
    Malformed { page: PageId },
    /// A wrong request: nothing was changed, and the data is sound.
    #[error("{what} of {bytes} bytes: at most {most} fit")]
    TooLong { what: &'static str, bytes: usize, most: usize },
    /// Also a wrong request: a bulk load needs an empty tree and a stream in ascending order.
    #[error("a bulk load was refused: {what}; sort the stream and load into a new index")]
    Disordered { what: &'static str },
    /// A log record that does not fit the pages it names.
    #[error("a log record of kind {kind} {why}; restore the database from a backup")]
    Record { kind: u8, why: &'static str },
    /// A page number beyond the pool's limit: the database was made with a larger `max_pages`, or a
    /// reference is corrupt.
    #[error(
        "{page:?} is beyond the pool's limit of {max_pages} pages: if the system refuses addresses (ulimit -v), allow it more"
    )]
    Range { page: PageId, max_pages: u32 },
    /// The operation ran on the wrong thread. The data is sound.
    #[error("{page:?} belongs to another worker's partition: the step was routed to the wrong owner")]
    Foreign { page: PageId },
    /// Every frame is latched or cannot be cleaned.
    #[error("no page can leave the buffer pool of {frames} frames: all are in use; give it more memory")]
    NoFrame { frames: usize },
    /// The log is broken. It must be durable before a page may be written.
    #[error(transparent)]
    Log(#[from] LogFault),
    /// The log cannot get its next segment. Nothing has failed yet: what was begun can still end.
    #[error(transparent)]
    LogRoom(LogFault),
    /// A sync failed earlier, so the contents of the data file are unknown, and nothing is written
    /// from then on.
    #[error("the data file can no longer be trusted: {0}; restart to recover from the log")]
    Poisoned(Arc<io::Error>),
}

impl PageFault {
    /// Whether the only reason was lack of space, in memory or on the device. Pages that were to be
    /// written are still in memory, and the same operation may succeed later.
    pub fn is_want_of_room(&self) -> bool {
        match self {
            PageFault::NoFrame { .. } | PageFault::LogRoom(_) => true,
            PageFault::Io(e) => world::is_want_of_room(e),
            _ => false,
        }
    }
}

impl Stop {
    /// As [`PageFault::is_want_of_room`]; also for [`Stop::NoSpace`].
    pub fn is_want_of_room(&self) -> bool {
        match self {
            Stop::NoSpace => true,
            Stop::Fault(fault) => fault.is_want_of_room(),
            Stop::Page(_) | Stop::Again => false,
        }
    }
}

impl From<io::Error> for PageFault {
    fn from(e: io::Error) -> Self {
        PageFault::Io(Arc::new(e))
    }
}

impl From<PageFault> for Stop {
    fn from(fault: PageFault) -> Self {
        match fault {
            PageFault::NoFrame { .. } => Stop::NoSpace,
            fault => Stop::Fault(Arc::new(fault)),
        }
    }
}
