//! The machine that rows were measured on: its islands as a drawing, its core-to-core latencies as
//! a matrix.
//!
//! ```text
//!   socket 0
//!   +-- island 0: 8 cores, L3 32 MiB, 25 ns inside --+  +-- island 1 ...
//!   |  [0][1][2][3][4][5][6][7]                      |  |
//!   +------------------------------------------------+  +---
//! ```

use crate::chart::{Chart, Figure};
use crate::table::{Align, Cell, Table};
use crate::text::{escape, short};
use std::fmt::Write;
use topology::{CpuId, IslandSource, Machine, cpu_list};

/// Up to this many CPUs the table beside the matrix has every pair; above, it has the medians of
/// islands.
const WHOLE_MATRIX: usize = 32;

/// Lengths of the drawing in its own units, which are those of the page at full size.
mod size {
    /// The width of a core, and the gap after it.
    pub const CORE: usize = 34;
    pub const CORE_HEIGHT: usize = 24;
    pub const GAP: usize = 6;
    /// Cores per row of an island.
    pub const COLUMNS: usize = 8;
    /// The space around the content of a box, and above it for the box' name.
    pub const PAD: usize = 12;
    pub const NAME: usize = 38;
    /// The width of the drawing; an island that does not fit begins a new row.
    pub const WIDTH: usize = 980;
    /// The approximate width of a character: a box is at least as wide as its name.
    pub const CHARACTER: usize = 7;
}

/// The machine in one line.
pub fn heading(machine: &Machine) -> String {
    let by = match machine.island_source {
        IslandSource::Latency => "islands found from measured latency",
        IslandSource::Caches => "islands as the caches that the hardware names",
    };
    let apart = match machine.latency.as_ref().filter(|latency| latency.cpus().len() == 2) {
        Some(latency) => format!("; {} ns one way between its two CPUs", short(round(latency.at(0, 1)))),
        None => String::new(),
    };
    let counts = [
        plural(machine.packages(), "socket"),
        plural(machine.islands.len(), "island"),
        plural(machine.cores(), "core"),
        plural(machine.pus.len(), "CPU"),
    ];
    format!("{}; {by}{apart}", counts.join(", "))
}

