//! The plan of a sweep, printed before it runs: its deployments and rows, and the least time that
//! they take.
//!
//! ```text
//!   Sweep --Forecast::of--> Leg, Leg, ... --words--> standard error, before the first deployment
//!                           (a deployment)--table, objects--> standard output, of --dry-run
//!                                         --clock--> the time left, while it runs
//! ```
//!
//! The time is a lower bound: windows and warm-ups last as long as the options say; loading is
//! estimated from the size of the data at a rate that no measured machine exceeds; checks of the
//! data are not included.

use crate::clock::Clock;
use crate::failure::Failure;
use crate::output::print;
use crate::row_table::settings;
use crate::sheet::{Measure, Rank, Setting, Sheet, folded, terminal_width};
use crate::stop::{Stop, bases};
use crate::sweep::Sweep;
use crate::units::{bytes, in_words};
use base::counted;
use deploy::engine::Durability;
use driver::{LatencyUs, LoadModel, RepetitionRow, ResultRow, Schedule, Settings, Subject, Warmup};
use serde_json::{Value, json};
use std::time::Duration;

/// Time to start and stop the instances of a deployment.
const LAUNCH: Duration = Duration::from_millis(200);
/// Bytes of data that a worker loads per second, at most.
const LOAD_RATE: u64 = 400 << 20;
/// The least load before throughput counts as steady.
const UNTIL_STEADY: Duration = Duration::from_secs(5);
/// The least load between two kills, with a restart.
const BETWEEN_KILLS: Duration = Duration::from_millis(50);
/// A sweep longer than this is announced with advice on how to shorten it.
const LONG: Duration = Duration::from_secs(3600);
/// The window that the advice suggests.
const SHORT_WINDOW: Duration = Duration::from_secs(1);
/// The most values of an option that the plan lists.
const VALUES: usize = 8;

/// How a row is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Windows {
    pub warmup: Duration,
    pub duration: Duration,
    pub repeat: u32,
}

impl Windows {
    fn of(schedule: &Schedule) -> Windows {
        let warmup = match schedule.warmup {
            Warmup::For(time) => time,
            Warmup::UntilSteady => UNTIL_STEADY,
        };
        Windows { warmup, duration: schedule.duration, repeat: schedule.repeat }
    }

    fn least(self) -> Duration {
        self.warmup + self.duration * self.repeat
    }

    fn words(self) -> String {
        let windows = match self.repeat {
            1 => format!("a window of {}", in_words(self.duration)),
            n => format!("{n} windows of {}", in_words(self.duration)),
        };
        match self.warmup.is_zero() {
            true => windows,
            false => format!("{windows} after {} of warm-up", in_words(self.warmup)),
        }
    }
}

/// A deployment and its rows.
pub struct Leg {
    /// The results that are certain beforehand. A result that the row will have is present, with
    /// any value.
    pub rows: Vec<ResultRow>,
    pub windows: Vec<Windows>,
    /// Time to load and launch.
    pub before: Duration,
    /// Bytes of the loaded data and of page memory, if there are any.
    pub size: Option<(u64, u64)>,
}

impl Leg {
    fn least(&self) -> Duration {
        self.before + self.windows.iter().map(|w| w.least()).sum::<Duration>()
    }
}

pub struct Forecast {
    legs: Vec<Leg>,
    /// Kills for each row, if instances are killed in place of measured windows.
    kills: Option<u32>,
}

impl Forecast {
    pub fn new(legs: Vec<Leg>) -> Forecast {
        Forecast { legs, kills: None }
    }

    /// `kills`: the kills for each row, if instances are killed.
    ///
    /// # Errors
    /// An unknown workload.
    pub fn of(sweep: &Sweep, kills: Option<u32>) -> Result<Forecast, Failure> {
        Forecast::of_stops(&sweep.stops, kills)
    }

    /// # Errors
    /// An unknown workload.
    pub fn of_stops(stops: &[Stop], kills: Option<u32>) -> Result<Forecast, Failure> {
        let bases = bases(stops)?;
        let mut loaded = vec![false; bases.len()];
        let mut legs = Vec::new();
        for (stop, base) in stops.iter().zip(bases) {
            let shared = stop.deployment.durability != Durability::Memory;
            let there = shared && (loaded[base] || is_loaded(stop));
            loaded[base] |= shared;
            legs.push(leg(stop, there, kills));
        }
        Ok(Forecast { legs, kills })
    }

