//! Looking at a deployment that does not run: its directory, and each of its instances without changing anything.

use crate::DeployError;
use crate::manifest::{Look, MEMORY, look};
use base::InstanceId;
use instance::offline::{Examined, Family, examine};
use std::path::Path;
use txn::{Placement, Workload};
use workload::{Visitor, with_workload};

/// What was found.
pub struct Inspected {
    pub look: Look,
    pub instances: Vec<Examined>,
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
    if islands == 0 {
        return Err(damaged("it names no instance".into()));
    }
    let frames = (pool_bytes / PAGE / u64::from(islands)).max(MIN_FRAMES) as usize;
    let family = if look.manifest.family == MEMORY { Family::Memory } else { Family::Pages };
    let visit = Examine { dir, islands, family, frames, watch };
    let instances = with_workload(&look.manifest.workload, visit).map_err(|e| damaged(e.to_string()))?;
    Ok(Inspected { look, instances: instances.map_err(damaged)? })
}

struct Examine<'a> {
    dir: &'a Path,
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
        let dirs = (0..islands).map(|i| self.dir.join(i.to_string())).collect();
        Ok(examine(&workload, &Placement::even(sites, islands), dirs, (self.family, self.frames), self.watch))
    }
}
