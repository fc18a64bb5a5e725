//! One deployment in use: loaded once, then measured with any number of request mixes.
//!
//! ```text
//!   open: launch, load
//!   run:  reconfigure, drive, warm-up | window | window | window |, halt, audit, judge  -> one row
//!                                     ^ here the load's ramp and phases begin
//!   run:  ...
//!   close: stop
//! ```

use crate::live::{Ending, Pieces};
use crate::noise::Moment;
use crate::row::{MachineStamp, RebalanceRow, ResultRow, Settings};
use crate::shift::{rebalanced, shift};
use crate::steady;
use crate::subject::Subject;
use crate::window::Window;
use base::counted;
use deploy::engine::Mode;
use deploy::{DeployError, Deployment, Host, Running};
use probe::{Measured, Profiling};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use traffic::{LoadChange, LoadModel, Traffic};
use workload::WorkloadSpec;
use workload::benchmark::Counted;

/// The parameters of a measurement.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub warmup: Warmup,
    pub duration: Duration,
    /// Measured windows; the median is reported.
    pub repeat: u32,
    /// A ramp begins with the first window.
    pub traffic: Traffic,
    /// Changes of the load from the first window on.
    pub changes: Vec<LoadChange<WorkloadSpec>>,
    /// The script of the changes, as rows contain it.
    pub phases: Option<String>,
    pub seed: u64,
    pub profiling: Profiling,
}

/// Load before the first window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Warmup {
    For(Duration),
    /// Until the last seconds are [`steady`], but no longer than [`LONGEST_WARMUP`].
    UntilSteady,
}

/// The longest warm-up of [`Warmup::UntilSteady`].
pub const LONGEST_WARMUP: Duration = Duration::from_secs(60);

/// An interrupted window that is shorter than this is dropped: its rate would be a guess.
const SHORTEST_KEPT: Duration = Duration::from_millis(100);

/// How the windows of a row ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ended {
    InTime,
    Interrupted,
}

/// If more than this share of a window's requests wait at its end, the rate cannot be met.
const BEHIND: f64 = 0.01;

/// Gets the progress of a session, for people.
pub trait Watcher {
    /// `share` of the current phase, 0..=1.
    fn progress(&mut self, phase: &str, share: f64);
    fn warn(&mut self, text: &str);
    /// Whether, and how often, [`Watcher::sample`] is called. Each sample costs the instances a
    /// message and a little bookkeeping.
    fn sampling(&self) -> Sampling {
        Sampling::Off
    }
    /// The measurements of each instance since the last sample, in order of their numbers.
    fn sample(&mut self, _instances: &[Measured]) {}
}

/// How often a watcher gets samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sampling {
    Off,
    Every(Duration),
}

/// The present latency between the cores, in nanoseconds; `None` on a single core.
pub type Ping<'a> = &'a dyn Fn() -> Option<f64>;

/// A deployment in use. See the head of this file.
pub struct Session {
    pub(crate) running: Running,
    /// Effects committed since loading, modulo 2^64. `None` once an instance has died and its
    /// counts are lost, or once a mix has run with effects that cannot be counted.
    pub(crate) effects: Option<u64>,
    stamp: MachineStamp,
    placement: String,
    /// Of the running window, if it is watched.
    pieces: Pieces,
}

impl Session {
    /// Launches and loads. `stamp` without its latencies; `placement` as the row names it.
    pub fn open(
        deployment: Deployment,
        stamp: MachineStamp,
        placement: &str,
        watcher: &mut dyn Watcher,
    ) -> Result<Session, DeployError> {
        let share = |done: u64, total: u64| done as f64 / total.max(1) as f64;
        watcher.progress("starting", 0.0);
        let mut running =
            deployment.launch_watched(&mut |done, total| watcher.progress("copying", share(done, total)))?;
        let effects = running.effects_at_start();
        running.load(&mut |done, total| watcher.progress("loading", share(done, total)))?;
        Ok(Session { running, effects, stamp, placement: placement.into(), pieces: Pieces::default() })
    }

