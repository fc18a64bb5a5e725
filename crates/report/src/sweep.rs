//! Finds the settings in which rows differ, and assigns each to the axis, to a line of its own, or
//! to a chart of its own.
//!
//! ```text
//!   settings of all rows
//!     -> those with more than one value
//!     -> minus those that follow from more significant ones (workers of `serial` follow from its
//!        islands); a swept setting always stays
//!     -> one for the axis: numeric, and of the request rather than of the deployment
//!        other settings of requests: a chart each
//!        settings of deployments: a line each, at most LINES to a chart
//! ```
//!
//! Any setting of a row can be swept, those of a single workload included: there is no list of
//! them. The lists below only order settings, and give some of them a readable name.

use crate::chart::Name;
use crate::rows::Row;
use driver::EngineColumns;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The side of the experiment that a setting belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The transactions.
    Request,
    /// The system that they run on.
    Deployment,
}

/// A setting in which the rows differ. Invariant: there is a value for every row.
#[derive(Clone, PartialEq, Debug)]
pub struct Dimension {
    /// The name in the rows.
    pub key: String,
    pub role: Role,
    /// A value for each row; `None` if the row does not have the setting.
    pub values: Vec<Option<String>>,
}

/// Settings of deployments, the most significant first; any other setting belongs to the request.
const DEPLOYMENT: &[&str] = &[
    "design",
    "islands",
    "hosts",
    "channel",
    "placement",
    "protection",
    "counters",
    "peers",
    "waiting",
    "durability",
    "tables",
    "sli",
    "escalation",
    "schedule",
    "occ_conflict",
    "occ_reads",
    "occ_ahead",
    "balance",
    "tree",
    "heap",
    "latching",
    "partitions",
    "host",
    "workers",
    "clients",
    "memory_mib",
    "populated",
    "retry_limit",
    "backoff_us",
    "run",
    "repetition",
];

/// The significance of a setting of deployments, the most significant first; `None` for a setting
/// of requests. An option of the engine that the list does not name comes after those that it
/// names.
fn significance(key: &str) -> Option<usize> {
    let place = |key: &str| DEPLOYMENT.iter().position(|known| *known == key);
    place(key).or_else(|| place("partitions").filter(|_| EngineColumns::names().contains(&key)))
}

/// The settings that name a request first; the others follow.
const REQUEST: &[&str] = &["workload", "op"];

/// The preferred settings for the axis; any other numeric setting comes after these.
const AXES: &[&str] = &[
    "multisite",
    "rate",
    "skew",
    "rows",
    "clients",
    "terminals",
    "dataset",
    "scale",
    "memory_mib",
    "message_bytes",
];

/// Designs from the one that shares most to the one that shares least: lines are in this order, for
/// any order of rows.
const DESIGNS: &[&str] =
    &["conventional", "logical", "plp-regular", "plp-partition", "plp-leaf", "serial", "occ"];

/// The settings that are dropped first when one follows from another, in this order.
const MINOR: &[&str] = &["seed", "memory_mib", "sites", "workers", "load_model", "host", "scale", "dataset"];

/// Settings that may follow from settings of either role: a seed is no request, and the page memory
/// follows from the data.
const FOLLOWERS: &[&str] = &["seed", "memory_mib", "sites"];

/// The most lines that a reader can distinguish in one chart.
pub const LINES: usize = 8;

/// The differences between rows, and the use of each.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// All of them, requests first.
    pub dimensions: Vec<Dimension>,
    /// Index of the dimension on the horizontal axis.
    axis: Option<usize>,
    /// Indices of the dimensions with a chart for each value.
    facets: Vec<usize>,
    /// Indices of the dimensions with a line for each value.
    lines: Vec<usize>,
}

/// Rows that share a chart.
#[derive(Clone, PartialEq, Debug)]
pub struct Panel {
    /// The values that these rows share and other panels do not.
    pub name: String,
    /// Indices of rows by the name of their line, in order of the axis.
    pub lines: Vec<(String, Vec<usize>)>,
}

