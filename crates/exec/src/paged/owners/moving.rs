//! Repartition: keys change owners while transactions run.
//!
//! ```text
//!   balancer           the giver                                           the taker
//!   request ---------> (moves rows of the two sides to different heap
//!                       pages: `dividing`)
//!                      shuts its drain gate: transactions inside go on,
//!                      new ones wait
//!                      the last one leaves: no lock is held here, no
//!                      transaction is undecided
//!                      splits its trees, disowns the pages, writes the
//!                      owner map
//!   <---- done ------- opens the gate; steps that waited for keys that
//!                      are gone are sent on                          ----> runs them; owns the
//!                                                                          pages in its next turn
//! ```
//!
//! **The range drains first; locks do not move.** A transaction that is under way finishes with the
//! old border. The alternative is to hand the locks over with the range. Then more would have to
//! move: a step that waits half-way here has a position in a range that would be another worker's,
//! undo goes to where the rows were changed, and pages have one owner. Draining takes as long as
//! the transactions under way, and the giver alone pays for it: the taker only begins to get
//! messages. Transactions that run alone are never under way between two turns, so they go on while
//! the gate is shut.
//!
//! **Inside** is a transaction that has asked for a lock at this owner (`LocalTxn::counted`), and a
//! visit from its admission to its answer. All others ask at the gate: visits as they are read
//! ([`PageEngine::let_in`]), the worker's own transactions before their first step here
//! ([`PageEngine::pass`]), and steps of other instances in [`txn::Access::enter`]. A transaction
//! inside stays inside until it ends, so a key that it has found here stays here.
//!
//! **No transactions wait in a cycle.** A transaction at the gate waits for all that are inside,
//! and one of those may wait, at another owner, for a lock of the first. So a transaction at the
//! gate records its wait in the waits-for graph, as one that waits for a lock does, and gives up if
//! it closes a cycle. Over several instances the time-out ends the cycle. The request itself waits
//! for [`DRAIN_NS`] at most and is then refused: a prepared transaction with a coordinator that is
//! down would keep the gate shut for ever.

use super::dividing::{Apart, cuts};
use crate::branches::{Answer, BranchMessage, Steps, Visit};
use crate::design::Design;
use crate::executor::Executor;
use crate::local::{LocalTxn, Protection};
use crate::owners::waits_for::AGAIN_NS;
use crate::owners::{self, Gift, Owners};
use crate::paged::{PageEngine, PageWorkerContext};
use access::Moved;
use base::{Key, TableId};
use pages::Stop;
use partition::{RangeChange, RangeError, Ranges};
use probe::Wait;
use std::cell::{Cell, RefCell};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::task::{Poll, Waker};
use store::Divided;
use txn::Abort;

/// The longest time for which a drain gate stays shut while it drains. Transactions take
/// microseconds, those that wait for a device milliseconds. It is half the usual time-out of a
/// lock, so that transactions at the gate do not give up first.
pub const DRAIN_NS: u64 = 50_000_000;

/// A repartition request: changes of the partitions for one worker to carry out, in order.
#[derive(Debug)]
pub struct RepartitionRequest {
    /// The version of the partitions for which the first change was made.
    pub made_for: u64,
    pub changes: Vec<RangeChange>,
    /// Whether keys change hands, so that no transaction may be under way at the worker.
    pub gives: bool,
    /// Incremented while rows are being moved: the thread that waits for the outcome sees the
    /// progress.
    pub progress: Arc<AtomicU64>,
    pub done: Sender<Result<Carried, Refusal>>,
}

/// The work done for a repartition request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Carried {
    pub changes: usize,
    /// Pages, entries and pointers of all trees that were split and merged.
    pub moved: Moved,
    /// Trees that were split or merged.
    pub trees: usize,
    /// Rows that had to move for that, and the work it took.
    pub rows: Divided,
    /// How long the gate was shut until no transaction was under way, ns.
    pub drain_ns: u64,
    /// How long the gate was shut in total, ns.
    pub shut_ns: u64,
    /// Visits that waited meanwhile.
    pub held: usize,
}

