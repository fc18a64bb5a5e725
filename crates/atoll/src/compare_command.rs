//! `atoll compare A B`: the change of each row from A to B, and whether any row got worse.

use crate::cli::per_cent;
use crate::failure::Failure;
use crate::output::print;
use crate::patience::interruptibly;
use crate::plain;
use crate::report_command::{read, rows_file};
use crate::sheet::fitted;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use deploy::Interrupt;
use report::compare::{Outcome, Pair, Question, pairs, table};
use report::verdict::Measure;
use report::{Row, Rows};
use std::path::{Path, PathBuf};
use world::tell;

const EXAMPLES: &str = "\
Rows belong together when their settings agree; the seed and the page memory, which follows from free memory, may differ, and
so may what --ignore names. A row is better or worse when no repetition of one lies among those of the other and the values
differ by more than the noise of both rows, 2 % at least; else there is no difference. A ratio is B's value over A's.

Examples:
  atoll bench tpcc --islands 1,2 --out before          and after a change: --out after
  atoll compare before after
  atoll compare before/rows.jsonl after --by p99 --threshold 10
  atoll compare with without --ignore sli

Exit code: 0 no regression; 1 a row got worse beyond spread, noise and --threshold, or no rows belong together, or rows
cannot be read; 2 wrong usage.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CompareArgs {
    /// Rows before: a file as `bench --out` or `--json` writes it, or a directory that
    /// `bench --out` made; `-` is standard input
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// Rows after
    #[arg(value_name = "B")]
    pub b: PathBuf,
    /// The measure to compare by: transactions a second, or a quantile of latency
    #[arg(long, value_name = "MEASURE", default_value = "tps", value_parser = measure())]
    pub by: Measure,
    /// A loss up to this many per cent is no regression
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = per_cent)]
    pub threshold: f64,
    /// Settings in which A and B may differ, as rows name them: sli, design, occ_reads, ...
    #[arg(long, value_name = "SETTING,...", value_delimiter = ',')]
    pub ignore: Vec<String>,
    /// Print a JSON object a line for each pair instead of the table
    #[arg(long)]
    pub json: bool,
}

fn measure() -> impl TypedValueParser<Value = Measure> {
    let of = |name: String| Measure::ALL.into_iter().find(|m| m.name() == name).unwrap_or(Measure::Tps);
    PossibleValuesParser::new(Measure::ALL.map(Measure::name)).map(of)
}

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
