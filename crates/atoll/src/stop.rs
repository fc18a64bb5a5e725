//! The stops of a sweep: deployments, each with all that is measured on it.

use crate::failure::Failure;
use deploy::{Deployment, Manifest};
use driver::{Schedule, Subject};
use topology::Placement;

/// One deployment and everything that is measured on it.
pub struct Stop {
    pub deployment: Deployment,
    pub placement: Placement,
    pub mixes: Vec<(Subject, Schedule)>,
}

/// For each stop, the number of its database: stops that can share a database have the same number.
///
/// # Errors
/// An unknown workload.
pub fn bases(stops: &[Stop]) -> Result<Vec<usize>, Failure> {
    let mut known: Vec<Manifest> = Vec::new();
    let number = |stop: &Stop| -> Result<usize, Failure> {
        let wanted = stop.deployment.manifest()?;
        Ok(known.iter().position(|m| m.fits(&wanted)).unwrap_or_else(|| {
            known.push(wanted);
            known.len() - 1
        }))
    };
    stops.iter().map(number).collect()
}
