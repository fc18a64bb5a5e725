//! From a backup to a database: the length and the checksum of every file are verified before the
//! database gets its name.
//!
//! A restored database has an identity of its own, different from that of the original. So a folder
//! of one is not mistaken for a folder of the other.

use crate::DeployError;
use crate::backup::{
    Copied, Copying, DATABASE, Description, Entry, FORMAT, Reading, Trouble, require_room, write_file,
};
use crate::home;
use crate::layout::BACKUP;
use crate::partial::{Form, Partial};
use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// The longest description that is read, in bytes: enough for some hundred thousand files.
const LONGEST: u64 = 64 << 20;

/// Restores the database in the backup `from` into `to`, a directory that does not exist yet or is
/// empty.
///
/// # Errors
/// No backup, or one that is damaged; `to` exists already; no room; I/O; an interruption. Nothing
/// is left at `to` then.
pub fn restore(from: &Path, to: &Path, mut watch: Copying<'_>) -> Result<Copied, DeployError> {
    let about = match fs::metadata(from) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(DeployError::NoBackup { path: from.into() }),
        about => about.map_err(DeployError::io("look at", from))?,
    };
    let is_directory = about.is_dir();
    if is_directory && !from.join(BACKUP).exists() {
        return Err(DeployError::NoBackup { path: from.into() });
    }
    let partial = Partial::begin(to, Form::Directory, true)?;
    let description = match is_directory {
        true => from_directory(from, partial.path(), &mut watch)?,
        false => {
            require_room(partial.path(), about.len().min(about.blocks() * 512))?;
            from_tar(from, about.len(), partial.path(), &mut watch)?
        }
    };
    home::rename(partial.path())?;
    partial.finish()?;
    let bytes = description.files.iter().map(|entry| entry.bytes).sum();
    Ok(Copied { data: description.data, files: description.files.len(), bytes })
}

/// The error for a damaged backup: its path, and the fault.
fn bad(from: &Path, what: impl Into<String>) -> DeployError {
    DeployError::BadBackup { path: from.into(), what: what.into() }
}

fn parse(from: &Path, text: &[u8]) -> Result<Description, DeployError> {
    let parsed: Result<serde_json::Value, _> = serde_json::from_slice(text);
    let value = parsed.map_err(|e| bad(from, format!("its {BACKUP} is damaged ({e})")))?;
    match value.get("format").and_then(serde_json::Value::as_u64) {
        Some(n) if n == u64::from(FORMAT) => {}
        Some(n) => {
            let what = format!("it has format {n}, and this version reads format {FORMAT}");
            return Err(bad(from, what));
        }
        None => return Err(bad(from, format!("its {BACKUP} has no format number"))),
    }
    serde_json::from_value(value).map_err(|e| bad(from, format!("its {BACKUP} is damaged ({e})")))
}

/// Whether a relative path stays below its start.
fn is_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_))) && path.file_name().is_some()
}

fn from_directory(from: &Path, to: &Path, watch: &mut Copying<'_>) -> Result<Description, DeployError> {
    let path = from.join(BACKUP);
    let text = fs::read(&path).map_err(DeployError::io("read", &path))?;
    let description = parse(from, &text)?;
    let mut allocated = 0;
    for entry in &description.files {
        let at = from.join(DATABASE).join(&entry.path);
        let about = fs::metadata(&at).ok().filter(|about| is_inside(&entry.path) && about.is_file());
        let about = about.ok_or_else(|| bad(from, format!("{} is missing", entry.path.display())))?;
        if about.len() != entry.bytes {
            let (path, found) = (entry.path.display(), about.len());
            return Err(bad(from, format!("{path} has {found} bytes, and had {}", entry.bytes)));
        }
        allocated += about.len().min(about.blocks() * 512);
    }
    require_room(to, allocated)?;
    let total = description.files.iter().map(|entry| entry.bytes).sum();
    let mut done = 0;
    for entry in &description.files {
        let at = from.join(DATABASE).join(&entry.path);
        let file = File::open(&at).map_err(DeployError::io("open", &at))?;
        let written =
            write(from, file, (&entry.path, entry.bytes), to, &mut |n| watch.tell(done + n, total))?;
        compare(from, entry, &written)?;
        done += entry.bytes;
        watch.tell(done, total)?;
    }
    Ok(description)
}

