//! The arguments of `atoll compare`.

use super::numbers::per_cent;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use report::verdict::Measure;
use std::path::PathBuf;

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
