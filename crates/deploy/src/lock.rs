//! Locks on a directory. The kernel releases them when the process that holds them ends.
//!
//! Two locks go together. The file `lock` names the process that took it last; if the file was
//! removed, it is made anew. The directory itself is locked too, so a run still keeps others out
//! after its file was removed. Where the file system cannot lock directories (NFS), the file is the
//! only lock.

use crate::DeployError;
use crate::manifest::LOCK;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Held until it is dropped.
pub(crate) struct Lock {
    _dir: Option<File>,
    _file: Option<File>,
}

/// The lock of a run. The file is made if it is missing.
///
/// # Errors
/// [`DeployError::InUse`]; I/O.
pub(crate) fn exclusive(dir: &Path) -> Result<Lock, DeployError> {
    exclusive_if(dir, || Ok(()))
}

/// As [`exclusive`]. `look` is called before a file is made, while no other run can change the
/// directory, and may refuse the lock.
///
/// # Errors
/// As [`exclusive`]; the error of `look`.
pub(crate) fn exclusive_if(
    dir: &Path,
    look: impl FnOnce() -> Result<(), DeployError>,
) -> Result<Lock, DeployError> {
    let whole = directory(dir, FlockOperation::NonBlockingLockExclusive)?;
    look()?;
    let file = exclusive_file(dir)?;
    Ok(Lock { _dir: whole, _file: Some(file) })
}

/// Locks the file alone, for the directory of a run: listeners lock such a directory for a moment
/// to put their sockets there.
///
/// # Errors
/// As [`exclusive`].
pub(crate) fn exclusive_file(dir: &Path) -> Result<File, DeployError> {
    let path = dir.join(LOCK);
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    let mut file = file.map_err(DeployError::io("open", &path))?;
    take(&file, dir, FlockOperation::NonBlockingLockExclusive)?;
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(DeployError::io("write", &path))?;
    Ok(file)
}

/// A lock for reading, shared with other readers. Nothing is written: a missing file stays missing
/// until [`Lock::complete`].
///
/// # Errors
/// As [`exclusive`].
pub(crate) fn shared(dir: &Path) -> Result<Lock, DeployError> {
    let path = dir.join(LOCK);
    let whole = directory(dir, FlockOperation::NonBlockingLockShared)?;
    let file = match File::open(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
        opened => Some(opened.map_err(DeployError::io("open", &path))?),
    };
    if let Some(file) = &file {
        take(file, dir, FlockOperation::NonBlockingLockShared)?;
    }
    Ok(Lock { _dir: whole, _file: file })
}

/// A process that another thread has forked, and that has not executed its program yet, has copies
/// of the descriptors: the locks are released for all copies.
impl Drop for Lock {
    fn drop(&mut self) {
        for file in [&self._file, &self._dir].into_iter().flatten() {
            let _ = flock(file, FlockOperation::Unlock);
        }
    }
}

impl Lock {
    /// Makes the file of a shared lock in `dir` if it was missing. That also keeps out a version
    /// that knows only the file. A directory that cannot be written needs no file: nothing can run
    /// in it.
    ///
    /// # Errors
    /// [`DeployError::InUse`].
    pub(crate) fn complete(&mut self, dir: &Path) -> Result<(), DeployError> {
        if self._file.is_none() {
            let path = dir.join(LOCK);
            let mut options = OpenOptions::new();
            let made = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
            if let Ok(file) = made {
                take(&file, dir, FlockOperation::NonBlockingLockShared)?;
                self._file = Some(file);
            }
        }
        Ok(())
    }
}

/// Waits until no process holds the lock of the instance in `dir`, at most `longest`. The instances
/// of a killed process end with it, but one in the middle of a write ends a moment later.
pub(crate) fn await_release(dir: &Path, longest: Duration) {
    let end = Instant::now() + longest;
    let is_held = || {
        let file = File::open(dir.join(LOCK));
        file.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK))
    };
    while is_held() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn directory(dir: &Path, how: FlockOperation) -> Result<Option<File>, DeployError> {
    let file = File::open(dir).map_err(DeployError::io("open", dir))?;
    match flock(&file, how) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => {
            let by = File::open(dir.join(LOCK)).map_or("another process".into(), holder);
            Err(DeployError::InUse { path: dir.into(), holder: by })
        }
        Err(_) => Ok(None),
    }
}

fn take(file: &File, dir: &Path, how: FlockOperation) -> Result<(), DeployError> {
    match flock(file, how) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(DeployError::InUse { path: dir.into(), holder: holder(file) }),
        Err(e) => Err(DeployError::io("lock", dir.join(LOCK))(e.into())),
    }
}

/// The holder of a lock file, as named in the file.
fn holder(mut file: impl Read) -> String {
    let mut pid = String::new();
    let _ = file.read_to_string(&mut pid); // only for the message
    pid.trim().parse::<u32>().map_or("another process".into(), |p| format!("process {p}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_released_soon_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        await_release(dir.path(), Duration::from_secs(100));
        let held = exclusive_file(dir.path()).unwrap();
        let released = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            drop(held);
        });
        await_release(dir.path(), Duration::from_secs(100));
        assert!(exclusive_file(dir.path()).is_ok());
        released.join().unwrap();
        let _held = exclusive_file(dir.path()).unwrap();
        await_release(dir.path(), Duration::ZERO);
    }
}
