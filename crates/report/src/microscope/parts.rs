//! Chapter 6: what misses and stalls are made of, as bars of parts, and the curve of sizes.

use super::facts::{CacheRow, number, of, trace, word};
use crate::chart::{Axis, Chart, Figure, Line, Marks, Name, Part, Point, View};
use crate::figures::Section;
use crate::table::{Align, Cell, Table};
use crate::text::short;

/// The most bars of one chart that can still be compared.
const BARS: usize = 24;

/// A part of a bar, with a value for each view.
struct Piece {
    bar: Name,
    part: String,
    values: Vec<f64>,
}

/// A way to divide the bars: the text of its button, and the unit of its axis.
struct Cut(&'static str, &'static str);

/// Levels and kinds of misses, in the words of the thesis.
const CACHES: [(&str, &str); 6] =
    [("l1i", "L1-I"), ("l2i", "L2-I"), ("l3i", "L3-I"), ("l1d", "L1-D"), ("l2d", "L2-D"), ("l3d", "L3-D")];

fn cache(name: &str) -> String {
    CACHES.iter().find(|(known, _)| *known == name).map_or(name, |(_, told)| told).to_owned()
}

pub fn section(id: &'static str, title: &'static str, words: &'static str, figures: Vec<Figure>) -> Section {
    Section { id, title, words, figures }
}

pub fn sections(rows: &[&CacheRow]) -> Vec<Section> {
    vec![
        section(
            "misses",
            "Misses by cache",
            "Misses and stalled cycles in 1000 instructions, by level, of instructions (I) and data (D). A stall is a miss times \
             the latency of the next level; nothing overlaps.",
            misses(&of(rows, "caches")),
        ),
        section(
            "three-c",
            "Kinds of misses",
            "Compulsory: the line was never there. Capacity: a fully associative cache of the same size misses it, too. Conflict: \
             the rest, which is below zero where the sets happen to keep more than the least recently used lines.",
            three_c(&of(rows, "three-c")),
        ),
        section(
            "sizes",
            "The size of the L1-I",
            "Misses in 1000 instructions of an L1-I of 8 ways: where a curve comes near zero, the code fits.",
            sizes(&of(rows, "l1i-size")),
        ),
        section(
            "operations",
            "By operation and component",
            "Stalled cycles in 1000 instructions: of instructions at the L1, of data at each level.",
            by_part(&of(rows, "operations"), "operation", "Stalls by operation")
                .into_iter()
                .chain(by_part(&of(rows, "components"), "component", "Stalls by component"))
                .chain(within(&of(rows, "components-in-operation")))
                .collect(),
        ),
        section(
            "overlap",
            "What transactions have in common",
            "The code or data that all instances of a group touch together, by the share of the instances that touch it.",
            overlap(&of(rows, "code"), "Code")
                .into_iter()
                .chain(overlap(&of(rows, "data"), "Data"))
                .collect(),
        ),
    ]
}

fn misses(rows: &[&CacheRow]) -> Vec<Figure> {
    let piece = |row: &&CacheRow| {
        let values = [number(row, "mpki")?, number(row, "stalls")?, number(row, "stall_share")? * 100.0];
        let bar = Name { group: String::new(), place: trace(row, rows) };
        Some(Piece { bar, part: cache(&word(row, "cache")?), values: values.into() })
    };
    let cuts = [
        Cut("misses", "misses in 1000 instructions"),
        Cut("stalls", "stalled cycles in 1000 instructions"),
        Cut("share of stalls", "%"),
    ];
    stacked("misses", "Misses by cache", &rows.iter().filter_map(piece).collect::<Vec<_>>(), &cuts)
}

fn three_c(rows: &[&CacheRow]) -> Vec<Figure> {
    let mut pieces = Vec::new();
    for row in rows {
        for part in ["compulsory", "capacity", "conflict"] {
            let (Some(share), Some(cache_of)) = (number(row, &format!("{part}_share")), word(row, "cache"))
            else {
                continue;
            };
            let bar = Name { group: trace(row, rows), place: cache(&cache_of) };
            pieces.push(Piece { bar, part: part.to_owned(), values: vec![share * 100.0] });
        }
    }
    stacked("three-c", "Compulsory, capacity and conflict misses", &pieces, &[Cut("share", "%")])
}