    /// Measures one request mix over the data. `subject` must name the data that was loaded. An
    /// interruption after the warm-up returns a row of the measurements until then, marked as
    /// interrupted; the session must not be used further.
    ///
    /// # Errors
    /// An interruption before that; instances that are lost and cannot be started again.
    pub fn run(
        &mut self,
        subject: &Subject,
        schedule: &Schedule,
        ping: Ping<'_>,
        watcher: &mut dyn Watcher,
    ) -> Result<ResultRow, DeployError> {
        let mut row = self.begin(subject, schedule, ping)?;
        let restarts = self.running.restarts();
        self.running.drive(at_rest(schedule.traffic), schedule.seed, schedule.profiling)?;
        row.warmup_s = Some(self.warm_up(subject, schedule.warmup, watcher)?.as_secs_f64());
        self.running.change(changes(schedule))?;
        let began_ns = self.running.began_ns();
        let mut rebalances = self.measure(subject)?.all.rebalances;
        let (windows, ended) = self.windows(subject, schedule, watcher)?;
        rebalances.extend(windows.iter().flat_map(|(_, window)| window.all.rebalances.iter().cloned()));
        row.restarts = self.running.restarts() - restarts;
        if row.restarts > 0 {
            self.effects = None;
            let times = counted(row.restarts, "time");
            watcher.warn(&format!("instances died during this row and were started again, {times}"));
        }
        match ended {
            Ended::InTime => self.check(subject, &mut row, watcher)?,
            Ended::Interrupted => row.interrupted = Some(true),
        }
        fill(&mut row, windows, subject, &schedule.traffic);
        if schedule.changes.iter().any(|change| change.requests.is_some()) {
            // The mix was another one for a part of the time.
            row.tpmc = None;
        }
        row.rebalances = rebalances.iter().map(|made| RebalanceRow::of(made, began_ns)).collect();
        let shifted = schedule.changes.first().map(|change| Duration::from_nanos(change.at_ns).as_secs_f64());
        row.shift = shifted.and_then(|at| shift(&row.series, at));
        row.rebalanced = (self.running.deployment().options.balance.mode != Mode::Off)
            .then(|| rebalanced(&row.rebalances, shifted));
        row.workload_stats = subject.statistics(Counted {
            committed: &row.committed_by_kind,
            user_aborted: &row.user_aborted_by_kind,
            observed: &row.observed,
        });
        behind(&row, watcher);
        row.machine.latency_after_ns = ping();
        Ok(row)
    }

    /// The windows of a row, each with its noise. An interruption ends them early, so the last one
    /// may be shorter.
    ///
    /// # Errors
    /// An interruption before there is a window to keep.
    fn windows(
        &mut self,
        subject: &Subject,
        schedule: &Schedule,
        watcher: &mut dyn Watcher,
    ) -> Result<(Vec<(f64, Window)>, Ended), DeployError> {
        let mut windows = Vec::new();
        let mut start = Moment::now();
        for i in 0..schedule.repeat {
            let phase = format!("measuring {}/{}", i + 1, schedule.repeat);
            let waited = self.wait(schedule.duration, &phase, watcher);
            let (measured, ended) = match waited {
                Err(DeployError::Interrupted) => (self.measure_in_spite(subject), Ended::Interrupted),
                waited => (waited.and_then(|()| self.measure(subject)), Ended::InTime),
            };
            let window = match measured {
                Err(DeployError::Interrupted) if !windows.is_empty() => {
                    return Ok((windows, Ended::Interrupted));
                }
                measured => measured?,
            };
            let end = Moment::now();
            if ended == Ended::InTime || Duration::from_secs_f64(window.seconds) >= SHORTEST_KEPT {
                windows.push((start.noise_until(&end, self.children_ns(&window)), window));
            }
            if ended == Ended::Interrupted {
                let any = !windows.is_empty();
                return if any { Ok((windows, ended)) } else { Err(DeployError::Interrupted) };
            }
            start = end;
        }
        Ok((windows, Ended::InTime))
    }

    /// Measures the window up to an interruption of the run. The interrupt flag is cleared while
    /// the instances answer, since every wait for them ends while it is set. Another Ctrl-C sets it
    /// again.
    fn measure_in_spite(&mut self, subject: &Subject) -> Result<Window, DeployError> {
        let flag = self.running.deployment().interrupt.flag();
        flag.store(false, Ordering::Relaxed);
        let window = self.measure(subject);
        flag.store(true, Ordering::Relaxed);
        window.map_err(|_| DeployError::Interrupted)
    }

    /// Ends the load and has the data checked. If the check is interrupted, the row has no verdict.
    fn check(
        &mut self,
        subject: &Subject,
        row: &mut ResultRow,
        watcher: &mut dyn Watcher,
    ) -> Result<(), DeployError> {
        watcher.progress("checking", 0.0);
        let mut judge = || {
            self.running.halt()?;
            self.measure(subject)?;
            let audits = self.running.audit()?;
            subject.judge(&audits, self.effects)
        };
        match judge() {
            Ok(verdict) => {
                (row.consistent, row.violations) = (Some(verdict.holds()), verdict.violations);
                Ok(())
            }
            Err(DeployError::Interrupted) => {
                row.interrupted = Some(true);
                Ok(())
            }
            Err(other) => Err(other),
        }
    }

