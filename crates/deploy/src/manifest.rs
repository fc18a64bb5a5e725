//! The directory a deployment lives in: who may use it, and what was built there.
//!
//! ```text
//! DIR/ (0700)   deployment.json   what was loaded here; written after the load, so a half-loaded directory has none
//!               lock              held (flock) by the one deployment that runs here; the kernel lets go when it dies
//!               0/ 1/ ...         one directory per instance: its data file and its log
//! ```

use crate::DeployError;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use txn::TableKind;
use workload::WorkloadSpec;

pub(crate) const FILE: &str = "deployment.json";
const LOCK: &str = "lock";
/// Counted up whenever anything in a data directory changes its shape.
pub const FORMAT: u32 = 4;

/// What a data directory was built for: all of it but the last must be equal for the directory to be opened again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Manifest {
    pub format: u32,
    /// The data, in words ("micro, 240000 rows, 24 sites").
    pub data: String,
    pub islands: u16,
    /// Designs of one family share their files; others cannot read them.
    pub family: String,
    /// Where the rows of tables with a key lie.
    pub tables: TableKind,
    /// A number that follows from the tables' definitions.
    pub schema: u32,
    /// The workload whose data it is, without what only shapes its requests.
    pub workload: WorkloadSpec,
}

impl Manifest {
    fn fits(&self, other: &Manifest) -> bool {
        let shape =
            |m: &Manifest| (m.format, m.data.clone(), m.islands, m.family.clone(), m.tables, m.schema);
        shape(self) == shape(other)
    }

    /// In one line, for people.
    pub fn describe(&self) -> String {
        let islands = if self.islands == 1 { "island" } else { "islands" };
        format!(
            "{} on {} {islands} ({} format {}, {} tables, schema {:08x})",
            self.data,
            self.islands,
            self.family,
            self.format,
            self.tables.name(),
            self.schema
        )
    }
}

/// What is in the file: the manifest, and how far the data has come since it was loaded.
#[derive(Serialize, Deserialize)]
struct Contents {
    #[serde(flatten)]
    manifest: Manifest,
    /// What the workload's consistency check counts (see [`crate::Home::effects`]); absent while a deployment runs.
    effects: Option<u64>,
    /// Streams of requests handed out so far, over all runs.
    streams: u64,
}

/// A private (0700) directory for one run under the system's temporary directory: links between the instances and, if
/// no other place is given, the data. Removed with everything in it when this value goes.
pub(crate) struct RunDir {
    _lock: File,
    dir: tempfile::TempDir,
}

const PREFIX: &str = "atoll-";
/// Younger leftovers may belong to a run that has not taken its lock yet.
const LEFTOVER: std::time::Duration = std::time::Duration::from_secs(60);