impl Carried {
    pub fn add(&mut self, other: &Carried) {
        let Moved { pages_read, pages_made, pages_freed, leaf_entries, inner_entries, bytes, pointers } =
            other.moved;
        let own = &mut self.moved;
        own.pages_read += pages_read;
        own.pages_made += pages_made;
        own.pages_freed += pages_freed;
        own.leaf_entries += leaf_entries;
        own.inner_entries += inner_entries;
        own.bytes += bytes;
        own.pointers += pointers;
        self.rows += other.rows;
        self.changes += other.changes;
        self.trees += other.trees;
        self.drain_ns += other.drain_ns;
        self.shut_ns += other.shut_ns;
        self.held += other.held;
    }
}

/// Why a repartition request was not carried out, or not completely: [`Owners::ranges`] holds the
/// partitions as they are.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    #[error(
        "worker {worker} still had transactions under way after {} ms: nothing was changed, try again later",
        DRAIN_NS / 1_000_000
    )]
    Busy { worker: usize },
    /// Also if the request gives keys away without a drain, or merges partitions of two workers.
    #[error("worker {0} does not own the keys that it was to give away, or to join")]
    NotOwner(usize),
    #[error(transparent)]
    Range(#[from] RangeError),
    #[error("a tree could not be divided: {0}")]
    Tree(String),
    #[error("this design has no owners of keys")]
    NoOwners,
}

/// The state of a worker's drain gate. Only the worker's own thread touches it.
#[derive(Default)]
pub(in crate::paged) struct DrainGate {
    /// Visits that were admitted and are not answered yet.
    pub visits: Cell<usize>,
    /// Messages with steps that wait for the gate to open.
    held: RefCell<VecDeque<Held>>,
    /// The time at which those record their blockers again and look for a cycle.
    look_ns: Cell<u64>,
    /// Tasks of this worker that wait for the gate to open.
    waiting: RefCell<Vec<Waker>>,
    pub requests: RefCell<VecDeque<RepartitionRequest>>,
    /// For the first request: the division of rows before the gate is shut.
    pub apart: RefCell<Option<Apart>>,
    /// For the first request: the time at which the gate was shut, ns.
    shut_ns: Cell<Option<u64>>,
    /// Visits that came since the gate was shut.
    came: Cell<usize>,
    /// The map version for which this worker owns its pages.
    pub seen: Cell<u64>,
    /// The partitions with pages that it owns, each by its tree and first key.
    pub owned: RefCell<HashSet<(TableId, Key)>>,
}

impl DrainGate {
    pub fn is_shutting(&self) -> bool {
        self.shut_ns.get().is_some()
    }
}

struct Held {
    steps: Steps,
    until_ns: u64,
}

impl<D: Design> PageEngine<D> {
    #[inline]
    pub(crate) fn is_shut(&self, owner: usize) -> bool {
        D::OWNERS && self.locking(owner).shut.load(Ordering::Relaxed)
    }

    /// Admits a local transaction of this worker, if it need not wait: it may have steps here from
    /// then until its end.
    #[inline]
    pub(crate) fn admit(&self, txn: &mut LocalTxn) -> bool {
        if !D::OWNERS || txn.counted || txn.protection != Protection::Locks {
            return true;
        }
        if self.is_shut(txn.owner) {
            return false;
        }
        self.begin_locking(txn);
        true
    }

    /// Waits at the gate until the local transaction is admitted.
    ///
    /// # Errors
    /// [`Abort::Deadlock`] when a transaction inside waits for it; [`Abort::LockTimeout`].
    pub(in crate::paged) async fn pass(
        &self,
        ctx: &PageWorkerContext,
        executor: &Executor,
        txn: &mut LocalTxn,
    ) -> Result<(), Abort> {
        let until_ns = world::now_ns() + self.options.lock_timeout_ns;
        let passed = std::future::poll_fn(|cx| {
            if self.admit(txn) {
                return Poll::Ready(Ok(()));
            }
            let now = world::now_ns();
            if self.waits_for.closes_cycle(txn.name, txn.owner, &self.insiders(txn.owner)) {
                return Poll::Ready(Err(Abort::Deadlock));
            }
            if now >= until_ns {
                return Poll::Ready(Err(Abort::LockTimeout));
            }
            ctx.gate.waiting.borrow_mut().push(cx.waker().clone());
            executor.timer(now + AGAIN_NS, cx.waker().clone());
            probe::parks(Wait::Lock, Poll::Pending)
        })
        .await;
        self.waits_for.strike_out(txn.name, txn.owner);
        passed
    }

