//! The threads that write an instance's log where each commit waits until its record is written:
//! `occ` under `async` (`memstore::log::flusher`).
//!
//! ```text
//!   commits --> waiting --a turn ends, a thread rests--> one write takes all --> they go on
//!                         commits came meanwhile: the thread pauses, so that more share the next
//! ```

use super::parts::Record;
use super::{Sim, Timer};
use crate::case::LogWait;
use crate::engine_loop::{LOG_PAUSE_NS, LOG_THREADS, TIMER_SLACK_NS};
use crate::outcome::Component;

impl Sim<'_> {
    /// A commit waits until its record is written.
    pub(super) fn wait_for_write(&mut self, number: usize, record: Record) {
        let w = &self.workers[number];
        let rows = match record {
            Record::Prepare(session) => self.sessions[session].wrote,
            // The rows at participants are in their prepare records.
            Record::Local(txn) | Record::Home(txn) => f64::from(self.txns[txn].request.updates()),
            Record::Commit(_) => 0.0,
        };
        let (instance, now) = (w.instance, w.clock);
        let bytes = rows * self.case.costs.log_bytes_per_row;
        let writers = &mut self.instances[instance].writers;
        writers.wait((number, record), now, bytes);
    }

    /// A turn of the worker is over: its commits are written if a thread of the log rests.
    pub(super) fn write_log(&mut self, number: usize) {
        if self.case.log_wait() == LogWait::Written {
            let (instance, now) = (self.workers[number].instance, self.workers[number].clock);
            self.begin_write(instance, now, Some(number));
        }
    }

    /// Begins a write. Where each core has a worker the thread takes the core of one: of the worker
    /// that woke it, or of one that is busy.
    fn begin_write(&mut self, instance: usize, now: f64, caller: Option<usize>) {
        let Some((thread, bytes)) = self.instances[instance].writers.begin(now) else { return };
        let ns = self.case.write_ns(bytes);
        self.set_timer(now + ns, Timer::WriteEnds { instance, thread });
        if self.workers.len() < self.case.machine.cores() {
            return;
        }
        let is_busy = |number: &usize| {
            let w = &self.workers[*number];
            w.instance == instance && w.state != super::State::Idle
        };
        if let Some(number) = caller.or_else(|| (0..self.workers.len()).find(is_busy)) {
            self.pay(number, Component::Logging, self.case.write_busy_ns(bytes));
            let clock = self.workers[number].clock;
            self.tree.set(number, clock);
        }
    }

    pub(super) fn write_ends(&mut self, instance: usize, thread: usize, now: f64) {
        let pause = self.pause_ns();
        let (written, pauses) = self.instances[instance].writers.end(thread, pause > 0.0);
        let since = self.instances[instance].writers.since(thread).max(self.window_start);
        let log = &mut self.instances[instance].log;
        log.flushes += 1;
        log.busy_ns += (now - since) / LOG_THREADS as f64;
        log.wait_ns += written.iter().map(|(_, since)| now - since).sum::<f64>();
        for ((worker, record), _) in written {
            self.make_ready(worker, super::Task::Durable(record), now);
        }
        if pauses {
            self.set_timer(now + pause, Timer::PauseEnds { instance, thread });
        } else {
            self.begin_write(instance, now, None);
        }
    }

    /// The pause of a thread after a write. Without links the workers of an instance write by
    /// themselves, and do not pause; nor does a thread after a slow write. A write that is a little
    /// slower than a quick one has a part of the pause, so that no slower write is followed sooner
    /// by the next one: a calibration could not solve for it.
    fn pause_ns(&self) -> f64 {
        let whole = (LOG_PAUSE_NS + TIMER_SLACK_NS) as f64;
        let slower = (self.case.write_ns(0.0) - LOG_PAUSE_NS as f64).max(0.0);
        if self.instances.len() > 1 { (whole - slower).max(0.0) } else { 0.0 }
    }

    pub(super) fn pause_ends(&mut self, instance: usize, thread: usize, now: f64) {
        self.instances[instance].writers.rests(thread);
        self.begin_write(instance, now, None);
    }
}
