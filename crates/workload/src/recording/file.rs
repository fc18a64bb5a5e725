//! The file of a recording: a line of JSON with the [`Header`], then a line for each transaction.

use super::{Header, Op, Recorded, Recording};
use std::path::Path;
use std::sync::OnceLock;

/// The version of the file's form; a program reads its own.
pub const VERSION: u32 = 1;
/// A recording is read into memory.
const MOST_TRANSACTIONS: usize = 1_000_000;

/// Why a file is no recording that can be carried out.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    #[error("{file}: {problem}")]
    Io { file: String, problem: std::io::Error },
    #[error(
        "{file}: line {line}: {problem}; expected a recording of version {VERSION}, as atoll record writes it"
    )]
    Line { file: String, line: usize, problem: String },
    #[error("{0}: this program reads no files of recordings")]
    NoReader(String),
}

/// Reads a whole file.
pub type ReadFile = fn(&Path) -> std::io::Result<Vec<u8>>;

static READ_FILE: OnceLock<ReadFile> = OnceLock::new();

/// Gives this crate, which knows no files, a way to read recordings. A program calls it before it
/// builds the workload of a recording; the first way is kept.
pub fn read_files_by(read: ReadFile) {
    READ_FILE.get_or_init(|| read);
}

impl Recording {
    /// Reads a recording and checks that its parts fit each other.
    ///
    /// # Errors
    /// A file that cannot be read, that is no recording of [`VERSION`], or of which a line names a
    /// table, a site or a kind that the first line has not: the file, and the line.
    pub fn read(path: &Path) -> Result<Recording, RecordingError> {
        let file = || path.display().to_string();
        let read = READ_FILE.get().ok_or_else(|| RecordingError::NoReader(file()))?;
        let bytes = read(path).map_err(|problem| RecordingError::Io { file: file(), problem })?;
        let wrong = |(line, problem)| RecordingError::Line { file: file(), line, problem };
        Recording::parse(&String::from_utf8_lossy(&bytes)).map_err(wrong)
    }

    /// The contents of the file.
    pub fn bytes(&self) -> Vec<u8> {
        let line = |text: Result<Vec<u8>, serde_json::Error>| text.expect("names and numbers have a form");
        let mut all = line(serde_json::to_vec(&self.header));
        for recorded in &self.transactions {
            all.push(b'\n');
            all.extend(line(serde_json::to_vec(recorded)));
        }
        all.push(b'\n');
        all
    }

    /// The recording in a text; else the line, and its problem.
    fn parse(text: &str) -> Result<Recording, (usize, String)> {
        let mut lines = (1..).zip(text.lines());
        let (_, first) = lines.next().ok_or_else(|| (1, "the file is empty".to_owned()))?;
        let header: Header = serde_json::from_str(first).map_err(|e| (1, e.to_string()))?;
        header.check().map_err(|problem| (1, problem))?;
        let mut transactions = Vec::new();
        for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
            let recorded: Recorded = serde_json::from_str(line).map_err(|e| (number, e.to_string()))?;
            recorded.check(&header).map_err(|problem| (number, problem))?;
            if transactions.len() == MOST_TRANSACTIONS {
                return Err((number, format!("more than {MOST_TRANSACTIONS} transactions")));
            }
            transactions.push(recorded);
        }
        match transactions.is_empty() {
            true => Err((2, "no transaction is recorded".to_owned())),
            false => Ok(Recording { header, transactions }),
        }
    }
}

impl Header {
    fn check(&self) -> Result<(), String> {
        if self.atoll_recording != VERSION {
            return Err(format!("version {}", self.atoll_recording));
        }
        if !(1..=65_536).contains(&self.sites) {
            return Err(format!("{} sites are not 1 to 65536", self.sites));
        }
        if self.tables.is_empty() || self.tables.len() > 1_000 || self.kinds.is_empty() {
            return Err("it names no tables or no kinds of transactions, or more than 1000 tables".into());
        }
        match self.tables.iter().find(|table| table.rows == 0 || table.rows > 1 << 40) {
            Some(table) => Err(format!("table {} has {} rows", table.name, table.rows)),
            None => Ok(()),
        }
    }
}

