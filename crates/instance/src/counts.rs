//! A worker's counters for the current window.

use probe::{Latency, Measured, Series, series};
use txn::Abort;

/// Where a committed transaction's steps ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    Home,
    Distributed,
}

pub(crate) struct Counts {
    committed: Vec<(&'static str, u64)>,
    aborted: Vec<(&'static str, u64)>,
    /// By kind, those that the workload asked for.
    user_aborted: Vec<(&'static str, u64)>,
    distributed: u64,
    latency: Vec<(&'static str, Latency)>,
    series: Series,
    pub retries: u64,
    pub given_up: u64,
}

/// The entry of a name, of which there are few.
#[inline]
pub(crate) fn entry<'a, T: Default>(list: &'a mut Vec<(&'static str, T)>, name: &'static str) -> &'a mut T {
    let at = list.iter().position(|(n, _)| std::ptr::eq(*n, name) || *n == name);
    let at = at.unwrap_or_else(|| {
        list.push((name, T::default()));
        list.len() - 1
    });
    &mut list[at].1
}

impl Counts {
    /// A window that begins at `now_ns`.
    pub fn new(now_ns: u64) -> Counts {
        Counts {
            committed: Vec::new(),
            aborted: Vec::new(),
            user_aborted: Vec::new(),
            distributed: 0,
            latency: Vec::new(),
            series: Series::new(now_ns),
            retries: 0,
            given_up: 0,
        }
    }

    /// Of a transaction whose home is here.
    #[inline]
    pub fn committed(&mut self, kind: &'static str, reach: Reach, now_ns: u64) {
        *entry(&mut self.committed, kind) += 1;
        self.distributed += u64::from(reach == Reach::Distributed);
        self.series.committed(now_ns);
    }

    /// Of a request whose client is here.
    #[inline]
    pub fn answered(&mut self, kind: &'static str, latency_ns: u64) {
        entry(&mut self.latency, kind).record(latency_ns);
        self.series.latency(latency_ns);
    }

    pub fn aborted(&mut self, kind: &'static str, abort: Abort, now_ns: u64) {
        *entry(&mut self.aborted, abort.name()) += 1;
        self.series.aborted(now_ns);
        if let Abort::User(_) = abort {
            *entry(&mut self.user_aborted, kind) += 1;
        }
    }

    /// Adds this window to `into` and starts the next.
    pub fn take(&mut self, now_ns: u64, into: &mut Measured) {
        for (kind, n) in self.committed.drain(..) {
            *into.committed.entry(kind.into()).or_default() += n;
        }
        for (reason, n) in self.aborted.drain(..) {
            *into.aborted.entry(reason.into()).or_default() += n;
        }
        for (kind, n) in self.user_aborted.drain(..) {
            *into.user_aborted.entry(kind.into()).or_default() += n;
        }
        into.distributed += std::mem::take(&mut self.distributed);
        for (kind, latency) in self.latency.drain(..) {
            into.latency.merge(&latency);
            into.latency_by_kind.entry(kind.into()).or_default().merge(&latency);
        }
        series::merge(&mut into.series, &self.series.take(now_ns));
        into.retries += std::mem::take(&mut self.retries);
        into.given_up += std::mem::take(&mut self.given_up);
    }
}
