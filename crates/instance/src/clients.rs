//! Clients inside the worker.
//!
//! In a *closed loop* each client keeps one request going: draw, run, count, again. The latency of
//! a request counts from the end of the client's previous request. In an *open loop* requests come
//! from a [`Source`](crate::source::Source) when they are due, and open-loop clients
//! (`open_loop_client`) run them, one at a time each. The latency counts from the moment at which
//! the request was due.
//!
//! A transient abort (deadlock, time-out, an instance that is down) is retried with the same
//! request as [`traffic::Retries`] says, and the latency keeps counting. Any other abort ends the
//! request. A full device ends the load: a run without changes would measure another one.
//!
//! A request that has its home at another instance is counted there when it commits, and timed
//! here, at its client. The same holds for a request that another worker of this instance runs as a
//! whole ([`forwarding`](crate::owners::forwarding)).
//!
//! On the whole way from here to a row, a future is pinned where it is made (`pin!(f()).await`).
//! Awaiting it by value copies it twice, and the futures of a transaction, nested ten deep, are
//! hundreds of bytes long.

use crate::counts::Reach;
use crate::home;
use crate::local::{Keys, Local};
use crate::owners::forwarding::ReplySlot;
use crate::source::Due;
use base::InstanceId;
use exec::{Engine, KeyOwners, Prefetch};
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use traffic::Retries;
use txn::{Abort, Clients, Generator, Workload};
use wire::Frame;

/// The shortest pause, in ns, before a client retries a request at an instance that is down.
const DOWN_NS: u64 = 1_000_000;

/// One worker's part of `sites`; all parts have about the same size. `None` if there are fewer
/// sites than workers.
fn share_of(sites: &Range<u32>, worker: usize, workers: usize) -> Option<Range<u32>> {
    let start_of = |worker: usize| sites.start + (sites.len() * worker / workers) as u32;
    (sites.len() >= workers).then(|| start_of(worker)..start_of(worker + 1))
}

/// Whether a client goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Draw,
    Stop,
}

/// Whether the worker may have run other tasks while a request ran.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stay {
    /// Perhaps it ran only this request.
    Kept,
    Left,
}

/// With more clients than this at a worker, rows are not prefetched ahead of a request's turn.
/// Measured: with 64 clients prefetching gains, with 1,000 it loses.
const NEAR: usize = 64;

/// One client's requests, under the workload's present options.
struct Requests<W: Workload, E: Prefetch> {
    generator: W::Generator,
    /// The number of the stream within the instance.
    stream: u64,
    routed: bool,
    slot: ReplySlot,
    mix: u32,
    prefetch_list: E::PrefetchList,
}

impl<W: Workload, E: Prefetch> Requests<W, E> {
    fn new(local: &Local<W, E>, stream: u64, slot: ReplySlot) -> Requests<W, E> {
        let routed = local.workload().clients() == Clients::Routed && !local.is_alone();
        let (generator, mix) = (local.generator(stream), local.clients.mix.get().number);
        Requests { generator, stream, routed, slot, mix, prefetch_list: E::PrefetchList::default() }
    }

    /// Makes a new generator if the options have changed.
    #[inline]
    fn follow(&mut self, local: &Local<W, E>) {
        if self.mix != local.clients.mix.get().number {
            *self = Requests::new(local, self.stream, self.slot);
        }
    }
}

