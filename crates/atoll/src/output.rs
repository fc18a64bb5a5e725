//! Where rows go: JSON lines or a table on standard output, and a directory of results.

use crate::cli::ResultArgs;
use crate::failure::Failure;
use crate::plain;
use crate::results::{Directory, line_of};
use base::counted;
use comfy_table::{CellAlignment, Table, presets};
use driver::ResultRow;
use report::Row;
use report::flat::csv_of;
use report::verdict::Measure;
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
}

impl Output {
    /// `machine`: the one that the rows are of, for a report of them.
    ///
    /// # Errors
    /// If the directory or a file in it cannot be made.
    pub fn new(args: &ResultArgs, machine: &Machine) -> Result<Output, Failure> {
        let directory = args.out.as_deref().map(|path| Directory::new(path, args.earlier(), machine));
        let directory = directory.transpose()?;
        Ok(Output { json: args.json, csv: args.csv, directory, sink: None, rows: Vec::new() })
    }

    /// Prints nothing: rows go to `sink`.
    pub fn to(sink: Sink) -> Output {
        Output { json: false, csv: false, directory: None, sink: Some(sink), rows: Vec::new() }
    }

    /// Writes the row wherever rows are wanted one by one.
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
        self.rows.push(row);
        Ok(())
    }

    /// Writes the report, if results go into a directory, and returns where it is.
    pub fn report(&mut self) -> Result<Option<PathBuf>, Failure> {
        self.directory.as_mut().map_or(Ok(None), Directory::report)
    }

    pub fn rows(&self) -> &[ResultRow] {
        &self.rows
    }

    /// Writes the report, prints the table unless JSON was asked for, and then [`Output::check`]s.
    pub fn finish(&mut self) -> Result<(), Failure> {
        if let Some(path) = self.report()? {
            tell(format_args!("report: {}", path.display()));
        }
        if self.csv {
            let rows: Vec<Row> = self.rows.iter().map(Row::from).collect();
            print(csv_of(rows.iter().map(|row| &row.json)).trim_end())?;
        }
        if !self.json && !self.csv && !self.rows.is_empty() {
            same(&self.rows).map_or(Ok(()), |text| print(&text))?;
            print(&table(&self.rows).to_string())?;
            beside(&self.rows).iter().try_for_each(|text| print(text))?;
            if let Some(profiles) = profile_table(&self.rows) {
                print(&format!(
                    "Where a transaction's time goes, in % of µs from request to reply\n{profiles}"
                ))?;
                turn_in_words(&self.rows).map_or(Ok(()), |text| print(&text))?;
                if let Some(reason) = no_hardware(&self.rows) {
                    print(&format!("No hardware counters: {reason}."))?;
                }
            }
        }
        self.check()
    }

    /// Names every check that did not hold.
    ///
    /// # Errors
    /// If a row is inconsistent.
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

/// One line to standard output; a closed pipe is an ordinary end.
///
/// # Errors
/// The reader has closed it, or it cannot be written for another reason (a full disk, a terminal that is gone).
pub fn print(line: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|e| match e.kind() {
        io::ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::Run(format!("cannot write to standard output: {e}; results may be missing there")),
    })
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

