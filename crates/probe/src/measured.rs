//! One window of one worker, one instance or one deployment: the same value, merged upwards.

use crate::{Latency, Profile, Second, series};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The log's work since the instance started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LogCounts {
    pub bytes: u64,
    pub records: u64,
    pub flushes: u64,
    pub fsyncs: u64,
}

/// The lock manager's work since the instance started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LockWork {
    /// Table locks requested by transactions that did not hold them yet.
    pub table_requests: u64,
    /// Of these, inherited from the transaction before: without a call of the lock manager.
    pub inherited: u64,
    /// Calls of the lock manager for table locks, to acquire and to release.
    pub table_calls: u64,
    /// Tables locked in place of many rows.
    pub escalations: u64,
}

impl LockWork {
    /// Adds another instance's counts.
    pub fn merge(&mut self, other: &LockWork) {
        self.table_requests += other.table_requests;
        self.inherited += other.inherited;
        self.table_calls += other.table_calls;
        self.escalations += other.escalations;
    }

    /// The work since the counts were `before`.
    #[must_use]
    pub fn since(&self, before: &LockWork) -> LockWork {
        LockWork {
            table_requests: self.table_requests - before.table_requests,
            inherited: self.inherited - before.inherited,
            table_calls: self.table_calls - before.table_calls,
            escalations: self.escalations - before.escalations,
        }
    }
}

/// The load from outside, answered or not: open-loop clients and terminals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Offered {
    /// Requests that became due in the window.
    pub requests: u64,
    /// Of these, refused because too many were waiting already.
    pub refused: u64,
    /// Due, and not begun at the end of the window.
    pub backlog: u64,
}

impl Offered {
    /// Adds another worker's counts.
    pub fn merge(&mut self, other: &Offered) {
        self.requests += other.requests;
        self.refused += other.refused;
        self.backlog += other.backlog;
    }
}

/// The outcome of a decision to divide keys among their owners in another way.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Rebalanced {
    /// Only advice was asked for.
    Advised,
    Done,
    /// Not carried out, or not to its end; the reason in words.
    Refused(String),
}

/// A decision to divide keys among their owners in another way, and its cost.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Rebalance {
    /// The time of the decision, by the clock that the processes of a machine share
    /// (`world::now_ns`).
    pub at_ns: u64,
    pub instance: u16,
    /// The decision with its reasons.
    pub why: String,
    pub outcome: Rebalanced,
    /// Number of partitions that were split, merged and moved.
    pub splits: u64,
    pub merges: u64,
    pub moves: u64,
    /// Time from the decision to its completion, ns; and the time for which owners accepted no work
    /// meanwhile, summed over them, ns.
    pub took_ns: u64,
    pub shut_ns: u64,
    /// Messages that waited during that time.
    pub held: u64,
    /// Trees that were cut or joined, entries that moved to another page, pages that were read,
    /// pointers that were set.
    pub trees: u64,
    pub entries: u64,
    pub pages_read: u64,
    pub pointers: u64,
    /// Rows that moved to another page, and their bytes; entries of all indexes that lead to them.
    pub rows: u64,
    pub row_bytes: u64,
    pub addresses: u64,
}

