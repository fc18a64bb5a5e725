//! A directory of results: `rows.jsonl` row by row, `machine.json` beside it, and `report.html`
//! from both at the end.
//!
//! However a run ends, the directory holds the rows that it has measured and their report. A run
//! that has measured no row leaves nothing. Rows of an earlier run are lost only on request: see
//! [`Earlier`].

use crate::claimed::Claim;
use crate::failure::{Failure, cannot_write};
use base::counted;
use driver::ResultRow;
use report::{Report, Row, Rows};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use topology::{Machine, ProbeSpec, measure_latency};
use world::tell;

pub const ROWS: &str = "rows.jsonl";
pub const MACHINE: &str = "machine.json";
pub const REPORT: &str = "report.html";

/// The most pairs of CPUs that are measured for the report's matrix, at about 5 ms each. A larger
/// machine is drawn without it.
const MOST_PAIRS: usize = 1000;

/// The treatment of rows that an earlier run has left in the directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Earlier {
    /// They keep the run from starting.
    #[default]
    Refuse,
    /// They stay; new rows follow them, and the report covers all rows.
    Append,
    /// They are replaced.
    Overwrite,
}

pub struct Directory {
    path: PathBuf,
    earlier: Earlier,
    /// `None` until the first row: a run that measures nothing changes nothing here.
    file: Option<File>,
    machine: Machine,
    /// The rows of the report, earlier ones included with [`Earlier::Append`].
    rows: Vec<Row>,
    /// Earlier lines that are not in the report, with the reason.
    notes: Vec<String>,
    /// Some rows are not in the report on disk yet.
    unreported: bool,
    /// The directory was made by this run.
    made: bool,
    /// The last field, so dropped last: everything is written before another run may begin.
    claim: Claim,
}

impl Directory {
    /// Makes the directory.
    ///
    /// # Errors
    /// A file cannot be written; another run writes there; or an earlier run has left rows there
    /// and `earlier` is [`Earlier::Refuse`].
    pub fn new(path: &Path, earlier: Earlier, machine: &Machine) -> Result<Directory, Failure> {
        let made = !path.exists();
        std::fs::create_dir_all(path).map_err(|e| cannot_write(&path.join(ROWS), &e))?;
        let claim = Claim::on(path)?;
        let (rows, notes) = kept(&path.join(ROWS), earlier)?;
        let (path, machine) = (path.into(), with_latency(machine));
        Ok(Directory { path, earlier, file: None, machine, rows, notes, unreported: false, made, claim })
    }

    /// # Errors
    /// The line cannot be written.
    pub fn add(&mut self, line: &str) -> Result<(), Failure> {
        let path = self.path.join(ROWS);
        if self.file.is_none() {
            self.file = Some(self.begin(&path)?);
        }
        let written =
            self.file.as_mut().map_or(Ok(()), |file| file.write_all(format!("{line}\n").as_bytes()));
        written.map_err(|e| cannot_write(&path, &e))?;
        self.rows.push(Row::parse("this run", line.as_bytes()).map_err(Failure::Run)?);
        self.unreported = true;
        Ok(())
    }

    /// Writes the description of the machine, and opens the file of rows as `earlier` says.
    fn begin(&self, path: &Path) -> Result<File, Failure> {
        let there = self.path.join(MACHINE);
        // Rows that are kept refer to the machine description that is already there.
        if self.earlier != Earlier::Append || !there.exists() {
            write(&there, serde_json::to_string_pretty(&self.machine).map_err(Failure::run)? + "\n")?;
        }
        let mut open = OpenOptions::new();
        match self.earlier {
            Earlier::Append => open.append(true),
            Earlier::Refuse | Earlier::Overwrite => open.write(true).truncate(true),
        };
        let mut file = open.create(true).open(path).map_err(|e| cannot_write(path, &e))?;
        if self.earlier == Earlier::Append && ends_in_a_line(path) == Some(false) {
            // Half a row, left by a killed run, stays a line of its own.
            file.write_all(b"\n").map_err(|e| cannot_write(path, &e))?;
        }
        Ok(file)
    }

    /// Writes the report of the rows so far, and returns its path; `None` if this run has measured
    /// no row.
    ///
    /// # Errors
    /// The report cannot be written.
    pub fn report(&mut self) -> Result<Option<PathBuf>, Failure> {
        if self.file.is_none() {
            return Ok(None);
        }
        self.unreported = false;
        let (rows, notes) = (self.rows.clone(), self.notes.clone());
        let report = Report { rows, machines: vec![self.machine.clone()], notes };
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
            tell(format_args!("atoll: {failure}"));
        }
        self.claim.let_go();
        if self.made && self.file.is_none() {
            let _ = std::fs::remove_dir(&self.path); // Only an empty directory can be removed.
        }
    }
}

/// `None` for a file that is empty or cannot be read.
fn ends_in_a_line(path: &Path) -> Option<bool> {
    Some(*std::fs::read(path).ok()?.last()? == b'\n')
}

/// The earlier rows that stay, and notes about them.
///
/// # Errors
/// There are earlier rows, and `earlier` is [`Earlier::Refuse`]; or they cannot be read.
fn kept(file: &Path, earlier: Earlier) -> Result<(Vec<Row>, Vec<String>), Failure> {
    let bytes = match std::fs::read(file) {
        Ok(bytes) if earlier != Earlier::Overwrite => bytes,
        Err(e) if e.kind() != ErrorKind::NotFound => {
            return Err(Failure::Run(format!(
                "cannot read {}: {e}; name another directory with --out",
                file.display()
            )));
        }
        _ => return Ok((Vec::new(), Vec::new())),
    };
    let lines = bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty()).count();
    match earlier {
        Earlier::Refuse if lines > 0 => Err(Failure::Usage(format!(
            "--out: {} holds {} of an earlier run; expected another directory, --append to add to them, or --overwrite to \
             replace them",
            file.display(),
            counted(lines, "row")
        ))),
        Earlier::Append if lines > 0 => {
            let mut rows = Rows::default();
            rows.add(&file.display().to_string(), &bytes);
            let notes = rows.complaints.iter().map(ToString::to_string).chain(rows.remarks).collect();
            Ok((rows.rows, notes))
        }
        _ => Ok((Vec::new(), Vec::new())),
    }
}

/// A directory without rows: `path`, or `path` with a number after its name.
pub fn unused(path: &Path) -> PathBuf {
    let holds = |path: &Path| std::fs::metadata(path.join(ROWS)).is_ok_and(|rows| rows.len() > 0);
    if !holds(path) {
        return path.into();
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let numbered = |n: u32| path.with_file_name(format!("{name}-{n}"));
    (2..).map(numbered).find(|path| !holds(path)).unwrap_or_else(|| path.into())
}

/// Writes a whole file.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, text: String) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|e| cannot_write(path, &e))
}

/// The machine with its core-to-core latencies, unless there are too many pairs or they cannot be
/// measured; the report then has no matrix.
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

/// A row as a line of a rows file.
///
/// # Errors
/// The row has a number that JSON cannot express.
pub fn line_of(row: &ResultRow) -> Result<String, Failure> {
    serde_json::to_string(row).map_err(Failure::run)
}
