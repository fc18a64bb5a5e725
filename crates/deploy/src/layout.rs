//! The kinds of directories, told apart by the names in them: a database, the databases of a sweep,
//! a backup, or none of these.
//!
//! ```text
//! a database   deployment.json lock run/ 0/ 1/ ...     (see `manifest`)
//! a sweep      sweep.json 01-1-islands/ 02-2-islands/ ...     each of them a database
//! a backup     backup.json database/     (see `backup`)
//! ```
//!
//! Only these names count. Other files in such a directory (`lost+found`, notes) belong to other
//! programs: this code does not read, copy or remove them, and they prevent nothing.

use crate::DeployError;
use crate::files::{make_private, write_whole};
use crate::manifest::{self, Manifest};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// In a directory of a sweep.
const SWEEP: &str = "sweep.json";
/// Counted up whenever the format of `sweep.json` changes.
const SWEEP_FORMAT: u32 = 1;
/// In a backup that is a directory; the last entry of a backup that is a file.
pub(crate) const BACKUP: &str = "backup.json";
/// The directory of copies that exist during a run.
pub(crate) const RUN: &str = "run";
/// In the folder of an instance: the instance's number and its database.
pub(crate) const INSTANCE: &str = "instance.json";

/// Files that an instance makes in its folder.
const OF_AN_INSTANCE: &[&str] =
    &["lock", "control", "control.new", "control-0", "control-1", "data", "doublewrite", "log", INSTANCE];
/// Prefixes of the other files that an instance makes in its folder.
const OF_AN_INSTANCE_BEGIN: &[&str] = &["log-", "checkpoint-", "spare-", "instance.new", "relay-mark"];

/// A kind of directory.
pub enum Standing {
    /// There is no such directory.
    Absent,
    /// It holds no file of Atoll; perhaps other files.
    Vacant,
    Database(Box<Manifest>),
    /// A database of which the loading has not ended.
    Unfinished,
    /// The databases of the sweep, in the order of their names.
    Sweep(Vec<Within>),
    Backup,
}

/// A database in the directory of a sweep.
pub struct Within {
    pub name: String,
    pub manifest: Manifest,
}

/// Returns the kind of directory that `path` is. Changes nothing.
///
/// # Errors
/// `path` is a file, or an entry in it cannot be read; a description that is damaged or of another
/// version.
pub fn standing(path: &Path) -> Result<Standing, DeployError> {
    match fs::metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Standing::Absent),
        Err(e) if e.kind() == ErrorKind::NotADirectory => {
            let parent = path.parent().unwrap_or(path);
            return Err(DeployError::NotADirectory { path: parent.into() });
        }
        Err(e) => return Err(DeployError::io("look at", path)(e)),
        Ok(about) if !about.is_dir() => return Err(DeployError::NotADirectory { path: path.into() }),
        Ok(_) => {}
    }
    if let Some(manifest) = manifest::manifest_in(path)? {
        return Ok(Standing::Database(Box::new(manifest)));
    }
    let names = names(path)?;
    let has = |name: &str| names.iter().any(|n| n == name);
    if has(BACKUP) {
        return Ok(Standing::Backup);
    }
    let within = databases_of_sweep(path, &names)?;
    if has(SWEEP) || !within.is_empty() {
        return Ok(Standing::Sweep(within));
    }
    let unfinished = names.iter().any(|name| is_instance(name) && holds_instance(&path.join(name)));
    Ok(if unfinished { Standing::Unfinished } else { Standing::Vacant })
}

/// The error for a command that needs a database and met `standing`.
pub(crate) fn no_database(path: &Path, standing: Standing) -> DeployError {
    let path = path.to_owned();
    match standing {
        Standing::Absent => DeployError::NoDirectory { path },
        Standing::Unfinished => DeployError::Unfinished { path },
        Standing::Sweep(within) => DeployError::Sweep { path, within: list(&within) },
        Standing::Backup => DeployError::Backup { restored: free_name(&path, "restored"), path },
        Standing::Vacant | Standing::Database(_) => DeployError::NoDatabase { path },
    }
}

/// The databases of a sweep in words: the name and shape of each.
fn list(within: &[Within]) -> String {
    let one = |w: &Within| {
        let n = w.manifest.islands;
        let islands = if n == 1 { "island" } else { "islands" };
        format!("{} ({} on {n} {islands})", w.name, w.manifest.data)
    };
    match within.iter().map(one).collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "none yet".into(),
        some => some,
    }
}

/// A name like `path` with `word` appended, at which there is no file yet.
pub fn free_name(path: &Path, word: &str) -> PathBuf {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or("database".into());
    let name = |n: u32| match n {
        1 => path.with_file_name(format!("{name}-{word}")),
        n => path.with_file_name(format!("{name}-{word}-{n}")),
    };
    (1..).map(name).find(|path| fs::symlink_metadata(path).is_err()).unwrap_or_else(|| path.into())
}

