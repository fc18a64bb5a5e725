//! Moves an island of a stopped database to another host, or copies it there: its directory goes
//! through the operator. A moved one is removed at its old place once the new one is complete.
//!
//! ```text
//!   old agent                        operator                         new agent
//!   Fetch --> File, Bytes.., End --> passes them on after Take -----> moving-I/..., renamed to I/
//!   Forget <------------------------ after Done <-------------------- Done          or to copy-I/
//! ```
//!
//! A copy becomes the island when another host takes it over from one that is gone. The relay's log
//! has what the copy lacks; without one the operator must accept the loss.
//!
//! After an interruption the island may be at both places, never at none; `Fleet::open` refuses
//! such a database and says where it is.

use crate::protocol::{Answer, Kind};
use crate::talk::Talk;
use base::InstanceId;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// Bytes of a file in one frame.
const PART: usize = 256 * 1024;
/// Begins the name of the directory of a deployment that is not kept.
pub(crate) const RUN: &str = "run-";
/// Begins the name of a copy's directory.
const COPY: &str = "copy-";
/// How long the next frame may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A part of a directory on its way.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Piece {
    /// The bytes that follow are of the file with this path, below the directory.
    File(String),
    Bytes(Vec<u8>),
    /// All files have been sent; their number, and the checksum of all bytes.
    End {
        files: u64,
        checksum: u32,
    },
}

/// The directory of an island while it arrives.
fn arriving(database: &Path, island: InstanceId) -> PathBuf {
    database.join(format!("moving-{island}"))
}

/// The copy of an island that is elsewhere.
pub(crate) fn copy_of(database: &Path, island: InstanceId) -> PathBuf {
    database.join(format!("{COPY}{island}"))
}

fn place_of(database: &Path, island: InstanceId, kind: Kind) -> PathBuf {
    match kind {
        Kind::Island => database.join(island.to_string()),
        Kind::Copy => copy_of(database, island),
    }
}

/// The islands that have a directory in that of a database, ascending; or a copy there.
pub(crate) fn islands(database: &Path, kind: Kind) -> Vec<InstanceId> {
    let entries = fs::read_dir(database).into_iter().flatten().flatten();
    let begin = if kind == Kind::Copy { COPY } else { "" };
    let number =
        |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix(begin)?.parse().ok().map(InstanceId);
    let mut islands: Vec<InstanceId> = entries.filter_map(number).collect();
    islands.sort_unstable_by_key(|island| island.0);
    islands
}

/// The kept databases below the directory of an agent, by name.
pub(crate) fn databases(data: &Path) -> Vec<String> {
    let entries = fs::read_dir(data).into_iter().flatten().flatten();
    let is_kept = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let name = |entry: fs::DirEntry| entry.file_name().to_str().map(str::to_owned);
    entries.filter(is_kept).filter_map(name).filter(|name| !name.starts_with(RUN)).collect()
}

/// Why an island with its log at no relay is not taken over, and what to do.
pub(crate) fn no_log(database: &str, island: InstanceId) -> String {
    format!(
        "the log of island {island} of {database} is at no relay, so all that was committed after its copy was made would \
         be lost: start the host that has it, or go on with the copy (--accept-loss)"
    )
}

/// Whether the log at a relay goes on where the copy of an island ends.
pub(crate) fn is_followed(database: &Path, island: InstanceId) -> bool {
    copy_of(database, island).join(deploy::RELAY_MARK).exists()
}

/// Sends the directory of an island.
///
/// # Errors
/// A file cannot be read; the operator is gone.
pub(crate) fn send(database: &Path, island: InstanceId, talk: &mut Talk) -> Result<(), String> {
    let root = database.join(island.to_string());
    let (mut files, mut checksum) = (0, 0);
    let mut part = vec![0; PART];
    for path in files_below(&root).map_err(|e| e.to_string())? {
        let name = path.strip_prefix(&root).map_err(|e| e.to_string())?;
        talk.say(&Piece::File(name.to_string_lossy().into_owned()))?;
        let mut file = File::open(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        loop {
            let count = file.read(&mut part).map_err(|e| format!("{}: {e}", path.display()))?;
            if count == 0 {
                break;
            }
            checksum = chained(checksum, &part[..count]);
            talk.say(&Piece::Bytes(part[..count].to_vec()))?;
        }
        files += 1;
    }
    talk.say(&Piece::End { files, checksum })
}

fn chained(before: u32, bytes: &[u8]) -> u32 {
    base::crc32c(bytes) ^ before.rotate_left(1)
}

fn files_below(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => files.extend(files_below(&entry.path())?),
            false => files.push(entry.path()),
        }
    }
    files.sort();
    Ok(files)
}