impl RunDir {
    pub fn new() -> Result<RunDir, DeployError> {
        let parent = std::env::temp_dir();
        remove_leftovers(&parent);
        let dir = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(&parent)
            .map_err(DeployError::io("create a temporary directory in", &parent))?;
        Ok(RunDir { _lock: lock(dir.path())?, dir })
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Removes the directories of runs that were killed before they could: ours by name, unlocked, and not brand new.
/// Whatever cannot be looked at or removed stays.
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

/// A locked data directory.
pub struct Home {
    path: PathBuf,
    _lock: Option<File>,
    /// Whether the directory may be opened again after this run.
    lasting: bool,
    manifest: Manifest,
    loaded: bool,
    effects: Option<u64>,
    streams: u64,
}

impl Home {
    /// In a run's temporary directory.
    pub(crate) fn inside(run: &RunDir, manifest: Manifest) -> Result<Home, DeployError> {
        let path = run.path().join("data");
        DirBuilder::new().mode(0o700).create(&path).map_err(DeployError::io("create", &path))?;
        Ok(Home { path, _lock: None, lasting: false, manifest, loaded: false, effects: Some(0), streams: 0 })
    }

    /// `path`, created if it is missing, opened again if it holds what `manifest` says.
    pub fn at(path: &Path, manifest: Manifest) -> Result<Home, DeployError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(DeployError::io("create data directory", path))?;
        let foreign = is_foreign(path)?;
        if foreign {
            return Err(DeployError::Foreign { path: path.into() });
        }
        let lock = lock(path)?;
        let (loaded, effects, streams) = match read(path)? {
            Some(found) if found.manifest.fits(&manifest) => (true, found.effects, found.streams),
            Some(found) => {
                return Err(DeployError::Mismatch {
                    path: path.into(),
                    found: found.manifest.describe(),
                    wanted: manifest.describe(),
                });
            }
            None => {
                clear(path)?;
                (false, Some(0), 0)
            }
        };
        let home =
            Home { path: path.into(), _lock: Some(lock), lasting: true, manifest, loaded, effects, streams };
        if loaded {
            home.write(None)?;
        }
        Ok(home)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the data is here from an earlier run.
    pub fn is_loaded(&self) -> bool {
        self.loaded
    }

    /// What had been committed here since loading when the directory was last left in order, in the unit of the
    /// workload's consistency check; `None` if it was left by a crash.
    pub fn effects(&self) -> Option<u64> {
        self.effects
    }

    /// From here on the directory may be opened again.
    pub fn loaded(&mut self) -> Result<(), DeployError> {
        self.loaded = true;
        self.write(None)
    }

    /// The number of a stream of requests that no run over this data has used.
    pub fn next_stream(&mut self) -> Result<u64, DeployError> {
        let stream = self.streams;
        self.streams += 1;
        if self.loaded {
            self.write(None)?;
        }
        Ok(stream)
    }

    /// The directory is left in order.
    pub fn leave(&self, effects: Option<u64>) -> Result<(), DeployError> {
        if self.loaded { self.write(effects) } else { Ok(()) }
    }

    /// What is here is worth nothing (a log in memory): the directory stays, its contents go.
    pub fn discard(&self) -> Result<(), DeployError> {
        clear(&self.path)
    }

    /// Whole or not at all: written aside, synced, renamed over.
    fn write(&self, effects: Option<u64>) -> Result<(), DeployError> {
        if !self.lasting {
            return Ok(());
        }
        let (aside, file) = (self.path.join("deployment.new"), self.path.join(FILE));
        let contents = Contents { manifest: self.manifest.clone(), effects, streams: self.streams };
        let text = serde_json::to_string_pretty(&contents).expect("a manifest is plain data");
        let written = || {
            let mut f =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&aside)?;
            f.write_all(text.as_bytes())?;
            f.sync_all()?;
            fs::rename(&aside, &file)?;
            File::open(&self.path)?.sync_all()
        };
        written().map_err(DeployError::io("write", &file))
    }

    /// Makes the private directory of an instance or of the sockets.
    pub(crate) fn subdirectory(&self, name: &str) -> Result<PathBuf, DeployError> {
        let path = self.path.join(name);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(DeployError::io("create", &path))?;
        Ok(path)
    }

    /// Fails unless about `bytes` more fit on the file system.
    pub fn require_space(&self, bytes: u64) -> Result<(), DeployError> {
        let stat = rustix::fs::statvfs(&self.path)
            .map_err(|e| DeployError::io("ask for the free space of", &self.path)(e.into()))?;
        let available = stat.f_bavail * stat.f_frsize;
        if available < bytes {
            return Err(DeployError::NoSpace {
                path: self.path.clone(),
                available_mib: available >> 20,
                needed_mib: bytes.div_ceil(1 << 20),
            });
        }
        Ok(())
    }
}

/// A data directory that is only looked at. Nobody can use it meanwhile.
pub struct Look {
    pub manifest: Manifest,
    /// See [`Home::effects`].
    pub effects: Option<u64>,
    _lock: Option<File>,
}

/// What `path` holds, without changing it.
///
/// # Errors
/// No directory of a deployment, one whose loading has not ended, or one that is in use.
pub fn look(path: &Path) -> Result<Look, DeployError> {
    if is_foreign(path)? || names(path)?.is_empty() {
        return Err(DeployError::Foreign { path: path.into() });
    }
    let held = path.join(LOCK);
    let lock = match File::open(&held) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
        opened => Some(opened.map_err(DeployError::io("open", &held))?),
    };
    if let Some(mut file) = lock.as_ref() {
        match flock(file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(DeployError::InUse { path: path.into(), holder: holder(&mut file) });
            }
            Err(e) => return Err(DeployError::io("lock", &held)(e.into())),
        }
    }
    match read(path)? {
        Some(Contents { manifest, effects, .. }) => Ok(Look { manifest, effects, _lock: lock }),
        None => Err(DeployError::Unfinished { path: path.into() }),
    }
}

