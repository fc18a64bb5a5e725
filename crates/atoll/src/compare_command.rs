//! `atoll compare A B`: the change of each row from A to B, and whether any row got worse.

use crate::cli::CompareArgs;
use crate::failure::Failure;
use crate::output::print;
use crate::patience::interruptibly;
use crate::plain;
use crate::report_command::{read, rows_file};
use crate::sheet::fitted;
use deploy::Interrupt;
use report::compare::{Outcome, Pair, Question, pairs, table};
use report::{Row, Rows};
use std::path::{Path, PathBuf};
use world::tell;

pub fn run(args: &CompareArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let question = Question {
        by: args.by,
        threshold: args.threshold / 100.0,
        aside: args.ignore.iter().map(|name| name.trim_start_matches("--").replace('-', "_")).collect(),
    };
    let read = |path: &PathBuf| {
        let path = path.clone();
        interruptibly(interrupt, move || rows_of(&path))?
    };
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    let pairs = pairs(&a, &b, &question);
    if args.json {
        for pair in &pairs {
            print(&serde_json::to_string(pair).map_err(Failure::run)?)?;
        }
    } else {
        print(&format!("A: {}\nB: {}", args.a.display(), args.b.display()))?;
        print(&fitted(plain::table(&table(&pairs, args.by))))?;
        print(&summary(&pairs))?;
    }
    judge(&pairs, args)
}

/// # Errors
/// A file without a row.
fn rows_of(path: &Path) -> Result<Vec<Row>, Failure> {
    let file = rows_file(path);
    let bytes = read(&file).map_err(Failure::Run)?;
    let mut rows = Rows::default();
    rows.add(&file.display().to_string(), &bytes);
    rows.complaints.iter().for_each(|complaint| tell(format_args!("atoll: {complaint}")));
    rows.remarks.iter().for_each(|remark| tell(format_args!("atoll: {remark}")));
    if rows.rows.is_empty() {
        return Err(Failure::Run(format!("{}: no rows to compare", file.display())));
    }
    Ok(rows.rows)
}

fn summary(pairs: &[Pair]) -> String {
    let all = [
        Outcome::Better,
        Outcome::Worse,
        Outcome::NoDifference,
        Outcome::NotMeasured,
        Outcome::OnlyInA,
        Outcome::OnlyInB,
    ];
    let count = |outcome: &Outcome| pairs.iter().filter(|pair| pair.verdict == *outcome).count();
    let told = all.iter().filter(|outcome| count(outcome) > 0);
    told.map(|outcome| format!("{} {}", count(outcome), outcome.words())).collect::<Vec<_>>().join(", ")
}

/// # Errors
/// A row got worse, or no rows could be compared.
fn judge(pairs: &[Pair], args: &CompareArgs) -> Result<(), Failure> {
    if pairs.iter().all(|pair| matches!(pair.verdict, Outcome::OnlyInA | Outcome::OnlyInB)) {
        return Err(Failure::Run(
            "no row of A has the settings of a row of B; name settings that may differ with --ignore".into(),
        ));
    }
    match pairs.iter().filter(|pair| pair.regression).count() {
        0 => Ok(()),
        n => {
            let rows = if n == 1 { "row is" } else { "rows are" };
            let (by, threshold) = (args.by.name(), args.threshold);
            Err(Failure::Run(format!(
                "{n} {rows} worse by {by}, by more than {threshold} %, spread and noise"
            )))
        }
    }
}
