//! After a restart, an instance admits no transaction before its peers know of the restart.
//!
//! A transaction's reads at an instance are protected by the memory of that instance alone: by
//! locks, or by the marks that validation left. This protection is lost in a crash. The
//! transaction's home may be about to commit, so it must learn of the crash before another
//! transaction can change the rows that were read. The home sees that its link breaks, but perhaps
//! only after the instance has restarted.
//!
//! ```text
//!   home                                          reader
//!     |------- steps + prepare, ahead ------------> life 1: reads x
//!     |<------ results + ReadOnly ----------------- keeps x from others
//!     |                                             crashes
//!     |<------ Hello, life 2 ---------------------- life 2: admits no link
//!   every worker: links of life 1 break,
//!   undecided transactions with steps there abort
//!     |------- Known, life 2 ---------------------> all peers know: admission
//!                                                   others may change x
//! ```
//!
//! 1. A link that one instance opens to another starts with the opener's life ([`wire::Hello`]).
//! 2. An instance acknowledges a life ([`Frame::Known`](wire::Frame::Known)) after each of its
//!    workers has broken the links from and to earlier lives of that peer. By then its coordinators
//!    have been fed `PeerLost` ([`Shared::meet`]).
//! 3. In a life other than the first, links that clients and peers open wait for admission,
//!    and so does the load of the instance's own clients. The instance's own links to peers are
//!    open, so transactions in doubt are settled meanwhile.
//! 4. Admission opens when every peer has acknowledged this life.
//! 5. It also opens after [`closed_ns`], since peers may be down or out of reach. This is safe
//!    because no home decides Commit for a transaction older than its time-out
//!    ([`Home::on`](crate::state::Home::on)): a coordinator that the new life could not warn has
//!    given up. It requires the same time-out at all instances, and clocks that run, at rates
//!    within a fifth of each other.
//!
//! No admission waits for another: an acknowledgement needs the listener and the workers,
//! which run from the start. So instances that restart together open as soon as all of them listen,
//! and one that stays down delays the others once, by [`closed_ns`].

mod admission;

pub(crate) use admission::{Lives, Opening, closed_ns};

use crate::links::Peer;
use crate::orders::WorkerOrder;
use crate::shared::Shared;
use admission::{Admission, is_first};
use base::InstanceId;
use channel::Link;
use exec::Engine;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use txn::Workload;

/// How often the wait for the workers checks whether the instance is to stop.
const LOOK: Duration = Duration::from_millis(20);

impl<W: Workload, E: Engine> Shared<W, E> {
    /// A distributed transaction that is undecided after this time, in ns, is given up. It is never
    /// decided Commit.
    pub fn give_up_ns(&self) -> u64 {
        self.config.options.distributed_timeout_ns()
    }

    /// Hands a link that was opened to this instance to its worker, once admission is open.
    pub fn let_in(&self, worker: usize, link: Link, peer: Peer) {
        let mut admission = self.opening.admission();
        if admission.unaware.is_empty() {
            drop(admission);
            self.inboxes[worker].put(WorkerOrder::Link(link, peer));
        } else {
            admission.waiting.push((worker, link, peer));
        }
    }

    /// A peer knows of this life.
    pub fn acknowledged(&self, peer: InstanceId) {
        if !self.opening.is_open.load(Ordering::Acquire) {
            let mut admission = self.opening.admission();
            admission.unaware.remove(&peer);
            self.open_if_all_know(admission);
        }
    }

    /// Opens admission when it has been closed for long enough.
    pub fn open_in_time(&self, now_ns: u64) {
        if now_ns >= self.opening.by_ns && !self.opening.is_open.load(Ordering::Acquire) {
            let mut admission = self.opening.admission();
            admission.unaware.clear();
            self.open_if_all_know(admission);
        }
    }

    fn open_if_all_know(&self, mut admission: MutexGuard<'_, Admission>) {
        if !admission.unaware.is_empty() {
            return;
        }
        for (worker, link, peer) in admission.waiting.drain(..) {
            self.inboxes[worker].put(WorkerOrder::Link(link, peer));
        }
        self.opening.is_open.store(true, Ordering::Release);
        drop(admission);
        self.opening.opened.notify_all();
    }

    /// Called for a link of this life of a peer. Returns whether the link may be used: yes, after
    /// every worker has given up the state that depends on the peer's earlier lives. No, if this
    /// life is over, or if this instance is about to stop.
    pub fn meet(&self, peer: InstanceId, life: u32, stop: &AtomicBool) -> bool {
        let mut lives = self.lives.lock().expect("no holder of this lock panics");
        let known = lives.get(&peer).copied().unwrap_or(0);
        if life < known {
            return false;
        }
        // No state depends on a life before the first.
        if life > known && !is_first(life) && !self.give_up_earlier(peer, life, stop) {
            return false;
        }
        lives.insert(peer, life);
        true
    }

    fn give_up_earlier(&self, peer: InstanceId, life: u32, stop: &AtomicBool) -> bool {
        let (done, answers) = mpsc::channel();
        self.order_all(|| WorkerOrder::Reborn { peer, life, done: done.clone() });
        let mut missing = self.inboxes.len();
        while missing > 0 {
            match answers.recv_timeout(LOOK) {
                Ok(()) => missing -= 1,
                Err(RecvTimeoutError::Timeout) if !stop.load(Ordering::Acquire) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_life_and_an_instance_alone_wait_for_no_peer() {
        for (life, instances) in [(1, 3), (5, 1)] {
            assert!(Opening::new(InstanceId(0), life, instances, 0).admission().unaware.is_empty());
        }
        let unaware = Opening::new(InstanceId(1), 2, 3, 0).admission().unaware.clone();
        assert_eq!(unaware.into_iter().collect::<Vec<_>>(), [InstanceId(0), InstanceId(2)]);
    }

    #[test]
    fn a_waiting_thread_goes_on_when_time_is_up() {
        Opening::new(InstanceId(0), 2, 2, world::now_ns()).wait();
        assert_eq!(closed_ns(2_000_000_000), 2_500_000_000);
    }
}
