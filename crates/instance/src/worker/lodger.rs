//! The worker as a lodger: on a thread of which the loop is another's ([`channel::lodging`]).

use super::{LATE_NS, TICK_NS, Worker};
use crate::links::Ask;
use channel::Doze;
use channel::lodging::{Resident, Round};
use exec::{Load, Maintenance, Prefetch};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;
use txn::Workload;

impl<W: Workload, E: Load + Maintenance + Prefetch> Resident for Worker<W, E> {
    fn round(&mut self) -> Round {
        if self.stop {
            return Round::Ended;
        }
        // What the other inhabitants of the thread have just sent is worked on in this round.
        let received = self.receive(Ask::Rings);
        let worked = self.work(world::now_ns());
        if received || worked { Round::Worked } else { Round::Idle }
    }

    fn time_left(&self) -> Duration {
        let now = world::now_ns();
        // With a source of requests the kernel must not wake the thread late: see `rest`.
        let early = if self.local.clients.source.borrow().is_some() { 2 * LATE_NS } else { 0 };
        Duration::from_nanos(self.next_time().saturating_sub(now + early).min(TICK_NS))
    }

    fn may_sleep(&mut self) -> bool {
        self.parker.doze(|| self.is_idle()) == Doze::MaySleep
    }

    fn awake(&mut self) {
        self.parker.rise();
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.parker.as_fd()
    }

    fn take_events(&mut self) {
        self.parker.take_events();
    }

    fn end(self: Box<Self>) {
        self.finish();
    }
}
