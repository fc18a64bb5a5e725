//! `atoll` without arguments: the islands of this machine, and the best deployment for each
//! workload. It takes less than a minute, so its windows are short; `atoll bench` measures longer.

use crate::bench::measure;
use crate::cli::{BenchArgs, Cli, Command, ResultArgs};
use crate::examples::WELCOME;
use crate::failure::Failure;
use crate::forecast::Forecast;
use crate::output::{Output, print};
use crate::plain;
use crate::progress::Progress;
use crate::results::unused;
use crate::sheet::{error_width, fitted};
use crate::shelf::{Reload, Shelf};
use crate::stop::Stop;
use crate::sweep::Sweep;
use crate::topology_command::probe;
use clap::Parser;
use deploy::Interrupt;
use driver::Watcher;
use std::path::Path;
use std::time::Duration;
use topology::{Machine, ProbeSpec, picture};
use world::tell;

/// The time for all measured windows and warm-ups; loading, checking and the probe take less than
/// the rest of the minute.
const MEASURING: Duration = Duration::from_secs(30);
const REPEAT: u32 = 3;
/// The directory of rows and report; a number is added to the name if an earlier run has left
/// results there.
const DIRECTORY: &str = "atoll-out";
/// Windows are never shorter, even if the machine allows more deployments than fit the minute.
const SHORTEST: Duration = Duration::from_millis(120);

const MICRO: &[&str] =
    &["micro", "--design", "conventional,serial", "--op", "read,update", "--multisite", "0,20,100"];
const PAYMENT: &[&str] = &["tpcc-payment", "--design", "conventional,serial"];

pub fn run(interrupt: &Interrupt) -> Result<(), Failure> {
    tell(WELCOME);
    let machine = probe(Machine::live().map_err(Failure::run)?, ProbeSpec::QUICK)?;
    print(picture(&machine).trim_end())?;
    print("")?;
    let (micro, payment) = (args(MICRO)?, args(PAYMENT)?);
    let mut sweeps = [Sweep::plan(&micro, &machine, interrupt)?, Sweep::plan(&payment, &machine, interrupt)?];
    let rows = sweeps.iter().map(Sweep::rows).sum();
    set_windows(&mut sweeps, rows);
    let tables = [Forecast::of(&sweeps[0], None)?.rows(), Forecast::of(&sweeps[1], None)?.rows()];
    let second = sweeps[0].stops.len();
    let stops: Vec<_> = sweeps.into_iter().flat_map(|s| s.stops).collect();
    let forecast = Forecast::of_stops(&stops, None)?;
    tell(forecast.words(error_width()));
    let mut progress = Progress::planned(rows, forecast.clock(), None);
    let mut output = output(&machine, &mut progress)?;
    let mut shelf = Shelf::of(&stops, Reload::Never)?;
    let mut run = |(i, mut stop): (usize, Stop)| -> Result<(), Failure> {
        if i == 0 || i == second {
            progress.suspend(|| output.expect(&tables[usize::from(i > 0)]));
        }
        shelf.lend(i, &mut stop)?;
        measure(stop, &machine, &mut progress, &mut output)
    };
    let outcome = stops.into_iter().enumerate().try_for_each(&mut run);
    progress.finish();
    let page = output.report();
    outcome?;
    output.legend()?;
    let winners = fitted(plain::table(&report::winners(output.rows())));
    print(&format!("\nThe winners: ahead beyond spread and noise\n{winners}"))?;
    if let Some(page) = page? {
        print(&format!("\nReport: {}", page.display()))?;
    }
    print("More: atoll bench --help")?;
    output.check()
}

/// Results go into a directory if it can be written; otherwise the tables are printed without it.
fn output(machine: &Machine, progress: &mut Progress) -> Result<Output, Failure> {
    let place = |out| ResultArgs { out, ..ResultArgs::default() };
    let out = unused(Path::new(DIRECTORY));
    Output::new(&place(Some(out)), machine).or_else(|failure| {
        progress.warn(&format!("no report: {failure}"));
        Output::new(&place(None), machine)
    })
}

fn args(words: &[&str]) -> Result<BenchArgs, Failure> {
    match Cli::try_parse_from([&["atoll", "bench"], words].concat()).map_err(Failure::usage)?.command {
        Some(Command::Bench(args)) => Ok(*args),
        _ => Err(Failure::Usage("the tour's own command line is no bench".into())),
    }
}

/// Divides the time among the rows.
fn set_windows(sweeps: &mut [Sweep], rows: usize) {
    let window = (MEASURING / (rows.max(1) as u32 * (REPEAT + 1))).max(SHORTEST);
    for (_, schedule) in sweeps.iter_mut().flat_map(|s| &mut s.stops).flat_map(|s| &mut s.mixes) {
        (schedule.duration, schedule.warmup, schedule.repeat) = (window, driver::Warmup::For(window), REPEAT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row_table::RowTable;

    #[test]
    fn its_own_command_lines_parse() {
        assert!(args(MICRO).is_ok() && args(PAYMENT).is_ok());
    }

    #[test]
    fn its_tables_fit_the_terminal() {
        let machine = Machine::parse("package:2 l3:2 core:4").unwrap();
        for words in [MICRO, PAYMENT] {
            let sweep = Sweep::plan(&args(words).unwrap(), &machine, &Interrupt::default()).unwrap();
            let rows = Forecast::of(&sweep, None).unwrap().rows();
            for width in [80, 100, 120, 200] {
                let mut table = RowTable::of_results(&rows, Some(width));
                let mut text: String = rows.iter().map(|row| table.lines(row) + "\n").collect();
                text += &table.legend();
                let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
                assert!(longest <= width && text.contains("per s") && text.contains("spread"), "{text}");
            }
        }
    }
}
