//! The executor of a worker: a few long-lived tasks, each a future, polled when their ready bit is
//! set.
//!
//! ```text
//!   any thread --wake--> ready bit of task i --(owner asleep?)--> unpark
//!   owner: turn() = take the ready bits, poll those tasks, fire due timers
//! ```
//!
//! Access rules: the owner thread alone polls, spawns and keeps timers. Any thread may set a ready
//! bit, and must then unpark the owner. The owner checks the bits once more after it has announced
//! its sleep and before it sleeps (the parker's protocol), so no wake-up is lost. A wake-up for a
//! task that has ended or was replaced is harmless: futures here tolerate being polled early.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// The number of tasks a worker can hold at once.
pub const TASKS: usize = 4096;

/// Wakes the worker's thread; cheap when it is awake.
pub type Unpark = Arc<dyn Fn() + Send + Sync>;

type Task = Pin<Box<dyn Future<Output = ()>>>;

thread_local! {
    static PLACE: u8 = const { 0 };
}

/// Distinguishes the calling thread from the others that live: the address of a thread-local
/// variable. Its `ThreadId` would do, but asking for that counts references, and every transaction
/// ends with a wake-up of its own task. A thread that begins after the owner has ended may get the
/// owner's address. It then skips the unpark, and there is no owner left to unpark.
fn this_thread() -> usize {
    PLACE.with(|place| std::ptr::from_ref(place).addr())
}

struct Ready {
    words: [AtomicU64; TASKS / 64],
    owner: usize,
    unpark: Unpark,
}

impl Ready {
    fn set(&self, task: usize) {
        self.words[task / 64].fetch_or(1 << (task % 64), Ordering::Release);
        if this_thread() != self.owner {
            (self.unpark)();
        }
    }
}

struct TaskWaker {
    ready: Arc<Ready>,
    task: usize,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.ready.set(self.task);
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.set(self.task);
    }
}

struct Slot {
    future: RefCell<Option<Task>>,
    waker: Waker,
}

struct Timer {
    at_ns: u64,
    waker: Waker,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.at_ns == other.at_ns
    }
}
impl Eq for Timer {}
impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at_ns.cmp(&other.at_ns)
    }
}

/// One worker's tasks and timers. Not `Send`: it lives on its thread.
pub struct Executor {
    ready: Arc<Ready>,
    slots: RefCell<Vec<std::rc::Rc<Slot>>>,
    free: RefCell<Vec<usize>>,
    timers: RefCell<BinaryHeap<Reverse<Timer>>>,
    /// Words of ready bits in use, so that a turn reads no more than these.
    used_words: Cell<usize>,
}

impl Executor {
    /// An executor owned by the calling thread.
    pub fn new(unpark: Unpark) -> Executor {
        let ready = Ready { words: [const { AtomicU64::new(0) }; TASKS / 64], owner: this_thread(), unpark };
        Executor {
            ready: Arc::new(ready),
            slots: RefCell::default(),
            free: RefCell::default(),
            timers: RefCell::default(),
            used_words: Cell::new(0),
        }
    }

