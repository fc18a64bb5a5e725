//! The measurements of all instances in one window.

use crate::row::{LatencyUs, RepetitionRow, ResultRow, SecondRow, histogram};
use deploy::Host;
use probe::{Measured, PerTransaction};
use std::collections::BTreeMap;

/// Sums over the instances of a deployment.
#[derive(Clone, Debug, Default)]
pub struct Window {
    pub all: Measured,
    pub tps: f64,
    pub seconds: f64,
}

impl Window {
    /// Sums the measurements of all instances.
    pub fn of(instances: &[Measured], host: Host) -> Window {
        let mut all = Measured::default();
        instances.iter().for_each(|m| all.merge(m));
        if host == Host::Thread {
            // Every instance reports the one process that they share.
            let first = instances.iter().max_by_key(|m| m.cpu_ns);
            all.cpu_ns = first.map_or(0, |m| m.cpu_ns);
            all.rss_bytes = first.map_or(0, |m| m.rss_bytes);
            all.involuntary_switches = first.map_or(0, |m| m.involuntary_switches);
        }
        let rate = |m: &Measured| m.committed_total() as f64 / (m.window_ns.max(1) as f64 / 1e9);
        let tps = instances.iter().map(rate).sum();
        Window { tps, seconds: all.window_ns as f64 / 1e9, all }
    }

    /// The window second by second; it began at `from`.
    pub(crate) fn series(&self, from: f64) -> Vec<SecondRow> {
        let row = |(i, second): (usize, &probe::Second)| SecondRow {
            at: from + i as f64,
            tps: second.committed as f64 / (second.length_ns.max(1) as f64 / 1e9),
            committed: second.committed,
            aborted: second.aborted,
            p50_us: second.quantile(0.5) as f64 / 1000.0,
            p99_us: second.quantile(0.99) as f64 / 1000.0,
        };
        self.all.series.iter().enumerate().map(row).collect()
    }

    /// The throughput of each second that is long enough to have one.
    pub(crate) fn seconds_tps(&self) -> impl Iterator<Item = f64> {
        let long = self.all.series.iter().filter(|s| s.length_ns >= probe::series::SECOND_NS / 2);
        long.map(|s| s.committed as f64 / (s.length_ns as f64 / 1e9))
    }

    /// Completions of one kind a minute, those rolled back on request included.
    pub(crate) fn per_minute(&self, kind: &str) -> f64 {
        let of = |counts: &std::collections::BTreeMap<String, u64>| counts.get(kind).copied().unwrap_or(0);
        (of(&self.all.committed) + of(&self.all.user_aborted)) as f64 * 60.0 / self.seconds.max(1e-9)
    }

    /// The summary of this window for a row that reports another window.
    pub(crate) fn repetition(&self, noise: f64) -> RepetitionRow {
        RepetitionRow { tps: self.tps, noise, latency_us: LatencyUs::of(&self.all.latency) }
    }

    fn per_txn(&self, count: u64) -> f64 {
        count as f64 / self.all.committed_total().max(1) as f64
    }

    /// Requests that were carried out, by kind: committed, or rolled back because the workload
    /// asked for it.
    fn ended(&self) -> BTreeMap<String, u64> {
        let mut ended = self.all.committed.clone();
        self.all.user_aborted.iter().for_each(|(kind, n)| *ended.entry(kind.clone()).or_default() += n);
        ended
    }