/// The closed loop of one client.
pub(crate) async fn closed_loop_client<W: Workload, E: Prefetch>(
    local: Rc<Local<W, E>>,
    stream: u64,
    retries: Retries,
) {
    let mut txn = local.take_txn();
    let mut requests = Requests::new(&local, stream, local.forwarding.take_slot());
    let mut since_ns = world::now_ns();
    let mut stay = Stay::Left;
    while !local.clients.halting.get() {
        requests.follow(&local);
        let request = requests.generator.next();
        // While other tasks run, the rows of this request are prefetched.
        local.prefetch_request(&request, &mut requests.prefetch_list);
        if stay == Stay::Kept || local.batches.is_some() {
            pin!(local.turn_of(&request)).await;
            if local.clients.halting.get() {
                break;
            }
            if requests.mix != local.clients.mix.get().number {
                continue;
            }
        }
        local.prefetch_rows(&mut requests.prefetch_list);
        // The future is made where it runs. Made in a variable first, its thousands of bytes would
        // be moved for each request.
        let next;
        (next, stay, since_ns) =
            pin!(to_its_end(&local, &request, &requests, &mut txn, since_ns, retries)).await;
        if next == Next::Stop {
            break;
        }
    }
    local.forwarding.give_slot(requests.slot);
    local.spares.give_txn(txn);
    local.clients.running.set(local.clients.running.get() - 1);
}

/// An open-loop client: runs the requests that are due, one at a time.
pub(crate) async fn open_loop_client<W: Workload, E: Prefetch>(
    local: Rc<Local<W, E>>,
    stream: u64,
    retries: Retries,
) {
    let mut txn = local.take_txn();
    let mut requests = Requests::new(&local, stream, local.forwarding.take_slot());
    let mut stay = Stay::Left;
    while let Some(due) = next_due(&local).await {
        requests.follow(&local);
        let stored = due.terminal.and_then(|t| local.clients.source.borrow_mut().as_mut()?.request_of(t));
        let request = stored.unwrap_or_else(|| requests.generator.next());
        local.prefetch_request(&request, &mut requests.prefetch_list);
        if stay == Stay::Kept || local.batches.is_some() {
            pin!(local.turn_of(&request)).await;
        }
        local.prefetch_rows(&mut requests.prefetch_list);
        let (next, now);
        (next, stay, now) =
            pin!(to_its_end(&local, &request, &requests, &mut txn, due.since_ns, retries)).await;
        if let (Some(terminal), Some(source)) = (due.terminal, local.clients.source.borrow_mut().as_mut()) {
            source.answered(&local.workload(), terminal, &request, now);
        }
        if next == Next::Stop {
            break;
        }
    }
    local.forwarding.give_slot(requests.slot);
    local.spares.give_txn(txn);
    local.clients.running.set(local.clients.running.get() - 1);
}

/// The next request that is due; `None` when the load ends.
async fn next_due<W: Workload, E: Engine>(local: &Local<W, E>) -> Option<Due> {
    std::future::poll_fn(|cx| {
        if local.clients.halting.get() {
            return Poll::Ready(None);
        }
        let mut source = local.clients.source.borrow_mut();
        let Some(source) = source.as_mut() else { return Poll::Ready(None) };
        source.release(world::now_ns());
        match source.take() {
            Some(due) => Poll::Ready(Some(due)),
            None => {
                if !source.idle.iter().any(|w| w.will_wake(cx.waker())) {
                    source.idle.push(cx.waker().clone());
                }
                probe::parks_untimed(Poll::Pending)
            }
        }
    })
    .await
}

/// The arrival timer: wakes open-loop clients for the requests that are due, and sets a timer for
/// the next one.
pub(crate) async fn arrival_timer<W: Workload, E: Engine>(local: Rc<Local<W, E>>) {
    std::future::poll_fn(|cx| {
        if local.clients.halting.get() {
            return Poll::Ready(());
        }
        let mut source = local.clients.source.borrow_mut();
        let Some(source) = source.as_mut() else { return Poll::Ready(()) };
        let now = world::now_ns();
        source.release(now);
        source.wanted().for_each(std::task::Waker::wake);
        if let Some(at_ns) = source.timer_ns(now) {
            local.executor.timer(at_ns, cx.waker().clone());
        }
        source.arrival_timer = Some(cx.waker().clone());
        probe::parks_untimed(Poll::Pending)
    })
    .await;
    local.clients.running.set(local.clients.running.get() - 1);
}

