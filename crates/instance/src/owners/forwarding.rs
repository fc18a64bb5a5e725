//! Request forwarding: if another worker of the instance owns all keys of a request, the request is
//! forwarded to that worker whole. It runs there like a request of the worker's own clients.
//!
//! ```text
//!   worker 0                                              worker 1
//!   a client draws a request; worker 1 owns all its keys
//!   forward - ring of requests, published soon -----------> a task runs it all
//!   the client goes on <--- ring of answers, likewise -------- answer
//! ```
//!
//! The alternative is to run the procedure where the request came in and to send its steps
//! ([`visits`](super::visits)). Then each phase costs a message there and one back, the commit
//! costs another, and steps that come from elsewhere take locks. Forwarded whole, a transaction
//! with one owner needs two small messages and no lock (thesis, section 3.2.2: a request is routed
//! to the owner of its data). The worker that receives a request runs it wherever its keys are by
//! then. The request therefore carries no map version.
//!
//! # Access rules
//!
//! A [`Forwarding`] belongs to its worker's thread. The rings ([`Mesh`]), one for each direction of
//! each pair of workers, are the only memory that two workers touch.
//!
//! Requests and answers are staged, and published together with one wake-up
//! ([`Forwarding::flush`]): before the worker runs its next transaction, and at the end of each
//! turn of its tasks. Those that clients draw one after the other share the cost of the cache line
//! that moves, and of the check whether the other worker sleeps. None waits while this worker runs
//! a transaction: the other worker would often have nothing to do meanwhile. A worker that finds
//! requests wakes one task for them, which continues until none is left. If that task has to wait
//! within a transaction, the next poll wakes another.
//!
//! # Three queues
//!
//! A worker hears from other threads of its instance through three queues. They differ in their
//! writers, in the moment of a wake-up, and in the moment at which a message is taken:
//!
//! | queue | written by | wakes the worker | taken |
//! |---|---|---|---|
//! | mailbox of `exec` (steps, commits, waits of owners) | a worker | at each message | each turn |
//! | these rings (whole requests, answers) | a worker | before a transaction | by a free task |
//! | inbox under a mutex ([`Inbox`]) | any thread | at each order | each turn |
//!
//! The two kinds of rings are one type, [`Mesh`]. They are not one ring: a request in front of a
//! step would have to be taken before the step, and stored until a task is free; the ring is that
//! store, and its room limits the requests that another worker can have waiting here. And a step
//! cannot wait for the end of the turn, because a transaction that holds locks waits for it.
//!
//! The inbox stays apart because a ring has one writer, and orders come from the listener, the
//! connector, the balancer and the owner of the instance. Orders are rare, and an empty inbox costs
//! one load.
//!
//! [`Inbox`]: crate::shared::Inbox

use latch::{Consumer, Ends, Mesh, Outgoing};
use probe::Section;
use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};
use txn::Abort;

/// Capacity of a ring, for requests and likewise for answers. Requests beyond it wait at the
/// sender.
const ROOM: usize = if cfg!(test) { 2 } else { 256 };

/// The outcome of a forwarded request.
type Outcome = Result<(), Abort>;

/// A client's number at its worker; answers are addressed to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReplySlot(u32);

/// A request of another worker's client.
pub(crate) struct ForwardedRequest<R> {
    pub from: usize,
    pub slot: ReplySlot,
    pub request: R,
}

/// One worker's ends of the rings to and from one other worker.
struct Lane<R> {
    /// Requests of this worker's clients, for the other worker.
    requests: Outgoing<(ReplySlot, R)>,
    /// Answers to the other worker's clients.
    answers: Outgoing<(ReplySlot, Outcome)>,
    /// Requests of the other worker's clients.
    forwarded: Consumer<(ReplySlot, R)>,
    /// Answers to this worker's clients.
    answered: Consumer<(ReplySlot, Outcome)>,
    /// Whether the other worker is listed in [`Forwarding::unsent`].
    is_listed: bool,
}

/// The ends of the rings of all workers, until each worker takes its own.
pub(crate) struct ForwardRings<R> {
    requests: Mesh<(ReplySlot, R)>,
    answers: Mesh<(ReplySlot, Outcome)>,
}

/// By the number of the other worker; `None` at the worker's own number.
type Lanes<R> = Vec<Option<Lane<R>>>;

