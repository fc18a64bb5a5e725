//! One deployment in use: loaded once, then measured with as many request mixes as are wanted.
//!
//! ```text
//!   open: launch, load
//!   run:  reconfigure, drive, warm-up | window | window | window |, halt, audit, judge  -> one row
//!   run:  ...
//!   close: stop
//! ```

use crate::noise::Moment;
use crate::row::{MachineStamp, ResultRow, Settings};
use crate::subject::Subject;
use crate::window::Window;
use deploy::{DeployError, Deployment, Host, Running};
use probe::Profiling;
use std::time::{Duration, Instant};
use workload::benchmark::Counted;

/// How to measure.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub warmup: Duration,
    pub duration: Duration,
    /// Measured windows; the median is reported.
    pub repeat: u32,
    pub clients_per_worker: u32,
    pub seed: u64,
    pub profiling: Profiling,
}

/// Told how far things are; all of it is for people.
pub trait Watcher {
    /// `share` of the current phase, 0..=1.
    fn progress(&mut self, phase: &str, share: f64);
    fn warn(&mut self, text: &str);
}

/// How far apart the cores are now, in nanoseconds; `None` on a single core.
pub type Ping<'a> = &'a dyn Fn() -> Option<f64>;

pub struct Session {
    pub(crate) running: Running,
    /// Effects committed since loading, modulo 2^64; `None` once an instance has died and taken its counts along, or a mix has
    /// run whose effects nobody can count.
    pub(crate) effects: Option<u64>,
    stamp: MachineStamp,
    placement: String,
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
        let mut running =
            deployment.launch_watched(&mut |done, total| watcher.progress("copying", share(done, total)))?;
        let effects = running.effects_at_start();
        running.load(&mut |done, total| watcher.progress("loading", share(done, total)))?;
        Ok(Session { running, effects, stamp, placement: placement.into() })
    }

    /// Measures one request mix over the data. `subject` must name the data that was loaded.
    pub fn run(
        &mut self,
        subject: &Subject,
        schedule: &Schedule,
        ping: Ping<'_>,
        watcher: &mut dyn Watcher,
    ) -> Result<ResultRow, DeployError> {
        let mut row = self.begin(subject, schedule, ping)?;
        let restarts = self.running.restarts();
        self.running.drive(schedule.clients_per_worker, schedule.seed, schedule.profiling)?;
        self.wait(schedule.warmup, "warming up", watcher)?;
        self.measure(subject)?;
        let mut windows = Vec::new();
        let mut start = Moment::now();
        for i in 0..schedule.repeat {
            self.wait(schedule.duration, &format!("measuring {}/{}", i + 1, schedule.repeat), watcher)?;
            let window = self.measure(subject)?;
            let end = Moment::now();
            windows.push((start.noise_until(&end, self.children_ns(&window)), window));
            start = end;
        }
        watcher.progress("checking", 0.0);
        self.running.halt()?;
        self.measure(subject)?;
        row.restarts = self.running.restarts() - restarts;
        if row.restarts > 0 {
            self.effects = None;
            watcher.warn(&format!("{} instances died and were started again during this row", row.restarts));
        }
        let audits = self.running.audit()?;
        let verdict = subject.judge(&audits, self.effects)?;
        (row.consistent, row.violations) = (Some(verdict.holds()), verdict.violations);
        fill(&mut row, windows);
        row.workload_stats = subject.statistics(Counted {
            committed: &row.committed_by_kind,
            user_aborted: &row.user_aborted_by_kind,
            observed: &row.observed,
        });
        row.machine.latency_after_ns = ping();
        Ok(row)
    }

    pub(crate) fn begin(
        &mut self,
        subject: &Subject,
        schedule: &Schedule,
        ping: Ping<'_>,
    ) -> Result<ResultRow, DeployError> {
        self.running.reconfigure(subject.spec().clone())?;
        let mut row = ResultRow::new(self.settings(subject, schedule));
        row.machine = MachineStamp { latency_before_ns: ping(), ..self.stamp.clone() };
        row.oversubscribed = self.running.deployment().oversubscribed;
        Ok(row)
    }

    fn settings(&self, subject: &Subject, schedule: &Schedule) -> Settings {
        let d = self.running.deployment();
        Settings {
            workload: subject.spec().name.clone(),
            design: Some(d.design.to_string()),
            islands: Some(d.islands),
            workers: Some(d.workers),
            placement: Some(self.placement.clone()),
            host: Some(d.host.name().into()),
            channel: Some(d.channel.name().into()),
            durability: Some(deploy::durability_name(d.durability).into()),
            sli: Some(d.locks.inheritance.to_string()),
            escalation: Some(d.locks.escalation.to_string()),
            clients: Some(schedule.clients_per_worker),
            memory_mib: Some(d.pool_bytes as f64 / f64::from(1 << 20)),
            labels: subject.labels(),
            load_model: Some("closed".into()),
            seed: Some(schedule.seed),
        }
    }

    /// Takes a window and adds it to what the consistency check will count.
    fn measure(&mut self, subject: &Subject) -> Result<Window, DeployError> {
        let window = Window::of(&self.running.measure()?, self.running.deployment().host);
        let here = subject.effects(&window.all.committed);
        self.effects = self.effects.zip(here).map(|(before, here)| before.wrapping_add(here));
        Ok(window)
    }

    /// CPU time of the window that this process did not use itself.
    fn children_ns(&self, window: &Window) -> u64 {
        match self.running.deployment().host {
            Host::Process => window.all.cpu_ns,
            Host::Thread => 0,
        }
    }

    /// Lets time pass while tending the instances.
    fn wait(&mut self, time: Duration, phase: &str, watcher: &mut dyn Watcher) -> Result<(), DeployError> {
        let start = Instant::now();
        loop {
            let left = time.saturating_sub(start.elapsed());
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

/// The median window by throughput; of an even number the lower of the two in the middle.
fn fill(row: &mut ResultRow, mut windows: Vec<(f64, Window)>) {
    windows.sort_by(|a, b| a.1.tps.total_cmp(&b.1.tps));
    let (Some(first), Some(last)) = (windows.first(), windows.last()) else { return };
    (row.tps_min, row.tps_max) = (first.1.tps, last.1.tps);
    let (noise, window) = windows.swap_remove((windows.len() - 1) / 2);
    window.fill(row);
    row.noise = noise;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_repetition_is_reported_with_its_spread() {
        let window = |tps: f64| (tps / 1000.0, Window { tps, seconds: 1.0, ..Window::default() });
        let mut row = ResultRow::default();
        fill(&mut row, vec![window(30.0), window(10.0), window(20.0)]);
        assert_eq!((row.tps_min, row.tps, row.tps_max, row.noise), (10.0, 20.0, 30.0, 0.02));
        let mut row = ResultRow::default();
        fill(&mut row, vec![window(5.0)]);
        assert_eq!((row.tps_min, row.tps, row.tps_max), (5.0, 5.0, 5.0));
    }
}
