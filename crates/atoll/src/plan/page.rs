//! A plan or a map as a page with charts, for `--page`.

use crate::failure::Failure;
use advisor::Map;
use advisor::plan::{Entry, Plan};
use advisor::search::Basis;
use report::chart::{Axis, Bars, Chart, Figure, MapCell, Name, Part, Scale, View};
use report::table::{Align, Cell, Table};
use report::{Essay, Section};
use std::path::Path;
use world::tell;

/// Deployments in the charts of a plan.
const SHOWN: usize = 20;

pub fn write(path: &Path, essay: &Essay) -> Result<(), Failure> {
    std::fs::write(path, essay.html())
        .map_err(|e| Failure::Run(format!("cannot write {}: {e}", path.display())))?;
    tell(format_args!("page: {}", path.display()));
    Ok(())
}

/// The page of a plan: its first screen, the ranking with intervals, and the costs of each
/// deployment.
pub fn of_plan(plan: &Plan) -> Essay {
    let shown: Vec<&Entry> = plan.ranking.iter().take(SHOWN).collect();
    let mut sections = vec![Section {
        id: "ranking",
        title: "The ranking",
        words: "Each deployment at its throughput; the line goes from the least to the greatest that the measured windows or the \
                error of the model allow. Two deployments of which the lines overlap may be equal.",
        figures: vec![ranking(&shown)],
    }];
    let costs: Vec<&Entry> = shown.into_iter().filter(|entry| !entry.parts.is_empty()).collect();
    if !costs.is_empty() {
        sections.push(Section {
            id: "costs",
            title: "Where the time goes",
            words: "The simulated processor time of all workers for a committed transaction, by component.",
            figures: vec![by_component(&costs)],
        });
    }
    Essay {
        title: format!("Plan: {} on {}", plan.workload.name, plan.machine.name),
        lead: format!("{} · atoll {}", plan.date, plan.program),
        text: plan.to_string(),
        sections,
    }
}

fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::Screened => "estimated",
        Basis::Refined => "simulated",
        Basis::Measured => "measured",
    }
}

fn ranking(shown: &[&Entry]) -> Figure {
    let mut table = Table::new([
        ("deployment", Align::Left),
        ("by", Align::Left),
        ("transactions/s", Align::Right),
        ("from", Align::Right),
        ("to", Align::Right),
        ("limit", Align::Left),
    ]);
    let number = |value: f64| Cell::number(value, format!("{value:.0}"));
    for entry in shown {
        let limit = entry.limits.first();
        let limit = limit.map_or_else(String::new, |l| format!("{}, {:.0} %", l.resource, l.share * 100.0));
        table.rows.push(vec![
            Cell::text(entry.candidate.to_string()),
            Cell::text(basis(entry.basis)),
            number(entry.tps.mid),
            number(entry.tps.low),
            number(entry.tps.high),
            Cell::text(limit),
        ]);
    }
    let axis = |name: &str| Axis { name: name.into(), scale: Scale::Linear };
    let values = shown.iter().map(|e| Some((e.tps.mid, e.tps.low, e.tps.high))).collect();
    Figure {
        id: "ranking-0".into(),
        title: "Throughput by deployment".into(),
        caption: "The choice first.".into(),
        chart: Chart::Bars {
            x: axis(""),
            y: axis("transactions/s"),
            places: shown.iter().map(|e| format!("{} · {}", e.candidate, basis(e.basis))).collect(),
            bars: vec![Bars { name: "throughput".into(), tone: 0, values }],
        },
        table,
    }
}

fn by_component(costs: &[&Entry]) -> Figure {
    let mut names: Vec<&str> = Vec::new();
    for part in costs.iter().flat_map(|entry| &entry.parts) {
        if !names.contains(&part.name.as_str()) {
            names.push(&part.name);
        }
    }
    let us = |entry: &Entry, name: &str| entry.prediction().part_ns(name) / 1e3;
    let head = std::iter::once(("deployment", Align::Left));
    let mut table = Table::new(head.chain(names.iter().map(|name| (*name, Align::Right))));
    for entry in costs {
        let cells = names.iter().map(|name| Cell::number(us(entry, name), format!("{:.2}", us(entry, name))));
        table.rows.push(std::iter::once(Cell::text(entry.candidate.to_string())).chain(cells).collect());
    }
    let part = |name: &&str| Part {
        name: (*name).to_owned(),
        values: costs.iter().map(|entry| us(entry, name)).collect(),
    };
    let bar = |entry: &&Entry| Name { group: String::new(), place: entry.candidate.to_string() };
    Figure {
        id: "costs-0".into(),
        title: "Time by component".into(),
        caption: "Microseconds for a transaction.".into(),
        chart: Chart::Stacked {
            bars: costs.iter().map(bar).collect(),
            views: vec![View {
                name: "time".into(),
                unit: "µs".into(),
                parts: names.iter().map(part).collect(),
            }],
        },
        table,
    }
}

/// The page of a map.
pub fn of_map(map: &Map) -> Essay {
    Essay {
        title: format!("Map: {} on {}", map.workload, map.machine),
        lead: format!(
            "The deployment that wins, by {} and {} · atoll {}",
            map.x.name,
            map.y.name,
            driver::VERSION
        ),
        text: String::new(),
        sections: vec![Section {
            id: "map",
            title: "The winners",
            words: "Each cell has the letter of the winner, and its lead in per cent over the best deployment with another design or \
                    number of islands. A lead within the error of the model is a tie. All of it is simulated.",
            figures: vec![cells(map)],
        }],
    }
}

fn cells(map: &Map) -> Figure {
    let winners: Vec<String> = map.winners().into_iter().map(|(name, _)| name).collect();
    let letter = |winner: usize| char::from(b'A' + (winner % 26) as u8);
    let texts = |values: &[f64]| values.iter().map(f64::to_string).collect::<Vec<_>>();
    let head = std::iter::once(format!("{} \\ {}", map.y.name, map.x.name));
    let mut table = Table::new(head.chain(texts(&map.x.values)).map(|name| (name, Align::Left)));
    let mut cells = Vec::new();
    for (row, (y, of)) in map.y.values.iter().zip(&map.cells).enumerate() {
        let mut line = vec![Cell::text(y.to_string())];
        for (column, cell) in of.iter().enumerate() {
            let winner = winners.iter().position(|name| *name == cell.short()).unwrap_or(0);
            let lead = cell.margin.map_or_else(String::new, |m| format!(" {:.0}", m * 100.0));
            let at = format!("{} {}, {} {y}", map.x.name, map.x.values[column], map.y.name);
            let detail = format!("{at}: {}, {:.0} transactions/s", cell.choice, cell.tps);
            line.push(Cell::text(format!("{}{lead}", cell.short())));
            cells.push(MapCell { column, row, winner, label: format!("{}{lead}", letter(winner)), detail });
        }
        table.rows.push(line);
    }
    table.rows.reverse();
    let winners = winners.iter().enumerate().map(|(at, name)| format!("{} {name}", letter(at))).collect();
    let (columns, rows) = (texts(&map.x.values), texts(&map.y.values));
    Figure {
        id: "map-0".into(),
        title: format!("{} by {} and {}", map.workload, map.x.name, map.y.name),
        caption: map.machine.clone(),
        chart: Chart::Map { x: map.x.name.clone(), y: map.y.name.clone(), columns, rows, winners, cells },
        table,
    }
}
