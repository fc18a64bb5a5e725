//! A result row: one JSON object a line, one format for everything that is measured.
//!
//! Field names and units are a promise to scripts outside this repository. A field that does not apply to what was
//! measured is absent.

use probe::PerTransaction;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use workload::benchmark::Statistic;

/// What was asked for, what came out, and where.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ResultRow {
    #[serde(flatten)]
    pub settings: Settings,
    /// Committed transactions (increments of `counter`, round trips of `ipc`) a second: the median repetition.
    pub tps: f64,
    pub tps_min: f64,
    pub tps_max: f64,
    /// Counts and latencies below are the median repetition's.
    pub committed: u64,
    /// By procedure.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub committed_by_kind: BTreeMap<String, u64>,
    /// Reason -> count; `user` are rollbacks that the workload itself asks for, every other reason is a failure.
    #[serde(default)]
    pub aborted: BTreeMap<String, u64>,
    /// The `user` ones by procedure: with `committed_by_kind` the success rate of each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub user_aborted_by_kind: BTreeMap<String, u64>,
    /// Amounts that the workload reports of the requests that were carried out ("lines", "remote_lines").
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub observed: BTreeMap<String, u64>,
    /// Figures that the workload's definition prescribes or implies: each as found, the limits it should lie between, and of
    /// how many it is a share or a mean.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub workload_stats: BTreeMap<String, Statistic>,
    /// Share of transactions that touched more than one instance, 0..=1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distributed: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<LatencyUs>,
    /// Length of the measured window.
    pub seconds: f64,
    /// Whether every check of the workload held at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consistent: Option<bool>,
    /// The checks that did not hold, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_bytes_per_txn: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_per_txn: Option<f64>,
    /// `ipc`: one way, in a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_per_second: Option<f64>,
    /// Syncs of the log in the window, all instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fsyncs: Option<u64>,
    /// Table locks that transactions needed, and how often the lock manager was called to take or give one back: with
    /// inheritance few times per lock, without it twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_locks_per_txn: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_lock_calls_per_txn: Option<f64>,
    /// Table locks taken in place of many rows' in the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalations: Option<u64>,
    /// Resident memory of all instances' processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_mib: Option<f64>,
    /// Pages of the data files in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages_mib: Option<f64>,
    /// Pages read from the data files in the window, and written to them, all instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_reads: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_writes: Option<u64>,
    /// Instances that died and were started again during the run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restarts: u64,
    /// With `--kill`: instances killed, acknowledged and unanswered requests of the ledger, and the longest time that a
    /// transaction stayed in doubt after both sides were up again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kills: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_in_doubt_ms: Option<u64>,
    /// From the kill until every instance was up and connected again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_restart_ms: Option<u64>,
    /// With `--profile`: where the time went and what was counted.
    #[serde(flatten)]
    pub profile: Option<PerTransaction>,
    pub machine: MachineStamp,
    pub commit: String,
    pub version: String,
    /// Share of the window stolen by other work, 0..=1: see [`crate::noise`].
    pub noise: f64,
    /// More workers than cores.
    pub oversubscribed: bool,
}

/// As set.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Settings {
    pub workload: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub design: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub islands: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durability: Option<String>,
    /// Speculative lock inheritance: `on` or `off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sli: Option<String>,
    /// Keys read, or read:written, before a table lock replaces them; `off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalation: Option<String>,
    /// Closed-loop clients of each worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// Page memory of all instances together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<f64>,
    #[serde(flatten)]
    pub labels: Labels,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// The part of the settings that a workload knows of itself.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Labels {
    /// Per cent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multisite: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skew: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<u64>,
    /// Options that only this workload knows, each with the value in force.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// `counter`: how many counters the threads share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<String>,
    /// `counter`: what makes an increment safe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protection: Option<String>,
    /// `ipc`: how a side waits for the next message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_bytes: Option<u64>,
    /// `ipc`: whether the peers sit on the same island.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peers: Option<String>,
}

impl From<workload::Labels> for Labels {
    fn from(of: workload::Labels) -> Labels {
        Labels {
            multisite: of.multisite,
            rows: of.rows,
            op: of.op,
            skew: of.skew,
            dataset: of.dataset,
            scale: of.scale,
            options: of.options,
            ..Labels::default()
        }
    }
}

/// Microseconds. `ipc` has the median and p99 only.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LatencyUs {
    pub p50: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95: Option<f64>,
    pub p99: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p999: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
}

/// The machine, and how far apart its cores were before and after the run: a neighbour that came or went shows here.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct MachineStamp {
    pub model: String,
    /// Cores that this process may use.
    pub cores: usize,
    pub islands: usize,
    /// Median one-way core-to-core latency; absent on a single core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_before_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_after_ns: Option<f64>,
}

impl LatencyUs {
    /// `None` when nothing was recorded.
    pub fn of(latency: &probe::Latency) -> Option<LatencyUs> {
        let at = |q| latency.quantile(q) as f64 / 1000.0;
        (latency.count() > 0).then(|| LatencyUs {
            p50: at(0.5),
            p95: Some(at(0.95)),
            p99: at(0.99),
            p999: Some(at(0.999)),
            max: Some(latency.max() as f64 / 1000.0),
            mean: Some(latency.mean() / 1000.0),
        })
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl ResultRow {
    /// An empty row of this build.
    pub fn new(settings: Settings) -> ResultRow {
        ResultRow {
            settings,
            commit: crate::COMMIT.into(),
            version: crate::VERSION.into(),
            ..ResultRow::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promised_names_are_there_and_unset_fields_are_not() {
        let labels =
            Labels { multisite: Some(20.0), rows: Some(10), op: Some("read".into()), ..Labels::default() };
        let settings = Settings { workload: "micro".into(), islands: Some(2), labels, ..Settings::default() };
        let mut row = ResultRow::new(settings);
        let mut latency = probe::Latency::default();
        latency.record(1500);
        row.latency_us = LatencyUs::of(&latency);
        let profiled = ResultRow { profile: Some(PerTransaction::default()), ..row.clone() };
        let json = serde_json::to_value(&profiled).unwrap();
        for name in ["time_ns_per_txn", "critical_sections_per_txn", "latches_per_txn", "accesses_per_txn"] {
            assert!(json.get(name).is_some(), "{name} in {json}");
        }
        assert_eq!(serde_json::from_value::<ResultRow>(json).unwrap(), profiled);
        let json = serde_json::to_value(&row).unwrap();
        for name in [
            "workload",
            "islands",
            "multisite",
            "rows",
            "op",
            "tps",
            "tps_min",
            "tps_max",
            "committed",
            "aborted",
        ] {
            assert!(json.get(name).is_some(), "{name} in {json}");
        }
        for name in ["seconds", "machine", "commit", "version", "noise", "oversubscribed"] {
            assert!(json.get(name).is_some(), "{name} in {json}");
        }
        assert!(json.get("skew").is_none() && json.get("kills").is_none() && json.get("restarts").is_none());
        assert!(json["latency_us"].get("p999").is_some());
        assert_eq!(serde_json::from_value::<ResultRow>(json).unwrap(), row);
    }
}