impl Panel {
    /// All rows, line by line.
    pub fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        self.lines.iter().flat_map(|(_, rows)| rows.iter().copied())
    }
}

impl Sweep {
    pub fn of(rows: &[Row]) -> Sweep {
        let mut dimensions = differing(rows);
        drop_followers(&mut dimensions, rows);
        number_what_is_equal(&mut dimensions, rows);
        dimensions.sort_by_key(|d| {
            let rank = if d.role == Role::Deployment {
                significance(&d.key).unwrap_or(DEPLOYMENT.len())
            } else {
                rank(REQUEST, &d.key)
            };
            (d.role == Role::Deployment, rank)
        });
        let axis = choose_axis(&dimensions);
        let (mut facets, mut lines): (Vec<usize>, Vec<usize>) = (0..dimensions.len())
            .filter(|d| Some(*d) != axis)
            .partition(|d| dimensions[*d].role == Role::Request);
        let sweep = |facets: &[usize], lines: &[usize]| Sweep {
            dimensions: dimensions.clone(),
            axis,
            facets: facets.to_vec(),
            lines: lines.to_vec(),
        };
        // With too many lines for one chart, the least significant differences get charts of their
        // own, as long as that helps.
        while lines.len() > 1 && sweep(&facets, &lines).panels().iter().any(|p| p.lines.len() > LINES) {
            facets.extend(lines.pop());
        }
        sweep(&facets, &lines)
    }

    /// The setting on the horizontal axis, with at least two numbers.
    pub fn axis(&self) -> Option<&Dimension> {
        self.axis.map(|d| &self.dimensions[d])
    }

    /// The same sweep for each other setting that fits the axis.
    pub fn other_axes(&self) -> Vec<Sweep> {
        let candidates = (0..self.dimensions.len()).filter(|d| {
            Some(*d) != self.axis && self.dimensions[*d].is_numeric() && AXIS_LESS(&self.dimensions[*d].key)
        });
        candidates.map(|d| self.turned(d)).collect()
    }

    /// The same sweep with another setting on the axis; the previous one gets lines or charts.
    fn turned(&self, axis: usize) -> Sweep {
        let mut turned = self.clone();
        turned.facets.retain(|d| *d != axis);
        turned.lines.retain(|d| *d != axis);
        turned.axis = Some(axis);
        let Some(old) = self.axis else { return turned };
        turned.lines.insert(0, old);
        if turned.panels().iter().any(|p| p.lines.len() > LINES) {
            turned.lines.remove(0);
            turned.facets.push(old);
        }
        turned
    }

    /// The row's value on the axis, if it has one.
    pub fn at(&self, row: usize) -> Option<f64> {
        self.axis()?.number(row)
    }

    /// The rows by chart and line, both in order of first appearance, except that lines are ordered
    /// by design first; within a line, the rows are ordered by the axis.
    pub fn panels(&self) -> Vec<Panel> {
        let count = self.dimensions.first().map_or(1, |d| d.values.len());
        let mut panels: Vec<Panel> = Vec::new();
        for row in 0..count {
            let (name, line) = (self.words(&self.facets, row), self.words(&self.lines, row));
            let panel =
                position(&mut panels, |p| p.name == name, || Panel { name: name.clone(), lines: vec![] });
            let line = position(&mut panel.lines, |l| l.0 == line, || (line.clone(), vec![]));
            line.1.push(row);
        }
        for panel in &mut panels {
            panel.lines.sort_by_key(|(_, rows)| self.design_rank(rows[0]));
        }
        for (_, rows) in panels.iter_mut().flat_map(|p| &mut p.lines) {
            rows.sort_by(|a, b| self.at(*a).partial_cmp(&self.at(*b)).unwrap_or(std::cmp::Ordering::Equal));
        }
        panels
    }

    /// The numbers of the looks of these rows in one chart. A deployment has the same look in every
    /// chart of the page, as long as there are no more deployments than looks, and each
    /// deployment occurs once in the chart.
    pub fn tones(&self, rows: &[usize]) -> Vec<usize> {
        let names = self.line_names();
        let line = |row: &usize| names.iter().position(|name| *name == self.words(&self.lines, *row));
        let tones: Option<Vec<usize>> = rows.iter().map(line).collect();
        let each_once = |tones: &Vec<usize>| tones.iter().collect::<BTreeSet<_>>().len() == tones.len();
        tones.filter(|t| names.len() <= LINES && each_once(t)).unwrap_or_else(|| (0..rows.len()).collect())
    }