    /// The planned rows, in their order.
    pub fn rows(&self) -> Vec<ResultRow> {
        self.legs.iter().flat_map(|leg| leg.rows.iter().cloned()).collect()
    }

    /// The least time that the sweep takes.
    pub fn least(&self) -> Duration {
        self.legs.iter().map(Leg::least).sum()
    }

    /// The least time if each row had the windows that `change` returns.
    fn least_with(&self, change: impl Fn(Windows) -> Windows) -> Duration {
        let of = |leg: &Leg| leg.before + leg.windows.iter().map(|w| change(*w).least()).sum::<Duration>();
        self.legs.iter().map(of).sum()
    }

    pub fn clock(&self) -> Clock {
        let times = |leg: &Leg| {
            let first = std::iter::once(leg.before).chain(std::iter::repeat(Duration::ZERO));
            leg.windows.iter().zip(first).map(|(w, before)| w.least() + before).collect::<Vec<_>>()
        };
        Clock::of(self.legs.iter().flat_map(times).collect())
    }

    /// The plan in a few lines.
    pub fn words(&self, width: Option<usize>) -> String {
        let rows = self.rows();
        let varied: Vec<String> = varied(&settings(&rows)).into_iter().map(|(text, _)| text).collect();
        let what = format!("{}, {}", counted(self.legs.len(), "deployment"), counted(rows.len(), "row"));
        let what = if varied.is_empty() { what } else { format!("{what}: {}", varied.join("; ")) };
        let mut windows: Vec<Windows> = self.legs.iter().flat_map(|leg| leg.windows.clone()).collect();
        windows.dedup();
        let each = match windows[..] {
            [one] if self.kills.is_some() => {
                format!("each row is {}; ", counted(one.repeat as usize, "kill"))
            }
            [one] => format!("each row is {}; ", one.words()),
            _ => String::new(),
        };
        let least = in_words(self.least());
        let lines = [what, format!("{each}at least {least} in all; --dry-run lists it and runs nothing")];
        lines.map(|line| folded("plan: ", &line, width)).join("\n")
    }

    /// How to shorten a sweep that takes long; `None` for a shorter one.
    pub fn too_long(&self) -> Option<String> {
        if self.least() < LONG {
            return None;
        }
        let once = self.least_with(|w| Windows { repeat: 1, ..w });
        let brief = self.least_with(|w| Windows { duration: w.duration.min(SHORT_WINDOW), ..w });
        let mut lists = varied(&settings(&self.rows()));
        lists.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        let names = lists.iter().take(3).filter_map(|(text, n)| Some((text.split(' ').next()?, n)));
        let lists: Vec<String> = names.map(|(name, n)| format!("{name} ({n} values)")).collect();
        let fewer = if lists.is_empty() { String::new() } else { format!(", fewer of {}", lists.join(", ")) };
        Some(format!(
            "this sweep takes at least {} and starts now; Ctrl-C ends it and keeps what was measured; to shorten it: \
             --repeat 1 (at least {}), --duration 1s (at least {}){fewer}",
            in_words(self.least()),
            in_words(once),
            in_words(brief)
        ))
    }

