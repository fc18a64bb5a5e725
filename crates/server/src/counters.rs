//! What the server counts.

use sql::SqlState;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Totals since the server's start.
#[derive(Default, Debug)]
pub struct Counters {
    pub connections: AtomicU64,
    pub refused: AtomicU64,
    pub statements: AtomicU64,
    pub commits: AtomicU64,
    pub rollbacks: AtomicU64,
    pub errors: AtomicU64,
    pub retries: AtomicU64,
    /// From the moment at which a session begins a statement until its result is there.
    pub latency: Latency,
    /// Errors by their codes. An error is rare and long, so a mutex does not matter.
    states: Mutex<BTreeMap<[u8; 5], u64>>,
}

/// A histogram of times. Bucket `i` has those below `16 us << i`, the last one all others.
#[derive(Default, Debug)]
pub struct Latency {
    counts: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

/// From 16 us to 8.6 minutes.
const BUCKETS: usize = 26;
const LEAST_US: u64 = 16;

impl Latency {
    pub fn add(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = (us / LEAST_US).checked_ilog2().map_or(0, |log| log as usize + 1).min(BUCKETS - 1);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// The upper bound of each bucket but the last, in microseconds.
    pub fn bounds_us() -> Vec<u64> {
        (0..BUCKETS - 1).map(|bucket| LEAST_US << bucket).collect()
    }

    pub fn counts(&self) -> Vec<u64> {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

impl Counters {
    pub fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an error that a client gets.
    pub fn error(&self, state: SqlState) {
        Counters::add(&self.errors);
        *self.states.lock().unwrap_or_else(PoisonError::into_inner).entry(state.0).or_default() += 1;
    }

    /// Errors by their codes.
    pub fn states(&self) -> Vec<(SqlState, u64)> {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.iter().map(|(state, count)| (SqlState(*state), *count)).collect()
    }

    /// Names, explanations and values of the plain counts.
    pub fn totals(&self) -> [(&'static str, &'static str, u64); 7] {
        [
            ("connections", "Clients that connected.", &self.connections),
            ("connections_refused", "Clients that were refused.", &self.refused),
            ("statements", "Statements of clients.", &self.statements),
            ("commits", "Transactions that committed.", &self.commits),
            ("rollbacks", "Transactions that were rolled back.", &self.rollbacks),
            ("errors", "Errors that clients got.", &self.errors),
            ("retries", "Statements run again after a conflict.", &self.retries),
        ]
        .map(|(name, help, counter)| (name, help, counter.load(Ordering::Relaxed)))
    }

    /// In the text format of Prometheus.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (name, help, value) in self.totals() {
            text += &format!(
                "# HELP atoll_{name}_total {help}\n# TYPE atoll_{name}_total counter\natoll_{name}_total {value}\n"
            );
        }
        text += "# HELP atoll_sqlstate_total Errors that clients got, by their codes.\n";
        text += "# TYPE atoll_sqlstate_total counter\n";
        for (state, count) in self.states() {
            text += &format!("atoll_sqlstate_total{{state=\"{}\"}} {count}\n", state.as_str());
        }
        text += "# HELP atoll_statement_seconds Times of statements.\n";
        text += "# TYPE atoll_statement_seconds histogram\n";
        let mut below = 0;
        let bounds = Latency::bounds_us().into_iter().map(|us| (us as f64 / 1e6).to_string());
        for (bound, count) in bounds.chain(["+Inf".into()]).zip(self.latency.counts()) {
            below += count;
            text += &format!("atoll_statement_seconds_bucket{{le=\"{bound}\"}} {below}\n");
        }
        let sum = self.latency.sum_us.load(Ordering::Relaxed) as f64 / 1e6;
        text + &format!("atoll_statement_seconds_sum {sum}\natoll_statement_seconds_count {below}\n")
    }
}

/// The present activity of a session, for the status page.
#[derive(Debug)]
pub struct Activity {
    connected: Instant,
    /// Microseconds from `connected` to the begin of the statement, plus 1; 0 between statements.
    began_us: AtomicU64,
}

impl Default for Activity {
    fn default() -> Activity {
        Activity { connected: Instant::now(), began_us: AtomicU64::new(0) }
    }
}

impl Activity {
    /// How long the statement under way has run.
    pub fn runs_for(&self) -> Option<Duration> {
        let began = self.began_us.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.connected.elapsed().saturating_sub(Duration::from_micros(began)))
    }
}

/// A statement under way; it ends when this value is dropped.
pub struct Timed {
    activity: Arc<Activity>,
    began: Instant,
}

impl Timed {
    pub fn begin(activity: &Arc<Activity>) -> Timed {
        let began = Instant::now();
        let us = began.duration_since(activity.connected).as_micros() as u64;
        activity.began_us.store(us + 1, Ordering::Relaxed);
        Timed { activity: Arc::clone(activity), began }
    }

    /// The time from the begin.
    pub fn time(&self) -> Duration {
        self.began.elapsed()
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        self.activity.began_us.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_buckets_by_their_bounds() {
        let latency = Latency::default();
        let bounds = Latency::bounds_us();
        for us in [0, 15, 16, 31, 32, u64::MAX] {
            latency.add(Duration::from_micros(us));
        }
        let counts = latency.counts();
        assert_eq!((counts.len(), counts[0], counts[1], counts[2]), (bounds.len() + 1, 2, 2, 1));
        assert_eq!((bounds[0], counts[BUCKETS - 1]), (16, 1));
    }

    #[test]
    fn a_statement_runs_until_its_value_is_dropped() {
        let activity = Arc::new(Activity::default());
        assert_eq!(activity.runs_for(), None);
        let timed = Timed::begin(&activity);
        assert!(activity.runs_for().is_some());
        drop(timed);
        assert_eq!(activity.runs_for(), None);
    }

    #[test]
    fn the_text_has_a_line_for_each_count() {
        let counters = Counters::default();
        counters.error(SqlState::DIVISION_BY_ZERO);
        counters.latency.add(Duration::from_micros(20));
        let text = counters.text();
        for line in [
            "atoll_errors_total 1",
            "atoll_sqlstate_total{state=\"22012\"} 1",
            "atoll_statement_seconds_bucket{le=\"0.000016\"} 0",
            "atoll_statement_seconds_bucket{le=\"0.000032\"} 1",
            "atoll_statement_seconds_count 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }
}
