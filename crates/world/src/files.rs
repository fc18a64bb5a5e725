//! The interface of a file system for all other crates.

use std::any::Any;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// For reading; it must exist.
    Read,
    /// For reading and writing; it must exist.
    ReadWrite,
    /// For reading and writing. A missing file is created (private to the user); an existing one is
    /// kept as it is.
    Create,
}

/// Whether the operating system keeps copies of a file's bytes in its own memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// It does not: addresses, lengths and offsets of all reads and writes must be multiples of
    /// 4096.
    Direct,
    /// It does, as usual.
    System,
}

/// How an [`crate::IoQueue`] performs operations on a file.
#[derive(Clone, Copy, Debug)]
pub enum Way<'f> {
    /// Through the kernel's queue, on this descriptor.
    Kernel(BorrowedFd<'f>),
    /// With the file's methods, which may block, on a thread of the queue.
    Threads,
    /// With the file's methods, which do not block, on the calling thread.
    AtOnce,
}

/// An open file. Positions are bytes from its start; all methods may be called from any thread.
pub trait File: Send + Sync {
    /// Reads at `offset` until `buf` is full or the file ends; returns the number of bytes read.
    ///
    /// # Errors
    /// The operating system's, with the file's name.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`, growing the file when needed.
    ///
    /// # Errors
    /// The operating system's, with the file's name; part of the bytes may have been written.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Waits until everything written so far is on the device (fdatasync).
    ///
    /// # Errors
    /// The operating system's, with the file's name. The bytes written since the last sync are then
    /// in an unknown state for ever: a later success does not mean that they are on the device.
    fn sync(&self) -> io::Result<()>;

    /// The file's length in bytes.
    ///
    /// # Errors
    /// The operating system's, with the file's name.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// As [`File::len`].
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file, or lengthens it by a hole.
    ///
    /// # Errors
    /// The operating system's, with the file's name.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Makes the file `bytes` long with room on the device for all of them. Later writes within
    /// this length do not fail for lack of space, and do not change the file system's metadata of
    /// the file.
    ///
    /// # Errors
    /// The operating system's, with the file's name.
    fn allocate(&self, bytes: u64) -> io::Result<()>;

    /// How an [`crate::IoQueue`] reads and writes this file. By default, with the methods above, on
    /// a thread that may block.
    fn way(&self) -> Way<'_> {
        Way::Threads
    }
}

/// Held as long as the folder (or another thing that the lock file stands for) is in use; dropping
/// it releases the lock.
pub type FolderLock = Box<dyn Any + Send + Sync>;

/// Bytes shared with a file. A stored byte is in the file even if the process is killed at once,
/// but it is on the device only after the kernel wrote it.
///
/// The memory is plain, shared and unchecked: the holder decides which thread writes where.
pub trait SharedMemory: Send + Sync {
    /// First byte; valid as long as this value lives.
    fn start(&self) -> *mut u8;
    /// Length in bytes.
    fn bytes(&self) -> usize;
}

/// A file system.
pub trait Files: Send + Sync {
    /// Opens a file.
    ///
    /// # Errors
    /// The operating system's, with the file's name.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>>;

    /// Opens a file that the caller caches itself, past the system's cache if the file system can
    /// do that.
    ///
    /// # Errors
    /// The operating system's, with the file's name.
    fn open_direct(&self, path: &Path, how: Open) -> io::Result<(Arc<dyn File>, Caching)> {
        Ok((self.open(path, how)?, Caching::System))
    }

    /// Removes a file. Durable after [`Files::sync_dir`] of its folder.
    ///
    /// # Errors
    /// The operating system's, with the file's name.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Renames a file within its file system, replacing the target, durably: it waits for the sync
    /// of the folder.
    ///
    /// # Errors
    /// The operating system's, with the file's name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// The names (not paths) in a folder, sorted.
    ///
    /// # Errors
    /// The operating system's, with the folder's name.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Makes a folder and its missing parents, durably; no error when it exists. Private to the
    /// user.
    ///
    /// # Errors
    /// The operating system's, with the folder's name.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Waits until the folder's entries (files made, renamed, removed) are on the device.
    ///
    /// # Errors
    /// The operating system's, with the folder's name.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Takes the lock that the file at `path` stands for, making the file when needed. Never waits.
    /// The lock ends with the process, also if the process is killed.
    ///
    /// # Errors
    /// `WouldBlock` when the lock is held, with the holder's process when known; otherwise the
    /// operating system's.
    fn lock(&self, path: &Path) -> io::Result<FolderLock>;

    /// Memory shared with the first `bytes` of a file, which is made and lengthened when needed.
    /// `None` if the file system has no shared memory.
    ///
    /// # Errors
    /// The operating system's, with the file's name.
    fn share(&self, path: &Path, bytes: usize) -> io::Result<Option<Box<dyn SharedMemory>>>;

    /// A number that differs from one start of the machine to the next ([`crate::boot`]); 0 if it
    /// is unknown. As long as it is the same, the data that processes left in files and shared
    /// memory is still there.
    fn boot(&self) -> u64 {
        crate::boot()
    }
}

/// Whether an operation failed only for lack of space on the device, or beyond a quota. It may
/// succeed once there is space.
pub fn is_want_of_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
