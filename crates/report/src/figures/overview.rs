//! Every row in one table, and the deployment that won each request mix.

use crate::rows::Row;
use crate::sweep::{Role, Sweep, axis_name};
use crate::table::{Align, Cell, Table, Tone};
use crate::text::{short, thousands};
use crate::verdict::{Measure, Standing};

/// With more noise than this, a row says more about other programs on the machine than about the
/// engine.
pub const NOISY: f64 = 0.10;

/// The deployments that a cell names; it counts the others.
const NAMED: usize = 4;

/// The fastest deployment of each request mix by the rule of [`crate::verdict`], or the deployments
/// that the rule does not distinguish. Empty if there was no comparison.
pub fn winners(rows: &[Row], sweep: &Sweep) -> Table {
    let left = |name: &str| (name.to_string(), Align::Left);
    let right = |name: &str| (name.to_string(), Align::Right);
    let mut table = Table::new([
        left("request"),
        left("fastest deployment"),
        right("per second"),
        right("against the next"),
        right("against one shared instance"),
    ]);
    let mut requests: Vec<(String, Vec<usize>)> = Vec::new();
    for row in 0..rows.len() {
        let request = sweep.request(row);
        match requests.iter_mut().find(|(known, _)| *known == request) {
            Some((_, places)) => places.push(row),
            None => requests.push((request, vec![row])),
        }
    }
    for (request, places) in requests.iter().filter(|(_, places)| places.len() > 1) {
        if let Some(standing) = Standing::of(|r| &rows[r].row, places) {
            table.rows.push(winner(rows, sweep, request, &standing));
        }
    }
    table
}

fn winner(rows: &[Row], sweep: &Sweep, request: &str, standing: &Standing) -> Vec<Cell> {
    let best = &rows[standing.first].row;
    let ratio = |other: usize| match Measure::Tps.advantage(best, &rows[other].row) {
        Some(ratio) => Cell::number(ratio, format!("{ratio:.2}×")),
        None => Cell::text("–"),
    };
    let is_shared = |r: &&usize| {
        let s = &rows[**r].row.settings;
        s.islands == Some(1) && s.design.as_deref().is_none_or(|d| d == "conventional")
    };
    let shared = match standing.beaten.iter().find(is_shared) {
        Some(shared) => ratio(*shared),
        None if is_shared(&&standing.first) => Cell::text("itself"),
        None if standing.ties.iter().any(|r| is_shared(&r)) => Cell::text("no difference"),
        None => Cell::text("–"),
    };
    let name = match standing.winner() {
        Some(winner) => Cell::text(sweep.deployment(winner)).toned(Tone::Best),
        None => Cell::text(format!("no difference: {}", named(sweep, standing))),
    };
    let request = if request.is_empty() { best.settings.workload.as_str() } else { request };
    let next = standing.beaten.first().map_or(Cell::text("–"), |next| ratio(*next));
    vec![Cell::text(request), name, rate(best.tps), next, shared]
}

/// The leading deployments that the rule does not distinguish.
fn named(sweep: &Sweep, standing: &Standing) -> String {
    let all: Vec<usize> = [standing.first].into_iter().chain(standing.ties.iter().copied()).collect();
    let names = all.iter().take(NAMED).map(|r| sweep.deployment(*r)).collect::<Vec<_>>().join("; ");
    if all.len() > NAMED { format!("{names}; and {} more", all.len() - NAMED) } else { names }
}

fn rate(tps: f64) -> Cell {
    Cell::number(tps, if tps < 100.0 { short(tps) } else { thousands(tps) })
}

/// The settings in which the rows differ, and the results.
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
    table.without_columns(|name, cells| {
        let is_idle = |c: &&Cell| c.text.is_empty() || name == ROLLBACKS && c.number == Some(0.0);
        cells.iter().all(is_idle)
    })
}

/// This column exists only if there are rollbacks.
const ROLLBACKS: &str = "user rollbacks";

