//! A worker's open activities, counted by the epoch in which each began. The worker publishes the
//! oldest epoch.

use crate::epoch::{EpochUse, Epochs, IDLE};
use std::collections::VecDeque;

/// One worker's open activities of one kind, in the order of their epochs.
pub(crate) struct Pins {
    used_for: EpochUse,
    open: VecDeque<(u64, u32)>,
}

impl Pins {
    pub(crate) fn new(used_for: EpochUse) -> Pins {
        Pins { used_for, open: VecDeque::with_capacity(8) }
    }

    /// Begins one more, now. Returns its epoch, for [`Pins::remove`].
    #[inline]
    pub(crate) fn add(&mut self, epochs: &Epochs, worker: usize) -> u64 {
        self.add_at(epochs, worker, epochs.now())
    }

    /// Begins one more as if in epoch `now`, which is not before that of the one added last.
    #[inline]
    pub(crate) fn add_at(&mut self, epochs: &Epochs, worker: usize, now: u64) -> u64 {
        debug_assert!(
            self.open.back().is_none_or(|(epoch, _)| *epoch <= now),
            "pins are in the order of epochs"
        );
        match self.open.back_mut() {
            Some((epoch, count)) if *epoch == now => *count += 1,
            _ => self.open.push_back((now, 1)),
        }
        // Published again even if the epoch is the same: the worker needs the fence before it
        // looks.
        epochs.publish(worker, self.used_for, self.open[0].0);
        now
    }

    #[inline]
    pub(crate) fn remove(&mut self, epochs: &Epochs, worker: usize, epoch: u64) {
        let own = self.open.iter_mut().find(|(e, _)| *e == epoch);
        own.expect("what ends has begun").1 -= 1;
        while let Some((_, 0)) = self.open.front() {
            self.open.pop_front();
        }
        epochs.withdraw(worker, self.used_for, self.open.front().map_or(IDLE, |(epoch, _)| *epoch));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_published_whatever_ends_first() {
        let epochs = Epochs::new(1, 1);
        let mut pins = Pins::new(EpochUse::Reading);
        let first = pins.add(&epochs, 0);
        epochs.tick();
        let (second, third) = (pins.add(&epochs, 0), pins.add(&epochs, 0));
        assert_eq!((epochs.oldest(EpochUse::Reading), second), (first, third));
        pins.remove(&epochs, 0, second);
        assert_eq!(epochs.oldest(EpochUse::Reading), first);
        pins.remove(&epochs, 0, first);
        assert_eq!(epochs.oldest(EpochUse::Reading), third);
        pins.remove(&epochs, 0, third);
        assert_eq!(epochs.oldest(EpochUse::Reading), IDLE);
    }
}
