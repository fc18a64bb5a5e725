//! The cost of writing a transaction as a procedure with steps. TPC-B as procedure and steps is
//! compared with the same deposit written by hand, both on storage that does nothing. The
//! difference is given as a share of a deposit's time on the `conventional` design.

use super::{Figure, Size, cpus};
use crate::deployment::Deployment;
use crate::fault::PeerFault;
use crate::rounds::Series;
use exec::DesignKind;
use wal::Durability;
use workload::tpcb::{Tpcb, TpcbOptions};

/// The example of the crate `workload`, which also runs on its own.
#[path = "../../../workload/examples/abstraction.rs"]
#[allow(dead_code)]
mod abstraction;

/// The number of its rounds in one round here, and of the deposits timed in each.
const INNER_ROUNDS: usize = 5;
const DEPOSITS: usize = 50_000;
const REQUESTS: usize = 4_096;

/// Nanoseconds of a deposit on an engine, by hand and by steps. The result is the difference in per
/// cent of the engine's time.
///
/// # Errors
/// The instance fails, or its data are wrong afterwards.
pub fn language(size: &Size) -> Result<Figure, PeerFault> {
    let tpcb = Tpcb::new(TpcbOptions { multisite: 0.0, ..TpcbOptions::new(1) })?;
    let deployment =
        Deployment::load("TPC-B", tpcb, DesignKind::Conventional, Durability::Memory, size.dir, &[cpus(1)?])?;
    let nothing = abstraction::Setup::new(REQUESTS);
    let mut series = [
        "on the engine, `conventional`, log in memory",
        "on nothing, by hand",
        "on nothing, by steps, inside its client's future as the engine has it",
        "on nothing, by steps, a future on the heap for each",
    ]
    .map(Series::new);
    for round in 0..size.rounds {
        let measured = deployment.run(1, size.seed + u64::from(round), size.times)?;
        let ns = measured.window_ns as f64 / measured.committed_total() as f64;
        let [by_hand, by_steps, boxed, _] = nothing.measure(INNER_ROUNDS, DEPOSITS);
        for (series, ns) in series.iter_mut().zip([ns, by_hand, by_steps, boxed]) {
            series.values.push(ns);
        }
    }
    deployment.check(None)?;
    deployment.stop()?;
    let [engine, by_hand, by_steps] = [0, 1, 2].map(|i| series[i].median());
    let share = 100.0 * (by_steps - by_hand) / engine;
    Ok(Figure {
        what: "one TPC-B deposit, ns",
        series: series.into(),
        show: |ns| format!("{ns:.1}"),
        result: (
            format!("the language costs {:.1} ns, {share:.1} % of a deposit", by_steps - by_hand),
            share,
        ),
    })
}
