//! The data directory of a deployment: locked for a run ([`Home`]), or for reading ([`Look`]).

use crate::DeployError;
use crate::copy::{CopyProgress, copy_all, require_space};
use crate::distant::Machines;
use crate::files::make_private;
use crate::layout::{RUN, Standing, clear, no_database, require_names, standing};
use crate::lock::{self, Lock};
use crate::machines::agreed;
use crate::manifest::{Contents, Identity, Manifest, read, write_contents};
use crate::scratch::Scratch;
use crate::whole::{Judgement, judge, label};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The treatment of a directory in which a load has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfinished {
    /// It is cleared.
    StartAnew,
    Refuse,
}

/// A locked data directory.
pub struct Home {
    path: PathBuf,
    /// For a copy: removes it. Dropped before the lock, which guards the copy.
    _copy: Option<RemovedAtEnd>,
    _lock: Option<Lock>,
    /// The machines that have the data, and the name of the database there.
    afar: Option<(Arc<dyn Machines>, String)>,
    /// Whether the directory may be opened again after this run.
    lasting: bool,
    manifest: Manifest,
    loaded: bool,
    effects: Option<u64>,
    streams: u64,
    identity: Option<Identity>,
}

/// Removes a directory when it is dropped.
struct RemovedAtEnd(PathBuf);

