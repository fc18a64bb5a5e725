//! Tables of rows: results, row by row as they come, and profiles of where a transaction's time
//! goes.

use crate::columns::{self, Column, PROFILE, RESULTS, longest_wait};
use crate::sheet::{Measure, Setting, Sheet, folded};
use driver::{ResultRow, Wait};

pub struct RowTable {
    sheet: Sheet,
    columns: Vec<&'static Column>,
    width: Option<usize>,
    begun: bool,
}

impl RowTable {
    /// A table for planned rows or for finished ones: a result has a column if one of the rows has
    /// it.
    pub fn of_results(rows: &[ResultRow], width: Option<usize>) -> RowTable {
        RowTable::new(rows, RESULTS, width)
    }

    fn new(rows: &[ResultRow], columns: &'static [Column], width: Option<usize>) -> RowTable {
        let has = |column: &&Column| rows.iter().any(|row| (column.value)(row).is_some());
        let columns: Vec<&Column> = columns.iter().filter(has).collect();
        let measure = |c: &&Column| Measure { name: c.name, width: c.width, rank: c.rank };
        let measures: Vec<Measure> = columns.iter().map(measure).collect();
        RowTable { sheet: Sheet::new(&settings(rows), &measures, width), columns, width, begun: false }
    }

    /// The next row is the first.
    pub fn begins(&self) -> bool {
        !self.begun
    }

    /// The lines of a row; for the first row, the lines above it come first.
    pub fn lines(&mut self, row: &ResultRow) -> String {
        let mut text = if self.begun { String::new() } else { self.sheet.head() + "\n" };
        self.begun = true;
        let settings = columns::settings(row).into_iter().map(|(_, value)| value.unwrap_or_default());
        let settings: Vec<String> = settings.collect();
        let results: Vec<String> = self.columns.iter().map(|c| (c.value)(row).unwrap_or_default()).collect();
        text += &self.sheet.row(&settings, &results);
        for remark in remarks(row) {
            text += &format!("\n{}", folded("  ! ", remark, self.width));
        }
        text
    }

    /// The explanation of each column that needs one.
    pub fn legend(&self) -> String {
        let explained = self.sheet.shown().filter_map(|name| {
            let column = self.columns.iter().find(|c| c.name == name)?;
            Some((name, column.about)).filter(|(_, about)| !about.is_empty())
        });
        explanations(explained, self.width)
    }
}

/// The settings of these rows, as columns.
pub fn settings(rows: &[ResultRow]) -> Vec<Setting> {
    let names = columns::settings(&ResultRow::default()).into_iter().map(|(name, _)| name);
    let mut settings: Vec<Setting> = names.map(|name| Setting { name, values: Vec::new() }).collect();
    for row in rows {
        for (setting, (_, value)) in settings.iter_mut().zip(columns::settings(row)) {
            setting.values.push(value.unwrap_or_default());
        }
    }
    settings
}

fn explanations<'a>(of: impl Iterator<Item = (&'a str, &'a str)>, width: Option<usize>) -> String {
    let lines: Vec<String> =
        of.map(|(name, about)| folded(&format!("  {name:<10}  "), about, width)).collect();
    lines.join("\n")
}

/// Remarks that a reader of the row needs beside its numbers.
fn remarks(row: &ResultRow) -> impl Iterator<Item = &'static str> {
    let interrupted = row.interrupted == Some(true);
    let all = [
        (interrupted, "interrupted: these are the windows until then, and the data was not checked"),
        (row.steady == Some(false), "not steady: throughput still rose or fell over the windows"),
    ];
    all.into_iter().filter(|remark| remark.0).map(|remark| remark.1)
}

/// The table of where the time of transactions goes, with a legend; `None` if no row has a profile.
pub fn profiles(rows: &[ResultRow], width: Option<usize>) -> Option<String> {
    let profiled: Vec<ResultRow> = rows.iter().filter(|r| r.profile.is_some()).cloned().collect();
    if profiled.is_empty() {
        return None;
    }
    let mut table = RowTable::new(&profiled, PROFILE, width);
    let mut text = "Where a transaction's time goes".to_owned();
    for row in &profiled {
        text += &format!("\n{}", table.lines(row));
    }
    text += &format!("\n\n{}", table.legend());
    let mut waits: Vec<String> = profiled.iter().filter_map(longest_wait).collect();
    waits.sort();
    waits.dedup();
    let meanings = Wait::ALL.iter().map(|wait| (wait.name(), wait.meaning()));
    let met: Vec<_> = meanings.filter(|(name, _)| waits.iter().any(|wait| wait == name)).collect();
    if !met.is_empty() {
        text += &format!("\nTransactions waited for\n{}", explanations(met.into_iter(), width));
    }
    if let Some(words) = turn_in_words(&profiled) {
        text += &format!("\n{}", folded("", &words, width));
    }
    if let Some(reason) = no_hardware(&profiled) {
        text += &format!("\n{}", folded("", &format!("No hardware counters: {reason}."), width));
    }
    Some(text)
}