    /// Prints a line, or a JSON object, for each deployment.
    ///
    /// # Errors
    /// Standard output is closed.
    pub fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            return self.objects()?.iter().try_for_each(|object| print(&object.to_string()));
        }
        let width = terminal_width();
        print(&self.table(width))?;
        let (legs, rows) = (counted(self.legs.len(), "deployment"), counted(self.rows().len(), "row"));
        print(&format!("\n{legs}, {rows}, at least {}; nothing was run", in_words(self.least())))
    }

    fn table(&self, width: Option<usize>) -> String {
        let settings = self.of_legs();
        let measure = |name, width, rank| Measure { name, width, rank };
        let measures = [
            measure("at least", 11, Rank::Essence),
            measure("rows", 4, Rank::Essence),
            measure("data", 8, Rank::Result),
            measure("memory", 8, Rank::Result),
        ];
        let mut sheet = Sheet::new(&settings, &measures, width);
        let mut text = sheet.head();
        for (i, leg) in self.legs.iter().enumerate() {
            let told: Vec<String> = settings.iter().map(|s| s.values[i].clone()).collect();
            let (data, memory) =
                leg.size.map(|(data, memory)| (bytes(data), bytes(memory))).unwrap_or_default();
            text += "\n";
            text += &sheet.row(&told, &[in_words(leg.least()), leg.rows.len().to_string(), data, memory]);
        }
        text
    }

    /// The value of each setting in each deployment; all values, if the rows of a deployment differ
    /// in the setting.
    fn of_legs(&self) -> Vec<Setting> {
        let legs: Vec<Vec<Setting>> = self.legs.iter().map(|leg| settings(&leg.rows)).collect();
        let count = legs.first().map_or(0, Vec::len);
        let values = |at: usize| legs.iter().map(|leg| distinct(&leg[at].values).join(",")).collect();
        (0..count).map(|at| Setting { name: legs[0][at].name, values: values(at) }).collect()
    }

    /// Each deployment as its rows name it, with its plan.
    fn objects(&self) -> Result<Vec<Value>, Failure> {
        let object = |(i, leg): (usize, &Leg)| {
            let mut object = match leg.rows.first() {
                Some(row) => serde_json::to_value(&row.settings).map_err(Failure::run)?,
                None => json!({}),
            };
            object["deployment"] = (i + 1).into();
            object["deployments"] = self.legs.len().into();
            object["result_rows"] = leg.rows.len().into();
            object["at_least_s"] = leg.least().as_secs_f64().into();
            object["data_mib"] = leg.size.map(|(data, _)| data.div_ceil(1 << 20)).into();
            let several = settings(&leg.rows).into_iter().map(|s| (s.name, distinct(&s.values)));
            object["varies"] = several.filter(|s| s.1.len() > 1).collect::<Value>();
            Ok(object)
        };
        self.legs.iter().enumerate().map(object).collect()
    }
}

fn leg(stop: &Stop, loaded: bool, kills: Option<u32>) -> Leg {
    let d = &stop.deployment;
    let load = d.data_bytes as f64 / (LOAD_RATE * d.workers.max(1) as u64) as f64;
    let load = if loaded { Duration::ZERO } else { Duration::from_secs_f64(load) };
    let row = |(subject, schedule): &(Subject, Schedule)| planned(stop, subject, schedule, kills);
    let windows = |(_, schedule): &(Subject, Schedule)| match kills {
        Some(kills) => Windows { warmup: Duration::ZERO, duration: BETWEEN_KILLS, repeat: kills },
        None => Windows::of(schedule),
    };
    Leg {
        rows: stop.mixes.iter().map(row).collect(),
        windows: stop.mixes.iter().map(windows).collect(),
        before: LAUNCH + load,
        size: Some((d.data_bytes, d.pool_bytes)),
    }
}

fn is_loaded(stop: &Stop) -> bool {
    stop.deployment.data.as_deref().is_some_and(|dir| matches!(deploy::manifest_in(dir), Ok(Some(_))))
}

fn planned(stop: &Stop, subject: &Subject, schedule: &Schedule, kills: Option<u32>) -> ResultRow {
    let settings = Settings::of(&stop.deployment, stop.placement.name(), subject, schedule);
    let waits = schedule.traffic.model != LoadModel::Closed;
    let people = matches!(schedule.traffic.model, LoadModel::Terminals { .. });
    ResultRow {
        settings,
        repetitions: vec![RepetitionRow::default(); schedule.repeat.min(2) as usize],
        latency_us: Some(LatencyUs::default()),
        consistent: Some(true),
        distributed: (stop.deployment.islands > 1).then_some(0.0),
        offered_tps: waits.then_some(0.0),
        backlog: waits.then_some(0),
        tpmc: (subject.terminals().is_some() && subject.is_standard_mix()).then_some(0.0),
        tpmc_ceiling: people.then_some(1.0),
        kills: kills.map(u64::from),
        max_in_doubt_ms: kills.map(|_| 0),
        ..ResultRow::default()
    }
}

/// The distinct values in order of appearance, without the empty value of rows that lack the
/// setting.
fn distinct(values: &[String]) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for value in values.iter().filter(|v| !v.is_empty()) {
        if !seen.contains(value) {
            seen.push(value.clone());
        }
    }
    seen
}

