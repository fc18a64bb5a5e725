//! Keys that change owners while transactions run.
//!
//! ```text
//!   balancer          the giver                                                        the taker
//!   errand ---------> (has rows of both sides in different heap pages: `dividing`)
//!                     shuts its door: who is in goes on, who comes waits
//!                     the last one leaves: locks nothing, has nothing undecided
//!                     splits its trees, gives the pages up, writes the chart
//!   <---- done ------ opens the door: who waited for keys that are gone is sent on ---> runs it; owns the pages in its next turn
//! ```
//!
//! **The range drains first; locks do not move.** A transaction that is under way finishes with the old border. The alternative is to hand the
//! locks over with the range, but a step waits half-way here, with a position in a range that would then be another worker's, undo goes where
//! the rows were changed, and pages have one owner: each of these would have to move too. What draining costs is as short
//! as transactions are, and the giver alone pays it: the taker only begins to get letters. Transactions that run alone are never under way
//! between two turns, so they go on while the door is shut.
//!
//! **In** is who has asked for a lock at this owner (`Part::counted`), and a visit between its letter and its answer. Everybody else asks at
//! the door: visits as they are read ([`PageEngine::let_in`]), the worker's own transactions before their first step here
//! ([`PageEngine::pass`]), and steps of other instances in [`txn::Access::enter`]. Who was in stays in until its transaction ends, so
//! a key that it has found here stays here.
//!
//! **Nobody waits in a circle.** Who waits at the door waits for all that are in, and one of those may wait, at another owner, for a lock of
//! the first. So it writes that on the board, as who waits for a lock does, and gives up if it closes a circle; over several instances the time-out
//! ends it. The errand itself waits for [`DRAIN_NS`] at most and is then taken back: a prepared transaction whose
//! coordinator is down would keep the door shut for ever.

use super::dividing::{Apart, cuts};
use super::{PageDesk, PageEngine};
use crate::board::AGAIN_NS;
use crate::branches::{Answer, Letter, Steps, Visit};
use crate::design::Design;
use crate::executor::Executor;
use crate::local::{Part, Protection};
use crate::owners::{self, Gift, Owners};
use access::Moved;
use base::{Key, TableId};
use pages::Stop;
use partition::{Change, RangeError, Ranges};
use probe::Wait;
use std::cell::{Cell, RefCell};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::task::{Poll, Waker};
use store::Divided;
use txn::Abort;

/// How long an owner's door stays shut at most. Transactions take microseconds, those that wait for a device milliseconds; half the
/// usual time-out of a lock, so that those at the door do not give up first.
pub const DRAIN_NS: u64 = 50_000_000;

/// Changes of the partitions for one worker to carry out, one after the other.
#[derive(Debug)]
pub struct Errand {
    /// The version of the partitions that the first one was made for.
    pub made_for: u64,
    pub changes: Vec<Change>,
    /// Whether keys change hands, so that the worker has to have nothing under way.
    pub gives: bool,
    /// Counted up while rows are being moved: whoever waits may see that it goes on.
    pub progress: Arc<AtomicU64>,
    pub done: Sender<Result<Carried, Refusal>>,
}

/// What an errand did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Carried {
    pub changes: usize,
    /// Pages, entries and pointers of all trees that were split and merged.
    pub moved: Moved,
    /// Trees that were split or merged.
    pub trees: usize,
    /// Rows that had to move for that, and what it took.
    pub rows: Divided,
    /// How long the door was shut, ns; until nothing was under way any more, and until all was done.
    pub drain_ns: u64,
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

/// Why an errand was not carried out, or not to its end: the partitions are what [`Owners::ranges`] says.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    #[error(
        "worker {worker} still had transactions under way after {} ms: nothing was changed, try again later",
        DRAIN_NS / 1_000_000
    )]
    Busy { worker: usize },
    /// Or it would have given them away without need to drain, or joined with what is another's.
    #[error("worker {0} does not own the keys that it was to give away, or to join")]
    NotOwner(usize),
    #[error(transparent)]
    Range(#[from] RangeError),
    #[error("a tree could not be divided: {0}")]
    Tree(String),
    #[error("this design has no owners of keys")]
    NoOwners,
}

