//! Limits the distributed transactions that a worker has begun and not ended.
//!
//! Each of them that waits for a reply keeps its future, its reads and writes and its coordinator
//! in memory. Once they exceed the processor's caches, every reply misses them all, and reads are
//! old when they are validated. So only as many are begun as keep the worker busy while messages
//! travel. The others wait before they touch any row. A waiting transaction holds nothing, so no
//! other transaction waits for it.
//!
//! Only the worker's own thread uses it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::task::{Poll, Waker};

/// Enough transactions to keep a worker busy while it waits for another worker to wake up. Limits
/// from 16 to 256 measured the same, with `examples/occ_cluster` and 1,000 clients on a machine
/// that was not quiet.
pub(crate) const MOST: usize = 64;

/// A counting semaphore with a first-come, first-served queue.
#[derive(Default)]
pub(crate) struct Gate {
    /// Passes given out and not returned.
    inside: Cell<usize>,
    /// First come, first served.
    outside: RefCell<VecDeque<(u64, Waker)>>,
    next: Cell<u64>,
}

/// Permission to run one distributed transaction, returned when it is dropped.
pub(crate) struct Pass<'g>(&'g Gate);

impl Gate {
    /// Waits until fewer than `most` transactions are inside and no earlier one waits.
    pub async fn enter(&self, most: usize) -> Pass<'_> {
        if self.inside.get() >= most || !self.outside.borrow().is_empty() {
            self.wait(most).await;
        }
        self.inside.set(self.inside.get() + 1);
        Pass(self)
    }

    async fn wait(&self, most: usize) {
        let number = self.next.get();
        self.next.set(number + 1);
        let mut waits = false;
        std::future::poll_fn(|cx| {
            let mut outside = self.outside.borrow_mut();
            if !std::mem::replace(&mut waits, true) {
                outside.push_back((number, cx.waker().clone()));
                return Poll::Pending;
            }
            let is_first = outside.front().is_some_and(|(first, _)| *first == number);
            if !is_first || self.inside.get() >= most {
                return Poll::Pending;
            }
            outside.pop_front();
            Poll::Ready(())
        })
        .await;
        // There may be room for the next one as well.
        if self.inside.get() + 1 < most {
            self.call();
        }
    }

    fn call(&self) {
        if let Some((_, waker)) = self.outside.borrow().front() {
            waker.wake_by_ref();
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.0.inside.set(self.0.inside.get() - 1);
        self.0.call();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::Executor;
    use std::rc::Rc;
    use std::sync::Arc;

    #[test]
    fn no_more_than_may_are_inside_and_all_come_in_their_turn() {
        let executor = Executor::new(Arc::new(|| ()));
        let (gate, order) = (Rc::new(Gate::default()), Rc::new(RefCell::new(Vec::new())));
        for number in 0..50 {
            let (gate, order) = (Rc::clone(&gate), Rc::clone(&order));
            assert!(executor.spawn(async move {
                let pass = gate.enter(4).await;
                order.borrow_mut().push(number);
                for _ in 0..number % 3 {
                    assert!(gate.inside.get() <= 4);
                    exec::yield_now().await;
                }
                drop(pass);
            }));
        }
        while executor.turn(0) > 0 {}
        assert_eq!(*order.borrow(), (0..50).collect::<Vec<_>>());
        assert_eq!((executor.tasks(), gate.inside.get()), (0, 0));
    }
}
