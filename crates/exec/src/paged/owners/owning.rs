//! Local transactions with branches at other workers: sending steps, running visits, and one end
//! for all branches.

use crate::branches::{Answer, BranchMessage, Steps, Visit};
use crate::design::Design;
use crate::local::{LocalTxn, Protection};
use crate::owners::owner_map::MapVersion;
use crate::paged::{PageEngine, PageWorkerContext};
use base::Lsn;
use probe::Wait;
use smallvec::SmallVec;
use std::task::Poll;
use store::{StoreFault, Txn};
use txn::Abort;

/// The bits of a transaction's name that number it within its worker; the bits above them hold the
/// worker.
const NUMBER_BITS: u32 = 48;

impl<D: Design> PageEngine<D> {
    /// Starts a local transaction at a worker that owns keys, and gives it the name by which others
    /// wait for it.
    #[inline]
    pub(in crate::paged) fn begin_named(
        &self,
        ctx: &PageWorkerContext,
        txn: &mut LocalTxn,
        protection: Protection,
    ) {
        self.begin(txn, ctx.worker, protection);
        if D::OWNERS && protection == Protection::Locks {
            let number = ctx.number.get() + 1;
            ctx.number.set(number);
            txn.name = ((ctx.worker as u64) << NUMBER_BITS) | number;
        }
    }

    pub(in crate::paged) fn send_steps(
        &self,
        ctx: &PageWorkerContext,
        txn: &mut LocalTxn,
        meeting: u32,
        (owner, map_version): (usize, MapVersion),
        steps: Vec<u8>,
    ) {
        ctx.meetings.borrow_mut().get(meeting).missing += 1;
        txn.abroad = true;
        let (branch, name) = (txn.branches.take(owner), txn.name);
        let steps = Steps { home: ctx.worker, meeting, name, map_version, branch, steps };
        ctx.mailbox().send(owner, BranchMessage::Steps(steps));
    }

    pub(in crate::paged) async fn await_answers(
        &self,
        ctx: &PageWorkerContext,
        txn: &mut LocalTxn,
        meeting: u32,
    ) -> Vec<Answer> {
        std::future::poll_fn(|cx| {
            let mut meetings = ctx.meetings.borrow_mut();
            let open = meetings.get(meeting);
            if open.missing == 0 {
                return Poll::Ready(());
            }
            open.waker = Some(cx.waker().clone());
            probe::parks(Wait::Reply, Poll::Pending)
        })
        .await;
        let answers = ctx.meetings.borrow_mut().close(meeting);
        let home = |(branch, answer): (Option<Box<LocalTxn>>, Answer)| {
            txn.branches.away.extend(branch.map(|branch| (answer.owner, branch)));
            answer
        };
        answers.into_iter().map(home).collect()
    }

    /// Handles messages, up to the next visit.
    pub(in crate::paged) fn read_messages(&self, ctx: &PageWorkerContext) -> Option<Visit<LocalTxn>> {
        let mailbox = ctx.mailbox();
        mailbox.push_on();
        if let Some(visit) = self.next_held(ctx) {
            return Some(visit);
        }
        while let Some(message) = mailbox.take() {
            match message {
                BranchMessage::Steps(steps) => {
                    if let Some(visit) = self.let_in(ctx, steps) {
                        return Some(visit);
                    }
                }
                BranchMessage::Answer { meeting, branch, answer } => {
                    ctx.meetings.borrow_mut().answer(meeting, Some(branch), answer);
                }
                BranchMessage::Moved { meeting, branch, answer } => {
                    ctx.meetings.borrow_mut().answer(meeting, branch, answer);
                }
                BranchMessage::Commit(mut branch) => {
                    self.end(&mut branch);
                    self.store.committed::<D::Latch>(&mut branch.store_txn);
                    self.note_parted(ctx, &mut branch.store_txn);
                    ctx.spare.borrow_mut().push(branch);
                }
                BranchMessage::Undo { home, mut branch } => {
                    // A failed rollback has poisoned the store; nothing commits afterwards.
                    let _ = self.rollback(&mut branch);
                    self.note_parted(ctx, &mut branch.store_txn);
                    ctx.spare.borrow_mut().push(branch);
                    mailbox.send(home, BranchMessage::Undone);
                }
                BranchMessage::Undone => ctx.undoing.set(ctx.undoing.get() - 1),
                BranchMessage::Release(group) => self.release_group(group, ctx.worker),
            }
        }
        None
    }

