//! The transactions of one worker that wait for the log.
//!
//! ```text
//!   transaction --enters--> group of its epoch        the first of a group asks the log to wake
//!                                                     the worker
//!   log --epoch durable, one wake-up--> worker        looks how far the log is, wakes all groups
//!                                                     up to there
//! ```
//!
//! The log's thread wakes workers, not transactions. A wake-up from another thread moves a cache
//! line of the worker's and fences, and one flush makes hundreds of transactions durable. A wake-up
//! by the worker itself costs a few instructions.
//!
//! Access rules: only the worker touches any of this. Its waker alone goes to the log.

use crate::executor::Unpark;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

pub(crate) struct Awaiting {
    groups: RefCell<Groups>,
    worker: Waker,
}

#[derive(Default)]
struct Groups {
    /// By epoch, ascending. Few: a flush ends an epoch.
    waiting: VecDeque<(u64, Vec<Waker>)>,
    /// Buffers of groups that were woken, for reuse.
    spare: Vec<Vec<Waker>>,
}

struct Bell(Unpark);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        (self.0)();
    }
}

impl Awaiting {
    pub(crate) fn new(unpark: Unpark) -> Awaiting {
        Awaiting { groups: RefCell::default(), worker: Waker::from(Arc::new(Bell(unpark))) }
    }

    /// Has a task woken once the outcome of `epoch` is known. Called for the first task of an
    /// epoch, `ask` registers the given waker and returns `true`, or returns `false` if the outcome
    /// is known already.
    pub(crate) fn enter(&self, epoch: u64, task: &Waker, ask: impl FnOnce(&mut Context<'_>) -> bool) {
        let mut groups = self.groups.borrow_mut();
        let Groups { waiting, spare } = &mut *groups;
        // From the back: the latest commit waits for the latest epoch.
        let behind = waiting.iter().rposition(|(other, _)| *other <= epoch).map_or(0, |at| at + 1);
        if let Some((_, group)) =
            behind.checked_sub(1).map(|at| &mut waiting[at]).filter(|(e, _)| *e == epoch)
        {
            return group.push(task.clone());
        }
        let mut group = spare.pop().unwrap_or_default();
        group.push(task.clone());
        waiting.insert(behind, (epoch, group));
        drop(groups);
        if !ask(&mut Context::from_waker(&self.worker)) {
            task.wake_by_ref();
        }
    }

    /// Wakes all tasks of epochs for which `is_known` holds. `true` if there was any.
    #[inline]
    pub(crate) fn wake(&self, is_known: impl Fn(u64) -> bool) -> bool {
        let mut groups = self.groups.borrow_mut();
        let Groups { waiting, spare } = &mut *groups;
        let mut any = false;
        while let Some((_, mut group)) = waiting.pop_front_if(|(epoch, _)| is_known(*epoch)) {
            any = true;
            group.drain(..).for_each(Waker::wake);
            spare.push(group);
        }
        any
    }

    /// Whether [`Awaiting::wake`] would find no task.
    #[inline]
    pub(crate) fn is_quiet(&self, is_known: impl Fn(u64) -> bool) -> bool {
        self.groups.borrow().waiting.front().is_none_or(|(epoch, _)| !is_known(*epoch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_group_asks_once_and_is_woken_when_its_epoch_is_known_and_not_before() {
        let awaiting = Awaiting::new(Arc::new(|| {}));
        let (woken, mut asked) = (Arc::new(Woken::default()), Vec::new());
        let task = Waker::from(woken.clone());
        // A transaction that only read waits for an epoch before the last commit.
        for epoch in [7, 9, 7, 8, 9, 5] {
            awaiting.enter(epoch, &task, |_| {
                asked.push(epoch);
                true
            });
        }
        assert_eq!(asked, [7, 9, 8, 5], "one question per epoch");
        for (durable, times) in [(4, 0), (5, 1), (8, 4), (8, 4), (9, 6)] {
            let is_known = |epoch| epoch <= durable;
            let before = woken.0.load(Ordering::Relaxed);
            assert_eq!(awaiting.is_quiet(is_known), before == times, "at {durable}");
            assert_eq!(awaiting.wake(is_known), before < times);
            assert_eq!(woken.0.load(Ordering::Relaxed), times, "at {durable}");
        }
    }

    #[test]
    fn what_is_known_by_the_time_it_is_asked_wakes_the_task_at_once() {
        let awaiting = Awaiting::new(Arc::new(|| {}));
        let woken = Arc::new(Woken::default());
        awaiting.enter(1, &Waker::from(woken.clone()), |_| false);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn the_log_wakes_the_worker() {
        let rung = Arc::new(AtomicUsize::new(0));
        let bell = Arc::clone(&rung);
        let ring = move || {
            bell.fetch_add(1, Ordering::Relaxed);
        };
        let awaiting = Awaiting::new(Arc::new(ring));
        let mut given = None;
        awaiting.enter(1, Waker::noop(), |cx| {
            given = Some(cx.waker().clone());
            true
        });
        given.expect("it asks").wake();
        assert_eq!(rung.load(Ordering::Relaxed), 1);
    }
}
