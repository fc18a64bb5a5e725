//! A window's profile as a value: workers and instances send it, the receiver merges it, and
//! divides it by the number of transactions.

use crate::hardware::Hardware;
use crate::table::{Component, Counter, Event, Group, Kind, Section, Wait};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Sums over workers. Arrays are indexed by the enums of [`crate::table`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Profile {
    /// Lengths of the workers' windows by the system's clock: the sum of `busy_ns` and `idle_ns`.
    pub window_ns: u64,
    /// The workers' time by component, for all transactions.
    pub busy_ns: [u64; Component::COUNT],
    /// Rounds of the workers' loops without work, and sleep.
    pub idle_ns: u64,
    /// The part of `busy_ns` that tasks of transactions which began here have spent.
    pub own_ns: [u64; Component::COUNT],
    /// The waits of those transactions.
    pub wait_ns: [u64; Wait::COUNT],
    pub counts: [u64; Counter::COUNT],
    /// The part of `counts` that belongs to transactions that began here, by kind (see
    /// [`crate::transaction`]).
    pub by_kind: BTreeMap<String, [u64; Counter::COUNT]>,
    pub entered: [u64; Section::COUNT],
    /// The number of times that a section was occupied and a thread had to wait for it.
    pub contended: [u64; Section::COUNT],
    /// Polls of tasks, and of these the ones with split time.
    pub polls: u64,
    pub timed_polls: u64,
    /// Parts of transactions that held locks to their end, as far as watched, and the total time.
    pub holds: u64,
    pub hold_ns: u64,
    /// `None` in an empty sum.
    pub hardware: Option<Hardware>,
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
        self.holds += other.holds;
        self.hold_ns += other.hold_ns;
        add(&mut self.busy_ns, &other.busy_ns);
        add(&mut self.own_ns, &other.own_ns);
        add(&mut self.wait_ns, &other.wait_ns);
        add(&mut self.counts, &other.counts);
        for (kind, counts) in &other.by_kind {
            add(self.by_kind.entry(kind.clone()).or_default(), counts);
        }
        add(&mut self.entered, &other.entered);
        add(&mut self.contended, &other.contended);
        match (&mut self.hardware, &other.hardware) {
            (Some(sum), Some(more)) => sum.merge(more),
            (sum @ None, more) => sum.clone_from(more),
            (Some(_), None) => {}
        }
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

    /// Time of the clients' requests from beginning to end: the sum of their latencies.
    pub fn elapsed_ns(&self) -> u64 {
        self.own_ns.iter().sum::<u64>() + self.waited_ns()
    }

    /// Adds the counts of transactions of one kind, or of none.
    pub(crate) fn add_counts(&mut self, kind: Option<&str>, counts: &[u64; Counter::COUNT]) {
        add(&mut self.counts, counts);
        if let Some(kind) = kind
            && counts.iter().any(|n| *n > 0)
        {
            add(self.by_kind.entry(kind.into()).or_default(), counts);
        }
    }

    /// The accesses of transactions of each kind at their home instance, per transaction that
    /// ended. `ended` has the number of these, by kind. Kinds without any are left out.
    pub fn accesses_by_kind(&self, ended: &BTreeMap<String, u64>) -> BTreeMap<String, BTreeMap<String, f64>> {
        let one = |(kind, counts): (&String, &[u64; Counter::COUNT])| {
            let n = *ended.get(kind).filter(|n| **n > 0)?;
            let counters = Counter::ALL.iter().filter(|c| c.group() == Group::Accesses);
            let per = counters.map(|c| (c.name().to_string(), counts[*c as usize] as f64 / n as f64));
            Some((kind.clone(), per.collect()))
        };
        self.by_kind.iter().filter_map(one).collect()
    }

    /// Per committed transaction, in the form of result rows.
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
            accesses_by_kind: BTreeMap::new(),
            lock_hold_ns: (self.holds > 0).then(|| self.hold_ns as f64 / self.holds as f64),
            hardware: self.hardware_per(committed),
            hardware_missing: self.hardware.as_ref().and_then(|h| h.reason.clone()),
        }
    }

    fn hardware_per(&self, committed: u64) -> Option<BTreeMap<String, f64>> {
        let counts = &self.hardware.as_ref()?.counts;
        let per =
            |e: &Event| Some((e.name().to_string(), counts[*e as usize]? as f64 / committed.max(1) as f64));
        Some(Event::ALL.iter().filter_map(per).collect::<BTreeMap<_, _>>()).filter(|all| !all.is_empty())
    }
}

/// Computes the counters that follow from others, so that the hot path need not count them.
pub(crate) fn derive(counts: &mut [u64; Counter::COUNT]) {
    use Counter::{
        HigherLocks, LockFast, LockInherited, LockRepeats, LockRequests, LockTableVisits, RowLocks,
    };
    let of = |counter: Counter| counts[counter as usize];
    let taken = of(RowLocks) + of(HigherLocks);
    let (asked, visits) = (taken + of(LockRepeats), taken.saturating_sub(of(LockFast) + of(LockInherited)));
    counts[LockRequests as usize] = asked;
    counts[LockTableVisits as usize] = visits;
}

/// The fields that `--profile` adds to a row; all are means per committed transaction.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PerTransaction {
    /// Component (and `waiting`) -> ns of a request from its beginning to its end: adds up to its
    /// mean latency.
    pub time_ns_per_txn: BTreeMap<String, f64>,
    /// The composition of `waiting`.
    pub waiting_ns_per_txn: BTreeMap<String, f64>,
    /// Component (and `idle`) -> ns of all workers, with work for transactions of other instances:
    /// adds up to workers x window / transactions.
    pub worker_ns_per_txn: BTreeMap<String, f64>,
    /// Component -> kind -> critical sections entered.
    pub critical_sections_per_txn: BTreeMap<String, BTreeMap<String, f64>>,
    /// The same, for sections that a thread had to wait for.
    pub contended_sections_per_txn: BTreeMap<String, BTreeMap<String, f64>>,
    pub latches_per_txn: BTreeMap<String, f64>,
    pub accesses_per_txn: BTreeMap<String, f64>,
    pub lock_calls_per_txn: BTreeMap<String, f64>,
    pub log_per_txn: BTreeMap<String, f64>,
    pub traffic_per_txn: BTreeMap<String, f64>,
    /// Kind of request -> result of [`Profile::accesses_by_kind`]: per request of that kind that
    /// was carried out, user rollbacks included; work at other instances is left out.
    #[serde(default)]
    pub accesses_by_kind: BTreeMap<String, BTreeMap<String, f64>>,
    /// The time for which a part of a transaction, at one instance, held its locks: the mean of a
    /// sample; absent if the sample is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_hold_ns: Option<f64>,
    /// Event -> the processor's count on the workers, for all transactions. `None` if it counts
    /// nothing.
    #[serde(default)]
    pub hardware: Option<BTreeMap<String, f64>>,
    /// In that case the reason, and a remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware_missing: Option<String>,
}

impl PerTransaction {
    /// Mean time of a request, ns.
    pub fn elapsed_ns(&self) -> f64 {
        self.time_ns_per_txn.values().sum()
    }
}