type Column = (&'static str, fn(&ResultRow) -> Option<String>);

/// Settings that are the same in every row stand above the table ([`same`]); the rest shows what the sweep was about.
const SETTINGS: &[Column] = &[
    ("workload", |r| Some(r.settings.workload.clone())),
    ("design", |r| r.settings.design.clone()),
    ("islands", |r| r.settings.islands.map(|n| n.to_string())),
    ("workers", |r| r.settings.workers.map(|n| n.to_string())),
    ("placement", |r| r.settings.placement.clone()),
    ("host", |r| r.settings.host.clone()),
    ("channel", |r| r.settings.channel.clone()),
    ("durability", |r| r.settings.durability.clone()),
    ("tables", |r| r.settings.tables.clone()),
    ("tree", |r| r.settings.tree.clone()),
    ("heap", |r| r.settings.heap.clone()),
    ("latching", |r| r.settings.latching.clone()),
    ("partitions", |r| r.settings.partitions.map(|n| n.to_string())),
    ("sli", |r| r.settings.sli.clone()),
    ("escalation", |r| r.settings.escalation.clone()),
    ("occ_conflict", |r| r.settings.occ_conflict.clone()),
    ("occ_reads", |r| r.settings.occ_reads.clone()),
    ("occ_ahead", |r| r.settings.occ_ahead.clone()),
    ("balance", |r| r.settings.balance.clone()),
    ("clients", |r| r.settings.clients.map(|n| n.to_string())),
    ("rate", |r| r.settings.rate.clone()),
    ("arrivals", |r| r.settings.arrivals.clone()),
    ("terminals", |r| r.settings.terminals.map(|n| n.to_string())),
    ("think", |r| r.settings.think.clone()),
    ("phases", |r| r.settings.phases.clone()),
    ("counters", |r| r.settings.labels.counters.clone()),
    ("protection", |r| r.settings.labels.protection.clone()),
    ("waiting", |r| r.settings.labels.waiting.clone()),
    ("peers", |r| r.settings.labels.peers.clone()),
    ("op", |r| r.settings.labels.op.clone()),
    ("rows", |r| r.settings.labels.rows.map(|n| n.to_string())),
    ("skew", |r| r.settings.labels.skew.map(|n| n.to_string())),
    ("hot", |r| r.settings.labels.hot.clone()),
    ("dataset", |r| r.settings.labels.dataset.map(|n| n.to_string())),
    ("scale", |r| r.settings.labels.scale.map(|n| n.to_string())),
    ("multisite %", |r| r.settings.labels.multisite.map(|n| n.to_string())),
    ("options", |r| {
        let options = &r.settings.labels.options;
        let words: Vec<_> = options.iter().map(|(name, value)| format!("{name} {value}")).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }),
];

const RESULTS: &[Column] = &[
    ("per second", |r| Some(thousands(r.tps))),
    // From the slowest to the fastest repetition, as a share of the median.
    ("spread %", |r| {
        let spread = Measure::Tps.spread(r).filter(|spread| spread.measured)?;
        Some(format!("{:.0}", spread.share() * 100.0))
    }),
    ("distributed %", |r| r.distributed.map(|d| format!("{:.1}", d * 100.0))),
    ("offered", |r| r.offered_tps.map(thousands)),
    ("backlog", |r| r.backlog.filter(|n| *n > 0).map(|n| thousands(n as f64))),
    ("tpmC", |r| r.tpmc.map(thousands)),
    ("of ceiling %", |r| Some(format!("{:.1}", r.tpmc? / r.tpmc_ceiling? * 100.0))),
    ("p50 µs", |r| r.latency_us.map(|l| format!("{:.1}", l.p50))),
    ("p99 µs", |r| r.latency_us.map(|l| format!("{:.1}", l.p99))),
    ("user rollbacks", |r| Some(thousands(r.user_rollbacks() as f64)).filter(|_| r.user_rollbacks() > 0)),
    ("conflicts", |r| Some(thousands(r.conflicts() as f64)).filter(|_| r.consistent.is_some())),
    ("messages/s", |r| r.messages_per_second.map(thousands)),
    ("rebalances", |r| Some(r.rebalances.len()).filter(|n| *n > 0).map(|n| n.to_string())),
    ("kills", |r| r.kills.map(|n| n.to_string())),
    ("in doubt ms", |r| r.max_in_doubt_ms.map(|n| n.to_string())),
    // Worth a column only where it is not.
    ("steady", |r| (r.steady == Some(false)).then(|| "no".into())),
    ("noise %", |r| Some(format!("{:.0}", r.noise * 100.0))),
    ("consistent", |r| r.consistent.map(|c| if c { "yes" } else { "NO" }.into())),
];

/// Of rows with a profile. The rest of what it says is in the JSON rows.
const PROFILE: &[Column] = &[
    ("µs", |r| r.profile.as_ref().map(|p| format!("{:.1}", p.elapsed_ns() / 1000.0))),
    ("execution", |r| share(r, "execution")),
    ("locking", |r| share(r, "locking")),
    ("latching", |r| share(r, "latching")),
    ("logging", |r| share(r, "logging")),
    ("communication", |r| share(r, "communication")),
    ("management", |r| share(r, "management")),
    ("waiting", |r| share(r, "waiting")),
    ("mostly for", |r| {
        let waits = &r.profile.as_ref()?.waiting_ns_per_txn;
        waits.iter().filter(|w| *w.1 > 0.0).max_by(|a, b| a.1.total_cmp(b.1)).map(|w| w.0.clone())
    }),
    ("idle workers", |r| {
        let workers = &r.profile.as_ref()?.worker_ns_per_txn;
        Some(format!("{:.0}", workers.get("idle")? / workers.values().sum::<f64>() * 100.0))
    }),
    ("sections", |r| {
        let sections = &r.profile.as_ref()?.critical_sections_per_txn;
        Some(format!("{:.1}", sections.values().flat_map(|kinds| kinds.values()).sum::<f64>()))
    }),
    ("latches", |r| Some(format!("{:.1}", r.profile.as_ref()?.latches_per_txn.values().sum::<f64>()))),
    ("row locks", |r| Some(format!("{:.1}", r.profile.as_ref()?.accesses_per_txn.get("row_locks")?))),
    ("instructions", |r| hardware(r, "instructions").map(thousands)),
    ("IPC", |r| Some(format!("{:.2}", hardware(r, "instructions")? / hardware(r, "cycles")?))),
    ("LLC misses", |r| hardware(r, "llc_misses").map(|n| format!("{n:.1}"))),
];

/// Of what a transaction waits for, among the columns of a profile.
const MOSTLY: usize = 8;

/// What the processor counted of an event per transaction.
fn hardware(row: &ResultRow, event: &str) -> Option<f64> {
    row.profile.as_ref()?.hardware.as_ref()?.get(event).copied()
}

/// A component's share of the time of a transaction, in per cent.
fn share(row: &ResultRow, component: &str) -> Option<String> {
    let profile = row.profile.as_ref()?;
    let part = profile.time_ns_per_txn.get(component)?;
    Some(format!("{:.1}", part / profile.elapsed_ns().max(1e-9) * 100.0))
}

/// Why no row has any.
fn no_hardware(rows: &[ResultRow]) -> Option<&str> {
    let profiles = || rows.iter().filter_map(|r| r.profile.as_ref());
    if profiles().any(|p| p.hardware.is_some()) {
        return None;
    }
    profiles().find_map(|p| p.hardware_missing.as_deref())
}

/// What the table of rows does not say: of a single row its kinds of transactions, of several the winners.
fn beside(rows: &[ResultRow]) -> Vec<String> {
    if let [row] = rows {
        let kinds = report::kinds(&[(String::new(), row)]);
        return kinds.iter().map(|kinds| format!("By transaction\n{}", plain::table(kinds))).collect();
    }
    let winners = report::winners(rows);
    if winners.rows.is_empty() {
        return Vec::new();
    }
    vec![format!("The fastest, beyond spread and noise\n{}", plain::table(&winners))]
}

/// Why transactions wait for their turn, where that is what they wait for most.
fn turn_in_words(rows: &[ResultRow]) -> Option<String> {
    let waits_for_turn = |r: &&ResultRow| (PROFILE[MOSTLY].1)(r).is_some_and(|wait| wait == "turn");
    let clients = rows.iter().filter(waits_for_turn).find_map(|r| r.settings.clients).filter(|n| *n > 1)?;
    Some(format!(
        "Waiting for its turn: {clients} clients share a worker, and while it runs one transaction {} wait.",
        clients - 1
    ))
}

/// `None` when no row has a profile.
fn profile_table(rows: &[ResultRow]) -> Option<Table> {
    rows.iter().any(|r| r.profile.is_some()).then(|| table_of(rows, PROFILE))
}

/// The first settings, which are columns also where there is one row and nothing to compare.
const ALWAYS: usize = 3;
/// Characters of a line of text.
const LINE: usize = 100;

/// The settings that are no columns because all rows agree on them, in lines; `None` if there are none.
fn same(rows: &[ResultRow]) -> Option<String> {
    let silent = SETTINGS.iter().enumerate().filter(|(i, column)| !is_told(rows, *i, column));
    let words = silent.filter_map(|(_, (name, value))| Some(format!("{name} {}", value(rows.first()?)?)));
    let mut text = String::new();
    let mut line = "The same in all rows:".len();
    for word in words {
        let at_end = line + word.len() + 2 > LINE;
        text += if text.is_empty() { "" } else { "," };
        text += if at_end { "\n" } else { " " };
        text += &word;
        line = if at_end { 0 } else { line + 2 } + word.len();
    }
    (!text.is_empty()).then(|| format!("The same in all rows:{text}"))
}

/// Whether setting number `i` is a column.
fn is_told(rows: &[ResultRow], i: usize, column: &Column) -> bool {
    let value = column.1;
    let differs = rows.windows(2).any(|w| value(&w[0]) != value(&w[1]));
    differs || rows.len() == 1 && i < ALWAYS && value(&rows[0]).is_some()
}

pub fn table(rows: &[ResultRow]) -> Table {
    table_of(rows, RESULTS)
}

/// What differs between the rows, and then `results`.
fn table_of(rows: &[ResultRow], results: &'static [Column]) -> Table {
    let values = |column: &Column| rows.iter().map(column.1).collect::<Vec<_>>();
    let told = SETTINGS.iter().enumerate().filter(|(i, column)| is_told(rows, *i, column));
    let settings: Vec<&Column> = told.map(|(_, column)| column).collect();
    let results: Vec<&Column> = results.iter().filter(|c| values(c).iter().any(Option::is_some)).collect();
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header(settings.iter().chain(&results).map(|c| c.0));
    for row in rows {
        table.add_row(settings.iter().chain(&results).map(|c| (c.1)(row).unwrap_or_default()));
    }
    for i in 0..settings.len() + results.len() {
        if let Some(column) = table.column_mut(i) {
            let numeric = i >= settings.len()
                || rows.iter().all(|r| (settings[i].1)(r).is_none_or(|v| v.parse::<f64>().is_ok()));
            column.set_cell_alignment(if numeric { CellAlignment::Right } else { CellAlignment::Left });
        }
    }
    table
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
    fn the_breakdown_is_shown_for_rows_that_have_one() {
        let mut row = ResultRow::default();
        assert!(profile_table(&[row.clone()]).is_none());
        let profile = driver::PerTransaction {
            time_ns_per_txn: [("execution".to_string(), 1500.0), ("waiting".to_string(), 500.0)].into(),
            waiting_ns_per_txn: [("log".to_string(), 400.0), ("turn".to_string(), 100.0)].into(),
            ..driver::PerTransaction::default()
        };
        row.profile = Some(profile);
        let text = profile_table(std::slice::from_ref(&row)).unwrap().to_string();
        assert!(["75.0", "25.0", "2.0", "log"].iter().all(|part| text.contains(part)), "{text}");
        assert!(!text.contains("turn") && !text.contains("latching"), "{text}");
        let profile = row.profile.as_mut().unwrap();
        profile.hardware_missing = Some("forbidden".into());
        assert_eq!(no_hardware(std::slice::from_ref(&row)), Some("forbidden"));
        let profile = row.profile.as_mut().unwrap();
        profile.hardware =
            Some([("cycles".to_string(), 2000.0), ("instructions".to_string(), 3000.0)].into());
        assert_eq!(no_hardware(std::slice::from_ref(&row)), None);
        assert!(profile_table(&[row]).unwrap().to_string().contains("1.50"));
        assert_eq!(PROFILE[MOSTLY].0, "mostly for");
    }

    #[test]
    fn waiting_for_a_turn_is_the_number_of_clients_in_words() {
        let mut row = ResultRow::default();
        row.settings.clients = Some(4);
        let waits = [("turn".to_string(), 300.0), ("log".to_string(), 100.0)].into();
        row.profile =
            Some(driver::PerTransaction { waiting_ns_per_txn: waits, ..driver::PerTransaction::default() });
        let text = turn_in_words(std::slice::from_ref(&row)).unwrap();
        assert!(text.contains("4 clients share a worker") && text.contains("3 wait"), "{text}");
        row.settings.clients = Some(1);
        assert_eq!(turn_in_words(&[row]), None);
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

    #[test]
    fn only_what_differs_is_a_column() {
        let row = |islands| {
            let mut row = ResultRow::default();
            row.settings.workload = "micro".into();
            row.settings.islands = Some(islands);
            row
        };
        let text = table(&[row(1), row(2)]).to_string();
        assert!(text.contains("islands") && !text.contains("workload") && !text.contains("kills"), "{text}");
        assert!(table(&[row(1)]).to_string().contains("workload"));
        assert_eq!(same(&[row(1), row(2)]).as_deref(), Some("The same in all rows: workload micro"));
        assert_eq!(same(&[row(1)]), None);
        let mut full = row(1);
        full.settings.workers = Some(2);
        full.settings.phases = Some("x".repeat(LINE));
        let text = format!("The same in all rows: workers 2,\nphases {}", "x".repeat(LINE));
        assert_eq!(same(&[full]), Some(text));
    }
}