/// Runs a request until it commits, is answered otherwise, or is given up. Returns the time of that
/// end.
async fn to_its_end<W: Workload, E: Prefetch>(
    local: &Local<W, E>,
    request: &W::Request,
    of: &Requests<W, E>,
    txn: &mut E::LocalTxn,
    since_ns: u64,
    retries: Retries,
) -> (Next, Stay, u64) {
    let mut tries = 0;
    loop {
        let (outcome, stay, now) = pin!(one_try(local, request, of, txn, since_ns)).await;
        let abort = match outcome {
            Ok(()) => return (Next::Draw, stay, now),
            Err(Abort::Fault) => return (Next::Stop, stay, now),
            Err(Abort::NoSpace) if local.shared.is_load_over() => return (Next::Stop, stay, now),
            Err(abort) if !abort.is_transient() => return (Next::Draw, stay, now),
            Err(_) if local.clients.halting.get() => return (Next::Stop, stay, now),
            Err(abort) => abort,
        };
        tries += 1;
        let Some(pause) = retries.pause(tries, base::hash64(&now.to_le_bytes())) else {
            local.measuring.counts.borrow_mut().given_up += 1;
            return (Next::Draw, stay, now);
        };
        local.measuring.counts.borrow_mut().retries += 1;
        let least = if abort == Abort::InstanceDown { DOWN_NS } else { 0 };
        match (pause.as_nanos() as u64).max(least) {
            0 => exec::yield_now().await,
            ns => Box::pin(local.sleep(ns)).await,
        }
    }
}

async fn one_try<W: Workload, E: Prefetch>(
    local: &Local<W, E>,
    request: &W::Request,
    of: &Requests<W, E>,
    txn: &mut E::LocalTxn,
    since_ns: u64,
) -> (Result<(), Abort>, Stay, u64) {
    let home = if of.routed { local.home_of(request) } else { local.me() };
    let done = if home != local.me() {
        // Counted where it runs.
        (Box::pin(local.submit_elsewhere(home, request)).await, Stay::Left, world::now_ns())
    } else {
        match local.keys_of(request) {
            Keys::At(worker) => {
                let outcome = pin!(local.run_by(worker, of.slot, request)).await;
                (outcome, Stay::Left, local.forwarding.answered_ns.get())
            }
            keys => {
                local.flush_forwarded();
                let outcome =
                    pin!(home::run(local, (request, keys), txn, None)).await.map(|(_, reach)| reach);
                let now = world::now_ns();
                local.count(request, outcome, now);
                (outcome.map(drop), Stay::Kept, now)
            }
        }
    };
    if done.0.is_ok() {
        local.answered(request, done.2.saturating_sub(since_ns));
    }
    done
}

impl<W: Workload, E: Prefetch> Local<W, E> {
    /// Prefetches the index entries of the rows that a request names. The request runs a little
    /// later.
    #[inline]
    fn prefetch_request(&self, request: &W::Request, prefetch_list: &mut E::PrefetchList) {
        if E::PREFETCHES && self.occ.prefetches_requests && self.clients.running.get() <= NEAR {
            let engine = &self.shared.engine;
            let mut want = |table, key: &[u8]| engine.prefetch_hint(&self.ctx, prefetch_list, table, key);
            self.workload.borrow().wants(request, &mut want);
        }
    }

    /// Prefetches the rows themselves. Their request runs next.
    #[inline]
    fn prefetch_rows(&self, prefetch_list: &mut E::PrefetchList) {
        if E::PREFETCHES {
            self.shared.engine.prefetch_rows(&self.ctx, prefetch_list);
        }
    }
}

impl<W: Workload, E: Engine> Local<W, E> {
    /// Waits for the turn of a request: other tasks run first, or those of its kind wait for each
    /// other.
    async fn turn_of(&self, request: &W::Request) {
        match &self.batches {
            Some(batches) => {
                let kind = self.workload.borrow().kind(request);
                batches.join(kind).await;
            }
            None => exec::yield_now().await,
        }
    }

