//! Charts as values, in terms of the measured quantities. `assets/report.js` decides how they look.
//!
//! Every number is finite: a value that was not measured is absent.

use crate::table::Table;
use serde::Serialize;

/// A chart, and the table with the same content.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figure {
    /// The id of the page's element; unique on the page.
    pub id: String,
    pub title: String,
    /// The caption: how to read the chart, and the meaning of its marks.
    #[serde(skip)]
    pub caption: String,
    pub chart: Chart,
    #[serde(skip)]
    pub table: Table,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Chart {
    /// Curves over numbers.
    Lines { x: Axis, y: Axis, lines: Vec<Line> },
    /// Few places on the axis, with a bar for each line at each place.
    Bars { x: Axis, y: Axis, places: Vec<String>, bars: Vec<Bars> },
    /// A bar for each row, divided into parts; several views divide it differently, and one is
    /// shown at a time.
    Stacked { bars: Vec<Name>, views: Vec<View> },
    /// Quantiles of each row on one logarithmic axis.
    Quantiles { x: Axis, rows: Vec<Quantiles> },
    /// The winner at each point of two axes; rows from bottom to top.
    Map {
        x: String,
        y: String,
        columns: Vec<String>,
        rows: Vec<String>,
        winners: Vec<String>,
        cells: Vec<MapCell>,
    },
    /// Distances between CPUs.
    Matrix { unit: String, names: Vec<String>, cells: Vec<(usize, usize, f64)> },
}

/// The point of a map in a column and a row.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MapCell {
    pub column: usize,
    pub row: usize,
    /// The number of its winner.
    pub winner: usize,
    /// The text in the cell, of a few characters.
    pub label: String,
    /// The text beside the pointer on the cell.
    pub detail: String,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Axis {
    pub name: String,
    pub scale: Scale,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    Linear,
    Logarithmic,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Line {
    pub name: String,
    /// The number of its look: see [`crate::sweep::Sweep::tones`].
    pub tone: usize,
    pub marks: Marks,
    pub points: Vec<Point>,
    /// Events during the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
}

/// A place on the axis, and the event there.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Event {
    pub at: f64,
    pub what: String,
}

/// Whether the single points of a line are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Marks {
    Points,
    Plain,
}

/// Place, value, and the least and greatest repetition; the value is the median.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Point(pub f64, pub f64, pub Option<f64>, pub Option<f64>);

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Bars {
    pub name: String,
    /// The number of its look, as for a line.
    pub tone: usize,
    /// Value, least and greatest, for each place.
    pub values: Vec<Option<(f64, f64, f64)>>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct View {
    /// The text of the button that selects it.
    pub name: String,
    /// The unit of the axis.
    pub unit: String,
    pub parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Part {
    /// A name has the same colour in every chart.
    pub name: String,
    /// One value per bar.
    pub values: Vec<f64>,
}

/// A row's name beside other rows of its chart: its line, and its place on the axis. Either may be
/// empty.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Name {
    pub group: String,
    pub place: String,
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.group.is_empty(), self.place.is_empty()) {
            (true, true) => f.write_str("all"),
            (false, false) => write!(f, "{} · {}", self.group, self.place),
            _ => write!(f, "{}{}", self.group, self.place),
        }
    }
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Quantiles {
    pub name: Name,
    /// The measured ones of p50, p95, p99, p99.9 and max, in this order, in µs.
    pub marks: Vec<(&'static str, f64)>,
}

impl Axis {
    pub fn linear(name: impl Into<String>) -> Axis {
        Axis { name: name.into(), scale: Scale::Linear }
    }

    pub fn logarithmic(name: impl Into<String>) -> Axis {
        Axis { name: name.into(), scale: Scale::Logarithmic }
    }

    /// A logarithmic axis if values are positive and span orders of magnitude, else a linear one.
    pub fn fitting(name: impl Into<String>, values: impl Iterator<Item = f64>) -> Axis {
        let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(lo, hi), v| (lo.min(v), hi.max(v)));
        if least > 0.0 && most / least > 99.0 { Axis::logarithmic(name) } else { Axis::linear(name) }
    }
}
