//! Counts that need no engine: they follow from a workload's definition, and are the same on every
//! machine.
//!
//! Each [`Count`] becomes rows with a field `what`:
//!
//! | value | a row for each | fields |
//! |---|---|---|
//! | `schema` | workload | `tables`, `scaling`, `growing`, `fixed`, `secondary_indexes`, `kinds` |
//! | `population` | table, and `all` | `rows` |
//! | `requests` | islands, kind | `share`, `distributed`, `participants`, `two`, `touched_sites` |
//! | `operations` | kind of transaction | see `trace` |
//! | `updated` | kind and table | `keys`: different keys that were updated |
//! | `sections` | critical section | `component`, `kind` |
//! | `splits`, `merges`, `ages`, `levels` | see [`crate::repartitioning`] | |
//! | `hardware`, `defaults`, `teams`, `places` | see [`crate::schedulers`] | |
//!
//! Shares and rates are between 0 and 1.

use crate::count_row::{row, stream};
use crate::repartitioning::{self, Ageing, BadExample, Pair, Tree, Uneven};
use crate::row::Row;
use crate::schedulers::{self, BadChip, Points, Queue};
use crate::trace;
use base::{SiteId, TableId};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use txn::workload::Placement;
use txn::{Abort, Generator, Inserted, NewRows, TableDef, Workload};
use workload::oracle::at_once;
use workload::{AnyWorkload, SpecError, WorkloadSpec};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    Schema,
    Population,
    Requests,
    Operations,
    Sections,
    Splits,
    Merges,
    Ages,
    Levels,
    Hardware,
    Defaults,
    Teams,
    Places,
}

