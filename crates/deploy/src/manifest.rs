//! The directory a deployment lives in: who may use it, and what was built there.
//!
//! ```text
//! DIR/ (0700)   deployment.json   what was loaded here; written after the load, so a half-loaded directory has none
//!               lock              held (flock) by the one deployment that runs here; the kernel lets go when it dies
//!               0/ 1/ ...         one directory per instance: its data file and its log
//!               run/              the same of a deployment that runs on a copy; what is found here is a killed run's
//! ```

use crate::DeployError;
use crate::copy::{Watch, copy_all, require_space};
use crate::engine::{HeapForm, TreeKind};
use crate::scratch::Scratch;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use txn::TableKind;
use workload::WorkloadSpec;

pub(crate) const FILE: &str = "deployment.json";
pub(crate) const LOCK: &str = "lock";
const RUN: &str = "run";
/// Counted up whenever anything in a data directory changes its shape.
pub const FORMAT: u32 = 6;

/// Families of designs.
pub(crate) const DISK: &str = "disk";
pub(crate) const MEMORY: &str = "memory";

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
    /// How its trees are made.
    pub trees: TreeKind,
    /// Which rows of tables with a key share a heap page.
    pub heaps: HeapForm,
    /// Into how many parts the load divided each multi-rooted tree of each instance; 1 where trees have one root.
    pub partitions: usize,
    /// A number that follows from the tables' definitions.
    pub schema: u32,
    /// The workload whose data it is, without what only shapes its requests.
    pub workload: WorkloadSpec,
}

impl Manifest {
    /// Whether a deployment that wants the one can use the other's data.
    pub fn fits(&self, other: &Manifest) -> bool {
        let data = |m: &Manifest| (m.format, m.data.clone(), m.islands, m.family.clone(), m.schema);
        let kinds = |m: &Manifest| (m.tables, m.trees, m.heaps, m.partitions);
        data(self) == data(other) && kinds(self) == kinds(other)
    }

    /// In one line, for people.
    pub fn describe(&self) -> String {
        let islands = if self.islands == 1 { "island" } else { "islands" };
        format!(
            "{} on {} {islands} ({} format {}, {} tables, {} heap pages, {}, schema {:08x})",
            self.data,
            self.islands,
            self.family,
            self.format,
            self.tables.name(),
            self.heaps.name(),
            self.trees_in_words(),
            self.schema
        )
    }

    fn trees_in_words(&self) -> String {
        match (self.trees, self.partitions) {
            (TreeKind::BTree, _) => "btree".into(),
            (TreeKind::MultiRooted, 1) => "mrbtree of 1 partition".into(),
            (TreeKind::MultiRooted, n) => format!("mrbtree of {n} partitions"),
        }
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

/// What becomes of a directory whose loading has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfinished {
    /// It is cleared.
    StartAnew,
    Refuse,
}

/// A locked data directory.
pub struct Home {
    path: PathBuf,
    /// Of a copy: removes it. Before the lock, which guards it.
    _copy: Option<RemovedAtEnd>,
    _lock: Option<File>,
    /// Whether the directory may be opened again after this run.
    lasting: bool,
    manifest: Manifest,
    loaded: bool,
    effects: Option<u64>,
    streams: u64,
}

struct RemovedAtEnd(PathBuf);

impl Drop for RemovedAtEnd {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0); // the next one to open the directory tries again
    }
}

impl Home {
    /// In a run's temporary directory.
    pub(crate) fn inside(run: &Scratch, manifest: Manifest) -> Result<Home, DeployError> {
        let path = run.path().join("data");
        make_private(&path)?;
        let (loaded, effects, streams) = (false, Some(0), 0);
        Ok(Home { path, _copy: None, _lock: None, lasting: false, manifest, loaded, effects, streams })
    }