/// What the directory at `path` says it holds; `None` if it is no deployment's, or its loading has not ended.
///
/// # Errors
/// A description that cannot be read, or of another version.
pub fn manifest_in(path: &Path) -> Result<Option<Manifest>, DeployError> {
    Ok(read(path)?.map(|contents| contents.manifest))
}

/// Who holds a lock file, as far as it says.
fn holder(file: &mut impl Read) -> String {
    let mut pid = String::new();
    let _ = file.read_to_string(&mut pid); // only for the message
    pid.trim().parse::<u32>().map_or("another process".into(), |p| format!("process {p}"))
}

fn lock(dir: &Path) -> Result<File, DeployError> {
    let path = dir.join(LOCK);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(DeployError::io("open", &path))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            return Err(DeployError::InUse { path: dir.into(), holder: holder(&mut file) });
        }
        Err(e) => return Err(DeployError::io("lock", &path)(e.into())),
    }
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(DeployError::io("write", &path))?;
    Ok(file)
}

fn names(dir: &Path) -> Result<Vec<String>, DeployError> {
    let entries = fs::read_dir(dir).and_then(|d| d.collect::<Result<Vec<_>, _>>());
    let entries = entries.map_err(DeployError::io("read directory", dir))?;
    Ok(entries.into_iter().map(|e| e.file_name().to_string_lossy().into_owned()).collect())
}

/// Whether there is something in `dir` that a deployment did not put there.
fn is_foreign(dir: &Path) -> Result<bool, DeployError> {
    let names = names(dir)?;
    let known = |n: &String| n == LOCK || n == FILE || n == "deployment.new" || n.parse::<u16>().is_ok();
    Ok(!names.iter().any(|n| n == LOCK) && !names.is_empty() || !names.iter().all(known))
}

/// Removes what a deployment left behind before it had loaded; [`is_foreign`] has said that nothing else is there.
fn clear(dir: &Path) -> Result<(), DeployError> {
    for name in names(dir)? {
        let path = dir.join(&name);
        let removed = match name.as_str() {
            LOCK => Ok(()),
            _ if path.is_dir() => fs::remove_dir_all(&path),
            _ => fs::remove_file(&path),
        };
        removed.map_err(DeployError::io("remove", &path))?;
    }
    Ok(())
}