impl Drop for RemovedAtEnd {
    fn drop(&mut self) {
        // If this fails, the next run that opens the directory tries again.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Home {
    /// In a run's temporary directory.
    pub(crate) fn inside(run: &Scratch, manifest: Manifest) -> Result<Home, DeployError> {
        let path = run.path().join("data");
        make_private(&path)?;
        let (loaded, effects, streams) = (false, Some(0), 0);
        let (_copy, _lock, lasting, identity) = (None, None, false, None);
        Ok(Home { path, _copy, _lock, afar: None, lasting, manifest, loaded, effects, streams, identity })
    }

    /// On other machines: the database of this name, or a temporary one. A database of which the
    /// loading has not ended is removed.
    ///
    /// # Errors
    /// The database holds other data, or differs from machine to machine.
    pub(crate) fn afar(
        machines: Arc<dyn Machines>,
        database: Option<String>,
        manifest: Manifest,
    ) -> Result<Home, DeployError> {
        let found = match &database {
            None => None,
            Some(name) => agreed(name, machines.read(name)?)?,
        };
        let path = PathBuf::from(database.clone().unwrap_or_default());
        let (loaded, effects, streams) = match found {
            None => {
                database.as_ref().map_or(Ok(()), |name| machines.write(name, None))?;
                (false, Some(0), 0)
            }
            Some(found) => {
                if !found.manifest.fits(&manifest) {
                    let (found, wanted) = (found.manifest.describe(), manifest.describe());
                    return Err(DeployError::Mismatch { path, found, wanted });
                }
                (true, found.effects, found.streams)
            }
        };
        let (_copy, _lock, lasting, identity) = (None, None, database.is_some(), None);
        let afar = Some((machines, database.unwrap_or_default()));
        // The agents make the directories of the instances.
        let path = PathBuf::new();
        Ok(Home { path, _copy, _lock, afar, lasting, manifest, loaded, effects, streams, identity })
    }

    /// Opens `path` if its data matches `manifest`, or creates it if it is missing. Changes no
    /// loaded data.
    ///
    /// # Errors
    /// It is in use, is a sweep's or a backup, has other programs' files where this one's belong,
    /// holds other data, or (with [`Unfinished::Refuse`]) holds half-loaded data.
    pub fn at(path: &Path, manifest: Manifest, unfinished: Unfinished) -> Result<Home, DeployError> {
        let there = standing(path)?;
        if let Standing::Sweep(_) | Standing::Backup = there {
            return Err(no_database(path, there));
        }
        make_private(path)?;
        let lock = lock::exclusive_if(path, || {
            let loaded = matches!(standing(path)?, Standing::Database(_));
            require_names(path, manifest.islands, loaded)
        })?;
        let found = read(path)?;
        let (loaded, effects, streams, identity) = match found {
            Some(found) if found.manifest.fits(&manifest) => {
                (true, found.effects, found.streams, found.identity)
            }
            Some(found) => {
                return Err(DeployError::Mismatch {
                    path: path.into(),
                    found: found.manifest.describe(),
                    wanted: manifest.describe(),
                });
            }
            None if unfinished == Unfinished::Refuse && matches!(standing(path)?, Standing::Unfinished) => {
                return Err(DeployError::Unfinished { path: path.into() });
            }
            None => {
                clear(path)?;
                (false, Some(0), 0, None)
            }
        };
        let run = path.join(RUN);
        if run.exists() {
            fs::remove_dir_all(&run).map_err(DeployError::io("remove", &run))?;
        }
        let (path, _copy, _lock, lasting) = (path.into(), None, Some(lock), true);
        Ok(Home { path, _copy, _lock, afar: None, lasting, manifest, loaded, effects, streams, identity })
    }

    /// Checks the database here, as far as that is possible without opening it.
    pub(crate) fn judge(&self) -> Judgement {
        judge(&self.path, &self.manifest, self.identity.as_ref())
    }

    /// Marks that a deployment runs on the directory itself: from here on its data may change.
    pub fn enter(&self) -> Result<(), DeployError> {
        if self.loaded { self.write(None) } else { Ok(()) }
    }

    /// Turns this value into an empty directory below the present one, removed with this value. The
    /// loaded data stays unchanged.
    ///
    /// # Errors
    /// It cannot be created.
    pub(crate) fn run_beside(&mut self) -> Result<(), DeployError> {
        let path = self.path.join(RUN);
        make_private(&path)?;
        self._copy = Some(RemovedAtEnd(path.clone()));
        (self.path, self.lasting, self.loaded, self.effects, self.streams) = (path, false, false, Some(0), 0);
        Ok(())
    }

    /// Turns this value into a copy to run on, below the present directory and removed with this
    /// value. The loaded data stays unchanged.
    ///
    /// # Errors
    /// No space, or the run is interrupted.
    pub(crate) fn run_on_a_copy(&mut self, watch: CopyProgress<'_>) -> Result<(), DeployError> {
        let (from, effects, streams) = (self.path.clone(), self.effects, self.streams);
        self.run_beside()?;
        let instances: Vec<_> = (0..self.manifest.islands).map(|i| i.to_string()).collect();
        copy_all(&from, &self.path, &instances, watch)?;
        (self.loaded, self.effects, self.streams) = (true, effects, streams);
        Ok(())
    }

    /// The directory of the data, which may be a copy.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the data was loaded by an earlier run.
    pub fn is_loaded(&self) -> bool {
        self.loaded
    }

    /// The effects committed here between the load and the last orderly stop, in the unit of the
    /// workload's consistency check; `None` after a crash.
    pub fn effects(&self) -> Option<u64> {
        self.effects
    }

    /// Marks the data as loaded, so that the directory can be opened again, and labels each
    /// instance's folder.
    pub fn loaded(&mut self) -> Result<(), DeployError> {
        if self.lasting && self.identity.is_none() && self.afar.is_none() {
            let identity = Identity::draw();
            label(&self.path, &identity, self.manifest.islands)?;
            self.identity = Some(identity);
        }
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

    /// Marks that the directory is left in order.
    pub fn leave(&self, effects: Option<u64>) -> Result<(), DeployError> {
        if self.loaded { self.write(effects) } else { Ok(()) }
    }

    /// Discards the data (with a log in memory it cannot be opened again): the directory stays, its
    /// contents go.
    pub fn discard(&self) -> Result<(), DeployError> {
        if let Some((machines, database)) = &self.afar {
            return if self.lasting { machines.write(database, None) } else { Ok(()) };
        }
        clear(&self.path)
    }

    /// Writes the description whole or not at all: under another name, synced, renamed over the old
    /// one.
    fn write(&self, effects: Option<u64>) -> Result<(), DeployError> {
        if !self.lasting {
            return Ok(());
        }
        let (manifest, streams) = (self.manifest.clone(), self.streams);
        let identity = self.identity.clone();
        let contents = Contents { manifest, effects, streams, identity };
        match &self.afar {
            Some((machines, database)) => machines.write(database, Some(&contents.to_text())),
            None => write_contents(&self.path, &contents),
        }
    }

    /// Makes the private directory of an instance or of the sockets.
    pub(crate) fn subdirectory(&self, name: &str) -> Result<PathBuf, DeployError> {
        if self.afar.is_some() {
            return Ok(name.into());
        }
        let path = self.path.join(name);
        make_private(&path)?;
        Ok(path)
    }

    /// Fails unless about `bytes` more fit on the file system. That of other machines is not known.
    pub fn require_space(&self, bytes: u64) -> Result<(), DeployError> {
        if self.afar.is_some() {
            return Ok(());
        }
        require_space(&self.path, bytes)
    }
}

/// A data directory that is locked for reading, so that no deployment can run on it.
pub struct Look {
    pub manifest: Manifest,
    /// See [`Home::effects`].
    pub effects: Option<u64>,
    pub(crate) identity: Option<Identity>,
    _lock: Lock,
}

/// Opens the database in `path` for reading. Changes nothing, except that a missing `lock` is made
/// anew.
///
/// # Errors
/// The directory holds no database, holds one of which the loading has not ended, or is in use.
pub fn look(path: &Path) -> Result<Look, DeployError> {
    if let absent @ Standing::Absent = standing(path)? {
        return Err(no_database(path, absent));
    }
    let mut lock = lock::shared(path)?;
    match standing(path)? {
        Standing::Database(_) => {}
        other => return Err(no_database(path, other)),
    }
    lock.complete(path)?;
    match read(path)? {
        Some(Contents { manifest, effects, identity, .. }) => {
            Ok(Look { manifest, effects, identity, _lock: lock })
        }
        None => Err(DeployError::Unfinished { path: path.into() }),
    }
}

/// Gives the database in `dir`, which is a copy of another one, an identity of its own.
pub(crate) fn rename(dir: &Path) -> Result<(), DeployError> {
    let Some(mut contents) = read(dir)? else { return Err(DeployError::NoDatabase { path: dir.into() }) };
    let identity = Identity::draw();
    label(dir, &identity, contents.manifest.islands)?;
    contents.identity = Some(identity);
    write_contents(dir, &contents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{HeapForm, TreeKind};
    use crate::manifest::{FILE, FORMAT};
    use std::os::unix::fs::PermissionsExt;
    use txn::TableKind;
    use workload::WorkloadSpec;

    fn at(path: &Path, manifest: Manifest) -> Result<Home, DeployError> {
        Home::at(path, manifest, Unfinished::StartAnew)
    }

    /// As a deployment does it: the folders of its instances exist by then.
    fn loaded(home: &mut Home) {
        (0..home.manifest.islands).for_each(|i| drop(home.subdirectory(&i.to_string()).unwrap()));
        home.loaded().unwrap();
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
        loaded(&mut home);
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
        loaded(&mut at(&path, manifest(2)).unwrap());
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
        assert!(matches!(look(&path), Err(DeployError::NoDirectory { .. })));
        fs::create_dir(&path).unwrap();
        assert!(matches!(look(&path), Err(DeployError::NoDatabase { .. })));
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0, "a look makes no files");
        let mut home = at(&path, manifest(2)).unwrap();
        let text = look(&path).err().unwrap().to_string();
        assert!(text.contains(&std::process::id().to_string()), "{text}");
        fs::write(home.subdirectory("0").unwrap().join("data"), "half").unwrap();
        drop(home);
        assert!(matches!(look(&path), Err(DeployError::Unfinished { .. })));
        home = at(&path, manifest(2)).unwrap();
        loaded(&mut home);
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
        loaded(&mut at(&path, manifest(2)).unwrap());
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
    fn one_deployment_at_a_time_and_other_programs_files_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let home = at(&path, manifest(1)).unwrap();
        let error = at(&path, manifest(1)).err().unwrap();
        assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
        drop(home);
        fs::write(path.join("letter.txt"), "mine").unwrap();
        drop(at(&path, manifest(1)).unwrap());
        assert!(path.join("letter.txt").exists());
        fs::create_dir(path.join("0")).unwrap();
        fs::rename(path.join("letter.txt"), path.join("0/letter.txt")).unwrap();
        assert!(matches!(at(&path, manifest(1)), Err(DeployError::Occupied { .. })));
        assert!(path.join("0/letter.txt").exists());
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
