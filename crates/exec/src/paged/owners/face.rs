//! The engines on pages behind the trait [`KeyOwners`]: the designs in which workers own keys.

use super::moving::RepartitionRequest;
use crate::branches::{Answer, Visit};
use crate::design::Design;
use crate::engine::owners::KeyOwners;
use crate::executor::Executor;
use crate::local::LocalTxn;
use crate::owners::owner_map::MapVersion;
use crate::owners::{Owners, SiteOwner};
use crate::paged::PageEngine;
use crate::paged::PageWorkerContext;
use partition::Ranges;
use std::ops::Range;
use txn::{Abort, Route};

impl<D: Design> KeyOwners<PageWorkerContext, LocalTxn> for PageEngine<D> {
    #[inline]
    fn site_owner(&self, route: Route) -> Option<SiteOwner> {
        self.owners.as_ref()?.site_owner(route)
    }

    #[inline]
    fn map_version(&self) -> MapVersion {
        self.owned().map_version()
    }

    fn ranges(&self) -> Ranges {
        self.owned().ranges()
    }

    fn sites_of(&self, ctx: &PageWorkerContext) -> Range<u32> {
        self.owned().sites_of(ctx.worker)
    }

    #[inline]
    fn admit(&self, txn: &mut LocalTxn) -> bool {
        PageEngine::admit(self, txn)
    }

    async fn pass(
        &self,
        ctx: &PageWorkerContext,
        executor: &Executor,
        txn: &mut LocalTxn,
    ) -> Result<(), Abort> {
        PageEngine::pass(self, ctx, executor, txn).await
    }

    fn repartition(&self, ctx: &PageWorkerContext, request: RepartitionRequest) {
        self.queue_request(ctx, request);
    }

    fn take_over(&self, ctx: &PageWorkerContext) {
        self.want_pages(ctx);
    }

    fn give_back(&self, ctx: &PageWorkerContext) {
        self.disown_pages(ctx);
    }

    fn meeting(&self, ctx: &PageWorkerContext) -> u32 {
        ctx.meetings.borrow_mut().open()
    }

    fn send(
        &self,
        ctx: &PageWorkerContext,
        txn: &mut LocalTxn,
        meeting: u32,
        (owner, map_version): (usize, MapVersion),
        steps: Vec<u8>,
    ) {
        self.send_steps(ctx, txn, meeting, (owner, map_version), steps);
    }

    async fn rendezvous(&self, ctx: &PageWorkerContext, txn: &mut LocalTxn, meeting: u32) -> Vec<Answer> {
        self.await_answers(ctx, txn, meeting).await
    }

    #[inline]
    fn receive(&self, ctx: &PageWorkerContext) -> Option<Visit<LocalTxn>> {
        if D::OWNERS { self.read_messages(ctx) } else { None }
    }

    #[inline]
    fn begin_visit(&self, txn: &mut LocalTxn) {
        if D::OWNERS && !txn.counted {
            self.begin_locking(txn);
        }
    }

    fn answer(
        &self,
        ctx: &PageWorkerContext,
        visit: Visit<LocalTxn>,
        outcome: Result<(), Abort>,
        outputs: Vec<u8>,
    ) {
        self.answer_visit(ctx, visit, outcome, outputs);
    }

    fn waiting(&self, ctx: &PageWorkerContext) -> usize {
        ctx.gate.visits.get()
    }

    fn is_settled(&self, ctx: &PageWorkerContext) -> bool {
        ctx.undoing.get() == 0
    }
}

impl<D: Design> PageEngine<D> {
    /// The owners of keys, which every engine has that hands itself out as one of [`KeyOwners`].
    #[inline]
    fn owned(&self) -> &Owners {
        self.owners.as_ref().expect("only where workers own keys")
    }
}