    /// Counts a transaction that has its home here.
    #[inline]
    pub(crate) fn count(&self, request: &W::Request, outcome: Result<Reach, Abort>, now_ns: u64) {
        let mut counts = self.measuring.counts.borrow_mut();
        let kind = self.workload.borrow().kind(request);
        match outcome {
            Ok(reach) => counts.committed(kind, reach, now_ns),
            Err(abort) => counts.aborted(kind, abort, now_ns),
        }
    }

    /// Records the latency of a request of a client here, or of one that reports no latency itself.
    #[inline]
    pub(crate) fn answered(&self, request: &W::Request, latency_ns: u64) {
        let kind = self.workload.borrow().kind(request);
        self.measuring.counts.borrow_mut().answered(kind, latency_ns);
    }

    /// Stream `stream` of this instance: requests that this worker's clients may send. They are
    /// bound to the sites that the worker owns, if it owns any.
    pub(crate) fn generator(&self, stream: u64) -> W::Generator {
        let own = self.owners().map(|owners| owners.sites_of(&self.ctx)).filter(|sites| !sites.is_empty());
        self.generator_over(stream, own.or_else(|| self.share_of_sites()))
    }

    /// The sites that are home to this worker's clients, if each worker's clients have sites of
    /// their own.
    fn share_of_sites(&self) -> Option<Range<u32>> {
        let config = &self.shared.config;
        let is_for = self.workload.borrow().clients() == Clients::Homed;
        is_for.then(|| share_of(&config.placement.sites_of(self.me()), self.worker, config.workers()))?
    }

    /// As [`Local::generator`], for terminals. Each terminal stays at one site of the instance.
    pub(crate) fn generator_of_terminals(&self, stream: u64) -> W::Generator {
        self.generator_over(stream, None)
    }

    fn generator_over(&self, stream: u64, bound: Option<Range<u32>>) -> W::Generator {
        let placement = &self.shared.config.placement;
        let workload = self.workload();
        let sites = match workload.clients() {
            Clients::Bound | Clients::Homed => bound.unwrap_or_else(|| placement.sites_of(self.me())),
            Clients::Routed => 0..placement.sites(),
        };
        workload.generator(self.clients.mix.get().seed.wrapping_add(stream), sites)
    }

    fn home_of(&self, request: &W::Request) -> InstanceId {
        let mut home = None;
        self.workload.borrow().routes(request, &mut |route| {
            home.get_or_insert(self.owner(route));
        });
        home.unwrap_or(self.me())
    }

    /// Runs a request at its home, as an outside client would.
    async fn submit_elsewhere(&self, home: InstanceId, request: &W::Request) -> Result<(), Abort> {
        let link = self.links.to(home).ok_or(Abort::InstanceDown)?;
        let guard = self.new_gtid();
        let slot = self.calls.open(guard, link);
        let mut bytes = Vec::new();
        W::encode_request(request, &mut bytes);
        let call = guard.number << 32 | u64::from(slot);
        if let Err(unsent) = self.send(link, &Frame::Submit { call, request: &bytes }) {
            self.calls.abandon(slot);
            return Err(unsent.into());
        }
        let reply = std::future::poll_fn(|cx| probe::parks_untimed(self.calls.poll(slot, cx))).await;
        let outcome = reply.outcome.map(|_| ());
        self.calls.recycle(reply);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_the_sites_and_leave_none() {
        for (first, sites, workers) in [(0, 1, 1), (3, 2, 2), (0, 7, 3), (5, 24, 5), (0, 1000, 64)] {
            let all = first..first + sites;
            let parts: Vec<_> = (0..workers).map(|w| share_of(&all, w, workers).unwrap()).collect();
            assert!(parts.iter().cloned().flatten().eq(all.clone()), "{parts:?}");
            let lengths = || parts.iter().map(ExactSizeIterator::len);
            assert!(lengths().max().unwrap() <= lengths().min().unwrap() + 1, "{parts:?}");
        }
        assert_eq!(share_of(&(0..3), 0, 4), None, "then every client comes to every site");
    }
}
