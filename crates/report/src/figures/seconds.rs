//! The course over time: throughput and tail latency second by second.

use super::{Curves, Section, curves};
use crate::chart::{Axis, Chart, Event, Figure, Line, Marks, Point};
use crate::rows::Row;
use crate::sweep::{Panel, Sweep};
use crate::table::{Align, Cell, Table};
use crate::text::{short, thousands};
use driver::{RebalanceRow, SecondRow};

/// Title, id, axis, value, caption.
type Kind = (&'static str, &'static str, &'static str, fn(&SecondRow) -> Option<f64>, &'static str);

const KINDS: &[Kind] = &[
    ("Throughput over time", "over-time", "transactions/s", |s| Some(s.tps), "Committed in each second."),
    (
        "99th percentile of latency over time",
        "p99-over-time",
        "p99 (µs)",
        |s| Some(s.p99_us).filter(|v| *v > 0.0),
        "Of the requests answered in each second.",
    ),
    (
        "Aborts over time",
        "aborts-over-time",
        "aborted",
        |s| Some(s.aborted as f64),
        "Transactions rolled back in each second.",
    ),
];

pub fn section(rows: &[Row], sweep: &Sweep) -> Section {
    let mut figures = Vec::new();
    for (number, panel) in sweep.panels().iter().enumerate() {
        for (at, shown) in curves(panel, sweep, |r| rows[r].row.series.len() > 1).iter().enumerate() {
            let of = |kind: &Kind| figure(rows, sweep, panel, shown, kind, (number, at));
            figures.extend(KINDS.iter().filter_map(of));
        }
    }
    Section {
        id: "seconds",
        title: "Over time",
        words: "The reported window second by second; time 0 is the begin of the first window.",
        figures,
    }
}

/// `None` if no row has any event of this kind.
fn figure(
    rows: &[Row],
    sweep: &Sweep,
    panel: &Panel,
    shown: &Curves,
    (what, id, unit, value, caption): &Kind,
    (number, at): (usize, usize),
) -> Option<Figure> {
    let line = |(r, tone): (&usize, usize)| {
        let point = |s: &SecondRow| Some(Point(s.at, value(s).filter(|v| v.is_finite())?, None, None));
        let points = rows[*r].row.series.iter().filter(|s| s.at.is_finite()).filter_map(point).collect();
        let events = decisions(&rows[*r].row.rebalances);
        Line { name: shown.name(sweep, *r), tone, marks: Marks::Plain, points, events }
    };
    let lines: Vec<Line> = shown.rows.iter().zip(sweep.tones(&shown.rows)).map(line).collect();
    let values = || lines.iter().flat_map(|l| l.points.iter().map(|p| p.1));
    if values().all(|v| v == 0.0) {
        return None;
    }
    let y = if *id == "p99-over-time" { Axis::fitting(*unit, values()) } else { Axis::linear(*unit) };
    Some(Figure {
        id: format!("{id}-{number}-{at}"),
        title: shown.title(what, panel),
        caption: format!("{caption}{}{}{}", changes(rows, &shown.rows), dashes(&lines), shown.remark()),
        table: table(&lines, unit),
        chart: Chart::Lines { x: Axis::linear("time (s)"), y, lines },
    })
}

/// Decisions of the balancer within the window.
fn decisions(made: &[RebalanceRow]) -> Vec<Event> {
    let inside = made.iter().filter(|made| made.at.is_finite() && made.at >= 0.0);
    let told = |made: &RebalanceRow| match made.outcome.as_str() {
        "done" => format!("{} (done in {} ms)", made.why, short(made.took_ms)),
        outcome => format!("{} ({outcome})", made.why),
    };
    inside.map(|made| Event { at: made.at, what: told(made) }).collect()
}

fn dashes(lines: &[Line]) -> &'static str {
    let any = lines.iter().any(|line| !line.events.is_empty());
    if any { " Dashed: keys were divided otherwise among their owners, or should have been." } else { "" }
}

/// The changes of the load during the run, if they are the same in all these rows.
fn changes(rows: &[Row], portion: &[usize]) -> String {
    let script = |r: &usize| rows[*r].row.settings.phases.as_ref();
    match portion.first().and_then(script) {
        Some(first) if portion.iter().all(|r| script(r) == Some(first)) => format!(" Changes: {first}."),
        _ => String::new(),
    }
}

fn table(lines: &[Line], unit: &str) -> Table {
    let right = |name: &str| (name.to_string(), Align::Right);
    let mut table = Table::new([(String::new(), Align::Left), right("s"), right(unit)]);
    for line in lines {
        for Point(at, value, ..) in &line.points {
            let text = if *value < 100.0 { short(*value) } else { thousands(*value) };
            let at = Cell::number(*at, format!("{at:.1}"));
            table.rows.push(vec![Cell::text(&line.name), at, Cell::number(*value, text)]);
        }
    }
    table
}
