//! Seats: a limit for the number of operations that gather pages at the same time.
//!
//! An operation needs several pages together (a path through a tree, a heap page) and gets them one
//! by one. If more operations do so than the frames can serve, each evicts the pages that the
//! others have gathered, and pages are read again and again. So an operation that must wait for a
//! page takes a seat first, and keeps it until it is done. There are as many seats as the frames
//! have room for. In a pool of more than a few hundred frames no operation waits for a seat.
//!
//! ```text
//!   queue:  a b c d e      an entry may take a seat if it is among the first `free` entries:
//!           free = 2       a and b have been woken
//! ```
//!
//! Access rules: any thread takes and returns seats and leaves the queue, under the lock.
//! Invariant: the first `free` entries of the queue have been woken since they may take a seat. The
//! holder of a seat waits for pages only, never for a lock or the log, so seats become free again.

use crate::pool::Pool;
use latch::{Rank, RankedGuard, RankedMutex};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Frames per seat: a path through a tree of four levels, a heap page, and one spare frame.
const FRAMES_EACH: usize = 6;

pub(crate) struct Seats(RankedMutex<State>);

struct State {
    free: usize,
    queue: VecDeque<(u64, Waker)>,
    next: u64,
}

impl State {
    /// The waker of the entry that the last change allows to take a seat.
    fn called(&self) -> Option<Waker> {
        let last = self.free.checked_sub(1)?;
        self.queue.get(last).map(|(_, waker)| waker.clone())
    }
}

impl Seats {
    pub fn new(frames: usize) -> Seats {
        let free = (frames / FRAMES_EACH).max(1);
        Seats(RankedMutex::new(Rank::PoolSeats, State { free, queue: VecDeque::new(), next: 0 }))
    }

    fn state(&self) -> RankedGuard<'_, State> {
        self.0.lock()
    }

    pub fn wait(&self) -> SeatWait<'_> {
        SeatWait { seats: self, ticket: None }
    }
}

/// The right to gather pages. Dropping it lets the next operation take a seat.
#[must_use = "dropped, it is another operation's"]
pub struct Seat<'p>(&'p Seats);

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.free += 1;
        let called = state.called();
        drop(state);
        called.into_iter().for_each(Waker::wake);
    }
}

/// Waits for a seat, first come, first served; see [`Pool::seat`].
#[must_use = "a future does nothing unless polled"]
pub struct SeatWait<'p> {
    seats: &'p Seats,
    /// The number of its entry in the queue.
    ticket: Option<u64>,
}

impl<'p> Future for SeatWait<'p> {
    type Output = Seat<'p>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Seat<'p>> {
        let seats = self.seats;
        let mut state = seats.state();
        let place = match self.ticket {
            Some(ticket) => state.queue.iter().position(|(t, _)| *t == ticket),
            None => None,
        };
        let before = place.unwrap_or(state.queue.len());
        if before < state.free {
            place.map(|at| state.queue.remove(at));
            state.free -= 1;
            self.ticket = None;
            return Poll::Ready(Seat(seats));
        }
        match place {
            Some(at) => state.queue[at].1.clone_from(cx.waker()),
            None => {
                let ticket = state.next;
                state.next += 1;
                state.queue.push_back((ticket, cx.waker().clone()));
                self.ticket = Some(ticket);
            }
        }
        Poll::Pending
    }
}

impl Drop for SeatWait<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = self.seats.state();
        state.queue.retain(|(t, _)| *t != ticket);
        // If this entry was woken, the next one may take the seat instead.
        let called = state.called();
        drop(state);
        called.into_iter().for_each(Waker::wake);
    }
}

impl Pool {
    /// A future that yields the right to gather pages. An operation takes it before it waits for
    /// its first page, and keeps it until it is done. While it holds the seat, it waits for pages
    /// only.
    pub fn seat(&self) -> SeatWait<'_> {
        self.seats.wait()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::thread::{Thread, scope};

    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    /// Waits for the future, or leaves after `patience` looks at it.
    fn look<T>(mut future: Pin<&mut impl Future<Output = T>>, patience: usize) -> Option<T> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        for n in 0..patience {
            if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(value);
            }
            if n + 1 < patience {
                std::thread::park();
            }
        }
        None
    }

    #[test]
    fn seats_are_given_in_order() {
        let seats = Seats::new(FRAMES_EACH);
        let mut cx = Context::from_waker(Waker::noop());
        let first = look(std::pin::pin!(seats.wait()), 1).unwrap();
        let (mut b, mut c) = (Box::pin(seats.wait()), Box::pin(seats.wait()));
        assert!(b.as_mut().poll(&mut cx).is_pending() && c.as_mut().poll(&mut cx).is_pending());
        drop(first);
        assert!(c.as_mut().poll(&mut cx).is_pending(), "b came before");
        assert!(Box::pin(seats.wait()).as_mut().poll(&mut cx).is_pending(), "and so did c");
        drop(b);
        assert!(c.as_mut().poll(&mut cx).is_ready(), "b has left");
    }

    /// Waiters that give up, woken or not, lose no seat: with a lost seat a thread here would sleep
    /// for ever.
    #[test]
    fn no_seat_is_lost_and_none_is_there_twice() {
        let seats = Seats::new(2 * FRAMES_EACH);
        let sitting = AtomicUsize::new(0);
        scope(|s| {
            for t in 0..4usize {
                let (seats, sitting) = (&seats, &sitting);
                s.spawn(move || {
                    for n in 0..2000 {
                        let patience = if (n + t) % 3 == 0 { 1 } else { usize::MAX };
                        if let Some(seat) = look(std::pin::pin!(seats.wait()), patience) {
                            assert!(sitting.fetch_add(1, Ordering::SeqCst) < 2);
                            sitting.fetch_sub(1, Ordering::SeqCst);
                            drop(seat);
                        }
                    }
                });
            }
        });
        let state = seats.state();
        assert_eq!((state.free, state.queue.len()), (2, 0));
    }
}