    /// Fills in all fields of a row that come from one window.
    pub(crate) fn fill(&self, row: &mut ResultRow) {
        row.tps = self.tps;
        row.committed = self.all.committed_total();
        row.committed_by_kind = self.all.committed.clone();
        row.aborted =
            self.all.aborted.iter().filter(|(_, n)| **n > 0).map(|(why, n)| (why.clone(), *n)).collect();
        row.user_aborted_by_kind = self.all.user_aborted.clone();
        row.aborted_by_kind = self.all.aborted_by_kind.clone();
        row.observed = self.all.observed.clone();
        row.distributed = Some(self.per_txn(self.all.distributed));
        row.latency_us = LatencyUs::of(&self.all.latency);
        let by_kind = self.all.latency_by_kind.iter();
        row.latency_us_by_kind =
            by_kind.filter_map(|(kind, l)| Some((kind.clone(), LatencyUs::of(l)?))).collect();
        row.latency_histogram = histogram(&self.all.latency);
        row.retries = Some(self.all.retries);
        row.given_up = Some(self.all.given_up);
        if let Some(offered) = &self.all.offered {
            row.offered_tps = Some(offered.requests as f64 / self.seconds.max(1e-9));
            row.refused = Some(offered.refused);
            row.backlog = Some(offered.backlog);
        }
        row.involuntary_switches = Some(self.all.involuntary_switches as f64 / self.seconds.max(1e-9));
        row.seconds = self.seconds;
        row.log_bytes_per_txn = Some(self.per_txn(self.all.log.bytes));
        row.messages_per_txn = Some(self.per_txn(self.all.messages));
        row.profile = self.all.profile.as_ref().map(|p| PerTransaction {
            accesses_by_kind: p.accesses_by_kind(&self.ended()),
            ..p.per_transaction(row.committed)
        });
        row.fsyncs = Some(self.all.log.fsyncs);
        let locks = &self.all.locks;
        row.table_locks_per_txn = Some(self.per_txn(locks.table_requests));
        row.table_lock_calls_per_txn = Some(self.per_txn(locks.table_calls));
        row.escalations = Some(locks.escalations);
        let waits = self.all.lock_waits.iter().filter(|(_, n)| **n > 0);
        row.lock_waits_per_txn = waits.map(|(table, n)| (table.clone(), self.per_txn(*n))).collect();
        row.rss_mib = Some(self.all.rss_bytes as f64 / f64::from(1 << 20));
        row.page_reads = Some(self.all.page_reads);
        row.page_writes = Some(self.all.page_writes);
        row.pages_mib = Some(self.all.pages as f64 * 8192.0 / f64::from(1 << 20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seconds_of_a_window_add_up_to_it() {
        let worker = |n: u64, start: u64| {
            let mut series = probe::Series::new(start);
            for i in 0..n {
                series.committed(start + i * 2_500_000_000 / n);
                series.latency(1000 + i);
            }
            series.aborted(start + 2_400_000_000);
            Measured {
                window_ns: 2_500_000_000,
                committed: [("x".to_string(), n)].into(),
                aborted: [("deadlock".to_string(), 1)].into(),
                series: series.take(start + 2_500_000_000),
                ..Measured::default()
            }
        };
        let window = Window::of(&[worker(5_000, 17), worker(2_500, 99_999)], Host::Process);
        let series = window.series(10.0);
        assert_eq!(series.iter().map(|s| s.at).collect::<Vec<_>>(), [10.0, 11.0, 12.0]);
        assert_eq!(series.iter().map(|s| s.committed).sum::<u64>(), window.all.committed_total());
        assert_eq!(series.iter().map(|s| s.aborted).sum::<u64>(), window.all.aborted.values().sum::<u64>());
        assert!(series.iter().all(|s| (s.tps - 3_000.0).abs() < 5.0 && s.p99_us >= s.p50_us), "{series:?}");
    }

    #[test]
    fn rates_add_up_and_a_shared_process_counts_once() {
        let instance = |n: u64, rss| Measured {
            window_ns: 2_000_000_000,
            committed: [("x".to_string(), n)].into(),
            rss_bytes: rss,
            cpu_ns: 5,
            ..Measured::default()
        };
        let both = [instance(100, 1 << 20), instance(300, 1 << 20)];
        let (threads, processes) = (Window::of(&both, Host::Thread), Window::of(&both, Host::Process));
        assert_eq!((threads.tps, threads.seconds), (200.0, 2.0));
        assert_eq!((threads.all.rss_bytes, processes.all.rss_bytes), (1 << 20, 2 << 20));
        assert_eq!((threads.all.cpu_ns, processes.all.cpu_ns), (5, 10));
    }
}
