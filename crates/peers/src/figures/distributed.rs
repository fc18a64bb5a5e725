//! The cost of a transaction over two instances, compared with a local one: two rows updated, one
//! client in all, shared memory between two workers that are pinned to two CPUs.

use super::pair::{Pair, Reach};
use super::{Figure, Size, cpus};
use crate::deployment::Deployment;
use crate::fault::PeerFault;
use crate::rounds::Series;
use exec::DesignKind;
use wal::Durability;
use workload::micro::{Micro, MicroOptions, Op};

fn pair(dataset: u64, reach: Reach) -> Result<Pair, PeerFault> {
    let multisite = if reach == Reach::Local { 0.0 } else { 100.0 };
    let options = MicroOptions { dataset, rows: 2, op: Op::Update, multisite, ..MicroOptions::new(2) };
    Ok(Pair { micro: Micro::new(options)?, reach })
}

/// Median latency in µs, local and distributed by turns. The result is the difference of the
/// medians.
///
/// # Errors
/// An instance fails, or its data are wrong afterwards.
pub fn distributed(design: DesignKind, size: &Size) -> Result<Figure, PeerFault> {
    let places: Vec<_> = cpus(2)?.into_iter().map(|cpu| vec![cpu]).collect();
    let mut deployment = Deployment::load(
        "two instances",
        pair(size.dataset, Reach::Local)?,
        design,
        Durability::Memory,
        size.dir,
        &places,
    )?;
    let mut series = [Series::new("local"), Series::new("distributed, shared memory")];
    for round in 0..size.rounds {
        for (series, reach) in series.iter_mut().zip([Reach::Local, Reach::Distributed]) {
            deployment.reconfigure(pair(size.dataset, reach)?);
            let measured = deployment.run(1, size.seed + u64::from(round), size.times)?;
            let expected = if reach == Reach::Local { 0 } else { measured.committed_total() };
            if measured.distributed != expected {
                let what = format!("{} of {expected} transactions were distributed", measured.distributed);
                return Err(PeerFault::Engine { engine: "two instances", what });
            }
            series.values.push(measured.latency.quantile(0.5) as f64 / 1e3);
        }
    }
    deployment.check(None)?;
    deployment.stop()?;
    let more = series[1].median() - series[0].median();
    Ok(Figure {
        what: "2-row update, median latency in µs",
        series: series.into(),
        show: |us| format!("{us:.2}"),
        result: (format!("{design}: distributed takes {more:.2} µs more at the median"), more),
    })
}
