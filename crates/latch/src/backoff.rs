//! Waiting for a latch: spin while the holder is likely running, yield when it may not be, then
//! sleep.

use super::sync::{nap_us, spin_loop, yield_now};

/// Rounds of doubling spins; the last one is about half a microsecond long.
const SPIN_ROUNDS: u32 = 6;
/// Number of yields after spinning. With more threads than cores the holder may need a whole time
/// slice.
const YIELD_ROUNDS: u32 = 64;
/// Number of sleeps after yielding, 50 us each: a bounded wait ends after about 20 ms.
const NAP_ROUNDS: u32 = 400;
const NAP_US: u64 = 50;

/// A bounded wait has ended without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GaveUp;

/// One wait. Make one, and call [`Backoff::wait`] each time the condition is found false.
#[derive(Debug, Default)]
pub struct Backoff {
    round: u32,
}

impl Backoff {
    pub const fn new() -> Backoff {
        Backoff { round: 0 }
    }

    /// Waits a little, longer at each call, without limit.
    pub fn wait(&mut self) {
        let _ = self.wait_bounded();
    }

    /// As [`Backoff::wait`].
    ///
    /// # Errors
    /// [`GaveUp`] once the whole wait has lasted about 20 ms. That is far longer than a latch is
    /// held, so the caller should release its own latches and start over.
    pub fn wait_bounded(&mut self) -> Result<(), GaveUp> {
        let round = self.round;
        if round == 0 {
            probe::contended();
        }
        self.round = round.saturating_add(1);
        if round < SPIN_ROUNDS {
            (0..1u32 << round).for_each(|_| spin_loop());
        } else if round < SPIN_ROUNDS + YIELD_ROUNDS {
            yield_now();
        } else {
            nap_us(NAP_US);
        }
        if round < SPIN_ROUNDS + YIELD_ROUNDS + NAP_ROUNDS { Ok(()) } else { Err(GaveUp) }
    }
}
