//! A directory of results: `rows.jsonl` row by row, `machine.json` beside it, and `report.html` of both at the end.
//!
//! However a run ends, the rows it has measured are in there and so is their report.

use crate::failure::Failure;
use driver::ResultRow;
use report::{Report, Row};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use topology::{Machine, ProbeSpec, measure_latency};

pub const ROWS: &str = "rows.jsonl";
pub const MACHINE: &str = "machine.json";
pub const REPORT: &str = "report.html";

/// Pairs of CPUs that are measured for the report's matrix: some 5 ms each. A machine with more is drawn without it.
const MOST_PAIRS: usize = 1000;

pub struct Directory {
    path: PathBuf,
    file: File,
    machine: Machine,
    rows: Vec<Row>,
    /// Rows that the report on disk lacks.
    unreported: bool,
}

impl Directory {
    /// Makes the directory and begins its files.
    ///
    /// # Errors
    /// If something cannot be written there.
    pub fn new(path: &Path, machine: &Machine) -> Result<Directory, Failure> {
        let rows = path.join(ROWS);
        let file = std::fs::create_dir_all(path).and_then(|()| File::create(&rows)).map_err(|e| {
            Failure::Run(format!("cannot write {}: {e}; name another directory with --out", rows.display()))
        })?;
        let machine = with_latency(machine);
        let text = serde_json::to_string_pretty(&machine).map_err(Failure::run)?;
        write(&path.join(MACHINE), text + "\n")?;
        Ok(Directory { path: path.into(), file, machine, rows: Vec::new(), unreported: false })
    }

    /// # Errors
    /// If the line cannot be written.
    pub fn add(&mut self, line: &str) -> Result<(), Failure> {
        writeln!(self.file, "{line}").map_err(|e| Failure::Run(format!("cannot write {ROWS}: {e}")))?;
        self.rows.push(Row::parse("this run", line.as_bytes()).map_err(Failure::Run)?);
        self.unreported = true;
        Ok(())
    }

    /// Writes the report of the rows so far, and returns where it is; `None` without rows.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn report(&mut self) -> Result<Option<PathBuf>, Failure> {
        if self.rows.is_empty() {
            return Ok(None);
        }
        self.unreported = false;
        let report =
            Report { rows: self.rows.clone(), machines: vec![self.machine.clone()], notes: Vec::new() };
        let path = self.path.join(REPORT);
        write(&path, report.html())?;
        Ok(Some(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.unreported
            && let Err(failure) = self.report()
        {
            eprintln!("atoll: {failure}");
        }
    }
}

/// A whole file, or a word about why not.
///
/// # Errors
/// If it cannot be written.
pub fn write(path: &Path, text: String) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|e| {
        Failure::Run(format!("cannot write {}: {e}; name another place with --out", path.display()))
    })
}

/// The machine with its latencies, unless there are too many or they cannot be had: a report goes without them then.
fn with_latency(machine: &Machine) -> Machine {
    let cpus = machine.allowed_cpus().len();
    let known = machine.latency.is_some();
    if known || cpus < 2 || cpus * (cpus - 1) / 2 > MOST_PAIRS {
        return machine.clone();
    }
    match measure_latency(machine, ProbeSpec::QUICK, |_, _| ()) {
        Ok(probe) => machine.clone().with_latency(probe.latency),
        Err(_) => machine.clone(),
    }
}

/// A row as it stands in a rows file.
///
/// # Errors
/// If it has a number that JSON has no word for.
pub fn line_of(row: &ResultRow) -> Result<String, Failure> {
    serde_json::to_string(row).map_err(Failure::run)
}