/// What a worker has at its door.
#[derive(Default)]
pub(super) struct Door {
    /// Visits that were let in and are not answered yet.
    pub visits: Cell<usize>,
    /// Letters that wait outside.
    held: RefCell<VecDeque<Held>>,
    /// When those look again whether they close a circle.
    look_ns: Cell<u64>,
    /// Tasks of this worker that wait outside.
    waiting: RefCell<Vec<Waker>>,
    pub errands: RefCell<VecDeque<Errand>>,
    /// Of the first errand: rows that come apart before the door is shut.
    pub apart: RefCell<Option<Apart>>,
    /// Of the first errand: when the door was shut.
    shut_ns: Cell<Option<u64>>,
    /// Visits that came since.
    came: Cell<usize>,
    /// The version of the chart for which this worker owns its pages, and the partitions that it owns.
    pub seen: Cell<u64>,
    pub owned: RefCell<HashSet<(TableId, Key)>>,
}

impl Door {
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

    /// Lets a part of this worker's in, if it need not wait: it may have steps here from now on until its end.
    #[inline]
    pub(crate) fn admit(&self, part: &mut Part) -> bool {
        if !D::OWNERS || part.counted || part.protection != Protection::Locks {
            return true;
        }
        if self.is_shut(part.owner) {
            return false;
        }
        self.begin_locking(part);
        true
    }

    /// Waits at the door until the part is let in.
    ///
    /// # Errors
    /// [`Abort::Deadlock`] when somebody who is in waits for it; [`Abort::LockTimeout`].
    pub(super) async fn pass(
        &self,
        desk: &PageDesk,
        executor: &Executor,
        part: &mut Part,
    ) -> Result<(), Abort> {
        let until_ns = world::now_ns() + self.options.lock_timeout_ns;
        let passed = std::future::poll_fn(|cx| {
            if self.admit(part) {
                return Poll::Ready(Ok(()));
            }
            let now = world::now_ns();
            if self.board.closes_cycle(part.name, part.owner, &self.insiders(part.owner)) {
                return Poll::Ready(Err(Abort::Deadlock));
            }
            if now >= until_ns {
                return Poll::Ready(Err(Abort::LockTimeout));
            }
            desk.door.waiting.borrow_mut().push(cx.waker().clone());
            executor.timer(now + AGAIN_NS, cx.waker().clone());
            probe::parks(Wait::Lock, Poll::Pending)
        })
        .await;
        self.board.strike_out(part.name, part.owner);
        passed
    }

    /// The names of those who are in, and of some who have ended.
    fn insiders(&self, owner: usize) -> Vec<u64> {
        let mut names = Vec::new();
        self.locks(owner).labels(|name| names.extend((name != 0).then_some(name)));
        names
    }

    /// Begins a visit, if it is for this worker and the door is open to it; else it is sent back, or waits.
    #[inline]
    pub(super) fn let_in(&self, desk: &PageDesk, steps: Steps) -> Option<Visit<Part>> {
        let is_in = steps.branch.as_ref().is_some_and(|branch| branch.counted);
        if !self.owners.as_ref().is_some_and(|owners| owners.holds(desk.worker, &steps.stamp)) {
            self.send_back(desk, steps, Abort::NotHere(desk.worker as u16));
            return None;
        }
        if !is_in && self.is_shut(desk.worker) {
            self.hold(desk, steps);
            return None;
        }
        desk.door.visits.set(desk.door.visits.get() + 1);
        let Steps { home, meeting, name, branch, steps, .. } = steps;
        let part = branch.unwrap_or_else(|| self.new_branch(desk, name));
        Some(Visit { part, steps, home, meeting })
    }

    #[cold]
    fn send_back(&self, desk: &PageDesk, steps: Steps, why: Abort) {
        let Steps { home, meeting, branch, mut steps, .. } = steps;
        steps.clear();
        let answer = Answer { owner: desk.worker, outcome: Err(why), outputs: steps };
        desk.mailbox().send(home, Letter::Moved { meeting, branch, answer });
    }

    #[cold]
    fn hold(&self, desk: &PageDesk, steps: Steps) {
        desk.door.came.set(desk.door.came.get() + 1);
        if self.board.closes_cycle(steps.name, desk.worker, &self.insiders(desk.worker)) {
            return self.send_back(desk, steps, Abort::Deadlock);
        }
        let until_ns = world::now_ns() + self.options.lock_timeout_ns;
        desk.door.held.borrow_mut().push_back(Held { steps, until_ns });
    }

