//! Looking at a deployment that does not run: its directory, and each of its instances without changing anything.

use crate::DeployError;
use crate::manifest::{Look, MEMORY, look};
use crate::whole::judge;
use base::InstanceId;
use instance::offline::{Examined, Family, Finding, examine};
use std::path::{Path, PathBuf};
use txn::{Placement, Workload};
use workload::{Visitor, with_workload};

/// What was found.
pub struct Inspected {
    pub look: Look,
    /// What was found about the database as a whole.
    pub findings: Vec<Finding>,
    pub instances: Vec<Examined>,
}

impl Inspected {
    /// Those about the database as a whole, then those of each instance.
    pub fn all_findings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().chain(self.instances.iter().flat_map(|i| &i.findings))
    }
}

/// Told which instance is looked at, what of it, how much of that is done, and how much there is.
pub type Watch<'a> = &'a mut dyn FnMut(InstanceId, &str, u64, u64);

const PAGE: u64 = 8192;
/// Fewest frames an instance is looked at with.
const MIN_FRAMES: u64 = 2048;

/// Looks at the deployment in `dir`, with so many bytes of page memory for all its instances together.
///
/// # Errors
/// There is none, or it is in use. What is wrong inside is not an error but found.
pub fn inspect(dir: &Path, pool_bytes: u64, watch: Watch<'_>) -> Result<Inspected, DeployError> {
    let look = look(dir)?;
    let damaged = |why: String| DeployError::Manifest { path: dir.join(crate::manifest::FILE), why };
    let islands = look.manifest.islands;
    let judgement = judge(dir, &look.manifest, look.identity.as_ref());
    let frames = (pool_bytes / PAGE / u64::from(islands)).max(MIN_FRAMES) as usize;
    let family = if look.manifest.family == MEMORY { Family::Memory } else { Family::Pages };
    let folders = (0..).map(|i: u16| dir.join(i.to_string())).zip(judgement.instances).collect();
    let visit = Examine { folders, islands, family, frames, watch };
    let instances = with_workload(&look.manifest.workload, visit).map_err(|e| damaged(e.to_string()))?;
    Ok(Inspected { look, findings: judgement.all, instances: instances.map_err(damaged)? })
}

struct Examine<'a> {
    folders: Vec<(PathBuf, Vec<Finding>)>,
    islands: u16,
    family: Family,
    frames: usize,
    watch: Watch<'a>,
}

impl Visitor for Examine<'_> {
    type Output = Result<Vec<Examined>, String>;

    fn visit<W: Workload>(self, workload: W) -> Self::Output {
        let (sites, islands) = (workload.sites(), self.islands);
        if u32::from(islands) > sites {
            return Err(format!("it names {islands} instances for data of {sites} sites"));
        }
        let (placement, how) = (Placement::even(sites, islands), (self.family, self.frames));
        Ok(examine(&workload, &placement, self.folders, how, self.watch))
    }
}
