//! The operating system's own file system, through `rustix`.

use crate::{Caching, File, Files, FolderLock, Open, SharedMemory, Way};
use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::io::{self, Error};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file system of this machine.
pub fn real() -> Arc<dyn Files> {
    Arc::new(Real)
}

struct Real;

struct RealFile {
    fd: OwnedFd,
    path: PathBuf,
}

/// A lock of a folder. A process that another thread has forked, and that has not executed its
/// program yet, has a copy of the descriptor and would hold the lock a little longer: the lock is
/// released for all copies.
struct Held(OwnedFd);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

/// The system's error with the attempted action and the file; keeps its kind.
fn told(doing: &str, path: &Path, errno: Errno) -> Error {
    let system = Error::from(errno);
    Error::new(system.kind(), format!("{}: {doing}: {system}", path.display()))
}

impl RealFile {
    fn err(&self, doing: &str, errno: Errno) -> Error {
        told(doing, &self.path, errno)
    }
}

impl File for RealFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match rustix::io::pread(&self.fd, &mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(e) => return Err(self.err("cannot read", e)),
            }
        }
        Ok(done)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match rustix::io::pwrite(&self.fd, &bytes[done..], offset + done as u64) {
                Ok(0) => return Err(self.err("cannot write", Errno::NOSPC)),
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(e) => return Err(self.err("cannot write", e)),
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        rustix::fs::fdatasync(&self.fd).map_err(|e| self.err("cannot sync", e))
    }

    fn len(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstat(&self.fd).map_err(|e| self.err("cannot stat", e))?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        rustix::fs::ftruncate(&self.fd, bytes).map_err(|e| self.err("cannot set the length", e))
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.fd, FallocateFlags::empty(), 0, bytes) {
            // A file system without preallocation: only the length is set, and each write has to
            // find space.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.set_len(bytes),
            done => done.map_err(|e| self.err(&format!("cannot reserve {bytes} bytes"), e)),
        }
    }

    fn way(&self) -> Way<'_> {
        Way::Kernel(self.fd.as_fd())
    }
}

fn flags(how: Open) -> OFlags {
    match how {
        Open::Read => OFlags::RDONLY,
        Open::ReadWrite => OFlags::RDWR,
        Open::Create => OFlags::RDWR | OFlags::CREATE,
    }
}

impl Files for Real {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(RealFile { fd: open(path, flags(how))?, path: path.to_owned() }))
    }

    fn open_direct(&self, path: &Path, how: Open) -> io::Result<(Arc<dyn File>, Caching)> {
        let mode = Mode::RUSR | Mode::WUSR;
        match rustix::fs::open(path, flags(how) | OFlags::CLOEXEC | OFlags::DIRECT, mode) {
            Ok(fd) => Ok((Arc::new(RealFile { fd, path: path.to_owned() }), Caching::Direct)),
            // The errors of file systems that always cache (some in memory, some over a network).
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok((self.open(path, how)?, Caching::System)),
            Err(e) => Err(told("cannot open", path, e)),
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        rustix::fs::unlink(path).map_err(|e| told("cannot remove", path, e))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        rustix::fs::rename(from, to)
            .map_err(|e| told(&format!("cannot rename to {}", to.display()), from, e))?;
        self.sync_dir(parent(to))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let named = |e: Error| Error::new(e.kind(), format!("{}: cannot list: {e}", dir.display()));
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(named)? {
            names.push(entry.map_err(named)?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt;
        let new: Vec<&Path> =
            dir.ancestors().take_while(|d| !d.as_os_str().is_empty() && !d.exists()).collect();
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|e| Error::new(e.kind(), format!("{}: cannot make the folder: {e}", dir.display())))?;
        new.into_iter().try_for_each(|d| self.sync_dir(parent(d)))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let fd = open(dir, OFlags::RDONLY | OFlags::DIRECTORY)?;
        rustix::fs::fsync(&fd).map_err(|e| told("cannot sync the folder", dir, e))
    }

    fn lock(&self, path: &Path) -> io::Result<FolderLock> {
        let fd = open(path, OFlags::RDWR | OFlags::CREATE)?;
        match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(held(path, &fd)),
            Err(e) => return Err(told("cannot lock", path, e)),
        }
        // The number is only for people, so a failure to write it (a full disk) does not prevent
        // the start.
        let _ = rustix::fs::ftruncate(&fd, 0);
        let _ = rustix::io::pwrite(&fd, std::process::id().to_string().as_bytes(), 0);
        Ok(Box::new(Held(fd)))
    }

    fn share(&self, path: &Path, bytes: usize) -> io::Result<Option<Box<dyn SharedMemory>>> {
        let file = RealFile { fd: open(path, OFlags::RDWR | OFlags::CREATE)?, path: path.to_owned() };
        // First allocate room on the device: a store into a hole of a full disk would kill the
        // process.
        file.allocate(bytes as u64)?;
        Ok(Some(Box::new(Mapping::new(&file, bytes)?)))
    }
}

fn open(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)
        .map_err(|e| told("cannot open", path, e))
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

fn held(path: &Path, fd: &OwnedFd) -> Error {
    let mut text = [0u8; 16];
    let read = rustix::io::pread(fd, &mut text, 0).unwrap_or(0);
    let holder = std::str::from_utf8(&text[..read]).ok().and_then(|t| t.trim().parse::<u32>().ok());
    let who = holder.map_or("another process".to_owned(), |pid| format!("process {pid}"));
    Error::new(
        io::ErrorKind::WouldBlock,
        format!("{}: in use by {who}; stop it or choose another folder", path.display()),
    )
}

/// A shared mapping of a file's first bytes, unmapped when dropped.
struct Mapping {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: a mapping is plain memory and is not bound to a thread. The users agree which thread
// writes where.
unsafe impl Send for Mapping {}
// SAFETY: as above; this type itself only returns the address.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: &RealFile, bytes: usize) -> io::Result<Mapping> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing that exists.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, prot, MapFlags::SHARED, &file.fd, 0) };
        let start = start.map_err(|e| file.err("cannot map into memory", e))?.cast();
        Ok(Mapping { start, bytes })
    }
}

impl SharedMemory for Mapping {
    fn start(&self) -> *mut u8 {
        self.start
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this address and length. No code can reach it
        // after this: the address is valid only while this value lives.
        let _ = unsafe { rustix::mm::munmap(self.start.cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_descriptor_does_not_hold_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lock = real().lock(&path).unwrap();
        assert_eq!(real().lock(&path).err().map(|e| e.kind()), Some(io::ErrorKind::WouldBlock));
        let copy = rustix::io::dup(&lock.downcast_ref::<Held>().unwrap().0).unwrap();
        drop(lock);
        assert!(real().lock(&path).is_ok());
        drop(copy);
    }
}