    /// The names of the transactions inside, and of some that have ended.
    fn insiders(&self, owner: usize) -> Vec<u64> {
        let mut names = Vec::new();
        self.locks(owner).labels(|name| names.extend((name != 0).then_some(name)));
        names
    }

    /// Begins a visit, if its steps are this worker's and the gate is open to it; else sends it
    /// back, or holds it.
    #[inline]
    pub(in crate::paged) fn let_in(&self, ctx: &PageWorkerContext, steps: Steps) -> Option<Visit<LocalTxn>> {
        let is_in = steps.branch.as_ref().is_some_and(|branch| branch.counted);
        if !self.owners.as_ref().is_some_and(|owners| owners.holds(ctx.worker, &steps.map_version)) {
            self.send_back(ctx, steps, Abort::NotHere(ctx.worker as u16));
            return None;
        }
        if !is_in && self.is_shut(ctx.worker) {
            self.hold(ctx, steps);
            return None;
        }
        ctx.gate.visits.set(ctx.gate.visits.get() + 1);
        let Steps { home, meeting, name, branch, steps, .. } = steps;
        let txn = branch.unwrap_or_else(|| self.new_branch(ctx, name));
        Some(Visit { txn, steps, home, meeting })
    }

    #[cold]
    fn send_back(&self, ctx: &PageWorkerContext, steps: Steps, why: Abort) {
        let Steps { home, meeting, branch, mut steps, .. } = steps;
        steps.clear();
        let answer = Answer { owner: ctx.worker, outcome: Err(why), outputs: steps };
        ctx.mailbox().send(home, BranchMessage::Moved { meeting, branch, answer });
    }

    #[cold]
    fn hold(&self, ctx: &PageWorkerContext, steps: Steps) {
        ctx.gate.came.set(ctx.gate.came.get() + 1);
        if self.waits_for.closes_cycle(steps.name, ctx.worker, &self.insiders(ctx.worker)) {
            return self.send_back(ctx, steps, Abort::Deadlock);
        }
        let until_ns = world::now_ns() + self.options.lock_timeout_ns;
        ctx.gate.held.borrow_mut().push_back(Held { steps, until_ns });
    }

    /// The next visit that waited at a gate that is open again. While the gate is shut, lets those
    /// that wait look for a cycle again.
    #[inline]
    pub(in crate::paged) fn next_held(&self, ctx: &PageWorkerContext) -> Option<Visit<LocalTxn>> {
        if ctx.gate.held.borrow().is_empty() { None } else { self.look_at_held(ctx) }
    }

    #[cold]
    fn look_at_held(&self, ctx: &PageWorkerContext) -> Option<Visit<LocalTxn>> {
        let gate = &ctx.gate;
        if self.is_shut(ctx.worker) {
            let now = world::now_ns();
            if now >= gate.look_ns.get() {
                gate.look_ns.set(now + AGAIN_NS);
                let held = std::mem::take(&mut *gate.held.borrow_mut());
                held.into_iter().for_each(|held| self.hold_on(ctx, held, now));
            }
            return None;
        }
        loop {
            let Held { steps, .. } = gate.held.borrow_mut().pop_front()?;
            self.waits_for.strike_out(steps.name, ctx.worker);
            if let Some(visit) = self.let_in(ctx, steps) {
                return Some(visit);
            }
        }
    }