type Column = (&'static str, fn(&Row) -> Cell);

const RESULTS: &[Column] = &[
    ("per second", |r| rate(r.row.tps)),
    ("spread %", |r| {
        let spread = Measure::Tps.spread(&r.row).filter(|spread| spread.measured);
        spread
            .map_or(Cell::default(), |s| Cell::number(s.share() * 100.0, format!("{:.0}", s.share() * 100.0)))
    }),
    ("distributed %", |r| maybe(r.row.distributed.map(|d| d * 100.0))),
    ("p50 µs", |r| maybe(r.row.latency_us.map(|l| l.p50))),
    ("p99 µs", |r| maybe(r.row.latency_us.map(|l| l.p99))),
    ("tpmC", |r| maybe(r.row.tpmc)),
    ("of ceiling %", |r| maybe(r.row.tpmc.zip(r.row.tpmc_ceiling).map(|(n, most)| n / most * 100.0))),
    (ROLLBACKS, |r| count(r, r.row.user_rollbacks())),
    ("conflicts", |r| count(r, r.row.conflicts())),
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

/// A number of transactions; empty for rows without a consistency check, which have none.
fn count(row: &Row, n: u64) -> Cell {
    if row.row.consistent.is_some() { Cell::number(n as f64, thousands(n as f64)) } else { Cell::default() }
}

fn maybe(value: Option<f64>) -> Cell {
    value.map_or(Cell::default(), |v| Cell::number(v, short(v)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use driver::{RepetitionRow, ResultRow, Settings};

    fn row(design: &str, islands: u16, tps: [f64; 3]) -> Row {
        let settings = Settings {
            workload: "tpcb".into(),
            design: Some(design.into()),
            islands: Some(islands),
            ..Settings::default()
        };
        let repetitions = tps.map(|tps| RepetitionRow { tps, ..RepetitionRow::default() }).into();
        Row::from(&ResultRow { settings, tps: tps[1], repetitions, ..ResultRow::default() })
    }

    fn line(rows: &[Row]) -> Vec<Cell> {
        let table = winners(rows, &Sweep::of(rows));
        assert_eq!(table.rows.len(), 1, "{table:?}");
        table.rows[0].clone()
    }

    fn texts(cells: &[Cell]) -> Vec<&str> {
        cells.iter().map(|c| c.text.as_str()).collect()
    }

    #[test]
    fn a_winner_is_named_with_what_it_is_ahead_of() {
        let slow = row("conventional", 1, [99.0, 100.0, 101.0]);
        let cells =
            line(&[slow, row("occ", 1, [118.0, 120.0, 125.0]), row("serial", 2, [149.0, 150.0, 151.0])]);
        assert_eq!(texts(&cells), ["tpcb", "serial", "150", "1.25×", "1.50×"]);
        assert_eq!(cells[1].tone, Tone::Best);
    }

    #[test]
    fn noise_is_not_crowned() {
        let slow = row("conventional", 1, [90.0, 100.0, 110.0]);
        let noisy = row("serial", 2, [80.0, 194.0, 369.0]);
        let cells = line(&[slow.clone(), noisy]);
        let name = "no difference: serial; conventional";
        assert_eq!(texts(&cells), ["tpcb", name, "194", "–", "no difference"]);
        assert_eq!(cells[1].tone, Tone::Plain);
        let close = row("serial", 2, [98.0, 102.0, 105.0]);
        let cells = line(&[slow, close, row("occ", 1, [10.0, 11.0, 12.0])]);
        assert_eq!(texts(&cells)[3..], ["9.27×", "no difference"], "ahead of the third all the same");
    }

    #[test]
    fn of_many_without_a_difference_some_are_named() {
        let rows: Vec<Row> = (1..=6).map(|n| row("occ", n, [1.0, 50.0, 99.0])).collect();
        assert!(texts(&line(&rows))[1].ends_with("; and 2 more"), "{:?}", line(&rows));
    }
}
