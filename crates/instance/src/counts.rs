//! A worker's counters for the current window.

use probe::{Latency, Measured, Series, series};
use std::cell::{Cell, RefCell};
use txn::Abort;

/// Where a committed transaction's steps ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    Home,
    Distributed,
}

/// The counters of one worker for the current window.
pub(crate) struct Counts {
    committed: Vec<(&'static str, u64)>,
    /// By kind, and for each kind by reason.
    aborted: Vec<(&'static str, Vec<(&'static str, u64)>)>,
    distributed: u64,
    latency: Vec<(&'static str, Latency)>,
    series: Series,
    pub retries: u64,
    pub given_up: u64,
}

/// The measurements of one worker.
pub(crate) struct Measuring {
    pub counts: RefCell<Counts>,
    /// The workload's own counts of its requests, in this window.
    pub observed: RefCell<Vec<(&'static str, u64)>>,
    /// The message that a procedure issues steps after its last ones was printed.
    pub told_of_bug: Cell<bool>,
}

impl Measuring {
    /// From a window on that begins at `now_ns`.
    pub fn new(now_ns: u64) -> Measuring {
        Measuring {
            counts: RefCell::new(Counts::new(now_ns)),
            observed: RefCell::default(),
            told_of_bug: Cell::new(false),
        }
    }
}

/// The entry of a name; the list is short.
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
            distributed: 0,
            latency: Vec::new(),
            series: Series::new(now_ns),
            retries: 0,
            given_up: 0,
        }
    }

    /// Counts a transaction that has its home here.
    #[inline]
    pub fn committed(&mut self, kind: &'static str, reach: Reach, now_ns: u64) {
        *entry(&mut self.committed, kind) += 1;
        self.distributed += u64::from(reach == Reach::Distributed);
        self.series.committed(now_ns);
    }

    /// Counts a request of a client here.
    #[inline]
    pub fn answered(&mut self, kind: &'static str, latency_ns: u64) {
        entry(&mut self.latency, kind).record(latency_ns);
        self.series.latency(latency_ns);
    }

    /// Counts a try that ended with an abort.
    pub fn aborted(&mut self, kind: &'static str, abort: Abort, now_ns: u64) {
        *entry(entry(&mut self.aborted, kind), abort.name()) += 1;
        self.series.aborted(now_ns);
    }

    /// Adds this window to `into` and starts the next.
    pub fn take(&mut self, now_ns: u64, into: &mut Measured) {
        for (kind, n) in self.committed.drain(..) {
            *into.committed.entry(kind.into()).or_default() += n;
        }
        let asked_for = Abort::User(0).name();
        for (kind, reasons) in self.aborted.drain(..) {
            let of_kind = into.aborted_by_kind.entry(kind.into()).or_default();
            for (reason, n) in reasons {
                *of_kind.entry(reason.into()).or_default() += n;
                *into.aborted.entry(reason.into()).or_default() += n;
                if reason == asked_for {
                    *into.user_aborted.entry(kind.into()).or_default() += n;
                }
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aborts_are_counted_by_kind_and_reason() {
        let mut counts = Counts::new(0);
        for abort in [Abort::User(7), Abort::User(1), Abort::Deadlock] {
            counts.aborted("new_order", abort, 1);
        }
        counts.aborted("payment", Abort::Deadlock, 1);
        let mut measured = Measured::default();
        counts.take(2, &mut measured);
        let of = |kind: &str, reason: &str| measured.aborted_by_kind[kind].get(reason).copied();
        assert_eq!((of("new_order", "user"), of("new_order", "deadlock")), (Some(2), Some(1)));
        assert_eq!((of("payment", "user"), of("payment", "deadlock")), (None, Some(1)));
        assert_eq!((measured.aborted["user"], measured.aborted["deadlock"]), (2, 2));
        assert_eq!(measured.user_aborted, [("new_order".to_string(), 2)].into());
        let mut both = measured.clone();
        both.merge(&measured);
        assert_eq!(both.aborted_by_kind["new_order"]["user"], 4);
        counts.take(3, &mut measured);
        assert_eq!(measured.aborted["user"], 2, "a window is taken once");
    }
}
