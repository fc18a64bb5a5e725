//! Latency: quantiles of each row and, if it has a histogram, the whole tail.

use super::{BARS, Curves, Section, curves, portion_title, portions, titled};
use crate::chart::{Axis, Chart, Figure, Line, Marks, Name, Point, Quantiles};
use crate::rows::Row;
use crate::sweep::{Panel, Sweep};
use crate::table::{Align, Cell, Table};
use crate::text::short;
use driver::LatencyUs;

/// The quantiles in the columns of a table and on the axis.
const MARKS: [&str; 5] = ["p50", "p95", "p99", "p99.9", "max"];

pub fn section(rows: &[Row], sweep: &Sweep) -> Section {
    let panels = sweep.panels();
    let mut figures = Vec::new();
    for (number, panel) in panels.iter().enumerate() {
        figures.extend(quantile_figures(rows, sweep, panel, number));
        figures.extend(tails(rows, sweep, panel, number));
        figures.extend(by_kind(rows, sweep, panel, number));
    }
    Section {
        id: "latency",
        title: "Latency",
        words: "From a client's request to the durable end of its transaction, on a logarithmic axis.",
        figures,
    }
}

fn quantile_figures(rows: &[Row], sweep: &Sweep, panel: &Panel, number: usize) -> Vec<Figure> {
    let portions = portions(panel, |r| rows[r].row.latency_us.is_some(), BARS);
    let figure = |(at, portion): (usize, &Vec<usize>)| {
        let of: Vec<(Name, LatencyUs)> =
            portion.iter().filter_map(|r| Some((sweep.name(*r), rows[*r].row.latency_us?))).collect();
        let title = portion_title(&titled("Quantiles of latency", panel), at, portions.len());
        quantiles(format!("latency-{number}-{at}"), title, "From the median to the slowest request seen.", of)
    };
    portions.iter().enumerate().map(figure).collect()
}

fn by_kind(rows: &[Row], sweep: &Sweep, panel: &Panel, number: usize) -> Vec<Figure> {
    let kinds = |r: usize| rows[r].row.latency_us_by_kind.len();
    let most = panel.rows().map(kinds).max().unwrap_or(0).max(1);
    let portions = portions(panel, |r| kinds(r) > 1, (BARS / most).max(1));
    let figure = |(at, portion): (usize, &Vec<usize>)| {
        let named = |r: &usize| {
            let group = sweep.name(*r).to_string();
            let of = rows[*r].row.latency_us_by_kind.iter();
            of.map(move |(kind, l)| (Name { group: group.clone(), place: kind.clone() }, *l))
        };
        let title = portion_title(&titled("Latency by type of transaction", panel), at, portions.len());
        let words = "Each type of transaction of the mix on its own.";
        quantiles(format!("kinds-{number}-{at}"), title, words, portion.iter().flat_map(named).collect())
    };
    portions.iter().enumerate().map(figure).collect()
}

fn marks(l: &LatencyUs) -> [(&'static str, Option<f64>); 5] {
    let values = [Some(l.p50), l.p95, Some(l.p99), l.p999, l.max];
    std::array::from_fn(|i| (MARKS[i], values[i].filter(|v| v.is_finite())))
}

fn quantiles(id: String, title: String, caption: &str, of: Vec<(Name, LatencyUs)>) -> Figure {
    let head = [(String::new(), Align::Left)].into_iter();
    let mut table = Table::new(head.chain(MARKS.map(|m| (format!("{m} µs"), Align::Right))));
    for (name, latency) in &of {
        let cells = marks(latency).map(|(_, v)| v.map_or(Cell::text("–"), |v| Cell::number(v, short(v))));
        table.rows.push([Cell::text(name.to_string())].into_iter().chain(cells).collect());
    }
    let positive = |l: &LatencyUs| -> Vec<(&'static str, f64)> {
        marks(l).into_iter().filter_map(|(name, v)| Some((name, v.filter(|v| *v > 0.0)?))).collect()
    };
    let rows = of.iter().map(|(name, l)| Quantiles { name: name.clone(), marks: positive(l) }).collect();
    let chart = Chart::Quantiles { x: Axis::logarithmic("latency (µs)"), rows };
    Figure { id, title, caption: caption.into(), chart, table }
}

/// The share of requests that took longer than a given time: the tail, which a mean does not show.
fn tails(rows: &[Row], sweep: &Sweep, panel: &Panel, number: usize) -> Vec<Figure> {
    let all = curves(panel, sweep, |r| !tail(&rows[r].row.latency_histogram).is_empty());
    let figure = |(at, shown): (usize, &Curves)| {
        let line = |(r, tone): (&usize, usize)| Line {
            name: shown.name(sweep, *r),
            tone,
            marks: Marks::Plain,
            points: tail(&rows[*r].row.latency_histogram),
            events: Vec::new(),
        };
        let lines: Vec<Line> = shown.rows.iter().zip(sweep.tones(&shown.rows)).map(line).collect();
        Figure {
            id: format!("tail-{number}-{at}"),
            title: shown.title("Distribution of latency", panel),
            caption: format!(
                "For each latency, the share of requests that took longer; both axes logarithmic.{}",
                shown.remark()
            ),
            table: tail_table(&lines),
            chart: Chart::Lines {
                x: Axis::logarithmic("latency (µs)"),
                y: Axis::logarithmic("requests that took longer (%)"),
                lines,
            },
        }
    };
    all.iter().enumerate().map(figure).collect()
}

/// Points (µs, per cent of requests that took longer); the last bucket is omitted, because its 0
/// has no logarithm.
fn tail(histogram: &[(f64, u64)]) -> Vec<Point> {
    let whole: f64 = histogram.iter().map(|(_, n)| *n as f64).sum();
    let mut above = whole;
    let mut points = Vec::new();
    for (upper, n) in histogram.iter().filter(|(upper, _)| *upper > 0.0 && upper.is_finite()) {
        above -= *n as f64;
        if above > 0.0 {
            points.push(Point(*upper, above / whole * 100.0, None, None));
        }
    }
    points
}

fn tail_table(lines: &[Line]) -> Table {
    let right = |name: &str| (name.to_string(), Align::Right);
    let mut table = Table::new([(String::new(), Align::Left), right("µs"), right("longer, %")]);
    for line in lines {
        for Point(us, share, ..) in &line.points {
            table.rows.push(vec![
                Cell::text(&line.name),
                Cell::number(*us, short(*us)),
                Cell::number(*share, short(*share)),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_falls_from_all_to_nearly_none() {
        let points = tail(&[(1.0, 90), (2.0, 9), (4.0, 0), (8.0, 1)]);
        let shares: Vec<f64> = points.iter().map(|p| p.1).collect();
        assert_eq!(shares, [10.0, 1.0, 1.0]);
        assert!(tail(&[(5.0, 3)]).is_empty() && tail(&[]).is_empty());
    }
}
