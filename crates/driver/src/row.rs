//! A result row: one JSON object a line, one format for everything that is measured.
//!
//! Scripts outside this repository rely on field names and units. A field that does not apply to
//! the measurement is absent.

use crate::engine_columns::EngineColumns;
use crate::stamp;
use probe::{PerTransaction, Rebalanced};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use workload::benchmark::Statistic;

/// The settings, the results, and the machine.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ResultRow {
    #[serde(flatten)]
    pub settings: Settings,
    /// Committed transactions (increments of `counter`, round trips of `ipc`) a second: the median
    /// repetition.
    pub tps: f64,
    pub tps_min: f64,
    pub tps_max: f64,
    /// Counts and latencies below are of the median repetition.
    pub committed: u64,
    /// By procedure.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub committed_by_kind: BTreeMap<String, u64>,
    /// Reason -> count; `user` are rollbacks that the workload itself asks for, every other reason
    /// is a failure.
    #[serde(default)]
    pub aborted: BTreeMap<String, u64>,
    /// The `user` ones by procedure: with `committed_by_kind` the success rate of each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub user_aborted_by_kind: BTreeMap<String, u64>,
    /// `aborted` by procedure: procedure -> reason -> count.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub aborted_by_kind: BTreeMap<String, BTreeMap<String, u64>>,
    /// Amounts that the workload reports of the requests that were carried out ("lines",
    /// "remote_lines").
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub observed: BTreeMap<String, u64>,
    /// Figures that the workload's definition prescribes or implies. Each has the measured value,
    /// the limits between which it should lie, and the number of which it is a share or a mean.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub workload_stats: BTreeMap<String, Statistic>,
    /// Share of transactions that touched more than one instance, 0..=1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distributed: Option<f64>,
    /// Of committed transactions: with a closed loop from the end of the client's previous request,
    /// else from the moment at which the request was due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<LatencyUs>,
    /// The same by procedure.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub latency_us_by_kind: BTreeMap<String, LatencyUs>,
    /// The same as a histogram: (upper end in µs, count), from the first non-empty step to the
    /// last; eight steps a decade.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency_histogram: Vec<(f64, u64)>,
    /// The window second by second; the counts add up to those of the window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<SecondRow>,
    /// Decisions to divide keys differently among the workers that own them, over all windows and
    /// the time before the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rebalances: Vec<RebalanceRow>,
    /// The same added up, from the first change of the load on where there are `phases`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebalanced: Option<RebalancedRow>,
    /// With `phases`: throughput around the first change of the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift: Option<ShiftRow>,
    /// Whether throughput had settled over all windows (see [`crate::steady`]); absent where they
    /// are too short to tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steady: Option<bool>,
    /// Every window in the order of time; `tps_min` and `tps_max` are the least and the greatest of
    /// them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repetitions: Vec<RepetitionRow>,
    /// The reported window, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u32>,
    /// Load before the first window, in seconds; with `--warmup auto` until it was steady.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup_s: Option<f64>,
    /// With an open loop or terminals: requests a second that became due; requests of the window
    /// that were refused because too many were waiting; and requests waiting at its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered_tps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog: Option<u64>,
    /// Tries beyond the first, and requests that were given up after `retry_limit` tries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_up: Option<u64>,
    /// TPC-C's NewOrders a minute, rolled-back ones included, of the standard mix. With terminals
    /// also the maximum for that many terminals with these pauses (12.86 for the ten of a
    /// warehouse). Without their pauses it is no tpmC by the standard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpmc: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpmc_ceiling: Option<f64>,
    /// Length of the measured window.
    pub seconds: f64,
    /// The run was interrupted within the windows of this row. The row holds the measurements until
    /// then, and the data was not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<bool>,
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
    /// Table locks that transactions needed, and calls of the lock manager to take or release one.
    /// With inheritance there are few calls per lock, without it two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_locks_per_txn: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_lock_calls_per_txn: Option<f64>,
    /// Table locks taken in place of many row locks in the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalations: Option<u64>,
    /// Waits for locks by the name of the table; only tables that were waited for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lock_waits_per_txn: BTreeMap<String, f64>,
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
    /// With `--kill`: instances killed, acknowledged and unanswered requests of the ledger, and the
    /// longest time that a transaction stayed in doubt after both sides were up again.
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
    /// With `--profile`: time by component, and counts.
    #[serde(flatten)]
    pub profile: Option<PerTransaction>,
    pub machine: MachineStamp,
    pub commit: String,
    pub version: String,
    /// The start of the measurement, in UTC: `2026-11-24T11:53:43Z`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub date: String,
    /// The command line that measured it, quoted for a shell.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// Name and kernel release of the machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kernel: String,
    /// Share of the window stolen by other work, 0..=1: see [`crate::noise`].
    pub noise: f64,
    /// How often a second the system took a core from a thread of the instances that could have
    /// continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub involuntary_switches: Option<f64>,
    /// More workers than cores.
    pub oversubscribed: bool,
}

