//! The rows of an experiment's traces: `atoll trace` makes each of them once, `atoll cachesim` reads
//! it.
//!
//! ```text
//! DIR/traces/0123456789abcdef.trace   with --out DIR: named by the capture and the program
//! ```

use crate::cachesim_command;
use crate::cli::{CachesimArgs, Cli, Command, TraceArgs};
use crate::failure::{Failure, cannot_write};
use crate::tracing;
use claims::{Row, Traced};
use clap::Parser;
use deploy::Interrupt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tempfile::TempDir;
use trace::Trace;
use world::tell;

/// The traces of this process.
#[derive(Debug)]
pub struct Captures {
    /// Where they are kept; a directory of this process without `--out`.
    kept: Option<PathBuf>,
    scratch: Option<TempDir>,
}

impl Captures {
    pub fn new(out: Option<&Path>) -> Captures {
        Captures { kept: out.map(|out| out.join("traces")), scratch: None }
    }

    /// The rows of all studies of a trace. `build` distinguishes programs.
    ///
    /// # Errors
    /// A command line that is none, a capture that fails, a study that the trace does not allow.
    pub fn rows(
        &mut self,
        traced: &Traced,
        build: &str,
        interrupt: &Interrupt,
    ) -> Result<Vec<Row>, Failure> {
        let path = self.file(&traced.capture, build)?;
        if !path.exists() {
            tell(format_args!("  atoll trace {}", traced.capture));
            // A capture that is interrupted leaves nothing under the final name.
            let unfinished = path.with_extension("unfinished");
            let args = trace_args(&traced.capture, &unfinished)?;
            tracing::capture(&args, interrupt, Stdio::null())?;
            std::fs::rename(&unfinished, &path).map_err(|e| cannot_write(&path, &e))?;
        }
        let trace = Trace::read(&path).map_err(Failure::run)?;
        let mut rows = Vec::new();
        for study in &traced.studies {
            if interrupt.is_set() {
                return Err(Failure::Interrupted);
            }
            tell(format_args!("  atoll cachesim {study}"));
            let args = study_args(study, &path)?;
            rows.extend(cachesim_command::rows(&args, &trace)?.into_iter().map(Row));
        }
        Ok(rows)
    }

    fn file(&mut self, capture: &str, build: &str) -> Result<PathBuf, Failure> {
        let dir = match (&self.kept, &self.scratch) {
            (Some(dir), _) => {
                std::fs::create_dir_all(dir).map_err(|e| cannot_write(dir, &e))?;
                dir.clone()
            }
            (None, Some(scratch)) => scratch.path().to_owned(),
            (None, None) => {
                let made = tempfile::tempdir().map_err(Failure::run)?;
                self.scratch.insert(made).path().to_owned()
            }
        };
        let name = base::hash64(format!("{capture} {build}").as_bytes());
        Ok(dir.join(format!("{name:016x}.trace")))
    }
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
