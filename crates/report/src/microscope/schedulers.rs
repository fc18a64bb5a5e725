//! Chapters 7 and 8: schedulers beside the baseline, and the sweeps of their parameters.

use super::facts::{CacheRow, FACTS, number, of, trace, word};
use super::parts::{curves, figure_of_lines, section};
use crate::chart::{Axis, Bars, Chart, Figure, Line};
use crate::figures::Section;
use crate::table::{Align, Cell, Table};
use crate::text::short;

/// What is compared with the baseline: field, title, axis.
const MEASURES: [(&str, &str, &str); 5] = [
    ("throughput", "Throughput", "baseline = 1"),
    ("l1i_mpki", "Misses of the L1-I", "baseline = 1"),
    ("l1d_mpki", "Misses of the L1-D", "baseline = 1"),
    ("llc_mpki", "Misses of the last level", "baseline = 1"),
    ("latency", "Latency", "baseline = 1"),
];

/// The looks of schedulers, the same in every chart: variants follow their default.
const TONES: [&str; 9] = [
    "baseline",
    "strex",
    "slicc",
    "addict",
    "next-line",
    "pif",
    "strex, fill",
    "slicc, types none",
    "slicc, types scout",
];

/// Tables of one parameter: table, field, title.
const SWEEPS: [(&str, &str, &str); 8] = [
    ("slicc-fill-up", "fill_up", "SLICC: misses that fill a cache"),
    ("slicc-matched", "matched", "SLICC: misses that another cache must have"),
    ("slicc-dilution", "dilution", "SLICC: misses among 100 fetches"),
    ("slicc-signature", "signature", "SLICC: bits of a signature"),
    ("strex-team", "team", "STREX: transactions of a team"),
    ("batch", "batch", "Transactions of a batch or team"),
    ("smt", "contexts", "Hardware threads of a core"),
    ("l1i-scaled", "l1i_kb", "KB of L1-I"),
];

pub fn sections(rows: &[&CacheRow]) -> Vec<Section> {
    vec![
        section(
            "schedulers",
            "Schedulers",
            "Each scheduler beside the baseline on as many cores of the same chip, which runs each transaction on one core from its \
             begin to its end. The thesis' defaults; a variant has its option in its name.",
            schedulers(&of(rows, "schedulers")),
        ),
        section(
            "deep",
            "On a deeper hierarchy",
            "The same with a private L2 between the L1 and the shared cache.",
            schedulers(&of(rows, "deep"))
                .into_iter()
                .map(|figure| Figure { id: format!("deep-{}", figure.id), ..figure })
                .collect(),
        ),
        section(
            "sweeps",
            "Parameters",
            "One parameter at a time, the others at the thesis' defaults. Throughput in transactions for a million cycles.",
            SWEEPS.iter().flat_map(|sweep| swept(rows, *sweep)).collect(),
        ),
    ]
}

/// The scheduler, and the option in which it departs from the default.
fn variant(row: &CacheRow) -> String {
    let scheduler = word(row, "scheduler").unwrap_or_default();
    let option = match scheduler.as_str() {
        "strex" => word(row, "protect").filter(|protect| protect != "refuse"),
        "slicc" => {
            word(row, "types").filter(|types| types != "software").map(|types| format!("types {types}"))
        }
        _ => None,
    };
    option.map_or(scheduler.clone(), |option| format!("{scheduler}, {option}"))
}

fn tone(name: &str) -> usize {
    TONES.iter().position(|known| *known == name).unwrap_or(TONES.len())
}

/// A row, and a field of it beside that of the baseline with the same trace, chip and cores.
fn beside(row: &CacheRow, among: &[&CacheRow], field: &str) -> Option<f64> {
    let same = |other: &&&CacheRow| {
        let facts = FACTS.iter().chain(&["cores", "contexts", "l1i_kb"]);
        word(other, "scheduler").as_deref() == Some("baseline")
            && facts.into_iter().all(|fact| other.get(*fact) == row.get(*fact))
    };
    let baseline = number(among.iter().find(same)?, field).filter(|value| *value > 0.0)?;
    Some(number(row, field)? / baseline)
}

