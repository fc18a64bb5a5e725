//! The tasks at both ends of request forwarding ([`forwarding`](super::forwarding)): the client
//! that has a request run by another worker, and the task that runs the requests of other workers.
//!
//! ```text
//!   client: run_by --- forward ---> task: take, run, count, answer
//!           ... <------ answer -----------------------/
//! ```
//!
//! The worker that runs a request counts it; the client measures its latency.

use super::forwarding::{ForwardedRequest, ReplySlot};
use crate::home;
use crate::local::Local;
use exec::Engine;
use probe::Role;
use std::pin::pin;
use std::rc::Rc;
use txn::{Abort, Workload};

/// How many forwarded requests one task runs before this worker's own requests have their turn.
const RUN: usize = 32;
/// A task reads the clock once for this many requests.
const CLOCK: usize = 8;

/// Runs the requests that other workers of the instance forward to this one.
async fn forwarded_request_task<W: Workload, E: Engine>(local: Rc<Local<W, E>>) {
    let forwarding = &local.forwarding;
    let mut txn = local.take_txn();
    loop {
        let (mut run, mut now) = (0, 0);
        while let Some(ForwardedRequest { from, slot, request }) = forwarding.take() {
            // This request may have to wait: then another task takes the following ones.
            forwarding.called.set(false);
            local.flush_forwarded();
            let keys = local.keys_of(&request);
            let outcome =
                pin!(home::run(&local, (&request, keys), &mut txn, None)).await.map(|(_, reach)| reach);
            forwarding.answer(from, slot, outcome.map(drop));
            // The client measures the latency. The time here only puts the count into the right
            // second.
            if run % CLOCK == 0 {
                now = world::now_ns();
            }
            local.count(&request, outcome, now);
            run += 1;
            if run == RUN {
                break;
            }
        }
        if run == RUN {
            forwarding.called.set(true);
            exec::yield_now().await;
        } else {
            std::future::poll_fn(|cx| probe::parks_untimed(forwarding.poll_idle(cx))).await;
        }
    }
}

impl<W: Workload, E: Engine> Local<W, E> {
    /// Has another worker of this instance run a request of which it owns all keys. That worker
    /// counts it.
    pub(crate) async fn run_by(
        &self,
        worker: usize,
        slot: ReplySlot,
        request: &W::Request,
    ) -> Result<(), Abort> {
        probe::communicating(|| self.forwarding.forward(worker, slot, request.clone()));
        std::future::poll_fn(|cx| probe::parks_untimed(self.forwarding.poll(slot, cx))).await
    }

    /// Wakes the clients of which answers have come from other workers, and makes sure that a
    /// task takes the requests that other workers have forwarded.
    pub(crate) fn receive_forwarded(self: &Rc<Self>) -> bool {
        let forwarding = &self.forwarding;
        let any = probe::communicating(|| forwarding.take_answers());
        if any {
            forwarding.answered_ns.set(world::now_ns());
        }
        if !forwarding.has_requests() {
            return any;
        }
        if !forwarding.called.get() {
            let called = match forwarding.idle_task() {
                Some(task) => {
                    task.wake();
                    true
                }
                // With every task slot taken, the requests wait until a task is free.
                None => {
                    self.executor.spawn(probe::charged(Role::Home, forwarded_request_task(Rc::clone(self))))
                }
            };
            forwarding.called.set(called);
        }
        true
    }

    /// Publishes the requests and answers that were staged since the last call.
    #[inline]
    pub(crate) fn flush_forwarded(&self) {
        self.forwarding.flush(|worker| self.shared.inboxes[worker].wake());
    }
}
