//! Rows of one instance as its threads meet in it ([`deploysim::sections`]): designs with and
//! without owners on the contexts of a described machine.
//!
//! ```toml
//! [[simulate]]
//! machine = "sun-t5220"
//! profile = "shore-mt"
//! [simulate.sections]
//! workload = "tpcc-stocklevel"
//! designs = ["conventional", "logical", "plp-partition"]
//! contexts = [16, 40]
//! rows = [2000]
//! ```
//!
//! Each table has a partition for each context of the machine. A row's `workers` are the contexts
//! in use.

use crate::row::Row;
use deploysim::sections::{Class, Homes, Load, Part, SectionCase, SectionOutcome, simulate};
use deploysim::{EngineProfile, MachineModel, ModelError, RunOptions};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The measured transactions of a run, per context: several times as many as are under way. The
/// warm-up is half of them.
const PER_CONTEXT: u64 = 240;
/// The least for a run of transactions with at most [`FEW_ROWS`] rows.
const LEAST: u64 = 30_000;
const FEW_ROWS: u32 = 20;

/// The workload of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    TatpGetsubscriberdata,
    Tatp,
    /// GetSubscriberData as a range scan of a secondary index.
    TatpScan,
    Tpcb,
    /// NewOrder and Payment, half of each.
    TpccPrime,
    Tpcc,
    TpccStocklevel,
    ProbeInsert,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sections {
    pub workload: Workload,
    pub designs: Vec<String>,
    /// Contexts in use; 0 for all.
    #[serde(default = "all")]
    pub contexts: Vec<usize>,
    /// Joined tuples of `tpcc-stocklevel`, records of `tatp-scan`.
    #[serde(default = "two_hundred")]
    pub rows: Vec<u32>,
    /// Of `probe-insert`: inserts, in per cent.
    #[serde(default = "none")]
    pub inserts: Vec<f64>,
    /// Of `tatp-scan`: whether the secondary index is cut like the table.
    #[serde(default = "yes")]
    pub aligned: Vec<bool>,
    /// The part of the database, in per cent, that half of the requests go to; 0 for an even load.
    #[serde(default = "none")]
    pub hot: Vec<f64>,
    /// Sub-buckets of an access histogram; 0 for no histogram.
    #[serde(default = "no_histogram")]
    pub histogram: Vec<u32>,
    /// Whether each row of a small table has a page of its own.
    #[serde(default = "padded")]
    pub padded: bool,
}

fn all() -> Vec<usize> {
    vec![0]
}
fn two_hundred() -> Vec<u32> {
    vec![200]
}
fn none() -> Vec<f64> {
    vec![0.0]
}
fn yes() -> Vec<bool> {
    vec![true]
}
fn no_histogram() -> Vec<u32> {
    vec![0]
}
fn padded() -> bool {
    true
}

/// One combination of the lists.
#[derive(Clone, Copy, Debug)]
struct Cell<'a> {
    design: &'a str,
    contexts: usize,
    rows: u32,
    inserts: f64,
    aligned: bool,
    hot: f64,
    histogram: u32,
}

