//! Visits that need no session.

use crate::links::LinkId;
use crate::local::Local;
use crate::state::Session;
use base::Gtid;
use exec::Engine;
use std::cell::Cell;
use std::pin::Pin;
use txn::{Abort, Workload};

/// A visit that needs no session as long as it does not have to wait.
pub(super) struct Passing<'l, W: Workload, E: Engine> {
    pub(super) local: &'l Local<W, E>,
    pub(super) gtid: Gtid,
    pub(super) link: LinkId,
    pub(super) opened: Cell<bool>,
}

impl<W: Workload, E: Engine> Passing<'_, W, E> {
    /// Runs some of the visit's work, and opens the session when it first has to wait. Fails if the
    /// transaction is given up meanwhile.
    pub(super) async fn run(
        &self,
        mut work: Pin<&mut impl Future<Output = Result<(), Abort>>>,
    ) -> Result<(), Abort> {
        std::future::poll_fn(|cx| {
            let polled = work.as_mut().poll(cx);
            if polled.is_pending() {
                self.open();
            }
            polled
        })
        .await?;
        let is_cancelled = self.opened.get() && self.local.cancelled(self.gtid);
        if is_cancelled { Err(Abort::Participant) } else { Ok(()) }
    }

    pub(super) fn open(&self) {
        if !self.opened.replace(true) {
            self.local
                .distributed
                .sessions
                .borrow_mut()
                .insert(self.gtid, Session::new(self.gtid, self.link));
        }
    }
}
