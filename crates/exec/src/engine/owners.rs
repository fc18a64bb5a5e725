//! The part of an engine for designs in which workers own keys.
//!
//! A local transaction may have branches at other workers, which end with it:
//!
//! ```text
//!   the transaction's worker                               an owner
//!   meeting, send(steps) ... --------------------------->  receive: a Visit, with the branch
//!   own steps                                              runs the steps
//!   rendezvous  <----------------------------------------  answer: results and branch
//!   commit: one record for all; or rollback ------------>  (in receive) locks released; or undone
//! ```
//!
//! An engine without owners names [`NoOwners`], a type without values: there is no value to call
//! these methods on, so they need no answer for it.

use crate::branches::{Answer, Visit};
use crate::executor::Executor;
use crate::owners::SiteOwner;
use crate::owners::owner_map::MapVersion;
use crate::paged::RepartitionRequest;
use partition::Ranges;
use std::ops::Range;
use txn::{Abort, Route};

/// An engine in which workers own keys. `C` is the worker context, `T` the local transaction.
pub trait KeyOwners<C, T> {
    /// The worker and site where steps with this route must run; `None` if any worker may run them.
    fn site_owner(&self, route: Route) -> Option<SiteOwner>;

    /// The map version. To be taken before the steps of one message are routed; with it the
    /// receiver tells whether the steps still are its own.
    fn map_version(&self) -> MapVersion;

    /// The workers and the sites they own. Sites are counted from the instance's first.
    fn ranges(&self) -> Ranges;

    /// The sites with keys that the worker owns.
    fn sites_of(&self, ctx: &C) -> Range<u32>;

    /// Admits a local transaction to its own worker's keys: until its end, steps that are routed to
    /// this worker stay so. `false` if it has to wait, by [`KeyOwners::pass`].
    fn admit(&self, txn: &mut T) -> bool;

    /// Waits until the local transaction is admitted.
    ///
    /// # Errors
    /// [`Abort::Deadlock`], [`Abort::LockTimeout`].
    async fn pass(&self, ctx: &C, executor: &Executor, txn: &mut T) -> Result<(), Abort>;

    /// Has the worker carry out changes of ownership, in its turns; the repartition request names
    /// the receiver of the outcome.
    fn repartition(&self, ctx: &C, request: RepartitionRequest);

    /// A load begins: from here on the worker may own its pages.
    fn take_over(&self, ctx: &C);

    /// The load has halted: from here on any thread may touch any page.
    fn give_back(&self, ctx: &C);

    /// Opens a rendezvous of steps at several workers, and returns its number.
    fn meeting(&self, ctx: &C) -> u32;

    /// Sends encoded steps to their owner, on behalf of a local transaction. The map version holds
    /// their sites.
    fn send(&self, ctx: &C, txn: &mut T, meeting: u32, owner: (usize, MapVersion), steps: Vec<u8>);

    /// Waits until all steps that were sent are answered, and ends the rendezvous. The answer is
    /// [`Abort::NotHere`] for steps that belong to another worker meanwhile: none of them has run.
    async fn rendezvous(&self, ctx: &C, txn: &mut T, meeting: u32) -> Vec<Answer>;

    /// Reads the messages of other workers and handles them, up to the next steps to run here.
    fn receive(&self, ctx: &C) -> Option<Visit<T>>;

    /// Called before the steps of a visit run.
    fn begin_visit(&self, txn: &mut T);

    /// Sends the results of a visit back.
    fn answer(&self, ctx: &C, visit: Visit<T>, outcome: Result<(), Abort>, outputs: Vec<u8>);

    /// The number of visits that the worker has admitted and not yet answered.
    fn waiting(&self, ctx: &C) -> usize;

    /// Whether all branches that this worker sent elsewhere to be undone are undone.
    fn is_settled(&self, ctx: &C) -> bool;
}

/// The owners of an engine without owners. There is no value of this type.
#[derive(Debug)]
pub enum NoOwners {}

impl<C, T> KeyOwners<C, T> for NoOwners {
    fn site_owner(&self, _: Route) -> Option<SiteOwner> {
        match *self {}
    }

    fn map_version(&self) -> MapVersion {
        match *self {}
    }

    fn ranges(&self) -> Ranges {
        match *self {}
    }

    fn sites_of(&self, _: &C) -> Range<u32> {
        match *self {}
    }

    fn admit(&self, _: &mut T) -> bool {
        match *self {}
    }

    async fn pass(&self, _: &C, _: &Executor, _: &mut T) -> Result<(), Abort> {
        match *self {}
    }

    fn repartition(&self, _: &C, _: RepartitionRequest) {
        match *self {}
    }

    fn take_over(&self, _: &C) {
        match *self {}
    }

    fn give_back(&self, _: &C) {
        match *self {}
    }

    fn meeting(&self, _: &C) -> u32 {
        match *self {}
    }

    fn send(&self, _: &C, _: &mut T, _: u32, _: (usize, MapVersion), _: Vec<u8>) {
        match *self {}
    }

    async fn rendezvous(&self, _: &C, _: &mut T, _: u32) -> Vec<Answer> {
        match *self {}
    }

    fn receive(&self, _: &C) -> Option<Visit<T>> {
        match *self {}
    }

    fn begin_visit(&self, _: &mut T) {
        match *self {}
    }

    fn answer(&self, _: &C, _: Visit<T>, _: Result<(), Abort>, _: Vec<u8>) {
        match *self {}
    }

    fn waiting(&self, _: &C) -> usize {
        match *self {}
    }

    fn is_settled(&self, _: &C) -> bool {
        match *self {}
    }
}