/// Why transactions wait for their turn, if that is their longest wait.
fn turn_in_words(rows: &[ResultRow]) -> Option<String> {
    let waits_for_turn = |r: &&ResultRow| longest_wait(r).is_some_and(|wait| wait == "turn");
    let clients = rows.iter().filter(waits_for_turn).find_map(|r| r.settings.clients).filter(|n| *n > 1)?;
    let others = clients - 1;
    Some(format!(
        "{clients} clients share a worker, and while it runs one transaction {others} wait for their turn."
    ))
}

/// Why no row has counters of the processor.
fn no_hardware(rows: &[ResultRow]) -> Option<&str> {
    let profiles = || rows.iter().filter_map(|r| r.profile.as_ref());
    if profiles().any(|p| p.hardware.is_some()) {
        return None;
    }
    profiles().find_map(|p| p.hardware_missing.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(islands: u16) -> ResultRow {
        let (tps_min, tps, tps_max) = (12_000.0, 12_345.0, 13_000.0);
        let mut row = ResultRow { tps_min, tps, tps_max, ..ResultRow::default() };
        row.settings.workload = "micro".into();
        row.settings.islands = Some(islands);
        row
    }

    fn text(rows: &[ResultRow]) -> String {
        let mut table = RowTable::of_results(rows, None);
        rows.iter().map(|row| table.lines(row) + "\n").collect()
    }

    #[test]
    fn only_what_differs_is_a_column_and_only_results_that_are_there() {
        let both = text(&[row(1), row(2)]);
        assert!(both.starts_with("common: workload micro\n"), "{both}");
        assert!(both.contains("islands   per s  spread") && both.contains("12.35k"), "{both}");
        assert!(!both.contains("kills") && !both.contains("tpmC"), "{both}");
        assert!(text(&[row(1)]).starts_with("common: workload micro, islands 1\n"));
    }

    #[test]
    fn a_planned_table_takes_rows_one_by_one() {
        let mut table = RowTable::of_results(&[row(1), row(2)], Some(80));
        let first = table.lines(&row(1));
        assert!(first.contains("common") && first.lines().last().unwrap().trim().starts_with('1'), "{first}");
        assert_eq!(table.lines(&row(2)).lines().count(), 1);
        assert!(table.legend().contains("spread      from the slowest to the fastest"), "{}", table.legend());
    }

    #[test]
    fn what_is_wrong_with_a_row_stands_below_it() {
        let cut = ResultRow { interrupted: Some(true), steady: Some(false), ..row(1) };
        let text = text(&[cut]);
        assert!(text.contains("\n  ! interrupted") && text.contains("\n  ! not steady"), "{text}");
    }

    #[test]
    fn the_breakdown_is_shown_for_rows_that_have_one() {
        let mut row = row(1);
        assert!(profiles(&[row.clone()], None).is_none());
        let profile = driver::PerTransaction {
            time_ns_per_txn: [("execution".to_string(), 1500.0), ("waiting".to_string(), 500.0)].into(),
            waiting_ns_per_txn: [("log".to_string(), 400.0), ("turn".to_string(), 100.0)].into(),
            ..driver::PerTransaction::default()
        };
        row.profile = Some(profile);
        let text = profiles(std::slice::from_ref(&row), None).unwrap();
        assert!(["75%", "25%", "2.00us", "wait for"].iter().all(|part| text.contains(part)), "{text}");
        assert!(text.contains("log         its log records"), "the wait is explained: {text}");
        assert!(!text.contains("turn") && !text.contains("latching"), "{text}");
        let profile = row.profile.as_mut().unwrap();
        profile.hardware_missing = Some("forbidden".into());
        assert_eq!(no_hardware(std::slice::from_ref(&row)), Some("forbidden"));
        let profile = row.profile.as_mut().unwrap();
        profile.hardware =
            Some([("cycles".to_string(), 2000.0), ("instructions".to_string(), 3000.0)].into());
        assert_eq!(no_hardware(std::slice::from_ref(&row)), None);
        assert!(profiles(&[row], None).unwrap().contains("1.50"));
    }

    #[test]
    fn waiting_for_a_turn_is_the_number_of_clients_in_words() {
        let mut row = row(1);
        row.settings.clients = Some(4);
        let waits = [("turn".to_string(), 300.0), ("log".to_string(), 100.0)].into();
        row.profile =
            Some(driver::PerTransaction { waiting_ns_per_txn: waits, ..driver::PerTransaction::default() });
        let text = turn_in_words(std::slice::from_ref(&row)).unwrap();
        assert!(text.contains("4 clients share a worker") && text.contains("3 wait"), "{text}");
        row.settings.clients = Some(1);
        assert_eq!(turn_in_words(&[row]), None);
    }
}