    /// `path`, created if it is missing, opened if it holds what `manifest` says. Nothing loaded in it is changed.
    ///
    /// # Errors
    /// It is in use, is something else's, holds other data, or (with [`Unfinished::Refuse`]) half of it.
    pub fn at(path: &Path, manifest: Manifest, unfinished: Unfinished) -> Result<Home, DeployError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(DeployError::io("create data directory", path))?;
        if is_foreign(path)? {
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
            None if unfinished == Unfinished::Refuse && names(path)?.iter().any(|n| is_instance(n)) => {
                return Err(DeployError::Unfinished { path: path.into() });
            }
            None => {
                clear(path)?;
                (false, Some(0), 0)
            }
        };
        let run = path.join(RUN);
        if run.exists() {
            fs::remove_dir_all(&run).map_err(DeployError::io("remove", &run))?;
        }
        let (path, lock) = (path.into(), Some(lock));
        Ok(Home { path, _copy: None, _lock: lock, lasting: true, manifest, loaded, effects, streams })
    }

    /// A deployment begins to run on the directory itself: from here on its data is no longer as it was left.
    pub fn enter(&self) -> Result<(), DeployError> {
        if self.loaded { self.write(None) } else { Ok(()) }
    }

    /// From here on this is an empty directory below this one, gone with this value. What was loaded stays as it is.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn run_beside(&mut self) -> Result<(), DeployError> {
        let path = self.path.join(RUN);
        make_private(&path)?;
        self._copy = Some(RemovedAtEnd(path.clone()));
        (self.path, self.lasting, self.loaded, self.effects, self.streams) = (path, false, false, Some(0), 0);
        Ok(())
    }

    /// From here on this is a copy to run on, below the directory and gone with this value. What was loaded stays as it is.
    ///
    /// # Errors
    /// No space, or the run is interrupted.
    pub(crate) fn run_on_a_copy(&mut self, watch: Watch<'_>) -> Result<(), DeployError> {
        let (from, effects, streams) = (self.path.clone(), self.effects, self.streams);
        self.run_beside()?;
        let instances = names(&from)?.into_iter().filter(|n| is_instance(n)).collect::<Vec<_>>();
        copy_all(&from, &self.path, &instances, watch)?;
        (self.loaded, self.effects, self.streams) = (true, effects, streams);
        Ok(())
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
        make_private(&path)?;
        Ok(path)
    }

    /// Fails unless about `bytes` more fit on the file system.
    pub fn require_space(&self, bytes: u64) -> Result<(), DeployError> {
        require_space(&self.path, bytes)
    }
}

fn make_private(path: &Path) -> Result<(), DeployError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(DeployError::io("create", path))
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

