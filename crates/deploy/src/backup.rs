//! A copy of a database that is not in use, with the length and the checksum of each file.
//!
//! ```text
//! a directory   backup.json                  the files, their lengths and checksums (CRC-32C)
//!               database/deployment.json     the database's own description
//!               database/0/ 1/ ...           the files of its instances
//! a .tar file   the same names, backup.json last: a file that was cut short has none
//! ```
//!
//! The database is locked while it is read. A crash may have left it: log and data are copied as
//! they are, and a restart of the copy has the same result as a restart of the database. Only files
//! that Atoll makes are copied.

use crate::home::look;
use crate::layout::{BACKUP, Standing, is_of_an_instance, names, no_database, standing};
use crate::manifest;
use crate::partial::{Form, Holes, Partial, parent};
use crate::whole::judge;
use crate::{DeployError, Interrupt};
use crc_fast::{CrcAlgorithm, Digest};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Counted up whenever the format of a backup changes.
pub(crate) const FORMAT: u32 = 1;
/// The folder of a backup that holds the database.
pub(crate) const DATABASE: &str = "database";
/// Bytes that are read and written at once.
pub(crate) const CHUNK: usize = 1 << 20;

/// How much was copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Copied {
    /// The data in words.
    pub data: String,
    pub files: usize,
    /// Of all files together, holes included.
    pub bytes: u64,
}

/// Gets the progress of a copy, and may interrupt it.
pub struct Copying<'a> {
    pub interrupt: &'a Interrupt,
    /// Gets the bytes done, and the total.
    pub progress: &'a mut dyn FnMut(u64, u64),
}

impl Copying<'_> {
    /// # Errors
    /// [`DeployError::Interrupted`].
    pub(crate) fn tell(&mut self, done: u64, total: u64) -> Result<(), DeployError> {
        (self.progress)(done, total);
        if self.interrupt.is_set() { Err(DeployError::Interrupted) } else { Ok(()) }
    }
}

/// The contents of `backup.json`.
#[derive(Serialize, Deserialize)]
pub(crate) struct Description {
    pub format: u32,
    /// The version of Atoll.
    pub version: String,
    /// When the backup was made, in seconds since 1970.
    pub taken: u64,
    /// The data in words.
    pub data: String,
    pub files: Vec<Entry>,
}

/// A file of a backup.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Below the database's directory.
    pub path: PathBuf,
    pub bytes: u64,
    pub crc32c: u32,
}

/// Copies the database in `dir` to `to`: into a tar file if the name ends in `.tar`, else into a
/// directory.
///
/// # Errors
/// No database, or one that is in use or incomplete; `to` exists already; no room; I/O; an
/// interruption. Nothing is left at `to` then.
pub fn back_up(dir: &Path, to: &Path, mut watch: Copying<'_>) -> Result<Copied, DeployError> {
    if let absent @ Standing::Absent = standing(dir)? {
        return Err(no_database(dir, absent));
    }
    let look = look(dir)?;
    judge(dir, &look.manifest, look.identity.as_ref()).or_refuse(dir)?;
    let form = form(to);
    let partial = Partial::begin(to, form, false)?;
    let sources = sources(dir, look.manifest.islands)?;
    let total = sources.iter().map(|s| s.bytes).sum();
    require_room(partial.path(), sources.iter().map(|s| s.allocated).sum())?;
    let mut sink = match form {
        Form::File => Sink::Tar {
            path: partial.path(),
            tar: tar::Builder::new(BufWriter::with_capacity(CHUNK, Holes::new(partial.file()))),
        },
        Form::Directory => Sink::Directory(partial.path()),
    };
    let (mut files, mut done) = (Vec::new(), 0);
    for source in sources {
        watch.tell(done, total)?;
        let crc32c = sink.file(&source, &mut |bytes| watch.tell(done + bytes, total))?;
        done += source.bytes;
        files.push(Entry { path: source.name, bytes: source.bytes, crc32c });
    }
    let data = look.manifest.data.clone();
    let copied = Copied { data: data.clone(), files: files.len(), bytes: total };
    let taken = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let description = Description { format: FORMAT, version, taken, data, files };
    sink.finish(&serde_json::to_string_pretty(&description).expect("plain data"))?;
    watch.tell(done, total)?;
    partial.finish()?;
    Ok(copied)
}

fn form(to: &Path) -> Form {
    if to.extension().is_some_and(|ending| ending == "tar") { Form::File } else { Form::Directory }
}

/// Fails unless about `bytes` fit on the file system of the new file at `path`.
pub(crate) fn require_room(path: &Path, bytes: u64) -> Result<(), DeployError> {
    match crate::copy::require_space(parent(path), bytes) {
        Err(DeployError::NoSpace { path, available_mib, needed_mib }) => {
            Err(DeployError::NoRoom { path, available_mib, needed_mib })
        }
        other => other,
    }
}

/// A file to be copied.
struct Source {
    at: PathBuf,
    /// Below the database's directory.
    name: PathBuf,
    bytes: u64,
    /// Bytes allocated on the device.
    allocated: u64,
}

fn sources(dir: &Path, islands: u16) -> Result<Vec<Source>, DeployError> {
    let mut sources = vec![source(dir, manifest::FILE.into())?];
    for instance in 0..islands {
        let folder = PathBuf::from(instance.to_string());
        for name in names(&dir.join(&folder))? {
            if is_of_an_instance(&name) && name != manifest::LOCK {
                collect(dir, folder.join(name), &mut sources)?;
            }
        }
    }
    Ok(sources)
}