    /// The names of lines in all charts, by design and then in order of first appearance.
    fn line_names(&self) -> Vec<String> {
        let count = self.dimensions.first().map_or(1, |d| d.values.len());
        let mut names: Vec<(usize, String)> = Vec::new();
        for row in 0..count {
            let name = self.words(&self.lines, row);
            if names.iter().all(|(_, known)| *known != name) {
                names.push((self.design_rank(row), name));
            }
        }
        names.sort_by_key(|(rank, _)| *rank);
        names.into_iter().map(|(_, name)| name).collect()
    }

    /// The design's rank; 0 if no line has a design.
    fn design_rank(&self, row: usize) -> usize {
        let design = self.lines.iter().map(|d| &self.dimensions[*d]).find(|d| d.key == "design");
        design.and_then(|d| d.values[row].as_deref()).map_or(0, |design| rank(DESIGNS, design))
    }

    /// The name of a row within its panel.
    pub fn name(&self, row: usize) -> Name {
        let place = self.axis().and_then(|d| Some(phrase(&d.key, d.values[row].as_deref()?)));
        Name { group: self.words(&self.lines, row), place: place.unwrap_or_default() }
    }

    /// The row's request, as far as rows differ in it.
    pub fn request(&self, row: usize) -> String {
        self.words(&self.with_role(Role::Request), row)
    }

    /// The row's deployment, as far as rows differ in it.
    pub fn deployment(&self, row: usize) -> String {
        self.words(&self.with_role(Role::Deployment), row)
    }

    /// The row's deployment without these settings.
    pub(crate) fn deployment_less(&self, row: usize, without: &[&str]) -> String {
        let mut of = self.with_role(Role::Deployment);
        of.retain(|d| !without.contains(&self.dimensions[*d].key.as_str()));
        self.words(&of, row)
    }

    fn with_role(&self, role: Role) -> Vec<usize> {
        (0..self.dimensions.len()).filter(|d| self.dimensions[*d].role == role).collect()
    }

    fn words(&self, of: &[usize], row: usize) -> String {
        let word = |d: &usize| {
            let d = &self.dimensions[*d];
            Some(phrase(&d.key, d.values[row].as_deref()?))
        };
        of.iter().filter_map(word).collect::<Vec<_>>().join(", ")
    }
}

/// The name of a workload is no axis, nor is a number that only identifies rows.
const AXIS_LESS: fn(&str) -> bool = |key| !matches!(key, "seed" | "repetition" | "run" | "workload");

impl Dimension {
    fn is_numeric(&self) -> bool {
        let known: Vec<&String> = self.values.iter().flatten().collect();
        let distinct: BTreeSet<&String> = known.iter().copied().collect();
        distinct.len() > 1 && known.iter().all(|v| v.parse::<f64>().is_ok_and(f64::is_finite))
    }

    fn number(&self, row: usize) -> Option<f64> {
        self.values[row].as_deref()?.parse().ok()
    }

    fn distinct(&self) -> usize {
        self.values.iter().collect::<BTreeSet<_>>().len()
    }
}