    /// Sets the request mix and begins a row.
    pub(crate) fn begin(
        &mut self,
        subject: &Subject,
        schedule: &Schedule,
        ping: Ping<'_>,
    ) -> Result<ResultRow, DeployError> {
        self.running.reconfigure(subject.spec().clone())?;
        let d = self.running.deployment();
        let mut row = ResultRow::new(Settings::of(d, &self.placement, subject, schedule));
        row.machine = MachineStamp { latency_before_ns: ping(), ..self.stamp.clone() };
        row.oversubscribed = self.running.deployment().oversubscribed;
        Ok(row)
    }

    /// Takes a window and adds its effects to the count for the consistency check.
    fn measure(&mut self, subject: &Subject) -> Result<Window, DeployError> {
        let whole = self.pieces.finish(&self.running.measure()?);
        let window = Window::of(&whole, self.running.deployment().host);
        let here = subject.effects(&window.all.committed);
        self.effects = self.effects.zip(here).map(|(before, here)| before.wrapping_add(here));
        Ok(window)
    }

    /// Runs the load before the measurement; returns how long.
    fn warm_up(
        &mut self,
        subject: &Subject,
        warmup: Warmup,
        watcher: &mut dyn Watcher,
    ) -> Result<Duration, DeployError> {
        let start = Instant::now();
        let Warmup::For(time) = warmup else {
            let mut tps = Vec::new();
            self.measure(subject)?;
            while start.elapsed() < LONGEST_WARMUP {
                self.wait(Duration::from_secs(1), "warming up until steady", watcher)?;
                tps.push(self.measure(subject)?.tps);
                if steady::is_steady(&tps[tps.len().saturating_sub(steady::LEAST)..]) == Some(true) {
                    return Ok(start.elapsed());
                }
            }
            let longest = LONGEST_WARMUP.as_secs();
            watcher.warn(&format!(
                "throughput has not settled within {longest} s of load: measured all the same"
            ));
            return Ok(start.elapsed());
        };
        self.wait(time, "warming up", watcher)?;
        Ok(start.elapsed())
    }

    /// CPU time of the window that other processes than this one used.
    fn children_ns(&self, window: &Window) -> u64 {
        match self.running.deployment().host {
            Host::Process => window.all.cpu_ns,
            Host::Thread => 0,
        }
    }

    /// Waits while tending the instances.
    fn wait(&mut self, time: Duration, phase: &str, watcher: &mut dyn Watcher) -> Result<(), DeployError> {
        let start = Instant::now();
        loop {
            let left = time.saturating_sub(start.elapsed());
            let ending = if left.is_zero() { Ending::Now } else { Ending::Later };
            if let Sampling::Every(period) = watcher.sampling()
                && self.pieces.is_due(Instant::now(), period, ending)
            {
                let piece = self.running.measure()?;
                watcher.sample(&piece);
                self.pieces.add(Instant::now(), &piece);
            }
            if left.is_zero() {
                return Ok(());
            }
            self.running.tend(left.min(Duration::from_millis(50)))?;
            watcher.progress(phase, (start.elapsed().as_secs_f64() / time.as_secs_f64()).min(1.0));
        }
    }

    /// Stops everything in order.
    pub fn close(self) -> Result<(), DeployError> {
        self.running.stop(self.effects)
    }
}

/// The load before its ramp.
fn at_rest(traffic: Traffic) -> Traffic {
    let model = match traffic.model {
        LoadModel::Open { rate, arrivals } => LoadModel::Open { rate: rate.at_rest(), arrivals },
        other => other,
    };
    Traffic { model, ..traffic }
}

/// The phases, preceded by the ramp of the rate.
fn changes(schedule: &Schedule) -> Vec<LoadChange<WorkloadSpec>> {
    let mut changes = schedule.changes.clone();
    if let LoadModel::Open { rate, .. } = schedule.traffic.model
        && rate.is_ramp()
    {
        changes.insert(0, LoadChange { at_ns: 0, rate: Some(rate), requests: None });
    }
    changes
}

/// Warns if requests came faster than they were answered.
fn behind(row: &ResultRow, watcher: &mut dyn Watcher) {
    let (Some(offered), Some(backlog)) = (row.offered_tps, row.backlog) else { return };
    let refused = row.refused.unwrap_or(0);
    if refused > 0 || backlog as f64 > (offered * row.seconds * BEHIND).max(10.0) {
        watcher.warn(&format!(
            "the rate cannot be met: {offered:.0} requests a second came, {:.0} were answered, {backlog} were waiting at the \
             end and {refused} were refused; latency is that of a queue that grows",
            row.tps
        ));
    }
}

