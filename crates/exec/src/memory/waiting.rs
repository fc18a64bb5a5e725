//! Transactions that wait for the end of another one, which has prepared a row they need.
//!
//! Access rules: any worker's transaction enters itself. The thread that ends a prepared
//! transaction wakes all: few are prepared at a time, and each woken transaction checks its row
//! again.
//!
//! No wake-up is lost. Each side writes, fences, and reads the other's variable:
//!
//! ```text
//!   waiter: set the flag;    fence;  is the row still busy?  -> if not, it goes on
//!   ender:  unlock the row;  fence;  is the flag set?        -> if so, it wakes all
//! ```
//!
//! The fences are sequentially consistent, so at least one of the two sees the other's write.

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

    /// To be called after a prepared transaction has ended and its rows are free.
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
