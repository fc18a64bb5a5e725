//! The arguments of `atoll figures` and `atoll claims`, and the parts that both share.

use claims::How;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

const FIGURES_EXAMPLES: &str = "\
Each figure is measured at a size that fits this machine. The machines of the papers were others: compare the shapes of
curves, not the numbers. Ctrl-C keeps what was measured.

Examples:
  atoll figures --list
  atoll figures vldbj-11 pvldb-6 --quick
  atoll figures --out results          every figure that can be measured today: rows, tables, a report
  atoll figures --within 30m           the same in half an hour
  atoll figures --simulated vldbj-16   on described machines of the papers, with the costs of their engine

Exit code: 0 success; 1 a run failed, a consistency check did not hold, or rows are damaged; 2 wrong usage; 130 interrupted.";

const CLAIMS_EXAMPLES: &str = "\
A claim is a sentence of a paper, written as a condition on result rows. What was measured for one claim is used for all.
With --out a second call measures only what is missing.

Examples:
  atoll claims --quick
  atoll claims ISL-024 ISL-037 --out results
  atoll claims --how counts
  atoll claims --how simulated         on described machines of the papers, with the costs of their engines
  atoll claims --within 20m --out rows --markdown > results/claims.md

Exit code: 0 everything asked for was decided or is said to be undecidable; 1 a run failed, a consistency check did not hold, or
rows are damaged; 2 wrong usage; 130 interrupted. A claim that is not reproduced is a result and no failure.";

#[derive(Args, Clone, Debug)]
#[command(after_help = FIGURES_EXAMPLES)]
pub struct FiguresArgs {
    /// The figures to measure, by their ids (--list shows them) [default: all that can be measured]
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// List the figures and tables of the papers, and the missing features of those that cannot be
    /// measured yet
    #[arg(long)]
    pub list: bool,
    /// Simulate the figures of the island papers on the machines of the papers, and measure nothing
    #[arg(long, conflicts_with_all = ["quick", "within", "out", "rows"])]
    pub simulated: bool,
    /// Simulate with the costs of this engine: shore-mt, silo, atoll [default: that of the paper]
    #[arg(long, value_name = "ENGINE", requires = "simulated", value_parser = engine_profile)]
    pub engine_profile: Option<String>,
    #[command(flatten)]
    pub rows: RowArgs,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = CLAIMS_EXAMPLES)]
pub struct ClaimsArgs {
    /// The claims to test, by their ids [default: all]
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// Only claims that are tested in this way: measured-here, counts, simulated, trace-sim,
    /// hardware
    #[arg(long, value_name = "HOW,...", value_delimiter = ',', value_parser = how)]
    pub how: Vec<How>,
    /// Simulate with the costs of this engine: shore-mt, silo, atoll [default: that of the paper,
    /// and the verdict of atoll beside it]; needs --how simulated
    #[arg(long, value_name = "ENGINE", value_parser = engine_profile)]
    pub engine_profile: Option<String>,
    /// Print the page results/claims.md instead of the table
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print the results as JSON lines
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub rows: RowArgs,
}

/// Where rows come from and go to.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Rows")]
pub struct RowArgs {
    /// Shorter measured windows: a third of the time, and more noise
    #[arg(long)]
    pub quick: bool,
    /// Choose the length of the windows so that everything takes about this long, e.g. 20m; nothing
    /// begins after that time
    #[arg(long, value_name = "TIME", conflicts_with = "quick", value_parser = traffic::parse_time)]
    pub within: Option<Duration>,
    /// Keep the rows in this directory, and use those that an earlier call of this very program
    /// left there
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Use the traces in this directory, which an earlier call kept in DIR/traces. Another program
    /// may have captured them
    #[arg(long, value_name = "DIR")]
    pub traces: Option<PathBuf>,
    /// Use the rows of this file (a rows.jsonl that --out wrote) and do not measure them again
    #[arg(long, value_name = "FILE")]
    pub rows: Option<PathBuf>,
}

impl RowArgs {
    /// The option as it was typed, after a space.
    pub fn size_in_words(&self) -> String {
        match (self.quick, self.within) {
            (true, _) => " --quick".into(),
            (_, Some(time)) if time.as_secs() % 60 == 0 => format!(" --within {}m", time.as_secs() / 60),
            (_, Some(time)) => format!(" --within {}s", time.as_secs_f64()),
            _ => String::new(),
        }
    }
}

fn engine_profile(word: &str) -> Result<String, String> {
    let known = claims::simulated::profiles();
    match known.contains(&word) {
        true => Ok(word.to_owned()),
        false => Err(format!("expected one of {}", known.join(", "))),
    }
}

fn how(word: &str) -> Result<How, String> {
    let all = How::ALL.map(How::name).join(", ");
    How::parse(word).ok_or_else(|| format!("expected one of {all}"))
}
