//! A file or a directory that is being written: it has a temporary name until it is complete and on
//! the device.
//!
//! `NAME.atoll-partial` stands beside `NAME`, locked by the process that writes it. At the end it
//! is renamed, never over an existing file. It is removed if its writer fails. The next writer with
//! the same name removes the leftovers of a killed one.

use crate::DeployError;
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The ending of the temporary name.
const ENDING: &str = ".atoll-partial";

/// A file or a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    File,
    Directory,
}

/// A file or directory under its temporary name. Dropping it unfinished removes it.
pub(crate) struct Partial {
    path: PathBuf,
    to: PathBuf,
    /// For a file: the file to write to. For a directory: its lock.
    handle: File,
    /// An empty directory stands at the final name.
    replaces: bool,
    done: bool,
}

impl Partial {
    /// With `may_replace`, a directory may replace an empty one at `to`.
    ///
    /// # Errors
    /// [`DeployError::Exists`], [`DeployError::BeingWritten`]; I/O.
    pub fn begin(to: &Path, form: Form, may_replace: bool) -> Result<Partial, DeployError> {
        let there = fs::symlink_metadata(to).ok();
        let empty = |to: &Path| fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_none());
        let replaces = may_replace && there.as_ref().is_some_and(fs::Metadata::is_dir) && empty(to);
        if there.is_some() && !replaces {
            return Err(DeployError::Exists { path: to.into() });
        }
        let name = to.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let path = to.with_file_name(format!("{name}{ENDING}"));
        clear(&path)?;
        let handle = match form {
            Form::File => OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path),
            Form::Directory => DirBuilder::new().mode(0o700).create(&path).and_then(|()| File::open(&path)),
        };
        let handle = handle.map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => DeployError::BeingWritten { path: path.clone() },
            _ => DeployError::io("create", &path)(e),
        })?;
        let partial = Partial { path, to: to.into(), handle, replaces, done: false };
        // Without locks (NFS), the name alone keeps others out until it is removed.
        let _ = flock(&partial.handle, FlockOperation::NonBlockingLockExclusive);
        Ok(partial)
    }

    /// The temporary name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file to write to.
    pub fn file(&self) -> &File {
        &self.handle
    }

    /// Renames it to its final name. Its contents are on the device by then, except the names in
    /// directories.
    ///
    /// # Errors
    /// I/O; another process has created the final name meanwhile.
    pub fn finish(mut self) -> Result<(), DeployError> {
        sync(&self.path).map_err(DeployError::io("sync", &self.path))?;
        let renamed = match self.replaces {
            true => fs::rename(&self.path, &self.to),
            false => rename_anew(&self.path, &self.to),
        };
        renamed.map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty => {
                DeployError::Exists { path: self.to.clone() }
            }
            _ => DeployError::io("rename to", &self.to)(e),
        })?;
        self.done = true;
        let parent = parent(&self.to);
        File::open(parent).and_then(|dir| dir.sync_all()).map_err(DeployError::io("sync", parent))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.done {
            let _ = remove(&self.path); // the next attempt tries again
        }
    }
}

/// The directory that `path` is in.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn rename_anew(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if fs::symlink_metadata(to).is_err() => {
            fs::rename(from, to)
        }
        other => Ok(other?),
    }
}

/// Removes the leftovers of a killed writer.
fn clear(path: &Path) -> Result<(), DeployError> {
    let left = match File::open(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(DeployError::io("open", path))?,
    };
    if flock(&left, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Err(DeployError::BeingWritten { path: path.into() });
    }
    remove(path).map_err(DeployError::io("remove", path))
}

fn remove(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

/// Syncs a file, or the names in a directory and in those below it, to the device.
fn sync(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                sync(&entry.path())?;
            }
        }
    }
    File::open(path)?.sync_all()
}

/// Writes to a file from its start on; long runs of zeros become holes.
pub(crate) struct Holes<'a> {
    file: &'a File,
    at: u64,
}

/// The least length of a hole, in bytes.
const HOLE: usize = 64 << 10;

impl Holes<'_> {
    pub fn new(file: &File) -> Holes<'_> {
        Holes { file, at: 0 }
    }

    /// Sets the length of the file and waits until it is on the device.
    ///
    /// # Errors
    /// I/O.
    pub fn finish(self) -> io::Result<()> {
        self.file.set_len(self.at)?;
        self.file.sync_all()
    }
}

impl Write for Holes<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.chunks(HOLE) {
            if piece.len() < HOLE || piece.iter().any(|byte| *byte != 0) {
                self.file.seek(SeekFrom::Start(self.at))?;
                self.file.write_all(piece)?;
            }
            self.at += piece.len() as u64;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_partial_becomes_whole_or_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("copy");
        let partial = Partial::begin(&to, Form::Directory, false).unwrap();
        assert!(matches!(Partial::begin(&to, Form::Directory, false), Err(DeployError::BeingWritten { .. })));
        fs::write(partial.path().join("file"), "x").unwrap();
        drop(partial);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        fs::create_dir(dir.path().join("copy.atoll-partial")).unwrap();
        let partial = Partial::begin(&to, Form::Directory, false).unwrap();
        fs::write(partial.path().join("file"), "x").unwrap();
        partial.finish().unwrap();
        assert_eq!(fs::read_to_string(to.join("file")).unwrap(), "x");
        assert!(matches!(Partial::begin(&to, Form::File, true), Err(DeployError::Exists { .. })));
    }

    #[test]
    fn a_name_that_was_taken_meanwhile_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("copy");
        let partial = Partial::begin(&to, Form::File, false).unwrap();
        fs::write(&to, "mine").unwrap();
        assert!(matches!(partial.finish(), Err(DeployError::Exists { .. })));
        assert_eq!(fs::read_to_string(&to).unwrap(), "mine");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn zeros_become_holes_and_are_read_as_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = File::create_new(&path).unwrap();
        let mut holes = Holes::new(&file);
        let bytes = [vec![1; 10], vec![0; 8 << 20], vec![2; 10], vec![0; 1 << 20]].concat();
        bytes.chunks(1 << 20).for_each(|piece| holes.write_all(piece).unwrap());
        holes.finish().unwrap();
        assert!(fs::read(&path).unwrap() == bytes);
        assert!(fs::metadata(&path).unwrap().blocks() * 512 < 1 << 20, "holes were filled");
    }
}