/// Why a count is impossible.
#[derive(Debug, thiserror::Error)]
pub enum CountError {
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Example(#[from] BadExample),
    #[error(transparent)]
    Chip(#[from] BadChip),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Count {
    pub what: What,
    /// The workload with its options; for the first four counts.
    #[serde(default)]
    pub spec: WorkloadSpec,
    /// Values for the rows of a transaction, one after the other, in place of the value in `spec`.
    #[serde(default)]
    pub rows: Vec<u32>,
    /// The number of instances over which the sites are distributed.
    #[serde(default = "one_island")]
    pub islands: Vec<u16>,
    /// Requests drawn, or transactions run, for each number of instances.
    #[serde(default = "many")]
    pub draws: u64,
    /// For `schema`: transactions after which the tables that they insert into count as growing; 0:
    /// the tables without a key do, since their rows are only ever appended.
    #[serde(default)]
    pub growing_after: u64,
    /// Kinds of transactions that do not count for that.
    #[serde(default)]
    pub apart: Vec<String>,
    /// Tables with a copy at every site, which are fixed by definition; for `schema`.
    #[serde(default)]
    pub copied: Vec<String>,
    /// Tables of ours that the definition lacks; for `schema`.
    #[serde(default)]
    pub added: Vec<String>,
    /// For `population`: the sites that are counted, their rows standing for those of all; 0: all.
    #[serde(default)]
    pub sampled_sites: u32,
    /// For `splits`.
    #[serde(default)]
    pub trees: Vec<Tree>,
    /// For `merges`.
    #[serde(default)]
    pub pairs: Vec<Pair>,
    /// For `ages`.
    #[serde(default)]
    pub ageing: Vec<Ageing>,
    /// For `levels`.
    #[serde(default)]
    pub uneven: Vec<Uneven>,
    /// For `teams`.
    #[serde(default)]
    pub queues: Vec<Queue>,
    /// For `places`.
    #[serde(default)]
    pub points: Vec<Points>,
}

fn one_island() -> Vec<u16> {
    vec![1]
}

fn many() -> u64 {
    100_000
}

impl Count {
    /// # Errors
    /// A specification without a workload; an impossible tree or load.
    pub fn rows(&self) -> Result<Vec<Row>, CountError> {
        match self.what {
            What::Schema | What::Population | What::Requests | What::Operations => Ok(self.of_workload()?),
            What::Sections => Ok(sections()),
            What::Splits => joined(self.trees.iter().map(repartitioning::splits)),
            What::Merges => Ok(self.pairs.iter().flat_map(repartitioning::merges).collect()),
            What::Ages => joined(self.ageing.iter().map(repartitioning::ages)),
            What::Levels => joined(self.uneven.iter().map(repartitioning::levels)),
            What::Hardware => Ok(schedulers::hardware()?),
            What::Defaults => Ok(schedulers::defaults()),
            What::Teams => Ok(self.queues.iter().flat_map(schedulers::teams).collect()),
            What::Places => joined(self.points.iter().map(schedulers::places)),
        }
    }

    fn of_workload(&self) -> Result<Vec<Row>, SpecError> {
        let specs: Vec<WorkloadSpec> = match &self.rows[..] {
            [] => vec![self.spec.clone()],
            rows => rows.iter().map(|&n| WorkloadSpec { rows: Some(n), ..self.spec.clone() }).collect(),
        };
        let mut all = Vec::new();
        for spec in specs {
            let mut rows = self.of(&spec.build()?);
            rows.iter_mut().for_each(|row| label(row, &spec));
            all.extend(rows);
        }
        Ok(all)
    }

    fn of(&self, workload: &AnyWorkload) -> Vec<Row> {
        let Count { islands, draws, .. } = self;
        match self.what {
            What::Schema => vec![self.schema(workload)],
            What::Population => population(workload, self.sampled_sites),
            What::Requests => islands.iter().flat_map(|&n| requests(workload, n, *draws)).collect(),
            What::Operations => {
                islands.iter().flat_map(|&n| trace::operations(workload, n, *draws)).collect()
            }
            // The other counts need no workload: see `Count::rows`.
            _ => Vec::new(),
        }
    }

    fn schema<W: Workload>(&self, workload: &W) -> Row {
        let schema = workload.schema();
        let named =
            |names: &[String], t: &TableDef| names.iter().any(|name| t.name.eq_ignore_ascii_case(name));
        let defined = || schema.tables.iter().filter(|t| !named(&self.added, t));
        let grown = match self.growing_after {
            0 => schema.tables.iter().filter(|t| t.domain > 0 && t.key.is_empty()).map(|t| t.id).collect(),
            n => trace::grown(workload, n, &self.apart),
        };
        let is_fixed = |t: &TableDef| t.domain == 0 || named(&self.copied, t);
        let mut generator = stream(workload);
        let kinds: BTreeSet<_> = (0..10_000).map(|_| workload.kind(&generator.next())).collect();
        let mut row = row("schema");
        row.set("tables", defined().count());
        row.set("fixed", defined().filter(|t| is_fixed(t)).count());
        row.set("growing", defined().filter(|t| grown.contains(&t.id)).count());
        row.set("scaling", defined().filter(|t| !is_fixed(t) && !grown.contains(&t.id)).count());
        row.set("secondary_indexes", defined().map(|t| t.indexes.len()).sum::<usize>());
        row.set("kinds", kinds.len());
        row
    }
}

fn joined<E>(parts: impl Iterator<Item = Result<Vec<Row>, E>>) -> Result<Vec<Row>, CountError>
where
    CountError: From<E>,
{
    Ok(parts.collect::<Result<Vec<_>, _>>()?.concat())
}

/// The options that were given, with their names in result rows.
pub fn label(row: &mut Row, spec: &WorkloadSpec) {
    row.set("workload", spec.name.clone());
    if let Some(rows) = spec.rows {
        row.set("rows", rows);
    }
    if let Some(scale) = spec.scale {
        row.set("scale", scale);
    }
    for (name, value) in &spec.own {
        row.set(name, value.parse::<u64>().map_or_else(|_| value.as_str().into(), serde_json::Value::from));
    }
}

/// The rows that loading inserts, by table. With `sampled_sites`, the rows of the first sites stand
/// for those of all.
fn population<W: Workload>(workload: &W, sampled_sites: u32) -> Vec<Row> {
    let (mut loaded, mut copies) = (Loaded::default(), Loaded::default());
    let replicated = at_once(workload.load_replicated(&mut copies));
    let sites = if sampled_sites == 0 { workload.sites() } else { sampled_sites.min(workload.sites()) };
    let site = |site: u32| {
        let parts = 0..workload.load_parts(SiteId(site));
        parts.map(move |part| (SiteId(site), part))
    };
    let mut parts = (0..sites).flat_map(site);
    let done =
        replicated.and_then(|()| parts.try_for_each(|(s, p)| at_once(workload.load(s, p, &mut loaded))));
    let mut all = row("population");
    all.set("table", "all");
    all.set("loaded", done.is_ok());
    let mut counts = copies.0;
    for (table, rows) in loaded.0 {
        *counts.entry(table).or_default() += rows * u64::from(workload.sites()) / u64::from(sites.max(1));
    }
    all.set("count", counts.values().sum::<u64>());
    let table = |t: &txn::TableDef| {
        let mut row = row("population");
        row.set("table", t.name.to_lowercase());
        row.set("count", counts.get(&t.id).copied().unwrap_or(0));
        row
    };
    let mut rows = vec![all];
    rows.extend(workload.schema().tables.iter().map(table));
    rows
}

/// Storage that counts insertions.
#[derive(Default)]
struct Loaded(BTreeMap<TableId, u64>);

impl NewRows for Loaded {
    fn put(&mut self, table: TableId, _: Option<&[u8]>, _: &[u8]) -> Result<Inserted, Abort> {
        *self.0.entry(table).or_default() += 1;
        Ok(Inserted::Done)
    }
}

/// The requests of one kind.
#[derive(Default)]
struct Drawn {
    requests: u64,
    distributed: u64,
    /// Instances and sites touched, summed over all requests.
    participants: u64,
    sites: u64,
    /// Requests that touch exactly two instances.
    two: u64,
    most: usize,
}

/// The destinations of requests, by kind, with the sites distributed over this many instances.
fn requests<W: Workload>(workload: &W, islands: u16, draws: u64) -> Vec<Row> {
    let (schema, placement) = (workload.schema(), Placement::even(workload.sites(), islands));
    let domain = |table: TableId| schema.table(table).map_or(1, |t| t.domain);
    let mut generator = stream(workload);
    let mut kinds: BTreeMap<&str, Drawn> = BTreeMap::new();
    for _ in 0..draws {
        let request = generator.next();
        let mut sites = BTreeSet::new();
        workload.routes(&request, &mut |route| {
            sites.insert(placement.site(route.key, domain(route.table)));
        });
        let owners: BTreeSet<_> = sites.iter().map(|&site| placement.owner(site)).collect();
        for kind in ["all", workload.kind(&request)] {
            let drawn = kinds.entry(kind).or_default();
            drawn.requests += 1;
            drawn.distributed += u64::from(owners.len() > 1);
            drawn.two += u64::from(owners.len() == 2);
            drawn.participants += owners.len() as u64;
            drawn.sites += sites.len() as u64;
            drawn.most = drawn.most.max(owners.len());
        }
    }
    let each = |(kind, drawn): (&str, Drawn)| {
        let per = |n: u64, of: u64| n as f64 / of.max(1) as f64;
        let mut row = row("requests");
        row.set("kind", kind);
        row.set("islands", islands);
        row.set("draws", draws);
        row.set("share", per(drawn.requests, draws));
        row.set("distributed", per(drawn.distributed, drawn.requests));
        row.set("participants", per(drawn.participants, drawn.requests));
        row.set("most_participants", drawn.most);
        row.set("two", per(drawn.two, drawn.distributed));
        row.set("touched_sites", per(drawn.sites, drawn.requests));
        row
    };
    kinds.into_iter().map(each).collect()
}

/// The list of counted critical sections.
fn sections() -> Vec<Row> {
    let each = |section: &probe::Section| {
        let mut row = row("sections");
        row.set("section", section.name());
        row.set("component", section.component().name());
        row.set("kind", section.kind().name());
        for kind in probe::Kind::ALL {
            row.set(kind.name(), section.kind() == *kind);
        }
        row
    };
    probe::Section::ALL.iter().map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> Vec<Row> {
        toml::from_str::<Count>(text).unwrap().rows().unwrap()
    }

    fn find<'a>(rows: &'a [Row], field: &str, word: &str) -> &'a Row {
        rows.iter().find(|r| r.word(field).as_deref() == Some(word)).expect("a row")
    }

