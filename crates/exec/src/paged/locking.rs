//! Locks of a local transaction on the pages' engine: taken at once, or waited for until they are
//! granted, time out or close a cycle.

use super::PageEngine;
use crate::design::Design;
use crate::executor::Executor;
use crate::local::{LocalTxn, Protection};
use crate::owners::waits_for::AGAIN_NS;
use crate::seams;
use base::TableId;
use locks::{Acquired, Cancelled, LockAbort, LockName, Mode};
use probe::{Component, Wait};
use std::sync::PoisonError;
use std::task::Poll;
use txn::Abort;

impl<D: Design> PageEngine<D> {
    /// Takes the lock `name` in `mode` for a local transaction, and intention locks on `path` above
    /// it; waits if need be, unless the transaction hurries.
    #[inline]
    pub(crate) async fn lock(
        &self,
        executor: &Executor,
        txn: &mut LocalTxn,
        path: &[LockName],
        name: LockName,
        mode: Mode,
    ) -> Result<(), Abort> {
        if txn.protection != Protection::Locks {
            return Ok(());
        }
        if D::OWNERS && !txn.counted {
            self.begin_locking(txn);
        }
        let asked = seams::lock_mode(self.locks(txn.owner), &mut txn.locker, mode);
        let Some(mode) = asked else { return Ok(()) };
        loop {
            match probe::within(Component::Locking, || {
                self.locks(txn.owner).acquire_below(&mut txn.locker, path, name, mode)
            }) {
                Acquired::Granted => return Ok(()),
                Acquired::Deadlock if txn.hurries => return Err(Abort::LockTimeout),
                Acquired::Deadlock => return Err(Abort::Deadlock),
                Acquired::Crowded => return Err(Abort::Crowded),
                Acquired::Waiting if txn.hurries => match self.locks(txn.owner).cancel(&mut txn.locker) {
                    Cancelled::Granted => {}
                    Cancelled::Gone => return Err(Abort::LockTimeout),
                },
                // The wait may be for the table: the lock beneath it is requested next.
                Acquired::Waiting => {
                    self.count_wait(path.first().unwrap_or(&name).place());
                    Box::pin(self.wait(executor, txn)).await?;
                }
            }
        }
    }

    #[cold]
    fn count_wait(&self, table: TableId) {
        let mut waits = self.lock_waits.lock().unwrap_or_else(PoisonError::into_inner);
        *waits.entry(table).or_default() += 1;
    }

    #[cold]
    async fn wait(&self, executor: &Executor, txn: &mut LocalTxn) -> Result<(), Abort> {
        let deadline = world::now_ns() + self.options.lock_timeout_ns;
        txn.locker.deadline_ns = deadline;
        let mut armed = false;
        let (mut next_ns, mut blockers) = (0, Vec::new());
        let waited = std::future::poll_fn(|cx| {
            let now = world::now_ns();
            let polled = self.locks(txn.owner).poll_until(&mut txn.locker, now, cx);
            if D::OWNERS && txn.abroad && polled.is_pending() {
                if now < next_ns {
                    return probe::parks(Wait::Lock, Poll::Pending);
                }
                next_ns = now + AGAIN_NS;
                executor.timer(next_ns, cx.waker().clone());
                return self.look_for_cycle(txn, &mut blockers);
            }
            if polled.is_pending() && !std::mem::replace(&mut armed, true) {
                executor.timer(deadline, cx.waker().clone());
            }
            probe::parks(Wait::Lock, polled).map_err(|abort| match abort {
                LockAbort::Deadlock => Abort::Deadlock,
                LockAbort::Timeout => Abort::LockTimeout,
            })
        })
        .await;
        if D::OWNERS && txn.abroad {
            self.waits_for.strike_out(txn.name, txn.owner);
        }
        waited
    }

    /// Called while the lock is not granted: checks whether a cycle over several owners is the
    /// reason.
    fn look_for_cycle(&self, txn: &mut LocalTxn, blockers: &mut Vec<u64>) -> Poll<Result<(), Abort>> {
        let locks = self.locks(txn.owner);
        blockers.clear();
        locks.blockers(&txn.locker, |name| blockers.push(name));
        if self.waits_for.closes_cycle(txn.name, txn.owner, blockers) {
            return Poll::Ready(match locks.cancel(&mut txn.locker) {
                Cancelled::Granted => Ok(()),
                Cancelled::Gone => Err(Abort::Deadlock),
            });
        }
        probe::parks(Wait::Lock, Poll::Pending)
    }
}
