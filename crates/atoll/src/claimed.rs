//! A directory that one process at a time may write to.
//!
//! ```text
//! DIR/.lock   held (flock) while a run writes here; contains the number of its process;
//!             removed at its end
//! ```
//!
//! The kernel releases the lock when its process ends, for any reason; a lock file without a
//! process holds nothing.

use crate::failure::{Failure, cannot_write};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const LOCK: &str = ".lock";

/// Holds the lock until it is dropped.
pub struct Claim {
    /// `None` after the file has been removed.
    path: Option<PathBuf>,
    _file: File,
}

impl Claim {
    /// # Errors
    /// Another process holds the lock, or the directory cannot be written.
    pub fn on(dir: &Path) -> Result<Claim, Failure> {
        let path = dir.join(LOCK);
        let cannot = |e: std::io::Error| cannot_write(&path, &e);
        loop {
            let mut open = OpenOptions::new();
            let opened = open.read(true).write(true).create(true).truncate(false).open(&path);
            let mut file = opened.map_err(cannot)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(Failure::Run(format!(
                        "--out {}: {} writes its results there; wait for it to end, or name another directory",
                        dir.display(),
                        holder(&mut file)
                    )));
                }
                Err(TryLockError::Error(e)) => return Err(cannot(e)),
            }
            // The previous run may have removed the file between opening and locking: the locked
            // file is then not the lock.
            let same = |there: std::fs::Metadata| file.metadata().is_ok_and(|own| own.ino() == there.ino());
            if std::fs::metadata(&path).is_ok_and(same) {
                let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
                written.map_err(cannot)?;
                return Ok(Claim { path: Some(path), _file: file });
            }
        }
    }
}

impl Claim {
    /// Removes the file; the lock itself lasts until the value is dropped. Another process that
    /// comes in between makes a new file.
    pub fn let_go(&mut self) {
        if let Some(path) = self.path.take() {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.let_go();
    }
}

fn holder(file: &mut File) -> String {
    let mut pid = String::new();
    let _ = file.read_to_string(&mut pid); // only for the message
    pid.trim().parse::<u32>().map_or("another process".into(), |pid| format!("process {pid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let first = Claim::on(dir.path()).unwrap();
        let text = Claim::on(dir.path()).err().unwrap().to_string();
        assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
        drop(first);
        assert!(!dir.path().join(LOCK).exists());
        // The file that a killed process leaves is no obstacle.
        std::fs::write(dir.path().join(LOCK), "17\n").unwrap();
        drop(Claim::on(dir.path()).unwrap());
    }
}