/// The sorted names in a directory.
pub(crate) fn names(dir: &Path) -> Result<Vec<String>, DeployError> {
    let entries = fs::read_dir(dir).and_then(|d| d.collect::<Result<Vec<_>, _>>());
    let entries = entries.map_err(DeployError::io("read directory", dir))?;
    let mut names: Vec<_> =
        entries.into_iter().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// Whether it is the name of an instance's directory: a number as Atoll writes it.
pub(crate) fn is_instance(name: &str) -> bool {
    name.parse::<u16>().is_ok_and(|n| n.to_string() == name)
}

/// Whether an instance makes a file of this name in its folder.
pub(crate) fn is_of_an_instance(name: &str) -> bool {
    OF_AN_INSTANCE.contains(&name) || OF_AN_INSTANCE_BEGIN.iter().any(|begin| name.starts_with(begin))
}

/// Whether `dir` is a folder with files that an instance makes, and no others.
pub(crate) fn holds_instance(dir: &Path) -> bool {
    is_folder(dir)
        && names(dir).is_ok_and(|names| !names.is_empty() && names.iter().all(|n| is_of_an_instance(n)))
}

/// A directory, and no link to one.
fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|about| about.is_dir())
}

fn is_empty_folder(path: &Path) -> bool {
    is_folder(path) && names(path).is_ok_and(|names| names.is_empty())
}

/// Whether `path` holds only leftovers of a run's copies: nothing, or folders of instances.
fn is_leftover_of_a_run(path: &Path) -> bool {
    let instance = |name: &String| {
        let at = path.join(name);
        is_instance(name) && (holds_instance(&at) || is_empty_folder(&at))
    };
    is_folder(path) && names(path).is_ok_and(|names| names.iter().all(instance))
}

/// Checks that no file of another program has a name that a run on `islands` instances in `dir`
/// would use.
///
/// # Errors
/// [`DeployError::Occupied`].
pub(crate) fn require_names(dir: &Path, islands: u16, loaded: bool) -> Result<(), DeployError> {
    let occupied =
        |name: &str, what| Err(DeployError::Occupied { path: dir.into(), name: name.into(), what });
    for name in names(dir)? {
        let at = dir.join(&name);
        let number = name.parse::<u16>().ok().filter(|_| is_instance(&name));
        if number.is_some_and(|n| n < islands) && !loaded && !holds_instance(&at) && !is_empty_folder(&at) {
            return occupied(&name, "no instance's folder of Atoll");
        }
        if name == RUN && !is_leftover_of_a_run(&at) {
            return occupied(&name, "nothing that a run of Atoll left");
        }
    }
    Ok(())
}

/// Removes the leftovers in `dir` of an unfinished load and of runs. Removes only files with the
/// names and the contents of Atoll's own files.
pub(crate) fn clear(dir: &Path) -> Result<(), DeployError> {
    for name in names(dir)? {
        let path = dir.join(&name);
        let removed = match name.as_str() {
            manifest::FILE | manifest::ASIDE => fs::remove_file(&path),
            RUN if is_leftover_of_a_run(&path) => fs::remove_dir_all(&path),
            name if is_instance(name) && holds_instance(&path) => fs::remove_dir_all(&path),
            _ => Ok(()),
        };
        removed.map_err(DeployError::io("remove", &path))?;
    }
    Ok(())
}

/// The contents of `sweep.json`.
#[derive(Serialize, Deserialize)]
struct SweepFile {
    format: u32,
    holds: String,
}

/// Whether it can be the name of a database of a sweep: a number, a hyphen, ..., `-islands`.
fn is_of_a_sweep(name: &str) -> bool {
    let number = name.split('-').next().unwrap_or_default();
    number.len() >= 2 && number.bytes().all(|b| b.is_ascii_digit()) && name.ends_with("-islands")
}

fn databases_of_sweep(dir: &Path, names: &[String]) -> Result<Vec<Within>, DeployError> {
    let mut within = Vec::new();
    for name in names.iter().filter(|name| is_of_a_sweep(name)) {
        let at = dir.join(name);
        if !is_folder(&at) {
            continue;
        }
        if let Some(manifest) = manifest::manifest_in(&at)? {
            within.push(Within { name: name.clone(), manifest });
        }
    }
    Ok(within)
}

