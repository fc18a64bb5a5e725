//! What a file system is to the rest of the house.

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
    /// For reading and writing; made when it does not exist (private to the user), kept as it is when it does.
    Create,
}

/// Whether the operating system keeps copies of a file's bytes in memory of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// It does not: addresses, lengths and offsets of all reads and writes are multiples of 4096.
    Direct,
    /// It does, as usual.
    System,
}

/// How an [`crate::IoQueue`] does what it is asked of a file.
#[derive(Clone, Copy, Debug)]
pub enum Way<'f> {
    /// Through the kernel's queue, on this descriptor.
    Kernel(BorrowedFd<'f>),
    /// With the file's methods, which may block, on a thread of the queue.
    Threads,
    /// With the file's methods, which do not block, on the thread that asks.
    AtOnce,
}

/// An open file. Positions are bytes from its start; all methods may be called from any thread.
pub trait File: Send + Sync {
    /// Reads at `offset` until `buf` is full or the file ends; gives the number of bytes read.
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
    /// The operating system's, with the file's name. What had been written is then in an unknown state for ever:
    /// a later success does not mean that it is on the device.
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

    /// Makes the file `bytes` long with room on the device for all of them, so that later writes inside neither
    /// fail for lack of space nor change what the file system knows about the file.
    ///
    /// # Errors
    /// The operating system's, with the file's name.
    fn allocate(&self, bytes: u64) -> io::Result<()>;

    /// How an [`crate::IoQueue`] reads and writes this file. A file of another kind than the operating system's own is
    /// read with the methods above, by a thread that may block.
    fn way(&self) -> Way<'_> {
        Way::Threads
    }
}

/// Held as long as the folder (or whatever the lock file stands for) is in use; dropping it lets go.
pub type FolderLock = Box<dyn Any + Send + Sync>;

/// Bytes shared with a file: what is stored there is in the file even if the process is killed at once, but on
/// the device only after the kernel wrote it.
///
/// Whoever holds this decides who writes where: the memory is plain, shared and unchecked.
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

    /// Opens a file that its user caches himself, past the system's cache where the file system can.
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

    /// Renames a file within its file system, replacing the target, durably: it waits for the folder's sync.
    ///
    /// # Errors
    /// The operating system's, with the file's name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// The names (not paths) in a folder, sorted.
    ///
    /// # Errors
    /// The operating system's, with the folder's name.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Makes a folder and those above it, durably; no error when it exists. Private to the user.
    ///
    /// # Errors
    /// The operating system's, with the folder's name.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Waits until the folder's entries (files made, renamed, removed) are on the device.
    ///
    /// # Errors
    /// The operating system's, with the folder's name.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Takes the lock that the file at `path` stands for, making the file when needed. Never waits. The lock ends
    /// with the process however that ends.
    ///
    /// # Errors
    /// `WouldBlock` when someone holds it, naming the holder's process when known; else the operating system's.
    fn lock(&self, path: &Path) -> io::Result<FolderLock>;

    /// Memory shared with the first `bytes` of a file, which is made and lengthened when needed. `None` where the
    /// file system cannot.
    ///
    /// # Errors
    /// The operating system's, with the file's name.
    fn share(&self, path: &Path, bytes: usize) -> io::Result<Option<Box<dyn SharedMemory>>>;

    /// A number that differs from one start of the machine to the next ([`crate::boot`]); 0 where nobody tells. As long as
    /// it is the same, whatever processes left in files and shared memory is there.
    fn boot(&self) -> u64 {
        crate::boot()
    }
}
