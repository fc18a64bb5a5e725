//! Messages between the workers of one instance: a ring for each ordered pair ([`Mesh`]), so that
//! each queue has one writer.
//!
//! ```text
//!   worker 0 --ring--> worker 1        each worker has one Mailbox:
//!   worker 0 <--ring-- worker 1        the near ends of all its rings
//! ```
//!
//! Access rules: only its worker's thread touches a mailbox. Sending wakes the receiver if it
//! sleeps ([`Bells`]). No message is left behind: the sender fills the ring before it looks at the
//! bell, and a worker checks its rings once more after it has announced its sleep. When a ring is
//! full, messages wait at the sender, in order, and [`Mailbox::push_on`] pushes them when there is
//! room; a worker with such messages does not sleep.
//!
//! Messages from one worker to another arrive in the order in which they were sent: the message
//! that undoes a transaction arrives before the steps of the next one.
//!
//! Each message is published and wakes its receiver at once, because a transaction waits for it.
//! Requests that are forwarded whole have rings of their own, published before the next transaction
//! (`owners/forwarding.rs` of crate `instance` says why).

use crate::executor::Unpark;
use latch::{Consumer, Ends, Mesh, Outgoing};
use probe::Section;
use std::cell::{Cell, RefCell};
use std::sync::{Arc, OnceLock};

/// Capacity of a ring in messages. A worker has a few dozen transactions under way, each with one
/// message to an owner at a time.
const RING_CAPACITY: usize = if cfg!(test) { 2 } else { 256 };

/// The function that wakes each worker, by worker.
type Bells = Arc<[OnceLock<Unpark>]>;

/// The mailboxes of an instance's workers, until each worker takes its own.
pub(crate) struct Mailboxes<T> {
    rings: Mesh<T>,
    bells: Bells,
}

impl<T: Send> Mailboxes<T> {
    pub fn new(workers: usize) -> Mailboxes<T> {
        Mailboxes {
            rings: Mesh::between(workers, RING_CAPACITY),
            bells: (0..workers).map(|_| OnceLock::new()).collect(),
        }
    }

    /// The mailbox of `worker`, which `unpark` wakes.
    ///
    /// # Panics
    /// If it was taken before.
    pub fn take(&self, worker: usize, unpark: Unpark) -> Mailbox<T> {
        let Ends { to, from } = self.rings.take(worker);
        assert!(self.bells[worker].set(unpark).is_ok(), "a mailbox has one owner");
        Mailbox {
            to: RefCell::new(to),
            from: RefCell::new(from.into_iter().flatten().collect()),
            next: Cell::new(0),
            late: Cell::new(0),
            bells: Arc::clone(&self.bells),
        }
    }
}

/// The mailbox of one worker.
pub(crate) struct Mailbox<T> {
    to: RefCell<Vec<Option<Outgoing<T>>>>,
    from: RefCell<Vec<Consumer<T>>>,
    /// The ring to look into first.
    next: Cell<usize>,
    /// The number of messages that wait for room.
    late: Cell<usize>,
    bells: Bells,
}

impl<T> Mailbox<T> {
    /// # Panics
    /// If `to` is this worker, or none.
    #[inline]
    pub fn send(&self, to: usize, message: T) {
        probe::enter(Section::Mailbox);
        let mut to_all = self.to.borrow_mut();
        let ring = to_all[to].as_mut().expect("a worker sends no message to itself");
        if !ring.push(message) {
            self.late.set(self.late.get() + 1);
        }
        // A worker that has not set its bell yet checks its rings before it first sleeps.
        if let Some(unpark) = self.bells[to].get() {
            unpark();
        }
    }

    /// The next message, from each worker in turn.
    #[inline]
    pub fn take(&self) -> Option<T> {
        let mut from = self.from.borrow_mut();
        let rings = from.len();
        for i in 0..rings {
            let at = (self.next.get() + i) % rings;
            if let Some(message) = from[at].pop() {
                probe::enter(Section::Mailbox);
                self.next.set(at + 1);
                return Some(message);
            }
        }
        None
    }

    /// Pushes the messages that waited for room.
    pub fn push_on(&self) {
        if self.late.get() == 0 {
            return;
        }
        let mut late = 0;
        for (to, ring) in self.to.borrow_mut().iter_mut().enumerate() {
            let Some(ring) = ring else { continue };
            if let (true, Some(unpark)) = (ring.flush(), self.bells[to].get()) {
                unpark();
            }
            late += ring.late();
        }
        self.late.set(late);
    }

    /// Whether no message has come and none waits to be sent: the check after the announcement of a
    /// sleep.
    pub fn is_quiet(&self) -> bool {
        self.late.get() == 0 && self.from.borrow_mut().iter_mut().all(Consumer::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn boxes(workers: usize) -> (Vec<Mailbox<u64>>, Vec<Arc<AtomicUsize>>) {
        let mailboxes = Mailboxes::new(workers);
        let rung: Vec<Arc<AtomicUsize>> = (0..workers).map(|_| Arc::default()).collect();
        let taken = rung.iter().enumerate().map(|(worker, rung)| {
            let rung = Arc::clone(rung);
            mailboxes.take(worker, Arc::new(move || _ = rung.fetch_add(1, Ordering::SeqCst)))
        });
        (taken.collect(), rung)
    }

    #[test]
    fn letters_of_one_pair_keep_their_order_when_the_ring_is_full() {
        let (boxes, rung) = boxes(3);
        (0..10).for_each(|i| boxes[0].send(1, i));
        boxes[2].send(1, 100);
        assert!(!boxes[0].is_quiet() && rung[1].load(Ordering::SeqCst) == 11);
        let mut seen = Vec::new();
        while !(boxes[0].is_quiet() && boxes[1].is_quiet()) {
            seen.extend(boxes[1].take());
            boxes[0].push_on();
        }
        assert_eq!(seen.iter().position(|n| *n == 100), Some(1), "each worker has its turn: {seen:?}");
        seen.retain(|n| *n != 100);
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
        assert_eq!((rung[0].load(Ordering::SeqCst), boxes[2].take()), (0, None));
    }

    /// The receiver sleeps whenever it finds nothing, and is woken by bells only.
    #[test]
    fn nobody_sleeps_over_a_letter() {
        const EACH: u64 = 20_000;
        let (mut boxes, _) = boxes(1);
        assert_eq!(boxes.pop().unwrap().take(), None);
        let mailboxes = Mailboxes::new(3);
        let receiver = std::thread::current();
        let receiving = mailboxes.take(0, Arc::new(move || receiver.unpark()));
        std::thread::scope(|scope| {
            for worker in 1..3 {
                let mailbox = mailboxes.take(worker, Arc::new(|| {}));
                scope.spawn(move || {
                    for i in 0..EACH {
                        mailbox.send(0, i);
                    }
                    while !mailbox.is_quiet() {
                        mailbox.push_on();
                        std::thread::yield_now();
                    }
                });
            }
            let mut taken = 0;
            while taken < 2 * EACH {
                match receiving.take() {
                    Some(_) => taken += 1,
                    None if receiving.is_quiet() => std::thread::park(),
                    None => {}
                }
            }
        });
        assert!(receiving.is_quiet());
    }
}
