//! Bare counters under locks: hot lines without transactions. A visit costs `t0 + q * distance to
//! the last owner`, the profile's own terms.

use super::Sharing;
use super::cell::{Cell, Spread};
use crate::row::Row;
use deploysim::MachineModel;
use fastrand::Rng;

/// Visits of each counter that are drawn.
const VISITS: u32 = 20_000;

/// The row of counters: increments per second of all threads. The next owner of a counter is drawn
/// among its other threads.
pub(super) fn row(cell: &Cell<'_>, repeat: u64) -> Row {
    let rates: Vec<f64> = (1..=repeat.max(1)).map(|seed| rate(cell, seed)).collect();
    let mut row = cell.labels().unwrap_or_default();
    row.set("protection", "lock");
    let counters = match cell.sharing {
        Sharing::Single => "single",
        Sharing::PerSocket => "per-socket",
        Sharing::PerCore => "per-core",
    };
    row.set("counters", counters);
    Spread::of(&rates).put_on(&mut row);
    row
}

fn rate(cell: &Cell<'_>, seed: u64) -> f64 {
    let cores = cell.cores(seed).unwrap_or_default();
    let counters = match cell.sharing {
        Sharing::Single => 1,
        Sharing::PerSocket => {
            super::place::count(cell.machine, &cores, super::Islands::Per(super::Per::PerSocket))
        }
        Sharing::PerCore => cores.len(),
    };
    let mut random = Rng::with_seed(seed);
    let size = (cores.len() / counters.max(1)).max(1);
    cores.chunks(size).map(|group| 1e9 / visit_ns(cell, group, &mut random)).sum()
}

/// The mean time of a visit to the counter of these threads.
fn visit_ns(cell: &Cell<'_>, group: &[usize], random: &mut Rng) -> f64 {
    let lines = &cell.profile.lines;
    let t0 = lines.t0_ns / cell.profile.speed_on(cell.machine);
    if group.len() < 2 {
        return t0;
    }
    let mut owner = 0;
    let mut distance = 0.0;
    for _ in 0..VISITS {
        let next = (owner + random.usize(1..group.len())) % group.len();
        distance += cell.machine.latency_ns(group[owner], group[next]);
        owner = next;
    }
    t0 + lines.q * distance / f64::from(VISITS)
}

/// One row for the last-level cache: a load of a line that no core has modified. One for the cores
/// of a package and one for cores of two packages: their mean distance, of a modified line.
pub(super) fn distances(machine: &MachineModel) -> Vec<Row> {
    let pairs = || (0..machine.cores()).flat_map(|a| (0..a).map(move |b| (a, b)));
    let mean = |inside: bool| {
        let of = |&(a, b): &(usize, usize)| {
            machine.is_one_host(a, b) && (machine.package(a) == machine.package(b)) == inside
        };
        let all: Vec<f64> = pairs().filter(of).map(|(a, b)| machine.latency_ns(a, b)).collect();
        all.iter().sum::<f64>() / all.len().max(1) as f64
    };
    let cache = machine.terms().l3_ns;
    [("cache", cache), ("socket", mean(true)), ("machine", mean(false))]
        .map(|(within, ns)| {
            let mut row = Row::default();
            row.set("workload", "distances");
            row.set("within", within);
            row.set("ns", ns);
            row.set("cycles", ns * machine.terms().ghz.unwrap_or(1.0));
            row
        })
        .into()
}
