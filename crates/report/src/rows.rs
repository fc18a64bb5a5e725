//! Rows from files: readable rows are kept, and unusable lines are named.
//!
//! Many fields of a row may be missing, so rows of an older build make a report too, with fewer
//! charts.

use driver::ResultRow;
use serde::Deserialize;
use serde_json::Value;

/// One line of a rows file.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    pub row: ResultRow,
    /// The original line.
    pub json: Value,
    /// The source, as the user named it.
    pub source: String,
}

/// Why a line is not in the report, or only partly.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Complaint {
    #[error("{source_name}: holds no rows; expected the rows.jsonl of atoll bench --out")]
    Empty { source_name: String },
    #[error(
        "{source_name} line {line}: no result row ({why}); left out; expected one JSON object a line as atoll bench --out writes it"
    )]
    Damaged { source_name: String, line: usize, why: String },
    #[error(
        "{source_name} line {line}: a row of version {version}, newer than this atoll ({}); left out; make the report with that version",
        driver::VERSION
    )]
    Newer { source_name: String, line: usize, version: String },
}

/// The rows of any number of sources, and their problems.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    pub rows: Vec<Row>,
    /// Omitted lines.
    pub complaints: Vec<Complaint>,
    /// Remarks about lines that were kept.
    pub remarks: Vec<String>,
}

impl Rows {
    /// Adds the rows of one source: its name and its text, one JSON object per line. Invalid bytes
    /// spoil their line, not the file.
    pub fn add(&mut self, source: &str, text: &[u8]) {
        let before = (self.rows.len(), self.complaints.len());
        for (number, line) in text.split(|b| *b == b'\n').enumerate() {
            if !line.trim_ascii().is_empty() {
                self.line(source, number + 1, line);
            }
        }
        if before == (self.rows.len(), self.complaints.len()) {
            self.complaints.push(Complaint::Empty { source_name: source.into() });
        }
        self.remark_versions(source, before.0);
    }

    fn line(&mut self, source: &str, line: usize, bytes: &[u8]) {
        match Row::parse(source, bytes) {
            Ok(row) if is_newer(&row.row.version) => {
                let version = row.row.version;
                self.complaints.push(Complaint::Newer { source_name: source.into(), line, version });
            }
            Ok(row) => self.rows.push(row),
            Err(why) => self.complaints.push(unusable(source, line, bytes, why)),
        }
    }

    fn remark_versions(&mut self, source: &str, from: usize) {
        let mut others: Vec<&str> = self.rows[from..]
            .iter()
            .map(|r| r.row.version.as_str())
            .filter(|v| release(v) != release(driver::VERSION))
            .collect();
        others.sort_unstable();
        others.dedup();
        if !others.is_empty() {
            let (versions, here) = (others.join(", "), driver::VERSION);
            self.remarks.push(format!(
                "{source}: rows of version {versions}, this atoll is {here}; what that version did not measure is missing"
            ));
        }
    }
}

impl From<&ResultRow> for Row {
    /// A row of this process, from no file.
    fn from(row: &ResultRow) -> Row {
        // Cannot fail: a row has string keys, and non-finite numbers are written as null.
        let json = serde_json::to_value(row).unwrap_or_default();
        Row { row: row.clone(), json, source: String::new() }
    }
}

impl Row {
    /// # Errors
    /// Why the text is no row.
    pub fn parse(source: &str, bytes: &[u8]) -> Result<Row, String> {
        let json: Value = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
        if !json.is_object() {
            return Err("expected a JSON object".into());
        }
        let row = ResultRow::deserialize(&json).map_err(|e| e.to_string())?;
        Ok(Row { row, json, source: source.into() })
    }
}

/// An unusable line may come from a later version: that is then the better explanation.
fn unusable(source: &str, line: usize, bytes: &[u8], why: String) -> Complaint {
    #[derive(Deserialize)]
    struct Stamp {
        version: String,
    }
    let source_name = source.to_string();
    match serde_json::from_slice::<Stamp>(bytes) {
        Ok(stamp) if is_newer(&stamp.version) => {
            Complaint::Newer { source_name, line, version: stamp.version }
        }
        _ => Complaint::Damaged { source_name, line, why },
    }
}

/// Major and minor number: the meaning of rows changes only between these.
fn release(version: &str) -> Option<(u64, u64)> {
    let mut parts = version.split('.').map(|p| p.parse().ok());
    Some((parts.next()??, parts.next()??))
}

fn is_newer(version: &str) -> bool {
    release(version) > release(driver::VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(version: &str) -> String {
        let row = ResultRow { version: version.into(), ..ResultRow::default() };
        serde_json::to_string(&row).unwrap()
    }

    #[test]
    fn good_lines_survive_bad_neighbours() {
        let good = line(driver::VERSION);
        let mut text = format!("{good}\nnonsense\n\n{}\n[]\n{good}\n", &good[..good.len() / 2]).into_bytes();
        text.extend(b"\xff\xfe\n");
        let mut rows = Rows::default();
        rows.add("a.jsonl", &text);
        assert_eq!(rows.rows.len(), 2);
        let lines: Vec<String> = rows.complaints.iter().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 4, "{lines:#?}");
        for (line, number) in lines.iter().zip([2, 4, 5, 7]) {
            assert!(line.starts_with(&format!("a.jsonl line {number}: no result row")), "{line}");
        }
    }

    #[test]
    fn rows_of_a_later_version_are_left_out_and_of_an_earlier_one_remarked() {
        let mut rows = Rows::default();
        rows.add(
            "new",
            format!("{}\n{{\"version\":\"99.0.0\",\"tps\":\"many\"}}", line("99.0.0")).as_bytes(),
        );
        assert!(rows.rows.is_empty());
        for complaint in &rows.complaints {
            assert!(
                matches!(complaint, Complaint::Newer { version, .. } if version == "99.0.0"),
                "{complaint}"
            );
        }
        rows.add("old", line("0.0.9").as_bytes());
        assert_eq!((rows.rows.len(), rows.complaints.len()), (1, 2));
        assert!(rows.remarks[0].contains("0.0.9"), "{:?}", rows.remarks);
        rows.add("none", b" \n");
        assert!(matches!(rows.complaints.last(), Some(Complaint::Empty { .. })));
    }
}
