//! `atoll` without arguments: the islands of this machine, and the best deployment for each
//! workload. It takes about a minute, so its windows are short, and shorter where loading and
//! checking take long; `atoll bench` measures longer.

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
use std::time::{Duration, Instant};
use topology::{Machine, ProbeSpec, picture};
use world::tell;

/// The promise of [`WELCOME`], less the report.
const MINUTE: Duration = Duration::from_secs(55);
/// The most time for all measured windows and warm-ups together.
const MEASURING: Duration = Duration::from_secs(30);
const REPEAT: u32 = 3;
/// The directory of rows and report; a number is added to the name if an earlier run has left
/// results there.
const DIRECTORY: &str = "atoll-out";
/// Windows are never shorter, even if more deployments fit the machine than the minute.
const SHORTEST: Duration = Duration::from_millis(120);

const MICRO: &[&str] =
    &["micro", "--design", "conventional,serial", "--op", "read,update", "--multisite", "0,20,100"];
const PAYMENT: &[&str] = &["tpcc-payment", "--design", "conventional,serial"];

pub fn run(interrupt: &Interrupt) -> Result<(), Failure> {
    let begun = Instant::now();
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
    let mut pace = Pace::new(begun, &stops);
    let mut run = |(i, mut stop): (usize, Stop)| -> Result<(), Failure> {
        pace.set_windows(&mut stop, begun.elapsed());
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

/// Keeps the minute: time that stops take beside their windows is taken from the windows of the
/// next ones.
struct Pace {
    /// When the first stop began, since the start of the program.
    start: Duration,
    stops: usize,
    stops_done: usize,
    rows_left: usize,
    /// Windows and warm-ups of the stops so far.
    measured: Duration,
}

impl Pace {
    fn new(begun: Instant, stops: &[Stop]) -> Pace {
        let rows_left = stops.iter().map(|stop| stop.mixes.len()).sum();
        Pace {
            start: begun.elapsed(),
            stops: stops.len(),
            stops_done: 0,
            rows_left,
            measured: Duration::ZERO,
        }
    }

    /// Shortens the windows of the next stop so that all stops end in time; `now` since the start
    /// of the program.
    fn set_windows(&mut self, stop: &mut Stop, now: Duration) {
        let planned = stop.mixes.first().map_or(Duration::ZERO, |(_, schedule)| schedule.duration);
        let window = self.next(stop.mixes.len(), planned, now);
        for (_, schedule) in &mut stop.mixes {
            (schedule.duration, schedule.warmup) = (window, driver::Warmup::For(window));
        }
    }

    /// The window of the next stop, which has `rows` rows.
    fn next(&mut self, rows: usize, planned: Duration, now: Duration) -> Duration {
        let windows = |rows: usize| (rows.max(1) as u32) * (REPEAT + 1);
        let beside = now.saturating_sub(self.start + self.measured) / self.stops_done.max(1) as u32;
        let beside_left = beside * (self.stops - self.stops_done) as u32;
        let left = MINUTE.saturating_sub(now + beside_left);
        let window = (left / windows(self.rows_left)).min(planned).max(SHORTEST);
        self.stops_done += 1;
        self.rows_left -= rows;
        self.measured += window * windows(rows);
        window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row_table::RowTable;

    #[test]
    fn windows_give_up_the_time_that_loading_takes() {
        let s = Duration::from_secs;
        let pace = || Pace { start: s(1), stops: 4, stops_done: 0, rows_left: 8, measured: Duration::ZERO };
        let planned = Duration::from_millis(900);
        // 8 rows of 4 windows are 29 s. The first stop of 2 rows measures for 7.2 s.
        let mut swift = pace();
        assert_eq!(swift.next(2, planned, s(1)), planned);
        assert_eq!(swift.next(2, planned, s(10)), planned);
        let mut slow = pace();
        assert_eq!(slow.next(2, planned, s(1)), planned);
        // It took 11.8 s beside them, and three such stops are left: 35.4 of the last 35 s.
        assert_eq!(slow.next(2, planned, s(20)), SHORTEST);
        let mut fair = pace();
        fair.next(2, planned, s(1));
        // 7.8 s beside them: 39 s less 23.4 s are left for 24 windows.
        assert_eq!(fair.next(2, planned, s(16)), Duration::from_millis(650));
    }

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