/// Takes the directory of an island.
///
/// # Errors
/// It is there already, is not complete, or cannot be written.
pub(crate) fn take(database: &Path, island: InstanceId, kind: Kind, talk: &mut Talk) -> Result<(), String> {
    let (root, place) = (arriving(database, island), place_of(database, island, kind));
    let own = place_of(database, island, Kind::Island);
    if own.exists() {
        return Err(format!("{} exists: expected no such island here", own.display()));
    }
    // The old place is removed next, so the names must be on the device too.
    let put = || {
        sync_names(&root)?;
        if place.exists() {
            fs::remove_dir_all(&place)?; // an older copy
        }
        fs::rename(&root, &place)?;
        File::open(database)?.sync_all()
    };
    let outcome = write_all(&root, talk).and_then(|()| put().map_err(|e| e.to_string()));
    if outcome.is_err() {
        let _ = fs::remove_dir_all(&root); // the next move tries again
    }
    outcome
}

fn write_all(root: &Path, talk: &mut Talk) -> Result<(), String> {
    let io = |e: std::io::Error| e.to_string();
    if root.exists() {
        fs::remove_dir_all(root).map_err(io)?;
    }
    make_dir(root)?;
    let (mut files, mut checksum, mut file) = (0, 0, None::<File>);
    loop {
        match talk.hear(PATIENCE)? {
            Piece::File(name) => {
                close(file.take())?;
                let path = below(root, &name)?;
                path.parent().map_or(Ok(()), make_dir)?;
                let options = File::options().write(true).create_new(true).mode(0o600).open(&path);
                file = Some(options.map_err(|e| format!("{}: {e}", path.display()))?);
                files += 1;
            }
            Piece::Bytes(bytes) => {
                checksum = chained(checksum, &bytes);
                let Some(file) = &mut file else { return Err("bytes came before a file".into()) };
                file.write_all(&bytes).map_err(io)?;
            }
            Piece::End { files: sent, checksum: theirs } => {
                close(file.take())?;
                let is_whole = sent == files && theirs == checksum;
                return if is_whole {
                    Ok(())
                } else {
                    Err("the files did not arrive as they were sent".into())
                };
            }
        }
    }
}

fn close(file: Option<File>) -> Result<(), String> {
    file.map_or(Ok(()), |file| file.sync_all().map_err(|e| e.to_string()))
}

/// Syncs a directory and all below it.
fn sync_names(dir: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_names(&entry.path())?;
        }
    }
    File::open(dir)?.sync_all()
}

fn make_dir(path: &Path) -> Result<(), String> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|e| format!("{}: {e}", path.display()))
}

/// A path below `root`, never above it.
fn below(root: &Path, name: &str) -> Result<PathBuf, String> {
    let name = Path::new(name);
    let ordinary = |part: Component<'_>| matches!(part, Component::Normal(_));
    match name.components().next().is_some() && name.components().all(ordinary) {
        true => Ok(root.join(name)),
        false => Err(format!("{}: expected a path below the directory of the island", name.display())),
    }
}

/// Removes the directory of an island that is elsewhere now.
///
/// # Errors
/// I/O.
pub(crate) fn forget(database: &Path, island: InstanceId) -> Result<(), String> {
    fs::remove_dir_all(database.join(island.to_string())).map_err(|e| e.to_string())
}

/// Makes the copy of an island the island.
///
/// # Errors
/// There is no copy, or the island is here; I/O.
pub(crate) fn promote(database: &Path, island: InstanceId) -> Result<(), String> {
    rename(database, island, (Kind::Copy, Kind::Island))
}

/// Makes the directory of an island that another host has taken over a copy.
///
/// # Errors
/// I/O.
pub(crate) fn demote(database: &Path, island: InstanceId) -> Result<(), String> {
    match copy_of(database, island).exists() {
        // One copy is enough, and either will do.
        true => forget(database, island),
        false => rename(database, island, (Kind::Island, Kind::Copy)),
    }
}

