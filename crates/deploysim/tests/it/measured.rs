//! The simulation against measured throughput: a table of 72 cells.
//!
//! The figures are those of `results` of 2026-11-24, build f74a4d4: a Xeon virtual machine of two
//! CPUs, micro, 20,000 rows, 10 rows a transaction, 4 clients a worker, log in memory; medians of
//! three windows of one second. One window scatters against the others of its cell by 4.1 % at the
//! median and 16 % at the 90th percentile (sockets 10 and 32 %).

use crate::run;
use deploysim::{Channel, Deployment, EngineProfile, MachineModel, Placement, RunOptions, Transactions};
use workload::micro::Op;

const MULTISITE: [f64; 4] = [0.0, 20.0, 50.0, 100.0];

/// Design, operation, instances, channel, thousands per second at each of [`MULTISITE`].
type Cells = (&'static str, Op, usize, Channel, [f64; 4]);

const TABLE: [Cells; 18] = [
    ("conventional", Op::Read, 1, Channel::Shm, [1178.0, 1157.0, 1178.0, 1162.0]),
    ("conventional", Op::Update, 1, Channel::Shm, [615.0, 660.0, 622.0, 647.0]),
    ("conventional", Op::Read, 2, Channel::Shm, [1118.0, 777.0, 687.0, 532.0]),
    ("conventional", Op::Update, 2, Channel::Shm, [783.0, 556.0, 383.0, 337.0]),
    ("conventional", Op::Read, 2, Channel::Uds, [1132.0, 567.0, 492.0, 330.0]),
    ("conventional", Op::Update, 2, Channel::Uds, [775.0, 384.0, 238.0, 174.0]),
    ("serial", Op::Read, 1, Channel::Shm, [872.0, 870.0, 863.0, 868.0]),
    ("serial", Op::Update, 1, Channel::Shm, [573.0, 569.0, 558.0, 563.0]),
    ("serial", Op::Read, 2, Channel::Shm, [1621.0, 961.0, 717.0, 567.0]),
    ("serial", Op::Update, 2, Channel::Shm, [1072.0, 623.0, 464.0, 361.0]),
    ("serial", Op::Read, 2, Channel::Uds, [1483.0, 625.0, 479.0, 425.0]),
    ("serial", Op::Update, 2, Channel::Uds, [1003.0, 408.0, 336.0, 263.0]),
    ("occ", Op::Read, 1, Channel::Shm, [1581.0, 1624.0, 1613.0, 1537.0]),
    ("occ", Op::Update, 1, Channel::Shm, [1216.0, 1145.0, 1207.0, 1145.0]),
    ("occ", Op::Read, 2, Channel::Shm, [1669.0, 1215.0, 990.0, 757.0]),
    ("occ", Op::Update, 2, Channel::Shm, [1212.0, 824.0, 545.0, 408.0]),
    ("occ", Op::Read, 2, Channel::Uds, [1665.0, 786.0, 543.0, 391.0]),
    ("occ", Op::Update, 2, Channel::Uds, [1231.0, 484.0, 306.0, 208.0]),
];

/// One cell with its multisite share, predicted and measured transactions per second.
type Scored = (&'static Cells, f64, f64, f64);

/// Every cell; prints a line per row of the table.
fn score() -> Vec<Scored> {
    let machine = MachineModel::uniform(2, 60.0).unwrap();
    let profile = EngineProfile::builtin("atoll").unwrap();
    let mut scored = Vec::new();
    for cells in &TABLE {
        let (design, op, islands, channel, measured) = cells;
        let mut line = format!("{design:12} {op:?} {islands} {:4}", channel.name());
        for (p, kilo) in MULTISITE.into_iter().zip(measured) {
            let workers = if *design == "serial" { *islands } else { 2 };
            let transactions = Transactions::micro_of(2, *op, p).unwrap();
            let deployment = Deployment::new(&machine, design, *islands, workers, Placement::Island);
            let deployment = deployment.unwrap().over(*channel);
            let outcome = run(&machine, &profile, &transactions, &deployment, &RunOptions::default());
            let error = outcome.tps / (kilo * 1e3) - 1.0;
            line += &format!("  {:5.0} {kilo:5.0} {:+5.1} %", outcome.tps / 1e3, error * 100.0);
            scored.push((cells, p, outcome.tps, kilo * 1e3));
        }
        println!("{line}");
    }
    scored
}

/// The median and the 90th percentile of the absolute errors of the cells of `wanted`; printed.
fn spread(name: &str, scored: &[Scored], wanted: impl Fn(&Cells, f64) -> bool) -> (f64, f64) {
    let cells = scored.iter().filter(|(cells, p, ..)| wanted(cells, *p));
    let mut errors: Vec<f64> =
        cells.map(|(.., predicted, measured)| (predicted / measured - 1.0).abs()).collect();
    errors.sort_by(f64::total_cmp);
    let (median, p90) = (errors[errors.len() / 2], errors[errors.len() * 9 / 10]);
    println!("{name}: {} cells, median {:.1} %, p90 {:.1} %", errors.len(), median * 100.0, p90 * 100.0);
    (median, p90)
}

/// The cells that the profile was not fitted to.
fn is_held_out((design, _, islands, channel, _): &Cells, p: f64) -> bool {
    let is_local = *islands == 2 && *channel == Channel::Shm && p == 0.0;
    let is_shared = *islands == 1 && p == 0.0 && *design != "serial";
    !is_local && !is_shared
}

#[test]
fn held_out_cells_are_predicted_within_loose_bars() {
    let scored = score();
    let (median, p90) = spread("held out", &scored, is_held_out);
    let distributed = |channel| move |cells: &Cells, p: f64| cells.2 == 2 && cells.3 == channel && p > 0.0;
    spread("distributed over shm", &scored, distributed(Channel::Shm));
    spread("distributed over uds", &scored, distributed(Channel::Uds));
    assert!(median < 0.08, "median {median}");
    assert!(p90 < 0.35, "90th percentile {p90}");
    let (near, all, worst) = choices(&scored);
    println!("{near} of {all} choices within 5 % of the best, worst {:.1} %", worst * 100.0);
    assert!(near * 20 >= all * 19 && worst < 0.20, "{near} of {all}, worst {worst}");
}

/// Choices of the deployment predicted best, against the measured best: with the design free, free
/// among those with pages, or given; with the channel free or `uds`. They overlap, and the measured
/// cells scatter by more than most of the losses.
fn choices(scored: &[Scored]) -> (usize, usize, f64) {
    let designs: [&[&str]; 5] = [
        &["conventional", "serial", "occ"],
        &["conventional", "serial"],
        &["conventional"],
        &["serial"],
        &["occ"],
    ];
    let (mut near, mut all, mut worst) = (0, 0, 0.0_f64);
    for op in [Op::Read, Op::Update] {
        for p in MULTISITE {
            for channels in [&[Channel::Shm, Channel::Uds][..], &[Channel::Uds]] {
                for designs in designs {
                    let is_open = |(cells, at, ..): &&Scored| {
                        let is_reachable = cells.2 == 1 || channels.contains(&cells.3);
                        cells.1 == op && *at == p && designs.contains(&cells.0) && is_reachable
                    };
                    let open: Vec<&Scored> = scored.iter().filter(is_open).collect();
                    let best = open.iter().map(|cell| cell.3).fold(0.0, f64::max);
                    let pick = open.iter().max_by(|a, b| a.2.total_cmp(&b.2)).unwrap();
                    let loss = 1.0 - pick.3 / best;
                    all += 1;
                    near += usize::from(loss <= 0.05);
                    worst = worst.max(loss);
                }
            }
        }
    }
    (near, all, worst)
}
