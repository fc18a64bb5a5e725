//! Runs experiments. Each runs once, however many figures and claims need its rows, and it does not
//! run at all if an earlier call left the rows.
//!
//! ```text
//!   --rows FILE --> given --.
//!   --out DIR   --> Folder --> rows of an experiment --> figures, claims
//!   runs        --> bench, counter, ipc --Sink-'
//!   loads, counts, traces ----------------------'
//! ```
//!
//! An experiment that fails does not stop the others: a figure or claim that needs its rows reports
//! why there are none.

use crate::bench;
use crate::claimed::Claim;
use crate::cli::{BenchArgs, COUNTER, Cli, Command, IPC};
use crate::counter;
use crate::demand::REPEAT;
use crate::failure::Failure;
use crate::forecast::Forecast;
use crate::ipc;
use crate::loaded;
use crate::output::Output;
use crate::papers::RowArgs;
use crate::patience::interruptibly;
use crate::progress::Progress;
use crate::sweep::Sweep;
use crate::traced::Captures;
use crate::tracing;
use crate::version;
use base::counted;
use claims::rows::{Folder, Partial, Stamp};
use claims::{Experiment, Row};
use clap::Parser;
use deploy::Interrupt;
use driver::ResultRow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};
use topology::Machine;
use world::tell;

/// The length of measured windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    window: Duration,
}

impl Size {
    const QUICK: Size = Size::of(30);
    const FULL: Size = Size::of(100);

    /// Windows of this many hundredths of a second.
    const fn of(hundredths: u64) -> Size {
        Size { window: Duration::from_millis(10 * hundredths) }
    }

    /// The load before the first window.
    fn warmup(self) -> Duration {
        (self.window / 2).clamp(Duration::from_millis(200), Duration::from_millis(500))
    }

    fn name(self) -> String {
        format!("{} ms", self.window.as_millis())
    }

    /// The options that are added to a run that does not set them itself.
    fn options(self) -> [(&'static str, String); 3] {
        let ms = |time: Duration| format!("{}ms", time.as_millis());
        [("--duration", ms(self.window)), ("--warmup", ms(self.warmup())), ("--repeat", "3".into())]
    }
}

/// The windows that `--within` may choose, in hundredths of a second: shorter windows are dominated
/// by chance, and longer ones give no more information.
const SHORTEST: u64 = 10;
const LONGEST: u64 = 200;

/// The result of an experiment.
#[derive(Clone, Debug)]
pub enum Outcome {
    Rows(Rc<Vec<Row>>),
    /// Why there are no rows, or not all of them.
    None(String),
}

pub struct Lab {
    machine: Machine,
    interrupt: Interrupt,
    size: Size,
    within: Option<Duration>,
    started: Instant,
    /// The number of experiments to run, and how many of them have begun.
    planned: usize,
    begun: usize,
    /// Identifies this program: see [`build`].
    build: String,
    folder: Option<Folder>,
    /// Held on the folder for as long as this process writes there.
    _claim: Option<Claim>,
    captures: RefCell<Captures>,
    /// Why no trace can be captured here, if one has to be.
    untraced: Option<String>,
    /// The rows of `--rows FILE`, by experiment.
    given: BTreeMap<String, Rc<Vec<Row>>>,
    outcomes: BTreeMap<String, Outcome>,
    /// Rows of interrupted experiments.
    partial: Vec<Row>,
    failures: usize,
}

impl Lab {
    /// # Errors
    /// A directory that cannot be made; a file of rows that is missing or damaged.
    pub fn open(args: &RowArgs, interrupt: &Interrupt) -> Result<Lab, Failure> {
        let folder = |path: &std::path::PathBuf| {
            not_of_a_bench(path)?;
            Folder::open(path).map_err(|e| {
                Failure::Run(format!(
                    "cannot make {}: {e}; name another directory with --out",
                    path.display()
                ))
            })
        };
        let folder = args.out.as_ref().map(folder).transpose()?;
        Ok(Lab {
            machine: bench::live_machine("live")?,
            interrupt: interrupt.clone(),
            size: if args.quick { Size::QUICK } else { Size::FULL },
            within: args.within,
            started: Instant::now(),
            planned: 0,
            begun: 0,
            build: build(),
            folder,
            _claim: args.out.as_deref().map(Claim::on).transpose()?,
            captures: RefCell::new(Captures::new(args)),
            untraced: None,
            given: match args.rows.clone() {
                Some(path) => interruptibly(interrupt, move || given(&path))??
                    .into_iter()
                    .map(|(id, rows)| (id, Rc::new(rows)))
                    .collect(),
                None => BTreeMap::new(),
            },
            outcomes: BTreeMap::new(),
            partial: Vec::new(),
            failures: 0,
        })
    }

