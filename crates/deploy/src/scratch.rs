//! Private directories below the system's temporary directory, for data that lives as long as a
//! run.

use crate::DeployError;
use crate::lock::exclusive_file;
use crate::manifest::LOCK;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

/// A private (0700) directory for one run below the system's temporary directory. It holds the
/// links between the instances and, if no other place is given, the data. It is removed with
/// everything in it when this value is dropped; the next run removes the leftovers of a killed one.
pub struct Scratch {
    _lock: File,
    dir: tempfile::TempDir,
}

/// The prefix of the names of these directories.
const PREFIX: &str = "atoll-";
/// Younger leftovers may belong to a run that has not taken its lock yet.
const LEFTOVER: Duration = Duration::from_secs(60);

impl Scratch {
    /// # Errors
    /// When the temporary directory does not exist or is not writable.
    pub fn new() -> Result<Scratch, DeployError> {
        let parent = std::env::temp_dir();
        remove_leftovers(&parent);
        let dir = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(&parent)
            .map_err(DeployError::io("create a temporary directory in", &parent))?;
        let lock = exclusive_file(dir.path()).inspect_err(|_| remove(dir.path()))?;
        Ok(Scratch { _lock: lock, dir })
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(self.dir.path());
    }
}

/// Removes a directory. Threads and processes that are about to end may be in the way for a moment:
/// they make files in it, or hold the descriptors that the removal needs.
fn remove(dir: &Path) {
    for _ in 0..100 {
        // An empty directory goes without a descriptor.
        let removed = fs::remove_dir(dir).or_else(|_| fs::remove_dir_all(dir));
        match removed {
            Err(why) if why.kind() != ErrorKind::NotFound => std::thread::sleep(Duration::from_millis(10)),
            _ => return,
        }
    }
}

/// Removes the directories of runs that were killed: those with this prefix, unlocked, and old
/// enough. A directory that cannot be read or removed stays.
fn remove_leftovers(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with(PREFIX)) {
        let age = entry.metadata().and_then(|m| m.modified()).ok().and_then(|t| t.elapsed().ok());
        let Ok(file) = OpenOptions::new().read(true).write(true).open(entry.path().join(LOCK)) else {
            continue;
        };
        if age > Some(LEFTOVER) && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