    /// Starts a task; it is polled in the next turn. `false` when all [`TASKS`] slots are taken.
    #[must_use]
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) -> bool {
        let boxed: Task = Box::pin(future);
        if let Some(task) = self.free.borrow_mut().pop() {
            *self.slots.borrow()[task].future.borrow_mut() = Some(boxed);
            self.ready.set(task);
            return true;
        }
        let mut slots = self.slots.borrow_mut();
        let task = slots.len();
        if task == TASKS {
            return false;
        }
        let waker = Waker::from(Arc::new(TaskWaker { ready: Arc::clone(&self.ready), task }));
        slots.push(std::rc::Rc::new(Slot { future: RefCell::new(Some(boxed)), waker }));
        self.used_words.set(task / 64 + 1);
        self.ready.set(task);
        true
    }

    /// Polls every ready task once. Returns how many were polled.
    pub fn turn(&self, now_ns: u64) -> usize {
        self.fire(now_ns);
        let mut polled = 0;
        for word in 0..self.used_words.get() {
            let bits = &self.ready.words[word];
            if bits.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut set = bits.swap(0, Ordering::Acquire);
            while set != 0 {
                self.poll(word * 64 + set.trailing_zeros() as usize);
                set &= set - 1;
                polled += 1;
            }
        }
        polled
    }

    fn poll(&self, task: usize) {
        let slot = std::rc::Rc::clone(&self.slots.borrow()[task]);
        let mut future = slot.future.borrow_mut();
        let Some(running) = future.as_mut() else { return };
        let traced = probe::mark::task(task);
        let polled = running.as_mut().poll(&mut Context::from_waker(&slot.waker));
        drop(traced);
        latch::assert_none_held();
        if polled.is_ready() {
            *future = None;
            self.free.borrow_mut().push(task);
        }
    }

    fn fire(&self, now_ns: u64) {
        let mut timers = self.timers.borrow_mut();
        while timers.peek().is_some_and(|t| t.0.at_ns <= now_ns) {
            timers.pop().expect("peeked").0.waker.wake();
        }
    }

    /// Wakes the calling task at `at_ns` (of [`world::now_ns`]) or somewhat later.
    pub fn timer(&self, at_ns: u64, waker: Waker) {
        self.timers.borrow_mut().push(Reverse(Timer { at_ns, waker }));
    }

    /// The time at which the next timer is due, ns; `None` without timers.
    pub fn next_timer(&self) -> Option<u64> {
        self.timers.borrow().peek().map(|t| t.0.at_ns)
    }

    /// Whether a task is ready: the check that must follow the announcement of a sleep.
    #[inline]
    pub fn has_ready(&self) -> bool {
        self.ready.words[..self.used_words.get()].iter().any(|w| w.load(Ordering::Acquire) != 0)
    }

    /// Tasks that have not ended.
    pub fn tasks(&self) -> usize {
        self.slots.borrow().len() - self.free.borrow().len()
    }

    /// Drops every task at its current point.
    pub fn clear(&self) {
        for slot in self.slots.borrow().iter() {
            *slot.future.borrow_mut() = None;
        }
        self.timers.borrow_mut().clear();
    }
}

/// Lets the other tasks run first.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;
    use std::sync::atomic::AtomicUsize;

    fn executor() -> (Executor, Arc<AtomicUsize>) {
        let unparked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&unparked);
        let unpark = Arc::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        (Executor::new(unpark), unparked)
    }

    #[test]
    fn tasks_take_turns_and_end() {
        let (executor, _) = executor();
        let log = Rc::new(RefCell::new(Vec::new()));
        for name in ["a", "b"] {
            let log = Rc::clone(&log);
            assert!(executor.spawn(async move {
                for i in 0..2 {
                    log.borrow_mut().push((name, i));
                    yield_now().await;
                }
            }));
        }
        while executor.turn(0) > 0 {}
        assert_eq!(*log.borrow(), [("a", 0), ("b", 0), ("a", 1), ("b", 1)]);
        assert_eq!(executor.tasks(), 0);
    }

    #[test]
    fn a_wake_from_another_thread_sets_the_bit_and_unparks() {
        let (executor, unparked) = executor();
        let cell: Arc<std::sync::Mutex<Option<Waker>>> = Arc::default();
        let (done, inner) = (Rc::new(Cell::new(false)), Arc::clone(&cell));
        let seen = Rc::clone(&done);
        assert!(executor.spawn(async move {
            let mut first = true;
            std::future::poll_fn(|cx| {
                *inner.lock().unwrap() = Some(cx.waker().clone());
                if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) }
            })
            .await;
            seen.set(true);
        }));
        assert_eq!(executor.turn(0), 1);
        assert_eq!(executor.turn(0), 0);
        let waker = cell.lock().unwrap().take().unwrap();
        std::thread::spawn(move || waker.wake()).join().unwrap();
        assert!(executor.has_ready() && unparked.load(Ordering::SeqCst) == 1);
        executor.turn(0);
        assert!(done.get());
    }

    #[test]
    fn timers_fire_in_time_and_not_before() {
        let (executor, _) = executor();
        let executor = Rc::new(executor);
        let (fired, inner) = (Rc::new(Cell::new(0)), Rc::clone(&executor));
        let count = Rc::clone(&fired);
        assert!(executor.spawn(async move {
            let mut asked = false;
            std::future::poll_fn(|cx| {
                if std::mem::replace(&mut asked, true) {
                    return Poll::Ready(());
                }
                inner.timer(100, cx.waker().clone());
                Poll::Pending
            })
            .await;
            count.set(1);
        }));
        executor.turn(0);
        executor.turn(99);
        assert_eq!((fired.get(), executor.next_timer()), (0, Some(100)));
        executor.turn(100);
        assert_eq!(fired.get(), 1);
    }
}
