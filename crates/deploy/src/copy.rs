//! Copies of a loaded database: shared extents where the file system supports them (Btrfs, XFS,
//! ...), else copied bytes.
//!
//! No mark says that a copy is complete, because no process opens a copy that another process made.
//! It lies below the directory from which it was copied, under that directory's lock, and the next
//! process that opens the directory removes it.

use crate::{DeployError, Interrupt};
use rustix::fs::{SeekFrom, ioctl_ficlone, seek};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes copied between two checks for Ctrl-C.
const CHUNK: u64 = 32 << 20;

/// Gets the progress of a copy, and may interrupt it.
pub(crate) struct CopyProgress<'a> {
    pub interrupt: &'a Interrupt,
    /// Gets the bytes done, and the total.
    pub progress: &'a mut dyn FnMut(u64, u64),
}

/// A file to be copied, and the number of its bytes that are allocated on the device.
struct Piece {
    from: PathBuf,
    to: PathBuf,
    allocated: u64,
}

/// Copies the directories `names` of `from` into `to`, which is empty.
///
/// # Errors
/// When there is not enough space for the bytes that cannot be shared, a file cannot be copied, or
/// the run is interrupted. The caller removes the bytes that were copied by then.
pub(crate) fn copy_all(
    from: &Path,
    to: &Path,
    names: &[String],
    watch: CopyProgress<'_>,
) -> Result<(), DeployError> {
    let mut pieces = Vec::new();
    for name in names {
        collect(&from.join(name), &to.join(name), &mut pieces)?;
    }
    let total = pieces.iter().map(|p| p.allocated).sum();
    if !clones(to) {
        require_space(to, total)?;
    }
    let mut done = 0;
    for piece in pieces {
        let failed = DeployError::io("copy", &piece.from);
        let mut on = || {
            (watch.progress)(done, total);
            !watch.interrupt.is_set()
        };
        match copy_file(&piece.from, &piece.to, &mut on) {
            Ok(Copied::Whole) => {}
            Ok(Copied::Stopped) => return Err(DeployError::Interrupted),
            Err(e) => return Err(failed(e)),
        }
        done += piece.allocated;
    }
    (watch.progress)(done, total);
    Ok(())
}

/// Makes the directories, and lists the files.
fn collect(from: &Path, to: &Path, pieces: &mut Vec<Piece>) -> Result<(), DeployError> {
    DirBuilder::new().mode(0o700).create(to).map_err(DeployError::io("create", to))?;
    let failed = |e| DeployError::io("read directory", from)(e);
    for entry in fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let about = entry.metadata().map_err(DeployError::io("look at", &from))?;
        if about.is_dir() {
            collect(&from, &to, pieces)?;
        } else {
            pieces.push(Piece { from, to, allocated: about.blocks() * 512 });
        }
    }
    Ok(())
}

enum Copied {
    Whole,
    Stopped,
}

/// Copies a file; holes stay holes. `on` is called now and then, and returns whether to go on.
fn copy_file(from: &Path, to: &Path, on: &mut dyn FnMut() -> bool) -> io::Result<Copied> {
    let mut source = File::open(from)?;
    let mut target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    if !on() {
        return Ok(Copied::Stopped);
    }
    if ioctl_ficlone(&target, &source).is_ok() {
        return Ok(Copied::Whole);
    }
    let length = source.metadata()?.len();
    target.set_len(length)?;
    let mut at = 0;
    while let Some((start, end)) = extent(&source, at, length)? {
        at = start;
        while at < end {
            source.seek(io::SeekFrom::Start(at))?;
            target.seek(io::SeekFrom::Start(at))?;
            let some = CHUNK.min(end - at);
            if io::copy(&mut (&source).take(some), &mut target)? < some {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it became shorter meanwhile"));
            }
            at += some;
            if !on() {
                return Ok(Copied::Stopped);
            }
        }
    }
    Ok(Copied::Whole)
}

/// The next extent of data, from `at` on. A file system without holes reports the whole file as
/// data.
fn extent(file: &File, at: u64, length: u64) -> io::Result<Option<(u64, u64)>> {
    if at >= length {
        return Ok(None);
    }
    match seek(file, SeekFrom::Data(at)) {
        Ok(start) => Ok(Some((start, seek(file, SeekFrom::Hole(start))?.min(length)))),
        Err(Errno::NXIO) => Ok(None),
        Err(Errno::INVAL) => Ok(Some((at, length))),
        Err(e) => Err(e.into()),
    }
}

/// Whether files in `dir` can share their extents.
pub(crate) fn clones(dir: &Path) -> bool {
    let tried = || -> io::Result<bool> {
        let (mut source, target) = (tempfile::tempfile_in(dir)?, tempfile::tempfile_in(dir)?);
        source.write_all(&[1; 4096])?;
        Ok(ioctl_ficlone(&target, &source).is_ok())
    };
    tried().unwrap_or(false)
}

/// Fails unless about `bytes` more fit on the file system of `path`.
pub(crate) fn require_space(path: &Path, bytes: u64) -> Result<(), DeployError> {
    let stat = rustix::fs::statvfs(path)
        .map_err(|e| DeployError::io("ask for the free space of", path)(e.into()))?;
    let available = stat.f_bavail * stat.f_frsize;
    if available < bytes {
        return Err(DeployError::NoSpace {
            path: path.into(),
            available_mib: available >> 20,
            needed_mib: bytes.div_ceil(1 << 20),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(from: &Path, to: &Path, interrupt: &Interrupt) -> Result<(u64, u64), DeployError> {
        let mut last = (0, 0);
        let watch = CopyProgress { interrupt, progress: &mut |done, total| last = (done, total) };
        copy_all(from, to, &["0".into()], watch).map(|()| last)
    }

    #[test]
    fn bytes_are_the_same_and_holes_stay_holes() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(from.path().join("0/log")).unwrap();
        fs::write(from.path().join("0/log/segment"), vec![7; 100_000]).unwrap();
        fs::write(from.path().join("0/empty"), []).unwrap();
        let mut data = File::create(from.path().join("0/data")).unwrap();
        data.set_len(64 << 20).unwrap();
        data.seek(io::SeekFrom::Start(40 << 20)).unwrap();
        data.write_all(&[3; 8192]).unwrap();
        data.sync_all().unwrap();
        let (done, total) = copy(from.path(), to.path(), &Interrupt::default()).unwrap();
        assert_eq!(done, total);
        for name in ["0/log/segment", "0/empty", "0/data"] {
            let read = |dir: &Path| fs::read(dir.join(name)).unwrap();
            assert!(read(from.path()) == read(to.path()), "{name}");
        }
        let blocks = |dir: &Path| fs::metadata(dir.join("0/data")).unwrap().blocks();
        assert!(blocks(to.path()) <= blocks(from.path()) + 16, "holes were filled");
        // The copy is another file.
        fs::write(to.path().join("0/log/segment"), b"changed").unwrap();
        assert_eq!(fs::read(from.path().join("0/log/segment")).unwrap().len(), 100_000);
    }

    #[test]
    fn ctrl_c_ends_a_copy() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(from.path().join("0")).unwrap();
        fs::write(from.path().join("0/data"), vec![7; 100_000]).unwrap();
        let interrupt = Interrupt::default();
        interrupt.set();
        assert!(matches!(copy(from.path(), to.path(), &interrupt), Err(DeployError::Interrupted)));
    }
}