pub(crate) fn lock(dir: &Path) -> Result<File, DeployError> {
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

/// Whether it is the name of an instance's directory.
fn is_instance(name: &str) -> bool {
    name.parse::<u16>().is_ok()
}

/// Whether there is something in `dir` that a deployment did not put there.
fn is_foreign(dir: &Path) -> Result<bool, DeployError> {
    let names = names(dir)?;
    let known = |n: &String| [LOCK, FILE, RUN, "deployment.new"].contains(&n.as_str()) || is_instance(n);
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
    use std::os::unix::fs::PermissionsExt;

    fn at(path: &Path, manifest: Manifest) -> Result<Home, DeployError> {
        Home::at(path, manifest, Unfinished::StartAnew)
    }

    fn manifest(islands: u16) -> Manifest {
        Manifest {
            format: FORMAT,
            data: "micro, 10 rows".into(),
            islands,
            family: "disk".into(),
            tables: TableKind::Heap,
            trees: TreeKind::BTree,
            heaps: HeapForm::Shared,
            partitions: 1,
            schema: 7,
            workload: WorkloadSpec::new("micro", 2),
        }
    }

    #[test]
    fn a_loaded_directory_opens_again_with_its_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/db");
        let mut home = at(&path, manifest(2)).unwrap();
        assert!(!home.is_loaded());
        home.loaded().unwrap();
        assert_eq!(home.next_stream().unwrap(), 0);
        home.leave(Some(7)).unwrap();
        drop(home);
        let mut again = at(&path, manifest(2)).unwrap();
        assert!(again.is_loaded());
        assert_eq!(again.effects(), Some(7));
        assert_eq!(again.next_stream().unwrap(), 1);
        again.enter().unwrap();
        drop(again); // not left in order
        assert_eq!(at(&path, manifest(2)).unwrap().effects(), None);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn requests_do_not_matter_and_the_schema_does() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        at(&path, manifest(2)).unwrap().loaded().unwrap();
        let mut other = manifest(2);
        other.workload.skew = Some(0.9);
        assert!(at(&path, other.clone()).unwrap().is_loaded());
        other.tables = TableKind::Clustered;
        let text = at(&path, other.clone()).err().unwrap().to_string();
        assert!(text.contains("heap tables") && text.contains("clustered tables"), "{text}");
        (other.tables, other.trees, other.partitions) = (TableKind::Heap, TreeKind::MultiRooted, 4);
        let text = at(&path, other.clone()).err().unwrap().to_string();
        assert!(
            text.contains("heap tables, shared heap pages, btree,")
                && text.contains("mrbtree of 4 partitions"),
            "{text}"
        );
        (other.trees, other.partitions, other.schema) = (TreeKind::BTree, 1, 8);
        let text = at(&path, other).err().unwrap().to_string();
        assert!(text.contains("schema 00000007") && text.contains("schema 00000008"), "{text}");
    }

    #[test]
    fn looking_takes_no_lock_from_another_and_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        assert!(matches!(look(&path), Err(DeployError::Io { .. })));
        fs::create_dir(&path).unwrap();
        assert!(matches!(look(&path), Err(DeployError::Foreign { .. })));
        let mut home = at(&path, manifest(2)).unwrap();
        let text = look(&path).err().unwrap().to_string();
        assert!(text.contains(&std::process::id().to_string()), "{text}");
        drop(home);
        assert!(matches!(look(&path), Err(DeployError::Unfinished { .. })));
        home = at(&path, manifest(2)).unwrap();
        home.loaded().unwrap();
        home.leave(Some(3)).unwrap();
        drop(home);
        let seen = look(&path).unwrap();
        assert_eq!((seen.effects, &seen.manifest), (Some(3), &manifest(2)));
        assert!(matches!(at(&path, manifest(2)), Err(DeployError::InUse { .. })));
        drop(seen);
        assert_eq!(at(&path, manifest(2)).unwrap().effects(), Some(3), "it was not touched");
    }

    #[test]
    fn what_does_not_fit_is_named_on_both_sides() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        at(&path, manifest(2)).unwrap().loaded().unwrap();
        let error = at(&path, manifest(3)).err().unwrap();
        assert!(error.is_usage());
        let text = error.to_string();
        assert!(text.contains("2 islands") && text.contains("3 islands"), "{text}");
        let old = fs::read_to_string(path.join(FILE))
            .unwrap()
            .replace(&format!("\"format\": {FORMAT}"), "\"format\": 99");
        fs::write(path.join(FILE), old).unwrap();
        let text = at(&path, manifest(2)).err().unwrap().to_string();
        assert!(text.contains("format 99") && text.contains(&format!("format {FORMAT}")), "{text}");
        fs::write(path.join(FILE), "{").unwrap();
        assert!(matches!(at(&path, manifest(2)), Err(DeployError::Manifest { .. })));
    }

    #[test]
    fn one_deployment_at_a_time_and_no_foreign_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let home = at(&path, manifest(1)).unwrap();
        let error = at(&path, manifest(1)).err().unwrap();
        assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
        drop(home);
        fs::write(path.join("letter.txt"), "mine").unwrap();
        assert!(matches!(at(&path, manifest(1)), Err(DeployError::Foreign { .. })));
        assert!(path.join("letter.txt").exists());
    }

    #[test]
    fn a_half_loaded_directory_is_cleared_and_a_temporary_one_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let home = at(&path, manifest(1)).unwrap();
        fs::write(home.subdirectory("0").unwrap().join("data"), "half").unwrap();
        drop(home);
        assert!(!at(&path, manifest(1)).unwrap().path().join("0").exists());
        let run = Scratch::new().unwrap();
        let home = Home::inside(&run, manifest(1)).unwrap();
        let path = home.path().to_owned();
        assert!(path.exists());
        drop((home, run));
        assert!(!path.exists());
    }

    #[test]
    fn too_little_space_is_told_in_numbers() {
        let run = Scratch::new().unwrap();
        let home = Home::inside(&run, manifest(1)).unwrap();
        home.require_space(1 << 10).unwrap();
        let text = home.require_space(1 << 60).unwrap_err().to_string();
        assert!(text.contains("MiB free") && text.contains(&(1u64 << 40).to_string()), "{text}");
    }
}