    /// The next visit that has waited at a door that is open again; looks after the others.
    #[inline]
    pub(super) fn next_held(&self, desk: &PageDesk) -> Option<Visit<Part>> {
        if desk.door.held.borrow().is_empty() { None } else { self.look_at_held(desk) }
    }

    #[cold]
    fn look_at_held(&self, desk: &PageDesk) -> Option<Visit<Part>> {
        let door = &desk.door;
        if self.is_shut(desk.worker) {
            let now = world::now_ns();
            if now >= door.look_ns.get() {
                door.look_ns.set(now + AGAIN_NS);
                let held = std::mem::take(&mut *door.held.borrow_mut());
                held.into_iter().for_each(|held| self.hold_on(desk, held, now));
            }
            return None;
        }
        loop {
            let Held { steps, .. } = door.held.borrow_mut().pop_front()?;
            self.board.strike_out(steps.name, desk.worker);
            if let Some(visit) = self.let_in(desk, steps) {
                return Some(visit);
            }
        }
    }

    /// Writes anew whom a visit waits for: that changes while it waits.
    fn hold_on(&self, desk: &PageDesk, held: Held, now_ns: u64) {
        let name = held.steps.name;
        if self.board.closes_cycle(name, desk.worker, &self.insiders(desk.worker)) {
            return self.send_back(desk, held.steps, Abort::Deadlock);
        }
        if now_ns >= held.until_ns {
            self.board.strike_out(name, desk.worker);
            return self.send_back(desk, held.steps, Abort::LockTimeout);
        }
        desk.door.held.borrow_mut().push_back(held);
    }

    /// Takes an errand; it is done in this worker's turns.
    pub(super) fn take_errand(&self, desk: &PageDesk, errand: Errand) {
        if self.owners.is_none() || !D::OWNERS {
            // Who asked may be gone.
            let _ = errand.done.send(Err(Refusal::NoOwners));
            return;
        }
        desk.door.errands.borrow_mut().push_back(errand);
    }

    /// Goes on with the worker's errand, if it has one. `true` when one has ended.
    #[inline]
    pub(super) fn run_errands(&self, desk: &PageDesk) -> bool {
        D::OWNERS && !desk.door.errands.borrow().is_empty() && self.run_errand(desk)
    }

    #[cold]
    fn run_errand(&self, desk: &PageDesk) -> bool {
        if self.come_apart(desk) {
            return true;
        }
        let (door, now) = (&desk.door, world::now_ns());
        let gives = door.errands.borrow().front().is_some_and(|errand| errand.gives);
        // Rows move only while nobody may undo what was done to them.
        let (drains, doubts) = match self.property.rows() {
            true => (true, self.property.in_doubt()),
            false => (gives, false),
        };
        let is_idle = door.visits.get() == 0 && self.locking(desk.worker).parts.load(Ordering::Relaxed) == 0;
        let shut_ns = door.shut_ns.get();
        if drains && (doubts || !is_idle) {
            match shut_ns {
                None => self.shut(desk, now),
                Some(since) if now - since >= DRAIN_NS => {
                    self.end_errand(desk, Err(Refusal::Busy { worker: desk.worker }));
                    return true;
                }
                Some(_) => {}
            }
            return false;
        }
        let errand = door.errands.borrow_mut().pop_front();
        let Some(errand) = errand else { return false };
        let outcome = self.carry_out(desk, &errand).map(|carried| Carried {
            drain_ns: shut_ns.map_or(0, |since| now - since),
            shut_ns: shut_ns.map_or(0, |since| world::now_ns() - since),
            held: door.came.get(),
            ..carried
        });
        self.answer_errand(desk, &errand, outcome);
        true
    }

    fn shut(&self, desk: &PageDesk, now_ns: u64) {
        desk.door.shut_ns.set(Some(now_ns));
        desk.door.came.set(0);
        self.locking(desk.worker).shut.store(true, Ordering::Relaxed);
    }

    fn end_errand(&self, desk: &PageDesk, outcome: Result<Carried, Refusal>) {
        let errand = desk.door.errands.borrow_mut().pop_front();
        if let Some(errand) = errand {
            self.answer_errand(desk, &errand, outcome);
        }
    }

