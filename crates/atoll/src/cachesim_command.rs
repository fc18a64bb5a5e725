//! `atoll cachesim`: the figures of the thesis' chapters 6 to 8 from a trace.

use crate::cli::{CachesimArgs, ProtectArg, ResetArg, SchedulerArg, StudyArg, TypesArg};
use crate::failure::Failure;
use crate::output::print;
use crate::sheet::fitted;
use cachesim::machine::{BUILT_IN, Machine};
use cachesim::run::settings::{Protect, Reset, Scheduler, Settings, Types};
use cachesim::study::{self, Row};
use comfy_table::{CellAlignment, Table, presets};
use deploy::Interrupt;
use serde_json::Value;
use std::path::Path;
use trace::Trace;

pub fn run(args: &CachesimArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let mut trace = Trace::read(&args.trace).map_err(Failure::run)?;
    if let Some(most) = args.transactions {
        trace.transactions.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    }
    let rows = rows(args, &trace)?;
    if interrupt.is_set() {
        return Err(Failure::Interrupted);
    }
    if args.json {
        return rows.into_iter().try_for_each(|row| print(&Value::Object(row).to_string()));
    }
    tables(&rows).into_iter().try_for_each(|(name, table)| print(&format!("{name}\n{}\n", fitted(table))))
}

/// The rows of the study, or of the one run, that was asked for.
pub fn rows(args: &CachesimArgs, trace: &Trace) -> Result<Vec<Row>, Failure> {
    let single_core = args.study == Some(StudyArg::Chapter6);
    let machine =
        machine(args.machine.as_deref().unwrap_or(if single_core { "xeon-e5-2660" } else { "zesto" }))?;
    let half = trace.transactions.len() / 2;
    let settings = settings(args);
    let made = match args.study {
        Some(StudyArg::Chapter6) => study::chapter_6(trace, &machine, args.warm.unwrap_or(half)),
        Some(StudyArg::Chapter7) => study::chapter_7(trace, &machine, &settings, args.warm.unwrap_or(0)),
        Some(StudyArg::Chapter8) => study::chapter_8(trace, &machine, &settings, args.warm.unwrap_or(half)),
        None => study::one_run(trace, &machine, &settings, args.warm.unwrap_or(0)),
    };
    made.map_err(|e| Failure::Run(format!("{}: {e}", args.trace.display())))
}

/// A machine by its name, or by its file.
fn machine(word: &str) -> Result<Machine, Failure> {
    if BUILT_IN.iter().any(|(name, _)| *name == word) || !word.ends_with(".toml") {
        return Machine::built_in(word).map_err(Failure::usage);
    }
    let text = std::fs::read_to_string(Path::new(word))
        .map_err(|e| Failure::Usage(format!("--machine {word}: cannot be read: {e}")))?;
    Machine::parse(word, &text).map_err(Failure::usage)
}

fn settings(args: &CachesimArgs) -> Settings {
    Settings {
        scheduler: match args.scheduler {
            None | Some(SchedulerArg::Baseline) => Scheduler::Baseline,
            Some(SchedulerArg::NextLine) => Scheduler::NextLine,
            Some(SchedulerArg::Pif) => Scheduler::Pif,
            Some(SchedulerArg::Strex) => Scheduler::Strex,
            Some(SchedulerArg::Slicc) => Scheduler::Slicc,
            Some(SchedulerArg::Addict) => Scheduler::Addict,
        },
        cores: args.cores,
        contexts: args.contexts,
        team: args.team,
        window: args.window,
        protect: match args.protect {
            ProtectArg::Refuse => Protect::Refuse,
            ProtectArg::Fill => Protect::Fill,
        },
        fill_up: args.fill_up,
        matched: args.matched,
        dilution: args.dilution,
        signature: args.signature,
        types: match args.types {
            TypesArg::None => Types::None,
            TypesArg::Software => Types::Software,
            TypesArg::Scout => Types::Scout,
        },
        reset: match args.reset {
            ResetArg::Idle => Reset::Idle,
            ResetArg::Team => Reset::Team,
        },
        pool: args.pool,
        patience: args.patience,
        fetch_bytes: args.fetch_bytes,
        batch: args.batch.unwrap_or(0),
        ..Settings::default()
    }
}

/// Facts of the capture: the same in every row, and so not in the tables.
const FACTS: [&str; 6] = ["table", "workload", "design", "scale", "workers", "machine"];

/// One table for each name, in the order of the rows.
fn tables(rows: &[Row]) -> Vec<(String, Table)> {
    let mut names: Vec<&str> = rows.iter().filter_map(|row| row.get("table")?.as_str()).collect();
    names.dedup();
    names.into_iter().map(|name| (name.to_owned(), table(rows, name))).collect()
}

fn table(rows: &[Row], name: &str) -> Table {
    let theirs: Vec<&Row> =
        rows.iter().filter(|row| row.get("table").and_then(Value::as_str) == Some(name)).collect();
    let mut columns: Vec<&str> = Vec::new();
    for column in theirs.iter().flat_map(|row| row.keys()) {
        if !FACTS.contains(&column.as_str()) && !columns.contains(&column.as_str()) {
            columns.push(column);
        }
    }
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header(&columns);
    for row in theirs {
        table.add_row(columns.iter().map(|column| row.get(*column).map_or(String::new(), cell)));
    }
    for (at, column) in columns.iter().enumerate() {
        let is_number = rows.iter().any(|row| row.get(*column).is_some_and(Value::is_number));
        if let (true, Some(column)) = (is_number, table.column_mut(at)) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(n) if n.is_u64() || n.is_i64() => n.to_string(),
        Value::Number(n) => {
            let n = n.as_f64().unwrap_or(0.0);
            if n.abs() >= 1000.0 { format!("{n:.0}") } else { format!("{n:.3}") }
        }
        other => other.to_string(),
    }
}
