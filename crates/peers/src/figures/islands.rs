//! The cost of sharing: `serial` on two instances of one worker against `conventional` on one
//! instance of two workers; 10 rows read, all local.

use super::{Figure, Size, cpus};
use crate::deployment::Deployment;
use crate::fault::PeerFault;
use crate::rounds::{Series, thousands};
use exec::DesignKind;
use probe::Measured;
use wal::Durability;
use workload::micro::{Micro, MicroOptions};

fn tps(measured: &Measured) -> f64 {
    measured.committed_total() as f64 / crate::deployment::seconds(measured)
}

/// Transactions per second of both, by turns. The result is their ratio.
///
/// # Errors
/// An instance fails, or its data are wrong afterwards.
pub fn islands(size: &Size) -> Result<Figure, PeerFault> {
    let micro = Micro::new(MicroOptions { dataset: size.dataset, ..MicroOptions::new(2) })?;
    let cpus = cpus(2)?;
    let apart: Vec<_> = cpus.iter().map(|cpu| vec![*cpu]).collect();
    let names = ["`serial` on 2 islands", "`conventional` on 1 island"];
    let load = |name, design, places: &[Vec<_>]| {
        Deployment::load(name, micro.clone(), design, Durability::Memory, size.dir, places)
    };
    let deployments =
        [load(names[0], DesignKind::Serial, &apart)?, load(names[1], DesignKind::Conventional, &[cpus])?];
    let mut series = names.map(Series::new);
    for round in 0..size.rounds {
        for (series, deployment) in series.iter_mut().zip(&deployments) {
            let driven = deployment.instances.len();
            let measured = deployment.run(driven, size.seed + u64::from(round), size.times)?;
            series.values.push(tps(&measured));
        }
    }
    for deployment in deployments {
        deployment.check(None)?;
        deployment.stop()?;
    }
    let ratio = series[0].median() / series[1].median();
    Ok(Figure {
        what: "10 rows read, local, 2 workers: transactions per second",
        series: series.into(),
        show: thousands,
        result: (format!("islands serve {ratio:.2} times as many"), ratio),
    })
}
