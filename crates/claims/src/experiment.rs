//! An experiment: its runs, and the plot of their rows. Each is a file of `experiments/`, named
//! like its id.
//!
//! The runs are command lines of `atoll bench` without the lengths of windows, which depend on the
//! available time. The loads are command lines of `atoll load`; their databases are inspected and
//! removed. The traces are command lines of `atoll trace`, each with those of `atoll cachesim` that
//! read it. An experiment may also have counts ([`crate::counting`]). Most experiments are figures
//! and tables of the papers; the others only supply rows for claims. Experiments that cannot run
//! yet are together in `later.toml`, each with the missing feature.

use crate::counting::Count;
use crate::error::DataError;
use crate::row::{EXPERIMENT, Row};
use crate::simulated::Simulate;
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// `vldbj-11`: paper and figure; a word for an experiment that is no figure.
    pub id: String,
    /// The place in the papers; absent for an experiment that is no figure of theirs.
    #[serde(default)]
    pub figure: Option<String>,
    /// The content of the figure, in our words.
    pub caption: String,
    /// The result, by the papers' text.
    #[serde(default)]
    pub papers: String,
    /// The feature that must be built before it can run.
    #[serde(default)]
    pub waits: Option<String>,
    /// With fewer cores than this, it shows nothing.
    #[serde(default = "one")]
    pub cores: usize,
    /// Command lines of `atoll bench`.
    #[serde(default)]
    pub runs: Vec<String>,
    /// Command lines of `atoll load` without a directory: each gives a row for each table with its
    /// rows and pages, and one for `all`.
    #[serde(default)]
    pub loads: Vec<String>,
    /// Transactions that are traced, and run on modelled caches.
    #[serde(default)]
    pub traces: Vec<Traced>,
    #[serde(default)]
    pub counts: Vec<Count>,
    /// Rows of described machines ([`crate::simulated`]).
    #[serde(default)]
    pub simulate: Vec<Simulate>,
    #[serde(default)]
    pub plot: Option<Plot>,
}

/// One trace, and what is made of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traced {
    /// A command line of `atoll trace` without `--out`. Equal ones are captured once.
    pub capture: String,
    /// Command lines of `atoll cachesim` without the file: each gives the rows of its `--json`.
    pub studies: Vec<String>,
}

/// The plot: one picture for each of `panels`, with one line for each combination of `series`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// Fields of rows, as in expressions.
    pub x: String,
    pub y: Vec<String>,
    #[serde(default)]
    pub series: Vec<String>,
    #[serde(default)]
    pub panels: Vec<String>,
    /// Of the rows of traces, only those of this table.
    #[serde(default)]
    pub table: Option<String>,
}

fn one() -> usize {
    1
}

impl Experiment {
    /// # Errors
    /// The error in the file.
    pub fn parse(file: &str, text: &str) -> Result<Experiment, DataError> {
        let experiment: Experiment = toml::from_str(text)
            .map_err(|e| DataError::of(file, e.to_string().trim_end().replace('\n', "; ")))?;
        let wrong = |what: String| Err(DataError::of(file, what));
        if file != format!("{}.toml", experiment.id) {
            return wrong(format!("its id is {:?}; expected the name of the file", experiment.id));
        }
        if experiment.is_idle() {
            return wrong("nothing to run: expected runs, loads, traces, counts or simulate".into());
        }
        if experiment.waits.is_some() {
            return wrong("it waits for something; expected that in later.toml".into());
        }
        Ok(experiment)
    }

    /// Reads a file of figures that cannot run yet.
    ///
    /// # Errors
    /// The error in the file.
    pub fn parse_later(file: &str, text: &str) -> Result<Vec<Experiment>, DataError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Later {
            figure: Vec<Experiment>,
        }
        let later: Later = toml::from_str(text)
            .map_err(|e| DataError::of(file, e.to_string().trim_end().replace('\n', "; ")))?;
        let is_late = |e: &&Experiment| e.waits.is_none() || !e.is_idle();
        match later.figure.iter().find(is_late) {
            Some(e) => {
                Err(DataError::of(file, format!("{}: expected what it waits for, and nothing to run", e.id)))
            }
            None => Ok(later.figure),
        }
    }

    /// Whether it gives no row.
    fn is_idle(&self) -> bool {
        self.is_simulated() && self.simulate.is_empty()
    }

    /// Whether it measures nothing on this machine.
    pub fn is_simulated(&self) -> bool {
        self.runs.is_empty() && self.loads.is_empty() && self.counts.is_empty() && self.traces.is_empty()
    }

    /// Whether its rows come from traces: it takes minutes, and equal programs give nearly equal
    /// rows on every machine.
    pub fn is_traced(&self) -> bool {
        !self.traces.is_empty()
    }

    /// The rows of all its entries; see [`Simulate::rows`].
    ///
    /// # Errors
    /// As [`Simulate::rows`], with the experiment's name.
    pub fn simulated_rows(&self, profile: Option<&str>) -> Result<Vec<Row>, DataError> {
        let mut rows = Vec::new();
        for entry in &self.simulate {
            rows.extend(entry.rows(profile).map_err(|e| DataError::of(&self.id, e.to_string()))?);
        }
        rows.iter_mut().for_each(|row| row.set(EXPERIMENT, self.id.as_str()));
        Ok(rows)
    }

    /// Whether it is a figure or table of the papers.
    pub fn is_figure(&self) -> bool {
        self.figure.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_an_experiment() {
        let text = "id = \"a-1\"\ncaption = \"c\"\nruns = [\"micro\"]\n";
        let experiment = Experiment::parse("a-1.toml", text).unwrap();
        assert_eq!((experiment.cores, experiment.is_figure()), (1, false));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, part) in [
            ("id = \"b\"\ncaption = \"c\"\nruns = [\"micro\"]", "name of the file"),
            ("id = \"a\"\ncaption = \"c\"", "nothing to run"),
            ("id = \"a\"\ncaption = \"c\"\nruns = [\"micro\"]\nwaits = \"x\"", "in later.toml"),
            ("id = \"a\"\ncaption = \"c\"\nrun = [\"micro\"]", "unknown field `run`"),
            ("id = ", "line 1"),
        ] {
            let error = Experiment::parse("a.toml", text).unwrap_err().to_string();
            assert!(error.starts_with("a.toml: ") && error.contains(part), "{error}");
        }
    }
}