    pub fn interrupted(&self) -> bool {
        self.interrupt.is_set()
    }

    /// How it has ended, to be told last.
    ///
    /// # Errors
    /// It was interrupted, experiments failed, or traces could not be captured.
    pub fn ending(&self) -> Result<(), Failure> {
        if self.interrupted() {
            return Err(Failure::Interrupted);
        }
        let failed = (self.failures > 0)
            .then(|| format!("{} failed, see above", counted(self.failures, "experiment")));
        let untraced =
            self.untraced.as_ref().map(|why| format!("experiments on traces were left out: {why}"));
        let told: Vec<String> = failed.into_iter().chain(untraced).collect();
        if told.is_empty() { Ok(()) } else { Err(Failure::Run(told.join("; "))) }
    }

    fn stamp(&self, experiment: &Experiment) -> Stamp {
        Stamp::new(experiment, &self.size.name(), driver::VERSION, &self.build)
    }

    /// Rows that exist without a run: from the file, or from the folder.
    fn at_hand(&self, experiment: &Experiment) -> Option<Rc<Vec<Row>>> {
        let kept = || self.folder.as_ref()?.find(&self.stamp(experiment)).map(Rc::new);
        self.given.get(&experiment.id).cloned().or_else(kept)
    }

    /// Chooses the length of windows, and prints the planned runs with a rough estimate of their
    /// time.
    ///
    /// # Errors
    /// A run that the command line of `bench` refuses; more runs than there is time for.
    pub fn announce(&mut self, experiments: &[&Experiment]) -> Result<(), Failure> {
        if experiments.iter().any(|e| self.at_hand(e).is_none() && self.captures_for(e)) {
            self.untraced = tracing::tools().err().map(|failure| failure.to_string());
        }
        if let Some(why) = &self.untraced {
            tell(format_args!("experiments on traces are left out: {why}"));
        }
        let can_run: Vec<&Experiment> =
            experiments.iter().filter(|e| self.can_run(e).is_ok()).copied().collect();
        if let Some(within) = self.within {
            // Sized for all experiments that are asked for, measured or not: a call that continues
            // an earlier one must choose the windows that the earlier call chose.
            self.size = self.fitting(&can_run, within)?;
        }
        let missing: Vec<&Experiment> = can_run.into_iter().filter(|e| self.at_hand(e).is_none()).collect();
        let (rows, time) = self.total(&missing, self.size)?;
        self.planned = missing.len();
        tell(format_args!(
            "{} to run, {} of windows of {}, about {:.1} minutes; Ctrl-C keeps what was measured",
            counted(self.planned, "experiment"),
            counted(rows, "row"),
            self.size.name(),
            minutes(time)
        ));
        Ok(())
    }

    /// The longest windows with which all experiments fit into the time.
    fn fitting(&self, experiments: &[&Experiment], within: Duration) -> Result<Size, Failure> {
        let takes = |hundredths: u64| Ok::<_, Failure>(self.total(experiments, Size::of(hundredths))?.1);
        let least = takes(SHORTEST)?;
        if least > within {
            return Err(Failure::Usage(format!(
                "--within: with the shortest windows, of {}, this takes about {:.1} minutes; expected that at least, or fewer ids",
                Size::of(SHORTEST).name(),
                minutes(least)
            )));
        }
        let (mut low, mut high) = (SHORTEST, LONGEST);
        while low < high {
            let middle = (low + high).div_ceil(2);
            if takes(middle)? <= within { low = middle } else { high = middle - 1 }
        }
        Ok(Size::of(low))
    }

