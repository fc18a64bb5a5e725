//! Credits: how many messages an end may send before it hears that the other end has emptied
//! buffers.
//!
//! Each message carries, as its immediate value, the buffers that its sender has posted again since
//! the last one. An end that has nothing to send says so in a message without bytes, a *grant*, as
//! soon as it owes half of its buffers. Data costs a credit; a grant costs none, and takes one of
//! [`GRANTS`] further buffers.
//!
//! **Why two are enough.** What an end may send, its data that is under way or unread, what the
//! other end owes, and the grants under way are together [`BUFFERS`] at all times. A grant is for
//! at least half of them. So no more than two can be under way.
//!
//! The listener begins without credits, and the caller with a grant to make: until that grant has
//! come the caller may not be able to receive.

/// Receive buffers for data: 256 KiB, as in a ring of shared memory.
pub const BUFFERS: u16 = 64;
/// Receive buffers for grants.
pub const GRANTS: u16 = 2;
/// From so many buffers on a grant is made for them alone.
const WORTH_A_GRANT: u32 = BUFFERS as u32 / 2;
/// Grants that may be in the send queue at once: one that has arrived may still be there.
pub const GRANTS_QUEUED: u16 = 4;

/// The credits of one end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credits {
    /// Data messages that may be sent.
    left: u32,
    /// Buffers that were posted again, and that the other end does not know of.
    owed: u32,
    /// Grants in the send queue.
    queued: u16,
}

impl Credits {
    /// Of the end that knows the other end to be ready.
    pub fn of_caller() -> Credits {
        Credits { left: BUFFERS.into(), owed: BUFFERS.into(), queued: 0 }
    }

    /// Of the end that hears first.
    pub fn of_listener() -> Credits {
        Credits { left: 0, owed: 0, queued: 0 }
    }

    /// Whether data may be sent.
    pub fn may_send(&self) -> bool {
        self.left > 0
    }

    /// Takes the credit of a data message; returns the value that goes along.
    pub fn send(&mut self) -> u32 {
        assert!(self.may_send(), "the other end has no buffer for this message");
        self.left -= 1;
        std::mem::take(&mut self.owed)
    }

    /// Whether the other end waits for a grant, or soon will.
    pub fn owes_grant(&self) -> bool {
        self.owed >= WORTH_A_GRANT
    }

    /// Takes a grant that is to be sent now: its value.
    pub fn grant(&mut self) -> Option<u32> {
        if !self.owes_grant() || self.queued == GRANTS_QUEUED {
            return None;
        }
        self.queued += 1;
        Some(std::mem::take(&mut self.owed))
    }

    /// A grant has left the send queue.
    pub fn grant_left(&mut self) {
        self.queued -= 1;
    }