/// The options of the run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Settings {
    pub workload: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub design: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub islands: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
    /// The number of machines; absent: one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durability: Option<String>,
    /// The options of the engine that make a difference to the design.
    #[serde(flatten)]
    pub engine: EngineColumns,
    /// Per worker: closed-loop clients, or the largest number of requests under way at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// Page memory of all instances together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<f64>,
    /// All of it was taken from the system before the instances were ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub populated: Option<bool>,
    #[serde(flatten)]
    pub labels: Labels,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_model: Option<String>,
    /// Open loop: requests a second of the whole deployment, as typed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminals: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<String>,
    /// Tries after the first one; absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_limit: Option<u32>,
    /// The first pause before a retry is drawn up to this; absent: no pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_us: Option<f64>,
    /// The script of changes of the load: `10s hot 50/30, 20s hot off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phases: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// The part of the settings that a workload reports about itself.
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
    /// Per cent of requests / per cent of keys @ where they begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hot: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<u64>,
    /// Options that only this workload has, each with the value in force.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// `counter`: how many counters the threads share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<String>,
    /// `counter`: the protection of an increment.
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
            hot: of.hot,
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

/// The summary of one window. Latencies are absent where nothing committed.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RepetitionRow {
    pub tps: f64,
    /// As that of a row, 0..=1.
    pub noise: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<LatencyUs>,
}

/// One second of a window.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SecondRow {
    /// When it began, in seconds since the start of the first window.
    pub at: f64,
    /// Committed transactions a second: `committed` divided by the length of the second, which is
    /// shorter at the end of a window.
    pub tps: f64,
    pub committed: u64,
    /// Tries that ended without effect, for any reason.
    pub aborted: u64,
    /// Latency, to 3 %; 0 where nothing committed.
    pub p50_us: f64,
    pub p99_us: f64,
}

/// A decision to divide keys differently, and its cost.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RebalanceRow {
    /// In seconds since the first window began; negative before it.
    pub at: f64,
    pub instance: u16,
    /// The decision with its reasons.
    pub why: String,
    /// `advised`, `done`, or why it was not carried out completely.
    pub outcome: String,
    pub splits: u64,
    pub merges: u64,
    pub moves: u64,
    /// From the decision until all changes were done.
    pub took_ms: f64,
    /// How long owners admitted no work for the changes, in total, and how many messages waited.
    pub shut_ms: f64,
    pub held: u64,
    /// Trees that were cut or joined, entries that moved to another page, pages that were read,
    /// pointers that were set.
    pub trees: u64,
    pub entries: u64,
    pub pages_read: u64,
    pub pointers: u64,
    /// Rows that moved to another page, and their bytes; entries of all indexes that lead to them.
    #[serde(default)]
    pub rows: u64,
    #[serde(default)]
    pub row_bytes: u64,
    #[serde(default)]
    pub addresses: u64,
}

/// Decisions to divide keys differently, added up.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RebalancedRow {
    pub decisions: u64,
    /// Those that were carried out completely.
    pub done: u64,
    pub splits: u64,
    pub merges: u64,
    pub moves: u64,
    /// As in `rebalances`.
    pub took_ms: f64,
    pub shut_ms: f64,
    pub entries: u64,
    pub rows: u64,
    pub row_bytes: u64,
    pub addresses: u64,
    /// When the first was made and when the last was carried out, in seconds since the load
    /// changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_s: Option<f64>,
}

/// Throughput around a change of the load. Shares are of the throughput before it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ShiftRow {
    /// When the load changed, in seconds since the first window began.
    pub at: f64,
    /// The median second before it.
    pub before_tps: f64,
    /// The worst second since, as a share.
    pub lowest: f64,
    /// The loss until throughput had recovered, in seconds of the former throughput.
    pub lost_s: f64,
    /// After how many seconds it was at 95 % again for three seconds; absent if never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_s: Option<f64>,
    /// The median of the last third of the seconds since, as a share.
    pub last: f64,
}