    /// The number of rows of these experiments, and a rough estimate of their time.
    fn total(&self, experiments: &[&Experiment], size: Size) -> Result<(usize, Duration), Failure> {
        let mut sum = (0, Duration::ZERO);
        for experiment in experiments {
            let (rows, time) = self.estimate(experiment, size)?;
            sum = (sum.0 + rows, sum.1 + time);
        }
        Ok(sum)
    }

    /// Whether an experiment needs a trace that is not there yet.
    fn captures_for(&self, experiment: &Experiment) -> bool {
        let captures = self.captures.borrow();
        experiment.traces.iter().any(|traced| captures.is_to_be_made(traced))
    }

    fn can_run(&self, experiment: &Experiment) -> Result<(), String> {
        if let Some(waits) = &experiment.waits {
            return Err(format!("waits for {waits}"));
        }
        if self.untraced.is_some() && self.captures_for(experiment) {
            return Err("no trace can be captured here".into());
        }
        let cores = self.machine.default_workers();
        if cores < experiment.cores {
            return Err(format!("needs {} cores, and this process may use {cores}", experiment.cores));
        }
        Ok(())
    }

    fn estimate(&self, experiment: &Experiment, size: Size) -> Result<(usize, Duration), Failure> {
        let counting = COUNTING * experiment.counts.len() as u32;
        let (mut rows, mut time) = (0, counting + LOAD * experiment.loads.len() as u32);
        for traced in &experiment.traces {
            time += CAPTURE + STUDY * traced.studies.len() as u32;
        }
        for run in &experiment.runs {
            let args = bench_args(run, size, self.machine.default_workers())?;
            let m = &args.measuring;
            let repeat = m.repeat.unwrap_or(REPEAT);
            let (more, each) = match args.workload.as_str() {
                COUNTER => (counter::rows(&args, &self.machine)?, m.duration * repeat),
                IPC => (ipc::rows(&args, &self.machine)?, ROUND_TRIPS * repeat),
                _ => {
                    let sweep = Sweep::plan(&args, &self.machine, &self.interrupt)?;
                    time += LAUNCH * sweep.stops.len() as u32;
                    (sweep.rows(), size.warmup() + m.duration * repeat + CHECK)
                }
            };
            rows += more;
            time += each * more as u32;
        }
        Ok((rows, time))
    }

    /// The rows of an experiment, measured at the first call.
    pub fn rows(&mut self, experiment: &Experiment) -> Outcome {
        if let Some(outcome) = self.outcomes.get(&experiment.id) {
            return outcome.clone();
        }
        let outcome = match (self.can_run(experiment), self.at_hand(experiment)) {
            (_, Some(rows)) => Outcome::Rows(rows),
            (Err(why), None) => Outcome::None(why),
            (Ok(()), None) if self.interrupted() => {
                Outcome::None("interrupted before it was measured".into())
            }
            (Ok(()), None) if self.within.is_some_and(|within| self.started.elapsed() > within) => {
                Outcome::None(
                    "the time of --within was over before it was measured; with --out another call goes on"
                        .into(),
                )
            }
            (Ok(()), None) => self.run(experiment),
        };
        self.outcomes.insert(experiment.id.clone(), outcome.clone());
        outcome
    }

    fn run(&mut self, experiment: &Experiment) -> Outcome {
        self.begun += 1;
        let (of, so_far) = (self.planned.max(self.begun), minutes(self.started.elapsed()));
        let (id, caption) = (&experiment.id, &experiment.caption);
        tell(format_args!("{} of {of}, {so_far:.1} min: {id}: {caption}", self.begun));
        let stamp = self.stamp(experiment);
        let rows = Rc::new(RefCell::new(Vec::new()));
        let outcome = self.run_into(experiment, &stamp, &rows);
        let rows = Rc::new(rows.take());
        match outcome {
            Ok(()) => Outcome::Rows(rows),
            Err(failure) => {
                self.partial.extend(rows.iter().cloned());
                // A Ctrl-C reaches the child processes too, and their failures are then no failures
                // of the experiment.
                if matches!(failure, Failure::Interrupted) || self.interrupted() {
                    return Outcome::None("interrupted while it was measured".into());
                }
                self.failures += 1;
                tell(format_args!("atoll: {}: {failure}", experiment.id));
                Outcome::None(format!("the experiment {} failed: {failure}", experiment.id))
            }
        }
    }