fn read(dir: &Path) -> Result<Option<Contents>, DeployError> {
    let path = dir.join(FILE);
    let text = match fs::read_to_string(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(DeployError::io("read", &path))?,
    };
    // The version first: a file of another version may differ in every other field.
    let damaged = |why: String| DeployError::Manifest { path: path.clone(), why };
    let value: serde_json::Value = serde_json::from_str(&text).map_err(|e| damaged(e.to_string()))?;
    match value.get("format").and_then(serde_json::Value::as_u64) {
        Some(n) if n == u64::from(FORMAT) => {}
        Some(n) => {
            return Err(DeployError::Mismatch {
                path: dir.into(),
                found: format!("a database of format {n}"),
                wanted: format!("format {FORMAT}"),
            });
        }
        None => return Err(damaged("it has no format number".into())),
    }
    serde_json::from_value(value).map(Some).map_err(|e| damaged(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(islands: u16) -> Manifest {
        Manifest {
            format: FORMAT,
            data: "micro, 10 rows".into(),
            islands,
            family: "disk".into(),
            tables: TableKind::Heap,
            schema: 7,
            workload: WorkloadSpec::new("micro", 2),
        }
    }

    #[test]
    fn a_loaded_directory_opens_again_with_its_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/db");
        let mut home = Home::at(&path, manifest(2)).unwrap();
        assert!(!home.is_loaded());
        home.loaded().unwrap();
        assert_eq!(home.next_stream().unwrap(), 0);
        home.leave(Some(7)).unwrap();
        drop(home);
        let mut again = Home::at(&path, manifest(2)).unwrap();
        assert!(again.is_loaded());
        assert_eq!(again.effects(), Some(7));
        assert_eq!(again.next_stream().unwrap(), 1);
        drop(again); // not left in order
        assert_eq!(Home::at(&path, manifest(2)).unwrap().effects(), None);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn requests_do_not_matter_and_the_schema_does() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        Home::at(&path, manifest(2)).unwrap().loaded().unwrap();
        let mut other = manifest(2);
        other.workload.skew = Some(0.9);
        assert!(Home::at(&path, other.clone()).unwrap().is_loaded());
        other.tables = TableKind::Clustered;
        let text = Home::at(&path, other.clone()).err().unwrap().to_string();
        assert!(text.contains("heap tables") && text.contains("clustered tables"), "{text}");
        (other.tables, other.schema) = (TableKind::Heap, 8);
        let text = Home::at(&path, other).err().unwrap().to_string();
        assert!(text.contains("schema 00000007") && text.contains("schema 00000008"), "{text}");
    }

    #[test]
    fn looking_takes_no_lock_from_another_and_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        assert!(matches!(look(&path), Err(DeployError::Io { .. })));
        fs::create_dir(&path).unwrap();
        assert!(matches!(look(&path), Err(DeployError::Foreign { .. })));
        let mut home = Home::at(&path, manifest(2)).unwrap();
        let text = look(&path).err().unwrap().to_string();
        assert!(text.contains(&std::process::id().to_string()), "{text}");
        drop(home);
        assert!(matches!(look(&path), Err(DeployError::Unfinished { .. })));
        home = Home::at(&path, manifest(2)).unwrap();
        home.loaded().unwrap();
        home.leave(Some(3)).unwrap();
        drop(home);
        let seen = look(&path).unwrap();
        assert_eq!((seen.effects, &seen.manifest), (Some(3), &manifest(2)));
        assert!(matches!(Home::at(&path, manifest(2)), Err(DeployError::InUse { .. })));
        drop(seen);
        assert_eq!(Home::at(&path, manifest(2)).unwrap().effects(), Some(3), "it was not touched");
    }

    #[test]
    fn what_does_not_fit_is_named_on_both_sides() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        Home::at(&path, manifest(2)).unwrap().loaded().unwrap();
        let error = Home::at(&path, manifest(3)).err().unwrap();
        assert!(error.is_usage());
        let text = error.to_string();
        assert!(text.contains("2 islands") && text.contains("3 islands"), "{text}");
        let old = fs::read_to_string(path.join(FILE))
            .unwrap()
            .replace(&format!("\"format\": {FORMAT}"), "\"format\": 99");
        fs::write(path.join(FILE), old).unwrap();
        let text = Home::at(&path, manifest(2)).err().unwrap().to_string();
        assert!(text.contains("format 99") && text.contains(&format!("format {FORMAT}")), "{text}");
        fs::write(path.join(FILE), "{").unwrap();
        assert!(matches!(Home::at(&path, manifest(2)), Err(DeployError::Manifest { .. })));
    }

    #[test]
    fn one_deployment_at_a_time_and_no_foreign_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let home = Home::at(&path, manifest(1)).unwrap();
        let error = Home::at(&path, manifest(1)).err().unwrap();
        assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
        drop(home);
        fs::write(path.join("letter.txt"), "mine").unwrap();
        assert!(matches!(Home::at(&path, manifest(1)), Err(DeployError::Foreign { .. })));
        assert!(path.join("letter.txt").exists());
    }

    #[test]
    fn a_half_loaded_directory_is_cleared_and_a_temporary_one_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let home = Home::at(&path, manifest(1)).unwrap();
        fs::write(home.subdirectory("0").unwrap().join("data"), "half").unwrap();
        drop(home);
        assert!(!Home::at(&path, manifest(1)).unwrap().path().join("0").exists());
        let run = RunDir::new().unwrap();
        let home = Home::inside(&run, manifest(1)).unwrap();
        let path = home.path().to_owned();
        assert!(path.exists());
        drop((home, run));
        assert!(!path.exists());
    }

    #[test]
    fn too_little_space_is_told_in_numbers() {
        let run = RunDir::new().unwrap();
        let home = Home::inside(&run, manifest(1)).unwrap();
        home.require_space(1 << 10).unwrap();
        let text = home.require_space(1 << 60).unwrap_err().to_string();
        assert!(text.contains("MiB free") && text.contains(&(1u64 << 40).to_string()), "{text}");
    }
}
