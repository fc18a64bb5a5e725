//! Files of rows: the rows of an experiment are kept, so that it need not run twice.
//!
//! ```text
//! DIR/vldbj-11.jsonl           every row of a finished experiment
//! DIR/vldbj-11.partial.jsonl   rows of an unfinished experiment: it is measured again
//! DIR/rows.jsonl               the rows of all experiments, for other programs
//! ```
//!
//! Each row carries its experiment, the length of windows, a hash of the runs, and the build of the
//! program, besides the version that result rows have anyway. Rows that differ in any of these
//! answer another question and are not reused.

use crate::error::DataError;
use crate::experiment::Experiment;
use crate::row::{EXPERIMENT, Row};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The stamp of rows that answer an experiment for this program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stamp {
    pub experiment: String,
    /// The length of windows.
    pub size: String,
    /// The hash of the runs, loads and counts.
    pub definition: String,
    pub version: String,
    /// Distinguishes builds of one version.
    pub build: String,
}

impl Stamp {
    pub fn new(experiment: &Experiment, size: &str, version: &str, build: &str) -> Stamp {
        let Experiment { runs, loads, counts, traces, .. } = experiment;
        let text = match traces.is_empty() {
            true => format!("{runs:?} {loads:?} {counts:?}"),
            false => format!("{runs:?} {loads:?} {counts:?} {traces:?}"),
        };
        Stamp {
            experiment: experiment.id.clone(),
            size: size.into(),
            definition: format!("{:016x}", base::hash64(text.as_bytes())),
            version: version.into(),
            build: build.into(),
        }
    }

    fn fields(&self) -> [(&'static str, &str); 5] {
        [
            (EXPERIMENT, &self.experiment),
            ("size", &self.size),
            ("definition", &self.definition),
            ("version", &self.version),
            ("build", &self.build),
        ]
    }

    pub fn put_on(&self, row: &mut Row) {
        self.fields().into_iter().for_each(|(name, value)| row.set(name, value));
    }

    pub fn is_on(&self, row: &Row) -> bool {
        self.fields().into_iter().all(|(name, value)| row.word(name).as_deref() == Some(value))
    }
}

/// The rows of a file, each with its experiment.
///
/// # Errors
/// A line that is no row; a row without an experiment; a row of another version than `version`;
/// with the line.
pub fn parse(file: &str, text: &str, version: &str) -> Result<Vec<Row>, DataError> {
    let row = |(i, line): (usize, &str)| {
        let wrong = |what: String| DataError::at(file, i + 1, what);
        let row = Row::parse(line)
            .map_err(|e| wrong(format!("{e}; take the line out, or leave the file out and measure anew")))?;
        if row.word(EXPERIMENT).is_none() {
            return Err(wrong(
                "no field \"experiment\": expected rows that atoll figures or atoll claims wrote with --out"
                    .into(),
            ));
        }
        match row.word("version") {
            Some(found) if found == version => Ok(row),
            found => Err(wrong(format!(
                "a row of version {}, and this is {version}: the meaning of its fields may have changed; measure anew",
                found.as_deref().unwrap_or("unknown")
            ))),
        }
    };
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(row).collect()
}

/// A directory of rows.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// # Errors
    /// The directory does not exist and cannot be made.
    pub fn open(path: &Path) -> io::Result<Folder> {
        fs::create_dir_all(path)?;
        Ok(Folder { path: path.into() })
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn whole(&self, experiment: &str) -> PathBuf {
        self.file(&format!("{experiment}.jsonl"))
    }

    /// The rows of an earlier run, if they have the same stamp; a file with another stamp counts as
    /// absent.
    pub fn find(&self, stamp: &Stamp) -> Option<Vec<Row>> {
        let text = fs::read_to_string(self.whole(&stamp.experiment)).ok()?;
        let rows = parse("", &text, &stamp.version).ok()?;
        (!rows.is_empty() && rows.iter().all(|row| stamp.is_on(row))).then_some(rows)
    }

    /// Begins the rows of an experiment.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn begin(&self, experiment: &str) -> io::Result<Partial> {
        let path = self.file(&format!("{experiment}.partial.jsonl"));
        Ok(Partial { file: fs::File::create(&path)?, path, whole: self.whole(experiment) })
    }

    /// Writes all rows into one file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_all<'a>(&self, rows: impl Iterator<Item = &'a Row>) -> io::Result<PathBuf> {
        let path = self.file("rows.jsonl");
        let text: String = rows.map(|row| row.line() + "\n").collect();
        fs::write(&path, text)?;
        Ok(path)
    }
}

/// The rows of an unfinished experiment. If it is dropped, they stay under the partial name.
#[derive(Debug)]
pub struct Partial {
    file: fs::File,
    path: PathBuf,
    whole: PathBuf,
}

impl Partial {
    /// # Errors
    /// The row cannot be written.
    pub fn add(&mut self, row: &Row) -> io::Result<()> {
        use io::Write;
        writeln!(self.file, "{}", row.line())
    }

    /// Marks the experiment as finished.
    ///
    /// # Errors
    /// The file cannot be renamed.
    pub fn finish(self) -> io::Result<()> {
        fs::rename(self.path, self.whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(size: &str) -> Stamp {
        let experiment =
            Experiment::parse("e.toml", "id = \"e\"\ncaption = \"c\"\nruns = [\"micro\"]").unwrap();
        Stamp::new(&experiment, size, "0.1.0", "abc")
    }

    fn row(stamp: &Stamp) -> Row {
        let mut row = Row::parse(r#"{"tps":1}"#).unwrap();
        stamp.put_on(&mut row);
        row
    }

    #[test]
    fn rows_come_back_if_they_answer_the_same_question() {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::open(&directory.path().join("deep/down")).unwrap();
        let full = stamp("full");
        let mut partial = folder.begin("e").unwrap();
        partial.add(&row(&full)).unwrap();
        drop(partial);
        assert!(folder.find(&full).is_none(), "an experiment that was interrupted");
        let mut partial = folder.begin("e").unwrap();
        partial.add(&row(&full)).unwrap();
        partial.finish().unwrap();
        assert_eq!(folder.find(&full), Some(vec![row(&full)]));
        assert!(folder.find(&stamp("quick")).is_none());
        assert!(folder.find(&Stamp { build: "def".into(), ..full.clone() }).is_none());
        assert!(folder.find(&Stamp { definition: "0".into(), ..full.clone() }).is_none());
        fs::write(folder.file("e.jsonl"), "{").unwrap();
        assert!(folder.find(&full).is_none(), "a damaged file");
    }

    #[test]
    fn damaged_and_foreign_rows_are_named_with_their_line() {
        let good = row(&stamp("full")).line();
        assert_eq!(parse("f", &format!("{good}\n\n{good}\n"), "0.1.0").unwrap().len(), 2);
        for (text, part) in [
            (format!("{good}\n{{\"tps\": 1"), "f:2: no JSON object"),
            (format!("{good}\n[1]"), "f:2: expected a JSON object"),
            (format!("{good}\n{{\"version\":\"0.1.0\"}}"), "f:2: no field \"experiment\""),
            (good.replace("0.1.0", "0.0.9"), "f:1: a row of version 0.0.9, and this is 0.1.0"),
        ] {
            let error = parse("f", &text, "0.1.0").unwrap_err().to_string();
            assert!(error.contains(part), "{part:?} in {error:?}");
        }
    }
}
