//! Throughput over the option that was swept, and over every other numeric one.

use super::{Section, titled};
use crate::chart::{Axis, Bars, Chart, Figure, Line, Marks, Point};
use crate::rows::Row;
use crate::sweep::{Panel, Sweep, axis_name, phrase};
use crate::table::{Align, Cell, Table};
use crate::text::{short, thousands};

/// From this many places on the axis, a curve shows more than bars.
const CURVE: usize = 3;

pub fn sections(rows: &[Row], sweep: &Sweep) -> Vec<Section> {
    let figures = |prefix: &str, sweep: &Sweep| -> Vec<Figure> {
        let panels = sweep.panels();
        panels.iter().enumerate().map(|(i, p)| figure(rows, sweep, p, format!("{prefix}-{i}"))).collect()
    };
    let first = Section {
        id: "throughput",
        title: "Throughput",
        words: "Each mark is the median repetition; the whisker reaches from the slowest to the fastest.",
        figures: if rows.len() > 1 { figures("throughput", sweep) } else { Vec::new() },
    };
    let others = sweep.other_axes();
    let others =
        others.iter().enumerate().flat_map(|(i, turned)| figures(&format!("throughput-by-{i}"), turned));
    let second = Section {
        id: "other-options",
        title: "The same against other options",
        words: "The rows from above, with another option on the axis.",
        figures: others.collect(),
    };
    vec![first, second]
}

/// The unit that is counted per second.
pub fn unit(row: &Row) -> &'static str {
    match row.row.settings.workload.as_str() {
        "counter" => "increments/s",
        "ipc" => "round trips/s",
        _ => "transactions/s",
    }
}

fn figure(rows: &[Row], sweep: &Sweep, panel: &Panel, id: String) -> Figure {
    let unit = panel.rows().next().map_or("transactions/s", |r| unit(&rows[r]));
    let mut places: Vec<f64> = panel.rows().filter_map(|r| sweep.at(r)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let firsts: Vec<usize> = panel.lines.iter().map(|(_, of)| of[0]).collect();
    let toned = || panel.lines.iter().zip(sweep.tones(&firsts));
    let on_axis = panel.rows().all(|r| sweep.at(r).is_some());
    let chart = match sweep.axis() {
        Some(axis) if on_axis && places.len() >= CURVE => Chart::Lines {
            x: Axis::fitting(axis_name(&axis.key), places.iter().copied()),
            y: Axis::linear(unit),
            lines: toned().map(|((name, of), tone)| line(rows, sweep, (name, tone), of)).collect(),
        },
        Some(axis) if on_axis && places.len() > 1 => Chart::Bars {
            x: Axis::linear(axis_name(&axis.key)),
            y: Axis::linear(unit),
            bars: toned().map(|((name, of), tone)| bars(rows, sweep, (name, tone), of, &places)).collect(),
            places: places.iter().map(f64::to_string).collect(),
        },
        _ => one_bar_each(rows, sweep, panel, unit),
    };
    let what = match sweep.axis() {
        Some(axis) if places.len() > 1 => format!("Throughput by {}", bare(&axis_name(&axis.key))),
        _ => "Throughput".into(),
    };
    Figure {
        id,
        title: titled(&what, panel),
        caption: caption(sweep, panel, places.len()),
        chart,
        table: table(rows, sweep, panel, unit),
    }
}

/// The name of an axis without its unit.
fn bare(name: &str) -> &str {
    name.split(" (").next().unwrap_or(name)
}

fn caption(sweep: &Sweep, panel: &Panel, places: usize) -> String {
    match sweep.axis() {
        Some(_) if places > 1 && panel.lines.len() > 1 => "One line or colour for each deployment.".into(),
        Some(axis) if places == 1 => panel
            .rows()
            .next()
            .and_then(|r| axis.values[r].as_deref())
            .map_or(String::new(), |v| format!("At {}.", phrase(&axis.key, v))),
        _ => String::new(),
    }
}

fn spread(row: &Row) -> (f64, f64, f64) {
    let r = &row.row;
    // Rows without repetitions have 0 for both ends.
    let low = if r.tps_min > 0.0 { r.tps_min.min(r.tps) } else { r.tps };
    (r.tps, low, r.tps_max.max(r.tps))
}

fn line(rows: &[Row], sweep: &Sweep, (name, tone): (&str, usize), of: &[usize]) -> Line {
    let point = |r: &usize| {
        let (tps, low, high) = spread(&rows[*r]);
        Some(Point(sweep.at(*r)?, tps, Some(low), Some(high)))
    };
    let points = of.iter().filter_map(point).collect();
    Line { name: or_all(name), tone, marks: Marks::Points, points, events: Vec::new() }
}

fn or_all(name: &str) -> String {
    if name.is_empty() { "throughput".into() } else { name.into() }
}

fn bars(rows: &[Row], sweep: &Sweep, (name, tone): (&str, usize), of: &[usize], places: &[f64]) -> Bars {
    let at = |place: &f64| of.iter().find(|r| sweep.at(**r) == Some(*place)).map(|r| spread(&rows[*r]));
    Bars { name: or_all(name), tone, values: places.iter().map(at).collect() }
}

fn one_bar_each(rows: &[Row], sweep: &Sweep, panel: &Panel, unit: &str) -> Chart {
    let all: Vec<usize> = panel.rows().collect();
    Chart::Bars {
        x: Axis::linear(""),
        y: Axis::linear(unit),
        places: all.iter().map(|r| place_name(sweep, panel, *r)).collect(),
        bars: vec![Bars {
            name: unit.into(),
            tone: 0,
            values: all.iter().map(|r| Some(spread(&rows[*r]))).collect(),
        }],
    }
}

/// The name of a single line is in no legend, so the name of its place includes it.
fn place_name(sweep: &Sweep, panel: &Panel, row: usize) -> String {
    let line = panel.lines.iter().find(|(_, of)| of.contains(&row)).map_or("", |(name, _)| name.as_str());
    let alone = panel.lines.iter().all(|(_, of)| of.len() == 1);
    if alone && !line.is_empty() { line.into() } else { sweep.name(row).to_string() }
}

fn table(rows: &[Row], sweep: &Sweep, panel: &Panel, unit: &str) -> Table {
    let right = |name: &str| (name.to_string(), Align::Right);
    let mut table =
        Table::new([(String::new(), Align::Left), right(unit), right("slowest"), right("fastest")]);
    for r in panel.rows() {
        let (tps, low, high) = spread(&rows[r]);
        let number = |v: f64| Cell::number(v, if v < 100.0 { short(v) } else { thousands(v) });
        table.rows.push(vec![Cell::text(sweep.name(r).to_string()), number(tps), number(low), number(high)]);
    }
    table
}