impl Recorded {
    fn check(&self, header: &Header) -> Result<(), String> {
        let Recorded(kind, home, _) = self;
        if usize::from(*kind) >= header.kinds.len() || *home >= header.sites {
            return Err(format!("kind {kind} or site {home} is not among those of the first line"));
        }
        if self.touches().next().is_none() {
            return Err("the transaction touches no row".into());
        }
        for touch in self.touches() {
            let table = header.tables.get(usize::from(touch.table));
            let table = table.ok_or_else(|| format!("there is no table {}", touch.table))?;
            if touch.site >= header.sites || touch.row.is_some_and(|row| row >= table.rows) {
                return Err(format!("{} has no such row: site {}, {:?}", table.name, touch.site, touch.row));
            }
            if touch.count == 0 || touch.count > 1 && touch.op != Op::Scan {
                return Err(format!("{} rows of one {:?}", touch.count, touch.op));
            }
            if table.is_replicated && touch.op.writes() {
                return Err(format!("{} is replicated, and a transaction writes it", table.name));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Table, Touch};
    use super::*;

    fn recording() -> Recording {
        let table =
            |name: &str, is_replicated| Table { name: name.into(), row_bytes: 80, rows: 100, is_replicated };
        let touch = |table, op, row| Touch { table, site: 1, op, row, count: 1 };
        let first = vec![touch(0, Op::Update, Some(3)), touch(0, Op::Read, None)];
        let second = vec![Touch { count: 20, site: 0, ..touch(1, Op::Scan, None) }];
        Recording {
            header: Header {
                atoll_recording: VERSION,
                source: "toy".into(),
                sites: 2,
                is_routed: false,
                tables: vec![table("T", false), table("ITEM", true)],
                kinds: vec!["pay".into()],
            },
            transactions: vec![Recorded(0, 1, vec![first, second])],
        }
    }

    fn read(path: &Path) -> Result<Recording, RecordingError> {
        read_files_by(|path| std::fs::read(path));
        Recording::read(path)
    }

    #[test]
    fn a_recording_comes_back_from_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        let text = String::from_utf8(recording().bytes()).unwrap();
        std::fs::write(&path, &text).unwrap();
        assert_eq!(read(&path).unwrap(), recording());
        assert_eq!(
            text.lines().nth(1),
            Some(r#"[0,1,[[[0,1,"u",3,1],[0,1,"r",null,1]],[[1,0,"s",null,20]]]]"#)
        );
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        let good = String::from_utf8(recording().bytes()).unwrap();
        let edits: [(&str, &str, &str); 11] = [
            (
                &good[good.find(",[[[0").unwrap()..good.len() - 1],
                ",[[]]]",
                "line 2: the transaction touches no row",
            ),
            (r#""atoll_recording":1"#, r#""atoll_recording":2"#, "line 1: version 2"),
            (r#""sites":2"#, r#""sites":0"#, "line 1: 0 sites"),
            (r#""rows":100"#, r#""rows":0"#, "line 1: table T has 0 rows"),
            ("[0,1,[[[0", "[1,1,[[[0", "line 2: kind 1"),
            ("[0,1,[[[0", "[0,2,[[[0", "line 2: kind 0 or site 2"),
            (r#"[0,1,"u",3,1]"#, r#"[7,1,"u",3,1]"#, "line 2: there is no table 7"),
            (r#"[0,1,"u",3,1]"#, r#"[0,1,"u",100,1]"#, "line 2: T has no such row"),
            (r#"[0,1,"u",3,1]"#, r#"[0,1,"u",3,2]"#, "line 2: 2 rows of one Update"),
            (r#"[1,0,"s",null,20]"#, r#"[1,0,"d",null,1]"#, "line 2: ITEM is replicated"),
            (r#"[0,1,"u",3,1]"#, r#"[0,1,"x",3,1]"#, "line 2: unknown variant"),
        ];
        for (from, to, expected) in edits {
            let text = good.replacen(from, to, 1);
            assert_ne!(text, good, "{from}");
            std::fs::write(&path, text).unwrap();
            let told = read(&path).unwrap_err().to_string();
            assert!(told.contains(expected) && told.contains("as atoll record writes it"), "{told}");
        }
        for (text, expected) in
            [("", "empty"), ("{}\n", "missing field"), (good.lines().next().unwrap(), "no transaction")]
        {
            std::fs::write(&path, text).unwrap();
            assert!(read(&path).unwrap_err().to_string().contains(expected), "{text:?}");
        }
        let none = dir.path().join("none");
        let told = read(&none).unwrap_err().to_string();
        assert!(told.contains("none") && told.contains("No such file"), "{told}");
    }
}
