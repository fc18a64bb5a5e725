//! Every row in one table, and the deployment that won each request mix.

use crate::rows::Row;
use crate::sweep::{Role, Sweep, axis_name};
use crate::table::{Align, Cell, Table, Tone};
use crate::text::{short, thousands};

/// Noise beyond which a row says more about the neighbours than about the engine.
pub const NOISY: f64 = 0.10;

/// The best row of each request mix, and how it compares with one instance over all cores. Empty when nothing was compared.
pub fn winners(rows: &[Row], sweep: &Sweep) -> Table {
    let left = |name: &str| (name.to_string(), Align::Left);
    let right = |name: &str| (name.to_string(), Align::Right);
    let mut table = Table::new([
        left("request"),
        left("best deployment"),
        right("per second"),
        right("against the runner-up"),
        right("against one shared instance"),
    ]);
    let mut seen: Vec<String> = Vec::new();
    for first in 0..rows.len() {
        let request = sweep.request(first);
        if seen.contains(&request) {
            continue;
        }
        let mut same: Vec<usize> = (0..rows.len()).filter(|r| sweep.request(*r) == request).collect();
        same.sort_by(|a, b| rows[*b].row.tps.total_cmp(&rows[*a].row.tps));
        if same.len() > 1 {
            table.rows.push(winner(rows, sweep, &request, &same));
        }
        seen.push(request);
    }
    table
}

/// `same`: the rows of one request, fastest first.
fn winner(rows: &[Row], sweep: &Sweep, request: &str, same: &[usize]) -> Vec<Cell> {
    let best = &rows[same[0]].row;
    let is_shared = |r: &&usize| {
        let s = &rows[**r].row.settings;
        s.islands == Some(1) && s.design.as_deref().is_none_or(|d| d == "conventional")
    };
    let ratio = |other: Option<&usize>| {
        other.filter(|o| rows[**o].row.tps > 0.0).map_or(Cell::text("–"), |o| {
            let ratio = best.tps / rows[*o].row.tps;
            Cell::number(ratio, format!("{ratio:.2}×"))
        })
    };
    let request = if request.is_empty() { best.settings.workload.as_str() } else { request };
    vec![
        Cell::text(request),
        Cell::text(sweep.deployment(same[0])).toned(Tone::Best),
        rate(best.tps),
        ratio(same.get(1)),
        ratio(same.iter().find(is_shared)),
    ]
}

fn rate(tps: f64) -> Cell {
    Cell::number(tps, if tps < 100.0 { short(tps) } else { thousands(tps) })
}

/// What the rows differ in, and what came out.
pub fn all_rows(rows: &[Row], sweep: &Sweep) -> Table {
    let setting = |d: &crate::sweep::Dimension| {
        let numeric = d.values.iter().flatten().all(|v| v.parse::<f64>().is_ok());
        let name = if d.role == Role::Request { axis_name(&d.key) } else { d.key.replace('_', " ") };
        (name, if numeric { Align::Right } else { Align::Left })
    };
    let alone = sweep.dimensions.is_empty();
    let mut head: Vec<(String, Align)> = sweep.dimensions.iter().map(setting).collect();
    if alone {
        head.push(("workload".into(), Align::Left));
    }
    head.extend(RESULTS.iter().map(|(name, _)| (name.to_string(), Align::Right)));
    let mut table = Table::new(head);
    for (number, row) in rows.iter().enumerate() {
        let value = |d: &crate::sweep::Dimension| {
            let text = d.values[number].as_deref().unwrap_or("–");
            text.parse::<f64>().map_or_else(|_| Cell::text(text), |n| Cell::number(n, text))
        };
        let mut cells: Vec<Cell> = sweep.dimensions.iter().map(value).collect();
        if alone {
            cells.push(Cell::text(&row.row.settings.workload));
        }
        cells.extend(RESULTS.iter().map(|(_, of)| of(row)));
        table.rows.push(cells);
    }
    table.without_columns(|_, cells| cells.iter().all(|c| c.text.is_empty()))
}

type Column = (&'static str, fn(&Row) -> Cell);

const RESULTS: &[Column] = &[
    ("per second", |r| rate(r.row.tps)),
    ("spread %", |r| {
        let spread = (r.row.tps_max - r.row.tps_min) / r.row.tps.max(1e-9) * 100.0;
        Cell::number(spread, format!("{spread:.0}"))
    }),
    ("distributed %", |r| maybe(r.row.distributed.map(|d| d * 100.0))),
    ("p50 µs", |r| maybe(r.row.latency_us.map(|l| l.p50))),
    ("p99 µs", |r| maybe(r.row.latency_us.map(|l| l.p99))),
    ("aborted", |r| {
        let n = r.row.aborted.values().sum::<u64>() as f64;
        if r.row.consistent.is_some() { Cell::number(n, thousands(n)) } else { Cell::default() }
    }),
    ("messages", |r| maybe(r.row.messages_per_txn)),
    ("log bytes", |r| maybe(r.row.log_bytes_per_txn)),
    ("noise %", |r| {
        let cell = Cell::number(r.row.noise * 100.0, format!("{:.0}", r.row.noise * 100.0));
        if r.row.noise > NOISY { cell.toned(Tone::Alarming) } else { cell }
    }),
    ("consistent", |r| match r.row.consistent {
        None => Cell::default(),
        Some(true) => Cell::text("yes"),
        Some(false) => Cell::text("NO").toned(Tone::Alarming),
    }),
];

fn maybe(value: Option<f64>) -> Cell {
    value.map_or(Cell::default(), |v| Cell::number(v, short(v)))
}
