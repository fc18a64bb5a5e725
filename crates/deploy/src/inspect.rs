//! Examines a deployment that does not run: its directory and each of its instances, without
//! changing anything.

use crate::DeployError;
use crate::home::{Look, look};
use crate::manifest::{MEMORY, manifest_in};
use crate::whole::judge;
use base::{InstanceId, counted};
use instance::offline::{Examined, Family, Finding, examine};
use std::path::Path;
use txn::{Placement, Workload};

/// The result of an inspection.
pub struct Inspected {
    pub look: Look,
    /// Findings about the database as a whole.
    pub findings: Vec<Finding>,
    pub instances: Vec<Examined>,
}

impl Inspected {
    /// The findings about the database as a whole, then those about each instance.
    pub fn all_findings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().chain(self.instances.iter().flat_map(|i| &i.findings))
    }
}

/// Progress callback: the instance, the present activity, the amount done, and the total amount.
pub type ExamineProgress<'a> = &'a mut dyn FnMut(InstanceId, &str, u64, u64);

const PAGE: u64 = 8192;
/// The least frames with which an instance is examined.
const MIN_FRAMES: u64 = 2048;

/// A lower bound for the memory of rows in main memory while they are examined, per byte of their
/// files.
const MEMORY_PER_BYTE: u64 = 2;

/// The memory that [`inspect`] takes with `pool_bytes` of page memory: an upper bound for pages, a
/// lower bound for rows in main memory. 0 where there is no deployment to examine.
pub fn inspection_bytes(dir: &Path, pool_bytes: u64) -> u64 {
    let Ok(Some(manifest)) = manifest_in(dir) else { return 0 };
    let islands = u64::from(manifest.islands);
    if manifest.family != MEMORY {
        return frames(pool_bytes, islands).saturating_mul(islands).saturating_mul(PAGE);
    }
    let bytes = |i: u64| {
        let files = std::fs::read_dir(dir.join(i.to_string())).into_iter().flatten().flatten();
        files.filter_map(|file| Some(file.metadata().ok()?.len())).sum::<u64>()
    };
    (0..islands).map(bytes).sum::<u64>().saturating_mul(MEMORY_PER_BYTE)
}

/// The frames of each instance.
fn frames(pool_bytes: u64, islands: u64) -> u64 {
    (pool_bytes / PAGE / islands.max(1)).max(MIN_FRAMES)
}

/// Examines the deployment in `dir`, with `pool_bytes` of page memory for all its instances
/// together.
///
/// # Errors
/// There is no deployment, or it is in use. Damage inside it is not an error but a finding.
pub fn inspect(dir: &Path, pool_bytes: u64, watch: ExamineProgress<'_>) -> Result<Inspected, DeployError> {
    let look = look(dir)?;
    let damaged = |why: String| DeployError::Manifest { path: dir.join(crate::manifest::FILE), why };
    let islands = look.manifest.islands;
    if islands == 0 {
        return Err(damaged("it names no instance".into()));
    }
    let judgement = judge(dir, &look.manifest, look.identity.as_ref());
    let frames = frames(pool_bytes, islands.into()) as usize;
    let family = if look.manifest.family == MEMORY { Family::Memory } else { Family::Pages };
    let folders = (0..).map(|i: u16| dir.join(i.to_string())).zip(judgement.instances).collect();
    let workload = look.manifest.workload.build().map_err(|e| damaged(e.to_string()))?;
    let sites = workload.sites();
    if u32::from(islands) > sites {
        let (instances, sites) = (counted(islands, "instance"), counted(sites, "site"));
        return Err(damaged(format!("it names {instances} for data of {sites}")));
    }
    let placement = Placement::even(sites, islands);
    let instances = examine(&workload, &placement, folders, (family, frames), watch);
    Ok(Inspected { look, findings: judgement.all, instances })
}
