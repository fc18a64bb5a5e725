//! When to begin something that serves all who wait by then, such as a flush of a log.

/// How long a flush takes and how many wait for it at a time.
///
/// After a flush everybody it served comes back at about the same time. One begun for the first of them serves one, and the
/// others wait for two; so it is begun when as many are there as last time, or after a quarter of the time that a flush
/// takes. Who is alone is never kept waiting.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// A flush's duration, smoothed, ns.
    flush_ns: u64,
    /// How many waited for each of the last two.
    groups: [usize; 2],
}

/// What is done faster than this, ns, is not worth waiting for company.
const QUICK_NS: u64 = 50_000;
/// Nobody waits for company longer than this, ns, however long a flush takes.
const PATIENCE_NS: u64 = 2_000_000;

impl Pace {
    /// To be told of each flush: how long it took, and how many waited for it.
    pub fn flushed(&mut self, took_ns: u64, group: usize) {
        let smooth = if self.flush_ns == 0 { took_ns } else { self.flush_ns / 8 * 7 + took_ns / 8 };
        *self = Pace { flush_ns: smooth, groups: [group, self.groups[0]] };
    }

    /// How many to expect, and how long to wait for them, ns.
    pub fn company(&self) -> (usize, u64) {
        let expected = self.groups[0].max(self.groups[1]);
        let patience = if self.flush_ns < QUICK_NS { 0 } else { (self.flush_ns / 4).min(PATIENCE_NS) };
        (expected, if expected > 1 { patience } else { 0 })
    }

    /// Whether nobody is to be waited for while so many wait.
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
