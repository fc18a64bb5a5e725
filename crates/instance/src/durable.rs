//! Waits for the log: until it is durable, or on the device, up to some position.
//!
//! ```text
//!   task: commit record appended --> durable / stable: the task waits, counted in LogWaits
//!   worker, once a round: flush_log --> flushes itself if all its tasks wait for the log and
//!                                       nothing could bring another one;
//!                                       otherwise asks the log's thread
//! ```

use crate::local::Local;
use base::Lsn;
use exec::{Engine, Maintenance};
use probe::Round;
use txn::{Abort, Workload};
use wal::{Durability, FlushBy};

impl<W: Workload, E: Engine> Local<W, E> {
    /// Waits until the log up to `lsn` is as safe as the durability mode promises.
    /// [`Local::flush_log`] causes the flush. The future must be awaited to its end, since it
    /// counts the waiting tasks.
    pub async fn durable(&self, lsn: Lsn) -> Result<(), Abort> {
        let engine = &self.shared.engine;
        if let Some(known) = engine.durable_now(lsn) {
            return known;
        }
        let durable = engine.durable(&self.ctx, lsn, self.enter_log()).await;
        self.log_waits.tasks.set(self.log_waits.tasks.get() - 1);
        durable
    }

    /// Waits until the device has the log up to `lsn`, in asynchronous mode too: another instance
    /// is about to rely on it. A power cut leaves each instance a different end of its log, so
    /// anything that one instance has told another must be on the device.
    pub async fn stable(&self, lsn: Lsn) -> Result<(), Abort> {
        if self.spares_device() {
            return self.durable(lsn).await;
        }
        let engine = &self.shared.engine;
        let stable = engine.stable(&self.ctx, lsn, self.enter_log()).await;
        self.log_waits.tasks.set(self.log_waits.tasks.get() - 1);
        stable
    }

    /// Whether the device has the log up to `lsn`, as far as [`Local::stable`] would wait for it.
    pub fn is_stable(&self, lsn: Lsn) -> bool {
        let engine = &self.shared.engine;
        match self.spares_device() {
            true => engine.durable_now(lsn).is_some_and(|known| known.is_ok()),
            false => engine.is_stable(lsn),
        }
    }

    /// Asynchronous mode over data that does not survive a power cut anyway.
    fn spares_device(&self) -> bool {
        let config = &self.shared.config;
        config.durability == Durability::Async && !config.outlives_power_cuts
    }

    /// A task is about to wait for the log. Returns which thread is to flush it.
    fn enter_log(&self) -> FlushBy {
        self.log_waits.tasks.set(self.log_waits.tasks.get() + 1);
        self.log_waits.unflushed.set(true);
        let others = self.executor.tasks().saturating_sub(self.log_waits.tasks.get());
        self.shared.engine.flush_by(others)
    }
}

impl<W: Workload, E: Maintenance> Local<W, E> {
    /// Has the log flushed for the tasks that wait for it. The worker flushes on its own thread
    /// when two conditions hold: all its tasks wait for the log, so none could run meanwhile; and
    /// no link and no other worker can bring it new work.
    pub fn flush_log(&self) {
        if !self.log_waits.unflushed.replace(false) {
            return;
        }
        let unknown = self.links.is_empty() && (!E::OWNERS || self.is_all_here());
        if self.log_waits.tasks.get() == self.executor.tasks() && unknown {
            probe::round(Round::Worked);
            self.shared.engine.flush_log_here();
            probe::round(Round::Idle);
        } else {
            self.shared.engine.flush_log();
        }
    }
}