/// The settings in which the rows differ: in words, with the number of values.
fn varied(settings: &[Setting]) -> Vec<(String, usize)> {
    let values = settings.iter().map(|s| (s.name, distinct(&s.values))).filter(|s| s.1.len() > 1);
    let words = |(name, values): (&str, Vec<String>)| {
        let more = if values.len() > VALUES { ", ..." } else { "" };
        (format!("{name} {}{more}", values[..values.len().min(VALUES)].join(", ")), values.len())
    };
    values.map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;
    use deploy::Interrupt;
    use topology::Machine;

    fn forecast(args: &[&str]) -> Forecast {
        let cli = Cli::try_parse_from([&["atoll", "bench"], args].concat()).unwrap();
        let Some(Command::Bench(bench)) = cli.command else { panic!("bench") };
        let machine = Machine::parse("package:2 l3:1 core:2").unwrap();
        let sweep = Sweep::plan(&bench, &machine, &Interrupt::default()).unwrap();
        Forecast::of(&sweep, bench.measuring.kill).unwrap()
    }

    const SMALL: &[&str] = &["micro", "--islands", "1,2", "--dataset", "1000", "--op", "read,update"];

    #[test]
    fn the_plan_says_what_differs_and_how_long_it_takes() {
        let forecast = forecast(SMALL);
        let text = forecast.words(None);
        assert!(text.starts_with("plan: 2 deployments, 4 rows: islands 1, 2; op read, update\n"), "{text}");
        assert!(text.contains("each row is 3 windows of 5 s after 1 s of warm-up"), "{text}");
        // Four rows of 16 s, two launches, and a negligible load.
        let seconds = forecast.least().as_secs_f64();
        assert!((64.0..65.0).contains(&seconds), "{seconds}");
        assert!(forecast.too_long().is_none());
        let narrow = forecast.words(Some(60));
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    }

    #[test]
    fn data_is_loaded_once_for_all_that_share_it() {
        let times = |args: &[&str]| -> Vec<u64> {
            let args = [&["tpcc", "--scale", "4", "--islands", "1", "--channel", "shm,uds"], args].concat();
            forecast(&args).legs.iter().map(|leg| leg.before.as_millis() as u64).collect()
        };
        let shared = times(&[]);
        assert!(shared[0] > 300 && shared[1] == 200, "{shared:?}");
        let memory = times(&["--durability", "memory"]);
        assert_eq!(memory[0], memory[1], "a log in memory starts with an empty database");
    }

    #[test]
    fn a_long_sweep_is_announced_with_ways_to_shorten_it() {
        let lists = ["--channel", "shm,uds,tcp", "--multisite", "0,10,20,50,100"];
        let forecast = forecast(&[SMALL, &lists, &["--duration", "60s"]].concat());
        let text = forecast.too_long().unwrap();
        assert!(text.contains("at least 3 h 1 min") && text.contains("starts now"), "{text}");
        assert!(text.contains("--repeat 1 (at least 1 h 1 min), --duration 1s (at least 4 min"), "{text}");
        assert!(text.contains("multisite (5 values), channel (3 values)"), "{text}");
    }

    #[test]
    fn rows_of_kills_are_planned_as_kills() {
        let forecast = forecast(&["tpcb", "--islands", "2", "--workers", "2", "--kill", "100"]);
        let text = forecast.words(None);
        assert!(text.contains("each row is 100 kills; at least 5."), "{text}");
    }

    #[test]
    fn a_dry_run_lists_deployments_as_lines_and_as_objects() {
        let forecast = forecast(SMALL);
        let text = forecast.table(Some(80));
        assert!(text.contains("op read,update"), "{text}");
        let lines: Vec<_> = text.lines().rev().take(2).collect();
        assert!(lines.iter().all(|line| line.contains("MiB") && line.len() <= 80), "{text}");
        let objects = forecast.objects().unwrap();
        assert_eq!(objects.len(), 2);
        assert_eq!((&objects[1]["islands"], &objects[1]["result_rows"]), (&2.into(), &2.into()));
        assert_eq!(objects[0]["varies"], json!({ "op": ["read", "update"] }));
    }

    /// The columns are chosen before the rows are measured, so planned rows must have all results.
    #[test]
    fn planned_rows_have_the_results_that_rows_will_have() {
        let has = |args: &[&str], value: fn(&ResultRow) -> bool| forecast(args).rows().iter().any(value);
        assert!(has(&["micro", "--load-model", "open", "--rate", "10"], |r| r.offered_tps.is_some()));
        assert!(has(&["tpcc", "--think", "standard"], |r| r.tpmc_ceiling.is_some()));
        assert!(has(&["tpcb", "--kill", "3"], |r| r.kills.is_some()));
        assert!(!has(SMALL, |r| r.offered_tps.is_some() || r.kills.is_some() || r.tpmc.is_some()));
    }
}
