//! One deployment in use: loaded once, then measured with as many request mixes as are wanted.
//!
//! ```text
//!   open: launch, load
//!   run:  reconfigure, drive, warm-up | window | window | window |, halt, audit, judge  -> one row
//!   run:  ...
//!   close: stop
//! ```

use crate::noise::Moment;
use crate::row::{Labels, MachineStamp, ResultRow, Settings};
use crate::window::Window;
use deploy::{DeployError, Deployment, Host, Hosted, Running};
use std::time::{Duration, Instant};
use txn::Verdict;

/// A workload that can be measured.
pub trait Driven: Hosted {
    /// Its own part of a row's settings.
    fn labels(&self) -> Labels;

    /// What the consistency check counts for one committed transaction: 1, or the rows it updated.
    fn effects_per_txn(&self) -> u64 {
        1
    }

    /// Judges the audits against everything committed since loading, in the unit of [`Driven::effects_per_txn`], over all
    /// request mixes that ran; `None` when it is not known (an instance died and took its counts along).
    fn judge_effects(&self, audits: Vec<Self::Audit>, effects: Option<u64>) -> Verdict {
        self.judge(audits, effects)
    }
}

/// How to measure.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub warmup: Duration,
    pub duration: Duration,
    /// Measured windows; the median is reported.
    pub repeat: u32,
    pub clients_per_worker: u32,
    pub seed: u64,
}

/// Told how far things are; all of it is for people.
pub trait Watcher {
    /// `share` of the current phase, 0..=1.
    fn progress(&mut self, phase: &str, share: f64);
    fn warn(&mut self, text: &str);
}

/// How far apart the cores are now, in nanoseconds; `None` on a single core.
pub type Ping<'a> = &'a dyn Fn() -> Option<f64>;

pub struct Session<W: Driven> {
    running: Running<W>,
    /// Effects committed since loading.
    effects: Option<u64>,
    stamp: MachineStamp,
    placement: String,
}

impl<W: Driven> Session<W> {
    /// Launches and loads. `stamp` without its latencies; `placement` as the row names it.
    pub fn open(
        deployment: Deployment<W>,
        stamp: MachineStamp,
        placement: &str,
        watcher: &mut dyn Watcher,
    ) -> Result<Session<W>, DeployError> {
        let mut running = deployment.launch()?;
        let effects = running.effects_before();
        running.load(&mut |done, total| watcher.progress("loading", done as f64 / total.max(1) as f64))?;
        Ok(Session { running, effects, stamp, placement: placement.into() })
    }

    pub fn running(&mut self) -> &mut Running<W> {
        &mut self.running
    }

    pub(crate) fn settings(&self, schedule: &Schedule) -> Settings {
        let d = self.running.deployment();
        Settings {
            workload: W::FAMILY.into(),
            design: Some(d.design.to_string()),
            islands: Some(d.islands),
            workers: Some(d.workers),
            placement: Some(self.placement.clone()),
            host: Some(if d.host == Host::Process { "process" } else { "thread" }.into()),
            channel: Some(d.channel.name().into()),
            durability: Some(d.durability.to_string()),
            clients: Some(schedule.clients_per_worker),
            labels: d.workload.labels(),
            load_model: Some("closed".into()),
            seed: Some(schedule.seed),
        }
    }

    /// Measures one request mix over the data.
    pub fn run(
        &mut self,
        workload: &W,
        schedule: &Schedule,
        ping: Ping<'_>,
        watcher: &mut dyn Watcher,
    ) -> Result<ResultRow, DeployError> {
        let mut row = self.begin_row(workload, schedule, ping)?;
        let restarts = self.running.restarts();
        self.running.drive(schedule.clients_per_worker, schedule.seed)?;
        self.wait(schedule.warmup, "warming up", watcher)?;
        let mut last = self.measure(workload)?;
        let mut windows = Vec::new();
        let mut moment = self.moment(&last);
        for i in 0..schedule.repeat {
            let phase = format!("measuring {}/{}", i + 1, schedule.repeat);
            self.wait(schedule.duration, &phase, watcher)?;
            last = self.measure(workload)?;
            let end = self.moment(&last);
            windows.push((last, moment.noise_until(&end)));
            moment = end;
        }
        self.finish(workload, restarts, &mut row, watcher)?;
        fill(&mut row, windows);
        row.machine.latency_after_ns = ping();
        Ok(row)
    }

