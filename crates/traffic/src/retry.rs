//! A client's retries after a transient abort (a deadlock, a time-out, an instance that is down).

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How often and how soon an aborted request is tried again. Other aborts end a request at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Retries {
    /// Tries after the first one; `None` means until it commits or the load ends.
    pub limit: Option<u32>,
    /// The first pause is drawn from 0 up to this, and the range doubles with each try; 0 means at
    /// once.
    pub backoff_ns: u64,
}

/// The number of times that the range of pauses doubles at most.
const DOUBLINGS: u32 = 6;

impl Retries {
    /// The pause before try `n` after the first (n = 1, 2, ...); `None` to give up. `random` is 64
    /// random bits, so that two requests that collided do not collide again ("full jitter").
    pub fn pause(&self, n: u32, random: u64) -> Option<Duration> {
        if self.limit.is_some_and(|limit| n > limit) {
            return None;
        }
        let range = self.backoff_ns << (n.max(1) - 1).min(DOUBLINGS);
        Some(Duration::from_nanos(((u128::from(range) * u128::from(random)) >> 64) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_at_once_and_for_ever() {
        assert!(
            [1, 2, 100, u32::MAX]
                .iter()
                .all(|n| Retries::default().pause(*n, u64::MAX) == Some(Duration::ZERO))
        );
    }

    #[test]
    fn pauses_double_up_to_a_bound_and_the_limit_holds() {
        let retries = Retries { limit: Some(9), backoff_ns: 1_000 };
        let longest = |n| retries.pause(n, u64::MAX).map(|p| p.as_nanos());
        assert_eq!([1, 2, 3, 7, 8, 9].map(longest), [999, 1_999, 3_999, 63_999, 63_999, 63_999].map(Some));
        assert_eq!((longest(10), retries.pause(1, 0)), (None, Some(Duration::ZERO)));
        assert_eq!(Retries { limit: Some(0), ..retries }.pause(1, 0), None);
    }
}