impl Sections {
    /// Every combination; designs vary fastest, then contexts.
    fn cells(&self) -> Vec<Cell<'_>> {
        let first =
            Cell { design: "", contexts: 0, rows: 0, inserts: 0.0, aligned: true, hot: 0.0, histogram: 0 };
        let cells = vec![first];
        let cells = vary(cells, &self.histogram, |cell, of| Cell { histogram: *of, ..cell });
        let cells = vary(cells, &self.hot, |cell, of| Cell { hot: *of, ..cell });
        let cells = vary(cells, &self.aligned, |cell, of| Cell { aligned: *of, ..cell });
        let cells = vary(cells, &self.inserts, |cell, of| Cell { inserts: *of, ..cell });
        let cells = vary(cells, &self.rows, |cell, of| Cell { rows: *of, ..cell });
        let cells = vary(cells, &self.contexts, |cell, of| Cell { contexts: *of, ..cell });
        vary(cells, &self.designs, |cell, of| Cell { design: of, ..cell })
    }

    fn load(&self, machine: &MachineModel, cell: &Cell<'_>) -> Load {
        let sites = machine.cores() as u32;
        let load = match self.workload {
            Workload::TatpGetsubscriberdata => Load::get_subscriber_data(sites),
            Workload::Tatp => Load::tatp(sites),
            Workload::TatpScan => Load::range_scan(sites, cell.rows, cell.aligned),
            Workload::Tpcb => Load::tpcb(sites),
            Workload::TpccPrime => Load::new_order_and_payment(sites),
            Workload::Tpcc => Load::tpcc(sites),
            Workload::TpccStocklevel => Load::stock_level(sites, cell.rows),
            Workload::ProbeInsert => Load::probe_insert(sites, cell.inserts / 100.0),
        };
        let load = if self.padded { load } else { load.without_padding() };
        match cell.hot {
            0.0 => load,
            share => load.with_homes(Homes::Hot { sites: share / 100.0, requests: 0.5 }),
        }
    }

    /// # Errors
    /// Those of [`SectionCase::new`]; no row.
    pub fn check(&self, machine: &MachineModel, profile: &EngineProfile) -> Result<usize, ModelError> {
        let cells = self.cells();
        for cell in &cells {
            SectionCase::new(machine, profile, &self.load(machine, cell), cell.design, cell.contexts)?;
        }
        Ok(cells.len())
    }

    /// # Errors
    /// As [`Sections::check`].
    pub fn rows(&self, machine: &MachineModel, profile: &EngineProfile) -> Result<Vec<Row>, ModelError> {
        self.cells().iter().map(|cell| self.row(machine, profile, cell)).collect()
    }

    fn row(
        &self,
        machine: &MachineModel,
        profile: &EngineProfile,
        cell: &Cell<'_>,
    ) -> Result<Row, ModelError> {
        let load = self.load(machine, cell);
        let case = SectionCase::new(machine, profile, &load, cell.design, cell.contexts)?;
        let case = if cell.histogram == 0 { case } else { case.with_histogram(cell.histogram) };
        let contexts = case.contexts.len() as u64;
        let has_rows = matches!(self.workload, Workload::TpccStocklevel | Workload::TatpScan);
        let least = if has_rows && cell.rows > FEW_ROWS { 0 } else { LEAST };
        let measured = least.max(PER_CONTEXT * contexts);
        let options =
            RunOptions { seed: 1, transactions: measured, warm_up: measured / 2, most_ns: f64::INFINITY };
        let outcome = simulate(&case, &options);
        let mut row = Row::default();
        row.set("workload", load.name.as_str());
        row.set("design", cell.design);
        row.set("workers", contexts);
        row.set("machine", json!({ "model": machine.name(), "cores": machine.cores() }));
        row.set("padded", self.padded);
        if has_rows {
            row.set("rows", cell.rows);
        }
        if self.workload == Workload::TatpScan {
            row.set("index", if cell.aligned { "aligned" } else { "nonaligned" });
        }
        if self.workload == Workload::ProbeInsert {
            row.set("inserts", cell.inserts);
        }
        row.set("hot", cell.hot);
        row.set("histogram", cell.histogram);
        results(&mut row, &outcome);
        Ok(row)
    }
}

fn vary<'a, T>(
    cells: Vec<Cell<'a>>,
    values: &'a [T],
    set: impl Fn(Cell<'a>, &'a T) -> Cell<'a>,
) -> Vec<Cell<'a>> {
    cells
        .into_iter()
        .flat_map(|cell| values.iter().map(move |of| (cell, of)))
        .map(|(cell, of)| set(cell, of))
        .collect()
}

/// The columns of the result. `share` is the part of the contexts' time; the idle time of contexts
/// is no part of it.
fn results(row: &mut Row, o: &SectionOutcome) {
    let per_part = |value: &dyn Fn(Part) -> f64| -> Value {
        Part::ALL
            .into_iter()
            .map(|part| (part.name().to_owned(), json!(value(part))))
            .collect::<Map<_, _>>()
            .into()
    };
    let per_class = |value: &dyn Fn(Class) -> f64| -> Value {
        Class::ALL
            .into_iter()
            .map(|class| (class.name().to_owned(), json!(value(class))))
            .collect::<Map<_, _>>()
            .into()
    };
    let busy: f64 = o.parts.iter().sum();
    let committed = o.committed.max(1) as f64;
    row.set("tps", o.tps);
    row.set("committed", o.committed);
    row.set("each", o.tps / o.contexts as f64);
    row.set("context_us_per_txn", 1e6 * o.contexts as f64 / o.tps);
    row.set("response_us", o.response_ns / 1e3);
    row.set("idle", o.idle_ns / (o.window_ns * o.contexts as f64));
    row.set("time_ns_per_txn", per_part(&|part| o.per_transaction(part)));
    row.set("share", per_part(&|part| o.parts[part as usize] / busy.max(1.0)));
    row.set("sections_per_txn", per_class(&|class| o.entries_per_transaction(class)));
    row.set("wait_ns_per_section", per_class(&|class| o.wait_per_entry(class)));
    row.set("turns_waited", per_class(&|class| o.turns_waited(class)));
    row.set(
        "latches_per_txn",
        json!({ "index": o.latches[0] / committed, "heap": o.latches[1] / committed }),
    );
    row.set("row_locks_per_txn", o.row_locks / committed);
}