/// Stalls of the L1-I and of data, divided by a field of the rows.
fn by_part(rows: &[&CacheRow], field: &str, title: &'static str) -> Vec<Figure> {
    let place = |row: &CacheRow| Name { group: String::new(), place: trace(row, rows) };
    let id = if field == "operation" { "operations" } else { "components" };
    stacked(id, title, &stalls(rows, field, place), &STALLS)
}

const STALLS: [Cut; 4] = [
    Cut("L1-I", "stalled cycles in 1000 instructions"),
    Cut("L1-D", "stalled cycles in 1000 instructions"),
    Cut("L2-D", "stalled cycles in 1000 instructions"),
    Cut("L3-D", "stalled cycles in 1000 instructions"),
];

fn stalls(rows: &[&CacheRow], field: &str, bar: impl Fn(&CacheRow) -> Name) -> Vec<Piece> {
    let piece = |row: &&CacheRow| {
        let values = ["l1i_stalls", "l1d_stalls", "l2d_stalls", "l3d_stalls"].map(|name| number(row, name));
        let values: Option<Vec<f64>> = values.into_iter().collect();
        Some(Piece { bar: bar(row), part: word(row, field)?, values: values? })
    };
    rows.iter().filter_map(piece).collect()
}

fn within(rows: &[&CacheRow]) -> Vec<Figure> {
    let place =
        |row: &CacheRow| Name { group: trace(row, rows), place: word(row, "operation").unwrap_or_default() };
    let pieces = stalls(rows, "component", place);
    stacked("within", "Components within each operation", &pieces, &STALLS)
}

/// The union of a group's lines, cut by the share of its instances that touch them.
fn overlap(rows: &[&CacheRow], what: &'static str) -> Vec<Figure> {
    const BINS: [(&str, &str); 5] = [
        ("in_all", "in all"),
        ("in_99", "in 99 %"),
        ("in_90", "in 90 %"),
        ("in_60", "in 60 %"),
        ("in_30", "in 30 %"),
    ];
    let mut pieces = Vec::new();
    for row in rows {
        let Some(union) = number(row, "union_kb") else { continue };
        let kind = word(row, "kind").unwrap_or_default();
        let place = word(row, "operation").map_or(kind.clone(), |operation| format!("{kind}, {operation}"));
        let bar = Name { group: trace(row, rows), place };
        let mut before = 0.0;
        let bins = BINS.iter().filter_map(|(field, told)| Some((*told, number(row, field)?)));
        for (told, share) in bins.chain([("in fewer", 1.0)]) {
            let own = (share - before).max(0.0);
            let values = vec![own * 100.0, own * union];
            pieces.push(Piece { bar: bar.clone(), part: told.to_owned(), values });
            before = share;
        }
    }
    let (id, title) = match what {
        "Code" => ("overlap-code", "Code that instances have in common"),
        _ => ("overlap-data", "Data that instances have in common"),
    };
    stacked(id, title, &pieces, &[Cut("share", "%"), Cut("size", "KB of all instances")])
}