fn collect(dir: &Path, name: PathBuf, sources: &mut Vec<Source>) -> Result<(), DeployError> {
    let at = dir.join(&name);
    if !at.is_dir() {
        sources.push(source(dir, name)?);
        return Ok(());
    }
    for inner in names(&at)? {
        collect(dir, name.join(inner), sources)?;
    }
    Ok(())
}

fn source(dir: &Path, name: PathBuf) -> Result<Source, DeployError> {
    let at = dir.join(&name);
    let about = fs::metadata(&at).map_err(DeployError::io("look at", &at))?;
    let (bytes, allocated) = (about.len(), about.len().min(about.blocks() * 512));
    Ok(Source { at, name, bytes, allocated })
}

/// Where the files go.
enum Sink<'a> {
    Directory(&'a Path),
    Tar { path: &'a Path, tar: tar::Builder<BufWriter<Holes<'a>>> },
}

/// Gets the number of bytes of a file that are copied; may end the copying.
type Tell<'a> = &'a mut dyn FnMut(u64) -> Result<(), DeployError>;

impl Sink<'_> {
    /// Copies a file; returns its checksum.
    fn file(&mut self, source: &Source, tell: Tell<'_>) -> Result<u32, DeployError> {
        let name = Path::new(DATABASE).join(&source.name);
        let file = File::open(&source.at).map_err(DeployError::io("open", &source.at))?;
        let mut reading = Reading::new(file, source.bytes, tell);
        let (written, to) = match self {
            Sink::Directory(dir) => {
                let to = dir.join(&name);
                (write_file(&to, &mut reading).map(drop), to)
            }
            Sink::Tar { path, tar } => {
                (tar.append_data(&mut header(source.bytes), &name, &mut reading), path.to_path_buf())
            }
        };
        let Reading { trouble, left, digest, .. } = reading;
        match (trouble, written) {
            (Some(Trouble::Stopped(error)), _) => Err(error),
            (Some(Trouble::Read(error)), _) => Err(DeployError::io("read", &source.at)(error)),
            (None, Err(error)) => Err(DeployError::io("write", to)(error)),
            (None, Ok(())) if left > 0 => {
                let shorter = io::Error::new(io::ErrorKind::UnexpectedEof, "it became shorter meanwhile");
                Err(DeployError::io("read", &source.at)(shorter))
            }
            (None, Ok(())) => Ok(digest.finalize() as u32),
        }
    }

    /// Writes the description, and waits until all of it is on the device.
    fn finish(self, description: &str) -> Result<(), DeployError> {
        let (written, to) = match self {
            Sink::Directory(dir) => {
                let to = dir.join(BACKUP);
                (write_file(&to, &mut description.as_bytes()).map(drop), to)
            }
            Sink::Tar { path, mut tar } => {
                let mut header = header(description.len() as u64);
                let written = tar
                    .append_data(&mut header, BACKUP, description.as_bytes())
                    .and_then(|()| tar.into_inner())
                    .and_then(|out| out.into_inner().map_err(io::IntoInnerError::into_error))
                    .and_then(Holes::finish);
                (written, path.to_path_buf())
            }
        };
        written.map_err(DeployError::io("write", to))
    }
}

fn header(bytes: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes);
    header.set_mode(0o600);
    header
}

/// Creates the file at `to` and its parent directories; returns its length.
pub(crate) fn write_file(to: &Path, from: &mut dyn Read) -> io::Result<u64> {
    DirBuilder::new().recursive(true).mode(0o700).create(parent(to))?;
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    let mut holes = Holes::new(&file);
    let (mut chunk, mut length) = (vec![0; CHUNK], 0);
    loop {
        match fill(from, &mut chunk)? {
            0 => break,
            n => {
                holes.write_all(&chunk[..n])?;
                length += n as u64;
            }
        }
    }
    holes.finish()?;
    Ok(length)
}

/// Reads until `chunk` is full or the source has ended.
fn fill(from: &mut dyn Read, chunk: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < chunk.len() {
        match from.read(&mut chunk[filled..])? {
            0 => break,
            n => filled += n,
        }
    }
    Ok(filled)
}

/// Why reading ended early.
pub(crate) enum Trouble {
    Read(io::Error),
    Stopped(DeployError),
}

/// Reads a given number of bytes, computes their checksum, and reports progress. A read error is
/// kept apart from the errors of the writing side.
pub(crate) struct Reading<'a, R> {
    from: R,
    done: u64,
    pub left: u64,
    pub digest: Digest,
    pub trouble: Option<Trouble>,
    told: u64,
    tell: Tell<'a>,
}

impl<'a, R: Read> Reading<'a, R> {
    /// Reads `bytes` bytes from `from`.
    pub fn new(from: R, bytes: u64, tell: Tell<'a>) -> Reading<'a, R> {
        let digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        Reading { from, done: 0, left: bytes, digest, trouble: None, told: 0, tell }
    }
}

impl<R: Read> Read for Reading<'_, R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.done - self.told >= CHUNK as u64 {
            self.told = self.done;
            if let Err(error) = (self.tell)(self.done) {
                self.trouble = Some(Trouble::Stopped(error));
                return Err(io::ErrorKind::Other.into());
            }
        }
        let most = self.left.min(bytes.len() as u64) as usize;
        match self.from.read(&mut bytes[..most]) {
            Ok(n) => {
                self.digest.update(&bytes[..n]);
                (self.done, self.left) = (self.done + n as u64, self.left - n as u64);
                Ok(n)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                self.trouble = Some(Trouble::Read(error));
                Err(io::ErrorKind::Other.into())
            }
        }
    }
}