    /// Opens the door, and says how it went.
    fn answer_errand(&self, desk: &PageDesk, errand: &Errand, outcome: Result<Carried, Refusal>) {
        desk.door.shut_ns.set(None);
        desk.door.apart.take();
        self.locking(desk.worker).shut.store(false, Ordering::Relaxed);
        desk.door.waiting.borrow_mut().drain(..).for_each(Waker::wake);
        // Who asked may be gone.
        let _ = errand.done.send(outcome);
    }

    fn carry_out(&self, desk: &PageDesk, errand: &Errand) -> Result<Carried, Refusal> {
        let Some(owners) = &self.owners else { return Err(Refusal::NoOwners) };
        let before = desk.door.apart.borrow().as_ref().map(Apart::done);
        let mut carried = Carried { rows: before.unwrap_or_default(), ..Carried::default() };
        if self.property.rows() {
            self.settle_all(desk);
        }
        for (&change, made_for) in errand.changes.iter().zip(errand.made_for..) {
            let now = owners.ranges();
            let next = now.apply(made_for, change)?;
            let gifts = owners::gifts(&now, &next);
            let merges = matches!(change, Change::Merge { .. });
            let gives = gifts.iter().any(|gift| gift.from != desk.worker) || !errand.gives || merges;
            if gives && !gifts.is_empty() {
                return Err(Refusal::NotOwner(desk.worker));
            }
            if self.property.owned() {
                self.own_missing(desk, &now);
                self.reshape(desk, owners, (change, &next), &gifts, &mut carried).map_err(refused)?;
            }
            owners.publish(next, &gifts)?;
            carried.changes += 1;
        }
        Ok(carried)
    }

    /// Cuts and joins the trees as `next` says, and gives up the pages of what changes hands. After an error some trees may have a border more
    /// or fewer between two partitions of this worker's, which is what every change begins by mending.
    fn reshape(
        &self,
        desk: &PageDesk,
        owners: &Owners,
        (change, next): (Change, &Ranges),
        gifts: &[Gift],
        carried: &mut Carried,
    ) -> Result<(), Stop> {
        for table in self.divided_tables() {
            let wanted = owners.borders_in(table, next);
            let border = |site: u64| owners.border(table, site);
            for key in cuts(owners, table, change, gifts, next) {
                self.cut(desk, table, key, carried)?;
            }
            if let Change::Merge { at, .. } = change
                && let Some(key) = border(at)
                && !wanted.iter().any(|(start, _)| *start == key)
                && self.store.partitions(table).contains(&key)
            {
                carried.moved_by(self.store.merge_partition::<D::Latch>(table, &key)?);
                desk.door.owned.borrow_mut().remove(&(table, key));
            }
            for Gift { sites, .. } in gifts {
                self.give_pages(
                    desk,
                    table,
                    border(sites.start),
                    border(sites.end).filter(|_| sites.end < next.domain()),
                )?;
            }
        }
        Ok(())
    }

    /// Makes a partition of a tree begin there.
    fn cut(&self, desk: &PageDesk, table: TableId, key: Key, carried: &mut Carried) -> Result<(), Stop> {
        let starts = self.store.partitions(table);
        if starts.contains(&key) {
            return Ok(());
        }
        let before = starts.into_iter().rfind(|start| *start < key).unwrap_or_default();
        self.divide_at_once(table, &key, carried)?;
        carried.moved_by(self.store.split_partition::<D::Latch>(table, &key)?);
        // What is split off an owned partition is owned.
        let mut owned = desk.door.owned.borrow_mut();
        if owned.contains(&(table, before)) {
            owned.insert((table, key));
        }
        Ok(())
    }

    /// The pages of all partitions that begin in a range become nobody's.
    fn give_pages(
        &self,
        desk: &PageDesk,
        table: TableId,
        from: Option<Key>,
        to: Option<Key>,
    ) -> Result<(), Stop> {
        let from = from.unwrap_or_default();
        self.forget_leaves(desk, table, &from, to.as_ref());
        for start in self.store.partitions(table) {
            if start < from || to.as_ref().is_some_and(|to| start >= *to) {
                continue;
            }
            if desk.door.owned.borrow_mut().remove(&(table, start.clone())) {
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