fn rename(database: &Path, island: InstanceId, (from, to): (Kind, Kind)) -> Result<(), String> {
    let (from, to) = (place_of(database, island, from), place_of(database, island, to));
    if to.exists() {
        return Err(format!("{} exists already", to.display()));
    }
    let renamed = fs::rename(&from, &to).and_then(|()| File::open(database)?.sync_all());
    renamed.map_err(|e| format!("{}: {e}", from.display()))
}

/// Passes the pieces of an island on from one agent to another, until the end.
///
/// # Errors
/// Either of them fails.
pub(crate) fn pass(from: &mut Talk, to: &mut Talk) -> Result<(), String> {
    loop {
        let piece: Piece = from.hear(PATIENCE)?;
        to.say(&piece)?;
        if matches!(piece, Piece::End { .. }) {
            break;
        }
    }
    match to.hear(PATIENCE)? {
        Answer::Done => Ok(()),
        Answer::Refused(why) => Err(why),
        _ => Err("it answered another question".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves island 3 from one directory to another over a link between two threads.
    fn moved(from: &Path, to: &Path, kind: Kind) -> Result<(), String> {
        let (one, other) = channel::pair().unwrap();
        let (from, to) = (from.to_owned(), to.to_owned());
        let sender = std::thread::spawn(move || send(&from, InstanceId(3), &mut Talk::over(one).unwrap()));
        let taken = take(&to, InstanceId(3), kind, &mut Talk::over(other).unwrap());
        let sent = sender.join().unwrap();
        taken.and(sent)
    }

    #[test]
    fn an_island_arrives_with_all_its_files() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(a.path().join("3/log")).unwrap();
        let long: Vec<u8> = (0..PART * 2 + 17).map(|i| (i % 251) as u8).collect();
        fs::write(a.path().join("3/data"), &long).unwrap();
        fs::write(a.path().join("3/log/0"), "log").unwrap();
        fs::write(a.path().join("3/empty"), "").unwrap();
        moved(a.path(), b.path(), Kind::Island).unwrap();
        assert_eq!(fs::read(b.path().join("3/data")).unwrap(), long);
        assert_eq!(fs::read(b.path().join("3/log/0")).unwrap(), b"log");
        assert_eq!(fs::read(b.path().join("3/empty")).unwrap(), b"");
        let own = |dir: &Path| islands(dir, Kind::Island);
        assert_eq!((own(a.path()), own(b.path())), (vec![InstanceId(3)], vec![InstanceId(3)]));
        assert!(moved(a.path(), b.path(), Kind::Island).unwrap_err().contains("exists"));
        forget(a.path(), InstanceId(3)).unwrap();
        assert!(own(a.path()).is_empty());
    }

    #[test]
    fn a_copy_becomes_the_island_and_an_old_island_a_copy() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(a.path().join("3")).unwrap();
        for text in ["old", "new"] {
            fs::write(a.path().join("3/data"), text).unwrap();
            moved(a.path(), b.path(), Kind::Copy).unwrap();
        }
        let all = |dir: &Path| (islands(dir, Kind::Island).len(), islands(dir, Kind::Copy).len());
        assert_eq!((all(a.path()), all(b.path())), ((1, 0), (0, 1)));
        promote(b.path(), InstanceId(3)).unwrap();
        assert_eq!(fs::read_to_string(b.path().join("3/data")).unwrap(), "new");
        assert!(promote(b.path(), InstanceId(3)).is_err());
        demote(a.path(), InstanceId(3)).unwrap();
        assert_eq!((all(a.path()), all(b.path())), ((0, 1), (1, 0)));
        // A copy is not sent to the place of the island.
        assert!(moved(a.path(), b.path(), Kind::Copy).unwrap_err().contains("exists"));
    }

    #[test]
    fn no_path_leads_out_of_the_directory() {
        for name in ["../x", "/etc/x", "a/../../x", "", "."] {
            assert!(below(Path::new("/d"), name).is_err(), "{name}");
        }
        assert_eq!(below(Path::new("/d"), "log/0"), Ok(PathBuf::from("/d/log/0")));
    }
}