/// A chart over cores for each trace and measure; with one number of cores, bars of all traces.
fn schedulers(rows: &[&CacheRow]) -> Vec<Figure> {
    let mut cores: Vec<f64> = rows.iter().filter_map(|row| number(row, "cores")).collect();
    cores.sort_by(f64::total_cmp);
    cores.dedup();
    let mut traces: Vec<String> = Vec::new();
    for name in rows.iter().map(|row| trace(row, rows)) {
        if !traces.contains(&name) {
            traces.push(name);
        }
    }
    let mut figures = Vec::new();
    for (measure, (field, title, unit)) in MEASURES.into_iter().enumerate() {
        if cores.len() < 2 {
            figures.extend(bars(rows, &traces, (&format!("schedulers-{measure}"), field, title, unit)));
            continue;
        }
        for (at, name) in traces.iter().enumerate() {
            let own: Vec<CacheRow> = rows
                .iter()
                .filter(|row| {
                    trace(row, rows) == *name && word(row, "scheduler").as_deref() != Some("baseline")
                })
                .filter_map(|row| {
                    let mut beside_it = (*row).clone();
                    beside_it.insert("beside".into(), beside(row, rows, field)?.into());
                    Some(beside_it)
                })
                .collect();
            let own: Vec<&CacheRow> = own.iter().collect();
            let lines = toned(curves(&own, "cores", "beside", variant));
            let (id, title) = (format!("schedulers-{measure}-{at}"), format!("{title}: {name}"));
            figures.extend(figure_of_lines(&id, &title, Axis::logarithmic("cores"), unit, lines));
        }
    }
    figures
}

fn toned(lines: Vec<Line>) -> Vec<Line> {
    lines.into_iter().map(|line| Line { tone: tone(&line.name), ..line }).collect()
}

fn bars(rows: &[&CacheRow], traces: &[String], told: (&str, &str, &str, &str)) -> Option<Figure> {
    let (id, field, title, unit) = told;
    let mut variants: Vec<String> = Vec::new();
    for name in rows.iter().map(|row| variant(row)) {
        if !variants.contains(&name) {
            variants.push(name);
        }
    }
    let value = |variant_of: &str, place: &str| {
        let found = rows.iter().find(|row| variant(row) == variant_of && trace(row, rows) == place);
        found.and_then(|row| beside(row, rows, field))
    };
    let bar = |name: &String| Bars {
        name: name.clone(),
        tone: tone(name),
        values: traces.iter().map(|place| value(name, place).map(|v| (v, v, v))).collect(),
    };
    let bars: Vec<Bars> = variants.iter().map(bar).collect();
    if bars.iter().flat_map(|bar| &bar.values).flatten().count() < 2 {
        return None;
    }
    let heads = bars.iter().map(|bar| (bar.name.clone(), Align::Right));
    let mut table = Table::new([("trace".to_owned(), Align::Left)].into_iter().chain(heads));
    for (at, place) in traces.iter().enumerate() {
        let cell = |bar: &Bars| bar.values[at].map_or_else(Cell::default, |v| Cell::number(v.0, short(v.0)));
        table.rows.push([Cell::text(place.clone())].into_iter().chain(bars.iter().map(cell)).collect());
    }
    let (id, title, caption) = (id.to_owned(), title.to_owned(), String::new());
    let chart =
        Chart::Bars { x: Axis::linear("trace"), y: Axis::linear(unit), places: traces.to_vec(), bars };
    Some(Figure { id, title, caption, chart, table })
}

/// Throughput and instruction misses over a parameter.
fn swept(rows: &[&CacheRow], sweep: (&str, &str, &str)) -> Vec<Figure> {
    let (table, field, title) = sweep;
    let rows = of(rows, table);
    let several = rows.iter().any(|row| trace(row, &rows) != trace(rows[0], &rows));
    let name = |row: &CacheRow| match several {
        true => format!("{} · {}", variant(row), trace(row, &rows)),
        false => variant(row),
    };
    let figure = |(y, what, unit): (&str, &str, &str)| {
        let mut lines = curves(&rows, field, y, name);
        if !several {
            lines = toned(lines);
        }
        let places = lines.iter().flat_map(|line| line.points.iter().map(|point| point.0));
        let x = Axis::fitting(field.replace('_', " "), places.collect::<Vec<_>>().into_iter());
        figure_of_lines(&format!("{table}-{y}"), &format!("{title}: {what}"), x, unit, lines)
    };
    [
        ("throughput", "throughput", "transactions for a million cycles"),
        ("l1i_mpki", "misses of the L1-I", "misses in 1000 instructions"),
    ]
    .into_iter()
    .filter_map(figure)
    .collect()
}