    fn run_into(
        &self,
        experiment: &Experiment,
        stamp: &Stamp,
        rows: &Rc<RefCell<Vec<Row>>>,
    ) -> Result<(), Failure> {
        let cannot =
            |e: std::io::Error| Failure::Run(format!("cannot write the rows: {e}; is the disk full?"));
        let begun = self.folder.as_ref().map(|f| f.begin(&experiment.id)).transpose().map_err(cannot)?;
        let mut keeper = Keeper { stamp: stamp.clone(), partial: begun, rows: Rc::clone(rows) };
        for count in &experiment.counts {
            for row in count.rows().map_err(Failure::run)? {
                keeper.keep(row)?;
            }
        }
        for line in &experiment.loads {
            for row in loaded::rows(line, &self.interrupt)? {
                keeper.keep(row)?;
            }
        }
        for traced in &experiment.traces {
            for row in self.captures.borrow_mut().rows(traced, &self.interrupt)? {
                keeper.keep(row)?;
            }
        }
        let keeper = Rc::new(RefCell::new(keeper));
        for run in &experiment.runs {
            let args = bench_args(run, self.size, self.machine.default_workers())?;
            self.bench(&args, &keeper)?;
        }
        let partial = keeper.borrow_mut().partial.take();
        partial.map_or(Ok(()), |partial| partial.finish().map_err(cannot))
    }

    fn bench(&self, args: &BenchArgs, keeper: &Rc<RefCell<Keeper>>) -> Result<(), Failure> {
        let keeper = Rc::clone(keeper);
        let mut output = Output::to(Box::new(move |row: &ResultRow| keeper.borrow_mut().measured(row)));
        match args.workload.as_str() {
            COUNTER => counter::measure_all(args, &self.machine, &self.interrupt, &mut output)?,
            IPC => ipc::measure_all(args, &self.machine, &self.interrupt, &mut output)?,
            _ => {
                let sweep = Sweep::plan(args, &self.machine, &self.interrupt)?;
                let clock = Forecast::of(&sweep, None)?.clock();
                let mut progress = Progress::planned(sweep.rows(), clock, None);
                for stop in sweep.stops {
                    bench::measure(stop, &self.machine, &mut progress, &mut output)?;
                }
            }
        }
        output.check()
    }

    /// Writes all rows, measured or found, into one file of the directory; returns its path, `None`
    /// without a directory.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_all(&self) -> Result<Option<std::path::PathBuf>, Failure> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let written = folder.write_all(self.all_rows().iter());
        written.map(Some).map_err(|e| Failure::Run(format!("cannot write rows.jsonl: {e}")))
    }

    /// Writes pages of these rows into the directory and returns their paths: one of the rows that
    /// come from a run, one of those that come from traces. None without a directory.
    ///
    /// # Errors
    /// If a page cannot be written.
    pub fn report(&self, name: &str, rows: &[Row]) -> Result<Vec<std::path::PathBuf>, Failure> {
        let mut paths = Vec::new();
        let Some(folder) = &self.folder else { return Ok(paths) };
        let measured = rows.iter().filter(|row| row.number("tps").is_some());
        let text: String = measured.map(|row| row.line() + "\n").collect();
        if !text.is_empty() {
            let mut read = report::Rows::default();
            read.add(name, text.as_bytes());
            let notes = read.complaints.iter().map(ToString::to_string).chain(read.remarks).collect();
            let page = report::Report { rows: read.rows, machines: vec![self.machine.clone()], notes };
            paths.push(folder.file(&format!("{name}.html")));
            crate::results::write(&paths[0], page.html())?;
        }
        let traced: Vec<_> = rows.iter().filter(|row| row.word("table").is_some()).collect();
        let traced: Vec<_> = traced.into_iter().map(|row| row.0.clone()).collect();
        if let Some(page) = report::microscope(&format!("Cache microscope: {name}"), &traced) {
            let path = folder.file(&format!("{name}-caches.html"));
            crate::results::write(&path, page.html())?;
            paths.push(path);
        }
        Ok(paths)
    }

