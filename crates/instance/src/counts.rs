//! A worker's counters for the current window.

use probe::{Latency, Measured};
use txn::Abort;

/// Where a committed transaction's steps ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    Home,
    Distributed,
}

#[derive(Default)]
pub(crate) struct Counts {
    committed: Vec<(&'static str, u64)>,
    aborted: Vec<(&'static str, u64)>,
    /// By kind, those that the workload asked for.
    user_aborted: Vec<(&'static str, u64)>,
    distributed: u64,
    latency: Latency,
}

fn bump(list: &mut Vec<(&'static str, u64)>, name: &'static str) {
    match list.iter_mut().find(|(n, _)| std::ptr::eq(*n, name) || *n == name) {
        Some((_, count)) => *count += 1,
        None => list.push((name, 1)),
    }
}

impl Counts {
    #[inline]
    pub fn committed(&mut self, kind: &'static str, reach: Reach, latency_ns: u64) {
        bump(&mut self.committed, kind);
        self.distributed += u64::from(reach == Reach::Distributed);
        self.latency.record(latency_ns);
    }

    pub fn aborted(&mut self, kind: &'static str, abort: Abort) {
        bump(&mut self.aborted, abort.name());
        if let Abort::User(_) = abort {
            bump(&mut self.user_aborted, kind);
        }
    }

    /// Adds this window to `into` and starts the next.
    pub fn take(&mut self, into: &mut Measured) {
        let counts = std::mem::take(self);
        for (kind, n) in counts.committed {
            *into.committed.entry(kind.into()).or_default() += n;
        }
        for (reason, n) in counts.aborted {
            *into.aborted.entry(reason.into()).or_default() += n;
        }
        for (kind, n) in counts.user_aborted {
            *into.user_aborted.entry(kind.into()).or_default() += n;
        }
        into.distributed += counts.distributed;
        into.latency.merge(&counts.latency);
    }
}
