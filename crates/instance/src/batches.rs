//! Starts requests of one kind together, so that they find each other's code and data in the caches
//! (`--schedule batched`, `staged`).
//!
//! ```text
//!   clients:  payment  neworder  payment  delivery  payment       each joins its kind and waits
//!   worker:   no task is ready -> the kind of the oldest request starts: 3 x payment
//!             no task is ready -> neworder, then delivery
//! ```
//!
//! A batch is all waiting requests of the kind that has waited longest, so no kind starves. It
//! starts once no task is ready: each request of the batch before has ended, or waits for the log,
//! a lock or a message. A waiting request has touched no row, so no other transaction waits for it.
//!
//! With `staged` a transaction also lets the others run after each of its phases. The tasks of a
//! batch are polled in turn, so they run their first phases one after the other, then their second
//! ones. A transaction that must not suspend (`Protection::Unlocked`) runs to its end.
//!
//! STREX forms teams of one kind in the same way, and ADDICT moves transactions from one operation
//! to the next (thesis s7.4, s8.2); both do it in hardware, in the middle of an operation.
//!
//! Only the worker's own thread uses it.

use exec::Schedule;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::task::{Poll, Waker};

/// The requests of one kind.
struct Kind {
    name: &'static str,
    /// Those that wait, each with its place among the requests of all kinds.
    waiting: VecDeque<(u64, Waker)>,
    /// Requests of this kind that have joined.
    joined: u64,
    /// The first so many of them have started.
    started: u64,
}

/// The requests of a worker that have not started.
pub(crate) struct Batches {
    /// A handful: the kinds of the workload.
    kinds: RefCell<Vec<Kind>>,
    arrivals: Cell<u64>,
    /// Whether a transaction lets others run after each of its phases.
    staged: bool,
}

impl Batches {
    /// `None` if each request starts when it arrives.
    pub fn of(schedule: Schedule) -> Option<Batches> {
        let staged = match schedule {
            Schedule::Arrival => return None,
            Schedule::Batched => false,
            Schedule::Staged => true,
        };
        Some(Batches { kinds: RefCell::default(), arrivals: Cell::new(0), staged })
    }

    pub fn is_staged(&self) -> bool {
        self.staged
    }

    /// Waits until a batch of this kind starts.
    pub async fn join(&self, kind: &'static str) {
        let mut place = None;
        std::future::poll_fn(|cx| {
            let mut kinds = self.kinds.borrow_mut();
            let (at, number) = *place.get_or_insert_with(|| self.enter(&mut kinds, kind, cx.waker()));
            if number < kinds[at].started { Poll::Ready(()) } else { probe::parks_untimed(Poll::Pending) }
        })
        .await;
    }

    /// The position of the kind, and the number of the request within it.
    fn enter(&self, kinds: &mut Vec<Kind>, name: &'static str, waker: &Waker) -> (usize, u64) {
        let at = kinds.iter().position(|kind| kind.name == name).unwrap_or_else(|| {
            kinds.push(Kind { name, waiting: VecDeque::new(), joined: 0, started: 0 });
            kinds.len() - 1
        });
        let kind = &mut kinds[at];
        kind.waiting.push_back((self.arrivals.get(), waker.clone()));
        self.arrivals.set(self.arrivals.get() + 1);
        kind.joined += 1;
        (at, kind.joined - 1)
    }

    /// Starts the next batch. To be called when no task of the worker is ready.
    pub fn start(&self) {
        let mut kinds = self.kinds.borrow_mut();
        let oldest = |kind: &Kind| kind.waiting.front().map(|(arrival, _)| *arrival);
        let next = kinds.iter_mut().filter(|kind| !kind.waiting.is_empty()).min_by_key(|kind| oldest(kind));
        if let Some(kind) = next {
            kind.started = kind.joined;
            kind.waiting.drain(..).for_each(|(_, waker)| waker.wake());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::Executor;
    use std::rc::Rc;
    use std::sync::Arc;

    #[test]
    fn each_request_starts_at_once_unless_asked_otherwise() {
        assert!(Batches::of(Schedule::Arrival).is_none());
        assert!(!Batches::of(Schedule::Batched).unwrap().is_staged());
        assert!(Batches::of(Schedule::Staged).unwrap().is_staged());
    }

    /// Requests that join in this order start in that one; each batch is one call of `start`.
    #[test]
    fn a_batch_is_all_of_the_kind_that_waits_longest() {
        let batches = Rc::new(Batches::of(Schedule::Batched).unwrap());
        let executor = Executor::new(Arc::new(|| ()));
        let began = Rc::new(RefCell::new(Vec::new()));
        let ask = |kind: &'static str, number: usize| {
            let (batches, began) = (Rc::clone(&batches), Rc::clone(&began));
            assert!(executor.spawn(async move {
                batches.join(kind).await;
                began.borrow_mut().push((kind, number));
            }));
        };
        for (number, kind) in
            ["payment", "neworder", "payment", "delivery", "payment"].into_iter().enumerate()
        {
            ask(kind, number);
        }
        executor.turn(0);
        assert!(!executor.has_ready() && began.borrow().is_empty(), "none starts before it is told");
        batches.start();
        executor.turn(0);
        assert_eq!(*began.borrow(), [("payment", 0), ("payment", 2), ("payment", 4)]);
        // One that arrives now waits behind the kinds that have waited longer.
        ask("payment", 5);
        executor.turn(0);
        for expected in [[("neworder", 1)], [("delivery", 3)], [("payment", 5)]] {
            began.borrow_mut().clear();
            batches.start();
            executor.turn(0);
            assert_eq!(*began.borrow(), expected);
        }
        batches.start();
        assert!(!executor.has_ready() && executor.tasks() == 0);
    }
}