/// A name in the directory `dir` of a sweep for a database that is to be loaded; `ending` is the
/// part that describes its shape. Uses the first number that no other name has, in `dir` or in
/// `taken`. Leftovers of an unfinished load do not count.
///
/// # Errors
/// When the directory cannot be read.
pub fn name_in_sweep(dir: &Path, ending: &str, taken: &[PathBuf]) -> Result<PathBuf, DeployError> {
    let there = if dir.is_dir() { names(dir)? } else { Vec::new() };
    let free = |number: usize| {
        let (begin, name) = (format!("{number:02}-"), format!("{number:02}-{ending}"));
        let others = there.iter().filter(|n| n.starts_with(&begin));
        let mut planned = taken.iter().filter_map(|path| path.file_name()?.to_str());
        let unused = others.into_iter().all(|n| *n == name && is_remainder(&dir.join(n)));
        (unused && !planned.any(|n| n.starts_with(&begin))).then(|| dir.join(name))
    };
    Ok((1..).find_map(free).unwrap_or_else(|| dir.join(ending)))
}

/// Whether the folder holds only leftovers of an unfinished load.
fn is_remainder(dir: &Path) -> bool {
    let ours = |name: &String| {
        let at = dir.join(name);
        let folder = is_instance(name) && (holds_instance(&at) || is_empty_folder(&at));
        let run = name == RUN && is_leftover_of_a_run(&at);
        folder || run || [manifest::LOCK, manifest::ASIDE].contains(&name.as_str())
    };
    is_folder(dir) && names(dir).is_ok_and(|names| names.iter().all(ours))
}

/// Makes `dir` the directory of a sweep, unless it is one already, and removes the leftovers of
/// unfinished loads there.
///
/// # Errors
/// When it cannot be written.
pub fn begin_sweep(dir: &Path) -> Result<(), DeployError> {
    make_private(dir)?;
    let path = dir.join(SWEEP);
    if !path.exists() {
        let holds = "databases of a sweep of atoll bench, each in a folder of its own".to_owned();
        let text = serde_json::to_string_pretty(&SweepFile { format: SWEEP_FORMAT, holds });
        write_whole(dir, SWEEP, &text.expect("plain data"))?;
    }
    for name in names(dir)?.iter().filter(|name| is_of_a_sweep(name)) {
        let at = dir.join(name);
        // A folder in use is being loaded.
        if is_remainder(&at)
            && let Ok(lock) = crate::lock::exclusive(&at)
        {
            clear(&at)?;
            // A leftover that cannot be removed is found again next time.
            let _ = fs::remove_dir_all(&at).map(|()| drop(lock));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_atoll_writes() {
        assert!(["0", "1", "65535"].iter().all(|n| is_instance(n)));
        assert!(["00", "+1", "65536", "-1", "", "1a"].iter().all(|n| !is_instance(n)));
        assert!(is_of_a_sweep("01-1-islands") && is_of_a_sweep("123-conventional-24-islands"));
        assert!(!is_of_a_sweep("1-islands") && !is_of_a_sweep("x01-1-islands") && !is_of_a_sweep("01-1"));
    }

    #[test]
    fn a_name_in_a_sweep_is_the_first_free_number() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        let name = |taken: &[PathBuf]| {
            let at = name_in_sweep(path, "2-islands", taken).unwrap();
            at.file_name().unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(name(&[]), "01-2-islands");
        assert_eq!(name(&[path.join("01-1-islands")]), "02-2-islands");
        fs::create_dir_all(path.join("01-2-islands/0")).unwrap();
        assert_eq!(name(&[]), "01-2-islands", "half a load is loaded anew");
        fs::write(path.join("01-2-islands/0/thesis.txt"), "mine").unwrap();
        assert_eq!(name(&[]), "02-2-islands");
        begin_sweep(path).unwrap();
        assert!(path.join("01-2-islands/0/thesis.txt").exists());
        assert!(matches!(standing(path), Ok(Standing::Sweep(within)) if within.is_empty()));
    }

    #[test]
    fn only_what_a_load_left_is_cleared() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        for (folder, file) in [("0", "data"), ("1", "thesis.txt"), ("lost+found", "x"), ("run/0", "data")] {
            fs::create_dir_all(path.join(folder)).unwrap();
            fs::write(path.join(folder).join(file), "x").unwrap();
        }
        assert!(matches!(standing(path), Ok(Standing::Unfinished)));
        let text = require_names(path, 2, false).unwrap_err().to_string();
        assert!(text.contains("has 1,"), "{text}");
        require_names(path, 1, false).unwrap();
        clear(path).unwrap();
        assert_eq!(names(path).unwrap(), ["1", "lost+found"]);
        assert!(matches!(standing(path), Ok(Standing::Vacant)));
    }

    #[test]
    fn a_name_that_is_advised_is_free() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        assert_eq!(free_name(&path, "restored"), dir.path().join("db-restored"));
        fs::write(dir.path().join("db-restored"), "").unwrap();
        assert_eq!(free_name(&path, "restored"), dir.path().join("db-restored-2"));
    }
}
