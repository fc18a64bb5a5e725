//! Checks whether a database is complete and its parts are in their places. Opening and checking
//! both use this code.
//!
//! `instance.json` in each instance's folder holds the identity of the database, the number of the
//! instance, and the number of instances. A database that an earlier version loaded has no
//! identity, in `deployment.json` or in its folders. It can be opened, but swapped folders are not
//! noticed.

use crate::DeployError;
use crate::files::write_whole;
use crate::layout::INSTANCE;
use crate::manifest::{FILE, Identity, MEMORY, Manifest};
use base::InstanceId;
use instance::offline::{Family, Finding, RESTORE, damage, missing};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use txn::Workload;
use workload::WorkloadSpec;

/// The contents of `instance.json`.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Label {
    /// Of the database.
    identity: Identity,
    instance: u16,
    /// Of the database.
    islands: u16,
}

/// Writes `instance.json` into each instance's folder of the database in `dir`.
pub(crate) fn label(dir: &Path, identity: &Identity, islands: u16) -> Result<(), DeployError> {
    for instance in 0..islands {
        let label = Label { identity: identity.clone(), instance, islands };
        let text = serde_json::to_string_pretty(&label).expect("plain data");
        write_whole(&dir.join(instance.to_string()), INSTANCE, &text)?;
    }
    Ok(())
}

/// Findings about a database, apart from the contents of its files.
pub(crate) struct Judgement {
    /// About the database as a whole.
    pub all: Vec<Finding>,
    /// About each instance, by number.
    pub instances: Vec<Vec<Finding>>,
}

impl Judgement {
    /// The first damage, as the error of opening the database in `dir`.
    pub fn or_refuse(self, dir: &Path) -> Result<(), DeployError> {
        let mut found = self.all.into_iter().chain(self.instances.into_iter().flatten());
        match found.find(Finding::is_damage) {
            None => Ok(()),
            Some(finding) => Err(refusal(dir, finding)),
        }
    }
}

fn refusal(dir: &Path, finding: Finding) -> DeployError {
    let Finding { file, what, remedy, .. } = finding;
    DeployError::NotWhole { path: dir.into(), file, what, remedy }
}

/// Checks the database in `dir` without opening it, and changes nothing.
pub(crate) fn judge(dir: &Path, manifest: &Manifest, identity: Option<&Identity>) -> Judgement {
    let mut all: Vec<Finding> = schema(dir, manifest).err().into_iter().collect();
    if identity.is_none() {
        let what = "its folders do not say which instance they are, as an earlier version loaded it: folders that were swapped \
                    would not be noticed";
        let remedy =
            "nothing, as long as no folder is moved; a copy made with atoll backup and atoll restore says it";
        let note = damage(&dir.join(FILE), None, what.into(), remedy);
        all.push(Finding { weight: instance::offline::Weight::Note, ..note });
    }
    let family = if manifest.family == MEMORY { Family::Memory } else { Family::Pages };
    let folder = |instance: u16| {
        let path = dir.join(instance.to_string());
        let place = InstanceId(instance);
        match in_place(&path, place, manifest.islands, identity) {
            Some(finding) => vec![finding],
            None => missing(family, &path).into_iter().collect(),
        }
    };
    Judgement { all, instances: (0..manifest.islands).map(folder).collect() }
}

/// Fails if the database in `dir` has tables that this version defines differently.
///
/// # Errors
/// [`DeployError::NotWhole`].
pub fn require_schema(dir: &Path, manifest: &Manifest) -> Result<(), DeployError> {
    schema(dir, manifest).map_err(|finding| refusal(dir, finding))
}

fn schema(dir: &Path, manifest: &Manifest) -> Result<(), Finding> {
    let wrong = |what: String, remedy: &str| Err(damage(&dir.join(FILE), None, what, remedy));
    match schema_number(&manifest.workload) {
        Ok(number) if number == manifest.schema => Ok(()),
        Ok(number) => wrong(
            format!(
                "it names schema {:08x}, and the tables of {} have schema {number:08x} in this version",
                manifest.schema, manifest.workload.name
            ),
            "open it with the version of Atoll that loaded it, or restore the database from a backup",
        ),
        Err(why) => wrong(format!("it names a workload that cannot be: {why}"), RESTORE),
    }
}

/// A checksum of the workload's schema, so that data of another schema is not mistaken for data of
/// this one.
pub(crate) fn schema_number(spec: &WorkloadSpec) -> Result<u32, DeployError> {
    let workload = spec.build().map_err(|e| DeployError::Impossible(e.to_string()))?;
    let bytes = postcard::to_stdvec(&workload.schema());
    bytes.map(|bytes| base::crc32c(&bytes)).map_err(|e| DeployError::Impossible(e.to_string()))
}

/// Checks that `folder` exists and belongs at this place. Returns a finding if not.
fn in_place(folder: &Path, place: InstanceId, islands: u16, identity: Option<&Identity>) -> Option<Finding> {
    let wrong = |what: String, remedy: &str| Some(damage(folder, None, what, remedy));
    if !folder.is_dir() {
        let what = format!("instance {place}'s folder is missing");
        return wrong(what, "put it back, or restore the database from a backup");
    }
    let identity = identity?;
    let file = folder.join(INSTANCE);
    let restore = "put the right folder there, or restore the database from a backup";
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let what = "it does not say which instance's folder it is: its instance.json is missing";
            return wrong(what.into(), restore);
        }
        Err(e) => return wrong(format!("its instance.json cannot be read: {e}"), restore),
    };
    let label: Label = match serde_json::from_str(&text) {
        Ok(label) => label,
        Err(e) => return wrong(format!("its instance.json is damaged: {e}"), restore),
    };
    let Label { instance, islands: of, .. } = label;
    match () {
        () if label.identity != *identity => {
            wrong(format!("it is a folder of another database, instance {instance} of {of}"), restore)
        }
        () if instance != place.0 => wrong(
            format!("it is instance {instance}'s folder, in the place of instance {place}'s"),
            "give each folder the number of its instance as its name",
        ),
        () if of != islands => wrong(
            format!("it is a folder of a database of {of} instances, and deployment.json names {islands}"),
            "restore the database from a backup, or deployment.json from a copy",
        ),
        () => None,
    }
}
