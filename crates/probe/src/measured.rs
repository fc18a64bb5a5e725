//! One window of one worker, one instance or one deployment: the same value, merged upwards.

use crate::{Latency, Profile};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the log did since the instance started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LogCounts {
    pub bytes: u64,
    pub records: u64,
    pub flushes: u64,
    pub fsyncs: u64,
}

/// What the lock manager did since the instance started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LockWork {
    /// Table locks asked for by transactions that did not hold them yet.
    pub table_requests: u64,
    /// Of these, left by the transaction before: no call of the lock manager.
    pub inherited: u64,
    /// Calls of the lock manager for table locks, acquiring and releasing.
    pub table_calls: u64,
    /// Tables locked in place of many rows.
    pub escalations: u64,
}

impl LockWork {
    /// Adds another instance's.
    pub fn merge(&mut self, other: &LockWork) {
        self.table_requests += other.table_requests;
        self.inherited += other.inherited;
        self.table_calls += other.table_calls;
        self.escalations += other.escalations;
    }

    /// What was done since it was `before`.
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

/// Counts and latencies of a window.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Length of the window in ns; of merged windows the longest.
    pub window_ns: u64,
    /// Committed transactions by kind of request.
    pub committed: BTreeMap<String, u64>,
    /// Transactions that ended without effect, by reason ([`Abort::name`](../txn/enum.Abort.html)); each try counts.
    pub aborted: BTreeMap<String, u64>,
    /// Those of them that the workload itself asked for, by kind of request.
    pub user_aborted: BTreeMap<String, u64>,
    /// Amounts that the workload reports of requests that were carried out, by name.
    pub observed: BTreeMap<String, u64>,
    /// Committed transactions that touched more than one instance.
    pub distributed: u64,
    /// Messages sent to other instances and to clients.
    pub messages: u64,
    pub message_bytes: u64,
    /// Transactions prepared here whose outcome is not known now.
    pub in_doubt: u64,
    /// Reply latency of committed transactions, from the request's start to its durable end.
    pub latency: Latency,
    pub log: LogCounts,
    pub locks: LockWork,
    /// CPU time of the whole process in the window, ns.
    pub cpu_ns: u64,
    /// Resident memory of the process at the end of the window.
    pub rss_bytes: u64,
    /// Pages of the data file in use.
    pub pages: u64,
    /// Where the time went; only while profiling is on.
    pub profile: Option<Box<Profile>>,
    /// Pages read from the data file in the window, and written to it.
    pub page_reads: u64,
    pub page_writes: u64,
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
        for (name, n) in &other.observed {
            *self.observed.entry(name.clone()).or_default() += n;
        }
        self.distributed += other.distributed;
        self.messages += other.messages;
        self.message_bytes += other.message_bytes;
        self.in_doubt += other.in_doubt;
        self.latency.merge(&other.latency);
        self.log.bytes += other.log.bytes;
        self.log.records += other.log.records;
        self.log.flushes += other.log.flushes;
        self.log.fsyncs += other.log.fsyncs;
        self.locks.merge(&other.locks);
        self.cpu_ns += other.cpu_ns;
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