    /// Every row that was measured or found.
    pub fn all_rows(&self) -> Vec<Row> {
        let whole = self.outcomes.values().flat_map(|outcome| match outcome {
            Outcome::Rows(rows) => rows.to_vec(),
            Outcome::None(_) => Vec::new(),
        });
        whole.chain(self.partial.iter().cloned()).collect()
    }

    /// The rows of experiments that did not finish.
    pub fn partial(&self) -> &[Row] {
        &self.partial
    }
}

fn minutes(time: Duration) -> f64 {
    (time.as_secs_f64() / 60.0).max(0.1)
}

/// Estimated times: launching a deployment, a load with its inspection, checking the data after a
/// row, a trace, a study of one, a count, and an `ipc` measurement.
const LAUNCH: Duration = Duration::from_millis(700);
const LOAD: Duration = Duration::from_secs(4);
const CHECK: Duration = Duration::from_millis(400);
const CAPTURE: Duration = Duration::from_secs(60);
const STUDY: Duration = Duration::from_secs(30);
const COUNTING: Duration = Duration::from_millis(500);
const ROUND_TRIPS: Duration = Duration::from_millis(700);

/// Keeps rows as they are measured.
struct Keeper {
    stamp: Stamp,
    partial: Option<Partial>,
    rows: Rc<RefCell<Vec<Row>>>,
}

impl Keeper {
    fn measured(&mut self, row: &ResultRow) -> Result<(), Failure> {
        let line = serde_json::to_string(row).map_err(Failure::run)?;
        self.keep(Row::parse(&line).map_err(Failure::Run)?)
    }

    fn keep(&mut self, mut row: Row) -> Result<(), Failure> {
        self.stamp.put_on(&mut row);
        if let Some(partial) = &mut self.partial {
            partial
                .add(&row)
                .map_err(|e| Failure::Run(format!("cannot write the rows: {e}; is the disk full?")))?;
        }
        self.rows.borrow_mut().push(row);
        Ok(())
    }
}

/// The commit and the build time of the program: the commit alone does not distinguish two builds
/// with uncommitted changes.
fn build() -> String {
    let built = std::env::current_exe().and_then(|path| path.metadata()?.modified());
    let since =
        built.ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok()).unwrap_or_default();
    format!("{} {}", version::COMMIT, since.as_nanos())
}

/// Checks that a directory of results may be written: its `rows.jsonl` is going to be replaced by
/// the rows of the files that the directory keeps for each experiment.
///
/// # Errors
/// The directory holds rows that no experiment has left, and that would be lost.
fn not_of_a_bench(dir: &Path) -> Result<(), Failure> {
    let file = dir.join(crate::results::ROWS);
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let of_experiment =
        |line: &str| Row::parse(line).is_ok_and(|row| row.word(claims::row::EXPERIMENT).is_some());
    match text.lines().filter(|line| !line.trim().is_empty()).all(of_experiment) {
        true => Ok(()),
        false => Err(Failure::Usage(format!(
            "--out: {} holds rows of atoll bench, which would be replaced; expected another directory",
            file.display()
        ))),
    }
}

/// The rows of a file, by experiment.
fn given(path: &Path) -> Result<BTreeMap<String, Vec<Row>>, Failure> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| {
        let text = format!("--rows {name}: {e}; expected a file that --out wrote, such as DIR/rows.jsonl");
        if e.kind() == std::io::ErrorKind::NotFound { Failure::Usage(text) } else { Failure::Run(text) }
    })?;
    let mut all: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in claims::rows::parse(&name, &text, driver::VERSION).map_err(Failure::run)? {
        all.entry(row.word(claims::row::EXPERIMENT).unwrap_or_default()).or_default().push(row);
    }
    Ok(all)
}