fn plural(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// One island of one package in the drawing.
struct Box {
    name: String,
    detail: String,
    cores: Vec<Vec<CpuId>>,
}

impl Box {
    fn columns(&self) -> usize {
        self.cores.len().clamp(1, size::COLUMNS)
    }

    fn width(&self) -> usize {
        let cores = self.columns() * (size::CORE + size::GAP) - size::GAP;
        let words = self.name.chars().count().max(self.detail.chars().count()) * size::CHARACTER;
        cores.max(words) + 2 * size::PAD
    }

    fn height(&self) -> usize {
        let rows = self.cores.len().div_ceil(self.columns()).max(1);
        rows * (size::CORE_HEIGHT + size::GAP) - size::GAP + size::NAME + size::PAD
    }
}

/// The islands as an SVG element.
pub fn drawing(machine: &Machine) -> String {
    let mut packages: Vec<u32> = machine.pus.iter().map(|pu| pu.package).collect();
    packages.sort_unstable();
    packages.dedup();
    let mut body = String::new();
    let (mut y, mut right) = (0, 0);
    for package in packages {
        let boxes = boxes_of(machine, package);
        let (svg, width, height) = draw_package(machine, package, &boxes, y);
        body += &svg;
        y += height + size::PAD;
        right = right.max(width);
    }
    let (width, height) = (right + 2, y.saturating_sub(size::PAD) + 2);
    format!(
        "<svg class=\"machine\" role=\"img\" viewBox=\"-1 -1 {width} {height}\" style=\"width:min({width}px,100%)\" \
         xmlns=\"http://www.w3.org/2000/svg\"><title>{}</title>{body}</svg>",
        escape(&format!("{}: {}", machine.model, heading(machine)))
    )
}

fn boxes_of(machine: &Machine, package: u32) -> Vec<Box> {
    let here = |cpu: &CpuId| machine.pu(*cpu).is_some_and(|pu| pu.package == package);
    let of = |(number, island): (usize, &topology::Island)| {
        let cpus: Vec<CpuId> = island.cpus.iter().copied().filter(here).collect();
        (!cpus.is_empty()).then(|| Box {
            name: format!("island {number}"),
            detail: detail(machine, &cpus),
            cores: machine.cores_of(&cpus),
        })
    };
    machine.islands.iter().enumerate().filter_map(of).collect()
}

/// The island's cache, its memory, and the latency between its cores.
fn detail(machine: &Machine, cpus: &[CpuId]) -> String {
    let l3 = machine.l3_bytes(cpus[0]);
    let inside = machine.latency.as_ref().and_then(|l| l.median_between(cpus, cpus));
    let words = [
        l3.map(|bytes| format!("L3 {} MiB", short(bytes as f64 / f64::from(1 << 20)))),
        machine.node_of(cpus).map(|node| format!("node {node}")),
        inside.map(|ns| format!("{} ns inside", short(ns))),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// The package's drawing at `top`, with its width and height.
fn draw_package(machine: &Machine, package: u32, boxes: &[Box], top: usize) -> (String, usize, usize) {
    let name_height = 30;
    let (mut x, mut y, mut row_height, mut right) = (size::PAD, top + name_height, 0, 0);
    let mut body = String::new();
    for island in boxes {
        if x > size::PAD && x + island.width() + size::PAD > size::WIDTH {
            (x, y, row_height) = (size::PAD, y + row_height + size::PAD, 0);
        }
        draw_island(&mut body, machine, island, x, y);
        x += island.width() + size::PAD;
        (row_height, right) = (row_height.max(island.height()), right.max(x));
    }
    let (width, height) = (right.max(120), y + row_height + size::PAD - top);
    let frame = format!(
        "<rect class=\"package\" x=\"0\" y=\"{top}\" width=\"{width}\" height=\"{height}\" rx=\"10\"/>\
         <text class=\"name\" x=\"{}\" y=\"{}\">socket {package}</text>",
        size::PAD,
        top + 20
    );
    (frame + &body, width, height)
}

fn draw_island(out: &mut String, machine: &Machine, island: &Box, x: usize, y: usize) {
    let (width, height) = (island.width(), island.height());
    _ = write!(
        out,
        "<rect class=\"island\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>\
         <text class=\"name\" x=\"{0}\" y=\"{1}\">{2}</text><text class=\"detail\" x=\"{0}\" y=\"{3}\">{4}</text>",
        x + size::PAD,
        y + 16,
        escape(&island.name),
        y + 31,
        escape(&island.detail),
    );
    for (number, siblings) in island.cores.iter().enumerate() {
        let left = x + size::PAD + number % island.columns() * (size::CORE + size::GAP);
        let top = y + size::NAME + number / island.columns() * (size::CORE_HEIGHT + size::GAP);
        let allowed = siblings.iter().any(|cpu| machine.pu(*cpu).is_some_and(|pu| pu.allowed));
        let (class, cpus) = (if allowed { "core" } else { "core closed" }, cpu_list(siblings));
        let label = siblings.first().map(ToString::to_string).unwrap_or_default();
        _ = write!(
            out,
            "<g class=\"{class}\"><title>CPU {cpus}</title><rect x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{}\" rx=\"4\"/>\
             <text x=\"{}\" y=\"{}\">{label}</text></g>",
            size::CORE,
            size::CORE_HEIGHT,
            left + size::CORE / 2,
            top + size::CORE_HEIGHT / 2 + 4,
        );
    }
}

/// The matrix of core-to-core latencies; `None` without latencies, or with so few CPUs that
/// [`heading`] contains all of them.
pub fn matrix(machine: &Machine, number: usize) -> Option<Figure> {
    let latency = machine.latency.as_ref().filter(|l| l.cpus().len() > 2)?;
    let order = by_island(machine, latency.cpus());
    let pairs = (0..order.len()).flat_map(|i| (0..order.len()).map(move |j| (i, j))).filter(|(i, j)| i != j);
    let cells = pairs.map(|(i, j)| (i, j, round(latency.at(order[i], order[j])))).collect();
    let names = order.iter().map(|at| latency.cpus()[*at].to_string()).collect();
    let median =
        latency.median().map_or(String::new(), |ns| format!(" Median over all pairs: {} ns.", short(ns)));
    Some(Figure {
        id: format!("matrix-{number}"),
        title: "Core-to-core latency".into(),
        caption: format!(
            "Nanoseconds one way, between every two CPUs; CPUs of an island stand side by side, so an island is a square.{median}"
        ),
        chart: Chart::Matrix { unit: "ns".into(), names, cells },
        table: if order.len() <= WHOLE_MATRIX { pair_table(latency, &order) } else { island_table(machine) },
    })
}

/// Rounded to a tenth of a nanosecond, which is finer than the clock.
fn round(ns: f64) -> f64 {
    (ns * 10.0).round() / 10.0
}

/// Positions in `cpus`, grouped by island.
fn by_island(machine: &Machine, cpus: &[CpuId]) -> Vec<usize> {
    let island = |cpu: &CpuId| machine.islands.iter().position(|i| i.cpus.contains(cpu));
    let mut order: Vec<usize> = (0..cpus.len()).collect();
    order.sort_by_key(|at| (island(&cpus[*at]), cpus[*at]));
    order
}

fn pair_table(latency: &topology::LatencyMatrix, order: &[usize]) -> Table {
    let name = |at: &usize| format!("CPU {}", latency.cpus()[*at]);
    let head = [("ns".to_string(), Align::Left)].into_iter();
    let mut table = Table::new(head.chain(order.iter().map(|at| (name(at), Align::Right))));
    for row in order {
        let cell = |column: &usize| match latency.at(*row, *column) {
            _ if row == column => Cell::text("–"),
            ns => Cell::number(ns, short(ns)),
        };
        table.rows.push([Cell::text(name(row))].into_iter().chain(order.iter().map(cell)).collect());
    }
    table
}

/// Medians between islands; the diagonal has the medians within islands.
fn island_table(machine: &Machine) -> Table {
    let islands = &machine.islands;
    let head = [("median ns".to_string(), Align::Left)].into_iter();
    let mut table = Table::new(head.chain((0..islands.len()).map(|n| (format!("island {n}"), Align::Right))));
    let between =
        |a: usize, b: usize| machine.latency.as_ref()?.median_between(&islands[a].cpus, &islands[b].cpus);
    for a in 0..islands.len() {
        let cell = |b: usize| between(a, b).map_or(Cell::text("–"), |ns| Cell::number(ns, short(ns)));
        let cells = (0..islands.len()).map(cell);
        table.rows.push([Cell::text(format!("island {a}"))].into_iter().chain(cells).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_core_is_drawn_once_and_inside() {
        let machine = Machine::parse("package:2 l3:3 core:10 pu:2").unwrap();
        let svg = drawing(&machine);
        assert_eq!(svg.matches("class=\"core\"").count(), 60);
        assert_eq!(
            (svg.matches("class=\"package\"").count(), svg.matches("class=\"island\"").count()),
            (2, 6)
        );
        let view: Vec<i64> = svg
            .split("viewBox=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap()
            .split(' ')
            .map(|n| n.parse().unwrap())
            .collect();
        let number = |rect: &str, name: &str| -> i64 {
            rect.split(&format!(" {name}=\"")).nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
        };
        for rect in svg.split("<rect").skip(1) {
            assert!(number(rect, "x") + number(rect, "width") <= view[2], "{rect}");
            assert!(number(rect, "y") + number(rect, "height") <= view[3], "{rect}");
        }
    }

    #[test]
    fn a_matrix_has_every_pair_both_ways() {
        let path = format!("{}/../../machines/amd-ryzen-9-5950x.csv", env!("CARGO_MANIFEST_DIR"));
        let machine = Machine::parse(&path).unwrap();
        let figure = matrix(&machine, 0).unwrap();
        let Chart::Matrix { names, cells, .. } = &figure.chart else { panic!("a matrix") };
        assert_eq!(cells.len(), names.len() * (names.len() - 1));
        assert!(matrix(&Machine::parse("core:4").unwrap(), 0).is_none());
        let two = topology::LatencyMatrix::new(vec![CpuId(0), CpuId(1)], vec![44.04]).unwrap();
        let machine = Machine::parse("core:2").unwrap().with_latency(two);
        assert!(matrix(&machine, 0).is_none(), "one number is no picture");
        assert!(
            heading(&machine).ends_with("; 44.0 ns one way between its two CPUs"),
            "{}",
            heading(&machine)
        );
    }
}
