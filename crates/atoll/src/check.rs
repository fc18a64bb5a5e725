//! `atoll check`: looks for damage in a database that no instance runs on.
//!
//! The result is a table of findings, each with its file, its place and advice; or JSON lines, one
//! for each finding and a last one with totals. Notes (wasted space, writes that opening repairs)
//! are printed but do not count as damage.

use crate::cli::CheckArgs;
use crate::failure::Failure;
use crate::memory::{self, Fit};
use crate::output::print;
use crate::places::name_one;
use crate::progress::Progress;
use crate::sheet::fitted;
use base::counted;
use comfy_table::{Table, presets};
use deploy::{Examined, Inspected, Interrupt, RESTORE};
use driver::{Subject, Watcher};
use serde_json::{Value, json};
use world::tell;

pub fn run(args: &CheckArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let takes = deploy::inspection_bytes(&args.data, args.memory);
    memory::hold_check(takes, args.memory, Fit::unless(args.memory_unchecked))?;
    let mut progress = Progress::new(1);
    progress.next(&format!("checking {}", args.data.display()));
    let mut watch = |instance: base::InstanceId, what: &str, done: u64, total: u64| {
        if interrupt.is_set() {
            // A check changes nothing, so nothing must be restored.
            tell(format_args!("atoll: interrupted; nothing was changed"));
            std::process::exit(Failure::Interrupted.code().into());
        }
        progress.progress(&format!("instance {instance}: {what}"), done as f64 / total.max(1) as f64);
    };
    let inspected = deploy::inspect(&args.data, args.memory, &mut watch);
    let inspected =
        inspected.map_err(|e| name_one(e, |one| format!("`atoll check --data {}`", one.display())))?;
    progress.finish();
    let violations = violations(&inspected)?;
    if args.json {
        print_json(&inspected, &violations)?;
    } else {
        print_table(&inspected, &violations)?;
    }
    let damage = inspected.all_findings().filter(|f| f.is_damage()).count();
    match damage + violations.len() {
        0 => Ok(()),
        count => Err(Failure::Damaged { count, dir: args.data.clone() }),
    }
}

/// The consistency conditions that do not hold; empty if some instance could not be audited.
fn violations(inspected: &Inspected) -> Result<Vec<String>, Failure> {
    let audits: Option<Vec<Vec<u8>>> = inspected.instances.iter().map(|i| i.audit.clone()).collect();
    let Some(audits) = audits else { return Ok(Vec::new()) };
    let subject = Subject::new(inspected.look.manifest.workload.clone()).map_err(Failure::run)?;
    let verdict = subject.judge(&audits, inspected.look.effects)?;
    Ok(verdict.violations)
}

fn print_json(inspected: &Inspected, violations: &[String]) -> Result<(), Failure> {
    for finding in &inspected.findings {
        print(&serde_json::to_string(finding).map_err(Failure::run)?)?;
    }
    for examined in &inspected.instances {
        for finding in &examined.findings {
            let mut line = serde_json::to_value(finding).map_err(Failure::run)?;
            line["instance"] = examined.instance.0.into();
            print(&line.to_string())?;
        }
    }
    for what in violations {
        print(&json!({ "weight": "damage", "what": what, "condition": true }).to_string())?;
    }
    let whole = inspected.instances.iter().all(|i| i.audit.is_some());
    let sum = json!({
        "summary": true,
        "data": inspected.look.manifest.describe(),
        "sound": violations.is_empty() && !inspected.all_findings().any(|f| f.is_damage()),
        "conditions_checked": whole,
        "instances": inspected.instances.iter().map(summary).collect::<Vec<Value>>(),
    });
    print(&sum.to_string())
}

fn summary(examined: &Examined) -> Value {
    let report = &examined.report;
    let tables: Vec<Value> = report
        .tables
        .iter()
        .map(|t| {
            json!({
                "table": t.name, "rows": t.rows(), "tables": t.kind.name(), "heap_pages": t.heap.pages + t.heap.large_pages,
                "heap": t.form.name(), "undivided_pages": t.undivided, "moved_rows": t.heap.moved_rows, "large_rows": t.heap.large_rows, "ghosts": t.heap.ghosts,
                "indexes": t.trees.len(), "index_pages": t.trees.iter().map(|(_, r)| r.leaves + r.inner_nodes).sum::<u64>(),
            })
        })
        .collect();
    json!({
        "instance": examined.instance.0, "tables": tables, "log_records": report.log_records,
        "lost_pages": report.lost_pages, "in_doubt": examined.in_doubt,
    })
}

fn print_table(inspected: &Inspected, violations: &[String]) -> Result<(), Failure> {
    let manifest = &inspected.look.manifest;
    print(&manifest.describe())?;
    for examined in &inspected.instances {
        print(&sentence(examined))?;
    }
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header([
        "weight",
        "file",
        "at byte",
        "what",
        "what to do",
    ]);
    for finding in inspected.all_findings() {
        let weight = if finding.is_damage() { "damage" } else { "note" };
        let at = finding.offset.map_or(String::new(), |at| at.to_string());
        table.add_row([weight, &finding.file.display().to_string(), &at, &finding.what, &finding.remedy]);
    }
    for what in violations {
        table.add_row(["damage", "", "", what, RESTORE]);
    }
    if table.row_count() > 0 {
        print(&fitted(table))?;
    }
    match inspected.instances.iter().all(|i| i.audit.is_some()) {
        true if violations.is_empty() => print("the consistency conditions hold"),
        true => Ok(()),
        false => print("the consistency conditions could not be checked: not every instance opens"),
    }
}

/// With more tables than this, empty ones are not named.
const FEW_TABLES: usize = 40;

fn sentence(examined: &Examined) -> String {
    let report = &examined.report;
    let lists_empty = report.tables.len() <= FEW_TABLES;
    let listed = report.tables.iter().filter(|t| lists_empty || t.rows() > 0);
    let mut tables: Vec<String> =
        listed.map(|t| format!("{} {}", t.name, counted(t.rows(), "row"))).collect();
    if tables.len() < report.tables.len() {
        tables.push(counted((report.tables.len() - tables.len()) as u64, "empty table"));
    }
    let doubt = match examined.in_doubt {
        0 => String::new(),
        n => format!(", {} in doubt", counted(n, "transaction")),
    };
    let tables = tables.join(", ");
    let log = match report.log_records {
        0 => String::new(),
        n => format!("; {}", counted(n, "log record")),
    };
    format!("instance {}: {tables}{log}{doubt}", examined.instance)
}