impl<R> ForwardRings<R> {
    /// Rings between each two of `workers` workers.
    pub fn between(workers: usize) -> ForwardRings<R> {
        ForwardRings { requests: Mesh::between(workers, ROOM), answers: Mesh::between(workers, ROOM) }
    }

    /// # Panics
    /// If the worker has taken its ends before.
    pub fn take(&self, worker: usize) -> Forwarding<R> {
        Forwarding::over(lanes(self.requests.take(worker), self.answers.take(worker)))
    }
}

/// Joins the ends that lead to and from the same worker.
fn lanes<R>(requests: Ends<(ReplySlot, R)>, answers: Ends<(ReplySlot, Outcome)>) -> Lanes<R> {
    let to = requests.to.into_iter().zip(answers.to);
    let from = requests.from.into_iter().zip(answers.from);
    let lane = |(to, from)| match (to, from) {
        ((Some(requests), Some(answers)), (Some(forwarded), Some(answered))) => {
            Some(Lane { requests, answers, forwarded, answered, is_listed: false })
        }
        _ => None,
    };
    to.zip(from).map(lane).collect()
}

/// The state of a client that waits for an answer.
#[derive(Default)]
struct Waiting {
    waker: Option<Waker>,
    outcome: Option<Outcome>,
}

/// One worker's side of request forwarding.
pub(crate) struct Forwarding<R> {
    lanes: RefCell<Lanes<R>>,
    /// The workers for which a request or an answer was staged since the last flush, or found no
    /// room.
    unsent: RefCell<Vec<usize>>,
    /// The worker from which the next request is taken first.
    next: Cell<usize>,
    slots: RefCell<Vec<Waiting>>,
    free: RefCell<Vec<ReplySlot>>,
    /// Tasks that wait for requests.
    idle: RefCell<Vec<Waker>>,
    /// Whether a task was woken that has not taken a request yet.
    pub called: Cell<bool>,
    /// Requests of other workers that were begun here and are not answered.
    running: Cell<usize>,
    /// When the last answers arrived. Answers that arrive together share this time.
    pub answered_ns: Cell<u64>,
}

impl<R> Forwarding<R> {
    /// No forwarding: no worker owns keys that another worker's clients may ask for.
    pub fn none() -> Forwarding<R> {
        Forwarding::over(Vec::new())
    }

    fn over(lanes: Lanes<R>) -> Forwarding<R> {
        Forwarding {
            lanes: RefCell::new(lanes),
            unsent: RefCell::default(),
            next: Cell::new(0),
            slots: RefCell::default(),
            free: RefCell::default(),
            idle: RefCell::default(),
            called: Cell::new(false),
            running: Cell::new(0),
            answered_ns: Cell::new(0),
        }
    }

    /// A reply slot for a client of this worker, until [`Forwarding::give_slot`].
    pub fn take_slot(&self) -> ReplySlot {
        self.free.borrow_mut().pop().unwrap_or_else(|| {
            let mut slots = self.slots.borrow_mut();
            slots.push(Waiting::default());
            ReplySlot(slots.len() as u32 - 1)
        })
    }

    /// Frees a reply slot.
    pub fn give_slot(&self, slot: ReplySlot) {
        self.free.borrow_mut().push(slot);
    }

    /// Has worker `to` run a request. Its outcome comes to the slot, which must have no other
    /// request under way.
    ///
    /// # Panics
    /// If `to` is this worker, or does not exist.
    #[inline]
    pub fn forward(&self, to: usize, slot: ReplySlot, request: R) {
        let mut lanes = self.lanes.borrow_mut();
        let lane = lanes[to].as_mut().expect("no ring to itself");
        lane.requests.stage((slot, request));
        self.list(to, lane);
    }

    fn list(&self, to: usize, lane: &mut Lane<R>) {
        if !std::mem::replace(&mut lane.is_listed, true) {
            self.unsent.borrow_mut().push(to);
        }
    }