    /// Records the blockers of a visit again: they change while it waits.
    fn hold_on(&self, ctx: &PageWorkerContext, held: Held, now_ns: u64) {
        let name = held.steps.name;
        if self.waits_for.closes_cycle(name, ctx.worker, &self.insiders(ctx.worker)) {
            return self.send_back(ctx, held.steps, Abort::Deadlock);
        }
        if now_ns >= held.until_ns {
            self.waits_for.strike_out(name, ctx.worker);
            return self.send_back(ctx, held.steps, Abort::LockTimeout);
        }
        ctx.gate.held.borrow_mut().push_back(held);
    }

    /// Queues a repartition request; this worker carries it out in its turns.
    pub(in crate::paged) fn queue_request(&self, ctx: &PageWorkerContext, request: RepartitionRequest) {
        if self.owners.is_none() || !D::OWNERS {
            // The thread that asked may have ended.
            let _ = request.done.send(Err(Refusal::NoOwners));
            return;
        }
        ctx.gate.requests.borrow_mut().push_back(request);
    }

    /// Continues the worker's repartition request, if it has one. `true` if it divided rows or
    /// ended the request.
    #[inline]
    pub(in crate::paged) fn run_requests(&self, ctx: &PageWorkerContext) -> bool {
        D::OWNERS && !ctx.gate.requests.borrow().is_empty() && self.run_request(ctx)
    }

    #[cold]
    fn run_request(&self, ctx: &PageWorkerContext) -> bool {
        if self.come_apart(ctx) {
            return true;
        }
        let (gate, now) = (&ctx.gate, world::now_ns());
        let gives = gate.requests.borrow().front().is_some_and(|request| request.gives);
        // Rows move only while no transaction may undo changes to them.
        let (drains, doubts) = match self.ownership.rows() {
            true => (true, self.ownership.in_doubt()),
            false => (gives, false),
        };
        let is_idle = gate.visits.get() == 0 && self.locking(ctx.worker).txns.load(Ordering::Relaxed) == 0;
        let shut_ns = gate.shut_ns.get();
        if drains && (doubts || !is_idle) {
            match shut_ns {
                None => self.shut(ctx, now),
                Some(since) if now - since >= DRAIN_NS => {
                    self.end_request(ctx, Err(Refusal::Busy { worker: ctx.worker }));
                    return true;
                }
                Some(_) => {}
            }
            return false;
        }
        let request = gate.requests.borrow_mut().pop_front();
        let Some(request) = request else { return false };
        let outcome = self.carry_out(ctx, &request).map(|carried| Carried {
            drain_ns: shut_ns.map_or(0, |since| now - since),
            shut_ns: shut_ns.map_or(0, |since| world::now_ns() - since),
            held: gate.came.get(),
            ..carried
        });
        self.answer_request(ctx, &request, outcome);
        true
    }

    fn shut(&self, ctx: &PageWorkerContext, now_ns: u64) {
        ctx.gate.shut_ns.set(Some(now_ns));
        ctx.gate.came.set(0);
        self.locking(ctx.worker).shut.store(true, Ordering::Relaxed);
    }

    fn end_request(&self, ctx: &PageWorkerContext, outcome: Result<Carried, Refusal>) {
        let request = ctx.gate.requests.borrow_mut().pop_front();
        if let Some(request) = request {
            self.answer_request(ctx, &request, outcome);
        }
    }

    /// Opens the gate, and sends the outcome.
    fn answer_request(
        &self,
        ctx: &PageWorkerContext,
        request: &RepartitionRequest,
        outcome: Result<Carried, Refusal>,
    ) {
        ctx.gate.shut_ns.set(None);
        ctx.gate.apart.take();
        self.locking(ctx.worker).shut.store(false, Ordering::Relaxed);
        ctx.gate.waiting.borrow_mut().drain(..).for_each(Waker::wake);
        // The thread that asked may have ended.
        let _ = request.done.send(outcome);
    }

