//! Where rows go: JSON lines or a table on standard output, and a directory of results.

use crate::cli::ResultArgs;
use crate::failure::Failure;
use crate::plain;
use crate::results::{Directory, line_of};
use crate::row_table::{RowTable, profiles};
use crate::sheet::{fitted, terminal_width};
use base::counted;
use driver::ResultRow;
use report::Row;
use report::flat::csv_of;
use std::io::{self, Write};
use std::path::PathBuf;
use topology::Machine;
use world::tell;

/// Takes rows one by one, in place of standard output.
pub type Sink = Box<dyn FnMut(&ResultRow) -> Result<(), Failure>>;

pub struct Output {
    json: bool,
    csv: bool,
    directory: Option<Directory>,
    sink: Option<Sink>,
    rows: Vec<ResultRow>,
    /// The table that is printed row by row.
    table: Option<RowTable>,
    /// The number of rows that no table has shown.
    unshown: usize,
}

impl Output {
    /// `machine`: the machine that the rows were measured on, for their report.
    ///
    /// # Errors
    /// The directory or a file in it cannot be made.
    pub fn new(args: &ResultArgs, machine: &Machine) -> Result<Output, Failure> {
        let directory = args.out.as_deref().map(|path| Directory::new(path, args.earlier(), machine));
        let directory = directory.transpose()?;
        Ok(Output { json: args.json, csv: args.csv, directory, ..Output::to_nowhere() })
    }

    /// Prints nothing: rows go to `sink`.
    pub fn to(sink: Sink) -> Output {
        Output { sink: Some(sink), ..Output::to_nowhere() }
    }

    fn to_nowhere() -> Output {
        let rows = Vec::new();
        Output { json: false, csv: false, directory: None, sink: None, rows, table: None, unshown: 0 }
    }

    /// Announces the next rows: they are printed as they come, in one table.
    pub fn expect(&mut self, planned: &[ResultRow]) {
        self.table = Some(RowTable::of_results(planned, terminal_width()));
    }

    /// Writes the row to each place that takes single rows.
    pub fn add(&mut self, row: ResultRow) -> Result<(), Failure> {
        let line = line_of(&row)?;
        if let Some(directory) = &mut self.directory {
            directory.add(&line)?;
        }
        if self.json {
            print(&line)?;
        }
        if let Some(sink) = &mut self.sink {
            sink(&row)?;
        }
        match &mut self.table {
            Some(table) if !self.json && !self.csv => {
                if table.begins() && !self.rows.is_empty() {
                    print("")?;
                }
                print(&table.lines(&row))?;
            }
            _ => self.unshown += 1,
        }
        self.rows.push(row);
        Ok(())
    }

    /// Writes the report, if results go into a directory, and returns its path.
    pub fn report(&mut self) -> Result<Option<PathBuf>, Failure> {
        self.directory.as_mut().map_or(Ok(None), Directory::report)
    }

    pub fn rows(&self) -> &[ResultRow] {
        &self.rows
    }

    /// Writes the report, prints the remaining tables unless JSON was asked for, and then runs
    /// [`Output::check`].
    pub fn finish(&mut self) -> Result<(), Failure> {
        if let Some(path) = self.report()? {
            tell(format_args!("report: {}", path.display()));
        }
        if self.csv {
            let rows: Vec<Row> = self.rows.iter().map(Row::from).collect();
            print(csv_of(rows.iter().map(|row| &row.json)).trim_end())?;
        }
        if !self.json && !self.csv && !self.rows.is_empty() {
            self.print_rest()?;
        }
        self.check()
    }

    /// Prints the rows that no table has shown, the legend, and the profile of time.
    fn print_rest(&mut self) -> Result<(), Failure> {
        let unshown = &self.rows[self.rows.len() - self.unshown..];
        if !unshown.is_empty() {
            let mut table = RowTable::of_results(unshown, terminal_width());
            unshown.iter().try_for_each(|row| print(&table.lines(row)))?;
            self.table = Some(table);
        }
        self.legend()?;
        beside(&self.rows).iter().try_for_each(|text| print(&format!("\n{text}")))?;
        if let Some(text) = profiles(&self.rows, terminal_width()) {
            print(&format!("\n{text}"))?;
        }
        Ok(())
    }

    /// Explains the columns of the last table.
    pub fn legend(&self) -> Result<(), Failure> {
        self.table.as_ref().map_or(Ok(()), |table| print(&format!("\n{}", table.legend())))
    }

    /// Names every check that failed.
    ///
    /// # Errors
    /// A row is inconsistent.
    pub fn check(&self) -> Result<(), Failure> {
        let bad: Vec<_> = self.rows.iter().filter(|r| r.consistent == Some(false)).collect();
        for row in &bad {
            row.violations.iter().for_each(|v| tell(format_args!("atoll: {}: {v}", title(row))));
        }
        if bad.is_empty() {
            Ok(())
        } else {
            Err(Failure::Inconsistent { count: bad.len(), rows: self.rows.len() })
        }
    }
}

/// Prints a line to standard output; a closed pipe is an ordinary end.
///
/// # Errors
/// The reader has closed standard output, or a write fails for another reason (a full disk, a
/// terminal that is gone).
pub fn print(line: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|e| match e.kind() {
        io::ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::Run(format!("cannot write to standard output: {e}; results may be missing there")),
    })
}

/// The text beside the table of rows: the kinds of transactions of a single row, or the winners
/// among several.
fn beside(rows: &[ResultRow]) -> Vec<String> {
    if let [row] = rows {
        let kinds = report::kinds(&[(String::new(), row)]);
        let text = |kinds| format!("By transaction\n{}", fitted(plain::table(kinds)));
        return kinds.iter().map(text).collect();
    }
    let winners = report::winners(rows);
    if winners.rows.is_empty() {
        return Vec::new();
    }
    vec![format!("The fastest, beyond spread and noise\n{}", fitted(plain::table(&winners)))]
}

/// A row's settings in a few words.
pub fn title(row: &ResultRow) -> String {
    let s = &row.settings;
    let mut words = vec![s.workload.clone()];
    words.extend(s.design.clone());
    words.extend(s.islands.map(|n| counted(n, "island")));
    words.extend(s.channel.clone());
    words.extend(s.labels.op.clone());
    words.extend(s.labels.multisite.map(|p| format!("{p} % multisite")));
    words.join(", ")
}

/// 1234567.8 -> "1,234,568".
pub fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (value, text) in [(0.0, "0"), (999.4, "999"), (1000.0, "1,000"), (1234567.8, "1,234,568")] {
            assert_eq!(thousands(value), text);
        }
    }

    #[test]
    fn a_single_row_is_divided_by_kind_and_several_are_ranked() {
        let kinds = [("payment".to_string(), 5), ("delivery".to_string(), 3)];
        let mut row =
            ResultRow { tps: 8.0, committed: 8, committed_by_kind: kinds.into(), ..ResultRow::default() };
        row.settings.design = Some("serial".into());
        let text = beside(std::slice::from_ref(&row)).concat();
        assert!(text.contains("payment") && text.contains("62.5") && !text.contains("fastest"), "{text}");
        let other = ResultRow { tps: 80.0, ..row.clone() };
        let mut rows = [row, other];
        rows[1].settings.design = Some("occ".into());
        let text = beside(&rows).concat();
        assert!(text.contains("10.00×") && text.contains("occ") && !text.contains("payment"), "{text}");
    }
}