/// Fills in the median window by throughput. With an even number it is the slower of the two in the
/// middle, since a row reports one window.
fn fill(row: &mut ResultRow, windows: Vec<(f64, Window)>, subject: &Subject, traffic: &Traffic) {
    let seconds: Vec<f64> = windows.iter().flat_map(|(_, window)| window.seconds_tps()).collect();
    row.steady = steady::is_steady(&seconds);
    let mut order: Vec<usize> = (0..windows.len()).collect();
    order.sort_by(|&a, &b| windows[a].1.tps.total_cmp(&windows[b].1.tps));
    let (Some(&first), Some(&last)) = (order.first(), order.last()) else { return };
    (row.tps_min, row.tps_max) = (windows[first].1.tps, windows[last].1.tps);
    let median = order[(order.len() - 1) / 2];
    row.repetitions = windows.iter().map(|(noise, window)| window.repetition(*noise)).collect();
    let (noise, window) = &windows[median];
    window.fill(row);
    row.series = window.series(windows[..median].iter().map(|(_, before)| before.seconds).sum());
    row.window = Some(median as u32 + 1);
    row.noise = *noise;
    let Some(people) = subject.terminals() else { return };
    if subject.is_standard_mix() {
        row.tpmc = Some(window.per_minute(people.counted));
    }
    if let LoadModel::Terminals { terminals, think } = traffic.model {
        let ceiling = people.ceiling / f64::from(people.per_site) * f64::from(terminals) / think.factor();
        row.tpmc_ceiling = Some(ceiling).filter(|c| c.is_finite());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_repetition_is_reported_with_its_spread() {
        let window = |tps: f64| (tps / 1000.0, Window { tps, seconds: 1.0, ..Window::default() });
        let subject = Subject::new(workload::WorkloadSpec::new("tpcc", 2)).unwrap();
        let mut row = ResultRow::default();
        fill(&mut row, vec![window(30.0), window(10.0), window(20.0)], &subject, &Traffic::closed(1));
        assert_eq!((row.tps_min, row.tps, row.tps_max, row.noise), (10.0, 20.0, 30.0, 0.02));
        assert_eq!((row.window, row.steady, row.tpmc_ceiling), (Some(3), None, None));
        let mut row = ResultRow::default();
        let think = "x0.5".parse().unwrap();
        let model = LoadModel::Terminals { terminals: 20, think };
        fill(&mut row, vec![window(5.0)], &subject, &Traffic { model, ..Traffic::closed(1) });
        assert!(row.tpmc_ceiling.is_some_and(|c| (c - 2.0 * 12.86 * 2.0).abs() < 1e-9));
        assert_eq!((row.tps_min, row.tps, row.tps_max), (5.0, 5.0, 5.0));
    }

    #[test]
    fn every_repetition_is_in_the_row_in_the_order_of_time() {
        let subject = Subject::new(workload::WorkloadSpec::new("tpcb", 2)).unwrap();
        let mut row = ResultRow::default();
        let windows = [40.0, 10.0, 30.0, 20.0].map(|tps| (tps / 1000.0, timed(tps)));
        fill(&mut row, windows.into(), &subject, &Traffic::closed(1));
        let of = |get: fn(&crate::RepetitionRow) -> f64| row.repetitions.iter().map(get).collect::<Vec<_>>();
        assert_eq!(of(|r| r.tps), [40.0, 10.0, 30.0, 20.0]);
        assert_eq!(of(|r| r.noise), [0.04, 0.01, 0.03, 0.02]);
        let p50 = of(|r| r.latency_us.unwrap().p50);
        assert!(p50.iter().zip([40.0, 10.0, 30.0, 20.0]).all(|(a, b)| (a / b - 1.0).abs() < 0.01), "{p50:?}");
        assert_eq!((row.tps, row.window), (20.0, Some(4)), "of two in the middle, the slower");
        assert_eq!(row.tpmc, None, "tpcb has no NewOrders");
    }

    /// A window with one transaction that took as many microseconds as the window has transactions
    /// a second.
    fn timed(tps: f64) -> Window {
        let mut all = Measured::default();
        all.latency.record((tps * 1000.0) as u64);
        Window { tps, seconds: 1.0, all }
    }

    #[test]
    fn new_orders_a_minute_are_told_of_the_standard_mix() {
        let of = |name: &str| {
            let subject = Subject::new(workload::WorkloadSpec::new(name, 2)).unwrap();
            let all = Measured {
                committed: [("new_order".to_string(), 9)].into(),
                user_aborted: [("new_order".to_string(), 1)].into(),
                ..Measured::default()
            };
            let mut row = ResultRow::default();
            let window = Window { tps: 4.5, seconds: 2.0, all };
            fill(&mut row, vec![(0.0, window)], &subject, &Traffic::closed(1));
            row.tpmc
        };
        assert_eq!(of("tpcc"), Some(300.0));
        assert_eq!((of("tpcc-neworder"), of("tpcc-payment"), of("micro")), (None, None, None));
    }
}
