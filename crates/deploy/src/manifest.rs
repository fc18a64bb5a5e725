//! The description of the data in the data directory of a deployment.
//!
//! ```text
//! DIR/ (0700)
//!   deployment.json   describes the data; written after the load: a half-loaded directory has none
//!   lock              locked (flock) by the one deployment that runs here; the kernel drops
//!                     the lock when that process dies
//!   0/ 1/ ...         one directory per instance: its data file and its log, and instance.json
//!                     with the number of the instance and the identity of the database
//!   run/              the same for a deployment that runs on a copy; leftovers are of a killed run
//! ```
//!
//! Other files may lie beside them (see `layout`).

use crate::DeployError;
use crate::engine::{HeapForm, TreeKind};
use crate::files::write_whole;
use base::counted;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use txn::TableKind;
use workload::WorkloadSpec;

/// The description of a database.
pub(crate) const FILE: &str = "deployment.json";
/// The lock file.
pub(crate) const LOCK: &str = "lock";
/// The name of a manifest until it is renamed to its place.
pub(crate) const ASIDE: &str = "deployment.new";
/// Counted up whenever the format of anything in a data directory changes.
pub const FORMAT: u32 = 7;

/// Families of designs.
pub(crate) const DISK: &str = "disk";
/// The family of design `occ`.
pub const MEMORY: &str = "memory";

/// Describes the data in a directory. A deployment can open the directory only if all fields but
/// the last match.
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
    /// The number of parts into which the load divided each multi-rooted tree of each instance; 1
    /// where trees have one root.
    pub partitions: usize,
    /// A checksum of the tables' definitions.
    pub schema: u32,
    /// The workload of the data, without the options that affect only its requests.
    pub workload: WorkloadSpec,
}

impl Manifest {
    /// Whether a deployment with manifest `self` can use the data of `other`.
    pub fn fits(&self, other: &Manifest) -> bool {
        let data = |m: &Manifest| (m.format, m.data.clone(), m.islands, m.family.clone(), m.schema);
        let kinds = |m: &Manifest| (m.tables, m.trees, m.heaps, m.partitions);
        data(self) == data(other) && kinds(self) == kinds(other)
    }

    /// In one line, for people.
    pub fn describe(&self) -> String {
        format!(
            "{} on {} ({} format {}, {} tables, {} heap pages, {}, schema {:08x})",
            self.data,
            counted(self.islands, "island"),
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
            (TreeKind::MultiRooted, n) => format!("mrbtree of {}", counted(n, "partition")),
        }
    }
}

/// Distinguishes a database from every other one: 16 hexadecimal digits, drawn when it is loaded or
/// restored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Identity(String);

impl Identity {
    /// A random identity.
    pub fn draw() -> Identity {
        Identity(format!("{:016x}", world::entropy()))
    }
}

/// The contents of the file: the manifest, and counters of the runs since the load.
#[derive(Serialize, Deserialize)]
pub(crate) struct Contents {
    #[serde(flatten)]
    pub manifest: Manifest,
    /// The count of the workload's consistency check (see [`crate::Home::effects`]); absent while a
    /// deployment runs.
    pub effects: Option<u64>,
    /// Streams of requests handed out so far, over all runs.
    pub streams: u64,
    /// Present in databases that this version or a later one has loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
}

/// The manifest in the directory at `path`; `None` if it holds no database, or one of which the
/// loading has not ended.
///
/// # Errors
/// A description that cannot be read, or of another version.
pub fn manifest_in(path: &Path) -> Result<Option<Manifest>, DeployError> {
    Ok(read(path)?.map(|contents| contents.manifest))
}

impl Contents {
    /// As the file has it.
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).expect("a manifest is plain data")
    }
}

pub(crate) fn write_contents(dir: &Path, contents: &Contents) -> Result<(), DeployError> {
    write_whole(dir, FILE, &contents.to_text())
}

/// The whole description in `dir`.
pub(crate) fn read(dir: &Path) -> Result<Option<Contents>, DeployError> {
    let path = dir.join(FILE);
    let text = match fs::read_to_string(&path) {
        Err(e) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&e.kind()) => return Ok(None),
        other => other.map_err(DeployError::io("read", &path))?,
    };
    parse(dir, &text).map(Some)
}

/// The description of the database in `dir`, of which this is the text.
pub(crate) fn parse(dir: &Path, text: &str) -> Result<Contents, DeployError> {
    let path = dir.join(FILE);
    // The version first: a file of another version may differ in every other field.
    let damaged = |why: String| DeployError::Manifest { path: path.clone(), why };
    let value: serde_json::Value = serde_json::from_str(text).map_err(|e| damaged(e.to_string()))?;
    match value.get("format").and_then(serde_json::Value::as_u64) {
        Some(n) if n == u64::from(FORMAT) => {}
        Some(n) => {
            return Err(DeployError::Format { path: dir.into(), found: n, expected: FORMAT });
        }
        None => return Err(damaged("it has no format number".into())),
    }
    let contents: Contents = serde_json::from_value(value).map_err(|e| damaged(e.to_string()))?;
    if contents.manifest.islands == 0 {
        return Err(damaged("it names no instance".into()));
    }
    Ok(contents)
}