    pub(crate) fn begin_row(
        &mut self,
        workload: &W,
        schedule: &Schedule,
        ping: Ping<'_>,
    ) -> Result<ResultRow, DeployError> {
        self.running.reconfigure(workload.clone())?;
        let mut row = ResultRow::new(self.settings(schedule));
        row.machine = MachineStamp { latency_before_ns: ping(), ..self.stamp.clone() };
        row.oversubscribed = self.running.deployment().workers > self.stamp.cores;
        Ok(row)
    }

    /// Stops the clients, counts what is left and lets the workload judge its data.
    fn finish(
        &mut self,
        workload: &W,
        restarts: u64,
        row: &mut ResultRow,
        watcher: &mut dyn Watcher,
    ) -> Result<(), DeployError> {
        watcher.progress("checking", 0.0);
        self.running.halt()?;
        self.measure(workload)?;
        row.restarts = self.running.restarts() - restarts;
        if row.restarts > 0 {
            self.effects = None;
            watcher.warn(&format!("{} instances died and were started again during this row", row.restarts));
        }
        let audits = self.running.audit()?;
        let verdict = workload.judge_effects(audits, self.effects);
        row.consistent = Some(verdict.holds());
        row.violations = verdict.violations;
        Ok(())
    }

    /// Takes a window and adds it to what the consistency check will count.
    fn measure(&mut self, workload: &W) -> Result<Window, DeployError> {
        let window = Window::of(&self.running.measure()?);
        if let Some(effects) = &mut self.effects {
            *effects += window.committed * workload.effects_per_txn();
        }
        Ok(window)
    }

    fn moment(&self, window: &Window) -> Moment {
        let parent = match self.running.deployment().host {
            Host::Process => deploy::cpu_ns(),
            Host::Thread => 0, // counted with the instances
        };
        Moment::now(window.cpu_ns + parent)
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
            watcher.progress(phase, start.elapsed().as_secs_f64() / time.as_secs_f64());
        }
    }

    pub(crate) fn forget_effects(&mut self) {
        self.effects = None;
    }

    /// Stops everything in order.
    pub fn close(self) -> Result<(), DeployError> {
        self.running.stop(self.effects)
    }
}

/// The median window by throughput; of an even number the lower of the two in the middle.
fn fill(row: &mut ResultRow, mut windows: Vec<(Window, f64)>) {
    windows.sort_by(|a, b| a.0.tps.total_cmp(&b.0.tps));
    let (Some(first), Some(last)) = (windows.first(), windows.last()) else { return };
    (row.tps_min, row.tps_max) = (first.0.tps, last.0.tps);
    let (window, noise) = windows.swap_remove((windows.len() - 1) / 2);
    fill_one(row, &window, noise);
}

/// Everything a row takes from one window.
pub(crate) fn fill_one(row: &mut ResultRow, window: &Window, noise: f64) {
    row.tps = window.tps;
    row.committed = window.committed;
    row.committed_by_kind = window.by_kind.clone();
    row.aborted = window.aborted.clone();
    row.distributed = Some(window.per_txn(window.distributed));
    row.latency_us = window.latency_us();
    row.seconds = window.seconds;
    row.log_bytes_per_txn = Some(window.per_txn(window.log_bytes));
    row.messages_per_txn = Some(window.per_txn(window.messages));
    row.fsyncs = Some(window.fsyncs);
    row.rss_mib = Some(window.rss_bytes as f64 / f64::from(1 << 20));
    row.noise = noise;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_repetition_is_reported_with_its_spread() {
        let window =
            |tps| (Window { tps, committed: tps as u64, seconds: 1.0, ..Window::default() }, tps / 1000.0);
        let mut row = ResultRow::default();
        fill(&mut row, vec![window(30.0), window(10.0), window(20.0)]);
        assert_eq!((row.tps_min, row.tps, row.tps_max), (10.0, 20.0, 30.0));
        assert_eq!((row.committed, row.noise), (20, 0.02));
        let mut row = ResultRow::default();
        fill(&mut row, vec![window(5.0)]);
        assert_eq!((row.tps_min, row.tps, row.tps_max), (5.0, 5.0, 5.0));
    }
}
