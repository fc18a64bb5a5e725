//! The rows of an experiment's traces: `atoll trace` makes each of them once, `atoll cachesim`
//! reads it.
//!
//! ```text
//! DIR/traces/tpcc-workers-16.trace     with --out DIR: named by the capture; captured anew by
//!                                     another program, unless --traces DIR/traces names them
//! ```

use crate::cachesim_command;
use crate::cli::{CachesimArgs, Cli, Command, TraceArgs};
use crate::failure::{Failure, cannot_write};
use crate::papers::RowArgs;
use crate::tracing;
use claims::{Row, Traced};
use clap::Parser;
use deploy::Interrupt;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use trace::Trace;
use world::tell;

/// The traces of this process.
#[derive(Debug)]
pub struct Captures {
    /// Where they are kept; a directory of this process without `--out`.
    kept: Option<PathBuf>,
    scratch: Option<TempDir>,
    /// The directory of `--traces`.
    given: Option<PathBuf>,
    /// The rows of each study that was made, by capture and study.
    made: BTreeMap<(String, String), Vec<Row>>,
}

impl Captures {
    pub fn new(args: &RowArgs) -> Captures {
        let kept = args.out.as_ref().map(|out| out.join("traces"));
        Captures { kept, scratch: None, given: args.traces.clone(), made: BTreeMap::new() }
    }

    /// Whether a trace has to be captured, as far as the names of files tell.
    pub fn is_to_be_made(&self, traced: &Traced) -> bool {
        let places = self.given.iter().chain(&self.kept);
        !places.map(|dir| dir.join(name(&traced.capture))).any(|path| path.exists())
    }

    /// The rows of all studies of a trace.
    ///
    /// # Errors
    /// A command line that is none, a capture that fails, a study that the trace does not allow.
    pub fn rows(&mut self, traced: &Traced, interrupt: &Interrupt) -> Result<Vec<Row>, Failure> {
        let mut trace = None;
        let mut rows = Vec::new();
        for study in &traced.studies {
            let key = (traced.capture.clone(), study.clone());
            if let Some(made) = self.made.get(&key) {
                rows.extend(made.iter().cloned());
                continue;
            }
            if interrupt.is_set() {
                return Err(Failure::Interrupted);
            }
            let (path, whole) = match &trace {
                Some(read) => read,
                None => {
                    let (path, read) = self.trace(&traced.capture, interrupt)?;
                    trace.insert((path, read))
                }
            };
            tell(format_args!("  atoll cachesim {study}"));
            let args = study_args(study, path)?;
            let cut = args.transactions.map(|most| first(whole, most as usize));
            let made = cachesim_command::rows(&args, cut.as_ref().unwrap_or(whole), interrupt)?;
            let made: Vec<Row> = made.into_iter().map(Row).collect();
            rows.extend(made.iter().cloned());
            self.made.insert(key, made);
        }
        Ok(rows)
    }

    /// The trace of a capture, and its file.
    fn trace(&mut self, capture: &str, interrupt: &Interrupt) -> Result<(PathBuf, Trace), Failure> {
        if let Some(path) = self.given.as_ref().map(|dir| dir.join(name(capture))).filter(|p| p.exists()) {
            let trace = Trace::read(&path).map_err(Failure::run)?;
            let program = trace.fact("program").unwrap_or("unknown");
            tell(format_args!("  {}, captured by {program}", path.display()));
            return Ok((path, trace));
        }
        let path = self.directory()?.join(name(capture));
        if path.exists()
            && let Ok(trace) = Trace::read(&path)
            && trace.fact("program") == Some(&*tracing::program())
        {
            return Ok((path, trace));
        }
        tell(format_args!("  atoll trace {capture}"));
        // A capture that is interrupted leaves nothing under the final name.
        let unfinished = path.with_extension("unfinished");
        tracing::capture(&trace_args(capture, &unfinished)?, interrupt)?;
        std::fs::rename(&unfinished, &path).map_err(|e| cannot_write(&path, &e))?;
        let trace = Trace::read(&path).map_err(Failure::run)?;
        Ok((path, trace))
    }

    fn directory(&mut self) -> Result<PathBuf, Failure> {
        Ok(match (&self.kept, &self.scratch) {
            (Some(dir), _) => {
                std::fs::create_dir_all(dir).map_err(|e| cannot_write(dir, &e))?;
                dir.clone()
            }
            (None, Some(scratch)) => scratch.path().to_owned(),
            (None, None) => {
                let made = tempfile::tempdir().map_err(Failure::run)?;
                self.scratch.insert(made).path().to_owned()
            }
        })
    }
}

/// The first transactions of a trace.
fn first(trace: &Trace, most: usize) -> Trace {
    let Trace { meta, kinds, functions, blocks, transactions } = trace;
    let transactions = transactions.iter().take(most).cloned().collect();
    let (meta, kinds) = (meta.clone(), kinds.clone());
    Trace { meta, kinds, functions: functions.clone(), blocks: blocks.clone(), transactions }
}

/// The name of a capture's file: its words, joined by one hyphen each.
fn name(capture: &str) -> String {
    let words: Vec<&str> =
        capture.split(|c: char| c == '-' || c.is_whitespace()).filter(|word| !word.is_empty()).collect();
    words.join("-") + ".trace"
}

fn parsed(line: &str, words: Vec<&str>) -> Result<Option<Command>, Failure> {
    let read = Cli::try_parse_from(words).map_err(|e| Failure::Usage(format!("{line}: {e}")))?;
    Ok(read.command)
}

fn trace_args(line: &str, out: &Path) -> Result<TraceArgs, Failure> {
    let out = out.display().to_string();
    let words = ["atoll", "trace", "--out", &out].into_iter().chain(line.split_whitespace()).collect();
    match parsed(line, words)? {
        Some(Command::Trace(args)) => Ok(*args),
        _ => Err(Failure::Usage(format!("{line}: no command line of trace"))),
    }
}

fn study_args(line: &str, file: &Path) -> Result<CachesimArgs, Failure> {
    let file = file.display().to_string();
    let words = ["atoll", "cachesim", &file].into_iter().chain(line.split_whitespace()).collect();
    match parsed(line, words)? {
        Some(Command::Cachesim(args)) => Ok(*args),
        _ => Err(Failure::Usage(format!("{line}: no command line of cachesim"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use claims::Library;

    /// The command lines of all experiments are ones of `trace` and `cachesim`.
    #[test]
    fn every_traced_experiment_can_be_read() {
        let library = Library::built_in().unwrap();
        let traces = library.experiments.iter().flat_map(|e| &e.traces);
        let mut seen = 0;
        for traced in traces {
            seen += 1;
            trace_args(&traced.capture, Path::new("t")).unwrap();
            assert!(!traced.studies.is_empty());
            traced.studies.iter().for_each(|study| drop(study_args(study, Path::new("t")).unwrap()));
        }
        assert!(seen > 0);
    }
}