/// Charts of at most [`BARS`] bars. A part that is zero everywhere is left out.
fn stacked(id: &str, title: &str, pieces: &[Piece], cuts: &[Cut]) -> Vec<Figure> {
    let mut bars: Vec<Name> = Vec::new();
    for piece in pieces {
        if !bars.contains(&piece.bar) {
            bars.push(piece.bar.clone());
        }
    }
    let mut all: Vec<&str> = Vec::new();
    for piece in pieces.iter().filter(|piece| piece.values.iter().any(|value| *value != 0.0)) {
        if !all.contains(&piece.part.as_str()) {
            all.push(&piece.part);
        }
    }
    if all.is_empty() {
        return Vec::new();
    }
    let value = |bar: &Name, part: &str, cut: usize| {
        let found = pieces.iter().find(|piece| piece.bar == *bar && piece.part == part);
        found.and_then(|piece| piece.values.get(cut)).copied().unwrap_or(0.0)
    };
    let charts = bars.chunks(BARS).enumerate();
    let figure = |(at, some): (usize, &[Name])| {
        let part = |cut: usize, name: &&str| Part {
            name: (*name).to_owned(),
            values: some.iter().map(|bar| value(bar, name, cut)).collect(),
        };
        let view = |(at, cut): (usize, &Cut)| View {
            name: cut.0.into(),
            unit: cut.1.into(),
            parts: all.iter().map(|name| part(at, name)).collect(),
        };
        let views: Vec<View> = cuts.iter().enumerate().map(view).collect();
        Figure {
            id: format!("{id}-{at}"),
            title: title.into(),
            caption: String::new(),
            table: table(some, &views),
            chart: Chart::Stacked { bars: some.to_vec(), views },
        }
    };
    charts.map(figure).collect()
}

fn table(bars: &[Name], views: &[View]) -> Table {
    let columns = views.iter().flat_map(|view| {
        let name = |part: &Part| match views.len() {
            1 => part.name.clone(),
            _ => format!("{}, {}", part.name, view.name),
        };
        view.parts.iter().map(move |part| (name(part), Align::Right)).collect::<Vec<_>>()
    });
    let mut table = Table::new([("of".to_owned(), Align::Left)].into_iter().chain(columns));
    for (at, bar) in bars.iter().enumerate() {
        let parts = views.iter().flat_map(|view| &view.parts);
        let cells = parts.map(|part| Cell::number(part.values[at], short(part.values[at])));
        table.rows.push([Cell::text(bar.to_string())].into_iter().chain(cells).collect());
    }
    table
}

fn sizes(rows: &[&CacheRow]) -> Vec<Figure> {
    let lines = curves(rows, "kb", "mpki", |row| trace(row, rows));
    let x = Axis::logarithmic("KB of L1-I");
    figure_of_lines("sizes-0", "Misses by the size of the L1-I", x, "misses in 1000 instructions", lines)
        .into_iter()
        .collect()
}

/// A line for each name, over a field.
pub fn curves(rows: &[&CacheRow], x: &str, y: &str, name: impl Fn(&CacheRow) -> String) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        let (Some(x), Some(y)) = (number(row, x), number(row, y)) else { continue };
        let (name, point) = (name(row), Point(x, y, None, None));
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => {
                let (tone, marks) = (lines.len(), Marks::Points);
                lines.push(Line { name, tone, marks, points: vec![point], events: Vec::new() });
            }
        }
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        line.points.dedup_by(|a, b| a.0 == b.0);
    }
    lines
}

/// `None` if no line has two points.
pub fn figure_of_lines(id: &str, title: &str, x: Axis, y: &str, lines: Vec<Line>) -> Option<Figure> {
    if lines.iter().all(|line| line.points.len() < 2) {
        return None;
    }
    let mut places: Vec<f64> = lines.iter().flat_map(|line| line.points.iter().map(|p| p.0)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let names = lines.iter().map(|line| (line.name.clone(), Align::Right));
    let mut table = Table::new([(x.name.clone(), Align::Right)].into_iter().chain(names));
    for at in places {
        let cell = |line: &Line| {
            let point = line.points.iter().find(|point| point.0 == at);
            point.map_or_else(Cell::default, |point| Cell::number(point.1, short(point.1)))
        };
        let place = Cell::number(at, short(at));
        table.rows.push([place].into_iter().chain(lines.iter().map(cell)).collect());
    }
    let (id, title, caption, y) = (id.to_owned(), title.to_owned(), String::new(), Axis::linear(y));
    Some(Figure { id, title, caption, chart: Chart::Lines { x, y, lines }, table })
}
