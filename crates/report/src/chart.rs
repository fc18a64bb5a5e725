//! Charts as values: what is drawn, in the terms of what is measured. How it looks is up to `assets/report.js`.
//!
//! Every number is finite: what was not measured is absent.

use crate::table::Table;
use serde::Serialize;

/// A chart, and the table that says the same.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figure {
    /// Names the element of the page; unique on it.
    pub id: String,
    pub title: String,
    /// What to look at, and what the marks mean.
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
    /// A bar for each line at each of few places.
    Bars { x: Axis, y: Axis, places: Vec<String>, bars: Vec<Bars> },
    /// A bar a row, of parts; one of several ways to divide it is shown at a time.
    Stacked { bars: Vec<Name>, views: Vec<View> },
    /// Quantiles of each row on one logarithmic axis.
    Quantiles { x: Axis, rows: Vec<Quantiles> },
    /// Distances between CPUs.
    Matrix { unit: String, names: Vec<String>, cells: Vec<(usize, usize, f64)> },
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
    /// Which look it has: see [`crate::sweep::Sweep::tones`].
    pub tone: usize,
    pub marks: Marks,
    pub points: Vec<Point>,
    /// What happened on the way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
}

/// A place on the axis where something happened, and what.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Event {
    pub at: f64,
    pub what: String,
}

/// Whether the points themselves are worth seeing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Marks {
    Points,
    Plain,
}

/// Place, value, and the least and greatest of what the value is the middle of.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Point(pub f64, pub f64, pub Option<f64>, pub Option<f64>);

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Bars {
    pub name: String,
    /// As that of a line.
    pub tone: usize,
    /// Value, least, greatest, for each place.
    pub values: Vec<Option<(f64, f64, f64)>>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct View {
    /// On the button that shows it.
    pub name: String,
    /// Of the axis.
    pub unit: String,
    pub parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Part {
    /// The same name has the same colour wherever it appears.
    pub name: String,
    /// One a bar.
    pub values: Vec<f64>,
}

/// What a row is called beside others of its chart: which line it is of, and where on the axis. Either may be empty.
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
    /// What was measured of p50, p95, p99, p99.9 and max, in this order, µs.
    pub marks: Vec<(&'static str, f64)>,
}

impl Axis {
    pub fn linear(name: impl Into<String>) -> Axis {
        Axis { name: name.into(), scale: Scale::Linear }
    }

    pub fn logarithmic(name: impl Into<String>) -> Axis {
        Axis { name: name.into(), scale: Scale::Logarithmic }
    }

    /// Logarithmic where values are positive and spread over orders of magnitude.
    pub fn fitting(name: impl Into<String>, values: impl Iterator<Item = f64>) -> Axis {
        let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(lo, hi), v| (lo.min(v), hi.max(v)));
        if least > 0.0 && most / least > 99.0 { Axis::logarithmic(name) } else { Axis::linear(name) }
    }
}
