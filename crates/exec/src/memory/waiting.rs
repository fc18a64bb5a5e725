//! Transactions that wait for another one, which has prepared a row they need, to be decided.
//!
//! Who may do what: any worker's transaction enters itself; whoever ends a prepared transaction wakes all, for few are
//! prepared at a time and those who wait look again. Entering and ending meet like this: the one enters, fences, and looks
//! at the row once more; the other unlocks, fences, and looks whether anybody has entered. One of them sees the other.

use memstore::{Memstore, RowId};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

#[derive(Default)]
pub(crate) struct Waiting {
    anybody: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl Waiting {
    /// Ready once the row is free.
    pub(crate) fn poll(&self, store: &Memstore, row: RowId, cx: &mut Context<'_>) -> Poll<()> {
        if !store.is_busy(row) {
            return Poll::Ready(());
        }
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            wakers.push(cx.waker().clone());
        }
        self.anybody.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if store.is_busy(row) { Poll::Pending } else { Poll::Ready(()) }
    }

    /// A prepared transaction has ended, and its rows are free.
    pub(crate) fn ended(&self) {
        fence(Ordering::SeqCst);
        if self.anybody.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        self.anybody.store(false, Ordering::Relaxed);
        wakers.drain(..).for_each(Waker::wake);
    }
}