    /// A message has come with this value.
    ///
    /// # Errors
    /// More than there are buffers: the other end does not keep the rules.
    pub fn heard(&mut self, value: u32) -> Result<(), String> {
        match self.left.checked_add(value).filter(|left| *left <= BUFFERS.into()) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(format!(
                "the peer offers {value} buffers and {} are known to be free: expected at most {BUFFERS} together",
                self.left
            )),
        }
    }

    /// The buffer of a data message has been posted again.
    pub fn freed(&mut self) {
        self.owed += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// One end, with the messages that have arrived in its buffers.
    struct End {
        credits: Credits,
        /// Receive buffers that are posted.
        posted: i32,
        /// Data or not, and the value.
        arrived: VecDeque<(bool, u32)>,
        /// Buffers with data that was not read.
        unread: u32,
    }

    fn ends() -> [End; 2] {
        [Credits::of_caller(), Credits::of_listener()].map(|credits| End {
            credits,
            posted: i32::from(BUFFERS + GRANTS),
            arrived: VecDeque::new(),
            unread: 0,
        })
    }

    impl End {
        fn deliver(&mut self, is_data: bool, value: u32) {
            self.posted -= 1;
            assert!(self.posted >= 0, "a receive queue has run empty");
            self.arrived.push_back((is_data, value));
        }

        fn absorb(&mut self) {
            let Some((is_data, value)) = self.arrived.pop_front() else { return };
            self.credits.heard(value).unwrap();
            if is_data {
                self.unread += 1;
            } else {
                self.posted += 1;
            }
        }

        fn read(&mut self) {
            if self.unread > 0 {
                self.unread -= 1;
                self.posted += 1;
                self.credits.freed();
            }
        }
    }

    fn grant(ends: &mut [End; 2], at: usize) {
        if let Some(value) = ends[at].credits.grant() {
            ends[1 - at].deliver(false, value);
            ends[at].credits.grant_left();
        }
    }

    fn send(ends: &mut [End; 2], at: usize) {
        if ends[at].credits.may_send() {
            let value = ends[at].credits.send();
            ends[1 - at].deliver(true, value);
        }
    }

    /// Both ends read everything and grant all that they owe.
    fn settle(ends: &mut [End; 2]) {
        for _ in 0..4 * (BUFFERS + GRANTS) {
            for at in [0, 1] {
                ends[at].absorb();
                ends[at].read();
                grant(ends, at);
            }
        }
    }

    /// All credits of one end's sends, wherever they are.
    fn whole(ends: &[End; 2], at: usize) -> u32 {
        let other = &ends[1 - at];
        let data = other.arrived.iter().filter(|(is_data, _)| *is_data).count() as u32;
        let on_the_way: u32 = ends[at].arrived.iter().map(|(_, value)| value).sum();
        ends[at].credits.left + data + other.unread + other.credits.owed + on_the_way
    }

    #[test]
    fn a_listener_sends_nothing_before_it_has_heard_of_the_caller() {
        let mut ends = ends();
        assert!(!ends[1].credits.may_send() && ends[1].credits.grant().is_none());
        grant(&mut ends, 0);
        ends[1].absorb();
        assert!(ends[1].credits.may_send());
    }

    #[test]
    fn an_end_that_never_reads_stops_the_other_one_and_no_queue_runs_empty() {
        let mut ends = ends();
        (0..1_000).for_each(|_| send(&mut ends, 0));
        assert_eq!(ends[1].arrived.len(), usize::from(BUFFERS));
        assert!(!ends[0].credits.may_send());
    }

    #[test]
    fn more_credits_than_buffers_are_refused() {
        let mut credits = Credits::of_caller();
        assert!(credits.heard(1).is_err());
        credits.send();
        assert!(credits.heard(2).is_err() && credits.heard(u32::MAX).is_err());
        assert!(credits.heard(1).is_ok());
    }

    #[test]
    fn grants_wait_for_room_in_the_send_queue() {
        let mut credits = Credits::of_caller();
        for n in 0..GRANTS_QUEUED {
            assert_eq!(credits.grant(), Some(if n == 0 { BUFFERS.into() } else { WORTH_A_GRANT }));
            (0..WORTH_A_GRANT).for_each(|_| credits.freed());
        }
        assert!(credits.owes_grant() && credits.grant().is_none());
        credits.grant_left();
        assert_eq!(credits.grant(), Some(WORTH_A_GRANT));
    }

    proptest! {
        /// Any order of sends, arrivals, reads and grants at two ends.
        #[test]
        fn no_queue_runs_empty_and_no_credit_is_lost(steps in prop::collection::vec((0..2usize, 0..8u8), 0..3_000)) {
            let mut ends = ends();
            for (at, step) in steps {
                match step {
                    0..=3 => send(&mut ends, at),
                    4 => ends[at].absorb(),
                    5 => (0..40).for_each(|_| ends[at].absorb()),
                    6 => (0..40).for_each(|_| ends[at].read()),
                    _ => grant(&mut ends, at),
                }
                prop_assert_eq!(whole(&ends, 0), u32::from(BUFFERS));
            }
            settle(&mut ends);
            for at in [0, 1] {
                prop_assert_eq!(whole(&ends, at), u32::from(BUFFERS));
                prop_assert!(ends[at].credits.may_send(), "an end waits for credits for ever");
            }
        }
    }
}