impl RebalanceRow {
    /// The row for a decision; times relative to a window that began at `began_ns`.
    pub(crate) fn of(made: &probe::Rebalance, began_ns: u64) -> RebalanceRow {
        let outcome = match &made.outcome {
            Rebalanced::Advised => "advised".into(),
            Rebalanced::Done => "done".into(),
            Rebalanced::Refused(why) => why.clone(),
        };
        RebalanceRow {
            at: (made.at_ns as f64 - began_ns as f64) / 1e9,
            instance: made.instance,
            why: made.why.clone(),
            outcome,
            splits: made.splits,
            merges: made.merges,
            moves: made.moves,
            took_ms: made.took_ns as f64 / 1e6,
            shut_ms: made.shut_ns as f64 / 1e6,
            held: made.held,
            trees: made.trees,
            entries: made.entries,
            pages_read: made.pages_read,
            pointers: made.pointers,
            rows: made.rows,
            row_bytes: made.row_bytes,
            addresses: made.addresses,
        }
    }
}

/// The machine, and the latency between its cores before and after the run, which shows whether
/// other work came or went.
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

/// Steps of a decade.
const STEPS: f64 = 8.0;

/// [`ResultRow::latency_histogram`] of the recorded latencies.
pub(crate) fn histogram(latency: &probe::Latency) -> Vec<(f64, u64)> {
    let step = |ns: u64| ((ns as f64 / 1000.0).log10() * STEPS).ceil() as i32;
    let mut steps: Vec<(i32, u64)> = Vec::new();
    for (ns, count) in latency.recorded() {
        let step = step(ns);
        // An empty step between two others is listed with a count of zero.
        while let Some((last, _)) = steps.last().copied()
            && last < step
        {
            steps.push((last + 1, 0));
        }
        match steps.last_mut() {
            Some((_, n)) => *n += count,
            None => steps.push((step, count)),
        }
    }
    let upper = |step: i32| {
        let us = 10f64.powf(f64::from(step) / STEPS);
        (us * 1000.0).round() / 1000.0
    };
    steps.into_iter().map(|(step, n)| (upper(step), n)).collect()
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl ResultRow {
    /// Rollbacks that the workload itself asked for.
    pub fn user_rollbacks(&self) -> u64 {
        self.aborted.get("user").copied().unwrap_or(0)
    }

    /// Tries that ended without effect for any other reason.
    pub fn conflicts(&self) -> u64 {
        self.aborted.iter().filter(|(reason, _)| *reason != "user").map(|(_, n)| n).sum()
    }

    /// An empty row of this build, this process' command line, this system and this moment.
    pub fn new(settings: Settings) -> ResultRow {
        ResultRow {
            settings,
            commit: stamp::commit().into(),
            version: crate::VERSION.into(),
            date: stamp::date(),
            command: stamp::command(),
            hostname: world::host_name(),
            kernel: world::kernel_release(),
            ..ResultRow::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_has_every_value_once_and_few_steps() {
        let mut latency = probe::Latency::default();
        (0..200_000u64).for_each(|i| latency.record(1_000 + i * i / 10));
        let steps = histogram(&latency);
        assert_eq!(steps.iter().map(|s| s.1).sum::<u64>(), 200_000);
        assert!(steps.len() < 60 && steps.is_sorted_by(|a, b| a.0 < b.0), "{steps:?}");
        // Half of them took up to 1 + 1000 * 1000 µs.
        let below: u64 = steps.iter().filter(|s| s.0 <= 1_000_000.0).map(|s| s.1).sum();
        assert!((95_000..=101_000).contains(&below), "{below}");
        assert!(histogram(&probe::Latency::default()).is_empty());
    }

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
        for name in ["date", "command", "hostname", "kernel"] {
            assert!(json[name].as_str().is_some_and(|text| !text.is_empty()), "{name} in {json}");
        }
        assert!(json.get("skew").is_none() && json.get("kills").is_none() && json.get("restarts").is_none());
        assert!(json["latency_us"].get("p999").is_some());
        assert_eq!(serde_json::from_value::<ResultRow>(json).unwrap(), row);
    }
}
