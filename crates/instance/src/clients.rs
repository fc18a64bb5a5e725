//! Clients inside the worker: each keeps one request going, draw, run, count, again (a closed loop).
//!
//! A transient abort (deadlock, time-out, an instance that is down) is tried again with the same request, at once, and its
//! latency goes on from the first try; any other abort ends the request.
//!
//! Here as on the whole way to a row a future is pinned where it was made (`pin!(f()).await`): awaiting it by value copies it
//! twice, and those of a transaction that nests ten deep are hundreds of bytes long.

use crate::counts::Reach;
use crate::home;
use crate::local::Local;
use base::InstanceId;
use exec::{Design, Part};
use std::pin::pin;
use std::rc::Rc;
use txn::{Abort, Clients, Generator, Workload};
use wire::Frame;

/// How long a client waits before it asks again for an instance that is down, ns.
const DOWN_NS: u64 = 1_000_000;

/// What a client does after a try.
enum Next {
    Draw,
    Again,
    Stop,
}

pub(crate) async fn client<W: Workload, D: Design>(local: Rc<Local<W, D>>, mut requests: W::Generator) {
    let mut part = local.take_part();
    let routed = local.workload.borrow().clients() == Clients::Routed && !local.is_alone();
    let mut started = world::now_ns();
    'requests: while !local.halting.get() {
        let request = requests.next();
        loop {
            match pin!(one_try(&local, &request, routed, &mut part, &mut started)).await {
                Next::Draw => break,
                Next::Again => {}
                Next::Stop => break 'requests,
            }
        }
        exec::yield_now().await;
    }
    local.give_part(part);
    local.clients.set(local.clients.get() - 1);
}

async fn one_try<W: Workload, D: Design>(
    local: &Local<W, D>,
    request: &W::Request,
    routed: bool,
    part: &mut Part,
    started: &mut u64,
) -> Next {
    let home = if routed { local.home_of(request) } else { local.me() };
    let outcome = if home == local.me() {
        let outcome = pin!(home::run(local, request, part)).await.map(|(_, reach)| reach);
        let now = world::now_ns();
        local.count(request, outcome, now - *started);
        outcome.map(|_| now)
    } else {
        // Counted and timed where it runs.
        Box::pin(local.submit_elsewhere(home, request)).await.map(|()| world::now_ns())
    };
    match outcome {
        Ok(now) => {
            *started = now;
            Next::Draw
        }
        Err(Abort::Fault) => Next::Stop,
        Err(abort) if !abort.is_transient() => {
            *started = world::now_ns();
            Next::Draw
        }
        Err(_) if local.halting.get() => Next::Stop,
        Err(abort) => {
            if abort == Abort::InstanceDown {
                Box::pin(local.sleep(DOWN_NS)).await;
            }
            Next::Again
        }
    }
}

impl<W: Workload, D: Design> Local<W, D> {
    pub(crate) fn count(&self, request: &W::Request, outcome: Result<Reach, Abort>, latency_ns: u64) {
        let mut counts = self.counts.borrow_mut();
        let kind = self.workload.borrow().kind(request);
        match outcome {
            Ok(reach) => counts.committed(kind, reach, latency_ns),
            Err(abort) => counts.aborted(kind, abort),
        }
    }

    fn home_of(&self, request: &W::Request) -> InstanceId {
        let mut home = None;
        self.workload.borrow().routes(request, &mut |route| {
            home.get_or_insert(self.owner(route));
        });
        home.unwrap_or(self.me())
    }

    /// Has a request run at its home, as a client from outside would.
    async fn submit_elsewhere(&self, home: InstanceId, request: &W::Request) -> Result<(), Abort> {
        let link = self.links.to(home).ok_or(Abort::InstanceDown)?;
        let guard = self.new_gtid();
        let slot = self.calls.open(guard, link);
        let bytes = postcard::to_stdvec(request).expect("requests are plain values");
        let call = guard.number << 32 | u64::from(slot);
        if !self.send(link, &Frame::Submit { call, request: &bytes }) {
            self.calls.abandon(slot);
            return Err(Abort::InstanceDown);
        }
        // Its time is that of the transaction's home.
        let reply = std::future::poll_fn(|cx| probe::parks_untimed(self.calls.poll(slot, cx))).await;
        let outcome = reply.outcome.map(|_| ());
        self.calls.recycle(reply);
        outcome
    }
}