    fn carry_out(&self, ctx: &PageWorkerContext, request: &RepartitionRequest) -> Result<Carried, Refusal> {
        let Some(owners) = &self.owners else { return Err(Refusal::NoOwners) };
        let before = ctx.gate.apart.borrow().as_ref().map(Apart::done);
        let mut carried = Carried { rows: before.unwrap_or_default(), ..Carried::default() };
        if self.ownership.rows() {
            self.settle_all(ctx);
        }
        for (&change, made_for) in request.changes.iter().zip(request.made_for..) {
            let now = owners.ranges();
            let next = now.apply(made_for, change)?;
            let gifts = owners::gifts(&now, &next);
            let merges = matches!(change, RangeChange::Merge { .. });
            let gives = gifts.iter().any(|gift| gift.from != ctx.worker) || !request.gives || merges;
            if gives && !gifts.is_empty() {
                return Err(Refusal::NotOwner(ctx.worker));
            }
            if self.ownership.owned() {
                self.own_missing(ctx, &now);
                self.reshape(ctx, owners, (change, &next), &gifts, &mut carried).map_err(refused)?;
            }
            owners.publish(next, &gifts)?;
            carried.changes += 1;
        }
        Ok(carried)
    }

    /// Cuts and joins the trees as `next` says, and disowns the pages that change hands. After an
    /// error some trees may have a border too many or too few between two partitions of this
    /// worker; every later change mends that first.
    fn reshape(
        &self,
        ctx: &PageWorkerContext,
        owners: &Owners,
        (change, next): (RangeChange, &Ranges),
        gifts: &[Gift],
        carried: &mut Carried,
    ) -> Result<(), Stop> {
        for table in self.divided_tables() {
            let wanted = owners.borders_in(table, next);
            let border = |site: u64| owners.border(table, site);
            for key in cuts(owners, table, change, gifts, next) {
                self.cut(ctx, table, key, carried)?;
            }
            if let RangeChange::Merge { at, .. } = change
                && let Some(key) = border(at)
                && !wanted.iter().any(|(start, _)| *start == key)
                && self.store.partitions(table).contains(&key)
            {
                carried.moved_by(self.store.merge_partition::<D::Latch>(table, &key)?);
                ctx.gate.owned.borrow_mut().remove(&(table, key));
            }
            for Gift { sites, .. } in gifts {
                self.give_pages(
                    ctx,
                    table,
                    border(sites.start),
                    border(sites.end).filter(|_| sites.end < next.domain()),
                )?;
            }
        }
        Ok(())
    }

    /// Makes a partition of a tree begin at `key`.
    fn cut(
        &self,
        ctx: &PageWorkerContext,
        table: TableId,
        key: Key,
        carried: &mut Carried,
    ) -> Result<(), Stop> {
        let starts = self.store.partitions(table);
        if starts.contains(&key) {
            return Ok(());
        }
        let before = starts.into_iter().rfind(|start| *start < key).unwrap_or_default();
        self.divide_at_once(table, &key, carried)?;
        carried.moved_by(self.store.split_partition::<D::Latch>(table, &key)?);
        // A partition split off an owned one is owned.
        let mut owned = ctx.gate.owned.borrow_mut();
        if owned.contains(&(table, before)) {
            owned.insert((table, key));
        }
        Ok(())
    }

    /// Disowns the pages of all partitions that begin in a range.
    fn give_pages(
        &self,
        ctx: &PageWorkerContext,
        table: TableId,
        from: Option<Key>,
        to: Option<Key>,
    ) -> Result<(), Stop> {
        let from = from.unwrap_or_default();
        self.forget_leaves(ctx, table, &from, to.as_ref());
        for start in self.store.partitions(table) {
            if start < from || to.as_ref().is_some_and(|to| start >= *to) {
                continue;
            }
            if ctx.gate.owned.borrow_mut().remove(&(table, start.clone())) {
                self.store.disown_partition(table, &start)?;
            }
        }
        Ok(())
    }
}

impl Carried {
    fn moved_by(&mut self, moved: Moved) {
        self.add(&Carried { moved, trees: 1, ..Carried::default() });
    }
}

fn refused(stop: Stop) -> Refusal {
    Refusal::Tree(stop.to_string())
}
