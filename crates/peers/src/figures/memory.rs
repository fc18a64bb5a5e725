//! The memory of a loaded table: pages in use, and the growth of the process.

use super::{Figure, Size, cpus};
use crate::deployment::Deployment;
use crate::fault::PeerFault;
use crate::rounds::Series;
use exec::DesignKind;
use wal::Durability;
use workload::micro::{Micro, MicroOptions};

const PAGE_BYTES: f64 = 8192.0;
const MIB: f64 = (1 << 20) as f64;

/// MiB of one instance's pages, and of this process before and after loading. To be called first in
/// a process. The result is the size of the pages.
///
/// # Errors
/// The instance fails.
pub fn memory(size: &Size) -> Result<Figure, PeerFault> {
    let micro = Micro::new(MicroOptions { dataset: size.dataset, ..MicroOptions::new(1) })?;
    let before = world::usage().rss_bytes as f64 / MIB;
    let deployment = Deployment::load(
        "memory",
        micro,
        DesignKind::Conventional,
        Durability::Memory,
        size.dir,
        &[cpus(1)?],
    )?;
    let measured = deployment.instances[0].measure()?;
    deployment.check(None)?;
    deployment.stop()?;
    let pages = measured.pages as f64 * PAGE_BYTES / MIB;
    let rss = measured.rss_bytes as f64 / MIB;
    let series = [("pages in use", pages), ("resident, before loading", before), ("resident, loaded", rss)];
    Ok(Figure {
        what: "MiB",
        series: series.map(|(name, mib)| Series { name: name.into(), values: vec![mib] }).into(),
        show: |mib| format!("{mib:.1}"),
        result: (format!("{} rows take {pages:.1} MiB of pages", size.dataset), pages),
    })
}