/// The numbers of workers to sweep over: powers of two, and all cores.
fn workers(cores: usize) -> String {
    let mut all: Vec<usize> =
        std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|n| *n < cores).collect();
    all.push(cores);
    all.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

fn bench_args(run: &str, size: Size, cores: usize) -> Result<BenchArgs, Failure> {
    let line = run.replace("{cores}", &cores.to_string()).replace("{workers}", &workers(cores));
    let mut words: Vec<&str> = ["atoll", "bench"].into_iter().chain(line.split_whitespace()).collect();
    let options = size.options();
    for (option, value) in &options {
        if !words.contains(option) {
            words.extend([option, value.as_str()]);
        }
    }
    let wrong = |e: clap::Error| Failure::Usage(format!("{run}: {e}"));
    match Cli::try_parse_from(words).map_err(wrong)?.command {
        Some(Command::Bench(args)) => Ok(*args),
        _ => Err(Failure::Usage(format!("{run}: no command line of bench"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use claims::Library;

    /// The parser of `bench` accepts every run of every experiment, and each run becomes a plan, on
    /// small and large machines.
    #[test]
    fn every_experiment_can_be_planned() {
        let library = Library::built_in().unwrap();
        for text in ["package:1 l3:1 core:2", "package:4 l3:1 core:6"] {
            let machine = Machine::parse(text).unwrap();
            for experiment in library.experiments.iter().filter(|e| e.waits.is_none()) {
                for line in &experiment.loads {
                    loaded::args(line, Path::new("data"))
                        .unwrap_or_else(|e| panic!("{}: {line}: {e}", experiment.id));
                }
                for run in &experiment.runs {
                    let args = bench_args(run, Size::QUICK, machine.default_workers()).unwrap();
                    let planned = match args.workload.as_str() {
                        COUNTER => counter::rows(&args, &machine),
                        IPC => ipc::rows(&args, &machine),
                        _ => Sweep::plan(&args, &machine, &Interrupt::default()).map(|s| s.rows()),
                    };
                    let rows = planned.unwrap_or_else(|e| panic!("{}: {run}: {e}", experiment.id));
                    assert!(rows > 0, "{}: {run}", experiment.id);
                }
            }
        }
    }

    #[test]
    fn sizes_fit_the_machine_and_windows_the_size() {
        assert_eq!([1, 2, 6, 8].map(workers), ["1", "1,2", "1,2,4,6", "1,2,4,8"]);
        let args =
            bench_args("micro --workers {workers} --scale {cores} --repeat 1", Size::QUICK, 4).unwrap();
        assert_eq!((args.deployment.workers, args.requests.scale), (vec![1, 2, 4], vec![4]));
        assert_eq!((args.measuring.repeat, args.measuring.duration), (Some(1), Duration::from_millis(300)));
        assert!(bench_args("micro --no-such-thing", Size::FULL, 4).is_err());
        assert!(bench_args("topology", Size::FULL, 4).is_err());
    }

    #[test]
    fn windows_are_as_long_as_there_is_time_for() {
        let library = Library::built_in().unwrap();
        let args = RowArgs { quick: false, within: None, out: None, traces: None, rows: None };
        let lab = Lab::open(&args, &Interrupt::default()).unwrap();
        let some: Vec<&Experiment> =
            library.experiments.iter().filter(|e| lab.can_run(e).is_ok()).take(5).collect();
        let takes = |size| lab.total(&some, size).unwrap().1;
        let within = takes(Size::of(47));
        assert_eq!(lab.fitting(&some, within).unwrap(), Size::of(47));
        assert_eq!(lab.fitting(&some, within - Duration::from_millis(1)).unwrap(), Size::of(46));
        assert_eq!(lab.fitting(&some, Duration::from_secs(86_400)).unwrap(), Size::of(LONGEST));
        let failure = lab.fitting(&some, Duration::from_millis(1)).unwrap_err();
        assert!(failure.code() == 2 && failure.to_string().contains("windows, of 100 ms"), "{failure}");
    }
}