    pub(in crate::paged) fn new_branch(&self, ctx: &PageWorkerContext, name: u64) -> Box<LocalTxn> {
        let spare = ctx.spare.borrow_mut().pop();
        let mut txn = spare.unwrap_or_else(|| Box::new(self.local_txn_of(ctx.worker)));
        self.begin(&mut txn, ctx.worker, Protection::Locks);
        txn.name = name;
        txn.abroad = true;
        txn
    }

    pub(in crate::paged) fn answer_visit(
        &self,
        ctx: &PageWorkerContext,
        visit: Visit<LocalTxn>,
        outcome: Result<(), Abort>,
        outputs: Vec<u8>,
    ) {
        let (owner, Visit { txn, home, meeting, .. }) = (ctx.worker, visit);
        ctx.gate.visits.set(ctx.gate.visits.get() - 1);
        let answer = Answer { owner, outcome, outputs };
        ctx.mailbox().send(home, BranchMessage::Answer { meeting, branch: txn, answer });
    }

    /// Commits a local transaction with branches.
    pub(in crate::paged) fn commit_branches(
        &self,
        ctx: &PageWorkerContext,
        txn: &mut LocalTxn,
        note: Option<&[u8]>,
    ) -> Result<Lsn, Abort> {
        let logged = {
            let mut chains = chains(txn);
            self.store.commit_together(&mut chains, note)
        };
        if logged.is_err() {
            // On a store that has met a fault this only ends the branches.
            let _ = self.rollback_branches(ctx, txn);
            self.release_in_doubt(ctx, txn);
            return self.after_commit(txn, logged);
        }
        for (owner, branch) in txn.branches.away.drain(..) {
            ctx.mailbox().send(owner, BranchMessage::Commit(branch));
        }
        for mut chain in txn.branches.found.drain(..) {
            self.store.committed::<D::Latch>(&mut chain);
        }
        self.release_in_doubt(ctx, txn);
        let committed = self.after_commit(txn, logged);
        self.note_parted(ctx, &mut txn.store_txn);
        committed
    }

    pub(in crate::paged) fn prepare_branches(
        &self,
        txn: &mut LocalTxn,
        note: &[u8],
    ) -> Result<Lsn, StoreFault> {
        self.store.prepare_together(&mut chains(txn), note)
    }

    /// Undoes the chains found with the local transaction, and has its branches undone. In-doubt
    /// locks stay until its own chain is undone.
    pub(in crate::paged) fn rollback_branches(
        &self,
        ctx: &PageWorkerContext,
        txn: &mut LocalTxn,
    ) -> Result<(), Abort> {
        self.undo_branches(ctx, txn);
        let mut undone = Ok(());
        for mut chain in txn.branches.found.drain(..) {
            undone = undone.and(self.undo(&mut chain));
        }
        undone
    }

    /// Gives branches up without ending the transaction. Their locks are not released: the tables
    /// end with the engine.
    pub(in crate::paged) fn abandon_branches(&self, txn: &mut LocalTxn) {
        txn.branches.away.drain(..).for_each(|(_, branch)| std::mem::forget(branch.locker));
        txn.branches.found.clear();
        txn.branches.group = None;
    }

    /// Sends the branches to their owners to be undone. The messages arrive before any later one of
    /// this worker is read.
    pub(in crate::paged) fn undo_branches(&self, ctx: &PageWorkerContext, txn: &mut LocalTxn) {
        for (owner, branch) in txn.branches.away.drain(..) {
            ctx.undoing.set(ctx.undoing.get() + 1);
            ctx.mailbox().send(owner, BranchMessage::Undo { home: ctx.worker, branch });
        }
    }
}

/// The local transaction's own chain, and those of its branches.
fn chains(txn: &mut LocalTxn) -> SmallVec<[&mut Txn; 8]> {
    std::iter::once(&mut txn.store_txn).chain(txn.branches.chains()).collect()
}