    /// The outcome of the request that was forwarded for this slot, once it has arrived.
    #[inline]
    pub fn poll(&self, slot: ReplySlot, cx: &mut Context<'_>) -> Poll<Outcome> {
        let mut slots = self.slots.borrow_mut();
        let waiting = &mut slots[slot.0 as usize];
        if let Some(outcome) = waiting.outcome.take() {
            return Poll::Ready(outcome);
        }
        if !waiting.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            waiting.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// The next request of another worker's client, taking the workers in turn. The caller must
    /// answer it.
    #[inline]
    pub fn take(&self) -> Option<ForwardedRequest<R>> {
        let mut lanes = self.lanes.borrow_mut();
        let workers = lanes.len();
        for i in 0..workers {
            let from = (self.next.get() + i) % workers;
            let Some(lane) = &mut lanes[from] else { continue };
            if let Some((slot, request)) = lane.forwarded.pop() {
                self.next.set(from + 1);
                self.running.set(self.running.get() + 1);
                return Some(ForwardedRequest { from, slot, request });
            }
        }
        None
    }

    /// Answers a request of worker `from`.
    #[inline]
    pub fn answer(&self, from: usize, slot: ReplySlot, outcome: Outcome) {
        let mut lanes = self.lanes.borrow_mut();
        let lane = lanes[from].as_mut().expect("it came on this lane");
        lane.answers.stage((slot, outcome));
        self.list(from, lane);
        self.running.set(self.running.get() - 1);
    }

    /// Publishes the staged requests and answers, and wakes the workers that they are for. A value
    /// that finds no room goes with a later call.
    #[inline]
    pub fn flush(&self, wake: impl FnMut(usize)) {
        if !self.unsent.borrow().is_empty() {
            self.publish(wake);
        }
    }

    fn publish(&self, mut wake: impl FnMut(usize)) {
        let mut lanes = self.lanes.borrow_mut();
        self.unsent.borrow_mut().retain(|&to| {
            let lane = lanes[to].as_mut().expect("it has staged values");
            if lane.requests.flush() | lane.answers.flush() {
                probe::enter(Section::Mailbox);
                wake(to);
            }
            lane.is_listed = lane.requests.late() + lane.answers.late() > 0;
            lane.is_listed
        });
    }

    /// Wakes the clients of which the answers have arrived. Returns `true` if there were any.
    pub fn take_answers(&self) -> bool {
        let (mut any, mut slots) = (false, self.slots.borrow_mut());
        for lane in self.lanes.borrow_mut().iter_mut().flatten() {
            if lane.answered.is_empty() {
                continue;
            }
            probe::enter(Section::Mailbox);
            any = true;
            while let Some((slot, outcome)) = lane.answered.pop() {
                let waiting = &mut slots[slot.0 as usize];
                waiting.outcome = Some(outcome);
                waiting.waker.iter().for_each(Waker::wake_by_ref);
            }
        }
        any
    }

    /// Whether another worker has forwarded requests that no task has taken.
    #[inline]
    pub fn has_requests(&self) -> bool {
        self.lanes.borrow_mut().iter_mut().flatten().any(|lane| !lane.forwarded.is_empty())
    }

    /// Whether nothing has arrived and nothing waits to be sent. The worker checks this after it
    /// has announced that it will sleep.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        let is_empty = |lane: &mut Lane<R>| lane.forwarded.is_empty() && lane.answered.is_empty();
        self.unsent.borrow().is_empty() && self.lanes.borrow_mut().iter_mut().flatten().all(is_empty)
    }

    /// Requests of other workers that run here or are known to wait here.
    pub fn waiting(&self) -> usize {
        self.running.get()
            + self.lanes.borrow().iter().flatten().map(|lane| lane.forwarded.seen()).sum::<usize>()
    }

    /// A task that waits for a request; the caller wakes it.
    pub fn idle_task(&self) -> Option<Waker> {
        self.idle.borrow_mut().pop()
    }