    #[test]
    fn a_bank_of_one_branch() {
        let spec = "spec = { name = \"tpcb\", scale = 1, own = { accounts = \"50\" } }";
        let rows = count(&format!("what = \"population\"\n{spec}"));
        assert_eq!(find(&rows, "table", "all").number("count"), Some(61.0));
        assert_eq!(find(&rows, "table", "all").number("loaded"), Some(1.0));
        assert_eq!(find(&rows, "table", "teller").number("count"), Some(10.0));
        assert_eq!(rows[0].number("accounts"), Some(50.0));
        let rows = count(&format!("what = \"schema\"\n{spec}"));
        assert_eq!(rows[0].number("tables"), Some(4.0));
        assert_eq!(rows[0].number("growing"), Some(1.0));
    }

    #[test]
    fn more_instances_make_more_distributed_requests() {
        let rows = count(
            "what = \"requests\"\nspec = { name = \"micro\", scale = 24, multisite = 100.0 }\nislands = [2, 24]\nrows = [2, 10]\ndraws = 20000",
        );
        let of = |islands: f64, n: f64| {
            let fits = |r: &&Row| r.number("islands") == Some(islands) && r.number("rows") == Some(n);
            rows.iter().filter(fits).find(|r| r.word("kind").as_deref() == Some("all")).unwrap()
        };
        // 1 - (1/K)^(N-1), and 1 + (K-1)(1 - (1-1/K)^(N-1)) participants.
        assert!((of(2.0, 2.0).number("distributed").unwrap() - 0.5).abs() < 0.02);
        assert!((of(24.0, 10.0).number("participants").unwrap() - 8.32).abs() < 0.1);
        assert!((of(24.0, 2.0).number("two").unwrap() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn sections_have_one_kind_each() {
        let rows = count("what = \"sections\"");
        assert_eq!(rows.len(), probe::Section::COUNT);
        let kinds =
            |r: &Row| ["fixed", "unbounded", "cooperative"].map(|k| r.number(k).unwrap()).iter().sum::<f64>();
        assert!(rows.iter().all(|r| kinds(r) == 1.0));
    }

    #[test]
    fn an_unknown_workload_is_refused() {
        let count: Count = toml::from_str("what = \"schema\"\nspec = { name = \"tpcz\" }").unwrap();
        assert!(count.rows().unwrap_err().to_string().contains("tpcz"));
    }
}