fn position<T>(all: &mut Vec<T>, is: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> &mut T {
    let at = all.iter().position(is).unwrap_or_else(|| {
        all.push(make());
        all.len() - 1
    });
    &mut all[at]
}

fn rank(list: &[&str], key: &str) -> usize {
    list.iter().position(|k| *k == key).unwrap_or(list.len())
}

/// Prefers a setting with three values, which make a curve; without one, two values are enough.
fn choose_axis(dimensions: &[Dimension]) -> Option<usize> {
    let mut candidates: Vec<usize> = (0..dimensions.len())
        .filter(|d| dimensions[*d].is_numeric() && AXIS_LESS(&dimensions[*d].key))
        .collect();
    candidates.sort_by_key(|d| {
        let d = &dimensions[*d];
        (d.distinct() < 3, d.key == "islands" || d.key == "workers", rank(AXES, &d.key))
    });
    candidates.first().copied()
}

/// The settings of a row, with those of its workload among them.
pub(crate) fn settings(row: &Row) -> BTreeMap<String, String> {
    // Cannot fail: a row that was read can be written.
    let Ok(Value::Object(mut all)) = serde_json::to_value(&row.row.settings) else { return BTreeMap::new() };
    let own = match all.remove("options") {
        Some(Value::Object(own)) => own,
        _ => Map::new(),
    };
    let plain = |value: Value| match value {
        Value::String(text) => text,
        // 20.0 becomes 20, as a user types it.
        Value::Number(n) => n.as_f64().map_or_else(|| n.to_string(), |f| f.to_string()),
        other => other.to_string(),
    };
    all.into_iter().chain(own).map(|(key, value)| (key, plain(value))).collect()
}

fn differing(rows: &[Row]) -> Vec<Dimension> {
    let all: Vec<BTreeMap<String, String>> = rows.iter().map(settings).collect();
    let keys: BTreeSet<&String> = all.iter().flat_map(BTreeMap::keys).collect();
    let dimension = |key: &&String| {
        let role = if significance(key).is_some() { Role::Deployment } else { Role::Request };
        Dimension { key: key.to_string(), role, values: all.iter().map(|s| s.get(*key).cloned()).collect() }
    };
    keys.iter().map(dimension).filter(|d| d.distinct() > 1).collect()
}

/// Removes settings that follow from more significant ones of the same role. The least significant
/// are removed first, so that among settings that follow from each other the most significant one
/// stays. A request never follows from a deployment: rows of different requests must not be
/// compared, however they were deployed. A setting that was swept on a command line always stays.
fn drop_followers(dimensions: &mut Vec<Dimension>, rows: &[Row]) {
    let swept = swept_options(rows);
    let is_fixed = |key: &str| key == "workload" || swept.contains(&option_of(key));
    let mut order: Vec<String> =
        dimensions.iter().map(|d| d.key.clone()).filter(|key| !is_fixed(key)).collect();
    order.sort_by_key(|key| std::cmp::Reverse(telling(key)));
    for key in order {
        let Some(at) = dimensions.iter().position(|d| d.key == key) else { continue };
        let role = dimensions[at].role;
        let explains = |d: &&Dimension| d.key != key && (d.role == role || FOLLOWERS.contains(&key.as_str()));
        let mut seen: BTreeMap<Vec<Option<&String>>, Option<&String>> = BTreeMap::new();
        let follows = (0..rows.len()).all(|row| {
            let others = dimensions.iter().filter(explains).map(|d| d.values[row].as_ref()).collect();
            let value = dimensions[at].values[row].as_ref();
            *seen.entry(others).or_insert(value) == value
        });
        if follows {
            dimensions.remove(at);
        }
    }
}

/// The insignificance of a setting: the greatest goes first.
fn telling(key: &str) -> (usize, usize) {
    // Options of one workload are less significant than those of all workloads; the lists above
    // begin with the most significant.
    match (MINOR.iter().position(|k| *k == key), significance(key)) {
        (Some(at), _) => (2, MINOR.len() - at),
        (None, Some(at)) => (0, at),
        (None, None) if REQUEST.contains(&key) => (0, rank(REQUEST, key)),
        (None, None) if AXES.contains(&key) => (0, REQUEST.len() + rank(AXES, key)),
        (None, None) => (1, 0),
    }
}

/// The option that sets a setting, without its dashes.
fn option_of(key: &str) -> String {
    match key {
        "memory_mib" => "memory".into(),
        "retry_limit" => "retries".into(),
        "backoff_us" => "backoff".into(),
        _ => key.replace('_', "-"),
    }
}

/// Options that were given more than one value, in a list or in several commands.
fn swept_options(rows: &[Row]) -> BTreeSet<String> {
    let commands: BTreeSet<&str> = rows.iter().map(|r| r.row.command.as_str()).collect();
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for words in commands.into_iter().filter_map(shlex::split) {
        for (at, word) in words.iter().enumerate() {
            let Some(option) = word.strip_prefix("--") else { continue };
            let (option, text) = match option.split_once('=') {
                Some((option, text)) => (option, text.to_string()),
                None => (option, words.get(at + 1).cloned().unwrap_or_default()),
            };
            texts.entry(option.into()).or_default().insert(text);
        }
    }
    let is_swept = |texts: &BTreeSet<String>| texts.len() > 1 || texts.iter().any(|text| text.contains(','));
    texts.into_iter().filter(|(_, texts)| is_swept(texts)).map(|(option, _)| option).collect()
}

/// Distinguishes rows with equal settings by their source or, if that is equal too, by their
/// number.
fn number_what_is_equal(dimensions: &mut Vec<Dimension>, rows: &[Row]) {
    let key = |dimensions: &[Dimension], row: usize| -> Vec<Option<String>> {
        dimensions.iter().map(|d| d.values[row].clone()).collect()
    };
    let unique = |dimensions: &[Dimension]| {
        (0..rows.len()).map(|row| key(dimensions, row)).collect::<BTreeSet<_>>().len() == rows.len()
    };
    if unique(dimensions) {
        return;
    }
    let run = Dimension {
        key: "run".into(),
        role: Role::Deployment,
        values: rows.iter().map(|r| Some(r.source.clone())).collect(),
    };
    if run.distinct() > 1 {
        dimensions.push(run);
    }
    if unique(dimensions) {
        return;
    }
    let mut seen: BTreeMap<Vec<Option<String>>, usize> = BTreeMap::new();
    let values = (0..rows.len()).map(|row| {
        let n = seen.entry(key(dimensions, row)).or_default();
        *n += 1;
        Some(n.to_string())
    });
    let values = values.collect();
    dimensions.push(Dimension { key: "repetition".into(), role: Role::Deployment, values });
}

/// A setting's value in a few words.
pub fn phrase(key: &str, value: &str) -> String {
    match key {
        "workload" | "design" | "op" | "channel" | "placement" | "protection" | "host" | "durability"
        | "run" => value.into(),
        "multisite" => format!("{value} % multisite"),
        "islands" => format!("{value} {}", if value == "1" { "island" } else { "islands" }),
        "rows" => format!("{value} rows"),
        "workers" => format!("{value} workers"),
        "clients" => format!("{value} clients"),
        "repetition" => format!("#{value}"),
        "memory_mib" => format!("{value} MiB"),
        "message_bytes" => format!("{value} bytes"),
        _ => format!("{} {value}", key.replace('_', " ")),
    }
}

/// A setting as the name of an axis.
pub fn axis_name(key: &str) -> String {
    match key {
        "multisite" => "multisite transactions (%)".into(),
        "rows" => "rows per transaction".into(),
        "skew" => "skew (Zipf exponent)".into(),
        "clients" => "clients per worker".into(),
        "rate" => "offered load (transactions/s)".into(),
        "dataset" => "rows of the table".into(),
        "memory_mib" => "page memory (MiB)".into(),
        "message_bytes" => "message (bytes)".into(),
        _ => key.replace('_', " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driver::{Labels, ResultRow, Settings};

    fn row(design: &str, islands: u16, op: &str, multisite: f64) -> Row {
        let labels = Labels { op: Some(op.into()), multisite: Some(multisite), ..Labels::default() };
        let settings = Settings {
            workload: "micro".into(),
            design: Some(design.into()),
            islands: Some(islands),
            workers: Some(if design == "serial" { usize::from(islands) } else { 2 }),
            memory_mib: Some(f64::from(islands) * 10.0),
            labels,
            ..Settings::default()
        };
        let row = ResultRow { settings, ..ResultRow::default() };
        Row { json: serde_json::to_value(&row).unwrap(), row, source: "a".into() }
    }

    fn grid() -> Vec<Row> {
        let mut rows = Vec::new();
        for design in ["conventional", "serial"] {
            for islands in [1, 2] {
                for op in ["read", "update"] {
                    rows.extend([100.0, 0.0, 20.0].map(|m| row(design, islands, op, m)));
                }
            }
        }
        rows
    }

    #[test]
    fn a_sweep_is_found_from_its_rows() {
        let rows = grid();
        let sweep = Sweep::of(&rows);
        assert_eq!(keys(&sweep), ["op", "multisite", "design", "islands"], "workers and memory follow");
        assert_eq!(sweep.axis().unwrap().key, "multisite");
        let panels = sweep.panels();
        assert_eq!(panels.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["read", "update"]);
        assert_eq!(panels[0].lines.len(), 4);
        let (name, line) = &panels[1].lines[3];
        assert_eq!(name, "serial, 2 islands");
        assert_eq!(line.iter().map(|r| sweep.at(*r).unwrap()).collect::<Vec<_>>(), [0.0, 20.0, 100.0]);
        assert_eq!(sweep.name(line[2]).to_string(), "serial, 2 islands · 100 % multisite");
        assert_eq!(sweep.request(line[2]), "update, 100 % multisite");
        assert_eq!(sweep.deployment(line[2]), "serial, 2 islands");
    }

    /// A row as `bench` writes it: with every setting that a design implies.
    fn full_row(design: &str) -> Row {
        let mut row = row(design, 1, "read", 0.0);
        let paged = design != "occ";
        let s = &mut row.row.settings;
        for (column, value, is_there) in [
            ("tree", "btree", paged),
            ("heap", "shared", paged),
            ("latching", "optimistic", paged && design != "serial"),
            ("balance", "off", design == "serial"),
            ("occ_reads", "validate", !paged),
        ] {
            if is_there {
                s.engine.set(column, value);
            }
        }
        s.memory_mib = Some(if paged { 10.0 } else { 4000.0 });
        row
    }

    fn keys(sweep: &Sweep) -> Vec<&str> {
        sweep.dimensions.iter().map(|d| d.key.as_str()).collect()
    }

    #[test]
    fn the_design_is_named_where_everything_else_follows_from_it_and_it_from_everything_else() {
        let rows: Vec<Row> = ["conventional", "serial", "occ"].map(full_row).into();
        let sweep = Sweep::of(&rows);
        assert_eq!(keys(&sweep), ["design"]);
        for (row, design) in ["conventional", "serial", "occ"].into_iter().enumerate() {
            assert_eq!((sweep.deployment(row).as_str(), sweep.name(row).group.as_str()), (design, design));
        }
    }

    #[test]
    fn whichever_settings_follow_from_each_other_one_is_named() {
        type Set = fn(&mut Settings, usize);
        let all: &[(&str, Set)] = &[
            ("sli", |s, n| s.engine.set("sli", n.to_string())),
            ("channel", |s, n| s.channel = Some(n.to_string())),
            ("tables", |s, n| s.engine.set("tables", n.to_string())),
            ("workers", |s, n| s.workers = Some(n)),
            ("seed", |s, n| s.seed = Some(n as u64)),
            ("memory_mib", |s, n| s.memory_mib = Some(n as f64)),
            ("op", |s, n| s.labels.op = Some(n.to_string())),
            ("accounts", |s, n| drop(s.labels.options.insert("accounts".into(), n.to_string()))),
        ];
        for (first, set) in all {
            for (second, also) in all {
                let mut rows = vec![row("serial", 1, "read", 0.0); 3];
                for (n, row) in rows.iter_mut().enumerate() {
                    set(&mut row.row.settings, n + 1);
                    also(&mut row.row.settings, n + 1);
                }
                let sweep = Sweep::of(&rows);
                let known = keys(&sweep);
                assert!(known.contains(first) || known.contains(second), "{first} and {second}: {known:?}");
                assert!(!known.contains(&"repetition"), "{first} and {second}: the rows differ in them");
                let request = known.contains(&"op") == (*first == "op" || *second == "op");
                assert!(request, "{first} and {second}: {known:?}: other requests stay other requests");
            }
        }
    }

    #[test]
    fn what_a_person_swept_is_named_whatever_follows_from_it() {
        let mut rows: Vec<Row> = ["conventional", "serial", "occ"].map(full_row).into();
        assert!(!keys(&Sweep::of(&rows)).contains(&"workers"));
        for row in &mut rows {
            row.row.command = "atoll bench micro --design conventional,serial,occ --workers=1,2".into();
        }
        assert_eq!(keys(&Sweep::of(&rows)), ["design", "workers"]);
        for (row, workers) in rows.iter_mut().zip(["2", "1", "2"]) {
            row.row.command = format!("atoll bench micro --occ-reads validate --workers {workers}");
        }
        assert_eq!(keys(&Sweep::of(&rows)), ["design", "workers"], "by several commands");
    }

    #[test]
    fn every_row_is_in_exactly_one_line_on_every_axis() {
        let rows = grid();
        let sweep = Sweep::of(&rows);
        for turned in sweep.other_axes().iter().chain([&sweep]) {
            let mut all: Vec<usize> =
                turned.panels().iter().flat_map(|p| p.rows().collect::<Vec<_>>()).collect();
            all.sort_unstable();
            assert_eq!(all, (0..rows.len()).collect::<Vec<_>>());
            assert!(turned.panels().iter().all(|p| p.lines.len() <= LINES));
            for (_, line) in turned.panels().iter().flat_map(|p| &p.lines) {
                let at: Vec<f64> = line.iter().map(|r| turned.at(*r).unwrap()).collect();
                assert!(at.windows(2).all(|w| w[0] < w[1]), "one row for each place on the axis: {at:?}");
            }
        }
        assert_eq!(sweep.other_axes()[0].axis().unwrap().key, "islands");
    }

    #[test]
    fn a_design_has_its_place_and_its_look_in_every_chart() {
        let mut rows = Vec::new();
        for design in ["serial", "occ", "plp-regular", "conventional"] {
            for op in ["read", "update"] {
                if (design, op) != ("conventional", "update") {
                    rows.extend([0.0, 50.0, 100.0].map(|m| row(design, 2, op, m)));
                }
            }
        }
        let sweep = Sweep::of(&rows);
        let looks = |panel: &Panel| {
            let tones = sweep.tones(&panel.lines.iter().map(|(_, rows)| rows[0]).collect::<Vec<_>>());
            panel.lines.iter().map(|(name, _)| name.clone()).zip(tones).collect::<Vec<_>>()
        };
        let told = |all: &[(&str, usize)]| all.iter().map(|(n, t)| (n.to_string(), *t)).collect::<Vec<_>>();
        let panels = sweep.panels();
        let all = [("conventional", 0), ("plp-regular", 1), ("serial", 2), ("occ", 3)];
        assert_eq!(looks(&panels[0]), told(&all));
        assert_eq!(looks(&panels[1]), told(&all[1..]), "without conventional, the others keep theirs");
        let one_line: Vec<usize> = panels[0].lines[0].1.clone();
        assert_eq!(sweep.tones(&one_line), [0, 1, 2], "rows of one line are told apart");
    }

    #[test]
    fn equal_rows_are_told_apart_by_file_and_then_by_number() {
        let mut rows = vec![row("serial", 1, "read", 0.0); 3];
        rows[2].source = "b".into();
        let sweep = Sweep::of(&rows);
        assert_eq!(sweep.deployment(1), "a, #2");
        assert_eq!(sweep.deployment(2), "b, #1");
        assert!(sweep.axis().is_none());
        let one = Sweep::of(&rows[..1]);
        assert_eq!(
            (one.dimensions.len(), one.panels().len(), one.name(0).to_string().as_str()),
            (0, 1, "all")
        );
    }

    #[test]
    fn many_lines_are_spread_over_charts() {
        let mut rows = Vec::new();
        for islands in 1..=6 {
            for design in ["a", "b", "c"] {
                rows.extend([0.0, 50.0, 100.0].map(|m| row(design, islands, "read", m)));
            }
        }
        assert!(Sweep::of(&rows).panels().iter().all(|p| p.lines.len() <= LINES));
    }
}