/// Counts and latencies of a window.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Length of the window in ns; of merged windows the longest.
    pub window_ns: u64,
    /// Committed transactions by kind of request.
    pub committed: BTreeMap<String, u64>,
    /// Transactions that ended without effect, by reason ([`Abort::name`](../txn/enum.Abort.html));
    /// each attempt counts.
    pub aborted: BTreeMap<String, u64>,
    /// Of these, the ones that the workload itself asked for, by kind of request.
    pub user_aborted: BTreeMap<String, u64>,
    /// `aborted` by kind of request: kind -> reason -> count.
    pub aborted_by_kind: BTreeMap<String, BTreeMap<String, u64>>,
    /// Amounts that the workload reports for requests that were carried out, by name.
    pub observed: BTreeMap<String, u64>,
    /// Committed transactions that touched more than one instance.
    pub distributed: u64,
    /// Messages sent to other instances and to clients.
    pub messages: u64,
    pub message_bytes: u64,
    /// Transactions prepared here that are in doubt at the end of the window.
    pub in_doubt: u64,
    /// Reply latency of committed transactions, from the start of the request to its durable end.
    pub latency: Latency,
    /// The same by kind of request.
    pub latency_by_kind: BTreeMap<String, Latency>,
    /// The window second by second.
    pub series: Vec<Second>,
    /// Attempts beyond the first, and requests that were given up after the last allowed attempt.
    pub retries: u64,
    pub given_up: u64,
    /// `None` with a closed loop, where no request waits.
    pub offered: Option<Offered>,
    pub log: LogCounts,
    pub locks: LockWork,
    /// Waits for locks, by the name of the table.
    pub lock_waits: BTreeMap<String, u64>,
    /// CPU time of the whole process in the window, ns.
    pub cpu_ns: u64,
    /// The number of times in the window that the system took a core from a thread of the process
    /// that was still running.
    pub involuntary_switches: u64,
    /// Resident memory of the process at the end of the window.
    pub rss_bytes: u64,
    /// Pages of the data file in use.
    pub pages: u64,
    /// The time by component; only while profiling is on.
    pub profile: Option<Box<Profile>>,
    /// Pages read from the data file in the window, and written to it.
    pub page_reads: u64,
    pub page_writes: u64,
    /// Decisions about the owners of keys, in the order of time.
    pub rebalances: Vec<Rebalance>,
}

impl Measured {
    pub fn merge(&mut self, other: &Measured) {
        self.window_ns = self.window_ns.max(other.window_ns);
        for (kind, n) in &other.committed {
            *self.committed.entry(kind.clone()).or_default() += n;
        }
        for (reason, n) in &other.aborted {
            *self.aborted.entry(reason.clone()).or_default() += n;
        }
        for (kind, n) in &other.user_aborted {
            *self.user_aborted.entry(kind.clone()).or_default() += n;
        }
        for (kind, reasons) in &other.aborted_by_kind {
            let of = self.aborted_by_kind.entry(kind.clone()).or_default();
            for (reason, n) in reasons {
                *of.entry(reason.clone()).or_default() += n;
            }
        }
        for (name, n) in &other.observed {
            *self.observed.entry(name.clone()).or_default() += n;
        }
        self.distributed += other.distributed;
        self.messages += other.messages;
        self.message_bytes += other.message_bytes;
        self.in_doubt += other.in_doubt;
        self.latency.merge(&other.latency);
        for (kind, latency) in &other.latency_by_kind {
            self.latency_by_kind.entry(kind.clone()).or_default().merge(latency);
        }
        series::merge(&mut self.series, &other.series);
        self.rebalances.extend(other.rebalances.iter().cloned());
        self.retries += other.retries;
        self.given_up += other.given_up;
        if let Some(offered) = &other.offered {
            self.offered.get_or_insert_default().merge(offered);
        }
        self.log.bytes += other.log.bytes;
        self.log.records += other.log.records;
        self.log.flushes += other.log.flushes;
        self.log.fsyncs += other.log.fsyncs;
        self.locks.merge(&other.locks);
        for (table, n) in &other.lock_waits {
            *self.lock_waits.entry(table.clone()).or_default() += n;
        }
        self.cpu_ns += other.cpu_ns;
        self.involuntary_switches += other.involuntary_switches;
        self.rss_bytes += other.rss_bytes;
        self.pages += other.pages;
        if let Some(profile) = &other.profile {
            self.profile.get_or_insert_default().merge(profile);
        }
        self.page_reads += other.page_reads;
        self.page_writes += other.page_writes;
    }

    pub fn committed_total(&self) -> u64 {
        self.committed.values().sum()
    }
}
