//! A window's profile as a value: sent home by workers and instances, merged, and divided by the transactions.

use crate::table::{Component, Counter, Group, Kind, Section, Wait};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Sums over workers. Arrays are indexed by the enums of [`crate::table`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Profile {
    /// Lengths of the workers' windows by the system's clock: what `busy_ns` and `idle_ns` must add up to.
    pub window_ns: u64,
    /// Where the workers' time went, whoever's work it was.
    pub busy_ns: [u64; Component::COUNT],
    /// Rounds of the workers' loops without work, and sleep.
    pub idle_ns: u64,
    /// The part of `busy_ns` that was spent in transactions that began here, by their own tasks.
    pub own_ns: [u64; Component::COUNT],
    /// What those transactions waited for.
    pub wait_ns: [u64; Wait::COUNT],
    pub counts: [u64; Counter::COUNT],
    pub entered: [u64; Section::COUNT],
    /// Times that a section was occupied and had to be waited for.
    pub contended: [u64; Section::COUNT],
    /// Polls of tasks, and those of them whose time was split among the components.
    pub polls: u64,
    pub timed_polls: u64,
}

fn add<const N: usize>(sums: &mut [u64; N], more: &[u64; N]) {
    sums.iter_mut().zip(more).for_each(|(sum, n)| *sum += n);
}

impl Profile {
    pub fn merge(&mut self, other: &Profile) {
        self.window_ns += other.window_ns;
        self.idle_ns += other.idle_ns;
        self.polls += other.polls;
        self.timed_polls += other.timed_polls;
        add(&mut self.busy_ns, &other.busy_ns);
        add(&mut self.own_ns, &other.own_ns);
        add(&mut self.wait_ns, &other.wait_ns);
        add(&mut self.counts, &other.counts);
        add(&mut self.entered, &other.entered);
        add(&mut self.contended, &other.contended);
    }

    pub fn count(&self, counter: Counter) -> u64 {
        self.counts[counter as usize]
    }

    pub fn set(&mut self, counter: Counter, n: u64) {
        self.counts[counter as usize] = n;
    }

    pub fn waited_ns(&self) -> u64 {
        self.wait_ns.iter().sum()
    }

    /// Time of the clients' requests from beginning to end: what their latencies add up to.
    pub fn elapsed_ns(&self) -> u64 {
        self.own_ns.iter().sum::<u64>() + self.waited_ns()
    }

    /// Counters that follow from others, so that the hot path need not count them.
    pub(crate) fn derive(&mut self) {
        use Counter::{
            HigherLocks, LockFast, LockInherited, LockRepeats, LockRequests, LockTableVisits, RowLocks,
        };
        let taken = self.count(RowLocks) + self.count(HigherLocks);
        self.set(LockRequests, taken + self.count(LockRepeats));
        let visits = taken.saturating_sub(self.count(LockFast) + self.count(LockInherited));
        self.set(LockTableVisits, visits);
    }

    /// Per committed transaction, as result rows have it.
    pub fn per_transaction(&self, committed: u64) -> PerTransaction {
        let per = |n: u64| n as f64 / committed.max(1) as f64;
        let components = |ns: &[u64; Component::COUNT]| -> BTreeMap<String, f64> {
            Component::ALL.iter().map(|c| (c.name().into(), per(ns[*c as usize]))).collect()
        };
        let mut time = components(&self.own_ns);
        time.insert("waiting".into(), per(self.waited_ns()));
        let mut worker = components(&self.busy_ns);
        worker.insert("idle".into(), per(self.idle_ns));
        let group = |group: Group| -> BTreeMap<String, f64> {
            let counters = Counter::ALL.iter().filter(|c| c.group() == group);
            counters.map(|c| (c.name().into(), per(self.count(*c)))).collect()
        };
        let sections = |numbers: &[u64; Section::COUNT]| {
            let mut all: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
            for component in Component::ALL {
                let kinds = Kind::ALL.iter().map(|k| (k.name().to_string(), 0.0)).collect();
                all.insert(component.name().into(), kinds);
            }
            for s in Section::ALL {
                let kinds = all.entry(s.component().name().into()).or_default();
                *kinds.entry(s.kind().name().into()).or_default() += per(numbers[*s as usize]);
            }
            all
        };
        PerTransaction {
            time_ns_per_txn: time,
            waiting_ns_per_txn: Wait::ALL
                .iter()
                .map(|w| (w.name().into(), per(self.wait_ns[*w as usize])))
                .collect(),
            worker_ns_per_txn: worker,
            critical_sections_per_txn: sections(&self.entered),
            contended_sections_per_txn: sections(&self.contended),
            latches_per_txn: group(Group::Latches),
            accesses_per_txn: group(Group::Accesses),
            lock_calls_per_txn: group(Group::LockCalls),
            log_per_txn: group(Group::Log),
            traffic_per_txn: group(Group::Messages),
        }
    }
}

/// The fields that `--profile` adds to a row; all are means per committed transaction.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PerTransaction {
    /// Component (and `waiting`) -> ns of a request from its beginning to its end: adds up to its mean latency.
    pub time_ns_per_txn: BTreeMap<String, f64>,
    /// What `waiting` consists of.
    pub waiting_ns_per_txn: BTreeMap<String, f64>,
    /// Component (and `idle`) -> ns of all workers, work for transactions of other instances included: adds up to
    /// workers x window / transactions.
    pub worker_ns_per_txn: BTreeMap<String, f64>,
    /// Component -> kind -> critical sections entered.
    pub critical_sections_per_txn: BTreeMap<String, BTreeMap<String, f64>>,
    /// The same, of those that had to be waited for.
    pub contended_sections_per_txn: BTreeMap<String, BTreeMap<String, f64>>,
    pub latches_per_txn: BTreeMap<String, f64>,
    pub accesses_per_txn: BTreeMap<String, f64>,
    pub lock_calls_per_txn: BTreeMap<String, f64>,
    pub log_per_txn: BTreeMap<String, f64>,
    pub traffic_per_txn: BTreeMap<String, f64>,
}

impl PerTransaction {
    /// Mean time of a request, ns.
    pub fn elapsed_ns(&self) -> f64 {
        self.time_ns_per_txn.values().sum()
    }
}