    /// Ready when there is a request, perhaps spuriously. Until then the calling task is idle.
    pub fn poll_idle(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.has_requests() {
            return Poll::Ready(());
        }
        self.called.set(false);
        let mut idle = self.idle.borrow_mut();
        if !idle.iter().any(|waker| waker.will_wake(cx.waker())) {
            idle.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn three() -> [Forwarding<u64>; 3] {
        let forward_rings = ForwardRings::between(3);
        [0, 1, 2].map(|worker| forward_rings.take(worker))
    }

    #[test]
    fn a_request_is_seen_once_it_is_flushed_and_its_answer_wakes_the_seat_that_sent_it() {
        let [a, b, c] = three();
        let bell = Arc::new(Bell(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&bell));
        let mut cx = Context::from_waker(&waker);
        let (_, slot) = (a.take_slot(), a.take_slot());
        a.forward(1, slot, 7);
        assert!(b.take().is_none() && !a.is_quiet() && b.is_quiet());
        let mut rung = Vec::new();
        a.flush(|to| rung.push(to));
        assert!(rung == [1] && a.is_quiet() && !b.is_quiet() && b.has_requests() && c.is_quiet());
        assert!(a.poll(slot, &mut cx).is_pending());
        let ForwardedRequest { from, slot: of, request } = b.take().unwrap();
        assert_eq!((from, of, request, b.waiting()), (0, slot, 7, 1));
        b.answer(from, of, Err(Abort::Conflict));
        b.flush(|to| rung.push(to));
        assert!(rung == [1, 0] && a.take_answers() && !a.take_answers() && b.waiting() == 0);
        assert_eq!(bell.0.load(Ordering::Relaxed), 1);
        assert_eq!(a.poll(slot, &mut cx), Poll::Ready(Err(Abort::Conflict)));
        assert!(a.poll(slot, &mut cx).is_pending(), "an answer is given once");
    }

    /// In a test the rings have two places.
    #[test]
    fn what_finds_no_room_goes_later_and_in_order() {
        let [a, b, c] = three();
        let slots: Vec<ReplySlot> = (0..5).map(|_| a.take_slot()).collect();
        slots.iter().zip(0..).for_each(|(slot, i)| a.forward(1, *slot, i));
        let other = c.take_slot();
        c.forward(1, other, 100);
        c.flush(|_| {});
        let mut seen = Vec::new();
        let mut rounds = 0;
        while seen.len() < 6 {
            a.flush(|to| assert_eq!(to, 1));
            rounds += 1;
            assert!(rounds < 10, "{seen:?}");
            while let Some(forwarded) = b.take() {
                seen.push(forwarded.request);
                b.answer(forwarded.from, forwarded.slot, Ok(()));
            }
            b.flush(|_| {});
            a.take_answers();
            c.take_answers();
        }
        assert!(seen.iter().position(|n| *n == 100).unwrap() <= 1, "each worker has its turn: {seen:?}");
        seen.retain(|n| *n != 100);
        assert_eq!(seen, [0, 1, 2, 3, 4]);
        for _ in 0..3 {
            b.flush(|_| {});
            a.take_answers();
            c.take_answers();
        }
        let mut cx = Context::from_waker(Waker::noop());
        assert!(slots.iter().all(|slot| a.poll(*slot, &mut cx) == Poll::Ready(Ok(()))));
        assert!(a.is_quiet() && b.is_quiet() && c.is_quiet());
    }

    /// Both sides sleep when they find nothing, until the other side wakes them.
    #[test]
    fn nobody_sleeps_over_a_request_or_an_answer() {
        const EACH: u64 = 2_000;
        let forward_rings = ForwardRings::<u64>::between(2);
        let sum = std::thread::scope(|scope| {
            let forward_rings = &forward_rings;
            let me = std::thread::current();
            let task = scope.spawn(move || {
                let (b, mut sum, mut n) = (forward_rings.take(1), 0, 0);
                while n < EACH {
                    match b.take() {
                        Some(forwarded) => {
                            sum += forwarded.request;
                            n += 1;
                            b.answer(forwarded.from, forwarded.slot, Ok(()));
                        }
                        None => {
                            b.flush(|_| me.unpark());
                            if b.is_quiet() {
                                std::thread::park();
                            }
                        }
                    }
                }
                while !b.is_quiet() {
                    b.flush(|_| me.unpark());
                }
                sum
            });
            let a = forward_rings.take(0);
            let mut cx = Context::from_waker(Waker::noop());
            let mut slots: Vec<(ReplySlot, bool)> = (0..5).map(|_| (a.take_slot(), false)).collect();
            let (mut forwarded, mut answered) = (0, 0);
            while answered < EACH {
                a.take_answers();
                for (slot, away) in &mut slots {
                    if *away && a.poll(*slot, &mut cx).is_ready() {
                        answered += 1;
                        *away = false;
                    }
                    if !*away && forwarded < EACH {
                        a.forward(1, *slot, forwarded);
                        forwarded += 1;
                        *away = true;
                    }
                }
                a.flush(|_| task.thread().unpark());
                if a.is_quiet() && answered < EACH {
                    std::thread::park();
                }
            }
            task.join().unwrap()
        });
        assert_eq!(sum, EACH * (EACH - 1) / 2);
    }
}
