//! The outcome of a simulation.

use super::Sim;
use super::parts::State;
use crate::case::LogWait;
use crate::deployment::Clients;
use crate::outcome::{Component, Limit, Outcome, Station, WorkerTime};

/// A resource that serves for more than this share of the window limits the throughput.
const BUSY: f64 = 0.85;
/// An instance limits the others if it is busy and one of them is below this share.
const LAZY: f64 = 0.7;

impl Sim<'_> {
    pub(super) fn outcome(&mut self, now: f64, is_complete: bool) -> Outcome {
        debug_assert_eq!(self.locks.owed(), self.locks_known(), "a lock is lost, or given back twice");
        let window_ns = (now - self.window_start).max(1.0);
        for number in 0..self.workers.len() {
            self.settle(number, now);
        }
        let workers: Vec<WorkerTime> = self
            .workers
            .iter()
            .map(|w| WorkerTime {
                core: w.core,
                instance: w.instance,
                busy_ns: w.busy,
                idle_ns: w.idle,
                parked_ns: w.parked,
            })
            .collect();
        let stations = self.stations(now, window_ns);
        let mean_in_flight = self.counts.mean_in_flight(now);
        let limit = match self.locks.hottest() {
            // Nothing goes on, so each transaction waits for another one's lock.
            Some(lock) if !is_complete && self.locks.waiting() > 0 => {
                Limit::RowLocks { hottest_key: self.locks.key(lock) }
            }
            _ => self.limit(&workers, &stations, mean_in_flight, window_ns),
        };
        let on_the_way: usize =
            self.workers.iter().map(|w| w.links.iter().map(|l| l.len()).sum::<usize>()).sum();
        Outcome {
            tps: self.counts.committed as f64 * 1e9 / window_ns,
            committed: self.counts.committed,
            distributed: self.counts.distributed,
            participants: self.counts.participants,
            aborts: self.counts.aborts,
            window_ns,
            latency: self.counts.latency.latencies(),
            mean_in_flight,
            components: self.counts.components,
            workers,
            messages: self.counts.sent,
            received: self.counts.received,
            on_the_way: on_the_way as u64 + self.workers.iter().map(|w| w.out.len() as u64).sum::<u64>(),
            lock_waits: self.counts.lock_waits,
            lock_wait_ns: self.counts.lock_wait_ns,
            flushes: self.instances.iter().map(|i| i.log.flushes).sum(),
            stations,
            limit,
            is_complete,
            steps: self.steps,
        }
    }

    /// Locks that transactions and sessions hold or wait for.
    fn locks_known(&self) -> usize {
        let txns: usize = self.txns.values().iter().map(|txn| txn.held.len()).sum();
        txns + self.sessions.values().iter().map(|session| session.held.len()).sum::<usize>()
    }

    /// An idle worker is idle until the end.
    fn settle(&mut self, number: usize, now: f64) {
        let spin_ns = self.case.profile.worker_loop.spin_ns;
        let w = &mut self.workers[number];
        if w.state == State::Idle && w.clock < now {
            let parked_from = (w.idle_since + spin_ns).max(w.clock);
            w.idle += now - w.clock;
            w.parked += (now - parked_from).max(0.0);
            w.clock = now;
        }
    }

    fn stations(&self, now: f64, window_ns: f64) -> Vec<Station> {
        let mut stations = Vec::new();
        for (number, instance) in self.instances.iter().enumerate() {
            for (line, station) in instance.lines.iter().enumerate().filter(|(_, line)| line.visits > 0) {
                stations.push(Station {
                    instance: number,
                    line: Some(line),
                    utilisation: station.busy_until(now) / window_ns,
                    visits: station.visits,
                    mean_wait_ns: station.wait_ns / station.visits as f64,
                });
            }
            if instance.log.flushes > 0 {
                stations.push(Station {
                    instance: number,
                    line: None,
                    utilisation: instance.log.busy_until(now) / window_ns,
                    visits: instance.log.flushes,
                    mean_wait_ns: instance.log.wait_ns / instance.log.flushes as f64,
                });
            }
        }
        stations
    }

    fn limit(&self, workers: &[WorkerTime], stations: &[Station], in_flight: f64, window_ns: f64) -> Limit {
        let busiest = stations.iter().max_by(|a, b| a.utilisation.total_cmp(&b.utilisation));
        if let Some(&Station { instance, line: Some(line), utilisation, .. }) = busiest
            && utilisation > BUSY
        {
            return Limit::HotLine { instance, line };
        }
        let shares: Vec<f64> = (0..self.instances.len())
            .map(|instance| {
                let own = || workers.iter().filter(|w| w.instance == instance);
                own().map(|w| w.busy_ns / window_ns).sum::<f64>() / own().count() as f64
            })
            .collect();
        let (most, least) = shares.iter().fold((0.0_f64, 1.0_f64), |(a, b), s| (a.max(*s), b.min(*s)));
        if most > BUSY && least < LAZY {
            return Limit::Instance(shares.iter().position(|s| *s == most).unwrap_or(0));
        }
        if most > BUSY {
            let components = &self.counts.components;
            let largest = (0..components.len()).max_by(|a, b| components[*a].total_cmp(&components[*b]));
            return Limit::Workers(largest.map_or(Component::Work, |at| Component::ALL[at]));
        }
        if let Clients::Open(rate) = self.case.deployment.clients
            && self.counts.committed as f64 * 1e9 / window_ns > 0.95 * rate
        {
            return Limit::Load;
        }
        if self.counts.lock_wait_ns > 0.5 * in_flight * window_ns
            && let Some(hottest) = self.locks.hottest()
        {
            return Limit::RowLocks { hottest_key: self.locks.key(hottest) };
        }
        match busiest {
            Some(station) if self.case.log_wait() != LogWait::None => {
                Limit::Log { instance: station.instance }
            }
            _ => Limit::Messages,
        }
    }
}
