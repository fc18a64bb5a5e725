//! `atoll` without arguments: the islands of this machine, and which deployment suits it for which workload. It takes
//! less than a minute, so its windows are short; `atoll bench` measures longer.

use crate::bench::measure;
use crate::cli::{BenchArgs, Cli, Command, ResultArgs};
use crate::failure::Failure;
use crate::output::{Output, print, table};
use crate::plain;
use crate::progress::Progress;
use crate::results::unused;
use crate::shelf::{Reload, Shelf};
use crate::sweep::{Stop, Sweep};
use crate::topology_command::probe;
use clap::Parser;
use deploy::Interrupt;
use driver::Watcher;
use std::path::Path;
use std::time::Duration;
use topology::{Machine, ProbeSpec, picture};

/// All measured windows and warm-ups together; loading, checking and the probe come on top and stay below the rest
/// of the minute.
const MEASURING: Duration = Duration::from_secs(30);
const REPEAT: u32 = 3;
/// Where rows and report go; with a number after it where an earlier run has left its own.
const DIRECTORY: &str = "atoll-out";
/// Windows are never shorter, even where more deployments fit the machine than fit the minute.
const SHORTEST: Duration = Duration::from_millis(120);

const MICRO: &[&str] =
    &["micro", "--design", "conventional,serial", "--op", "read,update", "--multisite", "0,20,100"];
const PAYMENT: &[&str] = &["tpcc-payment", "--design", "conventional,serial"];

pub fn run(interrupt: &Interrupt) -> Result<(), Failure> {
    let machine = probe(Machine::live().map_err(Failure::run)?, ProbeSpec::QUICK)?;
    print(picture(&machine).trim_end())?;
    print("")?;
    let (micro, payment) = (args(MICRO)?, args(PAYMENT)?);
    let mut sweeps = [Sweep::plan(&micro, &machine, interrupt)?, Sweep::plan(&payment, &machine, interrupt)?];
    let rows = sweeps.iter().map(Sweep::rows).sum();
    set_windows(&mut sweeps, rows);
    let mut progress = Progress::new(rows);
    let mut output = output(&machine, &mut progress)?;
    let stops: Vec<_> = sweeps.into_iter().flat_map(|s| s.stops).collect();
    let mut shelf = Shelf::of(&stops, Reload::Never)?;
    let mut run = |(i, mut stop): (usize, Stop)| -> Result<(), Failure> {
        shelf.lend(i, &mut stop)?;
        measure(stop, &machine, &mut progress, &mut output)
    };
    let outcome = stops.into_iter().enumerate().try_for_each(&mut run);
    progress.finish();
    let page = output.report();
    outcome?;
    tables(&output)?;
    if let Some(page) = page? {
        print(&format!("\nReport: {}", page.display()))?;
    }
    print("More: atoll bench --help")?;
    output.check()
}

/// Results go into the directory where one is; one that cannot be written keeps nobody from looking at the tables.
fn output(machine: &Machine, progress: &mut Progress) -> Result<Output, Failure> {
    let place =
        |out| ResultArgs { out, append: false, overwrite: false, json: false, csv: false, watch: false };
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

/// Divides the time by the rows.
fn set_windows(sweeps: &mut [Sweep], rows: usize) {
    let window = (MEASURING / (rows.max(1) as u32 * (REPEAT + 1))).max(SHORTEST);
    for (_, schedule) in sweeps.iter_mut().flat_map(|s| &mut s.stops).flat_map(|s| &mut s.mixes) {
        (schedule.duration, schedule.warmup, schedule.repeat) = (window, driver::Warmup::For(window), REPEAT);
    }
}

fn tables(output: &Output) -> Result<(), Failure> {
    let rows = output.rows();
    let (micro, payment): (Vec<_>, Vec<_>) =
        rows.iter().cloned().partition(|r| r.settings.workload == "micro");
    for part in [micro, payment] {
        if let Some(first) = part.first() {
            print(&format!("{}\n{}\n", first.settings.workload, table(&part)))?;
        }
    }
    print(&format!("The winners: ahead beyond spread and noise\n{}", plain::table(&report::winners(rows))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_own_command_lines_parse() {
        assert!(args(MICRO).is_ok() && args(PAYMENT).is_ok());
    }
}
