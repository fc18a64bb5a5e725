//! The input of the checks: the crates as Cargo sees them, and the files under version control.

use crate::root;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("`{command}` could not be run: {error}")]
    Spawn { command: &'static str, error: std::io::Error },
    #[error("`{command}` failed: {stderr}")]
    Failed { command: &'static str, stderr: String },
    #[error("`cargo metadata` printed something unexpected: {0}")]
    Metadata(String),
}

pub struct Crate {
    pub name: String,
    /// Relative to the root of the workspace.
    pub folder: PathBuf,
    /// Its dependencies, optional ones included; dependencies of its tests alone are left out.
    pub needs: BTreeSet<String>,
    /// Whether it is among the workspace's `default-members`, which plain `cargo build` and
    /// `cargo test` use.
    pub is_default: bool,
    /// Whether `cargo test` runs the examples in the doc comments of its library; `None` without a
    /// library.
    pub runs_examples: Option<bool>,
}

pub struct Workspace {
    pub crates: Vec<Crate>,
    /// Files under version control, and new files that are not ignored; relative to the root,
    /// sorted.
    pub files: Vec<PathBuf>,
}

impl Workspace {
    pub fn read() -> Result<Workspace, Unreadable> {
        let metadata = output("cargo metadata", Command::new("cargo").args(METADATA))?;
        let metadata: Value =
            serde_json::from_str(&metadata).map_err(|e| Unreadable::Metadata(e.to_string()))?;
        let packages =
            metadata["packages"].as_array().ok_or_else(|| Unreadable::Metadata("no packages".into()))?;
        let default = &metadata["workspace_default_members"];
        let default: Vec<&Value> = default.as_array().into_iter().flatten().collect();
        let crates = packages.iter().map(|p| read_crate(p, &default)).collect::<Option<Vec<_>>>();
        let crates = crates.ok_or_else(|| Unreadable::Metadata("a package without name or path".into()))?;
        let listed = output("git ls-files", Command::new("git").args(LS_FILES))?;
        let mut files: Vec<PathBuf> =
            listed.lines().map(PathBuf::from).filter(|p| root().join(p).is_file()).collect();
        files.sort();
        Ok(Workspace { crates, files })
    }

    pub fn get(&self, name: &str) -> Option<&Crate> {
        self.crates.iter().find(|c| c.name == name)
    }

    /// Every crate of the workspace that `name` depends on, directly or not.
    pub fn reach(&self, name: &str) -> BTreeSet<&str> {
        let mut seen = BTreeSet::new();
        let mut left = vec![name];
        while let Some(at) = left.pop() {
            let needs = self.get(at).into_iter().flat_map(|c| &c.needs);
            for need in needs.filter_map(|n| self.get(n)) {
                if seen.insert(need.name.as_str()) {
                    left.push(&need.name);
                }
            }
        }
        seen
    }

    pub fn with_extension(&self, extension: &str) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path).filter(move |p| p.extension().is_some_and(|e| e == extension))
    }
}

const METADATA: [&str; 4] = ["metadata", "--no-deps", "--format-version", "1"];
const LS_FILES: [&str; 4] = ["ls-files", "--cached", "--others", "--exclude-standard"];

fn read_crate(package: &Value, default: &[&Value]) -> Option<Crate> {
    let manifest = Path::new(package["manifest_path"].as_str()?);
    let needs = package["dependencies"].as_array()?.iter().filter(|d| d["kind"] != "dev");
    Some(Crate {
        name: package["name"].as_str()?.to_owned(),
        folder: manifest.parent()?.strip_prefix(root()).ok()?.to_owned(),
        needs: needs.filter_map(|d| d["name"].as_str()).map(str::to_owned).collect(),
        is_default: default.contains(&&package["id"]),
        runs_examples: package["targets"].as_array()?.iter().find_map(|target| {
            let is_library = target["kind"].as_array()?.iter().any(|kind| kind == "lib");
            if is_library { target["doctest"].as_bool() } else { None }
        }),
    })
}

fn output(name: &'static str, command: &mut Command) -> Result<String, Unreadable> {
    let done =
        command.current_dir(root()).output().map_err(|error| Unreadable::Spawn { command: name, error })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if done.status.success() {
        Ok(text(&done.stdout))
    } else {
        Err(Unreadable::Failed { command: name, stderr: text(&done.stderr) })
    }
}
