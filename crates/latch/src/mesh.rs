//! Queues between each two of several threads.
//!
//! ```text
//!   thread 0 --ring--> thread 1        each thread has its ends: for each other thread one
//!   thread 0 <--ring-- thread 1        queue to it and one from it
//! ```
//!
//! Access rules: a ring has one thread at each end ([`ring`]). When a ring is full, values wait at
//! the sending end, in order, and go with a later [`Outgoing::flush`]. A thread that has such
//! values must not sleep before they are sent. Values from one thread to another arrive in the
//! order in which they were sent.
//!
//! A mesh wakes no thread. Its users do, since they know how: each value may wake its receiver
//! ([`Outgoing::push`], then the wake-up), or all values of a turn together ([`Outgoing::stage`]s,
//! then one [`Outgoing::flush`]). In both orders the value is in the ring before the sender looks
//! whether the receiver sleeps. A receiver that looks into its rings once more after it has
//! announced its sleep therefore misses none.

use crate::ring::{Consumer, Producer, ring};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The sending end of a ring, with an overflow queue.
pub struct Outgoing<T> {
    ring: Producer<T>,
    /// Values that found the ring full, oldest first.
    late: VecDeque<T>,
}

impl<T> Outgoing<T> {
    /// Sends a value, which the receiver sees at once. Returns whether it is in the ring; otherwise
    /// it waits for room.
    #[inline]
    pub fn push(&mut self, value: T) -> bool {
        let kept = if self.late.is_empty() { self.ring.push(value).err() } else { Some(value) };
        let sent = kept.is_none();
        self.late.extend(kept);
        sent
    }

    /// As [`Outgoing::push`], but the receiver sees the value only after [`Outgoing::flush`].
    #[inline]
    pub fn stage(&mut self, value: T) {
        let kept = if self.late.is_empty() { self.ring.stage(value).err() } else { Some(value) };
        self.late.extend(kept);
    }

    /// Publishes the staged values and as many that wait as there is room for. Returns `true` if
    /// there were any.
    pub fn flush(&mut self) -> bool {
        while let Some(value) = self.late.pop_front() {
            if let Err(value) = self.ring.stage(value) {
                self.late.push_front(value);
                break;
            }
        }
        self.ring.publish()
    }

    /// The number of values that wait for room.
    #[inline]
    pub fn late(&self) -> usize {
        self.late.len()
    }
}

/// One thread's ends of its rings, by the number of the other thread; `None` at its own number.
pub struct Ends<T> {
    pub to: Vec<Option<Outgoing<T>>>,
    pub from: Vec<Option<Consumer<T>>>,
}

/// The ends of the rings between several threads, until each thread takes its own.
pub struct Mesh<T>(Mutex<Vec<Option<Ends<T>>>>);

impl<T> Mesh<T> {
    /// Rings for `capacity` values, one for each ordered pair of `threads` threads.
    pub fn between(threads: usize, capacity: usize) -> Mesh<T> {
        let none =
            || Ends { to: (0..threads).map(|_| None).collect(), from: (0..threads).map(|_| None).collect() };
        let mut all: Vec<Ends<T>> = (0..threads).map(|_| none()).collect();
        for from in 0..threads {
            for to in (0..threads).filter(|to| *to != from) {
                let (producer, consumer) = ring(capacity);
                all[from].to[to] = Some(Outgoing { ring: producer, late: VecDeque::new() });
                all[to].from[from] = Some(consumer);
            }
        }
        Mesh(Mutex::new(all.into_iter().map(Some).collect()))
    }

    /// The ends of one thread.
    ///
    /// # Panics
    /// If they were taken before, or there is no thread of this number.
    pub fn take(&self, thread: usize) -> Ends<T> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all[thread].take().expect("rings have one owner at each end")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_find_no_room_go_later_and_in_order() {
        let mesh = Mesh::<u64>::between(2, 2);
        let (mut a, mut b) = (mesh.take(0), mesh.take(1));
        assert!(a.to[0].is_none() && a.from[0].is_none());
        let (to, from) = (a.to[1].as_mut().unwrap(), b.from[0].as_mut().unwrap());
        to.stage(0);
        assert!(from.is_empty() && to.flush() && !to.flush());
        assert!(to.push(1) && !to.push(2) && to.late() == 1);
        assert_eq!((from.pop(), from.pop(), from.pop()), (Some(0), Some(1), None));
        // A later value waits behind those that wait.
        assert!(!to.push(3) && to.flush() && to.late() == 0);
        assert_eq!((from.pop(), from.pop(), from.pop()), (Some(2), Some(3), None));
    }

    #[test]
    #[should_panic(expected = "one owner")]
    fn ends_are_taken_once() {
        let mesh = Mesh::<u64>::between(1, 2);
        drop(mesh.take(0));
        drop(mesh.take(0));
    }
}
