//! A bounded queue from one thread to one other.
//!
//! ```text
//!            head (consumer writes)          tail (producer writes)
//!              v                               v
//!   ... free | taken next | filled | filled |  free ...
//! ```
//!
//! Positions only grow; the slot of a position is the position modulo the capacity.
//!
//! Access rules: the [`Producer`] alone writes `tail`. It fills the slot at `tail`, then publishes
//! it by a release store. The [`Consumer`] alone writes `head`. It empties the slot at `head`, then
//! returns it by a release store. Each keeps a copy of the other's position, and reads the shared
//! one only if the copy says full, or empty. So only one of the two uses a slot at a time, and each
//! of the two cache lines has one writer: two threads contend, however many workers there are
//! (thesis section 3.2, message passing).
//!
//! A producer with several values may fill their slots first and publish them together
//! ([`Producer::stage`]). The cache line of `tail` then moves to the consumer once for all of them.

use super::sync::{Arc, AtomicU64, Ordering, UnsafeCell};
use crate::CachePadded;
use std::mem::MaybeUninit;

struct Ring<T> {
    /// The next position to take. Written by the consumer.
    head: CachePadded<AtomicU64>,
    /// The next position to fill. Written by the producer.
    tail: CachePadded<AtomicU64>,
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: values go from one thread to another, so `T: Send`. `head` and `tail` decide which of the
// two may use a slot, as drawn above.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: as above; moving a ring moves the values in it.
unsafe impl<T: Send> Send for Ring<T> {}

/// The end that fills the queue.
pub struct Producer<T> {
    ring: Arc<Ring<T>>,
    /// Past the last slot that was filled; the consumer sees only the slots below `published`.
    tail: u64,
    published: u64,
    /// The consumer's position at the last look.
    head: u64,
}

/// The end that empties the queue.
pub struct Consumer<T> {
    ring: Arc<Ring<T>>,
    head: u64,
    /// The producer's position at the last look.
    tail: u64,
}

/// A queue of up to `capacity` values, rounded up to a power of two.
pub fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let slots = (0..capacity.next_power_of_two()).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
    let positions = || CachePadded::new(AtomicU64::new(0));
    let ring = Arc::new(Ring { head: positions(), tail: positions(), slots });
    (
        Producer { ring: Arc::clone(&ring), tail: 0, published: 0, head: 0 },
        Consumer { ring, head: 0, tail: 0 },
    )
}

impl<T> Ring<T> {
    fn slot(&self, position: u64) -> &UnsafeCell<MaybeUninit<T>> {
        &self.slots[position as usize & (self.slots.len() - 1)]
    }
}

impl<T> Producer<T> {
    /// Appends a value.
    ///
    /// # Errors
    /// Returns the value if the queue is full.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), T> {
        let staged = self.stage(value);
        self.publish();
        staged
    }

    /// As [`Producer::push`], but the consumer sees the value only after [`Producer::publish`], or
    /// when the producer is dropped.
    ///
    /// # Errors
    /// As [`Producer::push`].
    #[inline]
    pub fn stage(&mut self, value: T) -> Result<(), T> {
        let ring = &*self.ring;
        if self.tail - self.head == ring.slots.len() as u64 {
            self.head = ring.head.load(Ordering::Acquire);
            if self.tail - self.head == ring.slots.len() as u64 {
                return Err(value);
            }
        }
        // SAFETY: `tail` is below `head` plus capacity, so the consumer has returned this slot
        // (acquired above, or when `head` was read last). It does not look at the slot before
        // `tail` is past it.
        ring.slot(self.tail).with_mut(|slot| unsafe { (*slot).write(value) });
        self.tail += 1;
        Ok(())
    }

    /// Lets the consumer see the staged values. `true` if there were any.
    #[inline]
    pub fn publish(&mut self) -> bool {
        let any = self.published != self.tail;
        if any {
            self.ring.tail.store(self.tail, Ordering::Release);
            self.published = self.tail;
        }
        any
    }
}

/// Publishes, so that the thread that drops the ring finds every value.
impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.publish();
    }
}

impl<T> Consumer<T> {
    /// The oldest value; `None` if there is none.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: `head` is below `tail`, so the producer filled this slot before it published
        // (acquired in `is_empty`, or when `tail` was read last). It does not touch the slot before
        // `head` is past it. The value is read once.
        let value = self.ring.slot(self.head).with(|slot| unsafe { (*slot).assume_init_read() });
        self.head += 1;
        self.ring.head.store(self.head, Ordering::Release);
        Some(value)
    }

    /// Number of values that can be taken, as of the last look at the producer's position.
    #[inline]
    pub fn seen(&self) -> usize {
        (self.tail - self.head) as usize
    }

    /// Whether there is no value to take. Reads the producer's cache line only if all values seen
    /// at the last look are taken.
    #[inline]
    pub fn is_empty(&mut self) -> bool {
        if self.head == self.tail {
            self.tail = self.ring.tail.load(Ordering::Acquire);
        }
        self.head == self.tail
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        let (head, tail) = (self.head.load(Ordering::Relaxed), self.tail.load(Ordering::Relaxed));
        for position in head..tail {
            // SAFETY: both ends are dropped, and the slots between the positions were filled and
            // not taken.
            self.slot(position).with_mut(|slot| unsafe { (*slot).assume_init_drop() });
        }
    }
}
