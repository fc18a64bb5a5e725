//! When to begin an operation that serves all present waiters, such as a flush of a log.

/// The duration of a flush, and the number of waiters per flush.
///
/// After a flush all clients that it served come back at about the same time. A flush begun for the
/// first of them would serve one, and the others would wait for two flushes. So a flush begins when
/// as many wait as last time, or after a quarter of the duration of a flush. A client that is alone
/// never waits for others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// Smoothed duration of a flush, ns.
    flush_ns: u64,
    /// Number of waiters of each of the last two flushes.
    groups: [usize; 2],
}

/// Flushes faster than this, ns, do not wait for more waiters.
const QUICK_NS: u64 = 50_000;
/// The longest wait for more waiters, ns.
const PATIENCE_NS: u64 = 2_000_000;

impl Pace {
    /// Records a flush: its duration and its number of waiters.
    pub fn flushed(&mut self, took_ns: u64, group: usize) {
        let smooth = if self.flush_ns == 0 { took_ns } else { self.flush_ns / 8 * 7 + took_ns / 8 };
        *self = Pace { flush_ns: smooth, groups: [group, self.groups[0]] };
    }

    /// The number of waiters to expect, and how long to wait for them, ns.
    pub fn company(&self) -> (usize, u64) {
        let expected = self.groups[0].max(self.groups[1]);
        let patience = if self.flush_ns < QUICK_NS { 0 } else { (self.flush_ns / 4).min(PATIENCE_NS) };
        (expected, if expected > 1 { patience } else { 0 })
    }

    /// Whether a flush may begin with this many waiters.
    pub fn is_company_here(&self, waiting: usize) -> bool {
        let (expected, patience_ns) = self.company();
        patience_ns == 0 || expected <= waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn company_is_waited_for_only_when_there_was_some() {
        let mut pace = Pace::default();
        assert_eq!(pace.company(), (0, 0), "nothing is known yet");
        pace.flushed(4_000_000, 1);
        pace.flushed(4_000_000, 1);
        assert_eq!(pace.company(), (1, 0), "a client that is alone");
        pace.flushed(4_000_000, 15);
        pace.flushed(4_000_000, 1);
        assert_eq!(
            pace.company(),
            (15, 1_000_000),
            "one came early: the others follow, within a quarter of a flush"
        );
        assert!(!pace.is_company_here(14) && pace.is_company_here(15));
        pace.flushed(4_000_000, 1);
        assert_eq!(pace.company(), (1, 0), "the others have gone");
        (0..100).for_each(|_| pace.flushed(80_000_000, 9));
        assert_eq!(pace.company(), (9, PATIENCE_NS), "however slow the device");
        (0..100).for_each(|_| pace.flushed(20_000, 9));
        assert_eq!(pace.company(), (9, 0), "a quick device");
    }
}