fn compare(from: &Path, expected: &Entry, found: &Entry) -> Result<(), DeployError> {
    match () {
        () if expected.bytes != found.bytes => {
            let path = expected.path.display();
            Err(bad(from, format!("{path} has {} bytes, and had {}", found.bytes, expected.bytes)))
        }
        () if expected.crc32c != found.crc32c => {
            Err(bad(from, format!("the checksum of {} does not match", expected.path.display())))
        }
        () => Ok(()),
    }
}

/// Writes a file of the database below `to`.
fn write(
    backup: &Path,
    from: impl Read,
    (path, bytes): (&Path, u64),
    to: &Path,
    tell: &mut dyn FnMut(u64) -> Result<(), DeployError>,
) -> Result<Entry, DeployError> {
    let mut reading = Reading::new(from, bytes, tell);
    let target = to.join(path);
    let written = write_file(&target, &mut reading);
    match (reading.trouble, written) {
        (Some(Trouble::Stopped(error)), _) => Err(error),
        (Some(Trouble::Read(error)), _) => Err(unread(backup, &error)),
        (None, Err(error)) => Err(DeployError::io("write", target)(error)),
        (None, Ok(bytes)) => Ok(Entry { path: path.into(), bytes, crc32c: reading.digest.finalize() as u32 }),
    }
}

/// An error of reading the backup, as a fault of the backup. The library reports an early end of
/// the file only by its message.
fn unread(from: &Path, error: &io::Error) -> DeployError {
    let text = error.to_string();
    let ends_early = text.contains("unexpected EOF") || text.contains("failed to read entire block");
    match error.kind() {
        ErrorKind::UnexpectedEof => bad(from, "it is cut short"),
        _ if ends_early => bad(from, "it is cut short"),
        _ => bad(from, text),
    }
}

fn from_tar(
    from: &Path,
    length: u64,
    to: &Path,
    watch: &mut Copying<'_>,
) -> Result<Description, DeployError> {
    let file = File::open(from).map_err(DeployError::io("open", from))?;
    let mut tar = tar::Archive::new(BufReader::with_capacity(1 << 20, file));
    let (mut found, mut description) = (Vec::new(), None);
    for entry in tar.entries().map_err(|e| unread(from, &e))? {
        let mut entry = entry.map_err(|e| unread(from, &e))?;
        let path = entry.path().map_err(|e| unread(from, &e))?.into_owned();
        let (bytes, done) = (entry.size(), entry.raw_file_position());
        if path == Path::new(BACKUP) {
            let mut text = Vec::new();
            (&mut entry).take(LONGEST).read_to_end(&mut text).map_err(|e| unread(from, &e))?;
            description = Some(parse(from, &text)?);
            continue;
        }
        let plain = entry.header().entry_type().is_file();
        let Some(name) = path.strip_prefix(DATABASE).ok().filter(|name| plain && is_inside(name)) else {
            return Err(bad(from, format!("it has {}, which is no file of a backup", path.display())));
        };
        let written = write(from, entry, (name, bytes), to, &mut |n| watch.tell(done + n, length))?;
        if written.bytes != bytes {
            return Err(bad(from, "it is cut short"));
        }
        found.push(written);
        watch.tell(done + bytes, length)?;
    }
    let description =
        description.ok_or_else(|| bad(from, format!("it is cut short: no {BACKUP} ends it")))?;
    let missing = |entry: &Entry| bad(from, format!("{} is missing", entry.path.display()));
    for expected in &description.files {
        let there = found.iter().find(|entry| entry.path == expected.path);
        compare(from, expected, there.ok_or_else(|| missing(expected))?)?;
    }
    let known: Vec<&PathBuf> = description.files.iter().map(|entry| &entry.path).collect();
    match found.iter().find(|entry| !known.contains(&&entry.path)) {
        Some(extra) => Err(bad(from, format!("it has {}, which it does not name", extra.path.display()))),
        None => Ok(description),
    }
}
